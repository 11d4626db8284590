"""Explicit pairs of items, and the Laplacian that they have with any weights."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self, final

import numpy as np
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse.csgraph import connected_components

from rankwise.core.arrays import FloatArray, IntArray, Matrix, sum_by
from rankwise.core.devices import Device, DeviceArray
from rankwise.core.storable import storable
from rankwise.graph.laplacian import DeviceRoot, GraphLaplacian, Picker, Root, float_rows
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

    first: IntArray
    second: IntArray
    n_items: int

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
            lost = sum_by(self.second, values, self.n_items)
            return sum_by(self.first, values, self.n_items) - lost
        signs, ends = np.tile([1.0, -1.0], self.n_pairs), np.stack([self.first, self.second], 1)
        entries = (signs, ends.ravel(), np.arange(0, 2 * self.n_pairs + 1, 2))
        return sparse.csc_array(entries, shape=(self.n_items, self.n_pairs)) @ values

    def laplacian(self, weight: FloatArray) -> sparse.csr_array:
        """Return ``D.T @ diag(weight) @ D``, in which repeated pairs add up."""
        # [PTA09] eq. (14): M M'
        i, j = self.first, self.second
        entries = np.concatenate([weight, weight, -weight, -weight])
        rows, columns = np.concatenate([i, j, i, j]), np.concatenate([i, j, j, i])
        shape = (self.n_items, self.n_items)
        return sparse.coo_array((entries, (rows, columns)), shape=shape).tocsr()

    def product(
        self, weight: FloatArray, V: FloatArray, *, is_lower_triangular: bool = False
    ) -> FloatArray:
        """Return ``D.T @ diag(weight) @ D @ V`` without the Laplacian: O(n_pairs k).

        Parameters
        ----------
        weight : (n_pairs,)
            The weight of each pair.
        V : (n_items,) or (n_items, k)
            What the Laplacian is applied to.
        is_lower_triangular : bool
            Whether row i of V is zero after column i, which halves the work for a square V.
        """
        columns = float_rows(V)
        tail = 1 if is_lower_triangular else columns.shape[1]
        return laplacian_product(columns, self.first, self.second, weight, tail).reshape(V.shape)

    def gram(self, weight: FloatArray, Z: FloatArray) -> FloatArray:
        """Return ``Z.T @ D.T @ diag(weight) @ D @ Z``, some pairs at a time: O(n_pairs k^2)."""
        G = np.zeros((Z.shape[1], Z.shape[1]))
        for start in range(0, self.n_pairs, BLOCK_PAIRS):
            block = np.arange(start, min(start + BLOCK_PAIRS, self.n_pairs))
            leads = self.take(block).differences(Z)
            G += leads.T @ (weight[block, None] * leads)
        return G


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
        _, component = connected_components(matrix, directed=False)
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

    def gram(self, Z: Matrix) -> FloatArray:
        """Return ``Z.T @ L @ Z``; dense Z is centred first, which L does not see."""
        if sparse.issparse(Z):
            return (Z.T @ (self.matrix @ Z)).toarray()
        C = Z - Z.mean(axis=0, dtype=np.float64)
        G = C.T @ (self.matrix @ C)
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

    n_items: int
    members: tuple[IntArray, ...]
    factors: tuple[FloatArray, ...]
    component: IntArray

    @classmethod
    def of(cls, edges: EdgeLaplacian) -> Self:
        """Factorise every component."""
        active = np.flatnonzero(edges.component >= 0)
        active = active[np.argsort(edges.component[active], kind="stable")]
        _, starts = np.unique(edges.component[active], return_index=True)
        members = tuple(np.split(active, starts[1:])) if len(active) else ()
        factors = tuple(
            cholesky(edges.matrix[m[:-1]][:, m[:-1]].toarray(), lower=True) for m in members
        )
        labels = [np.repeat(edges.component[m[0]], len(m) - 1) for m in members]
        component = np.concatenate(labels) if labels else np.zeros(0, dtype=np.intp)
        return cls(edges.n_items, members, factors, component)

    @cached_property
    def slices(self) -> tuple[slice, ...]:
        """The coordinates of each component."""
        ends = np.cumsum([len(m) - 1 for m in self.members])
        return tuple(
            slice(int(end) - len(m) + 1, int(end))
            for m, end in zip(self.members, ends, strict=True)
        )

    def fill_coordinates(self, V: FloatArray, out: FloatArray) -> None:
        """Set ``out = R.T @ V``."""
        for items, C, where in zip(self.members, self.factors, self.slices, strict=True):
            out[where] = C.T @ (V[items[:-1]] - V[items[-1]])

    def picker(self, V: FloatArray) -> Picker:
        """Pick from all coordinates, which are kept."""
        coordinates = self.to_coordinates(V)

        def pick(which: IntArray, out: FloatArray, places: IntArray) -> None:
            out[places] = coordinates[which]

        return pick

    def on(self, device: Device) -> "EdgeDeviceRoot":
        """Bring the factors to a device."""
        factors = [device.array(C) for C in self.factors]
        return EdgeDeviceRoot(self, factors, [device.array(m) for m in self.members], device)

    def to_items(self, C: FloatArray) -> FloatArray:
        """Return ``R @ C``."""
        out = np.zeros((self.n_items, C.shape[1]))
        for items, factor, where in zip(self.members, self.factors, self.slices, strict=True):
            P = factor @ C[where]
            out[items[:-1]] = P
            out[items[-1]] = -P.sum(axis=0)
        return out

    def to_scores(self, P: FloatArray) -> FloatArray:
        """Return scores V with ``R.T @ V = P`` and 0 for the grounded item."""
        out = np.zeros((self.n_items, P.shape[1]))
        for items, factor, where in zip(self.members, self.factors, self.slices, strict=True):
            out[items[:-1]] = solve_triangular(factor, P[where], lower=True, trans="T")
        return out

    def solve(self, B: FloatArray) -> FloatArray:
        """Return the C with ``R @ C = B``."""
        out = np.empty((self.rank, B.shape[1]))
        for items, factor, where in zip(self.members, self.factors, self.slices, strict=True):
            out[where] = solve_triangular(factor, B[items[:-1]], lower=True)
        return out


@final
@dataclass(frozen=True, eq=False)
class EdgeDeviceRoot(DeviceRoot):
    """An `EdgeRoot` on a device."""

    root: EdgeRoot
    factors: list[DeviceArray]
    members: list[DeviceArray]
    device: Device

    @property
    def rank(self) -> int:  # type: ignore[override]
        """Number of coordinates."""
        return self.root.rank

    def coordinates(self, V: DeviceArray) -> DeviceArray:
        """Return ``R.T @ V``."""
        out = self.device.empty(self.rank, V.shape[1])
        for items, C, where in zip(self.members, self.factors, self.root.slices, strict=True):
            out[where] = C.T @ (V[items[:-1]] - V[items[-1:]])
        return out

    def items(self, C: DeviceArray) -> DeviceArray:
        """Return ``R @ C``."""
        out = self._zeros(C)
        for items, factor, where in zip(self.members, self.factors, self.root.slices, strict=True):
            P = factor @ C[where]
            out[items[:-1]] = P
            out[items[-1]] = -P.sum(0)
        return out

    def scores(self, P: DeviceArray) -> DeviceArray:
        """Return scores V with ``R.T @ V = P`` and 0 for the grounded item."""
        out = self._zeros(P)
        for items, factor, where in zip(self.members, self.factors, self.root.slices, strict=True):
            out[items[:-1]] = self.device.solve_transposed(factor, P[where])
        return out

    def _zeros(self, C: DeviceArray) -> DeviceArray:
        out = self.device.empty(self.root.n_items, C.shape[1])
        out[:] = 0.0
        return out
