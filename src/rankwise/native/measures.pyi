import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray

def midranks(
    first: int,
    last: int,
    starts: IntArray,
    order: NDArray[np.uint32],
    tied: NDArray[np.uint8],
    out: FloatArray,
) -> None: ...
def inner_products(
    first: int,
    last: int,
    starts: IntArray,
    gains: FloatArray,
    discounts: FloatArray,
    cumulative: FloatArray,
    order: NDArray[np.uint32],
    tied: NDArray[np.uint8],
    out: FloatArray,
) -> None: ...
def precision_sums(
    first: int,
    last: int,
    starts: IntArray,
    relevant: NDArray[np.uint8],
    cutoff: int,
    order: NDArray[np.uint32],
    tied: NDArray[np.uint8],
    out: FloatArray,
) -> None: ...
def first_reciprocals(
    first: int,
    last: int,
    starts: IntArray,
    relevant: NDArray[np.uint8],
    cutoff: int,
    order: NDArray[np.uint32],
    tied: NDArray[np.uint8],
    out: FloatArray,
) -> None: ...
def cascade_sums(
    first: int,
    last: int,
    starts: IntArray,
    chances: FloatArray,
    cutoff: int,
    order: NDArray[np.uint32],
    tied: NDArray[np.uint8],
    out: FloatArray,
) -> None: ...
def differing_pairs(
    first: int,
    last: int,
    starts: IntArray,
    keys: FloatArray,
    weight: FloatArray,
    order: NDArray[np.uint32],
    out: FloatArray,
) -> None: ...
def tied_pairs(
    first: int,
    last: int,
    starts: IntArray,
    grades: FloatArray,
    weight: FloatArray,
    order: NDArray[np.uint32],
    tied: NDArray[np.uint8],
    out: FloatArray,
) -> None: ...
def swapped_pairs(
    first: int,
    last: int,
    starts: IntArray,
    grades: FloatArray,
    weight: FloatArray,
    order: NDArray[np.uint32],
    out: FloatArray,
) -> None: ...
def compared_pairs(
    first: int,
    last: int,
    starts: IntArray,
    grades: FloatArray,
    weight: FloatArray,
    scores: FloatArray,
    swapped: FloatArray,
    tied: FloatArray,
) -> None: ...
