"""Take items from data frames by the names of columns: pandas, polars, Arrow and others."""

import re
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import check_finite
from rankwise.core.errors import InvalidInputError, MissingExtraError
from rankwise.io.data import RankingData

USUAL_NAMES = {
    "y": ("y", "label", "score", "relevance", "grade", "rating"),
    "qid": ("qid", "query_id", "query", "search_id", "session_id"),
}
"""The names by which columns of scores and of queries are found, in any case."""

_ID_NAME = re.compile(r"(^|[_\W])(id|ids|qid|docid|uid|uuid|key|index)($|[_\W])", re.IGNORECASE)
_CAMEL_ID = re.compile(r"[a-z](Id|ID)$")
MANY_ROWS = 20
"""Rows from which a column of different whole numbers looks like one of ids."""


def from_frame(
    frame: Any,
    *,
    y: str | None = None,
    qid: str | None = None,
    features: str | Sequence[str] | None = None,
    drop: str | Sequence[str] = (),
) -> RankingData:
    """Take scores, queries and features from the columns of a data frame. Needs narwhals.

    A column is never taken for a feature in silence when it looks like an id: when its name says
    so, or when it holds a different whole number in every one of at least 20 rows. Such a column
    must be named in ``features`` or in ``drop``; so must a column that holds no numbers.

    Parameters
    ----------
    frame : pandas, polars, Arrow or another frame that narwhals knows
        One row per item; a lazy frame is collected.
    y : str, optional
        The column of scores; by default the one named y, label, score, relevance, grade or rating.
    qid : str, optional
        The column of queries; by default the one named qid, query_id, query, search_id or
        session_id.
    features : str or sequence of str, optional
        The columns of X: names, patterns such as ``"bm25_*"``, or ranges such as ``"f1:f20"``; by
        default all others.
    drop : str or sequence of str
        Columns to leave out, written in the same way.

    Returns
    -------
    data : RankingData
        With the names of the features.

    Examples
    --------
    >>> import pandas as pd
    >>> from rankwise import RankRLS
    >>> from rankwise.io import from_frame
    >>> frame = pd.DataFrame({
    ...     "search_id": [7, 7, 8, 8], "title": list("abcd"), "stars": [4, 3, 5, 1],
    ...     "price": [120.0, 80.0, 90.0, 60.0], "grade": [2, 1, 2, 0],
    ... })
    >>> data = from_frame(frame, drop="title")
    >>> data.feature_names, data.qid.tolist()
    (['stars', 'price'], [7, 7, 8, 8])
    >>> ranker = RankRLS().fit(data.X, data.y, qid=data.qid)
    """
    table = _table(frame)
    names: list[str] = list(table.columns)
    y_name, qid_name = _given_or_usual(names, y, "y"), _given_or_usual(names, qid, "qid")
    dropped = _chosen(names, drop, "drop")
    rest = [name for name in names if name not in (y_name, qid_name, *dropped)]
    if features is None:
        chosen = rest
        _refuse_doubtful(table, rest, qid_name)
    else:
        chosen = [name for name in _chosen(names, features, "features") if name not in dropped]
    if not chosen:
        raise InvalidInputError(
            f"The frame must have at least one column of features: its columns are {names}, and "
            "none of them is left. Name some with features=..."
        )
    columns = [_numbers(table, name) for name in chosen]
    return RankingData(
        X=np.column_stack(columns),
        y=None if y_name is None else _numbers(table, y_name),
        qid=None if qid_name is None else _ids(table, qid_name),
        feature_names=chosen,
    )


def _table(frame: Any) -> Any:
    """Return the frame in the one form that the rest of this module knows."""
    try:
        import narwhals  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtraError("Reading data frames", "narwhals", "tables") from error
    try:
        table = narwhals.from_native(frame)
    except TypeError as error:
        raise InvalidInputError(
            "`frame` must be a data frame, such as one of pandas, polars or Arrow: got "
            f"{type(frame).__name__}."
        ) from error
    return table.collect() if isinstance(table, narwhals.LazyFrame) else table


def _given_or_usual(names: list[str], given: str | None, option: str) -> str | None:
    if given is not None:
        return _required(names, given, option)
    found = [name for name in names if name.lower() in USUAL_NAMES[option]]
    if len(found) > 1:
        raise InvalidInputError(
            f"One column must be meant by `{option}`: the frame has {found}. Choose one with "
            f"{option}=..."
        )
    return found[0] if found else None


def _required(names: list[str], name: str, option: str) -> str:
    if name in names:
        return name
    close = get_close_matches(name.lower(), [known.lower() for known in names], n=1, cutoff=0.5)
    hint = next((f" Did you mean {k!r}?" for k in names if [k.lower()] == close), "")
    raise InvalidInputError(
        f"The frame must have the column {name!r} for `{option}`: its columns are {names}.{hint}"
    )


def _chosen(names: list[str], asked: str | Sequence[str], option: str) -> list[str]:
    """Return the columns that names, patterns and ranges stand for, each once."""
    found: dict[str, None] = {}
    for one in [asked] if isinstance(asked, str) else asked:
        matches = _matches(names, one, option)
        if not matches:
            raise InvalidInputError(
                f"`{option}` must match columns of the frame: {one!r} matches none of {names}."
            )
        found |= dict.fromkeys(matches)
    return list(found)


def _matches(names: list[str], asked: str, option: str) -> list[str]:
    if asked in names:
        return [asked]
    if any(sign in asked for sign in "*?["):
        return [name for name in names if fnmatchcase(name, asked)]
    first, colon, last = asked.partition(":")
    if not colon:
        return [_required(names, asked, option)]
    start = names.index(_required(names, first, option))
    return names[start : names.index(_required(names, last, option)) + 1]


def _refuse_doubtful(table: Any, names: list[str], qid: str | None) -> None:
    """Refuse columns that nobody named and that are hardly features."""
    for name in names:
        column = table.get_column(name)
        numeric = column.dtype.is_numeric() or str(column.dtype) == "Boolean"
        if _looks_like_id(name, column):
            role = f", or qid={name!r} if it holds the queries" if qid is None else ""
            raise InvalidInputError(
                f"The column {name!r} looks like an id, which is no feature. Say what it is: "
                f"drop={name!r}, or name all features with features=[...]{role}."
            )
        if not numeric:
            raise InvalidInputError(
                f"Features must be numbers: the column {name!r} holds {column.dtype}. Leave it out "
                f"with drop={name!r}, or encode it before."
            )


def _looks_like_id(name: str, column: Any) -> bool:
    """Tell ids by their name, or by different whole numbers in every row."""
    if _ID_NAME.search(name) or _CAMEL_ID.search(name):
        return True
    return bool(
        column.dtype.is_integer() and len(column) >= MANY_ROWS and column.n_unique() == len(column)
    )


def _numbers(table: Any, name: str) -> FloatArray:
    column = table.get_column(name)
    if not (column.dtype.is_numeric() or str(column.dtype) == "Boolean"):
        raise InvalidInputError(f"The column {name!r} must hold numbers: it holds {column.dtype}.")
    values = np.asarray(column.to_numpy(), dtype=float)
    check_finite(name, values)
    return values


def _ids(table: Any, name: str) -> Any:
    column = table.get_column(name)
    if column.is_null().any():
        row = int(np.argmax(column.is_null().to_numpy()))
        raise InvalidInputError(
            f"The column {name!r} must hold an id in every row: row {row} is empty."
        )
    return np.asarray(column.to_list())
