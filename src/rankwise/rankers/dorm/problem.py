"""The problem that DORM solves: queries, the loss of their rankings, a space of functions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, eye_array, kron

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.checks import check_length
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.queries import Queries, TrainingData, one_output
from rankwise.features.function_space import FeatureMap, FunctionSpace
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.measures.value import Judgements, Measure
from rankwise.rankers.dorm.cutting_planes import DualPlanes, PlaneSpace, PrimalPlanes
from rankwise.rankers.dorm.losses import (
    MODIFIED_WTA,
    Decay,
    ObjectiveLike,
    PositionObjective,
    RankingLoss,
    as_objective,
    decay_of,
)
from rankwise.rankers.dorm.oracles.assignment import OraclePlan, plan_assignments
from rankwise.solve.conjugate_gradients import Descent
from rankwise.solve.iteration import CertifiedSolution, StoppingRule
from rankwise.solve.normal_equations import System, refuse_indefinite_matrix, solve_once

SHRINKAGE = 0.1
"""Alpha of preliminary scores, as a share of the mean eigenvalue of the normal equations."""

MANY_FEATURES = 1000
"""Number of features beyond which these equations are solved by iterations, less exactly."""

PRELIMINARY = StoppingRule(tol=1e-3, max_iter=50)
"""When those iterations end."""

ONE_OUTPUT = "Fit one ranker per output."


@final
@dataclass(frozen=True, eq=False)
class LossOptions:
    """What the loss of a ranking depends on besides the grades; build it with `of`, which checks.

    Parameters
    ----------
    objective : Measure, str or function
        What is trained for.
    decay : float, str or array
        c.
    preliminary : (n_items,), optional
        Scores that order items where the objective leaves their order open.
    sources : (n_items,) or (n_items, n_conditions), optional
        Where items come from, or shares of them under weighted conditions.
    n_diverse : int, optional
        Number of positions that the condition on sources is about; given if there are sources.
    n_functions : int
        Number of ranking functions: the first positions have one each, all others share the last.
    """

    objective: ObjectiveLike
    decay: Decay
    preliminary: FloatArray | None = None
    sources: NDArray[Any] | None = None
    n_diverse: int | None = None
    n_functions: int = 1

    @classmethod
    def of(
        cls,
        n_items: int,
        objective: ObjectiveLike,
        decay: Decay,
        preliminary: ArrayLike | None = None,
        sources: ArrayLike | None = None,
        n_diverse: int | None = None,
        n_functions: int = 1,
    ) -> Self:
        """Check that scores and sources have one entry per row of X, and fit the objective."""
        scores = None
        if preliminary is not None:
            scores = one_output(preliminary, "preliminary", ONE_OUTPUT)
            check_length("preliminary", scores, n_items)
        if sources is None:
            return cls(objective, decay, scores, n_functions=n_functions)
        if n_functions > 1:
            raise InvalidInputError(
                "`sources` must come with a single ranking function: got n_functions="
                f"{n_functions}. Leave out one of the two."
            )
        named = np.asarray(sources)
        check_length("sources", named, n_items)
        return cls(objective, decay, scores, named, _diverse_positions(n_diverse, objective))


def _diverse_positions(n_diverse: int | None, objective: ObjectiveLike) -> int:
    """Return the number of positions that sources must differ in: as given, or the cut-off."""
    checked = as_objective(objective)
    if isinstance(checked, Measure):
        n_diverse = checked.parameters.get("cutoff") if n_diverse is None else n_diverse
    elif checked != MODIFIED_WTA:
        raise InvalidInputError(
            "`sources` must come with a measure: got a cost function. Let the cost say what "
            "belongs where, or train for a measure."
        )
    if n_diverse is None:
        raise InvalidInputError(
            "`n_diverse` must say how many positions hold different sources, as the objective has "
            f"no cut-off: got `sources` and the objective {checked!r}. Give n_diverse."
        )
    return n_diverse


@final
@dataclass(frozen=True, eq=False)
class EarlierFunction:
    """The ranking function that learning goes on from.

    Parameters
    ----------
    predictor, weights
        The function: a map, and the weights that it takes.
    point : (n_unknowns,)
        The same as the solver found it.
    scores : (n_items,)
        Its scores of all rows of X.
    """

    predictor: FeatureMap
    weights: FloatArray
    point: FloatArray
    scores: FloatArray


@final
@dataclass(frozen=True, eq=False)
class RankingProblem:
    """Queries to learn from, the loss of their rankings, and the functions to choose from.

    Items of weight 0, and queries whose rankings are all worth the same, are left out; arrays are
    ordered query by query.

    Parameters
    ----------
    data : TrainingData
        Everything that was given.
    space : FunctionSpace
        The ranking functions over the rows of X.
    options : LossOptions
        What the loss depends on besides the grades.
    rows : (n_items,)
        The rows of X that are the items.
    queries : Queries
        Their grouping, sorted.
    preliminary : (n_items,)
        Scores that order the items in the target, where the objective leaves their order open.
    loss : RankingLoss
        The loss whose convex bound is minimised.
    earlier : EarlierFunction, optional
        The function that the solution stays close to, in place of 0.
    """

    data: TrainingData
    space: FunctionSpace
    options: LossOptions
    rows: IntArray
    queries: Queries
    preliminary: FloatArray
    loss: RankingLoss
    earlier: EarlierFunction | None = None

    @classmethod
    def of(
        cls,
        data: TrainingData,
        space: FunctionSpace,
        options: LossOptions,
        earlier: EarlierFunction | None = None,
    ) -> Self:
        """Take the queries that hold a preference, and the loss that the options ask for."""
        rows, queries, objective = _with_preferences(data, options.objective)
        decay = decay_of(options.decay, queries)
        weights = queries.mean(data.weight[rows])
        # scores that order the target where the objective leaves it open
        if options.preliminary is None:
            relevance = data.single_output(ONE_OUTPUT)[rows]
            if objective.costs is not None:
                relevance = RankingLoss.from_costs(objective.costs, decay).target
            features = space.features(rows)
            preliminary = preliminary_scores(features, relevance, queries, weights)
        else:
            preliminary = options.preliminary[rows]
        # the loss of the rankings, relative to the target
        if options.n_functions > 1:
            _refuse_dependent_functions(objective, space, decay)
        if options.n_functions > 1 or objective.costs is not None:
            costs = _position_costs(objective, queries.starts)
            n_functions = options.n_functions
            loss = RankingLoss.from_costs(costs, decay, preliminary, weights, n_functions)
        else:
            gains = objective.chosen_gains(preliminary, queries.starts)
            plan = plan_assignments(gains, objective.discounts, decay, queries.starts)
            loss = _loss_of_gains(plan, objective, options, rows, preliminary, weights)
        return cls(data, space, options, rows, queries, preliminary, loss, earlier)

    def without(self, rows: IntArray) -> Self:
        """Leave out some rows of X."""
        return type(self).of(self.data.without(rows), self.space, self.options)

    @property
    def n_ignored_queries(self) -> int:
        """Number of queries that hold no preference."""
        return self.data.queries.n_queries - self.queries.n_queries

    def plane_space(self) -> PlaneSpace:
        """Return where the solver moves, close to an earlier function where there is one."""
        starts, n_functions = self.queries.starts, self.options.n_functions
        if n_functions > 1:
            features = csr_array(self.space.features(self.rows))
            cells = kron(features, eye_array(n_functions), format="csr")
            return PrimalPlanes(cells, n_functions * starts)
        if self.space.is_explicit:
            point = None if self.earlier is None else self.earlier.point
            return PrimalPlanes(self.space.features(self.rows), starts, point)
        scores = None if self.earlier is None else self.earlier.scores[self.rows]
        return DualPlanes(self.space.kernel_matrix(self.rows), starts, scores)

    def weights(self, solution: CertifiedSolution) -> tuple[FeatureMap, FloatArray]:
        """Return the predictor and the weights that it takes."""
        point = solution.point
        if self.options.n_functions > 1:
            point = point.reshape(-1, self.options.n_functions)
        weights = self.space.fold(point, self.rows)
        if self.earlier is None:
            return self.space.predictor, weights
        return self.space.join(weights, self.earlier.predictor, self.earlier.weights)

    def improvement(self, solution: CertifiedSolution) -> float:
        """Return which share of the objective at the start a solution has taken away."""
        scores = np.zeros(len(self.loss.target))
        if self.earlier is not None:
            scores = self.earlier.scores[self.rows]
        at_start = solution.C * float(self.loss.weights @ self.loss.slacks(scores))
        return 1.0 - solution.objective / at_start if at_start > 0 else 0.0

    @property
    def unit_of_c(self) -> float:
        """The C from which on slacks begin to matter more than the norm.

        Below it the solution is C times the sum of the planes at 0, whose direction does not depend
        on C. It is the C at which the dual of this direction is largest, ``sum of losses / |sum of
        planes|^2``, and changes with the scale of the features and the number of queries as the C
        of one and the same ranking function does.
        """
        # the planes at 0, ties broken by the preliminary scores
        largest = float(np.abs(self.preliminary).max(initial=0.0))
        hint = self.preliminary * (1e-9 / largest) if largest > 0 else self.preliminary
        beta, losses = self.loss.cuts(np.repeat(hint, self.options.n_functions))
        # dorm-natural: the sum of the losses over the squared norm of the sum of the planes
        beta *= np.repeat(self.loss.weights, np.diff(self.loss.plan.starts))
        norm = _squared_norm(self.space, self.rows, beta.reshape(len(self.rows), -1))
        return float(self.loss.weights @ losses) / norm if norm > 0 else 1.0


def refuse_indefinite_kernel(space: FunctionSpace, n_items: int) -> None:
    """Refuse a kernel matrix that is not positive semidefinite, unless its kernel must be."""
    if not space.is_explicit and not space.kernel_is_trusted:
        refuse_indefinite_matrix(space.kernel_matrix(np.arange(n_items)))


def _squared_norm(space: FunctionSpace, rows: IntArray, beta: FloatArray) -> float:
    """Return the squared norm of the sums of items, times the coefficients of each column."""
    if space.is_explicit:
        v = space.features(rows).T @ beta
        return float((v * v).sum())
    return float((beta * (space.kernel_matrix(rows) @ beta)).sum())


def _with_preferences(
    data: TrainingData, objective: ObjectiveLike
) -> tuple[IntArray, Queries, PositionObjective]:
    """Return the items of a weight above 0 of all queries that hold a preference."""
    y = data.single_output(ONE_OUTPUT)
    # items that count, query by query
    counted = np.flatnonzero(data.weight > 0)
    queries = data.queries.take(counted)
    order = counted[queries.order]
    queries = queries.take(queries.order)
    found = PositionObjective.of(objective, Judgements.of(y[order], queries))
    if not found.has_preference.any():
        raise NothingToLearnError(
            "The data must hold at least one query whose rankings differ by the objective: none of "
            f"{queries.n_queries} does, as their items have equal gains, or are single. Check "
            "`y`, `qid` and `objective`."
        )
    # the queries that hold a preference
    kept = np.flatnonzero(found.has_preference[queries.index])
    return order[kept], queries.take(kept), found.take(kept)


def _loss_of_gains(
    plan: OraclePlan,
    objective: PositionObjective,
    options: LossOptions,
    rows: IntArray,
    preliminary: FloatArray,
    weights: FloatArray,
) -> RankingLoss:
    """Return the loss to bound, towards the ranking that preliminary scores choose."""
    if options.sources is None or options.n_diverse is None:
        if objective.candidates is not None:
            return RankingLoss.from_first_relevant(plan, objective.candidates, preliminary, weights)
        return RankingLoss.from_gains(plan, preliminary, weights)
    sources = options.sources[rows]
    make = RankingLoss.from_sources if sources.ndim == 1 else RankingLoss.from_conditions
    return make(plan, sources, options.n_diverse, preliminary, weights)


def _position_costs(objective: PositionObjective, starts: IntArray) -> Sequence[FloatArray]:
    """Return the cost of each item at each position, query by query."""
    if objective.costs is not None:
        return objective.costs
    parts = [np.split(v, starts[1:-1]) for v in (objective.gains, objective.discounts)]
    # [LS08] eq. (19), dorm-cost
    return [-np.outer(b, a) for b, a in zip(*parts, strict=True)]


def _refuse_dependent_functions(
    objective: PositionObjective, space: FunctionSpace, decay: FloatArray
) -> None:
    """Refuse what several ranking functions cannot do."""
    message = ""
    if not space.is_explicit:
        message = "features: got a kernel. Give a `basis`."
    elif objective.candidates is not None:
        message = "a loss that adds up over items: got the reciprocal rank. Train for NDCG."
    elif (decay <= 0).any():
        message = "a `decay` above 0 at every position: got values of 0 or less."
    if message:
        raise InvalidInputError(f"`n_functions` above 1 needs {message}")


def preliminary_scores(
    Z: Matrix,
    relevance: FloatArray,
    queries: Queries,
    weights: FloatArray,
    many_features: int = MANY_FEATURES,
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
    many_features : int
        Number of features beyond which the equations are solved by iterations.
    """
    of_item = queries.spread(weights)
    graph = PreferenceGraph.from_scores(relevance, queries, ties="keep", sample_weight=of_item)
    if Z.shape[1] > many_features:
        return _by_iterations(Z, graph, _within_scatter(Z, queries, of_item))
    system = System.primal(graph, Z)
    alpha = _alpha(float(np.trace(system.matrix)), Z)
    scores: FloatArray = Z @ solve_once(system.matrix, system.rhs, alpha)[:, 0]
    return scores


def _by_iterations(Z: Matrix, graph: PreferenceGraph, total: float) -> FloatArray:
    alpha = _alpha(total, Z)
    descent = Descent(lambda w: Z.T @ (graph @ (Z @ w)) + alpha * w, Z.T @ graph.rhs)
    descent.run(PRELIMINARY)
    return np.asarray(Z @ descent.X)


def _alpha(total: float, Z: Matrix) -> float:
    """Return a share of the mean eigenvalue, given their sum; 1 where no feature differs."""
    return SHRINKAGE * total / min(Z.shape) if total > 0.0 else 1.0


def _within_scatter(Z: Matrix, queries: Queries, weight: FloatArray) -> float:
    """Return the weighted sum of squared distances of items to the means of their queries."""
    grouping = csr_array((np.ones(len(weight)), (queries.index, np.arange(len(weight)))))
    sums = grouping @ Z
    squares = weight @ (Z * Z).sum(axis=1)
    return float(squares - (grouping @ weight / queries.sizes**2) @ (sums * sums).sum(axis=1))
