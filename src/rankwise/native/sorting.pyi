import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray

def sort_items(
    first: int,
    last: int,
    starts: IntArray,
    keys: FloatArray,
    base: NDArray[np.uint32],
    depth: int,
    order: NDArray[np.uint32],
    tied: NDArray[np.uint8],
) -> None: ...
def sort_by_key(keys: FloatArray, order: IntArray, starts: IntArray) -> None: ...
def has_ties(keys: FloatArray, order: IntArray, starts: IntArray) -> bool: ...
def number_keys(
    keys: FloatArray, order: IntArray, starts: IntArray
) -> tuple[IntArray, IntArray]: ...
