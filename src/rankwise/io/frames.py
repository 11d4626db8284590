"""Take items from data frames by the names of columns: pandas, polars, Arrow and others."""

import inspect
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from importlib.metadata import version
from typing import Any

import narwhals
import numpy as np
from narwhals.dependencies import is_into_dataframe
from scipy.sparse import issparse

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import as_array, check_finite
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.core.devices import takes_tensors
from rankwise.core.errors import InvalidInputError, MissingExtraError
from rankwise.io.comparisons import are_positions, read_comparisons, read_items
from rankwise.io.data import ColumnNames, RankingData, date_hint, is_usual


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


READERS = {
    "y": column_numbers,
    "qid": column_ids,
    "sample_weight": column_numbers,
    "items": column_ids,
}
"""The arguments that may name a column, and how it is read."""

SEES_EVERY_FRAME = tuple(map(int, version("scikit-learn").split(".")[:2])) >= (1, 9)
"""Whether scikit-learn finds the names of columns in all kinds of frames."""

LEARNING = ("fit", "fit_path")
"""Methods that choose the features; all others find them by name."""


def reads_columns(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method take a data frame, and names of its columns for scores, queries and weights.

    Comparisons (``pairs``) may use the names of the rows, from the frame's only column of text or
    its index. In ``fit``, all columns that are not named are features, and columns that look like
    ids are refused. In prediction, the features are found by the names they had in ``fit``: their
    order does not matter, and other columns are ignored. Tensors of PyTorch are taken too.
    """
    signature = inspect.signature(method)
    learns = method.__name__ in LEARNING

    @wraps(method)
    def with_columns(self: Any, *args: Any, **kwargs: Any) -> Any:
        X = args[0] if args else kwargs.get("X")
        any_named = any(isinstance(value, str) for value in (*args[1:3], *kwargs.values()))
        any_named = any_named or any(is_named(kwargs.get(name)) for name in PAIRS)
        any_named = any_named or kwargs.get("as_frame") is True
        if not (any_named or is_frame(X) or is_frame(kwargs.get("X_val"))):
            return method(self, *args, **kwargs)
        bound = signature.bind(self, *args, **kwargs)
        if "tied" not in signature.parameters:  # who takes ties reads all that comparisons tell
            _name_pairs(bound.arguments, signature, keep_ties=learns and _keeps_ties(self))
        if method.__name__ == "rank":
            _name_items(self, bound.arguments)
        _resolve(self, bound.arguments, learns)
        if bound.arguments.get("X_val") is not None:
            _resolve_validation(bound.arguments)
        return method(*bound.args, **bound.kwargs)

    return takes_tensors(with_columns)


PAIRS = {"pairs": "X", "pairs_val": "X_val"}
"""The arguments that hold comparisons, and the rows that they are about."""


def is_named(pairs: Any) -> bool:
    """Return whether comparisons are given by name: in a frame, a file, a dictionary or tuples."""
    if pairs is None:
        return False
    if is_frame(pairs):  # columns that only have numbers are those of an array
        return any(isinstance(column, str) for column in frame_table(pairs).columns)
    return not are_positions(pairs)


def _keeps_ties(ranker: Any) -> bool:
    """Return whether a least-squares ranker learns from ties, as from pairs of equal score."""
    settings = ranker.get_params(deep=False)
    ties, cost = settings.get("ties"), settings.get("cost", "magnitude")
    if not (isinstance(ties, str) and ties == "keep") or "loss" in settings:
        return False
    if not (isinstance(cost, str) and cost == "magnitude"):
        raise InvalidInputError(
            f"ties='keep' is defined only for cost='magnitude': got cost={cost!r}. "
            "Use ties='drop', which leaves tied pairs out."
        )
    return True


def _name_pairs(given: dict[str, Any], signature: inspect.Signature, *, keep_ties: bool) -> None:
    """Replace the names of compared items by row numbers, and read the columns of their table.

    Columns of counts, weights and margins are read. Ties become pairs with a margin of 0 if the
    ranker keeps ties, and are left out otherwise; evaluation ignores them.
    """
    others = [given[role] for role in READERS if isinstance(given.get(role), str)]
    named = {argument: rows for argument, rows in PAIRS.items() if is_named(given.get(argument))}
    for argument, rows in named.items():
        ending = argument.removeprefix("pairs")
        X = given["X"] if given.get(rows) is None else given[rows]
        table = comparisons_of_rows(X, given[argument], others)
        pairs, margin, weight = table.edges(keep_ties=keep_ties and argument == "pairs")
        told = {"pair_weight": weight, "pair_margin": margin}
        for name, values in told.items():
            if given.get(name + ending) is not None:
                raise InvalidInputError(
                    f"Named comparisons must hold all columns themselves: got `{name + ending}` "
                    "separately. Put weights and margins into columns of their table."
                )
            if values is not None and name + ending in signature.parameters:
                given[name + ending] = values
        given[argument] = pairs
    for rows in set(named.values()):
        if is_frame(given.get(rows)):
            given[rows] = read_items(given[rows], others)[1]
    if named and is_frame(given["X"]):
        given["X"] = read_items(given["X"], others)[1]


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
    names = _names_of(X, others)
    n_rows = len(frame_table(X)) if is_frame(X) else rows.shape[0]
    return read_comparisons(pairs, names=np.arange(n_rows) if names is None else names)


def _names_of(X: Any, others: Collection[str] = ()) -> Any:
    """Return the names of rows, from a frame or the rows themselves; None if there are none."""
    if is_frame(X):
        return read_items(frame_table(X).to_native(), others)[0]
    return np.asarray(X) if np.ndim(X) == 1 else None


def _name_items(ranker: Any, given: dict[str, Any]) -> None:
    """Name the items of a ranking by the names of their rows, if these are unambiguous."""
    if not given.get("as_frame") or given.get("items") is not None or given.get("X") is None:
        return
    others = [given["qid"]] if isinstance(given.get("qid"), str) else []
    others += [str(name) for name in vars(ranker).get("feature_names_in_", ())]
    try:
        given["items"] = _names_of(given["X"], others)
    except InvalidInputError:  # several columns of text: which one holds names is not said
        given["items"] = None


def _resolve(ranker: Any, given: dict[str, Any], learns: bool) -> None:
    """Replace names of columns by arrays, and keep the features of the frame."""
    named = {role: given[role] for role in READERS if isinstance(given.get(role), str)}
    table = _table_of(given.get("X"), "X", named)
    if table is None:
        return
    names = ColumnNames.of_frame(table.columns)
    for role, column in named.items():
        given[role] = READERS[role](table, names.required(column, role))
    if learns:
        has_qid = given.get("qid") is not None
        features = _features_to_learn(ranker, names, table, named, has_qid=has_qid)
    else:
        features = _known_features(ranker, names)
    given["X"] = _with_visible_names(table.select(features))


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


def _resolve_validation(given: dict[str, Any]) -> None:
    """Read validation data in the same way, with the features that are learned from."""
    roles = ("y_val", "qid_val")
    named = {role: given[role] for role in roles if isinstance(given.get(role), str)}
    table = _table_of(given["X_val"], "X_val", named)
    if table is None:
        return
    names = ColumnNames.of_frame(table.columns)
    for role, column in named.items():
        given[role] = READERS[role.removesuffix("_val")](table, names.required(column, role))
    if is_frame(given["X"]):
        learned = frame_table(given["X"]).columns
        given["X_val"] = _with_visible_names(
            table.select([names.required(c, "X_val") for c in learned])
        )


def _table_of(X: Any, name: str, named: dict[str, str]) -> Any:
    """Return a frame as a table; None if columns have no names, as in arrays."""
    if is_frame(X):
        table = frame_table(X)
        if named or all(isinstance(column, str) for column in table.columns):
            return table
        return None  # columns that only have numbers are told apart by their place
    for role, column in named.items():
        raise InvalidInputError(
            f"`{name}` must be a data frame if `{role}` names a column: got "
            f"{type(X).__name__} and {column!r}."
        )
    return None


def _features_to_learn(
    ranker: Any, names: ColumnNames, table: Any, named: dict[str, str], *, has_qid: bool
) -> list[str]:
    """Return all columns but the named ones; if some are named, refuse those like ids."""
    features = [name for name in names.names if name not in named.values()]
    if not named:
        return features
    likely = [name for name in features if is_usual(name, "qid")]
    if not has_qid and likely:
        raise InvalidInputError(
            f"`qid` must be given if the frame has a column of queries: {likely[0]!r} looks "
            f"like one. Pass qid={likely[0]!r}, or leave the column out."
        )
    takes_words = ranker.__sklearn_tags__().input_tags.string
    for name in features:
        if not takes_words or table.get_column(name).dtype.is_numeric():
            refuse_doubtful(names, table, name, has_qid=has_qid)
    return features


def _known_features(ranker: Any, names: ColumnNames) -> list[str]:
    """Return the features that the ranker was fitted with; all columns if it has no names."""
    known = vars(ranker).get("feature_names_in_")
    if known is None:
        return names.names
    missing = [str(name) for name in known if name not in names.names]
    if missing:
        shown = ", ".join(repr(name) for name in missing[:5])
        more = f" and {len(missing) - 5} more" if len(missing) > 5 else ""
        raise InvalidInputError(
            "`X` must have the features that were learned from: the frame has no column "
            f"{shown}{more}.{names.did_you_mean(missing[0])}"
        )
    return [str(name) for name in known]
