"""Compiled counting of pairs of items, in O(n log n).

The cells, ``starts``, ``order`` and ``tied`` are those of `_sort_kernels`.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.measures._sort_kernels import RUN, longest_query


@njit(cache=True, nogil=True)
def differing_pairs(
    first: int,
    last: int,
    starts: IntArray,
    keys: FloatArray,
    weight: FloatArray,
    order: NDArray[np.uint32],
    out: FloatArray,
) -> None:
    """Weigh the pairs of items whose keys differ; items are sorted by key."""
    n_queries = len(starts) - 1
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        above, block, total = 0.0, 0.0, 0.0
        for p in range(starts[q], starts[q + 1]):
            item = order[v, p]
            if p > starts[q] and keys[v, item] != keys[v, order[v, p - 1]]:
                above += block
                block = 0.0
            total += above * weight[item]
            block += weight[item]
        out[v, q] = total


@njit(cache=True, nogil=True)
def tied_pairs(
    first: int,
    last: int,
    starts: IntArray,
    grades: FloatArray,
    weight: FloatArray,
    order: NDArray[np.uint32],
    tied: BoolArray,
    out: FloatArray,
) -> None:
    """Weigh the pairs whose scores are tied and whose grades differ; grades fall inside a tie."""
    n_queries = len(starts) - 1
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        above, block, total = 0.0, 0.0, 0.0
        for p in range(starts[q], starts[q + 1]):
            item = order[v, p]
            if not tied[v, p]:
                above, block = 0.0, 0.0
            elif grades[item] != grades[order[v, p - 1]]:
                above += block
                block = 0.0
            total += above * weight[item]
            block += weight[item]
        out[v, q] = total


@njit(cache=True, nogil=True)
def swapped_pairs(
    first: int,
    last: int,
    starts: IntArray,
    grades: FloatArray,
    weight: FloatArray,
    order: NDArray[np.uint32],
    out: FloatArray,
) -> None:
    """Weigh the pairs ordered against their grades: inversions counted by a merge sort."""
    n_queries = len(starts) - 1
    longest = longest_query(starts)
    grade, spare_grade = np.empty(longest), np.empty(longest)
    mass, spare_mass = np.empty(longest), np.empty(longest)
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        start, length = starts[q], starts[q + 1] - starts[q]
        for p in range(length):
            item = order[v, start + p]
            grade[p], mass[p] = grades[item], weight[item]
        out[v, q] = _inversions(grade, mass, spare_grade, spare_mass, length)


@njit(cache=True, nogil=True)
def _inversions(
    grade: FloatArray,
    mass: FloatArray,
    spare_grade: FloatArray,
    spare_mass: FloatArray,
    length: int,
) -> float:
    """Sort by decreasing grade and weigh the pairs that stood the other way round."""
    total = 0.0
    for low in range(0, length, RUN):
        for p in range(low + 1, min(low + RUN, length)):
            y, w, at, passed = grade[p], mass[p], p, 0.0
            while at > low and grade[at - 1] < y:
                passed += mass[at - 1]
                grade[at], mass[at] = grade[at - 1], mass[at - 1]
                at -= 1
            grade[at], mass[at] = y, w
            total += passed * w
    width = RUN
    while width < length:
        for low in range(0, length, 2 * width):
            middle, high = min(low + width, length), min(low + 2 * width, length)
            left, right, passed = low, middle, 0.0
            for p in range(low, high):
                if right == high or (left < middle and grade[left] >= grade[right]):
                    total += passed * mass[left]
                    spare_grade[p], spare_mass[p] = grade[left], mass[left]
                    left += 1
                else:
                    passed += mass[right]
                    spare_grade[p], spare_mass[p] = grade[right], mass[right]
                    right += 1
        grade, spare_grade = spare_grade, grade
        mass, spare_mass = spare_mass, mass
        width *= 2
    return total
