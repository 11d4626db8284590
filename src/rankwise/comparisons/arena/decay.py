"""How fast comparisons grow old: the half-life that predicts later ones best."""

from collections.abc import Callable

import numpy as np

from rankwise.comparisons.leaderboard import Leaderboard
from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.core.errors import InvalidInputError

N_PARTS = 5
"""Parts of the later half of the comparisons, each predicted from all that came before."""

SHARES = np.append(np.exp2(-np.arange(6.0, -2.0, -1.0)), np.inf)
"""Half-lives that are tried, as shares of the time that the comparisons span."""

LEAST_PROBABILITY = 1e-12


def learned_half_life(
    table: ComparisonTable, rate: Callable[[ComparisonTable], Leaderboard]
) -> float:
    """Return the half-life, in days, with the largest likelihood of later comparisons.

    Parameters
    ----------
    table : ComparisonTable
        With dates.
    rate : callable
        Makes the leaderboard of comparisons whose weights are faded.
    """
    if table.date is None or np.ptp(table.date) == 0.0:
        raise InvalidInputError(
            "half_life='auto' must have comparisons of several dates: these have "
            f"{'none' if table.date is None else 'one'}. Name the column of the dates, or leave "
            "`half_life` out."
        )
    half_lives = SHARES * np.ptp(table.date)
    losses = np.zeros(len(half_lives))
    for before, after in _forward_parts(table.date):
        seen, later = table.take(before), table.take(after)
        losses += [_log_loss(rate(seen.decayed(days)), later) for days in half_lives]
    return float(half_lives[np.argmin(losses)])


def _forward_parts(date: FloatArray) -> list[tuple[IntArray, IntArray]]:
    """Return the rows before each part of the later half, and those of the part."""
    # parts begin at the dates that split the rows of the later half evenly
    ends = np.quantile(date, np.linspace(0.5, 1.0, N_PARTS + 1), method="higher")
    parts = [
        (np.flatnonzero(date < low), np.flatnonzero((date >= low) & (date < high)))
        for low, high in zip(ends[:-1], [*ends[1:-1], np.inf], strict=True)
    ]
    return [(before, after) for before, after in parts if len(before) and len(after)]


def _log_loss(board: Leaderboard, later: ComparisonTable) -> float:
    """Return the log-loss of comparisons, those of items that never met before left out."""
    place = np.empty(len(board.names), dtype=np.intp)
    order = np.argsort(board.names, kind="stable")
    place[np.argsort(later.names, kind="stable")] = order
    i, j = place[later.first], place[later.second]
    met = np.ones(len(i), dtype=bool) if board.group is None else board.group[i] == board.group[j]
    rows = np.flatnonzero(met)
    covariates = dict(zip(later.covariate_names, later.covariates[rows].T, strict=True))
    known = {one.name for one in board.effects}
    probability = board.predict_pair(
        board.names[i[rows]].tolist(),
        board.names[j[rows]].tolist(),
        {name: values for name, values in covariates.items() if name in known},
    )
    said = probability[np.arange(len(rows)), 1 - later.outcome[rows]]
    return -float(later.weight[rows] @ np.log(np.maximum(said, LEAST_PROBABILITY)))
