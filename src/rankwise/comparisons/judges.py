"""What is learned about judges: how reliable each is, how often each ties, who is suspect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.display import html_table, text_table
from rankwise.core.storable import storable
from rankwise.solve.newton import halved

USUAL_SPREAD, SPREAD_WEIGHT = 0.5, 2.0
"""Usual deviation between judges of the logarithm of a habit, and how many judges this counts
like."""

CARELESS_RATE, RATE_WEIGHT = 0.05, 2.0
"""Usual share of judges that answer at random, or the wrong way round,
and how many judges this counts like."""

REVERSED_SHARE = 0.2
"""Share of the careless judges that answer the wrong way round, and not at random."""

CARELESS_ROUNDS, CARELESS_TOL = 1000, 1e-5
"""Rounds of expectation maximisation at most, and the change of a probability that ends them."""

MAX_HALVINGS = 8
"""How often the step of a judge is halved."""

N_GRID, GRID_END = 41, 3.0
"""Reliabilities over which a judge's answers are averaged: their number, the largest logarithm."""


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

    Two hypotheses stand against answers that follow the scores: answers at random, and reversed
    answers. The share of careless judges, and the distribution of the reliabilities of the others,
    are learned by expectation maximisation: were careless judges counted among the others, these
    would seem to differ so much that somebody who answers at random is nothing special.

    Parameters
    ----------
    log_likelihood : callable
        Log-likelihood of the answers of every judge, given a reliability for each.
    n_judges : int
    """
    # likelihoods of all judges on a grid of logarithms of the reliability
    grid, ones = np.linspace(-GRID_END, GRID_END, N_GRID), np.ones(n_judges)
    follows = np.array([log_likelihood(np.exp(u) * ones) for u in grid])
    reverses = np.array([log_likelihood(-np.exp(u) * ones) for u in grid])
    at_random = log_likelihood(0.0 * ones)
    careless, rate, mean, spread = np.zeros(n_judges), CARELESS_RATE, 0.0, USUAL_SPREAD
    for _ in range(CARELESS_ROUNDS):
        # expectation: which hypothesis holds for a judge, and with which reliability
        prior = -0.5 * ((grid - mean) / spread) ** 2
        prior = (prior - np.logaddexp.reduce(prior))[:, None]
        usual, reverse = (np.logaddexp.reduce(prior + part) for part in (follows, reverses))
        wrong = np.logaddexp(
            at_random + np.log1p(-REVERSED_SHARE), reverse + np.log(REVERSED_SHARE)
        ) + np.log(rate)
        before, careless = careless, np.exp(wrong - np.logaddexp(wrong, usual + np.log1p(-rate)))
        if np.abs(careless - before).max() < CARELESS_TOL:
            break
        # maximisation: share of careless judges, reliabilities of the others, both shrunk
        weight = (1.0 - careless) * np.exp(prior + follows - usual)
        n_careful = weight.sum()
        n_careless = n_judges - n_careful + RATE_WEIGHT * CARELESS_RATE
        rate = n_careless / (n_judges + RATE_WEIGHT)
        mean = float(grid @ weight.sum(axis=1)) / (n_careful + SPREAD_WEIGHT)
        squares = (grid - mean) ** 2 @ weight.sum(axis=1) + SPREAD_WEIGHT * USUAL_SPREAD**2
        spread = float(np.sqrt(squares / (n_careful + SPREAD_WEIGHT)))
    return careless


@storable
@final
@dataclass(frozen=True, eq=False)
class JudgeReport:
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

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary for each judge, most suspect first."""
        order = np.argsort(-self.careless, kind="stable")
        return [
            {
                "judge": _plain(self.names[at]),
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

    def _cells(self) -> list[list[str]]:
        table = [["judge", "answers", "ties", "reliability", "90% interval", "agrees", "careless"]]
        for row in self.rows():
            ends = f"{row['low']:.2f} to {row['high']:.2f}"
            shares = [f"{row[name]:.0%}" for name in ("agreement", "careless")]
            counts = [str(row["judge"]), f"{row['answers']:g}", f"{row['tie_rate']:.0%}"]
            table.append([*counts, f"{row['reliability']:.2f}", ends, *shares])
        return table

    def __str__(self) -> str:
        return text_table(self._cells())

    def __repr__(self) -> str:
        return f"JudgeReport({len(self.names)} judges)"

    def _repr_html_(self) -> str:
        return html_table(self._cells(), repr(self))


def _plain(name: Any) -> Any:
    return name.item() if isinstance(name, np.generic) else name
