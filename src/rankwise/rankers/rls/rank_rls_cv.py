"""RankRLS that chooses its regularisation by exact cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from typing import Annotated, Any, Never, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.errors import ConvergenceWarning, warn_caller
from rankwise.core.namespaces import on_device
from rankwise.core.params import CheckedWith, RandomSeed, checked
from rankwise.core.queries import TrainingData
from rankwise.core.storable import Finite, Stored
from rankwise.features.function_space import choose_basis, smallest_space, unknowns_of_sparse_rows
from rankwise.features.kernels import KernelLike, as_kernel
from rankwise.graph.preference_graph import Cost, OutputGraphs, QueryWeight, Ties
from rankwise.measures.registry import MeasureLike
from rankwise.rankers.base import generator
from rankwise.rankers.closed_form import ClosedFormCV
from rankwise.rankers.reading import read_training, refuse_other_arguments
from rankwise.rankers.rls.hold_outs import (
    Judged,
    SettingProblem,
    refuse_dense,
    resolve_hold_out,
)
from rankwise.selection.path import (
    Alphas,
    Candidate,
    ChoiceRule,
    SelectionPath,
    as_measure,
    as_settings,
    is_better,
)
from rankwise.solve.iteration import followed

ALPHAS = tuple(2.0**k for k in range(-15, 16))
SEARCHED = ("kernel", "cost", "ties")


@final
class RankRLSCV(ClosedFormCV):
    r"""Learn to rank by RankRLS with the regularisation chosen by exact cross-validation.

    Every alpha is judged by hold-outs in closed form: the same scores as retraining without each
    query, pair or comparison, at the cost of a few fits to a few dozen, whatever the number of
    queries and alphas. With a kernel they are the same up to a constant for each query, which
    changes no order and no measure. The function is then fitted to all data with the best setting.

    Parameters
    ----------
    alphas : (n_alphas,)
        The values of alpha to choose from; see `RankRLS` for its meaning. By default the powers of
        2 from 2**-15 to 2**15.
    cv : str, int, splitter or list of folds
        What is left out: "leave_query_out", "leave_pair_out" (one global ranking),
        "leave_edge_out" (comparisons), a number of random folds, a scikit-learn splitter of groups
        such as ``GroupKFold(5)``, or lists of rows. "auto" takes the first that suits the data.
        `GroupPairs` leaves out two groups of items of one global ranking at a time, such as the
        samples of two patients. Folds hold whole queries. For one global ranking they hold items,
        and each is judged by itself after a fit to the others; for comparisons without `qid` they
        hold comparisons (`PairKFold`).
    measure : Measure or str, optional
        The measure that decides, for example ``NDCG @ 10`` or "MAP"; by default the share of pairs
        in the right order. Pairs and comparisons are judged only by that share, averaged over
        queries if there are any.
    rule : {"best", "one_standard_error"}
        Take the best alpha, or the largest one within a standard error of it.
    kernel : kernel, str or list of these
        The kernel; from a list, the best is chosen.
    cost, ties : str or list of str
        As in `RankRLS`; from a list, the best is chosen. Ties are never kept with a cost that does
        not allow it.
    query_weight, basis
        As in `RankRLS`. A number of basis rows is drawn once for all settings and the final fit.
    device : str, optional
        As in `RankRLS`: for the kernel matrices, factorisations and decompositions, the pairs left
        out of a complete graph, and the comparisons left out one by one.
    alpha_per_output : bool
        Whether every output (column of `y`) has its own alpha; kernel, cost and ties are shared,
        and chosen by the mean value of the outputs.
    progress : bool
        Show a progress bar over the settings.
    random_state : int, RandomState or None
        Draws the basis rows and the folds if these are given as numbers.

    Attributes
    ----------
    alpha_ : float or (n_outputs,)
        The chosen alpha; one for each output with `alpha_per_output`.
    kernel_ : Kernel
        The chosen kernel.
    cost_, ties_ : str
        The chosen cost and treatment of ties.
    path_ : SelectionPath
        The values for every alpha, with standard errors and the value of each query; the average
        of several outputs.
    paths_ : list of SelectionPath
        The paths on which alphas were chosen: `path_`, or with `alpha_per_output` one per output.
    held_out_value_ : float
        The held-out value of the chosen setting.
    held_out_scores_ : (n_items,), (n_items, n_outputs) or None
        The held-out score of every item for the chosen setting, or of the validation rows if these
        decide; comparable only within a query or a fold of items, and with a kernel off the scores
        of a refit by a constant there. Scores that differ by rounding alone are equal. For
        comparisons that are left out one by one or in folds, the held-out lead of each winner. None
        if pairs of scored items are left out: see `leave_pair_out`.
    search_ : list of Candidate
        All settings (kernel, cost, ties), with their paths.
    coef_, dual_coef_, n_queries_, n_ignored_queries_, fitted_with_qid_, n_features_in_
        As in `RankRLS`.

    Notes
    -----
    [PTA09] Sect. 3.3, (33), and 3.4, (38). If double precision is not enough (alpha near zero with
    a singular kernel), the value is NaN and never chosen. Interrupting a search over several
    settings keeps those that are done.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import RankRLSCV
    >>> rng = np.random.default_rng(2)
    >>> X, qid = rng.normal(size=(60, 10)), np.repeat(np.arange(12), 5)
    >>> X[:, 5:] *= 0.3
    >>> y = np.round(X[:, 0] + X[:, 5] + rng.normal(size=60))
    >>> ranker = RankRLSCV().fit(X, y, qid=qid)
    >>> ranker.alpha_
    0.5
    >>> round(ranker.held_out_value_, 3)
    0.721
    >>> ranker.path_.per_query.shape, ranker.held_out_scores_.shape
    ((31, 12), (60,))
    """

    paths_: list[SelectionPath]
    cost_: Cost
    ties_: Ties
    alpha_: Annotated[Any, Stored(float | Annotated[FloatArray, Finite()])]

    def __init__(
        self,
        alphas: Alphas = ALPHAS,
        *,
        cv: Annotated[Any, CheckedWith("qid")] = "auto",
        measure: MeasureLike | None = None,
        rule: ChoiceRule = "best",
        kernel: list[KernelLike] | KernelLike = "linear",
        cost: Cost | list[Cost] = "magnitude",
        ties: Ties | list[Ties] = "drop",
        query_weight: QueryWeight = "items",
        basis: Annotated[int | ArrayLike | None, CheckedWith("X")] = None,
        device: str | None = None,
        alpha_per_output: bool = False,
        progress: bool = False,
        random_state: RandomSeed = None,
    ) -> None:
        self.alphas = alphas
        self.cv = cv
        self.measure = measure
        self.rule = rule
        self.kernel = kernel
        self.cost = cost
        self.ties = ties
        self.query_weight = query_weight
        self.basis = basis
        self.device = device
        self.alpha_per_output = alpha_per_output
        self.progress = progress
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
        """Judge every setting by its hold-outs or by validation data, then fit the best one.

        Parameters
        ----------
        X, y, qid, sample_weight, pairs, pair_margin, pair_weight
            As in `RankRLS`. Items of weight 0 are not judged.
        X_val, y_val, qid_val : optional
            Validation data that decide in place of `cv`. `qid_val` may be given without `qid`.
        pairs_val : (n_pairs, 2), optional
            Comparisons in place of `y_val`: rows of `X_val`, or of X without it.
        pair_weight_val : (n_pairs,), optional
            How much each of them counts.
        """
        refuse_other_arguments(others)
        given = checked(self)
        measure = as_measure(given.measure)
        rows, data = read_training(
            self, X, y, qid, sample_weight, pairs, pair_margin, pair_weight,
            ties=self.ties, cost=self.cost,
        )  # fmt: skip
        validation = self._validation(
            rows, data, X, X_val, y_val, qid_val, pairs_val, pair_weight_val, named=(y, qid)
        )
        rng = generator(self.random_state)
        basis_rows = choose_basis(self.basis, rows, rng)
        placed = on_device(rows, self.device, X)
        hold_out = resolve_hold_out(
            self.cv, rows, data, self.query_weight, measure, validation, rng
        )

        def judge(setting: Mapping[str, Any]) -> Judged:
            kernel, cost, ties = (setting[name] for name in SEARCHED)
            options = {"cost": cost, "ties": ties, "query_weight": self.query_weight}
            graphs = OutputGraphs.of(data, **options)
            refuse_dense(rows, unknowns_of_sparse_rows(rows, kernel, basis_rows, graphs.rank))
            space = smallest_space(rows, kernel, basis_rows, graphs.rank, placed)
            return hold_out(SettingProblem(data, options, graphs, space, given.alphas, measure))

        keep_best = self._search(self._settings(rows, data), judge)
        return keep_best()

    def _settings(self, X: Matrix, data: TrainingData) -> list[Mapping[str, Any]]:
        """Return all allowed combinations of kernel, cost and ties."""
        kernels = [
            as_kernel(kernel).fitted_to(X, data.sample_weight)
            for kernel in as_settings(self.kernel, "kernel")
        ]
        costs, ties = as_settings(self.cost, "cost"), as_settings(self.ties, "ties")
        if not data.is_scored:  # comparisons have no ties
            ties = ties[:1]
        every: list[Mapping[str, Any]] = [
            dict(zip(SEARCHED, values, strict=True)) for values in product(kernels, costs, ties)
        ]
        allowed = [s for s in every if s["ties"] != "keep" or s["cost"] == "magnitude"]
        return allowed or every

    def _search(
        self,
        settings: list[Mapping[str, Any]],
        judge: Callable[[Mapping[str, Any]], Judged],
    ) -> Callable[[], Self]:
        """Judge all settings; store all paths, return the function that keeps the best one.

        An interrupt keeps the finished settings. Weights are computed as soon as a setting is the
        best so far, so that no decomposition outlives its setting.
        """
        self.search_ = []
        best, keep_best = -np.inf, None
        try:
            for setting in followed(settings, len(settings), "RankRLSCV", shown=self.progress):
                judged = judge(setting)
                path = judged.path_of(None)
                # one alpha for all outputs, or one for each
                paths = [path]
                if self.alpha_per_output and judged.problem.graphs.is_multi_output:
                    paths = [judged.path_of(k) for k in range(judged.problem.data.scores.shape[1])]
                at = np.array([p.best(self.rule) for p in paths])
                goodness = float(np.mean([p.goodness(k) for p, k in zip(paths, at, strict=True)]))
                if keep_best is None or is_better(goodness, best):
                    weights, scores = judged.weights(path.grid[at]), judged.held_out_scores(at)
                    problem = judged.problem
                    found = setting, problem, path, paths, at, weights, scores
                    best, keep_best = goodness, partial(self._keep_best, *found)
                self.search_ = [*self.search_, Candidate(setting, path)]
        except KeyboardInterrupt:
            if keep_best is None or not self.search_:
                raise
            warn_caller(
                f"Interrupted after {len(self.search_)} of {len(settings)} settings: the best of "
                "these is used.",
                ConvergenceWarning,
            )
        assert keep_best is not None
        return keep_best

    def _keep_best(
        self,
        setting: Mapping[str, Any],
        problem: SettingProblem,
        path: SelectionPath,
        paths: list[SelectionPath],
        at: IntArray,
        weights: FloatArray,
        scores: FloatArray | None,
    ) -> Self:
        """Store the best setting, its paths and the chosen positions on them, and the fit."""
        self.kernel_, self.cost_, self.ties_ = (setting[name] for name in SEARCHED)
        self.path_, self.paths_, self.held_out_scores_ = path, paths, scores
        values = [p.values[k] for p, k in zip(paths, at, strict=True)]
        self.held_out_value_ = float(np.mean(values))
        alphas = path.grid[at]
        self.alpha_ = float(alphas[0]) if len(alphas) == 1 else alphas
        return self._keep_solution(problem.space, weights, problem.graphs, problem.data)
