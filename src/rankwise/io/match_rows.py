"""Tables with a row for each item of a match: who met, and who won, by scores, results or ranks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.checks import is_blank
from rankwise.core.errors import DataFileError
from rankwise.io.comparison_cells import AnyColumn, TableCells
from rankwise.io.comparison_columns import (
    RESULT,
    ColumnFinder,
    ColumnRoles,
    ComparisonColumns,
    Reshaped,
    Usual,
    context_roles,
)
from rankwise.io.data import plain_name

_KINDS = ("match", "game", "battle", "fixture", "contest", "bout", "duel", "heat", "pairing")
MATCH = tuple(
    f"{kind}{end}"
    for kind in (*_KINDS, "comparison", "encounter")
    for end in ("", "_id", "_no", "_number", "_key")
)
ENTRANT: Usual = (
    "item",
    "option",
    "name",
    "object",
    "product",
    "alternative",
    "player",
    "driver",
    "team",
)
ENTRANT += ("model", "system", "competitor", "contestant", "fighter", "club", "entrant", "agent")
ENTRANT += ("bot", "method", "model_name", "team_name", "player_name", "player_id", "team_id")
PLACE = ("rank", "position", "place", "finish", "placement", "standing")
SCORE = ("score", "points", "goals", "runs", "pts", "final_score")
OF_ITEM = (*RESULT, "win", "is_winner", "is_win", "w_l", "wl", "wlt", "wld")
SEEDS = ("rank", "position", "standing")
"""Names of columns that may also say how good an item was before."""
SPLITS: Usual = (
    "date",
    "day",
    "match_date",
    "game_date",
    "season",
    "year",
    "round",
    "week",
    "tournament",
)
SPLITS += ("event", "league", "competition", "stage", "division")
"""Names of columns that all rows of a match have in common: numbers may begin anew in each."""
VENUE = ("home", "is_home", "at_home", "home_away", "home_or_away", "venue", "location", "ha")
"""The names by which columns are found, in any spelling."""

WON = frozenset(["w", "win", "won", "winner", "wins", "victory", "yes", "y", "true", "1"])
LOST = frozenset(["l", "loss", "lose", "lost", "loser", "loses", "defeat", "no", "n", "false", "0"])
TIES = frozenset(["d", "draw", "drawn", "t", "tie", "tied", "05", "0.5", "½", "1/2"])
AT_HOME, ON_THE_ROAD = frozenset(["home", "h", "1", "true", "yes"]), frozenset(
    ["away", "a", "0", "false", "no", "visitor", "road", "@"]
)  # fmt: skip
"""What results of one item, and places of it, may say."""

SINGLE = ("count", "weight", "margin", "judge", "date", "question", "category")
"""Roles of columns that say the same in all rows of a match."""

FIRST, SECOND, NEUTRAL_PLACE = "first item", "second item", "neutral place"
TALLIES = ("first won", "second won", "tied match")
"""Names of the columns that are made of a row for each match."""

_PLACE = re.compile(r"(\d+)(?:\.0|st|nd|rd|th)?\.?")


@final
@dataclass(frozen=True, eq=False)
class Matches:
    """Hold the rows of each match, and how well each row did.

    Parameters
    ----------
    cells : TableCells
    find : ColumnFinder
        Which columns are taken.
    match, item, worth : str
        The columns of the match, of the item and of how well it did.
    how : str
        How the last one was read.
    is_result : bool
        Whether it says who won, and not by how much.
    rows : list of arrays
        The rows of each match, in the order of the table.
    names : list
        The item of each row.
    value : (n_rows,)
        How well each row did, more is better; NaN where nothing is said.
    bad : list of (int, str)
        The matches that cannot be read, and why.
    """

    cells: TableCells
    find: ColumnFinder
    match: str
    item: str
    worth: str
    how: str
    is_result: bool
    rows: list[IntArray]
    names: list[Any]
    value: FloatArray
    bad: list[tuple[int, str]]

    @property
    def most(self) -> int:
        """Number of items of the largest match that can be read."""
        bad = {number for number, _ in self.bad}
        return max((len(r) for k, r in enumerate(self.rows) if k not in bad), default=0)

    @property
    def said(self) -> tuple[str, str]:
        """How items and winners were read."""
        return (
            f"items: {self.item}, a row each; those of one {self.match} met",
            f"winner: {self.how}",
        )

    def refuse_bad(self, *, skip_bad: bool) -> None:
        """Refuse matches that cannot be read, unless they are left out."""
        if self.bad and not skip_bad:
            number, why = self.bad[0]
            label = self.cells.coded(self.match).values[number]
            raise DataFileError(
                f"Matches must be readable row by row: {self.match} {label} {why}; there are "
                f"{len(self.bad)} such matches. Mend them, or leave them out (skip_bad=True, "
                "--skip-bad)."
            )


def find_matches(columns: Mapping[str, AnyColumn], given: ComparisonColumns) -> Matches | None:
    """Return the matches of a table with a row for each item; None for any other table."""
    find = ColumnFinder(columns, given, "Matches")
    match, item = find.role("match", MATCH), find.role("item", ENTRANT)
    if match is None or item is None:
        return None
    result = find.role("result", OF_ITEM)
    place, score = find.usual(PLACE), find.usual(SCORE)
    worth = result or find.take(place) or find.take(score)
    if worth is None:
        raise DataFileError(
            f"Matches with a row for each item, by {match!r} and {item!r}, must have a column of "
            "results, scores (more is better) or ranks (1 is the best): got the columns "
            f"{list(columns)}. Name the results (`result`), or call the others score or rank."
        )
    cells = TableCells(columns)
    code, items = cells.coded(match), cells.coded(item)
    ends = np.cumsum(np.bincount(code.code, minlength=len(code.values)))
    rows = np.split(np.argsort(code.code, kind="stable"), ends[:-1])
    if all(len(part) == 1 for part in rows):  # numbers of rows, and no matches
        return None
    names = [None if is_blank(name) else name for name in items.values.tolist()]
    of_row = [names[k] for k in items.code.tolist()]
    if result is not None:
        value, how = _results(cells, result, of_row)
    elif plain_name(worth) in map(plain_name, PLACE):
        value, how = _places(cells, worth), f"the better {worth}, 1 being the best"
    else:
        value, how = cells.floats(worth, worth), f"more {worth}"
    is_result = result is not None
    found = Matches(cells, find, match, item, worth, how, is_result, rows, of_row, value, [])
    splits = _splits(find, cells)
    for number, label in enumerate(code.values.tolist()):
        why = _why_not(found, rows[number], label, splits)
        if why is not None:
            found.bad.append((number, why))
    if result is None and place is not None:
        _refuse_seeds(found, score)
    return found


def _splits(find: ColumnFinder, cells: TableCells) -> list[IntArray]:
    """Return the columns that all rows of a match have in common."""
    known = (find.by_plain.get(plain_name(name)) for name in SPLITS)
    names = [name for name in known if name is not None and name not in find.taken]
    return [cells.coded(name).code for name in names]


def _refuse_seeds(found: Matches, score: str | None) -> None:
    """Refuse places that are none of the match, or that a column of scores contradicts."""
    bad = {number for number, _ in found.bad}
    good = [rows for k, rows in enumerate(found.rows) if k not in bad]
    remedy = (
        "Where it says how good an item was before, remove it or name the column of the results "
        "(`result`); where it is the place in a larger field, call it place."
    )
    if plain_name(found.worth) in SEEDS:
        for rows in good:
            if np.max(found.value[rows], initial=-np.inf) < -1.0:  # not so for blanks
                raise DataFileError(
                    f"The column {found.worth!r} must hold places in a {found.match}, 1 for the "
                    f"best: rows {rows[:4].tolist()} have none. {remedy}"
                )
    if score is None:
        return
    points = found.cells.floats(score, score)
    for rows in good:
        order = np.argsort(found.value[rows], kind="stable")
        if (np.diff(points[rows][order]) < 0.0).any():
            raise DataFileError(
                f"The columns {found.worth!r} and {score!r} must say the same of who won: they do "
                f"not in rows {rows[:4].tolist()}. {remedy}"
            )


def _results(cells: TableCells, name: str, of_row: list[Any]) -> tuple[FloatArray, str]:
    """Return 1 for rows that won, 0 for those that lost, 0.5 for ties, NaN for blanks."""
    column = cells.coded(name)
    spelt = [_spelt(value) for value in column.values.tolist()]
    known = {**dict.fromkeys(WON, 1.0), **dict.fromkeys(LOST, 0.0), **dict.fromkeys(TIES, 0.5)}
    if all(word in known or word == "" for word in spelt):
        value = np.array([known.get(word, np.nan) for word in spelt])[column.code]
        shown = {str(v): known[w] for v, w in zip(column.values.tolist(), spelt, strict=True) if w}
        words = {1.0: "won", 0.0: "lost", 0.5: "tied"}
        said = ", ".join(f"{cell!r} = {words[one]}" for cell, one in list(shown.items())[:4])
        return value, f"{name} ({said})"
    # the name of the winner, in all rows of its match
    own = [None if one is None else _spelt(one) for one in of_row]
    strange = {word for word in spelt if word not in {*own, ""} | TIES}
    if strange:
        raise DataFileError(
            f"The column {name!r} must say of each row whether it won, lost or tied (W, L, D; 1, "
            f"0, 0.5), or name the winner: got {sorted(strange)[:5]}. Where it holds points, call "
            "it score (more is better), and where it holds places, rank (1 is the best)."
        )
    said_of = [spelt[k] for k in column.code.tolist()]
    value = np.array(
        [
            np.nan if word == "" else 1.0 if word == one else 0.5 if word in TIES else 0.0
            for word, one in zip(said_of, own, strict=True)
        ]
    )
    return value, f"{name} (names of items)"


def _spelt(value: Any) -> str:
    """Return a cell in one spelling; True is 1."""
    if is_blank(value):
        return ""
    text = str(value).strip().lower()
    return text.removesuffix(".0") if text in ("1.0", "0.0") else text


def _places(cells: TableCells, name: str) -> FloatArray:
    """Return places with their signs exchanged; NaN for blanks."""
    column = cells.coded(name)
    values = []
    for value in column.values.tolist():
        text = "" if is_blank(value) else str(value).strip().lower()
        found = _PLACE.fullmatch(text)
        if found is None and text != "":
            raise DataFileError(
                f"The column {name!r} must hold places, 1 for the best: got {value!r}. Leave out "
                "rows without a place."
            )
        values.append(np.nan if found is None else -float(found[1]))
    return np.array(values)[column.code]


def _why_not(found: Matches, rows: IntArray, label: Any, splits: list[IntArray]) -> str | None:
    """Return why a match cannot be read; None if it can, or says nothing."""
    names, value = [found.names[row] for row in rows.tolist()], found.value[rows]
    if is_blank(label):
        return f"is blank, in row {rows[0]} first of all"
    if len(rows) == 1:
        return "has one row"
    if None in names:
        return f"leaves the item blank in row {rows[names.index(None)]}"
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        return f"has {twice!r} twice: it was recorded twice, or its number is used twice"
    if len(rows) > 2 and rows[-1] - rows[0] >= len(rows):
        return (
            f"has {len(rows)} rows that do not stand together: its number may be used twice, such "
            "as once a season"
        )
    if any((code[rows] != code[rows[0]]).any() for code in splits):
        return "has rows of several dates, seasons or rounds: its number may be used twice"
    blank = np.isnan(value)
    if blank.any():
        return None if blank.all() else f"says nothing in row {rows[int(np.argmax(blank))]}"
    if found.is_result:
        won, lost = int((value == 1.0).sum()), int((value == 0.0).sum())
        is_tie = won == lost == 0
        if not is_tie and (won != 1 or won + lost < len(rows)):
            return f"has {won} winners, {lost} losers and {len(rows) - won - lost} that tied"
    return None


def read_match_rows(
    columns: Mapping[str, AnyColumn], given: ComparisonColumns, *, skip_bad: bool
) -> Reshaped | None:
    """Return matches of two as a row each; None for any other table."""
    found = find_matches(columns, given)
    if found is None:
        return None
    found.refuse_bad(skip_bad=skip_bad)
    if found.most > 2:
        raise DataFileError(
            f"Comparisons must be of two items: {found.most} rows have one {found.match}. Rank by "
            "`leaderboard`, or read rankings by `read_choices`."
        )
    # both rows of each match: the home team first, or else, since rows have no order, the winner
    bad = {number for number, _ in found.bad}
    kept = [k for k, rows in enumerate(found.rows) if k not in bad or len(rows) < 3]
    kept.sort(key=lambda k: found.rows[k][0])
    ends = np.array([(found.rows[k][0], found.rows[k][-1]) for k in kept])
    is_good = np.array([k not in bad for k in kept])
    ends, at_home = _home_first(found, ends)
    if at_home is None:
        is_behind = found.value[ends[:, 0]] < found.value[ends[:, 1]]
        ends = np.where(is_behind[:, None], ends[:, ::-1], ends)
    context, made = _context(found, ends, is_good, given)
    # who was better; nothing where nobody says so
    items = np.array(found.names, dtype=object)
    lead = found.value[ends[:, 0]] - found.value[ends[:, 1]]
    known = is_good & ~np.isnan(lead)
    made |= {FIRST: items[ends[:, 0]], SECOND: items[ends[:, 1]]}
    outcomes = zip(TALLIES, (lead > 0.0, lead < 0.0, lead == 0.0), strict=True)
    made |= {name: (known & one).astype(np.float64) for name, one in outcomes}
    if at_home is not None:
        made[NEUTRAL_PLACE] = np.where(at_home, 0, 1)
        context |= {"at_home": True, "neutral": NEUTRAL_PLACE}
    roles = ColumnRoles(first=FIRST, second=SECOND, tallies=TALLIES, said=found.said, **context)
    unread = tuple(name for name in columns if name not in found.find.taken)
    return Reshaped(made, roles, ends[:, 0], unread)


def _home_first(found: Matches, ends: IntArray) -> tuple[IntArray, BoolArray | None]:
    """Return the rows of matches, those at home first, and which matches have one; None without.

    A column of places that says anything else is not read.
    """
    name = found.find.usual(VENUE)
    if name is None:
        return ends, None
    column = found.cells.coded(name)
    spelt = [_spelt(value) for value in column.values.tolist()]
    if not set(spelt) <= AT_HOME | ON_THE_ROAD | {"", "n", "neutral"}:
        return ends, None
    found.find.take(name)
    is_home = np.array([word in AT_HOME for word in spelt])[column.code][ends]
    is_away = np.array([word in ON_THE_ROAD for word in spelt])[column.code][ends]
    swap = is_home[:, 1] & is_away[:, 0]
    has_home = swap | (is_home[:, 0] & is_away[:, 1])
    return np.where(swap[:, None], ends[:, ::-1], ends), has_home


def _context(
    found: Matches, ends: IntArray, is_good: BoolArray, given: ComparisonColumns
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the roles of what surrounds matches, and their columns, by match."""
    roles, made = context_roles(found.find), {}
    for role in SINGLE:
        name = roles[role]
        if name is None:
            continue
        column = found.cells.coded(name)
        differ = is_good & (column.code[ends[:, 0]] != column.code[ends[:, 1]])
        if not differ.any():
            made[name] = found.cells.of(name)[ends[:, 0]]
            continue
        if getattr(given, role) is not None:
            row = int(ends[np.argmax(differ), 0])
            raise DataFileError(
                f"The column {name!r} for `{role}` must say the same in both rows of a "
                f"{found.match}: it does not in that of row {row}. Leave it out."
            )
        found.find.taken.discard(name)
        roles[role] = None
    # covariates of items: their difference
    for role in ("covariates", "controls"):
        pairs = []
        for columns in roles[role]:
            if len(columns) != 1:
                raise DataFileError(
                    f"`{role}` must name columns that describe the item of each row: got "
                    f"{list(columns)}."
                )
            found.find.take(columns[0])
            cells, pair = found.cells.of(columns[0]), []
            for place, side in enumerate((FIRST, SECOND)):
                pair.append(f"{columns[0]} of the {side}")
                made[pair[-1]] = cells[ends[:, place]]
            pairs.append(tuple(pair))
        roles[role] = tuple(pairs)
    return roles, made
