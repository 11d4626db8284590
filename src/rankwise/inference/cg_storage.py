"""Rows in memory: sparse ones in compressed form, dense ones in blocks."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self, final

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.inference._cg_kernels import (
    add_group_rows,
    add_rows,
    add_squares,
    affine_pass,
    block_pass,
    row_products,
)
from rankwise.inference._cg_threads import even_parts, run_parts, sum_parts
from rankwise.inference.cg_columns import AS_THEY_ARE, Columns, most_used_first, pays
from rankwise.inference.cg_rows import Affine, Blocks, Rows

BLOCK_BYTES = 1 << 18
"""Dense rows are brought to float64 in blocks of this size, which stay in a core's cache."""


@final
@dataclass(frozen=True, eq=False)
class SparseRows(Rows):
    """Rows in compressed form (CSR); values of float64 or float32, indices of any width.

    The indices may name the columns in an order of their own.
    """

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: NDArray[Any]
    n_features: int
    columns: Columns = AS_THEY_ARE

    @classmethod
    def of(cls, X: Any, dtype: DTypeLike | None = None) -> Self:
        """Take the values of X as they are, or as ``dtype``, and rename columns where that pays.

        Indices of renamed columns are a copy of 16 bits each; float32 values and such indices take
        half the memory of X.
        """
        wanted, n_features = np.dtype(dtype or X.data.dtype), X.shape[1]
        if not pays(n_features, copied=X.data.dtype != wanted):
            return cls(X.data.astype(wanted, copy=False), X.indices, X.indptr, n_features)
        columns, values, indices = most_used_first(X, wanted)
        return cls(values, indices, X.indptr, n_features, columns)

    @property
    def n_items(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return len(self.indptr) - 1

    @property
    def n_stored(self) -> int:  # type: ignore[override]
        """Number of stored entries."""
        return len(self.data)

    @cached_property
    def _parts(self) -> IntArray:
        return even_parts(self.indptr)

    @property
    def _arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        return self.data, self.indices, self.indptr

    def product(self, w: FloatArray) -> FloatArray:
        """Return ``X @ w``."""
        out, inner = np.empty(self.n_items), self.columns.inwards(w)

        def task(_: int, first: int, last: int) -> None:
            row_products(*self._arrays, inner, first, last, out)

        run_parts(task, self._parts)
        return out

    def transposed(self, v: FloatArray) -> FloatArray:
        """Return ``X.T @ v``."""
        return self._sum(add_rows, v)

    def squares(self, weight: FloatArray) -> FloatArray:
        """Return the weighted sum of squares of each column."""
        return self._sum(add_squares, weight)

    def affine(self, w: FloatArray, values: Affine) -> FloatArray:
        """Return ``X.T @ values(X @ w)``; every thread has w beside the sum it adds to."""
        items = (values.group, values.slope, values.weight, values.centre, values.push)
        both = np.zeros((len(self._parts) - 1, self.n_features, 2))
        both[:, :, 0] = self.columns.inwards(w)

        def task(part: int, first: int, last: int) -> None:
            affine_pass(*self._arrays, *items, first, last, both[part].ravel())

        run_parts(task, self._parts)
        return self.columns.outwards(both[:, :, 1].sum(axis=0))

    def blocks(self, w: FloatArray, laplacian: Blocks) -> FloatArray:
        """Return ``X.T @ L @ X @ w``; threads take whole blocks."""
        b = laplacian
        items = (b.starts, b.first_group, b.group, b.slope, b.share, b.across, b.across_share)
        parts = even_parts(self.indptr[b.starts])
        return self._sum(block_pass, self.columns.inwards(w), *items, b.room, parts=parts)

    def group_sums(self, group: IntArray, weight: FloatArray, n_groups: int) -> FloatArray:
        """Return the weighted sum of the rows of each group."""
        out = np.zeros((n_groups, self.n_features))
        add_group_rows(*self._arrays, group, weight, out)
        return self.columns.outwards(out)

    def _sum(self, kernel: Any, *arguments: Any, parts: IntArray | None = None) -> FloatArray:
        def task(first: int, last: int, out: FloatArray) -> None:
            kernel(*self._arrays, *arguments, first, last, out)

        edges = self._parts if parts is None else parts
        return self.columns.outwards(sum_parts(task, edges, self.n_features))


@final
@dataclass(frozen=True, eq=False)
class DenseRows(Rows):
    """Rows of a dense array of float64 or float32, less an offset that is taken off in the cache.

    Without the offset the digits of small differences between rows would be lost in the products.
    """

    X: NDArray[Any]
    offset: FloatArray

    @classmethod
    def of(cls, X: NDArray[Any], dtype: DTypeLike | None = None) -> Self:
        """Take the array as it is, unless another ``dtype`` is wanted, less its first row."""
        values = X if dtype is None else X.astype(dtype, copy=False)
        return cls(values, values[0].astype(np.float64))

    @property
    def n_items(self) -> int:  # type: ignore[override]
        """Number of rows."""
        return len(self.X)

    @property
    def n_features(self) -> int:  # type: ignore[override]
        """Number of columns."""
        return self.X.shape[1]

    @property
    def n_stored(self) -> int:  # type: ignore[override]
        """Number of entries."""
        return self.X.size

    @cached_property
    def _parts(self) -> IntArray:
        return even_parts(self.n_features * np.arange(self.n_items + 1))

    def _blocks(self, first: int, last: int) -> Iterator[tuple[slice, FloatArray]]:
        """Yield the rows first to last in blocks of float64 without the offset."""
        n_rows = max(1, BLOCK_BYTES // (8 * self.n_features))
        room = np.empty((n_rows, self.n_features))
        for begin in range(first, last, n_rows):
            rows = slice(begin, min(begin + n_rows, last))
            block = room[: rows.stop - begin]
            yield rows, np.subtract(self.X[rows], self.offset, out=block)

    def product(self, w: FloatArray) -> FloatArray:
        """Return ``(X - offset) @ w``."""
        out = np.empty(self.n_items)

        def task(_: int, first: int, last: int) -> None:
            for rows, Z in self._blocks(first, last):
                out[rows] = Z @ w

        run_parts(task, self._parts)
        return out

    def transposed(self, v: FloatArray) -> FloatArray:
        """Return ``(X - offset).T @ v``."""

        def task(first: int, last: int, out: FloatArray) -> None:
            for rows, Z in self._blocks(first, last):
                out += v[rows] @ Z

        return sum_parts(task, self._parts, self.n_features)

    def squares(self, weight: FloatArray) -> FloatArray:
        """Return the weighted sum of squares of each column of ``X - offset``."""

        def task(first: int, last: int, out: FloatArray) -> None:
            for rows, Z in self._blocks(first, last):
                out += weight[rows] @ (Z * Z)

        return sum_parts(task, self._parts, self.n_features)

    def affine(self, w: FloatArray, values: Affine) -> FloatArray:
        """Return ``Z.T @ values(Z @ w)`` for ``Z = X - offset``."""

        def task(first: int, last: int, out: FloatArray) -> None:
            for rows, Z in self._blocks(first, last):
                out += values.take(rows)(Z @ w) @ Z

        return sum_parts(task, self._parts, self.n_features)

    def blocks(self, w: FloatArray, laplacian: Blocks) -> FloatArray:
        """Return ``X.T @ L @ X @ w`` in two passes, which dense rows take at full speed."""
        return self.transposed(laplacian(self.product(w)))

    def group_sums(self, group: IntArray, weight: FloatArray, n_groups: int) -> FloatArray:
        """Return the weighted sum of the rows of ``X - offset`` of each group."""
        out = np.zeros((n_groups, self.n_features))
        share = np.where(group >= 0, weight, 0.0)
        for rows, Z in self._blocks(0, self.n_items):
            n_rows = len(Z)
            entries = (share[rows], np.maximum(group[rows], 0), np.arange(n_rows + 1))
            out += sparse.csr_array(entries, shape=(n_rows, n_groups)).T @ Z
        return out


def as_rows(X: Matrix, dtype: DTypeLike | None = None) -> Rows:
    """Return the rows of a CSR matrix or of a dense array, stored as they are or as ``dtype``."""
    return SparseRows.of(X, dtype) if sparse.issparse(X) else DenseRows.of(X, dtype)
