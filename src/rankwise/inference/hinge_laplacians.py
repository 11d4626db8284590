"""Laplacians of the pairs whose slack lies in a band: the second derivatives of hinge losses."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Self, final

import numpy as np
from scipy import sparse

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.inference._cg_threads import even_parts, sum_parts
from rankwise.inference._hinge_kernels import sum_partners

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
