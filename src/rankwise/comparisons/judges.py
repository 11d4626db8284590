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

CARELESS_RATE = 0.05
"""Share of judges that answer at random, or the wrong way round, before anything is known."""

MAX_HALVINGS = 8
"""How often the step of a judge is halved."""

N_GRID = 9
"""Reliabilities over which a judge's answers are averaged."""


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
    log_likelihood: Callable[[FloatArray], FloatArray], values: FloatArray, variance: FloatArray
) -> FloatArray:
    """Return the probability that each judge's answers do not follow the scores.

    Reliabilities are averaged over the spread of all other judges; the other two hypotheses are
    answers at random and reversed answers.

    Parameters
    ----------
    log_likelihood : callable
        Log-likelihood of the answers of every judge, given a reliability for each.
    values, variance : (n_judges,)
        The logarithms of the reliabilities, and their variances.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(N_GRID)
    share = np.log(weights / weights.sum())[:, None]
    squares = values**2 + variance
    total = squares.sum() - squares + SPREAD_WEIGHT * USUAL_SPREAD**2
    spread = np.sqrt(total / (len(values) - 1.0 + SPREAD_WEIGHT))
    grid = np.exp(np.outer(nodes, spread))
    usual = np.logaddexp.reduce(share + [log_likelihood(a) for a in grid])
    reverse = np.logaddexp.reduce(share + [log_likelihood(-a) for a in grid])
    wrong = np.logaddexp(log_likelihood(np.zeros_like(values)), reverse) + np.log(
        0.5 * CARELESS_RATE
    )
    right = usual + np.log1p(-CARELESS_RATE)
    return np.exp(wrong - np.logaddexp(wrong, right))


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
