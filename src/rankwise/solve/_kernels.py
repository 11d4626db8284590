"""Compiled loops of conjugate gradients: passes over sparse rows, and updates of many shifts.

Each of them works on a part of the rows and releases the interpreter, so that threads run parts
side by side. Stored values and indices are of any width; sums are in float64. Indices are made
unsigned, which removes the test for negative ones. A product is added up in four sums by hand, so
that an addition need not wait for the one before; the compiler is not allowed to regroup anything,
since its gathers in vector registers are slower than plain loads on current processors.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import njit

_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)
_FOUR, _EIGHT = np.uint64(4), np.uint64(8)


@njit(cache=True, inline="always")
def _dot(data: Any, indices: Any, begin: Any, end: Any, w: Any, width: Any) -> float:
    """Multiply a row with every ``width``-th entry of w, beginning with the first."""
    k, end = np.uint64(begin), np.uint64(end)
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    while k + _FOUR <= end:
        a += data[k] * w[width * np.uint64(indices[k])]
        b += data[k + _ONE] * w[width * np.uint64(indices[k + _ONE])]
        c += data[k + _TWO] * w[width * np.uint64(indices[k + _TWO])]
        d += data[k + _THREE] * w[width * np.uint64(indices[k + _THREE])]
        k += _FOUR
    while k < end:
        a += data[k] * w[width * np.uint64(indices[k])]
        k += _ONE
    return (a + b) + (c + d)


@njit(cache=True, inline="always")
def _add(data: Any, indices: Any, begin: Any, end: Any, v: Any, out: Any) -> None:
    for k in range(np.uint64(begin), np.uint64(end)):
        out[np.uint64(indices[k])] += v * data[k]


@njit(cache=True, nogil=True)
def count_columns(indices: NDArray, first: int, last: int, out: FloatArray) -> None:
    """Add to ``out`` how often each column comes among the entries first to last."""
    for k in range(first, last):
        out[np.uint64(indices[k])] += 1.0


@njit(cache=True, nogil=True)
def renumber_columns(
    indices: NDArray, number: NDArray, first: int, last: int, out: NDArray
) -> None:
    """Put the new number of the column of each of the entries first to last into ``out``."""
    for k in range(first, last):
        out[k] = number[np.uint64(indices[k])]


@njit(cache=True, nogil=True)
def pack_rows(
    data: NDArray, indices: NDArray, indptr: NDArray, number: NDArray, n_near: int,
    first: int, last: int, out: NDArray, out_indices: NDArray,
) -> None:  # fmt: skip
    """Copy the rows first to last under new column numbers, in each row those below n_near first.

    Every entry is written to both ends, of which one moves on: no branch has to be guessed.
    """
    longest = 0
    for i in range(first, last):
        longest = max(longest, indptr[i + 1] - indptr[i])
    far_values, far_columns = np.empty(longest, out.dtype), np.empty(longest, out_indices.dtype)
    for i in range(first, last):
        near, n_far = np.uint64(indptr[i]), np.uint64(0)
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            column = number[np.uint64(indices[k])]
            out[near] = far_values[n_far] = data[k]
            out_indices[near] = far_columns[n_far] = column
            is_near = np.uint64(column < n_near)
            near += is_near
            n_far += _ONE - is_near
        for k in range(n_far):
            out[near + k] = far_values[k]
            out_indices[near + k] = far_columns[k]


@njit(cache=True, nogil=True)
def row_products(
    data: NDArray, indices: NDArray, indptr: NDArray, w: FloatArray, first: int, last: int,
    out: FloatArray,
) -> None:  # fmt: skip
    """Put ``X @ w`` into the rows first to last of ``out``."""
    for i in range(first, last):
        out[i] = _dot(data, indices, indptr[i], indptr[i + 1], w, _ONE)


@njit(cache=True, nogil=True)
def add_rows(
    data: NDArray, indices: NDArray, indptr: NDArray, v: FloatArray, first: int, last: int,
    out: FloatArray,
) -> None:  # fmt: skip
    """Add ``X.T @ v`` over the rows first to last to ``out``."""
    for i in range(first, last):
        if v[i] != 0.0:
            _add(data, indices, indptr[i], indptr[i + 1], v[i], out)


@njit(cache=True, nogil=True)
def copy_rows(
    data: NDArray, indices: NDArray, indptr: NDArray, items: IntArray, starts: IntArray, first: int,
    last: int, out: NDArray, out_indices: NDArray,
) -> None:  # fmt: skip
    """Copy the rows ``items[first:last]`` to where ``starts`` says that they begin."""
    for i in range(first, last):
        begin, to = np.uint64(indptr[items[i]]), np.uint64(starts[i])
        for k in range(np.uint64(starts[i + 1]) - to):
            out[to + k] = data[begin + k]
            out_indices[to + k] = indices[begin + k]


@njit(cache=True, nogil=True)
def gather_columns(W: FloatArray, order: IntArray, out: FloatArray) -> None:
    """Set the first columns of ``out`` to ``W[:, order].T``."""
    for j in range(len(order)):
        for k in range(len(W)):
            out[j, k] = W[k, np.uint64(order[j])]


@njit(cache=True, nogil=True)
def scatter_columns(values: FloatArray, order: IntArray, out: FloatArray) -> None:
    """Set ``out[:, order] = values.T``."""
    for j in range(len(order)):
        for k in range(len(out)):
            out[k, np.uint64(order[j])] = values[j, k]


@njit(cache=True, nogil=True)
def row_products_of_four(
    data: NDArray, indices: NDArray, indptr: NDArray, W: FloatArray, first: int, last: int,
    out: FloatArray,
) -> None:  # fmt: skip
    """Put ``X @ W`` for four columns of W into the rows first to last of ``out``."""
    flat = W.ravel()
    for i in range(first, last):
        s0 = s1 = s2 = s3 = 0.0
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            value, c = np.float64(data[k]), _FOUR * np.uint64(indices[k])
            s0 += value * flat[c]
            s1 += value * flat[c + _ONE]
            s2 += value * flat[c + _TWO]
            s3 += value * flat[c + _THREE]
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = s0, s1, s2, s3


@njit(cache=True, nogil=True)
def row_products_of_eight(
    data: NDArray, indices: NDArray, indptr: NDArray, W: FloatArray, first: int, last: int,
    out: FloatArray,
) -> None:  # fmt: skip
    """Put ``X @ W`` for eight columns of W, a cache line each row, into rows of ``out``."""
    flat = W.ravel()
    for i in range(first, last):
        s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            value, c = np.float64(data[k]), _EIGHT * np.uint64(indices[k])
            s0 += value * flat[c]
            s1 += value * flat[c + _ONE]
            s2 += value * flat[c + _TWO]
            s3 += value * flat[c + _THREE]
            d = c + _FOUR
            s4 += value * flat[d]
            s5 += value * flat[d + _ONE]
            s6 += value * flat[d + _TWO]
            s7 += value * flat[d + _THREE]
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = s0, s1, s2, s3
        out[i, 4], out[i, 5], out[i, 6], out[i, 7] = s4, s5, s6, s7


@njit(cache=True, nogil=True)
def add_rows_of_many(
    data: NDArray, indices: NDArray, indptr: NDArray, V: FloatArray, first: int, last: int,
    out: FloatArray,
) -> None:  # fmt: skip
    """Add ``X.T @ V`` over the rows first to last to ``out``."""
    for i in range(first, last):
        factors = V[i]
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            value, sums = np.float64(data[k]), out[np.uint64(indices[k])]
            for j in range(len(sums)):
                sums[j] += value * factors[j]


@njit(cache=True, nogil=True)
def add_squares(
    data: NDArray, indices: NDArray, indptr: NDArray, weight: FloatArray, first: int, last: int,
    out: FloatArray,
) -> None:  # fmt: skip
    """Add the weighted sums of squares of each column over the rows first to last to ``out``."""
    for i in range(first, last):
        for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
            out[np.uint64(indices[k])] += weight[i] * np.float64(data[k]) * data[k]


@njit(cache=True)
def add_group_rows(
    data: NDArray, indices: NDArray, indptr: NDArray, group: IntArray, weight: FloatArray,
    out: FloatArray,
) -> None:  # fmt: skip
    """Add each row, times its weight, to the row of ``out`` of its group, -1 for none."""
    for i in range(len(group)):
        if group[i] >= 0:
            _add(data, indices, indptr[i], indptr[i + 1], weight[i], out[group[i]])


@njit(cache=True, nogil=True)
def add_group_squares(
    data: NDArray, indices: NDArray, indptr: NDArray, items: IntArray, starts: IntArray,
    weight: FloatArray, factor: FloatArray, first: int, last: int, out: FloatArray,
) -> None:  # fmt: skip
    """Add the squares of the weighted sums of the rows of the groups first to last, times factors.

    The rows of group g are ``items[starts[g]]`` to ``items[starts[g + 1] - 1]``.
    """
    sums = np.zeros(len(out))
    for g in range(first, last):
        for i in items[starts[g] : starts[g + 1]]:
            _add(data, indices, indptr[i], indptr[i + 1], weight[i], sums)
        for i in items[starts[g] : starts[g + 1]]:
            for k in range(np.uint64(indptr[i]), np.uint64(indptr[i + 1])):
                column = np.uint64(indices[k])
                out[column] += factor[g] * sums[column] * sums[column]
                sums[column] = 0.0


@njit(cache=True, nogil=True)
def groupwise_pass(
    data: NDArray, indices: NDArray, indptr: NDArray, group: IntArray, slope: FloatArray,
    weight: FloatArray, centre: FloatArray, pull: FloatArray, first: int, last: int,
    both: FloatArray,
) -> None:  # fmt: skip
    """Add ``X.T @ v`` for v affine in ``X @ w`` group by group, reading each row from memory once.

    ``v_i = slope_i (x_i w - centre_g) + weight_i pull_g``; rows of group -1 take no part. The
    entries of ``both`` are w_0, sum_0, w_1, sum_1 and so on: what a product brings into the cache
    is what the way back adds to.
    """
    for i in range(first, last):
        g = group[i]
        if g >= 0:
            begin, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
            product = _dot(data, indices, begin, end, both, _TWO)
            v = slope[i] * (product - centre[g]) + weight[i] * pull[g]
            for k in range(begin, end):
                both[_TWO * np.uint64(indices[k]) + _ONE] += v * data[k]


@njit(cache=True, nogil=True)
def block_pass(
    data: NDArray, indices: NDArray, indptr: NDArray, w: FloatArray, starts: IntArray,
    first_group: IntArray, group: IntArray, slope: FloatArray, share: FloatArray,
    between_slope: FloatArray, between_share: FloatArray, max_sizes: tuple[int, int], first: int,
    last: int, out: FloatArray,
) -> None:  # fmt: skip
    """Add ``X.T @ L @ X @ w`` block by block, so that the second look at a row finds it in cache.

    The rows of block b are ``starts[b]`` to ``starts[b + 1]``, its groups those from
    ``first_group[b]``. Rows are drawn to the mean m of their group with ``slope``, and these means
    to their own mean, weighted by ``between_share``, with ``between_slope``. ``max_sizes`` holds
    the largest numbers of rows and of groups of a block.
    """
    values, means = np.empty(max_sizes[0]), np.empty(max_sizes[1])
    for b in range(first, last):
        begin, end = starts[b], starts[b + 1]
        groups = first_group[b]
        n_groups = first_group[b + 1] - groups
        means[:n_groups] = 0.0
        for i in range(begin, end):
            if group[i] >= 0:
                product = _dot(data, indices, indptr[i], indptr[i + 1], w, _ONE)
                values[i - begin] = product
                means[group[i] - groups] += share[i] * product
        block_mean = 0.0
        for g in range(n_groups):
            block_mean += between_share[groups + g] * means[g]
        for i in range(begin, end):
            g = group[i]
            if g >= 0:
                mean = means[g - groups]
                v = slope[i] * (values[i - begin] - mean) + share[i] * between_slope[g] * (
                    mean - block_mean
                )
                _add(data, indices, indptr[i], indptr[i + 1], v, out)


@njit(cache=True, nogil=True)
def update_shifts(
    W: FloatArray, P: FloatArray, r: FloatArray, active: IntArray, step_length: FloatArray,
    zeta: FloatArray, beta: FloatArray, first: int, last: int,
) -> None:  # fmt: skip
    """Take the active shifts, rows of W, one step along their directions P, and renew these.

    ``W_l += step_length_l P_l`` and then ``P_l = zeta_l r + beta_l P_l``, in one pass over the
    columns first to last.
    """
    for l in active:  # noqa: E741
        for j in range(first, last):
            direction = P[l, j]
            W[l, j] += step_length[l] * direction
            P[l, j] = zeta[l] * r[j] + beta[l] * direction
