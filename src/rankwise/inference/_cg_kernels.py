"""Compiled loops of conjugate gradients: passes over sparse rows, and updates of many shifts.

Each of them works on a part of the rows and releases the interpreter, so that threads run parts
side by side. Stored values and indices are of any width; sums are in float64. Indices are made
unsigned, which removes the test for negative ones, and nothing is
regrouped, since gathers in vector registers are slower than plain loads on current processors.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray

ROWS_AT_ONCE = 64
"""Rows whose products are formed before they are added up: long loops of one kind, and in cache."""


@njit(cache=True, inline="always")
def _dot(data: Any, indices: Any, begin: Any, end: Any, w: Any) -> float:
    total = 0.0
    for k in range(np.uint64(begin), np.uint64(end)):
        total += data[k] * w[np.uint64(indices[k])]
    return total


@njit(cache=True, inline="always")
def _add(data: Any, indices: Any, begin: Any, end: Any, v: Any, out: Any) -> None:
    for k in range(np.uint64(begin), np.uint64(end)):
        out[np.uint64(indices[k])] += v * data[k]


@njit(cache=True, nogil=True)
def row_products(
    data: NDArray, indices: NDArray, indptr: NDArray, w: FloatArray, first: int, last: int,
    out: FloatArray,
) -> None:  # fmt: skip
    """Put ``X @ w`` into the rows first to last of ``out``."""
    for i in range(first, last):
        out[i] = _dot(data, indices, indptr[i], indptr[i + 1], w)


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
def affine_pass(
    data: NDArray, indices: NDArray, indptr: NDArray, w: FloatArray, group: IntArray,
    slope: FloatArray, weight: FloatArray, centre: FloatArray, push: FloatArray,
    first: int, last: int, out: FloatArray,
) -> None:  # fmt: skip
    """Add ``X.T @ v`` for v affine in ``X @ w`` group by group, reading each row from memory once.

    ``v_i = slope_i (x_i w - centre_g) + weight_i push_g``; rows of group -1 take no part.
    """
    values = np.empty(ROWS_AT_ONCE)
    for begin in range(first, last, ROWS_AT_ONCE):
        end = min(begin + ROWS_AT_ONCE, last)
        for i in range(begin, end):
            g = group[i]
            if g >= 0:
                product = _dot(data, indices, indptr[i], indptr[i + 1], w)
                values[i - begin] = slope[i] * (product - centre[g]) + weight[i] * push[g]
        for i in range(begin, end):
            if group[i] >= 0:
                _add(data, indices, indptr[i], indptr[i + 1], values[i - begin], out)


@njit(cache=True, nogil=True)
def block_pass(
    data: NDArray, indices: NDArray, indptr: NDArray, w: FloatArray, starts: IntArray,
    first_group: IntArray, group: IntArray, slope: FloatArray, share: FloatArray,
    across: FloatArray, across_share: FloatArray, room: tuple[int, int], first: int, last: int,
    out: FloatArray,
) -> None:  # fmt: skip
    """Add ``X.T @ L @ X @ w`` block by block, so that the second look at a row finds it in cache.

    The rows of block b are ``starts[b]`` to ``starts[b + 1]``, its groups those from
    ``first_group[b]``. Rows are drawn to the mean m of their group with ``slope``, and these means
    to their own mean, weighted by ``across_share``, with ``across``. ``room`` holds the largest
    numbers of rows and of groups of a block.
    """
    values, means = np.empty(room[0]), np.empty(room[1])
    for b in range(first, last):
        begin, end = starts[b], starts[b + 1]
        groups = first_group[b]
        n_groups = first_group[b + 1] - groups
        means[:n_groups] = 0.0
        for i in range(begin, end):
            if group[i] >= 0:
                product = _dot(data, indices, indptr[i], indptr[i + 1], w)
                values[i - begin] = product
                means[group[i] - groups] += share[i] * product
        top = 0.0
        for g in range(n_groups):
            top += across_share[groups + g] * means[g]
        for i in range(begin, end):
            g = group[i]
            if g >= 0:
                mean = means[g - groups]
                v = slope[i] * (values[i - begin] - mean) + share[i] * across[g] * (mean - top)
                _add(data, indices, indptr[i], indptr[i + 1], v, out)


@njit(cache=True, nogil=True)
def advance(
    X: FloatArray, P: FloatArray, r: FloatArray, active: IntArray, step: FloatArray,
    zeta: FloatArray, turn: FloatArray, first: int, last: int,
) -> None:  # fmt: skip
    """Move the active shifts, rows of X, along their directions P, and turn these, in one pass.

    ``X_l += step_l P_l`` and then ``P_l = zeta_l r + turn_l P_l``, for the columns first to last.
    """
    for l in active:  # noqa: E741
        for j in range(first, last):
            direction = P[l, j]
            X[l, j] += step[l] * direction
            P[l, j] = zeta[l] * r[j] + turn[l] * direction
