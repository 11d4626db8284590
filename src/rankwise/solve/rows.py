"""Rows of features as conjugate gradients need them: products with them in few passes."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.errors import InvalidInputError
from rankwise.core.threads import equal_parts, even_parts, run_parts, sum_parts
from rankwise.graph.laplacian import GraphLaplacian
from rankwise.native.rows import (
    add_group_rows,
    add_group_squares,
    add_rows,
    add_rows_of_many,
    add_squares,
    block_pass,
    copy_rows,
    count_columns,
    groupwise_pass,
    pack_rows,
    renumber_columns,
    row_products,
    row_products_of_few,
)

CACHED_COLUMNS = 1 << 11
"""Columns whose weights and sums stay in the nearest cache in any order."""

WIDTH = 8
"""Vectors that rows are multiplied with at a time: as many doubles as a cache line holds."""

SHORT_INDICES = 1 << 16
"""Columns that indices of 16 bits can number."""

ROUNDED = 1e-8
"""Share of its sum of squares below which a feature is taken not to vary inside queries."""


@final
@dataclass(frozen=True, eq=False)
class ColumnOrder:
    """The order in which the columns of some rows are stored.

    Parameters
    ----------
    order : (n_features,), optional
        The column that stands at each place; left out when columns stand as they came.
    """

    order: IntArray | None = None

    def to_stored(self, w: FloatArray) -> FloatArray:
        """Bring one entry per column into the stored order."""
        return w if self.order is None else w[self.order]

    def to_given(self, values: FloatArray) -> FloatArray:
        """Bring entries in the stored order, the last axis, back into that of the columns."""
        if self.order is None:
            return values
        out = np.empty_like(values)
        out[..., self.order] = values
        return out

    def rows_to_stored(self, W: FloatArray, width: int) -> FloatArray:
        """Bring vectors, rows of W, into the stored order, as columns; zeros fill up the width."""
        out = np.zeros((W.shape[1], width))
        out[:, : len(W)] = W.T if self.order is None else W.T[self.order]
        return out

    def rows_to_given(self, values: FloatArray) -> FloatArray:
        """Bring columns in the stored order back into that of the columns, as rows."""
        if self.order is None:
            return np.ascontiguousarray(values.T)
        out = np.empty(values.shape[::-1])
        out[:, self.order] = values.T
        return out


GIVEN_ORDER = ColumnOrder()


def reordering_is_faster(n_features: int, n_cached: int, *, copied: bool) -> bool:
    """Return whether a copy of the indices of a sparse matrix makes passes over it faster.

    It takes 2 bytes for each entry. Frequent columns then share cache lines, and fewer bytes are
    read: passes take a tenth to a fifth less time, and making the copy takes that of about one.
    Where values are copied to be smaller, so are the indices of few columns.
    """
    return n_features <= SHORT_INDICES and (copied or n_features > n_cached)


def most_used_first(
    X: Any, dtype: np.dtype[Any], n_cached: int
) -> tuple[ColumnOrder, NDArray[Any], NDArray[Any]]:
    """Sort the columns of a CSR matrix by how often they are used.

    Return their order, the values and the indices. Values that are rounded are copied, and since
    the copy is free to choose, entries of the most frequent columns come first in each row.
    """
    starts, columns = X.indptr.astype(np.int64, copy=False), X.indices.astype(np.int32, copy=False)
    edges = even_parts(starts)
    # how often each column is used
    counts = sum_parts(
        lambda first, last, out: count_columns(columns, first, last, out), starts[edges], X.shape[1]
    )
    order = np.argsort(-counts, kind="stable")
    # the new number of each column
    number = np.empty(len(order), dtype=np.uint16)
    number[order] = np.arange(len(order))
    indices = np.empty(len(columns), dtype=np.uint16)
    # values that are copied anyway are packed, those of frequent columns first
    if X.data.dtype == np.float64 and dtype == np.float32:
        values = np.empty(len(X.data), dtype=dtype)
        run_parts(
            lambda _, first, last: pack_rows(
                X.data, columns, starts, number, n_cached, first, last, values, indices
            ),
            edges,
        )
        return ColumnOrder(order), values, indices
    run_parts(
        lambda _, first, last: renumber_columns(columns, number, first, last, indices),
        starts[edges],
    )
    return ColumnOrder(order), X.data.astype(dtype, copy=False), indices


@final
@dataclass(frozen=True, eq=False)
class GroupwiseMap:
    """Map products p of rows to ``slope (p - centre) + weight pull``, by the group of the row.

    Rows of group -1 are mapped to 0. ``centre`` and ``pull`` have one entry per group.
    """

    group: IntArray
    slope: FloatArray
    weight: FloatArray
    centre: FloatArray
    pull: FloatArray

    def take(self, rows: slice) -> "GroupwiseMap":
        """Keep some rows."""
        items = (self.group[rows], self.slope[rows], self.weight[rows])
        return GroupwiseMap(*items, self.centre, self.pull)

    def __call__(self, p: FloatArray) -> FloatArray:
        """Map the products of all rows."""
        g = self.group
        mapped = self.slope * (p - self.centre[g]) + self.weight * self.pull[g]
        return np.where(g >= 0, mapped, 0.0)


@final
@dataclass(frozen=True, eq=False)
class BlockLaplacian:
    """A Laplacian that falls into blocks of neighbouring rows: queries that stand together.

    Block b has the rows from ``starts[b]`` and the groups from ``first_group[b]`` on, up to those
    of the next one. See `block_pass` for the rest.
    """

    starts: IntArray
    first_group: IntArray
    group: IntArray
    slope: FloatArray
    share: FloatArray
    between_slope: FloatArray
    between_share: FloatArray

    @cached_property
    def max_sizes(self) -> tuple[int, int]:
        """Largest number of rows and of groups of a block."""
        return int(np.diff(self.starts).max()), int(np.diff(self.first_group).max())

    @property
    def _n_groups(self) -> int:
        return int(self.first_group[-1] - self.first_group[0])

    @cached_property
    def _local(self) -> IntArray:
        """The group of each row from 0 on, one past the last for rows of none."""
        return np.where(self.group >= 0, self.group - self.first_group[0], self._n_groups)

    @cached_property
    def _block(self) -> IntArray:
        """The block of each group."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.first_group))

    @cached_property
    def _between(self) -> tuple[FloatArray, FloatArray]:
        own = slice(self.first_group[0], self.first_group[-1])
        return self.between_slope[own], self.between_share[own]

    def __call__(self, p: FloatArray) -> FloatArray:
        """Return ``L @ p``."""
        local, block, (slope, share) = self._local, self._block, self._between
        means = np.bincount(local, self.share * p, self._n_groups + 1)
        block_means = np.bincount(block, share * means[:-1], len(self.starts) - 1)
        pull = np.append(slope * (means[:-1] - block_means[block]), 0.0)
        v = self.slope * (p - means[local]) + self.share * pull[local]
        return np.where(self.group >= 0, v, 0.0)

    @property
    def groups(self) -> tuple[IntArray, FloatArray]:
        """The group of each row, -1 for none, and what the square of its mean takes off."""
        n_groups, slope = self._n_groups, self._between[0]
        total = np.bincount(self._local, self.slope, n_groups + 1)[:-1]
        return np.where(self.group >= 0, self._local, -1), total - slope

    @property
    def blocks(self) -> tuple[IntArray, FloatArray, FloatArray]:
        """The block of each row, -1 for none; its share in the mean; what that one takes off."""
        local, block, (slope, share) = self._local, self._block, self._between
        of_row = np.append(block, -1)[local]
        total = np.bincount(block, np.where(share > 0, slope, 0.0), len(self.starts) - 1)
        of_mean = self.share * np.append(share, 0.0)[local]
        return of_row, of_mean, total.astype(np.float64, copy=False)

    def take(self, rows: slice) -> "BlockLaplacian":
        """Keep the blocks of some rows, which must hold whole blocks."""
        first, last = np.searchsorted(self.starts, [rows.start, rows.stop])
        return BlockLaplacian(
            self.starts[first : last + 1] - rows.start,
            self.first_group[first : last + 1],
            self.group[rows],
            self.slope[rows],
            self.share[rows],
            self.between_slope,
            self.between_share,
        )


def what_is_left(squares: FloatArray, common: FloatArray) -> FloatArray:
    """Return squares less what rows have in common; a very small share is rounding errors."""
    left = squares - common
    return np.where(left > ROUNDED * squares, left, 0.0)


class ScorableRows(ABC):
    """The rows of a matrix X that are given scores, wherever they are."""

    n_items: int

    @abstractmethod
    def product(self, w: FloatArray) -> FloatArray:
        """Return ``X @ w``; offsets common to all rows may be taken out."""


class ItemRows(ScorableRows, ABC):
    """The rows of a matrix X. Offsets common to all rows may be taken out: no graph sees them."""

    n_features: int
    n_stored: int
    """Number of stored entries."""
    one_pass_pays: ClassVar[bool] = True
    """Whether to avoid a second pass over the rows."""

    @abstractmethod
    def passes(self, laplacian: GraphLaplacian) -> Callable[[FloatArray], FloatArray]:
        """Return ``w -> X.T @ L @ X @ w`` in two passes, for any graph."""

    @abstractmethod
    def transposed(self, v: FloatArray) -> FloatArray:
        """Return ``X.T @ v`` for v that sums to zero."""

    @abstractmethod
    def squares(self, weight: FloatArray) -> FloatArray:
        """Return the weighted sum of squares of each column."""

    @abstractmethod
    def groupwise_product(self, w: FloatArray, mapping: GroupwiseMap) -> FloatArray:
        """Return ``X.T @ mapping(X @ w)`` in one pass."""

    @abstractmethod
    def block_product(self, w: FloatArray, laplacian: BlockLaplacian) -> FloatArray:
        """Return ``X.T @ L @ X @ w``, visiting each block once."""

    @abstractmethod
    def group_sums(self, group: IntArray, weight: FloatArray, n_groups: int) -> FloatArray:
        """Return the weighted sum of the rows of each group, those of group -1 left out."""

    @abstractmethod
    def block_diagonal(self, laplacian: BlockLaplacian) -> FloatArray:
        """Return the diagonal of ``X.T @ L @ X``, visiting each block once."""


def two_passes(rows: ItemRows, laplacian: GraphLaplacian) -> Callable[[FloatArray], FloatArray]:
    """Return ``w -> X.T @ L @ X @ w``: products, the Laplacian on them, and back."""
    return lambda w: rows.transposed(laplacian @ rows.product(w))


class StoredRows(ItemRows, ABC):
    """Rows in memory, of which some can be taken, and which can be multiplied with matrices."""

    @abstractmethod
    def take(self, items: IntArray) -> "StoredRows":
        """Return a copy of some of the rows."""

    @abstractmethod
    def group_squares(self, group: IntArray, weight: FloatArray, factor: FloatArray) -> FloatArray:
        """Return the squares of `group_sums`, each times the factor of its group, added up."""

    def block_diagonal(self, laplacian: BlockLaplacian) -> FloatArray:
        """Return the diagonal of ``X.T @ L @ X`` from squares of rows and of their means."""
        b = laplacian
        squares = self.squares(np.where(b.group >= 0, b.slope, 0.0))
        group, factor = b.groups  # eq. cg-diagonal
        common = self.group_squares(group, b.share, factor)
        if b.between_slope.any():
            common += self.group_squares(*b.blocks)
        return what_is_left(squares, common)

    @abstractmethod
    def rounded(self) -> "StoredRows":
        """Return the rows with values of fewer digits if that makes products faster."""

    @abstractmethod
    def products(self, W: FloatArray) -> FloatArray:
        """Return ``W @ X.T``, (k, n_items), for vectors W of shape (k, n_features), in one pass."""

    @abstractmethod
    def transposed_products(self, V: FloatArray) -> FloatArray:
        """Return ``V @ X``, (k, n_features), for V (k, n_items) whose rows sum to zero."""

    @abstractmethod
    def in_stored_order(self) -> "tuple[ColumnOrder, StoredRows]":
        """Return the order of the columns, and the rows with columns numbered by it: no copy."""


BLOCK_BYTES = 1 << 18
"""Dense rows are brought to float64 in blocks of this size, which stay in a core's cache."""


def _bytes(entries: NDArray[Any]) -> NDArray[np.uint8]:
    """Look at entries as their bytes, (n_entries, n_bytes)."""
    return entries.view(np.uint8).reshape(len(entries), entries.itemsize)


@final
@dataclass(frozen=True, eq=False)
class SparseRows(StoredRows):
    """Rows in compressed form (CSR): float64 or float32 values, indices of 16 or 32 bits.

    The indices may number the columns in an order of their own.
    """

    data: NDArray[Any]
    indices: NDArray[Any]
    indptr: IntArray
    n_features: int
    columns: ColumnOrder = GIVEN_ORDER

    @classmethod
    def of(cls, X: Any, dtype: DTypeLike | None = None, n_cached: int = CACHED_COLUMNS) -> Self:
        """Take the values of X as they are, or as ``dtype``; reorder columns where it is faster.

        Indices of reordered columns are a copy of 16 bits each; float32 values and such indices
        take half the memory of X. With up to ``n_cached`` columns their order does not matter.
        """
        wanted, n_features = np.dtype(dtype or X.data.dtype), X.shape[1]
        starts = X.indptr.astype(np.int64, copy=False)
        if not reordering_is_faster(n_features, n_cached, copied=X.data.dtype != wanted):
            if n_features > np.iinfo(np.int32).max:
                raise InvalidInputError(
                    f"Sparse rows must have at most 2^31 - 1 features: got {n_features}. Hash or "
                    "leave out features."
                )
            indices = X.indices.astype(np.int32, copy=False)
            return cls(X.data.astype(wanted, copy=False), indices, starts, n_features)
        columns, values, indices = most_used_first(X, wanted, n_cached)
        return cls(values, indices, starts, n_features, columns)

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
    def _arrays(self) -> tuple[NDArray[Any], NDArray[Any], IntArray]:
        return self.data, self.indices, self.indptr

    def take(self, items: IntArray) -> "SparseRows":
        """Return a copy of some of the rows."""
        starts = np.zeros(len(items) + 1, dtype=np.int64)
        np.cumsum(self.indptr[items + 1] - self.indptr[items], out=starts[1:])
        data, indices = (np.empty(starts[-1], dtype=a.dtype) for a in (self.data, self.indices))

        def task(_: int, first: int, last: int) -> None:
            for given, taken in ((self.data, data), (self.indices, indices)):
                copy_rows(_bytes(given), self.indptr, items, starts, first, last, _bytes(taken))

        run_parts(task, even_parts(starts))
        return SparseRows(data, indices, starts, self.n_features, self.columns)

    def rounded(self) -> "SparseRows":
        """Return values of float32 beside the same indices, unless one is too large for that."""
        with np.errstate(over="ignore"):
            values = self.data.astype(np.float32, copy=False)
        if not np.isfinite(values).all():
            return self
        return SparseRows(values, self.indices, self.indptr, self.n_features, self.columns)

    def in_stored_order(self) -> "tuple[ColumnOrder, SparseRows]":
        """Leave columns where they are stored, which saves sorting the entries of each product."""
        return self.columns, SparseRows(*self._arrays, self.n_features)

    def product(self, w: FloatArray) -> FloatArray:
        """Return ``X @ w``."""
        out, inner = np.empty(self.n_items), self.columns.to_stored(w)

        def task(_: int, first: int, last: int) -> None:
            row_products(*self._arrays, inner, first, last, out)

        run_parts(task, self._parts)
        return out

    def transposed(self, v: FloatArray) -> FloatArray:
        """Return ``X.T @ v``."""
        return self._sum(add_rows, v)

    def passes(self, laplacian: GraphLaplacian) -> Callable[[FloatArray], FloatArray]:
        """Return ``w -> X.T @ L @ X @ w``."""
        return two_passes(self, laplacian)

    def products(self, W: FloatArray) -> FloatArray:
        """Return ``W @ X.T``."""
        out = np.empty((len(W), self.n_items))
        for start in range(0, len(W), WIDTH):
            some = W[start : start + WIDTH]
            out[start : start + WIDTH] = self._few_products(some).T[: len(some)]
        return out

    def _few_products(self, W: FloatArray) -> FloatArray:
        """Return the products with up to `WIDTH` vectors, filled up to four or eight columns."""
        width = WIDTH // 2 if len(W) <= WIDTH // 2 else WIDTH
        inner, out = self.columns.rows_to_stored(W, width), np.empty((self.n_items, width))

        def task(_: int, first: int, last: int) -> None:
            row_products_of_few(*self._arrays, inner, first, last, out)

        run_parts(task, self._parts)
        return out

    def transposed_products(self, V: FloatArray) -> FloatArray:
        """Return ``V @ X``."""
        shape = (self.n_features, len(V))
        given = np.ascontiguousarray(V.T)

        def task(first: int, last: int, out: FloatArray) -> None:
            add_rows_of_many(*self._arrays, given, first, last, out.reshape(shape))

        total = sum_parts(task, self._parts, shape[0] * shape[1]).reshape(shape)
        return self.columns.rows_to_given(total)

    def squares(self, weight: FloatArray) -> FloatArray:
        """Return the weighted sum of squares of each column."""
        return self._sum(add_squares, weight)

    def groupwise_product(self, w: FloatArray, mapping: GroupwiseMap) -> FloatArray:
        """Return ``X.T @ mapping(X @ w)``; every thread has w beside the sum it adds to."""
        m, both = mapping, np.zeros((len(self._parts) - 1, self.n_features, 2))
        both[:, :, 0] = self.columns.to_stored(w)

        def task(part: int, first: int, last: int) -> None:
            rows, out = self._arrays, both[part].ravel()
            groupwise_pass(*rows, m.group, m.slope, m.weight, m.centre, m.pull, first, last, out)

        run_parts(task, self._parts)
        return self.columns.to_given(both[:, :, 1].sum(axis=0))

    def block_product(self, w: FloatArray, laplacian: BlockLaplacian) -> FloatArray:
        """Return ``X.T @ L @ X @ w``; threads take whole blocks."""
        b = laplacian
        items = (
            b.starts,
            b.first_group,
            b.group,
            b.slope,
            b.share,
            b.between_slope,
            b.between_share,
        )
        parts = even_parts(self.indptr[b.starts])
        return self._sum(block_pass, self.columns.to_stored(w), *items, parts=parts)

    def group_sums(self, group: IntArray, weight: FloatArray, n_groups: int) -> FloatArray:
        """Return the weighted sum of the rows of each group."""
        out = np.zeros((n_groups, self.n_features))
        add_group_rows(*self._arrays, group, weight, out)
        return self.columns.to_given(out)

    def group_squares(self, group: IntArray, weight: FloatArray, factor: FloatArray) -> FloatArray:
        """Return the squares of `group_sums`, each times its factor, added up."""
        items, starts = _by_group(group, len(factor))
        work = np.diff(self.indptr)[items]
        parts = even_parts(np.concatenate([[0], np.cumsum(work)])[starts])
        return self._sum(add_group_squares, items, starts, weight, factor, parts=parts)

    def _sum(self, kernel: Any, *arguments: Any, parts: IntArray | None = None) -> FloatArray:
        def task(first: int, last: int, out: FloatArray) -> None:
            kernel(*self._arrays, *arguments, first, last, out)

        edges = self._parts if parts is None else parts
        return self.columns.to_given(sum_parts(task, edges, self.n_features))


@final
@dataclass(frozen=True, eq=False)
class DenseRows(StoredRows):
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
        return equal_parts(self.n_items, self.n_features)

    def _blocks(self, first: int, last: int) -> Iterator[tuple[slice, FloatArray]]:
        """Yield the rows first to last in blocks of float64 without the offset."""
        n_rows = max(1, BLOCK_BYTES // (8 * max(1, self.n_features)))
        buffer = np.empty((n_rows, self.n_features))
        for begin in range(first, last, n_rows):
            rows = slice(begin, min(begin + n_rows, last))
            block = buffer[: rows.stop - begin]
            yield rows, np.subtract(self.X[rows], self.offset, out=block)

    def take(self, items: IntArray) -> "DenseRows":
        """Return a copy of some of the rows, less the same offset."""
        return DenseRows(self.X[items], self.offset)

    def rounded(self) -> "DenseRows":
        """Return the rows themselves, which are brought to float64 for products anyway."""
        return self

    def in_stored_order(self) -> "tuple[ColumnOrder, DenseRows]":
        """Return the rows themselves."""
        return GIVEN_ORDER, self

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

    def passes(self, laplacian: GraphLaplacian) -> Callable[[FloatArray], FloatArray]:
        """Return ``w -> X.T @ L @ X @ w``."""
        return two_passes(self, laplacian)

    def products(self, W: FloatArray) -> FloatArray:
        """Return ``W @ (X - offset).T``."""
        out = np.empty((len(W), self.n_items))

        def task(_: int, first: int, last: int) -> None:
            for rows, Z in self._blocks(first, last):
                out[:, rows] = W @ Z.T

        run_parts(task, self._parts)
        return out

    def transposed_products(self, V: FloatArray) -> FloatArray:
        """Return ``V @ (X - offset)``."""
        shape = (len(V), self.n_features)

        def task(first: int, last: int, out: FloatArray) -> None:
            total = out.reshape(shape)
            for rows, Z in self._blocks(first, last):
                total += V[:, rows] @ Z

        return sum_parts(task, self._parts, shape[0] * shape[1]).reshape(shape)

    def squares(self, weight: FloatArray) -> FloatArray:
        """Return the weighted sum of squares of each column of ``X - offset``."""

        def task(first: int, last: int, out: FloatArray) -> None:
            for rows, Z in self._blocks(first, last):
                out += weight[rows] @ (Z * Z)

        return sum_parts(task, self._parts, self.n_features)

    def groupwise_product(self, w: FloatArray, mapping: GroupwiseMap) -> FloatArray:
        """Return ``Z.T @ mapping(Z @ w)`` for ``Z = X - offset``."""

        def task(first: int, last: int, out: FloatArray) -> None:
            for rows, Z in self._blocks(first, last):
                out += mapping.take(rows)(Z @ w) @ Z

        return sum_parts(task, self._parts, self.n_features)

    def block_product(self, w: FloatArray, laplacian: BlockLaplacian) -> FloatArray:
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

    def group_squares(self, group: IntArray, weight: FloatArray, factor: FloatArray) -> FloatArray:
        """Return the squares of `group_sums`, each times its factor, added up."""
        items, starts = _by_group(group, len(factor))
        out = np.zeros(self.n_features)
        n_rows = max(1, BLOCK_BYTES // (8 * max(1, self.n_features)))
        cuts = np.unique(np.searchsorted(starts, np.arange(0, len(items), n_rows)))
        for first, last in pairwise([*cuts.tolist(), len(factor)]):
            some = items[starts[first] : starts[last]]
            Z = self.X[some] - self.offset
            entries = (weight[some], np.arange(len(some)), starts[first : last + 1] - starts[first])
            sums = sparse.csr_array(entries, shape=(last - first, len(some))) @ Z
            out += factor[first:last] @ (sums * sums)
        return out


def _by_group(group: IntArray, n_groups: int) -> tuple[IntArray, IntArray]:
    """Return the rows of group 0, then those of group 1 and so on, and where each begins."""
    members = np.flatnonzero(group >= 0)
    order = np.argsort(group[members], kind="stable")
    counts = np.bincount(group[members], minlength=n_groups)
    return members[order], np.concatenate([[0], np.cumsum(counts)])


def as_rows(X: Matrix, dtype: DTypeLike | None = None) -> StoredRows:
    """Return the rows of a CSR matrix or of a dense array, stored as they are or as ``dtype``."""
    return SparseRows.of(X, dtype) if sparse.issparse(X) else DenseRows.of(X, dtype)
