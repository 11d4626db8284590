"""Tables in Parquet files, read and written by pyarrow."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import DataFileError, MissingExtraError, RankwiseError
from rankwise.io.files import refuse_stream, replacing
from rankwise.io.tables.table import CellError, DataTable

PARQUET_SUFFIXES = {".parquet", ".pq"}

_NUMERIC_TYPES = {
    *(f"{sign}int{n_bits}" for sign in ("", "u") for n_bits in (8, 16, 32, 64)),
    *("halffloat", "float", "double", "bool"),
}

_OF_DAMAGED_FILES = (ValueError, TypeError, LookupError, OverflowError, MemoryError)
"""What pyarrow and the arrays of its numbers raise where sizes or names in a file are damaged."""


@final
@dataclass(frozen=True, eq=False)
class ParquetTable(DataTable):
    """Read columns of a Parquet file one at a time, and only those asked for."""

    path: str | os.PathLike[str]
    schema: list[str]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Read the schema of a file."""
        with open_parquet(path) as file:
            return cls(path, list(file.schema_arrow.names))

    @property
    def names(self) -> list[str]:
        """The names in the schema."""
        return self.schema

    def read(
        self, numbers: Sequence[Sequence[str]], ids: Sequence[str]
    ) -> tuple[list[FloatArray], list[NDArray[Any]]]:
        """Read columns of numbers and columns of ids."""
        with open_parquet(self.path) as file:
            n_rows = file.metadata.num_rows
            matrices = [np.empty((n_rows, len(columns))) for columns in numbers]
            for columns, matrix in zip(numbers, matrices, strict=True):
                for j, name in enumerate(columns):
                    matrix[:, j] = self.numbers(name, _column(file, name))
            return matrices, [self.ids(name, _column(file, name)) for name in ids]

    def words(self, column: str) -> list[str]:
        """Return the cells of a column as text."""
        with open_parquet(self.path) as file:
            cells = _column(file, column).to_pylist()
        return ["" if cell is None or cell != cell else str(cell) for cell in cells]

    def numbers(self, name: str, column: Any, first: int = 0) -> FloatArray:
        """Return a column, or its part from row ``first`` on, as finite numbers."""
        return arrow_numbers(self.path, name, column, first)

    def ids(self, name: str, column: Any, first: int = 0) -> NDArray[Any]:
        """Return a column, or its part from row ``first`` on, as ids."""
        return arrow_ids(self.path, name, column, first)


def arrow_numbers(
    path: str | os.PathLike[str], name: str, column: Any, first: int = 0
) -> FloatArray:
    """Return an Arrow column, whose first cell is in row ``first`` + 1, as finite numbers."""
    if str(column.type) not in _NUMERIC_TYPES:
        raise CellError(path, "all rows", name, "numbers", str(column.type))
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


def write_parquet(path: str | os.PathLike[str], columns: Mapping[str, ArrayLike]) -> None:
    """Write named columns to a Parquet file, all or nothing."""
    arrow, parquet = _pyarrow("Writing Parquet files")
    table = arrow.table({name: np.asarray(values) for name, values in columns.items()})
    with replacing(path) as new:
        parquet.write_table(table, new)


@contextmanager
def open_parquet(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Open a file; errors in its content become a `DataFileError`."""
    arrow, parquet = _pyarrow("Reading Parquet files")
    refuse_stream(path, "be read as Parquet")
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except RankwiseError:
        raise
    except (arrow.ArrowException, OSError, *_OF_DAMAGED_FILES) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise DataFileError(
            f"{os.fspath(path)}: expected a Parquet file, got one that is damaged or of another "
            f"format ({error})."
        ) from error


def _column(file: Any, name: str) -> Any:
    return file.read(columns=[name]).column(name)


def _pyarrow(task: str) -> tuple[Any, Any]:
    try:
        import pyarrow  # noqa: PLC0415 - the one boundary of the optional dependency
        from pyarrow import parquet  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError(task, "pyarrow", "tables") from error
    return pyarrow, parquet
