"""Laplacians of preference graphs and their roots: what all share, and those of cliques in O(n)."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, TypeAlias, final

import numpy as np
from scipy import sparse
from scipy.linalg.blas import dsyrk

from rankwise.core.arrays import FloatArray, IntArray, Matrix, sum_by
from rankwise.core.namespaces import (
    Array,
    add_gram,
    blocks_of,
    contiguous,
    in_turn,
    is_on_host,
    like,
    namespace_of,
    row_blocks,
    segment_sums,
    take_rows,
    to_host,
    zeros,
)
from rankwise.core.threads import WORK_PER_THREAD, in_threads, n_threads
from rankwise.native.laplacians import anchored_product, centred_rows, group_means, reflect_rows

BLOCK, DEVICE_BLOCK = 32, 1024
"""Columns that are brought into coordinates together, on the host and on a device."""

CENTRED_ON = 1000
"""Rows whose mean is taken from features on a device, so that products of them keep digits."""

BLOCK_BYTES = 1 << 20
"""Rows are centred and squared in blocks of this size, which stay in a core's cache."""

SPARSE_BLOCK_BYTES = 1 << 26
"""Sparse rows are made dense in blocks of this size."""


Picker: TypeAlias = Callable[[IntArray, FloatArray, IntArray], None]
"""Sets rows of an array, the last argument, to coordinates of these numbers, the first one."""


class Root(ABC):
    r"""A matrix R of full column rank with :math:`L = R R^\top`, never stored.

    Its columns are the *coordinates*: as many as active items minus components, the smallest space
    in which a dual problem can be solved. It takes arrays of the host; `like` returns the root that
    takes those of another namespace.
    """

    component: IntArray
    """The component to which each coordinate belongs."""

    @property
    def rank(self) -> int:
        """Number of coordinates."""
        return len(self.component)

    @abstractmethod
    def like(self, array: Array) -> "Root":
        """Return the same root for arrays of the namespace and device of another array."""

    @abstractmethod
    def to_coordinates(self, V: Array) -> Array:
        """Return ``R.T @ V`` for V of shape (n_items, k)."""

    @abstractmethod
    def picker(self, V: FloatArray) -> Picker:
        """Return a function that gives some rows of ``R.T @ V``, all those of some components.

        It takes their numbers, those of a component together and rising, an array, and the rows of
        it to fill, which rise. Nothing else is kept, so that a large V needs no second one of its
        size.
        """

    @abstractmethod
    def to_items(self, C: Array) -> Array:
        """Return ``R @ C`` for C of shape (rank, k)."""

    @abstractmethod
    def solve(self, B: Array) -> Array:
        """Return the C with ``R @ C = B``, for B in the range of the Laplacian."""

    @abstractmethod
    def to_scores(self, P: Array) -> Array:
        """Return scores V of the items with ``R.T @ V = P``; constants per component are free."""

    def coordinates_in_place(self, V: Array) -> Array:
        """Return ``R.T @ V``, computed in place of V, a block of columns at a time."""
        blocks = list(blocks_of(V.shape[1], BLOCK if is_on_host(V) else DEVICE_BLOCK))

        def reduce_columns(k: int) -> None:
            V[: self.rank, blocks[k]] = self.to_coordinates(contiguous(V[:, blocks[k]]))

        in_turn(reduce_columns, len(blocks), V)
        return V[: self.rank, :]

    def reduce(self, K: Array) -> Array:
        """Return ``R.T @ K @ R`` in place of a symmetric, contiguous K."""
        xp, rank = namespace_of(K), self.rank
        blocks = list(blocks_of(rank, BLOCK if is_on_host(K) else DEVICE_BLOCK))

        def reduce_rows(k: int) -> None:
            K[blocks[k], :rank] = self.to_coordinates(contiguous(K[blocks[k], :].T)).T

        # columns, then rows
        self.coordinates_in_place(K)
        in_turn(reduce_rows, len(blocks), K)
        # close up: rows are never moved to where others still stand
        flat = xp.reshape(K, (-1,))
        for some in blocks:
            flat[some.start * rank : some.stop * rank] = xp.reshape(K[some, :rank], (-1,))
        return xp.reshape(flat[: rank * rank], (rank, rank))


class GraphLaplacian(ABC):
    """The Laplacian of a weighted graph over items, as an operator."""

    n_items: int
    component: IntArray
    """The component of each item, -1 for items without any preference."""

    @abstractmethod
    def __matmul__(self, V: FloatArray) -> FloatArray:
        """Apply to V of shape (n_items,) or (n_items, k)."""

    @abstractmethod
    def diagonal(self) -> FloatArray:
        """Return the degree of every item."""

    @abstractmethod
    def gram(self, Z: Matrix) -> Array:
        """Return ``Z.T @ L @ Z`` as a dense matrix, where Z is."""

    @abstractmethod
    def root(self) -> Root:
        """Return a root of this Laplacian."""

    def operator_like(self, array: Array) -> Callable[[Array], Array]:
        """Return ``V -> L @ V`` for V of shape (n_items, k) where another array is.

        What it needs of the graph is moved once; graphs without groups are applied on the host.
        """
        form = self.clique_form()
        if form is None or is_on_host(array):
            return lambda V: like(self @ to_host(V), V)
        group, share, slope = (
            like(a, array)
            for a in (np.maximum(form.group, 0), form.share[:, None], form.edge_weight[:, None])
        )
        between = None if form.between is None else form.between.operator_like(array)

        def apply(V: Array) -> Array:
            means = segment_sums(V, group, form.n_groups, share)
            within = slope * (V - take_rows(means, group))
            return within if between is None else within + share * take_rows(between(means), group)

        return apply

    def clique_form(self) -> "CliqueForm | None":
        """Return the groups of items whose means decide, None where there are no such groups."""
        return None

    def rank(self) -> int:
        """Return the rank of the Laplacian: active items minus components."""
        sizes = np.bincount(self.component + 1)[1:]
        return int(sizes.sum() - np.count_nonzero(sizes))

    def anchor(self) -> IntArray:
        """Return, for each item, the first item of its component."""
        number = self.component + 1
        first = np.empty(number.max(initial=0) + 1, dtype=np.intp)
        first[number[::-1]] = np.arange(self.n_items)[::-1]  # of several the last is kept
        return first[number]


@final
@dataclass(frozen=True, eq=False)
class CliqueForm:
    r"""A Laplacian by its groups of items: deviations from group means, and the means themselves.

    .. math:: (Lp)_i = s_i \bigl( d_g (p_i - \bar p_g) + (L_{\text{between}} \bar p)_g / S_g \bigr)

    Parameters
    ----------
    group : (n_items,)
        The group of each item, -1 for items that take no part.
    weight, edge_weight, share : (n_items,)
        The weight s of each item; times the factor d of its group; as a share of the group's.
    mass : (n_groups,)
        The total weight S of each group.
    between : GraphLaplacian, optional
        What joins the means of the groups.
    """

    group: IntArray
    weight: FloatArray
    edge_weight: FloatArray
    share: FloatArray
    mass: FloatArray
    between: GraphLaplacian | None = None

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.mass)


def moment(Z: Matrix, R: FloatArray, anchor: IntArray) -> FloatArray:
    """Return ``Z.T @ R`` for R that sums to zero over the items of each anchor."""
    if sparse.issparse(Z):
        return Z.T @ R
    if not is_on_host(Z):  # taking off an offset changes nothing, but digits are saved
        xp = namespace_of(Z)
        shift, moved = xp.mean(Z[: min(CENTRED_ON, Z.shape[0]), :], axis=0), like(R, Z)
        parts = [(Z[some, :] - shift).T @ moved[some, :] for some in row_blocks(Z)]
        return to_host(sum(parts[1:], start=parts[0]))
    product = np.zeros((R.shape[1], Z.shape[1]))
    anchored_product(float_rows(Z), R, anchor, product)
    return np.ascontiguousarray(product.T)


def float_rows(V: Matrix) -> Matrix:
    """Return V of shape (n,) or (n, k) as contiguous rows in single or double precision."""
    dtype = np.float32 if V.dtype == np.float32 else np.float64
    return np.ascontiguousarray(V[:, None] if V.ndim == 1 else V, dtype=dtype)


@final
class Squares:
    """A sum of ``H.T @ H`` over blocks of centred rows H, of which one at a time is stored."""

    def __init__(self, n_features: int) -> None:
        self._block = max(1, BLOCK_BYTES // (8 * n_features))
        self._room = np.empty((0, n_features))
        self._sum = np.zeros((n_features, n_features), order="F")

    def blocks(self, n_rows: int) -> list[slice]:
        """Return blocks of rows that stay in a core's cache."""
        return [slice(k, min(k + self._block, n_rows)) for k in range(0, n_rows, self._block)]

    def add(self, rows: FloatArray, means: FloatArray, group: IntArray, scale: FloatArray) -> None:
        """Add a block of rows less the means of their groups, times their scales."""
        if len(self._room) < len(rows):
            self._room = np.empty(rows.shape)
        H = self._room[: len(rows)]
        centred_rows(float_rows(rows), means, group, scale, H)
        self._sum = dsyrk(1.0, H.T, beta=1.0, c=self._sum, overwrite_c=True)

    def total(self) -> FloatArray:
        """Return the sum, a symmetric matrix."""
        return np.triu(self._sum) + np.triu(self._sum, 1).T


@final
@dataclass(frozen=True, eq=False)
class CliqueLaplacian(GraphLaplacian):
    r"""Measure how far items lie from the weighted mean of their group.

    .. math:: p^\top L p = \sum_g d_g \sum_{i \in g} s_i (p_i - \bar p_g)^2

    which is the Laplacian of cliques: every two items of a group are joined by an edge of weight
    :math:`d_g s_i s_j / S_g`, with :math:`S_g` the group's total weight.

    Parameters
    ----------
    group : (n_items,)
        The group of each item, -1 for items that take no part.
    weight : (n_items,)
        The weight s of each item; above 0 for items that take part.
    degree : (n_groups,)
        The factor d of each group.
    label : (n_groups,)
        The name under which each group appears as a component.

    Notes
    -----
    For all weights 1 and a group for each query, L is D - P P' of [PTAB07] (12) and [PTA09] (25)
    with the numbers of items as degrees, and I - P P' of [APS10] (4) with degrees 1. L y for scores
    y is M N by [PTA09] (23), and the cost is the quadratic form (24): by [APS10] (5) least squares
    after centring.
    """

    group: IntArray
    weight: FloatArray
    degree: FloatArray
    label: IntArray

    @classmethod
    def of_groups(
        cls, group: IntArray, weight: FloatArray, degree: FloatArray, label: IntArray
    ) -> Self:
        """Build with items of weight zero taken out of their groups."""
        return cls(np.where(weight > 0, group, -1), weight, degree, label)

    @property
    def n_items(self) -> int:  # type: ignore[override]
        """Number of items."""
        return len(self.group)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.degree)

    @cached_property
    def size(self) -> IntArray:
        """Number of items that take part in each group."""
        return np.bincount(self.group + 1, minlength=self.n_groups + 1)[1:]

    @cached_property
    def mass(self) -> FloatArray:
        """Total weight of each group; 1 for an empty one, whose mean is never used."""
        total = sum_by(self.group + 1, self.weight, self.n_groups + 1)[1:]
        return np.where(self.size > 0, total, 1.0)

    @cached_property
    def component(self) -> IntArray:  # type: ignore[override]
        """The component of each item, -1 where it has no edge."""
        joined = (self.degree > 0) & (self.size > 1)
        return np.append(np.where(joined, self.label, -1), -1)[self.group]

    @cached_property
    def edge_weight(self) -> FloatArray:
        """Weight times degree of each item, 0 for items that take no part."""
        return self.weight * np.append(self.degree, 0.0)[self.group]

    @cached_property
    def share(self) -> FloatArray:
        """Share of each item in the weight of its group, 0 for items that take no part."""
        return self.weight / np.append(self.mass, np.inf)[self.group]

    def clique_form(self) -> CliqueForm:
        """Return the groups."""
        return CliqueForm(self.group, self.weight, self.edge_weight, self.share, self.mass)

    def means(self, V: Matrix) -> Matrix:
        """Return the weighted mean of each group, shape (n_groups, k); sparse for sparse V."""
        if sparse.issparse(V):
            return self._collect(self.share) @ V
        if not is_on_host(V):
            share, group = like(self.share[:, None], V), np.maximum(self.group, 0)
            return segment_sums(V, like(group, V), self.n_groups, share)
        return group_means(float_rows(V), self.group, self.weight, self.mass)

    def totals(self, V: FloatArray) -> FloatArray:
        """Return the plain sum over each group, shape (n_groups, k)."""
        return self._collect(np.ones(self.n_items)) @ V

    def spread(self, M: FloatArray) -> FloatArray:
        """Apply the transpose of ``means``: share the value of a group out to its items."""
        return self.share[:, None] * M[self.group]

    def _collect(self, entry: FloatArray) -> sparse.csr_array:
        """Return the (n_groups, n_items) matrix that sums items with the given factors."""
        member = np.flatnonzero(self.group >= 0)
        return sparse.csr_array(
            (entry[member], (self.group[member], member)), shape=(self.n_groups, self.n_items)
        )

    def __matmul__(self, V: FloatArray) -> FloatArray:
        columns = V.reshape(self.n_items, -1)
        means = self.means(columns)
        out = np.empty(columns.shape)
        # [PTAB07] eq. (12), [PTA09] eq. (25), [APS10] eq. (4)
        centred_rows(float_rows(columns), means, self.group, self.edge_weight, out)
        return out.reshape(V.shape)

    def diagonal(self) -> FloatArray:
        """Return the degree of every item."""
        return self.edge_weight * (1.0 - self.weight / self.mass[self.group])

    def gram(self, Z: Matrix) -> Array:
        """Return ``Z.T @ L @ Z`` in two passes over Z, or one for one group, without a copy."""
        if sparse.issparse(Z):
            return self._gram_sparse(Z)
        if Z.shape[1] == 0:  # BLAS has no empty matrices
            return like(np.zeros((0, 0)), Z)
        if self.n_groups == 1 and is_on_host(Z):
            return self._gram_of_one_group(Z)
        return self.gram_about(self.means(Z), Z)

    def gram_about(self, means: Array, Z: Array) -> Array:
        """Return ``Z.T @ L @ Z`` for dense Z, given the means of its groups."""
        scale = np.sqrt(self.edge_weight)
        if not is_on_host(Z):
            group, factor = (like(a, Z) for a in (np.maximum(self.group, 0), scale[:, None]))
            G = zeros((Z.shape[1], Z.shape[1]), Z)
            for some in row_blocks(Z):
                H = (Z[some, :] - take_rows(means, group[some])) * factor[some, :]
                add_gram(G, H)
            return G
        squares = Squares(Z.shape[1])
        for block in squares.blocks(self.n_items):
            squares.add(Z[block], means, self.group[block], scale[block])
        return squares.total()

    def _gram_of_one_group(self, Z: FloatArray) -> FloatArray:
        """Centre each block of rows on its own mean while in cache, and these means at last."""
        scale = np.sqrt(self.edge_weight)
        squares = Squares(Z.shape[1])
        blocks = squares.blocks(self.n_items)
        taking_part = np.where(self.group >= 0, self.weight, 0.0)
        mass = np.add.reduceat(taking_part, [block.start for block in blocks])
        means = np.empty((len(blocks), Z.shape[1]))
        for k, block in enumerate(blocks):
            rows = float_rows(Z[block])
            means[k] = group_means(rows, self.group[block], self.weight[block], mass[k : k + 1])
            squares.add(rows, means[k : k + 1], self.group[block], scale[block])
        group = np.where(mass > 0.0, 0, -1)
        mean = group_means(means, group, mass, self.mass)
        squares.add(means, mean, group, np.sqrt(mass * self.degree[0]))
        return squares.total()

    def _gram_sparse(self, Z: sparse.csr_array) -> FloatArray:
        """Make rows dense block by block, group after group, so that means stay few at a time."""
        order = np.argsort(self.group, kind="stable")[np.count_nonzero(self.group < 0) :]
        starts = np.concatenate([[0], np.cumsum(self.size)])
        average, scale = self._collect(self.share), np.sqrt(self.edge_weight)
        n_features = Z.shape[1]
        rows = max(1, SPARSE_BLOCK_BYTES // (8 * max(1, n_features)))
        G = np.zeros((n_features, n_features))
        for first in range(0, self.n_groups, rows):
            last = min(first + rows, self.n_groups)
            means = (average[first:last] @ Z).toarray()
            for start in range(starts[first], starts[last], rows):
                block = order[start : min(start + rows, starts[last])]
                dense = Z[block].toarray()
                H = np.empty(dense.shape)
                centred_rows(float_rows(dense), means, self.group[block] - first, scale[block], H)
                G += H.T @ H
        return G

    def root(self) -> "CliqueRoot":
        """Return the root made of one Householder reflection per group."""
        return CliqueRoot.of(self)


@final
@dataclass(frozen=True, eq=False)
class CliqueRoot(Root):
    """The root of a `CliqueLaplacian`: a Householder reflection per group, one column dropped.

    The reflection sends the unit vector e with entries sqrt(s_i / S_g) to the first axis, so the
    other axes span what is left when the mean is taken out (docs/theory/rankrls.rst, eq.
    rls-householder).
    """

    rows: IntArray
    """The items with coordinates, group by group."""
    starts: IntArray
    """Where each group begins among them, and the end."""
    row_axis: FloatArray
    row_scale: FloatArray
    component: IntArray
    item: Array
    """The item of each coordinate, the first item of its group, and its group."""
    leader: Array
    group: Array
    axis: Array
    """e and the root of weight times degree, for each coordinate; columns."""
    scale: Array
    share: Array
    """``1 / (1 + e)`` and the root of weight times degree, for the first item of each group."""
    lead_scale: Array
    place: Array
    """Where each item stands among first items, those of coordinates, and nothing."""
    unweight: Array
    """One over weight times degree of each item, 0 for those without coordinates."""

    @classmethod
    def of(cls, cliques: CliqueLaplacian) -> Self:
        """Build one reflection per group; groups of one item or of degree 0 have no coordinates."""
        # the items with coordinates, group by group
        joined = (cliques.degree > 0) & (cliques.size > 1)
        rows = np.flatnonzero(np.append(joined, False)[cliques.group])
        rows = rows[np.argsort(cliques.group[rows], kind="stable")]
        number = cliques.group[rows]
        starts = np.append(np.flatnonzero(np.diff(number, prepend=-1)), len(rows))
        # the first item of a group has no coordinate: its reflection makes that one zero
        first = starts[:-1]
        inner = np.delete(np.arange(len(rows)), first)
        # scale of every item, and the unit vector that its group is reflected with
        scale = np.sqrt(cliques.weight[rows] * cliques.degree[number])
        axis = np.sqrt(cliques.weight[rows] / cliques.mass[number])
        group = np.repeat(np.arange(len(first)), np.diff(starts) - 1)
        # where each item is found again: first items, then coordinates, then nothing
        place = np.full(cliques.n_items, len(rows))
        place[rows[first]], place[rows[inner]] = (
            np.arange(len(first)),
            len(first) + np.arange(len(inner)),
        )
        unweight = np.zeros((cliques.n_items, 1))
        unweight[rows, 0] = 1.0 / scale**2
        return cls(
            rows=rows,
            starts=starts,
            row_axis=axis,
            row_scale=scale,
            component=cliques.label[number[inner]],
            item=rows[inner],
            leader=rows[first][group],
            group=group,
            axis=axis[inner, None],
            scale=scale[inner, None],
            share=1.0 / (1.0 + axis[first, None]),
            lead_scale=scale[first, None],
            place=place,
            unweight=unweight,
        )

    def like(self, array: Array) -> "CliqueRoot":
        """Return the same reflections where an array is."""
        moved = ("item", "leader", "group", "axis", "scale", "share", "lead_scale", "place")
        parts = {name: like(getattr(self, name), array) for name in (*moved, "unweight")}
        return self if is_on_host(array) else replace(self, **parts)

    def to_coordinates(self, V: Array) -> Array:
        """Return ``R.T @ V``; the first row of a group is taken off first."""
        if is_on_host(V):
            groups = np.arange(len(self.starts) - 1)
            out = np.empty((self.rank, V.shape[1]))
            self._fill(V, groups, self.starts[:-1] - groups, out)
            return out
        W = take_rows(V, self.item)
        W -= take_rows(V, self.leader)
        W *= self.scale
        W -= self.axis * take_rows(self.share * self._along(W), self.group)
        return W

    def picker(self, V: FloatArray) -> Picker:
        """Reflect the groups that are asked for; each fills rows that follow one another."""

        def pick(which: IntArray, out: FloatArray, places: IntArray) -> None:
            group = self.group[which]
            begins = np.flatnonzero(np.diff(group, prepend=-1))
            self._fill(V, group[begins], places[begins], out)

        return pick

    def _fill(self, V: FloatArray, groups: IntArray, begins: IntArray, out: FloatArray) -> None:
        """Set the coordinates of some groups, which begin at rows of ``out``, in threads."""
        n_groups = len(groups)
        n_tasks = max(1, min(n_threads(), n_groups, out.size // WORK_PER_THREAD))
        cuts = [n_groups * k // n_tasks for k in range(n_tasks + 1)]
        rows = np.ascontiguousarray(V, dtype=np.float64)
        arrays = rows, self.rows, self.starts, self.row_axis, self.row_scale

        def reflect(k: int) -> None:
            part = slice(cuts[k], cuts[k + 1])
            reflect_rows(*arrays, groups[part], begins[part], out)

        in_threads(reflect, n_tasks)

    def to_items(self, C: Array) -> Array:
        """Return ``R @ C``: of the first items, of the others, and zeros."""
        along = self._along(C)
        others = self.scale * (C - self.axis * take_rows(self.share * along, self.group))
        parts = [-self.lead_scale * along, others, zeros((1, C.shape[1]), C)]
        return take_rows(namespace_of(C).concat(parts), self.place)

    def solve(self, B: Array) -> Array:
        """Return the C with ``R @ C = B``: R is orthogonal up to its weights."""
        return self.to_coordinates(self.unweight * B)

    def to_scores(self, P: Array) -> Array:
        """Return scores V with ``R.T @ V = P`` and weighted mean 0 in every group."""
        return self.unweight * self.to_items(P)

    def _along(self, C: Array) -> Array:
        """Return the products of e with the coordinates of each group."""
        return segment_sums(C, self.group, len(self.starts) - 1, self.axis)


@final
@dataclass(frozen=True, eq=False)
class NestedCliqueLaplacian(GraphLaplacian):
    r"""Join the items of each group, and the means of the groups to each other.

    .. math:: p^\top L p = p^\top L_{\text{within}} p + (Ap)^\top L_{\text{between}} (Ap)

    with A the weighted average of each group. This is the exact form of every cost whose pair
    weights depend only on the scores of the two items (docs/theory/preference-graphs.rst, eq.
    graph-nested).

    Parameters
    ----------
    within : CliqueLaplacian
        Over the items, grouped by query and score.
    between : GraphLaplacian
        Over the groups.
    component : (n_items,)
        The component of each item, -1 for items without a preference.
    """

    within: CliqueLaplacian
    between: GraphLaplacian
    component: IntArray

    @property
    def n_items(self) -> int:  # type: ignore[override]
        """Number of items."""
        return self.within.n_items

    def __matmul__(self, V: FloatArray) -> FloatArray:
        columns = V.reshape(self.n_items, -1)
        pull = self.within.spread(self.between @ self.within.means(columns))
        return (self.within @ columns + pull).reshape(V.shape)

    def diagonal(self) -> FloatArray:
        """Return the degree of every item."""
        across = self.within.share**2 * self.between.diagonal()[self.within.group]
        return self.within.diagonal() + across

    def gram(self, Z: Matrix) -> FloatArray:
        """Return ``Z.T @ L @ Z``; the means of the groups are found once."""
        means = self.within.means(Z)
        if sparse.issparse(Z) or Z.shape[1] == 0:
            return self.within.gram(Z) + self.between.gram(means)
        return self.within.gram_about(means, Z) + self.between.gram(means)

    def clique_form(self) -> CliqueForm:
        """Return the groups, with what joins their means."""
        return replace(self.within.clique_form(), between=self.between)

    def root(self) -> "NestedCliqueRoot":
        """Return the two roots side by side."""
        return NestedCliqueRoot.of(self)


@final
@dataclass(frozen=True, eq=False)
class NestedCliqueRoot(Root):
    """The root of a `NestedCliqueLaplacian`: coordinates within groups, then between them."""

    cliques: CliqueLaplacian
    within: CliqueRoot
    between: Root
    component: IntArray
    group: Array
    """The group of each item, the number of groups for items of none."""
    share: Array

    @classmethod
    def of(cls, nested: NestedCliqueLaplacian) -> Self:
        """Build both roots."""
        cliques, within, between = nested.within, nested.within.root(), nested.between.root()
        component = np.concatenate([within.component, between.component])
        group = np.where(cliques.group >= 0, cliques.group, cliques.n_groups)
        return cls(cliques, within, between, component, group, cliques.share[:, None])

    def like(self, array: Array) -> "NestedCliqueRoot":
        """Return both roots where an array is."""
        if is_on_host(array):
            return self
        return replace(
            self,
            within=self.within.like(array),
            between=self.between.like(array),
            group=like(self.group, array),
            share=like(self.share, array),
        )

    def to_coordinates(self, V: Array) -> Array:
        """Return ``R.T @ V``."""
        if is_on_host(V):
            means = self.cliques.means(V)
        else:
            n_groups = self.cliques.n_groups
            means = segment_sums(V, self.group, n_groups + 1, self.share)[:n_groups, :]
        across = self.between.to_coordinates(means)
        return namespace_of(V).concat([self.within.to_coordinates(V), across])

    def picker(self, V: FloatArray) -> Picker:
        """Pick within groups and between their means, which are kept."""
        n_within, within = self.within.rank, self.within.picker(V)
        between = self.between.picker(self.cliques.means(V))

        def pick(which: IntArray, out: FloatArray, places: IntArray) -> None:
            inside = which < n_within
            within(which[inside], out, places[inside])
            between(which[~inside] - n_within, out, places[~inside])

        return pick

    def to_items(self, C: Array) -> Array:
        """Return ``R @ C``."""
        inside, across = C[: self.within.rank, :], C[self.within.rank :, :]
        return self.within.to_items(inside) + self.share * self._spread(
            self.between.to_items(across)
        )

    def to_scores(self, P: Array) -> Array:
        """Return scores V with ``R.T @ V = P``: deviations within groups plus group means."""
        inside, across = P[: self.within.rank, :], P[self.within.rank :, :]
        return self.within.to_scores(inside) + self._spread(self.between.to_scores(across))

    def _spread(self, of_groups: Array) -> Array:
        """Give each item what its group has, 0 to those of none."""
        nothing = zeros((1, of_groups.shape[1]), of_groups)
        return take_rows(namespace_of(of_groups).concat([of_groups, nothing]), self.group)

    def solve(self, B: Array) -> Array:
        """Return the C with ``R @ C = B``: each part on its own."""
        n_groups = self.cliques.n_groups
        totals = segment_sums(B, self.group, n_groups + 1)[:n_groups, :]
        parts = [self.within.solve(B), self.between.solve(totals)]
        return namespace_of(B).concat(parts)
