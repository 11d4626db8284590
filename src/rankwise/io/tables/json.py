"""Tables in JSON: an array of objects, an object of columns, or JSON lines."""

import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, final

from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import DataFileError
from rankwise.io.files import format_suffix, open_read
from rankwise.io.numbers import integers_or_texts
from rankwise.io.tables.table import CellError, DataTable, read_by_column

LINES_SUFFIXES = {".jsonl", ".ndjson"}
JSON_SUFFIXES = {".json", *LINES_SUFFIXES}


@final
@dataclass(frozen=True, eq=False)
class JsonTable(DataTable):
    """Hold the cells of a JSON file by column; objects and arrays inside rows are left out.

    A column whose cells are all objects or arrays, such as a conversation, is no column.
    """

    path: str | os.PathLike[str]
    columns: dict[str, list[Any]]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Load a plain or compressed file."""
        try:
            with open_read(path) as stream:
                if format_suffix(path) in LINES_SUFFIXES:
                    return cls(path, _by_column(path, _lines(path, stream)))
                content = json.load(stream)
        except DataFileError:  # which is a ValueError, and names its line
            raise
        except (ValueError, RecursionError) as error:
            raise DataFileError(f"{os.fspath(path)}: expected JSON, got {error}.") from error
        if isinstance(content, dict):
            return cls(path, _of_columns(path, content))
        if not isinstance(content, list):
            raise DataFileError(
                f"{os.fspath(path)}: expected an array of objects, one for each row, got "
                f"{type(content).__name__}."
            )
        return cls(path, _by_column(path, enumerate(content, 1)))

    @property
    def names(self) -> list[str]:
        """The keys of the rows, in the order in which they appear first."""
        return list(self.columns)

    def read(
        self, numbers: Sequence[Sequence[str]], ids: Sequence[str]
    ) -> tuple[list[FloatArray], list[NDArray[Any]]]:
        """Read columns of numbers and columns of ids."""
        n_rows = len(next(iter(self.columns.values()), ()))
        return read_by_column((numbers, ids), self.path, n_rows, self._numbers, self._ids)

    def cells(self, columns: Sequence[str]) -> list[list[str]]:
        """Return the cells of columns as text."""
        return [[_text(cell) for cell in self.columns[name]] for name in columns]

    def _numbers(self, name: str) -> list[float]:
        values = []
        for row, cell in enumerate(self.columns[name], 1):
            try:
                value = float(cell)
            except (TypeError, ValueError, OverflowError):
                value = math.nan
            if not math.isfinite(value):
                raise CellError(self.path, f"row {row}", name, "a finite number", repr(cell))
            values.append(value)
        return values

    def _ids(self, name: str) -> NDArray[Any]:
        words = self.cells([name])[0]
        if "" in words:
            raise CellError(self.path, f"row {words.index('') + 1}", name, "an id", "nothing")
        return integers_or_texts(words)


def _lines(path: str | os.PathLike[str], stream: Iterable[bytes]) -> Iterator[tuple[int, Any]]:
    """Yield the number and the object of every line that is not blank."""
    for number, line in enumerate(stream, 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError as error:
                raise DataFileError(
                    f"{os.fspath(path)}, line {number}: expected a JSON object, got {error}."
                ) from error


def _by_column(
    path: str | os.PathLike[str], rows: Iterable[tuple[int, Any]]
) -> dict[str, list[Any]]:
    """Return the plain cells of objects by their keys; missing ones are None."""
    columns: dict[str, list[Any]] = {}
    n_rows = 0
    for number, row in rows:
        if not isinstance(row, dict):
            raise DataFileError(
                f"{os.fspath(path)}, row {number}: expected an object with a key for each column, "
                f"got {type(row).__name__}."
            )
        for name, cell in row.items():
            if not isinstance(cell, dict | list):
                column = columns.setdefault(name, [])
                column.extend([None] * (n_rows - len(column)))
                column.append(cell)
        n_rows += 1
    for column in columns.values():
        column.extend([None] * (n_rows - len(column)))
    return columns


def _of_columns(path: str | os.PathLike[str], content: dict[str, Any]) -> dict[str, list[Any]]:
    """Return the columns of an object that holds them as arrays, or as objects by row."""
    columns = {
        name: list(cells.values()) if isinstance(cells, dict) else cells
        for name, cells in content.items()
    }
    if not all(isinstance(cells, list) for cells in columns.values()):
        raise DataFileError(
            f"{os.fspath(path)}: expected an array of objects, one for each row, or an object of "
            "columns of one length, got an object of something else."
        )
    lengths = {name: len(cells) for name, cells in columns.items()}
    if len(set(lengths.values())) > 1:
        raise DataFileError(f"{os.fspath(path)}: expected columns of one length, got {lengths}.")
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    return _by_column(path, enumerate(rows, 1))


def _text(cell: Any) -> str:
    """Return a cell as text, empty for blanks, NaN among them."""
    if cell is None or cell != cell:
        return ""
    return str(cell).strip()
