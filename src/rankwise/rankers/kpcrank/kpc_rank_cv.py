"""KPCRank that chooses its number of components by exact hold-outs."""

from collections.abc import Callable
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import Matrix, as_columns
from rankwise.core.checks import check_count
from rankwise.core.errors import InvalidInputError
from rankwise.core.training_data import TrainingData
from rankwise.features.components import Solver
from rankwise.features.kernels import Kernel, as_kernel
from rankwise.graph.preference_graph import Cost, Ties
from rankwise.graph.query_weights import QueryWeight
from rankwise.measures.value import Measure
from rankwise.rankers.base import generator
from rankwise.rankers.closed_form import ClosedFormCV, judge_folds
from rankwise.rankers.kpcrank.component_fit import ComponentFit, check_alpha
from rankwise.selection.holdouts import (
    HeldOut,
    ValidationData,
    refuse_partial_validation,
    resolve_folds,
)
from rankwise.selection.judging import as_measure, judge_scores
from rankwise.selection.path import ChoiceRule, SelectionPath


@final
class KPCRankCV(ClosedFormCV):
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
    cv : str, int, splitter or list of folds
        What is left out when `fit` is given no validation data: "leave_query_out", a number of
        random folds, a scikit-learn splitter of groups such as ``GroupKFold(5)``, or lists of rows.
        Folds hold whole queries; for one global ranking they hold items, and each is judged by
        itself. "auto" leaves out one query at a time, and for one global ranking every fifth item.
    measure : Measure or str, optional
        What decides, for example ``NDCG @ 10`` or "MAP"; the share of pairs in the right order
        when left out.
    rule : {"best", "one_standard_error"}
        Take the best number, or the smallest one within a standard error of it.
    random_state : int, RandomState or None
        Deals the folds when `cv` is a number.

    Attributes
    ----------
    n_components_ : int
        The chosen number of components.
    path_ : SelectionPath
        The value for every number, with standard errors and the value of each query.
    held_out_value_ : float
        The held-out value of the chosen number.
    held_out_scores_ : (n_items,) or (n_items, n_outputs)
        The held-out score of every item for the chosen number; of the validation items where
        validation data were given. Meaningful inside a query, or a fold of items, only.
    variances_ : (n_components,)
        The eigenvalues of the centred kernel that belong to the chosen components.
    coef_, dual_coef_, kernel_, n_queries_, n_ignored_queries_, fitted_with_qid_, n_features_in_
        As in `KPCRank`.

    Notes
    -----
    [TH10] Sect. 4.2 chooses by setting eigenvalues of a matrix to zero, which gives a different
    model than projecting on fewer components; here every number of components gives exactly the
    ranking function that `KPCRank` would. The components are those of all training items: they
    depend on the features, not the scores, of what is held out.

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
    >>> ranker.n_components_ == ranker.path_.grid[np.argmax(ranker.path_.values)]
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
        random_state: Any = None,
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
        self.random_state = random_state

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
        measure = as_measure(self.measure)
        refuse_partial_validation(X_val, y_val, qid_val)
        X = self._check_rows(X)
        data = TrainingData.of(X.shape[0], y, qid, sample_weight)
        self.kernel_ = as_kernel(self.kernel).fitted_to(X, data.sample_weight)
        fit = ComponentFit.of(
            self.kernel_,
            X,
            data,
            max_components,
            self.solver,
            alpha,
            cost=self.cost,
            ties=self.ties,
            query_weight=self.query_weight,
        )
        if X_val is None:
            path, held_out = self._cross_validate(X, fit, measure)
        else:
            rows = self._check_rows(X_val, reset=False)
            validation = ValidationData.of(rows, y_val, qid_val, has_qid=data.has_qid)
            path, held_out = _validate(validation, fit, measure)
        scores = held_out.scores[path.best(self.rule)]
        self.n_components_ = int(
            self._keep_choice(path, scores if data.is_multi_output else scores[:, 0])
        )
        self.variances_ = fit.components.variances[: self.n_components_]
        return self._keep_solution(fit.space, fit.weights(self.n_components_), fit.graphs, data)

    def _cross_validate(
        self, X: Matrix, fit: ComponentFit, measure: Measure
    ) -> tuple[SelectionPath, HeldOut]:
        """Hold out queries, or items of one global ranking."""
        folds = resolve_folds(self.cv, X, fit.data, generator(self.random_state))
        held_out = fit.leave_out(folds)
        path = judge_folds(
            held_out, fit.data, folds, measure, fit.numbers, "n_components", "smallest"
        )
        return path, held_out


def _validate(
    validation: ValidationData, fit: ComponentFit, measure: Measure
) -> tuple[SelectionPath, HeldOut]:
    """Score validation data by every number of components."""
    Y, n_outputs = as_columns(validation.y), as_columns(fit.data.scores).shape[1]
    if Y.shape[1] != n_outputs:
        raise InvalidInputError(
            f"`y_val` must have the {n_outputs} outputs of `y`: got {Y.shape[1]}."
        )
    held_out, rows = fit.scores(validation.X), np.arange(len(Y))
    path = judge_scores(
        held_out, Y, validation.queries, rows, measure, fit.numbers, "n_components", "smallest"
    )
    return path, held_out
