"""RankSVM: large-margin ranking of pairs."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeAlias, final, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.checks import (
    check_choice,
    check_pairs,
    check_positive,
    check_scores,
    check_weight,
)
from rankwise.core.errors import ConvergenceWarning, InvalidInputError
from rankwise.features.kernels import Kernel, Precomputed, as_kernel
from rankwise.features.maps import Expansion, FeatureMap
from rankwise.graph.preference_graph import PreferenceGraph, weighted_grades
from rankwise.graph.query_weights import QueryWeight
from rankwise.rankers.base import PointRanker
from rankwise.rankers.linear.settings import check_count
from rankwise.rankers.preferences import Given
from rankwise.rankers.randomness import generator
from rankwise.rankers.svm.losses import HingeLoss
from rankwise.rankers.svm.newton import HingeSolution, Rule, Step, solve
from rankwise.rankers.svm.pair_sums import HingeCost, LevelPairs, ListedPairs, PairSet
from rankwise.selection.spaces import FeatureSpace, explicit_space
from rankwise.solve.progress import steps_shown

StepCallback: TypeAlias = Callable[[Step], object]


@final
@dataclass(frozen=True, eq=False)
class Oriented:
    """The preferences given to ``fit``: their graph, and the pairs with winner and margin."""

    graph: PreferenceGraph
    pairs: PairSet

    @classmethod
    def of(cls, given: Given, n_items: int, cost: HingeCost, query_weight: QueryWeight) -> Self:
        """Check what was given and build both."""
        check_choice("cost", cost, get_args(HingeCost))
        if given.y is None:
            graph = PreferenceGraph.from_pairs(
                given.pairs, given.pair_margin, given.pair_weight, n_items
            )
            return cls(graph, _listed(given, n_items))
        y = check_scores(given.y)
        if y.ndim != 1:
            raise InvalidInputError(
                f"`y` must have shape (n_items,): got {y.shape}. Fit one RankSVM per output."
            )
        options: dict[str, Any] = {"cost": cost, "ties": "drop", "query_weight": query_weight}
        graph = given.preferences(n_items, **options).first
        levels, omega = weighted_grades(
            y, given.qid, query_weight, given.sample_weight, keep_ties=False
        )
        return cls(graph, LevelPairs.of(levels, omega, y, cost))


def _listed(given: Given, n_items: int) -> ListedPairs:
    pairs = check_pairs(given.pairs, n_items)
    weight = check_weight("pair_weight", given.pair_weight, len(pairs), "pair")
    one = np.ones(len(pairs))
    margin = one if given.pair_margin is None else np.asarray(given.pair_margin, dtype=float)
    return ListedPairs.of(pairs, margin, weight, n_items)


def check_rule(tol: object, max_iter: object) -> Rule:
    """Return when to stop."""
    share = check_positive("tol", tol, "It is the duality gap, as a share of the objective.")
    return Rule(share, check_count("max_iter", max_iter))


def describe(step: Step) -> str:
    """Return the number of the step, the objective and the gap in words."""
    return f"step {step.iteration}  objective {step.objective:.6g}  gap {step.gap:.1e}"


def warn_unless_converged(solution: HingeSolution, rule: Rule) -> None:
    """Say why a run ended before its gap was small enough."""
    if solution.ending in ("converged", "callback"):
        return
    reached = f"the relative gap is {solution.gap:.1e}, tol is {rule.tol:.1e}"
    reasons = {
        "interrupted": f"Stopped by Ctrl-C after {solution.n_iter} steps; the best so far is kept: "
        f"{reached}.",
        "max_iter": f"Not converged after max_iter={rule.max_iter} steps: {reached}. Raise "
        "max_iter or tol, lower C, or scale the features.",
        "precision": f"Not converged: rounding errors end the descent after {solution.n_iter} "
        f"steps; {reached}. Raise tol, lower C, or scale the features.",
    }
    warnings.warn(reasons[solution.ending], ConvergenceWarning, stacklevel=4)


REMEDY = "Choose a positive value; small values regularise much."


@final
class RankSVM(PointRanker):
    r"""Learn to rank with a margin: the support vector machine on differences of items.

    Minimises, over linear functions or functions of a kernel,

    .. math:: \tfrac{1}{2} |f|^2 + C \sum_q \omega_q \sum_{(i,j) \in q} s_i s_j\,
              \ell\bigl(m_{ij} - (f_i - f_j)\bigr), \qquad
              \ell(t) = \max(0, t) \text{ or } \max(0, t)^2

    over the pairs of a query in which i has the higher score. It is the problem of scikit-learn's
    ``LinearSVC(C, fit_intercept=False)`` on the differences of all pairs, without writing them
    out: a step takes O(n log n) in the number of items, or O(pairs) with comparisons. The solution
    comes with a proof of how far it can be from the optimum: ``solution_.gap``.

    Parameters
    ----------
    C : float
        What multiplies the sum over pairs; nothing is divided by their number.
    loss : {"squared_hinge", "hinge"}
        What a violated pair costs: the square of its slack, which is faster to learn and the
        default of ``LinearSVC``, or the slack, which the first ranking SVMs used.
    kernel : {"linear", "gaussian", "laplacian", "polynomial", "precomputed"}, kernel or function
        The space of ranking functions.
    cost : {"unit", "magnitude"}
        The margin m of a pair: 1, or y_i - y_j.
    query_weight : {"pairs", "items", "equal"}, mapping or (n_queries,)
        :math:`\omega_q`: 1, 1 / n_q, 1 / number of pairs of q, or given. With "equal" the sum is
        that of the mean losses of the queries.
    basis : int, (n_basis,) of indices or (n_basis, n_features), optional
        Restrict the function to the span of the kernel functions of some rows: a number of random
        rows, chosen rows of X, or rows themselves.
    tol : float
        Converged when the duality gap is below this share of the objective.
    max_iter : int
        Number of Newton steps at most.
    progress : bool or callable
        Show the steps and the gap; or call a function with each step, which stops the fit by
        returning True.
    random_state : int, RandomState or None
        Draws the basis rows when `basis` is a number.

    Attributes
    ----------
    coef_ : (n_features,)
        Weights of the features, with the linear kernel and no basis.
    dual_coef_ : (n_rows,)
        Weights of the training rows, or of the basis rows, otherwise.
    solution_ : HingeSolution
        Objective, lower bound, ``gap``, number of steps and why they ended.
    n_iter_ : int
        Number of steps made.
    kernel_ : Kernel
        The kernel with all its parameters.
    n_queries_ : int
        Number of queries in the training data.
    ignored_queries_ : int
        How many of them held no preference.
    fitted_with_qid_ : bool
        Whether `fit` was given `qid`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : (n_features,)
        Their names, where X had names.

    Notes
    -----
    The baseline of [PTAB07] and [PTA09]. Kernels go through the empirical kernel map of [PTA09]
    Sect. 4.2, O(n^3), a basis through that of Sect. 4.4, O(n r^2) with r basis rows. The hinge is
    rounded off and sharpened step by step, so that both losses are solved by Newton's method; the
    certificate is for the loss as it stands (docs/theory/ranksvm.rst). Pairs of equal score have no
    winner and are left out. For another target or weight of pairs give them as `pairs`. Ctrl-C ends
    a fit with the best solution so far and warns.

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

    predictor_: FeatureMap

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: HingeLoss = "squared_hinge",
        kernel: str | Kernel | Callable[[Any, Any], Any] = "linear",
        cost: HingeCost = "unit",
        query_weight: QueryWeight = "pairs",
        basis: int | ArrayLike | None = None,
        tol: float = 1e-4,
        max_iter: int = 200,
        progress: bool | StepCallback = False,
        random_state: Any = None,
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
        tags.input_tags.pairwise = self.kernel in ("precomputed", Precomputed())
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
    ) -> Self:
        """Learn from scores, optionally inside queries, or from comparisons.

        Parameters
        ----------
        X : (n_items, n_features), dense or sparse
            The items. A common offset makes no difference.
        y : (n_items,)
            Scores of the items, higher is better.
        qid : (n_items,), optional
            The query of each item, of any type and in any order; one query when left out.
        sample_weight : (n_items,), optional
            Weights of the items; a pair counts the product of its ends' weights.
        pairs : (n_pairs, 2), optional
            Comparisons in place of `y`: row numbers, winner first, repeated and contradicting
            ones welcome.
        pair_margin : (n_pairs,), optional
            By how much each winner should lead; 1 when left out.
        pair_weight : (n_pairs,), optional
            How much each comparison counts; 1 when left out.
        """
        C = check_positive("C", self.C, REMEDY)
        given = Given(y, qid, sample_weight, pairs, pair_margin, pair_weight)
        space, oriented = self._prepare(X, given)
        solution = self._solve(space, oriented, C)
        return self._keep(space, oriented, solution, with_qid=qid is not None)

    def fit_path(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        Cs: ArrayLike,
        pairs: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
    ) -> list[Self]:
        """Learn for many C: features are mapped once, and each fit starts from the one before.

        Parameters
        ----------
        X, y, qid, sample_weight, pairs, pair_margin, pair_weight
            As in `fit`.
        Cs : (n_Cs,)
            The values of C, each above 0; rising ones take the fewest steps.

        Returns
        -------
        rankers : list of RankSVM
            A fitted ranker for each C; Ctrl-C ends the list with the one in work.

        Examples
        --------
        >>> from rankwise import RankSVM
        >>> path = RankSVM().fit_path([[0.0], [1.0], [3.0]], [0, 1, 2], Cs=[0.01, 0.1])
        >>> [(ranker.C, ranker.coef_.round(2).tolist()) for ranker in path]
        [(0.01, [0.09]), (0.1, [0.32])]
        """
        grid = np.ravel(np.asarray(Cs)).tolist()
        if not grid:
            raise InvalidInputError("`Cs` must hold at least one value: got none.")
        grid = [check_positive("Cs", C, REMEDY) for C in grid]
        given = Given(y, qid, sample_weight, pairs, pair_margin, pair_weight)
        space, oriented = self._prepare(X, given)
        rankers, start = [], None
        for C in grid:
            solution = self._solve(space, oriented, C, start)
            ranker = self._at(C)._keep(space, oriented, solution, with_qid=qid is not None)
            rankers.append(ranker)
            if solution.ending in ("callback", "interrupted"):
                break
            start = solution.point
        return rankers

    def _prepare(self, X: Any, given: Given) -> tuple[FeatureSpace, Oriented]:
        """Return the features to learn on and the preferences to learn from."""
        check_choice("loss", self.loss, get_args(HingeLoss))
        types = [np.float64, np.float32]
        X = validate_data(
            self, X, accept_sparse="csr", dtype=types, order="C", ensure_min_samples=2
        )
        oriented = Oriented.of(given, X.shape[0], self.cost, self.query_weight)
        self.kernel_ = as_kernel(self.kernel).fitted_to(X)
        rng = generator(self.random_state)
        return explicit_space(X, self.kernel_, self.basis, rng), oriented

    def _solve(
        self, space: FeatureSpace, oriented: Oriented, C: float, start: FloatArray | None = None
    ) -> HingeSolution:
        rule = check_rule(self.tol, self.max_iter)
        with steps_shown(self.progress, lambda s: {"description": describe(s)}) as on_step:
            solution = solve(space.Z, oriented.pairs, self.loss, C, rule, start, on_step)
        warn_unless_converged(solution, rule)
        return solution

    def _at(self, C: float) -> Self:
        """Return an unfitted copy for another C that knows the features and the kernel."""
        other = clone(self).set_params(C=C)
        for name in ("kernel_", "n_features_in_", "feature_names_in_"):
            if name in vars(self):
                setattr(other, name, vars(self)[name])
        return other

    def _keep(
        self, space: FeatureSpace, oriented: Oriented, solution: HingeSolution, *, with_qid: bool
    ) -> Self:
        """Store the solution: `coef_` or `dual_coef_`, whichever this problem has."""
        weights = space.fold(solution.point)
        self.predictor_ = space.predictor
        if isinstance(space.predictor, Expansion):
            self.dual_coef_ = weights
        else:
            self.coef_ = np.array(weights)
        self.solution_, self.n_iter_ = solution, solution.n_iter
        self.n_queries_ = oriented.graph.queries.n_queries
        self.ignored_queries_ = oriented.graph.n_ignored_queries
        self.fitted_with_qid_ = with_qid
        return self

    def _scores(self, X: Matrix) -> FloatArray:
        weights = self.dual_coef_ if isinstance(self.predictor_, Expansion) else self.coef_
        return self.predictor_.product(X, weights)
