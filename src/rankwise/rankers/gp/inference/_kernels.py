"""Compiled loops over comparisons: the two steps of a sweep that are not dense algebra."""

import numpy as np
from numba import njit

from rankwise.core.arrays import FloatArray, IntArray


@njit(cache=True)
def laplacian_product(
    R: FloatArray, first: IntArray, second: IntArray, weight: FloatArray, tail: int
) -> FloatArray:
    """Return L R for the graph Laplacian L of the weighted pairs, never forming L.

    Row i of R is zero from column ``i + tail`` on, which halves the work for a square R.
    O(n_pairs n_columns).
    """
    product = np.zeros_like(R)
    n_columns = R.shape[1]
    for pair in range(len(first)):
        i = np.uint64(first[pair])
        j = np.uint64(second[pair])
        end = min(n_columns, max(first[pair], second[pair]) + tail)
        for k in range(np.uint64(end)):
            flow = weight[pair] * (R[i, k] - R[j, k])
            product[i, k] += flow
            product[j, k] -= flow
    return product


@njit(cache=True, fastmath={"reassoc", "contract"})
def squared_distances(V: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
    """Return |V_i - V_j|^2 for every pair (i, j) of rows. O(n_pairs n_columns).

    The rows are contiguous; regrouping the sum lets it run in vector registers.
    """
    distances = np.empty(len(first))
    for pair in range(len(first)):
        a = V[first[pair]]
        b = V[second[pair]]
        total = 0.0
        for k in range(len(a)):
            difference = a[k] - b[k]
            total += difference * difference
        distances[pair] = total
    return distances
