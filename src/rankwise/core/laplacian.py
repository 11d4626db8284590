"""What every Laplacian of a preference graph can do, and what a root of one is."""

from abc import ABC, abstractmethod

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray, Matrix


class Root(ABC):
    r"""A matrix R of full column rank with :math:`L = R R^\top`, never stored.

    Its columns are the *coordinates*: as many as active items minus components, the smallest space
    in which a dual problem can be solved.
    """

    component: IntArray
    """The component to which each coordinate belongs."""

    @property
    def rank(self) -> int:
        """Number of coordinates."""
        return len(self.component)

    @abstractmethod
    def to_coordinates(self, V: FloatArray) -> FloatArray:
        """Return ``R.T @ V`` for V of shape (n_items, k)."""

    @abstractmethod
    def to_items(self, C: FloatArray) -> FloatArray:
        """Return ``R @ C`` for C of shape (rank, k)."""

    @abstractmethod
    def solve(self, B: FloatArray) -> FloatArray:
        """Return the C with ``R @ C = B``, for B in the range of the Laplacian."""

    def reduce(self, K: FloatArray) -> FloatArray:
        """Return ``R.T @ K @ R`` for a symmetric K, in blocks of columns."""
        half = np.empty((len(K), self.rank))
        _in_blocks(self, K, half)
        S = np.empty((self.rank, self.rank))
        _in_blocks(self, half, S)
        return S


def _in_blocks(root: Root, source: FloatArray, out: FloatArray, width: int = 256) -> None:
    """Set ``out = (R.T @ source).T``, so that two calls apply R on both sides."""
    for start in range(0, source.shape[1], width):
        block = slice(start, start + width)
        out[block] = root.to_coordinates(source[:, block]).T


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
    def gram(self, Z: Matrix) -> FloatArray:
        """Return ``Z.T @ L @ Z`` as a dense matrix."""

    @abstractmethod
    def root(self) -> Root:
        """Return a root of this Laplacian."""

    @property
    def n_components(self) -> int:
        """Number of components with at least one preference."""
        return len(np.unique(self.component[self.component >= 0]))

    @property
    def rank(self) -> int:
        """Rank of the Laplacian: active items minus components."""
        return int(np.count_nonzero(self.component >= 0)) - self.n_components
