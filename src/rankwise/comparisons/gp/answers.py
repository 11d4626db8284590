"""What a preference Gaussian process learns from: comparisons, and the likelihood for them."""

from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.comparisons.gp.context import NO_CONTEXT, AnswerContext
from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.likelihood import (
    GaussianMargin,
    Logistic,
    Probit,
    ProbitWithTies,
    WithFlips,
)
from rankwise.comparisons.gp.inference.likelihood_base import Likelihood
from rankwise.core.arrays import FloatArray, IntArray, copy_numbers, first_equal
from rankwise.core.checks import check_flag, check_pairs, check_positive, check_weight
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.queries import Queries, TrainingData
from rankwise.core.storable import storable
from rankwise.graph.preference_graph import Ties as TieRule
from rankwise.io.comparisons import read_comparisons

LikelihoodName: TypeAlias = Literal["probit", "robust", "logistic", "gaussian"]
EqualRows: TypeAlias = Literal["apart", "merged"]

NOISE_SHARE = 0.1
"""Share of the mean squared margin at which the search for the noise starts."""


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
    """Hold items as they were shown: first all of them without covariates, then with values.

    An answer with covariates x compares f(first) + effects @ x with f(second). So it compares the
    first item with the values x, as one row, with the second item as another.

    Parameters
    ----------
    item : (n_shown,)
        The row number of each.
    values : (n_shown, n_effects)
        Its covariates.
    date : (n_shown,), optional
        When it was shown, if scores change with time.
    """

    item: IntArray
    values: FloatArray
    date: FloatArray | None = None

    @classmethod
    def plain(cls, n_items: int, n_effects: int, date: float | None = None) -> Self:
        """Return the items without covariates, all at one date."""
        dates = None if date is None else np.full(n_items, date)
        return cls(np.arange(n_items), np.zeros((n_items, n_effects)), dates)

    def extended(
        self, pairs: IntArray, covariates: FloatArray, date: FloatArray | None = None
    ) -> tuple[Self, IntArray]:
        """Add what pairs of row numbers compare, and return their positions here. One sort.

        Parameters
        ----------
        pairs : (n_pairs, 2)
        covariates : (n_pairs, n_effects)
            Covariates, positive in favour of the first of each pair; with the opposite sign they
            favour the second. They are attached to the item for which the first non-zero value is
            positive.
        date : (n_pairs,), optional
            When both were shown; by default the date of the plain items.
        """
        n_pairs, n_effects = covariates.shape
        rows = np.arange(n_pairs)
        values = np.zeros((n_pairs, 2, n_effects))
        if n_effects:
            sign = np.sign(covariates[rows, (covariates != 0.0).argmax(axis=1)])
            values[rows, (sign < 0.0).astype(np.intp)] = sign[:, None] * covariates
        columns = [pairs.reshape(-1, 1), values.reshape(2 * n_pairs, n_effects)]
        known = [self.item[:, None], self.values]
        if self.date is not None:
            when = np.full(n_pairs, self.date[0]) if date is None else date
            columns.append(np.repeat(when, 2)[:, None])
            known.append(self.date[:, None])
        keys = np.vstack([np.hstack(known), np.hstack(columns)])
        first = first_equal(keys)
        n_known = len(self.item)
        new = np.unique(first[first >= n_known])
        place = np.append(np.arange(n_known), np.zeros(2 * n_pairs, dtype=np.intp))
        place[new] = n_known + np.arange(len(new))
        shown = place[first[n_known:]].reshape(n_pairs, 2)
        grown = type(self)(
            np.append(self.item, keys[new, 0].astype(np.intp)),
            np.vstack([self.values, keys[new, 1 : 1 + n_effects]]),
            None if self.date is None else np.append(self.date, keys[new, 1 + n_effects]),
        )
        return grown, shown


@final
@dataclass(frozen=True, eq=False)
class AnswerCovariates:
    """Hold the covariates of answers.

    Parameters
    ----------
    names : tuple of str
    of_pairs : (n_pairs, n_covariates)
        Positive in favour of the winner.
    of_ties : (n_tied, n_covariates)
        Positive in favour of the first item.
    """

    names: tuple[str, ...]
    of_pairs: FloatArray
    of_ties: FloatArray

    @classmethod
    def of(cls, table: ComparisonTable) -> Self | None:
        """Return the covariates of a table; None if it has none."""
        if not table.covariate_names:
            return None
        return cls(table.covariate_names, table.winner_covariates, table.covariates[table.tied])

    @classmethod
    def none(cls, n_pairs: int, tied: Any) -> Self:
        """Return no covariates."""
        return cls((), np.zeros((n_pairs, 0)), np.zeros((0 if tied is None else len(tied), 0)))

    @property
    def deviations(self) -> FloatArray:
        """The root mean square of each, 1 if all values are 0."""
        values = np.vstack([self.of_pairs, self.of_ties])
        scale = np.sqrt(np.mean(values**2, axis=0))
        return np.where(scale > 0.0, scale, 1.0)


@final
@dataclass(frozen=True, eq=False)
class NamedAnswers:
    """Hold comparisons by name as the corresponding arguments of `fit`.

    Parameters
    ----------
    names : (n_items,) or None
        The items; None if comparisons use row numbers.
    arguments : dict
        ``pairs``, ``tied``, ``tied_weight``, ``pair_margin`` and ``pair_weight``.
    covariates : AnswerCovariates, optional
    """

    names: NDArray[Any] | None
    arguments: dict[str, Any]
    covariates: AnswerCovariates | None = None

    @classmethod
    def of(cls, names: NDArray[Any] | None, *, first: bool = False, **arguments: Any) -> Self:
        """Turn named comparisons into positions; keep pairs of row numbers as they are.

        Parameters
        ----------
        names : (n_items,) or None
            The known items; None for those that occur.
        first : bool
            Whether being shown first is a covariate.
        arguments
            The arguments of `fit`.
        """
        check_flag("first", first)
        pairs = arguments["pairs"]
        table = read_comparisons(pairs, names=names)
        given = [name for name, value in arguments.items() if value is not None and name != "pairs"]
        if given:
            raise InvalidInputError(
                f"Named comparisons must hold all columns themselves: got {given} separately. Put "
                "ties, margins and weights into columns of the table."
            )
        table = table.with_order() if first else table
        rows, tied = table.decided, table.tied
        margin = None if table.margin is None else table.margin[rows]
        ties = {"tied": table.tied_pairs, "tied_weight": table.weight[tied]} if tied.any() else {}
        found = {"pairs": table.pairs, "pair_weight": table.weight[rows], "pair_margin": margin}
        arguments = {"tied": None, "tied_weight": None, **found, **ties}
        return cls(table.names, arguments, AnswerCovariates.of(table))


def refuse_unread(
    tied: ArrayLike | None,
    pair_margin: ArrayLike | None,
    pairs: ArrayLike | None,
    likelihood: LikelihoodName,
    tied_weight: ArrayLike | None = None,
) -> None:
    """Refuse ties without comparisons, and margins that the likelihood does not read."""
    if tied_weight is not None and tied is None:
        raise InvalidInputError(
            "`tied_weight` must come with `tied`: got weights and no ties. Give `tied`, or leave "
            "the weights out."
        )
    if tied is not None and pairs is None:
        raise InvalidInputError(
            "`tied` must come with `pairs`: got scores `y`. Use ties='keep' to count equal scores "
            "as ties."
        )
    if pair_margin is not None and pairs is not None and likelihood != "gaussian":
        raise InvalidInputError(
            "`pair_margin` is used only by likelihood='gaussian': got margins and likelihood="
            f"{likelihood!r}. Change the likelihood, or leave the margins out."
        )


def recorded_comparisons(
    data: TrainingData,
    tied: ArrayLike | None,
    items: DistinctItems,
    likelihood: LikelihoodName,
    tied_weight: ArrayLike | None = None,
    context: AnswerContext = NO_CONTEXT,
) -> Comparisons:
    """Merge comparisons that were recorded one by one; Gaussian ties have a margin of 0."""
    pairs, margin, weight = data.comparisons
    kept = weight > 0.0
    if tied is not None and not kept.any():
        return tied_comparisons(tied, items, likelihood, tied_weight, context)
    won = Comparisons.from_pairs(
        items.merged(pairs[kept]),
        margin=margin[kept],
        weight=weight[kept],
        judge=None if context.of_pairs is None else context.of_pairs[kept],
    )
    if tied is None or np.size(tied) == 0:
        return won
    return won.extend(tied_comparisons(tied, items, likelihood, tied_weight, context))


def shown_comparisons(
    data: TrainingData,
    given: NamedAnswers,
    items: DistinctItems,
    shown: ShownItems,
    likelihood: LikelihoodName,
    context: AnswerContext = NO_CONTEXT,
) -> tuple[ShownItems, Comparisons]:
    """Merge comparisons with covariates or dates: equal rows are counted together."""
    pairs, margin, weight = data.comparisons
    covariates = given.covariates or AnswerCovariates.none(len(pairs), given.arguments["tied"])
    shown, pairs = shown.extended(items.merged(pairs), covariates.of_pairs, context.dates_of_pairs)
    won = Comparisons.from_pairs(pairs, margin=margin, weight=weight, judge=context.of_pairs)
    tied = given.arguments["tied"]
    if tied is None:
        return shown, won
    tied = check_pairs(tied, len(items.X))
    shown, undecided = shown.extended(items.merged(tied), covariates.of_ties, context.dates_of_ties)
    is_margin = likelihood == "gaussian"
    new = Comparisons.from_pairs(
        undecided,
        tied=None if is_margin else np.ones(len(undecided)),
        margin=np.zeros(len(undecided)) if is_margin else None,
        weight=given.arguments["tied_weight"],
        judge=context.of_ties,
    )
    return shown, won.extend(new)


def tied_comparisons(
    tied: ArrayLike,
    items: DistinctItems,
    likelihood: LikelihoodName,
    tied_weight: ArrayLike | None = None,
    context: AnswerContext = NO_CONTEXT,
) -> Comparisons:
    """Merge answers of "no preference"; Gaussian ties have a margin of 0."""
    undecided = items.merged(check_pairs(tied, len(items.X)))
    weight = check_weight("tied_weight", tied_weight, len(undecided), "tie")
    kept = weight > 0.0
    undecided, n_tied = undecided[kept], int(kept.sum())
    judge = None if context.of_ties is None else context.of_ties[kept]
    how: dict[str, Any] = {"weight": weight[kept], "judge": judge}
    if likelihood == "gaussian":
        return Comparisons.from_pairs(undecided, margin=np.zeros(n_tied), **how)
    return Comparisons.from_pairs(undecided, tied=np.ones(n_tied), **how)


def scored_comparisons(
    data: TrainingData,
    items: DistinctItems,
    *,
    ties: TieRule,
    likelihood: LikelihoodName,
    max_pairs: int | None,
    rng: np.random.Generator,
) -> Comparisons:
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
    pairs = items.merged(pairs)
    if likelihood == "gaussian":
        return Comparisons.from_pairs(pairs, margin=np.abs(margin), weight=weight)
    return Comparisons.from_pairs(pairs, tied=margin == 0.0, weight=weight)


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
    if noise is not None:
        check_positive("noise", noise, "It is the variance of an answer.")
    if name == "gaussian":
        return GaussianMargin(noise or NOISE_SHARE * comparisons.margin_scale**2)
    variance = noise or 1.0
    base = ProbitWithTies(tie_width, variance) if comparisons.tied.any() else Probit(variance)
    if name == "logistic":
        return Logistic(base)
    return WithFlips(base, flip_rate) if name == "robust" else base
