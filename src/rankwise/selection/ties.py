"""When held-out scores tie: one rule for everything that is held out."""

import numpy as np

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.namespaces import Array, namespace_of
from rankwise.core.threads import in_threads

TIE = 1e-12
"""Differences up to this share of the largest are rounding errors, whatever their estimate says."""

LOOSEST = 1e-6
"""Larger differences are no ties, however large the estimated rounding error."""

ROUNDED = 2.0**-46
"""Share of a score, 64 units in its last place, that a product of its features may be off by."""

CHUNK = 1 << 15
"""Scores that are sorted together, so that they stay in cache."""


def tie_share(error: FloatArray | float) -> FloatArray:
    """Return the share of the scale up to which differences are ties, from their rounding error.

    It is ten times the estimated error, which is no bound, but at least 1e-12 and at most 1e-6.
    """
    known = np.nan_to_num(error, nan=LOOSEST, posinf=LOOSEST)
    share: FloatArray = np.clip(10.0 * known, TIE, LOOSEST)
    return share


def zero_ties(
    leads: FloatArray, scale: FloatArray | float, error: FloatArray | float
) -> FloatArray:
    """Return leads of pairs that are held out alone, with 0 for ties.

    Parameters
    ----------
    leads : array
        Differences of two scores.
    scale : array
        The largest number that was subtracted to form them.
    error : array
        The estimated relative rounding error.
    """
    return np.where(np.abs(leads) <= tie_share(error) * scale, 0.0, leads)


def credit_of(difference: Array, size: Array, gap: Array, error: float = 0.0) -> Array:
    """Return 1 for pairs in the right order, one half for ties, 0 for pairs of equal scores.

    Parameters
    ----------
    difference, size
        Differences of two scores by models that have not seen them, as in `zero_ties`, of any
        namespace. A singular pair, NaN, counts as a tie.
    gap : array
        Differences of the true scores.
    error : float
        As in `zero_ties`.
    """
    xp = namespace_of(difference)
    is_decided = xp.abs(difference) > float(tie_share(error)) * size
    lead = xp.where(is_decided, difference, xp.zeros_like(difference))
    sign = xp.sign(gap)
    return (xp.abs(sign) + xp.sign(lead) * sign) / 2.0


def equal_ties(scores: FloatArray, group: IntArray, error: FloatArray) -> FloatArray:
    """Return scores in which those that tie are equal.

    Items with equal features have equal scores, but rounding makes them differ, and by the order of
    rows: a measure would then count them as right or wrong where a tie counts one half. So two
    neighbours among the sorted scores of a group tie if they differ by at most the larger of

    * the share 1e-12 of the distance between the group's largest and smallest score, or ten times
      the estimated rounding error of the scores in place of 1e-12 if that is larger, but never more
      than the share 1e-6;
    * 64 units in the last place of the group's largest score.

    Ties are passed on from neighbour to neighbour: all scores of a run of such neighbours become
    the smallest of them. A run may thus be wider than what counts as a tie, but not wider than that
    times the number of its items. What does not tie keeps its value and its order.

    Parameters
    ----------
    scores : (n_values, n_items, n_outputs)
        The scores; not changed.
    group : (n_items,)
        Numbers of the items that are compared with each other, from 0; -1 for items without a
        score.
    error : (n_values,)
        The estimated relative rounding error of the scores.

    Returns
    -------
    scores : (n_values, n_items, n_outputs)
        The same array if nothing changed.
    """
    n_values, n_items, n_outputs = scores.shape
    rows = scores.transpose(0, 2, 1).reshape(n_values * n_outputs, n_items)
    share = np.repeat(tie_share(error), n_outputs)[:, None]
    blocks = _blocks(group, CHUNK // max(1, len(rows)))
    changes: list[tuple[IntArray, IntArray, FloatArray]] = []

    def look(number: int) -> None:
        places = blocks[number]
        # neighbours in sorted order whose gap is below the slack of their group
        sorted_scores = np.sort(np.take(rows, places, axis=1), axis=-1)
        first, last = sorted_scores[..., 0], sorted_scores[..., -1]
        size = np.maximum(np.abs(first), np.abs(last))
        slack = np.maximum(share * (last - first), ROUNDED * size)
        gaps = np.diff(sorted_scores, axis=-1)
        tied = gaps <= slack[..., None]
        # only groups in which a score changes are kept
        row, at = np.nonzero((tied & (gaps > 0)).any(axis=-1))
        if len(row):
            changes.append(
                (row, places[at], _joined(rows[row[:, None], places[at]], tied[row, at]))
            )

    if blocks:
        in_threads(look, len(blocks))
    if not changes:
        return scores
    found = rows.copy() if np.shares_memory(rows, scores) else rows
    for row, places, values in changes:
        found[row[:, None], places] = values
    return found.reshape(n_values, n_outputs, n_items).transpose(0, 2, 1)


def _joined(scores: FloatArray, tied: BoolArray) -> FloatArray:
    """Return groups of scores, one per row, in which runs of tied neighbours are equal."""
    order = np.argsort(scores, axis=1)
    # the position of the first score of the run that each sorted score belongs to
    position = np.arange(1, scores.shape[1])
    starts = np.maximum.accumulate(np.where(tied, 0, position), axis=1)
    values = np.take_along_axis(scores, order, axis=1)
    values[:, 1:] = np.take_along_axis(values, starts, axis=1)
    joined = np.empty_like(values)
    np.put_along_axis(joined, order, values, axis=1)
    return joined


def _blocks(group: IntArray, n_items: int) -> list[IntArray]:
    """Return the items of groups of one size, (n_groups, size), with about n_items in a block."""
    sizes = np.bincount(group[group >= 0])
    order = np.argsort(group, kind="stable")[np.count_nonzero(group < 0) :]
    starts = np.cumsum(sizes) - sizes
    blocks = []
    for size in np.unique(sizes[sizes > 1]).tolist():
        places = order[starts[sizes == size][:, None] + np.arange(size)]
        step = max(1, n_items // size)
        blocks += [places[k : k + step] for k in range(0, len(places), step)]
    return blocks
