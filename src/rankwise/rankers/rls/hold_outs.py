"""The hold-outs of RankRLSCV, and how well each alpha predicts them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray, Matrix, as_columns
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import TrainingData
from rankwise.features.function_space import FunctionSpace, smallest_space, unknowns_of_sparse_rows
from rankwise.graph.preference_graph import OutputGraphs, PreferenceGraph, QueryWeight
from rankwise.measures.value import Measure
from rankwise.rankers.closed_form import (
    Validation,
    gather_held_out,
    judge_folds,
    leave_comparisons_out,
    leave_items_out,
    tied_by_folds,
)
from rankwise.selection.holdouts import (
    EdgesHeldOut,
    Folds,
    HeldOut,
    resolve_folds,
    resolve_pair_folds,
)
from rankwise.selection.leave_edge_out import leave_edge_out
from rankwise.selection.leave_pair_out import leave_each_pair_out
from rankwise.selection.leave_query_out import leave_query_out
from rankwise.selection.path import SelectionPath, judge_comparisons, judge_pairs, refuse_listwise
from rankwise.selection.systems import normal_equations

MOST_UNKNOWNS = 8192
"""Of sparse rows, whose exact hold-outs decompose a dense matrix of this order."""

NAMED_CV = ("auto", "leave_query_out", "leave_pair_out", "leave_edge_out")

PathOf = Callable[[int | None], SelectionPath]
"""Gives the path of one output, or of the average of all."""


@final
@dataclass(frozen=True, eq=False)
class SearchProblem:
    """What all settings of a search share.

    Parameters
    ----------
    X : (n_items, n_features)
        The rows.
    data : TrainingData
        The training data.
    query_weight
        As in `RankRLS`.
    basis_rows : (n_basis, n_features), optional
        The rows whose kernel functions a solution may use.
    alphas : (n_alphas,)
        The values of alpha.
    measure : Measure
        The measure that decides.
    rows : (n_items, n_features)
        The rows in the namespace that computes.
    """

    X: Matrix
    data: TrainingData
    query_weight: QueryWeight
    basis_rows: Matrix | None
    alphas: FloatArray
    measure: Measure
    rows: Matrix

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return as_columns(self.data.scores).shape[1] if self.data.is_scored else 1

    def at(self, settings: Mapping[str, Any]) -> "SettingProblem":
        """Return the problem with a kernel, a cost and a treatment of ties."""
        cost, ties = settings["cost"], settings["ties"]
        options = {"cost": cost, "ties": ties, "query_weight": self.query_weight}
        graphs = OutputGraphs.of(self.data, **options)
        kernel, rank = settings["kernel"], graphs.rank
        _refuse_dense(self.X, unknowns_of_sparse_rows(self.X, kernel, self.basis_rows, rank))
        space = smallest_space(self.X, kernel, self.basis_rows, rank, self.rows)
        return SettingProblem(self, options, graphs, space)


@final
@dataclass(frozen=True, eq=False)
class SettingProblem:
    """The problem with one setting of a search: its preferences and its space of functions."""

    search: SearchProblem
    options: Mapping[str, Any]
    graphs: OutputGraphs
    space: FunctionSpace

    def weights(self, alpha: float) -> FloatArray:
        """Return the weights fitted to all data."""
        return self.graphs.gather(lambda graph: normal_equations(self.space, graph).solve(alpha))


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
    path_of: PathOf
    scores: FloatArray | None = None
    solve: Callable[[float], FloatArray] | None = None

    def weights(self, alphas: FloatArray) -> FloatArray:
        """Return the weights fitted to all data, with an alpha for each output or one for all."""
        solve = self.problem.weights if self.solve is None else self.solve
        weights = solve(float(alphas[0]))
        if len(alphas) == 1:
            return weights
        found = np.empty_like(weights)
        for alpha in np.unique(alphas):
            of_alpha = alphas == alpha
            found[:, of_alpha] = solve(float(alpha))[:, of_alpha]
        return found

    def held_out_scores(self, positions: IntArray) -> FloatArray | None:
        """Return the held-out scores at an alpha for each output, or one for all."""
        if self.scores is None or self.scores.ndim == 2:
            return None if self.scores is None else self.scores[positions[0]].copy()
        if len(positions) == 1 and self.problem.graphs.is_multi_output:
            return self.scores[positions[0]].copy()
        chosen = [self.scores[position, :, k] for k, position in enumerate(positions)]
        return np.column_stack(chosen) if self.problem.graphs.is_multi_output else chosen[0].copy()


class HoldOut(ABC):
    """The data by which every alpha is judged: left out, or given for validation."""

    @abstractmethod
    def judge(self, problem: SettingProblem) -> Judged:
        """Return the values of all alphas for one setting."""


@final
@dataclass(frozen=True, eq=False)
class QueriesLeftOut(HoldOut):
    """Leave out folds of whole queries of scores or comparisons, in closed form."""

    folds: Folds

    def judge(self, problem: SettingProblem) -> Judged:
        """Return the values of all alphas for one setting."""
        search = problem.search
        held_out = gather_held_out(
            problem.graphs,
            lambda graph: leave_query_out(problem.space, graph, self.folds, search.alphas),
        )  # [PTA09] (33), for scores and for comparisons
        return _of_folds(problem, held_out, self.folds)


@final
@dataclass(frozen=True, eq=False)
class ItemsLeftOut(HoldOut):
    """Leave out folds of scored items of one global ranking, and fit to the others."""

    folds: Folds

    def judge(self, problem: SettingProblem) -> Judged:
        """Return the values of all alphas for one setting."""
        search = problem.search
        refit = partial(_refitted_scores, problem.space, search.alphas)
        n_alphas = len(search.alphas)
        held_out = leave_items_out(search.data, self.folds, n_alphas, refit, **problem.options)
        return _of_folds(problem, held_out, self.folds)


@final
@dataclass(frozen=True, eq=False)
class PairsLeftOut(HoldOut):
    """Leave out every pair of scored items of one global ranking."""

    def judge(self, problem: SettingProblem) -> Judged:
        """Return the values of all alphas for one setting."""
        search = problem.search
        alphas, measure = search.alphas, search.measure
        pairs = leave_each_pair_out(problem.space, search.data, alphas, **problem.options)

        def path_of(output: int | None) -> SelectionPath:
            held_out = pairs if output is None else pairs.output(output)
            return judge_pairs(held_out, measure, alphas)

        return Judged(problem, path_of, solve=_looked_up(pairs.weights, alphas))


@final
@dataclass(frozen=True, eq=False)
class ComparisonsLeftOut(HoldOut):
    """Leave out every comparison, in closed form, or folds of them by fits to the others."""

    folds: Folds | None = None

    def judge(self, problem: SettingProblem) -> Judged:
        """Return the values of all alphas for one setting."""
        search = problem.search
        held_out = self._held_out(problem)
        path = judge_comparisons(
            held_out.differences, search.data, held_out.error, search.measure, search.alphas
        )
        return Judged(problem, lambda _: path, held_out.differences)

    def _held_out(self, problem: SettingProblem) -> EdgesHeldOut:
        data, alphas, options = problem.search.data, problem.search.alphas, problem.options
        if self.folds is None:
            given = {"cost": options["cost"], "query_weight": options["query_weight"]}
            return leave_edge_out(problem.space, data, alphas, **given)
        refit = partial(_refitted_scores, problem.space, alphas)
        return leave_comparisons_out(data, self.folds, len(alphas), refit, **options)


@final
@dataclass(frozen=True, eq=False)
class GivenValidation(HoldOut):
    """Learn from everything, and judge by given validation rows."""

    validation: Validation

    def judge(self, problem: SettingProblem) -> Judged:
        """Return the values of all alphas for one setting."""
        search = problem.search
        found = gather_held_out(problem.graphs, partial(self._score, problem))
        held_out = found.tied(self.validation.data.queries.index)

        def path_of(output: int | None) -> SelectionPath:
            return self.validation.judge(
                held_out, search.measure, search.alphas, "alpha", "largest", output
            )

        return Judged(problem, path_of, held_out.scores, held_out.solve)

    def _score(self, problem: SettingProblem, graph: PreferenceGraph) -> HeldOut:
        """Return the scores of the validation rows by a fit to a graph, for every alpha."""
        search, space = problem.search, problem.space
        system = normal_equations(space, graph)
        spectrum = system.spectrum()
        weights = [system.lift(C) for C in spectrum.path(system.rhs, search.alphas)]
        folded = np.concatenate([as_columns(space.fold(W)) for W in weights], axis=1)
        scores = space.predictor.product(self.validation.X, folded)
        by_alpha = scores.reshape(len(scores), len(weights), -1).transpose(1, 0, 2)
        error = np.finfo(float).eps / spectrum.rcond(search.alphas)
        return HeldOut(
            by_alpha, error, lambda alpha: system.lift(spectrum.solve(system.rhs, alpha))
        )


def resolve_hold_out(
    cv: Any, problem: SearchProblem, validation: Validation | None, rng: np.random.Generator
) -> HoldOut:
    """Return the hold-out that ``cv`` describes, or the validation data if given."""
    data = problem.data
    if validation is not None:
        if not validation.data.is_scored:
            refuse_listwise(problem.measure, "`pairs_val`")
        return GivenValidation(validation)
    name = cv if isinstance(cv, str) else ""
    if name and name not in NAMED_CV:
        raise InvalidInputError(
            f"`cv` must be {', '.join(map(repr, NAMED_CV))}, a number of folds, a splitter or a "
            f"list of folds: got {cv!r}."
        )
    if not data.is_scored:
        return _of_comparisons(cv, name, problem, rng)
    if name == "leave_edge_out":
        raise InvalidInputError("cv='leave_edge_out' needs comparisons: got scores. Use cv='auto'.")
    if name == "leave_pair_out" or (name == "auto" and not data.has_qid):
        _refuse_pairs(data, problem.query_weight)
        refuse_listwise(problem.measure, "cv='leave_pair_out'")
        return PairsLeftOut()
    folds = resolve_folds(cv, problem.X, data, rng)
    return QueriesLeftOut(folds) if data.has_qid else ItemsLeftOut(folds)


def _of_comparisons(
    cv: Any, name: str, problem: SearchProblem, rng: np.random.Generator
) -> HoldOut:
    """Return what to leave out of comparisons: whole queries if there are any."""
    data = problem.data
    refuse_listwise(problem.measure, f"cv={cv!r} with comparisons")
    if name == "leave_pair_out" or (name == "leave_query_out" and not data.has_qid):
        raise InvalidInputError(
            "Comparisons must be left out one by one (cv='leave_edge_out'), in folds, or by query "
            f"with `qid` (cv='leave_query_out'): got {cv!r}{'' if data.has_qid else ' and no qid'}."
        )
    if name == "leave_edge_out" or (name == "auto" and not data.has_qid):
        return ComparisonsLeftOut()
    if data.has_qid:
        return QueriesLeftOut(resolve_folds(cv, problem.X, data, rng))
    return ComparisonsLeftOut(resolve_pair_folds(cv, data.comparisons[0], rng))


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


def _of_folds(problem: SettingProblem, found: HeldOut, folds: Folds) -> Judged:
    search = problem.search
    held_out = tied_by_folds(found, search.data, folds)

    def path_of(output: int | None) -> SelectionPath:
        return judge_folds(
            held_out,
            search.data,
            folds,
            search.measure,
            search.alphas,
            "alpha",
            "largest",
            output,
        )

    return Judged(problem, path_of, held_out.scores, held_out.solve)


def _refuse_dense(X: Matrix, n_unknowns: int) -> None:
    """Refuse to decompose a large dense matrix for sparse rows; iterations do not need it."""
    if n_unknowns > MOST_UNKNOWNS:
        raise InvalidInputError(
            f"Exact hold-outs of sparse rows must have at most {MOST_UNKNOWNS:,} unknowns, "
            f"features or preferences: got {n_unknowns:,} from X of shape {X.shape}, whose dense "
            f"matrix takes {8e-9 * n_unknowns**2:.1f} GB and many minutes. Use "
            "LinearRankRLS(alphas=...), which iterates and chooses by validation, or give `basis`."
        )


def _looked_up(
    weights: FloatArray | None, alphas: FloatArray
) -> Callable[[float], FloatArray] | None:
    """Return a function from an alpha of the grid to its weights, if these are known."""
    if weights is None:
        return None
    known = weights
    return lambda alpha: known[int(np.flatnonzero(alphas == alpha)[0])]


def _refitted_scores(
    space: FunctionSpace,
    alphas: FloatArray,
    kept: IntArray,
    out: IntArray,
    graph: PreferenceGraph,
) -> HeldOut:
    """Return the scores of some rows by a fit to the graph of others, for every alpha."""
    system = normal_equations(space, graph, kept)
    spectrum = system.spectrum()
    solutions = [system.lift(C) for C in spectrum.path(system.rhs, alphas)]  # [PTA09] (31)
    scores = [space.scores(W.T, kept, out).T for W in solutions]
    return HeldOut(np.stack(scores), np.finfo(float).eps / spectrum.rcond(alphas))
