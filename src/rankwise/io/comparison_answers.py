"""Who won in each row of a table of comparisons, in whichever form the table has."""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.checks import is_blank
from rankwise.core.comparisons.column import Column
from rankwise.core.comparisons.comparison_table import FIRST_WON, SECOND_WON, TIED
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.io.comparison_cells import TableCells, flags_of
from rankwise.io.comparison_columns import ColumnRoles, ComparisonColumns
from rankwise.io.who_won import LEFT_OUT, MIXED, ResultColumn, margins_of, read_codes


@final
@dataclass(frozen=True, eq=False)
class TableAnswers:
    """Both items of every row, who won, and what a cell of results says beyond that.

    Parameters
    ----------
    first, second : Column
    outcome : (n_rows,)
        1, 0 or -1, or `LEFT_OUT`.
    words : dict of str to int
        What the different cells of the result were read as.
    margin : (n_rows,) or None
        By how much the winner led, where the result says so.
    share : (n_rows, 3) or None
        How much of the row says that the first won, that the second won, and that they tied, for
        soft labels and counts; all outcomes are then 1.
    """

    first: Column
    second: Column
    outcome: IntArray
    words: dict[str, int]
    margin: FloatArray | None = None
    share: FloatArray | None = None

    def take(self, rows: IntArray) -> "TableAnswers":
        """Keep the given rows."""
        return TableAnswers(
            self.first.take(rows),
            self.second.take(rows),
            self.outcome[rows],
            self.words,
            None if self.margin is None else self.margin[rows],
            None if self.share is None else self.share[rows],
        )

    @property
    def table(self) -> tuple[Column, Column, IntArray]:
        """What a table of comparisons begins with."""
        return self.first, self.second, self.outcome


def read_answers_of(
    cells: TableCells, roles: ColumnRoles, given: ComparisonColumns, *, skip_bad: bool
) -> TableAnswers:
    """Return both items and the outcome, from whichever form the table has."""
    first, second = cells.coded(roles.first), cells.coded(roles.second)
    try:
        found = _answers_of_form(cells, roles, given, first, second, skip_bad=skip_bad)
    except DataFileError as error:
        blank = _blanks(first)
        if len(first) != len(second) or not (blank | _blanks(second)).any():
            raise
        blank |= _blanks(second)
        raise DataFileError(
            f"Comparisons must name both items: row {int(np.argmax(blank))} leaves one blank, one "
            f"of {blank.sum()} such rows. Leave them out (skip_bad=True)."
        ) from error
    if not skip_bad:
        return found
    # leave out comparisons of an item with itself, or with nothing
    names = [np.array([str(v).strip() for v in c.values.tolist()])[c.code] for c in (first, second)]
    is_bad = (names[0] == names[1]) | _blanks(first) | _blanks(second)
    return replace(found, outcome=np.where(is_bad, LEFT_OUT, found.outcome))


def _blanks(column: Column) -> NDArray[np.bool_]:
    return np.array([is_blank(value) for value in column.values.tolist()], dtype=bool)[column.code]


def _answers_of_form(
    cells: TableCells,
    roles: ColumnRoles,
    given: ComparisonColumns,
    first: Column,
    second: Column,
    *,
    skip_bad: bool,
) -> TableAnswers:
    if roles.points is not None:
        return TableAnswers(first, second, _ahead(cells, roles.points), {})
    if roles.tallies is not None:
        tally = _tally(cells, roles.tallies)
        outcome = np.where(tally.any(axis=1), FIRST_WON, LEFT_OUT).astype(np.intp)
        return TableAnswers(first, second, outcome, {}, share=tally)
    if roles.flags is not None:
        return TableAnswers(first, second, _flagged(cells, roles.flags), {})
    if roles.result is not None:
        around_zero = _around_zero(cells, roles.result, given)
        if around_zero is not None:
            outcome = np.sign(around_zero).astype(np.intp)
            return TableAnswers(first, second, outcome, {}, np.abs(around_zero))
        share = _soft_labels(cells, roles.result, given)
        if share is not None:
            won = np.full(len(first), FIRST_WON, dtype=np.intp)
            three = np.stack([share, 1.0 - share, np.zeros(len(share))], axis=1)
            return TableAnswers(first, second, won, {}, share=three)
        column = ResultColumn(roles.result, roles.first, roles.second, read_codes(given.codes))
        outcome, words, margin = outcomes_of(cells, column, first, second, skip_bad=skip_bad)
        return TableAnswers(first, second, outcome, words, margin)
    outcome = np.full(len(first), FIRST_WON, dtype=np.intp)
    if roles.tied is not None:
        outcome[flags_of(cells.coded(roles.tied))] = TIED
    return TableAnswers(first, second, outcome, {})


def _flagged(cells: TableCells, flags: tuple[str, ...]) -> IntArray:
    """Return the outcome that a column each says yes to; none where all say no."""
    said = np.stack([flags_of(cells.coded(name)) for name in flags])
    if (said.sum(axis=0) > 1).any():
        row = int(np.argmax(said.sum(axis=0) > 1))
        raise DataFileError(
            f"At most one of the columns {list(flags)} must say yes in each row: row {row} says "
            "more than one."
        )
    meaning = np.array([FIRST_WON, SECOND_WON, TIED])[: len(flags)]
    return np.where(said.any(axis=0), meaning[said.argmax(axis=0)], LEFT_OUT).astype(np.intp)


def _around_zero(cells: TableCells, name: str, given: ComparisonColumns) -> FloatArray | None:
    """Return numbers in favour of the first item, if the caller says whom they favour."""
    if given.favours is None:
        return None
    if given.favours not in ("a", "b"):
        raise InvalidInputError(f"`favours` must be 'a' or 'b': got {given.favours!r}.")
    values = cells.floats("result", name)
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        raise DataFileError(f"The column {name!r} must hold numbers: row {row} holds none.")
    values = values - given.middle
    return values if given.favours == "a" else -values


def _tally(cells: TableCells, columns: tuple[str, ...]) -> FloatArray:
    """Return how often the first won, the second won, and neither, in every row; blanks are 0."""
    found = np.zeros((len(cells.coded(columns[0])), 3))
    for place, name in enumerate(columns):
        found[:, place] = np.nan_to_num(cells.floats(name, name), nan=0.0)
    if found.min() < 0.0 or not np.isfinite(found).all():
        row = int(np.argmax((found < 0.0).any(axis=1) | ~np.isfinite(found).all(axis=1)))
        raise DataFileError(
            f"The columns {list(columns)} must count wins: row {row} holds {found[row].tolist()}."
        )
    return found


def _soft_labels(cells: TableCells, name: str, given: ComparisonColumns) -> FloatArray | None:
    """Return probabilities that the first won; None for anything else than shares."""
    if given.codes is not None:
        return None
    try:
        values = cells.floats("result", name)
    except DataFileError:
        return None
    inside = (values > 0.0) & (values < 1.0) & (values != 0.5)
    is_share = bool(np.isfinite(values).all()) and bool(inside.any())
    return values if is_share and values.min() >= 0.0 and values.max() <= 1.0 else None


def outcomes_of(
    cells: TableCells,
    column: ResultColumn,
    first: Column,
    second: Column,
    *,
    skip_bad: bool = False,
) -> tuple[IntArray, dict[str, int], FloatArray | None]:
    """Return what every row of a column says about the two items, and how its cells were read."""
    said = cells.coded(column.name)
    for name, values in ((column.first, first), (column.second, second)):
        if len(values) != len(said):
            raise DataFileError(
                "Columns must have one entry per comparison: "
                f"{column.name!r} has {len(said)}, {name!r} has {len(values)}."
            )
    outcome, read_as = column.outcomes(said, first, second, skip_bad=skip_bad)
    # how each cell was read, where it was read as one thing
    shown = [str(value) for value in said.values.tolist()]
    words = dict(zip(shown, read_as, strict=True))
    words = {word: meaning for word, meaning in words.items() if meaning != MIXED}
    return outcome, words, margins_of(said)


def _ahead(cells: TableCells, points: tuple[str, str]) -> IntArray:
    """Return who has more points."""
    ahead, behind = (cells.floats(name, name) for name in points)
    is_known = np.isfinite(ahead - behind)
    if not is_known.all():
        raise DataFileError(
            f"The columns {list(points)} must hold the points of every row: row "
            f"{int(np.argmin(is_known))} has none. Leave out games that were not played."
        )
    return np.sign(ahead - behind).astype(np.intp)
