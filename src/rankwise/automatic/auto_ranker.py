"""A ranker that tries all families, adds up the best, and estimates its value on unseen queries."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, replace
from typing import Annotated, Any, Self, final

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from rankwise.automatic.families import FAMILIES, Family, SettingsPath, Trial
from rankwise.automatic.sum_of_rankers import (
    SumOfRankers,
    arrays_between_steps,
    fit_preparation,
    prepared_without,
)
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import (
    ConvergenceWarning,
    FeatureScaleWarning,
    InvalidInputError,
    RankwiseError,
)
from rankwise.core.params import Advice, CheckedWith, Count, Positive, RandomSeed, checked
from rankwise.core.queries import Queries, TrainingData
from rankwise.core.storable import Counted, storable
from rankwise.measures.evaluation import paired_test
from rankwise.measures.registry import MeasureLike
from rankwise.measures.value import weighted_mean
from rankwise.rankers.base import generator
from rankwise.rankers.pipeline import RankerPipeline
from rankwise.rankers.reading import RawColumns, read_training
from rankwise.selection.holdouts import Folds
from rankwise.selection.path import as_measure
from rankwise.solve.iteration import Step, StepCallback, steps_shown, wants_to_stop

LEAST_QUERIES = 10
"""Smallest number of queries for which the value of the choice is reported."""

LEAST_SHARE = 0.25
"""Families whose weight is below this share of the best one's are left out of the sum."""

INTERVAL = 1.96


@storable
@final
@dataclass(frozen=True)
class RankerEntry:
    """Hold one family that was tried, or the sum that was chosen.

    Parameters
    ----------
    name : str
        The name of the family.
    value : float
        The mean of the measure over held-out queries; NaN if the family was not tried.
    low, high : float
        The ends of its 95 % confidence interval over queries.
    pvalue : float
        The p-value of a paired test against the chosen sum; 1 for the sum itself.
    weight : float
        The share of its standardised scores in the sum.
    seconds : float
        The time it took.
    note : str
        Why the family was not tried; empty if it was.

    Examples
    --------
    >>> from rankwise import RankerEntry
    >>> RankerEntry("linear RankRLS", 0.5, 0.4, 0.6, 0.03, 1.0, 2.5).seconds
    2.5
    """

    name: str
    value: float
    low: float
    high: float
    pvalue: float
    weight: float
    seconds: float
    note: str = ""


@storable
@final
@dataclass(frozen=True)
class RankerLeaderboard:
    """Hold everything that was tried, best first; prints as a table.

    Parameters
    ----------
    measure : str
        The measure.
    entries : tuple of RankerEntry
        The chosen sum, then the families by their values.

    Examples
    --------
    >>> from rankwise import RankerLeaderboard, RankerEntry
    >>> print(RankerLeaderboard("NDCG @ 10", (RankerEntry("sum", 0.5, 0.4, 0.6, 1.0, 0.0, 2.5),)))
    NDCG @ 10, held out   value   95 % interval    p against sum  in sum  seconds
    sum                  0.5000  0.4000 to 0.6000              -       -      2.5
    """

    measure: str
    entries: tuple[RankerEntry, ...]

    def __str__(self) -> str:
        first = f"{self.measure}, held out"
        width = max([len(first), *(len(entry.name) for entry in self.entries)])
        lines = [
            f"{first:<{width}}  {'value':>6}  {'95 % interval':^16}  {'p against sum':>13}  "
            f"{'in sum':>6}  seconds"
        ]
        lines += [
            _line(entry, width, is_sum=number == 0) for number, entry in enumerate(self.entries)
        ]
        return "\n".join(lines)


def _line(entry: RankerEntry, width: int, *, is_sum: bool) -> str:
    if entry.note:
        return f"{entry.name:<{width}}  {entry.note}"
    test = "-" if is_sum else f"{entry.pvalue:.3g}"
    share = "-" if is_sum else f"{entry.weight:.2f}"
    return (
        f"{entry.name:<{width}}  {entry.value:.4f}  {entry.low:.4f} to {entry.high:.4f}  "
        f"{test:>13}  {share:>6}  {entry.seconds:7.1f}"
    )


@storable
@final
@dataclass(frozen=True)
class HonestValue:
    """Hold the value of a ranker on queries that neither it nor any choice has seen.

    Parameters
    ----------
    measure : str
        The measure.
    value : float
        Its mean over the queries; NaN if there were too few to set some aside.
    low, high : float
        The ends of its 95 % confidence interval over queries.
    n_queries : int
        Number of queries that have a value.
    unit : str
        What was unseen: queries or, without them, parts of the items.

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
    unit: str = "queries"

    def __str__(self) -> str:
        if self.n_queries == 0:
            return (
                f"{self.measure} on unseen {self.unit}: unknown, too few {self.unit} to set some "
                "aside"
            )
        return (
            f"{self.measure} on {self.n_queries} unseen {self.unit}: {self.value:.4f} "
            f"(95 % interval {self.low:.4f} to {self.high:.4f})"
        )


@final
class AutoRanker(SumOfRankers):
    """Find a good ranker for raw data, and estimate how good it is on unseen queries.

    Families are tried from the cheapest to the dearest: linear RankRLS, RankSVM and Gaussian
    RankRLS on features scaled or ranked inside queries, DORM, and trees for lambdarank. Trees for
    the RankRLS loss are tried second, so that a short search has tried some. For each setting of a
    family, every query is scored by a model that has not seen it, from folds that all families
    share. The standardised scores of the best settings are added up, each family weighted by the
    evidence that it is as good as the best one, and the sum is fitted to all data.

    Categories are encoded for each fold by the scores of the other folds. The columns of a frame
    are read by the rules of `rankwise.io.read_table`: names of items and text that differs from row
    to row are left out; dates, percentages and numbers such as ``$1,234.50`` become numbers.

    To estimate how good it is, for each fold the other folds choose settings and weights again, and
    their choice is measured on this fold. The mean over all queries is `honest_value_`.

    Parameters
    ----------
    measure : Measure or str
        The measure that decides.
    time_budget : float or None
        Seconds after which nothing new is tried. The final fits to all data take additional time,
        less than trying took for one fold. None for no limit.
    cv : int
        Number of folds of queries.
    memory : int
        Bytes of memory to use; families that need more are not tried.
    progress : bool or function
        Whether to show what is being tried and the best value so far; or a function that is called
        with a `Step` before each family and before the last fits, whose label says what was found,
        and ends the search by returning True.
    random_state : int, RandomState or None
        Draws folds, basis rows and features. The default of 0 makes a fit repeatable unless the
        time budget ends it.
    features : str or list of str, optional
        The columns of a frame to learn from: names, patterns such as ``"bm25_*"``, ranges such as
        ``"f1:f20"``; by default those that are not left out.
    categories : str or list of str, optional
        Columns of numbers to be taken as text, such as the ids of brands.

    Attributes
    ----------
    leaderboard_ : RankerLeaderboard
        Everything that was tried, with held-out values, intervals, paired tests and seconds.
    honest_value_ : HonestValue
        The value on queries that no choice has seen.
    best_feature_ : RankerEntry
        The feature that ranks best by itself, ascending or descending, on the same queries, and a
        paired test against the ranker on queries that no choice of the ranker has seen.
    best_column_, best_alone_ : int, RankerEntry
        The column of this feature after preparation, and its values without the name.
    members_, member_weights_ : list of RankerPipeline, (n_members,)
        The rankers whose scores are added, and their weights.
    preparation_ : list of transformers
        The transformers that are applied to raw rows first.
    reading_ : tuple of str
        How the columns of a frame or a file were read: which are features, and which left out.
    ending_reason_ : {"done", "time", "interrupted", "callback"}
        Why the search ended.
    n_queries_, fitted_with_qid_, n_features_in_, feature_names_in_
        As in `RankRLS`.

    Notes
    -----
    Held-out values of the leaderboard belong to settings chosen on the same queries, and
    therefore slightly too high; `honest_value_` is not. It comes from models that learned from all
    folds but one, and is therefore slightly too low if more data help. A family whose paired t
    statistic against the best family is t has the weight exp(-t^2 / 2), the Gaussian likelihood
    ratio. Ctrl-C ends the search and keeps the best ranker so far.

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

    leaderboard_: RankerLeaderboard
    honest_value_: HonestValue
    best_column_: Counted
    best_alone_: RankerEntry
    ending_reason_: str

    def __init__(
        self,
        measure: MeasureLike = "NDCG @ 10",
        *,
        time_budget: Annotated[
            float | None, Positive(), Advice("It is in seconds; or use None.")
        ] = 300.0,
        cv: Count = 3,
        memory: Count = 4 << 30,
        progress: bool | StepCallback = False,
        random_state: RandomSeed = 0,
        features: Annotated[str | list[str] | None, CheckedWith("X")] = None,
        categories: Annotated[str | list[str] | None, CheckedWith("X")] = None,
    ) -> None:
        self.measure = measure
        self.time_budget = time_budget
        self.cv = cv
        self.memory = memory
        self.progress = progress
        self.random_state = random_state
        self.features = features
        self.categories = categories

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        qid: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Try the families, choose, measure the choice, and fit it to all data.

        Parameters
        ----------
        X : (n_items, n_features)
            Numbers of any scale, text as categories, blanks as NaN or None.
        y : (n_items,)
            Scores of the items, higher is better.
        qid : (n_items,), optional
            The query of each item; without it, items of one global ranking are held out.
        sample_weight : (n_items,), optional
            Weights of the items.
        """
        given = checked(self)
        budget = float("inf") if given.time_budget is None else given.time_budget
        deadline = time.perf_counter() + budget
        raw = RawColumns(given.features, given.categories)
        rows, data = read_training(self, X, y, qid, sample_weight, raw=raw)
        data.single_output("Fit one AutoRanker per output.")
        # encode categories, fill blanks, draw the folds
        self.preparation_, prepared_rows = fit_preparation(rows, data)
        trial = given._trial(prepared_rows, data, deadline)
        # for each fold, rows that were encoded without its scores
        without = prepared_without(self.preparation_, rows, data, trial.folds)
        trial = replace(trial, without=tuple(replace(trial, X=part) for part in without))
        with arrays_between_steps(), warnings.catch_warnings():
            for category in (ConvergenceWarning, FeatureScaleWarning):
                warnings.simplefilter("ignore", category)
            # try the families on the same folds, then choose and weigh them
            board = self._search(trial)
            choice = board.choice()
            self.leaderboard_ = board.leaderboard(choice)
            # value of the choice on queries that it was not chosen by
            unseen = board.unseen_values()
            self.honest_value_ = board.honest_value(unseen)
            self.best_column_, self.best_alone_ = board.best_column(unseen)
            # fit the chosen families to all data
            self.members_, self.member_weights_ = board.fitted(choice)
        self._remember(data)
        return self

    @property
    def best_feature_(self) -> RankerEntry:
        """The feature that ranks best by itself, with the current name of its column."""
        check_is_fitted(self)
        name = self._prepared_names()[self.best_column_]
        return replace(self.best_alone_, name=name + self.best_alone_.name)

    def _prepared_names(self) -> list[str]:
        """Return the names of the features that the preparation makes."""
        given = vars(self).get("feature_names_in_")
        first = 1 if vars(self).get("zero_based_") is False else 0  # as the file numbers them
        numbers = range(first, first + self.n_features_in_)
        names = given if given is not None else [f"feature {j}" for j in numbers]
        for step in self.preparation_:
            names = step.get_feature_names_out(names)
        return [str(name) for name in names]

    def _trial(self, X: FloatArray, data: TrainingData, deadline: float) -> Trial:
        """Draw the folds: of queries, or of the items of one global ranking."""
        rng, measure = generator(self.random_state), as_measure(self.measure)
        groups = data.queries.index if data.has_qid else np.arange(data.n_items)
        if int(groups.max()) == 0:
            raise InvalidInputError(
                "AutoRanker must have at least 2 queries to hold one out: got 1. Leave out `qid` "
                "to hold out items."
            )
        folds = Folds.random(self.cv, groups, rng)
        judged = data.queries if data.has_qid else Queries.of(folds.fold, data.n_items)
        seed = int(rng.integers(2**31 - 1))
        return Trial(X, data, folds, judged, measure, seed, deadline)

    def _search(self, trial: Trial) -> _Board:
        """Try one family after another until all are tried or time is up."""
        board = _Board(trial, [])
        self.ending_reason_ = "done"
        with steps_shown(self.progress, "AutoRanker", len(FAMILIES), str) as on_step:
            for number, family in enumerate(FAMILIES):
                if self._is_over(board, on_step, number, family):
                    break
                try:
                    board.tried.append(_try(family, trial, self.memory))
                except KeyboardInterrupt:
                    if not board.known:
                        raise
                    self.ending_reason_ = "interrupted"
                    break
            if on_step is not None:
                label = f"{board.news()}fitting the best to all data"
                on_step(Step(len(FAMILIES), float("nan"), label=label))
        return board

    def _is_over(
        self, board: _Board, on_step: StepCallback | None, number: int, family: Family
    ) -> bool:
        """Return whether to stop; at least one family must have been tried."""
        step = Step(number, float("nan"), label=f"{board.news()}trying {family.name}")
        stop = on_step is not None and wants_to_stop(on_step(step))
        if not board.known:
            return False
        if stop:
            self.ending_reason_ = "callback"
        elif board.trial.is_over():
            self.ending_reason_ = "time"
        return self.ending_reason_ != "done"

    def report(
        self, X: Any = None, y: Any = None, qid: ArrayLike | None = None, **options: Any
    ) -> Any:
        """Return the result as text with a table or, given items, as a page about the ranker.

        Parameters
        ----------
        X, y, qid
            Unseen items with scores and queries, to make a page with `make_report`.
        **options
            As in `make_report`.
        """
        if X is not None:
            return super().report(X, y, qid, **options)
        check_is_fitted(self)
        endings = {
            "done": _all_tried(self.leaderboard_),
            "time": f"The time budget of {self.time_budget} s ended the search.",
            "interrupted": "Ctrl-C ended the search.",
            "callback": "A callback ended the search.",
        }
        alone = self.best_feature_
        test = "" if np.isnan(alone.pvalue) else f", p = {alone.pvalue:.2g} for no difference"
        return "\n".join(
            [
                str(self.honest_value_),
                f"The best feature by itself, {alone.name}: {alone.value:.4f} on the same "
                f"{self.honest_value_.unit}{test}.",
                "",
                str(self.leaderboard_),
                "",
                endings[self.ending_reason_],
                "The table's values are of settings chosen on the same queries: trust the first "
                "line.",
            ]
        )


def _all_tried(board: RankerLeaderboard) -> str:
    """Say that the search came to its end, and how many families did not suit the data."""
    left = sum(entry.note != "" for entry in board.entries)
    if left == 0:
        return "All families were tried."
    return f"All families were tried but {left}, for which the table says why."


@final
@dataclass(frozen=True, eq=False)
class _Tried:
    """A family with its held-out scores and values, or a note why it has none."""

    family: Family
    seconds: float
    paths: tuple[SettingsPath, ...] = ()
    values: tuple[FloatArray, ...] = ()
    note: str = ""

    def best(self, weight: FloatArray) -> tuple[int, int]:
        """Return the path and the setting of the highest mean value, for weights of the queries.

        Means are smoothed over neighbours on the grid, whose differences are mostly chance.
        """
        means = [_smoothed(weighted_mean(values, weight)) for values in self.values]
        path = int(np.argmax([m.max() for m in means]))
        return path, int(np.argmax(means[path]))


def _smoothed(means: FloatArray) -> FloatArray:
    known = np.pad(np.nan_to_num(means, nan=-1e300), 1, "edge")
    return np.mean([known[:-2], known[1:-1], known[2:]], axis=0)


def _try(family: Family, trial: Trial, memory: int) -> _Tried:
    """Search a family; if it does not suit the data, note why instead of raising."""
    start = time.perf_counter()
    n_items, n_features = trial.X.shape
    needed = (1 + len(trial.without)) * n_items * family.bytes_per_item(n_features)
    if needed > memory:
        return _Tried(family, 0.0, note=f"not tried: needs {needed >> 20} MiB")
    try:
        paths = tuple(family.search(trial))
        values = tuple(trial.values(path.scores) for path in paths)
    except RankwiseError as error:
        seconds = time.perf_counter() - start
        return _Tried(family, seconds, note=f"not tried: {str(error).splitlines()[0]}")
    return _Tried(family, time.perf_counter() - start, paths, values)


@final
@dataclass(frozen=True, eq=False)
class _Choice:
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
class _Board:
    """Everything that was tried, and the choice among it."""

    trial: Trial
    tried: list[_Tried]

    @property
    def known(self) -> list[_Tried]:
        """The families that have values."""
        return [e for e in self.tried if e.values and not all(np.isnan(v).all() for v in e.values)]

    def best_value(self, tried: list[_Tried]) -> float:
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
        left = self.trial.deadline - time.perf_counter()
        limit = f"at most {max(left, 0.0):.0f} s left, " if np.isfinite(left) else ""
        return f"{found}best so far {self.best_value(self.known):.4f}, {limit}"

    def choice(self, weight: FloatArray | None = None) -> _Choice:
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
        scales = np.array([self._scale(s) for s in scores])
        return _Choice(settings, scores / scales[:, None], values, scales, _shares(values, weight))

    def _scale(self, scores: FloatArray) -> float:
        """Return the standard deviation of held-out scores inside queries."""
        judged = self.trial.judged
        return float((scores - judged.spread(judged.mean(scores))).std()) or 1.0

    def unseen_values(self) -> FloatArray:
        """Choose by all folds but one, measure on that one, and join the folds.

        All values are NaN if there are too few queries.
        """
        trial = self.trial
        groups = trial.judged.n_queries if trial.data.has_qid else trial.data.n_items
        values = np.full(trial.judged.n_queries, np.nan)
        if groups < LEAST_QUERIES:
            return values
        # nested: choose by the other folds, measure on this one
        fold = np.empty(trial.judged.n_queries, dtype=np.intp)
        fold[trial.judged.index] = trial.folds.fold
        for k in range(trial.folds.n_folds):
            choice = self.choice((fold != k).astype(float))
            values[fold == k] = trial.values(choice.scores[None])[0, fold == k]
        return values

    def honest_value(self, unseen: FloatArray) -> HonestValue:
        """Return the mean of unseen values, with its interval."""
        unit = "queries" if self.trial.data.has_qid else "parts of the items"
        n_known = int(np.count_nonzero(~np.isnan(unseen)))
        found = self._mean_and_interval(unseen) if n_known else (float("nan"),) * 3
        return HonestValue(str(self.trial.measure), *found, n_known, unit)

    def best_column(self, unseen: FloatArray) -> tuple[int, RankerEntry]:
        """Return the feature that ranks best by itself, compared with unseen values.

        The entry is named by what follows the name of the feature: nothing, or the direction.
        """
        weight, best, found = self.trial.query_weight, -np.inf, (0, "", unseen)
        for at, column in enumerate(self.trial.X.T):
            # each column in both directions
            both = self.trial.values(np.stack([column, -column]))
            for direction, values in zip(("", ", lowest first"), both, strict=True):
                value = float(weighted_mean(values, weight))
                if value > best:
                    best, found = value, (at, direction, values)
        at, direction, values = found
        known = ~np.isnan(unseen)
        pvalue = paired_test(unseen, values).pvalue if known.any() else float("nan")
        entry = RankerEntry(direction, *self._mean_and_interval(values), pvalue, 0.0, 0.0)
        return at, entry

    def _mean_and_interval(self, values: FloatArray) -> tuple[float, float, float]:
        """Return the mean over queries that have a value, and its 95 % interval."""
        # weighted mean and its standard error over queries
        weight = np.where(np.isnan(values), 0.0, self.trial.query_weight)
        mean = float(weighted_mean(values, weight))
        share = weight / max(weight.sum(), np.finfo(float).tiny)
        n_known = max(int(np.count_nonzero(weight)), 2)
        spread = np.nan_to_num(values - mean) * share
        error = float(np.sqrt(np.square(spread).sum() * n_known / (n_known - 1)))
        sign = 1.0 if self.trial.measure.greater_is_better else -1.0
        ends = sorted([sign * (mean - INTERVAL * error), sign * (mean + INTERVAL * error)])
        return sign * mean, ends[0], ends[1]

    def leaderboard(self, choice: _Choice) -> RankerLeaderboard:
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

    def fitted(self, choice: _Choice) -> tuple[list[RankerPipeline], FloatArray]:
        """Fit the families that have a share in the sum to all data."""
        chosen = np.flatnonzero(choice.shares)
        members = []
        for k in chosen:
            path, setting = choice.settings[k]
            members.append(self.known[k].paths[path].fit(setting))
        return members, (choice.shares / choice.scales)[chosen]


def _shares(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Weigh families by the evidence that they are as good as the best one.

    Parameters
    ----------
    values : (n_families, n_queries)
        Larger is better.
    weight : (n_queries,)
        The weights of the queries.
    """
    # deficit of each family to the best one, query by query
    best = values[int(np.nanargmax(weighted_mean(values, weight)))]
    known = (weight > 0.0) & ~np.isnan(best)
    share = weight[known] / weight[known].sum()
    deficit = np.nan_to_num(best - values)[:, known]
    mean = deficit @ share
    error = np.sqrt(np.square((deficit - mean[:, None]) * share).sum(axis=1))
    # relative likelihood that the deficit is 0, by its t-value
    t = np.divide(mean, error, out=np.zeros(len(mean)), where=error > 0.0)
    shares = np.exp(-0.5 * np.square(np.maximum(t, 0.0)))
    shares[shares < LEAST_SHARE] = 0.0
    return shares / shares.sum()
