"""Square tables of wins: each cell says how often the item of its row beat that of its column."""

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import BoolArray, FloatArray
from rankwise.core.checks import is_blank
from rankwise.core.errors import DataFileError
from rankwise.io.comparison_cells import AnyColumn, cells_of
from rankwise.io.comparison_columns import LOSER, ColumnRoles, Reshaped, words_of
from rankwise.io.data import plain_name

NEVER_MET = frozenset(["", "-", "–", "—", "na", "n/a", "nan", "null", "none"])
ITSELF = NEVER_MET | {"x", "\\", "*", "#", "■", "●", "0", "0.0"}
"""What may stand where two items never met, and where an item would meet itself."""

REMEDY = "Write a row for each two items, with columns a, b, wins_a and wins_b."


def read_win_matrix(source: Any, columns: Mapping[str, AnyColumn]) -> Reshaped | None:
    """Return the pairs of items of a square table of wins; None for any other table.

    The names of the rows stand in a column, or in the index of a pandas frame, and are those of the
    other columns, in any order.
    """
    found = _named_rows(source, columns)
    if found is None:
        return None
    corner, names, others = found
    of_column = {str(name).strip(): name for name in others}
    order = [of_column[name] for name in names]
    wins = _wins(names, [cells_of(columns[name]).tolist() for name in order])
    _refuse_losers_first(corner)
    _refuse_other_numbers(names, wins)
    # wins of rows over columns, so that nobody is shown first; half points of both are a tie
    half = wins % 1.0 != 0.0
    first, second = np.nonzero(np.where(half, np.triu(wins), wins))
    tied = half[first, second].astype(np.float64)
    won = np.where(tied > 0.0, 0.0, wins[first, second])
    items = np.array(names, dtype=object)
    said = "half points are ties" if half.any() else "counts of wins"
    ends = {"row": items[first], "column": items[second]}
    return Reshaped(
        {**ends, "wins": won, "losses": np.zeros(len(won)), "ties": tied},
        ColumnRoles(
            first="row",
            second="column",
            tallies=("wins", "losses", "ties"),
            said=(
                f"items: a table of {len(names)} items against each other, by name",
                "winner: each cell is how often the item of its row beat that of its column "
                f"({said})",
            ),
        ),
        first,
    )


def _named_rows(
    source: Any, columns: Mapping[str, AnyColumn]
) -> tuple[str, list[str], list[str]] | None:
    """Return the corner, the names of the rows, and the columns that have the same names."""
    names = list(columns)
    if len(names) < 2:
        return None
    known = {str(name).strip() for name in names}
    frame = nw.from_native(source, eager_only=True, pass_through=True)
    index = nw.maybe_get_index(frame) if isinstance(frame, nw.DataFrame) else None
    if index is not None and type(index).__name__ != "RangeIndex":
        rows = [str(name).strip() for name in index.tolist()]
        if len(rows) == len(names) and set(rows) == known:
            return str(index.name or ""), rows, names
    corner = names[0]
    rows = [_text(cell) for cell in cells_of(columns[corner]).tolist()]
    if set(rows) == known - {corner.strip()} and len(rows) == len(names) - 1 >= 2:
        return corner, rows, names[1:]
    _refuse_nearly_square(corner, rows, names[1:])
    return None


def _refuse_nearly_square(corner: str, rows: list[str], names: list[str]) -> None:
    """Refuse a table most of whose rows and columns have the same names, but not all."""
    known = {name.strip() for name in names}
    common = known & set(rows)
    if len(common) < 3 or len(rows) > 2 * len(known) or 2 * len(common) < len(rows):
        return
    odd = sorted((known ^ set(rows)) | {name for name in common if rows.count(name) > 1})
    raise DataFileError(
        f"A table of wins must have each item once as a row and once as a column: {odd[:5]} are "
        f"not, beside the names in {corner!r}. Leave out totals and what is no item. {REMEDY}"
    )


def _text(cell: Any) -> str:
    return "" if is_blank(cell) else str(cell).strip()


def _wins(names: list[str], listed: list[list[Any]]) -> FloatArray:
    """Return the cells as numbers, [row, column]; blanks are 0."""
    wins = np.zeros((len(names),) * 2)
    for j, cells in enumerate(listed):
        for i, cell in enumerate(cells):
            text = _text(cell).lower().replace("½", ".5")
            if text in (ITSELF if i == j else NEVER_MET):
                continue
            try:
                wins[i, j] = float(text)
            except ValueError:
                wins[i, j] = np.nan
            if i == j or not np.isfinite(wins[i, j]) or wins[i, j] < 0.0:
                what = "itself" if i == j else names[j]
                raise DataFileError(
                    "A table of wins must count how often the item of each row beat that of each "
                    f"column, and hold nothing where an item would meet itself: {names[i]} "
                    f"against {what} holds {cell!r}. {REMEDY}"
                )
    return wins


def _refuse_losers_first(corner: str) -> None:
    """Refuse a table whose corner says that its rows lose."""
    words = words_of(corner)
    if words and plain_name(words[0]) in {*map(plain_name, LOSER), "losers", "loses", "losses"}:
        raise DataFileError(
            f"A table of wins must have winners as its rows: its corner says {corner!r}. Exchange "
            "rows and columns, or leave the corner blank."
        )


def _refuse_other_numbers(names: list[str], wins: FloatArray) -> None:
    """Refuse shares, numbers of meetings, and half a table."""
    n_items = len(names)
    off = ~np.eye(n_items, dtype=bool)
    total = (wins + wins.T)[off & ((wins + wins.T) > 0.0)]
    if len(total) == 0:
        raise DataFileError(f"A table of wins must hold a win: all of its cells are 0. {REMEDY}")
    whole = wins % 1.0 == 0.0
    if not whole.all() and not _is_crosstable(wins, whole):
        raise DataFileError(
            "A table of wins must hold whole numbers, or 1, ½ and 0 for single games: got "
            f"{wins[~whole][0]:g}. Shares do not say how many games there were. {REMEDY}"
        )
    if len(total) > 2 and (np.abs(total - 100.0) <= 1.0).all():  # rounded ones too
        raise DataFileError(
            "A table of wins must hold counts: every two cells add up to 100, which may be "
            f"percent. {REMEDY}"
        )
    if n_items > 2 and np.array_equal(wins, wins.T):
        raise DataFileError(
            "A table of wins must say who won: it is the same with rows and columns exchanged, as "
            f"numbers of games or likenesses are. {REMEDY}"
        )
    one_sided = [not np.tril(wins).any(), not np.triu(wins).any()]
    if n_items > 2 and any(one_sided):
        raise DataFileError(
            "A table of wins must be filled on both sides of its diagonal: one side holds nothing "
            f"but blanks or 0. {REMEDY}"
        )


def _is_crosstable(wins: FloatArray, whole: BoolArray) -> bool:
    """Tell whether cells are points of single games, of which half points are ties."""
    total = wins + wins.T
    values: NDArray[Any] = np.unique(wins)
    halves = np.array_equal(whole, whole.T)
    return bool(np.isin(values, [0.0, 0.5, 1.0]).all() and halves and total.max() <= 1.0)
