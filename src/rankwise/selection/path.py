"""Measure held-out scores along a grid of one parameter, and choose among its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import FloatArray, IntArray, sum_by
from rankwise.core.checks import (
    as_floats,
)
from rankwise.core.display import (
    Result,
    brief,
    decimals,
    plain,
    text_table,
)
from rankwise.core.errors import InvalidInputError, NumericalError
from rankwise.core.params import Reads, Shape, check_value
from rankwise.core.queries import Queries, TrainingData
from rankwise.core.storable import storable
from rankwise.measures.pairwise import AUC, Concordance, Disagreement
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Judgements, Measure, weighted_mean
from rankwise.selection.holdouts import HeldOut, PairsHeldOut
from rankwise.selection.ties import TIE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ChoiceRule: TypeAlias = Literal["best", "one_standard_error"]
Simplest: TypeAlias = Literal["largest", "smallest"]

TRUSTED = 1e-3
"""A value whose scores may be off by more than this, by rounding alone, is not reported."""

PAIR_MEASURES = (Concordance, AUC, Disagreement(ties="half"))


@storable
@final
@dataclass(frozen=True, eq=False, repr=False)
class SelectionPath(Result):
    """Hold the held-out values of a measure for every value of one parameter.

    Parameters
    ----------
    parameter : str
        Its name: ``"alpha"``, ``"C"``, ``"n_components"``.
    grid : (n_values,)
        Its values.
    measure : Measure
        The measure.
    values : (n_values,)
        Its held-out values; NaN if double precision is not enough.
    standard_errors : (n_values,)
        Its standard error over queries, items or comparisons, whichever were left out.
    per_query : (n_values, n_queries) or None
        Its value for each query, if queries were left out.
    errors : (n_values,)
        The largest relative error in the scores behind a value: an estimate for rounding, a
        duality gap for iterative solvers.
    simplest : {"largest", "smallest"}
        Which of several equally good values regularises most, and is chosen.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import Concordance, SelectionPath
    >>> path = SelectionPath("alpha", np.array([1.0, 2.0, 4.0]), Concordance,
    ...                      np.array([0.8, 0.9, 0.85]), np.full(3, 0.1), None, np.zeros(3))
    >>> path.best("best"), path.best("one_standard_error")
    (1, 2)
    >>> print(path)
    alpha  Concordance  std. error
    1           0.8000      0.1000
    2           0.9000      0.1000  best
    4           0.8500      0.1000
    """

    parameter: str
    grid: Annotated[NDArray[Any], Shape("n_values")]
    measure: Measure
    values: Annotated[FloatArray, Shape("n_values")]
    standard_errors: Annotated[FloatArray, Shape("n_values")]
    per_query: Annotated[FloatArray | None, Shape("n_values", "n_queries")]
    errors: Annotated[FloatArray, Shape("n_values")]
    simplest: Simplest = "largest"

    @classmethod
    def joined(cls, parameter: str, steps: Sequence[SelectionPath]) -> SelectionPath:
        """Join paths of one value each, of 1, 2, ... of something; fewer of it are simpler."""
        per_query = [step.per_query for step in steps if step.per_query is not None]
        return cls(
            parameter,
            np.arange(1, len(steps) + 1),
            steps[0].measure,
            np.concatenate([step.values for step in steps]),
            np.concatenate([step.standard_errors for step in steps]),
            np.concatenate(per_query) if per_query else None,
            np.concatenate([step.errors for step in steps]),
            "smallest",
        )

    def best(self, rule: ChoiceRule = "best") -> int:
        """Return the position of the chosen value; among equally good ones, the simplest.

        Values that differ by rounding, 1e-12 of the best, are equally good.
        ``"one_standard_error"`` takes the simplest value within one standard error of the best.
        """
        check_value("rule", rule, ChoiceRule)
        if np.isnan(self.values).all():
            raise NumericalError(
                f"No value of `{self.parameter}` can be judged: the measure is undefined for "
                "everything held out, or rounding errors are too large (estimated error at least "
                f"{self.errors.min():.2g}). Give queries with different scores, regularise more, "
                "or scale the features."
            )
        goodness = np.where(np.isnan(self.values), -np.inf, self._sign * self.values)
        top = int(np.argmax(goodness))
        slack = 0.0 if rule == "best" else float(np.nan_to_num(self.standard_errors[top]))
        slack = max(slack, TIE * abs(goodness[top]))
        good = np.flatnonzero(goodness >= goodness[top] - slack)
        pick = np.argmax if self.simplest == "largest" else np.argmin
        return int(good[pick(self.grid[good])])

    def goodness(self, position: int) -> float:
        """Return a value, negated for a measure that is better when lower."""
        return float(self._sign * self.values[position])

    @property
    def _sign(self) -> float:
        return 1.0 if self.measure.greater_is_better else -1.0

    def to_dict(self) -> dict[str, Any]:
        """Return grid, values and standard errors in types that JSON can hold; NaN is None."""
        return {
            "parameter": self.parameter,
            "measure": repr(self.measure),
            "grid": self.grid.tolist(),
            "values": plain(self.values),
            "standard_errors": plain(self.standard_errors),
            "best": self._best,
        }

    def _columns(self) -> dict[str, Any]:
        columns = {"value": self.values, "standard_error": self.standard_errors}
        return {self.parameter: self.grid, **columns}

    @property
    def _best(self) -> int | None:
        """The position of the best value; None if nothing can be judged."""
        return None if np.isnan(self.values).all() else self.best()

    def _cells(self) -> list[list[str]]:
        rows = [[self.parameter, repr(self.measure), "std. error", ""]]
        entries = zip(self.grid, self.values, self.standard_errors, strict=True)
        for at, (point, value, error) in enumerate(entries):
            mark = "best" if at == self._best else ""
            rows.append([brief(float(point)), decimals(value), decimals(error), mark])
        return rows

    def __str__(self) -> str:
        return text_table(self._cells())

    def _caption(self) -> str:
        return f"{self.measure!r}, held out"

    def __repr__(self) -> str:
        if self._best is None:
            return f"SelectionPath({self.parameter}, {len(self.grid)} values, none judged)"
        point, value = brief(float(self.grid[self._best])), decimals(self.values[self._best])
        return (
            f"SelectionPath({self.parameter}, {len(self.grid)} values, best {self.measure!r} "
            f"{value} at {point})"
        )

    def plot(self, ax: Axes | None = None, chosen: int | None = None) -> Axes:
        """Draw the values with their standard errors; return the axes. Needs matplotlib."""
        ax = super().plot(ax)
        if chosen is not None:
            ax.axvline(self.grid[chosen], linestyle="--", color="grey")
        return ax

    def _draw(self, ax: Any) -> None:
        ax.errorbar(self.grid, self.values, yerr=self.standard_errors, marker="o", capsize=2)
        if self.grid.dtype.kind == "f":
            ax.set_xscale("log")
        ax.set_xlabel(self.parameter)
        ax.set_ylabel(self._caption())


@storable
@final
@dataclass(frozen=True, eq=False)
class Candidate:
    """Hold one setting of a search with its held-out values.

    Parameters
    ----------
    settings : mapping
        The parameters of the ranker that were tried together.
    path : SelectionPath
        The held-out values along the grid.

    Examples
    --------
    >>> from rankwise import RankRLSCV
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [5.0]], [0, 1, 2, 3, 4]
    >>> ranker = RankRLSCV([1.0], kernel=["linear", "gaussian"]).fit(X, y)
    >>> [candidate.settings["cost"] for candidate in ranker.search_]
    ['magnitude', 'magnitude']
    """

    settings: Mapping[str, Any]
    path: SelectionPath


def best_candidate(candidates: Sequence[Candidate], rule: ChoiceRule) -> int:
    """Return the candidate with the best value at its chosen position; the first of equals."""
    best = 0
    goodness = [c.path.goodness(c.path.best(rule)) for c in candidates]
    for k, value in enumerate(goodness):
        best = k if is_better(value, goodness[best]) else best
    return best


def is_better(value: float, other: float) -> bool:
    """Return whether a value is higher than another by more than rounding."""
    return value > other + TIE * abs(other)


def as_settings(value: Any, name: str = "a list of settings") -> list[Any]:
    """Return the settings to try: the entries of a list, or a single value.

    Only a list means several: a tuple is a value, such as discounts or a decay by position.
    """
    if isinstance(value, list) and not value:
        raise InvalidInputError(
            f"`{name}` must name at least one setting to try: got an empty list."
        )
    return list(value) if isinstance(value, list) else [value]


def check_alphas(alphas: Any) -> FloatArray:
    """Return a grid of alphas, each finite and above 0."""
    grid = np.atleast_1d(as_floats("alphas", alphas))
    if grid.ndim != 1 or len(grid) == 0 or not (np.isfinite(grid).all() and (grid > 0).all()):
        raise InvalidInputError(
            f"`alphas` must be a list of finite numbers above 0: got {alphas!r}."
        )
    return grid


Alphas: TypeAlias = Annotated[ArrayLike, Reads(check_alphas, "a list of finite numbers above 0")]
"""A grid of alphas."""


def as_measure(measure: Measure | str | None) -> Measure:
    """Return the measure given by value or by name; Concordance by default."""
    return Concordance if measure is None else parse_measure(measure)


def judge_scores(
    held_out: HeldOut,
    Y: FloatArray,
    queries: Queries,
    rows: IntArray,
    measure: Measure,
    grid: NDArray[Any],
    parameter: str = "alpha",
    simplest: Simplest = "largest",
) -> SelectionPath:
    """Measure held-out scores query by query.

    Parameters
    ----------
    held_out : HeldOut
        Scores for every value of the grid, item and output.
    Y : (n_items, n_outputs)
        True scores; the values of several outputs are averaged.
    queries : Queries
        The grouping of all items.
    rows : (n_rows,)
        The items that are judged: held out, and of a weight above 0.
    measure : Measure
        The measure.
    grid : (n_values,)
        The values of the parameter.
    parameter : str
        Its name.
    simplest : {"largest", "smallest"}
        Which end of the grid regularises most.
    """
    every = len(rows) == queries.n_items and bool(queries.sizes.all())  # nothing is copied
    some = queries if every else queries.take(rows)
    good = held_out.error <= TRUSTED
    scores = held_out.scores if good.all() else held_out.scores[good]
    per_output, weights = [], []
    for k, y in enumerate(Y.T):
        judgements = Judgements.of(y[rows], some)
        plan = measure.prepare(judgements)
        of_output = scores[:, :, k] if every else scores[:, rows, k]
        per_output.append(measure.rate_many(judgements, plan, of_output))
        weights.append(plan.weight)
    per_query = np.full((len(grid), some.n_queries), np.nan)
    per_query[good] = _mean_of_known(np.stack(per_output))
    error = held_out.error
    return path_of_queries(per_query, weights[0], error, measure, grid, parameter, simplest)


def path_of_queries(
    per_query: FloatArray,
    weight: FloatArray,
    error: FloatArray,
    measure: Measure,
    grid: NDArray[Any],
    parameter: str = "alpha",
    simplest: Simplest = "largest",
) -> SelectionPath:
    """Return the path of the values of all queries; those with too large an error are left out.

    Parameters
    ----------
    per_query : (n_values, n_queries)
        The value of each query; NaN if the measure is undefined.
    weight : (n_queries,)
        The weight of each query.
    error : (n_values,)
        Rounding error of the scores.
    measure, grid, parameter, simplest
        As in `judge_scores`.
    """
    good = error <= TRUSTED
    per_query = np.where(good[:, None], per_query, np.nan)
    counts = np.count_nonzero(~np.isnan(per_query), axis=1)
    values = np.full(len(grid), np.nan)
    values[good] = weighted_mean(per_query[good], weight)
    spread = _spread(per_query, counts)
    return SelectionPath(parameter, grid, measure, values, spread, per_query, error, simplest)


def _mean_of_known(values: FloatArray) -> FloatArray:
    """Average over the first axis, leaving out NaN; NaN if there is nothing else."""
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0)
    return np.where(counts > 0, total / np.maximum(counts, 1), np.nan)


def _spread(per_query: FloatArray, counts: IntArray) -> FloatArray:
    """Return the standard error of the mean over the queries that have a value."""
    known = ~np.isnan(per_query)
    n = np.maximum(counts, 1)
    means = np.where(known, per_query, 0.0).sum(axis=1) / n
    squares = np.where(known, (per_query - means[:, None]) ** 2, 0.0).sum(axis=1)
    return np.where(counts > 1, np.sqrt(squares / np.maximum(counts - 1, 1) / n), np.nan)


def judge_pairs(held_out: PairsHeldOut, measure: Measure, alphas: FloatArray) -> SelectionPath:
    """Turn counts of left-out pairs into a path; several outputs are averaged."""
    values, errors = held_out.concordance.mean(axis=1), held_out.standard_error.mean(axis=1)
    return _pair_path(values, errors, held_out.error, measure, alphas)


def judge_comparisons(
    leads: FloatArray,
    data: TrainingData,
    error: FloatArray,
    measure: Measure,
    grid: NDArray[Any],
    parameter: str = "alpha",
    simplest: Simplest = "largest",
) -> SelectionPath:
    """Measure the share of held-out comparisons in the right order, by query if there are any.

    Parameters
    ----------
    leads : (n_values, n_pairs)
        The lead of each winner. Equal scores count one half; NaN is not judged, nor are comparisons
        with a margin of 0, which have no winner.
    data : TrainingData
        The comparisons, with their weights and queries.
    error : (n_values,)
        The relative rounding error of the leads.
    measure : Measure
        The share of pairs in the right order, or in the wrong one.
    grid, parameter, simplest
        As in `judge_scores`.
    """
    weight, n_queries = data.comparisons[2], data.queries.n_queries
    right = (np.sign(leads) + 1) / 2
    has_winner = data.comparisons[1] != 0.0
    counted = np.where(np.isnan(right) | ~has_winner, 0.0, weight)
    right = np.nan_to_num(right)
    if data.has_qid:
        of_pair = data.pair_queries
        total = np.stack([sum_by(of_pair, w, n_queries) for w in counted])
        known = np.stack([sum_by(of_pair, w, n_queries) for w in counted * right])
        shares = np.divide(known, total, out=np.full_like(total, np.nan), where=total > 0)
        shown = shares if measure.greater_is_better else 1.0 - shares
        ones = np.ones(n_queries)
        return path_of_queries(shown, ones, error, measure, grid, parameter, simplest)
    share = counted / counted.sum(axis=1, keepdims=True)
    values = (right * share).sum(axis=1)
    spread = np.sqrt(((right - values[:, None]) ** 2 * share**2).sum(axis=1))
    return _pair_path(values, spread, error, measure, grid, parameter, simplest)


def _pair_path(
    values: FloatArray,
    errors: FloatArray,
    rounding: FloatArray,
    measure: Measure,
    grid: NDArray[Any],
    parameter: str = "alpha",
    simplest: Simplest = "largest",
) -> SelectionPath:
    shown = values if measure.greater_is_better else 1.0 - values
    good = rounding <= TRUSTED
    return SelectionPath(
        parameter,
        grid,
        measure,
        np.where(good, shown, np.nan),
        np.where(good, errors, np.nan),
        None,
        rounding,
        simplest,
    )


def refuse_listwise(measure: Measure, judge: str) -> None:
    """Refuse measures that need whole rankings if only pairs are held out."""
    if measure not in PAIR_MEASURES:
        known = ", ".join(repr(m) for m in PAIR_MEASURES)
        raise InvalidInputError(
            f"{judge} judges pairs, so the measure must be one of {known}: got {measure!r}. "
            "Other measures need scores `y` and whole queries."
        )
