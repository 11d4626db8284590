"""The families that were tried, the choice among them, and its value on unseen queries."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Self, final

import numpy as np
import scipy

from rankwise.automatic.families import (
    MANY_CELLS,
    Family,
    SettingsPath,
    Trial,
    judged_groups,
)
from rankwise.automatic.next_query import NextQuery
from rankwise.automatic.results import RankerEntry, RankerLeaderboard
from rankwise.core.arrays import BoolArray, FloatArray
from rankwise.core.errors import InvalidInputError, RankwiseError
from rankwise.measures.evaluation import paired_test
from rankwise.measures.honest_value import HonestValue
from rankwise.measures.value import weighted_mean
from rankwise.rankers.pipeline import RankerPipeline

LEAST_QUERIES = 10
"""Smallest number of queries for which the value of the choice is reported."""

LEAST_SHARE = 0.25
"""Families whose likelihood is below this share of the best one's count as worse than it."""

FAR_BEHIND = 3.0
"""Standard errors behind the best family so far from which no more of the same kind is tried."""

LEAST_WEIGHT = 0.05
"""Families with less than this share of the largest weight are left out of the sum."""

COVERED = 0.975
"""Where the upper end of an interval lies in the distribution of a mean."""

FEW_QUERIES = 15
"""Number of queries for which the learned ranker varies as much as the queries it is measured on:
about what covers in 95 of 100 of the simulated worlds of experiments/auto_honest.py."""


@final
@dataclass(frozen=True, eq=False)
class Tried:
    """A family with its held-out scores and values, or a note why it has none."""

    family: Family
    seconds: float
    paths: tuple[SettingsPath, ...] = ()
    values: tuple[FloatArray, ...] = ()
    note: str = ""

    def best(self, weight: FloatArray) -> tuple[int, int]:
        """Return the path and the setting of the highest mean value, for weights of the queries.

        Means are smoothed over neighbours on a grid, whose differences are mostly chance.
        """
        means = [
            _smoothed(weighted_mean(values, weight), is_grid=path.is_grid)
            for values, path in zip(self.values, self.paths, strict=True)
        ]
        path = int(np.argmax([m.max() for m in means]))
        return path, int(np.argmax(means[path]))

    def of_rows(self, among: BoolArray, trial: Trial) -> Self:
        """Return the same of some of the judged items, which are those of a trial."""
        paths = tuple(replace(p, scores=p.scores[:, among], values=None) for p in self.paths)
        return replace(self, paths=paths, values=tuple(trial.values(p.scores) for p in paths))


def _smoothed(means: FloatArray, *, is_grid: bool) -> FloatArray:
    known = np.nan_to_num(means, nan=-1e300)
    if not is_grid:
        return known
    known = np.pad(known, 1, "edge")
    return np.mean([known[:-2], known[1:-1], known[2:]], axis=0)


def try_family(family: Family, board: Board, memory: int) -> Tried:
    """Search a family; if it does not suit the data, note why instead of raising."""
    start, trial = time.perf_counter(), board.trial
    n_items, n_features = trial.X.shape
    needed = (1 + len(trial.without)) * n_items * family.bytes_per_item(n_features)
    if any(trial.monotone) and not family.is_monotone:
        return Tried(family, 0.0, note="not tried: its scores cannot be held to rise or fall")
    if trial.folds.is_at_once and not family.is_quick:
        note = f"not tried: more than {MANY_CELLS:,} cells (set `cv` to try it)"
        return Tried(family, 0.0, note=note)
    behind = board.behind(family.like)
    if behind > FAR_BEHIND:
        note = f"not tried: {family.like} is {behind:.1f} standard errors behind the best"
        return Tried(family, 0.0, note=note)
    if needed > memory:
        return Tried(family, 0.0, note=f"not tried: needs {needed >> 20} MiB")
    try:
        rows = trial.judged_rows
        paths = tuple(replace(path, scores=path.scores[:, rows]) for path in family.search(trial))
        values = tuple(
            trial.values(path.scores) if path.values is None else path.values for path in paths
        )
    except RankwiseError as error:
        seconds = time.perf_counter() - start
        return Tried(family, seconds, note=f"not tried: {str(error).splitlines()[0]}")
    return Tried(family, time.perf_counter() - start, paths, values)


@final
@dataclass(frozen=True, eq=False)
class Choice:
    """A setting for each known family, its standardised held-out scores, and its share."""

    settings: list[tuple[int, int]]
    parts: FloatArray
    values: FloatArray
    scales: FloatArray
    shares: FloatArray

    @property
    def scores(self) -> FloatArray:
        """The sum of the held-out scores."""
        return self.shares @ self.parts


@final
@dataclass(frozen=True, eq=False)
class Board:
    """Everything that was tried, and the choice among it."""

    trial: Trial
    tried: list[Tried]
    members: dict[tuple[str, tuple[int, int]], RankerPipeline] = field(default_factory=dict)
    """The families and settings that were fitted to all data."""

    @property
    def known(self) -> list[Tried]:
        """The families that have values and no reason to leave them out."""
        return [
            e
            for e in self.tried
            if e.values and not e.note and not all(np.isnan(v).all() for v in e.values)
        ]

    def of_fitted(self) -> Self:
        """Leave out families that are not fitted to all data; keep the first if none is."""
        fitted = {name for name, _ in self.members} or {self.known[0].family.name}
        note = "left out: its fit to all data was interrupted"
        tried = [
            e if e.note or e.family.name in fitted else replace(e, note=note) for e in self.tried
        ]
        return replace(self, tried=tried)

    def behind(self, name: str) -> float:
        """Return by how many standard errors a family is behind the best one so far."""
        weight = self.trial.query_weight
        values = {}
        for entry in self.known:
            path, setting = entry.best(weight)
            values[entry.family.name] = entry.values[path][setting]
        if name not in values:
            return 0.0
        best = max(values.values(), key=lambda v: float(weighted_mean(v, weight)))
        return float(standard_errors_behind(np.stack([best, values[name]]), weight)[1])

    def best_value(self, tried: list[Tried]) -> float:
        """Return the best mean value of some families, in the measure's own direction."""
        weight = self.trial.query_weight
        means = [np.nanmax(weighted_mean(v, weight)) for e in tried for v in e.values]
        best = float(max(means, default=np.nan))
        return best if self.trial.measure.greater_is_better else -best

    def news(self) -> str:
        """Say what the last family brought, the best value so far, and how much time is left."""
        found = ""
        if self.tried:
            last = self.tried[-1]
            value = last.note or "undefined"
            if last in self.known:
                value = f"{self.best_value([last]):.4f} in {last.seconds:.1f} s"
            found = f"{last.family.name}: {value}; "
        left = self.trial.deadline - time.thread_time()
        limit = f"at most {max(left, 0.0):.0f} s left, " if np.isfinite(left) else ""
        best = f"best so far {self.best_value(self.known):.4f}, " if self.known else ""
        return f"{found}{best}{limit}"

    def choice(self, weight: FloatArray | None = None) -> Choice:
        """Choose a setting for each family, and weigh the families; by some queries, or by all.

        Parameters
        ----------
        weight : (n_judged,), optional
            0 for queries to leave out.
        """
        if not self.known:
            notes = "; ".join(f"{e.family.name}: {e.note}" for e in self.tried)
            raise InvalidInputError(f"At least one family must suit the data: {notes}.")
        weight = self.trial.query_weight * (1.0 if weight is None else weight)
        # the best setting of each family, with its held-out scores and values
        settings = [entry.best(weight) for entry in self.known]
        pairs = list(zip(self.known, settings, strict=True))
        scores = np.stack([entry.paths[p].scores[k] for entry, (p, k) in pairs])
        values = np.stack([entry.values[p][k] for entry, (p, k) in pairs])
        # standardised scores can be added up
        inside = self._inside(scores, weight)
        scales = inside.std(axis=1)
        scales[scales == 0.0] = 1.0
        parts = scores / scales[:, None]
        shares = self._shares(inside / scales[:, None], values, weight)
        return Choice(settings, parts, values, scales, shares)

    def _inside(self, scores: FloatArray, weight: FloatArray) -> FloatArray:
        """Return scores less the means of their queries, of the items of queries with a weight."""
        judged, known = self.trial.judged, weight[self.trial.judged.index] > 0.0
        return np.stack([(s - judged.spread(judged.mean(s)))[known] for s in scores])

    def _shares(self, inside: FloatArray, values: FloatArray, weight: FloatArray) -> FloatArray:
        """Weigh families: the mean of likelihoods and of least squares, the smallest left out."""
        grades = self._inside(self.trial.grades[None], weight)[0]
        by_squares = least_squares_shares(inside, grades)
        shares = (likelihood_shares(values, weight) + by_squares) / 2.0
        shares[shares < LEAST_WEIGHT * shares.max()] = 0.0
        return shares / shares.sum()

    def unseen_scores(self) -> FloatArray:
        """Choose by all folds but one, score the items of that one, and join the folds.

        NaN for items of folds that nothing was chosen for; all, if there are too few queries.
        """
        trial = self.trial
        groups = trial.judged.n_queries if trial.data.has_qid else len(trial.grades)
        scores = np.full(len(trial.grades), np.nan)
        if groups < LEAST_QUERIES:
            return scores
        # nested: choose by the other folds or, in time, by the earlier ones; measure on this one
        forward, fold = trial.folds.is_forward, trial.fold_of_query
        for k in range(1 if forward else 0, trial.folds.n_folds):
            out = fold[trial.judged.index] == k
            if trial.folds.apart is None:
                choice = self.choice((fold < k if forward else fold != k).astype(float))
                scores[out] = choice.scores[out]
            else:
                scores[out] = self._scores_chosen_apart(k)[out]
        return scores

    def _scores_chosen_apart(self, fold: int) -> FloatArray:
        """Choose by rows of the other folds whose items are not in this one, and score all."""
        trial = self.trial
        folds = replace(trial.folds, is_at_once=False)
        kept = folds.learned_from(fold) & (folds.fold >= 0)
        folds = replace(folds, fold=np.where(kept, folds.fold, -1))
        part = replace(trial, folds=folds, judged=judged_groups(trial.data, folds))
        among = kept[trial.judged_rows]
        others = type(self)(part, [entry.of_rows(among, part) for entry in self.known])
        choice = others.choice()
        whole = {entry.family.name: entry for entry in self.known}
        parts = [
            whole[entry.family.name].paths[path].scores[setting]
            for entry, (path, setting) in zip(others.known, choice.settings, strict=True)
        ]
        return (choice.shares / choice.scales) @ np.stack(parts)

    def unseen_values(self, scores: FloatArray | None = None) -> FloatArray:
        """Return the values of unseen scores in every query, NaN where there are none."""
        scores = self.unseen_scores() if scores is None else scores
        known = ~np.isnan(self.trial.judged.mean(scores))
        values = self.trial.values(np.nan_to_num(scores)[None])[0]
        return np.where(known, values, np.nan)

    def next_query(self, scores: FloatArray, values: FloatArray) -> NextQuery | None:
        """Return what unseen scores and values say of the next query; None without queries."""
        trial = self.trial
        if not trial.data.has_qid or np.isnan(values).all():
            return None
        sign = 1.0 if trial.measure.greater_is_better else -1.0
        return NextQuery.of(str(trial.measure), sign * values, scores, trial.grades, trial.judged)

    def honest_value(self, unseen: FloatArray) -> HonestValue:
        """Return the mean of unseen values, with its interval."""
        unit = "queries" if self.trial.data.has_qid else "parts of the items"
        unit = f"later {unit}" if self.trial.folds.is_forward else unit
        unit = f"{unit} {self.trial.new}".rstrip()
        n_known = int(np.count_nonzero(~np.isnan(unseen)))
        found = self._mean_and_interval(unseen) if n_known else (float("nan"),) * 3
        return HonestValue(str(self.trial.measure), *found, n_known, unit)

    def best_column(self, unseen: FloatArray) -> tuple[int, RankerEntry]:
        """Return the feature that ranks best by itself, compared with unseen values.

        The entry is named by what follows the name of the feature: nothing, or the direction.
        """
        best = self.trial.best_column
        values = best.values
        known = ~np.isnan(unseen)
        if known.any():
            values = np.where(known, values, np.nan)  # on the same queries
        pvalue = paired_test(unseen, values).pvalue if known.any() else float("nan")
        direction = ", lowest first" if best.is_down else ""
        entry = RankerEntry(direction, *self._mean_and_interval(values), pvalue, 0.0, 0.0)
        return best.at, entry

    def _mean_and_interval(self, values: FloatArray) -> tuple[float, float, float]:
        """Return the mean over queries that have a value, and its 95 % interval."""
        # weighted mean and its standard error over queries
        weight = np.where(np.isnan(values), 0.0, self.trial.query_weight)
        mean = float(weighted_mean(values, weight))
        share = weight / max(weight.sum(), np.finfo(float).tiny)
        n_known = max(int(np.count_nonzero(weight)), 2)
        spread = np.nan_to_num(values - mean) * share
        error = float(np.sqrt(np.square(spread).sum() * n_known / (n_known - 1)))
        # queries that share items say as much as fewer queries of distinct ones
        n_distinct = max(n_known * self.trial.distinct_share, 2.0)
        error *= float(np.sqrt(n_known / n_distinct))
        # rankers that learned from few queries differ from one draw of these to the next
        error *= float(np.sqrt(1.0 + FEW_QUERIES / n_distinct))
        reach = error * float(scipy.special.stdtrit(n_distinct - 1.0, COVERED))
        # no ranker is worse than the worst order, or better than the best
        worst, best = weighted_mean(self.trial.limits, weight)
        low, high = min(mean, max(mean - reach, worst)), max(mean, min(mean + reach, best))
        sign = 1.0 if self.trial.measure.greater_is_better else -1.0
        ends = sorted([sign * float(low), sign * float(high)])
        return sign * mean, ends[0], ends[1]

    def leaderboard(self, choice: Choice) -> RankerLeaderboard:
        """Return the table: the sum first, then the families by value."""
        # the sum comes first, then the families by value, then those that were not tried
        of_sum = self.trial.values(choice.scores[None])[0]
        seconds = sum(entry.seconds for entry in self.tried)
        first = RankerEntry("sum", *self._mean_and_interval(of_sum), 1.0, 0.0, seconds)
        entries = [
            RankerEntry(
                entry.family.name,
                *self._mean_and_interval(choice.values[k]),
                paired_test(of_sum, choice.values[k]).pvalue,
                float(choice.shares[k]),
                entry.seconds,
            )
            for k, entry in enumerate(self.known)
        ]
        sign = -1.0 if self.trial.measure.greater_is_better else 1.0
        entries.sort(key=lambda entry: sign * entry.value)
        nan = float("nan")
        notes = [
            RankerEntry(e.family.name, nan, nan, nan, nan, 0.0, e.seconds, e.note)
            for e in self.tried
            if e.note
        ]
        return RankerLeaderboard(str(self.trial.measure), (first, *entries, *notes))

    def fitted(self, choice: Choice) -> tuple[list[RankerPipeline], FloatArray]:
        """Fit the families that have a share in the sum to all data."""
        chosen = np.flatnonzero(choice.shares)
        # the quickest first, so that Ctrl-C leaves as many as possible
        for k in sorted(chosen, key=lambda k: self.known[k].seconds):
            entry, (path, setting) = self.known[k], choice.settings[k]
            name = entry.family.name, (path, setting)
            if name not in self.members:
                self.members[name] = entry.paths[path].fit(setting)
        names = [(self.known[k].family.name, choice.settings[k]) for k in chosen]
        return [self.members[name] for name in names], (choice.shares / choice.scales)[chosen]


def least_squares_shares(parts: FloatArray, truth: FloatArray) -> FloatArray:
    """Weigh families by non-negative least squares of the given scores on theirs.

    Parameters
    ----------
    parts : (n_families, n_items)
        Held-out scores less the means of their queries.
    truth : (n_items,)
        The given scores less the means of their queries.

    Returns
    -------
    shares : (n_families,)
        They add up to 1; equal if no score helps.
    """
    # the Gram matrix and its factor stand in for the items, which are many
    values, vectors = np.linalg.eigh(parts @ parts.T)
    root = np.sqrt(np.maximum(values, max(values[-1] * 1e-12, np.finfo(float).tiny)))
    shares = scipy.optimize.nnls((vectors * root).T, (vectors / root).T @ (parts @ truth))[0]
    return shares / shares.sum() if shares.sum() > 0.0 else np.full(len(parts), 1.0 / len(parts))


def likelihood_shares(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Weigh families by the evidence that they are as good as the best one.

    Parameters
    ----------
    values : (n_families, n_queries)
        Larger is better.
    weight : (n_queries,)
        The weights of the queries.
    """
    t = standard_errors_behind(values, weight)
    # relative likelihood that the deficit is 0, by its t-value
    shares = np.exp(-0.5 * np.square(np.maximum(t, 0.0)))
    shares[shares < LEAST_SHARE] = 0.0
    return shares / shares.sum()


def standard_errors_behind(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Return by how many standard errors each row of values is behind the best one, (n_rows,)."""
    best = values[int(np.nanargmax(weighted_mean(values, weight)))]
    known = (weight > 0.0) & ~np.isnan(best)
    share = weight[known] / weight[known].sum()
    deficit = np.nan_to_num(best - values)[:, known]
    mean = deficit @ share
    error = np.sqrt(np.square((deficit - mean[:, None]) * share).sum(axis=1))
    return np.divide(mean, error, out=np.zeros(len(mean)), where=error > 0.0)
