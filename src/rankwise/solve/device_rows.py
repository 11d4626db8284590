"""Rows on a device, with the same products as rows here."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self, final

from numpy.typing import NDArray
from scipy import sparse

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.devices import Device, DeviceArray, KeptArrays
from rankwise.core.namespaces import take_rows
from rankwise.solve.rows import (
    GIVEN_ORDER,
    BlockLaplacian,
    ColumnOrder,
    GroupwiseMap,
    SparseRows,
    StoredRows,
)


class RowsOnDevice(StoredRows, ABC):
    """Rows on a device, in double precision; weights of features come from here and go back."""

    kept: KeptArrays

    @abstractmethod
    def forward(self, w: DeviceArray) -> DeviceArray:
        """Return ``Z @ w`` on the device."""

    @abstractmethod
    def backward(self, v: DeviceArray) -> DeviceArray:
        """Return ``Z.T @ v`` on the device."""

    def product(self, w: FloatArray) -> FloatArray:
        """Return ``Z @ w``."""
        device = self.kept.device
        return device.host(self.forward(device.array(w)))

    def transposed(self, v: FloatArray) -> FloatArray:
        """Return ``Z.T @ v``."""
        device = self.kept.device
        return device.host(self.backward(device.array(v)))

    def in_stored_order(self) -> "tuple[ColumnOrder, StoredRows]":
        """Return the rows themselves."""
        return GIVEN_ORDER, self

    def rounded(self) -> "StoredRows":
        """Return the rows themselves."""
        return self

    def products(self, W: FloatArray) -> FloatArray:
        """Return ``W @ Z.T``."""
        device = self.kept.device
        return device.host(self.forward(device.array(W).T)).T

    def transposed_products(self, V: FloatArray) -> FloatArray:
        """Return ``V @ Z``."""
        device = self.kept.device
        return device.host(self.backward(device.array(V).T)).T

    def groupwise_product(self, w: FloatArray, mapping: GroupwiseMap) -> FloatArray:
        """Return ``Z.T @ mapping(Z @ w)``; only w and the result travel."""
        return self._mapped(w, mapping)

    def block_product(self, w: FloatArray, laplacian: BlockLaplacian) -> FloatArray:
        """Return ``Z.T @ L @ Z @ w``; only w and the result travel."""
        return self._mapped(w, laplacian)

    def _mapped(self, w: FloatArray, between: GroupwiseMap | BlockLaplacian) -> FloatArray:
        device = self.kept.device
        there = between.on(self.forward(device.array(w)), self.kept)
        return device.host(self.backward(there))


@final
@dataclass(frozen=True, eq=False)
class DenseDeviceRows(RowsOnDevice):
    """Dense rows on a device, less the first of them."""

    Z: DeviceArray
    kept: KeptArrays

    @classmethod
    def of(cls, X: NDArray[Any], device: Device) -> Self:
        """Bring rows to the device."""
        there = device.array(X)
        return cls(there - there[:1], KeptArrays(device))

    @property
    def n_items(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return len(self.Z)

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return int(self.Z.shape[1])

    @property
    def n_stored(self) -> int:  # type: ignore[override]
        """Number of entries."""
        return self.n_items * self.n_features

    def take(self, items: IntArray) -> "DenseDeviceRows":
        """Return a copy of some of the rows, less the same offset."""
        device = self.kept.device
        return DenseDeviceRows(take_rows(self.Z, items), KeptArrays(device))

    def forward(self, w: DeviceArray) -> DeviceArray:
        """Return ``Z @ w`` on the device."""
        return self.Z @ w

    def backward(self, v: DeviceArray) -> DeviceArray:
        """Return ``Z.T @ v`` on the device."""
        return self.Z.T @ v

    def squares(self, weight: FloatArray) -> FloatArray:
        """Return the weighted sum of squares of each column of Z."""
        device = self.kept.device
        return device.host(device.array(weight) @ (self.Z * self.Z))

    def group_sums(self, group: IntArray, weight: FloatArray, n_groups: int) -> FloatArray:
        """Return the weighted sum of the rows of Z of each group."""
        device = self.kept.device
        return device.host(device.segment_sums(self.Z, device.array(weight), group, n_groups))

    def group_squares(self, group: IntArray, weight: FloatArray, factor: FloatArray) -> FloatArray:
        """Return the squares of `group_sums`, each times its factor, added up."""
        return factor @ self.group_sums(group, weight, len(factor)) ** 2


@final
@dataclass(frozen=True, eq=False)
class SparseDeviceRows(RowsOnDevice):
    """Sparse rows on a device, and their transpose beside them, so that both products read rows.

    Sums over the rows that are needed once are made here.
    """

    X: Any
    Z: DeviceArray
    across: DeviceArray
    kept: KeptArrays

    @classmethod
    def of(cls, X: Any, device: Device) -> Self:
        """Bring a CSR matrix to the device twice."""
        return cls(X, device.sparse(X), device.sparse(X.T.tocsr()), KeptArrays(device))

    @property
    def n_items(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return int(self.X.shape[1])

    @property
    def n_stored(self) -> int:  # type: ignore[override]
        """Number of stored entries."""
        return len(self.X.data)

    def take(self, items: IntArray) -> "SparseDeviceRows":
        """Return a copy of some of the rows."""
        return SparseDeviceRows.of(self.X[items], self.kept.device)

    def forward(self, w: DeviceArray) -> DeviceArray:
        """Return ``X @ w`` on the device."""
        return self.Z @ w

    def backward(self, v: DeviceArray) -> DeviceArray:
        """Return ``X.T @ v`` on the device."""
        return self.across @ v

    def squares(self, weight: FloatArray) -> FloatArray:
        """Return the weighted sum of squares of each column."""
        return SparseRows.of(self.X).squares(weight)

    def group_sums(self, group: IntArray, weight: FloatArray, n_groups: int) -> FloatArray:
        """Return the weighted sum of the rows of each group."""
        return SparseRows.of(self.X).group_sums(group, weight, n_groups)

    def group_squares(self, group: IntArray, weight: FloatArray, factor: FloatArray) -> FloatArray:
        """Return the squares of `group_sums`, each times its factor, added up."""
        return SparseRows.of(self.X).group_squares(group, weight, factor)


def rows_on(X: Matrix, device: Device) -> RowsOnDevice:
    """Return the rows of a CSR matrix or of a dense array on a device."""
    kind = SparseDeviceRows if sparse.issparse(X) else DenseDeviceRows
    return kind.of(X, device)
