"""Rows of features: products, sums over columns, and updates of conjugate gradients.

Each kernel works on a part of the rows, so that threads run parts side by side. Rows are in
compressed form: values in single or double precision, columns numbered in 16 or 32 bits. Sums are
in double precision. A product is added up in four sums, so that an addition need not wait for
the one before. One kernel is for a few dense rows.
"""

import numpy as np

from libc.stdint cimport int32_t as i32, int64_t as i64, uint8_t as u8, uint16_t as u16
from libc.string cimport memcpy

ctypedef fused Value:
    float
    double

ctypedef fused Index:
    u16
    i32


cdef inline double dot(const Value *data, const Index *indices, Py_ssize_t k, Py_ssize_t end,
                       const double *w, Py_ssize_t width) noexcept nogil:
    """Multiply a row with every ``width``-th entry of w, beginning with the first."""
    cdef double a = 0.0, b = 0.0, c = 0.0, d = 0.0
    while k + 4 <= end:
        a += data[k] * w[width * <Py_ssize_t>indices[k]]
        b += data[k + 1] * w[width * <Py_ssize_t>indices[k + 1]]
        c += data[k + 2] * w[width * <Py_ssize_t>indices[k + 2]]
        d += data[k + 3] * w[width * <Py_ssize_t>indices[k + 3]]
        k += 4
    while k < end:
        a += data[k] * w[width * <Py_ssize_t>indices[k]]
        k += 1
    return (a + b) + (c + d)


cdef inline void add(const Value *data, const Index *indices, Py_ssize_t begin, Py_ssize_t end,
                     double v, double *out) noexcept nogil:
    """Add a row, times v, to a vector."""
    cdef Py_ssize_t k
    for k in range(begin, end):
        out[indices[k]] += v * data[k]


# --- the order of columns -----------------------------------------------------------------------


def count_columns(const i32[::1] indices, Py_ssize_t first, Py_ssize_t last, double[::1] out):
    """Add to ``out`` how often each column comes among the entries first to last."""
    cdef Py_ssize_t k
    with nogil:
        for k in range(first, last):
            out[indices[k]] += 1.0


def renumber_columns(const i32[::1] indices, const u16[::1] number, Py_ssize_t first,
                     Py_ssize_t last, u16[::1] out):
    """Put the new number of the column of each of the entries first to last into ``out``."""
    cdef Py_ssize_t k
    with nogil:
        for k in range(first, last):
            out[k] = number[indices[k]]


def pack_rows(const double[::1] data, const i32[::1] indices, const i64[::1] indptr,
              const u16[::1] number, Py_ssize_t n_near, Py_ssize_t first, Py_ssize_t last,
              float[::1] out, u16[::1] out_indices):
    """Round the rows first to last under new column numbers, in each row those below n_near first.

    Every entry is written to both ends, of which one moves on: no branch has to be guessed.
    """
    cdef Py_ssize_t longest = longest_row(indptr, first, last), i, k, near, n_far, is_near
    cdef u16[::1] far_columns = np.empty(longest, dtype=np.uint16)
    cdef float[::1] far_values = np.empty(longest, dtype=np.float32)
    cdef u16 column
    with nogil:
        for i in range(first, last):
            near = indptr[i]
            n_far = 0
            for k in range(indptr[i], indptr[i + 1]):
                column = number[indices[k]]
                out[near] = far_values[n_far] = <float>data[k]
                out_indices[near] = far_columns[n_far] = column
                is_near = column < n_near
                near += is_near
                n_far += 1 - is_near
            for k in range(n_far):
                out[near + k] = far_values[k]
                out_indices[near + k] = far_columns[k]


cdef Py_ssize_t longest_row(const i64[::1] indptr, Py_ssize_t first,
                            Py_ssize_t last) noexcept nogil:
    """Return the largest number of entries of the rows first to last."""
    cdef Py_ssize_t i, longest = 0
    for i in range(first, last):
        if indptr[i + 1] - indptr[i] > longest:
            longest = indptr[i + 1] - indptr[i]
    return longest


def copy_rows(const u8[:, ::1] entries, const i64[::1] indptr, const i64[::1] items,
              const i64[::1] starts, Py_ssize_t first, Py_ssize_t last, u8[:, ::1] out):
    """Copy the rows ``items[first:last]`` to where ``starts`` says that they begin.

    Entries of any type are given by their bytes, (n_entries, n_bytes).
    """
    cdef Py_ssize_t i, n_entries
    with nogil:
        for i in range(first, last):
            n_entries = starts[i + 1] - starts[i]
            if n_entries:
                memcpy(&out[starts[i], 0], &entries[indptr[items[i]], 0],
                       n_entries * entries.shape[1])


# --- products -----------------------------------------------------------------------------------


def dense_products(const double[:, ::1] X, const double[::1] w, double[::1] out):
    """Put ``X @ w`` of dense rows into ``out``, every row added up in the same order."""
    cdef Py_ssize_t n_columns = X.shape[1], i, k
    cdef const double *x
    cdef const double *factor
    cdef double a, b, c, d
    if n_columns == 0:
        out[:] = 0.0
        return
    with nogil:
        factor = &w[0]
        for i in range(X.shape[0]):
            x = &X[i, 0]
            a = b = c = d = 0.0
            k = 0
            while k + 4 <= n_columns:
                a += x[k] * factor[k]
                b += x[k + 1] * factor[k + 1]
                c += x[k + 2] * factor[k + 2]
                d += x[k + 3] * factor[k + 3]
                k += 4
            while k < n_columns:
                a += x[k] * factor[k]
                k += 1
            out[i] = (a + b) + (c + d)


def row_products(const Value[::1] data, const Index[::1] indices, const i64[::1] indptr,
                 const double[::1] w, Py_ssize_t first, Py_ssize_t last, double[::1] out):
    """Put ``X @ w`` into the rows first to last of ``out``."""
    cdef Py_ssize_t i
    cdef const Value *values = &data[0] if data.shape[0] else NULL
    cdef const Index *columns = &indices[0] if data.shape[0] else NULL
    cdef const double *factors = &w[0] if w.shape[0] else NULL
    with nogil:
        for i in range(first, last):
            out[i] = dot(values, columns, indptr[i], indptr[i + 1], factors, 1)


def add_rows(const Value[::1] data, const Index[::1] indices, const i64[::1] indptr,
             const double[::1] v, Py_ssize_t first, Py_ssize_t last, double[::1] out):
    """Add ``X.T @ v`` over the rows first to last to ``out``."""
    cdef Py_ssize_t i
    cdef const Value *values = &data[0] if data.shape[0] else NULL
    cdef const Index *columns = &indices[0] if data.shape[0] else NULL
    cdef double *sums = &out[0] if out.shape[0] else NULL
    with nogil:
        for i in range(first, last):
            if v[i] != 0.0:
                add(values, columns, indptr[i], indptr[i + 1], v[i], sums)


cdef inline void few_products(const Value *data, const Index *indices, Py_ssize_t begin,
                              Py_ssize_t end, const double *W, double *out,
                              Py_ssize_t width) noexcept nogil:
    """Multiply a row with up to eight columns of W."""
    cdef double[8] sums
    cdef double value
    cdef const double *factors
    cdef Py_ssize_t j, k
    for j in range(width):
        sums[j] = 0.0
    for k in range(begin, end):
        value = data[k]
        factors = W + width * <Py_ssize_t>indices[k]
        for j in range(width):
            sums[j] += value * factors[j]
    for j in range(width):
        out[j] = sums[j]


def row_products_of_few(const Value[::1] data, const Index[::1] indices, const i64[::1] indptr,
                        const double[:, ::1] W, Py_ssize_t first, Py_ssize_t last,
                        double[:, ::1] out):
    """Put ``X @ W`` for four or eight columns of W, a cache line, into the rows of ``out``."""
    cdef Py_ssize_t i, width = W.shape[1]
    cdef const Value *values = &data[0] if data.shape[0] else NULL
    cdef const Index *columns = &indices[0] if data.shape[0] else NULL
    cdef const double *factors = &W[0, 0] if W.shape[0] else NULL
    with nogil:
        for i in range(first, last):
            if width == 8:
                few_products(values, columns, indptr[i], indptr[i + 1], factors, &out[i, 0], 8)
            else:
                few_products(values, columns, indptr[i], indptr[i + 1], factors, &out[i, 0], 4)


def add_rows_of_many(const Value[::1] data, const Index[::1] indices, const i64[::1] indptr,
                     const double[:, ::1] V, Py_ssize_t first, Py_ssize_t last,
                     double[:, ::1] out):
    """Add ``X.T @ V`` over the rows first to last to ``out``."""
    cdef Py_ssize_t i, j, k, width = V.shape[1]
    cdef double value
    cdef double *sums
    cdef const double *factors
    if width == 0:
        return
    with nogil:
        for i in range(first, last):
            factors = &V[i, 0]
            for k in range(indptr[i], indptr[i + 1]):
                value = data[k]
                sums = &out[indices[k], 0]
                for j in range(width):
                    sums[j] += value * factors[j]


# --- sums over groups of rows -------------------------------------------------------------------


def add_squares(const Value[::1] data, const Index[::1] indices, const i64[::1] indptr,
                const double[::1] weight, Py_ssize_t first, Py_ssize_t last, double[::1] out):
    """Add the weighted sums of squares of each column over the rows first to last to ``out``."""
    cdef Py_ssize_t i, k
    with nogil:
        for i in range(first, last):
            for k in range(indptr[i], indptr[i + 1]):
                out[indices[k]] += weight[i] * <double>data[k] * data[k]


def add_group_rows(const Value[::1] data, const Index[::1] indices, const i64[::1] indptr,
                   const i64[::1] group, const double[::1] weight, double[:, ::1] out):
    """Add each row, times its weight, to the row of ``out`` of its group, -1 for none."""
    cdef Py_ssize_t i
    cdef const Value *values = &data[0] if data.shape[0] else NULL
    cdef const Index *columns = &indices[0] if data.shape[0] else NULL
    if out.shape[1] == 0:
        return
    with nogil:
        for i in range(group.shape[0]):
            if group[i] >= 0:
                add(values, columns, indptr[i], indptr[i + 1], weight[i], &out[group[i], 0])


def add_group_squares(const Value[::1] data, const Index[::1] indices, const i64[::1] indptr,
                      const i64[::1] items, const i64[::1] starts, const double[::1] weight,
                      const double[::1] factor, Py_ssize_t first, Py_ssize_t last,
                      double[::1] out):
    """Add the squares of the weighted sums of the rows of the groups first to last, times factors.

    The rows of group g are ``items[starts[g]]`` to ``items[starts[g + 1] - 1]``.
    """
    cdef double[::1] sums = np.zeros(out.shape[0])
    cdef Py_ssize_t g, i, k, p, column
    cdef const Value *values = &data[0] if data.shape[0] else NULL
    cdef const Index *columns = &indices[0] if data.shape[0] else NULL
    cdef double *totals = &sums[0] if out.shape[0] else NULL
    with nogil:
        for g in range(first, last):
            # the sums of the group
            for p in range(starts[g], starts[g + 1]):
                i = items[p]
                add(values, columns, indptr[i], indptr[i + 1], weight[i], totals)
            # are squared once a column, and left at zero for the next group
            for p in range(starts[g], starts[g + 1]):
                i = items[p]
                for k in range(indptr[i], indptr[i + 1]):
                    column = columns[k]
                    out[column] += factor[g] * totals[column] * totals[column]
                    totals[column] = 0.0


# --- X.T @ L @ X @ w in one pass ----------------------------------------------------------------


def groupwise_pass(const Value[::1] data, const Index[::1] indices, const i64[::1] indptr,
                   const i64[::1] group, const double[::1] slope, const double[::1] weight,
                   const double[::1] centre, const double[::1] pull, Py_ssize_t first,
                   Py_ssize_t last, double[::1] both):
    """Add ``X.T @ v`` for v affine in ``X @ w`` group by group, reading each row from memory once.

    ``v_i = slope_i (x_i w - centre_g) + weight_i pull_g``; rows of group -1 take no part. The
    entries of ``both`` are w_0, sum_0, w_1, sum_1 and so on: what a product brings into the cache
    is what the way back adds to.
    """
    cdef Py_ssize_t i, k, g
    cdef double v
    cdef const Value *values = &data[0] if data.shape[0] else NULL
    cdef const Index *columns = &indices[0] if data.shape[0] else NULL
    cdef double *entries = &both[0] if both.shape[0] else NULL
    with nogil:
        for i in range(first, last):
            g = group[i]
            if g >= 0:
                v = dot(values, columns, indptr[i], indptr[i + 1], entries, 2)
                v = slope[i] * (v - centre[g]) + weight[i] * pull[g]
                for k in range(indptr[i], indptr[i + 1]):
                    entries[2 * <Py_ssize_t>columns[k] + 1] += v * values[k]


def block_pass(const Value[::1] data, const Index[::1] indices, const i64[::1] indptr,
               const double[::1] w, const i64[::1] starts, const i64[::1] first_group,
               const i64[::1] group, const double[::1] slope, const double[::1] share,
               const double[::1] between_slope, const double[::1] between_share,
               Py_ssize_t first, Py_ssize_t last, double[::1] out):
    """Add ``X.T @ L @ X @ w`` block by block, so that the second look at a row finds it in cache.

    The rows of block b are ``starts[b]`` to ``starts[b + 1]``, its groups those from
    ``first_group[b]``. Rows are drawn to the mean m of their group with ``slope``, and these means
    to their own mean, weighted by ``between_share``, with ``between_slope``.
    """
    cdef double[::1] products = np.empty(longest_row(starts, first, last))
    cdef double[::1] means = np.empty(longest_row(first_group, first, last))
    cdef Py_ssize_t b, i, g, begin, end, groups, n_groups
    cdef double product, block_mean, mean, v
    cdef const Value *values = &data[0] if data.shape[0] else NULL
    cdef const Index *columns = &indices[0] if data.shape[0] else NULL
    cdef const double *factors = &w[0] if w.shape[0] else NULL
    cdef double *sums = &out[0] if out.shape[0] else NULL
    with nogil:
        for b in range(first, last):
            begin = starts[b]
            end = starts[b + 1]
            groups = first_group[b]
            n_groups = first_group[b + 1] - groups
            # the products of the rows, and their mean in each group
            for g in range(n_groups):
                means[g] = 0.0
            for i in range(begin, end):
                if group[i] >= 0:
                    product = dot(values, columns, indptr[i], indptr[i + 1], factors, 1)
                    products[i - begin] = product
                    means[group[i] - groups] += share[i] * product
            # the mean of the means
            block_mean = 0.0
            for g in range(n_groups):
                block_mean += between_share[groups + g] * means[g]
            # and the way back
            for i in range(begin, end):
                g = group[i]
                if g >= 0:
                    mean = means[g - groups]
                    v = slope[i] * (products[i - begin] - mean) + share[i] * between_slope[g] * (
                        mean - block_mean
                    )
                    add(values, columns, indptr[i], indptr[i + 1], v, sums)


# --- conjugate gradients of many shifts ---------------------------------------------------------


def update_shifts(double[:, ::1] W, double[:, ::1] P, const double[::1] r, const i64[::1] active,
                  const double[::1] step_length, const double[::1] zeta, const double[::1] beta,
                  Py_ssize_t first, Py_ssize_t last):
    """Take the active shifts, rows of W, one step along their directions P, and renew these.

    ``W_l += step_length_l P_l`` and then ``P_l = zeta_l r + beta_l P_l``, in one pass over the
    columns first to last.
    """
    cdef Py_ssize_t k, j, shift
    cdef double direction, step, z, b
    cdef double *weights
    cdef double *directions
    if first >= last:
        return
    with nogil:
        for k in range(active.shape[0]):
            shift = active[k]
            weights = &W[shift, 0]
            directions = &P[shift, 0]
            step = step_length[shift]
            z = zeta[shift]
            b = beta[shift]
            for j in range(first, last):
                direction = directions[j]
                weights[j] += step * direction
                directions[j] = z * r[j] + b * direction
