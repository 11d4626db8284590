"""Explicit pairs of items, and the Laplacian that they have with any weights."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Self, final

import numpy as np
from scipy import sparse
from scipy.linalg import cholesky
from scipy.sparse.csgraph import connected_components

from rankwise.core.arrays import FloatArray, IntArray, Matrix, sum_by
from rankwise.core.namespaces import (
    Array,
    column_means,
    is_on_host,
    like,
    namespace_of,
    solve_triangular,
    take_rows,
    to_host,
    zeros,
)
from rankwise.core.params import AtLeast, Shape, Size
from rankwise.core.storable import PositionsIn, storable
from rankwise.graph.laplacian import GraphLaplacian, Picker, Root, float_rows
from rankwise.native.laplacians import laplacian_product

BLOCK_PAIRS = 2048
"""Pairs whose differences are formed together."""


@storable
@final
@dataclass(frozen=True, eq=False)
class Incidence:
    r"""Hold pairs of items, whose Laplacian can be taken with one set of weights after another.

    With D the matrix that has a row :math:`e_i - e_j` for each pair (i, j), the Laplacian for
    weights w is :math:`D^\top \mathrm{diag}(w) D`. D is not stored; every method is one pass over
    the pairs.

    Parameters
    ----------
    first, second : (n_pairs,)
        The two items of each pair.
    n_items : int
        Number of items.

    Notes
    -----
    The matrix M of [PTA09] (12) is :math:`D^\top \mathrm{diag}(\sqrt{w})`; with the targets N of
    (13) it gives the cost (14). [APS10] (9), Sect. 3.5, has weights and targets of 1.
    """

    first: Annotated[IntArray, Shape("n_pairs"), PositionsIn("n_items")]
    second: Annotated[IntArray, Shape("n_pairs"), PositionsIn("n_items")]
    n_items: Annotated[int, AtLeast(0), Size("n_items")]

    @classmethod
    def of(cls, pairs: IntArray, n_items: int) -> Self:
        """Build from an array of shape (n_pairs, 2)."""
        first, second = pairs.T.copy()
        return cls(first, second, n_items)

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return len(self.first)

    def take(self, chosen: IntArray) -> Self:
        """Keep some of the pairs."""
        return type(self)(self.first[chosen], self.second[chosen], self.n_items)

    def differences(self, V: FloatArray) -> FloatArray:
        """Return ``D @ V``, first less second, for V of shape (n_items,) or (n_items, k)."""
        leads = V.take(self.first, axis=0).astype(np.float64, copy=False)
        leads -= V.take(self.second, axis=0)
        return leads

    def adjoint(self, values: FloatArray) -> FloatArray:
        """Return ``D.T @ values`` for values of shape (n_pairs,) or (n_pairs, k)."""
        # [PTA09] eq. (12), (13): M N for values of weight times target; [APS10] eq. (9)
        if values.ndim == 1:
            won = np.bincount(self.first, values, self.n_items)
            won -= np.bincount(self.second, values, self.n_items)
            return won.astype(float, copy=False)  # of no pairs NumPy counts in integers
        signs, ends = np.tile([1.0, -1.0], self.n_pairs), np.stack([self.first, self.second], 1)
        entries = (signs, ends.ravel(), np.arange(0, 2 * self.n_pairs + 1, 2))
        return sparse.csc_array(entries, shape=(self.n_items, self.n_pairs)) @ values

    def laplacian(self, weight: FloatArray) -> sparse.csr_array:
        """Return ``D.T @ diag(weight) @ D``, in which repeated pairs add up."""
        # [PTA09] eq. (14): M M'. Sorting one triangle takes a quarter of the time of sorting both
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        shape = (self.n_items, self.n_items)
        upper = sparse.coo_array((-weight, (low, high)), shape=shape).tocsr()
        degree = sum_by(low, weight, self.n_items) + sum_by(high, weight, self.n_items)
        every = np.arange(self.n_items + 1)
        diagonal = sparse.csr_array((degree, every[:-1], every), shape=shape)
        return _side_by_side(upper.T.tocsr(), diagonal, upper)

    def product(self, weight: FloatArray, V: FloatArray) -> FloatArray:
        """Return ``D.T @ diag(weight) @ D @ V`` without the Laplacian: O(n_pairs k).

        Parameters
        ----------
        weight : (n_pairs,)
            The weight of each pair.
        V : (n_items,) or (n_items, k)
            What the Laplacian is applied to.
        """
        rows = float_rows(V)
        product = laplacian_product(rows, self.first, self.second, weight, rows.shape[1])
        return product.reshape(V.shape)

    def gram(self, weight: FloatArray, Z: FloatArray) -> FloatArray:
        """Return ``Z.T @ D.T @ diag(weight) @ D @ Z``, some pairs at a time: O(n_pairs k^2)."""
        G = np.zeros((Z.shape[1], Z.shape[1]))
        for start in range(0, self.n_pairs, BLOCK_PAIRS):
            block = np.arange(start, min(start + BLOCK_PAIRS, self.n_pairs))
            leads = self.take(block).differences(Z)
            G += leads.T @ (weight[block, None] * leads)
        return G


def _side_by_side(*parts: sparse.csr_array) -> sparse.csr_array:
    """Add matrices of which each has all its columns before those of the next, row by row."""
    counts = np.stack([np.diff(part.indptr) for part in parts])
    starts = np.concatenate([[0], np.cumsum(counts.sum(axis=0))])
    before = starts[:-1] + np.cumsum(counts, axis=0) - counts
    size, kind = int(starts[-1]), parts[0].indices.dtype
    data, indices = np.empty(size), np.empty(size, dtype=kind)
    for part, first, count in zip(parts, before, counts, strict=True):
        places = np.arange(part.nnz) + np.repeat(first - part.indptr[:-1], count)
        data[places], indices[places] = part.data, part.indices
    return sparse.csr_array((data, indices, starts.astype(kind)), shape=parts[0].shape)


@final
@dataclass(frozen=True, eq=False)
class EdgeLaplacian(GraphLaplacian):
    r"""Join items by explicit edges; repeated edges add up.

    .. math:: p^\top L p = \sum_e w_e (p_{i(e)} - p_{j(e)})^2

    Parameters
    ----------
    matrix : (n_items, n_items) sparse
        The Laplacian itself, with one entry per joined pair of items.
    component : (n_items,)
        The component of each item, -1 for items without an edge.
    """

    matrix: sparse.csr_array
    component: IntArray

    @classmethod
    def of_pairs(cls, pairs: Incidence, weight: FloatArray) -> Self:
        """Build from pairs of items and the weight of each; pairs of weight 0 join nothing."""
        used = np.flatnonzero(weight > 0)
        joined = pairs.take(used)
        matrix = joined.laplacian(weight[used])
        # edges lead both ways, so what is connected is so strongly; this needs no transpose
        _, component = connected_components(matrix, directed=True, connection="strong")
        ends = np.concatenate([joined.first, joined.second])
        isolated = np.bincount(ends, minlength=pairs.n_items) == 0
        return cls(matrix, np.where(isolated, -1, component).astype(np.intp))

    @property
    def n_items(self) -> int:  # type: ignore[override]
        """Number of items."""
        return int(self.matrix.shape[0])

    def __matmul__(self, V: FloatArray) -> FloatArray:
        return self.matrix @ V

    def diagonal(self) -> FloatArray:
        """Return the degree of every item."""
        return self.matrix.diagonal()

    def gram(self, Z: Matrix) -> Array:
        """Return ``Z.T @ L @ Z``; dense Z is centred first, which L does not see."""
        if sparse.issparse(Z):
            return (Z.T @ (self.matrix @ Z)).toarray()
        C = Z - column_means(Z)
        G = C.T @ like(self.matrix @ to_host(C), C)
        return (G + G.T) / 2

    def root(self) -> "EdgeRoot":
        """Return the root made of one grounded Cholesky factor per component."""
        return EdgeRoot.of(self)


@final
@dataclass(frozen=True, eq=False)
class EdgeRoot(Root):
    """The root of an `EdgeLaplacian`: per component, ground the last item, factorise the rest.

    With ``L = [I; -1'] L11 [I, -1]`` and ``L11 = C C'`` the root is ``[C; -1' C]``
    (docs/theory/rankrls.rst, "The factor R").
    """

    members: tuple[Array, ...]
    """The items of each component."""
    factors: tuple[Array, ...]
    component: IntArray
    place: Array
    """Where each item stands among the members of all components, and nothing."""

    @classmethod
    def of(cls, edges: EdgeLaplacian) -> Self:
        """Factorise every component."""
        active = np.flatnonzero(edges.component >= 0)
        active = active[np.argsort(edges.component[active], kind="stable")]
        _, starts = np.unique(edges.component[active], return_index=True)
        members = tuple(np.split(active, starts[1:])) if len(active) else ()
        factors = tuple(
            cholesky(grounded.toarray(), lower=True, overwrite_a=True, check_finite=False)
            for grounded in (edges.matrix[m[:-1]][:, m[:-1]] for m in members)
        )
        labels = [np.repeat(edges.component[m[0]], len(m) - 1) for m in members]
        component = np.concatenate(labels) if labels else np.zeros(0, dtype=np.intp)
        place = np.full(edges.n_items, len(active))
        place[active] = np.arange(len(active))
        return cls(members, factors, component, place)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The coordinates of each component."""
        ends = np.cumsum([m.shape[0] - 1 for m in self.members]).tolist()
        return tuple(
            slice(end - m.shape[0] + 1, end) for m, end in zip(self.members, ends, strict=True)
        )

    def like(self, array: Array) -> "EdgeRoot":
        """Return the factors where an array is."""
        if is_on_host(array):
            return self
        members, factors = (
            tuple(like(a, array) for a in arrays) for arrays in (self.members, self.factors)
        )
        return replace(self, members=members, factors=factors, place=like(self.place, array))

    def to_coordinates(self, V: Array) -> Array:
        """Return ``R.T @ V``."""
        leads = []
        for items, factor in zip(self.members, self.factors, strict=True):
            rows = take_rows(V, items)
            leads.append(factor.T @ (rows[:-1, :] - rows[-1:, :]))
        return _stacked(leads, V)

    def picker(self, V: FloatArray) -> Picker:
        """Pick from all coordinates, which are kept."""
        coordinates = self.to_coordinates(V)

        def pick(which: IntArray, out: FloatArray, places: IntArray) -> None:
            out[places] = coordinates[which]

        return pick

    def to_items(self, C: Array) -> Array:
        """Return ``R @ C``."""
        return self._of_items(C, lambda factor, own: factor @ own, grounded=-1.0)

    def to_scores(self, P: Array) -> Array:
        """Return scores V with ``R.T @ V = P`` and 0 for the grounded item."""

        def solve(factor: Array, own: Array) -> Array:
            return solve_triangular(factor, own, transposed=True)

        return self._of_items(P, solve, grounded=0.0)

    def solve(self, B: Array) -> Array:
        """Return the C with ``R @ C = B``."""
        solved = [
            solve_triangular(factor, take_rows(B, items[:-1]))
            for items, factor in zip(self.members, self.factors, strict=True)
        ]
        return _stacked(solved, B)

    def _of_items(
        self, C: Array, of_component: Callable[[Array, Array], Array], *, grounded: float
    ) -> Array:
        """Map coordinates to items; the grounded item gets the sum of the others, times a factor.

        Items without an edge get 0.
        """
        xp, parts = namespace_of(C), []
        for factor, where in zip(self.factors, self.slices, strict=True):
            own = of_component(factor, C[where, :])
            parts += [own, grounded * xp.sum(own, axis=0, keepdims=True)]
        return take_rows(xp.concat([*parts, zeros((1, C.shape[1]), C)]), self.place)


def _stacked(parts: list[Array], V: Array) -> Array:
    """Put rows of all components under one another; there may be none."""
    return namespace_of(V).concat([zeros((0, V.shape[1]), V), *parts])
