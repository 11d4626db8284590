"""Compiled loops of the least-squares systems."""

import numpy as np
from numba import njit

from rankwise.core.arrays import FloatArray, IntArray


@njit(cache=True)
def anchored_product(Z: FloatArray, R: FloatArray, anchor: IntArray) -> FloatArray:
    """Return ``(Z - Z[anchor]).T @ R`` in one pass.

    This is ``Z.T @ R`` when R sums to zero over the items of each anchor, without the rounding
    errors of offsets, and exactly zero for columns that are constant over them.
    """
    n_items, n_columns = Z.shape
    n_outputs = R.shape[1]
    out = np.zeros((n_outputs, n_columns))
    for i in range(n_items):
        for k in range(n_outputs):
            r = R[i, k]
            if r != 0.0:
                a = anchor[i]
                for j in range(n_columns):
                    out[k, j] += r * (np.float64(Z[i, j]) - Z[a, j])
    return out.T.copy()
