from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray

OK: int
BAD_TARGET: int
BAD_QID: int
BAD_FEATURE: int
BAD_VALUE: int

def parse_lines(
    text: NDArray[np.uint8],
    largest: float,
    y: FloatArray,
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: FloatArray,
    qid: NDArray[np.int64],
    comment: NDArray[np.int64],
    line: NDArray[np.int64],
    long_numbers: NDArray[np.int64],
) -> tuple[int, int, int, int, int, int]: ...
def parse_json_rows(text: NDArray[np.uint8], begin: int, out: FloatArray) -> tuple[int, int]: ...
def parse_table(
    text: NDArray[np.uint8],
    begin: int,
    end: int,
    delimiter: int,
    row: int,
    place: NDArray[np.int64],
    step: NDArray[np.int64],
    out: FloatArray,
    word: NDArray[np.int64],
    spans: NDArray[np.int64],
    may_be_blank: bool,
) -> int: ...
def parse_integers(
    text: NDArray[np.uint8], spans: NDArray[np.int64], out: NDArray[np.int64]
) -> bool: ...
def scatter_rows(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    values: NDArray[Any],
    offset: int,
    X: NDArray[Any],
) -> None: ...
