"""Compiled sums, extremes and ranks of every feature inside every query; NaN is left out."""

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import njit


@njit(cache=True, nogil=True)
def find_extremes(X: FloatArray, query: IntArray, low: FloatArray, high: FloatArray) -> None:
    """Lower and raise the extremes, (n_queries, n_features), to those of the rows."""
    for i in range(X.shape[0]):
        q = np.uint64(query[i])
        for j in range(X.shape[1]):
            x = X[i, j]
            if x < low[q, j]:
                low[q, j] = x
            if x > high[q, j]:
                high[q, j] = x


@njit(cache=True, nogil=True)
def add_powers(
    X: FloatArray, query: IntArray, centre: FloatArray, power: int, sums: FloatArray
) -> None:
    """Add the known values less a centre, to a power of 0, 1 or 2, to the sums of their query."""
    for i in range(X.shape[0]):
        q = np.uint64(query[i])
        for j in range(X.shape[1]):
            x = X[i, j] - centre[q, j]
            if x == x:
                if power == 0:
                    sums[q, j] += 1.0
                elif power == 1:
                    sums[q, j] += x
                else:
                    sums[q, j] += x * x


@njit(cache=True, nogil=True)
def shift_and_scale(
    X: FloatArray, query: IntArray, shift: FloatArray, scale: FloatArray, out: FloatArray
) -> None:
    """Take the shift of its query off each value, then divide by the scale; 0 where that is 0."""
    for i in range(X.shape[0]):
        q = np.uint64(query[i])
        for j in range(X.shape[1]):
            x = X[i, j]
            if scale[q, j] > 0.0:
                out[i, j] = (x - shift[q, j]) / scale[q, j]
            else:
                out[i, j] = x if x != x else 0.0


@njit(cache=True, nogil=True)
def gather_column(X: FloatArray, item: IntArray, j: int, keys: FloatArray) -> None:
    """Copy a feature in the order of the items; NaN becomes infinity, which sorts last."""
    for p in range(len(item)):
        x = X[np.uint64(item[p]), j]
        keys[p] = x if x == x else np.inf


@njit(cache=True, nogil=True)
def rank_column(
    keys: FloatArray, order: IntArray, item: IntArray, starts: IntArray, j: int, out: FloatArray
) -> None:
    """Write ranks from 0 to 1, the mean of ties, for keys that are sorted inside each query."""
    for q in range(len(starts) - 1):
        begin, end = starts[q], starts[q + 1]
        known = end
        while known > begin and keys[known - 1] == np.inf:
            known -= 1
            out[np.uint64(item[order[known]]), j] = np.nan
        last = known - begin - 1
        p = begin
        while p < known:
            r = p
            while r + 1 < known and keys[r + 1] == keys[p]:
                r += 1
            rank = 0.5 if last == 0 else (0.5 * (p + r) - begin) / last
            for k in range(p, r + 1):
                out[np.uint64(item[order[k]]), j] = rank
            p = r + 1


@njit(cache=True, nogil=True)
def find_quantile(
    keys: FloatArray, starts: IntArray, share: float, j: int, out: FloatArray
) -> None:
    """Write the quantile of each query by linear interpolation; NaN where nothing is known."""
    for q in range(len(starts) - 1):
        begin, known = starts[q], starts[q + 1]
        while known > begin and keys[known - 1] == np.inf:
            known -= 1
        if known == begin:
            out[q, j] = np.nan
            continue
        place = begin + share * (known - 1 - begin)
        low = int(np.floor(place))
        high = min(low + 1, known - 1)
        out[q, j] = keys[low] + (place - low) * (keys[high] - keys[low])
