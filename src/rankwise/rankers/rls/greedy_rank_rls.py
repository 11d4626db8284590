"""RankRLS on few features, chosen one after another by exact hold-outs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Never, Self, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from rankwise.core.arrays import FloatArray, IntArray, Matrix, dense_rows
from rankwise.core.errors import InvalidInputError
from rankwise.core.namespaces import memory_of
from rankwise.core.params import CheckedWith, Count, RandomSeed, Shape, checked
from rankwise.core.queries import TrainingData
from rankwise.core.storable import PositionsIn
from rankwise.features.function_space import Identity, smallest_space
from rankwise.features.kernels import Linear
from rankwise.graph.preference_graph import Cost, OutputGraphs, QueryWeight, Ties
from rankwise.measures.registry import MeasureLike
from rankwise.rankers.base import PointRanker, generator
from rankwise.rankers.closed_form import Alpha
from rankwise.rankers.reading import read_training, refuse_other_arguments
from rankwise.rankers.rls.hold_outs import Judged, SettingProblem, resolve_hold_out
from rankwise.selection.greedy import (
    GreedyHoldOut,
    ItemsLeftOut,
    PairsLeftOut,
    RowsLeftOut,
    greedy_features,
    pairs_have_closed_form,
    rows_of_comparisons,
    rows_of_graph,
)
from rankwise.selection.holdouts import Folds, resolve_folds, resolve_pair_folds
from rankwise.selection.path import SelectionPath, as_measure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COPIES = 6
"""Dense copies of X that choosing features makes."""


@final
class GreedyRankRLS(PointRanker):
    r"""Learn to rank by RankRLS on a few features, chosen one after another by exact hold-outs.

    Each step adds the feature with which `RankRLS` has the least squared error on what is left out:
    queries, pairs of items or comparisons. No candidate is refitted: with n items and d features a
    step costs O(n d), and so k features O(k n d); if pairs of items are left out, O(k n^2 d).

    **The held-out value is of the last model, not of the search.** The features were chosen for it,
    so it is too high, the more so the more features there were to choose from. For an honest value
    leave out around the whole fit: `leave_pair_out` and scikit-learn's ``cross_val_score`` take
    this ranker as it is.

    Parameters
    ----------
    n_features : int
        Number of features to choose; fewer if fewer tell any compared items apart.
    alpha : float
        Regularisation, as in `RankRLS`.
    cv : str, int, splitter or list of folds
        What is left out, as in `RankRLSCV`. For one global ranking "auto" leaves out pairs of items
        if they have a closed form (cost "magnitude" with ties kept or absent, or few grades; equal
        weights), and otherwise five folds of items.
    measure : Measure or str, optional
        The measure of the held-out values in `path_`; by default the share of pairs in the right
        order. Features are chosen by the squared error, whatever the measure.
    cost, ties, query_weight
        As in `RankRLS`.
    random_state : int, RandomState or None
        Draws the folds if they are given as a number.

    Attributes
    ----------
    features_ : (n_chosen,)
        The numbers of the chosen features, in the order of their choice.
    path_ : SelectionPath
        The held-out value with one feature, with two, and so on.
    held_out_value_ : float
        Its last value.
    held_out_scores_ : (n_items,) or None
        The held-out scores with all chosen features, as in `RankRLSCV`.
    coef_ : (n_features,)
        Weights of the features; 0 for those that were not chosen.
    n_queries_, n_ignored_queries_, fitted_with_qid_, n_features_in_, feature_names_in_
        As in `RankRLS`.

    Notes
    -----
    The hold-outs are those of [PTA09] (33) and (38); the selection is reference [19] of [APS10],
    Pahikkala, Airola, Naula and Salakoski (2010). Sparse rows are made dense.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import GreedyRankRLS
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(60, 50)), np.repeat(np.arange(12), 5)
    >>> y = np.round(X[:, 7] - X[:, 30] + 0.5 * rng.normal(size=60))
    >>> ranker = GreedyRankRLS(2).fit(X, y, qid=qid)
    >>> ranker.features_
    array([ 7, 30])
    >>> print(ranker.path_)
    n_features  Concordance  std. error
    1                0.7383      0.0542
    2                0.9427      0.0222  best
    """

    features_: Annotated[IntArray, Shape("n_chosen"), PositionsIn("n_features")]
    path_: SelectionPath
    held_out_value_: float
    held_out_scores_: FloatArray | None

    def __init__(
        self,
        n_features: Count = 10,
        *,
        alpha: Alpha = 1.0,
        cv: Annotated[Any, CheckedWith("qid")] = "auto",
        measure: MeasureLike | None = None,
        cost: Cost = "magnitude",
        ties: Ties = "drop",
        query_weight: QueryWeight = "items",
        random_state: RandomSeed = None,
    ) -> None:
        self.n_features = n_features
        self.alpha = alpha
        self.cv = cv
        self.measure = measure
        self.cost = cost
        self.ties = ties
        self.query_weight = query_weight
        self.random_state = random_state

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
        """Choose the features, judge each step by its hold-outs, and fit to all data.

        Parameters
        ----------
        X, y, qid, sample_weight, pairs, pair_margin, pair_weight
            As in `RankRLS`, with a single output.
        """
        refuse_other_arguments(others)
        given = checked(self)
        rows, data = read_training(
            self, X, y, qid, sample_weight, pairs, pair_margin, pair_weight,
            ties=given.ties, cost=given.cost,
        )  # fmt: skip
        if data.is_scored:
            data.single_output("Choose features for one output at a time.")
        options = {"cost": given.cost, "ties": given.ties, "query_weight": given.query_weight}
        graphs = OutputGraphs.of(data, **options)
        measure = as_measure(given.measure)
        # what is left out: the same for the choice of features and for the path
        cv = _left_out(given.cv, rows, data, generator(given.random_state), options)
        hold_out = resolve_hold_out(
            cv, rows, data, given.query_weight, measure, None, generator(given.random_state)
        )
        Z = _dense(rows)
        chosen = greedy_features(
            _candidates(cv, Z, data, graphs, given.alpha, options), given.n_features
        )
        if not len(chosen):  # no feature tells items apart
            chosen = np.zeros(1, dtype=np.intp)
        # the path: the exact hold-outs with the features of every step
        steps = []
        for k in range(1, len(chosen) + 1):
            space = smallest_space(Z[:, chosen[:k]], Linear(), None, graphs.rank)
            alphas = np.array([given.alpha])
            steps.append(hold_out(SettingProblem(data, options, graphs, space, alphas, measure)))
        return self._keep_steps(chosen, steps, graphs, data)

    def _keep_steps(
        self, chosen: IntArray, steps: list[Judged], graphs: OutputGraphs, data: TrainingData
    ) -> Self:
        """Store the features, the path and the weights of the last step."""
        last, at = steps[-1], np.array([0])
        self.features_ = chosen
        self.path_ = SelectionPath.joined("n_features", [step.path_of(None) for step in steps])
        self.held_out_value_ = float(self.path_.values[-1])
        self.held_out_scores_ = last.held_out_scores(at)
        problem = last.problem
        weights = np.zeros(self.n_features_in_)
        weights[chosen] = problem.space.fold(last.weights(problem.alphas))[:, 0]
        return self._keep(Identity(), weights, data, graphs.first.n_ignored_queries)

    def plot_path(self, ax: Axes | None = None) -> Axes:
        """Draw the held-out value against the number of features; return the axes.

        Needs matplotlib, the extra "plot".

        Parameters
        ----------
        ax : axes, optional
            Where to draw; by default new axes.
        """
        check_is_fitted(self)
        return self.path_.plot(ax)


def _dense(rows: Matrix) -> FloatArray:
    """Return dense rows of which a few copies fit into memory."""
    needed = COPIES * 8 * rows.shape[0] * rows.shape[1]
    if needed > memory_of(rows):
        raise InvalidInputError(
            f"Choosing features must keep {COPIES} dense copies of X in memory: shape {rows.shape} "
            f"takes {needed / 1e9:.1f} GB. Leave out columns of few entries."
        )
    return dense_rows(rows)


def _left_out(
    cv: Any, rows: Matrix, data: TrainingData, rng: np.random.Generator, options: Mapping[str, Any]
) -> Any:
    """Return ``cv`` by name, or as lists of rows or comparisons: drawn once for all steps."""
    by_item = data.is_scored and not data.has_qid
    if isinstance(cv, str):
        if cv != "auto" or not by_item or pairs_have_closed_form(data, **options):
            return cv
    elif not data.is_scored and not data.has_qid:
        return resolve_pair_folds(cv, data.comparisons[0], rng).lists()
    return resolve_folds(cv, rows, data, rng).lists()


def _candidates(
    cv: Any,
    X: FloatArray,
    data: TrainingData,
    graphs: OutputGraphs,
    alpha: float,
    options: Mapping[str, Any],
) -> GreedyHoldOut:
    """Return what is left out, at no feature yet; ``cv`` is what `_left_out` returned."""
    name = cv if isinstance(cv, str) else ""
    if name == "leave_edge_out" or not (data.is_scored or data.has_qid):
        H, targets = rows_of_comparisons(X, data, options["cost"], options["query_weight"])
        fold = np.arange(len(H)) if name else Folds.from_lists(cv, len(H)).fold
        return RowsLeftOut(H, targets, fold, alpha)
    if data.has_qid:
        folds = resolve_folds(cv, X, data, np.random.default_rng(0))
        return RowsLeftOut(*rows_of_graph(X, graphs.first, folds), alpha)
    if not name:
        return ItemsLeftOut(X, data, Folds.from_lists(cv, len(X)), alpha, **options)
    if not pairs_have_closed_form(data, **options):
        raise InvalidInputError(
            "cv='leave_pair_out' must have a closed form to choose features by: cost 'magnitude' "
            "with ties kept or absent, or few grades, and equal weights of at least 4 items. Use "
            "cv='auto'."
        )
    used = np.flatnonzero(data.weight > 0)
    return PairsLeftOut(X[used], data.take(used), alpha, **options)
