"""ConditionalRankRLS: rank items for each condition, from features of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self, final

from numpy.typing import ArrayLike

from rankwise.core.checks import check_positive
from rankwise.features.kernels import Kernel
from rankwise.graph.preference_graph import Cost, Ties
from rankwise.rankers.closed_form import ALPHA_REMEDY
from rankwise.rankers.conditional.closed_form import Relation
from rankwise.rankers.conditional.conditional_ranker import ConditionalRanker
from rankwise.solve.kernel_iteration import ConjugateGradients, as_conjugate_gradients


@final
class ConditionalRankRLS(ConditionalRanker):
    r"""Learn to rank items for each condition by least squares on pairs of objects.

    A condition is a first object (a user, a drug, a player), an item a second one (a document, a
    target, an opponent); both have features. The kernel of two pairs is the product of a kernel of
    conditions and one of items, so that the scores are

    .. math:: f(u, v) = \sum_{ij} A_{ij} \, k(u, u_i) \, g(v_j, v)

    and the objective is that of `RankRLS` with a query for each condition. The model ranks known
    or new items for known or new conditions. Neither the kernel matrix of pairs nor their list is
    ever formed. Cost with n conditions and q items: O(n^3 + q^3) for a full matrix of scores, in
    closed form; O(n q (n + q)) a step of conjugate gradients otherwise.

    Parameters
    ----------
    alpha : float
        What multiplies :math:`|f|^2`, as in `RankRLS`.
    condition_kernel, item_kernel : {"linear", "gaussian", ..., "precomputed"}, kernel or function
        The similarity of conditions, and of items. Linear kernels have no intercept: with one of
        conditions, nothing is learned that all conditions share; `Polynomial` of degree 1 adds it.
    relation : {"any", "symmetric", "antisymmetric"}
        Between objects of one kind, a score may be the same in both directions, or change its sign:
        who beats whom, intransitive cycles included. `item_kernel` is then not used.
    cost : {"magnitude", "unit", "relative"}
        As in `RankRLS`.
    ties : {"keep", "drop"}
        As in `RankRLS`, but kept unless wanted otherwise: rows with dropped ties have no closed
        form. Costs other than "magnitude" need "drop".
    query_weight : {"items", "pairs", "equal"}
        The weight of a condition, as in `RankRLS`.
    solver : {"auto", "iterations"} or ConjugateGradients
        "auto" takes the closed form where there is one, and conjugate gradients otherwise. Their
        preconditioner knows 200 eigenfunctions of the kernel unless `n_basis` says otherwise.
    device : str, optional
        Where kernels are decomposed and multiplied: a device of PyTorch such as "cuda", in double
        precision; the extra "gpu". Conjugate gradients make their products there.

    Attributes
    ----------
    dual_coef_ : (n_conditions, n_items)
        A.
    condition_predictor_, item_predictor_ : Expansion
        The kernels with the objects learned from.
    n_features_in_ : int
        Number of features of a condition.

    Notes
    -----
    The kernels on pairs that [APS10] Sect. 5 asks for; the closed forms are derived in
    docs/theory/conditional.rst. As a pair of tables is no matrix of features, this is not one of
    the rankers of (X, y, qid), and scikit-learn's own checks of fits do not apply; parameters,
    cloning and fitted state follow its conventions.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import ConditionalRankRLS
    >>> rng = np.random.default_rng(0)
    >>> users, films = rng.normal(size=(20, 3)), rng.normal(size=(15, 3))
    >>> y = users @ films.T
    >>> ranker = ConditionalRankRLS(0.1).fit(users, films, y)
    >>> new_users, new_films = rng.normal(size=(4, 3)), rng.normal(size=(6, 3))
    >>> ranker.predict(new_users, new_films).shape, ranker.rank(new_users, k=2).shape
    ((4, 6), (4, 2))
    >>> ranker.score(new_users, new_films, new_users @ new_films.T)
    1.0

    Most scores unknown, or comparisons (condition, winner, loser):

    >>> some = np.where(rng.random(y.shape) < 0.3, y, np.nan)
    >>> ConditionalRankRLS(0.1).fit(users, films, some).score(users, films, y) > 0.95
    True
    >>> comparisons = [[0, 1, 2], [0, 3, 1], [5, 2, 3]]
    >>> ConditionalRankRLS().fit(users, films, comparisons=comparisons).dual_coef_.shape
    (20, 15)
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        condition_kernel: str | Kernel | Callable[[Any, Any], Any] = "linear",
        item_kernel: str | Kernel | Callable[[Any, Any], Any] = "linear",
        relation: Relation = "any",
        cost: Cost = "magnitude",
        ties: Ties = "keep",
        query_weight: Literal["items", "pairs", "equal"] = "items",
        solver: Literal["auto", "iterations"] | ConjugateGradients = "auto",
        device: str | None = None,
    ) -> None:
        self.alpha = alpha
        self.condition_kernel = condition_kernel
        self.item_kernel = item_kernel
        self.relation = relation
        self.cost = cost
        self.ties = ties
        self.query_weight = query_weight
        self.solver = solver
        self.device = device

    def fit(
        self,
        conditions: Any,
        items: Any = None,
        y: Any = None,
        *,
        comparisons: ArrayLike | None = None,
        pair_margin: ArrayLike | None = None,
        pair_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from a full or partial matrix of scores, or from comparisons.

        Parameters
        ----------
        conditions : (n_conditions, n_features), dense or sparse
            The first objects; with a precomputed kernel, their kernel matrix.
        items : (n_items, n_item_features), dense or sparse, optional
            The second objects; the first ones when left out.
        y : (n_conditions, n_items), dense or sparse
            Scores, higher is better; NaN, or what a sparse matrix does not store, is not known.
        comparisons : (n_pairs, 3), optional
            In place of `y`: numbers of a condition, the item that wins and the one that loses.
        pair_margin, pair_weight : (n_pairs,), optional
            By how much each winner leads, and how much each comparison counts; 1 when left out.
        """
        alpha = check_positive("alpha", self.alpha, ALPHA_REMEDY)
        settings = as_conjugate_gradients(self.solver, ("auto", "iterations"))
        problem = self._problem(conditions, items, y, comparisons, pair_margin, pair_weight)
        if self.solver == "auto":
            full = problem.full_relation(self.cost, self.ties, self.query_weight)
            if full is not None:
                return self._keep_full(full, alpha)
        return self._keep_iterated(problem, settings, alpha)
