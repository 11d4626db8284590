"""Sets of preferences, and the sums over those that scores violate."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Self, TypeAlias, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray, sum_by
from rankwise.core.queries import TrainingData
from rankwise.core.threads import even_parts, sum_parts
from rankwise.graph.edges import Incidence
from rankwise.graph.preference_graph import Grades, QueryWeight, pair_targets
from rankwise.native.laplacians import (
    add_band,
    apply_band,
    find_band_start,
    find_joined,
    sum_partners,
)
from rankwise.native.sorting import sort_by_key

BLOCK_ROWS = 2048
"""Items of whole queries that are worked on together."""

BLOCK_ENTRIES = 1 << 17
"""Features of larger queries are worked on in blocks of columns of about this size."""

ROUNDING = 1e-15
"""Error of a sum over pairs, as a share of what is summed."""

HingeCost: TypeAlias = Literal["unit", "magnitude"]


class BandLaplacian(ABC):
    """The Laplacian of the pairs whose slack lies between two thresholds, as an operator."""

    @abstractmethod
    def __matmul__(self, v: FloatArray) -> FloatArray:
        """Apply to v of shape (n_items,)."""

    @abstractmethod
    def gram(self, Z: FloatArray) -> FloatArray:
        """Return ``Z.T @ L @ Z`` for dense rows."""

    @abstractmethod
    def add_to(self, matrix: FloatArray, c: float) -> None:
        """Add ``c L`` to the lower triangle of a matrix: O(1) for each pair in the window."""

    @abstractmethod
    def diagonal(self) -> FloatArray:
        """Return the weight of all pairs of each item."""

    @abstractmethod
    def joined(self) -> "tuple[IntArray, BandLaplacian]":
        """Return the items that are in a pair, and the Laplacian over them in this order."""


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
    rounding_error : float
        How far rounding errors may put the squares off.
    total_slope, squares_slope : (n_items,)
        The derivatives of the total and of half the squares by the scores.
    """

    weight: float
    total: float
    squares: float
    rounding_error: float
    total_slope: FloatArray
    squares_slope: FloatArray


class Slacks(ABC):
    """The slacks of all pairs at given scores."""

    @abstractmethod
    def violations(self, threshold: float) -> Violations:
        """Sum over the pairs with a slack above a threshold."""

    @abstractmethod
    def band(self, low: float, high: float) -> BandLaplacian:
        """Return the Laplacian of the pairs with a slack above ``low`` and not above ``high``."""


class PairSet(ABC):
    """Weighted preferences, each with a margin by which the winner should lead."""

    n_items: int

    @abstractmethod
    def slacks(self, scores: FloatArray, lowest: float = -np.inf) -> Slacks:
        """Return the slacks at these scores, those not above the lowest left out or not."""


# --- pairs that grades make: sorted sweeps ------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class GradedPairs(PairSet):
    r"""All pairs of items of a query that differ in grade, the higher one first.

    With the unit cost the margin of every pair is 1, with the magnitude cost it is
    :math:`y_i - y_j`. In both cases the slack of a pair is :math:`e_j - e_i + m` for
    :math:`e = f - \text{offset}`, which is what lets sorted sweeps sum over pairs: O(n log n).

    Parameters
    ----------
    item : (n_items,)
        The items query by query; other arrays are in this order.
    starts : (n_queries + 1,)
        Where each query begins.
    grade : (n_items,)
        The grade of each item inside its query, from 0.
    n_grades : (n_queries,)
        Number of grades of each query.
    weight, query_share : (n_items,)
        The sample weight, and this times the weight of the query.
    offset : (n_items,)
        What is taken off the scores.
    margin : float
        m.
    """

    item: IntArray
    starts: IntArray
    grade: IntArray
    n_grades: IntArray
    weight: FloatArray
    query_share: FloatArray
    offset: FloatArray
    margin: float

    @classmethod
    def of(cls, grades: Grades, omega: FloatArray, y: FloatArray, cost: HingeCost) -> Self:
        """Build from items sorted into grades, the weights of the queries and the scores given."""
        queries = grades.queries
        item = queries.order
        first = np.searchsorted(grades.query, np.arange(queries.n_queries))
        return cls(
            item,
            queries.starts,
            (grades.grade - first[queries.index])[item],
            np.bincount(grades.query, minlength=queries.n_queries),
            grades.weight[item],
            (grades.weight * omega[queries.index])[item],
            y[item] if cost == "magnitude" else np.zeros(len(item)),
            0.0 if cost == "magnitude" else 1.0,
        )

    @property
    def n_items(self) -> int:  # type: ignore[override]
        """Number of items."""
        return len(self.item)

    def slacks(self, scores: FloatArray, lowest: float = -np.inf) -> "GradedSlacks":
        """Sort the items of each query by score, those that are in a pair above the lowest slack.

        Where few are, this saves most of the work: finding them is O(n).
        """
        key = scores[self.item] - self.offset
        key -= np.repeat(key[self.starts[:-1]], np.diff(self.starts))  # an offset costs no digits
        margin = self.margin - lowest
        order = find_joined(key, self.grade, self.n_grades, self.starts, margin)
        starts = np.searchsorted(order, self.starts)
        key = key[order]
        sort_by_key(key, order, starts)
        items = SortedItems(
            self.item[order],
            self.grade[order],
            self.weight[order],
            self.query_share[order],
            self.n_grades,
            starts,
            self.n_items,
        )
        return GradedSlacks(items, key, self.margin)


@final
@dataclass(frozen=True, eq=False)
class SortedItems:
    """Items of every query sorted by key; arrays before the number of grades are in this order.

    Items that stand nowhere are in no pair.
    """

    item: IntArray
    grade: IntArray
    weight: FloatArray
    query_share: FloatArray
    n_grades: IntArray
    starts: IntArray
    n_items: int

    @cached_property
    def query_end(self) -> IntArray:
        """Where the query of each position ends."""
        return np.repeat(self.starts[1:], np.diff(self.starts))

    def sum_partners(
        self,
        values: FloatArray,
        band_start: IntArray,
        band_stop: IntArray,
        below: FloatArray,
        above: FloatArray,
        queries: slice | None = None,
    ) -> None:
        """Add up rows of values over the active partners of every position, of some queries."""
        first, last, _ = (queries or slice(None)).indices(len(self.n_grades))
        arrays = self.grade, self.n_grades, self.starts, band_start, band_stop
        sum_partners(values, *arrays, first, last, below, above)

    def to_items(self, values: FloatArray) -> FloatArray:
        """Bring values of positions into the order of the items."""
        out = np.zeros(self.n_items)
        out[self.item] = values
        return out


@final
@dataclass(frozen=True, eq=False)
class GradedSlacks(Slacks):
    """The slacks of `GradedPairs`.

    Those of a position that are above a threshold are with all positions from some one on.
    """

    items: SortedItems
    key: FloatArray
    margin: float

    def violations(self, threshold: float) -> Violations:
        """Sum weights and keys of the partners of each position: O(n log k) for k grades."""
        items, key, margin = self.items, self.key, self.margin - threshold
        share = items.query_share
        below, above = np.zeros((2, len(key), 2))
        values = np.column_stack([items.weight, items.weight * key])
        items.sum_partners(values, self._band_start(threshold), items.query_end, below, above)
        wins, losses = share * below[:, 0], share * above[:, 0]
        up = share * below[:, 1] - wins * (key - margin)  # eq. svm-push
        down = losses * (key + margin) - share * above[:, 1]
        return Violations(  # eq. svm-sums
            float(wins.sum()),
            float(up.sum()),
            float(down @ key - up @ (key - margin)),
            ROUNDING * float((wins + losses) @ np.square(np.abs(key) + abs(margin))),
            items.to_items(losses - wins),
            items.to_items(down - up),
        )

    def band(self, low: float, high: float) -> "GradedBand":
        """Return the Laplacian that joins each position to a window of others."""
        stop = self.items.query_end if np.isinf(high) else self._band_start(high)
        return GradedBand.of(self.items, self._band_start(low), stop)

    def _band_start(self, threshold: float) -> IntArray:
        margin = self.margin - threshold
        return find_band_start(self.key, self.items.starts, margin)  # eq. svm-active


@final
@dataclass(frozen=True, eq=False)
class GradedBand(BandLaplacian):
    """Join each position to those of lower grade in a window; O(n log k) for k grades.

    Parameters
    ----------
    items : SortedItems
        The items in the order of the positions.
    start, stop : (n_items,)
        The first position of each window, and the one after the last.
    degree : (n_items,)
        The weight of all pairs of each position.
    """

    items: SortedItems
    start: IntArray
    stop: IntArray
    degree: FloatArray

    @classmethod
    def of(cls, items: SortedItems, start: IntArray, stop: IntArray) -> Self:
        """Weigh the pairs of each position."""
        partners = np.zeros((len(start), 1))
        items.sum_partners(items.weight[:, None], start, stop, partners, partners)
        return cls(items, start, stop, items.query_share * partners[:, 0])

    def __matmul__(self, v: FloatArray) -> FloatArray:
        items, out = self.items, np.zeros(len(v))
        positions = items.item, items.grade, items.weight, items.query_share, self.degree
        windows = items.n_grades, items.starts, self.start, self.stop
        apply_band(v, *positions, *windows, out)
        return out

    def add_to(self, matrix: FloatArray, c: float) -> None:
        """Add ``c L`` to the lower triangle, pair by pair."""
        items = self.items
        positions = items.item, items.grade, items.weight, c * items.query_share, c * self.degree
        add_band(*positions, self.start, self.stop, matrix)

    def diagonal(self) -> FloatArray:
        """Return the weight of all pairs of each item."""
        return self.items.to_items(self.degree)

    def joined(self) -> "tuple[IntArray, GradedBand]":
        """Keep the positions that have partners; windows shrink by those that have none."""
        items, kept = self.items, np.flatnonzero(self.degree > 0.0)
        n_before = np.concatenate([[0], np.cumsum(self.degree > 0.0)])
        among_them = SortedItems(
            np.arange(len(kept)),
            items.grade[kept],
            items.weight[kept],
            items.query_share[kept],
            items.n_grades,
            n_before[items.starts],
            len(kept),
        )
        start, stop = n_before[self.start[kept]], n_before[self.stop[kept]]
        return items.item[kept], GradedBand(among_them, start, stop, self.degree[kept])

    def gram(self, Z: FloatArray) -> FloatArray:
        """Return ``Z.T @ L @ Z``, some queries at a time; threads take whole queries."""
        n_features, starts = Z.shape[1], self.items.starts

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
        begin, end = self.items.starts[[queries.start, queries.stop]]
        if begin == end:
            return
        item = self.items.item[begin:end]
        rows = np.subtract(Z[item], Z[item[0]], dtype=float, order="C")  # an offset costs no digits
        width = max(1, BLOCK_ENTRIES // len(rows))
        for column in range(0, rows.shape[1], width):
            columns, up_to_them = slice(column, column + width), slice(column + width)
            G[up_to_them, columns] += rows[:, up_to_them].T @ self._product(
                rows[:, columns], queries
            )

    def _product(self, values: FloatArray, queries: slice) -> FloatArray:
        """Apply the Laplacian to rows of the positions of some queries."""
        begin, end = self.items.starts[[queries.start, queries.stop]]
        share, weight, degree = (
            a[begin:end, None] for a in (self.items.query_share, self.items.weight, self.degree)
        )
        out = np.zeros(values.shape)
        self.items.sum_partners(weight * values, self.start, self.stop, out, out, queries)
        out *= -share
        out += degree * values
        return out


# --- pairs given one by one ---------------------------------------------------------------------


@final
@dataclass(frozen=True, eq=False)
class ExplicitPairs(PairSet):
    """Preferences given one by one; a sum costs O(n_pairs).

    Parameters
    ----------
    incidence : Incidence
        The pairs, winner first.
    margin : (n_pairs,)
        By how much the winner should lead.
    weight : (n_pairs,)
        How much each pair counts.
    """

    incidence: Incidence
    margin: FloatArray
    weight: FloatArray

    @classmethod
    def of(cls, data: TrainingData, cost: HingeCost, query_weight: QueryWeight = "pairs") -> Self:
        """Build from comparisons; the unit cost takes the sign of their margins."""
        pairs, target, weight = pair_targets(data, cost, query_weight)
        return cls(Incidence.of(pairs, data.n_items), target, weight)

    @property
    def n_items(self) -> int:  # type: ignore[override]
        """Number of items."""
        return self.incidence.n_items

    @cached_property
    def margin_size(self) -> FloatArray:
        """The margins without their signs."""
        return np.abs(self.margin)

    def slacks(self, scores: FloatArray, lowest: float = -np.inf) -> "ExplicitSlacks":  # noqa: ARG002
        """Compute the slack of every pair."""
        return ExplicitSlacks(self, self.margin - self.incidence.differences(scores))


@final
@dataclass(frozen=True, eq=False)
class ExplicitSlacks(Slacks):
    """The slack of each of `ExplicitPairs`."""

    pairs: ExplicitPairs
    slack: FloatArray

    def violations(self, threshold: float) -> Violations:
        """Sum over the pairs one by one."""
        adjoint, excess = self.pairs.incidence.adjoint, self.slack - threshold
        weight = np.where(excess > 0.0, self.pairs.weight, 0.0)
        push = weight * excess
        return Violations(
            float(weight.sum()),
            float(push.sum()),
            float(push @ excess),
            ROUNDING * float(weight @ self._squared_sizes(threshold)),
            -adjoint(weight),
            -adjoint(push),
        )

    def _squared_sizes(self, threshold: float) -> FloatArray:
        """Return the squares of what each excess is a difference of, in one new array."""
        size = np.abs(self.slack)
        size += self.pairs.margin_size
        size += abs(threshold)
        return np.square(size, out=size)

    def band(self, low: float, high: float) -> "ExplicitBand":
        """Return the Laplacian of the pairs in the band."""
        chosen = np.flatnonzero((self.slack > low) & (self.slack <= high))
        return ExplicitBand(self.pairs.incidence.take(chosen), self.pairs.weight[chosen])


@final
@dataclass(frozen=True, eq=False)
class ExplicitBand(BandLaplacian):
    """Join the items of chosen pairs; O(n_pairs)."""

    pairs: Incidence
    weight: FloatArray

    def __matmul__(self, v: FloatArray) -> FloatArray:
        return self.pairs.product(self.weight, v)

    def add_to(self, matrix: FloatArray, c: float) -> None:
        """Add ``c L`` to the lower triangle, pair by pair."""
        first, second, weight = self.pairs.first, self.pairs.second, c * self.weight
        ends = np.maximum(first, second), np.minimum(first, second)
        np.subtract.at(matrix, ends, weight)
        np.add.at(matrix, (first, first), weight)
        np.add.at(matrix, (second, second), weight)

    def diagonal(self) -> FloatArray:
        """Return the weight of all pairs of each item."""
        first = sum_by(self.pairs.first, self.weight, self.pairs.n_items)
        return first + sum_by(self.pairs.second, self.weight, self.pairs.n_items)

    def joined(self) -> "tuple[IntArray, ExplicitBand]":
        """Return the items of pairs that count, numbered anew in their Laplacian."""
        counted = np.flatnonzero(self.weight > 0.0)
        pairs = self.pairs.take(counted)
        items, number = np.unique(np.append(pairs.first, pairs.second), return_inverse=True)
        first, second = np.split(number, 2)
        return items, ExplicitBand(Incidence(first, second, len(items)), self.weight[counted])

    def gram(self, Z: FloatArray) -> FloatArray:
        """Return ``Z.T @ L @ Z``, some pairs at a time."""
        return self.pairs.gram(self.weight, Z)
