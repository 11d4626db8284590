"""The queries that DORM learns from, and the problem they pose."""

from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.linalg import LinearOperator, cg

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.checks import check_length, check_scores, check_weight
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.queries import Queries
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.measures.rankings import Judgements
from rankwise.measures.value import Measure
from rankwise.rankers.dorm.cutting_planes import Solution
from rankwise.rankers.dorm.ground import Base, Ground
from rankwise.rankers.dorm.losses import RankingLoss
from rankwise.rankers.dorm.objective import Aim, CostFunction, Decay, decay_of, find_aim
from rankwise.rankers.dorm.oracles.assignment import plan_assignments
from rankwise.rankers.dorm.spaces import Space
from rankwise.solve.normal_equations import Primal
from rankwise.solve.spectra import solve_once

SHRINKAGE = 0.1
"""Alpha, as a share of the mean eigenvalue of the normal equations."""

MANY_FEATURES = 1000
"""Beyond so many features the equations are solved by iterations, and less exactly."""


def preliminary_scores(
    Z: Matrix, relevance: FloatArray, queries: Queries, weights: FloatArray
) -> FloatArray:
    """Return the scores of a least-squares ranker with ties kept.

    Its regularisation follows the scale of the features, so that the order of the scores depends
    neither on that scale nor on the number of queries.

    Parameters
    ----------
    Z : (n_items, n_features)
        Query by query.
    relevance : (n_items,)
        What to rank by.
    queries : Queries
        The grouping of the items.
    weights : (n_queries,)
        How much each query counts.
    """
    of_item = queries.spread(weights)
    graph = PreferenceGraph.from_scores(
        relevance, queries.index, ties="keep", sample_weight=of_item
    )
    if Z.shape[1] > MANY_FEATURES:
        return _by_iterations(Z, graph, _within_scatter(Z, queries, of_item))
    system = Primal.of(graph, Z)
    A = system.matrix()
    alpha = _alpha(float(np.trace(A)), Z)
    scores: FloatArray = Z @ solve_once(A, system.rhs, alpha)[:, 0]
    return scores


def _by_iterations(Z: Matrix, graph: PreferenceGraph, total: float) -> FloatArray:
    alpha, n_features = _alpha(total, Z), Z.shape[1]
    operator = LinearOperator(
        (n_features, n_features),
        matvec=lambda w: Z.T @ (graph @ (Z @ w)) + alpha * w,
        dtype=np.float64,
    )
    w, _ = cg(operator, Z.T @ graph.rhs, rtol=1e-3, maxiter=50)
    return np.asarray(Z @ w)


def _alpha(total: float, Z: Matrix) -> float:
    """Return a share of the mean eigenvalue, given their sum; 1 where no feature differs."""
    return SHRINKAGE * total / min(Z.shape) if total > 0.0 else 1.0


def _within_scatter(Z: Matrix, queries: Queries, weight: FloatArray) -> float:
    """Return the weighted sum of squared distances of items to the means of their queries."""
    grouping = csr_array((np.ones(len(weight)), (queries.index, np.arange(len(weight)))))
    sums = grouping @ Z
    squares = weight @ (Z * Z).sum(axis=1)
    return float(squares - (grouping @ weight / queries.sizes**2) @ (sums * sums).sum(axis=1))


@final
@dataclass(frozen=True, eq=False)
class Given:
    """What ``fit`` was given beside X, checked; one entry per row of X."""

    y: FloatArray
    queries: Queries
    weight: FloatArray
    preliminary: FloatArray | None = None
    sources: Any = None

    @classmethod
    def of(
        cls,
        n_items: int,
        y: ArrayLike | None,
        qid: ArrayLike | None,
        sample_weight: ArrayLike | None,
        preliminary: ArrayLike | None = None,
        sources: ArrayLike | None = None,
    ) -> Self:
        """Check that everything has one entry per row."""
        scores = one_output(y, "y")
        queries = Queries.single(n_items) if qid is None else Queries.from_qid(qid)
        weight = check_weight("sample_weight", sample_weight, n_items, "row of `X`")
        check_length("y", scores, n_items)
        check_length("qid", queries.index, n_items)
        early = None if preliminary is None else one_output(preliminary, "preliminary")
        named = None if sources is None else np.asarray(sources)
        if early is not None:
            check_length("preliminary", early, n_items)
        if named is not None:
            check_length("sources", named, n_items)
        return cls(scores, queries, weight, early, named)


@final
@dataclass(frozen=True, eq=False)
class Lesson:
    """The queries whose rankings differ in worth; arrays stand query by query.

    Parameters
    ----------
    rows : (n_items,)
        Where the items stand in X.
    queries : Queries
        Their grouping, sorted.
    aim : Aim
        What their rankings gain.
    decay : (n_items,)
        c of each position.
    relevance : (n_items,)
        What preliminary scores are learned from.
    weights : (n_queries,)
        How much each query counts: the mean weight of its items.
    given : Given
        What was given.
    """

    rows: IntArray
    queries: Queries
    aim: Aim
    decay: FloatArray
    relevance: FloatArray
    weights: FloatArray
    given: Given

    @classmethod
    def of(cls, measure: Measure | str | CostFunction, decay: Decay, given: Given) -> Self:
        """Take the items of a weight above 0 of all queries that hold a preference."""
        counted = np.flatnonzero(given.weight > 0)
        queries = given.queries.take(counted)
        order = counted[queries.order]
        queries = queries.take(queries.order)
        judgements = Judgements.of(given.y[order], queries)
        aim = find_aim(measure, judgements)
        if not aim.is_open.any():
            raise NothingToLearnError(
                "The data must hold at least one query whose rankings differ by the measure: none "
                f"of {queries.n_queries} does, as their items gain the same, or there is but one. "
                "Check `y`, `qid` and `measure`."
            )
        kept = np.flatnonzero(aim.is_open[queries.index])
        rows, queries, aim = order[kept], queries.take(kept), aim.take(kept)
        c = decay_of(decay, queries)
        weights = queries.mean(given.weight[rows])
        return cls(rows, queries, aim, c, _relevance(aim, given.y[rows], c), weights, given)

    def ties(self, ground: Ground) -> FloatArray:
        """Return preliminary scores of the items: given, or those of a least-squares ranker."""
        if self.given.preliminary is not None:
            return self.given.preliminary[self.rows]
        Z = ground.features(self.rows)
        return preliminary_scores(Z, self.relevance, self.queries, self.weights)

    def loss(self, ties: FloatArray, depth: int | None = None) -> RankingLoss:
        """Return the loss to bound, towards the ranking that preliminary scores choose.

        Parameters
        ----------
        ties : (n_items,)
            Preliminary scores.
        depth : int, optional
            Number of positions that the condition on sources is about.
        """
        starts, sources = self.queries.starts, self.given.sources
        if self.aim.costs is not None:
            if sources is not None:
                raise InvalidInputError(
                    "`sources` must come with a measure: got a cost function. Let the cost say "
                    "what belongs where, or train for a measure."
                )
            return RankingLoss.from_costs(self.aim.costs, self.decay, ties, self.weights)
        gains = self.aim.settle(ties, starts)
        plan = plan_assignments(gains, self.aim.discounts, self.decay, starts)
        if sources is None or depth is None:
            return RankingLoss.from_gains(plan, ties, self.weights)
        make = RankingLoss.from_sources if sources.ndim == 1 else RankingLoss.from_conditions
        return make(plan, sources[self.rows], depth, ties, self.weights)


def _relevance(aim: Aim, y: FloatArray, decay: FloatArray) -> FloatArray:
    """Return the grades, or for costs the decay at the positions where items cost least."""
    return y if aim.costs is None else RankingLoss.from_costs(aim.costs, decay).target


def one_output(y: ArrayLike | None, name: str) -> FloatArray:
    """Return scores of a single output."""
    if y is None:
        raise InvalidInputError(
            "`fit` requires y to be passed, but the target y is None. Give the grades of the items."
        )
    scores = check_scores(y, name)
    if scores.ndim != 1:
        raise InvalidInputError(
            f"`{name}` must have shape (n_items,): got {scores.shape}. Fit one ranker per output."
        )
    return scores


@final
@dataclass(frozen=True, eq=False)
class Training:
    """What is trained for: the measure, the decay, how many positions are to be diverse."""

    measure: Measure | str | CostFunction
    decay: Decay
    depth: int | None = None


@final
@dataclass(frozen=True, eq=False)
class Task:
    """Queries to learn from, the loss of their rankings, and the functions to choose from."""

    training: Training
    ground: Ground
    lesson: Lesson
    ties: FloatArray
    loss: RankingLoss

    @classmethod
    def of(cls, training: Training, ground: Ground, given: Given) -> Self:
        """Build from what was given."""
        lesson = Lesson.of(training.measure, training.decay, given)
        ties = lesson.ties(ground)
        return cls(training, ground, lesson, ties, lesson.loss(ties, training.depth))

    def without(self, rows: IntArray) -> Self:
        """Leave out some rows of X."""
        weight = self.lesson.given.weight.copy()
        weight[rows] = 0.0
        return type(self).of(self.training, self.ground, replace(self.lesson.given, weight=weight))

    def space(self, base: Base | None = None) -> Space:
        """Return where the solver moves, starting from a base where there is one."""
        return self.ground.space(self.lesson.rows, self.lesson.queries.starts, base)

    def fold(self, solution: Solution) -> FloatArray:
        """Return the weights of the predictor."""
        return self.ground.fold(solution.point, self.lesson.rows)

    def improvement(self, solution: Solution, base: Base | None = None) -> float:
        """Return which share of the objective at the start a solution has taken away."""
        rows = self.lesson.rows
        scores = np.zeros(len(rows)) if base is None else base.scores[rows]
        at_start = solution.C * float(self.loss.weights @ self.loss.slacks(scores))
        return 1.0 - solution.objective / at_start if at_start > 0 else 0.0

    @property
    def natural_c(self) -> float:
        """The C from which on slacks begin to matter more than the norm.

        Below it the solution is C times the sum of the planes at 0, whose direction does not depend
        on C. It is the C at which the dual of this direction is largest, ``sum of losses / |sum of
        planes|^2``, and changes with the scale of the features and the number of queries as the C
        of one and the same ranking function does.
        """
        spread = float(np.abs(self.ties).max(initial=0.0))
        hint = self.ties * (1e-9 / spread) if spread > 0 else self.ties
        beta, losses = self.loss.cuts(hint)
        weights = self.loss.weights
        beta *= self.lesson.queries.spread(weights)
        norm = self.ground.squared_norm(self.lesson.rows, beta)
        return float(weights @ losses) / norm if norm > 0 else 1.0
