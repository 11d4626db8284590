"""Compiled sorting of items, over the cells (score vector, query) of a table.

Every kernel works on the cells ``first`` to ``last - 1``, numbered score vector by score vector and
query by query, and releases the interpreter lock, so that threads can share the cells out. Items
stand query by query; query q owns the positions ``starts[q]`` to ``starts[q + 1] - 1``.
``order[v]`` lists the items of each query from the highest to the lowest score of vector v, and
``tied[v, p]`` says whether the item at position p shares its score with the one before it.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankwise.core.arrays import BoolArray, FloatArray, IntArray

RUN = 16
"""Merge sorts start from runs of this length, sorted by insertion."""


@njit(cache=True, nogil=True)
def sort_items(
    first: int,
    last: int,
    starts: IntArray,
    keys: FloatArray,
    base: NDArray[np.uint32],
    order: NDArray[np.uint32],
    tied: BoolArray,
) -> None:
    """Sort the items of each query by decreasing key; equal keys keep the order of ``base``."""
    n_queries = len(starts) - 1
    longest = longest_query(starts)
    key, spare_key = np.empty(longest), np.empty(longest)
    item, spare_item = np.empty(longest, np.uint32), np.empty(longest, np.uint32)
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        start, stop = starts[q], starts[q + 1]
        length = stop - start
        for p in range(length):
            item[p] = base[start + p]
            key[p] = keys[v, item[p]]
        if _merge_sort(key, item, spare_key, spare_item, length):
            key, spare_key = spare_key, key
            item, spare_item = spare_item, item
        for p in range(length):
            order[v, start + p] = item[p]
            tied[v, start + p] = p > 0 and key[p] == key[p - 1]


@njit(cache=True, nogil=True)
def longest_query(starts: IntArray) -> int:
    """Return the number of items of the longest query."""
    longest = 0
    for q in range(len(starts) - 1):
        longest = max(longest, starts[q + 1] - starts[q])
    return longest


@njit(cache=True, nogil=True)
def _merge_sort(
    key: FloatArray,
    item: NDArray[np.uint32],
    spare_key: FloatArray,
    spare_item: NDArray[np.uint32],
    length: int,
) -> bool:
    """Sort by decreasing key, stably; return whether the result stands in the spare arrays."""
    for low in range(0, length, RUN):
        for p in range(low + 1, min(low + RUN, length)):
            k, i, at = key[p], item[p], p
            while at > low and key[at - 1] < k:
                key[at], item[at] = key[at - 1], item[at - 1]
                at -= 1
            key[at], item[at] = k, i
    width, swapped = RUN, False
    while width < length:
        for low in range(0, length, 2 * width):
            middle, high = min(low + width, length), min(low + 2 * width, length)
            left, right = low, middle
            for p in range(low, high):
                if right == high or (left < middle and key[left] >= key[right]):
                    spare_key[p], spare_item[p] = key[left], item[left]
                    left += 1
                else:
                    spare_key[p], spare_item[p] = key[right], item[right]
                    right += 1
        key, spare_key = spare_key, key
        item, spare_item = spare_item, item
        width, swapped = 2 * width, not swapped
    return swapped


@njit(cache=True, nogil=True)
def midranks(
    first: int,
    last: int,
    starts: IntArray,
    order: NDArray[np.uint32],
    tied: BoolArray,
    out: FloatArray,
) -> None:
    """Give each item its rank minus the mean rank of its query; tied items share their mean."""
    n_queries = len(starts) - 1
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        start, stop = starts[q], starts[q + 1]
        p = start
        while p < stop:
            end = p + 1
            while end < stop and tied[v, end]:
                end += 1
            for at in range(p, end):
                out[v, order[v, at]] = 0.5 * ((p - start) - (stop - end))
            p = end
