"""The operator of the normal equations, ``w -> X'(L(Xw))``, in the fewest passes over the rows."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypeAlias, final

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.graph.laplacian import CliqueForm, GraphLaplacian
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.solve.rows import BlockLaplacian, GroupwiseMap, ItemRows, StoredRows, what_is_left

MEANS_PER_ENTRY = 0.125
"""Group means are known in advance when they have at most this many entries per entry of X."""

LARGEST_BLOCK = 1 << 18
"""Entries of a block, 3 MB, up to which rows are visited block by block; beyond, in two passes."""

FEW = 3
"""Vectors for which a pass each is quicker than a pass for all."""

SIDE_BY_SIDE = 8
"""Runs that share passes over the rows; each keeps two vectors of features for every alpha."""


class NormalOperator(ABC):
    """The symmetric operator ``X' L X`` and the right-hand side ``X' r``, wherever the rows are."""

    n_features: int
    rank: int
    """Number of independent preferences."""

    @abstractmethod
    def apply(self, w: FloatArray) -> FloatArray:
        """Return ``X' L X w``."""

    @abstractmethod
    def rhs(self) -> FloatArray:
        """Return ``X' r``."""

    @abstractmethod
    def diagonal(self) -> FloatArray:
        """Return the diagonal of ``X' L X``, or about that."""


class GraphOperator(NormalOperator, ABC):
    """The operator of one preference graph and the rows of its items."""

    rows: ItemRows
    graph: PreferenceGraph

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return self.rows.n_features

    def rhs(self) -> FloatArray:
        """Return ``X' r``."""
        return self.rows.transposed(self.graph.rhs)  # [APS10] (8), on the right

    @property
    def rank(self) -> int:  # type: ignore[override]
        """Number of independent preferences."""
        return self.graph.laplacian.rank()


@final
@dataclass(frozen=True, eq=False)
class KnownMeans(GraphOperator):
    """One pass over rows in any order: the means of few groups are known from their mean rows.

    ``mean(X_g w) = xbar_g w``, so that ``L p`` is affine in each product p on its own.
    """

    rows: ItemRows
    graph: PreferenceGraph
    cliques: CliqueForm
    means: FloatArray

    @classmethod
    def of(cls, rows: ItemRows, graph: PreferenceGraph, cliques: CliqueForm) -> Self:
        """Average the rows of each group of the graph's Laplacian: one pass."""
        means = rows.group_sums(cliques.group, cliques.share, cliques.n_groups)
        return cls(rows, graph, cliques, means)

    def apply(self, w: FloatArray) -> FloatArray:
        """Return ``X' L X w``; [APS10] (8), with ties dropped or kept."""
        g, centre = self.cliques, self.means @ w
        pull = np.zeros_like(centre)
        if g.between is not None:
            pull = (g.between @ centre) / g.mass
        mapping = GroupwiseMap(g.group, g.edge_weight, g.weight, centre, pull)  # eq. cg-affine
        return self.rows.groupwise_product(w, mapping)

    def diagonal(self) -> FloatArray:
        """Return the diagonal of ``X' L X`` from squares of rows and of their means."""
        g, M = self.cliques, self.means
        slope = np.where(g.group >= 0, g.edge_weight, 0.0)
        squares = self.rows.squares(slope)
        total = np.bincount(np.maximum(g.group, 0), slope, g.n_groups)
        common = total @ (M * M)  # eq. cg-diagonal
        if g.between is not None:
            common -= np.einsum("gj,gj->j", M, g.between @ M)
        return what_is_left(squares, common)


@final
@dataclass(frozen=True, eq=False)
class QueryByQuery(GraphOperator):
    """One pass over rows that stand query by query: a query is visited twice while in cache."""

    rows: ItemRows
    graph: PreferenceGraph
    laplacian: BlockLaplacian

    def apply(self, w: FloatArray) -> FloatArray:
        """Return ``X' L X w``; [APS10] (8), with ties dropped or kept."""
        return self.rows.block_product(w, self.laplacian)

    def diagonal(self) -> FloatArray:
        """Return the diagonal of ``X' L X`` from squares of rows and of their means."""
        return self.rows.block_diagonal(self.laplacian)


@final
@dataclass(frozen=True, eq=False)
class TwoPasses(GraphOperator):
    """Two passes, for every graph: products, the Laplacian on them, and back."""

    rows: ItemRows
    graph: PreferenceGraph

    @cached_property
    def _passes(self) -> Callable[[FloatArray], FloatArray]:
        return self.rows.passes(self.graph.laplacian)

    def apply(self, w: FloatArray) -> FloatArray:
        """Return ``X' L X w``; [APS10] Sect. 3.5 for explicit pairs."""
        return self._passes(w)

    def diagonal(self) -> FloatArray:
        """Return about the diagonal of ``X' L X``: sums of squares weighted by the degrees.

        It leaves out what two rows that are compared have in common, unless rows have one form only
        and their queries stand together.
        """
        blocks = None if self.rows.one_pass_pays else query_blocks(self.graph.laplacian)
        if blocks is not None:
            return self.rows.block_diagonal(blocks)
        return self.rows.squares(self.graph.laplacian.diagonal())


JointProduct: TypeAlias = Callable[[FloatArray, Sequence[int]], FloatArray]
"""Applies operators to vectors, rows of a matrix; the second argument says which operators."""


def joint_operator(
    rows: StoredRows, graphs: Sequence[PreferenceGraph]
) -> tuple[list[GraphOperator], JointProduct]:
    """Return the operators of several graphs over the same rows, and what applies some at once.

    A pass for eight vectors takes about three times as long as a pass for one; for few of them each
    is quicker alone.
    """
    if len(graphs) == 1:
        alone = normal_operator(rows, graphs[0])
        return [alone], alone_product(alone)
    operators = [normal_operator(rows, graph) for graph in graphs]

    def product(W: FloatArray, which: Sequence[int]) -> FloatArray:
        if len(which) < FEW:
            return np.stack([operators[k].apply(w) for k, w in zip(which, W, strict=True)])
        P = rows.products(W)
        for number, k in enumerate(which):
            P[number] = graphs[k] @ P[number]
        return rows.transposed_products(P)

    return operators, product


def alone_product(operator: NormalOperator) -> JointProduct:
    """Return what applies a single operator."""
    return lambda W, _: operator.apply(W[0])[None]


def normal_operator(
    rows: ItemRows, graph: PreferenceGraph, largest_block: int = LARGEST_BLOCK
) -> GraphOperator:
    """Choose the form of the operator that passes over the rows least often."""
    # CPU time of two passes over that of the best form, in memory: 1.0 to 1.2 for sparse rows of
    # many queries, 1.35 for a single one, 1.0 to 1.6 for dense rows of 20 to 100 features; known
    # means take up to 5 times as long as two passes where queries are many. Files are read once.
    cliques = graph.laplacian.clique_form()
    if cliques is None or not rows.one_pass_pays:
        return TwoPasses(rows, graph)
    if means_are_few(rows, cliques):
        return KnownMeans.of(rows, graph, cliques)
    blocks = query_blocks(graph.laplacian)
    if blocks is None or blocks.max_sizes[0] * rows.n_stored > largest_block * rows.n_items:
        return TwoPasses(rows, graph)
    return QueryByQuery(rows, graph, blocks)


def means_are_few(rows: ItemRows, cliques: CliqueForm) -> bool:
    """Return whether the mean rows of all groups are small beside the rows themselves."""
    return cliques.n_groups * rows.n_features <= MEANS_PER_ENTRY * rows.n_stored


def query_blocks(laplacian: GraphLaplacian) -> BlockLaplacian | None:
    """Return the blocks of a Laplacian of cliques whose rows stand query by query, else None."""
    cliques = laplacian.clique_form()
    between = None if cliques is None else _between(cliques)
    starts = _starts(laplacian.component)
    if cliques is None or between is None or starts is None:
        return None
    group = np.where(laplacian.component >= 0, cliques.group, -1)
    first_group = _first_groups(group, starts[:-1])
    if first_group is None:
        return None
    return BlockLaplacian(starts, first_group, group, cliques.edge_weight, cliques.share, *between)


def _between(cliques: CliqueForm) -> tuple[FloatArray, FloatArray] | None:
    """Return slope and share of each group where their means form cliques, too, else None."""
    if cliques.between is None:
        return np.zeros(cliques.n_groups), np.zeros(cliques.n_groups)
    outer = cliques.between.clique_form()
    if outer is None or outer.between is not None:
        return None
    return outer.edge_weight, np.where(cliques.between.component >= 0, outer.share, 0.0)


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
