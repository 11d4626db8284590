"""How much, by whom, when and where: what surrounds the answers of a table of comparisons."""

from dataclasses import replace
from typing import Any

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import is_blank
from rankwise.core.comparisons.column import Column
from rankwise.core.comparisons.comparison_table import TIED, ComparisonTable
from rankwise.core.comparisons.dates import as_days
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.io.comparison_answers import TableAnswers, outcomes_of
from rankwise.io.comparison_cells import TableCells, flags_of
from rankwise.io.comparison_columns import ColumnRoles, ComparisonColumns
from rankwise.io.who_won import NO_ANSWER, ResultColumn

FEWEST_NUMBERED, MOST_WORDS = 5, 30
"""Rows from which consecutive numbers are those of rows; different words of a covariate at most."""


def with_context(
    cells: TableCells,
    roles: ColumnRoles,
    given: ComparisonColumns,
    answers: TableAnswers,
    names: Any,
) -> tuple[ComparisonTable, list[str]]:
    """Add how much, by whom, when and where to the answers; notes say what was done to weights."""
    judge = _judge(cells, roles.judge, is_named=given.judge is not None)
    date, unread_date = _date(cells, roles.date, is_named=given.date is not None)
    roles, weight, notes = _weight(cells, roles, given)
    notes += unread_date
    margin = answers.margin
    if roles.margin is not None:
        margin = cells.floats("margin", roles.margin)
    covariates = _covariates(cells, roles, given)
    at_home = _at_home(cells, roles, answers)
    if at_home is not None:
        covariates["home"] = at_home
    # columns that could not be read, and were not named, stay unread
    read = replace(
        roles,
        judge=None if judge is None else roles.judge,
        date=None if date is None else roles.date,
    ).columns
    table = ComparisonTable.of(
        *answers.table,
        weight=weight,
        margin=margin,
        judge=judge,
        date=date,
        covariates=covariates,
        question=_question(cells, roles.question, is_named=given.question is not None),
        category=None if roles.category is None else cells.coded(roles.category),
        names=names,
        unread=tuple(name for name in cells.columns if name not in read),
    )
    if answers.share is not None:
        table = table.split(answers.share)
        if roles.tallies is None:
            notes.append(f"{roles.result}: probabilities that the first won, as soft labels")
    return table, notes


def _weight(
    cells: TableCells, roles: ColumnRoles, given: ComparisonColumns
) -> tuple[ColumnRoles, FloatArray | None, list[str]]:
    """Return how much each row counts; a column of running numbers is none of counts."""
    notes: list[str] = []
    count = None if roles.count is None else cells.floats("count", roles.count)
    if count is not None and given.count is None and is_running_number(count):
        notes.append(f"{roles.count}: numbers of the rows, not used as counts")
        roles, count = replace(roles, count=None), None
    weight = None if roles.weight is None else cells.floats("weight", roles.weight)
    if weight is not None and (weight > 0.0).any() and (weight != np.round(weight)).any():
        # weights that are no counts: scores vary like those of (sum w)^2 / sum w^2 answers
        weight = weight * (weight.sum() / (weight @ weight))
        notes.append(
            f"weights from {roles.weight}, scaled to their effective number of answers, "
            f"{weight.sum():,.0f}"
        )
    if count is None or weight is None:
        return roles, count if weight is None else weight, notes
    return roles, count * weight, notes


def is_running_number(count: FloatArray) -> bool:
    """Tell whether counts are consecutive numbers, each once: those of rows or games."""
    n_rows = len(count)
    if n_rows < FEWEST_NUMBERED or not np.isfinite(count).all():
        return False
    return bool(np.ptp(count) == n_rows - 1 and len(np.unique(count)) == n_rows)


def _covariates(cells: TableCells, roles: ColumnRoles, given: ComparisonColumns) -> dict[str, Any]:
    """Return covariates, positive in favour of the first item."""
    found: dict[str, Any] = {}
    for name, columns in zip(given.covariates, roles.covariates, strict=True):
        if any(cells.holds_words(column) for column in columns):
            found |= _words_as_covariates(cells, name, columns)
        else:
            values = [cells.floats(column, column) for column in columns]
            found[name] = values[0] if len(values) == 1 else values[0] - values[1]
    for name, columns in zip(given.controls, roles.controls, strict=True):
        if len(columns) != 2:
            raise DataFileError(
                f"`controls` must name what two columns have in common, such as length for "
                f"length_a and length_b: {name!r} is one column. Give it as a covariate."
            )
        one, other = (cells.floats(column, column) for column in columns)
        if not ((one >= 0.0) & (other >= 0.0)).all():
            raise DataFileError(
                f"The columns {list(columns)} must hold numbers that are not negative in every "
                "row, since (a - b) / (a + b) is taken."
            )
        total = one + other
        found[name] = np.divide(one - other, total, out=np.zeros(len(one)), where=total > 0.0)
    return found


def _words_as_covariates(
    cells: TableCells, name: str, columns: tuple[str, ...]
) -> dict[str, FloatArray]:
    """Return a covariate for each word but the most frequent: of the first less of the second."""
    said = [
        np.array([_text_of(v) for v in c.values.tolist()])[c.code]
        for c in map(cells.coded, columns)
    ]
    words, number = np.unique(np.concatenate(said), return_counts=True)
    if len(words) > MOST_WORDS:
        raise DataFileError(
            f"The covariate {name!r} must hold at most {MOST_WORDS} different words: it holds "
            f"{len(words)}."
        )
    rest = [word for word in words.tolist() if word != words[number.argmax()]]
    sides = [(column[:, None] == np.array(rest)).astype(float) for column in said]
    values = sides[0] if len(sides) == 1 else sides[0] - sides[1]
    return {f"{name}={word}": values[:, k] for k, word in enumerate(rest)}


def _text_of(value: Any) -> str:
    return "" if is_blank(value) else str(value).strip()


def _question(cells: TableCells, name: str | None, *, is_named: bool) -> Column | None:
    """Return what was asked; a column found by its name that differs in all rows is none."""
    if name is None:
        return None
    column = cells.coded(name)
    return column if is_named or len(column.values) < len(column) else None


def _judge(cells: TableCells, name: str | None, *, is_named: bool) -> Column | None:
    """Return who judged; a column of blanks that was not named stays unread."""
    judges = None if name is None else cells.coded(name)
    if judges is None or not all(map(is_blank, judges.values.tolist())):
        return judges
    if not is_named:
        return None
    raise DataFileError(
        "The column for `judge` must say who judged: all of its cells are blank. Leave it out."
    )


def _date(
    cells: TableCells, name: str | None, *, is_named: bool
) -> tuple[FloatArray | None, list[str]]:
    """Return the days of a column; one that was not named stays unread if it is unreadable."""
    if name is None:
        return None, []
    dates = cells.of(name)
    try:
        return as_days(dates, len(dates)), []
    except InvalidInputError as error:
        if is_named:
            raise
        return None, [f"{name}: not used as dates: {error}"]


def _at_home(cells: TableCells, roles: ColumnRoles, answers: TableAnswers) -> FloatArray | None:
    """Return 1 where the first item is at home, -1 where the second is, 0 in neutral places."""
    first, second = answers.first, answers.second
    if roles.home is not None:
        remedy = "Write a, b, the name of the item at home, or nothing into it."
        blank = dict.fromkeys(NO_ANSWER, TIED)
        column = ResultColumn(roles.home, roles.first, roles.second, blank, remedy)
        return outcomes_of(cells, column, first, second)[0].astype(np.float64)
    if not roles.at_home:
        return None
    if roles.neutral is None:
        return np.ones(len(first))
    return np.where(flags_of(cells.coded(roles.neutral)), 0.0, 1.0)
