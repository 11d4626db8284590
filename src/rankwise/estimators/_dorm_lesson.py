"""The queries that DORM learns from, and the problem they pose."""

from dataclasses import dataclass
from typing import Any, Self, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError, NothingToLearnError
from rankwise.core.queries import Queries
from rankwise.core.validation import check_length, check_scores, check_weight
from rankwise.estimators._dorm_aims import Aim, CostFunction, Decay, decay_of, find_aim
from rankwise.estimators._dorm_ground import Ground
from rankwise.estimators._dorm_preliminary import preliminary_scores
from rankwise.inference.assignment import plan_assignments
from rankwise.inference.structured_losses import RankingLoss
from rankwise.measures.rankings import Judgements
from rankwise.measures.value import Measure


@final
@dataclass(frozen=True, eq=False)
class Given:
    """What ``fit`` was given beside X, checked; one entry per row of X."""

    y: FloatArray
    queries: Queries
    weight: FloatArray
    preliminary: FloatArray | None = None
    sources: Any = None

    @classmethod
    def of(
        cls,
        n_items: int,
        y: ArrayLike | None,
        qid: ArrayLike | None,
        sample_weight: ArrayLike | None,
        preliminary: ArrayLike | None = None,
        sources: ArrayLike | None = None,
    ) -> Self:
        """Check that everything has one entry per row."""
        scores = one_output(y, "y")
        queries = Queries.single(n_items) if qid is None else Queries.from_qid(qid)
        weight = check_weight("sample_weight", sample_weight, n_items, "row of `X`")
        check_length("y", scores, n_items)
        check_length("qid", queries.index, n_items)
        early = None if preliminary is None else one_output(preliminary, "preliminary")
        named = None if sources is None else np.asarray(sources)
        if early is not None:
            check_length("preliminary", early, n_items)
        if named is not None:
            check_length("sources", named, n_items)
        return cls(scores, queries, weight, early, named)


@final
@dataclass(frozen=True, eq=False)
class Lesson:
    """The queries whose rankings differ in worth; arrays stand query by query.

    Parameters
    ----------
    rows : (n_items,)
        Where the items stand in X.
    queries : Queries
        Their grouping, sorted.
    aim : Aim
        What their rankings gain.
    decay : (n_items,)
        c of each position.
    relevance : (n_items,)
        What preliminary scores are learned from.
    weights : (n_queries,)
        How much each query counts: the mean weight of its items.
    given : Given
        What was given.
    """

    rows: IntArray
    queries: Queries
    aim: Aim
    decay: FloatArray
    relevance: FloatArray
    weights: FloatArray
    given: Given

    @classmethod
    def of(cls, measure: Measure | str | CostFunction, decay: Decay, given: Given) -> Self:
        """Take the items of a weight above 0 of all queries that hold a preference."""
        counted = np.flatnonzero(given.weight > 0)
        queries = given.queries.take(counted)
        order = counted[queries.order]
        queries = queries.take(queries.order)
        judgements = Judgements.of(given.y[order], queries)
        aim = find_aim(measure, judgements)
        if not aim.is_open.any():
            raise NothingToLearnError(
                "The data must hold at least one query whose rankings differ by the measure: none "
                f"of {queries.n_queries} does, as their items gain the same, or there is but one. "
                "Check `y`, `qid` and `measure`."
            )
        kept = np.flatnonzero(aim.is_open[queries.index])
        rows, queries, aim = order[kept], queries.take(kept), aim.take(kept)
        c = decay_of(decay, queries)
        weights = queries.mean(given.weight[rows])
        return cls(rows, queries, aim, c, _relevance(aim, given.y[rows], c), weights, given)

    def ties(self, ground: Ground) -> FloatArray:
        """Return preliminary scores of the items: given, or those of a least-squares ranker."""
        if self.given.preliminary is not None:
            return self.given.preliminary[self.rows]
        Z = ground.features(self.rows)
        return preliminary_scores(Z, self.relevance, self.queries, self.weights)

    def loss(self, ties: FloatArray, depth: int | None = None) -> RankingLoss:
        """Return the loss to bound, towards the ranking that preliminary scores choose.

        Parameters
        ----------
        ties : (n_items,)
            Preliminary scores.
        depth : int, optional
            Number of positions that the condition on sources is about.
        """
        starts, sources = self.queries.starts, self.given.sources
        if self.aim.costs is not None:
            if sources is not None:
                raise InvalidInputError(
                    "`sources` must come with a measure: got a cost function. Let the cost say "
                    "what belongs where, or train for a measure."
                )
            return RankingLoss.from_costs(self.aim.costs, self.decay, ties, self.weights)
        gains = self.aim.settle(ties, starts)
        plan = plan_assignments(gains, self.aim.discounts, self.decay, starts)
        if sources is None or depth is None:
            return RankingLoss.from_gains(plan, ties, self.weights)
        make = RankingLoss.from_sources if sources.ndim == 1 else RankingLoss.from_conditions
        return make(plan, sources[self.rows], depth, ties, self.weights)


def _relevance(aim: Aim, y: FloatArray, decay: FloatArray) -> FloatArray:
    """Return the grades, or for costs the decay at the positions where items cost least."""
    return y if aim.costs is None else RankingLoss.from_costs(aim.costs, decay).target


def one_output(y: ArrayLike | None, name: str) -> FloatArray:
    """Return scores of a single output."""
    if y is None:
        raise InvalidInputError(
            "`fit` requires y to be passed, but the target y is None. Give the grades of the items."
        )
    scores = check_scores(y, name)
    if scores.ndim != 1:
        raise InvalidInputError(
            f"`{name}` must have shape (n_items,): got {scores.shape}. Fit one ranker per output."
        )
    return scores
