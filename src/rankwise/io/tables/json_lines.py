"""Tables in JSON lines: an object per row, its keys the names of the columns."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.io.data import hint_for
from rankwise.io.files import open_read
from rankwise.io.numbers import bad_line, decode
from rankwise.io.tables.table import CellError, DataTable, refuse_empty

JSON_SUFFIXES = {".jsonl", ".ndjson"}


@final
@dataclass(frozen=True, eq=False)
class JsonLinesTable(DataTable):
    """Read columns of objects, held in memory; a key that an object lacks is a blank.

    Parameters
    ----------
    path : path
        The file.
    rows : list of dict
        The objects.
    """

    path: str | os.PathLike[str]
    rows: list[dict[str, Any]]

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Read all lines; blank ones are ignored."""
        rows = []
        with open_read(path) as stream:
            for number, line in enumerate(stream.read().splitlines(), start=1):
                if line.strip():
                    rows.append(_object(path, number, line))
        refuse_empty(path, len(rows))
        return cls(path, rows)

    @property
    def names(self) -> list[str]:
        """The keys, in order of first appearance."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def read(
        self, numbers: Sequence[Sequence[str]], ids: Sequence[str]
    ) -> tuple[list[FloatArray], list[NDArray[Any]]]:
        """Read columns of numbers and columns of ids."""
        matrices = [np.empty((len(self.rows), len(columns))) for columns in numbers]
        for columns, matrix in zip(numbers, matrices, strict=True):
            for j, name in enumerate(columns):
                matrix[:, j] = self._numbers(name)
        return matrices, [self._ids(name) for name in ids]

    def cells(self, columns: Sequence[str]) -> list[list[str]]:
        """Return the cells of columns as text."""
        return [[_text(row.get(name)) for row in self.rows] for name in columns]

    def _numbers(self, name: str) -> list[float]:
        found = [row.get(name) for row in self.rows]
        for row, cell in enumerate(found, start=1):
            if not isinstance(cell, int | float) or not np.isfinite(cell):
                hint = hint_for(_text(cell), name)
                raise CellError(
                    self.path, f"row {row}", name, "a finite number", _shown(cell), hint
                )
        return [float(cell) for cell in found if cell is not None]

    def _ids(self, name: str) -> NDArray[Any]:
        found = [row.get(name) for row in self.rows]
        for row, cell in enumerate(found, start=1):
            if cell is None:
                raise CellError(self.path, f"row {row}", name, "an id", "none")
        whole = all(isinstance(cell, int) for cell in found)
        return np.array(found if whole else [_text(cell) for cell in found])


def _object(path: str | os.PathLike[str], number: int, line: bytes) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    plain = isinstance(found, dict) and not any(
        isinstance(cell, list | dict) for cell in found.values()
    )
    if not plain:
        raise bad_line(path, number, "a JSON object of texts and numbers", decode(line))
    return dict(found)


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell)


def _shown(cell: Any) -> str:
    return "none" if cell is None else repr(cell)
