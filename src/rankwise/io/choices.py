"""Read rankings and choices among several items from files, data frames and dictionaries."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, final

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import is_missing
from rankwise.core.comparisons.choice_table import ChoiceTable
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.io.comparisons import (
    COUNT,
    JUDGE,
    WEIGHT,
    ComparisonColumns,
    cells_of,
    columns_of,
    have_two_items,
    names_of_columns,
    read_comparisons,
    refuse_other_columns,
)
from rankwise.io.data import plain_name

RANKED = ("item", "option", "name", "object", "product", "alternative", "player", "driver", "team")
RANK = ("rank", "position", "place", "finish")
LISTED = ("ranking", "task", "set", "question", "race", "event", "round")
BEST, WORST = ("best", "most", "chosen", "choice", "picked"), ("worst", "least")
"""The names by which columns are found, in any spelling."""

_PLACE = re.compile(r"(?:rank|place|position|choice|top)?(\d+)(?:st|nd|rd|th)?")
_OFFERED = re.compile(r"(?:item|option|alternative|product|object|shown)(\d+|[a-z])")


def read_answers(
    source: Any, columns: ComparisonColumns | None = None
) -> ComparisonTable | ChoiceTable:
    """Read comparisons of two items, or rankings and choices, depending on the columns.

    Parameters
    ----------
    source
        A source of `read_comparisons` or `read_choices`, or a result of these.
    columns : ComparisonColumns, optional
        The columns by name; for rankings and choices, those of judge, count and weight.
    """
    given = ComparisonColumns() if columns is None else columns
    if not isinstance(given, ComparisonColumns):
        raise InvalidInputError(
            f"`columns` must be ComparisonColumns(...), or left out: got {type(given).__name__}."
        )
    if isinstance(source, ChoiceTable):
        if given != ComparisonColumns():
            raise InvalidInputError("`columns` must be left out for a ChoiceTable: it has none.")
        return source
    only = ComparisonColumns(judge=given.judge, count=given.count, weight=given.weight)
    names = [] if isinstance(source, ComparisonTable) else names_of_columns(source)
    if given == only and not have_two_items(names):
        has_choices = _Choices(dict.fromkeys(names), given).form is not None
        return read_choices(source, columns) if has_choices else read_comparisons(source, columns)
    return read_comparisons(source, columns)


def read_choices(source: Any, columns: ComparisonColumns | None = None) -> ChoiceTable:
    """Read rankings, or the best (and the worst) items of sets, from a file, a frame or columns.

    A ranking is one row (``rank1``, ``rank2``, ...; blank after its end) or one row per item
    (``person``, ``item``, ``rank``; 1 is the best). A choice is a row with the items offered
    (``item1``, ``item2``, ...), ``best`` and optionally ``worst``.

    Parameters
    ----------
    source
        A CSV, TSV, Parquet or Excel file, a pandas, polars or pyarrow frame, or a dictionary of
        columns.
    columns : ComparisonColumns, optional
        The columns of judge, count and weight by name, in upper or lower case. All other columns
        are found by common names.

    Examples
    --------
    >>> from rankwise.io import read_choices
    >>> read_choices({"rank1": ["tuna", "eel"], "rank2": ["eel", "tuna"], "rank3": ["egg", ""]})
    ChoiceTable(3 choices among 3 items by 2 judges)
    >>> tasted = {"item1": ["x"], "item2": ["y"], "item3": ["z"], "best": ["y"], "worst": ["x"]}
    >>> read_choices(tasted)
    ChoiceTable(2 choices among 3 items by 1 judges)
    """
    refuse_other_columns(columns)
    try:
        return _Choices(columns_of(source), columns or ComparisonColumns()).table()
    except (DataFileError, InvalidInputError) as error:
        if isinstance(source, str | os.PathLike):
            raise DataFileError(f"{os.fspath(source)}: {error}") from None
        raise


@final
@dataclass(frozen=True, eq=False)
class _Choices:
    """Columns that hold rankings or choices, and those named by the caller."""

    columns: Mapping[str, Any]
    given: ComparisonColumns

    def table(self) -> ChoiceTable:
        """Read the form that the columns have."""
        readers = {"long": self._long, "wide": self._wide, "sets": self._sets}
        if self.form is None:
            raise DataFileError(
                "Rankings must have columns rank1, rank2 and so on, or person, item and rank; "
                "choices must have columns item1, item2 and so on, and best: got the columns "
                f"{list(self.columns)}."
            )
        return readers[self.form]()

    @property
    def form(self) -> str | None:
        """Which form the columns have, if any."""
        if self._found(RANKED) and self._found(RANK) and self._groups:
            return "long"
        if len(self._numbered(_PLACE)) > 1:
            return "wide"
        return "sets" if self._found(BEST) and len(self._numbered(_OFFERED)) > 1 else None

    def _long(self) -> ChoiceTable:
        """Read a row for every item of a ranking."""
        item, rank = self._words(self._found(RANKED)), self._numbers(self._found(RANK), "rank")
        keys = list(zip(*(self._words(name) for name in self._groups), strict=True))
        of_key: dict[Any, list[int]] = {}
        for row, key in enumerate(keys):
            of_key.setdefault(key, []).append(row)
        for rows in of_key.values():
            rows.sort(key=rank.__getitem__)
            same = [b for a, b in pairwise(rows) if rank[a] == rank[b]]
            if same:
                raise DataFileError(
                    f"Ranks of one ranking must differ: row {same[0]} has the rank "
                    f"{rank[same[0]]:g} of another row. Write such items as ties of two."
                )
        first = [rows[0] for rows in of_key.values()]
        rankings = [[item[row] for row in rows] for rows in of_key.values()]
        return self._with_context(ChoiceTable.from_rankings, (rankings,), first)

    def _wide(self) -> ChoiceTable:
        """Read a ranking from every row; it ends where a cell is blank."""
        cells = list(zip(*(self._words(name) for name in self._numbered(_PLACE)), strict=True))
        rankings = [[name for name in row if name != ""] for row in cells]
        return self._with_context(ChoiceTable.from_rankings, (rankings,), range(len(cells)))

    def _sets(self) -> ChoiceTable:
        """Read what was offered, the best of it and, if present, the worst."""
        cells = list(zip(*(self._words(name) for name in self._numbered(_OFFERED)), strict=True))
        sets = [[name for name in row if name != ""] for row in cells]
        best, worst = self._words(self._found(BEST)), self._found(WORST)
        rows = range(len(sets))
        if worst is None:
            return self._with_context(ChoiceTable.from_best, (sets, best), rows)
        chosen = (sets, best, self._words(worst))
        return self._with_context(ChoiceTable.from_best_worst, chosen, rows)

    def _with_context(self, build: Any, arguments: Any, rows: Any) -> ChoiceTable:
        """Build the table with the judge and the weight of some rows."""
        kept, judge = list(rows), self._judge
        who = None if judge is None else np.array(self._words(judge), dtype=object)[kept]
        table: ChoiceTable = build(*arguments, judge=who, weight=self._weight(kept))
        return table.leaving(tuple(name for name in self.columns if name not in self._used))

    @property
    def _used(self) -> set[str | None]:
        by_form: dict[str | None, list[str | None]] = {
            "long": [self._found(RANKED), self._found(RANK), *self._groups],
            "wide": [*self._numbered(_PLACE)],
            "sets": [self._found(BEST), self._found(WORST), *self._numbered(_OFFERED)],
        }
        names = by_form[self.form]
        return {*names, self._judge, self._found(COUNT), self._found(WEIGHT)}

    def _weight(self, rows: list[int]) -> FloatArray | None:
        """Return the product of count and weight of some rows."""
        named = [(self.given.count, COUNT), (self.given.weight, WEIGHT)]
        found = [self._required(name) if name else self._found(usual) for name, usual in named]
        parts = [self._numbers(name, "count")[rows] for name in found if name is not None]
        return np.prod(parts, axis=0) if parts else None

    @property
    def _judge(self) -> str | None:
        return self._required(self.given.judge) if self.given.judge else self._found(JUDGE)

    @property
    def _groups(self) -> list[str]:
        """The columns that tell rankings in several rows apart."""
        return [name for name in (self._judge, self._found(LISTED)) if name is not None]

    def _found(self, usual: tuple[str, ...]) -> str | None:
        """Return the first column with one of these names, in any spelling."""
        spelt = {plain_name(name): name for name in self.columns}
        return next((spelt[key] for name in usual if (key := plain_name(name)) in spelt), None)

    def _required(self, name: str) -> str:
        found = name if name in self.columns else self._found((name,))
        if found is None:
            raise DataFileError(
                f"Rankings must have a column {name!r}: got the columns {list(self.columns)}."
            )
        return found

    def _numbered(self, pattern: re.Pattern[str]) -> list[str]:
        """Return the columns of a pattern by their numbers or letters; none if any is missing."""
        found = {}
        for name in self.columns:
            match = pattern.fullmatch(plain_name(name))
            if match is not None:
                mark = match[1]
                found[int(mark) if mark.isdigit() else ord(mark) - ord("a") + 1] = name
        whole = sorted(found) == list(range(1, len(found) + 1))
        return [found[number] for number in sorted(found)] if whole else []

    def _words(self, name: str | None) -> list[Any]:
        """Return the cells of a column, "" where there is nothing."""
        assert name is not None
        return ["" if is_missing(one) else one for one in cells_of(self.columns[name]).tolist()]

    def _numbers(self, name: str | None, role: str) -> FloatArray:
        words = self._words(name)
        try:
            return np.array(words, dtype=np.float64)
        except ValueError as error:
            raise DataFileError(
                f"The column for `{role}` must hold a number in every row: {error}."
            ) from error
