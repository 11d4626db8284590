"""Training data of an iterative fit and what is held out of them to validate."""

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import BoolArray, FloatArray, Matrix
from rankwise.core.checks import check_length, check_pairs, check_scores, check_weight
from rankwise.core.errors import InvalidInputError
from rankwise.core.queries import Queries
from rankwise.core.threads import even_parts, run_parts
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.measures.rankings import Judgements, Rankings
from rankwise.measures.value import Measure, Plan, weighted_mean
from rankwise.rankers.linear.settings import Settings
from rankwise.rankers.preferences import Given
from rankwise.solve.conjugate_gradients import Validation
from rankwise.solve.rows import as_rows

SORTING = 60
"""Ranking and rating one item takes as long as so many entries of a product."""


@final
@dataclass(frozen=True, eq=False)
class HoldOut:
    """How much to hold out, drawn at random."""

    fraction: float
    rng: np.random.Generator

    def draw(self, count: int) -> BoolArray:
        """Choose a share of some things, at least one of them."""
        if not 0.0 < self.fraction < 1.0:
            raise InvalidInputError(
                f"`validation_fraction` must lie between 0 and 1: got {self.fraction!r}. Or give "
                "X_val, y_val and qid_val."
            )
        drawn = np.zeros(count, dtype=bool)
        drawn[self.rng.permutation(count)[: max(1, round(self.fraction * count))]] = True
        return drawn

    def draw_items(self, queries: Queries, rated: BoolArray) -> tuple[BoolArray, int]:
        """Choose among the queries that can be rated, or among the items of a single query.

        Return the items and the number of whole queries they are.
        """
        if queries.n_queries == 1:
            return self.draw(queries.n_items), 0
        candidates = np.flatnonzero(rated)
        drawn = np.zeros(queries.n_queries, dtype=bool)
        drawn[candidates[self.draw(len(candidates))]] = True
        return drawn[queries.index], int(drawn.sum())


@final
@dataclass(frozen=True, eq=False)
class Training:
    """The preferences to learn from, where what is held out has weight 0, so that X stays whole.

    Parameters
    ----------
    graph : PreferenceGraph
        The preferences.
    validation : Validation, optional
        What is held out.
    n_held_out : int
        How many whole queries that is.
    """

    graph: PreferenceGraph
    validation: Validation | None = None
    n_held_out: int = 0

    @classmethod
    def of(
        cls,
        X: Matrix,
        given: Given,
        options: dict[str, Any],
        measure: Measure,
        hold_out: HoldOut | None,
    ) -> Self:
        """Build from what `fit` was given; options are those of `PreferenceGraph.from_scores`."""
        if given.y is None:
            return cls._of_pairs(X, given, hold_out)
        y, qid = one_output(given.y), given.qid
        check_length("y", y, X.shape[0])
        if hold_out is None:
            weight = given.sample_weight
            return cls(PreferenceGraph.from_scores(y, qid, sample_weight=weight, **options))
        queries = Queries.single(len(y)) if qid is None else Queries.from_qid(qid)
        check_length("qid", queries.index, len(y))
        weight = check_weight("sample_weight", given.sample_weight, len(y), "row of `X`")
        rated = _defined(measure, Judgements.of(y, queries)).defined
        held_out, n_queries = hold_out.draw_items(queries, rated)
        kept = np.where(held_out, 0.0, weight)
        graph = PreferenceGraph.from_scores(y, qid, sample_weight=kept, **options)
        rows = np.flatnonzero(held_out)
        own_weight = None if given.sample_weight is None else weight[rows]
        part = queries.take(rows)
        validation = validate_by_measure(X[rows], y[rows], part, measure, own_weight)
        return cls(graph, validation, n_queries)

    @classmethod
    def _of_pairs(cls, X: Matrix, given: Given, hold_out: HoldOut | None) -> Self:
        margin, weight, n_items = given.pair_margin, given.pair_weight, X.shape[0]
        if hold_out is None:
            return cls(PreferenceGraph.from_pairs(given.pairs, margin, weight, n_items))
        pairs = check_pairs(given.pairs, n_items)
        w = check_weight("pair_weight", weight, len(pairs), "pair")
        held_out = hold_out.draw(len(pairs))
        graph = PreferenceGraph.from_pairs(pairs, margin, np.where(held_out, 0.0, w), n_items)
        return cls(graph, _validate_by_pairs(X, pairs[held_out], w[held_out]))


def validate_by_measure(
    X: Matrix,
    y: ArrayLike,
    queries: Queries,
    measure: Measure,
    sample_weight: ArrayLike | None = None,
) -> Validation:
    """Rate scores of the given rows by a measure; what depends on y alone is done once."""
    judgements = Judgements.of(y, queries, sample_weight if measure.takes_weights else None)
    plan = _defined(measure, judgements)

    def rate(scores: FloatArray) -> FloatArray:
        values = np.empty(len(scores))

        def task(_: int, first: int, last: int) -> None:
            rankings = Rankings.of(judgements, scores[first:last])
            values[first:last] = weighted_mean(measure.rate(plan, rankings), plan.weight)

        run_parts(task, even_parts(SORTING * len(judgements.y) * np.arange(len(scores) + 1)))
        return values

    return Validation(as_rows(X), rate, measure.greater_is_better)


def _defined(measure: Measure, judgements: Judgements) -> Plan:
    plan = measure.prepare(judgements)
    if not plan.defined.any():
        raise InvalidInputError(
            f"The validation data must define {measure!r} in at least one query: it is undefined "
            f"in all of them ({judgements.queries}). Hold out more, or give X_val and y_val."
        )
    return plan


def _validate_by_pairs(X: Matrix, pairs: Any, weight: FloatArray) -> Validation:
    """Rate scores by the share of comparisons in the right order, ties counting one half."""
    rows, index = np.unique(pairs, return_inverse=True)
    winner, loser = index.reshape(pairs.shape).T
    share = weight / weight.sum() if weight.any() else np.full(len(weight), 1.0 / len(weight))

    def rate(scores: FloatArray) -> FloatArray:  # one minus [APS10] eq. (2), normalised
        lead = np.sign(scores[:, winner] - scores[:, loser])
        return 0.5 + 0.5 * (lead @ share)

    return Validation(as_rows(X[rows]), rate)


def given_validation(
    X: Matrix,
    y_val: ArrayLike | None,
    qid_val: ArrayLike | None,
    measure: Measure,
    *,
    with_qid: bool,
) -> Validation:
    """Rate scores of checked validation rows that were given; ``with_qid`` tells of training."""
    if y_val is None:
        raise InvalidInputError("`X_val` must come with `y_val`: got none. Give both or neither.")
    if with_qid and qid_val is None:
        raise InvalidInputError(
            "`X_val` must come with `qid_val` when `qid` is given: got none. Scores compare inside "
            "a query only."
        )
    y = one_output(y_val, "y_val")
    queries = Queries.single(X.shape[0]) if qid_val is None else Queries.from_qid(qid_val)
    check_length("y_val", y, X.shape[0])
    check_length("qid_val", queries.index, X.shape[0])
    return validate_by_measure(X, y, queries, measure)


def refuse_missing_validation(settings: Settings, validation: Validation | None) -> None:
    """Refuse to learn from a file without the validation data that have to decide."""
    if settings.needs_validation and validation is None:
        raise InvalidInputError(
            "`X_val` and `y_val` must be given to `fit_file` with `alphas` or `early_stopping`: "
            "got none. Read a part of the data into memory to decide by."
        )


def one_output(y: ArrayLike, name: str = "y") -> FloatArray:
    """Return scores of a single output."""
    scores = check_scores(y, name)
    if scores.ndim != 1:
        raise InvalidInputError(
            f"`{name}` must have shape (n_items,): got {scores.shape}. Outputs share no Krylov "
            "space: fit one ranker per output, or use RankRLS."
        )
    return scores
