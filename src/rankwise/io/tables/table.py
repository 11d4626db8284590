"""The interface of files with named columns."""

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import DataFileError


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
        """Return the cells of each column as text, empty where there is nothing."""

    def words(self, column: str) -> list[str]:
        """Return the cells of one column as text."""
        return self.cells([column])[0]
