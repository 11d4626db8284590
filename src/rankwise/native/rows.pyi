from typing import Any

from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray

def count_columns(indices: NDArray[Any], first: int, last: int, out: FloatArray) -> None: ...
def renumber_columns(
    indices: NDArray[Any], number: NDArray[Any], first: int, last: int, out: NDArray[Any]
) -> None: ...
def pack_rows(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: IntArray,
    number: NDArray[Any],
    n_near: int,
    first: int,
    last: int,
    out: NDArray[Any],
    out_indices: NDArray[Any],
) -> None: ...
def copy_rows(
    entries: NDArray[Any],
    indptr: IntArray,
    items: IntArray,
    starts: IntArray,
    first: int,
    last: int,
    out: NDArray[Any],
) -> None: ...
def dense_products(X: FloatArray, w: FloatArray, out: FloatArray) -> None: ...
def row_products(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: IntArray,
    w: FloatArray,
    first: int,
    last: int,
    out: FloatArray,
) -> None: ...
def add_rows(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: IntArray,
    v: FloatArray,
    first: int,
    last: int,
    out: FloatArray,
) -> None: ...
def row_products_of_few(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: IntArray,
    W: FloatArray,
    first: int,
    last: int,
    out: FloatArray,
) -> None: ...
def add_rows_of_many(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: IntArray,
    V: FloatArray,
    first: int,
    last: int,
    out: FloatArray,
) -> None: ...
def add_squares(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: IntArray,
    weight: FloatArray,
    first: int,
    last: int,
    out: FloatArray,
) -> None: ...
def add_group_rows(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: IntArray,
    group: IntArray,
    weight: FloatArray,
    out: FloatArray,
) -> None: ...
def add_group_squares(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: IntArray,
    items: IntArray,
    starts: IntArray,
    weight: FloatArray,
    factor: FloatArray,
    first: int,
    last: int,
    out: FloatArray,
) -> None: ...
def groupwise_pass(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: IntArray,
    group: IntArray,
    slope: FloatArray,
    weight: FloatArray,
    centre: FloatArray,
    pull: FloatArray,
    first: int,
    last: int,
    both: FloatArray,
) -> None: ...
def block_pass(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: IntArray,
    w: FloatArray,
    starts: IntArray,
    first_group: IntArray,
    group: IntArray,
    slope: FloatArray,
    share: FloatArray,
    between_slope: FloatArray,
    between_share: FloatArray,
    first: int,
    last: int,
    out: FloatArray,
) -> None: ...
def update_shifts(
    W: FloatArray,
    P: FloatArray,
    r: FloatArray,
    active: IntArray,
    step_length: FloatArray,
    zeta: FloatArray,
    beta: FloatArray,
    first: int,
    last: int,
) -> None: ...
