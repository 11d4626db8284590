"""What sums of rankers share: encoding raw tables, members, and adding their scores."""

from __future__ import annotations

import math
from abc import ABC
from contextlib import AbstractContextManager
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.checks import are_plain_rows, is_missing
from rankwise.core.errors import InvalidInputError, NumericalError
from rankwise.core.namespaces import as_given, on_host
from rankwise.core.queries import Queries, TrainingData
from rankwise.core.storable import Finite
from rankwise.core.words import matching_columns
from rankwise.io.feature_columns import columns_kept, described
from rankwise.io.frames import read_columns
from rankwise.rankers.base import Ranker
from rankwise.rankers.pipeline import RankerPipeline
from rankwise.rankers.reading import read_rows
from rankwise.selection.holdouts import Folds
from rankwise.transformers.categories import WithinQueryEncoder
from rankwise.transformers.numeric import WithinQueryImputer
from rankwise.transformers.text import TextFeatures

LARGEST_DENSE = 1 << 31
"""Bytes up to which sparse rows are made dense."""


def arrays_between_steps() -> AbstractContextManager[None]:
    """Have transformers return arrays, also where scikit-learn is set to return frames."""
    return config_context(transform_output="default")


def fit_preparation(
    X: NDArray[Any], data: TrainingData, *, crosses: bool = False
) -> tuple[list[Any], FloatArray]:
    """Return the fitted transformers that rows need, and the transformed rows.

    Texts are matched with those of their queries, and categories encoded, if there are any, with
    crosses if wanted. Blanks are always filled, so that later rows may have some.
    """
    steps: list[Any] = []
    with arrays_between_steps():
        if X.dtype.kind in "OUS" and (texts := _texts_of(X, data)) is not None:
            X = texts.fit_transform(X, data.scores, _given_queries(data))
            steps.append(texts)
        if X.dtype.kind in "OUS":
            encoder = WithinQueryEncoder(crosses="auto" if crosses else None)
            X = encoder.fit_transform(X, data.scores, _given_queries(data))
            steps.append(encoder)
        imputer = WithinQueryImputer(add_indicator=True)
        steps.append(imputer)
        return steps, imputer.fit_transform(X, data.scores, data.queries)


def crosses_of(steps: list[Any]) -> range:
    """Return the prepared features that come with crosses of categories."""
    for step in steps:
        if isinstance(step, WithinQueryEncoder) and len(step.crosses_) > 0:
            n_added = len(step.crosses_) + len(step.columns_)
            return range(step.n_features_in_, step.n_features_in_ + n_added)
    return range(0)


def _texts_of(X: NDArray[Any], data: TrainingData) -> TextFeatures | None:
    """Return what matches the texts of items with those of their queries, if there are any."""
    columns = {j: X[:, j].tolist() for j in range(X.shape[1]) if _holds_words(X[:, j])}
    found = matching_columns(columns, data.queries.index.tolist()) if data.has_qid else None
    return None if found is None else TextFeatures(*found)


def _holds_words(column: NDArray[Any]) -> bool:
    return all(isinstance(cell, str) or is_missing(cell) for cell in column.tolist())


def prepared_without(
    steps: list[Any], X: NDArray[Any], data: TrainingData, folds: Folds
) -> list[FloatArray]:
    """Return all rows once for each fold, as prepared without the rows of that fold.

    The list is empty if no step learns from scores or texts, so that all folds can share their
    rows.
    """
    texts = [step for step in steps if isinstance(step, TextFeatures)]
    encoders = [step for step in steps if isinstance(step, WithinQueryEncoder) and step.columns_]
    if not encoders and not texts:
        return []
    found = []
    for kept, _ in folds.rounds:
        rest = np.setdiff1d(np.arange(data.n_items), kept, assume_unique=True)
        learned, held = data.take(kept), data.take(rest)
        with arrays_between_steps():
            # words are counted in the rows learned from
            rows = X
            for step in texts:
                matched = clone(step).fit(rows[kept], qid=_given_queries(learned))
                rows = matched.transform(rows, _given_queries(data))
            # rows learned from are encoded by each other, all others by all of them
            for known in encoders:
                encoder = _with_columns_of(known)
                of_kept = rows[kept], learned.scores, _given_queries(learned)
                of_kept = encoder.fit_transform(*of_kept)
                encoded = np.zeros((len(rows), of_kept.shape[1]))
                encoded[kept] = of_kept
                encoded[rest] = encoder.transform(rows[rest], held.queries)
                rows = encoded
            found.append(clone(steps[-1]).fit_transform(rows, qid=data.queries))
    return found if len(found) == folds.n_folds else found * folds.n_folds


def _with_columns_of(fitted: WithinQueryEncoder) -> WithinQueryEncoder:
    """Return an encoder of the same features and crosses that is not fitted."""
    columns = fitted.columns_
    crosses = [(columns[a], columns[b]) for a, b in fitted.crosses_.tolist()]
    return WithinQueryEncoder(columns, crosses=None if fitted.crosses is None else crosses)


def _given_queries(data: TrainingData) -> Queries | None:
    return data.queries if data.has_qid else None


def prepared(steps: list[Any], X: NDArray[Any], queries: Queries) -> FloatArray:
    """Put checked rows through fitted transformers; only text is checked again."""
    for step in steps:
        if X.dtype == np.float64:
            X = step._transformed(X, queries)
        else:
            with arrays_between_steps():
                X = step.transform(X, queries)
    return X


class SumOfRankers(Ranker, ABC):
    """A ranker that transforms raw rows and adds up the scores of its members."""

    preparation_: list[BaseEstimator]
    members_: list[RankerPipeline]
    member_weights_: Annotated[FloatArray, Finite()]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    @property
    def compares_items_(self) -> bool:
        """Whether the score of a row depends on the other rows of its query."""
        return True

    @property
    def reading_(self) -> tuple[str, ...]:
        """How the columns of the table it learned from were read; empty for an array."""
        check_is_fitted(self)
        kept = vars(self).get("table_columns_")
        names = vars(self).get("feature_names_in_", ())
        return () if kept is None else tuple(described(columns_kept(kept, names)))

    @property
    def needs_qid_(self) -> bool:
        """Whether `predict` must be given ``qid``, since the rows of a query are compared."""
        return self.fitted_with_qid_

    def predict(self, X: Any, qid: ArrayLike | None = None) -> FloatArray:
        """Return a score for every row of X; higher is better, comparable only within a query.

        Parameters
        ----------
        X : (n_items, n_features)
            Rows to score; all rows of a query together, since they are compared.
        qid : (n_items,), optional
            The query of each row; must be given if `fit` had one.

        Returns
        -------
        scores : (n_items,)
        """
        if "members_" not in vars(self):
            check_is_fitted(self)
        if qid is None and self.fitted_with_qid_:
            raise InvalidInputError(
                f"`predict` must be given `qid`, since {type(self).__name__} compares the rows of "
                "a query: got none. For rows of a single query, give the same id for all. "
                "scikit-learn's cross_val_predict passes none on: predict fold by fold, with "
                "QueryKFold."
            )
        (qid,) = read_columns(X, qid=qid)
        rows = read_rows(self, X)
        return as_given(self._summed(rows, Queries.of(on_host(qid), len(rows))), X)

    def _check_rows(self, X: Any, *, reset: bool) -> NDArray[Any]:
        """Return rows of numbers or text, dense; blanks are allowed."""
        if not reset and are_plain_rows(X, self, allow_nan=True):
            return X
        if sparse.issparse(X) and 8 * np.prod(X.shape) > LARGEST_DENSE:
            raise InvalidInputError(
                f"{type(self).__name__} makes features dense to rank them inside queries: "
                f"{X.shape[0]} rows of {X.shape[1]} features take more than "
                f"{LARGEST_DENSE >> 30} GiB. Use LinearRankRLS for sparse data of this size."
            )
        X = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=None,
            ensure_all_finite="allow-nan",
            ensure_min_samples=2 if reset else 1,
        )
        X = X.toarray() if sparse.issparse(X) else np.asarray(X)
        return X if X.dtype.kind in "OUS" else X.astype(float, copy=False)

    def _summed(self, rows: NDArray[Any], queries: Queries) -> FloatArray:
        prepared_rows = prepared(self.preparation_, rows, queries)
        return added_scores(self.members_, self.member_weights_, prepared_rows, queries)

    def _scores(self, X: Matrix) -> FloatArray:
        """Return the scores of rows of a single query."""
        return self._summed(X, Queries.single(X.shape[0]))


def added_scores(
    members: list[RankerPipeline], weights: FloatArray, X: FloatArray, queries: Queries
) -> FloatArray:
    """Return the weighted sum of the scores of fitted members, whose steps are all our own."""
    total = np.zeros(len(X))
    with np.errstate(over="ignore", invalid="ignore"):
        for weight, member in zip(weights.tolist(), members, strict=True):
            *transformers, ranker = member.steps_
            total += weight * ranker._scores(prepared(transformers, X, queries))
    if not (math.isfinite(np.vdot(total, total)) or np.isfinite(total).all()):
        raise NumericalError(
            "The scores of these rows exceed the range of double precision. Scale the rows like "
            "the training rows."
        )
    return total
