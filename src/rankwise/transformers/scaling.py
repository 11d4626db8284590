"""Scales and ranks of features inside each query."""

from typing import Any, Literal, TypeAlias, final, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.checks import check_choice
from rankwise.core.queries import Queries
from rankwise.transformers._kernels import add_powers, find_extremes, shift_and_scale
from rankwise.transformers.base import QueryTransformer, check_rows, of_queries, refuse_sparse_rows
from rankwise.transformers.columns import quantiles_within_queries, ranks_within_queries

Scale: TypeAlias = Literal["min_max", "standard", "robust", "max_abs"]
RanksOutput: TypeAlias = Literal["ranks", "values_and_ranks"]


@final
class WithinQueryScaler(QueryTransformer):
    """Scale each feature inside each query, so that queries can be compared.

    A feature that is constant in a query becomes 0 there. Blanks (NaN) are left out of the scale
    and stay blank. Nothing is learned from training rows. O(n) per feature, O(n log n) for robust.

    Parameters
    ----------
    scale : {"min_max", "standard", "robust", "max_abs"}
        To the range from 0 to 1; to mean 0 and variance 1; to median 0 and distance 1 of the
        quartiles (of the extremes where the quartiles are equal); or divided by the largest
        absolute value, which keeps zeros and so is the one for sparse rows.

    Attributes
    ----------
    n_features_in_, feature_names_in_, fitted_with_qid_
        What `fit` was given.

    Examples
    --------
    >>> from rankwise import WithinQueryScaler
    >>> X = [[1.0, 5.0], [3.0, 5.0], [200.0, 1.0], [100.0, 2.0], [100.0, 5.0]]
    >>> WithinQueryScaler().fit_transform(X, qid=["a", "a", "b", "b", "b"])
    array([[0.  , 0.  ],
           [1.  , 0.  ],
           [1.  , 0.  ],
           [0.  , 0.25],
           [0.  , 1.  ]])
    """

    def __init__(self, scale: Scale = "min_max") -> None:
        self.scale = scale

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.scale == "max_abs"
        return tags

    def _check_rows(self, X: Any, *, reset: bool) -> Matrix:
        check_choice("scale", self.scale, get_args(Scale))
        if self.scale != "max_abs":
            owner = f"WithinQueryScaler(scale={self.scale!r})"
            refuse_sparse_rows(X, owner, "Use scale='max_abs', or X.toarray().")
        return check_rows(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=np.float64,
            order="C",
            ensure_all_finite="allow-nan",
        )

    def _learn(self, X: Matrix, y: ArrayLike | None, queries: Queries) -> None:
        pass

    def _transformed(self, X: Matrix, queries: Queries, found: Any = None) -> Matrix:  # noqa: ARG002
        if sparse.issparse(X):
            return _sparse_by_largest(X, queries)
        shift, scale = _SCALES[self.scale](X, queries)
        out = np.empty(X.shape)
        shift_and_scale(X, queries.index, shift, scale, out)
        return out

    def _names(self, names: list[str]) -> list[str]:
        return names


def extremes_within_queries(X: FloatArray, queries: Queries) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and highest known value of each query and feature; else inf and -inf."""
    low, high = of_queries(np.inf, X, queries), of_queries(-np.inf, X, queries)
    find_extremes(X, queries.index, low, high)
    return low, high


def _min_max(X: FloatArray, queries: Queries) -> tuple[FloatArray, FloatArray]:
    low, high = extremes_within_queries(X, queries)
    return low, np.maximum(high - low, 0.0)


def _max_abs(X: FloatArray, queries: Queries) -> tuple[FloatArray, FloatArray]:
    low, high = of_queries(0.0, X, queries), of_queries(0.0, X, queries)
    find_extremes(X, queries.index, low, high)
    return np.zeros_like(low), np.maximum(high, -low)


def means_within_queries(X: FloatArray, queries: Queries) -> tuple[FloatArray, FloatArray]:
    """Return the mean of the known values of each query and feature, and their number."""
    nothing, total, count = (of_queries(0.0, X, queries) for _ in range(3))
    add_powers(X, queries.index, nothing, 0, count)
    add_powers(X, queries.index, nothing, 1, total)
    return total / np.maximum(count, 1.0), count


def _standard(X: FloatArray, queries: Queries) -> tuple[FloatArray, FloatArray]:
    mean, count = means_within_queries(X, queries)
    squares = of_queries(0.0, X, queries)
    add_powers(X, queries.index, mean, 2, squares)
    spread = np.sqrt(squares / np.maximum(count, 1.0))
    return mean, np.where(spread > 1e-12 * np.abs(mean), spread, 0.0)  # less is rounding


def _robust(X: FloatArray, queries: Queries) -> tuple[FloatArray, FloatArray]:
    shares = (0.0, 0.25, 0.5, 0.75, 1.0)
    low, first, middle, third, high = quantiles_within_queries(X, queries, shares)
    distance = third - first
    return middle, np.where(distance > 0.0, distance, high - low)


_SCALES = {
    "min_max": _min_max,
    "standard": _standard,
    "robust": _robust,
    "max_abs": _max_abs,
}


def _sparse_by_largest(X: Matrix, queries: Queries) -> Matrix:
    """Divide stored values by the largest absolute one of their query and feature."""
    rows = X.tocoo()
    cell = queries.index[rows.coords[0]] * X.shape[1] + rows.coords[1]
    cells, place = np.unique(cell, return_inverse=True)
    largest = np.zeros(len(cells))
    known = ~np.isnan(rows.data)
    np.maximum.at(largest, place[known], np.abs(rows.data[known]))
    largest[largest == 0.0] = 1.0
    values = rows.data / largest[place]
    return sparse.csr_array((values, rows.coords), shape=X.shape)


@final
class WithinQueryRanks(QueryTransformer):
    """Replace each feature by its rank inside the query: 0 for the lowest, 1 for the highest.

    How an item compares with the others is often worth more than the value itself. Ties share the
    mean of their ranks, a feature that is constant in a query becomes 0.5, blanks stay blank.
    Ranks do not change when a feature is rescaled by any rising function. O(n log n) per feature.

    Parameters
    ----------
    output : {"ranks", "values_and_ranks"}
        The ranks only, or the features followed by their ranks.

    Attributes
    ----------
    n_features_in_, feature_names_in_, fitted_with_qid_
        What `fit` was given.

    Examples
    --------
    >>> from rankwise import WithinQueryRanks
    >>> X = [[1.0], [3.0], [200.0], [100.0], [100.0]]
    >>> WithinQueryRanks().fit_transform(X, qid=[1, 1, 2, 2, 2]).ravel()
    array([0.  , 1.  , 1.  , 0.25, 0.25])
    >>> ranks = WithinQueryRanks(output="values_and_ranks").fit(X)
    >>> ranks.get_feature_names_out(["price"]).tolist()
    ['price', 'rank of price']
    """

    def __init__(self, output: RanksOutput = "ranks") -> None:
        self.output = output

    def _learn(self, X: Matrix, y: ArrayLike | None, queries: Queries) -> None:  # noqa: ARG002
        check_choice("output", self.output, get_args(RanksOutput))

    def _transformed(self, X: Matrix, queries: Queries, found: Any = None) -> Matrix:  # noqa: ARG002
        ranks = ranks_within_queries(X, queries)
        return ranks if self.output == "ranks" else np.hstack([X, ranks])

    def _names(self, names: list[str]) -> list[str]:
        ranks = [f"rank of {name}" for name in names]
        return ranks if self.output == "ranks" else names + ranks
