"""The losses that structured learning to rank bounds, with their exact oracles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, freeze
from rankwise.core.errors import InvalidInputError
from rankwise.rankers.dorm.oracles.assignment import (
    OraclePlan,
    OracleTargets,
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

Oracle: TypeAlias = Callable[[int, FloatArray], tuple[IntArray, float]]
"""Finds the positions that maximise score plus loss, and their loss, from query and scores."""

_TIE_BREAK = 1e-6  # how much of the range of all values may decide between equal ones


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
        Queries, decay, and the compiled oracle.
    target : (n_items,)
        The decay at each item's position in the ranking without loss.
    ideal : (n_queries,)
        ``sum_i discounts[position_i] gains_i`` of that ranking.
    weights : (n_queries,)
        How much each query's slack counts.
    oracle : callable, optional
        Takes the place of the compiled oracle.
    """

    plan: OraclePlan
    target: FloatArray
    ideal: FloatArray
    weights: FloatArray
    oracle: Oracle | None = None

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
        positions = ideal_positions(plan.gains, scores, plan.starts, plan.discounts)
        return cls._towards(plan, positions, weights, None)

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
        loss, starts = cls.from_gains(plan, preliminary, weights), plan.starts

        def oracle(q: int, g: FloatArray) -> tuple[IntArray, float]:
            rows = slice(starts[q], starts[q + 1])
            a = plan.discounts[rows]
            found = assign_first_relevant(g, hits[rows], plan.decay[rows], a)
            return found, float(loss.ideal[q] - a[found[hits[rows]].min()])  # [LS08] eq. (10)

        return cls(plan, loss.target, loss.ideal, loss.weights, oracle)

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
        preference = -ideal_positions(plan.gains, scores, plan.starts)
        positions = diverse_positions(preference, sources, plan.starts, depth)
        is_first = np.r_[True, a[1:] != a[:-1]]
        behind = plan.starts[:-1] + diverse.depths
        is_first[behind[behind < plan.starts[1:]]] = True
        positions = sort_open_positions(positions, scores, plan.starts, is_first)
        loss = cls._towards(plan, positions, weights, None)
        find = diverse_oracle(diverse)

        def oracle(q: int, g: FloatArray) -> tuple[IntArray, float]:
            found, first = find(q, g), plan.starts[q]
            gained = plan.discounts[first + found] @ plan.gains[first : first + len(found)]
            return found, float(loss.ideal[q] - gained)

        return cls(plan, loss.target, loss.ideal, loss.weights, oracle)

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
        starts, depths = plan.starts, np.minimum(depth, np.diff(plan.starts)).tolist()
        parts = _by_query(np.asarray(shares, dtype=np.float64), starts)
        hints = _given_or_zeros(preliminary, len(plan.gains))

        def best(q: int, V: FloatArray) -> IntArray:
            return assign_constrained(V, parts[q], depths[q])

        def columns(q: int) -> tuple[FloatArray, FloatArray, FloatArray]:
            rows = slice(starts[q], starts[q + 1])
            return plan.gains[rows], plan.discounts[rows], plan.decay[rows]

        positions = []
        for q, g in enumerate(_by_query(hints, starts)):
            b, a, c = columns(q)
            positions.append(best(q, _tie_broken(np.outer(b, a), g, c)))
        loss = cls._towards(plan, np.concatenate(positions), weights, None)

        def oracle(q: int, g: FloatArray) -> tuple[IntArray, float]:
            b, a, c = columns(q)
            found = best(q, np.outer(g, c) - np.outer(b, a))
            return found, float(loss.ideal[q] - a[found] @ b)

        return cls(plan, loss.target, loss.ideal, loss.weights, oracle)

    @classmethod
    def from_costs(
        cls,
        costs: Sequence[FloatArray],
        decay: ArrayLike,
        preliminary: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Self:
        """Build the loss ``sum_i cost[i, position_i]``, less the smallest such sum.

        Parameters
        ----------
        costs : n_queries matrices (n_items, n_items)
            The cost of each item at each position.
        decay : (n_items,)
            c of each position, query by query.
        preliminary : (n_items,), optional
            Preliminary scores that choose the target among the rankings of the smallest cost.
        weights : (n_queries,), optional

        Notes
        -----
        [LS08] eq. (19); gains and discounts are the cost -a_j b_i, where the paper lacks the minus.
        Each call of the oracle is a general assignment problem.
        """
        starts = np.concatenate([[0], np.cumsum([len(cost) for cost in costs])])
        nothing = np.zeros(starts[-1])
        plan = plan_assignments(nothing, nothing, decay, starts)
        hints = _given_or_zeros(preliminary, starts[-1])
        each = zip(costs, _by_query(hints, starts), _by_query(plan.decay, starts), strict=True)
        best = [assign_by_value(_tie_broken(-cost, g, c)) for cost, g, c in each]
        least = [_sum_at(*pair) for pair in zip(costs, best, strict=True)]
        loss = cls._towards(plan, np.concatenate(best), weights, None)

        def oracle(q: int, g: FloatArray) -> tuple[IntArray, float]:
            c = plan.decay[starts[q] : starts[q + 1]]
            found = assign_by_value(np.outer(g, c) + costs[q])
            return found, _sum_at(costs[q], found) - least[q]  # [LS08] eq. (19)

        return cls(plan, loss.target, loss.ideal, loss.weights, oracle)

    @classmethod
    def from_functions(
        cls,
        costs: Sequence[FloatArray],
        decay: FloatArray,
        n_functions: int,
        preliminary: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> Self:
        """Build the loss of ``from_costs`` for scores that depend on the position as well.

        Every item has n_functions scores, one after the other: those of the first positions, each
        with a function of its own, and the one of all positions behind. An item at position j
        counts ``decay[j]`` times its score for j. In the arrays of this loss every score stands
        for an item: the one at which an item is placed has the decay of its position, all others
        have 0.

        Parameters
        ----------
        costs, preliminary, weights
            As for ``from_costs``.
        decay : (n_items,)
            c of each position, query by query; above 0.
        n_functions : int
            Number of scores of an item, two or more.

        Notes
        -----
        [LS08] Sect. 3.4.
        """
        starts = np.concatenate([[0], np.cumsum([len(cost) for cost in costs])])
        hints, c = _given_or_zeros(preliminary, starts[-1]), _by_query(decay, starts)
        each = list(zip(costs, _by_query(hints, starts), c, strict=True))
        best = [assign_by_value(_tie_broken(-cost, g, of_q)) for cost, g, of_q in each]
        least = [_sum_at(*pair) for pair in zip(costs, best, strict=True)]
        cells = [np.pad(of_q, (0, len(of_q) * (n_functions - 1))) for of_q in c]
        nothing = np.zeros(n_functions * starts[-1])
        plan = plan_assignments(nothing, nothing, np.concatenate(cells), n_functions * starts)
        at = np.concatenate([_cells(positions, n_functions) for positions in best])
        loss = cls._towards(plan, at, weights, None)

        def oracle(q: int, g: FloatArray) -> tuple[IntArray, float]:
            V = scores_at_positions(g.reshape(-1, n_functions), c[q])
            found = assign_by_value(V + costs[q])
            return _cells(found, n_functions), _sum_at(costs[q], found) - least[q]

        return cls(plan, loss.target, loss.ideal, loss.weights, oracle)

    @classmethod
    def _towards(
        cls, plan: OraclePlan, positions: IntArray, weights: ArrayLike | None, oracle: Oracle | None
    ) -> Self:
        n_queries = len(plan.methods)
        omega = np.ones(n_queries) if weights is None else np.array(weights, dtype=np.float64)
        if omega.shape != (n_queries,) or not np.all(np.isfinite(omega) & (omega >= 0)):
            raise InvalidInputError(
                f"`weights` must be one finite number of 0 or more for each of the {n_queries} "
                f"queries: got shape {omega.shape}."
            )
        at = positions + np.repeat(plan.starts[:-1], np.diff(plan.starts))
        ideal = np.add.reduceat(plan.discounts[at] * plan.gains, plan.starts[:-1])
        return cls(plan, freeze(plan.decay[at]), freeze(ideal), freeze(omega), oracle)

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.weights)

    def targets(self, C: float) -> OracleTargets:
        """Return the targets of compiled code, for one C."""
        return OracleTargets.of(self.plan, self.target, self.ideal, C * self.weights)

    def slacks(self, scores: FloatArray) -> FloatArray:
        """Return the slack of each query at given scores, by one call of the oracle each."""
        beta, losses = self.cuts(scores)
        lead = np.add.reduceat(beta * scores, self.plan.starts[:-1])
        return np.maximum(0.0, losses - lead)  # [LS08] eq. (27b)

    def cuts(self, scores: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the plane of each query at given scores: the items' coefficients, the losses."""
        if self.oracle is None:
            return self._planes_at(scores)[1:]
        at, losses = self.worst(scores)
        return self.target - self.plan.decay[at], losses

    def worst(self, scores: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the rankings of the greatest score plus loss, and their losses.

        The ranking of each query tells where the position of each item stands in arrays over the
        positions of all queries.
        """
        starts = self.plan.starts
        first = np.repeat(starts[:-1], np.diff(starts))
        if self.oracle is not None:
            found = [self.oracle(q, g) for q, g in enumerate(_by_query(scores, starts))]
            return np.concatenate([f[0] for f in found]) + first, np.array([f[1] for f in found])
        positions, _, losses = self._planes_at(scores)
        return positions + first, losses

    def _planes_at(self, scores: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
        g = np.ascontiguousarray(scores, dtype=np.float64)
        return planes_at(self.plan, self.targets(1.0), g)  # [LS08] eqs. (17), (24)

    def cut(self, oracle: Oracle, q: int, scores: FloatArray) -> tuple[FloatArray, float]:
        """Return the plane that an oracle finds for a query: the items' coefficients, and loss."""
        rows = slice(self.plan.starts[q], self.plan.starts[q + 1])
        positions, loss = oracle(q, scores)
        return self.target[rows] - self.plan.decay[rows][positions], loss


def _given_or_zeros(scores: ArrayLike | None, n_items: int) -> FloatArray:
    return np.zeros(n_items) if scores is None else np.asarray(scores, dtype=np.float64)


def _by_query(values: FloatArray, starts: IntArray) -> list[FloatArray]:
    return np.split(values, starts[1:-1])


def _tie_broken(V: FloatArray, preliminary: FloatArray, decay: FloatArray) -> FloatArray:
    """Return values of item and position, scaled, plus a little where preliminary scores say."""
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


def _sum_at(V: FloatArray, positions: IntArray) -> float:
    return float(V[np.arange(len(V)), positions].sum())
