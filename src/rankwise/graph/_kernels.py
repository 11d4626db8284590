"""Compiled loops over groups and pairs of items: one pass each, float64 results for any floats.

What every fit needs gets its arrays from the caller: to make them in a kernel takes as long to
compile as the rest of it.
"""

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import njit


@njit(cache=True)
def group_means(
    V: FloatArray,
    group: IntArray,
    weight: FloatArray,
    mass: FloatArray,
    first: IntArray,
    out: FloatArray,
) -> None:
    """Add the weighted mean of each group of rows to ``out``; rows of group -1 take no part.

    The first row of a group is subtracted before summing, so that an offset costs no digits.
    ``first`` must be -1 everywhere, and becomes the number of that row.
    """
    n_items, n_columns = V.shape
    for i in range(n_items):
        g = group[i]
        if g < 0:
            continue
        f = first[g]
        if f < 0:
            first[g] = i
            continue
        w = weight[i]
        for j in range(n_columns):
            out[g, j] += w * (np.float64(V[i, j]) - V[f, j])
    for g in range(len(mass)):
        f = first[g]
        if f >= 0:
            for j in range(n_columns):
                out[g, j] = V[f, j] + out[g, j] / mass[g]


@njit(cache=True)
def centred_rows(
    V: FloatArray, means: FloatArray, group: IntArray, scale: FloatArray, out: FloatArray
) -> None:
    """Fill in ``scale * (row - mean of its group)``, and zeros for rows of group -1."""
    n_items, n_columns = V.shape
    for i in range(n_items):
        g = group[i]
        if g >= 0:
            c = scale[i]
            for j in range(n_columns):
                out[i, j] = c * (V[i, j] - means[g, j])
        else:
            for j in range(n_columns):
                out[i, j] = 0.0


@njit(cache=True, nogil=True)
def reflect_rows(
    V: FloatArray,
    rows: IntArray,
    starts: IntArray,
    axis: FloatArray,
    scale: FloatArray,
    groups: IntArray,
    begins: IntArray,
    projection: FloatArray,
    out: FloatArray,
) -> None:
    """Reflect groups of rows so that the mean of each falls on its first one, which is left out.

    The rows of group g are ``rows[starts[g]:starts[g + 1]]``; what becomes of those of group
    ``groups[k]`` goes to ``out`` from row ``begins[k]``. The first of them is subtracted from
    the others before anything is summed, which is exact for columns that are nearly constant.
    ``projection`` is room for one row.
    """
    n_columns = np.uint64(V.shape[1])
    for k in range(len(groups)):
        g = groups[k]
        begin, end = starts[g], starts[g + 1]
        first = np.uint64(rows[begin])
        for j in range(n_columns):
            projection[j] = 0.0
        for p in range(begin + 1, end):
            share = axis[p] * axis[p] / (1.0 + axis[begin])
            i = np.uint64(rows[p])
            for j in range(n_columns):
                projection[j] += share * (V[i, j] - V[first, j])
        for p in range(begin + 1, end):
            i, coordinate = np.uint64(rows[p]), np.uint64(begins[k] + p - begin - 1)
            c = scale[p]
            for j in range(n_columns):
                out[coordinate, j] = c * (V[i, j] - V[first, j] - projection[j])


@njit(cache=True)
def anchored_product(Z: FloatArray, R: FloatArray, anchor: IntArray, out: FloatArray) -> None:
    """Add ``R.T @ (Z - Z[anchor])`` to ``out`` in one pass.

    This is ``R.T @ Z`` when R sums to zero over the items of each anchor, without the rounding
    errors of offsets, and exactly zero for columns that are constant over them.
    """
    n_items, n_columns = Z.shape
    n_outputs = R.shape[1]
    for i in range(n_items):
        for k in range(n_outputs):
            r = R[i, k]
            if r != 0.0:
                a = anchor[i]
                for j in range(n_columns):
                    out[k, j] += r * (np.float64(Z[i, j]) - Z[a, j])


@njit(cache=True)
def row_differences(V: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
    """Return ``V[first] - V[second]`` without copies of either."""
    n_columns = V.shape[1]
    out = np.empty((len(first), n_columns))
    for pair in range(len(first)):
        i, j = np.uint64(first[pair]), np.uint64(second[pair])
        for k in range(n_columns):
            out[pair, k] = np.float64(V[i, k]) - V[j, k]
    return out


@njit(cache=True)
def signed_row_sums(
    values: FloatArray, first: IntArray, second: IntArray, n_items: int
) -> FloatArray:
    """Sum for each item the rows of the pairs it is first in, less those it is second in."""
    n_columns = values.shape[1]
    out = np.zeros((n_items, n_columns))
    for pair in range(len(first)):
        i, j = np.uint64(first[pair]), np.uint64(second[pair])
        for k in range(n_columns):
            out[i, k] += values[pair, k]
            out[j, k] -= values[pair, k]
    return out


@njit(cache=True)
def laplacian_product(
    V: FloatArray, first: IntArray, second: IntArray, weight: FloatArray, tail: int
) -> FloatArray:
    """Return L V for the Laplacian L of weighted pairs, without L.

    Row i of V is zero from column ``i + tail`` on, which halves the work for a square V.
    """
    product = np.zeros(V.shape)
    n_columns = V.shape[1]
    for pair in range(len(first)):
        i, j = np.uint64(first[pair]), np.uint64(second[pair])
        end = min(n_columns, max(first[pair], second[pair]) + tail)
        for k in range(np.uint64(end)):
            flow = weight[pair] * (np.float64(V[i, k]) - V[j, k])
            product[i, k] += flow
            product[j, k] -= flow
    return product
