"""Array types shared by every layer."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]
BoolArray: TypeAlias = NDArray[np.bool_]
Matrix: TypeAlias = Any
"""Rows of features: a dense array or a SciPy CSR array, whose types have no common base."""


def freeze(array: NDArray) -> NDArray:
    """Return a read-only view of ``array``, so that frozen values stay what they are."""
    view = array.view()
    view.flags.writeable = False
    return view


def sum_by(index: IntArray, values: FloatArray, length: int) -> FloatArray:
    """Sum the values that share an index, for indices 0 to length - 1."""
    totals: FloatArray = np.bincount(index, values, length).astype(float, copy=False)
    return totals
