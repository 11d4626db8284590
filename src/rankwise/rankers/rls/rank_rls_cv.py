"""RankRLS that chooses its regularisation by exact cross-validation."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.devices import Device, as_device
from rankwise.core.errors import ConvergenceWarning, InvalidInputError
from rankwise.core.training_data import TrainingData
from rankwise.features.function_space import FunctionSpace, smallest_space
from rankwise.features.kernels import as_kernel
from rankwise.features.maps import choose_basis
from rankwise.graph.preference_graph import OutputGraphs, PreferenceGraph
from rankwise.graph.query_weights import QueryWeight
from rankwise.measures.value import Measure
from rankwise.rankers.base import generator
from rankwise.rankers.closed_form import (
    ClosedFormCV,
    gather_held_out,
    judge_folds,
    leave_items_out,
    normal_equations,
    normal_equations_on,
)
from rankwise.rankers.rls.leave_pair_out import leave_edge_out, leave_pair_out
from rankwise.rankers.rls.leave_query_out import leave_query_out
from rankwise.rankers.rls.rank_rls import unknowns_of_sparse_rows
from rankwise.selection.holdouts import Folds, HeldOut, resolve_folds
from rankwise.selection.judging import as_measure, judge_edges, judge_pairs
from rankwise.selection.path import (
    Candidate,
    ChoiceRule,
    SelectionPath,
    as_settings,
    best_candidate,
    check_alphas,
)
from rankwise.solve.iteration import followed

Settings = Mapping[str, Any]
"""The kernel, cost and ties of a candidate."""

ALPHAS = tuple(2.0**k for k in range(-15, 16))
SEARCHED = ("kernel", "cost", "ties")
MOST_UNKNOWNS = 8192
"""Of sparse rows, whose exact hold-outs decompose a dense matrix of this order."""

NAMED_CV = ("auto", "leave_query_out", "leave_pair_out", "leave_edge_out")


@final
class RankRLSCV(ClosedFormCV):
    r"""Learn to rank by RankRLS with the regularisation chosen by exact cross-validation.

    Every alpha is judged by hold-outs in closed form: the same scores that retraining without each
    query, pair or comparison would give, at about the price of one training. The function is then
    fitted to all data with the best setting.

    Parameters
    ----------
    alphas : (n_alphas,)
        The values of alpha to choose from; see `RankRLS` for its meaning.
    cv : str, int, splitter or list of folds
        What is left out: "leave_query_out", "leave_pair_out" (one global ranking),
        "leave_edge_out" (comparisons), a number of random folds, a scikit-learn splitter of groups
        such as ``GroupKFold(5)``, or lists of rows. "auto" takes the first that fits the data.
        Folds hold whole queries; for one global ranking they hold items, and each is judged by
        itself after a fit to the others.
    measure : Measure or str, optional
        What decides, for example ``NDCG @ 10`` or "MAP"; the share of pairs in the right order
        when left out. Pairs and comparisons are judged by that share only.
    rule : {"best", "one_standard_error"}
        Take the best alpha, or the largest one within a standard error of it.
    kernel : kernel, str or list of these
        The kernel; of a list, the best is taken.
    cost, ties : str or list of str
        As in `RankRLS`; of a list, the best is taken. Ties are never kept with a cost that does
        not allow it.
    query_weight, basis
        As in `RankRLS`. A number of basis rows is drawn once for all settings and the final fit.
    device : str, optional
        As in `RankRLS`: for the kernel matrices, factorisations and decompositions, and the pairs
        left out of a complete graph.
    progress : bool
        Show a progress bar over the settings.
    random_state : int, RandomState or None
        Draws the basis rows and the folds where these are numbers.

    Attributes
    ----------
    alpha_ : float
        The chosen alpha.
    kernel_ : Kernel
        The chosen kernel.
    cost_, ties_ : str
        The chosen cost and treatment of ties.
    path_ : SelectionPath
        The values for every alpha, with standard errors and the value of each query.
    held_out_value_ : float
        The held-out value of the chosen setting.
    held_out_scores_ : (n_items,), (n_items, n_outputs) or None
        The held-out score of every item for the chosen setting, meaningful inside a query or a
        fold of items only. For comparisons, the held-out lead of each winner. None where pairs are
        left out.
    search_ : list of Candidate
        All settings (kernel, cost, ties), with their paths.
    coef_, dual_coef_, n_queries_, n_ignored_queries_, fitted_with_qid_, n_features_in_
        As in `RankRLS`.

    Notes
    -----
    [PTA09] Sect. 3.3, (33), and 3.4, (38). Where double precision cannot tell the answer (alpha
    near zero with a singular kernel) the value is NaN and never chosen. Interrupting a search over
    several settings keeps those that are done.

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

    def __init__(
        self,
        alphas: ArrayLike = ALPHAS,
        *,
        cv: Any = "auto",
        measure: Measure | str | None = None,
        rule: ChoiceRule = "best",
        kernel: Any = "linear",
        cost: str | list[str] = "magnitude",
        ties: str | list[str] = "drop",
        query_weight: QueryWeight = "items",
        basis: int | ArrayLike | None = None,
        device: str | None = None,
        progress: bool = False,
        random_state: Any = None,
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
    ) -> Self:
        """Judge every setting by its hold-outs, then fit the best one to all data.

        Parameters
        ----------
        X, y, qid, sample_weight, pairs, pair_margin, pair_weight
            As in `RankRLS`. Items of weight 0 are not judged.
        """
        alphas, measure = check_alphas(self.alphas), as_measure(self.measure)
        X = self._check_rows(X)
        data = TrainingData.of(X.shape[0], y, qid, sample_weight, pairs, pair_margin, pair_weight)
        rng = generator(self.random_state)
        basis_rows = choose_basis(self.basis, X, rng)
        folds = _resolve_cv(self.cv, X, data, self.query_weight, rng)
        device = as_device(self.device)
        hold_out = _HoldOut(X, data, self.query_weight, basis_rows, folds, alphas, measure, device)
        best, weights = self._search(hold_out)
        return self._keep_solution(best.space, weights, best.graphs, data)

    def _settings(self, X: Matrix, data: TrainingData) -> list[Settings]:
        """Return all allowed combinations of kernel, cost and ties."""
        kernels = [
            as_kernel(kernel).fitted_to(X, data.sample_weight)
            for kernel in as_settings(self.kernel, "kernel")
        ]
        costs, ties = as_settings(self.cost, "cost"), as_settings(self.ties, "ties")
        if not data.is_scored:  # comparisons have no ties
            ties = ties[:1]
        every: list[Settings] = [
            dict(zip(SEARCHED, values, strict=True)) for values in product(kernels, costs, ties)
        ]
        allowed = [s for s in every if s["ties"] != "keep" or s["cost"] == "magnitude"]
        return allowed or every

    def _search(self, hold_out: "_HoldOut") -> tuple["_Judged", FloatArray]:
        """Judge all settings; store the best, return it with its weights for all data.

        An interrupt keeps what is done. Weights are found as soon as a setting is the best so far,
        so that no decomposition outlives its setting.
        """
        settings = self._settings(hold_out.X, hold_out.data)
        self.search_: list[Candidate] = []
        try:
            for setting in followed(settings, len(settings), "RankRLSCV", shown=self.progress):
                judged = hold_out.judge(setting)
                candidates = [*self.search_, Candidate(setting, judged.path)]
                if best_candidate(candidates, self.rule) == len(self.search_):
                    position = judged.path.best(self.rule)
                    weights = hold_out.weights(judged, float(judged.path.grid[position]))
                    best = judged.at(position)
                self.search_ = candidates
        except KeyboardInterrupt:
            if not self.search_:
                raise
            warnings.warn(
                f"Interrupted after {len(self.search_)} of {len(settings)} settings: the best of "
                "these is used.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.alpha_ = float(self._keep_choice(best.path, best.scores))
        chosen = self.search_[best_candidate(self.search_, self.rule)].settings
        self.kernel_, self.cost_, self.ties_ = (chosen[k] for k in SEARCHED)
        return best, weights


def _resolve_cv(
    cv: Any, X: Matrix, data: TrainingData, query_weight: QueryWeight, rng: np.random.Generator
) -> Folds | None:
    """Return the folds that ``cv`` asks for; None where pairs or comparisons are left out."""
    name = cv if isinstance(cv, str) else ""
    if name and name not in NAMED_CV:
        raise InvalidInputError(
            f"`cv` must be {', '.join(map(repr, NAMED_CV))}, a number of folds, a splitter or a "
            f"list of folds: got {cv!r}."
        )
    if not data.is_scored:
        if name not in ("auto", "leave_edge_out"):
            raise InvalidInputError(
                "Comparisons must be left out one by one: use cv='leave_edge_out' or 'auto', "
                f"got {cv!r}."
            )
        return None
    if name == "leave_edge_out":
        raise InvalidInputError(
            "cv='leave_edge_out' is for comparisons: got scores. Use cv='auto'."
        )
    if name == "leave_pair_out" or (name == "auto" and not data.has_qid):
        _refuse_pairs(data, query_weight)
        return None
    return resolve_folds(cv, X, data, rng)


def _refuse_pairs(data: TrainingData, query_weight: QueryWeight) -> None:
    """Refuse what pairs of items cannot be left out of."""
    if data.has_qid:
        raise InvalidInputError(
            "cv='leave_pair_out' is for scores of one global ranking: got `qid`. Use cv='auto'."
        )
    if not isinstance(query_weight, str):
        raise InvalidInputError(
            "cv='leave_pair_out' must have a named `query_weight`: got "
            f"{query_weight!r}. A single query needs no weight of its own."
        )


@final
@dataclass(frozen=True, eq=False)
class _HoldOut:
    """What all settings of a search share: the data, what is left out of them, what decides."""

    X: Matrix
    data: TrainingData
    query_weight: Any
    basis_rows: Matrix | None
    folds: Folds | None
    alphas: FloatArray
    measure: Measure
    device: Device | None

    def judge(self, settings: Settings) -> "_Judged":
        """Return the values of all alphas for some settings, and what the final fit needs."""
        graphs = OutputGraphs.of(self.data, **self._options(settings))
        kernel, rank = settings["kernel"], graphs.rank
        _refuse_dense(self.X, unknowns_of_sparse_rows(self.X, kernel, self.basis_rows, rank))
        space = smallest_space(self.X, kernel, self.basis_rows, rank)
        if self.folds is not None:
            return self._judge_folds(self.folds, graphs, space, settings)
        if self.data.is_scored:
            options = self._options(settings)
            pairs = leave_pair_out(space, self.data, self.alphas, device=self.device, **options)
            path = judge_pairs(pairs, self.measure, self.alphas)
            return _Judged(graphs, space, path, solve=_looked_up(pairs.weights, self.alphas))
        edges = leave_edge_out(space, self.data, self.alphas, cost=settings["cost"])
        weight = self.data.comparisons[2]
        path = judge_edges(edges, weight, self.measure, self.alphas)
        return _Judged(graphs, space, path, edges.differences)

    def weights(self, judged: "_Judged", alpha: float) -> FloatArray:
        """Return the weights of a setting fitted to all data for an alpha."""
        if judged.solve is not None:
            return judged.solve(alpha)
        device, space, X = self.device, judged.space, self.X
        return judged.graphs.gather(
            lambda graph: normal_equations_on(device, space, graph, X).solve(alpha)
        )

    def _options(self, settings: Settings) -> dict[str, Any]:
        cost, ties = settings["cost"], settings["ties"]
        return {"cost": cost, "ties": ties, "query_weight": self.query_weight}

    def _judge_folds(
        self, folds: Folds, graphs: OutputGraphs, space: FunctionSpace, settings: Settings
    ) -> "_Judged":
        """Leave out whole queries, or items of one global ranking."""
        alphas = self.alphas
        if self.data.has_qid:
            held_out = gather_held_out(
                graphs,
                lambda graph: leave_query_out(space, graph, folds, alphas, device=self.device),
            )
        else:
            refit = partial(_refitted_scores, space, alphas)
            options = self._options(settings)
            held_out = leave_items_out(self.data, folds, len(alphas), refit, **options)
        path = judge_folds(held_out, self.data, folds, self.measure, alphas, "alpha", "largest")
        scores = held_out.scores if graphs.is_multi_output else held_out.scores[:, :, 0]
        return _Judged(graphs, space, path, scores, held_out.solve)


@final
@dataclass(frozen=True, eq=False)
class _Judged:
    """A setting that was judged: its problem, its path, and what the hold-outs found on the way."""

    graphs: OutputGraphs
    space: FunctionSpace
    path: SelectionPath
    scores: FloatArray | None = None
    """Held-out scores for every alpha."""
    solve: Callable[[float], FloatArray] | None = None
    """Gives the weights fitted to all data, where the hold-outs know them."""

    def at(self, position: int) -> Self:
        """Keep the scores of one alpha, and no decomposition."""
        scores = None if self.scores is None else self.scores[position].copy()
        return replace(self, scores=scores, solve=None)


def _refuse_dense(X: Matrix, n_unknowns: int) -> None:
    """Refuse to decompose a large dense matrix for sparse rows, which iterations do not need."""
    if n_unknowns > MOST_UNKNOWNS:
        raise InvalidInputError(
            f"Exact hold-outs of sparse rows must have at most {MOST_UNKNOWNS:,} unknowns, "
            f"features or preferences: got {n_unknowns:,} from X of shape {X.shape}, whose dense "
            f"matrix takes {8e-9 * n_unknowns**2:.1f} GB and many minutes. Use "
            "LinearRankRLS(alphas=...), which iterates and chooses by validation, or give `basis`."
        )


def _looked_up(
    weights: FloatArray | None, alphas: FloatArray
) -> Callable[[float], FloatArray] | None:
    """Return a function that gives the weights of an alpha of the grid, where these are known."""
    if weights is None:
        return None
    known = weights
    return lambda alpha: known[int(np.flatnonzero(alphas == alpha)[0])]


def _refitted_scores(
    space: FunctionSpace,
    alphas: FloatArray,
    kept: IntArray,
    out: IntArray,
    graph: PreferenceGraph,
) -> HeldOut:
    """Return the scores of some rows by a fit to the graph of others, for every alpha."""
    system = normal_equations(space, graph, kept)
    spectrum = system.spectrum()
    solutions = [system.lift(C) for C in spectrum.path(system.rhs, alphas)]  # [PTA09] (31)
    scores = [space.scores(W.T, kept, out).T for W in solutions]
    return HeldOut(np.stack(scores), np.finfo(float).eps / spectrum.rcond(alphas))
