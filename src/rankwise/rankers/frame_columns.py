"""Rows, scores and queries by the names of columns: how the methods of rankers take data frames."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from rankwise.core.checks import check_flag
from rankwise.core.devices import takes_tensors
from rankwise.core.errors import InvalidInputError
from rankwise.io.columns import USUAL_NAMES, ColumnNames
from rankwise.io.frames import column_ids, column_numbers, frame_table, is_frame, refuse_doubtful

READERS = {
    "y": column_numbers,
    "qid": column_ids,
    "sample_weight": column_numbers,
    "items": column_ids,
}
"""The arguments that may name a column, and how it is read."""

LEARNING, ALL_METHODS = ("fit", "fit_path"), ("fit", "fit_path", "predict", "rank", "score")


def reads_columns(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method take a data frame, and names of its columns for scores, queries and weights.

    Where it learns, all columns that are not named are features, and those that look like ids are
    refused. Where it predicts, the features are found by the names they had in ``fit``: their order
    does not matter, others are ignored.
    """
    signature = inspect.signature(method)
    learns = method.__name__ in LEARNING

    @wraps(method)
    def with_columns(self: Any, *args: Any, **kwargs: Any) -> Any:
        if learns:
            _check_flags(self)
        X = args[0] if args else kwargs.get("X")
        any_named = any(isinstance(value, str) for value in (*args[1:3], *kwargs.values()))
        if not (any_named or is_frame(X) or is_frame(kwargs.get("X_val"))):
            return method(self, *args, **kwargs)
        bound = signature.bind(self, *args, **kwargs)
        _resolve(self, bound.arguments, learns)
        if bound.arguments.get("X_val") is not None:
            _resolve_validation(bound.arguments)
        return method(*bound.args, **bound.kwargs)

    return takes_tensors(with_columns)


def _check_flags(ranker: Any) -> None:
    """Refuse arrays for the parameters that are switched on or off, before anything asks them."""
    for name, parameter in inspect.signature(type(ranker).__init__).parameters.items():
        if isinstance(parameter.default, bool):
            check_flag(name, getattr(ranker, name, None))


def read_columns_in(cls: type) -> None:
    """Let the methods that a class defines itself take data frames and names of columns."""
    for name in ALL_METHODS:
        if name in vars(cls) and not getattr(vars(cls)[name], "__isabstractmethod__", False):
            setattr(cls, name, reads_columns(vars(cls)[name]))


def _resolve(ranker: Any, given: dict[str, Any], learns: bool) -> None:
    """Put arrays in place of the names of columns, and keep the features of the frame."""
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
    given["X"] = table.select(features).to_native()


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
        given["X_val"] = table.select([names.required(c, "X_val") for c in learned]).to_native()


def _table_of(X: Any, name: str, named: dict[str, str]) -> Any:
    """Return a frame as a table; None where columns have no names, as those of arrays."""
    if is_frame(X):
        table = frame_table(X)
        if named or all(isinstance(column, str) for column in table.columns):
            return table
        return None  # columns that only have numbers are told apart by their place
    for role, column in named.items():
        raise InvalidInputError(
            f"`{name}` must be a data frame where `{role}` names a column: got "
            f"{type(X).__name__} and {column!r}."
        )
    return None


def _features_to_learn(
    ranker: Any, names: ColumnNames, table: Any, named: dict[str, str], *, has_qid: bool
) -> list[str]:
    """Return all columns but the named ones; where some are named, refuse what is no feature."""
    features = [name for name in names.names if name not in named.values()]
    if not named:
        return features
    likely = [name for name in features if name.lower() in USUAL_NAMES["qid"]]
    if not has_qid and likely:
        raise InvalidInputError(
            f"`qid` must be given where the frame has a column of queries: {likely[0]!r} looks "
            f"like it. Pass qid={likely[0]!r}, or leave the column out."
        )
    takes_words = ranker.__sklearn_tags__().input_tags.string
    for name in features:
        if not takes_words or table.get_column(name).dtype.is_numeric():
            refuse_doubtful(names, table, name, has_qid=has_qid)
    return features


def _known_features(ranker: Any, names: ColumnNames) -> list[str]:
    """Return the features that the ranker was fitted with, all columns where it knows no names."""
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
