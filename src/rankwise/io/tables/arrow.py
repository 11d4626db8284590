"""Tables whose columns pyarrow holds: Parquet files, and Excel workbooks through fastexcel."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import is_missing
from rankwise.core.comparisons.column import Column
from rankwise.core.errors import DataFileError, RankwiseError, extra
from rankwise.io.files import refuse_stream, replacing
from rankwise.io.tables.table import (
    DataTable,
    arrow_ids,
    arrow_numbers,
    pyarrow_with,
    read_by_column,
)

PARQUET_SUFFIXES = {".parquet", ".pq"}
EXCEL_SUFFIXES = {".xlsx"}
HEAD_ROWS = 1
"""Rows above the first item, so that errors name rows as Excel does."""

_DESCRIBED = b"rankwise"
"""The key of the metadata under which files of ours describe their columns."""

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
            return read_by_column(
                (numbers, ids),
                self.path,
                file.metadata.num_rows,
                lambda name: arrow_numbers(self.path, name, _column(file, name)),
                lambda name: arrow_ids(self.path, name, _column(file, name)),
            )

    def cells(self, columns: Sequence[str]) -> list[list[str]]:
        """Return the cells of columns as text."""
        with open_parquet(self.path) as file:
            found = [_column(file, name).to_pylist() for name in columns]
        return [_texts(column) for column in found]

    def coded(self, columns: Sequence[str]) -> list[Column]:
        """Return the different cells of columns as text, which Arrow finds: a tenth of the time."""
        with open_parquet(self.path) as file:
            return [_different_texts(_column(file, name)) for name in columns]


def _texts(cells: list[Any]) -> list[str]:
    return ["" if is_missing(cell) else str(cell) for cell in cells]


def _different_texts(column: Any) -> Column:
    """Return the different cells of an Arrow column as text, in the order of their first rows."""
    arrow, _, _ = pyarrow_with("Reading Parquet files")
    kind = column.type
    try:
        plain = column.cast(kind.value_type) if arrow.types.is_dictionary(kind) else column
        chunks = plain.dictionary_encode(null_encoding="encode").chunks
    except (arrow.ArrowException, AttributeError):  # cells that have no order, such as lists
        return Column.of(np.array(_texts(column.to_pylist()), dtype=object))
    if not chunks:
        return Column(np.empty(0, dtype=object), np.empty(0, dtype=np.intp))
    # all chunks have one dictionary, the last one all of it; different cells may be one text
    words = _texts(chunks[-1].dictionary.to_pylist())
    place = {word: number for number, word in enumerate(dict.fromkeys(words))}
    number = np.array([place[word] for word in words], dtype=np.intp)
    # NumPy's own way in: that of pyarrow would load pandas
    code = np.concatenate([np.from_dlpack(chunk.indices) for chunk in chunks])
    return Column(np.array(list(place), dtype=object), number[code])


def write_parquet(path: str | os.PathLike[str], columns: Mapping[str, ArrayLike]) -> None:
    """Write named columns to a Parquet file with checksums of its pages, atomically.

    The names, types and number of rows are written a second time, since pages alone have checksums.
    """
    arrow, parquet, _ = pyarrow_with("Writing Parquet files")
    table = arrow.table({name: np.asarray(values) for name, values in columns.items()})
    table = table.replace_schema_metadata({_DESCRIBED: _description(table.schema, len(table))})
    with replacing(path) as new:
        parquet.write_table(table, new, write_page_checksum=True)


@contextmanager
def open_parquet(path: str | os.PathLike[str]) -> Iterator[Any]:
    """Open a file; errors in its content become a `DataFileError`.

    Checksums of pages are verified where the file has them.
    """
    arrow, parquet, _ = pyarrow_with("Reading Parquet files")
    refuse_stream(path, "be read as Parquet")
    try:
        with parquet.ParquetFile(path, page_checksum_verification=True) as file:
            known = (file.schema_arrow.metadata or {}).get(_DESCRIBED)
            found = _description(file.schema_arrow, file.metadata.num_rows)
            if known is not None and known != found:
                raise ValueError("its columns are not those that were written")
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


def _description(schema: Any, n_rows: int) -> bytes:
    columns = [[field.name, str(field.type)] for field in schema]
    return json.dumps({"columns": columns, "rows": n_rows}).encode()


def _column(file: Any, name: str) -> Any:
    column = file.read(columns=[name]).column(name)
    if len(column) != file.metadata.num_rows:
        raise ValueError(f"{name!r} has {len(column)} of {file.metadata.num_rows} rows")
    return column


@final
@dataclass(frozen=True, eq=False)
class ExcelTable(DataTable):
    """Read the columns of the first sheet of a workbook; its first row holds their names."""

    path: str | os.PathLike[str]
    sheet: Any

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Read the first sheet."""
        with extra("Reading Excel files", "fastexcel and pyarrow", "tables"):
            import fastexcel  # noqa: PLC0415 - the one boundary of the optional dependency
            import pyarrow  # noqa: F401, PLC0415 - fastexcel hands the cells over in its arrays
        with open(path, "rb") as stream:
            content = stream.read()
        try:
            return cls(path, fastexcel.read_excel(content).load_sheet(0).to_arrow())
        except fastexcel.FastExcelError as error:
            reason = str(error).partition("\n")[0]
            raise DataFileError(
                f"{os.fspath(path)}: expected an Excel workbook, got one that is damaged or of "
                f"another format ({reason})."
            ) from error

    @property
    def names(self) -> list[str]:
        """The cells of the first row."""
        return list(self.sheet.schema.names)

    def read(
        self, numbers: Sequence[Sequence[str]], ids: Sequence[str]
    ) -> tuple[list[FloatArray], list[NDArray[Any]]]:
        """Read columns of numbers and columns of ids."""
        n_rows = self.sheet.num_rows
        return read_by_column((numbers, ids), self.path, n_rows, self._numbers, self._ids)

    def cells(self, columns: Sequence[str]) -> list[list[str]]:
        """Return the cells of columns as text."""
        found = [self.sheet.column(name).to_pylist() for name in columns]
        return [["" if c is None else str(_whole(c)) for c in column] for column in found]

    def _numbers(self, name: str) -> FloatArray:
        return arrow_numbers(self.path, name, self.sheet.column(name), HEAD_ROWS)

    def _ids(self, name: str) -> NDArray[Any]:
        """Return ids; Excel holds every number as a fraction, whole ones become integers."""
        found = arrow_ids(self.path, name, self.sheet.column(name), HEAD_ROWS)
        return np.asarray([_whole(cell) for cell in found.tolist()])


def _whole(cell: Any) -> Any:
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell
