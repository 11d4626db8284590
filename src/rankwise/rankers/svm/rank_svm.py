"""RankSVM: large-margin ranking of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Never, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import (
    Advice,
    ArrayOf,
    CheckedWith,
    Count,
    Positive,
    RandomSeed,
    Tolerance,
    check_call,
    checked,
)
from rankwise.core.queries import TrainingData
from rankwise.core.storable import Counted
from rankwise.features.function_space import FunctionSpace, explicit_space
from rankwise.features.kernels import Kernel, KernelLike, is_precomputed
from rankwise.graph.pair_sums import ExplicitPairs, GradedPairs, HingeCost, PairSet
from rankwise.graph.preference_graph import Grades, PreferenceGraph, QueryWeight
from rankwise.rankers.base import PointRanker, RankerPath, basis_generator
from rankwise.rankers.reading import read_training, refuse_other_arguments
from rankwise.rankers.svm.newton import minimize_hinge
from rankwise.rankers.svm.objective import HingeLoss
from rankwise.solve.iteration import (
    CertifiedSolution,
    Step,
    StepCallback,
    StoppingRule,
    steps_shown,
)

C_ADVICE = "Choose a positive value; small values regularise much."

RELATIVE_ADVICE = (
    "RankSVM does not offer relative costs. Give the pairs as `pairs`, with cost='magnitude', the "
    "differences of their scores as `pair_margin` and 1 / pair_margin**2 as `pair_weight`."
)


@final
class RankSVM(PointRanker):
    r"""Learn to rank with a margin: the support vector machine on differences of items.

    Minimises, over linear functions or functions of a kernel,

    .. math:: \tfrac{1}{2} |f|^2 + C \sum_q \omega_q \sum_{(i,j) \in q} s_i s_j\,
              \ell\bigl(m_{ij} - (f_i - f_j)\bigr), \qquad
              \ell(t) = \max(0, t) \text{ or } \max(0, t)^2

    over the pairs of a query in which i has the higher score. It is the problem of scikit-learn's
    ``LinearSVC(C, fit_intercept=False)`` on the differences of all pairs, which are never formed:
    a step takes O(n log n) in the number of items, or O(pairs) with comparisons. The solution
    comes with a proof of how far it can be from the optimum: ``solution_.gap``.

    Parameters
    ----------
    C : float
        The factor of the sum over pairs, which is not divided by their number.
    loss : {"squared_hinge", "hinge"}
        The loss of a violated pair: the square of its slack, which is faster and the default of
        ``LinearSVC``, or the slack, which the first ranking SVMs used.
    kernel : {"linear", "gaussian", "laplacian", "polynomial", "precomputed"}, kernel or function
        The space of ranking functions.
    cost : {"unit", "magnitude"}
        The margin m of a pair: 1, or y_i - y_j. With comparisons: the sign of `pair_margin`, or
        `pair_margin` itself.
    query_weight : {"pairs", "items", "equal"}, mapping or (n_queries,)
        The weight :math:`\omega_q`: 1, 1 / n_q, 1 / number of pairs of q, or given. With "equal"
        the sum is that of the mean losses of the queries.
    basis : int, (n_basis,) of indices or (n_basis, n_features), optional
        Restrict the function to the span of the kernel functions of some rows: a number of random
        rows, indices of rows of X, or the rows themselves.
    tol : float
        The fit has converged when the duality gap is below this share of the objective.
    max_iter : int
        Largest number of Newton steps.
    progress : bool or callable
        Show the steps and the gap; or call a function with each step, which stops the fit by
        returning True.
    random_state : int, RandomState or None
        Draws the basis rows if `basis` is a number.

    Attributes
    ----------
    coef_ : (n_features,)
        Weights of the features, with the linear kernel and no basis.
    dual_coef_ : (n_rows,)
        Weights of the training rows, or of the basis rows, otherwise.
    solution_ : CertifiedSolution
        Objective, lower bound, ``gap``, number of steps and why they ended.
    n_iter_ : int
        Number of steps made.
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
    This is the baseline of [PTAB07] and [PTA09]. Kernels use the empirical kernel map of [PTA09]
    Sect. 4.2, in O(n^3), a basis that of Sect. 4.4, in O(n r^2) with r basis rows. The hinge is
    smoothed over a width that shrinks step by step, so that both losses are solved by Newton's
    method; the certificate is for the exact loss (docs/theory/ranksvm.rst). Pairs of equal score
    have no winner and are left out. For other margins or weights, pass `pairs`. Ctrl-C ends a fit
    with the best solution so far and warns.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankSVM
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(60, 3)), np.repeat(np.arange(6), 10)
    >>> y = np.digitize(X @ [1, 2, 0] + rng.normal(size=60), [-1, 1, 3])
    >>> ranker = RankSVM(C=0.1, loss="hinge").fit(X, y, qid=qid)
    >>> ranker.solution_.gap < 1e-4
    True
    >>> bool(ranker.score(X, y, qid=qid) > 0.8)
    True

    Comparisons in place of scores, winner first:

    >>> RankSVM().fit(X, pairs=[[0, 1], [2, 1], [4, 3]]).predict(X).shape
    (60,)
    """

    kernel: Any
    kernel_: Kernel
    solution_: CertifiedSolution
    n_iter_: Counted

    def __init__(
        self,
        C: Annotated[float, Positive(), Advice(C_ADVICE)] = 1.0,
        *,
        loss: HingeLoss = "squared_hinge",
        kernel: KernelLike = "linear",
        cost: Annotated[HingeCost, Advice(RELATIVE_ADVICE)] = "unit",
        query_weight: QueryWeight = "pairs",
        basis: Annotated[int | ArrayLike | None, CheckedWith("X")] = None,
        tol: Tolerance = 1e-4,
        max_iter: Count = 1000,
        progress: bool | StepCallback = False,
        random_state: RandomSeed = None,
    ) -> None:
        self.C = C
        self.loss = loss
        self.kernel = kernel
        self.cost = cost
        self.query_weight = query_weight
        self.basis = basis
        self.tol = tol
        self.max_iter = max_iter
        self.progress = progress
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        pairs: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
        **others: Never,
    ) -> Self:
        """Learn from scores, optionally inside queries, or from comparisons.

        Parameters
        ----------
        X : (n_items, n_features), dense or sparse
            The items. A common offset makes no difference.
        y : (n_items,)
            Scores of the items, higher is better.
        qid : (n_items,), optional
            The query of each item, of any type and in any order; by default all items form one
            query.
        sample_weight : (n_items,), optional
            Weights of the items; the weight of a pair is the product of its two.
        pairs : (n_pairs, 2), optional
            Comparisons in place of `y`: row numbers, winner first. They may repeat and contradict
            each other. With `qid`, both items of a pair belong to one query.
        pair_margin : (n_pairs,), optional
            By how much each winner should lead, with ``cost="magnitude"``; 1 by default.
        pair_weight : (n_pairs,), optional
            How much each comparison counts; 1 by default.
        """
        refuse_other_arguments(others)
        given = checked(self)
        X, data = read_training(self, X, y, qid, sample_weight, pairs, pair_margin, pair_weight)
        problem = given._problem(X, data)
        return self._keep_solution(problem, given._solve(problem, given.C))

    def fit_path(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        Cs: Annotated[ArrayLike, ArrayOf(float), Positive(), Advice(C_ADVICE)],
        pairs: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
    ) -> RankerPath:
        """Learn for many C: features are mapped once, and each fit starts from the one before.

        Parameters
        ----------
        X, y, qid, sample_weight, pairs, pair_margin, pair_weight
            As in `fit`.
        Cs : (n_Cs,)
            The values of C, each above 0; ascending values take the fewest steps.

        Returns
        -------
        path : RankerPath
            A fitted ranker for each C. If Ctrl-C or a callback stops a fit, it is the last one.

        Examples
        --------
        >>> from rankwise import RankSVM
        >>> path = RankSVM().fit_path([[0.0], [1.0], [3.0]], [0, 1, 2], Cs=[0.01, 0.1])
        >>> [(ranker.C, ranker.coef_.round(2).tolist()) for ranker in path]
        [(0.01, [0.09]), (0.1, [0.32])]
        """
        given = checked(self)
        grid = np.ravel(check_call(RankSVM.fit_path, Cs=Cs)["Cs"]).tolist()
        if not grid:
            raise InvalidInputError("`Cs` must hold at least one value: got none.")
        X, data = read_training(self, X, y, qid, sample_weight, pairs, pair_margin, pair_weight)
        problem = given._problem(X, data)
        # each C starts from the solution of the one before
        rankers, start = [], None
        for C in grid:
            solution = given._solve(problem, C, start)
            rankers.append(self._at("C", C)._keep_solution(problem, solution))
            if solution.ending.was_stopped:
                break
            start = solution.point
        return RankerPath(rankers, "C")

    def _problem(self, X: Any, data: TrainingData) -> HingeProblem:
        """Return the pairs to learn from and the features to learn on."""
        pairs, n_ignored_queries = _pairs(data, self.cost, self.query_weight)
        kernel = self.kernel.fitted_to(X, data.sample_weight)
        space = explicit_space(X, kernel, self.basis, basis_generator(self))
        return HingeProblem(data, pairs, kernel, space, n_ignored_queries)

    def _solve(
        self, problem: HingeProblem, C: float, start: FloatArray | None = None
    ) -> CertifiedSolution:
        rule = StoppingRule(self.tol, self.max_iter)
        Z = problem.space.features()
        with steps_shown(self.progress, describe=_describe_step) as on_step:
            solution = minimize_hinge(Z, problem.pairs, self.loss, C, rule, start, on_step)
        solution.ending.warn()
        return solution

    def _keep_solution(self, problem: HingeProblem, solution: CertifiedSolution) -> Self:
        self.kernel_ = problem.kernel
        self.solution_, self.n_iter_ = solution, solution.n_iter
        space, weights = problem.space, solution.point.copy()
        return self._keep(
            space.predictor, space.fold(weights), problem.data, problem.n_ignored_queries
        )


@final
@dataclass(frozen=True, eq=False)
class HingeProblem:
    """What a fit learns from, whatever C: the data, their pairs, and the space of functions."""

    data: TrainingData
    pairs: PairSet
    kernel: Kernel
    space: FunctionSpace
    n_ignored_queries: int


def _pairs(data: TrainingData, cost: HingeCost, query_weight: QueryWeight) -> tuple[PairSet, int]:
    """Return the pairs to learn from, and the number of queries that hold none."""
    if not data.is_scored:
        graph = PreferenceGraph.of(data, cost=cost, query_weight=query_weight)
        return ExplicitPairs.of(data, cost, query_weight), graph.n_ignored_queries
    y = data.single_output("Fit one RankSVM per output.")
    graph = PreferenceGraph.of(data, cost=cost, query_weight=query_weight)
    grades = Grades.of(data.queries, y, data.weight, keep_ties=False)
    omega = grades.query_weights(query_weight)
    return GradedPairs.of(grades, omega, y, cost), graph.n_ignored_queries


def _describe_step(step: Step) -> str:
    return f"step {step.iteration}  objective {step.objective:.6g}  gap {step.error:.1e}"
