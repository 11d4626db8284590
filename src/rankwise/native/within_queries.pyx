"""Sums, extremes and ranks of every feature inside every query; NaN is left out.

Inner loops take their operands first and choose between results, without branches: compilers then
treat several features at once.
"""

cimport rankwise.native.registers
from libc.math cimport INFINITY, NAN, floor
from libc.stdint cimport int64_t as i64

import numpy as np

cdef extern from *:
    """
    ON_WIDE_REGISTERS static void widen_ranges(
            const double *X, int64_t n_rows, int64_t n_features, const int64_t *query, double *low,
            double *high) {
        for (int64_t i = 0; i < n_rows; i++) {
            const double *restrict x = X + i * n_features;
            double *restrict lowest = low + query[i] * n_features;
            double *restrict highest = high + query[i] * n_features;
            for (int64_t j = 0; j < n_features; j++) {
                lowest[j] = x[j] < lowest[j] ? x[j] : lowest[j];
                highest[j] = x[j] > highest[j] ? x[j] : highest[j];
            }
        }
    }
    ON_WIDE_REGISTERS static void count_and_add(
            const double *X, int64_t n_rows, int64_t n_features, const int64_t *query,
            double *counts, double *sums) {
        for (int64_t i = 0; i < n_rows; i++) {
            const double *restrict x = X + i * n_features;
            double *restrict count = counts + query[i] * n_features;
            double *restrict total = sums + query[i] * n_features;
            for (int64_t j = 0; j < n_features; j++) {
                count[j] += x[j] == x[j] ? 1.0 : 0.0;
                total[j] += x[j] == x[j] ? x[j] : 0.0;
            }
        }
    }
    ON_WIDE_REGISTERS static void add_squared_deviations(
            const double *X, int64_t n_rows, int64_t n_features, const int64_t *query,
            const double *centre, double *sums) {
        for (int64_t i = 0; i < n_rows; i++) {
            const double *restrict x = X + i * n_features;
            const double *restrict middle = centre + query[i] * n_features;
            double *restrict total = sums + query[i] * n_features;
            for (int64_t j = 0; j < n_features; j++) {
                double value = x[j] - middle[j];
                value = value == value ? value : 0.0;
                total[j] += value * value;
            }
        }
    }
    ON_WIDE_REGISTERS static void fill_scaled(
            const double *X, int64_t n_rows, int64_t n_features, const int64_t *query,
            const double *shift, const double *scale, double *out) {
        for (int64_t i = 0; i < n_rows; i++) {
            const double *restrict x = X + i * n_features;
            const double *restrict a = shift + query[i] * n_features;
            const double *restrict b = scale + query[i] * n_features;
            double *restrict y = out + i * n_features;
            for (int64_t j = 0; j < n_features; j++) {
                double value = (x[j] - a[j]) / (b[j] > 0.0 ? b[j] : 1.0);
                y[j] = b[j] > 0.0 ? value : x[j] - x[j];
            }
        }
    }
    ON_WIDE_REGISTERS static void compare_rows(
            const double *X, int64_t n_rows, int64_t n_features, const int64_t *query,
            double *exceeded) {
        for (int64_t i = 0; i < n_rows; i++) {
            const double *restrict x = X + i * n_features;
            double *restrict above = exceeded + i * n_features;
            for (int64_t other = 0; other < i; other++) {
                const double *restrict y = X + other * n_features;
                double *restrict below = exceeded + other * n_features;
                if (query[other] != query[i]) continue;
                for (int64_t j = 0; j < n_features; j++) {
                    double more = (x[j] > y[j] ? 1.0 : 0.0) - (x[j] < y[j] ? 1.0 : 0.0);
                    above[j] += more;
                    below[j] -= more;
                }
            }
        }
    }
    ON_WIDE_REGISTERS static void replace_blanks(
            double *X, int64_t n_rows, int64_t n_features, const int64_t *query,
            const double *filling) {
        for (int64_t i = 0; i < n_rows; i++) {
            double *restrict x = X + i * n_features;
            const double *restrict other = filling + query[i] * n_features;
            for (int64_t j = 0; j < n_features; j++) {
                double value = x[j], instead = other[j];
                x[j] = value == value ? value : instead;
            }
        }
    }
    """
    void widen_ranges(const double *X, i64 n_rows, i64 n_features, const i64 *query, double *low,
                      double *high) noexcept nogil
    void count_and_add(const double *X, i64 n_rows, i64 n_features, const i64 *query,
                       double *counts, double *sums) noexcept nogil
    void add_squared_deviations(const double *X, i64 n_rows, i64 n_features, const i64 *query,
                                const double *centre, double *sums) noexcept nogil
    void fill_scaled(const double *X, i64 n_rows, i64 n_features, const i64 *query,
                     const double *shift, const double *scale, double *out) noexcept nogil
    # exceeded_i += how many rows of its query a row exceeds less how many exceed it
    void compare_rows(const double *X, i64 n_rows, i64 n_features, const i64 *query,
                      double *exceeded) noexcept nogil
    void replace_blanks(double *X, i64 n_rows, i64 n_features, const i64 *query,
                        const double *filling) noexcept nogil


def find_extremes(const double[:, ::1] X, const i64[::1] query, double[:, ::1] low,
                  double[:, ::1] high):
    """Lower and raise the extremes, (n_queries, n_features), to those of the rows."""
    if X.shape[0] and X.shape[1]:
        with nogil:
            widen_ranges(&X[0, 0], X.shape[0], X.shape[1], &query[0], &low[0, 0], &high[0, 0])


def add_known(const double[:, ::1] X, const i64[::1] query, double[:, ::1] counts,
              double[:, ::1] sums):
    """Count the known values of each query and feature, and add them up."""
    if X.shape[0] and X.shape[1]:
        with nogil:
            count_and_add(&X[0, 0], X.shape[0], X.shape[1], &query[0], &counts[0, 0], &sums[0, 0])


def add_squares(const double[:, ::1] X, const i64[::1] query, const double[:, ::1] centre,
                double[:, ::1] sums):
    """Add up the squares of the known values of each query and feature less its centre."""
    if X.shape[0] and X.shape[1]:
        with nogil:
            add_squared_deviations(&X[0, 0], X.shape[0], X.shape[1], &query[0], &centre[0, 0],
                                   &sums[0, 0])


def shift_and_scale(const double[:, ::1] X, const i64[::1] query, const double[:, ::1] shift,
                    const double[:, ::1] scale, double[:, ::1] out):
    """Take the shift of its query off each value, then divide by the scale; 0 where that is 0.

    Values are finite or NaN, which stays NaN.
    """
    if X.shape[0] and X.shape[1]:
        with nogil:
            fill_scaled(&X[0, 0], X.shape[0], X.shape[1], &query[0], &shift[0, 0], &scale[0, 0],
                        &out[0, 0])


def fill_blanks(double[:, ::1] X, const i64[::1] query, const double[:, ::1] filling):
    """Replace each NaN by what its query and feature have, (n_queries, n_features)."""
    if X.shape[0] and X.shape[1]:
        with nogil:
            replace_blanks(&X[0, 0], X.shape[0], X.shape[1], &query[0], &filling[0, 0])


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

    With d the number of known values below a value less those above it, of k, its rank is
    ``(d + k - 1) / 2`` from 0 to k - 1, the mean of its ties.
    """
    cdef Py_ssize_t n_rows = X.shape[0], n_features = X.shape[1], i, other, j
    cdef const double *x
    cdef const double *y
    cdef double *above
    cdef double *k
    cdef double value, rank
    cdef double[::1] known = np.empty(n_features)
    if n_rows == 0 or n_features == 0:
        return
    out[:, :] = 0.0
    with nogil:
        compare_rows(&X[0, 0], n_rows, n_features, &query[0], &out[0, 0])
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
