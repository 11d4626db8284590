"""Large-margin learning of rankings by cutting planes, with a certified duality gap."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from rankwise.core.arrays import FloatArray, IntArray, Matrix, freeze, sum_by
from rankwise.native.oracles import OracleRoom, OracleTargets
from rankwise.native.planes import Planes, visit_dense, visit_kernel, visit_sparse
from rankwise.rankers.dorm.losses import RankingLoss
from rankwise.rankers.dorm.oracles.assignment import make_room
from rankwise.solve.iteration import (
    Certificate,
    CertifiedSolution,
    Reason,
    Step,
    StepCallback,
    StoppingRule,
    wants_to_stop,
)

Part: TypeAlias = Literal["oracle passes", "cached passes", "certificates"]

REMEDY = "Raise max_iter or tol, lower C, or scale the features."

_PARTS: tuple[Part, ...] = ("oracle passes", "cached passes", "certificates")
_CHUNK = 2e8  # multiplications in one call of a kernel, at most
_WORK_PER_ITEM = 100  # multiplications that the oracle and the planes cost, about
_WORTHWHILE = 0.05  # share of the gap that a pass over known planes must close

_MAX_PLANES = 40  # of a query
_MIN_TOTAL = 4000  # planes that all queries together may have in any case
_RESERVED = 2**30  # bytes of vectors, most of which are never touched


class QueryRows(NamedTuple):
    """The features of the items, query by query, as sparse rows.

    Column numbers are local to the query, so that the vectors of a query are as short as the number
    of features that occur in it.
    """

    data: FloatArray  # (n_nonzeros,)
    numbers: NDArray[np.int32]  # (n_nonzeros,), local column numbers
    row_starts: IntArray  # (n_items + 1,)
    columns: IntArray  # feature of each local column, query by query
    column_starts: IntArray  # (n_queries + 1,)


class Visit(NamedTuple):
    """Which queries are visited in turn, and where their planes come from.

    A new plane is found by the oracle, or was found elsewhere for the only query, with its loss;
    otherwise the planes that are known are used.
    """

    queries: IntArray
    with_oracle: bool = False
    plane: FloatArray | None = None
    loss: float = 0.0


class PlaneSpace(ABC):
    """A point, the planes whose weighted sum it is, and how queries move it."""

    max_cached_passes: ClassVar[int]
    """Number of passes over known planes after each pass with the oracle, at most."""

    def __init__(self, starts: IntArray, sizes: IntArray, max_planes: int | None = None) -> None:
        self._starts = starts
        self.planes = make_planes(sizes, max_planes)
        self._C: FloatArray = np.zeros(len(sizes))  # that the planes' weights belong to

    @final
    def move_to(self, targets: OracleTargets) -> None:
        """Change C: a larger one leaves the point where it is."""
        # weights times C / C' leave the point unchanged, dorm-dual; their sum is at most 1
        weights, C = self.planes.weights[:, 1:], targets.slack_weights
        total = weights.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(total > 0, np.minimum(self._C / C, 1.0 / total), 0.0)
        weights *= np.where(C > 0, factor, 0.0)[:, None]
        # the rest of the weight is on the plane that is 0 everywhere
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

    @abstractmethod
    def visit(self, targets: OracleTargets, room: OracleRoom, visit: Visit) -> float:
        """Visit queries in turn, and return the sum of their gaps."""

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
        Number of planes of a query at most; by default chosen by the number of queries.
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

    def visit(self, targets: OracleTargets, room: OracleRoom, visit: Visit) -> float:
        """Visit queries in turn, and return the sum of their gaps."""
        if issparse(self._X):
            return visit_sparse(targets, room, self.planes, self._rows, *visit, self._w)
        return visit_dense(targets, room, self.planes, self._X, *visit, self._w)

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

    def visit(self, targets: OracleTargets, room: OracleRoom, visit: Visit) -> float:
        """Visit queries in turn, and return the sum of their gaps."""
        moved = self._dual, self._scores
        return visit_kernel(targets, room, self.planes, self._K, *visit, *moved)

    def refresh(self, targets: OracleTargets) -> None:
        """Compute weights and scores anew from the planes."""
        self._dual[:] = self._sums(targets.slack_weights)
        self._scores[:] = self._earlier + self._K @ self._dual


def make_planes(sizes: IntArray, max_planes: int | None = None) -> Planes:
    """Reserve room for planes whose vectors have these lengths, one for each query."""
    # as many planes as the memory allows, within the limits for a query
    reserved = _RESERVED // (8 * max(1, int(sizes.sum())))
    n_queries = len(sizes)
    most = max_planes or max(_MAX_PLANES, min(_MIN_TOTAL // n_queries, 10 * _MAX_PLANES))
    capacity = int(np.clip(reserved, 4, most))
    return Planes(sizes, capacity)


def _sparse_rows(X: Matrix, starts: IntArray) -> QueryRows:
    """Give every query a list of the columns that occur in it."""
    n_queries, n_features = len(starts) - 1, X.shape[1]
    # the distinct (query, feature) pairs number the local columns
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


def solve(
    space: PlaneSpace,
    loss: RankingLoss,
    C: float,
    rule: StoppingRule | None = None,
    on_step: StepCallback | None = None,
    rng: np.random.Generator | None = None,
) -> CertifiedSolution:
    """Minimise ``1/2 |w - w0|^2 + C * sum_q weight_q slack_q(w)``; w0 is an earlier function or 0.

    Visits the queries in random order. A visit calls the oracle, takes the plane it finds into the
    working set of the query and maximises the dual over the weights of this set. Passes over the
    planes already known follow as long as they find a fair share of the gap. A certificate, one
    call of the oracle for each query at a fixed point, proves the gap. Ctrl-C ends the run with
    what it has found.

    Parameters
    ----------
    space
        Where to search. It keeps its planes, so that solving again with another C starts from them:
        with a larger one from the same point.
    loss
        The loss whose convex bound is minimised.
    C
        The factor of the slacks.
    rule
        When to stop; an iteration is a pass over all queries with the oracle.
    on_step
        Gets a ``Step`` after each pass, whose error is the relative gap, an estimate as long as
        there is no objective; stops the run by returning True.
    rng
        Draws the order of the visits.

    Returns
    -------
    CertifiedSolution
        With details "slacks" (n_queries,) at the point, "n_oracle_calls", certificates
        included, "n_planes", the number of planes that carry weight, and "seconds" by part.

    Notes
    -----
    [LS08] Sect. 2 estimates the best structure (1) by a bound (5) on the risk (2), with scores that
    are linear (3) in weights, or kernels (4).

    The problem is [LS08] eq. (27), its dual (28): structured estimation, (5) with the solution (6)
    and the dual (7), whose oracle is (8). In place of solving (28) over all planes whenever one is
    found, as Algorithms 1 and 2 do, a visit improves the block of one query; both ascend the same
    dual.
    """
    rule, rng = rule or StoppingRule(), rng or np.random.default_rng(0)
    run = _ColumnGeneration(C, space, loss, loss.targets(C), make_room(loss.plan))
    space.move_to(run.targets)
    return run.report(rule, run.make_passes(rule, on_step, rng))


def solve_path(
    space: PlaneSpace,
    loss: RankingLoss,
    Cs: Sequence[float],
    rule: StoppingRule | None = None,
    on_step: StepCallback | None = None,
    rng: np.random.Generator | None = None,
) -> Iterator[CertifiedSolution]:
    """Solve for each C in turn, every one starting from the planes of the one before.

    Ascending values make the most of that. See ``solve`` for the parameters.
    """
    rng = rng or np.random.default_rng(0)
    for C in Cs:
        solution = solve(space, loss, C, rule, on_step, rng)
        yield solution
        if solution.ending.was_stopped:
            return


@final
@dataclass(frozen=True, eq=False)
class _Incumbent:
    """The best point certified so far."""

    objective: float
    slacks: FloatArray
    point: FloatArray


@final
@dataclass(eq=False)
class _ColumnGeneration:
    """One run for one C: what it works on, the best point, and what it has cost so far."""

    C: float
    space: PlaneSpace
    loss: RankingLoss
    targets: OracleTargets
    room: OracleRoom
    best: _Incumbent = field(default_factory=lambda: _Incumbent(np.inf, np.zeros(0), np.zeros(0)))
    n_passes: int = 0
    n_oracle_calls: int = 0
    seconds: dict[Part, float] = field(default_factory=lambda: dict.fromkeys(_PARTS, 0.0))

    def make_passes(
        self, rule: StoppingRule, on_step: StepCallback | None, rng: np.random.Generator
    ) -> Reason:
        """Make passes until there is a reason to end; certify the last point unless it has been."""
        try:
            reason = self._pass_by_pass(rule, on_step, rng)
        except KeyboardInterrupt:
            reason = "interrupted"
        if reason == "converged":
            return reason
        self.certify()
        is_solved = self.is_within(rule.tol, self.dual_objective())
        return "converged" if reason == "max_iter" and is_solved else reason

    def _pass_by_pass(
        self, rule: StoppingRule, on_step: StepCallback | None, rng: np.random.Generator
    ) -> Reason:
        """Make passes, with certificates where the gap may be small; return why they end."""
        # the gaps of a pass are stale, each as of its visit: the true gap is a share of their sum
        share = 1.0 / 3.0  # of the stale gap that the true gap may be
        while self.n_passes < rule.max_iter:
            stale_gap = self.make_pass(rng)
            bound = self.dual_objective()
            # certify where the true gap, as a share of the stale one, is likely to be within tol
            if share * stale_gap <= rule.tol * bound:
                self.certify()
                share = (self.best.objective - bound) / stale_gap if stale_gap > 0.0 else 1.0
            stop = on_step is not None and wants_to_stop(on_step(self.step(bound, stale_gap)))
            if self.is_within(rule.tol, bound):
                return "converged"
            if stop:
                return "callback"
        return "max_iter"

    def is_within(self, tol: float, bound: float) -> bool:
        """Return whether the best objective is proved to be close enough to the smallest."""
        return (1.0 - tol) * self.best.objective <= bound

    def make_pass(self, rng: np.random.Generator) -> float:
        """Visit all queries with the oracle, then with known planes while that is worthwhile.

        Returns the sum of the queries' gaps, each at its visit.
        """
        # queries of weight 0 have no slack to lower
        queries = rng.permutation(np.flatnonzero(self.targets.slack_weights > 0.0))
        chunks = self._chunks(queries)
        start, gap = time.perf_counter(), 0.0
        # Algorithm 1: the most violated constraint of each query, and the dual over its planes
        for chunk in chunks:
            gap += self._visit(chunk)
            self.n_oracle_calls += len(chunk)
        self.n_passes += 1
        self.seconds["oracle passes"] += time.perf_counter() - start
        start = time.perf_counter()
        # the same dual over the planes already known, without the oracle
        for _ in range(self.space.max_cached_passes):
            visits = (self.space.visit(self.targets, self.room, Visit(chunk)) for chunk in chunks)
            if sum(visits) <= _WORTHWHILE * gap:
                break
        self.seconds["cached passes"] += time.perf_counter() - start
        return gap

    def _visit(self, queries: IntArray) -> float:
        """Visit queries with the oracle of the plan, or one by one with that of the loss."""
        if self.loss.oracle is None:
            return self.space.visit(self.targets, self.room, Visit(queries, with_oracle=True))
        gap = 0.0
        for q in queries.tolist():
            beta, loss = self.loss.cut(self.loss.oracle, q, self.space.query_scores(q))
            found = Visit(np.array([q]), plane=beta, loss=loss)
            gap += self.space.visit(self.targets, self.room, found)
        return gap

    def _chunks(self, queries: IntArray) -> list[IntArray]:
        """Split a pass into parts of a fraction of a second: Ctrl-C is raised between them."""
        work = self.space.work_of_visits() + _WORK_PER_ITEM * len(self.loss.target)
        work *= len(queries) / max(1, len(self.targets.slack_weights))
        return np.array_split(queries, max(1, int(work / _CHUNK)))

    def step(self, bound: float, stale_gap: float) -> Step:
        """Return where the run stands."""
        label, objective = f"C={self.C:.3g}", self.best.objective
        if np.isfinite(objective):
            gap = Certificate(objective, bound).gap
            return Step(self.n_passes, gap, objective, label)
        return Step(self.n_passes, stale_gap / max(bound + stale_gap, 1e-300), label=label)

    def dual_objective(self) -> float:
        """Return the value that no objective can go below."""
        planes = self.space.planes
        gain = self.targets.slack_weights @ (planes.weights * planes.losses).sum(axis=1)
        norm, along_earlier = self.space.overlap()
        return float(gain - along_earlier - 0.5 * norm)  # [LS08] eq. (28), dorm-dual

    def certify(self) -> None:
        """Take the current point if its objective is the best so far."""
        start = time.perf_counter()
        # the slacks at a fixed point: one call of the oracle for each query
        self.space.refresh(self.targets)
        slacks = self.loss.slacks(self.space.scores())
        self.n_oracle_calls += len(slacks)
        norm, _ = self.space.overlap()
        # [LS08] eqs. (2), (5), (27), dorm-primal
        objective = float(0.5 * norm + self.targets.slack_weights @ slacks)
        self.seconds["certificates"] += time.perf_counter() - start
        if objective < self.best.objective:
            self.best = _Incumbent(objective, slacks, self.space.point.copy())

    def report(self, rule: StoppingRule, reason: Reason) -> CertifiedSolution:
        """Put together the result."""
        certificate = Certificate(self.best.objective, self.dual_objective())
        details = {
            "slacks": freeze(self.best.slacks),
            "n_oracle_calls": self.n_oracle_calls,
            "n_planes": int(np.count_nonzero(self.space.planes.weights[:, 1:])),
            "seconds": dict(self.seconds),
        }
        ending = rule.end(reason, self.n_passes, certificate.gap, REMEDY)
        return CertifiedSolution(
            self.C, freeze(self.best.point), certificate, self.n_passes, ending, details
        )
