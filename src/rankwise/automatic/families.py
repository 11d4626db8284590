"""The families that an automatic search tries: features, settings, and held-out scores."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import Any, Literal, TypeAlias, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries, TrainingData
from rankwise.features.function_space import FunctionSpace, smallest_space
from rankwise.features.kernels import Gaussian, Kernel, Linear
from rankwise.graph.preference_graph import PreferenceGraph, Ties
from rankwise.measures.value import Judgements, Measure, weighted_mean
from rankwise.rankers.base import Ranker
from rankwise.rankers.dorm.dorm import DORM
from rankwise.rankers.pipeline import RankerPipeline, join_fitted
from rankwise.rankers.rls.rank_rls import RankRLS
from rankwise.rankers.svm.rank_svm import RankSVM
from rankwise.rankers.trees.boosted_ranker import (
    BoostedRanker,
    TreeProblem,
    fit_to_problem,
    keep_first_trees,
    staged_scores,
    trees_of_folds,
)
from rankwise.selection.holdouts import Folds
from rankwise.selection.leave_query_out import leave_query_out
from rankwise.selection.ties import equal_ties
from rankwise.transformers.numeric import (
    WithinQueryRanks,
    WithinQueryScaler,
    ranks_within_queries,
)
from rankwise.transformers.rows import KeptFeatures

N_BASIS = 200
"""Basis rows of Gaussian kernels, at most."""

ALPHAS: FloatArray = np.exp2(np.arange(-10.0, 13.0, 2.0))
KERNEL_ALPHAS: FloatArray = np.exp2(np.arange(-8.0, 9.0, 2.0))
HINGE_CS = (0.001, 0.01, 0.1)
DORM_CS = (0.01,)
KERNEL_DORM_CS = (0.01, 0.3)

MANY_CELLS = 10_000_000
"""Number of cells from which a table is large: only the quickest families are tried."""

BLOCK_CELLS = 2_000_000
"""Cells of features that are judged at a time."""

STAGE = 10
"""Trees per stage."""

PATIENCE, RACE = {False: 2, True: 5}, {False: 3, True: 8}
"""Stages without improvement before the end, and stages after which the better share of features
is known, for few items and for many."""

FEATURE_SHARE, LEAST_FEATURES, FEATURES_OF_TREE = 0.3, 4, 40
"""Share of the features that a tree is grown from, their smallest and largest number, about."""

MANY_ITEMS = 50_000
"""Number of items from which trees are more, have more leaves, and see finer values."""

FeatureSet: TypeAlias = Literal["scaled", "ranked", "raw_ranked", "crossed", "raw_ranked_crossed"]

STEPS: dict[FeatureSet, list[Callable[[], Any]]] = {
    "scaled": [WithinQueryScaler],
    "crossed": [WithinQueryScaler],
    "ranked": [WithinQueryScaler, partial(WithinQueryRanks, "values_and_ranks")],
    "raw_ranked": [partial(WithinQueryRanks, "values_and_ranks")],
    "raw_ranked_crossed": [partial(WithinQueryRanks, "values_and_ranks")],
}
"""How each set of features is made: scaled in the query, these with their ranks, raw with ranks."""

CROSSED: dict[FeatureSet, FeatureSet] = {"scaled": "crossed", "raw_ranked": "raw_ranked_crossed"}
"""The same with crosses of categories, which all other sets leave out."""


@final
@dataclass(frozen=True, eq=False)
class SingleFeature:
    """A feature as a ranker by itself.

    Parameters
    ----------
    at : int
        Its position.
    is_down : bool
        Whether its lowest values come first.
    value : float
        Its mean value.
    values : (n_judged,)
        Its value in every query.
    """

    at: int
    is_down: bool
    value: float
    values: FloatArray


@final
@dataclass(frozen=True, eq=False)
class Trial:
    """The data that families are tried on; features, bins and kernels are computed once for all.

    Parameters
    ----------
    X : (n_items, n_features)
        Numbers without blanks.
    data : TrainingData
        Scores and queries.
    folds : Folds
        The folds that are held out in turn, the same for every family.
    judged : Queries
        The groups of held-out items that are judged: the queries or, without queries, the folds.
    measure : Measure
        The measure that decides.
    seed : int
        Draws basis rows.
    deadline : float
        When to stop, by `time.thread_time`, which does not count the work of other programs.
    without : tuple of Trial
        For each fold, the same with rows that were prepared without its scores; empty if all folds
        share their rows.
    monotone : tuple of int
        The features in which scores may only rise (1) or fall (-1); 0 for others. May be shorter.
    crosses : tuple of int
        The features that come with crosses of categories.
    new : str
        What is new in held-out queries besides themselves, such as "of new items".
    """

    X: FloatArray
    data: TrainingData
    folds: Folds
    judged: Queries
    measure: Measure
    seed: int
    deadline: float
    without: tuple["Trial", ...] = ()
    monotone: tuple[int, ...] = ()
    crosses: tuple[int, ...] = ()
    new: str = ""

    def for_fold(self, fold: int) -> "Trial":
        """Return the trial whose rows a fold is held out of."""
        return self.without[fold] if self.without else self

    @property
    def qid(self) -> IntArray | None:
        """The queries as numbers, if there are any."""
        return self.data.queries.index if self.data.has_qid else None

    @property
    def n_basis(self) -> int:
        """Number of basis rows: fewer for few features, which make simpler functions."""
        return min(N_BASIS, self.data.n_items, 50 + 10 * len(self.plain))

    @property
    def plain(self) -> list[int]:
        """The features without crosses."""
        return [j for j in range(self.X.shape[1]) if j not in self.crosses]

    def with_crosses(self, kind: FeatureSet) -> list[FeatureSet]:
        """Return a set of features, and the same with crosses if there are any."""
        return [kind, CROSSED[kind]] if self.crosses and kind in CROSSED else [kind]

    def is_over(self) -> bool:
        """Return whether time is up."""
        return time.thread_time() > self.deadline

    @cached_property
    def _cache(self) -> dict[str, Any]:
        return {}

    def cached(self, name: str, make: Callable[[], Any]) -> Any:
        """Return a cached result by its name, or compute it."""
        if name not in self._cache:
            self._cache[name] = make()
        return self._cache[name]

    def steps(self, kind: FeatureSet) -> list[Any]:
        """Return fitted transformers that make some features."""
        return [step for step, _ in self._transformed(kind)]

    def features(self, kind: FeatureSet) -> FloatArray:
        """Return features of all items."""
        return self._transformed(kind)[-1][1]

    def _transformed(self, kind: FeatureSet) -> list[tuple[Any, FloatArray]]:
        """Return each transformer with its output; sets with equal first steps share them."""
        rows, chain, name = self.X, [], ""
        makers = list(STEPS[kind])
        if self.crosses and kind not in CROSSED.values():
            makers.insert(0, partial(KeptFeatures, self.plain))
        for make in makers:
            step = make()
            name += f" {step!r}"
            make_step = partial(_fit_transform, step, rows, self.data)
            chain.append(self.cached(name, make_step))
            rows = chain[-1][1]
        return chain

    def space(self, kind: FeatureSet, *, gaussian: bool) -> FunctionSpace:
        """Return linear functions of some features, or a Gaussian kernel on basis rows."""
        X = self.features(kind)
        if not gaussian:
            return smallest_space(X, Linear(), None, len(X))
        kernel, rows = self.kernel(kind), self.basis(kind)
        make = partial(smallest_space, X, kernel, rows, len(X))
        return self.cached(f"space {kind}", make)

    def kernel(self, kind: FeatureSet) -> Kernel:
        """Return a Gaussian kernel whose width grows with the number of features."""
        return Gaussian(1.0 / self.features(kind).shape[1])

    def basis(self, kind: FeatureSet) -> FloatArray:
        """Return random rows."""
        rng = np.random.default_rng(self.seed)
        rows = rng.choice(self.data.n_items, self.n_basis, replace=False)
        return self.features(kind)[np.sort(rows)]

    @property
    def has_many_items(self) -> bool:
        """Whether trees are more, have more leaves, and see finer values."""
        return self.data.n_items >= MANY_ITEMS

    @property
    def max_bins(self) -> int:
        """How finely trees see features."""
        return 255 if self.has_many_items else 63

    def trees(self, kind: FeatureSet) -> TreeProblem:
        """Return raw features and their ranks, in bins."""
        make = partial(TreeProblem.of, self.features(kind), self.data, max_bins=self.max_bins)
        return self.cached(f"trees {kind}", make)

    @cached_property
    def query_weight(self) -> FloatArray:
        """The weight of each judged query in the measure."""
        return self.measure.prepare(Judgements.of(self.grades, self.judged)).weight

    @cached_property
    def judged_rows(self) -> IntArray | slice:
        """The items that some fold holds out."""
        held = self.folds.fold >= 0
        return slice(None) if held.all() else np.flatnonzero(held)

    @cached_property
    def grades(self) -> FloatArray:
        """The given scores of the judged items."""
        return self.data.scores[self.judged_rows]

    @cached_property
    def fold_of_query(self) -> IntArray:
        """The fold of each judged query."""
        fold = np.empty(self.judged.n_queries, dtype=np.intp)
        fold[self.judged.index] = self.folds.fold[self.judged_rows]
        return fold

    @cached_property
    def distinct_share(self) -> float:
        """The share of the judged items that are distinct, of those that stand in queries anew."""
        if self.folds.apart is None:
            return 1.0
        items = self.folds.apart[self.judged_rows]
        known = items[items >= 0]
        return float((len(items) - len(known) + len(np.unique(known))) / max(len(items), 1))

    def values(self, scores: FloatArray) -> FloatArray:
        """Return the values of scores of the judged items in every query; larger is better."""
        tied = equal_ties(scores[:, :, None], self.judged.index, np.zeros(len(scores)))[:, :, 0]
        values = self.measure.values_many(self.grades, tied, self.judged)
        return values if self.measure.greater_is_better else -values

    @cached_property
    def limits(self) -> FloatArray:
        """The values of the worst and of the best order in every query, (2, n_judged)."""
        return self.values(np.stack([-self.grades, self.grades]))

    def value(self, scores: FloatArray) -> float:
        """Return the overall value of a score vector of the judged items; larger is better."""
        return float(weighted_mean(self.values(scores[None]), self.query_weight)[0])

    @cached_property
    def columns(self) -> FloatArray:
        """The features of the judged items, each as prepared without the fold of the item."""
        if not self.without:
            return self.X[self.judged_rows]
        found = np.empty((self.data.n_items, self.X.shape[1]))
        for fold in range(self.folds.n_folds):
            rows = np.flatnonzero(self.folds.fold == fold)
            found[rows] = self.for_fold(fold).X[rows]
        return found[self.judged_rows]

    @cached_property
    def column_values(self) -> FloatArray:
        """The values of each feature, up and down, (2, n_features, n_judged)."""
        step = max(BLOCK_CELLS // max(len(self.grades), 1), 1)
        starts = range(0, self.X.shape[1], step)
        blocks = (np.ascontiguousarray(self.columns[:, k : k + step].T) for k in starts)
        return np.concatenate([(self.values(up), self.values(-up)) for up in blocks], axis=1)

    @cached_property
    def best_column(self) -> SingleFeature:
        """The feature that ranks best by itself, up or down."""
        means = weighted_mean(self.column_values, self.query_weight)
        means = np.nan_to_num(means, nan=-np.inf)
        j = int(means.max(axis=0).argmax())
        down = int(means[:, j].argmax())
        return SingleFeature(j, bool(down), float(means[down, j]), self.column_values[down, j])

    def pipeline(self, kind: FeatureSet, ranker: Ranker) -> RankerPipeline:
        """Put transformers before a ranker that was fitted to their output."""
        return join_fitted([*self.steps(kind), ranker], self.X, self.data)


def judged_groups(data: TrainingData, folds: Folds) -> Queries:
    """Return the groups of held-out items: the queries or, without queries, the folds."""
    held = np.flatnonzero(folds.fold >= 0)
    return data.queries.take(held) if data.has_qid else Queries.from_qid(folds.fold[held])


def _fit_transform(step: Any, rows: FloatArray, data: TrainingData) -> tuple[Any, FloatArray]:
    features = step.fit_transform(rows, data.scores, data.queries if data.has_qid else None)
    return step, features


@final
@dataclass(frozen=True, eq=False)
class SettingsPath:
    """Held-out scores along a grid of settings, and how to fit one of them to all data.

    Parameters
    ----------
    scores : (n_settings, n_items)
        Every item scored by a model that has not seen its fold.
    fit : function
        Takes the number of a setting and returns a ranker fitted to all items.
    is_grid : bool
        Whether settings follow each other, so that neighbours are nearly as good.
    values : (n_settings, n_judged), optional
        Their values in every query, if they are known already.
    """

    scores: FloatArray
    fit: Callable[[int], RankerPipeline]
    is_grid: bool = True
    values: FloatArray | None = None


Search: TypeAlias = Callable[[Trial], list[SettingsPath]]


@final
@dataclass(frozen=True, eq=False)
class Family:
    """One way to learn.

    Parameters
    ----------
    name : str
        Its name in the leaderboard.
    search : function
        Returns held-out scores for every setting, in one path or several.
    bytes_per_item : function
        The memory that an item takes, given the number of features, including shared data.
    is_monotone : bool
        Whether its scores can be held to rise or to fall in a feature.
    is_quick : bool
        Whether it is tried on large tables.
    like : str
        The family that learns the same functions in closed form. If that one is far behind, this
        one would be too.
    """

    name: str
    search: Search
    bytes_per_item: Callable[[int], int]
    is_monotone: bool = False
    is_quick: bool = False
    like: str = ""


def _least_squares(kind: FeatureSet, ties: Sequence[Ties], *, gaussian: bool = False) -> Search:
    """RankRLS in closed form, with all alphas and some ways to treat ties."""
    alphas = KERNEL_ALPHAS if gaussian else ALPHAS

    def path(trial: Trial, features: FeatureSet, tie_rule: Ties) -> SettingsPath:
        def make_space(rows: Trial) -> FunctionSpace:
            return rows.space(features, gaussian=gaussian)

        return SettingsPath(
            _held_out_scores(trial, make_space, alphas, tie_rule),
            partial(_fit_rls, trial, features, alphas, tie_rule, gaussian=gaussian),
        )

    def search(trial: Trial) -> list[SettingsPath]:
        kinds = [kind] if gaussian else trial.with_crosses(kind)
        return [path(trial, features, tie_rule) for features in kinds for tie_rule in ties]

    return search


def _held_out_scores(
    trial: Trial,
    make_space: Callable[[Trial], FunctionSpace],
    alphas: FloatArray,
    ties: Ties,
) -> FloatArray:
    """Return the scores without each fold, for every alpha.

    Refits replace the closed form where there are no queries, where folds have their own rows, or
    where not each of them is held out from all others.
    """
    if trial.data.has_qid and not trial.without and trial.folds.is_cyclic:
        graph = PreferenceGraph.of(trial.data, ties=ties)
        return leave_query_out(make_space(trial), graph, trial.folds, alphas).scores[:, :, 0]
    rls = RankRLS(ties=ties)

    def features(rows: Trial) -> FloatArray:
        return np.asarray(make_space(rows).features())

    def path(Z: FloatArray, part: TrainingData) -> Sequence[Any]:
        return rls.fit_path(Z, part.scores, _qid(part), part.sample_weight, alphas=alphas)

    return _refitted(trial, features, path, len(alphas))


def _qid(data: TrainingData) -> IntArray | None:
    return data.queries.index if data.has_qid else None


def _fit_rls(
    trial: Trial, kind: FeatureSet, alphas: FloatArray, ties: Ties, k: int, *, gaussian: bool
) -> RankerPipeline:
    kernel: dict[str, Any] = {}
    if gaussian:
        kernel = {"kernel": trial.kernel(kind), "basis": trial.basis(kind)}
    ranker = RankRLS(float(alphas[k]), ties=ties, **kernel)
    data = trial.data
    ranker.fit(trial.features(kind), data.scores, trial.qid, data.sample_weight)
    return trial.pipeline(kind, ranker)


def _refitted(
    trial: Trial,
    features: Callable[[Trial], FloatArray],
    path: Callable[[FloatArray, TrainingData], Sequence[Any]],
    n_settings: int,
) -> FloatArray:
    """Return held-out scores by fits without each fold, a path of rankers each."""
    scores = np.full((n_settings, trial.data.n_items), np.nan)
    # train without the fold along the grid, and score the fold
    for fold, (kept, out) in enumerate(trial.folds.rounds):
        X = features(trial.for_fold(fold))
        for k, ranker in enumerate(path(X[kept], trial.data.take(kept))):
            scores[k, out] = ranker.predict(X[out])
    return scores


def _hinge(kind: FeatureSet) -> Search:
    """RankSVM, each C started from the solution of the previous one."""

    def search(trial: Trial) -> list[SettingsPath]:
        svm = RankSVM(query_weight="items", tol=1e-3, max_iter=100)

        def features(rows: Trial) -> FloatArray:
            return rows.features(kind)

        def path(X: FloatArray, part: TrainingData) -> Sequence[Any]:
            fitted = svm.fit_path(X, part.scores, _qid(part), part.sample_weight, Cs=HINGE_CS)
            return _uninterrupted(fitted)

        def fit(k: int) -> RankerPipeline:
            ranker = svm._at("C", HINGE_CS[k])
            data = trial.data
            ranker.fit(trial.features(kind), data.scores, trial.qid, data.sample_weight)
            _uninterrupted([ranker])
            return trial.pipeline(kind, ranker)

        return [SettingsPath(_refitted(trial, features, path, len(HINGE_CS)), fit)]

    return search


def _direct(*, gaussian: bool) -> Search:
    """DORM for NDCG, linear or on the basis rows of a Gaussian kernel; C matters little."""
    grid = KERNEL_DORM_CS if gaussian else DORM_CS

    def search(trial: Trial) -> list[SettingsPath]:
        kernel: dict[str, Any] = {}
        if gaussian:
            kernel = {"kernel": trial.kernel("scaled"), "basis": trial.basis("scaled")}

        def features(rows: Trial) -> FloatArray:
            if not gaussian:
                return rows.features("scaled")
            return np.asarray(rows.space("scaled", gaussian=True).features())

        # held-out scores on the mapped features; the final fit maps raw ones
        make = partial(DORM, "NDCG(gain='exponential')", tol=1e-2, random_state=trial.seed)
        found = [_refitted(trial, features, partial(_fit_dorm, make(C)), 1)[0] for C in grid]

        def fit(k: int) -> RankerPipeline:
            ranker = _fit_dorm(make(grid[k], **kernel), trial.features("scaled"), trial.data)
            return trial.pipeline("scaled", ranker[0])

        return [SettingsPath(np.stack(found), fit)]

    return search


def _fit_dorm(ranker: DORM, Z: FloatArray, part: TrainingData) -> Sequence[Any]:
    return _uninterrupted([ranker.fit(Z, part.scores, _qid(part), part.sample_weight)])


def _uninterrupted(rankers: Sequence[Any]) -> Sequence[Any]:
    """Return rankers that ended by themselves: one that Ctrl-C ended ends the search too."""
    for ranker in rankers:
        if ranker.solution_.ending.reason == "interrupted":
            raise KeyboardInterrupt
    return rankers


def _single(trial: Trial) -> list[SettingsPath]:
    """Rank by one feature, up or down."""
    columns = trial.columns
    if columns.size > MANY_CELLS:
        raise InvalidInputError(f"there are more than {MANY_CELLS:,} cells to look at one by one.")
    ranks = ranks_within_queries(columns, trial.judged).T
    found = []
    for sign, values in zip((1.0, -1.0), trial.column_values, strict=True):
        scores = np.full((len(ranks), trial.data.n_items), np.nan)
        scores[:, trial.judged_rows] = sign * ranks
        fit = partial(_fit_single, trial, sign)
        found.append(SettingsPath(scores, fit, is_grid=False, values=values))
    return found


def _fit_single(trial: Trial, sign: float, column: int) -> RankerPipeline:
    """Return the ranks of a feature, with a sign: what is learned is their own order."""
    kept, ranked = KeptFeatures([column]), WithinQueryRanks()
    queries = trial.data.queries if trial.data.has_qid else None
    ranks = ranked.fit_transform(kept.fit_transform(trial.X, qid=queries), qid=queries)
    ranker = RankRLS().fit(ranks, sign * ranks[:, 0], trial.qid)
    return join_fitted([kept, ranked, ranker], trial.X, trial.data)


def _trees(loss: Any) -> Search:
    """Boosted trees, all folds side by side until the held-out value stops rising."""

    def search(trial: Trial) -> list[SettingsPath]:
        # few features for each tree or all, with crosses or without: the first trees tell which
        # to go on with
        grown = []
        for kind in trial.with_crosses("raw_ranked"):
            width = trial.features(kind).shape[1]
            wanted = np.clip(FEATURE_SHARE * width, LEAST_FEATURES, FEATURES_OF_TREE)
            shares = sorted({float(min(wanted / width, 1.0)), 1.0})
            shares = shares[:1] if trial.folds.is_at_once else shares  # a race takes time
            grown += [_Growing(trial, kind, _tree_ranker(trial, kind, loss, s)) for s in shares]
        for one in grown:
            one.grow(RACE[trial.has_many_items] if len(grown) > 1 else 0)
        best = max(grown, key=lambda one: max(one.values, default=0.0))
        for one in grown:
            if one is not best:
                one.close()
        best.grow(best.ranker.n_trees)
        return [SettingsPath(np.stack(one.stages), one.fit) for one in grown if one.stages]

    return search


def _tree_ranker(trial: Trial, kind: FeatureSet, loss: Any, share: float) -> BoostedRanker:
    """Return a ranker of many small trees, whose number the held-out value chooses."""
    return BoostedRanker(
        loss,
        n_trees=500 if trial.has_many_items else 200,
        learning_rate=0.1,
        max_leaf_nodes=31 if trial.has_many_items else 15,
        feature_share=share,
        max_bins=trial.max_bins,
        monotone=_of_values_and_ranks(trial, kind),
        early_stopping=False,
        measure=trial.measure,
        random_state=trial.seed,
    )


def _of_values_and_ranks(trial: Trial, kind: FeatureSet) -> dict[int, int] | None:
    """Return the directions of features and of their ranks in the query."""
    directions = {j: sign for j, sign in enumerate(trial.monotone) if sign != 0}
    width = trial.features(kind).shape[1] // 2
    return directions | {width + j: sign for j, sign in directions.items()} or None


@final
class _Growing:
    """Trees of all folds that can go on growing, with the held-out scores of each stage."""

    def __init__(self, trial: Trial, kind: FeatureSet, ranker: BoostedRanker) -> None:
        problems = [trial.for_fold(k).trees(kind) for k in range(trial.folds.n_folds)]
        self.trial, self.kind, self.ranker = trial, kind, ranker
        self.stages: list[FloatArray] = []
        self.values: list[float] = []
        self._trees = trees_of_folds(problems, ranker, trial.folds)
        self._next = staged_scores(self._trees, ranker.n_trees, trial.folds, STAGE)

    def grow(self, n_stages: int) -> None:
        """Grow by some stages, or until the value has stopped rising or time is up."""
        patience = PATIENCE[self.trial.has_many_items]
        for scores in islice(self._next, n_stages):
            self.stages.append(scores)
            self.values.append(self.trial.value(scores[self.trial.judged_rows]))
            waited = len(self.values) - 1 - int(np.argmax(self.values))
            if waited >= patience or self.trial.is_over():
                break

    def close(self) -> None:
        """Let go of the trees; the scores remain."""
        self._next.close()
        self._trees.clear()

    def fit(self, k: int) -> RankerPipeline:
        """Grow as many trees from all data as a stage had.

        Where few queries were held out, all at once, the trees that were grown are kept.
        """
        chosen = BoostedRanker(**{**self.ranker.get_params(), "n_trees": (k + 1) * STAGE})
        problem = self.trial.trees(self.kind)
        if self.trial.folds.is_at_once and self._trees:
            ranker = keep_first_trees(chosen, problem, self._trees[0])
        else:
            ranker = fit_to_problem(chosen, problem)
        return self.trial.pipeline(self.kind, ranker)


def _row_bytes(n_features: int) -> int:
    return 8 * (16 * n_features + 240)


def _kernel_bytes(n_features: int) -> int:
    return _row_bytes(n_features) + 8 * 8 * N_BASIS


SINGLE_FEATURE = Family("single feature", _single, _row_bytes)

FAMILIES = (
    Family("linear RankRLS", _least_squares("scaled", ["drop", "keep"]), _row_bytes,
           is_quick=True),
    Family("RankRLS trees with ranks", _trees("rank_rls"), _row_bytes, True, is_quick=True),
    SINGLE_FEATURE,
    Family("linear RankRLS with ranks", _least_squares("ranked", ["drop", "keep"]), _row_bytes,
           is_quick=True),
    Family("RankSVM", _hinge("scaled"), _row_bytes, like="linear RankRLS"),
    Family("Gaussian RankRLS", _least_squares("scaled", ["drop"], gaussian=True),
           _kernel_bytes),
    Family("Gaussian RankRLS with ranks",
           _least_squares("ranked", ["keep"], gaussian=True), _kernel_bytes),
    Family("linear DORM", _direct(gaussian=False), _row_bytes, like="linear RankRLS"),
    Family("Gaussian DORM", _direct(gaussian=True), _kernel_bytes, like="Gaussian RankRLS"),
    Family("lambdarank trees with ranks", _trees("lambdarank"), _row_bytes, True),
)  # fmt: skip
"""In the order of their cost, but trees come second, so that a short search has tried some."""
