"""What rankers solved in closed form share: normal equations, solutions, and how they choose."""

from abc import ABC
from collections.abc import Callable
from functools import partial
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray, Matrix, as_columns
from rankwise.core.devices import Device
from rankwise.core.errors import NothingToLearnError
from rankwise.core.queries import Queries
from rankwise.core.training_data import TrainingData
from rankwise.features.function_space import FunctionSpace
from rankwise.features.kernels import Kernel, Linear, Precomputed
from rankwise.features.maps import Identity
from rankwise.graph.preference_graph import OutputGraphs, PreferenceGraph
from rankwise.graph.query_weights import QueryWeight
from rankwise.measures.value import Measure
from rankwise.rankers.base import PointRanker
from rankwise.selection.holdouts import Folds, HeldOut
from rankwise.selection.judging import judge_scores
from rankwise.selection.path import ChoiceRule, SelectionPath, Simplest
from rankwise.solve.normal_equations import DeviceSystem, Dual, Primal, System

ALPHA_REMEDY = "Choose a positive value; small values regularise little."


class ClosedFormRanker(PointRanker, ABC):
    """A least-squares ranker with a kernel and query weights among its parameters."""

    kernel: Any
    query_weight: QueryWeight
    kernel_: Kernel

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.pairwise = self.kernel in ("precomputed", Precomputed())
        return tags

    def _keep_solution(
        self, space: FunctionSpace, weights: FloatArray, graphs: OutputGraphs, data: TrainingData
    ) -> Self:
        """Store weights, (n_weights, n_outputs), that were found in a space."""
        folded = space.fold(weights)
        if not graphs.is_multi_output:
            folded = folded[:, 0]
        return self._keep(space.predictor, folded, data, graphs.first.n_ignored_queries)


ClosedFormT = TypeVar("ClosedFormT", bound=ClosedFormRanker)


class ClosedFormCV(ClosedFormRanker, ABC):
    """A least-squares ranker that chooses one of its parameters by exact hold-outs."""

    rule: ChoiceRule
    path_: SelectionPath
    held_out_value_: float
    held_out_scores_: FloatArray | None

    def plot_path(self, ax: Any = None) -> Any:
        """Draw the held-out values along the path, with standard errors; return the axes.

        Needs matplotlib, the extra "plot".

        Parameters
        ----------
        ax : axes, optional
            Where to draw; new axes when left out.
        """
        return self.path_.plot(ax, self.path_.best(self.rule))

    def _keep_choice(self, path: SelectionPath, scores: FloatArray | None) -> Any:
        """Store a path and the held-out scores at its chosen position; return the chosen value."""
        position = path.best(self.rule)
        self.path_ = path
        self.held_out_value_ = float(path.values[position])
        self.held_out_scores_ = scores
        return path.grid[position]


def normal_equations(
    space: FunctionSpace, graph: PreferenceGraph, rows: IntArray | None = None
) -> System:
    """Return the normal equations of a graph: primal where features are explicit, else dual.

    Parameters
    ----------
    space : FunctionSpace
        Where the ranking function lives.
    graph : PreferenceGraph
        The preferences.
    rows : (n_rows,), optional
        The rows of the space that the items of the graph are; all of them when left out.
    """
    if space.is_explicit:
        return Primal.of(graph, space.features(rows))
    return Dual.of(graph, space.kernel_matrix(rows), trusted=space.kernel_is_trusted)


def normal_equations_on(
    device: Device | None, space: FunctionSpace, graph: PreferenceGraph, X: Matrix
) -> System:
    """Return the normal equations of all rows X, on a device where there is one."""
    if device is None:
        return normal_equations(space, graph)
    if space.is_explicit:
        return DeviceSystem.primal(graph, space.features_on(X, device), device)
    K = space.kernel_matrix_on(device)
    return DeviceSystem.dual(graph, K, device, trusted=space.kernel_is_trusted)


def gather_held_out(
    graphs: OutputGraphs, hold_out: Callable[[PreferenceGraph], HeldOut]
) -> HeldOut:
    """Hold out for every graph and put the outputs in their order."""
    parts = [hold_out(graph) for graph in graphs]
    in_turn = iter(parts)
    scores = graphs.gather(lambda _: next(in_turn).scores)
    return HeldOut(
        scores, np.max([part.error for part in parts], axis=0), _joint_solver(graphs, parts)
    )


def _joint_solver(
    graphs: OutputGraphs, parts: list[HeldOut]
) -> Callable[[float], FloatArray] | None:
    """Return what solves for the outputs of all graphs, where each graph has such a thing."""
    solvers = [part.solve for part in parts if part.solve is not None]
    if len(solvers) < len(parts):
        return None

    def solve(alpha: float) -> FloatArray:
        in_turn = iter(solvers)
        return graphs.gather(lambda _: next(in_turn)(alpha))

    return solve


def leave_items_out(
    data: TrainingData,
    folds: Folds,
    n_values: int,
    refit: Callable[[IntArray, IntArray, PreferenceGraph], HeldOut],
    **options: Any,
) -> HeldOut:
    """Leave out folds of items of one global ranking, whose graph is built without them.

    A fold that holds every item that differs from the others leaves nothing to learn: its items
    get the score 0.

    Parameters
    ----------
    data : TrainingData
        Scored items of one query.
    folds : Folds
        What is held out together.
    n_values : int
        Number of values of the parameter to choose.
    refit : function of the rows that remain, the rows to score, and the graph of the former
        Returns the scores for every value.
    **options
        Cost, ties and query weight of `OutputGraphs.of`.
    """
    scores = np.full((n_values, *as_columns(data.scores).shape), np.nan)
    error = np.zeros(n_values)
    for fold in range(folds.n_folds):
        kept, out = np.flatnonzero(folds.fold != fold), np.flatnonzero(folds.fold == fold)
        scores[:, out] = 0.0
        try:
            graphs = OutputGraphs.of(data.take(kept), **options)
        except NothingToLearnError:
            continue
        found = gather_held_out(graphs, partial(refit, kept, out))
        scores[:, out], error = found.scores, np.maximum(error, found.error)
    return HeldOut(scores, error)


def judge_folds(
    held_out: HeldOut,
    data: TrainingData,
    folds: Folds,
    measure: Measure,
    grid: NDArray[Any],
    parameter: str,
    simplest: Simplest,
) -> SelectionPath:
    """Measure held-out scores by query, or by fold where folds hold items of one global ranking.

    Items of weight 0 are not judged. The other parameters are those of `judge_scores`.
    """
    queries = data.queries if data.has_qid else _folds_as_queries(folds)
    rows = np.flatnonzero((folds.fold >= 0) & (data.weight > 0))
    return judge_scores(
        held_out, as_columns(data.scores), queries, rows, measure, grid, parameter, simplest
    )


def _folds_as_queries(folds: Folds) -> Queries:
    """Return the folds in their order; items that are never held out come last."""
    index = np.where(folds.fold < 0, folds.n_folds, folds.fold)
    return Queries(np.arange(folds.n_folds + 1), index)


def keep_linear_solution(
    ranker: ClosedFormT,
    weights: FloatArray,
    names: list[str] | None,
    n_queries: int,
    n_ignored_queries: int,
    *,
    has_qid: bool,
) -> ClosedFormT:
    """Give a ranker the weights of features that were found from statistics alone.

    Parameters
    ----------
    ranker : ClosedFormRanker
        An unfitted ranker with a linear kernel.
    weights : (n_features,)
        The solution.
    names : list of str, optional
        The names of the features.
    n_queries, n_ignored_queries : int
        Number of queries learned from, and of those without a preference.
    has_qid : bool
        Whether the caller named queries.
    """
    ranker.kernel_ = Linear()
    ranker.n_features_in_ = len(weights)
    if names is not None:
        ranker.feature_names_in_ = np.array(names, dtype=object)
    ranker._keep_weights(Identity(), weights)
    return ranker._keep_queries(n_queries, n_ignored_queries, has_qid=has_qid)
