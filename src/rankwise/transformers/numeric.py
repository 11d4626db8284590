"""Numbers inside each query: scales, ranks, and what blanks are filled with."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.utils.validation import validate_data

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.checks import refuse_overflow
from rankwise.core.params import Shape
from rankwise.core.queries import Queries
from rankwise.core.storable import Finite, PositionsIn
from rankwise.core.threads import in_threads
from rankwise.native.within_queries import (
    add_known,
    add_squares,
    count_ranks,
    fill_blanks,
    find_extremes,
    find_quantiles,
    gather_block,
    shift_and_scale,
    write_ranks,
)
from rankwise.transformers.base import QueryTransformer, refuse_sparse_rows

Scale: TypeAlias = Literal["min_max", "standard", "robust", "max_abs"]
RanksOutput: TypeAlias = Literal["ranks", "values_and_ranks"]
Filling: TypeAlias = Literal["median", "mean", "min"]

BLOCK = 1 << 15
"""Entries of X that are sorted together, so that they stay in the cache."""

FEW_ROWS = 32
"""Rows that are ranked by comparing all of them before NumPy is ready to sort."""


@final
class WithinQueryScaler(QueryTransformer):
    """Scale each feature inside each query, so that queries can be compared.

    A feature that is constant in a query becomes 0 in it. Blanks (NaN) are ignored and stay blank.
    Nothing is learned from training rows. The cost is O(n) per feature, O(n log n) for "robust".

    Parameters
    ----------
    scale : {"min_max", "standard", "robust", "max_abs"}
        Scale to the range from 0 to 1; to mean 0 and variance 1; to median 0 and an interquartile
        range of 1 (the full range if the quartiles are equal); or divide by the largest absolute
        value, which keeps zeros and is the only choice for sparse rows.

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
        if self.scale != "max_abs":
            owner = f"WithinQueryScaler(scale={self.scale!r})"
            refuse_sparse_rows(X, owner, "Use scale='max_abs', or X.toarray().")
        with refuse_overflow():
            rows = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=np.float64,
                order="C",
                ensure_all_finite="allow-nan",
            )
        return rows

    def _learn(self, X: Matrix, y: ArrayLike | None, queries: Queries) -> None:
        pass

    def _transformed(self, X: Matrix, queries: Queries, found: Any = None) -> Matrix:  # noqa: ARG002
        if sparse.issparse(X):
            return _sparse_max_abs(X, queries)
        shift, scale = _SCALES[self.scale](X, queries)
        out = np.empty(X.shape)
        shift_and_scale(X, queries.index, shift, scale, out)
        return out

    def _names(self, names: list[str]) -> list[str]:
        return names


def _min_max(X: FloatArray, queries: Queries) -> tuple[FloatArray, FloatArray]:
    low, high = extremes_within_queries(X, queries)
    return low, high - low  # less than 0 where nothing is known


def _max_abs(X: FloatArray, queries: Queries) -> tuple[FloatArray, FloatArray]:
    low, high = of_queries(0.0, X, queries), of_queries(0.0, X, queries)
    find_extremes(X, queries.index, low, high)
    return np.zeros_like(low), np.maximum(high, -low)


def _standard(X: FloatArray, queries: Queries) -> tuple[FloatArray, FloatArray]:
    mean, count = means_within_queries(X, queries)
    squares = of_queries(0.0, X, queries)
    add_squares(X, queries.index, mean, squares)
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


def _sparse_max_abs(X: Matrix, queries: Queries) -> Matrix:
    """Divide stored values by the largest absolute one of their query and feature."""
    rows = X.tocoo()
    # a cell is a query and a feature
    cell = queries.index[rows.coords[0]] * X.shape[1] + rows.coords[1]
    cells, cell_of_entry = np.unique(cell, return_inverse=True)
    largest = np.zeros(len(cells))
    known = ~np.isnan(rows.data)
    np.maximum.at(largest, cell_of_entry[known], np.abs(rows.data[known]))
    largest[largest == 0.0] = 1.0
    values = rows.data / largest[cell_of_entry]
    return sparse.csr_array((values, rows.coords), shape=X.shape)


@final
class WithinQueryRanks(QueryTransformer):
    """Replace each feature by its rank inside the query: 0 for the lowest, 1 for the highest.

    How an item compares with the others is often worth more than the value itself. Ties share the
    mean of their ranks, a feature that is constant in a query becomes 0.5, and blanks stay blank.
    Ranks do not change under increasing transformations of a feature. The cost is O(n log n) per
    feature.

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

    def _learn(self, X: Matrix, y: ArrayLike | None, queries: Queries) -> None:
        pass

    def _transformed(self, X: Matrix, queries: Queries, found: Any = None) -> Matrix:  # noqa: ARG002
        ranks = ranks_within_queries(X, queries)
        return ranks if self.output == "ranks" else np.concatenate([X, ranks], axis=1)

    def _names(self, names: list[str]) -> list[str]:
        ranks = [f"rank of {name}" for name in names]
        return ranks if self.output == "ranks" else names + ranks


@final
class WithinQueryImputer(QueryTransformer):
    """Fill blanks from the other items of the query.

    A blank gets the median (or mean, or minimum) of the known values of its feature in its query.
    If the query has none, it gets the median of that statistic over the training queries; a feature
    without any known value becomes 0.

    Parameters
    ----------
    filling : {"median", "mean", "min"}
        The statistic of the known values that a blank gets.
    add_indicator : bool
        Whether to add a feature, 1 for a blank and 0 otherwise, for each feature that had blanks
        in `fit`.

    Attributes
    ----------
    fallback_ : (n_features,)
        The value of a blank in a query without known values: the median over training queries.
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

    fallback_: Annotated[FloatArray, Finite(), Shape("n_features")]
    indicated_: Annotated[IntArray, Shape("n_indicated"), PositionsIn("n_features")]

    def __init__(self, filling: Filling = "median", *, add_indicator: bool = False) -> None:
        self.filling = filling
        self.add_indicator = add_indicator

    def _learn(self, X: Matrix, y: ArrayLike | None, queries: Queries) -> FloatArray:  # noqa: ARG002
        fill_values = self._fill_values(X, queries)
        # fallback: the median of the statistic over the queries that have one
        known = ~np.isnan(fill_values)
        columns = zip(fill_values.T, known.T, strict=True)
        self.fallback_ = np.array([np.median(c[k]) if k.any() else 0.0 for c, k in columns])
        blank = np.isnan(X).any(axis=0) if self.add_indicator else np.zeros(X.shape[1], dtype=bool)
        self.indicated_ = np.flatnonzero(blank)
        return fill_values

    def _fill_values(self, X: FloatArray, queries: Queries) -> FloatArray:
        """Return the value of a blank for each query and feature; NaN if nothing is known."""
        if self.filling == "median":
            return quantiles_within_queries(X, queries, [0.5])[0]
        if self.filling == "mean":
            mean, count = means_within_queries(X, queries)
            return np.where(count > 0.0, mean, np.nan)
        low, high = extremes_within_queries(X, queries)
        return np.where(low <= high, low, np.nan)

    def _transformed(self, X: Matrix, queries: Queries, found: Any = None) -> Matrix:
        filled = X.copy()
        if len(self.indicated_) == 0 and math.isfinite(np.vdot(X, X)):
            return filled  # nothing is blank
        blank = np.isnan(X)
        if blank.any():
            fill_values = self._fill_values(X, queries) if found is None else found
            fill_values = np.where(np.isnan(fill_values), self.fallback_, fill_values)
            fill_blanks(filled, queries.index, fill_values)
        if len(self.indicated_) == 0:
            return filled
        return np.hstack([filled, blank[:, self.indicated_].astype(float)])

    def _names(self, names: list[str]) -> list[str]:
        return names + [f"{names[j]} is blank" for j in self.indicated_]


# Statistics of queries


def of_queries(values: float, X: FloatArray, queries: Queries) -> FloatArray:
    """Return an array with an entry per query and feature, all of one value."""
    out = np.empty((queries.n_queries, X.shape[1]))
    out.fill(values)
    return out


def extremes_within_queries(X: FloatArray, queries: Queries) -> tuple[FloatArray, FloatArray]:
    """Return the lowest and highest known value of each query and feature; else inf and -inf."""
    low, high = of_queries(np.inf, X, queries), of_queries(-np.inf, X, queries)
    find_extremes(X, queries.index, low, high)
    return low, high


def means_within_queries(X: FloatArray, queries: Queries) -> tuple[FloatArray, FloatArray]:
    """Return the mean of the known values of each query and feature, and their number."""
    count, total = of_queries(0.0, X, queries), of_queries(0.0, X, queries)
    add_known(X, queries.index, count, total)
    return total / np.maximum(count, 1.0), count


def ranks_within_queries(X: FloatArray, queries: Queries, *, at_once: int = BLOCK) -> FloatArray:
    """Return the rank of each value in its query from 0 to 1; blanks stay blank."""
    ranks = np.empty(X.shape)
    if len(X) <= FEW_ROWS:
        count_ranks(X, queries.index, ranks)
        return ranks

    def rank(block: _SortBlock, keys: FloatArray) -> None:
        order = np.argsort(keys, axis=2)
        write_ranks(keys, order, queries.order, queries.starts, block.queries, block.feature, ranks)

    _for_each_block(_blocks(queries, X.shape[1], at_once), X, queries, rank)
    return ranks


def quantiles_within_queries(
    X: FloatArray, queries: Queries, shares: Sequence[float], *, at_once: int = BLOCK
) -> FloatArray:
    """Return quantiles of the known values, (n_shares, n_queries, n_features)."""
    found = np.empty((len(shares), queries.n_queries, X.shape[1]))
    wanted = np.array(shares)

    def read(block: _SortBlock, keys: FloatArray) -> None:
        keys.sort(axis=2)
        find_quantiles(keys, wanted, block.queries, block.feature, found)

    _for_each_block(_blocks(queries, X.shape[1], at_once), X, queries, read)
    return found


@final
@dataclass(frozen=True, eq=False)
class _SortBlock:
    """Consecutive features, from one on, of some queries of about the same size."""

    queries: IntArray
    feature: int
    shape: tuple[int, int, int]


def _blocks(queries: Queries, n_features: int, at_once: int) -> list[_SortBlock]:
    """Cut a table into blocks: several queries each, or some features of a large one."""
    blocks = []
    # queries of similar sizes together, from the largest, so that padding is small
    by_size = np.argsort(queries.sizes, kind="stable")
    last = len(by_size)
    while last > 0:
        width = int(queries.sizes[by_size[last - 1]])
        first = max(0, last - max(1, at_once // (width * n_features)))
        n_together = min(n_features, max(1, at_once // width))
        for j in range(0, n_features, n_together):
            shape = (min(n_together, n_features - j), last - first, width)
            blocks.append(_SortBlock(by_size[first:last], j, shape))
        last = first
    return blocks


def _for_each_block(
    blocks: list[_SortBlock],
    X: FloatArray,
    queries: Queries,
    use: Callable[[_SortBlock, FloatArray], None],
) -> None:
    """Call ``use`` with the values of every block, (features, queries, items), in threads.

    Queries are padded with infinity to the size of the largest, and blanks are infinity too: both
    are sorted last.
    """

    def task(k: int) -> None:
        keys = np.full(blocks[k].shape, np.inf)
        gather_block(X, queries.order, queries.starts, blocks[k].queries, blocks[k].feature, keys)
        use(blocks[k], keys)

    in_threads(task, len(blocks))
