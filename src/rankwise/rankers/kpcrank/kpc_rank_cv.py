"""KPCRank that chooses its number of components by exact hold-outs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import validate_data

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.checks import check_length, check_scores, check_weight
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.features.components import Components, Solver
from rankwise.features.kernels import Kernel
from rankwise.graph.preference_graph import Cost, Ties
from rankwise.graph.query_weights import QueryWeight
from rankwise.measures.pairwise import Concordance
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure
from rankwise.rankers.closed_form import ClosedFormRanker
from rankwise.rankers.kpcrank.component_fit import (
    ComponentFit,
    check_alpha,
    check_count,
    component_space,
)
from rankwise.rankers.preferences import Given, Preferences
from rankwise.selection.component_path import ComponentPath
from rankwise.selection.holdouts import Folds, HeldOut
from rankwise.selection.path import ChoiceRule

ITEM_FOLDS = 5
"""Folds of items that judge one global ranking."""


@final
class KPCRankCV(ClosedFormRanker):
    r"""Learn to rank on kernel principal components, their number chosen by exact hold-outs.

    Every number of components up to `max_components` is fitted and judged: one factorisation gives
    the solutions of all of them, and one more for each fold its held-out scores. Together this
    costs less than finding the components.

    Parameters
    ----------
    max_components : int
        The largest number of components; there are fewer where the items span fewer.
    kernel, alpha, cost, ties, query_weight, solver
        As in `KPCRank`.
    cv : str, splitter or list of folds
        What is left out when `fit` is given no validation data: "leave_query_out", a scikit-learn
        splitter of groups such as ``GroupKFold(5)``, or lists of rows. Folds hold whole queries;
        for one global ranking they hold items. "auto" leaves out one query at a time, and for one
        global ranking every fifth item.
    measure : Measure or str, optional
        What decides, for example ``NDCG @ 10`` or "MAP"; the share of pairs in the right order
        when left out.
    rule : {"best", "one_standard_error"}
        Take the best number, or the smallest one within a standard error of it.

    Attributes
    ----------
    n_components_ : int
        The chosen number of components.
    path_ : ComponentPath
        The value for every number, with standard errors and the value of each query.
    cv_value_ : float
        The held-out value of the chosen number.
    cv_scores_ : (n_items,) or (n_items, n_outputs)
        The held-out score of every item for the chosen number; of the validation items where
        validation data were given. Meaningful inside a query, or a fold of items, only.
    variances_ : (n_components,)
        The eigenvalues of the centred kernel that belong to the chosen components.
    coef_, dual_coef_, kernel_, n_queries_, ignored_queries_, fitted_with_qid_, n_features_in_
        As in `KPCRank`.

    Notes
    -----
    [TH10] Sect. 4.2 chooses by setting eigenvalues of a matrix to zero, which gives a different
    model than projecting on fewer components; here every number of components gives exactly the
    ranking function that `KPCRank` would. The components are those of all training items: they
    know the features, not the scores, of what is held out.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import KPCRankCV
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(120, 4)), np.repeat(np.arange(12), 10)
    >>> y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=120)
    >>> ranker = KPCRankCV(max_components=60).fit(X, y, qid=qid)
    >>> ranker.path_.values.shape, ranker.path_.per_query.shape
    ((60,), (60, 12))
    >>> ranker.n_components_ == ranker.path_.n_components[np.argmax(ranker.path_.values)]
    np.True_
    """

    def __init__(
        self,
        max_components: int = 100,
        kernel: str | Kernel | Callable[[Any, Any], Any] = "gaussian",
        *,
        alpha: float = 0.0,
        cv: Any = "auto",
        measure: Measure | str | None = None,
        rule: ChoiceRule = "best",
        cost: Cost = "magnitude",
        ties: Ties = "drop",
        query_weight: QueryWeight = "items",
        solver: Solver = "auto",
    ) -> None:
        self.max_components = max_components
        self.kernel = kernel
        self.alpha = alpha
        self.cv = cv
        self.measure = measure
        self.rule = rule
        self.cost = cost
        self.ties = ties
        self.query_weight = query_weight
        self.solver = solver

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        qid_val: ArrayLike | None = None,
    ) -> Self:
        """Judge every number of components, then keep the best one, fitted to all data.

        Parameters
        ----------
        X, y, qid, sample_weight
            As in `RankRLS`. Items of weight 0 are not judged.
        X_val, y_val, qid_val
            Validation data that decide in place of `cv`; `qid_val` may be given without `qid`, to
            judge one global ranking query by query.
        """
        max_components = check_count("max_components", self.max_components)
        alpha = check_alpha(self.alpha)
        measure = parse_measure(self.measure) if isinstance(self.measure, str) else self.measure
        X = self._check_rows(X)
        given = Given(y, qid, sample_weight, None, None, None)
        preferences = self._preferences(X, given, self.cost, self.ties)
        self.kernel_, components, space = component_space(
            self.kernel, X, max_components, self.solver, sample_weight
        )
        fit = ComponentFit(space.Z, preferences, alpha)
        if X_val is None and y_val is None and qid_val is None:
            trial = self._cross_validate(X, given, fit)
        else:
            trial = self._validate(X_val, y_val, qid_val, components, fit, with_qid=qid is not None)
        self._choose(trial, measure or Concordance, components, preferences)
        return self._keep(
            space, fit.weights(self.n_components_), preferences, with_qid=qid is not None
        )

    def plot_path(self, ax: Any = None) -> Any:
        """Draw the held-out value against the number of components; return the axes.

        Needs matplotlib, the extra "plot".
        """
        return self.path_.plot(ax, self.path_.best(self.rule))

    def _cross_validate(self, X: Matrix, given: Given, fit: ComponentFit) -> "_Trial":
        """Hold out queries, or items of one global ranking."""
        Y = _as_matrix(given.y)
        queries = fit.preferences.first.queries
        folds = self._folds(X, Y, queries, by_item=given.qid is None)
        weight = check_weight("sample_weight", given.sample_weight, len(Y), "row of `X`")
        rows = np.flatnonzero((folds.fold >= 0) & (weight > 0))
        if given.qid is not None:
            return _Trial(fit.leave_out(folds), Y, queries, rows)
        options = {"cost": self.cost, "ties": self.ties, "query_weight": self.query_weight}
        held_out = fit.leave_out_items(folds, Y, weight, **options)
        return _Trial(held_out, Y, Queries.from_qid(folds.fold), rows)

    def _folds(self, X: Matrix, Y: FloatArray, queries: Queries, *, by_item: bool) -> Folds:
        if isinstance(self.cv, str):
            if self.cv not in ("auto", "leave_query_out") or (by_item and self.cv != "auto"):
                raise InvalidInputError(
                    "`cv` must be 'auto', 'leave_query_out' (with `qid`), a splitter or a list of "
                    f"folds: got {self.cv!r}{' without `qid`' if by_item else ''}."
                )
            if by_item:
                return Folds(np.arange(len(Y)) % ITEM_FOLDS, min(ITEM_FOLDS, len(Y)))
            return Folds.by_query(queries)
        lists = self.cv
        if callable(getattr(lists, "split", None)):
            lists = lists.split(X, Y[:, 0], None if by_item else queries.index)
        return Folds.from_lists(lists, len(Y))

    def _validate(
        self,
        X_val: Any,
        y_val: Any,
        qid_val: Any,
        components: Components,
        fit: ComponentFit,
        with_qid: bool,
    ) -> "_Trial":
        """Score validation data by every number of components."""
        if X_val is None or y_val is None or (qid_val is None and with_qid):
            raise InvalidInputError(
                "Validation data must have `X_val` and `y_val`, and `qid_val` if `fit` is given "
                "`qid`: scores compare inside a query only."
            )
        X_val = validate_data(
            self, X_val, reset=False, accept_sparse="csr", dtype=[np.float64, np.float32]
        )
        Y = _as_matrix(y_val, "y_val")
        check_length("y_val", Y, X_val.shape[0])
        n_outputs = sum(map(len, fit.preferences.outputs))
        if Y.shape[1] != n_outputs:
            raise InvalidInputError(
                f"`y_val` must have the {n_outputs} outputs of `y`: got {Y.shape[1]}."
            )
        queries = Queries.single(len(Y)) if qid_val is None else Queries.from_qid(qid_val)
        check_length("qid_val", queries.index, len(Y))
        return _Trial(fit.scores(components.map(X_val)), Y, queries, np.arange(len(Y)))

    def _choose(
        self, trial: "_Trial", measure: Measure, components: Components, preferences: Preferences
    ) -> None:
        self.path_ = ComponentPath.judge(
            trial.held_out, trial.Y, trial.queries, trial.rows, measure
        )
        best = self.path_.best(self.rule)
        self.n_components_ = int(self.path_.n_components[best])
        self.cv_value_ = float(self.path_.values[best])
        scores = trial.held_out.scores[best]
        self.cv_scores_ = scores if preferences.is_multi_output else scores[:, 0]
        self.variances_ = components.variances[: self.n_components_]


@final
@dataclass(frozen=True, eq=False)
class _Trial:
    """Scores of items that were not learned from, and what they are judged by."""

    held_out: HeldOut
    Y: FloatArray
    queries: Queries
    rows: IntArray


def _as_matrix(y: ArrayLike | None, name: str = "y") -> FloatArray:
    scores = check_scores([] if y is None else y, name)
    return scores.reshape(len(scores), -1)
