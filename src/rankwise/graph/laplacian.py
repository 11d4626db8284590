"""Laplacians of preference graphs and their roots: what all kinds have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy import sparse

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.compile import in_threads
from rankwise.core.devices import Device, DeviceArray
from rankwise.graph._kernels import anchored_product

BLOCK = 32
"""Columns that are brought into coordinates together."""

DEVICE_BLOCK = 1024
"""The same on a device that has thousands of threads."""


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

    def to_coordinates(self, V: FloatArray) -> FloatArray:
        """Return ``R.T @ V`` for V of shape (n_items, k)."""
        out = np.empty((self.rank, V.shape[1]))
        self.fill_coordinates(V, out)
        return out

    @abstractmethod
    def fill_coordinates(self, V: FloatArray, out: FloatArray) -> None:
        """Set ``out = R.T @ V``."""

    @abstractmethod
    def picker(self, V: FloatArray) -> Callable[[IntArray], FloatArray]:
        """Return a function that gives some rows of ``R.T @ V``, all those of some components.

        It takes their numbers, those of a component together and rising. What it does not return
        is not kept, so that a large V needs no second one of its size.
        """

    @abstractmethod
    def on(self, device: Device) -> "DeviceRoot":
        """Bring the root to a device."""

    @abstractmethod
    def to_items(self, C: FloatArray) -> FloatArray:
        """Return ``R @ C`` for C of shape (rank, k)."""

    @abstractmethod
    def solve(self, B: FloatArray) -> FloatArray:
        """Return the C with ``R @ C = B``, for B in the range of the Laplacian."""

    @abstractmethod
    def to_scores(self, P: FloatArray) -> FloatArray:
        """Return scores V of the items with ``R.T @ V = P``; constants per component are free."""

    def reduce(self, K: FloatArray) -> FloatArray:
        """Return ``R.T @ K @ R`` for a symmetric K, in blocks of columns and then of rows.

        K must own its memory, in which all of it happens.
        """
        n_items, rank = len(K), self.rank

        def reduce_columns(k: int) -> None:
            block = slice(k * BLOCK, (k + 1) * BLOCK)
            K[:rank, block] = self.to_coordinates(np.ascontiguousarray(K[:, block]))

        def reduce_rows(k: int) -> None:
            block = slice(k * BLOCK, min((k + 1) * BLOCK, rank))
            K[block, :rank] = self.to_coordinates(np.ascontiguousarray(K[block].T)).T

        in_threads(reduce_columns, -(-n_items // BLOCK))
        in_threads(reduce_rows, -(-rank // BLOCK))
        flat = K.reshape(-1)
        for row in range(1, rank):  # close up: a row is never moved to where one still stands
            flat[row * rank : (row + 1) * rank] = K[row, :rank]
        K.resize((rank, rank), refcheck=False)
        return K


class DeviceRoot(ABC):
    """A `Root` on a device; what it takes and returns is there."""

    rank: int
    """Number of coordinates."""
    device: Device

    @abstractmethod
    def coordinates(self, V: DeviceArray) -> DeviceArray:
        """Return ``R.T @ V`` for V of shape (n_items, k)."""

    @abstractmethod
    def items(self, C: DeviceArray) -> DeviceArray:
        """Return ``R @ C`` for C of shape (rank, k)."""

    @abstractmethod
    def scores(self, P: DeviceArray) -> DeviceArray:
        """Return scores V of the items with ``R.T @ V = P``, as `Root.to_scores` does."""

    def coordinates_in_place(self, V: DeviceArray) -> DeviceArray:
        """Return ``R.T @ V`` in the memory of V, a block of columns at a time."""
        for start in range(0, V.shape[1], DEVICE_BLOCK):
            block = slice(start, start + DEVICE_BLOCK)
            V[: self.rank, block] = self.coordinates(V[:, block])
        return V[: self.rank]

    def reduce(self, K: DeviceArray) -> DeviceArray:
        """Return ``R.T @ K @ R`` for a symmetric K, in the memory of K."""
        n_items, rank = len(K), self.rank
        half = self.device.empty(rank, n_items)
        for start in range(0, n_items, DEVICE_BLOCK):
            block = slice(start, start + DEVICE_BLOCK)
            half[:, block] = self.coordinates(K[:, block])
        for start in range(0, rank, DEVICE_BLOCK):
            block = slice(start, min(start + DEVICE_BLOCK, rank))
            K[:rank, block] = self.coordinates(half[block].T)
        return K[:rank, :rank]


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

    def gram_on(self, Z: DeviceArray, device: Device) -> DeviceArray:
        """Return ``Z.T @ L @ Z`` for Z on a device; graphs without groups are applied here."""
        form = self.clique_form()
        if form is None:
            return device.array(self.gram(device.host(Z)))
        share = device.array(form.share)[:, None]
        means = device.segment_sums(Z * share, form.group, form.n_groups)
        H = Z - device.take(means, np.maximum(form.group, 0))
        H *= device.array(np.sqrt(form.edge_weight))[:, None]
        G = device.gram(H)
        return G if form.between is None else G + form.between.gram_on(means, device)

    def clique_form(self) -> "CliqueForm | None":
        """Return the groups of items whose means decide, None where there are no such groups."""
        return None

    def rank(self) -> int:
        """Return the rank of the Laplacian: active items minus components."""
        active = self.component[self.component >= 0]
        return len(active) - int(np.count_nonzero(np.bincount(active)))

    def anchor(self) -> IntArray:
        """Return, for each item, the first item of its component."""
        _, first, inverse = np.unique(self.component, return_index=True, return_inverse=True)
        return first[inverse]


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
    product = np.zeros((R.shape[1], Z.shape[1]))
    anchored_product(Z, R, anchor, product)
    return np.ascontiguousarray(product.T)
