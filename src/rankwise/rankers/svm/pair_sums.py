"""Sets of preferences, and the sums over those that scores violate."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self, TypeAlias, final

import numpy as np
from scipy import sparse

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.threads import even_parts, sum_parts
from rankwise.rankers.svm._kernels import find_reach, sort_places, sum_partners

BLOCK_ROWS = 2048
"""Rows, of whole queries or of pairs, that are worked on together."""

BLOCK_ENTRIES = 1 << 17
"""Larger queries are worked on in blocks of columns of about this size."""


class PairLaplacian(ABC):
    """The Laplacian of weighted pairs of items, as an operator."""

    @abstractmethod
    def __matmul__(self, v: FloatArray) -> FloatArray:
        """Apply to v of shape (n_items,)."""

    @abstractmethod
    def gram(self, Z: FloatArray) -> FloatArray:
        """Return ``Z.T @ L @ Z`` for dense rows."""


@final
@dataclass(frozen=True, eq=False)
class Places:
    """The items of every query sorted by key, and what belongs to them."""

    item: IntArray
    level: IntArray
    weight: FloatArray
    factor: FloatArray
    n_levels: IntArray
    starts: IntArray

    @cached_property
    def end(self) -> IntArray:
        """The end of the query of each place."""
        return np.repeat(self.starts[1:], np.diff(self.starts))

    def sum_partners(
        self,
        values: FloatArray,
        reach: IntArray,
        until: IntArray,
        lost: FloatArray,
        won: FloatArray,
        queries: slice | None = None,
    ) -> None:
        """Add up rows of values over the active partners of every place, of all or some queries."""
        first, last, _ = (queries or slice(None)).indices(len(self.n_levels))
        arrays = self.level, self.n_levels, self.starts, reach, until
        sum_partners(values, *arrays, first, last, lost, won)

    def to_items(self, values: FloatArray) -> FloatArray:
        """Bring values of places into the order of the items."""
        out = np.empty_like(values)
        out[self.item] = values
        return out


@final
@dataclass(frozen=True, eq=False)
class Windows(PairLaplacian):
    """Join each place to those of lower level in a window of places; O(n log k) for k levels.

    Parameters
    ----------
    places : Places
        The sorted items.
    reach, until : (n_items,)
        The first place of each place's window, and the one after the last.
    degree : (n_items,)
        The weight of all pairs of each place.
    """

    places: Places
    reach: IntArray
    until: IntArray
    degree: FloatArray

    @classmethod
    def of(cls, places: Places, reach: IntArray, until: IntArray) -> Self:
        """Weigh the pairs of each place."""
        near = np.zeros((len(reach), 1))
        places.sum_partners(places.weight[:, None], reach, until, near, near)
        return cls(places, reach, until, places.factor * near[:, 0])

    def __matmul__(self, v: FloatArray) -> FloatArray:
        queries = slice(0, len(self.places.n_levels))
        pushed = self._push(v[self.places.item][:, None], queries)
        return self.places.to_items(pushed[:, 0])

    def gram(self, Z: FloatArray) -> FloatArray:
        """Return ``Z.T @ L @ Z``, some queries at a time; threads take whole queries."""
        n_features, starts = Z.shape[1], self.places.starts

        def add(first: int, last: int, out: FloatArray) -> None:
            G = out.reshape(n_features, n_features)
            while first < last:
                stop = int(np.searchsorted(starts, starts[first] + BLOCK_ROWS, "right")) - 1
                stop = min(max(stop, first + 1), last)
                self._add_gram(Z, slice(first, stop), G)
                first = stop

        sums = sum_parts(add, even_parts(n_features * starts), n_features**2)
        upper = np.triu(sums.reshape(n_features, n_features))
        return upper + np.triu(upper, 1).T

    def _add_gram(self, Z: FloatArray, queries: slice, G: FloatArray) -> None:
        """Add the part of some queries to the upper triangle of G."""
        begin, end = self.places.starts[[queries.start, queries.stop]]
        items = self.places.item[begin:end]
        rows = np.subtract(Z[items], Z[items[0]], dtype=float)  # an offset costs no digits
        width = max(1, BLOCK_ENTRIES // len(rows))
        for column in range(0, rows.shape[1], width):
            columns, above = slice(column, column + width), slice(column + width)
            G[above, columns] += rows[:, above].T @ self._push(rows[:, columns], queries)

    def _push(self, values: FloatArray, queries: slice) -> FloatArray:
        """Apply the Laplacian to rows of the places of some queries."""
        begin, end = self.places.starts[[queries.start, queries.stop]]
        factor, weight, degree = (
            a[begin:end, None] for a in (self.places.factor, self.places.weight, self.degree)
        )
        near = np.zeros(values.shape)
        self.places.sum_partners(weight * values, self.reach, self.until, near, near, queries)
        near *= -factor
        near += degree * values
        return near


@final
@dataclass(frozen=True, eq=False)
class Incidence(PairLaplacian):
    """Join the two items of each row of an incidence matrix; O(pairs)."""

    incidence: sparse.csr_array
    weight: FloatArray

    def __matmul__(self, v: FloatArray) -> FloatArray:
        return self.incidence.T @ (self.weight * (self.incidence @ v))

    def gram(self, Z: FloatArray) -> FloatArray:
        """Return ``Z.T @ L @ Z``, some pairs at a time."""
        G = np.zeros((Z.shape[1], Z.shape[1]))
        for first in range(0, len(self.weight), BLOCK_ROWS):
            pairs = slice(first, first + BLOCK_ROWS)
            leads = self.incidence[pairs] @ Z
            G += leads.T @ (self.weight[pairs, None] * leads)
        return G


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
