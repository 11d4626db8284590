"""Where the cutting-plane solver moves: weights of features, or weights of items."""

from abc import ABC, abstractmethod
from typing import ClassVar, final

import numpy as np
from scipy.sparse import csr_array, issparse

from rankwise.core.arrays import FloatArray, IntArray, Matrix, sum_by
from rankwise.rankers.dorm import _dual_kernels as dual_kernels
from rankwise.rankers.dorm import _primal_kernels as primal_kernels
from rankwise.rankers.dorm._primal_kernels import QueryRows
from rankwise.rankers.dorm.oracles.assignment import OracleTargets, Scratch
from rankwise.rankers.dorm.oracles.assignment_kernels import BETA
from rankwise.rankers.dorm.planes import GIVEN, KNOWN, ORACLE, WEIGHTS, Planes

_MAX_PLANES = 40  # of a query
_MIN_TOTAL = 4000  # planes that all queries together may have in any case
_RESERVED = 2**30  # bytes of vectors, most of which are never touched


class PlaneSpace(ABC):
    """A point, the planes whose weighted sum it is, and how queries move it."""

    max_cached_passes: ClassVar[int]
    """Number of passes over known planes after each pass with the oracle, at most."""

    def __init__(self, starts: IntArray, sizes: IntArray, max_planes: int | None = None) -> None:
        self._starts = starts
        self.planes = make_planes(sizes, max_planes)
        self._points = make_points(int(sizes.max()))
        self._C: FloatArray = np.zeros(len(sizes))  # that the planes' weights belong to

    @final
    def move_to(self, targets: OracleTargets) -> None:
        """Change C: a larger one leaves the point where it is."""
        weights, C = self.planes.weights[:, 1:], targets.slack_weights
        total = weights.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(total > 0, np.minimum(self._C / C, 1.0 / total), 0.0)
        weights *= np.where(C > 0, factor, 0.0)[:, None]
        self.planes.weights[:, 0] = np.maximum(0.0, 1.0 - weights.sum(axis=1))
        self._C = C
        self.refresh(targets)

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
        """Return |v|^2 of the planes' sum v, and its product with the earlier function."""

    @final
    def visit(self, targets: OracleTargets, scratch: Scratch, queries: IntArray) -> float:
        """Visit queries in turn with the oracle; return the sum of their gaps."""
        return self._visit(targets, scratch, queries, ORACLE)

    @final
    def visit_given(
        self, targets: OracleTargets, scratch: Scratch, q: int, beta: FloatArray, loss: float
    ) -> float:
        """Visit one query with a plane found elsewhere."""
        scratch.floats[BETA, : len(beta)] = beta
        return self._visit(targets, scratch, np.array([q]), GIVEN, loss)

    @final
    def revisit(self, targets: OracleTargets, scratch: Scratch, queries: IntArray) -> float:
        """Visit queries in turn with the planes they have; return the gaps these show."""
        return self._visit(targets, scratch, queries, KNOWN)

    @abstractmethod
    def _visit(
        self,
        targets: OracleTargets,
        scratch: Scratch,
        queries: IntArray,
        which: int,
        loss: float = 0.0,
    ) -> float: ...

    @final
    def _sums(self, C: FloatArray) -> FloatArray:
        """Return the sum of the planes of each query times their weights, query by query."""
        planes = self.planes
        sums = np.zeros(int(planes.sizes.sum()))
        ends = np.cumsum(planes.sizes)
        for q in np.flatnonzero(planes.counts > 1).tolist():
            first, size, count = planes.starts[q], planes.sizes[q], planes.counts[q]
            V = planes.vectors[first + size : first + count * size].reshape(count - 1, size)
            sums[ends[q] - size : ends[q]] = (C[q] * planes.weights[q, 1:count]) @ V
        return sums

    @abstractmethod
    def refresh(self, targets: OracleTargets) -> None:
        """Compute the point anew from the planes, free of the rounding of many small steps."""


@final
class PrimalPlanes(PlaneSpace):
    """Linear ranking functions ``<w, x>``.

    Parameters
    ----------
    X : (n_items, n_features), dense or CSR
        Query by query.
    starts : (n_queries + 1,)
        Where each query begins.
    earlier : (n_features,), optional
        The weights of an earlier function: where the weights start and what they are kept close
        to; zeros by default.
    max_planes : int, optional
        Number of planes of a query at most; chosen by the number of queries when left out.
    """

    max_cached_passes = 5

    def __init__(
        self,
        X: Matrix,
        starts: IntArray,
        earlier: FloatArray | None = None,
        max_planes: int | None = None,
    ) -> None:
        if issparse(X):
            self._X: Matrix = csr_array(X)
            self._rows = _sparse_rows(self._X, starts)
            sizes = np.diff(self._rows.column_starts)
        else:
            self._X = np.ascontiguousarray(X, dtype=np.float64)
            sizes = np.full(len(starts) - 1, self._X.shape[1])
        super().__init__(starts, sizes, max_planes)
        self._earlier = np.zeros(X.shape[1]) if earlier is None else earlier
        self._w = self._earlier.copy()

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
        """Return |v|^2 of the planes' sum v, and its product with the earlier function."""
        v = self._w - self._earlier
        return float(v @ v), float(v @ self._earlier)

    def _visit(
        self,
        targets: OracleTargets,
        scratch: Scratch,
        queries: IntArray,
        which: int,
        loss: float = 0.0,
    ) -> float:
        state = self.planes, scratch, self._points, queries, which, loss, self._w
        gap: float = (
            primal_kernels.visit_sparse(targets, self._rows, *state)
            if issparse(self._X)
            else primal_kernels.visit_dense(targets, self._X.reshape(-1), *state)
        )
        return gap

    def refresh(self, targets: OracleTargets) -> None:
        """Compute the weights anew from the planes."""
        if issparse(self._X):
            self._w[:] = self._earlier
            self._w += sum_by(self._rows.columns, self._sums(targets.slack_weights), len(self._w))
        else:
            planes = self.planes
            of_query, slot = np.nonzero(planes.weights[:, 1:])
            V = planes.vectors.reshape(*planes.weights.shape, len(self._w))[of_query, slot + 1]
            self._w[:] = self._earlier
            self._w += (targets.slack_weights[of_query] * planes.weights[of_query, slot + 1]) @ V


@final
class DualPlanes(PlaneSpace):
    """Ranking functions ``sum_i dual_i k(x_i, x)`` of a kernel.

    Parameters
    ----------
    K : (n_items, n_items)
        The kernel between all items, query by query; positive semi-definite.
    starts : (n_queries + 1,)
        Where each query begins.
    earlier : (n_items,), optional
        The scores of an earlier function, which the sum is added to and kept close to; zeros by
        default.
    """

    max_cached_passes = 0  # a visit costs a product with rows of K, with the oracle or without

    def __init__(self, K: FloatArray, starts: IntArray, earlier: FloatArray | None = None) -> None:
        self._K = np.ascontiguousarray(K, dtype=np.float64)
        super().__init__(starts, np.diff(starts))
        self._dual = np.zeros(len(K))
        self._earlier = np.zeros(len(K)) if earlier is None else earlier
        self._scores = self._earlier.copy()

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
        """Return |v|^2 of the planes' sum v, and its product with the earlier function."""
        along_earlier = float(self._dual @ self._earlier)
        return float(self._dual @ self._scores) - along_earlier, along_earlier

    def _visit(
        self,
        targets: OracleTargets,
        scratch: Scratch,
        queries: IntArray,
        which: int,
        loss: float = 0.0,
    ) -> float:
        state = self._K.reshape(-1), self.planes, scratch, self._points
        point = self._dual, self._scores
        gap: float = dual_kernels.visit(targets, *state, queries, which, loss, *point)
        return gap

    def refresh(self, targets: OracleTargets) -> None:
        """Compute weights and scores anew from the planes."""
        self._dual[:] = self._sums(targets.slack_weights)
        self._scores[:] = self._earlier + self._K @ self._dual


def make_planes(sizes: IntArray, max_planes: int | None = None) -> Planes:
    """Reserve room for planes whose vectors have these lengths, one for each query."""
    reserved = _RESERVED // (8 * max(1, int(sizes.sum())))
    n_queries = len(sizes)
    most = max_planes or max(_MAX_PLANES, min(_MIN_TOTAL // n_queries, 10 * _MAX_PLANES))
    capacity = int(np.clip(reserved, 4, most))
    ends = np.cumsum(sizes) * capacity
    slots = np.zeros((3, n_queries, capacity))
    slots[WEIGHTS, :, 0] = 1.0
    return Planes(
        vectors=np.empty(int(ends[-1])),
        integers=np.stack([ends - sizes * capacity, sizes, np.ones_like(sizes)]),
        slots=slots,
        grams=np.zeros((n_queries, capacity, capacity)),
        room=np.empty((2, capacity)),
    )


def make_points(size: int) -> FloatArray:
    """Allocate room for visits: where the planes are evaluated, a plane, a direction."""
    return np.empty((3, size))


def _sparse_rows(X: Matrix, starts: IntArray) -> QueryRows:
    """Give every query a list of the columns that occur in it."""
    n_queries, n_features = len(starts) - 1, X.shape[1]
    query = np.repeat(np.arange(n_queries), np.diff(X.indptr[starts]))
    found, number = np.unique(query * n_features + X.indices, return_inverse=True)
    column_starts = np.searchsorted(found, np.arange(n_queries + 1) * n_features)
    return QueryRows(
        X.data.astype(np.float64),
        (number - column_starts[query]).astype(np.int32),
        X.indptr.astype(np.intp),
        (found % n_features).astype(np.intp),
        column_starts.astype(np.intp),
    )
