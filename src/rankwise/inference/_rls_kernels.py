"""Compiled loops of the least-squares systems."""

import numpy as np
from numba import njit

from rankwise.core.arrays import FloatArray


@njit(cache=True)
def shifted_product(Z: FloatArray, R: FloatArray) -> FloatArray:
    """Return ``(Z - Z[0]).T @ R`` in one pass: exact for a common offset when R sums to zero."""
    n_items, n_columns = Z.shape
    n_outputs = R.shape[1]
    shift = Z[0].astype(np.float64)
    out = np.zeros((n_outputs, n_columns))
    for i in range(n_items):
        for k in range(n_outputs):
            r = R[i, k]
            if r != 0.0:
                for j in range(n_columns):
                    out[k, j] += r * (Z[i, j] - shift[j])
    return out.T.copy()
