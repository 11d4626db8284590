"""Blanks filled in from the other rows of a query."""

from typing import Any, Literal, TypeAlias, final, get_args

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.checks import check_choice
from rankwise.core.queries import Queries
from rankwise.transformers._kernels import fill_blanks
from rankwise.transformers.base import QueryTransformer
from rankwise.transformers.columns import quantiles_within_queries
from rankwise.transformers.scaling import extremes_within_queries, means_within_queries

Filling: TypeAlias = Literal["median", "mean", "min"]


@final
class WithinQueryImputer(QueryTransformer):
    """Fill blanks with what the other items of the query have.

    A blank gets the median (mean, minimum) of the known values of its feature in its query. Where a
    query knows none, it gets that of the queries of the training rows; a feature without any known
    value becomes 0.

    Parameters
    ----------
    filling : {"median", "mean", "min"}
        What a blank gets.
    add_indicator : bool
        Whether to add a feature, 1 for a blank and 0 otherwise, for each feature that had blanks
        in `fit`.

    Attributes
    ----------
    fallback_ : (n_features,)
        What a blank gets where its query knows nothing: the median over training queries.
    indicated_ : (n_indicated,)
        The features that have an indicator.
    n_features_in_, feature_names_in_, fitted_with_qid_
        What `fit` was given.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import WithinQueryImputer
    >>> X = [[1.0], [3.0], [np.nan], [100.0], [np.nan]]
    >>> WithinQueryImputer().fit_transform(X, qid=["a", "a", "a", "b", "b"]).ravel()
    array([  1.,   3.,   2., 100., 100.])
    """

    def __init__(self, filling: Filling = "median", *, add_indicator: bool = False) -> None:
        self.filling = filling
        self.add_indicator = add_indicator

    def _learn(self, X: Matrix, y: ArrayLike | None, queries: Queries) -> FloatArray:  # noqa: ARG002
        check_choice("filling", self.filling, get_args(Filling))
        of_query = self._of_queries(X, queries)
        known = ~np.isnan(of_query)
        columns = zip(of_query.T, known.T, strict=True)
        self.fallback_ = np.array([np.median(c[k]) if k.any() else 0.0 for c, k in columns])
        blank = np.isnan(X).any(axis=0) if self.add_indicator else np.zeros(X.shape[1], dtype=bool)
        self.indicated_ = np.flatnonzero(blank)
        return of_query

    def _of_queries(self, X: FloatArray, queries: Queries) -> FloatArray:
        """Return what a blank of each query and feature gets; NaN where nothing is known."""
        if self.filling == "median":
            return quantiles_within_queries(X, queries, [0.5])[0]
        if self.filling == "mean":
            mean, count = means_within_queries(X, queries)
            return np.where(count > 0.0, mean, np.nan)
        low, high = extremes_within_queries(X, queries)
        return np.where(low <= high, low, np.nan)

    def _transformed(self, X: Matrix, queries: Queries, found: Any = None) -> Matrix:
        blank = np.isnan(X)
        filled = X.copy()
        if blank.any():
            of_query = self._of_queries(X, queries) if found is None else found
            of_query = np.where(np.isnan(of_query), self.fallback_, of_query)
            fill_blanks(filled, queries.index, of_query)
        if len(self.indicated_) == 0:
            return filled
        return np.hstack([filled, blank[:, self.indicated_].astype(float)])

    def _names(self, names: list[str]) -> list[str]:
        return names + [f"{names[j]} is blank" for j in self.indicated_]
