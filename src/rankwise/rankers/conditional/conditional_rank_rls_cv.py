"""ConditionalRankRLSCV: alpha chosen by what will be new, conditions, items or both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self, final, get_args

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray
from rankwise.core.checks import check_choice, check_count
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.features.kernels import Kernel
from rankwise.graph.preference_graph import Ties
from rankwise.measures.value import Measure
from rankwise.rankers.base import generator
from rankwise.rankers.conditional.closed_form import FullRelation, New, PairsOut, Relation
from rankwise.rankers.conditional.conditional_ranker import ConditionalRanker
from rankwise.selection.holdouts import Folds, HeldOut
from rankwise.selection.judging import as_measure, judge_scores
from rankwise.selection.path import ChoiceRule, SelectionPath, check_alphas

ALPHAS = tuple(2.0**k for k in range(-15, 16))


@final
class ConditionalRankRLSCV(ConditionalRanker):
    r"""Learn to rank items for each condition, with alpha chosen by exact hold-outs.

    A ranker of pairs may meet new conditions, new items, or both, and the best alpha differs. Every
    alpha is judged by the scores that retraining without what is new would give, in closed form:
    one eigendecomposition for all conditions, one more for each fold of items.

    Parameters
    ----------
    alphas : (n_alphas,)
        The values of alpha to choose from; by default the powers of 2 from 2**-15 to 2**15.
    new : {"conditions", "items", "both"}
        What will be new when the ranker is used. Conditions are left out one at a time and judged
        on all items; items in random folds, judged inside a fold; both together likewise. Objects
        of a symmetric or antisymmetric relation are left out in folds, as conditions and items at
        once, and judged on the side that is named here.
    cv : int
        Number of folds of items.
    measure : Measure or str, optional
        What decides; the share of pairs in the right order when left out.
    rule : {"best", "one_standard_error"}
        Take the best alpha, or the largest one within a standard error of it.
    condition_kernel, item_kernel, relation, ties, query_weight
        As in `ConditionalRankRLS`.
    cost : {"magnitude", "unit"}
        As in `ConditionalRankRLS`; the relative cost has no closed form.
    device : str, optional
        As in `ConditionalRankRLS`.
    random_state : int, RandomState or None
        Deals the items into folds.

    Attributes
    ----------
    alpha_ : float
        The chosen alpha.
    path_ : SelectionPath
        The held-out values for every alpha.
    held_out_value_ : float
        The held-out value of the chosen alpha.
    held_out_scores_ : (n_conditions, n_items)
        The held-out score of every cell for the chosen alpha, comparable inside a condition, and
        inside a fold where items are new. NaN where the relation leaves a cell unjudged.
    dual_coef_, condition_predictor_, item_predictor_, n_features_in_
        As in `ConditionalRankRLS`.

    Notes
    -----
    [APS10] Sect. 5; the hold-outs are derived in docs/theory/conditional.rst. They need a full
    matrix of scores.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import ConditionalRankRLSCV
    >>> rng = np.random.default_rng(0)
    >>> users, films = rng.normal(size=(30, 4)), rng.normal(size=(20, 4))
    >>> y = users @ films.T + 2.0 * rng.normal(size=(30, 20))
    >>> ranker = ConditionalRankRLSCV(new="both", random_state=0).fit(users, films, y)
    >>> ranker.alpha_, round(ranker.held_out_value_, 3)
    (32.0, 0.738)
    """

    path_: SelectionPath

    def __init__(
        self,
        alphas: ArrayLike = ALPHAS,
        *,
        new: New = "conditions",
        cv: int = 5,
        measure: Measure | str | None = None,
        rule: ChoiceRule = "best",
        condition_kernel: str | Kernel | Callable[[Any, Any], Any] = "linear",
        item_kernel: str | Kernel | Callable[[Any, Any], Any] = "linear",
        relation: Relation = "any",
        cost: Literal["magnitude", "unit"] = "magnitude",
        ties: Ties = "keep",
        query_weight: Literal["items", "pairs", "equal"] = "items",
        device: str | None = None,
        random_state: Any = None,
    ) -> None:
        self.alphas = alphas
        self.new = new
        self.cv = cv
        self.measure = measure
        self.rule = rule
        self.condition_kernel = condition_kernel
        self.item_kernel = item_kernel
        self.relation = relation
        self.cost = cost
        self.ties = ties
        self.query_weight = query_weight
        self.device = device
        self.random_state = random_state

    def fit(self, conditions: Any, items: Any = None, y: Any = None) -> Self:
        """Choose alpha, and learn from all scores with it.

        Parameters
        ----------
        conditions, items
            As in `ConditionalRankRLS.fit`.
        y : (n_conditions, n_items)
            Scores of all pairs, higher is better.
        """
        grid = check_alphas(self.alphas)
        check_choice("new", self.new, get_args(New))
        problem = self._problem(conditions, items, y)
        full = problem.full_relation(self.cost, self.ties, self.query_weight)
        if full is None:
            raise InvalidInputError(
                "Exact hold-outs need a score for every condition and item, cost='magnitude' or "
                "'unit', and rows without ties where ties='drop'. Use ties='keep', or choose alpha "
                "for ConditionalRankRLS on scores set aside."
            )
        folds = Folds.random(
            check_count("cv", self.cv), np.arange(full.Y.shape[1]), generator(self.random_state)
        )
        held_out = full.hold_out(self.new, folds.fold, grid)
        self.path_ = _judged(held_out, full, as_measure(self.measure), grid)
        chosen = self.path_.best(self.rule)
        self.alpha_ = float(grid[chosen])
        self.held_out_value_ = float(self.path_.values[chosen])
        self.held_out_scores_ = held_out.scores[chosen]
        return self._keep_full(full, self.alpha_)


def _judged(
    held_out: PairsOut, full: FullRelation, measure: Measure, grid: FloatArray
) -> SelectionPath:
    """Measure the held-out cells of each condition, and of each fold of items where there are."""
    judged = np.flatnonzero(np.isfinite(held_out.scores[0]).ravel())
    Y = full.Y.ravel()[:, None]
    scores = held_out.scores.reshape(len(grid), -1, 1)
    queries = Queries.of(held_out.group.ravel(), len(Y))
    return judge_scores(HeldOut(scores, held_out.error), Y, queries, judged, measure, grid)
