"""RankRLS that chooses its regularisation by exact cross-validation."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.checks import check_scores, check_weight
from rankwise.core.errors import ConvergenceWarning, InvalidInputError
from rankwise.core.queries import Queries
from rankwise.graph.query_weights import QueryWeight
from rankwise.measures.value import Measure
from rankwise.rankers.closed_form import ClosedFormRanker
from rankwise.rankers.preferences import Given, Preferences
from rankwise.rankers.rls.leave_edge_out import leave_edge_out
from rankwise.rankers.rls.leave_pair_out import pairs_held_out
from rankwise.rankers.rls.leave_query_out import leave_out
from rankwise.selection.holdouts import Folds, HeldOut
from rankwise.selection.judging import as_measure, judge_edges, judge_pairs, judge_scores
from rankwise.selection.path import Candidate, ChoiceRule, Path, check_alphas
from rankwise.selection.spaces import Space
from rankwise.solve.progress import followed

ALPHAS = tuple(2.0**k for k in range(-15, 16))


@final
class RankRLSCV(ClosedFormRanker):
    r"""Learn to rank by RankRLS with the regularisation chosen by exact cross-validation.

    Every alpha is judged by hold-outs in closed form: the same scores that retraining without each
    query, pair or comparison would give, at about the price of one training. The function is then
    fitted to all data with the best setting.

    Parameters
    ----------
    alphas : (n_alphas,)
        The values of alpha to choose from; see `RankRLS` for its meaning.
    cv : str, splitter or list of folds
        What is left out: "leave_query_out", "leave_pair_out" (one global ranking),
        "leave_edge_out" (comparisons), a scikit-learn splitter of groups such as
        ``GroupKFold(5)``, or lists of rows. "auto" takes the first that fits the data.
    measure : Measure or str, optional
        What decides, for example ``NDCG @ 10`` or "MAP"; the share of pairs in the right order
        when left out. Pairs and comparisons are judged by that share only.
    rule : {"best", "one_standard_error"}
        Take the best alpha, or the largest one within a standard error of it.
    kernel : kernel, str or list of these
        The kernel; of several, the best is taken.
    cost, ties : str or list of str
        As in `RankRLS`; of several, the best is taken. Ties are never kept with a cost that does
        not allow it.
    query_weight, basis, random_state
        As in `RankRLS`.
    progress : bool
        Show a progress bar over the settings.

    Attributes
    ----------
    alpha_ : float
        The chosen alpha.
    kernel_ : Kernel
        The chosen kernel.
    cost_, ties_ : str
        The chosen cost and treatment of ties.
    path_ : Path
        The values for every alpha, with standard errors and the value of each query.
    cv_value_ : float
        The cross-validated value of the chosen setting.
    cv_scores_ : (n_items,) or (n_items, n_outputs)
        The held-out score of every item for the chosen setting, where queries are left out;
        meaningful inside a query only. For comparisons, the held-out lead of each winner.
    search_ : list of Candidate
        All settings, with their paths.
    coef_, dual_coef_, n_queries_, ignored_queries_, fitted_with_qid_, n_features_in_
        As in `RankRLS`.

    Notes
    -----
    [PTA09] Sect. 3.3 and 3.4. Where double precision cannot tell the answer (alpha near zero with
    a singular kernel) the value is NaN and never chosen. Interrupting a search over several
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
    >>> round(ranker.cv_value_, 3)
    0.721
    >>> ranker.path_.per_query.shape, ranker.cv_scores_.shape
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
        cost: str | Sequence[str] = "magnitude",
        ties: str | Sequence[str] = "drop",
        query_weight: QueryWeight = "items",
        basis: int | ArrayLike | None = None,
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
        alphas = check_alphas(self.alphas)
        measure = as_measure(self.measure)
        X = self._check_rows(X)
        given = Given(y, qid, sample_weight, pairs, pair_margin, pair_weight)
        judge = _Judge(X, given, alphas, measure, self._method(given), self.query_weight)
        self._search(X, given, judge)
        preferences = self._preferences(X, given, self.cost_, self.ties_)
        space = self._space(X, self.kernel_, preferences)
        weights = preferences.gather(lambda graph: space.system(graph).solve(self.alpha_))
        return self._keep(space, weights, preferences, with_qid=qid is not None)

    def plot_path(self, ax: Any = None) -> Any:
        """Draw the chosen setting's values against alpha, with standard errors; return the axes.

        Needs matplotlib, the extra "plot".
        """
        return self.path_.plot(ax, self.path_.best(self.rule))

    def _method(self, given: Given) -> Any:
        """Return what is left out, for ``cv="auto"`` the first kind that fits the data."""
        if isinstance(self.cv, str) and self.cv == "auto":
            if given.y is None:
                return "leave_edge_out"
            return "leave_pair_out" if given.qid is None else "leave_query_out"
        return self.cv

    def _settings(self) -> list[tuple[Any, str, str]]:
        settings = list(product(_as_list(self.kernel), _as_list(self.cost), _as_list(self.ties)))
        allowed = [s for s in settings if not (s[2] == "keep" and s[1] != "magnitude")]
        return allowed or settings

    def _search(self, X: Matrix, given: Given, judge: "_Judge") -> None:
        """Judge all settings and keep the best; an interrupt keeps what is done."""
        settings = self._settings()
        self.search_: list[Candidate] = []
        held_out: list[FloatArray | None] = []
        try:
            for kernel, cost, ties in followed(
                settings, len(settings), "RankRLSCV", shown=self.progress
            ):
                preferences = self._preferences(X, given, cost, ties)
                space = self._space(X, kernel, preferences)
                path, scores = judge.judge(space, preferences, cost, ties)
                self.search_.append(Candidate(self.kernel_, cost, ties, path))
                held_out.append(None if scores is None else scores[path.best(self.rule)])
        except KeyboardInterrupt:
            if not self.search_:
                raise
            warnings.warn(
                f"Interrupted after {len(self.search_)} of {len(settings)} settings: the best of "
                "these is used.",
                ConvergenceWarning,
                stacklevel=3,
            )
        best = _best(self.search_, self.rule)
        chosen = self.search_[best]
        self.kernel_, self.cost_, self.ties_ = chosen.kernel, chosen.cost, chosen.ties
        self.path_, self.cv_scores_ = chosen.path, held_out[best]
        position = chosen.path.best(self.rule)
        self.alpha_ = float(chosen.path.alphas[position])
        self.cv_value_ = float(chosen.path.values[position])


@final
@dataclass(frozen=True, eq=False)
class _Judge:
    """How settings are judged: what is left out, and which measure decides."""

    X: Matrix
    given: Given
    alphas: FloatArray
    measure: Measure
    method: Any
    query_weight: QueryWeight

    def judge(
        self, space: Space, preferences: Preferences, cost: str, ties: str
    ) -> tuple[Path, FloatArray | None]:
        """Return the values of all alphas for one setting, and what was held out."""
        if isinstance(self.method, str) and self.method == "leave_edge_out":
            return self._edges(space, preferences)
        if isinstance(self.method, str) and self.method == "leave_pair_out":
            return self._pairs(space, cost, ties), None
        return self._queries(space, preferences)

    @property
    def _scores(self) -> FloatArray:
        scores = check_scores(_required(self.given.y))
        return scores.reshape(len(scores), -1)

    def _weight(self) -> FloatArray:
        n_items = self.X.shape[0]
        return check_weight("sample_weight", self.given.sample_weight, n_items, "row of `X`")

    def _folds(self, queries: Queries) -> Folds:
        if isinstance(self.method, str):
            if self.method != "leave_query_out":
                raise InvalidInputError(
                    "`cv` must be 'auto', 'leave_query_out', 'leave_pair_out', 'leave_edge_out', "
                    f"a splitter or a list of folds: got {self.method!r}."
                )
            return Folds.by_query(queries)
        lists = self.method
        if callable(getattr(lists, "split", None)):
            lists = lists.split(self.X, self._scores[:, 0], queries.index)
        return Folds.from_lists(lists, queries.n_items)

    def _queries(self, space: Space, preferences: Preferences) -> tuple[Path, FloatArray]:
        if self.given.y is None:
            raise InvalidInputError(
                "Comparisons must be left out one by one: use cv='leave_edge_out' or 'auto', "
                f"got {self.method!r}."
            )
        queries = preferences.first.queries
        folds = self._folds(queries)
        parts = [leave_out(space, graph, folds, self.alphas) for graph in preferences]
        numbered = iter(parts)
        scores = preferences.gather(lambda _: next(numbered).scores)
        held_out = HeldOut(scores, np.max([part.error for part in parts], axis=0))
        rows = np.flatnonzero((folds.fold >= 0) & (self._weight() > 0))
        path = judge_scores(held_out, self._scores, queries, rows, self.measure, self.alphas)
        return path, scores if preferences.is_multi_output else scores[:, :, 0]

    def _pairs(self, space: Space, cost: str, ties: str) -> Path:
        if self.given.y is None or self.given.qid is not None:
            raise InvalidInputError(
                "cv='leave_pair_out' is for scores of one global ranking: got "
                f"{'comparisons' if self.given.y is None else '`qid`'}. Use cv='auto'."
            )
        if not isinstance(self.query_weight, str):
            raise InvalidInputError(
                "cv='leave_pair_out' must have a named `query_weight`: got "
                f"{self.query_weight!r}. A single query needs no weight of its own."
            )
        held_out = pairs_held_out(
            space,
            self._scores,
            self._weight(),
            self.alphas,
            cost=cost,
            ties=ties,
            query_weight=self.query_weight,
        )
        return judge_pairs(held_out, self.measure, self.alphas)

    def _edges(self, space: Space, preferences: Preferences) -> tuple[Path, FloatArray]:
        if self.given.pairs is None:
            raise InvalidInputError(
                "cv='leave_edge_out' is for comparisons: got scores. Use cv='auto'."
            )
        pairs = np.asarray(self.given.pairs)
        margin = self.given.pair_margin
        z = np.ones(len(pairs)) if margin is None else np.asarray(margin, dtype=float)
        weight = check_weight("pair_weight", self.given.pair_weight, len(pairs), "pair")
        held_out = leave_edge_out(space, preferences.first, pairs, z, weight, self.alphas)
        path = judge_edges(held_out, weight, self.measure, self.alphas)
        return path, held_out.differences


def _required(y: ArrayLike | None) -> ArrayLike:
    if y is None:
        raise InvalidInputError("Leaving out queries or pairs needs scores `y`: got comparisons.")
    return y


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _best(candidates: list[Candidate], rule: ChoiceRule) -> int:
    """Return the setting with the best value at its chosen alpha; the first of equals."""
    values = np.array([c.path.values[c.path.best(rule)] for c in candidates])
    better = values if candidates[0].path.measure.greater_is_better else -values
    return int(np.argmax(better))
