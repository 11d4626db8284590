"""Rankers from comparisons: families, held-out answers, and the sum that makes these most probable.

A ranker is judged by the probability that it gives to answers it has not seen: the logistic
function of the lead in score, whose scale is chosen with the settings.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self, TypeAlias, final

import numpy as np
import scipy
from scipy.special import log_expit

from rankwise.automatic.families import ALPHAS, FEATURE_SHARE, HINGE_CS, KERNEL_ALPHAS, N_BASIS
from rankwise.automatic.results import RankerEntry, RankerLeaderboard
from rankwise.comparisons.gp.preference_gp import PreferenceGP
from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.errors import InvalidInputError, RankwiseError
from rankwise.core.queries import TrainingData
from rankwise.features.covariances import SquaredExponential
from rankwise.features.kernels import Gaussian
from rankwise.measures.evaluation import paired_test
from rankwise.measures.honest_value import HonestValue
from rankwise.rankers.base import Ranker
from rankwise.rankers.pipeline import RankerPipeline, join_fitted
from rankwise.rankers.rls.rank_rls import RankRLS
from rankwise.rankers.svm.rank_svm import RankSVM
from rankwise.rankers.trees.boosted_ranker import BoostedRanker, scores_after
from rankwise.selection.holdouts import Folds
from rankwise.transformers.numeric import WithinQueryRanks, WithinQueryScaler
from rankwise.transformers.rows import FeatureScaler

MEASURE = "log-loss"
N_TREES = (5, 10, 20, 40, 80, 160)
LEAST_LEAF, LARGEST_LEAF = 2, 20
"""Items of a leaf: a twentieth of all, within these."""

LARGEST_PROCESS = 1000, 5000
"""Items and comparisons up to which a Gaussian process is tried: its cost is cubic in the items."""

LARGEST_CERTAINTY = 15.0
"""Largest logit of a typical lead: answers without any noise do not make it infinite."""

LEAST_WEIGHT = 0.05
"""Families with less than this share of the largest weight are left out of the sum."""

LEAST_COMPARISONS = 20
"""Smallest number of comparisons for which the value of the choice is reported."""

NORMAL = 1.96

FeatureSet: TypeAlias = Literal["scaled", "raw"]


@final
@dataclass(frozen=True, eq=False)
class PairTrial:
    """Comparisons that families are tried on.

    Parameters
    ----------
    rows : tuple of (n_items, n_features)
        The prepared rows, once for each fold and once for all comparisons.
    data : TrainingData
        The comparisons.
    folds : Folds
        Of comparisons; all of the same two items, or of the same query, are in the same fold.
    seed : int
        Draws basis rows and features.
    deadline : float
        When to stop, by `time.thread_time`.
    monotone : tuple of int
        The features in which scores may only rise (1) or fall (-1).
    """

    rows: tuple[FloatArray, ...]
    data: TrainingData
    folds: Folds
    seed: int
    deadline: float
    monotone: tuple[int, ...]

    @property
    def qid(self) -> IntArray | None:
        """The queries as numbers, if there are any."""
        return self.data.queries.index if self.data.has_qid else None

    @property
    def weight(self) -> FloatArray:
        """The weight of each comparison."""
        return self.data.comparisons[2]

    @cached_property
    def _cache(self) -> dict[tuple[FeatureSet, int], tuple[list[Any], FloatArray]]:
        return {}

    def made(self, kind: FeatureSet, fold: int = -1) -> tuple[list[Any], FloatArray]:
        """Return the steps that make features, and the features of all items.

        Without queries, rows are scaled by what was learned from all, so that scores of single
        items can be compared later.
        """
        if (kind, fold) not in self._cache:
            rows, steps = self.rows[fold], []
            if self.data.has_qid:
                ranks = WithinQueryRanks("values_and_ranks")
                steps = [WithinQueryScaler() if kind == "scaled" else ranks]
            elif kind == "scaled":
                steps = [FeatureScaler()]
            for step in steps:
                queries = self.data.queries if self.data.has_qid else None
                rows = step.fit_transform(rows, qid=queries)
            self._cache[kind, fold] = steps, rows
        return self._cache[kind, fold]

    def basis(self, Z: FloatArray) -> FloatArray:
        """Return random rows."""
        rng = np.random.default_rng(self.seed)
        return Z[np.sort(rng.choice(len(Z), min(N_BASIS, len(Z)), replace=False))]

    def leads(self, scores: FloatArray) -> FloatArray:
        """Return by how much winners lead, for scores of all items."""
        winner, loser = self.data.comparisons[0].T
        return scores[..., winner] - scores[..., loser]

    def is_over(self) -> bool:
        """Return whether time is up."""
        return time.thread_time() > self.deadline


Fit: TypeAlias = Callable[[PairTrial, FloatArray, TrainingData], FloatArray]
"""Learn from rows and comparisons; return the scores of all rows for each setting."""


@final
@dataclass(frozen=True, eq=False)
class PairFamily:
    """One way to learn from comparisons.

    Parameters
    ----------
    name : str
        Its name in the leaderboard.
    kind : {"scaled", "raw"}
        The features that it takes.
    path : function
        Returns scores of all items for each setting.
    make : function
        Returns a ranker with some setting.
    refuses : function
        Returns why it is not tried; an empty text if it is.
    """

    name: str
    kind: FeatureSet
    path: Fit
    make: Callable[[PairTrial, FloatArray, int], Ranker]
    refuses: Callable[[PairTrial], str] = lambda _: ""

    def fit(self, trial: PairTrial, setting: int) -> RankerPipeline:
        """Fit a setting to all comparisons."""
        steps, Z = trial.made(self.kind)
        ranker = self.make(trial, Z, setting)
        pairs, _, weight = trial.data.comparisons
        ranker.fit(Z, qid=trial.qid, pairs=pairs, pair_weight=weight)
        return join_fitted([*steps, ranker], trial.rows[-1], trial.data)


def _given(part: TrainingData) -> dict[str, Any]:
    """Return comparisons with a weight as arguments of ``fit``."""
    pairs, _, weight = part.comparisons
    known = weight > 0.0
    qid = part.queries.index if part.has_qid else None
    return {"qid": qid, "pairs": pairs[known], "pair_weight": weight[known]}


def _least_squares(name: str, *, gaussian: bool) -> PairFamily:
    alphas = KERNEL_ALPHAS if gaussian else ALPHAS

    def ranker(trial: PairTrial, Z: FloatArray, alpha: float) -> RankRLS:
        if not gaussian:
            return RankRLS(alpha)
        return RankRLS(alpha, kernel=Gaussian(1.0 / Z.shape[1]), basis=trial.basis(Z))

    def path(trial: PairTrial, Z: FloatArray, part: TrainingData) -> FloatArray:
        fitted = ranker(trial, Z, 1.0).fit_path(Z, alphas=alphas, **_given(part))
        return np.asarray(fitted.predict(Z))

    return PairFamily(name, "scaled", path, lambda trial, Z, k: ranker(trial, Z, float(alphas[k])))


def _svm() -> PairFamily:
    ranker = RankSVM(tol=1e-3, max_iter=100)

    def path(_: PairTrial, Z: FloatArray, part: TrainingData) -> FloatArray:
        return np.asarray(ranker.fit_path(Z, Cs=HINGE_CS, **_given(part)).predict(Z))

    def make(_: PairTrial, __: FloatArray, k: int) -> Ranker:
        return RankSVM(HINGE_CS[k], tol=1e-3, max_iter=100)

    return PairFamily("RankSVM", "scaled", path, make)


def _process() -> PairFamily:
    def make(trial: PairTrial, _: FloatArray, __: int) -> Ranker:
        return PreferenceGP(SquaredExponential(), random_state=trial.seed)

    def path(trial: PairTrial, Z: FloatArray, part: TrainingData) -> FloatArray:
        return make(trial, Z, 0).fit(Z, **_given(part)).predict(Z)[None]

    def refuses(trial: PairTrial) -> str:
        n_items, n_pairs = LARGEST_PROCESS
        if trial.data.n_items <= n_items and len(trial.weight) <= n_pairs:
            return ""
        return f"more than {n_items:,} items or {n_pairs:,} comparisons"

    return PairFamily("PreferenceGP", "scaled", path, make, refuses)


def _trees(name: str, loss: Literal["rank_rls", "squared_hinge"]) -> PairFamily:
    def make(trial: PairTrial, Z: FloatArray, k: int) -> BoostedRanker:
        directions = {j: sign for j, sign in enumerate(trial.monotone) if sign}
        if trial.data.has_qid:
            directions |= {Z.shape[1] // 2 + j: sign for j, sign in directions.items()}
        return BoostedRanker(
            loss,
            n_trees=N_TREES[k],
            learning_rate=0.1,
            max_leaf_nodes=15,
            min_samples_leaf=int(np.clip(len(Z) // 20, LEAST_LEAF, LARGEST_LEAF)),
            feature_share=max(FEATURE_SHARE, min(1.0, 4.0 / Z.shape[1])),
            monotone=directions or None,
            early_stopping=False,
            random_state=trial.seed,
        )

    def path(trial: PairTrial, Z: FloatArray, part: TrainingData) -> FloatArray:
        ranker = make(trial, Z, len(N_TREES) - 1).fit(Z, **_given(part))
        return np.stack([scores_after(ranker, Z, n) for n in N_TREES])

    return PairFamily(name, "raw", path, make)


PAIR_FAMILIES = (
    _least_squares("linear RankRLS", gaussian=False),
    _trees("RankRLS trees", "rank_rls"),
    _svm(),
    _least_squares("Gaussian RankRLS", gaussian=True),
    _process(),
    _trees("squared hinge trees", "squared_hinge"),
)
"""In the order in which they are tried; the first is cheap, and the second has trees."""

TREES = ("RankRLS trees", "squared hinge trees")


@final
@dataclass(frozen=True, eq=False)
class TriedPairs:
    """A family with its held-out leads, (n_settings, n_pairs), or a note why it has none."""

    family: PairFamily
    seconds: float
    leads: FloatArray | None = None
    note: str = ""


def try_pair_family(family: PairFamily, trial: PairTrial) -> TriedPairs:
    """Learn without each fold; if the family does not suit the data, note why."""
    start = time.perf_counter()
    note = family.refuses(trial)
    if any(trial.monotone) and family.name not in TREES:
        note = "its scores cannot be held to rise or fall"
    if note:
        return TriedPairs(family, 0.0, note=f"not tried: {note}")
    leads: FloatArray | None = None
    try:
        for fold in range(trial.folds.n_folds):
            out = np.flatnonzero(trial.folds.fold == fold)
            Z = trial.made(family.kind, fold)[1]
            found = trial.leads(family.path(trial, Z, trial.data.without_pairs(out)))
            leads = np.empty(found.shape) if leads is None else leads
            leads[:, out] = found[:, out]
    except RankwiseError as error:
        seconds = time.perf_counter() - start
        return TriedPairs(family, seconds, note=f"not tried: {str(error).splitlines()[0]}")
    return TriedPairs(family, time.perf_counter() - start, leads)


@final
@dataclass(frozen=True, eq=False)
class PairChoice:
    """A setting for each family, its weight in the sum, and the held-out log-losses.

    ``losses`` has the log-losses of each family by itself, at its best scale, and of the sum.
    """

    settings: list[int]
    weights: FloatArray
    losses: FloatArray
    of_sum: FloatArray
    shares: FloatArray


@final
@dataclass(frozen=True, eq=False)
class PairBoard:
    """Everything that was tried on comparisons, and the choice among it."""

    trial: PairTrial
    tried: list[TriedPairs]
    members: dict[tuple[str, int], RankerPipeline] = field(default_factory=dict)
    """The families and settings that were fitted to all comparisons."""

    @property
    def known(self) -> list[TriedPairs]:
        """The families that have held-out leads."""
        return [entry for entry in self.tried if entry.leads is not None and not entry.note]

    def news(self) -> str:
        """Say what the last family brought, and the best value so far."""
        if not self.tried:
            return ""
        last = self.tried[-1]
        value = last.note or f"tried in {last.seconds:.1f} s"
        best = ""
        if self.known:
            best = f"best so far {_mean(self.choice().of_sum, self.trial.weight):.4f}, "
        return f"{last.family.name}: {value}; {best}"

    def choice(self, kept: BoolArray | None = None) -> PairChoice:
        """Choose settings and weights by some comparisons, or by all."""
        if not self.known:
            notes = "; ".join(f"{e.family.name}: {e.note}" for e in self.tried)
            raise InvalidInputError(f"At least one family must suit the data: {notes}.")
        weight = self.trial.weight * (1.0 if kept is None else kept)
        settings, losses, chosen = [], [], []
        for entry in self.known:
            assert entry.leads is not None
            scaled = [scales_of(lead[None], weight)[0] * lead for lead in entry.leads]
            values = [_mean(-log_expit(lead), weight) for lead in scaled]
            settings.append(int(np.argmin(values)))
            losses.append(-log_expit(scaled[settings[-1]]))
            chosen.append(entry.leads[settings[-1]])
        leads = np.stack(chosen)
        # weights of the sum; families with little weight are left out of it
        weights = scales_of(leads, weight)
        shares = weights * _typical(leads, weight)
        small = shares < LEAST_WEIGHT * shares.max()
        weights[small] = 0.0
        if small.any() and not small.all():
            weights[~small] = scales_of(leads[~small], weight)
        shares = weights * _typical(leads, weight)
        shares = shares / shares.sum() if shares.sum() > 0.0 else shares
        return PairChoice(settings, weights, np.stack(losses), -log_expit(weights @ leads), shares)

    def unseen_scores(self) -> None:
        """Comparisons have no held-out scores of items."""

    def next_query(self, scores: None, values: FloatArray) -> None:
        """Comparisons say nothing of the next query."""

    def unseen_values(self, scores: None = None) -> FloatArray:  # noqa: ARG002
        """Choose by all folds but one, measure on that one, and join the folds."""
        fold = self.trial.folds.fold
        losses = np.full(len(fold), np.nan)
        if len(fold) >= LEAST_COMPARISONS:
            for k in range(self.trial.folds.n_folds):
                losses[fold == k] = self.choice(fold != k).of_sum[fold == k]
        return losses

    def honest_value(self, unseen: FloatArray) -> HonestValue:
        """Return the mean of unseen log-losses, with its interval."""
        n_known = int(np.count_nonzero(~np.isnan(unseen)))
        found = self._interval(unseen) if n_known else (float("nan"),) * 3
        unit = "comparisons of unseen queries" if self.trial.data.has_qid else "comparisons"
        return HonestValue(MEASURE, *found, n_known, unit)

    def best_column(self, unseen: FloatArray) -> tuple[int, RankerEntry]:
        """Return the feature that makes answers most probable by itself, up or down."""
        X = self.trial.rows[-1]
        best, found = np.inf, (0, 1.0, unseen)
        for j in range(X.shape[1]):
            lead = self.trial.leads(X[:, j])
            for sign in (1.0, -1.0):
                scale = scales_of(sign * lead[None], self.trial.weight)[0]
                losses = -log_expit(scale * sign * lead)
                value = _mean(losses, self.trial.weight)
                if value < best:
                    best, found = value, (j, sign, losses)
        at, sign, losses = found
        is_known = not np.isnan(unseen).any()
        pvalue = paired_test(unseen, losses).pvalue if is_known else float("nan")
        name = ", lowest first" if sign < 0.0 else ""
        return at, RankerEntry(name, *self._interval(losses), pvalue, 0.0, 0.0)

    def _interval(self, losses: FloatArray) -> tuple[float, float, float]:
        """Return the mean over comparisons, and its 95 % interval."""
        mean = _mean(losses, self.trial.weight)
        share = self.trial.weight / self.trial.weight.sum()
        reach = NORMAL * float(np.sqrt(np.square((losses - mean) * share).sum()))
        return mean, mean - reach, mean + reach

    def leaderboard(self, choice: PairChoice) -> RankerLeaderboard:
        """Return the table: the sum first, then the families by log-loss."""
        seconds = sum(entry.seconds for entry in self.tried)
        first = RankerEntry("sum", *self._interval(choice.of_sum), 1.0, 0.0, seconds)
        entries = [
            RankerEntry(
                entry.family.name,
                *self._interval(choice.losses[k]),
                paired_test(choice.of_sum, choice.losses[k]).pvalue,
                float(choice.shares[k]),
                entry.seconds,
            )
            for k, entry in enumerate(self.known)
        ]
        entries.sort(key=lambda entry: entry.value)
        nan = float("nan")
        notes = [
            RankerEntry(e.family.name, nan, nan, nan, nan, 0.0, e.seconds, e.note)
            for e in self.tried
            if e.note
        ]
        return RankerLeaderboard(MEASURE, (first, *entries, *notes))

    def fitted(self, choice: PairChoice) -> tuple[list[RankerPipeline], FloatArray]:
        """Fit the families that have a weight to all comparisons."""
        chosen = np.flatnonzero(choice.weights)
        if len(chosen) == 0:  # no family is better than chance
            chosen = np.array([0])
        # the quickest first, so that Ctrl-C leaves as many as possible
        for k in sorted(chosen, key=lambda k: self.known[k].seconds):
            name = self.known[k].family.name, choice.settings[k]
            if name not in self.members:
                self.members[name] = self.known[k].family.fit(self.trial, choice.settings[k])
        names = [(self.known[k].family.name, choice.settings[k]) for k in chosen]
        return [self.members[name] for name in names], choice.weights[chosen]

    def of_fitted(self) -> Self:
        """Leave out families that are not fitted to all data; keep the first if none is."""
        fitted = {name for name, _ in self.members} or {self.known[0].family.name}
        note = "left out: its fit to all data was interrupted"
        tried = [
            e if e.note or e.family.name in fitted else replace(e, note=note) for e in self.tried
        ]
        return replace(self, tried=tried)


def folds_of_comparisons(data: TrainingData, cv: int, rng: np.random.Generator) -> Folds:
    """Draw folds in which comparisons of the same two items, or of one query, stay together."""
    pairs = data.comparisons[0]
    if data.has_qid:
        groups = np.unique(data.pair_queries, return_inverse=True)[1]
    else:
        both = np.sort(pairs, axis=1)
        groups = np.unique(both[:, 0] * data.n_items + both[:, 1], return_inverse=True)[1]
    if int(groups.max()) == 0:
        unit = "queries with comparisons" if data.has_qid else "pairs of items that are compared"
        raise InvalidInputError(f"AutoRanker must have at least 2 {unit} to hold one out: got 1.")
    return Folds.random(cv, groups, rng)


def net_wins(data: TrainingData, kept: BoolArray) -> FloatArray:
    """Return the share of its answers that each item won, less the share that it lost."""
    pairs, _, weight = data.comparisons
    won = np.bincount(pairs[kept, 0], weight[kept], data.n_items)
    lost = np.bincount(pairs[kept, 1], weight[kept], data.n_items)
    return (won - lost) / np.maximum(won + lost, np.finfo(float).tiny)


def scales_of(leads: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the non-negative weights of leads whose sum makes answers most probable.

    Parameters
    ----------
    leads : (n_families, n_pairs)
    weight : (n_pairs,)
    """
    typical = _typical(leads, weight)
    used = np.flatnonzero(typical > 0.0)
    found = np.zeros(len(leads))
    if len(used) == 0:
        return found
    known = weight > 0.0
    scaled, share = leads[used][:, known] / typical[used, None], weight[known] / weight.sum()

    def loss(weights: FloatArray) -> tuple[float, FloatArray]:
        total = weights @ scaled
        return -float(share @ log_expit(total)), -(scaled @ (share * scipy.special.expit(-total)))

    start = np.full(len(used), 1.0 / len(used))
    bounds = [(0.0, LARGEST_CERTAINTY)] * len(used)
    best = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    found[used] = best.x / typical[used]
    return found


def _typical(leads: FloatArray, weight: FloatArray) -> FloatArray:
    return np.sqrt(np.square(leads) @ weight / weight.sum())


def _mean(values: FloatArray, weight: FloatArray) -> float:
    known = (weight > 0.0) & ~np.isnan(values)
    return float(values[known] @ weight[known] / weight[known].sum())
