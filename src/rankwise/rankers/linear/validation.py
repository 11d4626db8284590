"""The data that choose between iterates and alphas: given, or held out of the training data."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Annotated, TypeAlias, final

import numpy as np

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, Matrix, as_columns
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Advice, Share
from rankwise.core.queries import Queries, TrainingData
from rankwise.core.threads import even_parts, run_parts
from rankwise.measures.value import Judgements, Measure, MeasurePlan, Rankings, weighted_mean
from rankwise.selection.holdouts import ValidationData
from rankwise.solve.conjugate_gradients import Validator
from rankwise.solve.rows import as_rows

HeldOutShare: TypeAlias = Annotated[Share, Advice("Or give X_val, y_val and qid_val.")]
"""The share of the data that is held out."""

N_HOLD_OUTS = 5
"""Draws by which an alpha is chosen on a single query."""

SORTING = 60
"""Entries of a product that take as long as ranking and rating one item."""


@final
@dataclass(frozen=True, eq=False)
class ValidationSplit:
    """Training data, and a validator of the iterates learned from them.

    Parameters
    ----------
    training : TrainingData
        The training data; held-out items have weight 0, so that X stays whole.
    validator : Validator, optional
        Rates scores of the held-out or given validation data.
    n_held_out : int
        Number of whole queries that are held out.
    """

    training: TrainingData
    validator: Validator | None = None
    n_held_out: int = 0


def hold_out(
    X: Matrix, data: TrainingData, fraction: float, measure: Measure, rng: np.random.Generator
) -> ValidationSplit:
    """Hold out a share of the queries, of the items of a single query, or of the comparisons.

    Parameters
    ----------
    X : (n_items, n_features)
        The rows.
    data : TrainingData
        Scores of a single output, or comparisons.
    fraction : float
        The share.
    measure : Measure
        The measure that decides on scores; only queries that define it are held out.
    rng : Generator
        Draws the hold-out.
    """
    if not data.is_scored:
        pairs, _, pair_weight = data.comparisons
        drawn, n_queries = _draw_pairs(data, fraction, rng)
        validator = validate_by_pairs(X, pairs[drawn], pair_weight[drawn])
        return ValidationSplit(data.without_pairs(np.flatnonzero(drawn)), validator, n_queries)
    rows, n_queries = _draw_items(data, fraction, measure, rng)
    return _without_rows(X, data, rows, measure, n_queries)


def _without_rows(
    X: Matrix, data: TrainingData, rows: IntArray, measure: Measure, n_held_out: int = 0
) -> ValidationSplit:
    """Hold out rows, and rate their scores by a measure."""
    weight = None if data.sample_weight is None else data.sample_weight[rows]
    rate = rate_by_measure(data.scores[rows], data.queries.take(rows), measure, weight)
    validator = Validator(as_rows(X[rows]), rate, measure.greater_is_better)
    return ValidationSplit(data.without(rows), validator, n_held_out)


def several_hold_outs(
    X: Matrix, data: TrainingData, fraction: float, measure: Measure, rng: np.random.Generator
) -> Iterator[ValidationSplit]:
    """Hold out items of a single query several times, with the same share of every grade.

    A single draw has too few items of a rare grade to choose by. Draws do not overlap as long as
    there are enough items. Held-out rows are copied only when they are needed.

    Parameters
    ----------
    X, data, fraction, measure, rng
        As in `hold_out`, for scores of a single query.
    """
    scores = data.scores
    order = np.lexsort((rng.random(len(scores)), scores))
    _, starts, counts = np.unique(scores[order], return_index=True, return_counts=True)
    for k in range(N_HOLD_OUTS):
        rows = np.concatenate(
            [
                order[start + (k * size + np.arange(size)) % count]
                for start, count, size in zip(starts, counts, _sizes(counts, fraction), strict=True)
            ]
        )
        yield _without_rows(X, data, rows, measure)


def _sizes(counts: IntArray, fraction: float) -> IntArray:
    """Return how many items of each grade to hold out: at least one, and never all of several."""
    wanted = np.maximum(1, np.round(fraction * counts).astype(np.intp))
    return np.where(counts > 1, np.minimum(wanted, counts - 1), 0)


def _draw_items(
    data: TrainingData, fraction: float, measure: Measure, rng: np.random.Generator
) -> tuple[IntArray, int]:
    """Return the items that are held out, and the number of whole queries they are."""
    queries = data.queries
    rated = _defined(measure, Judgements.of(data.scores, queries)).defined
    if queries.n_queries == 1:
        return np.flatnonzero(_draw(queries.n_items, fraction, rng)), 0
    candidates = np.flatnonzero(rated)
    drawn = np.zeros(queries.n_queries, dtype=bool)
    drawn[candidates[_draw(len(candidates), fraction, rng)]] = True
    return np.flatnonzero(drawn[queries.index]), int(drawn.sum())


def _draw_pairs(
    data: TrainingData, fraction: float, rng: np.random.Generator
) -> tuple[BoolArray, int]:
    """Return which comparisons are held out, and the number of whole queries they are."""
    if not data.has_qid:
        return _draw(len(data.comparisons[0]), fraction, rng), 0
    compared, of_pair = np.unique(data.pair_queries, return_inverse=True)
    if len(compared) < 2:
        return _draw(len(of_pair), fraction, rng), 0
    drawn = _draw(len(compared), fraction, rng)
    return drawn[of_pair], int(drawn.sum())


def _draw(count: int, fraction: float, rng: np.random.Generator) -> BoolArray:
    """Choose a share of some things at random, at least one of them."""
    drawn = np.zeros(count, dtype=bool)
    drawn[rng.permutation(count)[: max(1, round(fraction * count))]] = True
    return drawn


def validate_by_data(data: ValidationData, measure: Measure, n_outputs: int) -> list[Validator]:
    """Rate scores of validation data that were given, for each output of the training data."""
    columns = as_columns(data.y).T
    if len(columns) != n_outputs:
        raise InvalidInputError(
            f"`y_val` must have the outputs of `y`, {n_outputs}: got {len(columns)}. Give a column "
            "for each."
        )
    rows, upwards = as_rows(data.X), measure.greater_is_better
    return [
        Validator(rows, rate_by_measure(y.copy(), data.queries, measure), upwards) for y in columns
    ]


def rate_by_measure(
    y: FloatArray, queries: Queries, measure: Measure, sample_weight: FloatArray | None = None
) -> Callable[[FloatArray], FloatArray]:
    """Return what rates each row of scores (n_vectors, n_items); y is prepared once."""
    judgements = Judgements.of(y, queries, sample_weight if measure.takes_weights else None)
    plan = _defined(measure, judgements)

    def rate(scores: FloatArray) -> FloatArray:
        values = np.empty(len(scores))

        def task(_: int, first: int, last: int) -> None:
            rankings = Rankings.of(judgements, scores[first:last], plan.depth)
            values[first:last] = weighted_mean(measure.rate(plan, rankings), plan.weight)

        run_parts(task, even_parts(SORTING * len(judgements.y) * np.arange(len(scores) + 1)))
        return values

    return rate


def _defined(measure: Measure, judgements: Judgements) -> MeasurePlan:
    plan = measure.prepare(judgements)
    if not plan.defined.any():
        raise InvalidInputError(
            f"The validation data must define {measure!r} in at least one query: it is undefined "
            f"in all of them ({judgements.queries}). Hold out more, or give X_val and y_val."
        )
    return plan


def validate_by_pairs(X: Matrix, pairs: IntArray, weight: FloatArray) -> Validator:
    """Rate scores by the share of comparisons in the right order, ties counting one half."""
    rows, index = np.unique(pairs, return_inverse=True)
    winner, loser = index.reshape(pairs.shape).T
    share = weight / weight.sum() if weight.any() else np.full(len(weight), 1.0 / len(weight))

    def rate(scores: FloatArray) -> FloatArray:
        lead = np.sign(scores[:, winner] - scores[:, loser])
        return 0.5 + 0.5 * (lead @ share)  # one minus [APS10] eq. (2), measure-concordance

    return Validator(as_rows(X[rows]), rate)
