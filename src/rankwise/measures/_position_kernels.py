"""Compiled sums over the positions of a ranking, from the top down.

The cells, ``starts``, ``order`` and ``tied`` are those of `_sort_kernels`.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankwise.core.arrays import BoolArray, FloatArray, IntArray


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
def _block(
    p: int, stop: int, relevant: BoolArray, order: NDArray[np.uint32], tied: BoolArray
) -> tuple[int, int]:
    """Return the end of the tied block that begins at p, and its number of relevant items."""
    end, hits = p + 1, int(relevant[order[p]])
    while end < stop and tied[end]:
        hits += relevant[order[end]]
        end += 1
    return end, hits
