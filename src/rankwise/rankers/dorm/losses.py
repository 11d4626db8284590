"""What DORM optimises: gains and discounts of a measure or costs, and the loss that they make."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, freeze, parts_of, starts_of
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Advice, CheckedWith, Positive
from rankwise.core.queries import Queries
from rankwise.measures.binary import RRMeasure
from rankwise.measures.graded import NDCG, WTA
from rankwise.measures.pairwise import Concordance
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import InnerProduct, InnerProductMeasure, Judgements, Measure
from rankwise.native.oracles import OracleTargets
from rankwise.rankers.dorm.oracles.assignment import (
    OraclePlan,
    assign_by_value,
    assign_first_relevant,
    ideal_positions,
    plan_assignments,
    planes_at,
    sort_open_positions,
)
from rankwise.rankers.dorm.oracles.diversity import (
    assign_constrained,
    diverse_oracle,
    diverse_positions,
    plan_diverse,
)

CostFunction: TypeAlias = Callable[[FloatArray], ArrayLike]
"""Takes the grades of a query and returns the cost of each item at each position."""

ObjectiveLike: TypeAlias = Annotated[Measure | str | CostFunction, CheckedWith("y")]
"""What can be trained for: a measure, ``"mWTA"``, or costs of items at positions."""

C_ADVICE = "Choose a positive value or 'scale'; small values learn little."

CChoice: TypeAlias = Annotated[float, Positive(), Advice(C_ADVICE)] | Literal["scale"]
"""The factor of the loss, or the value at which something begins to be learned."""

Decay: TypeAlias = Annotated[float | str | ArrayLike, CheckedWith("y")]
"""The decay of positions, checked where the lengths of queries are known."""

MODIFIED_WTA = "mWTA"
HEAD = 3  # positions that decide on the cut-off of the modified winner-takes-all


@final
@dataclass(frozen=True, eq=False)
class PositionObjective:
    """What items gain or cost at the positions of some queries; arrays are ordered query by query.

    Parameters
    ----------
    gains : (n_items,)
        b of each item, already divided by the norm of its query.
    discounts : (n_items,)
        a of each position.
    has_preference : (n_queries,)
        Which queries have rankings of different worth.
    candidates : (n_items,), optional
        For the reciprocal rank, the relevant items. The one that the target has first has the gain
        1, and preliminary scores say which it is.
    costs : list of (n_items, n_items), optional
        The cost of each item at each position, in place of gains and discounts.

    Notes
    -----
    [LS08] eqs. (9) to (16) for gains and discounts, (19) for costs.
    """

    gains: FloatArray
    discounts: FloatArray
    has_preference: BoolArray
    candidates: BoolArray | None = None
    costs: Sequence[FloatArray] | None = None

    @classmethod
    def of(cls, objective: ObjectiveLike, judgements: Judgements) -> Self:
        """Turn a measure, ``"mWTA"`` or a cost function into what it asks of some queries."""
        checked = as_objective(objective)
        if isinstance(checked, InnerProductMeasure):
            return cls._from_form(checked.form(judgements), judgements.queries)
        if isinstance(checked, RRMeasure):
            return cls._first_relevant(checked, judgements)
        if isinstance(checked, str):
            return cls._modified_wta(judgements)
        return cls._from_costs(checked, judgements)

    @classmethod
    def _from_form(cls, form: InnerProduct, queries: Queries) -> Self:
        norms = np.repeat(form.norms, queries.sizes)
        # [LS08] eq. (12), measure-ndcg: divided by the DCG @ n of the best order
        gains = np.divide(form.gains, norms, out=np.zeros(len(norms)), where=norms > 0)
        positions = _positions(queries)
        is_counted = positions < len(form.discounts)
        discounts = np.zeros(len(norms))
        discounts[is_counted] = form.discounts[positions[is_counted]]
        return cls(gains, discounts, _varies(gains, queries) & _varies(discounts, queries))

    @classmethod
    def _first_relevant(cls, measure: RRMeasure, judgements: Judgements) -> Self:
        """Mark the relevant items, and give positions their reciprocals."""
        hits, _ = measure.hits(judgements)
        positions = _positions(judgements.queries)
        is_counted = positions < measure.limit(judgements)
        # [LS08] eq. (10), measure-rr
        discounts = np.where(is_counted, 1.0 / (positions + 1.0), 0.0)
        has_preference = _varies(hits.astype(np.float64), judgements.queries)
        return cls(hits.astype(np.float64), discounts, has_preference, candidates=hits)

    @classmethod
    def _modified_wta(cls, judgements: Judgements) -> Self:
        """Cut NDCG off soon after the best grade: [LS08] Sect. 6.4.

        The cut-off is 3 where the three best items have different grades. Otherwise it is the
        position of the first item of a lower grade, in the order of the grades.
        """
        queries = judgements.queries
        starts, positions = queries.starts, _positions(queries)
        # cut-off: the first position of a lower grade, and at least three
        query = parts_of(starts)
        grades = judgements.y[np.lexsort((-judgements.y, query))]
        is_top = grades == np.repeat(grades[starts[:-1]], queries.sizes)
        n_top = np.add.reduceat(is_top.astype(np.intp), starts[:-1])
        cutoffs = np.maximum(np.minimum(n_top + 1, queries.sizes), np.minimum(HEAD, queries.sizes))
        is_counted = positions < np.repeat(cutoffs, queries.sizes)
        # NDCG at this cut-off, divided by its value for the best order
        gains = NDCG(gain="exponential").gains(judgements)
        # [LS08] eq. (14), measure-ndcg
        discounts = np.where(is_counted, 1.0 / np.log2(positions + 2.0), 0)
        ideal = np.add.reduceat(discounts * gains[np.lexsort((-gains, query))], starts[:-1])
        norms = np.repeat(np.where(ideal > 0, ideal, 1.0), queries.sizes)
        has_preference = _varies(gains, queries) & _varies(discounts, queries)
        return cls(gains / norms, discounts, has_preference)

    @classmethod
    def _from_costs(cls, function: CostFunction, judgements: Judgements) -> Self:
        costs = [_cost(function, y) for y in np.split(judgements.y, judgements.starts[1:-1])]
        has_preference = np.array([bool((np.ptp(cost, axis=1) > 0).any()) for cost in costs])
        nothing = np.zeros(len(judgements.y))
        return cls(nothing, nothing, has_preference, costs=costs)

    def take(self, items: IntArray) -> Self:
        """Keep the items of the queries with a preference, which must be given."""
        which = np.flatnonzero(self.has_preference)
        return type(self)(
            self.gains[items],
            self.discounts[items],
            self.has_preference[which],
            None if self.candidates is None else self.candidates[items],
            None if self.costs is None else [self.costs[q] for q in which.tolist()],
        )

    def chosen_gains(self, preliminary: FloatArray, starts: IntArray) -> FloatArray:
        """Return the gains; preliminary scores choose among candidates, where there are any."""
        if self.candidates is None:
            return self.gains
        query = parts_of(starts)
        order = np.lexsort((-preliminary, ~self.candidates, query))
        gains = np.zeros(len(preliminary))
        gains[order[starts[:-1]]] = 1.0  # [LS08] eq. (10), measure-rr
        return gains


def as_objective(
    objective: ObjectiveLike,
) -> InnerProductMeasure | RRMeasure | str | CostFunction:
    """Return a measure that can be trained for, the name of the heuristic, or a cost function."""
    if isinstance(objective, str) and objective.strip().lower() == MODIFIED_WTA.lower():
        return MODIFIED_WTA
    if callable(objective) and not isinstance(objective, Measure):
        return objective
    return trainable_measure(objective)


def trainable_measure(objective: Measure | str) -> InnerProductMeasure | RRMeasure:
    """Return a measure that can be trained for, or refuse others."""
    measure = parse_measure(objective)
    if isinstance(measure, InnerProductMeasure | RRMeasure):
        return measure
    raise InvalidInputError(
        "`objective` must add up gains times discounts of positions, as NDCG, DCG, Precision @ k, "
        f"RR, WTA, ERU and Utility do: got {measure!r}, which does not. Train for NDCG, and use "
        f"{measure!r} to choose the settings."
    )


def default_measure(objective: ObjectiveLike) -> Measure:
    """Return the measure that judges what was trained for an objective."""
    checked = as_objective(objective)
    if isinstance(checked, Measure):
        return checked
    return WTA if checked == MODIFIED_WTA else Concordance


def decay_of(decay: Decay, queries: Queries) -> FloatArray:
    """Return c of each position, query by query.

    Notes
    -----
    [LS08] Sect. 6.3, with positions counted from 1.
    """
    longest = int(queries.sizes.max())
    i = np.arange(1.0, longest + 1.0)
    if isinstance(decay, str) and decay == "log":
        c = 1.0 / np.log(i + 2.0)
    elif isinstance(decay, str) and decay == "loglog":
        c = 1.0 / np.log(np.log(i + 2.0))
    else:
        c = _given_decay(decay, i)
    return c[_positions(queries)]


def _given_decay(decay: Any, i: FloatArray) -> FloatArray:
    try:
        given = np.asarray(decay, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        given = np.array(np.nan)
    if given.ndim == 0 and np.isfinite(given) and given > 0:
        return (i + 1.0) ** -given
    falls = given.ndim == 1 and len(given) > 1 and bool(np.all(np.diff(given) <= 0))
    if falls and np.isfinite(given).all() and given[0] > given[-1]:
        return given[np.minimum(np.arange(len(i)), len(given) - 1)]
    raise InvalidInputError(
        "`decay` must be an exponent above 0, 'log', 'loglog', or at least two finite numbers "
        f"that fall from position to position: got {decay!r}."
    )


def _positions(queries: Queries) -> IntArray:
    """Return positions 0, 1, ... of each query, query by query."""
    return np.arange(queries.n_items) - np.repeat(queries.starts[:-1], queries.sizes)


def _cost(function: CostFunction, y: FloatArray) -> FloatArray:
    cost = np.asarray(function(y), dtype=np.float64)
    if cost.shape != (len(y), len(y)) or not np.isfinite(cost).all():
        raise InvalidInputError(
            "A cost function must return a finite number for each item of a query at each "
            f"position: expected the shape {(len(y), len(y))}, got {cost.shape}."
        )
    return cost


def _varies(values: FloatArray, queries: Queries) -> BoolArray:
    starts = queries.starts[:-1]
    varies: BoolArray = np.maximum.reduceat(values, starts) > np.minimum.reduceat(values, starts)
    return varies


Oracle: TypeAlias = Callable[[int, FloatArray], IntArray]
"""Finds the positions that maximise score plus loss, from the number of a query and its scores."""

Worth: TypeAlias = Callable[[int, IntArray], float]
"""What the positions of a query's items are worth; the loss is what they lack to the target."""

_TIE_BREAK = 1e-6  # share of the range of all values that breaks ties


@final
@dataclass(frozen=True, eq=False)
class RankingLoss:
    """The loss of every ranking of every query, and the ranking without loss to learn.

    The slack of a query with scores g is the greatest of ``loss(positions) - <beta, g>`` over all
    rankings, with ``beta_i = target_i - decay[position_i]``. It bounds the loss of the ranking by g
    from above.

    Parameters
    ----------
    plan : OraclePlan
        Queries, decay, and their oracle.
    target : (n_items,)
        The decay at each item's position in the ranking without loss.
    ideal : (n_queries,)
        What that ranking is worth.
    weights : (n_queries,)
        How much each query's slack counts.
    oracle : callable, optional
        Takes the place of the plan's oracle.
    worth : callable, optional
        What a ranking is worth, by default ``sum_i discounts[position_i] gains_i``.
    """

    plan: OraclePlan
    target: FloatArray
    ideal: FloatArray
    weights: FloatArray
    oracle: Oracle | None = None
    worth: Worth | None = None

    @classmethod
    def from_gains(
        cls,
        plan: OraclePlan,
        preliminary: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Self:
        """Build the loss ``<a(best), b> - <a(positions), b>``.

        Parameters
        ----------
        plan
            From ``plan_assignments``.
        preliminary : (n_items,), optional
            Preliminary scores that order items in the target wherever the loss leaves the order
            open: among equal gains, and among positions of equal discount. Without them it is the
            order of the items, and little may be learned.
        weights : (n_queries,), optional

        Notes
        -----
        [LS08] eq. (17).
        """
        scores = _given_or_zeros(preliminary, len(plan.gains))
        positions = ideal_positions(plan.grades, scores, plan.starts, plan.discounts)
        return cls._towards(plan, positions, weights)

    @classmethod
    def from_first_relevant(
        cls,
        plan: OraclePlan,
        hits: BoolArray,
        preliminary: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Self:
        """Build the loss of the reciprocal rank: what the first relevant item falls short of 1.

        Parameters
        ----------
        plan
            From ``plan_assignments``: the gain is 1 for the relevant item that the target has
            first, 0 for all others; the discounts are the reciprocals of the positions.
        hits : (n_items,)
            Which items are relevant; in every query some are and some are not.
        preliminary, weights
            As for ``from_gains``.

        Notes
        -----
        [LS08] eq. (10), which has a single relevant item. Of several the first in the ranking
        counts, so that this is no sum over items; the maximum over all rankings is still exact.
        """
        scores = _given_or_zeros(preliminary, len(plan.gains))
        positions = ideal_positions(plan.gains, scores, plan.starts, plan.discounts)

        def oracle(q: int, g: FloatArray) -> IntArray:
            _, a, c = _of_query(plan, q)
            return assign_first_relevant(g, hits[_rows(plan, q)], c, a)

        def worth(q: int, found: IntArray) -> float:
            first = found[hits[_rows(plan, q)]].min()
            return float(plan.discounts[plan.starts[q] + first])  # [LS08] eq. (10), measure-rr

        return cls._towards(plan, positions, weights, oracle, worth)

    @classmethod
    def from_sources(
        cls,
        plan: OraclePlan,
        sources: ArrayLike,
        depth: int,
        preliminary: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Self:
        """Build the same loss among rankings with different sources in the first positions.

        The target is the best of these rankings.

        Parameters
        ----------
        plan, preliminary, weights
            As for ``from_gains``.
        sources, depth
            As for ``plan_diverse``.

        Notes
        -----
        [LS08] eq. (33), with the positions behind the first ones scored as well.
        """
        scores = _given_or_zeros(preliminary, len(plan.gains))
        diverse, a = plan_diverse(plan, sources, depth), plan.discounts
        # target: the best ranking under the condition, items of equal worth by preliminary scores
        preference = -ideal_positions(plan.gains, scores, plan.starts)
        positions = diverse_positions(preference, sources, plan.starts, depth)
        # blocks of equal discount, of which the end of the head begins another
        is_first = np.r_[True, a[1:] != a[:-1]]
        behind = plan.starts[:-1] + diverse.depths
        is_first[behind[behind < plan.starts[1:]]] = True
        positions = sort_open_positions(positions, scores, plan.starts, is_first)
        return cls._towards(plan, positions, weights, diverse_oracle(diverse))

    @classmethod
    def from_conditions(
        cls,
        plan: OraclePlan,
        shares: ArrayLike,
        depth: int,
        preliminary: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Self:
        """Build the same loss among rankings that keep weighted conditions on the first positions.

        Each call of the oracle is a mixed-integer programme.

        Parameters
        ----------
        plan, preliminary, weights
            As for ``from_gains``.
        shares : (n_items, n_conditions)
            For each condition, the shares of the items in the head must sum to 1 at most.
        depth : int
            Number of positions of the head; all of them in a shorter query.

        Notes
        -----
        [LS08] end of Sect. 5.1.
        """
        depths = np.minimum(depth, np.diff(plan.starts)).tolist()
        parts = _by_query(np.asarray(shares, dtype=np.float64), plan.starts)
        hints = _given_or_zeros(preliminary, len(plan.gains))
        # target: the ranking of the largest gain under the conditions, ties by preliminary scores
        positions = []
        for q, g in enumerate(_by_query(hints, plan.starts)):
            b, a, c = _of_query(plan, q)
            V = _tie_broken(np.outer(b, a), g, c)
            positions.append(assign_constrained(V, parts[q], depths[q]))

        # loss-augmented ranking, dorm-oracle, under the conditions
        def oracle(q: int, g: FloatArray) -> IntArray:
            b, a, c = _of_query(plan, q)
            return assign_constrained(np.outer(g, c) - np.outer(b, a), parts[q], depths[q])

        return cls._towards(plan, np.concatenate(positions), weights, oracle)

    @classmethod
    def from_costs(
        cls,
        costs: Sequence[FloatArray],
        decay: FloatArray,
        preliminary: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        n_functions: int = 1,
    ) -> Self:
        """Build the loss ``sum_i cost[i, position_i]``, less the smallest such sum.

        With several functions, scores depend on the position as well: every item has consecutive
        scores, one for each of the first positions, which have functions of their own, and one for
        all positions behind. An item at position j counts ``decay[j]`` times its score for j. The
        arrays of this loss have one entry per score: the decay of its position for the score at
        which an item is placed, 0 for all others.

        Parameters
        ----------
        costs : n_queries matrices (n_items, n_items)
            The cost of each item at each position.
        decay : (n_items,)
            c of each position, query by query; above 0 with several functions.
        preliminary : (n_items,), optional
            Preliminary scores that choose the target among the rankings of the smallest cost.
        weights : (n_queries,), optional
        n_functions : int
            Number of scores of an item.

        Notes
        -----
        [LS08] eq. (19); gains and discounts are the cost -a_j b_i, where the paper lacks the minus.
        Each call of the oracle is a general assignment problem. Several functions: Sect. 3.4.
        """
        starts = starts_of([len(cost) for cost in costs])
        hints, c = _given_or_zeros(preliminary, starts[-1]), _by_query(decay, starts)
        # target: the ranking of the smallest cost, ties by preliminary scores
        each = zip(costs, _by_query(hints, starts), c, strict=True)
        best = [assign_by_value(_tie_broken(-cost, g, of_q)) for cost, g, of_q in each]
        # the scores of an item are the entries of the plan; only one of them has a decay
        cells = [np.pad(of_q, (0, len(of_q) * (n_functions - 1))) for of_q in c]
        nothing = np.zeros(n_functions * starts[-1])
        plan = plan_assignments(nothing, nothing, np.concatenate(cells), n_functions * starts)
        target = np.concatenate([_cells(positions, n_functions) for positions in best])

        def oracle(q: int, g: FloatArray) -> IntArray:
            V = scores_at_positions(g.reshape(-1, n_functions), c[q])
            return _cells(assign_by_value(V + costs[q]), n_functions)

        def worth(q: int, found: IntArray) -> float:
            positions = found.reshape(-1, n_functions).min(axis=1)
            # [LS08] eq. (19), dorm-cost
            return -float(costs[q][np.arange(len(positions)), positions].sum())

        return cls._towards(plan, target, weights, oracle, worth)

    @classmethod
    def _towards(
        cls,
        plan: OraclePlan,
        positions: IntArray,
        weights: ArrayLike | None,
        oracle: Oracle | None = None,
        worth: Worth | None = None,
    ) -> Self:
        """Build the loss whose target has the items at these positions."""
        n_queries = len(plan.methods)
        omega = np.ones(n_queries) if weights is None else np.array(weights, dtype=np.float64)
        if omega.shape != (n_queries,) or not np.all(np.isfinite(omega) & (omega >= 0)):
            raise InvalidInputError(
                f"`weights` must be one finite number of 0 or more for each of the {n_queries} "
                f"queries: got shape {omega.shape}."
            )
        # decay and worth of the target, dorm-loss
        at = positions + np.repeat(plan.starts[:-1], np.diff(plan.starts))
        if worth is None:
            ideal = np.add.reduceat(plan.discounts[at] * plan.gains, plan.starts[:-1])
        else:
            parts = enumerate(np.split(positions, plan.starts[1:-1]))
            ideal = np.array([worth(q, part) for q, part in parts])
        return cls(plan, freeze(plan.decay[at]), freeze(ideal), freeze(omega), oracle, worth)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.weights)

    def targets(self, C: float) -> OracleTargets:
        """Return the targets of the oracle, for one C."""
        return OracleTargets(self.plan, self.target, self.ideal, C * self.weights)

    def slacks(self, scores: FloatArray) -> FloatArray:
        """Return the slack of each query at given scores, by one call of the oracle each."""
        beta, losses = self.cuts(scores)
        lead = np.add.reduceat(beta * scores, self.plan.starts[:-1])
        return np.maximum(0.0, losses - lead)  # [LS08] eq. (27b), dorm-slack

    def cuts(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the plane of each query at given scores: the items' coefficients, the losses."""
        if self.oracle is None:
            g = np.ascontiguousarray(scores, dtype=np.float64)
            # [LS08] eqs. (17), (24), dorm-oracle
            return planes_at(self.plan, self.targets(1.0), g)[1:]
        parts = enumerate(_by_query(scores, self.plan.starts))
        beta, losses = zip(*(self.cut(self.oracle, q, g) for q, g in parts), strict=True)
        return np.concatenate(beta), np.array(losses)

    def cut(self, oracle: Oracle, q: int, scores: FloatArray) -> tuple[FloatArray, float]:
        """Return the plane that an oracle finds for a query: the items' coefficients, and loss."""
        b, a, c = _of_query(self.plan, q)
        positions = oracle(q, scores)
        worth = float(a[positions] @ b) if self.worth is None else self.worth(q, positions)
        return self.target[_rows(self.plan, q)] - c[positions], float(self.ideal[q]) - worth


def _rows(plan: OraclePlan, q: int) -> slice:
    return slice(plan.starts[q], plan.starts[q + 1])


def _of_query(plan: OraclePlan, q: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the gains b of the items of a query, and the discounts a and decay c of positions."""
    rows = _rows(plan, q)
    return plan.gains[rows], plan.discounts[rows], plan.decay[rows]


def _given_or_zeros(scores: ArrayLike | None, n_items: int) -> FloatArray:
    return np.zeros(n_items) if scores is None else np.asarray(scores, dtype=np.float64)


def _by_query(values: FloatArray, starts: IntArray) -> list[FloatArray]:
    return np.split(values, starts[1:-1])


def _tie_broken(V: FloatArray, preliminary: FloatArray, decay: FloatArray) -> FloatArray:
    """Return values of item and position, scaled, with ties broken by preliminary scores."""
    favour = np.outer(preliminary, decay)
    span, width = float(np.ptp(V)), float(np.ptp(favour))
    if span == 0.0 or width == 0.0:
        return V + favour
    return V * (len(V) / (_TIE_BREAK * span)) + favour / width


def scores_at_positions(scores: FloatArray, decay: FloatArray) -> FloatArray:
    """Return what each item counts at each position, ``decay[j]`` times its score for j.

    Parameters
    ----------
    scores : (n_items, n_functions)
        Of the first positions, and of all behind these.
    decay : (n_items,)
        c of each position.

    Notes
    -----
    [LS08] Sect. 3.4.
    """
    function = np.minimum(np.arange(len(scores)), scores.shape[1] - 1)
    return scores[:, function] * decay


def _cells(positions: IntArray, n_functions: int) -> IntArray:
    """Return the place of each score: the position for the one that counts, else behind them."""
    places = np.full((len(positions), n_functions), len(positions), dtype=np.intp)
    places[np.arange(len(positions)), np.minimum(positions, n_functions - 1)] = positions
    return places.ravel()
