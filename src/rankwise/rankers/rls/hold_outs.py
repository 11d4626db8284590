"""The hold-outs of RankRLSCV, and how well each alpha predicts them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray, Matrix, as_columns
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import TrainingData
from rankwise.features.function_space import FunctionSpace
from rankwise.graph.preference_graph import OutputGraphs, PreferenceGraph, QueryWeight
from rankwise.measures.value import Measure
from rankwise.rankers.closed_form import (
    Validation,
    gather_held_out,
    judge_held_out,
    leave_comparisons_out,
    leave_items_out,
    tied,
)
from rankwise.selection.holdouts import (
    Folds,
    GroupPairs,
    HeldOut,
    PairsHeldOut,
    resolve_folds,
    resolve_pair_folds,
)
from rankwise.selection.leave_edge_out import leave_edge_out
from rankwise.selection.leave_pair_out import leave_each_pair_out
from rankwise.selection.leave_query_out import leave_query_out
from rankwise.selection.path import SelectionPath, judge_comparisons, judge_pairs, refuse_listwise
from rankwise.solve.normal_equations import System

MOST_UNKNOWNS = 8192
"""Of sparse rows, whose exact hold-outs decompose a dense matrix of this order."""

NAMED_CV = ("auto", "leave_query_out", "leave_pair_out", "leave_edge_out")


@final
@dataclass(frozen=True, eq=False)
class SettingProblem:
    """The problem with one setting of a search: its preferences and its space of functions.

    Parameters
    ----------
    data : TrainingData
        The training data.
    options : mapping
        Cost, ties and query weight of the graphs.
    graphs : OutputGraphs
        The preferences.
    space : FunctionSpace
        The space of the ranking functions.
    alphas : (n_alphas,)
        The values of alpha.
    measure : Measure
        The measure that decides.
    """

    data: TrainingData
    options: Mapping[str, Any]
    graphs: OutputGraphs
    space: FunctionSpace
    alphas: FloatArray
    measure: Measure

    def weights(self, alpha: float) -> FloatArray:
        """Return the weights fitted to all data."""
        return self.graphs.gather(lambda graph: System.of(graph, self.space).solve(alpha))


@final
@dataclass(frozen=True, eq=False)
class Judged:
    """A setting that was judged: its problem, its paths, and the results of its hold-outs.

    Parameters
    ----------
    problem : SettingProblem
        The setting.
    path_of : function of an output or None
        The path of one output, or of the average of all.
    scores : (n_alphas, n_items, n_outputs) or (n_alphas, n_pairs), optional
        Held-out scores, or leads of comparisons, for every alpha.
    solve : function of alpha, optional
        Returns the weights fitted to all data, if the hold-outs know them.
    """

    problem: SettingProblem
    path_of: Callable[[int | None], SelectionPath]
    scores: FloatArray | None = None
    solve: Callable[[float], FloatArray] | None = None

    def weights(self, alphas: FloatArray) -> FloatArray:
        """Return the weights fitted to all data, with an alpha for each output or one for all."""
        solve = self.problem.weights if self.solve is None else self.solve
        known = {alpha: solve(alpha) for alpha in np.unique(alphas).tolist()}
        if len(alphas) == 1:
            return known[float(alphas[0])]
        return np.column_stack([known[alpha][:, k] for k, alpha in enumerate(alphas.tolist())])

    def held_out_scores(self, positions: IntArray) -> FloatArray | None:
        """Return the held-out scores at an alpha for each output, or one for all."""
        if self.scores is None or self.scores.ndim == 2:
            return None if self.scores is None else self.scores[positions[0]].copy()
        every = np.broadcast_to(positions, self.scores.shape[2])
        chosen = np.column_stack([self.scores[at, :, k] for k, at in enumerate(every)])
        return chosen if self.problem.graphs.is_multi_output else chosen[:, 0]


HoldOut: TypeAlias = Callable[[SettingProblem], Judged]
"""Judges all alphas of a setting by what is left out, or was given for validation."""


def _leave_queries_out(folds: Folds, problem: SettingProblem) -> Judged:
    """Leave out folds of whole queries of scores or comparisons, in closed form."""
    found = gather_held_out(
        problem.graphs,
        lambda graph: leave_query_out(problem.space, graph, folds, problem.alphas),
    )  # [PTA09] (33), for scores and for comparisons
    return _judged(problem, found, problem.data, folds)


def _leave_items_out(folds: Folds, problem: SettingProblem) -> Judged:
    """Leave out folds of scored items of one global ranking, and fit to the others."""
    refit, n_alphas = partial(_refitted_scores, problem.space, problem.alphas), len(problem.alphas)
    found = leave_items_out(problem.data, folds, n_alphas, refit, **problem.options)
    return _judged(problem, found, problem.data, folds)


def _judge_by(validation: Validation, problem: SettingProblem) -> Judged:
    """Learn from everything, and judge by given validation rows."""
    space, alphas = problem.space, problem.alphas

    def score(graph: PreferenceGraph) -> HeldOut:
        system = System.of(graph, space)
        spectrum = system.spectrum()
        weights = [system.lift(C) for C in spectrum.path(system.rhs, alphas)]
        folded = np.concatenate([as_columns(space.fold(W)) for W in weights], axis=1)
        scores = space.predictor.product(validation.X, folded)
        by_alpha = scores.reshape(len(scores), len(weights), -1).transpose(1, 0, 2)
        error = np.finfo(float).eps / spectrum.rcond(alphas)
        return HeldOut(
            by_alpha, error, lambda alpha: system.lift(spectrum.solve(system.rhs, alpha))
        )

    return _judged(problem, gather_held_out(problem.graphs, score), validation.data, None)


def _judged(
    problem: SettingProblem, found: HeldOut, data: TrainingData, folds: Folds | None
) -> Judged:
    """Judge held-out scores of whole queries, of folds of items, or of validation rows."""
    held_out = tied(found, data, folds)

    def path_of(output: int | None) -> SelectionPath:
        return judge_held_out(held_out, data, folds, problem.measure, problem.alphas, output=output)

    return Judged(problem, path_of, held_out.scores, held_out.solve)


def _leave_pairs_out(problem: SettingProblem) -> Judged:
    """Leave out every pair of scored items of one global ranking."""
    alphas = problem.alphas
    pairs = leave_each_pair_out(problem.space, problem.data, alphas, **problem.options)

    def path_of(output: int | None) -> SelectionPath:
        held_out = pairs if output is None else pairs.output(output)
        return judge_pairs(held_out, problem.measure, alphas)

    if pairs.weights is None:
        return Judged(problem, path_of)
    known = dict(zip(alphas.tolist(), pairs.weights, strict=True))
    return Judged(problem, path_of, solve=known.__getitem__)


def _leave_group_pairs_out(
    cv: GroupPairs, rng: np.random.Generator, problem: SettingProblem
) -> Judged:
    """Leave out two groups of items of one global ranking at a time, and fit to the others."""
    data, alphas = problem.data, problem.alphas
    y = data.single_output("Leave out pairs of groups for one output at a time.")
    group, pairs = cv.pairs(y, rng)
    right, total = np.zeros((2, len(alphas), int(group.max()) + 1, 1))
    error = np.zeros(len(alphas))
    for g, h in pairs:
        kept = np.flatnonzero((group != g) & (group != h))
        if len(np.unique(y[kept][data.weight[kept] > 0.0])) < 2:
            continue  # nothing is left to learn from
        graphs = OutputGraphs.of(data.take(kept), **problem.options)
        a, b = (np.flatnonzero((group == k) & (data.weight > 0.0)) for k in (g, h))
        refit = partial(_refitted_scores, problem.space, alphas, kept, np.append(a, b))
        found = gather_held_out(graphs, refit)
        error = np.maximum(error, found.error)
        # items of one group against those of the other, ties one half
        scores = found.tied(np.zeros(len(a) + len(b), dtype=np.intp)).scores[..., 0]
        order = np.sign(y[a][:, None] - y[b])
        leads = np.sign(scores[:, : len(a), None] - scores[:, None, len(a) :])
        in_order = np.where(order != 0.0, (leads * order + 1.0) / 2.0, 0.0).sum(axis=(1, 2))
        for k in (g, h):
            right[:, k, 0] += in_order
            total[:, k, 0] += np.count_nonzero(order)
    if not total.any():
        raise InvalidInputError(
            "`groups` must leave items of different scores to learn from when two are left out: "
            "none do. Use more groups, or leave out pairs of items with cv='leave_pair_out'."
        )
    path = judge_pairs(PairsHeldOut(right, total, error), problem.measure, alphas)
    return Judged(problem, lambda _: path)


def _leave_comparisons_out(folds: Folds | None, problem: SettingProblem) -> Judged:
    """Leave out every comparison, in closed form, or folds of them by fits to the others."""
    data, alphas, options = problem.data, problem.alphas, problem.options
    if folds is None:
        given = {"cost": options["cost"], "query_weight": options["query_weight"]}
        found = leave_edge_out(problem.space, data, alphas, **given)
    else:
        refit = partial(_refitted_scores, problem.space, alphas)
        found = leave_comparisons_out(data, folds, len(alphas), refit, **options)
    path = judge_comparisons(found.differences, data, found.error, problem.measure, alphas)
    return Judged(problem, lambda _: path, found.differences)


def resolve_hold_out(
    cv: Any,
    X: Matrix,
    data: TrainingData,
    query_weight: QueryWeight,
    measure: Measure,
    validation: Validation | None,
    rng: np.random.Generator,
) -> HoldOut:
    """Return the hold-out that ``cv`` describes, or the validation data if given."""
    if validation is not None:
        if not validation.data.is_scored:
            refuse_listwise(measure, "`pairs_val`")
        return partial(_judge_by, validation)
    if isinstance(cv, GroupPairs) and data.is_scored:
        _refuse_pairs(data, query_weight)
        refuse_listwise(measure, "cv=GroupPairs(...)")
        return partial(_leave_group_pairs_out, cv, rng)
    name = cv if isinstance(cv, str) else ""
    if name and name not in NAMED_CV:
        raise InvalidInputError(
            f"`cv` must be {', '.join(map(repr, NAMED_CV))}, a number of folds, a splitter or a "
            f"list of folds: got {cv!r}."
        )
    if not data.is_scored:
        refuse_listwise(measure, f"cv={cv!r} with comparisons")
        return _of_comparisons(cv, name, X, data, rng)
    if name == "leave_edge_out":
        raise InvalidInputError("cv='leave_edge_out' needs comparisons: got scores. Use cv='auto'.")
    if name == "leave_pair_out" or (name == "auto" and not data.has_qid):
        _refuse_pairs(data, query_weight)
        refuse_listwise(measure, "cv='leave_pair_out'")
        return _leave_pairs_out
    folds = resolve_folds(cv, X, data, rng)
    return partial(_leave_queries_out if data.has_qid else _leave_items_out, folds)


def _of_comparisons(
    cv: Any, name: str, X: Matrix, data: TrainingData, rng: np.random.Generator
) -> HoldOut:
    """Return what to leave out of comparisons: whole queries if there are any."""
    if name == "leave_pair_out" or (name == "leave_query_out" and not data.has_qid):
        raise InvalidInputError(
            "Comparisons must be left out one by one (cv='leave_edge_out'), in folds, or by query "
            f"with `qid` (cv='leave_query_out'): got {cv!r}{'' if data.has_qid else ' and no qid'}."
        )
    if name == "leave_edge_out" or (name == "auto" and not data.has_qid):
        return partial(_leave_comparisons_out, None)
    if data.has_qid:
        return partial(_leave_queries_out, resolve_folds(cv, X, data, rng))
    return partial(_leave_comparisons_out, resolve_pair_folds(cv, data.comparisons[0], rng))


def _refuse_pairs(data: TrainingData, query_weight: QueryWeight) -> None:
    """Refuse data and weights for which pairs of items cannot be left out."""
    if data.has_qid:
        raise InvalidInputError(
            "cv='leave_pair_out' needs scores of one global ranking: got `qid`. Use cv='auto'."
        )
    if not isinstance(query_weight, str):
        raise InvalidInputError(
            "cv='leave_pair_out' must have a named `query_weight`: got "
            f"{query_weight!r}. A single query needs no weight."
        )


def refuse_dense(X: Matrix, n_unknowns: int) -> None:
    """Refuse to decompose a large dense matrix for sparse rows; iterations do not need it."""
    if n_unknowns > MOST_UNKNOWNS:
        raise InvalidInputError(
            f"Exact hold-outs of sparse rows must have at most {MOST_UNKNOWNS:,} unknowns, "
            f"features or preferences: got {n_unknowns:,} from X of shape {X.shape}, whose dense "
            f"matrix takes {8e-9 * n_unknowns**2:.1f} GB and many minutes. Use "
            "LinearRankRLS(alphas=...), which iterates and chooses by validation, or give `basis`."
        )


def _refitted_scores(
    space: FunctionSpace,
    alphas: FloatArray,
    kept: IntArray,
    out: IntArray,
    graph: PreferenceGraph,
) -> HeldOut:
    """Return the scores of some rows by a fit to the graph of others, for every alpha."""
    system = System.of(graph, space, kept)
    spectrum = system.spectrum()
    solutions = [system.lift(C) for C in spectrum.path(system.rhs, alphas)]  # [PTA09] (31)
    scores = [space.scores(W.T, kept, out).T for W in solutions]
    return HeldOut(np.stack(scores), np.finfo(float).eps / spectrum.rcond(alphas))
