"""What a preference Gaussian process learns from: answers, and the likelihood for them."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.likelihood import (
    GaussianMargin,
    Likelihood,
    Logistic,
    Probit,
    ProbitWithTies,
    WithFlips,
)
from rankwise.core.arrays import BoolArray, FloatArray, IntArray, copy_numbers, first_equal
from rankwise.core.checks import (
    as_array,
    check_flag,
    check_pairs,
    check_weight,
    entries_of,
)
from rankwise.core.comparisons.comparison_table import ComparisonTable, Labels
from rankwise.core.comparisons.dates import as_days
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.queries import Queries, TrainingData
from rankwise.core.storable import storable
from rankwise.graph.preference_graph import Ties as TieRule
from rankwise.io.comparisons import read_comparisons

LikelihoodName: TypeAlias = Literal["probit", "robust", "logistic", "gaussian"]
EqualRows: TypeAlias = Literal["apart", "merged"]

NOISE_SHARE = 0.1
"""Share of the mean squared margin at which the search for the noise starts."""

FINEST, SEARCH_DATES = 1024, 16
"""Parts of the time between the first and the last date to which dates are rounded first, and in
the search for parameters where items are many."""


@final
@dataclass(frozen=True, eq=False)
class DistinctItems:
    """Hold which rows are the same item: equal rows, or each row by itself.

    Parameters
    ----------
    X : (n_items, n_features)
    first : (n_items,)
        The number of the first row that is the same item.
    """

    X: FloatArray
    first: IntArray

    @classmethod
    def of(cls, X: FloatArray) -> Self:
        """Treat equal rows as one item."""
        return cls(X, first_equal(X))

    @classmethod
    def apart(cls, X: FloatArray) -> Self:
        """Treat every row as a different item."""
        return cls(X, np.arange(len(X)))

    def copies(self) -> IntArray | None:
        """Give items with equal features different numbers; None if there are none."""
        if not np.array_equal(self.first, np.arange(len(self.X))):
            return None
        numbers = copy_numbers(first_equal(self.X))
        return numbers if numbers.any() else None

    def rows(self, weight: FloatArray) -> FloatArray:
        """Return the different rows of positive weight."""
        return self.X[np.unique(self.first[weight > 0.0])]

    def merged(self, pairs: IntArray) -> IntArray:
        """Let pairs name the first of equal rows, except pairs of two equal ones."""
        first = self.first[pairs]
        return np.where((first[:, 0] != first[:, 1])[:, None], first, pairs)


@storable
@final
@dataclass(frozen=True, eq=False)
class ShownItems:
    """Hold items as they were shown: first all of them by themselves, then in context.

    An answer with covariates x compares f(first) + effects @ x with f(second). So it compares the
    first item with the values x, as one row, with the second item as another.

    Parameters
    ----------
    item : (n_shown,)
        The row number of each.
    values : (n_shown, n_columns)
        The columns of terms: its date if scores change with time, then its covariates.
    """

    item: IntArray
    values: FloatArray

    @classmethod
    def plain(cls, n_items: int, columns: tuple[float, ...] = ()) -> Self:
        """Return the items by themselves."""
        return cls(np.arange(n_items), np.tile(np.array(columns), (n_items, 1)))

    def extended(
        self, pairs: IntArray, covariates: FloatArray, date: FloatArray | None = None
    ) -> tuple[Self, IntArray]:
        """Add what pairs of row numbers compare, and return their positions here. One sort.

        Parameters
        ----------
        pairs : (n_pairs, 2)
        covariates : (n_pairs, n_covariates)
            Covariates, positive in favour of the first of each pair; with the opposite sign they
            favour the second. They are attached to the item for which the first non-zero value is
            positive.
        date : (n_pairs,), optional
            When both were shown; by default the date of the items by themselves.
        """
        n_columns = self.values.shape[1]
        if n_columns == 0:
            return self, pairs
        n_pairs, n_covariates = covariates.shape
        rows, values = np.arange(n_pairs), np.zeros((n_pairs, 2, n_columns))
        if n_covariates < n_columns:
            values[:, :, 0] = self.values[0, 0] if date is None else date[:, None]
        if n_covariates:
            sign = np.sign(covariates[rows, (covariates != 0.0).argmax(axis=1)])
            side = (sign < 0.0).astype(np.intp)
            values[rows, side, -n_covariates:] = sign[:, None] * covariates
        known = np.column_stack([self.item, self.values])
        new = np.column_stack([pairs.reshape(-1, 1), values.reshape(2 * n_pairs, n_columns)])
        keys, n_known = np.vstack([known, new]), len(self.item)
        first = first_equal(keys)
        new = np.unique(first[first >= n_known])
        place = np.append(np.arange(n_known), np.zeros(2 * n_pairs, dtype=np.intp))
        place[new] = n_known + np.arange(len(new))
        item = np.append(self.item, keys[new, 0].astype(np.intp))
        grown = type(self)(item, np.vstack([self.values, keys[new, 1:]]))
        return grown, place[first[n_known:]].reshape(n_pairs, 2)


@final
@dataclass(frozen=True, eq=False)
class GivenAnswers:
    """Hold answers as they are given to `fit` or `update`, with their context.

    The columns of the context begin with the answers that have a winner; ties follow.

    Parameters
    ----------
    names : (n_items,) or None
        The items; None if answers use row numbers.
    pairs, tied, pair_margin, pair_weight, tied_weight
        As in `fit`, by row numbers.
    judges : (n_judges,) or None
        The names of the judges; None if it is unknown who answered.
    judge : (n_answers,), optional
        Who answered, counted from 1; 0 if unknown.
    date : (n_answers,), optional
        When they answered, in days.
    effects : tuple of str
        The names of the covariates.
    covariates : (n_answers, n_covariates)
        Positive in favour of the winner, or of the first item of a tie.
    usual : tuple of float
        The value of each in all answers, in favour of the item shown first; 0 if it was not one.
    """

    names: NDArray[Any] | None
    pairs: Any = None
    tied: Any = None
    pair_margin: Any = None
    pair_weight: Any = None
    tied_weight: Any = None
    judges: NDArray[Any] | None = None
    judge: IntArray | None = None
    date: FloatArray | None = None
    effects: tuple[str, ...] = ()
    covariates: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    usual: tuple[float, ...] = ()

    @classmethod
    def by_name(
        cls,
        pairs: Any,
        names: NDArray[Any] | None,
        *,
        first: bool,
        judge: Any,
        date: Any,
        **given: Any,
    ) -> Self:
        """Read comparisons by name.

        Parameters
        ----------
        pairs
            What `read_comparisons` takes.
        names : (n_items,) or None
            The known items; None for those that occur.
        first : bool
            Whether being shown first is a covariate.
        judge, date : (n_rows,) or None
            Columns that the comparisons lack.
        given
            Arguments that must be columns of the table instead.
        """
        table = _with_columns(read_comparisons(pairs, names=names), judge, date)
        check_flag("first", first)
        others = [name for name, value in given.items() if value is not None]
        if others:
            raise InvalidInputError(
                f"Named comparisons must hold all columns themselves: got {others} separately. Put "
                "ties, margins and weights into columns of the table."
            )
        table = table.with_order() if first else table
        usual = np.where(np.ptp(table.covariates, axis=0) == 0.0, table.covariates[0], 0.0)
        won, tied = table.decided, np.flatnonzero(table.tied)
        rows = np.append(won, tied)
        return cls(
            table.names,
            table.pairs,
            table.tied_pairs if len(tied) else None,
            None if table.margin is None else table.margin[won],
            table.weight[won],
            table.weight[tied] if len(tied) else None,
            None if table.judge is None else table.judge.names,
            None if table.judge is None else table.judge.index[rows] + 1,
            None if table.date is None else table.date[rows],
            table.covariate_names,
            np.vstack([table.winner_covariates, table.covariates[tied]]),
            tuple(usual.tolist()),
        )

    @classmethod
    def by_row(
        cls,
        names: NDArray[Any] | None,
        pairs: Any,
        tied: Any,
        *,
        first: bool = False,
        judge: Any,
        tied_judge: Any,
        date: Any,
        tied_date: Any,
        **given: Any,
    ) -> Self:
        """Read comparisons by row numbers; refuse their context for scores."""
        check_flag("first", first)
        if first:
            raise InvalidInputError(
                "`first` must come with comparisons by name or a ComparisonTable, which say what "
                "was shown first: got row numbers, winner first."
            )
        answers = cls(names, pairs, tied, **given)
        if all(value is None for value in (judge, tied_judge, date, tied_date)):
            return answers
        if pairs is None:
            raise InvalidInputError(
                "`judge` and `date` must come with comparisons (`pairs`): got none."
            )
        n_won, n_tied = len(entries_of(pairs)), 0 if tied is None else len(entries_of(tied))
        if judge is not None or tied_judge is not None:
            who = _judge_column("judge", judge, n_won) + _judge_column(
                "tied_judge", tied_judge, n_tied
            )
            labels = Labels.of(np.array(who, dtype=object))
            answers = replace(answers, judges=labels.names, judge=labels.index + 1)
        if date is not None or tied_date is not None:
            won, undecided = (
                as_days([] if values is None else values, n_rows)
                for values, n_rows in ((date, n_won), (tied_date, n_tied))
            )
            answers = replace(answers, date=np.append(won, undecided))
        return answers

    @property
    def are_anonymous(self) -> bool:
        """Whether it is unknown who gave some of them."""
        return self.judge is None or not self.judge.all()

    @property
    def deviations(self) -> FloatArray:
        """The root mean square of each covariate, 1 if all values are 0."""
        scale = np.sqrt(np.mean(self.covariates**2, axis=0))
        return np.where(scale > 0.0, scale, 1.0)

    def coded_as(self, known: NDArray[Any] | None) -> Self:
        """Give judges the numbers they have among known ones; all others are unknown."""
        if self.judges is None or self.judge is None:
            return self
        place = {} if known is None else {name: k + 1 for k, name in enumerate(known.tolist())}
        code = np.array([0] + [place.get(name, 0) for name in self.judges.tolist()])
        return replace(self, judges=known, judge=code[self.judge])

    def with_effects(self, known: tuple[str, ...]) -> Self:
        """Give answers without covariates the known ones, with the value 0; refuse others."""
        if self.effects and self.effects != known:
            raise InvalidInputError(
                f"Covariates must be those of `fit`, {list(known)}: got {list(self.effects)}."
            )
        return self if self.effects else replace(self, effects=known)

    def refuse_unread(self, likelihood: LikelihoodName) -> None:
        """Refuse ties without comparisons, and margins that the likelihood does not read."""
        if self.tied_weight is not None and self.tied is None:
            raise InvalidInputError(
                "`tied_weight` must come with `tied`: got weights and no ties. Give `tied`, or "
                "leave the weights out."
            )
        if self.tied is not None and self.pairs is None:
            raise InvalidInputError(
                "`tied` must come with `pairs`: got scores `y`. Use ties='keep' to count equal "
                "scores as ties."
            )
        if self.pair_margin is not None and self.pairs is not None and likelihood != "gaussian":
            raise InvalidInputError(
                "`pair_margin` is used only by likelihood='gaussian': got margins and likelihood="
                f"{likelihood!r}. Change the likelihood, or leave the margins out."
            )

    @property
    def are_ties(self) -> bool:
        """Whether no answer has a winner."""
        return self.tied is not None and np.size(as_array("pairs", self.pairs)) == 0

    def data(
        self, n_items: int, y: Any = None, qid: Any = None, weight: Any = None
    ) -> TrainingData:
        """Check the answers with a winner, or scores; where all are ties these stand for them."""
        if self.are_ties:
            return TrainingData.of(n_items, y, qid, weight, pairs=self.tied)
        given = self.pairs, self.pair_margin, self.pair_weight
        return TrainingData.of(n_items, y, qid, weight, *given)

    def table(self, data: TrainingData, likelihood: LikelihoodName) -> "AnswerTable":
        """Return one row for each answer, ties last; Gaussian ties have a margin of 0."""
        pairs, margin, weight = data.comparisons
        tied = np.zeros(len(pairs), dtype=bool)
        if self.are_ties:
            pairs, margin, weight, tied = pairs[:0], margin[:0], weight[:0], tied[:0]
        if self.tied is not None and np.size(self.tied):
            undecided = check_pairs(self.tied, data.n_items)
            n_tied, is_margin = len(undecided), likelihood == "gaussian"
            pairs = np.vstack([pairs, undecided])
            margin = np.append(margin, np.full(n_tied, 0.0 if is_margin else 1.0))
            tied = np.append(tied, np.full(n_tied, not is_margin))
            own = check_weight("tied_weight", self.tied_weight, n_tied, "tie")
            weight = np.append(weight, own)
        covariates = self.covariates
        if covariates.shape != (len(pairs), len(self.effects)):
            covariates = np.zeros((len(pairs), len(self.effects)))
        return AnswerTable(pairs, tied, margin, weight, self.judge, self.date, covariates)


def _judge_column(name: str, values: Any, n_rows: int) -> list[Any]:
    """Return who gave each answer, names of any type."""
    listed = [] if values is None else as_array(name, values).tolist()
    if np.ndim(listed) != 1 or len(listed) != n_rows:
        raise InvalidInputError(
            f"`{name}` must say who gave each of the {n_rows} answers: got "
            f"{len(listed) if np.ndim(listed) == 1 else np.shape(listed)}."
        )
    return listed


def _with_columns(table: ComparisonTable, judge: Any, date: Any) -> ComparisonTable:
    """Add columns of judges and dates to named comparisons that have none."""
    given = {"judge": (judge, table.judge), "date": (date, table.date)}
    for name, (values, known) in given.items():
        if values is not None and known is not None:
            raise InvalidInputError(
                f"`{name}` must be given once: the comparisons have such a column, and `{name}` "
                "was given too. Leave one of them out."
            )
    if date is not None:
        table = replace(table, date=as_days(date, table.n_rows))
    if judge is None:
        return table
    labels = Labels.of(np.array(as_array("judge", judge).tolist(), dtype=object))
    _judge_column("judge", labels.index, table.n_rows)
    return replace(table, judge=labels)


def names_after(known: NDArray[Any] | None, others: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return known names, followed by those of others that are new."""
    if known is None or others is None:
        return others if known is None else known
    old = set(known.tolist())
    new = others[[name not in old for name in others.tolist()]]
    if known.dtype.kind != new.dtype.kind:
        known, new = known.astype(object), new.astype(object)
    return np.concatenate([known, new])


@final
@dataclass(frozen=True, eq=False)
class AnswerTable:
    """Hold one row for each answer.

    Parameters
    ----------
    pairs : (n_answers, 2)
        Row numbers of the items, winner first.
    tied : (n_answers,)
        Whether the answer was "no preference".
    margin, weight : (n_answers,)
    judge, date : (n_answers,), optional
    covariates : (n_answers, n_covariates)
    """

    pairs: IntArray
    tied: BoolArray
    margin: FloatArray
    weight: FloatArray
    judge: IntArray | None
    date: FloatArray | None
    covariates: FloatArray

    def shown_as(self, shown: ShownItems, items: DistinctItems) -> tuple[ShownItems, Comparisons]:
        """Merge answers that compare the same items in the same context."""
        shown, ends = shown.extended(items.merged(self.pairs), self.covariates, self.date)
        kept = self.weight > 0.0
        return shown, Comparisons.from_pairs(
            ends[kept],
            tied=self.tied[kept],
            margin=self.margin[kept],
            weight=self.weight[kept],
            judge=None if self.judge is None else self.judge[kept],
        )

    def rounded(self, most: int) -> Self:
        """Round dates, counted back from the last, until few enough items at dates are left."""
        assert self.date is not None
        last, span = float(self.date.max()), float(np.ptp(self.date))
        width, dates = 0.0, self.date
        while width <= span and _first_shown(self.pairs, dates).sum() > most:
            width = max(2.0 * width, span / FINEST)
            dates = last - width * np.round((last - self.date) / width)
        return replace(self, date=dates)

    def busiest(self, most: int) -> Self:
        """Keep the answers among the busiest items, up to a number of items at dates.

        Dates are rounded to a part of the time between the first and the last. O(n log n).
        """
        assert self.date is not None
        last, width = float(self.date.max()), float(np.ptp(self.date)) / SEARCH_DATES
        dates = last - width * np.round((last - self.date) / width)
        # answers in the order of the less busy of their two items
        place = np.argsort(np.argsort(-np.bincount(self.pairs.ravel()), kind="stable"))
        order = np.argsort(place[self.pairs].max(axis=1), kind="stable")
        new = _first_shown(self.pairs[order], dates[order]).reshape(-1, 2).sum(axis=1)
        rows = np.sort(order[np.cumsum(new) <= most])
        columns = {name: values[rows] for name, values in vars(self).items() if values is not None}
        return replace(self, **{**columns, "date": dates[rows]})


def _first_shown(ends: IntArray, dates: FloatArray) -> BoolArray:
    """Return which items of answers are not at the same date in an answer before."""
    keys = np.column_stack([ends.ravel().astype(np.float64), np.repeat(dates, 2)])
    return first_equal(keys) == np.arange(2 * len(ends))


def scored_answers(
    data: TrainingData,
    *,
    ties: TieRule,
    likelihood: LikelihoodName,
    max_pairs: int | None,
    rng: np.random.Generator,
) -> AnswerTable:
    """Compare the items of every query by their scores: all pairs, or a random sample.

    The weight of a pair is the product of the weights of its items, as if these were repeated.
    """
    scores, queries = data.single_output("Fit each column."), data.queries
    first, second = pairs_of_queries(queries, max_pairs, rng)
    margin, weight = scores[first] - scores[second], data.weight[first] * data.weight[second]
    kept = (weight > 0.0) & ((margin != 0.0) | (ties == "keep"))
    first, second, margin, weight = first[kept], second[kept], margin[kept], weight[kept]
    if not margin.any():
        raise NothingToLearnError(
            "The data must hold at least one preference: all scores inside every query are "
            f"equal, or every query has one item only ({queries}). Check `y` and `qid`."
        )
    swap = (margin < 0.0)[:, None]
    pairs = np.where(swap, np.stack([second, first], 1), np.stack([first, second], 1))
    none = np.zeros((len(pairs), 0))
    if likelihood == "gaussian":
        tied = np.zeros(len(pairs), dtype=bool)
        return AnswerTable(pairs, tied, np.abs(margin), weight, None, None, none)
    return AnswerTable(pairs, margin == 0.0, np.ones(len(pairs)), weight, None, None, none)


def pairs_of_queries(
    queries: Queries, max_pairs: int | None, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Return pairs of items of the same query: all of them, or about ``max_pairs`` drawn."""
    n_pairs = queries.sizes * (queries.sizes - 1) // 2
    ends = np.cumsum(n_pairs)
    total = int(ends[-1])
    if max_pairs is not None and total > max_pairs:
        codes = np.unique(rng.integers(total, size=max_pairs))
    else:
        codes = np.arange(total)
    query = np.searchsorted(ends, codes, side="right")
    place = codes - (ends - n_pairs)[query]
    high = np.floor(0.5 * (1.0 + np.sqrt(1.0 + 8.0 * place))).astype(np.intp)
    high -= high * (high - 1) // 2 > place  # where the root was rounded up
    low = place - high * (high - 1) // 2
    start = queries.starts[query]
    return queries.order[start + low], queries.order[start + high]


def n_queries_without_preference(data: TrainingData, ties: TieRule) -> int:
    """Return the number of queries without a comparison; with kept ties any two items make one."""
    if not data.is_scored:
        return 0
    used = data.weight > 0.0
    query, scores = data.queries.index[used], data.scores[used]
    if ties == "keep":
        compared = np.bincount(query, minlength=data.queries.n_queries) > 1
    else:
        low, high = np.full((2, data.queries.n_queries), [[np.inf], [-np.inf]])
        np.minimum.at(low, query, scores)
        np.maximum.at(high, query, scores)
        compared = high > low
    return int(np.count_nonzero(~compared))


def choose_likelihood(
    name: LikelihoodName,
    comparisons: Comparisons,
    noise: float | None,
    flip_rate: float,
    tie_width: float,
) -> Likelihood:
    """Return the likelihood with its starting values, with ties only if there are any."""
    if name == "gaussian":
        return GaussianMargin(noise or NOISE_SHARE * comparisons.margin_scale**2)
    variance = noise or 1.0
    base = ProbitWithTies(tie_width, variance) if comparisons.tied.any() else Probit(variance)
    if name == "logistic":
        return Logistic(base)
    return WithFlips(base, flip_rate) if name == "robust" else base
