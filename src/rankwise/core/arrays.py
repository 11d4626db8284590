"""Array types shared by every layer."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]
BoolArray: TypeAlias = NDArray[np.bool_]


def freeze(array: NDArray) -> NDArray:
    """Return a read-only view of ``array``, so that frozen values stay what they are."""
    view = array.view()
    view.flags.writeable = False
    return view
