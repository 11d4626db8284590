"""Rows that are equal to each other."""

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray


def first_equal(X: FloatArray) -> IntArray:
    """Return for every row the number of the first row that is equal to it. One sort.

    Parameters
    ----------
    X : (n_rows, n_columns)
        Finite numbers.
    """
    rows = np.ascontiguousarray(X + 0.0)  # which makes 0 of -0
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return first[group]
