"""What was given to ``fit``, ``predict``, ``rank`` and ``score``, read by one visible call.

Arrays, sparse matrices, frames of pandas, polars or Arrow, names of columns, names of compared
items and tensors of PyTorch go in; arrays come out. The call stands at the top of each method.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from rankwise.core.arrays import Matrix
from rankwise.core.errors import InvalidInputError
from rankwise.core.namespaces import on_host
from rankwise.core.queries import TrainingData
from rankwise.io.comparisons import read_items
from rankwise.io.feature_columns import columns_kept, kept_columns
from rankwise.io.frames import (
    comparisons_of_rows,
    features_by_rules,
    features_in_forms,
    features_to_learn,
    is_frame,
    is_named,
    known_features,
    names_of_rows,
    read_columns,
)


@final
@dataclass(frozen=True)
class RawColumns:
    """Which columns of a raw table are features, and which of them categories, as in `read_table`.

    Parameters
    ----------
    features, categories : str, sequence of str or None
        Names, patterns and ranges; None to find out.
    others : tuple of str
        Columns that hold something else.
    """

    features: str | Sequence[str] | None = None
    categories: str | Sequence[str] | None = None
    others: tuple[str, ...] = ()


def read_training(
    ranker: Any,
    X: Any,
    y: Any = None,
    qid: Any = None,
    sample_weight: Any = None,
    pairs: Any = None,
    pair_margin: Any = None,
    pair_weight: Any = None,
    *,
    ties: Any = "drop",
    cost: Any = "magnitude",
    raw: RawColumns | None = None,
) -> tuple[Matrix, TrainingData]:
    """Read and check what ``fit`` was given.

    ``n_features_in_`` and ``feature_names_in_`` of the ranker are set, as scikit-learn does;
    nothing else of it changes.

    Parameters
    ----------
    ranker : Ranker
        Whose rows they are.
    X : array, sparse matrix, frame or tensor
        The items. All columns of a frame that are not named as something else are features, and
        columns that look like ids are refused.
    y, qid, sample_weight : (n_items,), or the name of a column of X
        Scores, ids of queries, weights.
    pairs : (n_pairs, 2), or comparisons by name as in `read_comparisons`
        Comparisons, winner first. The names of the rows are the frame's only column of text, or
        its index.
    pair_margin, pair_weight : (n_pairs,), optional
        Margins and weights; a table of comparisons holds them itself.
    ties, cost : optional
        Of a least-squares ranker: with ``ties="keep"`` ties among comparisons by name become pairs
        with a margin of 0; otherwise they are left out.
    raw : RawColumns, optional
        Of a ranker that takes raw tables: columns of a frame are read by the rules of files, and
        ``table_columns_`` of the ranker says how.

    Returns
    -------
    X : (n_items, n_features)
        The rows: dense, or sparse in CSR form.
    data : TrainingData
        All else.
    """
    given = (X, y, qid, sample_weight, pairs, pair_margin, pair_weight)
    vars(ranker).pop("table_columns_", None)
    if not all(_is_numeric(value) for value in given):
        given = _as_arrays(ranker, *given, ties, cost, raw)
    rows = ranker._check_rows(given[0], reset=True)
    return rows, TrainingData.of(rows.shape[0], *given[1:])


def _is_numeric(value: Any) -> bool:
    """Return whether a value needs no reading: left out, sparse, or an array without names."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind not in "OUST"
    return value is None or sparse.issparse(value)


def _as_arrays(
    ranker: Any,
    X: Any,
    y: Any,
    qid: Any,
    sample_weight: Any,
    pairs: Any,
    pair_margin: Any,
    pair_weight: Any,
    ties: Any,
    cost: Any,
    raw: RawColumns | None,
) -> tuple[Any, ...]:
    """Return the arguments of `read_training` with names replaced and tensors on the host."""
    pairs, pair_margin, pair_weight = map(on_host, (pairs, pair_margin, pair_weight))
    # compared items by name
    if is_named(pairs):
        refuse_beside_names(pair_weight=pair_weight, pair_margin=pair_margin)
        others = [value for value in (y, qid, sample_weight) if isinstance(value, str)]
        others += () if raw is None else raw.others
        table = comparisons_of_rows(X, pairs, others)
        pairs, pair_margin, pair_weight = table.edges(keep_ties=_keeps_ties(ties, cost))
        X = read_items(X, others)[1] if is_frame(X) else X
    # columns by name
    scored = read_scored(ranker, X, y, qid, sample_weight, raw)
    return *scored, pairs, pair_margin, pair_weight


def read_scored(
    ranker: Any, X: Any, y: Any, qid: Any, sample_weight: Any, raw: RawColumns | None = None
) -> tuple[Any, Any, Any, Any]:
    """Return features, scores, queries and weights, with columns of X in place of their names.

    The parameters are those of `read_training`; nothing is checked but the columns.
    """
    roles = {"y": y, "qid": qid, "sample_weight": sample_weight}
    roles = {role: name for role, name in roles.items() if isinstance(name, str)}
    named, has_qid = [*roles.values(), *(() if raw is None else raw.others)], qid is not None
    given = read_columns(X, y=y, qid=qid, sample_weight=sample_weight)
    if raw is None:
        features = features_to_learn(X, named, has_qid=has_qid)
    else:
        features, columns = features_by_rules(
            X,
            named,
            has_qid=has_qid,
            qid=roles.get("qid"),
            features=raw.features,
            categories=raw.categories,
        )
        if columns is not None:
            columns = columns._replace(y=roles.get("y"))
            ranker.table_columns_ = kept_columns(columns)
    return on_host(features), *map(on_host, given)


def refuse_other_arguments(others: Mapping[str, Any]) -> None:
    """Refuse arguments that no ``fit`` has, with what to write for those of other libraries."""
    for name in others:
        advice = "See help(ranker.fit) for what it takes."
        if name == "group":  # sizes of queries, as LightGBM and XGBoost take them
            advice = "For sizes of queries give qid=np.repeat(np.arange(len(group)), group)."
        elif name in ("groups", "query_id"):
            advice = "Give the query of each row as `qid`."
        raise TypeError(f"`fit` takes no argument {name!r}. {advice}")


def require_qid(ranker: Any, method: str, advice: str) -> None:
    """Refuse a call without queries of a ranker that was fitted with them."""
    check_is_fitted(ranker)
    if ranker.fitted_with_qid_:
        raise InvalidInputError(
            f"`{method}` must be given `qid`, since this ranker was fitted with it: scores are "
            f"comparable only within a query. {advice}"
        )


def known_rows(ranker: Any, X: Any) -> Any:
    """Return features of a frame by the names they had in ``fit``, their cells read as then.

    Anything that is no frame is returned as it is.
    """
    known, kept = (vars(ranker).get(key) for key in ("feature_names_in_", "table_columns_"))
    features = known_features(X, known)
    if known is None or kept is None or not is_frame(features):
        return features
    return features_in_forms(features, columns_kept(kept, known))


def _keeps_ties(ties: Any, cost: Any) -> bool:
    """Return whether a least-squares ranker learns from ties, as from pairs of equal score."""
    if not (isinstance(ties, str) and ties == "keep"):
        return False
    if not (isinstance(cost, str) and cost == "magnitude"):
        raise InvalidInputError(
            f"ties='keep' is defined only for cost='magnitude': got cost={cost!r}. "
            "Use ties='drop', which leaves tied pairs out."
        )
    return True


def read_rows(ranker: Any, X: Any) -> Matrix:
    """Return rows to score; features of a frame are found by the names they had in ``fit``.

    Their order does not matter, and other columns are ignored.
    """
    return ranker._check_rows(on_host(known_rows(ranker, X)), reset=False)


def read_comparisons_of(
    X: Any, pairs: Any, pair_weight: Any, others: Collection[Any] = (), ending: str = ""
) -> tuple[Any, Any, Any]:
    """Return rows to score, and the comparisons of them to judge by, with their weights.

    Comparisons by name become row numbers; ties are left out.

    Parameters
    ----------
    X : array or frame
        The rows.
    pairs, pair_weight
        As in `read_training`.
    others : names of columns
        Columns of X that do not hold names; anything but texts is ignored.
    ending : str
        The ending of the names of the arguments in errors.
    """
    pairs, pair_weight = on_host(pairs), on_host(pair_weight)
    if not is_named(pairs):
        return X, pairs, pair_weight
    refuse_beside_names(**{f"pair_weight{ending}": pair_weight})
    others = [name for name in others if isinstance(name, str)]
    pairs, _, weight = comparisons_of_rows(X, pairs, others).edges(keep_ties=False)
    return read_items(X, others)[1] if is_frame(X) else X, pairs, weight


def refuse_beside_names(**given: Any) -> None:
    """Refuse weights and margins beside comparisons by name, whose table holds them."""
    for name, values in given.items():
        if values is not None:
            raise InvalidInputError(
                f"Named comparisons must hold all columns themselves: got `{name}` "
                "separately. Put weights and margins into columns of their table."
            )


def names_of_items(ranker: Any, X: Any, qid: Any) -> Any:
    """Return the names of rows for a ranking as a frame; None if they are not unambiguous."""
    others = [qid] if isinstance(qid, str) else []
    others += [str(name) for name in vars(ranker).get("feature_names_in_", ())]
    try:
        return names_of_rows(X, others)
    except InvalidInputError:  # several columns of text: which one holds names is not said
        return None
