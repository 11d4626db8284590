"""Take items from data frames by the names of columns: pandas, polars, Arrow and others."""

from collections.abc import Sequence
from typing import Any

import narwhals
import numpy as np
from narwhals.dependencies import is_into_dataframe
from scipy.sparse import issparse

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import check_finite
from rankwise.core.errors import InvalidInputError
from rankwise.io.columns import ColumnNames, date_hint
from rankwise.io.data import RankingData


def from_frame(
    frame: Any,
    *,
    y: str | None = None,
    qid: str | None = None,
    features: str | Sequence[str] | None = None,
    drop: str | Sequence[str] = (),
) -> RankingData:
    """Take scores, queries and features from the columns of a data frame.

    A column is never taken for a feature in silence when it looks like an id: when its name says
    so, when it holds a different whole number in every one of at least 20 rows, or, where no column
    holds the queries, when equal whole numbers stand together as queries do. Such a column must be
    named in ``features`` or in ``drop``; so must a column that holds no numbers.

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
        The columns of X: names, patterns such as ``"bm25_*"``, or ranges such as ``"f1:f20"``
        or ``"f1-f20"``; by default all others.
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
    table = frame_table(frame)
    names = ColumnNames.of_frame(table.columns)
    columns = names.items(y, qid, features, drop)
    if features is None:
        for name in columns.features:
            refuse_doubtful(names, table, name, has_qid=columns.qid is not None)
    if not columns.features:
        raise InvalidInputError(
            f"The frame must have at least one column of features: its columns are {names.names}, "
            "and none of them is left. Name some with features=..."
        )
    return RankingData(
        X=np.column_stack([column_numbers(table, name) for name in columns.features]),
        y=None if columns.y is None else column_numbers(table, columns.y),
        qid=None if columns.qid is None else column_ids(table, columns.qid),
        feature_names=columns.features,
        columns=columns,
    )


def is_frame(X: Any) -> bool:
    """Tell whether something is a data frame, lazy or not, of a library that narwhals knows."""
    if isinstance(X, np.ndarray | list | tuple) or issparse(X):
        return False
    return bool(is_into_dataframe(X)) or isinstance(
        narwhals.from_native(X, pass_through=True), narwhals.LazyFrame
    )


def frame_table(frame: Any) -> Any:
    """Return the frame, collected, in the one form that the rest of this module knows."""
    try:
        table = narwhals.from_native(frame)
    except TypeError as error:
        raise InvalidInputError(
            "`frame` must be a data frame, such as one of pandas, polars or Arrow: got "
            f"{type(frame).__name__}."
        ) from error
    return table.collect() if isinstance(table, narwhals.LazyFrame) else table


def refuse_doubtful(names: ColumnNames, table: Any, name: str, *, has_qid: bool) -> None:
    """Refuse a column that nobody named and that is hardly a feature."""
    column = table.get_column(name)
    whole = column.dtype.is_integer() and not column.is_null().any()
    names.refuse_id(name, column.to_numpy() if whole else None, has_qid=has_qid)
    if not _is_numeric(column):
        hint = date_hint(name) if column.dtype.is_temporal() else ""
        raise InvalidInputError(
            f"Features must be numbers: the column {name!r} holds {column.dtype}.{hint} Leave it "
            f"out with drop={name!r}, or encode it before."
        )


def _is_numeric(column: Any) -> bool:
    return bool(column.dtype.is_numeric() or column.dtype == narwhals.Boolean)


def column_numbers(table: Any, name: str) -> FloatArray:
    """Return a column as finite numbers."""
    column = table.get_column(name)
    if not _is_numeric(column):
        raise InvalidInputError(f"The column {name!r} must hold numbers: it holds {column.dtype}.")
    values = np.asarray(column.to_numpy(), dtype=float)
    check_finite(name, values)
    return values


def column_ids(table: Any, name: str) -> Any:
    """Return a column as ids, none of them missing."""
    column = table.get_column(name)
    if column.is_null().any():
        row = int(np.argmax(column.is_null().to_numpy()))
        raise InvalidInputError(
            f"The column {name!r} must hold an id in every row: row {row} is empty."
        )
    return np.asarray(column.to_list())
