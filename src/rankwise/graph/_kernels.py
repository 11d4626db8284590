"""The compiled sort of the items of every query."""

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import CALLED_BY_KERNELS, njit

RUN = 16
"""Runs of this length are sorted by insertion before they are merged."""


@njit(cache=True, nogil=True)
def sort_by_key(keys: FloatArray, order: IntArray, starts: IntArray) -> None:
    """Sort the keys of every query, and their order with them, by a stable merge sort."""
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


@njit(**CALLED_BY_KERNELS)
def _insertion_sort(keys: FloatArray, order: IntArray, begin: int, end: int) -> None:
    for p in range(begin + 1, end):
        key, item, at = keys[p], order[p], p
        while at > begin and keys[at - 1] > key:
            keys[at], order[at] = keys[at - 1], order[at - 1]
            at -= 1
        keys[at], order[at] = key, item


@njit(**CALLED_BY_KERNELS)
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
