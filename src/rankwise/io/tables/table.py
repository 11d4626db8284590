"""Files with named columns: their interface, and columns of pyarrow, imported here alone."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.comparisons.column import Column
from rankwise.core.errors import DataFileError, extra
from rankwise.io.data import date_hint

_NUMERIC_TYPES = {
    *(f"{sign}int{n_bits}" for sign in ("", "u") for n_bits in (8, 16, 32, 64)),
    *("halffloat", "float", "double", "bool"),
}


class CellError(DataFileError):
    """A cell, or a whole column, does not hold what it must."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        place: str,
        column: str,
        expected: str,
        got: str,
        hint: str = "",
    ) -> None:
        where = f"{os.fspath(path)}, {place}, column {column!r}"
        super().__init__(f"{where}: expected {expected}, got {got}.{hint}")
        self.column = column


class DataTable(ABC):
    """Read the columns of a file by their names."""

    @property
    @abstractmethod
    def names(self) -> list[str]:
        """The names of the columns, each once."""

    @abstractmethod
    def read(
        self, numbers: Sequence[Sequence[str]], ids: Sequence[str]
    ) -> tuple[list[FloatArray], list[NDArray[Any]]]:
        """Read columns of finite numbers and columns of ids, none of them with a cell missing.

        Parameters
        ----------
        numbers
            Lists of columns; each list becomes a matrix (n_rows, n_columns).
        ids
            Columns; each becomes a vector, of integers if all cells are integers, else strings.
        """

    @abstractmethod
    def cells(self, columns: Sequence[str]) -> list[list[str]]:
        """Return the cells of each column as text, empty for blanks."""

    def coded(self, columns: Sequence[str]) -> list[Column]:
        """Return the different cells of each column as text, each once."""
        return [Column.of(np.array(words, dtype=object)) for words in self.cells(columns)]

    def words(self, column: str) -> list[str]:
        """Return the cells of one column as text."""
        return self.cells([column])[0]


def pyarrow_with(task: str) -> tuple[Any, Any, Any]:
    """Return pyarrow, its Parquet and its CSV module, which the task needs."""
    with extra(task, "pyarrow", "tables"):
        import pyarrow  # noqa: PLC0415 - the one boundary of the optional dependency
        from pyarrow import csv, parquet  # noqa: PLC0415
    return pyarrow, parquet, csv


def arrow_buffer(arrow: Any, text: bytes, start: int) -> Any:
    """Return the text from a position on as a buffer that owns nothing; keep the text alive.

    pyarrow's threads may hold a buffer slightly longer than the call. If the process ends at that
    moment, a buffer that owns a Python object is released without an interpreter, which aborts it.
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


def read_by_column(
    asked: tuple[Sequence[Sequence[str]], Sequence[str]],
    path: str | os.PathLike[str],
    n_rows: int,
    numbers_of: Callable[[str], ArrayLike],
    ids_of: Callable[[str], NDArray[Any]],
) -> tuple[list[FloatArray], list[NDArray[Any]]]:
    """Read columns one at a time: numbers and ids that `DataTable.read` was asked for."""
    if n_rows == 0:
        raise DataFileError(f"{os.fspath(path)}: expected at least one row, got column names only.")
    numbers, ids = asked
    matrices = [np.empty((n_rows, len(columns))) for columns in numbers]
    for columns, matrix in zip(numbers, matrices, strict=True):
        for j, name in enumerate(columns):
            matrix[:, j] = numbers_of(name)
    return matrices, [ids_of(name) for name in ids]
