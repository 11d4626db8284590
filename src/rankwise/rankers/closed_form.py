"""What rankers in closed form share: normal equations, solutions, and choosing parameters."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Self, TypeAlias, TypeVar, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rankwise.core.arrays import FloatArray, IntArray, Matrix, as_columns
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.namespaces import on_host
from rankwise.core.params import Advice, Positive
from rankwise.core.queries import Queries, TrainingData
from rankwise.features.function_space import FunctionSpace, Identity
from rankwise.features.kernels import Kernel, Linear, is_precomputed
from rankwise.graph.preference_graph import OutputGraphs, PreferenceGraph, QueryWeight
from rankwise.io.frames import read_columns
from rankwise.measures.value import Measure
from rankwise.rankers.base import PointRanker
from rankwise.rankers.reading import read_comparisons_of, read_rows
from rankwise.selection.holdouts import (
    EdgesHeldOut,
    Folds,
    HeldOut,
    ValidationData,
    refuse_partial_validation,
)
from rankwise.selection.path import (
    Candidate,
    ChoiceRule,
    SelectionPath,
    Simplest,
    judge_comparisons,
    judge_scores,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Alpha: TypeAlias = Annotated[
    float, Positive(), Advice("Choose a positive value; small values regularise little.")
]


class ClosedFormRanker(PointRanker, ABC):
    """A least-squares ranker with a kernel and query weights among its parameters."""

    kernel: Any
    query_weight: QueryWeight
    kernel_: Kernel

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.input_tags.pairwise = is_precomputed(self.kernel)
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
    search_: list[Candidate]

    def plot_path(self, ax: Axes | None = None) -> Axes:
        """Draw the held-out values along the path, with standard errors; return the axes.

        Needs matplotlib, the extra "plot".

        Parameters
        ----------
        ax : axes, optional
            Where to draw; by default new axes.
        """
        check_is_fitted(self)
        return self.path_.plot(ax, self.path_.best(self.rule))

    def _validation(
        self,
        rows: Matrix,
        data: TrainingData,
        X: Any,
        X_val: Any,
        y_val: ArrayLike | None,
        qid_val: ArrayLike | None,
        pairs_val: ArrayLike | None,
        pair_weight_val: ArrayLike | None,
        named: tuple[Any, ...],
    ) -> Validation | None:
        """Return the validation data given to `fit`, if any.

        Comparisons are of rows of ``X_val`` or, without it, of the training rows X, which ``rows``
        were read from; ``named`` are the scores and the queries of these as they were given.
        """
        y_val, qid_val = map(on_host, read_columns(X_val, "X_val", y_val=y_val, qid_val=qid_val))
        if pairs_val is None:
            return self._scored_validation(data, X_val, y_val, qid_val, pair_weight_val)
        refuse_both_validations(y_val)
        given = (X_val, qid_val, pairs_val, pair_weight_val)
        return compared_validation(self, rows, data, X, *given, named)

    def _scored_validation(
        self, data: TrainingData, X_val: Any, y_val: Any, qid_val: Any, pair_weight_val: Any
    ) -> Validation | None:
        refuse_idle_weight(pair_weight_val)
        refuse_partial_validation(X_val, y_val, qid_val)
        if X_val is None:
            return None
        rows = read_rows(self, X_val)
        checked = ValidationData.of(rows, y_val, qid_val, has_qid=data.has_qid)
        n_outputs = as_columns(data.scores).shape[1] if data.is_scored else 1
        if as_columns(checked.y).shape[1] != n_outputs:
            raise InvalidInputError(
                f"`y_val` must have the {n_outputs} outputs of `y`: got "
                f"{as_columns(checked.y).shape[1]}."
            )
        return Validation(rows, TrainingData.of(rows.shape[0], checked.y, checked.queries))


@final
@dataclass(frozen=True, eq=False)
class Validation:
    """Validation rows, with their scores or comparisons.

    Parameters
    ----------
    X : (n_rows, n_features)
        The rows.
    data : TrainingData
        Their scores and queries, or comparisons of them.
    """

    X: Matrix
    data: TrainingData


def refuse_both_validations(y_val: Any) -> None:
    """Refuse validation scores beside validation comparisons."""
    if y_val is not None:
        raise InvalidInputError(
            "Validation data must have scores `y_val` or comparisons `pairs_val`: got both. "
            "Leave one out."
        )


def refuse_idle_weight(pair_weight_val: Any) -> None:
    """Refuse weights of validation comparisons that were not given."""
    if pair_weight_val is not None:
        raise InvalidInputError(
            "`pair_weight_val` must come with `pairs_val`: got none. Give both, or leave both out."
        )


def compared_validation(
    ranker: PointRanker,
    rows: Matrix,
    data: TrainingData,
    X: Any,
    X_val: Any,
    qid_val: Any,
    pairs_val: Any,
    pair_weight_val: Any,
    named: tuple[Any, ...],
) -> Validation:
    """Return validation comparisons of rows of ``X_val`` or, without it, of the training rows.

    ``rows`` were read from X, and ``named`` are the scores and queries of these as they were given.
    """
    given = X if X_val is None else X_val
    X_val_rows, pairs_val, pair_weight_val = read_comparisons_of(
        given, pairs_val, pair_weight_val, named, "_val"
    )
    qid: Any = qid_val
    if X_val is not None:
        rows = read_rows(ranker, X_val_rows)
    elif data.has_qid and qid_val is None:
        qid = data.queries
    n_rows = rows.shape[0]
    return Validation(
        rows, TrainingData.of(n_rows, qid=qid, pairs=pairs_val, pair_weight=pair_weight_val)
    )


def gather_held_out(
    graphs: OutputGraphs, hold_out: Callable[[PreferenceGraph], HeldOut]
) -> HeldOut:
    """Hold out for every graph and put the outputs in their order."""
    parts = [hold_out(graph) for graph in graphs]
    solvers = [part.solve for part in parts if part.solve is not None]

    def solve(alpha: float) -> FloatArray:
        in_turn = iter(solvers)
        return graphs.gather(lambda _: next(in_turn)(alpha))

    in_turn = iter(parts)
    scores = graphs.gather(lambda _: next(in_turn).scores)
    error = np.max([part.error for part in parts], axis=0)
    return HeldOut(scores, error, solve if len(solvers) == len(parts) else None)


def leave_items_out(
    data: TrainingData,
    folds: Folds,
    n_values: int,
    refit: Callable[[IntArray, IntArray, PreferenceGraph], HeldOut],
    **options: Any,
) -> HeldOut:
    """Leave out folds of items of one global ranking, with the graph rebuilt without them.

    If a fold holds every item that differs from the others, nothing is left to learn, and its items
    get the score 0.

    Parameters
    ----------
    data : TrainingData
        Scored items of one query.
    folds : Folds
        The folds.
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


def leave_comparisons_out(
    data: TrainingData,
    folds: Folds,
    n_values: int,
    refit: Callable[[IntArray, IntArray, PreferenceGraph], HeldOut],
    **options: Any,
) -> EdgesHeldOut:
    """Leave out folds of comparisons; all items stay.

    Parameters
    ----------
    data : TrainingData
        Comparisons of one global ranking.
    folds : Folds
        Which comparisons are held out together.
    n_values : int
        Number of values of the parameter to choose.
    refit, **options
        As in `leave_items_out`.
    """
    pairs, every = data.comparisons[0], np.arange(data.n_items)
    leads, error = np.full((n_values, len(pairs)), np.nan), np.zeros(n_values)
    for fold in range(folds.n_folds):
        out = np.flatnonzero(folds.fold == fold)
        rest = data.without_pairs(out)
        rows, ends = np.unique(pairs[out], return_inverse=True)
        leads[:, out] = 0.0
        if len(out) and rest.comparisons[2].any():
            found = refit(every, rows, PreferenceGraph.of(rest, **options))
            found = found.tied(np.zeros(len(rows), dtype=np.intp))
            winner, loser = ends.reshape(-1, 2).T
            leads[:, out] = found.scores[:, winner, 0] - found.scores[:, loser, 0]
            error = np.maximum(error, found.error)
    return EdgesHeldOut(leads, error)


def tied(held_out: HeldOut, data: TrainingData, folds: Folds | None = None) -> HeldOut:
    """Make ties equal inside queries, or inside folds of the items of one global ranking."""
    if folds is None:
        return held_out.tied(data.queries.index)
    group = data.queries.index if data.has_qid else folds.fold
    return held_out.tied(np.where(folds.fold < 0, -1, group))


def judge_held_out(
    held_out: HeldOut,
    data: TrainingData,
    folds: Folds | None,
    measure: Measure,
    grid: NDArray[Any],
    parameter: str = "alpha",
    simplest: Simplest = "largest",
    output: int | None = None,
) -> SelectionPath:
    """Measure held-out scores by query, or by fold if folds hold items of one global ranking.

    Items of weight 0 are not judged. Comparisons are judged if their items are held out.

    Parameters
    ----------
    held_out : HeldOut
        Scores for every value of the grid, item and output.
    data : TrainingData
        The true scores or the comparisons, and the queries.
    folds : Folds or None
        Which items are held out; None for all, which is validation data.
    measure, grid, parameter, simplest
        As in `judge_scores`.
    output : int, optional
        The output to measure; by default all are averaged.
    """
    if not data.is_scored:
        winner, loser = data.comparisons[0].T
        leads = held_out.scores[:, winner, 0] - held_out.scores[:, loser, 0]
        return judge_comparisons(leads, data, held_out.error, measure, grid, parameter, simplest)
    Y, queries, rows = as_columns(data.scores), data.queries, np.arange(data.n_items)
    if output is not None:
        held_out, Y = held_out.output(output), Y[:, output : output + 1]
    if folds is not None:
        rows = np.flatnonzero((folds.fold >= 0) & (data.weight > 0))
        if not data.has_qid:  # items that are never held out come last
            index = np.where(folds.fold < 0, folds.n_folds, folds.fold)
            queries = Queries(np.arange(folds.n_folds + 1), index)
    return judge_scores(held_out, Y, queries, rows, measure, grid, parameter, simplest)


def keep_linear_solution(
    ranker: ClosedFormT,
    weights: FloatArray,
    names: list[str] | None,
    n_queries: int,
    n_ignored_queries: int,
    *,
    has_qid: bool,
) -> ClosedFormT:
    """Store weights of features that were found from statistics alone in a ranker.

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
