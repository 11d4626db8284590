"""Sums, extremes and ranks of every feature inside every query; NaN is left out.

Inner loops take their operands first and choose between results, without branches: compilers then
treat several features at once.
"""

import numpy as np

from libc.math cimport INFINITY, NAN, floor
from libc.stdint cimport int64_t as i64


def find_extremes(const double[:, ::1] X, const i64[::1] query, double[:, ::1] low,
                  double[:, ::1] high):
    """Lower and raise the extremes, (n_queries, n_features), to those of the rows."""
    cdef Py_ssize_t n_features = X.shape[1], i, j
    cdef const double *x
    cdef double *lowest
    cdef double *highest
    with nogil:
        for i in range(X.shape[0]):
            x = &X[i, 0]
            lowest = &low[query[i], 0]
            highest = &high[query[i], 0]
            for j in range(n_features):
                lowest[j] = x[j] if x[j] < lowest[j] else lowest[j]
                highest[j] = x[j] if x[j] > highest[j] else highest[j]


def add_known(const double[:, ::1] X, const i64[::1] query, double[:, ::1] counts,
              double[:, ::1] sums):
    """Count the known values of each query and feature, and add them up."""
    cdef Py_ssize_t n_features = X.shape[1], i, j
    cdef const double *x
    cdef double *count
    cdef double *total
    cdef double value
    with nogil:
        for i in range(X.shape[0]):
            x = &X[i, 0]
            count = &counts[query[i], 0]
            total = &sums[query[i], 0]
            for j in range(n_features):
                value = x[j]
                count[j] += 1.0 if value == value else 0.0
                total[j] += value if value == value else 0.0


def add_squares(const double[:, ::1] X, const i64[::1] query, const double[:, ::1] centre,
                double[:, ::1] sums):
    """Add up the squares of the known values of each query and feature less its centre."""
    cdef Py_ssize_t n_features = X.shape[1], i, j
    cdef const double *x
    cdef const double *middle
    cdef double *total
    cdef double value
    with nogil:
        for i in range(X.shape[0]):
            x = &X[i, 0]
            middle = &centre[query[i], 0]
            total = &sums[query[i], 0]
            for j in range(n_features):
                value = x[j] - middle[j]
                value = value if value == value else 0.0
                total[j] += value * value


def shift_and_scale(const double[:, ::1] X, const i64[::1] query, const double[:, ::1] shift,
                    const double[:, ::1] scale, double[:, ::1] out):
    """Take the shift of its query off each value, then divide by the scale; 0 where that is 0.

    Values are finite or NaN, which stays NaN.
    """
    cdef Py_ssize_t n_features = X.shape[1], i, j
    cdef const double *x
    cdef const double *a
    cdef const double *b
    cdef double *y
    cdef double value, nothing, span, divisor
    with nogil:
        for i in range(X.shape[0]):
            x = &X[i, 0]
            a = &shift[query[i], 0]
            b = &scale[query[i], 0]
            y = &out[i, 0]
            for j in range(n_features):
                value = x[j] - a[j]
                nothing = x[j] - x[j]
                span = b[j]
                divisor = span if span > 0.0 else 1.0
                value = value / divisor
                y[j] = value if span > 0.0 else nothing


def fill_blanks(double[:, ::1] X, const i64[::1] query, const double[:, ::1] filling):
    """Replace each NaN by what its query and feature have, (n_queries, n_features)."""
    cdef Py_ssize_t n_features = X.shape[1], i, j
    cdef double *x
    cdef const double *other
    cdef double value, instead
    with nogil:
        for i in range(X.shape[0]):
            x = &X[i, 0]
            other = &filling[query[i], 0]
            for j in range(n_features):
                value = x[j]
                instead = other[j]
                x[j] = value if value == value else instead


def gather_block(const double[:, ::1] X, const i64[::1] order, const i64[::1] starts,
                 const i64[::1] queries, Py_ssize_t feature, double[:, :, ::1] keys):
    """Copy known values to (features, queries, items), from a first feature on."""
    cdef Py_ssize_t r, p, i, j, begin, end
    cdef double x
    with nogil:
        for r in range(queries.shape[0]):
            begin = starts[queries[r]]
            end = starts[queries[r] + 1]
            for p in range(begin, end):
                i = order[p]
                for j in range(keys.shape[0]):
                    x = X[i, feature + j]
                    if x == x:
                        keys[j, r, p - begin] = x


def write_ranks(const double[:, :, ::1] keys, const i64[:, :, ::1] place, const i64[::1] order,
                const i64[::1] starts, const i64[::1] queries, Py_ssize_t feature,
                double[:, ::1] out):
    """Write ranks from 0 to 1, the mean of ties, of keys (features, queries, items).

    ``place`` sorts the keys along their last axis. Infinity stands for blanks, which stay NaN.
    """
    cdef Py_ssize_t r, j, p, k, begin, size, known, end
    cdef double key, rank
    with nogil:
        for r in range(queries.shape[0]):
            begin = starts[queries[r]]
            size = starts[queries[r] + 1] - begin
            for j in range(keys.shape[0]):
                known = 0
                for p in range(size):
                    if keys[j, r, p] == INFINITY:
                        out[order[begin + p], feature + j] = NAN
                    else:
                        known += 1
                p = 0
                while p < known:
                    key = keys[j, r, place[j, r, p]]
                    end = p + 1
                    while end < known and keys[j, r, place[j, r, end]] == key:
                        end += 1
                    rank = 0.5 if known == 1 else 0.5 * <double>(p + end - 1) / <double>(known - 1)
                    for k in range(p, end):
                        out[order[begin + place[j, r, k]], feature + j] = rank
                    p = end


def count_ranks(const double[:, ::1] X, const i64[::1] query, double[:, ::1] out):
    """Write the ranks that `write_ranks` writes by comparing all rows of a query: for a few rows.

    A value that exceeds so many more of the k known ones than exceed it, d, has the rank
    ``(d + k - 1) / 2`` from 0 to k - 1, the mean of its ties.
    """
    cdef Py_ssize_t n_rows = X.shape[0], n_features = X.shape[1], i, other, j
    cdef const double *x
    cdef const double *y
    cdef double *above
    cdef double *below
    cdef double *k
    cdef double more, value, rank
    cdef double[::1] known = np.empty(n_features)
    if n_features == 0:
        return
    out[:, :] = 0.0
    with nogil:
        for i in range(n_rows):
            x = &X[i, 0]
            above = &out[i, 0]
            for other in range(i):
                if query[other] == query[i]:
                    y = &X[other, 0]
                    below = &out[other, 0]
                    for j in range(n_features):
                        more = (1.0 if x[j] > y[j] else 0.0) - (1.0 if x[j] < y[j] else 0.0)
                        above[j] += more
                        below[j] -= more
        k = &known[0]
        for i in range(n_rows):
            if i == 0 or query[i] != query[i - 1]:
                known[:] = 0.0
                for other in range(n_rows):
                    if query[other] == query[i]:
                        y = &X[other, 0]
                        for j in range(n_features):
                            k[j] += 1.0 if y[j] == y[j] else 0.0
            x = &X[i, 0]
            above = &out[i, 0]
            for j in range(n_features):
                rank = 0.5 if k[j] == 1.0 else 0.5 * (above[j] + k[j] - 1.0) / (k[j] - 1.0)
                value = x[j]
                above[j] = rank if value == value else NAN


def find_quantiles(const double[:, :, ::1] keys, const double[::1] shares, const i64[::1] queries,
                   Py_ssize_t feature, double[:, :, ::1] out):
    """Write quantiles of sorted keys (features, queries, items) by linear interpolation.

    Infinity stands for what is not known; NaN is written where nothing is.
    """
    cdef Py_ssize_t r, j, s, known, low, high
    cdef double at, step
    with nogil:
        for r in range(queries.shape[0]):
            for j in range(keys.shape[0]):
                known = keys.shape[2]
                while known > 0 and keys[j, r, known - 1] == INFINITY:
                    known -= 1
                for s in range(shares.shape[0]):
                    if known == 0:
                        out[s, queries[r], feature + j] = NAN
                        continue
                    at = shares[s] * <double>(known - 1)
                    low = <Py_ssize_t>floor(at)
                    high = min(low + 1, known - 1)
                    step = keys[j, r, high] - keys[j, r, low]
                    out[s, queries[r], feature + j] = keys[j, r, low] + (at - low) * step
