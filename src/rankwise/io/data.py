"""The items of a data file, and which columns hold what: one rule for files and frames.

Nothing is guessed silently: columns are found by common names. A column that was not named and
looks like an id is refused, and the error names the options that settle it.
"""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, NamedTuple, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import entries_of
from rankwise.core.errors import DataFileError, InvalidInputError, RankwiseError

USUAL_NAMES = {
    "y": ("y", "label", "score", "relevance", "grade", "rating"),
    "qid": ("qid", "query_id", "query", "search_id", "session_id"),
    "item": (
        "item", "item_id", "id", "doc_id", "docid", "docno", "document_id", "product_id", "sku",
        "asin", "name",
    ),
}  # fmt: skip
"""The names by which columns of scores, of queries and of items are found, in any spelling."""

MANY_ROWS = 20
"""Rows from which the values of a column can make it look like one of ids."""

LEAST_QUERIES, LEAST_ITEMS = 5, 3
"""Blocks of equal whole numbers, and rows in a block, from which a column looks like queries."""

_ID_NAME = re.compile(r"(^|[_\W])(id|ids|qid|docid|uid|uuid|key|index)($|[_\W])", re.IGNORECASE)
_PANDAS_INDEX = re.compile(r"__index_level_\d+__|Unnamed: 0(\.\d+)?")
_BETWEEN_WORDS = re.compile(r"[\s\-._]+")
_CAMEL_ID = re.compile(r"[a-z](Id|ID)$")
_DECIMAL_COMMA = re.compile(r"[-+]?(\d{1,3}(\.\d{3})*|\d*),\d+")
_DATE = re.compile(r"\d{4}([-./])\d\d?\1\d\d?([ T].*)?|\d\d?([-./])\d\d?\3\d{2,4}([ T,].*)?")


def plain_name(name: str) -> str:
    """Return a name in one spelling: "Query ID", "query_id" and "queryId" are queryid."""
    return _BETWEEN_WORDS.sub("", name).casefold()


def is_usual(name: str, option: str) -> bool:
    """Return whether a column has a common name for scores, queries or items."""
    return plain_name(name) in map(plain_name, USUAL_NAMES[option])


class ItemColumns(NamedTuple):
    """The names of the columns that hold features, scores, queries and names of items, if any.

    ``categories`` are the features that hold text. Columns whose contents rule them out as features
    are in ``left_out``, each with the reason. ``positive`` is the label that ranks above, where the
    column of scores holds labels. ``forms`` says how numbers are written that are not plain.
    ``texts`` are the columns whose texts are matched, that of the queries first; they are also
    among the categories. ``blanks_as_zero`` says that blanks count 0, as in a search engine.
    """

    features: list[str]
    y: str | None
    qid: str | None
    item: str | None = None
    categories: tuple[str, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    positive: str | None = None
    forms: tuple[tuple[str, str], ...] = ()
    texts: tuple[str, ...] = ()
    blanks_as_zero: bool = False


@final
@dataclass(frozen=True)
class ColumnNames:
    """The names of the columns of a table, and how errors speak of it.

    Parameters
    ----------
    names : list of str
        The columns, in order.
    owner : str
        What has the columns, to begin a sentence.
    error : type
        The error to raise if a column is missing or ambiguous.
    """

    names: list[str]
    owner: str
    error: type[RankwiseError]

    @classmethod
    def of_file(cls, path: str | os.PathLike[str], names: Iterable[str]) -> Self:
        """Return the columns of a file."""
        return cls(list(names), os.fspath(path), DataFileError)

    @classmethod
    def of_frame(cls, names: Iterable[str]) -> Self:
        """Return the columns of a data frame."""
        return cls(list(names), "The frame", InvalidInputError)

    def items(
        self,
        y: str | None = None,
        qid: str | None = None,
        features: str | Sequence[str] | None = None,
        drop: str | Sequence[str] = (),
        item: str | None = None,
    ) -> ItemColumns:
        """Choose the given columns, or those with common names and all others as features."""
        dropped = self.chosen(drop, "drop")
        named = [name for name in entries_of(features or ()) if name in self.names]
        y, qid = (
            self.given_or_usual(given, option, taken=[*named, *dropped])
            for given, option in ((y, "y"), (qid, "qid"))
        )
        if item is not None:
            item = self.required(item, "item")
        if item is None and features is None and qid is not None:
            item = self.usual_item([y, qid, *dropped])
        if features is None:
            chosen = [name for name in self.names if name not in (y, qid, item)]
        else:
            chosen = self.chosen(features, "features")
        kept = [name for name in chosen if name not in dropped]
        columns = ItemColumns(kept, y, qid, item)
        return columns if features is not None else self.without_index(columns)

    def without_index(self, columns: ItemColumns) -> ItemColumns:
        """Leave out the names of items, and the index that pandas wrote as a column."""
        features = [name for name in columns.features if name != columns.item]
        index = [name for name in features if _PANDAS_INDEX.fullmatch(name)]
        return columns._replace(
            features=[name for name in features if name not in index],
            left_out=tuple((name, "the index of a data frame") for name in index),
        )

    def usual_item(self, taken: Sequence[str | None]) -> str | None:
        """Return the first unused column with a common name for items."""
        by_name = {plain_name(name): name for name in self.names if name not in taken}
        usual = map(plain_name, USUAL_NAMES["item"])
        return next((by_name[name] for name in usual if name in by_name), None)

    def given_or_usual(
        self, given: str | None, option: str, taken: Sequence[str] = ()
    ) -> str | None:
        """Return the given column, else the one with a common name, else None.

        Those in ``taken`` have another role. Beside a column of ids, one named query holds the text
        of the queries.
        """
        if given is not None:
            return self.required(given, option)
        found = [name for name in self.names if is_usual(name, option) and name not in taken]
        if len(found) > 1:
            found = [name for name in found if plain_name(name) != "query"]
        if len(found) > 1:
            raise self.error(
                f"{self.owner} must have one column for `{option}`: it has {found}. Choose one "
                f"with {option}=..."
            )
        return found[0] if found else None

    def required(self, name: str, option: str) -> str:
        """Return the name of a column, which may be given in another spelling."""
        if not isinstance(name, str):
            raise InvalidInputError(
                f"`{option}` must name a column of {self.owner}: got {type(name).__name__}."
            )
        if name in self.names:
            return name
        same = [known for known in self.names if plain_name(known) == plain_name(name)]
        if len(same) == 1:
            return same[0]
        raise self.error(
            f"{self.owner} must have the column {name!r} for `{option}`: its columns are "
            f"{self.names}.{self.did_you_mean(name)}"
        )

    def did_you_mean(self, name: str) -> str:
        """Return a question with the closest name; nothing if none is close."""
        lower = {known.lower(): known for known in self.names}
        close = get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
        return f" Did you mean {lower[close[0]]!r}?" if close else ""

    def chosen(self, asked: str | Sequence[str], option: str) -> list[str]:
        """Return the columns that names, patterns and ranges stand for, each once."""
        found: dict[str, None] = {}
        for one in entries_of(asked):
            if not isinstance(one, str):
                raise InvalidInputError(
                    f"`{option}` must name columns of {self.owner}: got {type(one).__name__}."
                )
            matches = self._matches(one, option)
            if not matches:
                raise self.error(
                    f"`{option}` must match columns of {self.owner}: {one!r} matches none of "
                    f"{self.names}."
                )
            found |= dict.fromkeys(matches)
        return list(found)

    def _matches(self, asked: str, option: str) -> list[str]:
        if asked in self.names:
            return [asked]
        if any(sign in asked for sign in "*?["):
            return [name for name in self.names if fnmatchcase(name, asked)]
        first, colon, last = asked.partition(":")
        if colon:
            return self._range(self.required(first, option), self.required(last, option))
        for dash in re.finditer("-", asked):
            first, last = asked[: dash.start()], asked[dash.end() :]
            if first in self.names and last in self.names:
                return self._range(first, last)
        return [self.required(asked, option)]

    def _range(self, first: str, last: str) -> list[str]:
        return self.names[self.names.index(first) : self.names.index(last) + 1]

    def refuse_id(self, name: str, values: NDArray[Any] | None, *, has_qid: bool) -> None:
        """Refuse a column that was not named and looks like an id as a feature.

        Parameters
        ----------
        name : str
            The column.
        values : array
            Its cells if they are numbers, else None.
        has_qid : bool
            Whether the queries are in another column.
        """
        if _is_id_name(name) or _all_different(values):
            raise self._id_error(name, "an id", has_qid=has_qid)
        if not has_qid and _in_blocks(values):
            raise self._id_error(name, "an id of queries", has_qid=has_qid)

    def _id_error(self, name: str, kind: str, *, has_qid: bool) -> RankwiseError:
        role = "" if has_qid else f", or qid={name!r} if it holds the queries"
        return self.error(
            f"{self.owner} must not have ids among its features: the column {name!r} looks "
            f"like {kind}. Say what it is: drop={name!r}, or name all features with "
            f"features=[...]{role}."
        )

    def why_no_category(self, name: str, words: Sequence[str], *, has_qid: bool) -> str | None:
        """Return why a column of text is not a feature; None if it holds categories.

        Parameters
        ----------
        name : str
            The column.
        words : list of str
            Its cells, empty for blanks.
        has_qid : bool
            Whether the queries are in another column; if not, ids that repeat are refused, since
            they name queries and no items.
        """
        known = [word for word in words if word]
        if name.lower() in USUAL_NAMES["item"] or _is_id_name(name):
            if not has_qid and len(set(known)) < len(known):
                raise self._id_error(name, "an id of queries", has_qid=has_qid)
            return "names of items"
        if len(known) >= MANY_ROWS and 2 * len(set(known)) > len(known):
            return "text that differs from row to row"
        return None


def _is_id_name(name: str) -> bool:
    return _ID_NAME.search(name) is not None or _CAMEL_ID.search(name) is not None


def _whole_numbers(values: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return the values of a column if they are many whole numbers, else None."""
    if values is None or len(values) < MANY_ROWS or values.dtype.kind not in "iuf":
        return None
    for part in (values[:MANY_ROWS], values):  # the first rows decide about most columns
        if not (np.isfinite(part).all() and (part == np.floor(part)).all()):
            return None
    return values


def _all_different(values: NDArray[Any] | None) -> bool:
    """Return whether every row holds a different whole number."""
    whole = _whole_numbers(values)
    return whole is not None and len(np.unique(whole)) == len(whole)


def _in_blocks(values: NDArray[Any] | None) -> bool:
    """Return whether equal whole numbers are adjacent, as the queries of a file are."""
    whole = _whole_numbers(values)
    if whole is None:
        return False
    n_blocks = 1 + int(np.count_nonzero(whole[1:] != whole[:-1]))
    if n_blocks < LEAST_QUERIES or n_blocks * LEAST_ITEMS > len(whole):
        return False
    return len(np.unique(whole)) == n_blocks


def hint_for(cell: str, column: str) -> str:
    """Return what to do about a cell that is not a number: a decimal comma, or a date."""
    if is_decimal_comma(cell):
        return " Decimal commas are not read: write decimal points."
    if is_date(cell):
        return date_hint(column)
    return ""


def is_decimal_comma(cell: str) -> bool:
    """Return whether a cell is a number with a decimal comma."""
    return _DECIMAL_COMMA.fullmatch(cell) is not None


def is_date(cell: str) -> bool:
    """Return whether a cell looks like a date."""
    return _DATE.fullmatch(cell) is not None


def date_hint(column: str) -> str:
    """Say what to do about a date in place of a number."""
    return (
        f" It is a date: leave the column out with drop={column!r}, or turn it into a number, such "
        "as its age in days."
    )


@final
@dataclass(frozen=True, eq=False)
class RankingData:
    """Hold the items of a data file, one row each, in the order of the file.

    Parameters
    ----------
    X : (n_items, n_features)
        The features, dense or sparse.
    y : (n_items,)
        The given scores; None if the file has none, as in data to be predicted.
    qid : (n_items,)
        The query of each item, numbers or strings; None if the file has none.
    comments : list of n_items strings
        The comment of each item, empty if it has none; None if there are no comments.
    feature_names : list of n_features strings
        The names of the columns; None when the file does not name them.
    zero_based : bool
        Whether the features of an svmlight file were numbered from 0; None for other formats. A
        model depends on it: store it as the ranker's ``zero_based_``, and read other files with it.
    items : (n_items,)
        The name of each item, numbers or strings; None when they were not read.
    columns : ItemColumns
        Which columns of a table hold what; None for other formats.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise.io import RankingData
    >>> RankingData(np.eye(3), np.array([2.0, 0.0, 1.0]), qid=np.array([7, 7, 8]))
    RankingData(3 items, 3 features, dense, with y, qid)
    """

    X: NDArray[Any] | csr_array
    y: FloatArray | None = None
    qid: NDArray[Any] | None = None
    comments: list[str] | None = None
    feature_names: list[str] | None = None
    zero_based: bool | None = None
    items: NDArray[Any] | None = None
    columns: ItemColumns | None = None

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    def __repr__(self) -> str:
        storage = "dense" if isinstance(self.X, np.ndarray) else "sparse"
        optional = ["y", "qid", "comments", "feature_names", "items"]
        present = ", ".join(name for name in optional if getattr(self, name) is not None)
        suffix = f", with {present}" if present else ""
        return f"RankingData({self.n_items} items, {self.n_features} features, {storage}{suffix})"
