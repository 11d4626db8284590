"""Columns of pyarrow as numbers and ids, and the one place that imports it."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import MissingExtraError
from rankwise.io.columns import date_hint
from rankwise.io.tables.table import CellError

_NUMERIC_TYPES = {
    *(f"{sign}int{n_bits}" for sign in ("", "u") for n_bits in (8, 16, 32, 64)),
    *("halffloat", "float", "double", "bool"),
}


def pyarrow_with(task: str) -> tuple[Any, Any, Any]:
    """Return pyarrow, its Parquet and its CSV module, which the task needs."""
    try:
        import pyarrow  # noqa: PLC0415 - the one boundary of the optional dependency
        from pyarrow import csv, parquet  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(task, "pyarrow", "tables") from error
    return pyarrow, parquet, csv


def arrow_buffer(arrow: Any, text: bytes, start: int) -> Any:
    """Return the text from a place on as a buffer that owns nothing; keep the text meanwhile.

    pyarrow's threads may hold a buffer for a moment longer than the call. One that owns a Python
    object is then released without an interpreter when the process ends just then, which aborts it.
    """
    content = np.frombuffer(text, dtype=np.uint8)
    return arrow.foreign_buffer(content.ctypes.data + start, len(text) - start)


def arrow_numbers(
    path: str | os.PathLike[str], name: str, column: Any, first: int = 0
) -> FloatArray:
    """Return an Arrow column, whose first cell is in row ``first`` + 1, as finite numbers."""
    kind = str(column.type)
    if kind not in _NUMERIC_TYPES:
        hint = date_hint(name) if kind.startswith(("date", "timestamp")) else ""
        raise CellError(path, "all rows", name, "numbers", kind, hint)
    values = np.asarray(column.cast("float64", safe=False))
    _refuse(path, name, ~np.isfinite(values), "a finite number", first)
    return values


def arrow_ids(path: str | os.PathLike[str], name: str, column: Any, first: int = 0) -> NDArray[Any]:
    """Return an Arrow column, whose first cell is in row ``first`` + 1, as ids."""
    _refuse(path, name, np.asarray(column.is_null(nan_is_null=True)), "an id", first)
    return np.asarray(column.to_pylist())


def _refuse(
    path: str | os.PathLike[str], name: str, bad: NDArray[Any], expected: str, first: int
) -> None:
    if bad.any():
        row = f"row {first + int(np.argmax(bad)) + 1}"
        raise CellError(path, row, name, expected, "none (null, NaN or infinity)")
