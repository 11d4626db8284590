"""Tables in Excel workbooks, read by fastexcel."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import DataFileError, MissingExtraError
from rankwise.io.tables.arrow import arrow_ids, arrow_numbers
from rankwise.io.tables.table import DataTable

EXCEL_SUFFIXES = {".xlsx"}
HEAD_ROWS = 1
"""Rows above the first item, so that errors name rows as Excel does."""


@final
@dataclass(frozen=True, eq=False)
class ExcelTable(DataTable):
    """Read the columns of the first sheet of a workbook; its first row holds their names."""

    path: str | os.PathLike[str]
    sheet: Any

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Read the first sheet."""
        try:
            import fastexcel  # noqa: PLC0415 - the one boundary of the optional dependency
            import pyarrow  # noqa: F401, PLC0415 - fastexcel hands the cells over in its arrays
        except ImportError as error:
            package = "fastexcel and pyarrow"
            raise MissingExtraError("Reading Excel files", package, "tables") from error
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
        matrices = [np.empty((self.sheet.num_rows, len(columns))) for columns in numbers]
        for columns, matrix in zip(numbers, matrices, strict=True):
            for j, name in enumerate(columns):
                column = self.sheet.column(name)
                matrix[:, j] = arrow_numbers(self.path, name, column, HEAD_ROWS)
        return matrices, [self._ids(name) for name in ids]

    def cells(self, columns: Sequence[str]) -> list[list[str]]:
        """Return the cells of columns as text."""
        found = [self.sheet.column(name).to_pylist() for name in columns]
        return [["" if c is None else str(_whole(c)) for c in column] for column in found]

    def _ids(self, name: str) -> NDArray[Any]:
        """Return ids; Excel holds every number as a fraction, whole ones become integers."""
        found = arrow_ids(self.path, name, self.sheet.column(name), HEAD_ROWS)
        return np.asarray([_whole(cell) for cell in found.tolist()])


def _whole(cell: Any) -> Any:
    return int(cell) if isinstance(cell, float) and cell.is_integer() else cell
