"""Measure held-out scores along a grid: from scores to a path."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray, sum_by
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.core.training_data import TrainingData
from rankwise.measures.pairwise import AUC, Concordance, Disagreement
from rankwise.measures.rankings import Judgements
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import Measure, weighted_mean
from rankwise.selection.holdouts import HeldOut, PairsHeldOut
from rankwise.selection.path import TRUSTED, SelectionPath, Simplest

PAIR_MEASURES = (Concordance, AUC, Disagreement(ties="half"))


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
    """Turn counts of left-out pairs into a path; several outputs are averaged.

    The standard error is that of a mean over pairs that share items: the spread of the items'
    shares, like DeLong's for the AUC. It ignores that the models overlap.
    """
    values = held_out.concordance.mean(axis=1)
    n_pairs = held_out.total.sum(axis=1) / 2
    lean = held_out.right - held_out.concordance[:, None] * held_out.total
    errors = np.sqrt((lean**2).sum(axis=1)) / n_pairs
    return _pair_path(values, errors.mean(axis=1), held_out.error, measure, alphas)


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
