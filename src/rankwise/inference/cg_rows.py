"""Rows of features as conjugate gradients need them: products with them in few passes."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray


@final
@dataclass(frozen=True, eq=False)
class Affine:
    """Map products p of rows to ``slope (p - centre) + weight push``, by the group of the row.

    Rows of group -1 are mapped to 0. ``centre`` and ``push`` have one entry per group.
    """

    group: IntArray
    slope: FloatArray
    weight: FloatArray
    centre: FloatArray
    push: FloatArray

    def take(self, rows: slice) -> "Affine":
        """Keep some rows."""
        items = (self.group[rows], self.slope[rows], self.weight[rows])
        return Affine(*items, self.centre, self.push)

    def __call__(self, p: FloatArray) -> FloatArray:
        """Map the products of all rows."""
        g = self.group
        mapped = self.slope * (p - self.centre[g]) + self.weight * self.push[g]
        return np.where(g >= 0, mapped, 0.0)


@final
@dataclass(frozen=True, eq=False)
class Blocks:
    """Hold a Laplacian that falls into blocks of neighbouring rows.

    Block b has the rows from ``starts[b]`` and the groups from ``first_group[b]`` on, up to those
    of the next one. See `block_pass` for the rest.
    """

    starts: IntArray
    first_group: IntArray
    group: IntArray
    slope: FloatArray
    share: FloatArray
    across: FloatArray
    across_share: FloatArray

    @cached_property
    def room(self) -> tuple[int, int]:
        """Largest number of rows and of groups of a block."""
        return int(np.diff(self.starts).max()), int(np.diff(self.first_group).max())

    def __call__(self, p: FloatArray) -> FloatArray:
        """Return ``L @ p``."""
        groups = self.first_group[0]
        n_groups = self.first_group[-1] - groups
        local = np.where(self.group >= 0, self.group - groups, n_groups)
        means = np.bincount(local, self.share * p, n_groups + 1)
        block = np.repeat(np.arange(len(self.starts) - 1), np.diff(self.first_group))
        own = slice(groups, groups + n_groups)
        tops = np.bincount(block, self.across_share[own] * means[:-1], len(self.starts) - 1)
        pull = np.append(self.across[own] * (means[:-1] - tops[block]), 0.0)
        v = self.slope * (p - means[local]) + self.share * pull[local]
        return np.where(self.group >= 0, v, 0.0)

    def take(self, rows: slice) -> "Blocks":
        """Keep the blocks of some rows, which must hold whole blocks."""
        first, last = np.searchsorted(self.starts, [rows.start, rows.stop])
        return Blocks(
            self.starts[first : last + 1] - rows.start,
            self.first_group[first : last + 1],
            self.group[rows],
            self.slope[rows],
            self.share[rows],
            self.across,
            self.across_share,
        )


class Rows(ABC):
    """The rows of a matrix X. Offsets common to all rows may be taken out: no graph sees them."""

    n_items: int
    n_features: int
    n_stored: int
    """Number of stored entries."""

    @abstractmethod
    def product(self, w: FloatArray) -> FloatArray:
        """Return ``X @ w``."""

    @abstractmethod
    def transposed(self, v: FloatArray) -> FloatArray:
        """Return ``X.T @ v`` for v that sums to zero."""

    @abstractmethod
    def squares(self, weight: FloatArray) -> FloatArray:
        """Return the weighted sum of squares of each column."""

    @abstractmethod
    def affine(self, w: FloatArray, values: Affine) -> FloatArray:
        """Return ``X.T @ values(X @ w)`` in one pass."""

    @abstractmethod
    def blocks(self, w: FloatArray, laplacian: Blocks) -> FloatArray:
        """Return ``X.T @ L @ X @ w``, visiting each block once."""

    @abstractmethod
    def group_sums(self, group: IntArray, weight: FloatArray, n_groups: int) -> FloatArray:
        """Return the weighted sum of the rows of each group, those of group -1 left out."""
