"""Features sorted inside every query: ranks and quantiles."""

from collections.abc import Callable, Sequence

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.queries import Queries
from rankwise.core.sorting_kernels import sort_by_key
from rankwise.core.threads import in_threads
from rankwise.transformers._kernels import find_quantile, gather_column, rank_column


def ranks_within_queries(X: FloatArray, queries: Queries) -> FloatArray:
    """Return the rank of each value in its query from 0 to 1; blanks stay blank."""
    ranks = np.empty(X.shape)

    def rank(j: int, keys: FloatArray, order: IntArray) -> None:
        rank_column(keys, order, queries.order, queries.starts, j, ranks)

    _with_sorted_columns(X, queries, rank)
    return ranks


def quantiles_within_queries(
    X: FloatArray, queries: Queries, shares: Sequence[float]
) -> list[FloatArray]:
    """Return quantiles of the known values, one (n_queries, n_features) per share."""
    found = [np.empty((queries.n_queries, X.shape[1])) for _ in shares]

    def read(j: int, keys: FloatArray, order: IntArray) -> None:  # noqa: ARG001
        for share, out in zip(shares, found, strict=True):
            find_quantile(keys, queries.starts, share, j, out)

    _with_sorted_columns(X, queries, read)
    return found


def _with_sorted_columns(
    X: FloatArray, queries: Queries, use: Callable[[int, FloatArray, IntArray], None]
) -> None:
    """Sort one feature at a time inside the queries; threads take whole features."""

    def task(j: int) -> None:
        keys, order = np.empty(X.shape[0]), np.arange(X.shape[0])
        gather_column(X, queries.order, j, keys)
        sort_by_key(keys, order, queries.starts)
        use(j, keys, order)

    in_threads(task, X.shape[1])
