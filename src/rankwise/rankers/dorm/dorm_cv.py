"""DORM that chooses its C, and more, by held-out queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Annotated, Any, Never, Self, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from rankwise.core.arrays import FloatArray, IntArray, Matrix, as_columns
from rankwise.core.checks import check_length
from rankwise.core.errors import ConvergenceWarning, InvalidInputError, warn_caller
from rankwise.core.params import CheckedWith, Count, RandomSeed, Tolerance, checked
from rankwise.core.queries import Queries, TrainingData, one_output
from rankwise.features.function_space import function_space
from rankwise.features.kernels import as_kernel
from rankwise.io.frames import read_columns
from rankwise.measures.registry import MeasureLike, parse_measure
from rankwise.measures.value import Measure
from rankwise.rankers.base import generator
from rankwise.rankers.dorm.cutting_planes import REMEDY, solve, solve_path
from rankwise.rankers.dorm.dorm import (
    DirectRanker,
    diverse_places,
    passes_shown,
    warn_if_nothing_learned,
)
from rankwise.rankers.dorm.losses import default_measure
from rankwise.rankers.dorm.problem import (
    ONE_OUTPUT,
    LossOptions,
    RankingProblem,
    refuse_indefinite_kernel,
)
from rankwise.rankers.reading import read_rows, read_training, refuse_other_arguments
from rankwise.selection.holdouts import (
    Folds,
    HeldOut,
    ValidationData,
    refuse_partial_validation,
    resolve_folds,
)
from rankwise.selection.path import (
    Candidate,
    ChoiceRule,
    SelectionPath,
    as_settings,
    best_candidate,
    judge_scores,
)
from rankwise.selection.ties import equal_ties
from rankwise.solve.iteration import CertifiedSolution, StepCallback, StoppingRule

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_CS = 10_000
"""The largest number of values of a grid that is given by that number."""

WIDEST = 100.0
"""The largest C of a grid of which only the number of values is given, in units of the smallest."""


@final
@dataclass(frozen=True, eq=False)
class GridSolver:
    """Solve for every C: when to stop, what to call after each pass, the order of the queries."""

    rule: StoppingRule
    on_step: StepCallback | None
    rng: np.random.Generator

    def solve(self, problem: RankingProblem, Cs: FloatArray) -> list[CertifiedSolution]:
        """Solve for every C in ascending order; Ctrl-C raises as it does elsewhere."""
        path = solve_path(
            problem.plane_space(), problem.loss, Cs.tolist(), self.rule, self.on_step, self.rng
        )
        solutions = list(path)
        if solutions[-1].ending.reason == "interrupted":
            raise KeyboardInterrupt
        return solutions


@final
@dataclass(frozen=True, eq=False)
class JudgedGrid:
    """One setting judged for every C.

    Parameters
    ----------
    problem : RankingProblem
        The problem of all data.
    path : SelectionPath
        The held-out values.
    solutions : list of CertifiedSolution
        The solutions for all data, where they are known already.
    n_unconverged : int
        Number of solutions whose gap is too large.
    """

    problem: RankingProblem
    path: SelectionPath
    solutions: list[CertifiedSolution]
    n_unconverged: int


Judge: TypeAlias = Callable[[RankingProblem, FloatArray, Measure, GridSolver], JudgedGrid]
"""Trains for every C and measures what was not learned from."""

Problems: TypeAlias = Iterator[tuple[dict[str, Any], RankingProblem]]
"""Settings, each with its problem."""


def judge_by_validation(
    validation: ValidationData,
    sources: NDArray[Any] | None,
    problem: RankingProblem,
    Cs: FloatArray,
    measure: Measure,
    solver: GridSolver,
) -> JudgedGrid:
    """Train on all data once for every C, and measure the validation data."""
    solutions = solver.solve(problem, Cs)
    # scores of the validation rows, one row for each C
    W = np.stack([problem.weights(solution)[1] for solution in solutions], axis=1)
    scores = problem.space.predictor.product(validation.X, W).T
    held_out = _HeldOutRows(
        scores, validation.y, validation.queries, np.arange(len(validation.y)), sources
    )
    path = held_out.path(Cs, measure, problem.options.n_diverse)
    gaps = np.array([solution.gap for solution in solutions])
    return JudgedGrid(problem, replace(path, errors=gaps), solutions, _unconverged(solutions))


def judge_by_folds(
    folds: Folds, problem: RankingProblem, Cs: FloatArray, measure: Measure, solver: GridSolver
) -> JudgedGrid:
    """Train for every C without each fold in turn, and measure what was left out."""
    data = problem.data
    scores = np.full((len(Cs), data.n_items), np.nan)
    gaps, n_unconverged = np.zeros(len(Cs)), 0
    # scores of each fold by the solutions without it, one row for each C
    for fold in range(folds.n_folds):
        out = np.flatnonzero(folds.fold == fold)
        part = problem.without(out)
        solutions = solver.solve(part, Cs)
        points = np.stack([solution.point for solution in solutions])
        scores[:, out] = part.space.scores(points, part.rows, out)
        gaps = np.maximum(gaps, [solution.gap for solution in solutions])
        n_unconverged += _unconverged(solutions)
    # the held-out ranking, measured for each C
    queries = data.queries if data.has_qid else Queries.of(folds.fold, data.n_items)
    rows = np.flatnonzero((folds.fold >= 0) & (data.weight > 0))
    held_out = _HeldOutRows(scores, data.scores, queries, rows, problem.options.sources)
    path = held_out.path(Cs, measure, problem.options.n_diverse)
    return JudgedGrid(problem, replace(path, errors=gaps), [], n_unconverged)


@final
@dataclass(frozen=True, eq=False)
class _HeldOutRows:
    """Scores of shape (n_Cs, n_items) that were not learned from, and the rows that are judged."""

    scores: FloatArray
    y: FloatArray
    queries: Queries
    rows: IntArray
    sources: NDArray[Any] | None

    def path(self, Cs: FloatArray, measure: Measure, n_diverse: int | None) -> SelectionPath:
        """Measure the rankings for each C, diverse ones where there are sources."""
        # ties of held-out scores are equal inside queries or folds
        group = np.full(self.scores.shape[1], -1)
        group[self.rows] = self.queries.index[self.rows]
        scores = equal_ties(self.scores[:, :, None], group, np.zeros(len(Cs)))
        judged = self.queries.take(self.rows)
        if self.sources is not None and n_diverse is not None:
            sources = self.sources[self.rows]
            for of_c in scores[:, :, 0]:
                of_c[self.rows] = -diverse_places(of_c[self.rows], sources, judged, n_diverse)
        held_out = HeldOut(scores, np.zeros(len(Cs)))
        y = as_columns(self.y)
        path = judge_scores(held_out, y, self.queries, self.rows, measure, Cs, "C", "smallest")
        if np.isnan(path.values).any():
            raise InvalidInputError(
                f"At least one held-out query must define {measure!r}: none of "
                f"{judged.n_queries} does. Give queries with different grades."
            )
        return path


def _unconverged(solutions: list[CertifiedSolution]) -> int:
    return sum(not solution.converged for solution in solutions)


@final
class DORMCV(DirectRanker):
    r"""Learn to rank by DORM with C, objective, decay and kernel chosen on held-out queries.

    Every C is trained from the planes of the smaller one before it, so that a grid costs little
    more than its largest value. Validation data decide if they are given; otherwise folds of whole
    queries do, and the best setting is then fitted to all data.

    Parameters
    ----------
    Cs : int or (n_Cs,)
        The values of C to choose from. An integer means that many values, evenly spaced in
        logarithms, from the value above which slacks matter more than the norm to 100 times that.
    objective : Measure, str, function or list of these
        What to optimise, as in `DORM`; from a list, the best is chosen.
    measure : Measure or str, optional
        The measure that decides, any measure; by default the objective, or the first of several.
    cv : int, splitter or list of folds
        Number of random folds of queries (of items, without `qid`), a scikit-learn splitter of
        groups such as ``GroupKFold(5)``, or lists of rows.
    rule : {"best", "one_standard_error"}
        Take the best C, or the smallest one within a standard error of it.
    kernel, decay
        As in `DORM`; from a list of kernels or decays, the best is chosen. An array or a tuple of
        values is one decay.
    basis, n_diverse, tol, max_iter
        As in `DORM`.
    progress : bool
        Show settings, passes and gaps.
    random_state : int, RandomState or None
        Draws folds, basis rows, and the order of the queries in a pass.

    Attributes
    ----------
    C_ : float
        The chosen C.
    objective_, kernel_, decay_
        The chosen objective, kernel and decay.
    path_ : SelectionPath
        The values for every C, with standard errors and the value of each query; its errors are the
        largest duality gaps behind each value.
    held_out_value_ : float
        The held-out value of the chosen setting.
    search_ : list of Candidate
        All settings, with their paths.
    coef_, dual_coef_, solution_, improvement_, n_iter_, n_queries_, n_ignored_queries_
        As in `DORM`.

    Notes
    -----
    [LS08] Sect. 6.1 chooses C by cross-validation or on a validation set.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import DORMCV
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(200, 5)), np.repeat(np.arange(20), 10)
    >>> y = np.digitize(X @ [1, 2, 0, 0, 0] + 2 * rng.normal(size=200), [-1, 1, 3])
    >>> ranker = DORMCV(Cs=5, measure="MAP", decay=[0.5, 1.0], random_state=0).fit(X, y, qid=qid)
    >>> ranker.C_ in ranker.path_.grid, len(ranker.search_), ranker.path_.per_query.shape
    (True, 2, (5, 20))
    """

    objective_: Any
    path_: SelectionPath
    search_: list[Candidate]
    held_out_value_: float

    def __init__(
        self,
        Cs: Annotated[int | ArrayLike, CheckedWith("y")] = 8,
        *,
        objective: Any = "NDCG",
        measure: MeasureLike | None = None,
        cv: Any = 5,
        rule: ChoiceRule = "best",
        kernel: Any = "linear",
        decay: Any = 0.5,
        basis: Annotated[int | ArrayLike | None, CheckedWith("X")] = None,
        n_diverse: Count | None = None,
        tol: Tolerance = 1e-3,
        max_iter: Count = 1000,
        progress: bool = False,
        random_state: RandomSeed = None,
    ) -> None:
        self.Cs = Cs
        self.objective = objective
        self.measure = measure
        self.cv = cv
        self.rule = rule
        self.kernel = kernel
        self.decay = decay
        self.basis = basis
        self.n_diverse = n_diverse
        self.tol = tol
        self.max_iter = max_iter
        self.progress = progress
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        sources: ArrayLike | None = None,
        preliminary: ArrayLike | None = None,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        qid_val: ArrayLike | None = None,
        sources_val: ArrayLike | None = None,
        **others: Never,
    ) -> Self:
        """Judge every setting on held-out queries, then fit the best one to all data.

        Parameters
        ----------
        X, y, qid, sample_weight, preliminary
            As in `DORM`. Items of weight 0 are not judged.
        sources : (n_items,) or (n_items, n_conditions), optional
            As in `DORM`. The ranking of `predict_diverse` is measured.
        X_val, y_val, qid_val, sources_val
            Validation data that decide in place of `cv`.
        """
        refuse_other_arguments(others)
        given = checked(self)
        refuse_partial_validation(X_val, y_val, qid_val)
        rng = generator(given.random_state)
        X, data = read_training(self, X, y, qid, sample_weight)
        _refuse_sources_of_one(sources, X_val, sources_val)
        # how settings are judged, then the search along every grid of C
        judge = self._judge(X, data, rng, X_val, y_val, qid_val, sources_val)
        rule = StoppingRule(given.tol, given.max_iter)
        with passes_shown(given.progress, "DORMCV") as on_step:
            solver = GridSolver(rule, on_step, rng)
            problems = self._problems(X, data, preliminary, sources, rng)
            chosen = self._search(problems, judge, solver)
            solution = self._solution(chosen, solver)
        _warn_unconverged(chosen.n_unconverged + (not solution.converged), rule)
        self._keep_solution(chosen.problem, solution)
        warn_if_nothing_learned(self.improvement_, self.objective_)
        return self

    def plot_path(self, ax: Axes | None = None) -> Axes:
        """Draw the chosen setting's values against C, with standard errors; return the axes.

        Needs matplotlib, the extra "plot".
        """
        check_is_fitted(self)
        return self.path_.plot(ax, self.path_.best(self.rule))

    def _judge(
        self,
        X: Matrix,
        data: TrainingData,
        rng: np.random.Generator,
        X_val: Any,
        y_val: ArrayLike | None,
        qid_val: ArrayLike | None,
        sources_val: ArrayLike | None,
    ) -> Judge:
        """Return how settings are judged: by validation data where there are any, or by folds."""
        if X_val is not None:
            y_val, qid_val = read_columns(X_val, "X_val", y_val=y_val, qid_val=qid_val)
            X_val = read_rows(self, X_val)
            validation = ValidationData.of(X_val, y_val, qid_val, has_qid=data.has_qid)
            one_output(validation.y, "y_val", ONE_OUTPUT)
            named = None if sources_val is None else np.asarray(sources_val)
            if named is not None:
                check_length("sources_val", named, len(validation.y))
            return partial(judge_by_validation, validation, named)
        folds = resolve_folds(self.cv, X, data, rng)
        if data.has_qid:
            folds.of_components(data.queries.index)  # refuses folds that cut queries
        return partial(judge_by_folds, folds)

    def _search(self, problems: Problems, judge: Judge, solver: GridSolver) -> JudgedGrid:
        """Judge all settings and return the best; an interrupt keeps what is done."""
        judged: list[JudgedGrid] = []
        self.search_ = []
        measure = self._score_measure()
        # every objective, kernel and decay, for every C
        try:
            for settings, problem in problems:
                judged.append(judge(problem, resolve_grid(self.Cs, problem), measure, solver))
                self.search_.append(Candidate(settings, judged[-1].path))
        except KeyboardInterrupt:
            if not judged:
                raise
            settings_given = map(as_settings, (self.kernel, self.objective, self.decay))
            warn_caller(
                f"Interrupted after {len(judged)} of {prod(map(len, settings_given))} settings: "
                "the best of these is used.",
                ConvergenceWarning,
            )
        # the setting with the best held-out value
        best = best_candidate(self.search_, self.rule)
        chosen = self.search_[best]
        self.objective_ = chosen.settings["objective"]
        self.kernel_ = chosen.settings["kernel"]
        self.path_ = chosen.path
        self.held_out_value_ = float(self.path_.values[self.path_.best(self.rule)])
        return judged[best]

    def _problems(
        self,
        X: Matrix,
        data: TrainingData,
        preliminary: ArrayLike | None,
        sources: ArrayLike | None,
        rng: np.random.Generator,
    ) -> Problems:
        """Yield every setting with its problem; settings with the same kernel share a space."""
        for kernel in as_settings(self.kernel, "kernel"):
            fitted = as_kernel(kernel).fitted_to(X, data.sample_weight)
            space = function_space(X, fitted, self.basis, rng)
            refuse_indefinite_kernel(space, data.n_items)
            for objective, decay in product(
                as_settings(self.objective, "objective"), as_settings(self.decay, "decay")
            ):
                options = LossOptions.of(
                    data.n_items, objective, decay, preliminary, sources, self.n_diverse
                )
                settings = {"objective": objective, "kernel": fitted, "decay": decay}
                yield settings, RankingProblem.of(data, space, options)

    def _score_measure(self) -> Measure:
        """Return the measure that decides, by default that of the objective."""
        if self.measure is not None:
            return parse_measure(self.measure)
        return default_measure(as_settings(self.objective, "objective")[0])

    def _solution(self, chosen: JudgedGrid, solver: GridSolver) -> CertifiedSolution:
        """Return the solution for all data at the chosen C."""
        best = chosen.path.best(self.rule)
        if chosen.solutions:
            return chosen.solutions[best]
        problem, C = chosen.problem, float(chosen.path.grid[best])
        space = problem.plane_space()
        return solve(space, problem.loss, C, solver.rule, solver.on_step, solver.rng)


def resolve_grid(Cs: Any, problem: RankingProblem) -> FloatArray:
    """Return an ascending grid: the values given, or that many from the unit of C up."""
    if isinstance(Cs, int | np.integer) and not isinstance(Cs, bool) and 0 < Cs <= MOST_CS:
        return problem.unit_of_c * np.geomspace(1.0, WIDEST, int(Cs))
    try:
        given = np.asarray(Cs, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        given = np.zeros(0)
    grid = np.unique(given)
    if given.ndim != 1 or len(grid) == 0 or not (np.isfinite(grid).all() and (grid > 0).all()):
        raise InvalidInputError(
            f"`Cs` must be a number of values up to {MOST_CS:,}, or a list of finite numbers above "
            f"0: got {Cs!r}."
        )
    return grid


def _refuse_sources_of_one(sources: object, X_val: object, sources_val: object) -> None:
    """Refuse sources of the validation rows alone, or of the training rows alone."""
    if X_val is None and sources_val is not None:
        raise InvalidInputError(
            "`sources_val` must come with `X_val`: got no validation rows. Give `sources` alone."
        )
    if X_val is not None and (sources is None) != (sources_val is None):
        raise InvalidInputError(
            "`sources` and `sources_val` must be given both or neither: got one of them. Diverse "
            "rankings are measured as they are shown, which needs the sources of all rows."
        )


def _warn_unconverged(n_unconverged: int, rule: StoppingRule) -> None:
    if n_unconverged:
        warn_caller(
            f"{n_unconverged} solutions have not converged within max_iter={rule.max_iter} "
            f"iterations to tol={rule.tol:.1e}; `path_.errors` and `solution_.gap` say how far "
            f"they came. {REMEDY}",
            ConvergenceWarning,
        )
