"""Read rankings and choices among several items from files, data frames and dictionaries."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, final

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import is_missing
from rankwise.core.comparisons.choice_table import ChoiceTable
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.io.comparison_cells import AnyColumn, cells_of, columns_of, names_of_columns
from rankwise.io.comparison_columns import (
    COUNT,
    JUDGE,
    WEIGHT,
    ColumnFinder,
    ComparisonColumns,
    have_two_items,
)
from rankwise.io.comparison_reading import alike_names
from rankwise.io.comparisons import (
    located,
    matches_of_several,
    read_comparisons,
    refuse_other_columns,
)
from rankwise.io.data import plain_name
from rankwise.io.match_rows import Matches
from rankwise.io.preflib import is_preflib, read_preflib
from rankwise.io.tables.reading import if_any
from rankwise.io.win_matrix import read_win_matrix

RANKED = ("item", "option", "name", "object", "product", "alternative", "player", "driver", "team")
RANK = ("rank", "position", "place", "finish")
LISTED = ("ranking", "task", "set", "question", "race", "event", "round")
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")
BEST, WORST = ("best", "most", "chosen", "choice", "picked"), ("worst", "least")
"""The names by which columns are found, in any spelling."""

_PLACE = re.compile(
    r"(?:rank|place|position|choice|preference|top)?(\d+)(?:st|nd|rd|th)?(?:choice|place|preference)?"
)
_OFFERED = re.compile(r"(?:item|option|alternative|product|object|shown)(\d+|[a-z])")


def read_answers(
    source: Any, columns: ComparisonColumns | None = None, *, skip_bad: bool = False
) -> ComparisonTable | ChoiceTable:
    """Read comparisons of two items, or rankings and choices, depending on the columns.

    Parameters
    ----------
    source
        A source of `read_comparisons` or `read_choices`, or a result of these.
    columns : ComparisonColumns, optional
        The columns by name; for rankings and choices, those of judge, count and weight.
    skip_bad : bool
        As in `read_comparisons`.
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
    if is_preflib(source) or matches_of_several(source, given) is not None:
        return read_choices(source, columns, skip_bad=skip_bad)
    only = ComparisonColumns(judge=given.judge, count=given.count, weight=given.weight)
    names = [] if isinstance(source, ComparisonTable) else names_of_columns(source)
    is_open = given == only and not have_two_items(names)
    if (
        is_open
        and not _is_square(source, names)
        and _form(ColumnFinder(names, given, "Rankings")) is not None
    ):
        return read_choices(source, columns)
    return read_comparisons(source, columns, skip_bad=skip_bad)


def read_choices(
    source: Any, columns: ComparisonColumns | None = None, *, skip_bad: bool = False
) -> ChoiceTable:
    """Read rankings, or the best (and the worst) items of sets, from a file, a frame or columns.

    A ranking is one row (``rank1``, ``rank2``, ..., or ``first``, ``second``, ``third``, ...; blank
    after its end) or one row per item (``person``, ``item``, ``rank``; 1 is the best). A choice is
    a row with the items offered (``item1``, ``item2``, ...), ``best`` and optionally ``worst``, by
    name or by position from 1. Or there is a row for each item of a match (``match_id``,
    ``player``, and ``score``, ``result`` or ``rank``), and some matches have more than two.

    Parameters
    ----------
    source
        A CSV, TSV, JSON, Parquet or Excel file, orders of PrefLib (.soc, .soi, .toc, .toi), a
        pandas, polars or pyarrow frame, or a dictionary of columns.
    columns : ComparisonColumns, optional
        The columns of judge, count and weight by name, in upper or lower case. All other columns
        are found by common names.
    skip_bad : bool
        Whether to leave out matches that cannot be read.

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
    if is_preflib(source):
        return read_preflib(source)
    given, found = columns or ComparisonColumns(), columns_of(source)
    matches = matches_of_several(source, given)
    with located(source):
        if _is_square(source, list(found)):
            raise DataFileError(
                "Rankings must have columns for places: the table is a square table of wins, whose "
                "rows and columns have the same names. Read it by `read_comparisons`."
            )
        if matches is not None:
            return _rankings_of(matches, given, found, skip_bad=skip_bad)
        return _read(found, _find_roles(ColumnFinder(found, given, "Rankings")))


@final
@dataclass(frozen=True)
class _ChoiceRoles:
    """Which columns hold rankings or choices: a form, its columns, and the context."""

    form: str
    items: list[str]
    """The item and its rank; or all places of a ranking; or all items offered."""
    groups: list[str]
    """The columns that tell rankings in several rows apart."""
    best: str | None
    worst: str | None
    judge: str | None
    counts: list[str]

    @property
    def columns(self) -> set[str | None]:
        """The columns that are read."""
        return {*self.items, *self.groups, self.best, self.worst, self.judge, *self.counts}


def _form(find: ColumnFinder) -> str | None:
    """Return which form the columns have, if any."""
    has_groups = find.given.judge is not None or find.usual(JUDGE) or find.usual(LISTED)
    if find.usual(RANKED) and find.usual(RANK) and has_groups:
        return "long"
    if len(_wide(find.names)) > 1:
        return "wide"
    return "sets" if find.usual(BEST) and len(_numbered(find.names, _OFFERED)) > 1 else None


def _is_square(source: Any, names: list[str]) -> bool:
    """Tell whether columns that are called 1, 2, 3 are items of a square table of wins."""
    if not all(str(number) in names for number in (1, 2)):
        return False
    return read_win_matrix(source, columns_of(source)) is not None


def _find_roles(find: ColumnFinder) -> _ChoiceRoles:
    """Find the column of each role; refuse columns that hold neither rankings nor choices."""
    form, items, groups, best, worst = _form(find), [], [], None, None
    judge = find.role("judge", JUDGE)
    if form is None:
        raise DataFileError(
            "Rankings must have columns rank1, rank2 and so on, or person, item and rank; choices "
            "must have columns item1, item2 and so on, and best: got the columns "
            f"{list(find.names)}."
        )
    if form == "long":
        items = if_any(find.usual(RANKED)) + if_any(find.usual(RANK))
        groups = if_any(judge) + if_any(find.usual(LISTED))
    elif form == "wide":
        items = _wide(find.names)
    else:
        items = _numbered(find.names, _OFFERED)
        best, worst = find.usual(BEST), find.usual(WORST)
    counts = if_any(find.role("count", COUNT)) + if_any(find.role("weight", WEIGHT))
    return _ChoiceRoles(form, items, groups, best, worst, judge, counts)


def _wide(names: Iterable[str]) -> list[str]:
    """Return the columns of the places of a ranking, in numbers or in at least three words."""
    listed = list(names)
    numbered = _numbered(listed, _PLACE)
    by_word = {plain_name(name): name for name in listed}
    found = [by_word[word] for word in ORDINALS if word in by_word]
    in_a_row = all(word in by_word for word in ORDINALS[: len(found)])
    return numbered or (found if len(found) > 2 and in_a_row else [])


def _numbered(names: Iterable[str], pattern: re.Pattern[str]) -> list[str]:
    """Return the columns of a pattern by their numbers or letters; none if any is missing."""
    found = {}
    for name in names:
        match = pattern.fullmatch(plain_name(name))
        if match is not None:
            mark = match[1]
            found[int(mark) if mark.isdigit() else ord(mark) - ord("a") + 1] = name
    whole = sorted(found) == list(range(1, len(found) + 1))
    return [found[number] for number in sorted(found)] if whole else []


def _read(columns: Mapping[str, AnyColumn], roles: _ChoiceRoles) -> ChoiceTable:
    """Read rankings or choices, with the judge and the weight of each."""

    def words(name: str) -> list[Any]:
        """Return the cells of a column, "" where there is nothing."""
        return ["" if is_missing(one) else one for one in cells_of(columns[name]).tolist()]

    # a ranking from several rows, or a ranking or the items offered from every row
    if roles.form == "long":
        keys = zip(*map(words, roles.groups), strict=True)
        item, rank = words(roles.items[0]), _numbers(words(roles.items[1]), "rank")
        listed = _rows_by_rank(keys, rank)
        rows, lists = [one[0] for one in listed], [[item[row] for row in one] for one in listed]
    else:
        offered = zip(*map(words, roles.items), strict=True)
        lists = [[name for name in row if name != ""] for row in offered]
        rows = list(range(len(lists)))
    # who ranked or chose, and how much it counts
    judge = None if roles.judge is None else np.array(words(roles.judge), dtype=object)[rows]
    parts = [_numbers(words(name), "count")[rows] for name in roles.counts]
    context: dict[str, Any] = {"judge": judge, "weight": np.prod(parts, axis=0) if parts else None}
    if roles.best is None:
        table = ChoiceTable.from_rankings(lists, **context)
    elif roles.worst is None:
        table = ChoiceTable.from_best(lists, _by_name(words(roles.best), lists), **context)
    else:
        chosen = [_by_name(words(name), lists) for name in (roles.best, roles.worst)]
        table = ChoiceTable.from_best_worst(lists, *chosen, **context)
    unread = tuple(name for name in columns if name not in roles.columns)
    return replace(table, unread=unread, reading=_described(roles, table))


def _rankings_of(
    matches: Matches,
    given: ComparisonColumns,
    columns: Mapping[str, AnyColumn],
    *,
    skip_bad: bool,
) -> ChoiceTable:
    """Return each match as a ranking, or as its only winner among all others."""
    matches.refuse_bad(skip_bad=skip_bad)
    bad = {number for number, _ in matches.bad}
    blank = [bool(np.isnan(matches.value[rows]).all()) for rows in matches.rows]
    kept = [r for k, r in enumerate(matches.rows) if k not in bad and not blank[k]]
    names, value = matches.names, matches.value
    # who judged, and how much each match counts
    context: dict[str, Any] = {}
    parts = []
    for role, usual in (("judge", JUDGE), ("count", COUNT), ("weight", WEIGHT)):
        name = matches.find.role(role, usual)
        if name is None:
            continue
        column = matches.cells.coded(name)
        if any(len(set(column.code[rows].tolist())) > 1 for rows in kept):
            if getattr(given, role) is not None:
                raise DataFileError(
                    f"The column {name!r} for `{role}` must say the same in all rows of a "
                    f"{matches.match}: it does not in some. Leave it out."
                )
            matches.find.taken.discard(name)
            continue
        first = [rows[0] for rows in kept]
        if role == "judge":
            context["judge"] = column.values[column.code[first]].astype(object)
        else:
            parts.append(matches.cells.floats(role, name)[first])
    context["weight"] = np.prod(parts, axis=0) if parts else None
    lists = [[names[row] for row in rows[np.argsort(-value[rows], kind="stable")]] for rows in kept]
    levels = [np.unique(value[rows]) for rows in kept]
    if all(len(rows) == len(level) for rows, level in zip(kept, levels, strict=True)):
        table, form = ChoiceTable.from_rankings(lists, **context), "ranked by"
    elif all((value[rows] == 1.0).sum() == 1 for rows in kept) and matches.is_result:
        table, form = ChoiceTable.from_best(lists, [one[0] for one in lists], **context), "won by"
    else:
        place = next(k for k, rows in enumerate(kept) if len(rows) > len(np.unique(value[rows])))
        raise DataFileError(
            f"Rows of a {matches.match} of more than two items must differ in {matches.worth!r}: "
            f"two of {lists[place][:4]} are alike. Leave such matches out, or write them as ties "
            "of two."
        )
    lines = [*matches.said, f"{len(kept)} matches {form} {matches.worth}"]
    n_left_out = len(matches.rows) - len(kept)
    if n_left_out:
        lines.append(f"{n_left_out} matches left out, since they do not say who won")
    unread = tuple(name for name in columns if name not in matches.find.taken)
    return replace(table, unread=unread, reading=(*lines, *alike_names(table.names)))


def _described(roles: _ChoiceRoles, table: ChoiceTable) -> tuple[str, ...]:
    """Return how rankings or choices were read, a line for each role."""
    if roles.form == "long":
        lines = [f"rankings: {roles.items[0]} in the order of {roles.items[1]}"]
        lines.append(f"one for each {' and '.join(roles.groups)}")
    elif roles.form == "wide":
        lines = [f"rankings: {roles.items[0]} is above {', '.join(roles.items[1:])}"]
    else:
        lines = [f"items offered: {', '.join(roles.items)}", f"best: {roles.best}"]
        lines += [] if roles.worst is None else [f"worst: {roles.worst}"]
    lines += [] if roles.judge is None else [f"judge: {roles.judge}"]
    if roles.counts:
        lines.append(f"each counts as often as {' times '.join(roles.counts)} says")
    return (*lines, *alike_names(table.names))


def _by_name(chosen: list[Any], offered: list[list[Any]]) -> list[Any]:
    """Return what was chosen by name, where all rows give its position from 1 instead."""
    if any(name in row for name, row in zip(chosen, offered, strict=True)):
        return chosen
    try:
        positions = [int(float(name)) - 1 for name in chosen]
    except (TypeError, ValueError):
        return chosen
    if not all(0 <= k < len(row) for k, row in zip(positions, offered, strict=True)):
        return chosen
    return [row[k] for k, row in zip(positions, offered, strict=True)]


def _rows_by_rank(keys: Iterable[Any], rank: FloatArray) -> list[list[int]]:
    """Return the rows of each ranking in the order of their ranks, which must differ."""
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
    return list(of_key.values())


def _numbers(words: list[Any], role: str) -> FloatArray:
    try:
        return np.array(words, dtype=np.float64)
    except ValueError as error:
        raise DataFileError(
            f"The column for `{role}` must hold a number in every row: {error}."
        ) from error
