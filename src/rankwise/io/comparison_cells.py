"""The columns of a table of comparisons as they come: of files, frames, dictionaries, tuples."""

import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.checks import is_blank, is_missing, missing_cells
from rankwise.core.comparisons.column import Column
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.io.answer_file import AnswerFile, is_answer_file
from rankwise.io.tables.reading import open_table
from rankwise.io.tables.table import DataTable
from rankwise.native.names import number_texts

YES = frozenset(["1", "1.0", "yes", "y", "true", "tie", "tied", "draw"])
NO = frozenset(["", "0", "0.0", "no", "n", "false", "none", "nan"])
"""What a column of ties may hold."""

WORD_TYPES = (nw.String, nw.Categorical, nw.Enum, nw.Object)
"""Types of columns that hold names."""

FEWEST_ROWS = 3
"""Rows up to which an array may be read in two ways, and is looked at entry by entry."""

AnyColumn: TypeAlias = NDArray[Any] | nw.Series[Any]
"""A column as it comes: an array without words in NumPy's own form, or a column of a frame."""


def columns_of(source: Any) -> Mapping[str, AnyColumn]:
    """Return the columns of a source by name; those of a frame are read when they are asked for."""
    if isinstance(source, str | os.PathLike):
        if is_answer_file(source):
            return AnswerFile.read(source).columns()
        return FileColumns(open_table(source))
    if isinstance(source, Mapping):
        return {str(name): _vector(values) for name, values in source.items()}
    frame = nw.from_native(source, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return {str(column.name): column for column in frame.iter_columns()}
    return _columns_of_rows(source)


@final
class FileColumns(Mapping[str, NDArray[Any]]):
    """The columns of a file, all text, each read when it is asked for, or several at once."""

    def __init__(self, table: DataTable) -> None:
        self.table = table
        self._loaded: dict[str, Column] = {}

    def load(self, names: Collection[str]) -> None:
        """Read several columns in one pass."""
        missing = [name for name in self.table.names if name in names and name not in self._loaded]
        if missing:
            self._loaded.update(zip(missing, self.table.coded(missing), strict=True))

    def coded(self, name: str) -> Column:
        """Return the different cells of a column."""
        self.load([name])
        return self._loaded[name]

    def __getitem__(self, name: str) -> NDArray[Any]:
        column = self.coded(name)
        return column.values[column.code]

    def __iter__(self) -> Iterator[str]:
        return iter(self.table.names)

    def __len__(self) -> int:
        return len(self.table.names)


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
        cells = column.to_arrow()
        cells = getattr(cells, "combine_chunks", lambda: cells)()  # some arrays come in chunks
        if cells.null_count == 0 and str(cells.type) in _TEXT_OFFSETS:
            return _numbered_text(cells)
        text = cells.dictionary_encode()
    except (ImportError, TypeError, ValueError, OverflowError):  # no pyarrow, or no text
        return None
    if str(text.type.value_type) not in ("string", "large_string", "string_view"):
        return None
    values = text.dictionary.to_pylist()
    code = np.nan_to_num(text.indices.to_numpy(zero_copy_only=False), nan=len(values))
    if text.null_count:
        values.append(None)
    found = Column(np.array(values, dtype=object), code.astype(np.intp))
    has_unused = is_category and not np.bincount(found.code, minlength=len(values)).all()
    return found.take(slice(None)) if has_unused else found


_TEXT_OFFSETS = {"string": np.int32, "large_string": np.int64}
"""How Arrow says where the texts of a column begin."""


def _numbered_text(cells: Any) -> Column:
    """Return the different texts of an array of Arrow without blanks, in half of Arrow's time."""
    _, offsets, text = cells.buffers()
    code = np.empty(len(cells), dtype=np.int64)
    edges = np.frombuffer(offsets or bytes(8), dtype=_TEXT_OFFSETS[str(cells.type)])[cells.offset :]
    letters = np.frombuffer(text or b"", dtype=np.uint8)
    first = number_texts(letters, edges[:-1], edges[1:], code)
    return Column(np.array(cells.take(first).to_pylist(), dtype=object), code)


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
    is_array = type(rows) is np.ndarray and rows.ndim == 2 and rows.dtype.kind in "USbiuf"
    if is_array and len(rows) > FEWEST_ROWS:
        return dict(zip(_names_of({rows.shape[1]}), map(_vector, rows.T), strict=True))
    listed = _rows_of(rows)
    names = _names_of(set(map(len, listed)))
    if _may_be_a_matrix(listed):
        raise InvalidInputError(
            "Three rows of three numbers with a diagonal of 0 must say what they are: they can be "
            "read as (a, b, who won), and as a table of wins. Give a dictionary of columns a, b "
            "and result, or a frame of wins whose rows and columns have the same names."
        )
    # one list after the other: to unpack all rows into `zip` takes ten times as long
    return {name: _vector([row[k] for row in listed]) for k, name in enumerate(names)}


def _names_of(lengths: set[int]) -> tuple[str, ...]:
    """Return what the entries of rows mean; refuse rows of other lengths, or of several."""
    if lengths == {2}:
        return ("winner", "loser")
    if lengths == {3}:
        return ("a", "b", "result")
    raise InvalidInputError(
        "Rows of comparisons must be (winner, loser) or (a, b, who won), all of one length: "
        f"got lengths {sorted(lengths)}."
    )


def _rows_of(rows: Any) -> list[tuple[Any, ...]]:
    """Return rows as tuples of names."""
    try:
        listed = [tuple(row) for row in rows]
        if any(isinstance(entry, list | tuple | np.ndarray) for row in listed[:1] for entry in row):
            raise TypeError("entries must be names")
    except TypeError as error:
        raise InvalidInputError(
            "Comparisons must come as a file, a data frame, a dictionary of columns, or rows "
            f"(winner, loser) or (a, b, who won): got {type(rows).__name__}."
        ) from error
    return listed


def _may_be_a_matrix(rows: list[tuple[Any, ...]]) -> bool:
    """Tell whether three rows may be a table of the wins of three items."""
    if len(rows) != 3 or len(rows[0]) != 3:
        return False
    numbers = all(isinstance(x, int | float | np.number) for row in rows for x in row)
    return numbers and not any(row[place] for place, row in enumerate(rows))


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
    if array.dtype.kind not in "US":
        return array
    words = array.astype(object)
    if array is not values:
        words[[is_missing(value) for value in values]] = None  # NaN among words is no word
    return words


def _are_words(values: Any) -> bool:
    """Tell whether a list holds nothing but words and None."""
    return isinstance(values, list | tuple) and {*map(type, values)} <= {str, type(None)}


@final
@dataclass(frozen=True, eq=False)
class TableCells:
    """The cells of the columns of a table, in all rows or in some.

    Parameters
    ----------
    columns : mapping
        The columns by name.
    rows : (n_kept,), optional
        The rows that are read.
    n_rows : int
        Number of rows of the table; a column of another length is refused later.
    found : dict
        The different cells of columns that were looked at.
    """

    columns: Mapping[str, AnyColumn]
    rows: IntArray | None = None
    n_rows: int = 0
    found: dict[str, Column] = field(default_factory=dict)

    def of(self, name: str) -> NDArray[Any]:
        """Return the cells of a column."""
        cells = cells_of(self.columns[name])
        return cells[self._kept(len(cells))]

    def coded(self, name: str) -> Column:
        """Return the different cells, of names or of who won; refuse lists and tables."""
        try:
            return self._different(name)
        except TypeError as error:
            raise DataFileError(
                f"The column {name!r} must hold names or numbers: {error}."
            ) from error

    def floats(self, role: str, name: str) -> FloatArray:
        """Return a column of numbers, NaN where a cell is blank."""
        try:
            if not self._may_hold_words(name):
                return self.of(name).astype(np.float64)
            words = self._different(name)
            values = ["nan" if is_blank(value) else value for value in words.values.tolist()]
            return np.array(values).astype(np.float64)[words.code]
        except (TypeError, ValueError, OverflowError) as error:
            raise DataFileError(f"The column for `{role}` must hold numbers: {error}.") from error

    def holds_words(self, name: str) -> bool:
        """Tell whether a column holds anything but numbers and missing cells."""
        if not self._may_hold_words(name):
            return False
        try:
            values = self._different(name).values.astype(object)
            values[~missing_cells(values)].astype(np.float64)
        except (TypeError, ValueError):
            return True
        return False

    def _may_hold_words(self, name: str) -> bool:
        if isinstance(self.columns, FileColumns):
            return True
        column = self.columns[name]
        if isinstance(column, nw.Series) and column.dtype in WORD_TYPES:
            return True
        return self.of(name).dtype.kind in "OUT"

    def _different(self, name: str) -> Column:
        """Return the different cells of a column, which are looked for once."""
        if name not in self.found:
            text = self._text(name)
            if text is not None and self.rows is not None:
                text = text.take(self.rows)
            self.found[name] = Column.of(self.of(name)) if text is None else text
        return self.found[name]

    def _text(self, name: str) -> Column | None:
        """Return the different cells of a column of text in all rows, if it is held as such."""
        if isinstance(self.columns, FileColumns):
            return self.columns.coded(name)
        column = self.columns[name]
        return _arrow_text(column) if isinstance(column, nw.Series) else None

    def _kept(self, n_rows: int) -> IntArray | slice:
        return self.rows if self.rows is not None and n_rows == self.n_rows else slice(None)


def flags_of(column: Column) -> NDArray[np.bool_]:
    """Return which rows of a column say yes; refuse other words."""
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
