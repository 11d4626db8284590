"""Where structured learning to rank moves: weights of features, or weights of items."""

from abc import ABC, abstractmethod
from typing import ClassVar, final

import numpy as np
from scipy.sparse import csr_array, issparse

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.rankers.dorm import _dual_kernels as dual_kernels
from rankwise.rankers.dorm import _linear_kernels as linear_kernels
from rankwise.rankers.dorm._linear_kernels import Rows
from rankwise.rankers.dorm.oracles.plans import Scratch
from rankwise.rankers.dorm.planes import Aims, Planes

_MAX_PLANES = 40  # of a query
_MIN_TOTAL = 4000  # planes that all queries together may have in any case
_RESERVED = 2**30  # bytes of vectors, most of which are never touched


class Space(ABC):
    """A point, the planes whose weighted sum it is, and how queries move it."""

    max_cached: ClassVar[int]
    """How many passes over known planes pay after each pass with the oracle."""

    def __init__(self, starts: IntArray, sizes: IntArray) -> None:
        self._starts = starts
        self.planes = _make_planes(sizes)
        self._C: FloatArray = np.zeros(len(sizes))  # that the planes' weights belong to

    @final
    def move_to(self, aims: Aims) -> None:
        """Change C: a larger one leaves the point where it is."""
        weights = self.planes.weights[:, 1:]
        total = weights.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(total > 0, np.minimum(self._C / aims.C, 1.0 / total), 0.0)
        weights *= np.where(aims.C > 0, factor, 0.0)[:, None]
        self.planes.weights[:, 0] = np.maximum(0.0, 1.0 - weights.sum(axis=1))
        self._C = aims.C
        self.refresh(aims)

    @property
    @abstractmethod
    def point(self) -> FloatArray:
        """The weights of the features, or of the items."""

    @abstractmethod
    def work_of_visits(self) -> float:
        """Return about how many multiplications a pass over all queries needs."""

    @abstractmethod
    def scores(self) -> FloatArray:
        """Return the scores of all items."""

    @abstractmethod
    def query_scores(self, q: int) -> FloatArray:
        """Return the scores of the items of one query."""

    @abstractmethod
    def overlap(self) -> tuple[float, float]:
        """Return the squared norm of the planes' sum v, and its inner product with the base."""

    @abstractmethod
    def visit(self, aims: Aims, scratch: Scratch, queries: IntArray) -> float:
        """Visit queries in turn with the oracle; return the sum of their gaps."""

    @abstractmethod
    def visit_given(self, aims: Aims, q: int, beta: FloatArray, loss: float) -> float:
        """Visit one query with a plane found elsewhere."""

    @abstractmethod
    def revisit(self, aims: Aims, queries: IntArray) -> float:
        """Visit queries in turn with the planes they have; return the gaps these show."""

    @abstractmethod
    def refresh(self, aims: Aims) -> None:
        """Compute the point anew from the planes, free of the rounding of many small steps."""


@final
class LinearSpace(Space):
    """Linear ranking functions ``<w, x>``.

    Parameters
    ----------
    X : (n_items, n_features), dense or CSR
        Query by query.
    starts : (n_queries + 1,)
        Where each query begins.
    base : (n_features,), optional
        Where the weights start and what they are drawn to; zeros by default.
    """

    max_cached = 5

    def __init__(self, X: Matrix, starts: IntArray, base: FloatArray | None = None) -> None:
        if issparse(X):
            self._X: Matrix = csr_array(X)
            self._rows = _sparse_rows(self._X, starts)
            sizes = np.diff(self._rows.column_starts)
        else:
            self._X = np.ascontiguousarray(X, dtype=np.float64)
            self._rows = _dense_rows(self._X)
            sizes = np.full(len(starts) - 1, self._X.shape[1])
        super().__init__(starts, sizes)
        self._base = np.zeros(X.shape[1]) if base is None else base
        self._w = self._base.copy()

    @property
    def point(self) -> FloatArray:
        """The weights of the features."""
        return self._w

    def work_of_visits(self) -> float:
        """Return about how many multiplications a pass over all queries needs."""
        return 2.0 * self._X.nnz if issparse(self._X) else 2.0 * self._X.size

    def scores(self) -> FloatArray:
        """Return the scores of all items."""
        scores: FloatArray = self._X @ self._w
        return scores

    def query_scores(self, q: int) -> FloatArray:
        """Return the scores of the items of one query."""
        scores: FloatArray = self._X[self._starts[q] : self._starts[q + 1]] @ self._w
        return scores

    def overlap(self) -> tuple[float, float]:
        """Return the squared norm of the planes' sum v, and its inner product with the base."""
        v = self._w - self._base
        return float(v @ v), float(v @ self._base)

    def visit(self, aims: Aims, scratch: Scratch, queries: IntArray) -> float:
        """Visit queries in turn with the oracle; return the sum of their gaps."""
        gap: float = linear_kernels.visit(aims, self._rows, self.planes, scratch, queries, self._w)
        return gap

    def visit_given(self, aims: Aims, q: int, beta: FloatArray, loss: float) -> float:
        """Visit one query with a plane found elsewhere."""
        state = self._rows, self.planes
        gap: float = linear_kernels.visit_given(aims, *state, q, beta, loss, self._w)
        return gap

    def revisit(self, aims: Aims, queries: IntArray) -> float:
        """Visit queries in turn with the planes they have; return the gaps these show."""
        gap: float = linear_kernels.revisit(aims, self._rows, self.planes, queries, self._w)
        return gap

    def refresh(self, aims: Aims) -> None:
        """Compute the weights anew from the planes."""
        self._w[:] = self._base
        linear_kernels.sum_planes(aims, self._rows, self.planes, self._w)


@final
class KernelSpace(Space):
    """Ranking functions ``sum_i dual_i k(x_i, x)`` of a kernel.

    Parameters
    ----------
    K : (n_items, n_items)
        The kernel between all items, query by query; positive semi-definite.
    starts : (n_queries + 1,)
        Where each query begins.
    base : (n_items,), optional
        The scores of a function that is added to the sum and what it is drawn to; zeros by default.
    """

    max_cached = 0  # a visit costs a product with rows of K, whether the oracle is called or not

    def __init__(self, K: FloatArray, starts: IntArray, base: FloatArray | None = None) -> None:
        self._K = np.ascontiguousarray(K, dtype=np.float64)
        super().__init__(starts, np.diff(starts))
        self._dual = np.zeros(len(K))
        self._base = np.zeros(len(K)) if base is None else base
        self._scores = self._base.copy()

    @property
    def point(self) -> FloatArray:
        """The weights of the items."""
        return self._dual

    def work_of_visits(self) -> float:
        """Return about how many multiplications a pass over all queries needs."""
        return float(self._K.size)

    def scores(self) -> FloatArray:
        """Return the scores of all items."""
        return self._scores

    def query_scores(self, q: int) -> FloatArray:
        """Return the scores of the items of one query."""
        return self._scores[self._starts[q] : self._starts[q + 1]]

    def overlap(self) -> tuple[float, float]:
        """Return the squared norm of the planes' sum v, and its inner product with the base."""
        along_base = float(self._dual @ self._base)
        return float(self._dual @ self._scores) - along_base, along_base

    def visit(self, aims: Aims, scratch: Scratch, queries: IntArray) -> float:
        """Visit queries in turn with the oracle; return the sum of their gaps."""
        point = self._dual, self._scores
        gap: float = dual_kernels.visit(aims, self._K, self.planes, scratch, queries, *point)
        return gap

    def visit_given(self, aims: Aims, q: int, beta: FloatArray, loss: float) -> float:
        """Visit one query with a plane found elsewhere."""
        state = self._K, self.planes, q, beta, loss, self._dual, self._scores
        gap: float = dual_kernels.visit_given(aims, *state)
        return gap

    def revisit(self, aims: Aims, queries: IntArray) -> float:
        """Visit queries in turn with the planes they have; return the gaps these show."""
        state = self._K, self.planes, queries, self._dual, self._scores
        gap: float = dual_kernels.revisit(aims, *state)
        return gap

    def refresh(self, aims: Aims) -> None:
        """Compute weights and scores anew from the planes."""
        self._dual[:] = 0.0
        dual_kernels.sum_planes(aims, self.planes, self._dual)
        self._scores[:] = self._base + self._K @ self._dual


def _make_planes(sizes: IntArray) -> Planes:
    """Reserve room for planes whose vectors have these lengths, one for each query."""
    slots = _RESERVED // (8 * max(1, int(sizes.sum())))
    n_queries = len(sizes)
    most = max(_MAX_PLANES, min(_MIN_TOTAL // n_queries, 10 * _MAX_PLANES))
    capacity = int(np.clip(slots, 4, most))
    ends = np.cumsum(sizes) * capacity
    weights = np.zeros((n_queries, capacity))
    weights[:, 0] = 1.0
    return Planes(
        vectors=np.empty(int(ends[-1])),
        starts=ends - sizes * capacity,
        sizes=sizes,
        losses=np.zeros((n_queries, capacity)),
        weights=weights,
        grams=np.zeros((n_queries, capacity, capacity)),
        idle=np.zeros((n_queries, capacity), dtype=np.int32),
        counts=np.ones(n_queries, dtype=np.intp),
    )


def _dense_rows(X: FloatArray) -> Rows:
    nothing = np.zeros(0, dtype=np.intp)
    return Rows(X, np.zeros(0), np.zeros(0, dtype=np.int32), nothing, nothing, nothing)


def _sparse_rows(X: Matrix, starts: IntArray) -> Rows:
    """Give every query a list of the columns that occur in it."""
    n_queries, n_features = len(starts) - 1, X.shape[1]
    query = np.repeat(np.arange(n_queries), np.diff(X.indptr[starts]))
    found, place = np.unique(query * n_features + X.indices, return_inverse=True)
    column_starts = np.searchsorted(found, np.arange(n_queries + 1) * n_features)
    return Rows(
        np.zeros((0, 0)),
        X.data.astype(np.float64),
        (place - column_starts[query]).astype(np.int32),
        X.indptr.astype(np.intp),
        (found % n_features).astype(np.intp),
        column_starts.astype(np.intp),
    )
