"""Compiled sums, extremes and ranks of every feature inside every query; NaN is left out."""

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import MAKES_NO_ARRAYS, njit


@njit(**MAKES_NO_ARRAYS)
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


@njit(**MAKES_NO_ARRAYS)
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


@njit(**MAKES_NO_ARRAYS)
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


@njit(**MAKES_NO_ARRAYS)
def fill_blanks(X: FloatArray, query: IntArray, filling: FloatArray) -> None:
    """Replace each NaN by what its query and feature have, (n_queries, n_features)."""
    for i in range(X.shape[0]):
        q = np.uint64(query[i])
        for j in range(X.shape[1]):
            if X[i, j] != X[i, j]:
                X[i, j] = filling[q, j]


@njit(**MAKES_NO_ARRAYS)
def gather_block(
    X: FloatArray,
    order: IntArray,
    starts: IntArray,
    queries: IntArray,
    feature: int,
    keys: FloatArray,
) -> None:
    """Copy known values to (features, queries, items), from a first feature on."""
    for r in range(len(queries)):
        begin, end = starts[queries[r]], starts[queries[r] + 1]
        for p in range(begin, end):
            i = np.uint64(order[p])
            for j in range(keys.shape[0]):
                x = X[i, feature + j]
                if x == x:
                    keys[j, r, p - begin] = x


@njit(**MAKES_NO_ARRAYS)
def write_ranks(
    keys: FloatArray,
    place: IntArray,
    order: IntArray,
    starts: IntArray,
    queries: IntArray,
    feature: int,
    out: FloatArray,
) -> None:
    """Write ranks from 0 to 1, the mean of ties, of keys (features, queries, items).

    ``place`` sorts the keys along their last axis. Infinity stands for blanks, which stay NaN.
    """
    for r in range(len(queries)):
        begin = starts[queries[r]]
        size = starts[queries[r] + 1] - begin
        for j in range(keys.shape[0]):
            known = 0
            for p in range(size):
                if keys[j, r, p] == np.inf:
                    out[np.uint64(order[begin + p]), feature + j] = np.nan
                else:
                    known += 1
            p = 0
            while p < known:
                key, end = keys[j, r, place[j, r, p]], p + 1
                while end < known and keys[j, r, place[j, r, end]] == key:
                    end += 1
                rank = 0.5 if known == 1 else 0.5 * (p + end - 1) / (known - 1)
                for k in range(p, end):
                    out[np.uint64(order[begin + place[j, r, k]]), feature + j] = rank
                p = end


@njit(**MAKES_NO_ARRAYS)
def find_quantiles(
    keys: FloatArray, shares: FloatArray, queries: IntArray, feature: int, out: FloatArray
) -> None:
    """Write quantiles of sorted keys (features, queries, items) by linear interpolation.

    Infinity stands for what is not known; NaN is written where nothing is.
    """
    for r in range(len(queries)):
        for j in range(keys.shape[0]):
            known = keys.shape[2]
            while known > 0 and keys[j, r, known - 1] == np.inf:
                known -= 1
            for s in range(len(shares)):
                if known == 0:
                    out[s, queries[r], feature + j] = np.nan
                    continue
                at = shares[s] * (known - 1)
                low = int(np.floor(at))
                high = min(low + 1, known - 1)
                step = keys[j, r, high] - keys[j, r, low]
                out[s, queries[r], feature + j] = keys[j, r, low] + (at - low) * step
