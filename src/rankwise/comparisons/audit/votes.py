"""Probes that need nothing but the votes: neighbours, ties, budgets, circles, groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr

from rankwise.comparisons.audit.evidence import Evidence
from rankwise.comparisons.audit.finding import FLAG_LEVEL, Finding, percent, reach
from rankwise.comparisons.leaderboard import Leaderboard
from rankwise.core.arrays import FloatArray, IntArray, sum_by
from rankwise.core.comparisons.comparison_table import ComparisonTable

N_DRAWS = 4000
"""Draws from which simultaneous intervals and the spread of a statistic come."""

SHORT_BUDGET = 0.1
"""An item is short of answers with less than this share of the median."""

MOST_ROWS = 10
"""Details shown of what there may be many of."""


def neighbours(seen: Evidence) -> Finding:
    """Tell which neighbours are separated: one by one, and all together."""
    board = seen.board
    above = np.flatnonzero(_same_group(board))
    lead = board.score[above] - board.score[above + 1]
    std = np.sqrt(_lead_variance(board, above))
    # one by one: probability of the order; all together: the largest deviation of any lead
    order = ndtr(lead / np.maximum(std, 1e-12))
    alone = order > 0.5 + 0.5 * seen.level
    together = lead > _simultaneous_reach(seen, above) * std
    # a lead known k times as well needs k^2 times the answers
    z = reach(seen.level)
    answers = 0.5 * (board.answers[above] + board.answers[above + 1])
    needed = np.maximum((z * std / np.maximum(lead, 1e-12)) ** 2 - 1.0, 0.0) * answers
    rows = tuple(
        {
            "above": str(board.names[at]),
            "below": str(board.names[at + 1]),
            "lead": float(board.unit * lead[k]),
            "low": float(board.unit * (lead[k] - z * std[k])),
            "high": float(board.unit * (lead[k] + z * std[k])),
            "probability": float(order[k]),
            "separated": bool(alone[k]),
            "separated_together": bool(together[k]),
            "more_answers_each": float(np.ceil(needed[k])) if not alone[k] else 0.0,
        }
        for k, at in enumerate(above)
    )
    n, n_alone, n_together = len(above), int(alone.sum()), int(together.sum())
    said = (
        f"{n_alone} of {n} neighbours are separated one by one, {n_together} all together "
        f"({percent(seen.level)} level)"
    )
    if rows:
        said += (
            f"; {rows[0]['above']} is above {rows[0]['below']} with probability "
            f"{rows[0]['probability']:.2f}"
        )
    return Finding("neighbours", said, n_alone / n if n else np.nan, rows=rows)


def _same_group(board: Leaderboard) -> IntArray:
    if board.group is None:
        return np.ones(board.n_items - 1, dtype=np.intp)
    return (board.group[1:] == board.group[:-1]).astype(np.intp)


def _lead_variance(board: Leaderboard, above: IntArray) -> FloatArray:
    variance = board.std[above] ** 2 + board.std[above + 1] ** 2
    if board.covariance is not None:
        variance = variance - 2.0 * board.covariance[above, above + 1]
    return np.maximum(variance, 0.0)


def _simultaneous_reach(seen: Evidence, above: IntArray) -> float:
    """Return the quantile of the largest standardised deviation of all leads of neighbours."""
    board = seen.board
    if len(above) == 0:
        return 0.0
    if board.covariance is None:  # neighbours of many items: Bonferroni
        return reach(seen.level, len(above))
    values, vectors = np.linalg.eigh(board.covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    leads = (root[above] - root[above + 1]) @ seen.rng.standard_normal((len(values), N_DRAWS))
    std = np.maximum(np.sqrt(_lead_variance(board, above)), 1e-12)
    return float(np.quantile(np.abs(leads / std[:, None]).max(axis=0), seen.level))


def ties(seen: Evidence) -> Finding | None:
    """Compare the order with ties modelled, dropped, and counted as half a win each."""
    table = seen.table
    if not table.tied.any() or not len(table.decided):
        return None
    boards = {"dropped": table.take(table.decided), "halved": _halved(table)}
    rows = tuple(
        {"ties": name, **compared(seen.board, seen.rate(other))} for name, other in boards.items()
    )
    worst = min(rows, key=lambda row: row["tau"])
    changes = [row for row in rows if row["reversed_separated"]]
    share = float(table.weight @ table.tied / table.weight.sum())
    said = (
        f"{percent(share)} of the answers are ties; dropped or halved, the order agrees with the "
        f"modelled one to tau {worst['tau']:.2f} or better"
    )
    if changes:
        said += f"; {' and '.join(row['ties'] for row in changes)}, separated pairs change places"
    return Finding(
        "ties",
        said,
        worst["tau"],
        bar="pairs that are separated change places",
        is_flagged=bool(changes),
        rows=rows,
    )


def _halved(table: ComparisonTable) -> ComparisonTable:
    """Return each tie as half a win for both."""
    rows = np.concatenate([np.arange(table.n_rows), np.flatnonzero(table.tied)])
    twice = table.take(rows)
    outcome, weight = twice.outcome.copy(), twice.weight.copy()
    is_tie = twice.tied
    outcome[is_tie] = 1
    outcome[table.n_rows :] = -1
    weight[is_tie] *= 0.5
    return type(table)(**{**vars(twice), "outcome": outcome, "weight": weight})


def compared(board: Leaderboard, other: Leaderboard) -> dict[str, Any]:
    """Return how far two orders of the same items agree, and what changes that was certain."""
    at = {name: place for place, name in enumerate(board.names.tolist())}
    place = np.array([at[name] for name in other.names.tolist() if name in at])
    if len(place) < 2:
        return {"tau": 1.0, "same_leader": True, "reversed_separated": 0}
    i, j = np.triu_indices(len(place), 1)
    agrees = place[i] < place[j]
    low, high = np.minimum(place[i], place[j]), np.maximum(place[i], place[j])
    gap, z = board.score[low] - board.score[high], reach(0.95)
    variance = board.std[low] ** 2 + board.std[high] ** 2
    if board.covariance is not None:
        variance = np.maximum(variance - 2.0 * board.covariance[low, high], 0.0)
    is_sure = gap > z * np.sqrt(variance)
    return {
        "tau": float(2.0 * agrees.mean() - 1.0),
        "same_leader": bool(other.names[0] == board.names[0]),
        "reversed_separated": int(np.sum(is_sure & ~agrees)),
    }


def budgets(seen: Evidence) -> Finding:
    """Look for items with far fewer answers than the others."""
    answers, names = seen.board.answers, seen.board.names
    middle = float(np.median(answers))
    short = np.flatnonzero(answers < SHORT_BUDGET * middle)
    said = f"items have {answers.min():g} to {answers.max():g} answers, {middle:g} in the middle"
    if answers.min() == answers.max():
        said = f"every item has {middle:g} answers"
    if len(short):
        said += f"; {len(short)} have less than a tenth of that: {_listed(names[short])}"
    return Finding(
        "uneven budgets",
        said,
        float(answers.min() / middle) if middle else np.nan,
        bar="some item has less than a tenth of the median number of answers",
        is_flagged=bool(len(short)),
        rows=tuple(
            {"item": str(names[k]), "answers": float(answers[k])} for k in short[:MOST_ROWS]
        ),
    )


def _listed(names: Any) -> str:
    shown = ", ".join(map(str, names[:3].tolist()))
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def circles(seen: Evidence) -> Finding:
    """Compare how pairs ended with what the scores expect, which excludes circles.

    The sum over pairs of squared residuals over their variances exceeds its expectation if pairs
    have leads of their own. Fitted scores take away one degree of freedom each.
    """
    table = seen.table
    cell, n_cells = seen.cells()
    sign = 1 - 2 * seen.is_swapped
    residual = sum_by(cell, sign * seen.residual, n_cells)
    noise = sum_by(cell, seen.variance, n_cells)
    some = noise > 1.0
    n_pairs = int(some.sum())
    n_free = n_pairs - table.n_items
    if n_free < 1:
        return Finding("circles", "too few pairs met often enough to tell")
    square = residual[some] ** 2 / noise[some]
    # mean n_free and variance 2 n_free of a sum of squares of Gaussians
    excess = float((square.sum() - n_free) / np.sqrt(2.0 * n_free))
    # leads of pairs around those of scores: what exceeds the noise, over the squared sensitivity
    sensitivity = sum_by(cell, seen.sensitivity, n_cells)[some]
    beyond = max(square.sum() / n_free - 1.0, 0.0)
    spread = float(np.sqrt(beyond * np.mean(noise[some] / sensitivity**2)))
    z = reach(FLAG_LEVEL)
    first = np.zeros(n_cells, dtype=np.intp)
    first[cell] = np.arange(table.n_rows)
    worst = np.flatnonzero(some)[np.argsort(-square)[:MOST_ROWS]]
    low, high = (
        pick(table.first[first[worst]], table.second[first[worst]])
        for pick in (np.minimum, np.maximum)
    )
    rows = tuple(
        {
            "first": str(table.names[low[k]]),
            "second": str(table.names[high[k]]),
            "deviations": float(residual[at] / np.sqrt(noise[at])),
            "answers": float(sum_by(cell, table.weight, n_cells)[at]),
        }
        for k, at in enumerate(worst)
    )
    said = (
        f"{n_pairs} pairs differ from what scores expect by {square.sum() / n_free:.2f} times "
        "their noise"
    )
    if excess > z:
        said += f"; leads of pairs vary by {seen.board.unit * spread:.2g} around those of scores"
    return Finding(
        "circles",
        said,
        float(square.sum() / n_free),
        1.0 - z * np.sqrt(2.0 / n_free),
        1.0 + z * np.sqrt(2.0 / n_free),
        f"more than noise explains ({percent(FLAG_LEVEL)})",
        excess > z,
        rows,
    )


def groups(seen: Evidence) -> Finding:
    """Tell whether all items met."""
    board = seen.board
    if board.group is None:
        return Finding(
            "groups that never met",
            f"all {board.n_items} items met, if only through others",
            1.0,
            bar="some items never met, not even through others",
        )
    sizes = np.bincount(board.group)
    return Finding(
        "groups that never met",
        f"{len(sizes)} groups of items never met, of {_listed(sizes)} items",
        float(len(sizes)),
        bar="some items never met, not even through others",
        is_flagged=True,
    )
