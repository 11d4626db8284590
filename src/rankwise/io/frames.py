"""Take items from data frames by the names of columns: pandas, polars, Arrow and others."""

from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import narwhals
import numpy as np
from narwhals.dependencies import is_into_dataframe
from scipy.sparse import issparse

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import as_array, check_finite, is_missing
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.core.display import data_frame
from rankwise.core.errors import InvalidInputError, MissingExtraError
from rankwise.io.comparisons import are_positions, read_comparisons, read_items
from rankwise.io.data import ColumnNames, ItemColumns, RankingData, date_hint, is_usual
from rankwise.io.feature_columns import Cells, Feature, FeatureRules


def from_frame(
    frame: Any,
    *,
    y: str | None = None,
    qid: str | None = None,
    features: str | Sequence[str] | None = None,
    drop: str | Sequence[str] = (),
) -> RankingData:
    """Take scores, queries and features from the columns of a data frame.

    A column that looks like an id is never silently used as a feature: if its name says so, if it
    holds a different whole number in each of at least 20 rows or, if no column holds the queries,
    if equal whole numbers are adjacent, as those of queries are. Such a column must be named in
    ``features`` or in ``drop``; so must a column that does not hold numbers.

    Parameters
    ----------
    frame : pandas, polars, Arrow or another frame that narwhals supports
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
    """Return whether an object is a data frame, lazy or not, that narwhals supports."""
    if isinstance(X, np.ndarray | list | tuple) or issparse(X):
        return False
    return bool(is_into_dataframe(X)) or isinstance(
        narwhals.from_native(X, pass_through=True), narwhals.LazyFrame
    )


def frame_table(frame: Any) -> Any:
    """Return the frame, collected, as the narwhals frame that the rest of this module uses."""
    try:
        table = narwhals.from_native(frame)
    except TypeError as error:
        raise InvalidInputError(
            "`frame` must be a data frame of pandas, polars, Arrow or a similar library: got "
            f"{type(frame).__name__}."
        ) from error
    return table.collect() if isinstance(table, narwhals.LazyFrame) else table


def frame_like(X: Any, columns: Mapping[str, Any]) -> Any:
    """Return columns as a frame of the library that X is a frame of, else as one of pandas."""
    if not is_frame(X):
        return data_frame(columns)
    backend = narwhals.from_native(X).implementation
    return narwhals.from_dict(dict(columns), backend=backend).to_native()


def refuse_doubtful(names: ColumnNames, table: Any, name: str, *, has_qid: bool) -> None:
    """Refuse a column that was not named and does not look like a feature."""
    column = table.get_column(name)
    whole = column.dtype.is_integer() and not column.is_null().any()
    names.refuse_id(name, column.to_numpy() if whole else None, has_qid=has_qid)
    if not _is_numeric(column):
        hint = date_hint(name) if column.dtype.is_temporal() else ""
        raise InvalidInputError(
            f"Features must be numbers: the column {name!r} holds {column.dtype}.{hint} Leave it "
            f"out with drop={name!r}, or encode it first."
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


def column_dates(table: Any, name: str) -> Any:
    """Return a column as it is: dates are read by who knows what they are for."""
    return table.get_column(name).to_numpy()


def column_values(table: Any, name: str) -> Any:
    """Return a column as objects, None for blanks."""
    values = table.get_column(name).to_list()
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


READERS = {
    "y": column_numbers,
    "qid": column_ids,
    "sample_weight": column_numbers,
    "items": column_ids,
    "time": column_dates,
    "folds_by": column_values,
}
"""The arguments that may name a column, and how it is read."""

SEES_EVERY_FRAME = tuple(map(int, version("scikit-learn").split(".")[:2])) >= (1, 9)
"""Whether scikit-learn finds the names of columns in all kinds of frames."""


def read_columns(X: Any, owner: str = "X", **given: Any) -> list[Any]:
    """Return arguments with columns of a frame in place of their names.

    Parameters
    ----------
    X : frame or array
        The rows; arguments that are no texts are returned as they are, whatever X is.
    owner : str
        The argument that X came as.
    **given
        Arguments by name: ``y``, ``qid``, ``sample_weight``, ``items``, ``time``,
        ``folds_by``, or with the ending ``_val``.
    """
    named = {role: value for role, value in given.items() if isinstance(value, str)}
    if not named:
        return list(given.values())
    if not is_frame(X):
        role, column = next(iter(named.items()))
        raise InvalidInputError(
            f"`{owner}` must be a data frame if `{role}` names a column: got "
            f"{type(X).__name__} and {column!r}."
        )
    table = frame_table(X)
    names = ColumnNames.of_frame(table.columns)
    for role, column in named.items():
        read = READERS[role.removesuffix("_val")]
        given[role] = read(table, names.required(column, role))
    return list(given.values())


def features_to_learn(X: Any, named: Collection[str], *, has_qid: bool) -> Any:
    """Return the columns of a frame that are not named as something else.

    If some are named, the others must not look like ids. Frames whose columns only have numbers,
    and anything that is no frame, are returned as they are.
    """
    table = _table_with_names(X)
    if table is None:
        return X
    names = ColumnNames.of_frame(table.columns)
    features = [name for name in names.names if name not in named]
    if named:
        refuse_queries(features, has_qid=has_qid)
        for name in features:
            refuse_doubtful(names, table, name, has_qid=has_qid)
    return _with_visible_names(table.select(features))


def features_by_rules(
    X: Any,
    named: Collection[str],
    *,
    has_qid: bool,
    qid: str | None = None,
    features: str | Sequence[str] | None = None,
    categories: str | Sequence[str] | None = None,
) -> tuple[Any, ItemColumns | None]:
    """Return the features of a frame by the rules of files, and which columns hold what.

    Columns of names and of text that differs from row to row are left out; dates, truth values and
    numbers written in words become numbers. Anything that is no frame with names is returned as it
    is, with None.

    Parameters
    ----------
    X : frame or array
    named : names of columns
        Those that hold something else.
    has_qid : bool
        Whether queries are known.
    qid : str, optional
        The column of the queries.
    features, categories : optional
        As in `read_table`; features default to all that are left.
    """
    table = _table_with_names(X)
    if table is None:
        for option, asked in (("features", features), ("categories", categories)):
            if asked is not None:
                raise InvalidInputError(
                    f"`X` must be a data frame with names of columns if `{option}` names some: got "
                    f"{type(X).__name__}."
                )
        return X, None
    names = ColumnNames.of_frame(table.columns)
    known = tuple(names.chosen(categories or (), "categories"))
    named = [names.required(name, "X") for name in named]
    qid = None if qid is None else names.required(qid, "qid")
    columns = ItemColumns([name for name in names.names if name not in named], None, qid)
    ids = None if qid is None else [str(one) for one in table.get_column(qid).to_list()]
    if features is not None:
        columns = columns._replace(features=names.chosen(features, "features"))
    elif named:
        # as for files: the column of names of items, and the index of pandas, are no features
        item = names.usual_item(named) if has_qid else None
        columns = names.without_index(columns._replace(item=item))
        refuse_queries(columns.features, has_qid=has_qid)
        for name in columns.features:
            if name not in known and table.get_column(name).dtype.is_numeric():
                refuse_doubtful(names, table, name, has_qid=has_qid)
    rules = FeatureRules(names, has_qid, known, are_named=features is not None)
    kept, columns = rules.read(columns, (_cells(table, name) for name in columns.features), ids)
    return _with_visible_names(_replaced(table.select(columns.features), kept)), columns


def features_in_forms(frame: Any, columns: ItemColumns) -> Any:
    """Return a frame of known features with its cells read as those that were learned from."""
    table = _table_with_names(frame)
    if table is None:
        return frame
    names = ColumnNames.of_frame(table.columns)
    special = [*columns.categories, *(name for name, _ in columns.forms)]
    rules = FeatureRules(
        names, True, columns.categories, dict(columns.forms), finds=False, are_named=True
    )
    asked = columns._replace(features=special)
    kept, _ = rules.read(asked, (_cells(table, name) for name in special))
    return _with_visible_names(_replaced(table, kept))


def _cells(table: Any, name: str) -> Cells:
    """Return the cells of a column: numbers, NaN for blanks, or words as a file has them."""
    column = table.get_column(name)
    if column.dtype.is_numeric():
        return np.asarray(column.cast(narwhals.Float64).to_numpy(), dtype=float)
    return ["" if is_missing(cell) else str(cell).strip() for cell in column.to_list()]


def _replaced(table: Any, features: Mapping[str, Feature]) -> Any:
    """Return a table whose columns of words, and of numbers that are categories, are as read."""
    made = [
        narwhals.new_series(
            name,
            values,
            narwhals.String if isinstance(values, list) else narwhals.Float64,
            backend=table.implementation,
        )
        for name, values in features.items()
        if isinstance(values, list) or not table.get_column(name).dtype.is_numeric()
    ]
    return table.with_columns(*made) if made else table


def refuse_queries(features: Collection[str], *, has_qid: bool) -> None:
    """Refuse a column that seems to hold queries among features, where none are given."""
    likely = [name for name in features if is_usual(name, "qid")]
    if not has_qid and likely:
        raise InvalidInputError(
            f"`qid` must be given if the frame has a column of queries: {likely[0]!r} looks "
            f"like one. Pass qid={likely[0]!r}, or leave the column out."
        )


def known_features(X: Any, known: Collection[Any] | None) -> Any:
    """Return the columns of a frame by the names that features had in ``fit``, in that order.

    All columns are features if these had no names. Anything that is no frame is returned as it is.
    """
    table = _table_with_names(X)
    if table is None:
        return X
    if known is None:
        return _with_visible_names(table)
    names = ColumnNames.of_frame(table.columns)
    missing = [str(name) for name in known if name not in names.names]
    if missing:
        shown = ", ".join(repr(name) for name in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise InvalidInputError(
            "`X` must have the features that were learned from: the frame has no column "
            f"{shown}{more}.{names.did_you_mean(missing[0])}"
        )
    return _with_visible_names(table.select([str(name) for name in known]))


def _table_with_names(X: Any) -> Any:
    """Return a frame as a table; None for arrays, and if columns are told apart by their place."""
    if not is_frame(X):
        return None
    table = frame_table(X)
    return table if all(isinstance(column, str) for column in table.columns) else None


def _with_visible_names(table: Any) -> Any:
    """Return a frame whose column names scikit-learn can see, converted to pandas if necessary.

    Before version 1.9 scikit-learn needs ``__dataframe__``, which polars has dropped; without
    names, a frame in another order would be ranked by the wrong columns.
    """
    native = table.to_native()
    seen = SEES_EVERY_FRAME or getattr(native, "__dataframe__", None) is not None
    if seen:
        return native
    try:
        return table.to_pandas()
    except ImportError as error:
        raise MissingExtraError(
            f"A {type(native).__module__.partition('.')[0]} frame with this scikit-learn",
            "pandas",
            "frames",
        ) from error


# Names of rows


def is_named(pairs: Any) -> bool:
    """Return whether comparisons are given by name: in a frame, a file, a dictionary or tuples."""
    if pairs is None:
        return False
    if is_frame(pairs):  # columns that only have numbers are those of an array
        return any(isinstance(column, str) for column in frame_table(pairs).columns)
    return not are_positions(pairs)


def comparisons_of_rows(X: Any, pairs: Any, others: Collection[str] = ()) -> ComparisonTable:
    """Return comparisons by name as a table whose items are the rows of X.

    Parameters
    ----------
    X : frame, array or names
        Rows with the names used in the comparisons; rows without names go by their numbers.
    pairs
        As in `read_comparisons`.
    others : names of columns
        Columns of X that do not hold the names.
    """
    rows = X if is_frame(X) or issparse(X) else as_array("X", X)
    if not is_frame(X) and rows.ndim == 0:
        raise InvalidInputError(f"`X` must have rows that are compared: got {type(X).__name__}.")
    names = names_of_rows(X, others)
    n_rows = len(frame_table(X)) if is_frame(X) else rows.shape[0]
    return read_comparisons(pairs, names=np.arange(n_rows) if names is None else names)


def names_of_rows(X: Any, others: Collection[str] = ()) -> Any:
    """Return the names of rows, from a frame or the rows themselves; None if there are none."""
    if is_frame(X):
        return read_items(frame_table(X).to_native(), others)[0]
    return np.asarray(X) if np.ndim(X) == 1 else None
