"""DORM: direct optimisation of ranking measures."""

from __future__ import annotations

from abc import ABC
from contextlib import AbstractContextManager
from typing import Annotated, Any, ClassVar, Never, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.checks import (
    as_array,
    as_floats,
    check_length,
    missing_cells,
)
from rankwise.core.errors import (
    ConvergenceWarning,
    InvalidInputError,
    NothingToLearnError,
    warn_caller,
)
from rankwise.core.params import (
    CheckedWith,
    Count,
    RandomSeed,
    Tolerance,
    checked,
)
from rankwise.core.queries import Queries, TrainingData
from rankwise.core.storable import Counted
from rankwise.features.function_space import Basis, FunctionSpace, basis_space, function_space
from rankwise.features.kernels import Kernel, KernelLike, is_precomputed
from rankwise.io.frames import read_columns
from rankwise.rankers.base import PointRanker, generator
from rankwise.rankers.dorm.cutting_planes import solve
from rankwise.rankers.dorm.losses import (
    CChoice,
    Decay,
    ObjectiveLike,
    decay_of,
    scores_at_positions,
)
from rankwise.rankers.dorm.oracles.assignment import assign_by_value
from rankwise.rankers.dorm.oracles.diversity import assign_constrained, diverse_positions
from rankwise.rankers.dorm.problem import (
    EarlierFunction,
    LossOptions,
    RankingProblem,
    refuse_indefinite_kernel,
)
from rankwise.rankers.reading import read_rows, read_training, refuse_other_arguments
from rankwise.solve.iteration import (
    CertifiedSolution,
    Step,
    StepCallback,
    StoppingRule,
    steps_shown,
)


class DirectRanker(PointRanker, ABC):
    """A ranker that optimises a measure directly."""

    kernel: Any
    basis: int | ArrayLike | None
    kernel_: Kernel
    solution_: CertifiedSolution
    C_: float
    n_iter_: Counted
    decay_: Any
    improvement_: float

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags

    def predict_diverse(
        self, X: Any, sources: ArrayLike, n: int, qid: ArrayLike | None = None
    ) -> IntArray:
        """Return the rows in ranked order, with different sources among the first n of a query.

        Parameters
        ----------
        X : (n_items, n_features)
            Rows to rank.
        sources : (n_items,) or (n_items, n_conditions)
            Where each item comes from: at most one item of a source is among the first n, or among
            as many as there are sources, if these are fewer. Or shares of 0 or more: for each
            column, the shares of the first n items sum to at most 1, which may take long to find.
        n : int
            Number of positions that must be diverse.
        qid : (n_items,), optional
            The query of each row; by default all rows form one ranking.

        Returns
        -------
        order : (n_items,)
            Row numbers, query by query as in `rank`, best first. Among all rankings that meet the
            condition this is the best by the scores; under conditions on shares, the best with
            position i counting 1 / i.

        Notes
        -----
        [LS08] Sect. 5.1.

        Examples
        --------
        >>> from rankwise import DORM
        >>> ranker = DORM(C=1.0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 2, 3])
        >>> ranker.predict_diverse([[5.0], [4.0], [3.0], [2.0]], ["a", "a", "b", "a"], n=2)
        array([0, 2, 1, 3])
        """
        scores = self.predict(X)
        queries = Queries.of(qid, len(scores))
        named = _check_sources(sources, len(scores))
        positions = diverse_places(scores, named, queries, n)
        return queries.best_first(-positions)

    def _keep_solution(self, problem: RankingProblem, solution: CertifiedSolution) -> Self:
        """Store the solution and what is known about it."""
        predictor, weights = problem.weights(solution)
        self.solution_, self.C_, self.n_iter_ = solution, solution.C, solution.n_iter
        self.decay_ = problem.options.decay
        self.improvement_ = problem.improvement(solution)
        return self._keep(predictor, weights, problem.data, problem.n_ignored_queries)


def _check_sources(sources: ArrayLike, n_items: int) -> NDArray[Any]:
    """Return the sources of items, or their weights over topics."""
    named = as_array("sources", sources)
    check_length("sources", named, n_items)
    if named.ndim == 2:
        return as_floats("sources", named, "numbers, the weights of items over topics")
    if named.ndim != 1 or (named.dtype == object and missing_cells(named).any()):
        raise InvalidInputError(
            "`sources` must name a source for each item, or hold their weights over topics: got "
            f"shape {named.shape}, or some are missing."
        )
    return named.astype(str) if named.dtype == object else named


def diverse_places(scores: FloatArray, sources: NDArray[Any], queries: Queries, n: int) -> IntArray:
    """Return the position of each item, with different sources among the first n of a query.

    Parameters
    ----------
    scores : (n_items,)
    sources : (n_items,) or (n_items, n_conditions)
        Where items come from, or shares of them under weighted conditions.
    queries : Queries
    n : int
        Number of positions that the condition is about.
    """
    order = queries.order
    find = diverse_positions if sources.ndim == 1 else _constrained_positions
    places = np.empty(len(order), dtype=np.intp)
    places[order] = find(scores[order], sources[order], queries.starts, n)
    return places


def passes_shown(
    progress: bool | StepCallback, label: str
) -> AbstractContextManager[StepCallback | None]:
    """Return what yields the function to call after each pass of the solver."""

    def describe(step: Step) -> str:
        about = "" if np.isfinite(step.objective) else "about "
        gap = f"gap {about}{step.error:.1e}"
        return f"{label}  {step.label}  iteration {step.iteration}  {gap}"

    return steps_shown(progress, label, describe=describe)


def warn_if_nothing_learned(improvement: float, objective: object) -> None:
    """Warn that the weights found are no better than none, which their ranking does not show."""
    if improvement > 0.0:
        return
    warn_caller(
        f"Nothing was learned: the bound on the loss in {objective} is no lower than without any "
        "weights, so the ranking means little. Train for a measure without a cut-off, such as NDCG "
        "(it may still be judged by one with a cut-off), or for other features.",
        ConvergenceWarning,
    )


def _constrained_positions(
    scores: FloatArray, shares: FloatArray, starts: IntArray, n: int
) -> IntArray:
    """Return the best positions of each query under weighted conditions on the first n.

    A mixed-integer programme finds which items come first, where position i counts 1 / i; inside
    and behind these the scores decide.
    """
    parts = []
    for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        g = scores[first:last]
        # scores from 0 to 1, times 1 / i at position i
        span = float(np.ptp(g))
        V = np.outer(
            (g - g.min()) / (span if span > 0 else 1.0), 1.0 / np.arange(1.0, len(g) + 1.0)
        )
        depth = min(n, len(g))
        # the programme chooses the head; the scores order it and what follows
        is_behind = assign_constrained(V, shares[first:last], depth) >= depth
        positions = np.empty(len(g), dtype=np.intp)
        positions[np.lexsort((-g, is_behind))] = np.arange(len(g))
        parts.append(positions)
    return np.concatenate(parts)


SCALE = 10.0
"""What ``C="scale"`` is, in units of the C from which on slacks matter more than the norm."""


@final
class DORM(DirectRanker):
    r"""Learn to rank by minimising a bound on a ranking measure: NDCG, precision, or your own.

    Minimises, over linear functions or functions of a kernel,

    .. math:: \tfrac{1}{2} |f|^2 + C \sum_q \omega_q \max_\pi \bigl[ \Delta_q(\pi)
              + \sum_i (c_{\pi_i} - c_{\pi^*_i}) f_i \bigr]

    where :math:`\Delta_q(\pi)` is the loss of a ranking relative to the best one, :math:`\pi^*`,
    and c falls from position to position. Every term is at least the loss of the ranking by f. The
    problem is convex, the maximum over all rankings is found exactly, and the solution comes with a
    proof of how far it can be from the optimum: ``solution_.gap``.

    Parameters
    ----------
    objective : Measure, str or function
        What to optimise: ``NDCG``, ``NDCG @ 10``, ``DCG``, ``Precision @ 5``, ``RR``, ``WTA``,
        ``ERU``, ``Utility`` with your own discounts, or "mWTA", a modified WTA. Or a function that
        takes the grades of a query and returns the cost of each item (row) at each position
        (column).
    C : float or "scale"
        The factor of the sum over queries. "scale" adapts to the scale of the features and the
        number of queries: ten times the value above which the sum matters more than the norm.
    kernel : {"linear", "gaussian", "laplacian", "polynomial", "precomputed"}, kernel or function
        The space of ranking functions.
    decay : float, "log", "loglog" or array
        The decay c: :math:`(i + 1)^{-d}` at position i for a number d, 1 / log(i + 2),
        1 / log log(i + 2), or its values, the last of which is repeated.
    basis : int, (n_basis,) of indices or (n_basis, n_features), optional
        Restrict the function to the span of the kernel functions of some rows: a number of random
        rows, indices of rows of X, or the rows themselves.
    n_diverse : int, optional
        How many positions hold different sources if `fit` is given `sources`; by default the
        cut-off of the objective.
    n_functions : int
        Number of ranking functions. With more than one, the first positions have one function each,
        and all later positions share the last; `predict` returns a column for each, and
        `rank_by_position` finds the best ranking. Use it for a few positions of special meaning,
        with a linear kernel or a `basis`.
    tol : float
        The fit has converged when the duality gap is below this share of the objective.
    max_iter : int
        Largest number of passes over all queries.
    progress : bool or callable
        Show the passes and the gap; or call a function with the `Step` of each pass, which stops
        the fit by returning True.
    random_state : int, RandomState or None
        Draws the basis rows if `basis` is a number, and the order of the queries in a pass.

    Attributes
    ----------
    coef_ : (n_features,)
        Weights of the features, with the linear kernel and no basis.
    dual_coef_ : (n_rows,)
        Weights of the training rows, or of the basis rows, otherwise.
    solution_ : CertifiedSolution
        Objective, lower bound and ``gap``, why the solver ended; its details hold the slack of each
        query ("slacks"), "n_oracle_calls", "n_planes" and "seconds".
    C_ : float
        The C of this solution.
    improvement_ : float
        The share by which learning lowered the objective, relative to f = 0 (in `partial_fit`: to
        the previous weights). Close to 0 nothing was learned: the bound is too loose, see Notes.
    n_iter_ : int
        Number of passes made.
    decay_ : float, str or array
        The decay.
    kernel_ : Kernel
        The kernel with all its parameters.
    n_queries_ : int
        Number of queries in the training data.
    n_ignored_queries_ : int
        Number of them without a preference.
    fitted_with_qid_ : bool
        Whether `fit` was given `qid`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : (n_features,)
        The names of the features, if X had names.

    Notes
    -----
    [LS08] eq. (27), solved by column generation over the queries with exact oracles for (24). The
    measure leaves the order of items with equal gains open, and their order in the target decides
    what can be learned; it is that of a least-squares ranker. A cut-off makes the bound loose, on
    noisy data so loose that f = 0 minimises it: if you report NDCG @ 10, it is often better to
    train for NDCG. Ctrl-C ends a fit with the best solution so far and warns.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import DORM
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(60, 3)), np.repeat(np.arange(6), 10)
    >>> y = np.digitize(X @ [1, 2, 0] + rng.normal(size=60), [-1, 1, 3])
    >>> ranker = DORM("NDCG", random_state=0).fit(X, y, qid=qid)
    >>> ranker.solution_.gap < 1e-3
    True
    >>> (ranker.coef_ / ranker.coef_[1]).round(1)
    array([0.4, 1. , 0.2])
    """

    __metadata_request__partial_fit: ClassVar = {"qid": True}

    def __init__(
        self,
        objective: ObjectiveLike = "NDCG",
        C: CChoice = "scale",
        *,
        kernel: KernelLike = "linear",
        decay: Decay = 0.5,
        basis: Annotated[int | ArrayLike | None, CheckedWith("X")] = None,
        n_diverse: Count | None = None,
        n_functions: Count = 1,
        tol: Tolerance = 1e-3,
        max_iter: Count = 1000,
        progress: bool | StepCallback = False,
        random_state: RandomSeed = None,
    ) -> None:
        self.objective = objective
        self.C = C
        self.kernel = kernel
        self.decay = decay
        self.basis = basis
        self.n_diverse = n_diverse
        self.n_functions = n_functions
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
        **others: Never,
    ) -> Self:
        """Learn from the grades of items inside queries.

        Parameters
        ----------
        X : (n_items, n_features), dense or sparse
            The items. A feature that is constant inside each query makes no difference.
        y : (n_items,)
            Grades of the items, higher is better; the objective turns them into gains.
        qid : (n_items,), optional
            The query of each item, of any type and in any order; by default all items form one
            query.
        sample_weight : (n_items,), optional
            Weights. The weight of a query is the mean weight of its items, and items of weight 0
            are left out. Equal weights in a query are the same as repeating the query.
        sources : (n_items,) or (n_items, n_conditions), optional
            Train for rankings with at most one item of a source among the first `n_diverse`, or
            under weighted conditions; see `predict_diverse`.
        preliminary : (n_items,), optional
            Scores that order the items wherever the objective leaves their order open; by default
            the scores of a least-squares ranker.
        """
        refuse_other_arguments(others)
        given = checked(self)
        rng = generator(given.random_state)
        X, data = read_training(self, X, y, qid, sample_weight)
        options = given._options(X, preliminary, sources)
        self.kernel_ = given.kernel.fitted_to(X, data.sample_weight)
        space = function_space(X, self.kernel_, given.basis, rng)
        refuse_indefinite_kernel(space, data.n_items)
        problem = RankingProblem.of(data, space, options)
        C = SCALE * problem.unit_of_c if given.C == "scale" else given.C
        solution = given._solve(problem, C, rng)
        self._keep_solution(problem, solution)
        warn_if_nothing_learned(self.improvement_, self.objective)
        return self

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        r"""Continue learning from further queries, staying close to the previous weights.

        Minimises :math:`\tfrac{1}{2} |w - w_0|^2` plus C times the sum over the new queries, with
        :math:`w_0` the weights so far. The first call is a `fit`, which also chooses C. Queries
        must be complete. Earlier queries are not kept, so that data of any size can be learned from
        in parts.

        Parameters
        ----------
        X, y, qid, sample_weight
            As in `fit`. Queries without a preference change nothing.

        Notes
        -----
        [LS08] Sect. 7. The rows of a `basis` come from the first call; a kernel without a basis
        has a weight for each item of every call, so the model grows.

        Examples
        --------
        >>> from rankwise import DORM
        >>> ranker = DORM(C=1.0).fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
        >>> ranker.partial_fit([[0.0, 0.0], [1.0, 2.0]], [0, 1]).coef_.round(2)
        array([0.26, 0.13])
        """
        given = checked(self)
        if given.n_functions > 1:
            raise InvalidInputError(
                "`partial_fit` needs a single ranking function: got n_functions="
                f"{given.n_functions}. Fit all queries at once."
            )
        if "solution_" not in vars(self):
            return self.fit(X, y, qid, sample_weight)
        y, qid, sample_weight = read_columns(X, y=y, qid=qid, sample_weight=sample_weight)
        X = read_rows(self, X)
        # the earlier function w0, which the solution stays close to; its scores order the target
        scores, point = self._scores(X), np.array(self.solution_.point)
        earlier = EarlierFunction(self.predictor_, self._weights, point, scores)
        data = TrainingData.of(X.shape[0], y, qid, sample_weight)
        space = self._same_space(X)
        refuse_indefinite_kernel(space, data.n_items)
        try:
            problem = RankingProblem.of(data, space, given._options(X, scores), earlier)
        except NothingToLearnError:
            return self
        solution = given._solve(problem, self.C_, generator(given.random_state))
        return self._keep_solution(problem, solution)

    def rank_by_position(self, X: Any, qid: ArrayLike | None = None) -> IntArray:
        """Return the best ranking of the rows, with a ranking function for each position.

        Parameters
        ----------
        X : (n_items, n_features)
            Rows to rank.
        qid : (n_items,), optional
            The query of each row; by default all rows form one ranking.

        Returns
        -------
        order : (n_items,)
            Row numbers, query by query as in `rank`, starting with the first position. Each query
            is an assignment problem. With a single function this is `rank`.

        Notes
        -----
        [LS08] Sect. 3.4.

        Examples
        --------
        The first position is for a large first feature, all others for a large second one.

        >>> import numpy as np
        >>> from rankwise import DORM
        >>> X = np.random.default_rng(0).normal(size=(400, 2))
        >>> qid, kind = np.repeat(np.arange(100), 4), np.zeros(400)
        >>> for rows in np.split(np.arange(400), 100):
        ...     kind[rows[X[rows, 0].argmax()]] = 1
        >>> def cost(kind):
        ...     return np.outer(kind != 1, np.arange(len(kind)) == 0).astype(float)
        >>> ranker = DORM(cost, n_functions=2, random_state=0).fit(X, kind, qid=qid)
        >>> first = ranker.rank_by_position(X, qid=qid)[::4]
        >>> bool(np.mean(kind[first]) > 0.9), ranker.predict(X).shape
        (True, (400, 2))
        """
        scores = self.predict(X)
        queries = Queries.of(qid, len(scores))
        order = queries.order
        decay = decay_of(self.decay_, queries)
        places = np.empty(len(order), dtype=np.intp)
        for first, last in zip(queries.starts[:-1], queries.starts[1:], strict=True):
            rows = order[first:last]
            V = scores_at_positions(scores[rows].reshape(len(rows), -1), decay[first:last])
            places[rows] = assign_by_value(V)
        return queries.best_first(-places)

    def _options(
        self, X: Matrix, preliminary: ArrayLike | None, sources: ArrayLike | None = None
    ) -> LossOptions:
        return LossOptions.of(
            X.shape[0],
            self.objective,
            self.decay,
            preliminary,
            sources,
            self.n_diverse,
            self.n_functions,
        )

    def _same_space(self, X: Matrix) -> FunctionSpace:
        """Return the space of the fitted function, over other rows."""
        basis_rows = self.predictor_.expansion_rows
        if self.basis is not None and basis_rows is not None:
            return basis_space(X, Basis.of(self.kernel_, basis_rows))
        return function_space(X, self.kernel_, None, generator(self.random_state))

    def _solve(
        self, problem: RankingProblem, C: float, rng: np.random.Generator
    ) -> CertifiedSolution:
        rule = StoppingRule(self.tol, self.max_iter)
        with passes_shown(self.progress, "DORM") as on_step:
            solution = solve(problem.plane_space(), problem.loss, C, rule, on_step, rng)
        solution.ending.warn()
        return solution
