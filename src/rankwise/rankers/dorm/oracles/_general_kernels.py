"""The exact oracle of any loss: thresholds that are nearly nested, then shortest paths.

By Abel summation the value of a ranking is a sum over k of ``(c_k - c_{k+1}) score -
(a_k - a_{k+1}) gain`` over its first k items, c the decay and a the discounts. Each term alone is
greatest for the k items with the largest keys; where these sets are nested they are the ranking,
and where they are not their thresholds are prices v of positions, a feasible start for the dual
[LS08] eq. (26) from which few augmenting paths are left.
"""

from typing import NamedTuple

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import njit
from rankwise.rankers.dorm.oracles._sorting_kernels import GradeLists, RankedQuery


class Thresholds(NamedTuple):
    """The best set of each size."""

    nested: bool  # whether each set holds the one before
    entries: IntArray  # the size at which each rank entered last, less one: a position
    n_entries: IntArray  # how often each rank entered
    prices: FloatArray  # of the positions: the sums of the thresholds from each position on
    counts: IntArray  # of the last grade in the set of each size, (n_items + 1,)


class _Set(NamedTuple):
    taken: IntArray  # where in the list of each grade its first item outside stands
    inside: FloatArray  # the lowest score of each grade in the set; inf for none
    outside: FloatArray  # the highest score of each grade not in it; -inf for none


@njit(cache=True, nogil=True)
def find_thresholds(query: RankedQuery, lists: GradeLists) -> Thresholds:
    """Find for each k the k items with the largest keys.

    Costs O(grades) for each position and each item that leaves a set again. The discounts need not
    be monotone.
    """
    scores, gains, decay, discounts = query
    ranks, starts = lists
    taken, inside, outside = _no_items(query, lists)
    n_items, n_grades = len(scores), len(gains)
    entries, n_entries = np.empty(n_items, np.intp), np.zeros(n_items, np.intp)
    prices, counts = np.zeros(n_items), np.zeros(n_items + 1, np.intp)
    nested = True
    for k in range(n_items - 1):
        fall, loss = decay[k] - decay[k + 1], discounts[k] - discounts[k + 1]
        grade, highest = _best_outside(outside, gains, fall, loss)
        rank = _enter(grade, scores, ranks, starts, taken, inside, outside)
        entries[rank], n_entries[rank] = k, n_entries[rank] + 1
        grade, highest = _best_outside(outside, gains, fall, loss)
        worst, lowest = _worst_inside(inside, gains, fall, loss)
        while highest > lowest:
            nested = False
            _leave(worst, scores, ranks, starts, taken, inside, outside)
            rank = _enter(grade, scores, ranks, starts, taken, inside, outside)
            entries[rank], n_entries[rank] = k, n_entries[rank] + 1
            grade, highest = _best_outside(outside, gains, fall, loss)
            worst, lowest = _worst_inside(inside, gains, fall, loss)
        prices[k] = 0.5 * (highest + lowest)
        counts[k + 1] = taken[-1] - starts[-2]
    for grade in range(n_grades):
        if taken[grade] < starts[grade + 1]:
            rank = _enter(grade, scores, ranks, starts, taken, inside, outside)
            entries[rank], n_entries[rank] = n_items - 1, n_entries[rank] + 1
    counts[n_items] = starts[-1] - starts[-2]
    for k in range(n_items - 2, -1, -1):
        prices[k] += prices[k + 1]
    return Thresholds(nested, entries, n_entries, prices, counts)


@njit(cache=True, nogil=True, inline="always")
def _no_items(query: RankedQuery, lists: GradeLists) -> _Set:
    n_grades = len(query.gains)
    taken, outside = np.empty(n_grades, np.intp), np.empty(n_grades)
    for r in range(n_grades):
        taken[r] = lists.starts[r]
        outside[r] = query.scores[lists.ranks[taken[r]]]
    return _Set(taken, np.full(n_grades, np.inf), outside)


@njit(cache=True, nogil=True, inline="always")
def _best_outside(
    outside: FloatArray, gains: FloatArray, fall: float, loss: float
) -> tuple[int, float]:
    grade, best = 0, -np.inf
    for r in range(len(gains)):
        key = fall * outside[r] - loss * gains[r]
        if key > best:  # false for a grade with nothing outside, also where 0 * inf is no number
            grade, best = r, key
    return grade, best


@njit(cache=True, nogil=True, inline="always")
def _worst_inside(
    inside: FloatArray, gains: FloatArray, fall: float, loss: float
) -> tuple[int, float]:
    grade, worst = 0, np.inf
    for r in range(len(gains)):
        key = fall * inside[r] - loss * gains[r]
        if key < worst:
            grade, worst = r, key
    return grade, worst


@njit(cache=True, nogil=True, inline="always")
def _enter(
    grade: int,
    scores: FloatArray,
    ranks: IntArray,
    starts: IntArray,
    taken: IntArray,
    inside: FloatArray,
    outside: FloatArray,
) -> int:
    """Take the next item of a grade into the set and return its rank."""
    at = taken[grade]
    inside[grade] = outside[grade]
    more = at + 1 < starts[grade + 1]
    outside[grade] = scores[ranks[at + 1]] if more else -np.inf
    taken[grade] = at + 1
    return ranks[at]


@njit(cache=True, nogil=True, inline="always")
def _leave(
    grade: int,
    scores: FloatArray,
    ranks: IntArray,
    starts: IntArray,
    taken: IntArray,
    inside: FloatArray,
    outside: FloatArray,
) -> None:
    """Take the last item of a grade out of the set."""
    at = taken[grade] - 1
    outside[grade] = inside[grade]
    inside[grade] = scores[ranks[at - 1]] if at > starts[grade] else np.inf
    taken[grade] = at


@njit(cache=True, nogil=True)
def complete(
    query: RankedQuery, lists: GradeLists, thresholds: Thresholds, positions: IntArray
) -> None:
    """Fill the positions of all ranks from the prices of the thresholds, which are changed.

    An item that entered once is tight at its entry, so most items are placed at once. Each one left
    over costs a search of the kind of Jonker and Volgenant, O(n_items) for each item it meets; the
    costs are computed where they are needed and never stored.
    """
    n_items, prices = len(query.scores), thresholds.prices
    gains = np.empty(n_items)
    for r in range(len(query.gains)):
        for i in lists.ranks[lists.starts[r] : lists.starts[r + 1]]:
            gains[i] = query.gains[r]
    owners = np.full(n_items, -1)
    profits = np.full(n_items, -np.inf)
    for i in range(n_items):
        entered_once = thresholds.n_entries[i] == 1
        first = thresholds.entries[i] if entered_once else 0
        last = first + 1 if entered_once else n_items
        where = first
        for j in range(first, last):
            # [LS08] eq. (26), with u_i + v_j on its left: u_i = max_j C_ij - v_j is dual feasible
            profit = query.decay[j] * query.scores[i] - query.discounts[j] * gains[i] - prices[j]
            if profit > profits[i]:
                profits[i], where = profit, j
        positions[i] = where if owners[where] < 0 else -1
        if owners[where] < 0:
            owners[where] = i
    for i in range(n_items):
        if positions[i] < 0:
            _augment(i, query, gains, profits, prices, owners, positions)


@njit(cache=True, nogil=True, inline="always")
def _augment(
    start: int,
    query: RankedQuery,
    gains: FloatArray,
    profits: FloatArray,
    prices: FloatArray,
    owners: IntArray,
    positions: IntArray,
) -> None:
    """Place one more item along the shortest path in the reduced costs, and update the duals."""
    n_items, decay, discounts = len(gains), query.decay, query.discounts
    distances = np.full(n_items, np.inf)
    previous = np.empty(n_items, np.intp)
    reached = np.arange(n_items)  # positions: those not reached yet come first
    n_open = n_items
    item, distance, end = start, 0.0, -1
    while end < 0:
        nearest, at = np.inf, -1
        base, score, gain = distance + profits[item], query.scores[item], gains[item]
        for o in range(n_open):
            j = np.uintp(reached[o])
            reduced = base + prices[j] - (decay[j] * score - discounts[j] * gain)
            if reduced < distances[j]:
                distances[j], previous[j] = reduced, item
            if distances[j] < nearest or (distances[j] == nearest and owners[j] < 0):
                nearest, at = distances[j], o
        distance, position = nearest, reached[at]
        n_open -= 1
        reached[at], reached[n_open] = reached[n_open], position
        if owners[position] < 0:
            end = position
        else:
            item = owners[position]
    profits[start] -= distance
    for position in reached[n_open + 1 :]:
        profits[owners[position]] -= distance - distances[position]
        prices[position] += distance - distances[position]
    _follow_back(start, end, previous, owners, positions)


@njit(cache=True, nogil=True, inline="always")
def _follow_back(
    start: int, end: int, previous: IntArray, owners: IntArray, positions: IntArray
) -> None:
    position, item = end, -1
    while item != start:
        item = previous[position]
        owners[position] = item
        positions[item], position = position, positions[item]
