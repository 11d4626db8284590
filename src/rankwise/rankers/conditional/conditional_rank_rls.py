"""ConditionalRankRLS: rank items for each condition from features of both; alpha may be chosen."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Count, Positive, RandomSeed, checked
from rankwise.core.queries import Queries
from rankwise.features.kernels import KernelLike
from rankwise.graph.preference_graph import Cost, Ties
from rankwise.measures.registry import MeasureLike
from rankwise.measures.value import Measure
from rankwise.rankers.base import generator
from rankwise.rankers.closed_form import Alpha
from rankwise.rankers.conditional.closed_form import FullRelation, New, PairsOut, Relation
from rankwise.rankers.conditional.conditional_ranker import ConditionalRanker, RelationProblem
from rankwise.selection.holdouts import Folds, HeldOut
from rankwise.selection.path import (
    Alphas,
    ChoiceRule,
    SelectionPath,
    as_measure,
    is_better,
    judge_comparisons,
    judge_scores,
    refuse_listwise,
)
from rankwise.solve.iteration import StoppingRule
from rankwise.solve.kernel_iteration import ConjugateGradients

ALPHAS = tuple(2.0**k for k in range(-15, 16))

HOLD_OUTS = StoppingRule(tol=1e-5, max_iter=500)
"""When refits of folds stop: an order of items needs no more digits."""


@final
class ConditionalRankRLS(ConditionalRanker):
    r"""Learn to rank items for each condition by least squares on pairs of objects.

    A condition is a first object (a user, a drug, a player), an item a second one (a document, a
    target, an opponent); both have features. The kernel of two pairs is the product of a kernel of
    conditions and one of items, so that the scores are

    .. math:: f(u, v) = \sum_{ij} A_{ij} \, k(u, u_i) \, g(v_j, v)

    and the objective is that of `RankRLS` with a query for each condition. The model ranks known
    or new items for known or new conditions. Neither the kernel matrix of pairs nor their list is
    ever formed. With n conditions and q items, a full matrix of scores costs O(n^3 + q^3) in
    closed form; otherwise a step of conjugate gradients costs O(n q (n + q)).

    Parameters
    ----------
    alpha : float
        Regularisation: the factor of :math:`|f|^2`, as in `RankRLS`.
    condition_kernel, item_kernel : {"linear", "gaussian", ..., "precomputed"}, kernel or function
        The similarity of conditions, and of items. Linear kernels have no intercept: with a linear
        kernel of conditions, nothing is learned that all conditions share; `Polynomial` of degree 1
        adds this part.
    item_alpha : float, optional
        Learn in two steps, for a full matrix: `RankRLS` on the items of every condition, with
        this regularisation, and then kernel ridge regression of these functions on the conditions,
        with `alpha`. Where the two sides are told apart by different amounts of data, two
        parameters do better than one.
    relation : {"any", "symmetric", "antisymmetric"}
        Between objects of one kind, a score may be the same in both directions, or change its sign,
        as in who beats whom, including cycles. `item_kernel` is then not used.
    cost : {"magnitude", "unit", "relative"}
        As in `RankRLS`.
    ties : {"keep", "drop"}
        As in `RankRLS`, but kept by default: rows with dropped ties have no closed form. Costs
        other than "magnitude" need "drop".
    query_weight : {"items", "pairs", "equal"}
        The weight of a condition, as in `RankRLS`.
    solver : {"auto", "iterations"} or ConjugateGradients
        "auto" uses the closed form if there is one, and conjugate gradients otherwise. Their
        preconditioner uses 200 eigenfunctions of the kernel, or `n_basis`.
    device : str, optional
        Where kernels are decomposed and multiplied, also in conjugate gradients: a device of
        PyTorch such as "cuda", in double precision. Needs the extra "gpu".

    Attributes
    ----------
    dual_coef_ : (n_conditions, n_items)
        The weights A.
    condition_predictor_, item_predictor_ : Expansion
        The kernels with the training objects.
    condition_encoder_, item_encoder_ : IndicatorEncoder or None
        What makes numbers of text and blanks, where there are any.
    n_features_in_ : int
        Number of features of a condition, as numbers.

    Notes
    -----
    [APS10] Sect. 5 proposes kernels on pairs; the closed forms are derived in
    docs/theory/conditional.rst. Since two tables are not one matrix of features, this is not a
    ranker of (X, y, qid), and scikit-learn's checks of `fit` do not apply; parameters, cloning and
    fitted state follow its conventions.

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
        alpha: Alpha = 1.0,
        *,
        item_alpha: Annotated[float, Positive()] | None = None,
        condition_kernel: KernelLike = "linear",
        item_kernel: KernelLike = "linear",
        relation: Relation = "any",
        cost: Cost = "magnitude",
        ties: Ties = "keep",
        query_weight: Literal["items", "pairs", "equal"] = "items",
        solver: Literal["auto", "iterations"] | ConjugateGradients = "auto",
        device: str | None = None,
    ) -> None:
        self.alpha = alpha
        self.item_alpha = item_alpha
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
            The first objects; with a precomputed kernel, their kernel matrix. Dense tables may hold
            text and blanks, which an `IndicatorEncoder` turns into numbers, here and in `predict`.
        items : (n_items, n_item_features), dense or sparse, optional
            The second objects; by default the first ones.
        y : (n_conditions, n_items), dense or sparse
            Scores, higher is better; NaN, or an entry that a sparse matrix does not store, is
            missing.
        comparisons : (n_pairs, 3), optional
            In place of `y`: numbers of a condition, the winning item and the losing item.
        pair_margin, pair_weight : (n_pairs,), optional
            By how much each winner leads, and how much each comparison counts; 1 by default.
        """
        given = checked(self)
        problem = self._problem(given, conditions, items, y, comparisons, pair_margin, pair_weight)
        if given.solver == "auto" or given.item_alpha is not None:
            full = problem.full_relation(given.cost, given.ties, given.query_weight)
            if given.item_alpha is not None:
                full = self._in_two_steps(full, given.item_alpha)
            if full is not None:
                return self._keep_full(full, given.alpha)
        settings = given.solver if isinstance(given.solver, ConjugateGradients) else None
        return self._keep_iterated(problem, settings or ConjugateGradients(), given.alpha)


@final
class ConditionalRankRLSCV(ConditionalRanker):
    r"""Learn to rank items for each condition, with alpha chosen by exact hold-outs.

    A ranker of pairs may meet new conditions, new items, or both, and the best alpha differs. Every
    alpha is judged by the scores of a model trained without what will be new. For a full matrix
    they have a closed form: one eigendecomposition for all conditions, and one more for each fold
    of items. If scores are missing, ties are dropped or the cost is relative, every fold is
    refitted by conjugate gradients, all alphas in one Krylov space; an alpha so small that its
    residual stays above a thousandth of the targets is not judged.

    Parameters
    ----------
    alphas : (n_alphas,)
        The values of alpha to choose from; by default the powers of 2 from 2**-15 to 2**15.
    item_alphas : (n_item_alphas,), optional
        Learn in two steps, as `ConditionalRankRLS` does with `item_alpha`, and choose that one too.
    new : {"conditions", "items", "both", "cells"}
        What will be new when the ranker is used; "cells" if objects of both sides are known and
        only their pair is new. Conditions are left out one at a time and judged on all items. Items
        are left out in random folds and judged inside a fold; with "both", conditions are left out
        one at a time inside each fold of items. Cells are left out in folds of the items of one
        condition at a time. Objects of a symmetric or antisymmetric relation are left out in folds,
        as conditions and items at once, and judged on the side that is named here. If folds are
        refitted, conditions are left out in folds too; with "both", a fold of conditions is left
        out together with a fold of items; of cells, one part in `cv` of every condition and every
        item, as also for the query weights "pairs" and "equal".
    cv : int
        Number of folds.
    measure : Measure or str, optional
        The measure that decides; by default the share of pairs in the right order.
    rule : {"best", "one_standard_error"}
        Take the best alpha, or the largest one within a standard error of it.
    condition_kernel, item_kernel, relation, cost, ties, query_weight, device
        As in `ConditionalRankRLS`.
    solver : ConjugateGradients, optional
        How folds, and the final model, are fitted if there is no closed form. By default folds are
        fitted to a residual of 1e-5 in at most 500 iterations, the final model to 1e-10.
    random_state : int, RandomState or None
        Assigns the items to folds.

    Attributes
    ----------
    alpha_ : float
        The chosen alpha.
    item_alpha_ : float or None
        The chosen alpha of the items, in two steps.
    path_ : SelectionPath
        The held-out values for every alpha, with that one.
    held_out_value_ : float
        The held-out value of the chosen alpha.
    held_out_scores_ : (n_conditions, n_items)
        The held-out score of every cell for the chosen alpha, comparable within a condition and, if
        items are new, within a fold. NaN if a score is missing or a cell is not judged.
    dual_coef_, condition_predictor_, item_predictor_, condition_encoder_, item_encoder_
        As in `ConditionalRankRLS`.

    Notes
    -----
    [APS10] Sect. 5; the closed forms of a full matrix are derived in docs/theory/conditional.rst.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import ConditionalRankRLSCV
    >>> rng = np.random.default_rng(0)
    >>> users, films = rng.normal(size=(30, 4)), rng.normal(size=(20, 4))
    >>> y = users @ films.T + 2.0 * rng.normal(size=(30, 20))
    >>> ranker = ConditionalRankRLSCV(new="both", random_state=0).fit(users, films, y)
    >>> ranker.alpha_, round(ranker.held_out_value_, 3)
    (64.0, 0.738)

    Most scores unknown:

    >>> some = np.where(rng.random(y.shape) < 0.4, y, np.nan)
    >>> partial = ConditionalRankRLSCV([1.0, 8.0, 64.0], random_state=0).fit(users, films, some)
    >>> partial.alpha_, partial.path_.values.round(2).tolist()
    (64.0, [0.69, 0.69, 0.7])
    """

    path_: SelectionPath
    alpha_: float
    item_alpha_: float | None
    held_out_value_: float
    held_out_scores_: FloatArray

    def __init__(
        self,
        alphas: Alphas = ALPHAS,
        *,
        item_alphas: Alphas | None = None,
        new: New = "conditions",
        cv: Count = 5,
        measure: MeasureLike | None = None,
        rule: ChoiceRule = "best",
        condition_kernel: KernelLike = "linear",
        item_kernel: KernelLike = "linear",
        relation: Relation = "any",
        cost: Cost = "magnitude",
        ties: Ties = "keep",
        query_weight: Literal["items", "pairs", "equal"] = "items",
        solver: ConjugateGradients | None = None,
        device: str | None = None,
        random_state: RandomSeed = None,
    ) -> None:
        self.alphas = alphas
        self.item_alphas = item_alphas
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
        self.solver = solver
        self.device = device
        self.random_state = random_state

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
        """Choose alpha, and learn from all scores or comparisons with it.

        Parameters
        ----------
        conditions, items
            As in `ConditionalRankRLS.fit`.
        y : (n_conditions, n_items), dense or sparse
            Scores, higher is better; NaN, or an entry that a sparse matrix does not store, is
            missing.
        comparisons, pair_margin, pair_weight
            As in `ConditionalRankRLS.fit`. A comparison is judged if both of its items are left
            out together.
        """
        given = checked(self)
        grid = given.alphas
        problem = self._problem(given, conditions, items, y, comparisons, pair_margin, pair_weight)
        # held-out scores for every alpha: closed forms for a full matrix, otherwise refits
        full = problem.full_relation(given.cost, given.ties, given.query_weight)
        rng, n_folds = generator(given.random_state), given.cv
        item_fold = Folds.random(n_folds, np.arange(problem.cells.shape[1]), rng).fold
        if given.item_alphas is None and (full is None or not full.leaves_out(given.new)):
            n_conditions = problem.cells.shape[0]
            fold = Folds.random(n_folds, np.arange(n_conditions), rng).fold
            folds = (item_fold if problem.kernels.sign else fold), item_fold
            tried = [(full, self._refitted(problem, folds, grid))]
        else:
            forms = self._forms(full, given.new, given.item_alphas)
            tried = [(form, form.hold_out(given.new, item_fold, grid)) for form in forms]
        # measure them, and choose alpha, in two steps that of the items too
        judged = [held_out.tied() for _, held_out in tried]
        paths = [_judged(one, problem, as_measure(given.measure), grid) for one in judged]
        chosen = [path.best(self.rule) for path in paths]
        goodness = [path.goodness(at) for path, at in zip(paths, chosen, strict=True)]
        step = 0
        for k, value in enumerate(goodness):
            step = k if is_better(value, goodness[step]) else step
        best, at = tried[step][0], chosen[step]
        self.path_, self.alpha_ = paths[step], float(grid[at])
        self.item_alpha_ = None if best is None else best.item_alpha
        self.held_out_value_ = float(self.path_.values[at])
        self.held_out_scores_ = judged[step].scores[at]
        # fit all data with the chosen alpha
        if best is not None:
            return self._keep_full(best, self.alpha_)
        return self._keep_iterated(problem, self.solver or ConjugateGradients(), self.alpha_)

    def _forms(
        self, full: FullRelation | None, new: New, item_alphas: FloatArray | None
    ) -> list[FullRelation]:
        """Return the closed form, or those of two steps with every alpha of the items."""
        if item_alphas is None:
            assert full is not None
            return [full]
        if new == "cells":
            raise InvalidInputError(
                "`new` must be 'conditions', 'items' or 'both' with `item_alphas`: two steps "
                "learn from full rows, got 'cells'. Leave `item_alphas` out."
            )
        return [self._in_two_steps(full, float(beta)) for beta in item_alphas]

    def _refitted(
        self, problem: RelationProblem, folds: tuple[IntArray, IntArray], alphas: FloatArray
    ) -> PairsOut:
        """Return the scores of the known cells of each fold by fits to the others."""
        cells, rule = problem.cells, HOLD_OUTS if self.solver is None else self.solver.rule
        scores, error = np.full((len(alphas), *cells.shape), np.nan), np.zeros(len(alphas))
        row_fold, column_fold = folds[0][cells.row], folds[1][cells.column]
        if self.new == "cells":  # a part of every condition and of every item
            row_fold = column_fold = (row_fold + column_fold) % (1 + int(folds[1].max()))
        # fit the kept cells for all alphas at once, and score the cells of the fold
        for number in range(1 + max(int(fold.max()) for fold in folds)):
            kept, out = _split_cells(
                self.new,
                row_fold == number,
                column_fold == number,
                of_one_kind=problem.kernels.sign != 0,
            )
            if not out.any():
                continue
            training, asked = problem.of_cells(kept), cells.take(out)
            weights, residuals = training.shifted_weights(alphas, rule, **self._graph_options())
            for k, found in enumerate(weights):
                scores[k][asked.row, asked.column] = training.scores_at(found, asked)
            error = np.maximum(error, residuals)
        # scores are comparable within a condition and, for new items, a fold
        group = np.arange(cells.shape[0])[:, None] * (int(folds[1].max()) + 1)
        inner = folds[1] if self.new != "conditions" else np.zeros_like(folds[1])
        return PairsOut(scores, group + inner, error)


def _split_cells(
    new: New, row_out: BoolArray, column_out: BoolArray, *, of_one_kind: bool
) -> tuple[BoolArray, BoolArray]:
    """Return which cells are learned from, and which are judged."""
    if new == "cells":
        return ~row_out, row_out
    if of_one_kind:  # objects leave as conditions and items at once
        judged = {"conditions": ~column_out, "items": ~row_out, "both": row_out & column_out}[new]
        return ~row_out & ~column_out, (row_out | column_out) & judged
    if new == "both":
        return ~row_out & ~column_out, row_out & column_out
    out = row_out if new == "conditions" else column_out
    return ~out, out


def _judged(
    held_out: PairsOut, problem: RelationProblem, measure: Measure, grid: FloatArray
) -> SelectionPath:
    """Measure the held-out cells of each condition, fold by fold if items are left out."""
    if not problem.data.is_scored:
        return _judged_comparisons(held_out, problem, measure, grid)
    judged = np.flatnonzero(np.isfinite(held_out.scores[0]).ravel())
    Y = problem.cells.spread(problem.cells.values).ravel()[:, None]
    scores = held_out.scores.reshape(len(grid), -1, 1)
    queries = Queries.of(held_out.group.ravel(), len(Y))
    return judge_scores(HeldOut(scores, held_out.error), Y, queries, judged, measure, grid)


def _judged_comparisons(
    held_out: PairsOut, problem: RelationProblem, measure: Measure, grid: FloatArray
) -> SelectionPath:
    """Measure the comparisons of two items that one model scores."""
    refuse_listwise(measure, "A choice by `comparisons`")
    cells, (pairs, _, _) = problem.cells, problem.data.comparisons
    scores = held_out.scores[:, cells.row, cells.column]
    group = held_out.group[cells.row, cells.column]
    # leads of comparisons whose two items one model has scored
    leads = scores[:, pairs[:, 0]] - scores[:, pairs[:, 1]]
    leads[:, group[pairs[:, 0]] != group[pairs[:, 1]]] = np.nan
    if not np.isfinite(leads).any():
        raise InvalidInputError(
            "At least one comparison must be between two items that are left out together: got "
            "none. Give more comparisons, lower `cv`, or choose new='conditions'."
        )
    return judge_comparisons(leads, problem.data, held_out.error, measure, grid)
