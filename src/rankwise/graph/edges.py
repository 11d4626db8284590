"""The Laplacian of an explicit list of weighted edges."""

from dataclasses import dataclass
from functools import cached_property
from typing import Self, final

import numpy as np
from scipy import sparse
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse.csgraph import connected_components

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.graph.laplacian import GraphLaplacian, Root


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
    def of_pairs(cls, pairs: IntArray, weight: FloatArray, n_items: int) -> Self:
        """Build from pairs of items and the weight of each; edges of weight 0 do not count."""
        used = weight > 0
        first, second, w = pairs[used, 0], pairs[used, 1], weight[used]
        entries = np.concatenate([w, w, -w, -w])
        rows = np.concatenate([first, second, first, second])
        columns = np.concatenate([first, second, second, first])
        matrix = sparse.coo_array((entries, (rows, columns)), shape=(n_items, n_items)).tocsr()
        _, component = connected_components(matrix, directed=False)
        isolated = np.bincount(np.r_[first, second], minlength=n_items) == 0
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
