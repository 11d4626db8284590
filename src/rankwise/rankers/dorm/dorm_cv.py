"""DORM that chooses its C, and more, by held-out queries."""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import product
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.checks import check_length
from rankwise.core.errors import ConvergenceWarning, InvalidInputError
from rankwise.core.queries import Queries
from rankwise.features.kernels import as_kernel
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure
from rankwise.rankers.dorm.cutting_planes import Rule, Solution, solve, solve_path
from rankwise.rankers.dorm.direct_ranker import DirectRanker
from rankwise.rankers.dorm.ground import lay_ground
from rankwise.rankers.dorm.objective import scoring_measure
from rankwise.rankers.dorm.problem import Given, Task, Training, one_output
from rankwise.rankers.dorm.training import (
    PassCallback,
    check_rule,
    passes_shown,
    settle_grid,
    warn_if_idle,
)
from rankwise.rankers.randomness import generator
from rankwise.selection.c_path import CCandidate, CPath
from rankwise.selection.holdouts import Folds
from rankwise.selection.path import ChoiceRule


@final
@dataclass(frozen=True, eq=False)
class Run:
    """How to solve: when to stop, what to call after each pass, in which order to visit queries."""

    rule: Rule
    on_pass: PassCallback | None
    rng: np.random.Generator

    def path(self, task: Task, Cs: FloatArray) -> list[Solution]:
        """Solve for every C, rising; Ctrl-C ends it as Ctrl-C does."""
        steps = solve_path(task.space(), task.loss, Cs.tolist(), self.rule, self.on_pass, self.rng)
        solutions = list(steps)
        if solutions[-1].ending == "interrupted":
            raise KeyboardInterrupt
        return solutions


@final
@dataclass(frozen=True, eq=False)
class Verdict:
    """The values of all C, and the solutions for all data where they are known already."""

    path: CPath
    solutions: list[Solution]
    n_unfinished: int


class Judge(ABC):
    """Items that decide on C."""

    @abstractmethod
    def judge(self, task: Task, Cs: FloatArray, run: Run, measure: Measure) -> Verdict:
        """Train for every C and measure what was not learned from."""


@final
@dataclass(frozen=True, eq=False)
class ByValidation(Judge):
    """Data of their own."""

    X: Matrix
    y: FloatArray
    queries: Queries

    def judge(self, task: Task, Cs: FloatArray, run: Run, measure: Measure) -> Verdict:
        """Train on all data once."""
        solutions = run.path(task, Cs)
        W = np.stack([task.fold(solution) for solution in solutions], axis=1)
        scores = task.ground.predictor.product(self.X, W).T
        gaps = np.array([solution.gap for solution in solutions])
        rows = np.arange(len(self.y))
        path = CPath.judge(scores, self.y, self.queries, rows, measure, Cs, gaps)
        return Verdict(path, solutions, _unfinished(solutions))


@final
@dataclass(frozen=True, eq=False)
class ByFolds(Judge):
    """Folds of the training data, each left out in turn."""

    folds: Folds
    queries: Queries

    def judge(self, task: Task, Cs: FloatArray, run: Run, measure: Measure) -> Verdict:
        """Train once for each fold."""
        given = task.lesson.given
        scores = np.full((len(Cs), len(given.y)), np.nan)
        gaps, n_unfinished = np.zeros(len(Cs)), 0
        for fold in range(self.folds.n_folds):
            out = np.flatnonzero(self.folds.fold == fold)
            part = task.without(out)
            solutions = run.path(part, Cs)
            points = np.stack([solution.point for solution in solutions])
            scores[:, out] = part.ground.scores(points, part.lesson.rows, out)
            gaps = np.maximum(gaps, [solution.gap for solution in solutions])
            n_unfinished += _unfinished(solutions)
        rows = np.flatnonzero((self.folds.fold >= 0) & (given.weight > 0))
        path = CPath.judge(scores, given.y, self.queries, rows, measure, Cs, gaps)
        return Verdict(path, [], n_unfinished)


def make_folds(cv: Any, X: Matrix, given: Given, rng: np.random.Generator) -> ByFolds:
    """Split queries into folds, or the items of a single query."""
    queries, n_items = given.queries, len(given.y)
    by_item = queries.n_queries == 1
    groups = np.arange(n_items) if by_item else queries.index
    if isinstance(cv, int | np.integer) and not isinstance(cv, bool):
        folds = _random_folds(int(cv), groups, rng)
    else:
        lists = cv
        if callable(getattr(lists, "split", None)):
            lists = lists.split(X, given.y, groups)
        folds = Folds.from_lists(lists, n_items)
        folds.of_components(groups)
    return ByFolds(folds, Queries.from_qid(folds.fold) if by_item else queries)


def _random_folds(n_folds: int, groups: IntArray, rng: np.random.Generator) -> Folds:
    n_groups = int(groups.max()) + 1
    if n_folds < 2:
        raise InvalidInputError(f"`cv` as a number must be at least 2: got {n_folds}.")
    if n_groups < 2:
        raise InvalidInputError("`cv` needs at least 2 queries, or 2 items of one: got 1.")
    n_folds = min(n_folds, n_groups)
    of_group = rng.permutation(np.arange(n_groups) % n_folds)
    return Folds(of_group[groups], n_folds)


def _unfinished(solutions: list[Solution]) -> int:
    return sum(not solution.converged for solution in solutions)


@final
class DORMCV(DirectRanker):
    r"""Learn to rank by DORM with C, measure, decay and kernel chosen by held-out queries.

    Every C is trained from the planes of the smaller one before it, so that a grid costs little
    more than its largest value. Given validation data decide; otherwise folds of whole queries do,
    and the best setting is then fitted to all data.

    Parameters
    ----------
    Cs : int or (n_Cs,)
        The values of C to choose from; a number means so many from where the slacks begin to matter
        more than the norm up to 100 times that, evenly spaced in the logarithms.
    measure : Measure, str, function or list of these
        What to optimise, as in `DORM`; of several, the best is taken.
    scoring : Measure or str, optional
        What decides, any measure; the one that is optimised, the first of several, when left out.
    cv : int, splitter or list of folds
        Number of random folds of queries (of items, when there is a single query), a scikit-learn
        splitter of groups such as ``GroupKFold(5)``, or lists of rows.
    rule : {"best", "one_standard_error"}
        Take the best C, or the smallest one within a standard error of it.
    kernel, decay
        As in `DORM`; of a list of kernels or decays, the best is taken. An array of values is one
        decay, and so is a tuple.
    basis, tol, max_iter
        As in `DORM`.
    progress : bool
        Show settings, passes and gaps.
    random_state : int, RandomState or None
        Draws folds, basis rows, and the order of the queries in a pass.

    Attributes
    ----------
    C_ : float
        The chosen C.
    measure_, kernel_, decay_
        The chosen measure, kernel and decay.
    path_ : CPath
        The values for every C, with standard errors and the value of each query.
    cv_value_ : float
        The held-out value of the chosen setting.
    search_ : list of CCandidate
        All settings, with their paths.
    coef_, dual_coef_, solution_, improvement_, n_iter_, n_queries_, ignored_queries_
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
    >>> ranker = DORMCV(Cs=5, scoring="MAP", decay=[0.5, 1.0], random_state=0).fit(X, y, qid=qid)
    >>> ranker.C_ in ranker.path_.Cs, len(ranker.search_), ranker.path_.per_query.shape
    (True, 2, (5, 20))
    """

    def __init__(
        self,
        Cs: int | ArrayLike = 8,
        *,
        measure: Any = "NDCG",
        scoring: Measure | str | None = None,
        cv: Any = 5,
        rule: ChoiceRule = "best",
        kernel: Any = "linear",
        decay: Any = 0.5,
        basis: int | ArrayLike | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        progress: bool = False,
        random_state: Any = None,
    ) -> None:
        self.Cs = Cs
        self.measure = measure
        self.scoring = scoring
        self.cv = cv
        self.rule = rule
        self.kernel = kernel
        self.decay = decay
        self.basis = basis
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
        preliminary: ArrayLike | None = None,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        qid_val: ArrayLike | None = None,
    ) -> Self:
        """Judge every setting on held-out queries, then keep the best one, fitted to all data.

        Parameters
        ----------
        X, y, qid, sample_weight, preliminary
            As in `DORM`. Items of weight 0 are not judged.
        X_val, y_val, qid_val
            Validation data that decide in place of `cv`.
        """
        rng = generator(self.random_state)
        X = self._check_rows(X)
        given = Given.of(X.shape[0], y, qid, sample_weight, preliminary)
        judge = self._judge(X, given, rng, X_val, y_val, qid_val, with_qid=qid is not None)
        rule = check_rule(self.tol, self.max_iter)
        with passes_shown(self.progress, "DORMCV") as on_pass:
            run = Run(rule, on_pass, rng)
            task, verdict = self._search(X, given, judge, run)
            solution = self._solution(task, verdict, run)
        _warn_unfinished(verdict.n_unfinished + (not solution.converged), rule)
        self._keep(task, solution, with_qid=qid is not None)
        warn_if_idle(self.improvement_, self.measure_)
        return self

    def plot_path(self, ax: Any = None) -> Any:
        """Draw the chosen setting's values against C, with standard errors; return the axes.

        Needs matplotlib, the extra "plot".
        """
        return self.path_.plot(ax, self.path_.best(self.rule))

    def _judge(
        self,
        X: Matrix,
        given: Given,
        rng: np.random.Generator,
        X_val: Any,
        y_val: ArrayLike | None,
        qid_val: ArrayLike | None,
        *,
        with_qid: bool,
    ) -> Judge:
        """Return what decides: validation data where there are any, or folds."""
        if X_val is None and y_val is None and qid_val is None:
            return make_folds(self.cv, X, given, rng)
        if X_val is None or y_val is None or (qid_val is None and with_qid):
            raise InvalidInputError(
                "Validation data must have `X_val` and `y_val`, and `qid_val` if `fit` is given "
                "`qid`: scores compare inside a query only."
            )
        X_val = self._check_rows(X_val, reset=False)
        truth = one_output(y_val, "y_val")
        queries = Queries.single(len(truth)) if qid_val is None else Queries.from_qid(qid_val)
        check_length("y_val", truth, X_val.shape[0])
        check_length("qid_val", queries.index, X_val.shape[0])
        return ByValidation(X_val, truth, queries)

    def _search(self, X: Matrix, given: Given, judge: Judge, run: Run) -> tuple[Task, Verdict]:
        """Judge all settings and return the best; an interrupt keeps what is done."""
        settings = [
            (kernel, Training(measure, decay))
            for kernel, measure, decay in product(
                *map(_as_list, (self.kernel, self.measure, self.decay))
            )
        ]
        done: list[tuple[Task, Verdict]] = []
        self.search_: list[CCandidate] = []
        try:
            for kernel, training in settings:
                fitted = as_kernel(kernel).fitted_to(X)
                task = Task.of(training, lay_ground(X, fitted, self.basis, run.rng), given)
                verdict = judge.judge(task, settle_grid(self.Cs, task), run, self._scoring())
                done.append((task, verdict))
                self.search_.append(
                    CCandidate(training.measure, fitted, training.decay, verdict.path)
                )
        except KeyboardInterrupt:
            if not done:
                raise
            warnings.warn(
                f"Interrupted after {len(done)} of {len(settings)} settings: the best of these is "
                "used.",
                ConvergenceWarning,
                stacklevel=3,
            )
        best = _best(self.search_, self.rule)
        chosen = self.search_[best]
        self.measure_, self.kernel_, self.decay_ = chosen.measure, chosen.kernel, chosen.decay
        self.path_ = chosen.path
        self.cv_value_ = float(chosen.path.values[chosen.path.best(self.rule)])
        return done[best]

    def _scoring(self) -> Measure:
        if self.scoring is not None:
            return parse_measure(self.scoring)
        return scoring_measure(_as_list(self.measure)[0])

    def _solution(self, task: Task, verdict: Verdict, run: Run) -> Solution:
        """Return the solution for all data at the chosen C."""
        best = verdict.path.best(self.rule)
        if verdict.solutions:
            return verdict.solutions[best]
        C = float(verdict.path.Cs[best])
        return solve(task.space(), task.loss, C, run.rule, run.on_pass, run.rng)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _best(candidates: list[CCandidate], rule: ChoiceRule) -> int:
    """Return the setting with the best value at its chosen C; the first of equals."""
    paths = [candidate.path for candidate in candidates]
    values = np.array([path.values[path.best(rule)] for path in paths])
    return int(np.argmax(values if paths[0].measure.greater_is_better else -values))


def _warn_unfinished(n_unfinished: int, rule: Rule) -> None:
    if n_unfinished:
        warnings.warn(
            f"{n_unfinished} solutions have not converged within max_iter={rule.max_passes} "
            f"passes to tol={rule.tol:.1e}; `path_.gaps` and `solution_.gap` say how far they "
            "came. Raise max_iter or tol, lower the largest C, or scale the features.",
            ConvergenceWarning,
            stacklevel=3,
        )
