"""The operator of the normal equations, ``w -> X'(L(Xw))``, in the fewest passes over the rows."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.graph.cliques import CliqueLaplacian
from rankwise.graph.laplacian import GraphLaplacian
from rankwise.graph.nested_cliques import NestedCliqueLaplacian
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.solve.rows import Affine, Blocks, Rows

MEANS_PER_ENTRY = 0.125
"""Group means are known in advance when they have at most so many entries per entry of X."""

LARGEST_BLOCK = 1 << 18
"""Entries of a block, 3 MB, up to which rows are visited block by block; beyond, in two passes."""


class NormalOperator(ABC):
    """The symmetric operator ``X' L X`` and the right-hand side ``X' r`` of a preference graph."""

    rows: Rows
    graph: PreferenceGraph

    @abstractmethod
    def apply(self, w: FloatArray) -> FloatArray:
        """Return ``X' L X w``."""

    def rhs(self) -> FloatArray:
        """Return ``X' r``."""
        return self.rows.transposed(self.graph.rhs)

    def is_determined(self) -> bool:
        """Tell whether there are as many independent preferences as features.

        Then the diagonal preconditions well where features differ in size. With fewer preferences
        it does harm: it spreads the many equal eigenvalues of the directions without any.
        """
        return self.graph.laplacian.rank() >= self.rows.n_features

    def scale(self) -> FloatArray:
        """Return about the diagonal of ``X' L X``: sums of squares weighted by the degrees.

        It leaves out what two rows of a query have in common, and preconditions as well.
        """
        return self.rows.squares(self.graph.laplacian.diagonal())


@final
@dataclass(frozen=True, eq=False)
class KnownMeans(NormalOperator):
    """One pass over rows in any order: the means of few groups are known from their mean rows.

    ``mean(X_g w) = xbar_g w``, so that ``L p`` is affine in each product p on its own.
    """

    rows: Rows
    graph: PreferenceGraph
    within: CliqueLaplacian
    between: GraphLaplacian | None
    means: FloatArray

    @classmethod
    def of(
        cls, rows: Rows, graph: PreferenceGraph, laplacian: CliqueLaplacian | NestedCliqueLaplacian
    ) -> Self:
        """Average the rows of each group of the graph's Laplacian: one pass."""
        within, between = _levels(laplacian)
        means = rows.group_sums(within.group, within.share, within.n_groups)
        return cls(rows, graph, within, between, means)

    def apply(self, w: FloatArray) -> FloatArray:
        """Return ``X' L X w``; [APS10] (8), with ties dropped or kept."""
        centre = self.means @ w
        push = np.zeros_like(centre)
        if self.between is not None:
            push = (self.between @ centre) / self.within.mass
        within = self.within
        values = Affine(within.group, within.edge_weight, within.weight, centre, push)
        return self.rows.affine(w, values)


@final
@dataclass(frozen=True, eq=False)
class QueryByQuery(NormalOperator):
    """One pass over rows that stand query by query: a query is visited twice while in cache."""

    rows: Rows
    graph: PreferenceGraph
    laplacian: Blocks

    def apply(self, w: FloatArray) -> FloatArray:
        """Return ``X' L X w``; [APS10] (8), with ties dropped or kept."""
        return self.rows.blocks(w, self.laplacian)


@final
@dataclass(frozen=True, eq=False)
class TwoPasses(NormalOperator):
    """Two passes, for every graph: products, the Laplacian on them, and back."""

    rows: Rows
    graph: PreferenceGraph

    def apply(self, w: FloatArray) -> FloatArray:
        """Return ``X' L X w``; [APS10] Sect. 3.5 for explicit pairs."""
        return self.rows.transposed(self.graph @ self.rows.product(w))


def normal_operator(rows: Rows, graph: PreferenceGraph) -> NormalOperator:
    """Choose the form of the operator that passes over the rows least often."""
    laplacian = graph.laplacian
    if isinstance(laplacian, CliqueLaplacian | NestedCliqueLaplacian):
        if means_are_few(rows, laplacian):
            return KnownMeans.of(rows, graph, laplacian)
        blocks = query_blocks(laplacian)
        if blocks is not None and _fits(blocks, rows):
            return QueryByQuery(rows, graph, blocks)
    return TwoPasses(rows, graph)


def means_are_few(rows: Rows, laplacian: CliqueLaplacian | NestedCliqueLaplacian) -> bool:
    """Tell whether the mean rows of all groups are small beside the rows themselves."""
    n_groups = _levels(laplacian)[0].n_groups
    return n_groups * rows.n_features <= MEANS_PER_ENTRY * rows.n_stored


def query_blocks(laplacian: CliqueLaplacian | NestedCliqueLaplacian) -> Blocks | None:
    """Return the blocks of a Laplacian over rows that stand query by query, else None."""
    within, between = _levels(laplacian)
    if not isinstance(between, CliqueLaplacian | None):
        return None
    starts = _starts(laplacian.component)
    group = np.where(laplacian.component >= 0, within.group, -1)
    first_group = None if starts is None else _first_groups(group, starts[:-1])
    if starts is None or first_group is None:
        return None
    across = across_share = np.zeros(within.n_groups)
    if between is not None:
        across = between.edge_weight
        across_share = np.where(between.component >= 0, between.share, 0.0)
    slope, share = within.edge_weight, within.share
    return Blocks(starts, first_group, group, slope, share, across, across_share)


def _levels(
    laplacian: CliqueLaplacian | NestedCliqueLaplacian,
) -> tuple[CliqueLaplacian, GraphLaplacian | None]:
    """Return the groups of items and, where there is one, the Laplacian over their means."""
    if isinstance(laplacian, NestedCliqueLaplacian):
        return laplacian.within, laplacian.between
    return laplacian, None


def _starts(component: IntArray) -> IntArray | None:
    """Return where each component begins, and the end; None where one stands in several places.

    Items without a component are counted to the one before them, the first ones to the first.
    """
    members = np.flatnonzero(component >= 0)
    named = component[members]
    changes = np.flatnonzero(np.r_[True, named[1:] != named[:-1]])
    if len(changes) != len(np.unique(named)):
        return None
    return np.concatenate([[0], members[changes[1:]], [len(component)]])


def _first_groups(group: IntArray, starts: IntArray) -> IntArray | None:
    """Return where the groups of each block begin, and the end; None if blocks share groups."""
    largest = np.maximum.reduceat(group, starts)
    lowest = np.minimum.reduceat(np.where(group >= 0, group, largest.max()), starts)
    first = np.append(lowest, largest.max() + 1)
    return first if (largest < first[1:]).all() else None


def _fits(blocks: Blocks, rows: Rows) -> bool:
    return blocks.room[0] * rows.n_stored <= LARGEST_BLOCK * rows.n_items
