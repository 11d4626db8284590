"""Read comparisons of named items from files, data frames, dictionaries and tuples."""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, final

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray, freeze
from rankwise.core.comparisons.comparison_table import TIED, ComparisonTable
from rankwise.core.errors import (
    DataFileError,
    InvalidInputError,
    LeftOutWarning,
    NothingToLearnError,
    warn_caller,
)
from rankwise.io.answer_file import ANSWERS, is_answer_file
from rankwise.io.comparison_answers import read_answers_of
from rankwise.io.comparison_cells import (
    WORD_TYPES,
    FileColumns,
    TableCells,
    columns_of,
    names_of_columns,
)
from rankwise.io.comparison_columns import (
    ColumnFinder,
    ColumnRoles,
    ComparisonColumns,
    Reshaped,
    find_roles,
)
from rankwise.io.comparison_context import with_context
from rankwise.io.comparison_reading import described
from rankwise.io.match_rows import MATCH, Matches, find_matches, read_match_rows
from rankwise.io.numbers import join_ids
from rankwise.io.tables.reading import if_any, open_table, require_column
from rankwise.io.who_won import LEFT_OUT
from rankwise.io.win_matrix import read_win_matrix


@final
@dataclass(frozen=True, eq=False)
class PairData:
    """Hold the comparisons of a file.

    Parameters
    ----------
    pairs : (n_pairs, 2)
        Positions of the items compared, winner first.
    items : (n_items,)
        The names at these positions; None when the file holds positions itself.
    margin, weight : (n_pairs,)
        The margin and the weight of each comparison; None when not read.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.io import PairData
    >>> matches = PairData(np.array([[2, 0]]), items=np.array(["Italy", "Norway", "Spain"]))
    >>> matches.items[matches.pairs]
    array([['Spain', 'Italy']], dtype='<U6')
    """

    pairs: IntArray
    items: NDArray[Any] | None = None
    margin: FloatArray | None = None
    weight: FloatArray | None = None


def read_pairs(
    path: str | os.PathLike[str],
    *,
    winner: str = "winner",
    loser: str = "loser",
    margin: str | None = None,
    weight: str | None = None,
) -> PairData:
    r"""Read comparisons from a CSV, TSV or Parquet file, one "winner beats loser" per row.

    Parameters
    ----------
    path
        The file; its suffix gives the format.
    winner, loser
        The columns of the items: row numbers of X, from 0, or names. Names are numbered in sorted
        order.
    margin, weight
        The columns of the margins and weights, if any.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io import read_pairs
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "matches.csv")
    ...     _ = path.write_text("winner,loser,goals\nItaly,Norway,2\nSpain,Italy,1\n")
    ...     matches = read_pairs(path, margin="goals")
    >>> matches.items.tolist(), matches.pairs.tolist(), matches.margin.tolist()
    (['Italy', 'Norway', 'Spain'], [[0, 1], [2, 0]], [2.0, 1.0])
    """
    table = open_table(path)
    asked = {"winner": winner, "loser": loser, "margin": margin, "weight": weight}
    found = {
        option: require_column(path, table, name, option)
        for option, name in asked.items()
        if name is not None
    }
    numbers = [if_any(found.get("margin")), if_any(found.get("weight"))]
    (margins, weights), ends = table.read(numbers, [found["winner"], found["loser"]])
    pairs, items = _number_items(path, join_ids(ends))
    return PairData(
        pairs.reshape(2, -1).T,
        items,
        margin=margins[:, 0] if margin is not None else None,
        weight=weights[:, 0] if weight is not None else None,
    )


def _number_items(
    path: str | os.PathLike[str], ends: NDArray[Any]
) -> tuple[IntArray, NDArray[Any] | None]:
    """Return the positions of the items, and their names unless they are positions already."""
    if ends.dtype != np.int64:
        items, positions = np.unique(ends, return_inverse=True)
        return positions, items
    if ends.min() < 0:
        raise DataFileError(
            f"{os.fspath(path)}: expected names or row numbers from 0 as winners and losers, "
            f"got {ends.min()}."
        )
    return ends.astype(np.intp), None


def read_comparisons(
    source: Any,
    columns: ComparisonColumns | None = None,
    *,
    names: Any = None,
    skip_bad: bool = False,
) -> ComparisonTable:
    r"""Read comparisons of named items, one per row, from a file, a frame or columns.

    Parameters
    ----------
    source
        A CSV, TSV, JSON, Parquet or Excel file, or the answers file of ``rankwise ask``; a pandas,
        polars or pyarrow frame; a dictionary of columns; rows (winner, loser) or (a, b, who won);
        or a `ComparisonTable`, which keeps everything but the order of its items. Of files only
        the columns that are used are read. A table may also have a row for each item of a match
        (match_id, team and score, result or rank), or be square: the wins of the items of its rows
        over those of its columns.
    columns : ComparisonColumns, optional
        The columns by name, in upper or lower case; the others are found by common names.
    names : (n_items,), optional
        All items, in this order; by default those that occur.
    skip_bad : bool
        Whether to leave out rows whose result cannot be read, or that compare an item with itself
        or with nothing, instead of refusing the table. Their number is in ``reading``.

    Returns
    -------
    table : ComparisonTable
        Its ``reading`` says how the table was read.

    Warns
    -----
    LeftOutWarning
        If rows are left out because they do not say who won.

    Examples
    --------
    >>> from rankwise.io import read_comparisons
    >>> read_comparisons([("ann", "bob"), ("bob", "cid")]).pairs.tolist()
    [[0, 1], [1, 2]]
    >>> battles = {"model_a": ["x", "x"], "model_b": ["y", "z"], "winner": ["model_b", "tie"]}
    >>> read_comparisons(battles)
    ComparisonTable(2 comparisons of 3 items, 1 tied)
    """
    if isinstance(source, ComparisonTable):
        return source if names is None else source.among(names)
    found = read_with_roles(source, columns, names=names, skip_bad=skip_bad)
    if found.n_left_out and not skip_bad:
        warn_caller(
            f"{found.n_left_out} of {found.n_rows} rows do not say who won, and are left out.",
            LeftOutWarning,
        )
    parts = (found.table, found.roles, found.words, found.n_left_out)
    lines = described(*parts, skips_bad=skip_bad)
    return replace(found.table, reading=(*lines, *found.notes))


@final
@dataclass(frozen=True, eq=False)
class ReadTable:
    """Comparisons, and how they were read.

    Parameters
    ----------
    table : ComparisonTable
    roles : ColumnRoles
        The column of each role.
    words : dict of str to int
        What the different cells of the result were read as.
    notes : tuple of str
        What was done to weights.
    n_rows, n_left_out : int
        Number of rows of the source, and of those that do not say who won.
    """

    table: ComparisonTable
    roles: ColumnRoles
    words: dict[str, int]
    notes: tuple[str, ...]
    n_rows: int
    n_left_out: int


def read_with_roles(
    source: Any, columns: ComparisonColumns | None, *, names: Any = None, skip_bad: bool = False
) -> ReadTable:
    """Do what `read_comparisons` does, and say how by values instead of lines."""
    refuse_other_columns(columns)
    given = columns or ComparisonColumns()
    if isinstance(source, str | os.PathLike) and is_answer_file(source):
        given = _with_answers(source, given)
    cells = TableCells(columns_of(source))
    # which column holds what, and who won in each row
    with located(source):
        cells, roles, reshaped = _with_roles(source, cells, given, skip_bad=skip_bad)
        if isinstance(cells.columns, FileColumns):
            cells.columns.load(roles.columns)
        answers = read_answers_of(cells, roles, given, skip_bad=skip_bad)
    n_rows = len(answers.outcome)
    rows = _answered(answers.outcome)
    n_left_out = 0 if rows is None else n_rows - len(rows)
    if rows is not None:
        cells = TableCells(cells.columns, rows, n_rows)
        answers = answers.take(rows)
    # how much, by whom, when and where, in the rows that say who won
    with located(source, n_left_out):
        table, notes = with_context(cells, roles, given, answers, names)
    table = table if rows is None else replace(table, row=freeze(rows[table.row]))
    if reshaped is not None:
        table = replace(table, row=freeze(reshaped.row[table.row]), unread=reshaped.unread)
    return ReadTable(table, roles, answers.words, tuple(notes), n_rows, n_left_out)


def _with_roles(
    source: Any, cells: TableCells, given: ComparisonColumns, *, skip_bad: bool
) -> tuple[TableCells, ColumnRoles, Reshaped | None]:
    """Find the column of each role; bring a table of another form into that of two items a row.

    Only what has no columns of two items is looked at in another way: a square table of wins, and a
    row for each item of a match.
    """
    if given.match is not None or given.item is not None:
        found = read_match_rows(cells.columns, given, skip_bad=skip_bad)
        if found is None:
            raise DataFileError(
                "`match` and `item` must name columns of a table with a row for each item of a "
                f"match, of which a match has several: got the columns {list(cells.columns)}."
            )
        return TableCells(found.columns), found.roles, found
    try:
        return cells, find_roles(cells.columns, given, cells.holds_words), None
    except DataFileError:
        found = read_win_matrix(source, cells.columns) if given == ComparisonColumns() else None
        found = found or read_match_rows(cells.columns, given, skip_bad=skip_bad)
        if found is None:
            raise
        return TableCells(found.columns), found.roles, found


def matches_of_several(source: Any, given: ComparisonColumns) -> Matches | None:
    """Return matches with a row for each item, some of which have more than two; None otherwise."""
    find = ColumnFinder(names_of_columns(source), given, "Matches")
    if given.match is None and find.usual(MATCH) is None:
        return None
    with located(source):
        cells = TableCells(columns_of(source))
        if given.match is None and given.item is None:
            with suppress(DataFileError):
                find_roles(cells.columns, given, cells.holds_words)
                return None
        found = find_matches(cells.columns, given)
    return found if found is not None and found.most > 2 else None


@contextmanager
def located(source: Any, n_left_out: int = 0) -> Iterator[None]:
    """Say in errors which file they are about, and that rows without a winner are not counted."""
    try:
        yield
    except NothingToLearnError:
        raise
    except (DataFileError, InvalidInputError) as error:
        message = str(error)
        if n_left_out:
            message += f" Rows are counted without the {n_left_out} that name no winner."
        if isinstance(source, str | os.PathLike):
            raise DataFileError(f"{os.fspath(source)}: {message}") from None
        if n_left_out:
            raise type(error)(message) from error
        raise


def _with_answers(path: str | os.PathLike[str], given: ComparisonColumns) -> ComparisonColumns:
    """Return the columns with what the answers of a file mean."""
    if given.codes is not None:
        raise InvalidInputError(
            f"`codes` must explain the cells of a table: {os.fspath(path)} is an answers file, "
            "which says itself what its answers mean. Leave them out."
        )
    return replace(given, codes=ANSWERS)


def refuse_other_columns(columns: object) -> None:
    """Refuse what does not name the columns of comparisons."""
    if not isinstance(columns, ComparisonColumns | None):
        raise InvalidInputError(
            f"`columns` must be ComparisonColumns or None: got {type(columns).__name__}."
        )


def read_items(X: Any, others: Collection[str] = ()) -> tuple[NDArray[Any] | None, Any]:
    """Split a frame of items into their names and the columns of features.

    The names are the only column of text or, in a pandas frame without one, an index other than
    the default one. Anything but a frame is returned unchanged, without names.

    Parameters
    ----------
    X : frame or array
    others : names of columns
        Columns that hold something else, such as queries.
    """
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        return None, X
    schema = frame.schema.items()
    words = [name for name, dtype in schema if dtype in WORD_TYPES and name not in others]
    if len(words) > 1:
        raise InvalidInputError(
            "Items must have one column of names and features that are numbers: got the columns of "
            f"text {words}."
        )
    if words:
        names = np.array(frame[words[0]].to_list(), dtype=object)
        return names, frame.drop(words[0]).to_native()
    index = nw.maybe_get_index(frame)
    if index is None or type(index).__name__ == "RangeIndex":
        return None, X
    return np.array(index.tolist(), dtype=object), X


def are_positions(pairs: Any) -> bool:
    """Return whether pairs are row numbers, as opposed to names or a table."""
    if isinstance(pairs, Mapping | ComparisonTable | str | os.PathLike):
        return False
    try:
        values = np.asarray(pairs)
    except ValueError:  # rows of different lengths
        return False
    return values.ndim != 2 or values.dtype.kind not in "OUST"


def _answered(outcome: IntArray) -> IntArray | None:
    """Return the rows that say who won, None for all; refuse a table without any."""
    if outcome.max(initial=LEFT_OUT if len(outcome) == 0 else TIED) < LEFT_OUT:
        return None
    rows = np.flatnonzero(outcome != LEFT_OUT)
    if len(rows) == 0:
        found = f"none of its {len(outcome)} rows says who won" if len(outcome) else "got none"
        raise NothingToLearnError(f"The table must hold at least one comparison: {found}.")
    return rows
