"""Columns of a table with every different cell once, so that each is looked at once."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import IntArray
from rankwise.core.checks import is_missing


@final
@dataclass(frozen=True, eq=False)
class Column:
    """Hold every different cell of a column once, and which of them each row holds.

    Parameters
    ----------
    values : (n_values,)
        The different cells; all of them occur, in this order except in columns of text alone.
        Equal cells of different types, such as 1 and True, are different. A missing one is NaN in
        an array of floats, and None elsewhere.
    code : (n_rows,)
        The position in ``values`` of the cell of each row.
    """

    values: NDArray[Any]
    code: IntArray

    @classmethod
    def of(cls, cells: NDArray[Any]) -> Self:
        """Find the different cells, in linear time; cells without a hash are a TypeError.

        Parameters
        ----------
        cells : (n_rows,)
        """
        listed = cells.tolist()
        try:
            values, code = _coded(listed)
        except TypeError:
            listed = [None if _is_unusable(row, cell) else cell for row, cell in enumerate(listed)]
            values, code = _coded(listed)
        # NumPy's numbers cannot be compared with all others
        values = [value.item() if isinstance(value, np.number) else value for value in values]
        missing = np.fromiter(map(is_missing, values), dtype=bool, count=len(values))
        dtype = cells.dtype if cells.dtype.kind in "biuf" else np.dtype(object)
        column = cls(np.fromiter(values, dtype=dtype, count=len(values)), code)
        if missing.any():
            column.values[missing] = np.nan if dtype.kind == "f" else None
            return column._merged(np.where(missing, np.argmax(missing), np.arange(len(values))))
        return column

    def _merged(self, of_values: IntArray) -> Self:
        """Put other values of this column in the place of some."""
        kept, number = np.unique(of_values, return_inverse=True)
        return type(self)(self.values[kept], number[self.code])

    def __len__(self) -> int:
        return len(self.code)

    def take(self, rows: IntArray | slice) -> Self:
        """Keep the given rows, and the values that occur in them."""
        code = self.code[rows]
        first = np.full(len(self.values), len(code))
        first[code[::-1]] = np.arange(len(code))[::-1]  # the last of several stays: the first row
        kept = np.argsort(first)[: np.count_nonzero(first < len(code))]
        number = np.empty(len(self.values), dtype=np.intp)
        number[kept] = np.arange(len(kept))
        return type(self)(self.values[kept], number[code])


def _coded(cells: list[Any]) -> tuple[list[Any], IntArray]:
    """Return the different cells in the order of occurrence, and their numbers in every row."""
    number: defaultdict[Any, int] = defaultdict(count().__next__)
    if len({*map(type, cells)} - {type(None)}) <= 1:
        code = np.fromiter(map(number.__getitem__, cells), dtype=np.intp, count=len(cells))
        return list(number), code
    typed = zip(map(type, cells), cells, strict=True)
    code = np.fromiter(map(number.__getitem__, typed), dtype=np.intp, count=len(cells))
    return [cell for _, cell in number], code


def _is_unusable(row: int, cell: Any) -> bool:
    """Tell whether a cell is missing and has no hash; refuse those that only have no hash."""
    try:
        hash(cell)
    except TypeError as error:
        if is_missing(cell):
            return True
        raise TypeError(f"row {row} holds a {type(cell).__name__}") from error
    return False
