"""The items of one query in descending order of their scores, for the oracles."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import njit

_RUN = 8  # keys sorted by insertion before runs are merged


class RankedQuery(NamedTuple):
    """One query with its items named by their rank, 0 for the highest score."""

    scores: FloatArray  # of each rank, descending
    gains: FloatArray  # the distinct gains, ascending: one for each grade
    decay: FloatArray  # c of each position, non-increasing
    discounts: FloatArray  # a of each position


class GradeLists(NamedTuple):
    """The ranks of each grade in turn."""

    ranks: IntArray
    starts: IntArray  # where each grade begins, (n_grades + 1,)


@njit(cache=True, nogil=True)
def descending(scores: FloatArray, keys: NDArray[np.uint64], order: IntArray) -> None:
    """Fill ``order`` with the items from the highest score to the lowest, ties as they came.

    Sorts integers that hold the leading bits of the score above the number of the item, which is
    twice as fast as sorting through an index, then mends the few neighbours that these bits cannot
    tell apart.

    Parameters
    ----------
    scores : (n_items,)
    keys : (2, n_items) or wider
        Room to work in.
    order : (n_items,), filled
    """
    n_items = len(scores)
    highest = lowest = scores[0]
    for score in scores:
        highest, lowest = max(highest, score), min(lowest, score)
    n_bits = np.uint64(1)
    while n_items >> n_bits:
        n_bits += np.uint64(1)
    scale = 2.0 ** (63 - n_bits) / (highest - lowest) if highest - lowest > 1e-280 else 0.0
    for i in range(n_items):
        keys[0, i] = (np.uint64((highest - scores[i]) * scale) << n_bits) | np.uint64(i)
    half = _merge_sort(keys, n_items)
    for rank in range(n_items):
        item = np.intp(keys[half, rank] & ((np.uint64(1) << n_bits) - np.uint64(1)))
        at = rank
        while at > 0 and scores[order[at - 1]] < scores[item]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = item


@njit(cache=True, nogil=True, inline="always")
def _merge_sort(keys: NDArray[np.uint64], n_keys: int) -> int:
    """Sort the first row of ``keys`` and return in which of the two rows the result stands."""
    for first in range(0, n_keys, _RUN):
        for i in range(first + 1, min(first + _RUN, n_keys)):
            key, at = keys[0, i], i
            while at > first and keys[0, at - 1] > key:
                keys[0, at] = keys[0, at - 1]
                at -= 1
            keys[0, at] = key
    half, length = 0, _RUN
    while length < n_keys:
        for first in range(0, n_keys, 2 * length):
            middle, last = min(first + length, n_keys), min(first + 2 * length, n_keys)
            _merge(keys[half], keys[1 - half], np.uint64(first), np.uint64(middle), np.uint64(last))
        half, length = 1 - half, 2 * length
    return half


@njit(cache=True, nogil=True)
def _merge(
    source: NDArray[np.uint64],
    target: NDArray[np.uint64],
    first: np.uint64,
    middle: np.uint64,
    last: np.uint64,
) -> None:
    """Merge two sorted runs; unsigned bounds and no branch on the keys keep the loop short."""
    i, j, k, one = first, middle, first, np.uint64(1)
    while i < middle and j < last:
        left = source[i] <= source[j]
        target[k] = source[i] if left else source[j]
        i += np.uint64(left)
        j += np.uint64(not left)
        k += one
    while i < middle:
        target[k] = source[i]
        i += one
        k += one
    while j < last:
        target[k] = source[j]
        j += one
        k += one


@njit(cache=True, nogil=True)
def lists_by_grade(grades: IntArray, order: IntArray, n_grades: int) -> GradeLists:
    """Return the ranks of each grade's items, given the grade of each item."""
    starts = np.zeros(n_grades + 1, np.intp)
    for grade in grades:
        starts[grade + 1] += 1
    ends = np.empty(n_grades, np.intp)
    for r in range(n_grades):
        ends[r] = starts[r]
        starts[r + 1] += starts[r]
    ranks = np.empty(len(order), np.intp)
    for rank in range(len(order)):
        grade = grades[order[rank]]
        ranks[ends[grade]] = rank
        ends[grade] += 1
    return GradeLists(ranks, starts)
