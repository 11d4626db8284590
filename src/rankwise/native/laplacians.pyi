from typing import Any

from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray

def find_band_start(keys: FloatArray, starts: IntArray, margin: float) -> IntArray: ...
def find_joined(
    keys: FloatArray, grade: IntArray, n_grades: IntArray, starts: IntArray, margin: float
) -> IntArray: ...
def sum_partners(
    values: FloatArray,
    grade: IntArray,
    n_grades: IntArray,
    starts: IntArray,
    band_start: IntArray,
    band_stop: IntArray,
    first: int,
    last: int,
    below: FloatArray,
    above: FloatArray,
) -> None: ...
def apply_band(
    v: FloatArray,
    item: IntArray,
    grade: IntArray,
    weight: FloatArray,
    share: FloatArray,
    degree: FloatArray,
    n_grades: IntArray,
    starts: IntArray,
    band_start: IntArray,
    band_stop: IntArray,
    out: FloatArray,
) -> None: ...
def add_band(
    item: IntArray,
    grade: IntArray,
    weight: FloatArray,
    share: FloatArray,
    degree: FloatArray,
    band_start: IntArray,
    band_stop: IntArray,
    out: FloatArray,
) -> None: ...
def group_means(
    V: NDArray[Any], group: IntArray, weight: FloatArray, mass: FloatArray
) -> FloatArray: ...
def centred_rows(
    V: NDArray[Any], means: FloatArray, group: IntArray, scale: FloatArray, out: FloatArray
) -> None: ...
def reflect_rows(
    V: FloatArray,
    rows: IntArray,
    starts: IntArray,
    axis: FloatArray,
    scale: FloatArray,
    groups: IntArray,
    begins: IntArray,
    out: FloatArray,
) -> None: ...
def anchored_product(Z: NDArray[Any], R: FloatArray, anchor: IntArray, out: FloatArray) -> None: ...
def laplacian_product(
    V: NDArray[Any], first: IntArray, second: IntArray, weight: FloatArray, tail: int
) -> FloatArray: ...
def squared_distances(V: FloatArray, first: IntArray, second: IntArray) -> FloatArray: ...
