"""A ranker that tries the families, adds up what is better together, and says how good it is."""

import time
import warnings
from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from rankwise.automatic.families import FAMILIES, Family, Found, Trial
from rankwise.automatic.leaderboard import RankerEntry, RankerLeaderboard
from rankwise.automatic.sum_of_rankers import (
    SumOfRankers,
    added_scores,
    check_table,
    fit_preparation,
    prepared,
)
from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.checks import check_count, check_positive
from rankwise.core.errors import ConvergenceWarning, InvalidInputError, RankwiseError
from rankwise.core.queries import Queries
from rankwise.core.storable import storable
from rankwise.core.training_data import TrainingData
from rankwise.measures.evaluation import paired_test
from rankwise.measures.value import Measure, weighted_mean
from rankwise.rankers.base import generator
from rankwise.rankers.pipeline import RankerPipeline
from rankwise.selection.holdouts import Folds
from rankwise.selection.judging import as_measure
from rankwise.solve.iteration import Step, StepCallback, steps_shown, wants_to_stop

LEAST_QUERIES = 10
"""Queries that must be there for some of them to be set aside for the final value."""

MOST_MEMBERS = 8
"""Scores that are added up greedily, counting repeated ones."""

N_BAGS = 10
"""Draws of the queries whose greedy sums are averaged."""

INTERVAL = 1.96


@storable
@final
@dataclass(frozen=True)
class HonestValue:
    """Hold the value of a ranker on queries that neither it nor any choice has seen.

    Parameters
    ----------
    measure : str
        What was measured.
    value : float
        Its mean over the queries; NaN where there were too few to set some aside.
    low, high : float
        The ends of its 95 % confidence interval over queries.
    n_queries : int
        Number of queries that have a value.

    Examples
    --------
    >>> from rankwise import HonestValue
    >>> print(HonestValue("NDCG @ 10", 0.5, 0.45, 0.55, 120))
    NDCG @ 10 on 120 unseen queries: 0.5000 (95 % interval 0.4500 to 0.5500)
    """

    measure: str
    value: float
    low: float
    high: float
    n_queries: int

    def __str__(self) -> str:
        if self.n_queries == 0:
            return f"{self.measure} on unseen queries: unknown, too few queries to set some aside"
        return (
            f"{self.measure} on {self.n_queries} unseen queries: {self.value:.4f} "
            f"(95 % interval {self.low:.4f} to {self.high:.4f})"
        )


@final
class AutoRanker(SumOfRankers):
    """Find a good ranker for raw data by itself, and say honestly how good it is.

    A fifth of the queries is set aside. On the others, families are tried in the order of their
    cost: linear and Gaussian RankRLS inside queries, RankSVM, trees for the RankRLS loss and for
    lambdarank, DORM. Each chooses its own settings and gives held-out scores for every query, from
    the same folds. Standardised scores are then added up one at a time as long as the held-out
    value rises, on several draws of the queries, and these sums averaged. What was chosen is fitted
    to these queries and measured on those set aside, which gives `honest_value_`, and at last
    fitted to all data.

    Parameters
    ----------
    measure : Measure or str
        What decides.
    time_budget : float or None
        Seconds after which nothing new is tried; the final fits come on top. None for no limit.
    cv : int
        Number of folds of queries.
    memory : int
        Bytes that a family may take; larger ones are not tried.
    progress : bool or function
        Whether to show what is being tried and the best value so far; or what to call with a
        `Step` before each family. An answer of True ends the search.
    random_state : int, RandomState or None
        Draws folds, basis rows and features. The default of 0 makes a fit repeatable, as long as
        the time budget does not end it.

    Attributes
    ----------
    leaderboard_ : RankerLeaderboard
        What was tried, with held-out values, intervals, paired tests and seconds.
    honest_value_ : HonestValue
        The value on queries that no choice has seen.
    members_, member_weights_ : list of RankerPipeline, (n_members,)
        The rankers whose scores are added, and what each is multiplied by.
    preparation_ : list of transformers
        What raw rows go through first.
    ending_reason_ : {"done", "time", "interrupted", "callback"}
        Why the search ended.
    n_queries_, fitted_with_qid_, n_features_in_, feature_names_in_
        As in `RankRLS`.

    Notes
    -----
    Held-out values of the leaderboard are those of the best settings on the same queries, and so
    slightly too high; `honest_value_` is not. Ctrl-C ends the search and keeps the best so far.

    Examples
    --------
    >>> from rankwise import AutoRanker
    >>> from rankwise.datasets import load_digits_queries
    >>> train = load_digits_queries().train
    >>> ranker = AutoRanker(time_budget=2).fit(train.X, train.y, qid=train.qid)
    >>> ranker.honest_value_.n_queries > 0
    True
    >>> print(ranker.report())
    NDCG @ 10 on ... unseen queries: ...
    """

    def __init__(
        self,
        measure: Measure | str = "NDCG @ 10",
        *,
        time_budget: float | None = 300.0,
        cv: int = 4,
        memory: int = 4 << 30,
        progress: bool | StepCallback = False,
        random_state: Any = 0,
    ) -> None:
        self.measure = measure
        self.time_budget = time_budget
        self.cv = cv
        self.memory = memory
        self.progress = progress
        self.random_state = random_state

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Try the families, choose, measure on unseen queries, and fit the choice to all data.

        Parameters
        ----------
        X : (n_items, n_features)
            Numbers of any scale, text as categories, blanks as NaN or None.
        y : (n_items,)
            Scores of the items, higher is better.
        qid : (n_items,), optional
            The query of each item; without, items of one global ranking are held out.
        sample_weight : (n_items,), optional
            Weights of the items.
        """
        measure, deadline = as_measure(self.measure), self._deadline()
        check_count("memory", self.memory)
        rows = check_table(self, X, reset=True)
        data = TrainingData.of(len(rows), y, qid, sample_weight)
        data.single_output("Fit one AutoRanker per output.")
        rng = generator(self.random_state)
        development, unseen = _set_aside(data, rng)
        board = self._search(rows, data, development, measure, deadline, rng)
        shares = board.choose(rng)
        self.leaderboard_ = board.leaderboard(shares)
        self.honest_value_ = self._measured(board, shares, rows, data, development, unseen)
        everything = np.arange(len(rows))
        fitted = board.fitted(shares, rows, data, everything)
        self.preparation_, self.members_, self.member_weights_ = fitted
        self._remember(data)
        return self

    def _deadline(self) -> float:
        if self.time_budget is None:
            return float("inf")
        budget = check_positive("time_budget", self.time_budget, "It is in seconds; or use None.")
        return time.perf_counter() + budget

    def _search(
        self,
        rows: NDArray[Any],
        data: TrainingData,
        development: IntArray,
        measure: Measure,
        deadline: float,
        rng: np.random.Generator,
    ) -> "_Board":
        """Try one family after the other, until there are no more or time is over."""
        part = data.take(development)
        _, ready = fit_preparation(rows[development], part.scores, part.queries)
        groups = part.queries.index if part.has_qid else np.arange(part.n_items)
        folds = Folds.random(check_count("cv", self.cv), groups, rng)
        judged = part.queries if part.has_qid else Queries.of(folds.fold, part.n_items)
        seed = int(rng.integers(2**31 - 1))
        board = _Board(part, judged, measure, [])
        self.ending_reason_ = "done"
        with steps_shown(self.progress, "AutoRanker", len(FAMILIES), str) as on_step:
            for number, family in enumerate(FAMILIES):
                trial = Trial(ready, part, folds, judged, measure, seed, deadline)
                if self._is_over(trial, board, on_step, number, family):
                    break
                try:
                    board.tried.append(_try(family, trial, self.memory))
                except KeyboardInterrupt:
                    if not board.known:
                        raise
                    self.ending_reason_ = "interrupted"
                    break
        return board

    def _is_over(
        self,
        trial: Trial,
        board: "_Board",
        on_step: StepCallback | None,
        number: int,
        family: Family,
    ) -> bool:
        """Tell whether to try nothing more; something must have been tried."""
        best = max((entry.value for entry in board.known), default=float("nan"))
        label = f"trying {family.name}, best so far {best:.4f}"
        step = Step(number, float("nan"), label=label)
        stop = on_step is not None and wants_to_stop(on_step(step))
        if not board.known:
            return False
        if stop:
            self.ending_reason_ = "callback"
        elif trial.is_over():
            self.ending_reason_ = "time"
        return self.ending_reason_ != "done"

    def _measured(
        self,
        board: "_Board",
        shares: FloatArray,
        rows: NDArray[Any],
        data: TrainingData,
        development: IntArray,
        unseen: IntArray,
    ) -> HonestValue:
        """Fit the choice to the development queries, and measure it on the others."""
        name = str(board.measure)
        if len(unseen) == 0:
            return HonestValue(name, float("nan"), float("nan"), float("nan"), 0)
        steps, members, weights = board.fitted(shares, rows, data, development)
        part = data.take(unseen)
        ready = prepared(steps, rows[unseen], part.queries)
        scores = added_scores(members, weights, ready, part.queries)
        values = board.measure.per_query(part.scores, scores, part.queries)
        known = int(np.count_nonzero(~np.isnan(values)))
        return HonestValue(name, *_mean_and_interval(values), known)

    def report(
        self, X: Any = None, y: Any = None, qid: ArrayLike | None = None, **options: Any
    ) -> Any:
        """Return what was found, in words and a table; given items, a page about the ranker.

        Parameters
        ----------
        X, y, qid
            Items that it has not seen, with scores and queries, to make a page as `make_report`.
        **options
            As in `make_report`.
        """
        if X is not None:
            return super().report(X, y, qid, **options)
        endings = {
            "done": "All families were tried.",
            "time": f"The time budget of {self.time_budget} s ended the search.",
            "interrupted": "Ctrl-C ended the search.",
            "callback": "A callback ended the search.",
        }
        return "\n".join(
            [
                str(self.honest_value_),
                "",
                str(self.leaderboard_),
                "",
                endings[self.ending_reason_],
                "The table's values are of settings chosen on the same queries: trust the first "
                "line.",
            ]
        )


def _set_aside(data: TrainingData, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return the items to choose by, and a fifth, of whole queries, to measure the choice on."""
    groups = data.queries.index if data.has_qid else np.arange(data.n_items)
    n_groups = int(groups.max()) + 1
    if n_groups < LEAST_QUERIES:
        if n_groups < 2:
            raise InvalidInputError(
                "AutoRanker must have at least 2 queries to hold one out: got 1. Leave out `qid` "
                "to hold out items."
            )
        return np.arange(data.n_items), np.arange(0)
    aside = np.zeros(n_groups, dtype=bool)
    aside[rng.permutation(n_groups)[: round(n_groups / 5)]] = True
    return np.flatnonzero(~aside[groups]), np.flatnonzero(aside[groups])


@final
@dataclass(frozen=True, eq=False)
class _Tried:
    """A family with what it found; without, a note says why."""

    family: Family
    seconds: float
    found: Found | None = None
    value: float = float("nan")
    note: str = ""


def _try(family: Family, trial: Trial, memory: int) -> _Tried:
    """Search a family; one that the data do not suit is noted, and not an error."""
    start = time.perf_counter()
    n_items, n_features = trial.X.shape
    needed = n_items * family.bytes_per_item(n_features)
    if needed > memory:
        return _Tried(family, 0.0, note=f"not tried: needs {needed >> 20} MiB")
    X = trial.X
    for step in family.steps:
        X = clone(step).fit_transform(X, trial.data.scores, trial.data.queries)
    placed = Trial(
        X, trial.data, trial.folds, trial.judged, trial.measure, trial.seed, trial.deadline
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = family.search(placed)
    except RankwiseError as error:
        seconds = time.perf_counter() - start
        return _Tried(family, seconds, note=f"not tried: {str(error).splitlines()[0]}")
    value = trial.measure.overall(trial.data.scores, found.scores, trial.judged)
    return _Tried(family, time.perf_counter() - start, found, value)


@final
@dataclass(frozen=True, eq=False)
class _Board:
    """All that was tried on some data, and the choice among it."""

    data: TrainingData
    judged: Queries
    measure: Measure
    tried: list[_Tried]

    @property
    def known(self) -> list[_Tried]:
        """What has a value."""
        return [entry for entry in self.tried if not np.isnan(entry.value)]

    @property
    def _standardised(self) -> FloatArray:
        return np.stack([_found(e).scores / self._scale(e) for e in self.known])

    def _scale(self, entry: _Tried) -> float:
        """Return the spread of the held-out scores inside what is judged."""
        scores = _found(entry).scores
        inside = scores - self.judged.spread(self.judged.mean(scores))
        return float(inside.std()) or 1.0

    def _values(self, scores: FloatArray) -> FloatArray:
        """Return the overall values of score vectors; larger is better."""
        values = self.measure.overall_many(self.data.scores, scores, self.judged)
        return np.nan_to_num(values if self.measure.greater_is_better else -values, nan=-np.inf)

    def choose(self, rng: np.random.Generator) -> FloatArray:
        """Return the share of each family in the sum; the best alone where no sum is better.

        Sums are chosen greedily on several draws of the queries, with replacement, and averaged,
        so that a single query has little say.
        """
        if not self.known:
            notes = "; ".join(f"{e.family.name}: {e.note}" for e in self.tried)
            raise InvalidInputError(f"At least one family must suit the data: {notes}.")
        parts, n_queries = self._standardised, self.judged.n_queries
        bags = rng.multinomial(n_queries, np.full(n_queries, 1.0 / n_queries), size=N_BAGS)
        shares = np.mean([self._greedy(parts, bag) for bag in bags], axis=0)
        values = self._values(np.vstack([shares @ parts, parts]))
        best = int(np.argmax(values))
        return shares if best == 0 else np.eye(len(parts))[best - 1]

    def _greedy(self, parts: FloatArray, bag: FloatArray) -> FloatArray:
        """Start with the best, add whichever raises the value of a bag most, until none does."""
        counts, value = np.zeros(len(parts)), -np.inf
        while counts.sum() < MOST_MEMBERS:
            per_query = self.measure.values_many(
                self.data.scores, counts @ parts + parts, self.judged
            )
            values = weighted_mean(per_query, bag.astype(float))
            values = np.nan_to_num(values if self.measure.greater_is_better else -values, nan=-9e9)
            best = int(np.argmax(values))
            if values[best] <= value:
                break
            counts[best] += 1.0
            value = float(values[best])
        return counts / counts.sum()

    def leaderboard(self, shares: FloatArray) -> RankerLeaderboard:
        """Return the table: the sum first, then the families by value."""
        parts = self._standardised
        per_query = self.measure.values_many(self.data.scores, parts, self.judged)
        of_sum = self.measure.per_query(self.data.scores, shares @ parts, self.judged)
        seconds = sum(entry.seconds for entry in self.tried)
        first = RankerEntry("sum", *_mean_and_interval(of_sum), 1.0, 0.0, seconds)
        entries = [
            RankerEntry(
                entry.family.name,
                *_mean_and_interval(values),
                paired_test(of_sum, values).pvalue,
                float(shares[k]),
                entry.seconds,
            )
            for k, (entry, values) in enumerate(zip(self.known, per_query, strict=True))
        ]
        sign = -1.0 if self.measure.greater_is_better else 1.0
        entries.sort(key=lambda entry: sign * entry.value)
        nan = float("nan")
        notes = [
            RankerEntry(e.family.name, nan, nan, nan, nan, 0.0, e.seconds, e.note)
            for e in self.tried
            if e.note
        ]
        return RankerLeaderboard(str(self.measure), (first, *entries, *notes))

    def fitted(
        self, shares: FloatArray, rows: NDArray[Any], data: TrainingData, items: IntArray
    ) -> tuple[list[Any], list[RankerPipeline], FloatArray]:
        """Fit the preparation and the chosen rankers to some of the items."""
        part = data.take(items)
        steps, ready = fit_preparation(rows[items], part.scores, part.queries)
        qid = part.queries.index if part.has_qid else None
        members, weights = [], []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            for k in np.flatnonzero(shares):
                entry = self.known[k]
                pipeline = RankerPipeline([*map(clone, entry.family.steps), _found(entry).ranker])
                members.append(pipeline.fit(ready, part.scores, qid, part.sample_weight))
                weights.append(shares[k] / self._scale(entry))
        return steps, members, np.array(weights)


def _found(entry: _Tried) -> Found:
    assert entry.found is not None
    return entry.found


def _mean_and_interval(values: FloatArray) -> tuple[float, float, float]:
    """Return the mean over queries that have a value, and its 95 % interval."""
    known = values[~np.isnan(values)]
    mean = float(known.mean()) if len(known) else float("nan")
    error = float(known.std(ddof=1) / np.sqrt(len(known))) if len(known) > 1 else float("nan")
    return mean, mean - INTERVAL * error, mean + INTERVAL * error
