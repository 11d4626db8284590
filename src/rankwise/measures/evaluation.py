"""Measure rankings query by query, and test whether one ranker is better than another."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, final

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, freeze
from rankwise.core.checks import (
    as_floats,
)
from rankwise.core.display import (
    Result,
    between,
    decimals,
    new_axes,
    p_value,
    plain,
    text_table,
)
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Count, RandomSeed, Share, check_call
from rankwise.core.queries import Queries
from rankwise.measures.graded import NDCG
from rankwise.measures.pairwise import Concordance, KendallTau
from rankwise.measures.registry import parse_measure, parse_measures
from rankwise.measures.value import (
    Judgements,
    Measure,
    Rankings,
    in_quotes,
    many_vectors,
    one_vector,
    weighted_mean,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Alternative: TypeAlias = Literal["two-sided", "greater", "less"]
"""The hypothesis that a small p-value supports: a and b differ, a is greater, a is less."""

ENTRIES_AT_ONCE = 1 << 22
"""Number of resampling counts held in memory at a time."""


@final
@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Result):
    """Hold the value of each measure for each query; prints as a table of the means.

    Parameters
    ----------
    ids : (n_queries,)
        The ids of the queries.
    measures : tuple of Measure
        The measures.
    values : (n_queries, n_measures)
        The values; NaN if a measure is undefined and skipped.
    weights : (n_queries, n_measures)
        The weight of each query in the overall value: 1, or that of its pairs for a pooled measure.
    defined : (n_queries, n_measures)
        Whether the grades of the query define the measure.

    Examples
    --------
    >>> from rankwise import evaluate
    >>> y, scores, qid = [2, 0, 1, 0, 0], [0.9, 0.8, 0.1, 0.5, 0.4], ["a", "a", "a", "b", "b"]
    >>> evaluation = evaluate(y, scores, qid, ["NDCG @ 10", "AP"])
    >>> print(evaluation)
    measure      mean  std. error  undefined
    NDCG @ 10  0.9502           -          1
    AP         0.8333           -          1
    2 queries
    >>> round(evaluation["NDCG @ 10"], 4)
    0.9502
    >>> evaluation.per_query["AP"].round(4)
    array([0.8333,    nan])
    """

    ids: NDArray[Any]
    measures: tuple[Measure, ...]
    values: FloatArray
    weights: FloatArray
    defined: BoolArray

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.ids)

    @property
    def mean(self) -> FloatArray:
        """The overall value of each measure: the mean over defined queries, or pooled."""
        return weighted_mean(self.values.T, self.weights.T)

    @property
    def standard_error(self) -> FloatArray:
        """The standard error of each overall value over queries; NaN for fewer than two queries.

        A pooled measure is a ratio of sums over queries; its standard error is linearised.
        """
        # queries that enter the mean
        counted = ~np.isnan(self.values) & (self.weights > 0)
        weights = np.where(counted, self.weights, 0.0)
        n_counted = counted.sum(axis=0)
        several = n_counted > 1
        # the mean is a ratio of weighted sums, linearised around its value
        residuals = weights * np.where(
            counted, self.values - np.where(several, self.mean, 0.0), 0.0
        )
        error = np.full(len(self.measures), np.nan)
        n = n_counted[several]
        squares = (residuals[:, several] ** 2).sum(axis=0)
        error[several] = np.sqrt(squares * n / (n - 1)) / weights[:, several].sum(axis=0)
        return error

    @property
    def n_undefined(self) -> IntArray:
        """Number of queries where each measure is undefined, whatever its ``empty`` says."""
        undefined: IntArray = (~self.defined).sum(axis=0)
        return undefined

    @property
    def per_query(self) -> dict[str, NDArray[Any]]:
        """The table of values: a column of ids, ``"qid"``, and a column for each measure."""
        columns = {repr(m): freeze(self.values[:, at]) for at, m in enumerate(self.measures)}
        return {"qid": self.ids} | columns

    def __getitem__(self, measure: str | Measure) -> float:
        """Return the overall value of a measure, given as a value or as text."""
        return float(self.mean[self.column(measure)])

    def column(self, measure: str | Measure) -> int:
        """Return the position of a measure."""
        wanted = parse_measure(measure)
        if wanted not in self.measures:
            raise InvalidInputError(
                f"The evaluation holds {in_quotes(map(repr, self.measures))}: got {wanted!r}. "
                "Pass it to `evaluate`."
            )
        return self.measures.index(wanted)

    def interval(
        self, confidence: Share = 0.95, *, n_bootstrap: Count = 2000, random_state: RandomSeed = 0
    ) -> FloatArray:
        """Return the interval of each overall value over queries: (n_measures, 2).

        Queries are drawn with replacement, as many as there are, and the interval leaves out the
        same share of the overall values at both ends. NaN for fewer than two queries.

        Parameters
        ----------
        confidence : float
            Between 0 and 1.
        n_bootstrap : int
            Number of draws.
        random_state : int
            Seed of the draws: the same one gives the same interval.

        Examples
        --------
        >>> from rankwise import evaluate
        >>> evaluation = evaluate([1, 0, 1, 0, 0, 1], [3, 2, 1, 2, 1, 3], [0, 0, 0, 1, 1, 1], "AUC")
        >>> evaluation.interval().round(2)
        array([[0.5, 1. ]])
        """
        given = {"confidence": confidence, "n_bootstrap": n_bootstrap, "random_state": random_state}
        check_call(Evaluation.interval, **given)
        draws = self._bootstrap(n_bootstrap, np.random.default_rng(random_state))
        tails = [0.5 * (1.0 - confidence), 0.5 * (1.0 + confidence)]
        interval: FloatArray = np.quantile(draws, tails, axis=0).T
        few = (~np.isnan(self.values) & (self.weights > 0)).sum(axis=0) < 2
        interval[few] = np.nan
        return interval

    def _bootstrap(self, n_bootstrap: int, rng: np.random.Generator) -> FloatArray:
        """Return overall values of drawn queries, (n_bootstrap, n_measures)."""
        counted = ~np.isnan(self.values)
        weights = np.where(counted, self.weights, 0.0)
        sums = weights * np.where(counted, self.values, 0.0)
        shares = np.full(self.n_queries, 1.0 / self.n_queries)
        step = max(1, ENTRIES_AT_ONCE // self.n_queries)
        parts = []
        # resample the queries: how often each was drawn, times its weight and value
        for start in range(0, n_bootstrap, step):
            size = min(step, n_bootstrap - start)
            counts = rng.multinomial(self.n_queries, shares, size=size).astype(float)
            total = counts @ weights
            with np.errstate(invalid="ignore", divide="ignore"):
                parts.append(np.where(total > 0, counts @ sums / total, self.mean))
        return np.concatenate(parts)

    def to_dict(self) -> dict[str, Any]:
        """Return everything in types that JSON can hold; undefined values are None."""
        summaries = zip(
            self.mean, self.standard_error, self.n_undefined, self.values.T, strict=True
        )
        return {
            "n_queries": self.n_queries,
            "ids": plain(self.ids),
            "measures": {
                repr(measure): {
                    "mean": plain(mean),
                    "standard_error": plain(error),
                    "n_undefined": int(n_undefined),
                    "values": plain(values),
                }
                for measure, (mean, error, n_undefined, values) in zip(
                    self.measures, summaries, strict=True
                )
            },
        }

    def _columns(self) -> dict[str, Any]:
        """Return a row for each measure: mean, error, interval, undefined."""
        low, high = self.interval().T
        return {
            "measure": [repr(measure) for measure in self.measures],
            "mean": self.mean,
            "standard_error": self.standard_error,
            "low": low,
            "high": high,
            "n_undefined": self.n_undefined,
        }

    def plot(self, ax: Axes | None = None, measure: str | Measure | None = None) -> Axes:
        """Draw the values of one measure for all queries, in rising order. Needs matplotlib.

        Parameters
        ----------
        ax : axes, optional
            Axes to draw on; by default new ones.
        measure : measure or name, optional
            The measure to draw; by default the first.
        """
        ax = ax if ax is not None else new_axes()
        self._draw(ax, 0 if measure is None else self.column(measure))
        return ax

    def _draw(self, ax: Any, at: int = 0) -> None:
        values = np.sort(self.values[~np.isnan(self.values[:, at]), at])
        ax.plot(np.arange(1, len(values) + 1), values, ".")
        ax.axhline(self.mean[at], linestyle="--", color="grey")
        ax.set_xlabel("query, in rising order")
        ax.set_ylabel(repr(self.measures[at]))

    def _rows(self) -> list[list[str]]:
        rows = [["measure", "mean", "std. error", "undefined"]]
        columns = (self.measures, self.mean, self.standard_error, self.n_undefined)
        for measure, mean, error, n_undefined in zip(*columns, strict=True):
            rows.append([repr(measure), decimals(mean), decimals(error), str(n_undefined)])
        return rows

    def __str__(self) -> str:
        return f"{text_table(self._rows())}\n{self._counted}"

    def _cells(self) -> list[list[str]]:
        low, high = self.interval().T
        head, *body = self._rows()
        head = [*head[:3], "95 % interval", head[3]]
        ends = [between(a, b, 4) for a, b in zip(low, high, strict=True)]
        body = [[*row[:3], end, row[3]] for row, end in zip(body, ends, strict=True)]
        return [head, *body]

    def _caption(self) -> str:
        return self._counted

    @property
    def _counted(self) -> str:
        return "1 query" if self.n_queries == 1 else f"{self.n_queries} queries"

    def __repr__(self) -> str:
        means = zip(self.measures, self.mean, strict=True)
        listing = ", ".join(f"{measure!r}: {decimals(mean)}" for measure, mean in means)
        return f"Evaluation({self.n_queries} queries, {listing})"


def evaluate(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike | Sequence[Hashable] | None = None,
    measures: str | Measure | Iterable[str | Measure] | None = None,
    sample_weight: ArrayLike | None = None,
) -> Evaluation:
    """Measure how well scores rank the items of each query.

    The scores are sorted once for all measures, down to the deepest cut-off: O(n log n).

    Parameters
    ----------
    y : (n_items,)
        The grades: the higher, the better the item. Any real numbers, unless a measure says
        otherwise.
    scores : (n_items,)
        The predicted scores; the item with the highest is ranked first.
    qid : (n_items,), optional
        The query of each item, in any order; by default all items form one query.
    measures : measure, name or several of them, optional
        By default Concordance and KendallTau, and also NDCG and NDCG @ 10 when no grade is negative
        and there are no weights.
    sample_weight : (n_items,), optional
        Weights of the items, for measures of pairs: the weight of a pair is the product of the
        weights of its items.

    Returns
    -------
    Evaluation
        The values of each query, their means, standard errors, and numbers of undefined queries.

    Examples
    --------
    >>> from rankwise import NDCG, evaluate
    >>> y = [3, 1, 0, 2, 1, 0]
    >>> scores = [0.9, 0.8, 0.1, 0.5, 0.3, 0.6]
    >>> qid = ["a", "a", "a", "a", "b", "b"]
    >>> print(evaluate(y, scores, qid, [NDCG @ 10, "Concordance"]))
    measure        mean  std. error  undefined
    NDCG @ 10    0.8017      0.1708          0
    Concordance  0.4167      0.4167          0
    2 queries
    """
    given = as_floats("y", y)
    queries = Queries.of(qid, given.size, owner="y")
    judgements = Judgements.of(given, queries, sample_weight)
    if measures is None:
        lowest = judgements.y.min(initial=0.0)
        chosen = default_measures(lowest, weighted=judgements.weighted)
    else:
        chosen = parse_measures(measures)
    checked = many_vectors(one_vector(scores), len(judgements.y))
    # one sort serves all measures, down to the deepest cut-off
    plans = [measure.prepare(judgements) for measure in chosen]
    rankings = Rankings.of_checked(judgements, checked, max(plan.depth for plan in plans))
    values = [measure.rate(plan, rankings)[0] for measure, plan in zip(chosen, plans, strict=True)]
    return Evaluation(
        ids=queries.ids,
        measures=chosen,
        values=freeze(np.column_stack(values)),
        weights=freeze(np.column_stack([plan.weight for plan in plans])),
        defined=freeze(np.column_stack([plan.defined for plan in plans])),
    )


def default_measures(lowest_grade: float, *, weighted: bool) -> tuple[Measure, ...]:
    """Choose measures that suit the grades: NDCG refuses negative grades and weights."""
    if weighted or lowest_grade < 0:
        return Concordance, KendallTau
    return Concordance, KendallTau, NDCG, NDCG @ 10


@final
@dataclass(frozen=True)
class PairedTest(Result):
    """Hold the result of a paired Wilcoxon signed-rank test over queries.

    Parameters
    ----------
    statistic : float
        The smaller sum of signed ranks; the sum for positive differences when one-sided.
    pvalue : float
        The probability of a difference at least as large if neither ranker is better.
    mean_difference : float
        The mean over queries of the first value minus the second.
    n_queries : int
        Number of queries compared.
    n_equal : int
        How many of them have equal values; the test leaves these out.
    n_ignored : int
        Number of other queries, for which a ranker has no value.
    differences : (n_queries,), optional
        The first value minus the second for each query, to draw.

    Examples
    --------
    >>> from rankwise import paired_test
    >>> result = paired_test([0.9, 0.8, 0.7], [0.5, 0.8, float("nan")])
    >>> result.n_queries, result.n_equal, result.n_ignored, result.pvalue
    (2, 1, 1, 1.0)
    """

    statistic: float
    pvalue: float
    mean_difference: float
    n_queries: int
    n_equal: int
    n_ignored: int
    differences: FloatArray | None = field(default=None, repr=False, compare=False)

    def __str__(self) -> str:
        return (
            f"mean difference {self.mean_difference:+.4f} over {self.n_queries} queries "
            f"({self.n_equal} equal, {self.n_ignored} ignored), "
            f"Wilcoxon signed-rank statistic {self.statistic:g}, p = {self.pvalue:.4g}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the differences in types that JSON can hold."""
        content = super().to_dict()
        del content["differences"]
        return content

    def _cells(self) -> list[list[str]]:
        head = ["mean difference", "queries", "equal", "ignored", "p-value"]
        counts = [str(self.n_queries), str(self.n_equal), str(self.n_ignored)]
        row = [f"{self.mean_difference:+.4f}", *counts, p_value(self.pvalue).removeprefix("p = ")]
        return [head, row]

    def _caption(self) -> str:
        return "Wilcoxon signed-rank test over queries"

    def _draw(self, ax: Any) -> None:
        """Draw the differences of all queries, in rising order."""
        if self.differences is None:
            raise InvalidInputError(
                "The test must hold the differences of the queries to draw them: it has none. "
                "Use `paired_test`."
            )
        values = np.sort(self.differences)
        colours = np.where(values >= 0, "tab:blue", "tab:orange")
        ax.bar(np.arange(1, len(values) + 1), values, color=colours, width=1.0)
        ax.set_xlabel("query, in rising order")
        ax.set_ylabel("first minus second")


def paired_test(
    a: Evaluation | ArrayLike,
    b: Evaluation | ArrayLike,
    measure: str | Measure | None = None,
    alternative: Alternative = "two-sided",
) -> PairedTest:
    """Test whether one ranker is better than another, query by query.

    The Wilcoxon signed-rank test ranks the differences of the queries by size and tests whether the
    positive and the negative ones balance. Queries with equal values are left out, as in Wilcoxon's
    original test; when all are equal the p-value is 1.

    Parameters
    ----------
    a, b : Evaluation or (n_queries,)
        Two evaluations of the same queries, or one value per query. NaN is ignored.
    measure : measure or name, optional
        The measure to compare; required for evaluations with several measures.
    alternative : {"two-sided", "greater", "less"}
        The hypothesis that a small p-value supports: ``a`` and ``b`` differ, ``a`` is greater, or
        ``a`` is less.

    Notes
    -----
    The test that [PTA09] Sect. 5 uses.

    Examples
    --------
    >>> from rankwise import paired_test
    >>> result = paired_test([0.9, 0.8, 0.7, 0.9, 0.6, 0.8], [0.7, 0.5, 0.6, 0.3, 0.6, 0.4])
    >>> print(result)
    mean difference +0.2667 over 6 queries (1 equal, 0 ignored), Wilcoxon ... p = 0.0625
    """
    check_call(paired_test, alternative=alternative)
    difference = _difference(a, b, measure)
    known = difference[~np.isnan(difference)]
    if len(known) == 0:
        raise InvalidInputError(
            "At least one query must have a value in both evaluations: got none. Check that the "
            "queries have relevant items, or set `empty` of the measure."
        )
    # Wilcoxon's test leaves out queries with equal values
    changed = known[known != 0.0]
    statistic, pvalue = 0.0, 1.0
    if len(changed) > 0:
        statistic, pvalue = scipy.stats.wilcoxon(changed, alternative=alternative)
    return PairedTest(
        statistic=float(statistic),
        pvalue=float(pvalue),
        mean_difference=float(known.mean()),
        n_queries=len(known),
        n_equal=len(known) - len(changed),
        n_ignored=len(difference) - len(known),
        differences=freeze(known),
    )


def _difference(
    a: Evaluation | ArrayLike, b: Evaluation | ArrayLike, measure: str | Measure | None
) -> FloatArray:
    if isinstance(a, Evaluation) and isinstance(b, Evaluation):
        if not np.array_equal(a.ids, b.ids):
            raise InvalidInputError(
                "Both evaluations must hold the same queries in the same order: the ids differ. "
                "Evaluate both rankers on the same rows."
            )
        return _column(a, measure) - _column(b, measure)
    if isinstance(a, Evaluation) or isinstance(b, Evaluation):
        raise InvalidInputError(
            "Both arguments must be evaluations, or both must be values per query: got "
            f"{type(a).__name__} and {type(b).__name__}."
        )
    first, second = as_floats("a", a), as_floats("b", b)
    if first.ndim != 1 or first.shape != second.shape:
        raise InvalidInputError(
            "Both arguments must hold one value per query: got shapes "
            f"{first.shape} and {second.shape}."
        )
    return first - second


def _column(evaluation: Evaluation, measure: str | Measure | None) -> FloatArray:
    if measure is None and len(evaluation.measures) > 1:
        raise InvalidInputError(
            "`measure` must say what to compare: the evaluations hold "
            f"{in_quotes(map(repr, evaluation.measures))}."
        )
    at = 0 if measure is None else evaluation.column(measure)
    return evaluation.values[:, at]
