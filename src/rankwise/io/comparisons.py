"""Read comparisons of named items from files, data frames, dictionaries and tuples."""

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray, freeze
from rankwise.core.checks import is_blank, is_missing, missing_cells
from rankwise.core.comparisons.column import Column
from rankwise.core.comparisons.comparison_table import FIRST_WON, TIED, ComparisonTable
from rankwise.core.comparisons.dates import as_days
from rankwise.core.errors import (
    DataFileError,
    InvalidInputError,
    LeftOutWarning,
    NothingToLearnError,
    warn_caller,
)
from rankwise.io.answer_file import ANSWERS, AnswerFile, is_answer_file
from rankwise.io.comparison_columns import ColumnRoles, ComparisonColumns, find_roles
from rankwise.io.numbers import join_ids
from rankwise.io.tables.reading import if_any, open_table, require_column
from rankwise.io.who_won import LEFT_OUT, NO_ANSWER, ResultColumn, read_codes


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


YES = frozenset(["1", "1.0", "yes", "y", "true", "tie", "tied", "draw"])
NO = frozenset(["", "0", "0.0", "no", "n", "false", "none", "nan"])
"""What a column of ties may hold."""

WORD_TYPES = (nw.String, nw.Categorical, nw.Enum, nw.Object)
"""Types of columns that hold names."""


def read_comparisons(
    source: Any, columns: ComparisonColumns | None = None, *, names: Any = None
) -> ComparisonTable:
    r"""Read comparisons of named items, one per row, from a file, a frame or columns.

    Parameters
    ----------
    source
        A CSV, TSV, Parquet or Excel file, or the answers file of ``rankwise ask``; a pandas,
        polars or pyarrow frame; a dictionary of columns; rows (winner, loser) or (a, b, who won);
        or a `ComparisonTable`, which keeps everything but the order of its items.
    columns : ComparisonColumns, optional
        The columns by name, in upper or lower case; the others are found by common names.
    names : (n_items,), optional
        All items, in this order; by default those that occur.

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
    refuse_other_columns(columns)
    given = columns or ComparisonColumns()
    if isinstance(source, str | os.PathLike) and is_answer_file(source):
        given = _with_answers(source, given)
    cells = _TableCells(columns_of(source))
    # which column holds what, and who won in each row
    with located(source):
        roles = find_roles(cells.columns, given, cells.holds_words)
        first, second, outcome = _answers(cells, roles, given)
    rows = _answered(outcome)
    n_left_out = len(outcome) - len(rows)
    if n_left_out:
        cells = _TableCells(cells.columns, rows, len(outcome))
        first, second, outcome = first.take(rows), second.take(rows), outcome[rows]
    # how much, by whom, when and where, in the rows that say who won
    with located(source, n_left_out):
        table = _with_context(cells, roles, given, (first, second, outcome), names)
    if n_left_out:
        warn_caller(
            f"{n_left_out} of {len(rows) + n_left_out} rows do not say who won, and are left out.",
            LeftOutWarning,
        )
    return replace(table, row=freeze(rows[table.row]))


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


AnyColumn: TypeAlias = NDArray[Any] | nw.Series[Any]
"""A column as it comes: an array without words in NumPy's own form, or a column of a frame."""


def columns_of(source: Any) -> Mapping[str, AnyColumn]:
    """Return the columns of a source by name; those of a frame are read when they are asked for."""
    if isinstance(source, str | os.PathLike):
        if is_answer_file(source):
            return AnswerFile.read(source).columns()
        table = open_table(source)
        words = table.cells(table.names)
        return {
            name: np.array(cells, dtype=object)
            for name, cells in zip(table.names, words, strict=True)
        }
    if isinstance(source, Mapping):
        return {str(name): _vector(values) for name, values in source.items()}
    frame = nw.from_native(source, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return {str(column.name): column for column in frame.iter_columns()}
    return _columns_of_rows(source)


def cells_of(column: AnyColumn) -> NDArray[Any]:
    """Return the cells of a column; those of mixed types as they are, without a look at them.

    Missing texts of Arrow are None. Whole numbers beside blanks stay whole: as floats, large ids
    would be rounded.
    """
    if not isinstance(column, nw.Series):
        return column
    text = _arrow_text(column)
    if text is not None:
        return text.values[text.code]
    as_they_are = column.dtype == nw.Object or (
        column.dtype.is_integer() and column.is_null().any()
    )
    return _vector(column.to_list() if as_they_are else column.to_numpy())


def _arrow_text(column: nw.Series[Any]) -> Column | None:
    """Return the different texts of a column that is held as in Arrow; None for other columns."""
    is_category = column.dtype in (nw.Categorical, nw.Enum)
    is_python = getattr(column.to_native(), "dtype", None) == np.dtype(object)
    if is_python or not (is_category or column.dtype == nw.String):
        return None
    try:
        encoded = column.to_arrow().dictionary_encode()
    except (ImportError, TypeError, ValueError, OverflowError):  # no pyarrow, or no text
        return None
    text = getattr(encoded, "combine_chunks", lambda: encoded)()  # some arrays come in chunks
    if str(text.type.value_type) not in ("string", "large_string", "string_view"):
        return None
    values = text.dictionary.to_pylist()
    code = np.nan_to_num(text.indices.to_numpy(zero_copy_only=False), nan=len(values))
    if text.null_count:
        values.append(None)
    found = Column(np.array(values, dtype=object), code.astype(np.intp))
    return found.take(slice(None)) if is_category else found


def names_of_columns(source: Any) -> list[str]:
    """Return the names of the columns of a file, a frame or a dictionary; none for others."""
    if isinstance(source, str | os.PathLike):
        return [] if is_answer_file(source) else list(open_table(source).names)
    if isinstance(source, Mapping):
        return [str(name) for name in source]
    frame = nw.from_native(source, eager_only=True, pass_through=True)
    return frame.columns if isinstance(frame, nw.DataFrame) else []


def _columns_of_rows(rows: Any) -> dict[str, Any]:
    """Return the columns of an array or a sequence of tuples with two or three entries."""
    try:
        listed = [tuple(row) for row in rows]
        if any(isinstance(entry, list | tuple | np.ndarray) for row in listed[:1] for entry in row):
            raise TypeError("entries must be names")
    except TypeError as error:
        raise InvalidInputError(
            "Comparisons must come as a file, a data frame, a dictionary of columns, or rows "
            f"(winner, loser) or (a, b, who won): got {type(rows).__name__}."
        ) from error
    lengths = {len(row) for row in listed}
    if len(lengths) != 1 or lengths & {2, 3} == set():
        raise InvalidInputError(
            "Rows of comparisons must be (winner, loser) or (a, b, who won), all of one length: "
            f"got lengths {sorted(lengths)}."
        )
    names = ("winner", "loser") if lengths == {2} else ("a", "b", "result")
    return dict(zip(names, map(_vector, zip(*listed, strict=True)), strict=True))


def _vector(values: Any) -> NDArray[Any]:
    """Return cells as a vector; words are objects, and numbers among them become words."""
    try:
        array = np.asarray(values, dtype=object if _are_words(values) else None)
    except ValueError:  # cells of different lengths
        array = np.fromiter(values, dtype=object, count=len(values))
    if array.ndim == 0:
        raise InvalidInputError(
            f"Columns of comparisons must hold one entry per comparison: got {values!r}. Put it "
            "into a list."
        )
    if array.ndim != 1:
        return np.fromiter(values, dtype=object, count=len(values))
    if array.dtype.kind in "US":
        array = array.astype(object)
        array[[is_missing(value) for value in values]] = None  # NaN among words is no word
    return array


def _are_words(values: Any) -> bool:
    """Tell whether a list holds nothing but words and None."""
    return isinstance(values, list | tuple) and {*map(type, values)} <= {str, type(None)}


@final
@dataclass(frozen=True, eq=False)
class _TableCells:
    """The cells of the columns of a table, in all rows or in some.

    Parameters
    ----------
    columns : mapping
        The columns by name.
    rows : (n_kept,), optional
        The rows that are read.
    n_rows : int
        Number of rows of the table; a column of another length is refused later.
    """

    columns: Mapping[str, AnyColumn]
    rows: IntArray | None = None
    n_rows: int = 0

    def of(self, name: str) -> NDArray[Any]:
        """Return the cells of a column."""
        cells = cells_of(self.columns[name])
        return cells[self._kept(len(cells))]

    def coded(self, name: str) -> Column:
        """Return the different cells, of names or of who won; refuse lists and tables."""
        column = self.columns[name]
        text = _arrow_text(column) if isinstance(column, nw.Series) else None
        if text is not None:
            return text.take(self.rows) if self.rows is not None else text
        try:
            return Column.of(self.of(name))
        except TypeError as error:
            raise DataFileError(
                f"The column {name!r} must hold names or numbers: {error}."
            ) from error

    def floats(self, role: str, name: str) -> FloatArray:
        """Return a column of numbers, NaN where a cell is blank."""
        cells = self.of(name)
        try:
            if cells.dtype.kind not in "OUT":
                return cells.astype(np.float64)
            words = Column.of(cells)
            values = ["nan" if is_blank(value) else value for value in words.values.tolist()]
            return np.array(values).astype(np.float64)[words.code]
        except (TypeError, ValueError, OverflowError) as error:
            raise DataFileError(f"The column for `{role}` must hold numbers: {error}.") from error

    def holds_words(self, name: str) -> bool:
        """Tell whether a column holds anything but numbers and missing cells."""
        cells = self.of(name)
        if cells.dtype.kind not in "OUT":
            return False
        try:
            cells[~missing_cells(cells.astype(object))].astype(np.float64)
        except (TypeError, ValueError):
            return True
        return False

    def _kept(self, n_rows: int) -> IntArray | slice:
        return self.rows if self.rows is not None and n_rows == self.n_rows else slice(None)


Answers: TypeAlias = tuple[Column, Column, IntArray]
"""Both items of every row, and who won."""


def _answers(cells: _TableCells, roles: ColumnRoles, given: ComparisonColumns) -> Answers:
    """Return both items and the outcome, from whichever form the table has."""
    first, second = cells.coded(roles.first), cells.coded(roles.second)
    if roles.points is not None:
        return first, second, _ahead(cells, roles.points)
    if roles.result is not None:
        column = ResultColumn(roles.result, roles.first, roles.second, read_codes(given.codes))
        return first, second, _outcomes(cells, column, first, second)
    outcome = np.full(len(first), FIRST_WON, dtype=np.intp)
    if roles.tied is not None:
        outcome[_flags(cells.coded(roles.tied))] = TIED
    return first, second, outcome


def _outcomes(cells: _TableCells, column: ResultColumn, first: Column, second: Column) -> IntArray:
    """Return what every row of a column says about the two items."""
    said = cells.coded(column.name)
    for name, values in ((column.first, first), (column.second, second)):
        if len(values) != len(said):
            raise DataFileError(
                "Columns must have one entry per comparison: "
                f"{column.name!r} has {len(said)}, {name!r} has {len(values)}."
            )
    return column.outcomes(said, first, second)


def _ahead(cells: _TableCells, points: tuple[str, str]) -> IntArray:
    """Return who has more points."""
    ahead, behind = (cells.floats(name, name) for name in points)
    is_known = np.isfinite(ahead - behind)
    if not is_known.all():
        raise DataFileError(
            f"The columns {list(points)} must hold the points of every row: row "
            f"{int(np.argmin(is_known))} has none. Leave out games that were not played."
        )
    return np.sign(ahead - behind).astype(np.intp)


def _answered(outcome: IntArray) -> IntArray:
    """Return the rows that say who won; refuse a table without any."""
    rows = np.flatnonzero(outcome != LEFT_OUT)
    if len(rows) == 0:
        found = f"none of its {len(outcome)} rows says who won" if len(outcome) else "got none"
        raise NothingToLearnError(f"The table must hold at least one comparison: {found}.")
    return rows


def _with_context(
    cells: _TableCells, roles: ColumnRoles, given: ComparisonColumns, answers: Answers, names: Any
) -> ComparisonTable:
    """Add how much, by whom, when and where to the answers."""
    judge = _judge(cells, roles.judge, is_named=given.judge is not None)
    date = _date(cells, roles.date, is_named=given.date is not None)
    counted = {"count": roles.count, "weight": roles.weight, "margin": roles.margin}
    numbers = {role: cells.floats(role, name) for role, name in counted.items() if name is not None}
    margin, parts = numbers.pop("margin", None), list(numbers.values())
    covariates: dict[str, Any] = {
        given_name: cells.floats(given_name, name)
        for given_name, name in zip(given.covariates, roles.covariates, strict=True)
    }
    at_home = _at_home(cells, roles, answers)
    if at_home is not None:
        covariates["home"] = at_home
    # columns that could not be read, and were not named, stay unread
    read = replace(
        roles,
        judge=None if judge is None else roles.judge,
        date=None if date is None else roles.date,
    ).columns
    return ComparisonTable.of(
        *answers,
        weight=np.prod(parts, axis=0) if parts else None,
        margin=margin,
        judge=judge,
        date=date,
        covariates=covariates,
        names=names,
        unread=tuple(name for name in cells.columns if name not in read),
    )


def _judge(cells: _TableCells, name: str | None, *, is_named: bool) -> Column | None:
    """Return who judged; a column of blanks that was not named stays unread."""
    judges = None if name is None else cells.coded(name)
    if judges is None or not all(map(is_blank, judges.values.tolist())):
        return judges
    if not is_named:
        return None
    raise DataFileError(
        "The column for `judge` must say who judged: all of its cells are blank. Leave it out."
    )


def _date(cells: _TableCells, name: str | None, *, is_named: bool) -> FloatArray | None:
    """Return the days of a column; an unreadable one that was not named stays unread."""
    if name is None:
        return None
    dates = cells.of(name)
    try:
        return as_days(dates, len(dates))
    except InvalidInputError:
        if is_named:
            raise
        return None


def _at_home(cells: _TableCells, roles: ColumnRoles, answers: Answers) -> FloatArray | None:
    """Return 1 where the first item is at home, -1 where the second is, 0 in neutral places."""
    first, second, _ = answers
    if roles.home is not None:
        remedy = "Write a, b, the name of the item at home, or nothing into it."
        blank = dict.fromkeys(NO_ANSWER, TIED)
        column = ResultColumn(roles.home, roles.first, roles.second, blank, remedy)
        return _outcomes(cells, column, first, second).astype(np.float64)
    if not roles.at_home:
        return None
    if roles.neutral is None:
        return np.ones(len(first))
    return np.where(_flags(cells.coded(roles.neutral)), 0.0, 1.0)


def _flags(column: Column) -> NDArray[np.bool_]:
    values = column.values.tolist()
    words = ["" if is_missing(value) else str(value).strip().lower() for value in values]
    strange = np.array([word not in YES | NO for word in words], dtype=bool)[column.code]
    if strange.any():
        row = int(np.argmax(strange))
        raise DataFileError(
            "A column of ties or neutral places must say 1, yes or true, or else 0, no, false or "
            f"nothing: row {row} says {values[column.code[row]]!r}."
        )
    return np.array([word in YES for word in words], dtype=bool)[column.code]
