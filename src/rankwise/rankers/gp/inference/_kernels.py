"""Compiled loops over comparisons."""

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import njit


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
