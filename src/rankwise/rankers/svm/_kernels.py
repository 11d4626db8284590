"""Compiled loops over the pairs of scored items whose slack is above a threshold.

Items stand query by query; the *places* ``starts[q]`` to ``starts[q + 1]`` belong to query q and
are sorted by key inside it. A pair of places (p, r), the level of p above that of r, is *active* if
``reach[p] <= r < until[p]``. Its active partners are summed in O(n log k) with k levels in a query,
however many pairs there are.
"""

import numpy as np
from numba import njit

from rankwise.core.arrays import FloatArray, IntArray

RUN = 16
"""Runs of this length are sorted by insertion before they are merged."""


@njit(cache=True, nogil=True)
def sort_places(keys: FloatArray, order: IntArray, starts: IntArray) -> None:
    """Sort the keys of every query and carry their order along: a merge sort, stable."""
    longest = 0
    for q in range(len(starts) - 1):  # np.diff and slices would take seconds to compile
        longest = max(longest, starts[q + 1] - starts[q])
    spare_keys, spare_order = np.empty(longest), np.empty(longest, dtype=order.dtype)
    for q in range(len(starts) - 1):
        begin, end = starts[q], starts[q + 1]
        for low in range(begin, end, RUN):
            _insertion_sort(keys, order, low, min(low + RUN, end))
        width = RUN
        while width < end - begin:
            for low in range(begin, end - width, 2 * width):
                high = min(low + 2 * width, end)
                _merge(keys, order, low, low + width, high, spare_keys, spare_order)
            width *= 2


@njit(cache=True, nogil=True)
def _insertion_sort(keys: FloatArray, order: IntArray, begin: int, end: int) -> None:
    for p in range(begin + 1, end):
        key, item, at = keys[p], order[p], p
        while at > begin and keys[at - 1] > key:
            keys[at], order[at] = keys[at - 1], order[at - 1]
            at -= 1
        keys[at], order[at] = key, item


@njit(cache=True, nogil=True)
def _merge(
    keys: FloatArray,
    order: IntArray,
    low: int,
    middle: int,
    high: int,
    spare_keys: FloatArray,
    spare_order: IntArray,
) -> None:
    """Merge two neighbouring sorted runs; the left one is set aside."""
    if keys[middle - 1] <= keys[middle]:
        return
    n_left = middle - low
    for k in range(n_left):
        spare_keys[k], spare_order[k] = keys[low + k], order[low + k]
    left, right, p = 0, middle, low
    while left < n_left:
        if right < high and keys[right] < spare_keys[left]:
            keys[p], order[p] = keys[right], order[right]
            right += 1
        else:
            keys[p], order[p] = spare_keys[left], spare_order[left]
            left += 1
        p += 1


@njit(cache=True, nogil=True)
def find_reach(keys: FloatArray, starts: IntArray, margin: float) -> IntArray:
    """Return, for each place, the first of its query whose key is above its own less the margin."""
    reach = np.empty(len(keys), dtype=np.intp)
    for q in range(len(starts) - 1):
        r, end = starts[q], starts[q + 1]
        for p in range(starts[q], end):
            while r < end and keys[r] <= keys[p] - margin:
                r += 1
            reach[p] = r
    return reach


@njit(cache=True, nogil=True)
def sum_partners(
    values: FloatArray,
    level: IntArray,
    n_levels: IntArray,
    starts: IntArray,
    reach: IntArray,
    until: IntArray,
    first: int,
    last: int,
    lost: FloatArray,
    won: FloatArray,
) -> None:
    """Add up rows of ``values`` over the active partners of every place of some queries.

    To the row of a place in ``lost`` come those of the places that it should beat, in ``won`` those
    of the places that should beat it; both may be one array. These three have a row for each place
    of the queries first to last, the others for each place. Two sweeps with a Fenwick tree.
    """
    tree = np.empty((np.max(n_levels[first:last]) + 1, values.shape[1]))
    base = starts[first]
    for q in range(first, last):
        begin, end, k = starts[q], starts[q + 1], n_levels[q]
        if k < 2:
            continue
        tree[:k] = 0.0
        low, high = end, end
        for p in range(end - 1, begin - 1, -1):
            while low > reach[p]:
                low -= 1
                _plant(tree, level[low] + 1, k, 1.0, values, low - base)
            while high > until[p]:
                high -= 1
                _plant(tree, level[high] + 1, k, -1.0, values, high - base)
            _gather(tree, level[p], lost, p - base)
        tree[:k] = 0.0
        low, high = begin, begin
        for p in range(begin, end):
            while low < end and reach[low] <= p:
                _plant(tree, k - level[low], k, 1.0, values, low - base)
                low += 1
            while high < end and until[high] <= p:
                _plant(tree, k - level[high], k, -1.0, values, high - base)
                high += 1
            _gather(tree, k - 1 - level[p], won, p - base)


@njit(cache=True, nogil=True)
def _plant(tree: FloatArray, at: int, k: int, sign: float, values: FloatArray, row: int) -> None:
    """Add a row at a position from 1; what lies at the last one, k, is never asked for."""
    i = np.uint64(row)
    while at < k:
        for j in range(values.shape[1]):
            tree[at, j] += sign * values[i, j]
        at += at & -at


@njit(cache=True, nogil=True)
def _gather(tree: FloatArray, at: int, out: FloatArray, row: int) -> None:
    """Add the sums of the positions 1 to ``at`` to a row of ``out``."""
    i = np.uint64(row)
    while at > 0:
        for j in range(out.shape[1]):
            out[i, j] += tree[at, j]
        at &= at - 1
