"""What is learned about judges: how reliable each is, how often each ties, who is suspect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.display import Result, columns_of, label_bars, plain, text_table
from rankwise.core.storable import storable
from rankwise.solve.iteration import StoppingRule
from rankwise.solve.newton import halved

USUAL_SPREAD, SPREAD_WEIGHT = 0.5, 2.0
"""Usual deviation between judges of the logarithm of a habit, and how many judges this counts
like."""

CARELESS_RATE = 0.05
"""Share of judges that answer at random, or the wrong way round, before anything is known."""

MAX_HALVINGS = 8
"""How often the step of a judge is halved."""

RATE_WEIGHT = 4.0
"""How many judges the usual share of careless ones counts like."""

CARELESS_RULE = StoppingRule(tol=1e-4, max_iter=50)
"""The tolerance is a bound on the change of a probability."""

LOG_RELIABILITIES = 0.4 * np.arange(-7.0, 8.0)
"""Logarithms of the reliabilities over which a judge's answers are averaged."""

DEVIATIONS = 1.6448536
"""Standard deviations on either side of a 90 % interval."""


def spread_between(values: FloatArray, variance: FloatArray) -> float:
    """Return the standard deviation of habits between judges, given their variances, shrunk."""
    total = float(np.sum(values**2 + variance)) + SPREAD_WEIGHT * USUAL_SPREAD**2
    return float(np.sqrt(total / (len(values) + SPREAD_WEIGHT)))


def improved_habits(
    habits: FloatArray,
    gradient: FloatArray,
    curvature: FloatArray,
    log_density: Callable[[FloatArray], FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Take a Newton step in both habits of every judge, halved until answers are more probable.

    Parameters
    ----------
    habits : (2, n_judges)
        The logarithms of reliability and width.
    gradient : (2, n_judges)
        Derivatives of the log density of every judge.
    curvature : (3, n_judges)
        Minus its second derivatives, positive definite: in the first, in both, in the second.
    log_density : callable
        The log density of every judge, given habits.

    Returns
    -------
    habits, variance : (2, n_judges)
        The new logarithms, and the variances of the old ones.
    """
    aa, ab, bb = curvature
    determinant = aa * bb - ab**2
    variance = np.stack([bb, aa]) / determinant
    step = np.clip(variance * gradient - ab / determinant * gradient[::-1], -1.0, 1.0)
    before = log_density(habits)
    found = halved(
        lambda share: habits + share * step,
        log_density,
        lambda _: before,
        np.ones(habits.shape[1]),
        MAX_HALVINGS,
    )
    return found, variance


def careless_probability(
    log_likelihood: Callable[[FloatArray], FloatArray], n_judges: int
) -> FloatArray:
    """Return the probability that each judge's answers do not follow the scores.

    Careful judges have reliabilities whose logarithms are Gaussian; the other two hypotheses are
    answers at random and reversed answers. Mean and variance of the Gaussian and the shares of
    both, which are at least the usual ones, are learned from all other judges, by
    expectation-maximisation.

    Parameters
    ----------
    log_likelihood : callable
        Log-likelihood of the answers of every judge, given a reliability for each.
    n_judges : int
    """
    # likelihood of careful, reversed and random answers at every reliability of the grid
    grid, everyone = LOG_RELIABILITIES[:, None], np.ones(n_judges)
    careful = np.array([log_likelihood(np.exp(x) * everyone) for x in LOG_RELIABILITIES])
    reverse = np.array([log_likelihood(-np.exp(x) * everyone) for x in LOG_RELIABILITIES])
    random = log_likelihood(0.0 * everyone)
    # start: usual shares and spread around the median of the most probable reliabilities
    mean = np.median(LOG_RELIABILITIES[careful.argmax(axis=0)]) * everyone
    spread, rate = USUAL_SPREAD * everyone, np.full((2, n_judges), 0.5 * CARELESS_RATE)
    wrong = np.zeros_like(rate)
    for _ in range(CARELESS_RULE.max_iter):
        # expectation: probability of each hypothesis, moments of a careful judge's reliability
        prior = -0.5 * ((grid - mean) / spread) ** 2
        prior -= np.logaddexp.reduce(prior)
        evidence = np.logaddexp.reduce(prior + careful)
        hypotheses = np.log(np.vstack([1.0 - rate.sum(axis=0), rate]))
        hypotheses += [evidence, random, np.logaddexp.reduce(prior + reverse)]
        before, wrong = wrong, np.exp(hypotheses - np.logaddexp.reduce(hypotheses))[1:]
        if np.abs(wrong - before).max() < CARELESS_RULE.tol:
            break
        moments = [(np.exp(prior + careful - evidence) * grid**m).sum(axis=0) for m in range(3)]
        # maximisation: for each judge, the parameters of all others, shrunk
        n_careful, first, second = _of_others((1.0 - wrong.sum(axis=0)) * moments)
        mean = first / np.maximum(n_careful, 1e-9)
        total = np.maximum(second - mean * first, 0.0) + SPREAD_WEIGHT * USUAL_SPREAD**2
        spread = np.sqrt(total / (n_careful + SPREAD_WEIGHT))
        n_wrong = _of_others(wrong) + RATE_WEIGHT * 0.5 * CARELESS_RATE
        rate = np.maximum(n_wrong / (n_judges - 1.0 + RATE_WEIGHT), 0.5 * CARELESS_RATE)
    return wrong.sum(axis=0)


def _of_others(values: FloatArray) -> FloatArray:
    """Return, for each judge, the sum of the values of all others, along the last axis."""
    return values.sum(axis=-1, keepdims=True) - values


@storable
@final
@dataclass(frozen=True, eq=False)
class JudgeReport(Result):
    """Hold what was learned about each judge.

    Parameters
    ----------
    names : (n_judges,)
    n_answers : (n_judges,)
        Number of answers, by weight.
    tie_rate : (n_judges,)
        Share of ties among them.
    reliability, reliability_low, reliability_high : (n_judges,)
        How closely a judge follows the scores, relative to the others, with a 90 % interval.
    width : (n_judges,)
        Lead within which a judge ties; 0 if there are no ties.
    agreement : (n_judges,)
        Share of the decided answers that agree with the order of the scores.
    careless : (n_judges,)
        Probability that the judge answers at random or the wrong way round.

    Examples
    --------
    >>> from rankwise import leaderboard
    >>> votes = {"winner": list("aaabbc") * 3, "loser": list("bbccca") * 3,
    ...          "judge": ["x", "y", "z"] * 6}
    >>> report = leaderboard(votes, judges=True).judges
    >>> report.names.tolist(), report.n_answers.tolist()
    (['x', 'y', 'z'], [6.0, 6.0, 6.0])
    """

    names: NDArray[Any]
    n_answers: FloatArray
    tie_rate: FloatArray
    reliability: FloatArray
    reliability_low: FloatArray
    reliability_high: FloatArray
    width: FloatArray
    agreement: FloatArray
    careless: FloatArray

    @classmethod
    def of(
        cls,
        names: NDArray[Any],
        n_tied: FloatArray,
        n_decided: FloatArray,
        n_right: FloatArray,
        log_reliability: FloatArray,
        std: FloatArray,
        width: FloatArray,
        careless: FloatArray,
    ) -> Self:
        """Count shares, and give the reliabilities with their intervals.

        Parameters
        ----------
        names, width, careless : (n_judges,)
        n_tied, n_decided, n_right : (n_judges,)
            Numbers of ties, of answers with a winner, and of those that agree with the scores.
        log_reliability, std : (n_judges,)
            Logarithms of the reliabilities, and their standard deviations.
        """
        n_answers, reach = n_tied + n_decided, DEVIATIONS * std
        return cls(
            names,
            n_answers,
            n_tied / np.maximum(n_answers, 1e-300),
            np.exp(log_reliability),
            np.exp(log_reliability - reach),
            np.exp(log_reliability + reach),
            width,
            n_right / np.maximum(n_decided, 1e-300),
            careless,
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary for each judge, most suspect first."""
        order = np.argsort(-self.careless, kind="stable")
        return [
            {
                "judge": plain(self.names[at]),
                "answers": float(self.n_answers[at]),
                "tie_rate": float(self.tie_rate[at]),
                "reliability": float(self.reliability[at]),
                "low": float(self.reliability_low[at]),
                "high": float(self.reliability_high[at]),
                "agreement": float(self.agreement[at]),
                "careless": float(self.careless[at]),
            }
            for at in order.tolist()
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return a row of plain values for each judge, most suspect first."""
        return {"judges": self.rows()}

    def _columns(self) -> dict[str, Any]:
        return columns_of(self.rows())

    def cells(self) -> list[list[str]]:
        """Return a header and a row of text for each judge, most suspect first."""
        table = [["judge", "answers", "ties", "reliability", "90% interval", "agrees", "careless"]]
        for row in self.rows():
            ends = f"{row['low']:.2f} to {row['high']:.2f}"
            shares = [f"{row[name]:.0%}" for name in ("agreement", "careless")]
            counts = [str(row["judge"]), f"{row['answers']:g}", f"{row['tie_rate']:.0%}"]
            table.append([*counts, f"{row['reliability']:.2f}", ends, *shares])
        return table

    def __str__(self) -> str:
        return text_table(self.cells())

    def __repr__(self) -> str:
        return f"JudgeReport({len(self.names)} judges)"

    def _cells(self) -> list[list[str]]:
        return self.cells()

    def _caption(self) -> str:
        return repr(self)

    def _draw(self, ax: Any) -> None:
        """Draw how closely each judge follows the scores, the most suspect on top."""
        value, low, high = (np.array(self._columns()[k]) for k in ("reliability", "low", "high"))
        at = np.arange(len(value))
        ax.errorbar(value, at, xerr=[value - low, high - value], fmt="o", capsize=3)
        label_bars(ax, [str(row["judge"]) for row in self.rows()])
        ax.axvline(1.0, linestyle="--", color="grey")
        ax.set_xlabel("reliability, 90% interval")
