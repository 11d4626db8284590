"""KPCRank: least squares on leading kernel principal components, a given or chosen number."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Never, Self, final

from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.namespaces import on_device
from rankwise.core.params import Advice, AtLeast, CheckedWith, Count, RandomSeed, checked
from rankwise.core.storable import Counted, Finite
from rankwise.features.components import Solver
from rankwise.features.kernels import Kernel, KernelLike
from rankwise.graph.preference_graph import Cost, QueryWeight, Ties
from rankwise.measures.registry import MeasureLike
from rankwise.rankers.base import generator
from rankwise.rankers.closed_form import (
    ClosedFormCV,
    ClosedFormRanker,
    Validation,
    judge_held_out,
    tied,
)
from rankwise.rankers.kpcrank.component_fit import ComponentFit
from rankwise.rankers.reading import read_training, refuse_other_arguments
from rankwise.selection.holdouts import PairKFold, resolve_folds, resolve_pair_folds
from rankwise.selection.path import (
    Candidate,
    ChoiceRule,
    SelectionPath,
    Simplest,
    as_measure,
    as_settings,
    best_candidate,
    judge_comparisons,
    refuse_listwise,
)

ALPHA_ADVICE = "0 leaves all regularisation to the number of components."

N_PAIR_FOLDS = 5
"""Folds of comparisons without `qid`, for ``cv="auto"``."""


@final
class KPCRank(ClosedFormRanker):
    r"""Learn to rank by least squares on the leading kernel principal components.

    The items are projected on the directions in which they vary most in the feature space of the
    kernel, and the cost of `RankRLS`,

    .. math:: \sum_q \omega_q \sum_{(i,j) \in q} w_{ij} \bigl(z_{ij} - (f_i - f_j)\bigr)^2
              + \alpha |f|^2 ,

    is minimised over the functions of these components, by default without regularisation.
    Fewer components mean a simpler function: the small variation of the items in the other
    directions is treated as noise. The cost is O(n^3), or O(n^2) per component for a few components
    of many items.

    Parameters
    ----------
    n_components : int
        Largest number of components; there are fewer if the items span fewer. `KPCRankCV`
        chooses it.
    kernel : {"gaussian", "linear", "laplacian", "polynomial", "precomputed"}, kernel or function
        The space of ranking functions; it is centred, for training and new rows alike.
    alpha : float
        Regularisation: the factor of :math:`|f|^2`; 0 or more, on the scale of `RankRLS`.
    cost, ties, query_weight
        As in `RankRLS`.
    solver : {"auto", "full", "truncated"}
        How components are found: by a full tridiagonal reduction, or by Lanczos iterations, which
        are faster for a few components of many items. Both agree to machine precision.
    device : str, optional
        Where the kernel matrix is formed and decomposed, as in `RankRLS`, and where `KPCRankCV`
        leaves out queries.

    Attributes
    ----------
    n_components_ : int
        Number of components used.
    variances_ : (n_components,)
        Their eigenvalues of the centred kernel.
    coef_ : (n_features,) or (n_outputs, n_features)
        Weights of the features, with the linear kernel.
    dual_coef_ : (n_items,) or (n_items, n_outputs)
        Weights of the training rows otherwise.
    kernel_, n_queries_, n_ignored_queries_, fitted_with_qid_, n_features_in_, feature_names_in_
        As in `RankRLS`.

    Notes
    -----
    [TH10] Theorem 1, (6) and (8), in the form of Sect. 4.2 without its eigenvalue shortcut; scores
    are (9). A component that is constant inside every query, or that the components before it
    determine on the training pairs, gets the weight 0.

    Kernel principal component regression, the baseline KPCR of [TH10], is the same on one global
    ranking with ties kept: ``KPCRank(p, ties="keep").fit(X, y)``, without `qid`.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import KPCRank
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(60, 5)), np.repeat(np.arange(6), 10)
    >>> y = X[:, 0] + 0.1 * rng.normal(size=60)
    >>> ranker = KPCRank(n_components=20).fit(X, y, qid=qid)
    >>> ranker.n_components_, bool(ranker.score(X, y, qid=qid) > 0.9)
    (20, True)
    """

    n_components_: Counted
    variances_: Annotated[FloatArray, Finite()]

    def __init__(
        self,
        n_components: Count = 10,
        kernel: KernelLike = "gaussian",
        *,
        alpha: Annotated[float, AtLeast(0), Advice(ALPHA_ADVICE)] = 0.0,
        cost: Cost = "magnitude",
        ties: Ties = "drop",
        query_weight: QueryWeight = "items",
        solver: Solver = "auto",
        device: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.alpha = alpha
        self.cost = cost
        self.ties = ties
        self.query_weight = query_weight
        self.solver = solver
        self.device = device

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
        X, y, qid, sample_weight, pairs, pair_margin, pair_weight
            As in `RankRLS`. All rows of X determine the components, weighted by `sample_weight` if
            given, whether or not they take part in a preference.
        """
        refuse_other_arguments(others)
        given = checked(self)
        rows, data = read_training(
            self, X, y, qid, sample_weight, pairs, pair_margin, pair_weight,
            ties=given.ties, cost=given.cost,
        )  # fmt: skip
        self.kernel_ = given.kernel.fitted_to(rows, data.sample_weight)
        fit = ComponentFit.of(
            self.kernel_,
            rows,
            data,
            given.n_components,
            given.solver,
            given.alpha,
            on_device(rows, given.device, X),
            cost=given.cost,
            ties=given.ties,
            query_weight=given.query_weight,
        )
        self.n_components_ = fit.components.n_components
        self.variances_ = fit.components.variances
        weights = fit.weights(self.n_components_)  # [TH10] eq. (6), (8), for scores (9)
        return self._keep_solution(fit.space, weights, fit.graphs, data)


@final
class KPCRankCV(ClosedFormCV):
    r"""Learn to rank on kernel principal components, their number chosen by exact hold-outs.

    Every number of components up to `max_components` is fitted and judged: one factorisation gives
    the solutions for all numbers, and one more per fold gives the held-out scores. Together this
    costs less than finding the components.

    Parameters
    ----------
    max_components : int
        The largest number of components; there are fewer if the items span fewer.
    kernel : kernel, str or list of these
        As in `KPCRank`; from a list, the best is chosen.
    alpha, cost, ties, query_weight, solver, device
        As in `KPCRank`.
    cv : str, int, splitter or list of folds
        What is left out if `fit` gets no validation data: "leave_query_out", a number of random
        folds, a scikit-learn splitter of groups such as ``GroupKFold(5)``, or lists of rows. Folds
        hold whole queries. For one global ranking they hold items, and each fold is judged by
        itself; for comparisons without `qid` they hold comparisons (`PairKFold`). "auto" leaves out
        one query at a time or, for one global ranking, every fifth item or five folds of
        comparisons.
    measure : Measure or str, optional
        The measure that decides, for example ``NDCG @ 10`` or "MAP"; by default the share of pairs
        in the right order. Comparisons are judged by that share only.
    rule : {"best", "one_standard_error"}
        Take the best number, or the smallest one within a standard error of it.
    random_state : int, RandomState or None
        Draws the folds if `cv` is a number.

    Attributes
    ----------
    n_components_ : int
        The chosen number of components.
    path_ : SelectionPath
        The value for every number, with standard errors and the value of each query.
    held_out_value_ : float
        The held-out value of the chosen number.
    held_out_scores_ : (n_items,) or (n_items, n_outputs)
        The held-out score of every item for the chosen number, or of the validation items if
        validation data were given; comparable only within a query or a fold of items. For
        comparisons left out in folds, the lead of each winner.
    search_ : list of Candidate
        All kernels tried, with their paths.
    variances_ : (n_components,)
        The eigenvalues of the centred kernel for the chosen components.
    coef_, dual_coef_, kernel_, n_queries_, n_ignored_queries_, fitted_with_qid_, n_features_in_
        As in `KPCRank`.

    Notes
    -----
    [TH10] Sect. 4.2 chooses by setting eigenvalues of a matrix to zero, which gives a different
    model than projecting on fewer components; here every number of components gives exactly the
    ranking function that `KPCRank` would. The components are those of all training items: they
    depend on the features, not the scores, of what is held out. Comparisons are those of its
    Sect. 6.2.

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

    n_components_: Counted
    variances_: Annotated[FloatArray, Finite()]

    def __init__(
        self,
        max_components: Count = 100,
        kernel: list[KernelLike] | KernelLike = "gaussian",
        *,
        alpha: Annotated[float, AtLeast(0), Advice(ALPHA_ADVICE)] = 0.0,
        cv: Annotated[Any, CheckedWith("qid")] = "auto",
        measure: MeasureLike | None = None,
        rule: ChoiceRule = "best",
        cost: Cost = "magnitude",
        ties: Ties = "drop",
        query_weight: QueryWeight = "items",
        solver: Solver = "auto",
        device: str | None = None,
        random_state: RandomSeed = None,
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
        self.device = device
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
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        qid_val: ArrayLike | None = None,
        pairs_val: ArrayLike | None = None,
        pair_weight_val: ArrayLike | None = None,
        **others: Never,
    ) -> Self:
        """Judge every number of components, then fit the best one to all data.

        Parameters
        ----------
        X, y, qid, sample_weight, pairs, pair_margin, pair_weight
            As in `RankRLS`. Items of weight 0 are not judged.
        X_val, y_val, qid_val
            Validation data that decide in place of `cv`; `qid_val` may be given without `qid`, to
            judge one global ranking query by query.
        pairs_val : (n_pairs, 2), optional
            Comparisons in place of `y_val`: rows of `X_val`, or of X without it.
        pair_weight_val : (n_pairs,), optional
            How much each of them counts.
        """
        refuse_other_arguments(others)
        given = checked(self)
        rows, data = read_training(
            self, X, y, qid, sample_weight, pairs, pair_margin, pair_weight,
            ties=self.ties, cost=self.cost,
        )  # fmt: skip
        validation = self._validation(
            rows, data, X, X_val, y_val, qid_val, pairs_val, pair_weight_val, named=(y, qid)
        )
        options = {"cost": self.cost, "ties": self.ties, "query_weight": self.query_weight}
        self.search_ = []
        keep_best: Callable[[], Self] | None = None
        for kernel in as_settings(given.kernel, "kernel"):
            kernel = kernel.fitted_to(rows, data.sample_weight)
            fit = ComponentFit.of(
                kernel,
                rows,
                data,
                given.max_components,
                given.solver,
                given.alpha,
                on_device(rows, self.device, X),
                **options,
            )
            path, scores = self._judge(rows, fit, validation)
            self.search_.append(Candidate({"kernel": kernel}, path))
            if best_candidate(self.search_, self.rule) == len(self.search_) - 1:
                chosen = scores[path.best(self.rule)]
                keep_best = partial(self._keep_best, kernel, fit, path, chosen)
        assert keep_best is not None
        return keep_best()

    def _keep_best(
        self, kernel: Kernel, fit: ComponentFit, path: SelectionPath, scores: FloatArray
    ) -> Self:
        """Store the best kernel, its path, and its fit with the chosen number of components."""
        position = path.best(self.rule)
        self.kernel_, self.path_ = kernel, path
        self.held_out_value_ = float(path.values[position])
        is_single = scores.ndim == 2 and not fit.data.is_multi_output
        self.held_out_scores_ = scores[:, 0] if is_single else scores
        self.n_components_ = int(path.grid[position])
        self.variances_ = fit.components.variances[: self.n_components_]
        weights = fit.weights(self.n_components_)
        return self._keep_solution(fit.space, weights, fit.graphs, fit.data)

    def _judge(
        self, X: Matrix, fit: ComponentFit, validation: Validation | None
    ) -> tuple[SelectionPath, FloatArray]:
        """Return the values of all numbers of components, and the held-out scores or leads."""
        measure, data, folds = as_measure(self.measure), fit.data, None
        rng = generator(self.random_state)
        judged: tuple[str, Simplest] = "n_components", "smallest"
        if validation is None and not data.is_scored:
            refuse_listwise(measure, f"cv={self.cv!r} with comparisons")
        if validation is not None:
            # scores of a validation set
            if not validation.data.is_scored:
                refuse_listwise(measure, "`pairs_val`")
            data, found = validation.data, fit.scores(validation.X)
        elif data.is_scored or data.has_qid:
            # scores of items whose query, or fold, is left out
            folds = resolve_folds(self.cv, X, data, rng)
            found = fit.leave_out(folds)
        else:
            # leads of comparisons whose fold is left out
            is_auto = isinstance(self.cv, str) and self.cv == "auto"
            cv = PairKFold(N_PAIR_FOLDS, random_state=0) if is_auto else self.cv
            leads = fit.leave_comparisons_out(resolve_pair_folds(cv, data.comparisons[0], rng))
            path = judge_comparisons(
                leads.differences, data, leads.error, measure, fit.numbers, *judged
            )
            return path, leads.differences
        held_out = tied(found, data, folds)
        return judge_held_out(held_out, data, folds, measure, fit.numbers, *judged), held_out.scores
