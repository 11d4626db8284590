"""Read comparisons of named items from files, data frames, dictionaries and tuples."""

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, final

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray, freeze
from rankwise.core.checks import is_blank, is_missing, missing_cells
from rankwise.core.comparisons.column import Column
from rankwise.core.comparisons.comparison_table import FIRST_WON, SECOND_WON, TIED, ComparisonTable
from rankwise.core.comparisons.dates import as_days
from rankwise.core.errors import (
    DataFileError,
    InvalidInputError,
    LeftOutWarning,
    NothingToLearnError,
    warn_caller,
)
from rankwise.io.answer_file import ANSWERS, AnswerFile, is_answer_file
from rankwise.io.data import plain_name
from rankwise.io.numbers import join_ids
from rankwise.io.tables.reading import if_any, open_table, require_column


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


Usual: TypeAlias = tuple[str, ...]

WINNER: Usual = ("winner", "won", "preferred", "better", "winner_name", "winning_team", "chosen")
LOSER: Usual = ("loser", "lost", "rejected", "worse", "loser_name", "losing_team")
FIRST: Usual = ("a", "item_a", "model_a", "player_a", "team_a", "first", "left", "item1", "player1")
FIRST += ("team1", "model1", "option_a", "option1", "system_a", "response_a", "white")
HOME, AWAY = ("home_team", "hometeam", "home"), ("away_team", "awayteam", "away", "visitor")
SECOND: Usual = ("b", "item_b", "model_b", "player_b", "team_b", "second", "right", "item2")
SECOND += ("player2", "team2", "model2", "option_b", "option2", "system_b", "response_b", "black")
RESULT: Usual = (
    "winner",
    "result",
    "outcome",
    "who",
    "won",
    "answer",
    "vote",
    "preferred",
    "label",
)
POINTS = (
    ("home_score", "away_score"),
    ("home_goals", "away_goals"),
    ("home_points", "away_points"),
    ("fthg", "ftag"),
    ("score_a", "score_b"),
    ("score1", "score2"),
)
NEUTRAL = ("neutral", "neutral_venue", "neutral_site")
TIE_FLAG = ("tied", "tie", "draw")
COUNT = ("count", "counts", "times", "votes", "n")
WEIGHT = ("weight", "weights")
MARGIN = ("margin",)
JUDGE: Usual = ("judge", "worker", "annotator", "rater", "voter", "user", "person", "participant")
JUDGE += ("respondent", "assessor", "student", "taster", *(f"{name}_id" for name in JUDGE))
DATE: Usual = ("date", "day", "match_date", "game_date", "tourney_date", "datetime", "timestamp")
DATE += ("tstamp", "created_at", "time")
"""The names by which columns are found, in any spelling."""

SIDES = (
    ("a", "b"),
    ("1", "2"),
    ("0", "1"),
    ("first", "second"),
    ("left", "right"),
    ("home", "away"),
    ("home", "visitor"),
    ("white", "black"),
    ("red", "blue"),
)
"""Words in which the columns of two items may differ, as image_left and image_right do."""

POINT_WORDS = frozenset(["score", "scores", "goal", "goals", "point", "points", "pts", "runs"])
"""Words in the names of columns of points, such as team1_goals and team2_goals."""

FIRST_WORDS = frozenset(["home", "a", "first", "left", "modela", "itema", "playera", "teama"])
SECOND_WORDS = frozenset(["away", "b", "second", "right", "modelb", "itemb", "playerb", "teamb"])
FIRST_WORDS, SECOND_WORDS = FIRST_WORDS | {"white", "red"}, SECOND_WORDS | {"black", "blue"}
SIDE_WORDS = {
    **dict.fromkeys(sorted(FIRST_WORDS), FIRST_WON),
    **dict.fromkeys(sorted(SECOND_WORDS), SECOND_WON),
}
TIE_WORDS = frozenset(
    ["tie", "tied", "draw", "d", "equal", "same", "both", "bothbad", "neither", "none", "="]
)
"""What a column that says who won may hold, spelt by `plain_name`, besides names of items and of
their columns."""

NO_ANSWER = frozenset(["", "na", "n/a", "#n/a", "nan", "null"])
"""What stands for no answer in such a column."""

UNKNOWN, LEFT_OUT = 8, 9
"""What a cell says that is not understood, or that says nothing."""

NAMED = np.array([UNKNOWN, FIRST_WON, SECOND_WON])
"""What a cell says by naming neither item, the first or the second."""

MEANINGS = {"a": FIRST_WON, "b": SECOND_WON, "tie": TIED, "skip": LEFT_OUT}
"""What the caller's codes can mean."""

CODINGS = (
    {"1": FIRST_WON, "0.5": TIED, "0": SECOND_WON},  # the points of the first
    {"1": FIRST_WON, "0": TIED, "-1": SECOND_WON},  # the sign of its lead
    {"1": FIRST_WON, "2": SECOND_WON, "0": TIED},  # the number of the winner, from 1
    {"0": FIRST_WON, "1": SECOND_WON, "2": TIED},  # the number of the winner, from 0
)
"""What numbers mean in the files that people have."""

TRUTH = {"true": FIRST_WON, "false": SECOND_WON}
HOME_OR_AWAY = {"h": FIRST_WON, "d": TIED, "a": SECOND_WON}
"""Letters in which A is not the first."""

_FINAL_SCORE = re.compile(r"(\d+(?:\.5)?|1/2|½)\s*[-–:]\s*(\d+(?:\.5)?|1/2|½)")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)")
_WORD_OF_NAME = re.compile(r"\d+|[^\W\d_]+")
_INNER_CAPITAL = re.compile(r"(?<=[^\W\d_A-Z])(?=[A-Z])")

YES = frozenset(["1", "1.0", "yes", "y", "true", "tie", "tied", "draw"])
NO = frozenset(["", "0", "0.0", "no", "n", "false", "none", "nan"])
"""What a column of ties may hold."""


WORD_TYPES = (nw.String, nw.Categorical, nw.Enum, nw.Object)
"""Types of columns that hold names."""


@final
@dataclass(frozen=True)
class ComparisonColumns:
    """Name the columns of a table of comparisons; the others are found by common names.

    Parameters
    ----------
    winner, loser : str, optional
        Columns of the winner and of the loser.
    first, second, result : str, optional
        Columns of the two items as they were shown, and of who won: the name of the winner; "a",
        "b" or "tie", and similar words, among them those of the columns' names (H, A and D for home
        and away); 1, 0.5 and 0, or 1, 0 and -1, for the first, a tie and the second. What can be
        read in two ways is refused. Without a result, the points of both decide.
    codes : dict or str, optional
        What the cells of ``result`` mean: "a" (the first won), "b", "tie" or "skip" (left out), as
        in ``{0: "a", 1: "b", 2: "tie"}`` or ``"0=a,1=b,2=tie"``. They come before names and words;
        ``"=tie"`` reads blank cells, which are left out by default, as ties.
    points : (str, str), optional
        Columns of the points of the first and of the second, in place of who won.
    tied : str, optional
        Column that says which rows are ties, in addition to ``winner`` and ``loser``.
    count, weight : str, optional
        How often each row counts; with both, their product.
    margin, date : str, optional
    judge : str, optional
        Column of who judged. Rows in which it is blank have one judge in common, "unknown"; the
        others are then called by text.
    home : str, optional
        Column that names the item at home, or says "a", "b" or nothing. If the first items are in
        a column of home teams, they are at home, except in neutral places.
    covariates : tuple of str
        Columns of covariates: numbers that are positive in favour of the first item.

    Examples
    --------
    >>> from rankwise.io import ComparisonColumns, read_comparisons
    >>> columns = ComparisonColumns(first="us", second="them", result="goals won")
    >>> read_comparisons({"us": ["x"], "them": ["y"], "goals won": ["b"]}, columns).pairs
    array([[1, 0]])
    >>> coded = {"a": ["x", "x"], "b": ["y", "z"], "winner": [0, 2]}
    >>> read_comparisons(coded, ComparisonColumns(codes="0=a,1=b,2=tie")).outcome
    array([1, 0])
    """

    winner: str | None = None
    loser: str | None = None
    first: str | None = None
    second: str | None = None
    result: str | None = None
    points: tuple[str, str] | None = None
    tied: str | None = None
    count: str | None = None
    weight: str | None = None
    margin: str | None = None
    judge: str | None = None
    date: str | None = None
    home: str | None = None
    covariates: tuple[str, ...] = ()
    codes: Mapping[Any, str] | str | None = None


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
    found = _Columns(columns_of(source), given)
    try:
        table = found.table(names)
    except NothingToLearnError:
        raise
    except (DataFileError, InvalidInputError) as error:
        message = str(error)
        if found.n_left_out:
            message += f" Rows are counted without the {found.n_left_out} that name no winner."
        if isinstance(source, str | os.PathLike):
            raise DataFileError(f"{os.fspath(source)}: {message}") from None
        if found.n_left_out:
            raise type(error)(message) from error
        raise
    if found.n_left_out:
        warn_caller(
            f"{found.n_left_out} of {found.n_left_out + table.n_rows} rows do not say who won, and "
            "are left out.",
            LeftOutWarning,
        )
    return table


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


def have_two_items(names: Collection[str]) -> bool:
    """Return whether columns of these names compare two items, and say who won."""
    spelt = set(map(plain_name, names))

    def has(usual: Sequence[str]) -> bool:
        return not spelt.isdisjoint(map(plain_name, usual))

    both = has(FIRST + HOME) and has(SECOND + AWAY)
    points = any(has(one) and has(other) for one, other in (((a,), (b,)) for a, b in POINTS))
    return (has(WINNER) and has(LOSER)) or (both and (has(RESULT) or points))


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
class _Columns:
    """Columns with roles: named by the caller, or found by common names; the rest is unread."""

    def __init__(self, columns: Mapping[str, AnyColumn], given: ComparisonColumns) -> None:
        self.columns = columns
        self.given = given
        self.used: set[str] = set()
        self.by_plain = {plain_name(name): name for name in columns}
        self.shown = ("", "")  # the columns of the first and of the second item
        self.rows = np.zeros(0, dtype=np.intp)  # those that say who won, where others do not
        self.n_left_out = 0

    def table(self, names: Any) -> ComparisonTable:
        """Read the roles."""
        first, second, outcome = self._answers()
        if len(outcome) == 0:
            raise NothingToLearnError("The table must hold at least one comparison: got none.")
        rows = np.flatnonzero(outcome != LEFT_OUT)
        self.n_left_out = len(outcome) - len(rows)
        if len(rows) == 0:
            raise NothingToLearnError(
                f"The table must hold at least one comparison: none of its {len(outcome)} rows "
                "says who won."
            )
        if self.n_left_out:
            first, second, outcome = first.take(rows), second.take(rows), outcome[rows]
            self.rows = rows
        table = self._with_context(first, second, outcome, names)
        return replace(table, row=freeze(rows[table.row]))

    def _with_context(
        self, first: Column, second: Column, outcome: IntArray, names: Any
    ) -> ComparisonTable:
        """Add how much, by whom, when and where."""
        context: dict[str, Any] = {
            "weight": self._weight(),
            "margin": self._maybe_floats("margin", MARGIN),
            "judge": self._judge(),
            "date": self._date(),
        }
        covariates = self._covariates(first, second)
        unread = tuple(name for name in self.columns if name not in self.used)
        return ComparisonTable.of(
            first, second, outcome, **context, covariates=covariates, names=names, unread=unread
        )

    def _answers(self) -> tuple[Column, Column, IntArray]:
        """Return both items and the outcome, from whichever form the table has."""
        given = self.given
        shown = given.first or given.second or given.result or given.points
        if not shown:
            winner, loser = self._name("winner", WINNER), self._name("loser", LOSER)
            if winner is not None and loser is not None:
                self.shown = winner, loser
                self._refuse_codes()
                return self._won(self._names(winner), self._names(loser))
        first, second = self._name("first", FIRST + HOME), self._name("second", SECOND + AWAY)
        if first is None and second is None:
            first, second = self._sided_names()
        result = None if given.points else self._name("result", RESULT)
        if first is not None and second is not None and result is None:
            points = self._points()
            if points is not None:
                self.shown = first, second
                self._refuse_codes()
                return self._names(first), self._names(second), points
        if first is None or second is None or result is None:
            raise DataFileError(
                "Comparisons must have columns winner and loser, or a, b and winner (a, b or tie), "
                "or teams and their points: got the columns "
                f"{list(self.columns)}. Name the columns to read: `winner` and `loser`, or `a`, "
                "`b` and `result` or `points`."
            )
        self.shown = first, second
        one, other = self._names(first), self._names(second)
        column = _ResultColumn(result, first, second, _read_codes(given.codes))
        return one, other, self._outcomes(column, one, other)

    def _outcomes(self, column: "_ResultColumn", first: Column, second: Column) -> IntArray:
        """Return what every row of a column says about the two items."""
        cells = self._names(column.name)
        for name, values in zip(self.shown, (first, second), strict=True):
            if len(values) != len(cells):
                raise DataFileError(
                    "Columns must have one entry per comparison: "
                    f"{column.name!r} has {len(cells)}, {name!r} has {len(values)}."
                )
        return column.outcomes(cells, first, second)

    def _refuse_codes(self) -> None:
        """Refuse codes where no column of results is read."""
        if self.given.codes is not None:
            raise DataFileError(
                "`codes` must come with a column of results, whose cells they explain: got the "
                f"columns {list(self.columns)}, which say who won without one."
            )

    def _sided_names(self) -> tuple[str, str] | tuple[None, None]:
        """Return the only two columns of names, or ids, that differ in the word of their side."""
        found = [
            (one, other)
            for one, other in _sided(self.columns)
            if all(
                _holds_words(cells_of(self.columns[k])) or "id" in _words(k) for k in (one, other)
            )
        ]
        return found[0] if len(found) == 1 else (None, None)

    def _sided_points(self) -> tuple[tuple[str, str], ...]:
        """Return the columns of points that differ in the word of their side, if two alone do."""
        found = [
            pair for pair in _sided(self.columns) if not POINT_WORDS.isdisjoint(_words(pair[0]))
        ]
        return tuple(found) if len(found) == 1 else ()

    def _points(self) -> IntArray | None:
        """Return who has more points, where columns named or of usual names hold those of both."""
        given = self.given.points
        for names in (*POINTS, *self._sided_points()) if given is None else (given,):
            found = [column for name in names if (column := self._spelt(name)) is not None]
            if given is not None:
                found = [self._required(name, "points") for name in names]
            if len(found) == len(names):
                ahead, behind = (self._floats(name, name) for name in found)
                if not np.isfinite(ahead - behind).all():
                    row = int(np.argmin(np.isfinite(ahead - behind)))
                    raise DataFileError(
                        f"The columns {list(names)} must hold the points of every row: row {row} "
                        "has none. Leave out games that were not played."
                    )
                return np.sign(ahead - behind).astype(np.intp)
        return None

    def _won(self, winner: Column, loser: Column) -> tuple[Column, Column, IntArray]:
        outcome = np.full(len(winner), FIRST_WON, dtype=np.intp)
        flags = self._name("tied", TIE_FLAG)
        if flags is not None:
            outcome[_flags(self._names(flags))] = TIED
        return winner, loser, outcome

    def _judge(self) -> Column | None:
        """Return who judged; a column of blanks that was not named stays unread."""
        name = self._name("judge", JUDGE)
        if name is None:
            return None
        judges = self._coded(name)
        if all(map(is_blank, judges.values.tolist())):
            if self.given.judge is None:
                return None
            raise DataFileError(
                "The column for `judge` must say who judged: all of its cells are blank. Leave it "
                "out."
            )
        self.used.add(name)
        return judges

    def _date(self) -> FloatArray | None:
        """Return the days of a column; an unreadable one that was not named stays unread."""
        name = self._name("date", DATE)
        if name is None:
            return None
        cells = self._cells(name)
        try:
            days = as_days(cells, len(cells))
        except InvalidInputError:
            if self.given.date is not None:
                raise
            return None
        self.used.add(name)
        return days

    def _weight(self) -> FloatArray | None:
        found = [self._maybe_floats("count", COUNT), self._maybe_floats("weight", WEIGHT)]
        parts = [part for part in found if part is not None]
        return np.prod(parts, axis=0) if parts else None

    def _covariates(self, first: Column, second: Column) -> dict[str, Any]:
        columns: dict[str, Any] = {
            name: self._floats(name, self._required(name, "covariates"))
            for name in self.given.covariates
        }
        if self.given.home is not None:
            column = self._required(self.given.home, "home")
            at_home = _ResultColumn(
                column,
                *self.shown,
                dict.fromkeys(NO_ANSWER, TIED),
                "Write a, b, the name of the item at home, or nothing into it.",
            )
            columns["home"] = 1.0 * self._outcomes(at_home, first, second)
        elif "home" in _words(_usual_spelling(self.shown[0])):
            neutral = self._name("neutral", NEUTRAL)
            is_neutral = False if neutral is None else _flags(self._names(neutral))
            columns["home"] = np.where(is_neutral, 0.0, np.ones(len(first)))
        return columns

    def _name(self, role: str, usual: Sequence[str]) -> str | None:
        asked = None if role == "neutral" else getattr(self.given, role)
        if asked is not None:
            return self._required(asked, role)
        found = [column for word in usual if (column := self._spelt(word)) is not None]
        free = [name for name in found if name not in self.used]
        return free[0] if free else None

    def _spelt(self, name: str) -> str | None:
        """Return the column of this name in any spelling."""
        return self.by_plain.get(plain_name(name))

    def _required(self, name: str, role: str) -> str:
        found = name if name in self.columns else self._spelt(name)
        if found is None:
            raise DataFileError(
                f"Comparisons must have a column {name!r} for `{role}`: got the columns "
                f"{list(self.columns)}."
            )
        return found

    def _names(self, name: str) -> Column:
        """Return a column of names, or of who won."""
        self.used.add(name)
        return self._coded(name)

    def _cells(self, name: str) -> NDArray[Any]:
        """Return the cells of a column in the rows that are read."""
        cells = cells_of(self.columns[name])
        return cells[self.rows] if self._is_cut(len(cells)) else cells

    def _coded(self, name: str) -> Column:
        """Return the different cells in these rows; refuse those that are lists or tables."""
        column = self.columns[name]
        text = _arrow_text(column) if isinstance(column, nw.Series) else None
        if text is not None:
            return text.take(self.rows) if self._is_cut(len(text)) else text
        try:
            return Column.of(self._cells(name))
        except TypeError as error:
            raise DataFileError(
                f"The column {name!r} must hold names or numbers: {error}."
            ) from error

    def _is_cut(self, n_rows: int) -> bool:
        """Tell whether rows of a column are left out; one of another length is refused later."""
        return self.n_left_out > 0 and n_rows == self.n_left_out + len(self.rows)

    def _maybe_floats(self, role: str, usual: Sequence[str]) -> FloatArray | None:
        name = self._name(role, usual)
        return None if name is None else self._floats(role, name)

    def _floats(self, role: str, name: str) -> FloatArray:
        """Return a column of numbers, NaN where a cell is blank."""
        self.used.add(name)
        cells = self._cells(name)
        try:
            if cells.dtype.kind not in "OUT":
                return cells.astype(np.float64)
            words = Column.of(cells)
            values = ["nan" if is_blank(value) else value for value in words.values.tolist()]
            return np.array(values).astype(np.float64)[words.code]
        except (TypeError, ValueError, OverflowError) as error:
            raise DataFileError(f"The column for `{role}` must hold numbers: {error}.") from error


def _words(name: str) -> tuple[str, ...]:
    """Return the words of a column's name: "ImageLeft" and "image_left" are image and left."""
    return tuple(_WORD_OF_NAME.findall(_INNER_CAPITAL.sub(" ", name).casefold()))


def _sided(names: Collection[str]) -> list[tuple[str, str]]:
    """Return the columns whose names differ in the words of two sides alone, first side first."""
    by_words = {_words(name): name for name in names}
    found = []
    for words, name in by_words.items():
        for one, other in SIDES:
            partner = tuple(other if word == one else word for word in words)
            if partner != words and partner in by_words:
                found.append((name, by_words[partner]))
    return found


def _holds_words(cells: NDArray[Any]) -> bool:
    """Tell whether a column holds anything but numbers and missing cells."""
    if cells.dtype.kind not in "OUT":
        return False
    try:
        cells[~missing_cells(cells.astype(object))].astype(np.float64)
    except (TypeError, ValueError):
        return True
    return False


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


def _read_codes(codes: Mapping[Any, str] | str | None) -> dict[str, int]:
    """Return the outcome of every cell that the caller explains."""
    if codes is None:
        return {}
    if isinstance(codes, str):
        said = [part.rpartition("=")[::2] for part in codes.split(",")]
    else:
        said = list(codes.items()) if isinstance(codes, Mapping) else [("", "")]
    meant = {_spelt(cell): MEANINGS.get(str(word).strip().lower()) for cell, word in said}
    found = {cell: outcome for cell, outcome in meant.items() if outcome is not None}
    if len(found) < len(said):
        raise InvalidInputError(
            "`codes` must say once for each cell whether it means a, b, tie or skip, such as "
            f"'0=a,1=b,2=tie': got {codes!r}."
        )
    return found


@final
@dataclass(frozen=True)
class _ResultColumn:
    """Tell who won from the cells of a column.

    The caller's codes come first. Names come next, if every cell names one of the two items or is a
    word for a tie; then words and numbers, by what the columns are called. Cells that can be read
    in two ways are refused.
    """

    name: str
    first: str
    second: str
    codes: Mapping[str, int]
    remedy: str | None = None

    def outcomes(self, cells: Column, first: Column, second: Column) -> IntArray:
        """Return 1, 0 or -1 for every row, or `LEFT_OUT` where the cell says nothing."""
        # the cases that occur: what a cell says, and which of the two items it names
        case = len(NAMED) * cells.code + _named(cells, first, second)
        occurs = np.flatnonzero(np.bincount(case))
        value, named = occurs // len(NAMED), NAMED[occurs % len(NAMED)]
        spelt = _spelt_values(cells)
        words = [spelt[k] for k in value.tolist()]
        # codes, and blank cells
        outcome = _translated(words, {"": LEFT_OUT, **self.codes})
        is_open = outcome == UNKNOWN
        # names of the two items, and words for ties
        by_word = is_open & (named == UNKNOWN)
        rest = _different(words, by_word)
        reading = {word: _said(word, {}) for word in rest}
        if UNKNOWN in reading.values():
            # words or numbers, in all rows or else beside names
            readings = self._readings(_different(words, is_open))
            row = _first_row(case, occurs[by_word])
            reading = self._only(readings or self._readings(rest), rest, row)
            if readings:
                by_word = is_open
            else:
                is_name = is_open & ~np.isin(words, rest)
                self._refuse_doubt(words, np.where(is_name, named, UNKNOWN), rest, occurs, case)
        outcome = np.where(is_open, named, outcome)
        outcome[by_word] = _translated(words, reading)[by_word]
        of_case = np.full(len(NAMED) * len(cells.values), UNKNOWN, dtype=np.intp)
        of_case[occurs] = outcome
        return of_case[case]

    def _readings(self, words: Sequence[str]) -> list[dict[str, int]]:
        """Return the different ways to read all words, by what the columns are called."""
        for usual in self._usual_readings(words):
            found = [{word: _said(word, reading) for word in words} for reading in usual]
            whole = [reading for reading in found if UNKNOWN not in reading.values()]
            if whole:
                return [one for place, one in enumerate(whole) if one not in whole[:place]]
        return []

    def _usual_readings(self, words: Sequence[str]) -> list[list[dict[str, int]]]:
        """Return what words and numbers usually mean; later lists count where earlier ones fail."""
        sides = _sides(self.first, self.second)
        own = {plain_name(self.first): FIRST_WON, plain_name(self.second): SECOND_WON}
        by_columns = {**SIDE_WORDS, **sides, **own}
        if "h" in sides and "b" in words:  # then A is not away
            by_columns |= {"a": FIRST_WON}
        says_tie = TIED in (_said(word, {}) for word in words)
        numbers = [
            {code: outcome for code, outcome in coding.items() if outcome != TIED or not says_tie}
            for coding in CODINGS
            if all(coding.get(word, outcome) == outcome for word, outcome in sides.items())
        ]
        letters = [HOME_OR_AWAY] if set(words) <= set(HOME_OR_AWAY) else []
        usual = [by_columns, TRUTH, *numbers]
        return [usual, letters] if sides else [usual + letters]

    def _only(
        self, readings: Sequence[dict[str, int]], words: Sequence[str], row: int
    ) -> dict[str, int]:
        """Return the only reading; refuse words that have none, or several."""
        if len(readings) == 1:
            return readings[0]
        if not readings:
            usual = [reading for readings in self._usual_readings(words) for reading in readings]
            strange = [w for w in words if all(_said(w, one) == UNKNOWN for one in usual)] or words
            raise DataFileError(
                f"The column {self.name!r} must say a, b or tie, or name one of the two items: got "
                f"{', '.join(map(repr, strange[:5]))}. "
                + self._explained("Say what that means", dict.fromkeys(strange[:2], TIED))
            )
        ways = "; or ".join(_as_codes(reading, " = ", ", ") for reading in readings)
        raise DataFileError(
            f"The column {self.name!r} must say who won in one way: it can be read as {ways} (a is "
            f"the item in {self.first!r}, b the one in {self.second!r}; row {row} names neither). "
            + self._explained("Say which is meant", readings[0])
        )

    def _refuse_doubt(
        self,
        words: Sequence[str],
        named: IntArray,
        rest: Sequence[str],
        occurs: IntArray,
        case: IntArray,
    ) -> None:
        """Refuse names that are also words for another outcome, in a table that has such words."""
        for word in _different(words, named != UNKNOWN):
            for reading in self._readings(sorted({word, *rest})):
                is_other = (np.array(words) == word) & (named != reading[word])
                if is_other.any():
                    row = _first_row(case, occurs[is_other])
                    raise DataFileError(
                        f"The column {self.name!r} must say who won in one way: {word!r} names an "
                        f"item of row {row}, and is a word for another outcome. "
                        + self._explained("Say which is meant", {word: reading[word]})
                    )

    def _explained(self, what: str, reading: Mapping[str, int]) -> str:
        """Return what to do, with codes as an example."""
        codes = _as_codes({**self.codes, **reading}, "=", ",")
        return self.remedy or f"{what}: ComparisonColumns(codes={codes!r})."


def _as_codes(reading: Mapping[str, int], equals: str, comma: str) -> str:
    """Write a reading as codes."""
    words = {outcome: word for word, outcome in MEANINGS.items()}
    return comma.join(f"{cell}{equals}{words[outcome]}" for cell, outcome in reading.items())


def _spelt_values(column: Column) -> list[str]:
    """Return what the different cells say, each in one spelling; 1 and True are one cell."""
    alike: dict[Any, Any] = {}
    return [_spelt(alike.setdefault(value, value)) for value in column.values.tolist()]


def _first_row(case: IntArray, chosen: IntArray) -> int:
    """Return the first row of the cases chosen."""
    is_chosen = np.zeros(int(case.max()) + 1, dtype=bool)
    is_chosen[chosen] = True
    return int(np.argmax(is_chosen[case]))


def _different(words: Sequence[str], chosen: NDArray[np.bool_]) -> list[str]:
    """Return the words chosen once each, sorted."""
    return sorted({words[place] for place in np.flatnonzero(chosen).tolist()})


def _translated(words: Sequence[str], reading: Mapping[str, int]) -> IntArray:
    """Return what a reading says about every word, `UNKNOWN` where it says nothing."""
    return np.array([reading.get(word, UNKNOWN) for word in words], dtype=np.intp)


def _said(word: str, reading: Mapping[str, int]) -> int:
    """Return what a word says, by a reading or as a word for ties or for no answer."""
    if word in reading:
        return reading[word]
    if word in NO_ANSWER:
        return LEFT_OUT
    return TIED if word in TIE_WORDS or word.startswith(("tie", "both")) else UNKNOWN


def _spelt(cell: Any) -> str:
    """Return a cell in one spelling: 1.0 and "1" are 1, "Model A" is modela, 2:1 is first."""
    text = "" if is_missing(cell) else str(cell).strip()
    score = _FINAL_SCORE.fullmatch(text)
    if score is not None:
        ahead, behind = (0.5 if part in ("½", "1/2") else float(part) for part in score.groups())
        return "tie" if ahead == behind else "first" if ahead > behind else "second"
    return _numeral(text) or plain_name(text) or text


def _numeral(text: str) -> str | None:
    """Return a number in its shortest form, without rounding; None for other text."""
    if _NUMBER.fullmatch(text) is None:
        return None
    whole, _, part = text.lstrip("+-").partition(".")
    digits = f"{whole.lstrip('0') or '0'}.{part.rstrip('0')}".rstrip(".")
    return f"-{digits}" if text.startswith("-") and digits != "0" else digits


def _named(cells: Column, first: Column, second: Column) -> IntArray:
    """Return which item every cell names, as it is written or by its number: a place in `NAMED`."""
    named = np.zeros(len(cells), dtype=np.intp)
    for key in (_number_of, _written):  # the last to name an item decides
        for names, won in ((second, SECOND_WON), (first, FIRST_WON)):
            same = _same(cells, names, key)
            if same is not None:
                named[same] = won % len(NAMED)
    return named


def _written(value: Any) -> Any:
    return value


def _number_of(value: Any) -> str | None:
    return _numeral(str(value).strip())


def _same(cells: Column, names: Column, key: Callable[[Any], Any]) -> NDArray[np.bool_] | None:
    """Tell in which rows the cell and the name have the same key; None if in no row."""
    said = [key(value) for value in cells.values.tolist()]
    has_truth = [column.values.dtype.kind == "b" for column in (cells, names)]
    if has_truth[0] != has_truth[1] or all(word is None for word in said):  # True is no item 1
        return None
    known = [key(value) for value in names.values.tolist()]
    place = {word: number for number, word in enumerate(known) if word is not None}
    if place.keys().isdisjoint(said):
        return None
    of_cells = np.array([place.get(word, -1) for word in said])
    of_names = np.array([place.get(word, -2) for word in known])
    return np.equal(of_cells[cells.code], of_names[names.code])


def _sides(first: str, second: str) -> dict[str, int]:
    """Return the words for the sides that two columns are called after, and their first letters."""
    ends = [_words(_usual_spelling(name)) for name in (first, second)]
    for one, other in SIDES:
        for (shown, hidden), won in ((ends, FIRST_WON), (ends[::-1], SECOND_WON)):
            if one in shown and other in hidden:
                words = {one: won, one[0]: won, other: -won, other[0]: -won}
                return words if one != "home" else {**words, "away": -won, "a": -won}
    return {}


def _usual_spelling(name: str) -> str:
    """Return how a column of a usual name is spelt, so that its words can be told apart."""
    usual = (*FIRST, *SECOND, *HOME, *AWAY)
    return next((word for word in usual if plain_name(word) == plain_name(name)), name)
