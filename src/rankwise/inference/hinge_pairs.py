"""Sets of preferences, and the sums over those that scores violate."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, Self, TypeAlias, final

import numpy as np
from scipy import sparse

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.levels import Levels
from rankwise.inference._hinge_kernels import find_reach, sort_places
from rankwise.inference.hinge_laplacians import Incidence, PairLaplacian, Places, Windows

ROUNDING = 1e-15
"""Error of a sum over pairs, as a share of what is summed."""

HingeCost: TypeAlias = Literal["unit", "magnitude"]


@final
@dataclass(frozen=True, eq=False)
class Violations:
    r"""Sums over the pairs whose slack t is above a threshold :math:`\tau`.

    The slack of a pair is its margin less the lead of the winner; c is its weight.

    Parameters
    ----------
    weight : float
        :math:`\sum c`.
    total : float
        :math:`\sum c\,(t - \tau)`.
    squares : float
        :math:`\sum c\,(t - \tau)^2`.
    noise : float
        How far rounding errors may put the squares off.
    total_slope, squares_slope : (n_items,)
        The derivatives of the total and of half the squares by the scores.
    """

    weight: float
    total: float
    squares: float
    noise: float
    total_slope: FloatArray
    squares_slope: FloatArray


class Slacks(ABC):
    """The slacks of all pairs at given scores."""

    @abstractmethod
    def above(self, threshold: float) -> Violations:
        """Sum over the pairs with a slack above a threshold."""

    @abstractmethod
    def between(self, low: float, high: float) -> PairLaplacian:
        """Return the Laplacian of the pairs with a slack above one threshold and not another."""


class PairSet(ABC):
    """Weighted preferences, each with a margin by which the winner should lead."""

    n_items: int

    @abstractmethod
    def slacks(self, scores: FloatArray) -> Slacks:
        """Return the slacks at these scores."""


@final
@dataclass(frozen=True, eq=False)
class LevelPairs(PairSet):
    r"""All pairs of items of a query that differ in level, the higher one first.

    With the unit cost the margin of every pair is 1, with the magnitude cost it is
    :math:`y_i - y_j`. In both cases the slack of a pair is :math:`e_j - e_i + m` for
    :math:`e = f - \text{offset}`, which is what lets sorted sweeps sum over pairs: O(n log n).

    Parameters
    ----------
    item : (n_items,)
        The items query by query; other arrays are in this order.
    starts : (n_queries + 1,)
        Where each query begins.
    level : (n_items,)
        The level of each item inside its query, from 0.
    n_levels : (n_queries,)
        Number of levels of each query.
    weight, factor : (n_items,)
        The sample weight, and this times the weight of the query.
    offset : (n_items,)
        What is taken off the scores.
    margin : float
        m.
    """

    item: IntArray
    starts: IntArray
    level: IntArray
    n_levels: IntArray
    weight: FloatArray
    factor: FloatArray
    offset: FloatArray
    margin: float

    @classmethod
    def of(cls, levels: Levels, omega: FloatArray, y: FloatArray, cost: HingeCost) -> Self:
        """Build from items sorted into levels, the weights of the queries and the scores given."""
        queries = levels.queries
        item = queries.order
        first = np.searchsorted(levels.query, np.arange(queries.n_queries))
        return cls(
            item,
            queries.starts,
            (levels.level - first[queries.index])[item],
            np.bincount(levels.query, minlength=queries.n_queries),
            levels.weight[item],
            (levels.weight * omega[queries.index])[item],
            y[item] if cost == "magnitude" else np.zeros(len(item)),
            0.0 if cost == "magnitude" else 1.0,
        )

    @property
    def n_items(self) -> int:  # type: ignore[override]
        """Number of items."""
        return len(self.item)

    def slacks(self, scores: FloatArray) -> "SortedSlacks":
        """Sort the items of each query by score."""
        key = scores[self.item] - self.offset
        key -= np.repeat(key[self.starts[:-1]], np.diff(self.starts))  # an offset costs no digits
        order = np.arange(len(key))
        sort_places(key, order, self.starts)
        places = Places(
            self.item[order],
            self.level[order],
            self.weight[order],
            self.factor[order],
            self.n_levels,
            self.starts,
        )
        return SortedSlacks(places, key, self.margin)


@final
@dataclass(frozen=True, eq=False)
class SortedSlacks(Slacks):
    """The slacks of `LevelPairs`: a place p has slacks above t with all places from some r on."""

    places: Places
    key: FloatArray
    margin: float

    def above(self, threshold: float) -> Violations:
        """Sum numbers and keys of the partners of each place: O(n log k) for k levels."""
        places, key, margin = self.places, self.key, self.margin - threshold
        factor = places.factor
        lost, won = np.zeros((2, len(key), 2))
        values = np.column_stack([places.weight, places.weight * key])
        places.sum_partners(values, self._reach(threshold), places.end, lost, won)
        wins, losses = factor * lost[:, 0], factor * won[:, 0]
        up = factor * lost[:, 1] - wins * (key - margin)
        down = losses * (key + margin) - factor * won[:, 1]
        return Violations(
            float(wins.sum()),
            float(up.sum()),
            float(down @ key - up @ (key - margin)),
            ROUNDING * float((wins + losses) @ np.square(np.abs(key) + abs(margin))),
            places.to_items(losses - wins),
            places.to_items(down - up),
        )

    def between(self, low: float, high: float) -> Windows:
        """Return the Laplacian of windows of places."""
        until = self.places.end if np.isinf(high) else self._reach(high)
        return Windows.of(self.places, self._reach(low), until)

    def _reach(self, threshold: float) -> IntArray:
        return find_reach(self.key, self.places.starts, self.margin - threshold)


@final
@dataclass(frozen=True, eq=False)
class ListedPairs(PairSet):
    """Preferences given one by one; a sum costs O(n_pairs).

    Parameters
    ----------
    incidence : (n_pairs, n_items) sparse
        1 for the winner and -1 for the loser of each pair.
    margin : (n_pairs,)
        By how much the winner should lead.
    weight : (n_pairs,)
        How much each pair counts.
    """

    incidence: sparse.csr_array
    margin: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, pairs: IntArray, margin: FloatArray, weight: FloatArray, n_items: int) -> Self:
        """Build from pairs of items, winner first."""
        entries = np.tile([1.0, -1.0], len(pairs)), pairs.ravel(), np.arange(0, pairs.size + 1, 2)
        return cls(sparse.csr_array(entries, shape=(len(pairs), n_items)), margin, weight)

    @property
    def n_items(self) -> int:  # type: ignore[override]
        """Number of items."""
        return int(self.incidence.shape[1])

    def slacks(self, scores: FloatArray) -> "ListedSlacks":
        """Compute the slack of every pair."""
        return ListedSlacks(self, self.margin - self.incidence @ scores)


@final
@dataclass(frozen=True, eq=False)
class ListedSlacks(Slacks):
    """The slack of each of `ListedPairs`."""

    pairs: ListedPairs
    slack: FloatArray

    def above(self, threshold: float) -> Violations:
        """Sum over the pairs one by one."""
        transposed, excess = self.pairs.incidence.T, self.slack - threshold
        weight = np.where(excess > 0.0, self.pairs.weight, 0.0)
        push = weight * excess
        scale = np.abs(self.pairs.margin) + np.abs(self.slack) + abs(threshold)
        return Violations(
            float(weight.sum()),
            float(push.sum()),
            float(push @ excess),
            ROUNDING * float(weight @ np.square(scale)),
            -(transposed @ weight),
            -(transposed @ push),
        )

    def between(self, low: float, high: float) -> Incidence:
        """Return the Laplacian of the pairs in the band."""
        chosen = np.flatnonzero((self.slack > low) & (self.slack <= high))
        return Incidence(self.pairs.incidence[chosen], self.pairs.weight[chosen])
