"""Compiled loops over the cells (score vector, query) of a table: sum, count pairs.

A kernel fills the cells ``first`` to ``last - 1``, numbered score vector by score vector and query
by query, and releases the interpreter lock, so that threads can share the cells. Items stand query
by query; query q owns the positions ``starts[q]`` to ``starts[q + 1] - 1``. ``order[v]`` lists the
items of each query from the highest to the lowest score of vector v, and ``tied[v, p]`` says
whether the item at position p shares its score with the one before it.
"""

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.compile import (
    njit,
)
from rankwise.measures._sorting_kernels import (
    longest_query,
)

RUN = 16
"""Merge sorts start from runs of this length, sorted by insertion."""


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


@njit(cache=True, nogil=True)
def inner_products(
    first: int,
    last: int,
    starts: IntArray,
    gains: FloatArray,
    discounts: FloatArray,
    cumulative: FloatArray,
    order: NDArray[np.uint32],
    tied: BoolArray,
    out: FloatArray,
) -> None:
    """Sum gain times discount; the items of a tied block share its discounts evenly."""
    n_queries = len(starts) - 1
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        start, stop = starts[q], starts[q + 1]
        limit = min(stop, start + len(discounts))
        total, p = 0.0, start
        while p < limit:
            end, gain = p + 1, gains[order[v, p]]
            while end < stop and tied[v, end]:
                gain += gains[order[v, end]]
                end += 1
            if end == p + 1:
                total += gain * discounts[p - start]
            else:
                share = cumulative[end - start] - cumulative[p - start]
                total += gain * share / (end - p)
            p = end
        out[v, q] = total


@njit(cache=True, nogil=True)
def precision_sums(
    first: int,
    last: int,
    starts: IntArray,
    relevant: BoolArray,
    cutoff: int,
    order: NDArray[np.uint32],
    tied: BoolArray,
    out: FloatArray,
) -> None:
    """Sum the expected precision at the position of each relevant item up to the cut-off.

    In a block of m tied items with r relevant ones, the item in position j of the block is relevant
    with probability r / m, and then (j - 1)(r - 1)/(m - 1) relevant items of the block are expected
    before it.
    """
    n_queries = len(starts) - 1
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        start, stop = starts[q], starts[q + 1]
        limit = min(stop - start, cutoff)
        total, before, p = 0.0, 0, start
        while p - start < limit:
            end, hits = _block(p, stop, relevant, order[v], tied[v])
            n_tied = end - p
            if hits > 0:
                step = (hits - 1) / (n_tied - 1) if n_tied > 1 else 0.0
                block = 0.0
                for j in range(min(n_tied, limit - (p - start))):
                    block += (before + 1 + j * step) / (p - start + j + 1)
                total += block * hits / n_tied
            before += hits
            p = end
        out[v, q] = total


@njit(cache=True, nogil=True)
def first_reciprocals(
    first: int,
    last: int,
    starts: IntArray,
    relevant: BoolArray,
    cutoff: int,
    order: NDArray[np.uint32],
    tied: BoolArray,
    out: FloatArray,
) -> None:
    """Return the expected reciprocal rank of the first relevant item, 0 past the cut-off.

    In a block of m tied items with r relevant ones, the first of them takes position j with
    probability C(m - j, r - 1) / C(m, r), which the loop carries from j to j + 1.
    """
    n_queries = len(starts) - 1
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        start, stop = starts[q], starts[q + 1]
        p, hits, end = start, 0, start
        while end < stop and hits == 0:
            p = end
            end, hits = _block(p, stop, relevant, order[v], tied[v])
        n_tied, total, chance = end - p, 0.0, hits / (end - p)
        for j in range(min(n_tied - hits + 1, cutoff - (p - start))):
            total += chance / (p - start + j + 1)
            if j + 1 < n_tied:
                chance *= (n_tied - j - hits) / (n_tied - j - 1)
        out[v, q] = total if hits > 0 else 0.0


@njit(cache=True, nogil=True)
def cascade_sums(
    first: int,
    last: int,
    starts: IntArray,
    chances: FloatArray,
    cutoff: int,
    order: NDArray[np.uint32],
    tied: BoolArray,
    out: FloatArray,
) -> None:
    """Return the expected reciprocal position of the item that a reader stops at.

    In a block of m tied items the reader passes t of them with the probability e[t], the mean over
    all choices of t items of the product of their chances not to stop: an elementary symmetric
    polynomial over its number of terms, built item by item. O(m^2) for a block, O(1) without ties.
    """
    n_queries = len(starts) - 1
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        start, stop = starts[q], starts[q + 1]
        limit = min(stop - start, cutoff)
        total, going, p = 0.0, 1.0, start
        while p - start < limit:
            end = p + 1
            while end < stop and tied[v, end]:
                end += 1
            top = min(end - p, limit - (p - start))
            e = np.zeros(top + 1)
            e[0] = 1.0
            for n in range(1, end - p + 1):
                passed = 1.0 - chances[order[v, p + n - 1]]
                for k in range(min(n, top), 0, -1):
                    e[k] = ((n - k) * e[k] + k * passed * e[k - 1]) / n
            for t in range(top):
                total += going * (e[t] - e[t + 1]) / (p - start + t + 1)
            going *= e[top]
            p = end
        out[v, q] = total


@njit(cache=True, nogil=True)
def _block(
    p: int, stop: int, relevant: BoolArray, order: NDArray[np.uint32], tied: BoolArray
) -> tuple[int, int]:
    """Return the end of the tied block that begins at p, and its number of relevant items."""
    end, hits = p + 1, int(relevant[order[p]])
    while end < stop and tied[end]:
        hits += relevant[order[end]]
        end += 1
    return end, hits


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
