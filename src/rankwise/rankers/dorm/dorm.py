"""DORM: direct optimisation of ranking measures."""

from collections.abc import Callable
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.errors import NothingToLearnError
from rankwise.features.kernels import Kernel, as_kernel
from rankwise.measures.value import Measure
from rankwise.rankers.dorm.cutting_planes import Solution, solve
from rankwise.rankers.dorm.direct_ranker import DirectRanker, head_depth
from rankwise.rankers.dorm.ground import Base, lay_ground, same_ground
from rankwise.rankers.dorm.objective import CostFunction, Decay, as_aim
from rankwise.rankers.dorm.problem import Given, Task, Training
from rankwise.rankers.dorm.training import (
    CChoice,
    PassCallback,
    check_rule,
    passes_shown,
    settle_c,
    warn_if_idle,
    warn_unless_converged,
)
from rankwise.rankers.randomness import generator


@final
class DORM(DirectRanker):
    r"""Learn to rank by minimising a bound on a ranking measure: NDCG, precision, or one's own.

    Minimises, over linear functions or functions of a kernel,

    .. math:: \tfrac{1}{2} |f|^2 + C \sum_q \omega_q \max_\pi \bigl[ \Delta_q(\pi)
              + \sum_i (c_{\pi_i} - c_{\pi^*_i}) f_i \bigr]

    where :math:`\Delta_q(\pi)` is what a ranking loses against the best one, :math:`\pi^*`, and c
    falls from position to position. Every term is at least the loss of the ranking by f. The
    problem is convex, the maximum over all rankings is found exactly, and the solution comes with a
    proof of how far it can be from the optimum: ``solution_.gap``.

    Parameters
    ----------
    measure : Measure, str or function
        What to optimise: ``NDCG``, ``NDCG @ 10``, ``DCG``, ``Precision @ 5``, ``RR``, ``WTA``,
        ``ERU``, ``Utility`` with discounts of your own, or "mWTA", which stands in for WTA. Or a
        function that takes the grades of a query and returns the cost of each item (row) at each
        position (column).
    C : float or "scale"
        What multiplies the sum over queries. "scale" fits the scale of the features and the number
        of queries: ten times the value from which on the sum matters more than the norm.
    kernel : {"linear", "gaussian", "laplacian", "polynomial", "precomputed"}, kernel or function
        The space of ranking functions.
    decay : float, "log", "loglog" or array
        c: :math:`(i + 1)^{-d}` at position i for a number d, 1 / log(i + 2), 1 / log log(i + 2), or
        its values, the last of which goes on.
    basis : int, (n_basis,) of indices or (n_basis, n_features), optional
        Restrict the function to the span of the kernel functions of some rows: a number of random
        rows, chosen rows of X, or rows themselves.
    n_diverse : int, optional
        How many positions hold different sources if `fit` is given `sources`; the cut-off of the
        measure when left out.
    tol : float
        Converged when the duality gap is below this share of the objective.
    max_iter : int
        Number of passes over all queries at most.
    progress : bool or callable
        Show the passes and the gap; or call a function with each pass, which stops the fit by
        returning True.
    random_state : int, RandomState or None
        Draws the basis rows when `basis` is a number, and the order of the queries in a pass.

    Attributes
    ----------
    coef_ : (n_features,)
        Weights of the features, with the linear kernel and no basis.
    dual_coef_ : (n_rows,)
        Weights of the training rows, or of the basis rows, otherwise.
    solution_ : Solution
        Objective, lower bound, ``gap``, slack of each query, passes, seconds.
    C_ : float
        The C of this solution.
    improvement_ : float
        Which share of the objective at f = 0 (in `partial_fit`: at the weights before) learning has
        taken away. Close to 0 nothing was learned: the measure is too hard to bound, see Notes.
    n_iter_ : int
        Number of passes made.
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
    [LS08] eq. (27), solved by column generation over the queries with exact oracles for (24). The
    measure leaves the order of items with equal gains open, and the one that is aimed at decides
    what can be learned: it is that of a least-squares ranker. A cut-off makes the bound loose, so
    loose on noisy data that f = 0 minimises it; a model that is judged by NDCG @ 10 is often better
    trained for NDCG. Ctrl-C ends a fit with the best solution so far and warns.

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

    def __init__(
        self,
        measure: Measure | str | CostFunction = "NDCG",
        C: CChoice = "scale",
        *,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "linear",
        decay: Decay = 0.5,
        basis: int | ArrayLike | None = None,
        n_diverse: int | None = None,
        tol: float = 1e-3,
        max_iter: int = 1000,
        progress: bool | PassCallback = False,
        random_state: Any = None,
    ) -> None:
        self.measure = measure
        self.C = C
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
    ) -> Self:
        """Learn from the grades of items inside queries.

        Parameters
        ----------
        X : (n_items, n_features), dense or sparse
            The items. A feature that is constant inside each query makes no difference.
        y : (n_items,)
            Grades of the items, higher is better; what they gain is the measure's affair.
        qid : (n_items,), optional
            The query of each item, of any type and in any order; one query when left out.
        sample_weight : (n_items,), optional
            Weights; a query counts the mean weight of its items, and items of weight 0 are left
            out. Equal weights in a query are the same as repeating the query.
        sources : (n_items,) or (n_items, n_conditions), optional
            Learn for rankings with at most one item of a source among the first `n_diverse`, or
            under weighted conditions; see `predict_diverse`.
        preliminary : (n_items,), optional
            Preliminary scores, which order the items wherever the measure leaves their order open;
            those of a least-squares ranker when left out.
        """
        rng = generator(self.random_state)
        X = self._check_rows(X)
        given = Given.of(X.shape[0], y, qid, sample_weight, preliminary, sources)
        self.kernel_ = as_kernel(self.kernel).fitted_to(X)
        ground = lay_ground(X, self.kernel_, self.basis, rng)
        task = Task.of(self._training(sources), ground, given)
        solution = self._solve(task, settle_c(self.C, task), rng)
        self._keep(task, solution, with_qid=qid is not None)
        warn_if_idle(self.improvement_, self.measure)
        return self

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        r"""Go on learning from further queries, staying close to what was learned before.

        Minimises :math:`\tfrac{1}{2} |w - w_0|^2` plus C times the sum over the new queries, with
        :math:`w_0` the weights so far. The first call is a `fit`, and settles C. Queries must
        come whole; what they look like before does not matter afterwards, so that data of any size
        can be learned from in parts.

        Parameters
        ----------
        X, y, qid, sample_weight
            As in `fit`. Queries without a preference change nothing.

        Notes
        -----
        [LS08] Sect. 7. With a `basis` its rows are those of the first call; a kernel without one
        has a weight for each item of every call, so that the model grows.

        Examples
        --------
        >>> from rankwise import DORM
        >>> ranker = DORM(C=1.0).fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
        >>> ranker.partial_fit([[0.0, 0.0], [1.0, 2.0]], [0, 1]).coef_.round(2)
        array([0.26, 0.13])
        """
        previous = vars(self).get("solution_")
        if previous is None:
            return self.fit(X, y, qid, sample_weight)
        X = self._check_rows(X, reset=False)
        earlier = self._scores(X)
        base = Base(self.predictor_, self._weights, np.array(previous.point), earlier)
        given = Given.of(X.shape[0], y, qid, sample_weight, preliminary=earlier)
        ground = same_ground(X, self.predictor_, has_basis=self.basis is not None)
        try:
            task = Task.of(self._training(), ground, given)
        except NothingToLearnError:
            return self
        solution = self._solve(task, self.C_, generator(self.random_state), base)
        return self._keep(task, solution, base, with_qid=qid is not None)

    def _training(self, sources: ArrayLike | None = None) -> Training:
        depth = None if sources is None else head_depth(self.n_diverse, as_aim(self.measure))
        return Training(self.measure, self.decay, depth)

    def _solve(
        self, task: Task, C: float, rng: np.random.Generator, base: Base | None = None
    ) -> Solution:
        rule = check_rule(self.tol, self.max_iter)
        with passes_shown(self.progress, "DORM") as on_pass:
            solution = solve(task.space(base), task.loss, C, rule, on_pass, rng)
        warn_unless_converged(solution, rule, stacklevel=4)
        return solution
