"""A ranker that tries all families, adds up the best, and estimates its value on unseen queries."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import thread_time
from typing import Annotated, Any, Never, Self, final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from rankwise.automatic.board import Board, try_family
from rankwise.automatic.families import FAMILIES, MANY_CELLS, Family, Trial, judged_groups
from rankwise.automatic.from_comparisons import (
    PAIR_FAMILIES,
    PairBoard,
    PairTrial,
    folds_of_comparisons,
    net_wins,
    try_pair_family,
)
from rankwise.automatic.new_items import (
    LEAST_REPEATED,
    OF_NEW_GROUPS,
    OF_NEW_ITEMS,
    NewItems,
    held_together,
)
from rankwise.automatic.next_query import NextQuery
from rankwise.automatic.results import RankerEntry, RankerLeaderboard
from rankwise.automatic.sum_of_rankers import (
    SumOfRankers,
    arrays_between_steps,
    crosses_of,
    fit_preparation,
    prepared_without,
)
from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.comparisons.dates import as_days
from rankwise.core.display import p_value
from rankwise.core.errors import (
    ConvergenceWarning,
    FeatureScaleWarning,
    InvalidInputError,
    RankwiseError,
)
from rankwise.core.namespaces import memory_of_host, on_host
from rankwise.core.params import Advice, CheckedWith, Count, Positive, RandomSeed, checked
from rankwise.core.queries import Queries, TrainingData
from rankwise.core.storable import Counted, Finite
from rankwise.io.data import is_date
from rankwise.io.feature_columns import DATES, columns_kept
from rankwise.io.frames import read_columns
from rankwise.measures.honest_value import HonestValue
from rankwise.measures.registry import MeasureLike
from rankwise.rankers.base import generator
from rankwise.rankers.pair_calibration import PairCalibration
from rankwise.rankers.reading import RawColumns, read_training, refuse_other_arguments
from rankwise.rankers.trees.monotone import directions_of
from rankwise.selection.holdouts import Folds
from rankwise.selection.path import as_measure
from rankwise.solve.iteration import Step, StepCallback, steps_shown, wants_to_stop
from rankwise.transformers.categories import BLANK, WithinQueryEncoder

FOLDS, ITEMS_OF_FOLDS, CELLS_OF_FOLDS = (3, 10), 40_000, 600_000
"""Smallest and largest number of folds, and up to how many items and cells all of them learn from
together where there are more than the smallest number."""

LEAST_ITEMS = 3
"""Items of one global ranking that one can be held out of, so that two are left to compare."""

HELD_OUT = 0.1
"""Share of the queries that are held out of large tables."""

FEW_ITEMS = 1_000
"""Number of items below which the whole search is repeated without each part of the queries."""

FEW_PARTS, N_REPEATS = 30, {True: 10, False: 5}
"""Number of queries below which there are more repeats: a fifth of few queries is missed."""

FEW_QUERIES = 100
"""Number of queries below which a value that needed repeats and has none may be too high."""

GIVEN = ("n_features_in_", "feature_names_in_", "zero_based_")
"""What is known of the features before anything is learned."""

SHARE_OF_MEMORY = 0.5
"""Share of the memory of the machine that is used if nothing is said."""

MANY = 100
"""Categories that are read to see whether they are dates."""


@final
class AutoRanker(SumOfRankers):
    """Find a good ranker for raw data, and estimate how good it is on unseen queries.

    Families are tried from the cheapest to the dearest: linear RankRLS, RankSVM and Gaussian
    RankRLS on features scaled or ranked inside queries, DORM, and trees for lambdarank. Trees for
    the RankRLS loss are tried second, so that a short search has tried some. For each setting of a
    family, every query is scored by a model that has not seen it, from folds that all families
    share. The standardised scores of the best settings are added up, each family weighted by the
    evidence that it is as good as the best one and by what it adds to the others, and the sum is
    fitted to all data.

    Categories are encoded for each fold by the scores of the other folds. The columns of a frame
    are read by the rules of `rankwise.io.read_table`: names of items and text that differs from row
    to row are left out; dates, percentages and numbers such as ``$1,234.50`` become numbers.
    Trees are grown from a part of the features each and from all of them; the better way goes on
    after the first trees.

    With ``time``, folds follow each other in time: the earliest queries are only learned from, each
    later part is held out from models of the parts before it, settings and weights are chosen on
    parts that were held out, and measured on parts that are later still.

    To estimate how good it is, for each fold the other folds choose settings and weights again, and
    their choice is measured on this fold. The mean over all queries is `honest_value_`. With fewer
    than 1,000 items, the whole search is repeated without each fifth of the queries (each tenth of
    fewer than 30).

    Parameters
    ----------
    measure : Measure or str
        The measure that decides.
    time_budget : float or None
        Seconds of computing after which nothing new is tried. Waiting for other programs does not
        count, so that a busy machine gives the same ranker. The final fits to all data take
        additional time, less than trying took for one fold. None for no limit.
    cv : int or None
        Number of folds of queries. None for 3 or, for small tables, more, up to 10: models that
        learn from nearly all of few queries are nearly as good as the final one. Folds in time are
        3. Of tables with at least 10,000,000 cells a tenth of the queries is held out once, only
        the quickest families are tried, and trees are not grown again from all queries.
    memory : int or None
        Bytes of memory to use; families that need more are not tried. None for half of what the
        machine has.
    monotone : dict or None
        Features, by name or position, in which scores may only rise (1) or only fall (-1), as in
        ``{"price": -1}``. Only families that can be held to it are tried: trees.
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
    next_query_ : NextQuery or None
        Intervals for the value of one new query, and sets that contain its best item; None without
        queries of scores, or with too few.
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
    is_of_comparisons_ : bool
        Whether it learned from `pairs`.
    repeated_share_ : float
        The share of the rows whose features, as far as those differ inside queries, stand in
        several queries.
    n_repeats_ : int
        How often everything was repeated without a part of the queries, to measure the choice; 0
        where there are many items, or where time or Ctrl-C ended it.
    n_queries_, fitted_with_qid_, n_features_in_, feature_names_in_
        As in `RankRLS`.

    Notes
    -----
    Held-out values of the leaderboard belong to settings chosen on the same queries, and
    therefore slightly too high; `honest_value_` is not. It comes from models that learned from all
    folds but one, and is therefore slightly too low if more data help. The weight of a family is
    the mean of two: exp(-t^2 / 2), the Gaussian likelihood ratio, where t is the paired t statistic
    of its deficit to the best family; and its share in non-negative least squares of the grades
    on the held-out scores of all families, both less the means of their queries. Ctrl-C ends the
    search and keeps the best ranker so far; in the final fits, the families that are fitted by then
    or, if there is none, the first that was tried.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import AutoRanker
    >>> from rankwise.datasets import load_digits_queries
    >>> train = load_digits_queries().train
    >>> ranker = AutoRanker(time_budget=2).fit(train.X, train.y, qid=train.qid)
    >>> ranker.honest_value_.n_queries > 0
    True
    >>> print(ranker.report())
    NDCG @ 10 on ... unseen queries: ...

    From comparisons:

    >>> X = np.linspace(0.0, 1.0, 12)[:, None]
    >>> answers = [(i, j) for i in range(12) for j in range(i)]               # winner first
    >>> ranker = AutoRanker(time_budget=1).fit(X, pairs=answers)
    >>> bool(ranker.predict_pair([[0.8]], [[0.3]])[0] > 0.9)
    True
    """

    leaderboard_: RankerLeaderboard
    honest_value_: HonestValue
    best_column_: Counted
    best_alone_: RankerEntry
    ending_reason_: str
    is_of_comparisons_: bool
    repeated_share_: Annotated[float, Finite()]
    n_repeats_: Counted
    next_query_: NextQuery | None

    def __init__(
        self,
        measure: MeasureLike = "NDCG @ 10",
        *,
        time_budget: Annotated[
            float | None, Positive(), Advice("It is in seconds; or use None.")
        ] = 300.0,
        cv: Count | None = None,
        memory: Count | None = None,
        monotone: Annotated[dict[str, int] | dict[int, int] | None, CheckedWith("X")] = None,
        progress: bool | StepCallback = False,
        random_state: RandomSeed = 0,
        features: Annotated[str | list[str] | None, CheckedWith("X")] = None,
        categories: Annotated[str | list[str] | None, CheckedWith("X")] = None,
    ) -> None:
        self.measure = measure
        self.time_budget = time_budget
        self.cv = cv
        self.memory = memory
        self.monotone = monotone
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
        *,
        time: Any = None,
        folds_by: Any = None,
        pairs: Any = None,
        pair_weight: ArrayLike | None = None,
        **others: Never,
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
        time : (n_items,) or str, optional
            When each item was ranked: dates, as text or not, or numbers that rise; or the column of
            X that holds them. Every choice is then made on later queries than were learned from,
            and `honest_value_` measured on later ones still. Queries of the same date stay
            together, and a query is as late as the latest of its items.
        folds_by : (n_items,), str or True, optional
            What must be new in held-out queries, such as the item or the user of each row; or the
            column of X that holds it. True takes rows with the same features, as far as those
            differ inside queries, for the same item. Queries that share a value are held out
            together or, if nearly all do, without learning from rows of their values in other
            queries. By default queries are held out as they are: they may hold known items.
        pairs : (n_pairs, 2), or comparisons by name as in `read_comparisons`, optional
            Comparisons in place of `y`: rows of X, winner first. RankRLS, RankSVM, `PreferenceGP`
            and trees are then chosen among and added up by the log-loss of held-out comparisons,
            whatever `measure` says, and differences of scores are log-odds of answers.
        pair_weight : (n_pairs,), optional
            How often each comparison was recorded.
        """
        refuse_other_arguments(others)
        given = checked(self)
        budget = float("inf") if given.time_budget is None else given.time_budget
        deadline = thread_time() + budget
        dates, apart = read_columns(X, time=time, folds_by=folds_by)
        roles = [name for name in (time, folds_by) if isinstance(name, str)]
        roles = [name for name in roles if not (isinstance(qid, str) and name == qid)]
        raw = RawColumns(given.features, given.categories, tuple(dict.fromkeys(roles)))
        given_pairs = {"pairs": pairs, "pair_weight": pair_weight}
        rows, data = read_training(self, X, y, qid, sample_weight, **given_pairs, raw=raw)
        self.is_of_comparisons_ = not data.is_scored
        if not data.is_scored:
            for name, values in (("time", dates), ("folds_by", apart)):
                if values is not None:
                    raise InvalidInputError(
                        f"`{name}` must come with scores `y`: got comparisons (`pairs`). Leave it "
                        "out."
                    )
            self.repeated_share_ = 0.0
            self._fit_comparisons(rows, data, deadline)
            return self
        data.single_output("Fit one AutoRanker per output.")
        if not data.has_qid and data.n_items < LEAST_ITEMS:
            raise InvalidInputError(
                f"AutoRanker must have at least {LEAST_ITEMS} items to hold one out: got "
                f"{data.n_items}. Give more items."
            )
        days = None if dates is None else _days(on_host(dates), data.n_items)
        new = None
        if data.has_qid or apart is True:
            new = NewItems.of_rows(rows, data)  # rows with the same features are the same item
        self.repeated_share_ = 0.0 if new is None else new.repeated_share
        if apart is not True:
            new = None if apart is None else NewItems.of_values(on_host(apart), data)
        self._fit_scored(rows, data, deadline, days, new, repeats=data.n_items < FEW_ITEMS)
        self._remember(data)
        return self

    def _fit_scored(
        self,
        rows: NDArray[Any],
        data: TrainingData,
        deadline: float,
        days: FloatArray | None,
        new: NewItems | None,
        *,
        repeats: bool,
    ) -> None:
        """Choose among families by the measure on held-out queries.

        Parameters
        ----------
        rows, data
            What was given.
        deadline : float
            When to stop.
        days : (n_items,), optional
            When each item was ranked.
        new : NewItems, optional
            What must be new in held-out queries.
        repeats : bool
            Whether to repeat all of it without each part of the queries, to measure the choice.
        """
        # encode categories, fill blanks, draw the folds
        self.preparation_, prepared_rows = fit_preparation(rows, data, crosses=True)
        trial = checked(self)._trial(prepared_rows, data, deadline, days, new)
        crosses = tuple(crosses_of(self.preparation_))
        trial = replace(trial, monotone=self._directions(), crosses=crosses)
        # for each fold, rows that were encoded without its scores
        without = prepared_without(self.preparation_, rows, data, trial.folds)
        trial = replace(trial, without=tuple(replace(trial, X=part) for part in without))
        again = partial(self._unseen_by_repeats, rows, trial, days, new) if repeats else None
        self._decide(partial(self._search, trial), again)

    def _unseen_by_repeats(
        self, rows: NDArray[Any], trial: Trial, days: FloatArray | None, new: NewItems | None
    ) -> FloatArray | None:
        """Return scores of the judged items by all that is done without their part of the queries.

        Models of the other folds have learned from a fold that is held out, and few queries look
        alike by chance: what is chosen by these models' values knows something of the fold. Only
        a search that never saw it does not. None if time or Ctrl-C ended it.
        """
        data, scores = trial.data, np.full(trial.data.n_items, np.nan)
        is_few = data.has_qid and data.queries.n_queries < FEW_PARTS
        rounds = trial.folds.merged(N_REPEATS[is_few]).rounds
        rounds = (
            rounds[1:] if trial.folds.is_forward else rounds
        )  # the first has no parts before it
        for kept, out in rounds:
            part = clone(self).set_params(progress=False)
            vars(part).update({k: v for k, v in vars(self).items() if k in GIVEN})
            new_of_part = None if new is None else replace(new, item=new.item[kept])
            days_of_part = None if days is None else days[kept]
            try:
                part._fit_scored(
                    rows[kept],
                    data.take(kept),
                    trial.deadline,
                    days_of_part,
                    new_of_part,
                    repeats=False,
                )
            except RankwiseError:  # too little is left to choose by
                return None
            if part.ending_reason_ != "done":
                if part.ending_reason_ == "interrupted":
                    self.ending_reason_ = "interrupted"
                return None
            scores[out] = part._summed(rows[out], data.take(out).queries)
        self.n_repeats_ = len(rounds)
        return scores[trial.judged_rows]

    def _decide(
        self, search: Callable[[], Any], again: Callable[[], FloatArray | None] | None = None
    ) -> None:
        """Try the families on the same folds, then choose, fit and measure.

        ``again`` returns scores by searches that have not seen the items, or None.
        """
        self.n_repeats_ = 0
        with arrays_between_steps(), warnings.catch_warnings():
            for category in (ConvergenceWarning, FeatureScaleWarning):
                warnings.simplefilter("ignore", category)
            board = search()
            try:
                self._conclude(board, again)
            except KeyboardInterrupt:  # what is fitted by now has to do
                self.ending_reason_ = "interrupted"
                self._conclude(board.of_fitted())

    def _fit_comparisons(self, rows: NDArray[Any], data: TrainingData, deadline: float) -> None:
        """Choose among families by the log-loss of held-out comparisons."""
        rng = generator(self.random_state)
        few = int(np.clip(ITEMS_OF_FOLDS // len(data.comparisons[0]), *FOLDS))
        folds = folds_of_comparisons(data, self.cv or few, rng)
        # categories are encoded by the share of answers that items won, those of other folds
        kept = [folds.learned_from(k) for k in range(folds.n_folds)]
        prepared_rows = []
        for known in [*kept, folds.fold >= 0]:
            scored = TrainingData.of(
                data.n_items, net_wins(data, known), data.queries if data.has_qid else None
            )
            self.preparation_, of_fold = fit_preparation(rows, scored)
            prepared_rows.append(of_fold)
        directions = self._directions()
        seed = int(rng.integers(2**31 - 1))
        trial = PairTrial(tuple(prepared_rows), data, folds, seed, deadline, directions)
        self._decide(partial(self._search_pairs, trial))
        self._remember(data)

    def _search_pairs(self, trial: PairTrial) -> PairBoard:
        """Try one family after another until all are tried or time is up."""
        board = PairBoard(trial, [])
        self.ending_reason_ = "done"
        with steps_shown(self.progress, "AutoRanker", len(PAIR_FAMILIES), str) as on_step:
            try:
                for number, family in enumerate(PAIR_FAMILIES):
                    step = Step(number, float("nan"), label=f"{board.news()}trying {family.name}")
                    stop = on_step is not None and wants_to_stop(on_step(step))
                    if board.known and (stop or trial.is_over()):
                        self.ending_reason_ = "callback" if stop else "time"
                        break
                    board.tried.append(try_pair_family(family, trial))
            except KeyboardInterrupt:
                if not board.known:
                    raise
                self.ending_reason_ = "interrupted"
        return board

    def best_set(self, X: Any, qid: ArrayLike | None = None, *, coverage: float = 0.9) -> BoolArray:
        """Return which items are in the set of their query that contains its best item.

        Parameters
        ----------
        X, qid
            As in `predict`.
        coverage : float
            With what probability a set contains the best item, or one of equal grade: so it was on
            held-out queries, and so it is on new ones that are like them.

        Returns
        -------
        is_in_set : (n_items,) of bool
        """
        scores = on_host(self.predict(X, qid=qid))
        if self.next_query_ is None:
            raise InvalidInputError(
                "`best_set` must be of a ranker that learned from scores of at least 10 queries: "
                "this one has no held-out queries."
            )
        (qid,) = read_columns(X, qid=qid)
        queries = Queries.of(on_host(qid), len(scores))
        return self.next_query_.best_set(scores, queries, coverage)

    def predict_pair(self, X1: Any, X2: Any) -> FloatArray:
        """Return the probability that each row of X1 beats the same row of X2.

        For a ranker of comparisons without queries, whose differences of scores are log-odds.

        Parameters
        ----------
        X1, X2 : (n_pairs, n_features)
            The items to compare.
        """
        check_is_fitted(self)
        if self.compares_items_:
            raise InvalidInputError(
                "`predict_pair` must be of a ranker that learned from comparisons (`pairs`) "
                "without queries: this one compares the items of a query. Use PairCalibration on "
                "held-out comparisons."
            )
        return PairCalibration(self, 1.0).predict_pair(X1, X2)

    @property
    def compares_items_(self) -> bool:
        """Whether the score of a row depends on the other rows of its query.

        After comparisons without queries only blanks are filled from the other rows.
        """
        return self.fitted_with_qid_ or not self.is_of_comparisons_

    def _conclude(self, board: Any, again: Callable[[], FloatArray | None] | None = None) -> None:
        """Choose and weigh families, fit them to all data, and measure the choice.

        The board is one of queries or of comparisons.
        """
        choice = board.choice()
        self.members_, self.member_weights_ = board.fitted(choice)
        self.leaderboard_ = board.leaderboard(choice)
        # value of the choice on queries that it was not chosen by
        scores = board.unseen_scores()
        if again is not None and not np.isnan(scores).all() and self.ending_reason_ == "done":
            repeated = again()
            scores = scores if repeated is None else repeated
        unseen = board.unseen_values(scores)
        self.next_query_ = board.next_query(scores, unseen)
        self.honest_value_ = board.honest_value(unseen)
        self.best_column_, self.best_alone_ = board.best_column(unseen)

    @property
    def best_feature_(self) -> RankerEntry:
        """The feature that ranks best by itself, with the current name of its column."""
        check_is_fitted(self)
        name = self._prepared_names()[self.best_column_]
        return replace(self.best_alone_, name=name + self.best_alone_.name)

    def _prepared_names(self) -> list[str]:
        """Return the names of the features that the preparation makes."""
        names = self._given_names()
        for step in self.preparation_:
            names = step.get_feature_names_out(names)
        return [str(name) for name in names]

    def _directions(self) -> tuple[int, ...]:
        """Return in which of the given features scores may only rise or fall."""
        names = vars(self).get("feature_names_in_")
        directions = directions_of(self.monotone, names, self.n_features_in_)
        encoders = [s for s in self.preparation_ if isinstance(s, WithinQueryEncoder)]
        words = [j for encoder in encoders for j in encoder.columns_ if directions[j] != 0]
        if words:
            raise InvalidInputError(
                f"`monotone` must name features of numbers: {self._given_names()[words[0]]} holds "
                "text."
            )
        return tuple(directions)

    def _given_names(self) -> list[str]:
        """Return the names of the features, or their numbers as the file counts them."""
        given = vars(self).get("feature_names_in_")
        first = 1 if vars(self).get("zero_based_") is False else 0
        numbers = range(first, first + self.n_features_in_)
        return [f"feature {j}" for j in numbers] if given is None else [str(name) for name in given]

    def _trial(
        self,
        X: FloatArray,
        data: TrainingData,
        deadline: float,
        days: FloatArray | None = None,
        new: NewItems | None = None,
    ) -> Trial:
        """Draw the folds: of queries, or of the items of one global ranking; in time, if given."""
        rng, measure = generator(self.random_state), as_measure(self.measure)
        by_query = held_together(data)
        if int(by_query.max()) == 0:
            raise InvalidInputError(
                "AutoRanker must have at least 2 queries to hold one out: got 1. Leave out `qid` "
                "to hold out items."
            )

        def draw(groups: IntArray, most: bool) -> Folds:
            if days is not None:
                return Folds.forward(self.cv or FOLDS[0], groups, days)
            if self.cv is None and data.has_qid and X.size >= MANY_CELLS:
                return Folds.at_once(HELD_OUT, groups, rng)
            wanted = min(ITEMS_OF_FOLDS // data.n_items, CELLS_OF_FOLDS // max(X.size, 1))
            few = FOLDS[1] if most else int(np.clip(wanted, *FOLDS))
            return Folds.random(self.cv or few, groups, rng)

        folds, of_new = (draw(by_query, False), "") if new is None else new.folds(by_query, draw)
        judged = judged_groups(data, folds)
        seed = int(rng.integers(2**31 - 1))
        return Trial(X, data, folds, judged, measure, seed, deadline, new=of_new)

    def _search(self, trial: Trial) -> Board:
        """Try one family after another until all are tried or time is up."""
        board = Board(trial, [])
        memory = self.memory or int(SHARE_OF_MEMORY * memory_of_host())
        self.ending_reason_ = "done"
        with steps_shown(self.progress, "AutoRanker", len(FAMILIES), str) as on_step:
            try:
                for number, family in enumerate(FAMILIES):
                    if self._is_over(board, on_step, number, family):
                        break
                    board.tried.append(try_family(family, board, memory))
            except KeyboardInterrupt:
                if not board.known:
                    raise
                self.ending_reason_ = "interrupted"
            if on_step is not None:
                label = f"{board.news()}fitting the best to all data"
                on_step(Step(len(FAMILIES), float("nan"), label=label))
        return board

    def _is_over(
        self, board: Board, on_step: StepCallback | None, number: int, family: Family
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
        test = "" if np.isnan(alone.pvalue) else f", {p_value(alone.pvalue)} for no difference"
        return "\n".join(
            [
                str(self.honest_value_),
                f"The best feature by itself, {alone.name}: {alone.value:.4f} on the same "
                f"{self.honest_value_.unit}{test}.",
                *self._said_of_next_query(),
                "",
                str(self.leaderboard_),
                "",
                endings[self.ending_reason_],
                "The table's values are of settings chosen on the same queries: trust the first "
                "line.",
                *self._said_of_few(),
                *self._said_of_time(),
                *self._said_of_new_items(),
            ]
        )

    def _said_of_next_query(self) -> list[str]:
        """Say what one new query may expect."""
        if self.next_query_ is None:
            return []
        low, high = self.next_query_.interval()
        return [f"One new query: {low:.4f} to {high:.4f} with 90 %."]

    def _said_of_time(self) -> list[str]:
        """Say whether dates decided what was learned from, or that some could have."""
        if self.honest_value_.unit.startswith("later"):
            return ["Every choice was made on later queries than were learned from."]
        dates = self._columns_of_dates()
        if not dates:
            return []
        return [
            f"The column {dates[0]} holds dates: name it as `time` (--time) to choose and to "
            "measure on later queries than were learned from."
        ]

    def _said_of_few(self) -> list[str]:
        """Say that the choice among many settings by few queries was not measured on its own."""
        if self.n_repeats_ > 0 or not 0 < self.honest_value_.n_queries < FEW_QUERIES:
            return []
        return [
            "The search was not repeated without each part of these few queries: the first line "
            "may be slightly too high."
        ]

    def _said_of_new_items(self) -> list[str]:
        """Say whether held-out queries hold items that were learned from."""
        if self.honest_value_.unit.endswith((OF_NEW_ITEMS, OF_NEW_GROUPS)):
            return ["Nothing was learned from what is named as new in held-out queries."]
        if self.repeated_share_ < LEAST_REPEATED:
            return []
        return [
            f"{self.repeated_share_:.0%} of the rows stand in several queries: the values are "
            "those of queries that hold known items as often. For queries of new items, which are "
            "harder, name the item as `folds_by` (--folds-by)."
        ]

    def _columns_of_dates(self) -> list[str]:
        """Return the features that were dates: read as numbers, or the text of an array."""
        kept = columns_kept(vars(self).get("table_columns_", {}), ())
        found = [name for name, form in kept.forms if form.startswith(DATES)]
        for step in self.preparation_:
            if isinstance(step, WithinQueryEncoder):
                for j, categories in zip(step.columns_, step.categories_, strict=True):
                    known = [text for text in categories[:MANY].tolist() if text != BLANK]
                    if known and all(map(is_date, known)):
                        found.append(self._given_names()[j])
        return found


def _days(dates: Any, n_items: int) -> FloatArray:
    """Return days of the dates that ``time`` holds."""
    try:
        return as_days(dates, n_items)
    except InvalidInputError as error:
        raise InvalidInputError(str(error).replace("`date`", "`time`")) from error


def _all_tried(board: RankerLeaderboard) -> str:
    """Say that the search came to its end, and how many families did not suit the data."""
    left = sum(entry.note != "" for entry in board.entries)
    if left == 0:
        return "All families were tried."
    return f"All families were tried but {left}, for which the table says why."
