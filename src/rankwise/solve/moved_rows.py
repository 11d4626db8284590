"""Rows of another namespace than NumPy's, with the same products as rows on the host."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.namespaces import (
    Array,
    is_on_host,
    like,
    namespace_of,
    segment_sums,
    take_rows,
    to_host,
)
from rankwise.graph.laplacian import GraphLaplacian
from rankwise.solve.rows import (
    GIVEN_ORDER,
    BlockLaplacian,
    ColumnOrder,
    GroupwiseMap,
    SparseRows,
    StoredRows,
    as_rows,
)


@final
@dataclass(frozen=True, eq=False)
class MovedRows(StoredRows):
    """Rows where another array is, in double precision; weights come from the host and go back.

    Sparse rows have their transpose beside them, so that both products read rows. What is needed of
    them only once is found on the host.

    Parameters
    ----------
    X : (n_items, n_features)
        The rows on the host.
    Z, across : (n_items, n_features), (n_features, n_items)
        The same rows, dense ones less the first of them, and their transpose.
    """

    X: Matrix
    Z: Array
    across: Array
    one_pass_pays: ClassVar[bool] = False

    @classmethod
    def of(cls, X: Matrix, where: Array) -> Self:
        """Move a CSR matrix or a dense array to where another array is."""
        if sparse.issparse(X):
            return cls(X, *_sparse_like(X, where))
        Z = like(X, where)
        Z = Z - Z[:1, :]
        return cls(X, Z, Z.T)

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
        return int(self.X.size)

    def take(self, items: IntArray) -> "MovedRows":
        """Return a copy of some of the rows, less the same offset."""
        if sparse.issparse(self.X):
            return MovedRows.of(self.X[items], self.Z)
        Z = take_rows(self.Z, items)
        return MovedRows(self.X[items], Z, Z.T)

    def product(self, w: FloatArray) -> FloatArray:
        """Return ``Z @ w``."""
        return to_host(self.Z @ like(w, self.Z))

    def transposed(self, v: FloatArray) -> FloatArray:
        """Return ``Z.T @ v``."""
        return to_host(self.across @ like(v, self.Z))

    def products(self, W: FloatArray) -> FloatArray:
        """Return ``W @ Z.T``."""
        return self.product(W.T).T

    def transposed_products(self, V: FloatArray) -> FloatArray:
        """Return ``V @ Z``."""
        return self.transposed(V.T).T

    def passes(self, laplacian: GraphLaplacian) -> Callable[[FloatArray], FloatArray]:
        """Return ``w -> Z.T @ L @ Z @ w``; only w and the result travel."""
        apply = laplacian.operator_like(self.across)
        return lambda w: to_host(self.across @ apply(self.Z @ like(w[:, None], self.Z)))[:, 0]

    def groupwise_product(self, w: FloatArray, mapping: GroupwiseMap) -> FloatArray:
        """Return ``Z.T @ mapping(Z @ w)``."""
        return self.transposed(mapping(self.product(w)))

    def block_product(self, w: FloatArray, laplacian: BlockLaplacian) -> FloatArray:
        """Return ``Z.T @ L @ Z @ w``."""
        return self.transposed(laplacian(self.product(w)))

    def squares(self, weight: FloatArray) -> FloatArray:
        """Return the weighted sum of squares of each column of Z."""
        if sparse.issparse(self.X):
            return SparseRows.of(self.X).squares(weight)
        return to_host(like(weight, self.Z) @ (self.Z * self.Z))

    def group_sums(self, group: IntArray, weight: FloatArray, n_groups: int) -> FloatArray:
        """Return the weighted sum of the rows of Z of each group."""
        if sparse.issparse(self.X):
            return SparseRows.of(self.X).group_sums(group, weight, n_groups)
        share, index = np.where(group >= 0, weight, 0.0)[:, None], np.maximum(group, 0)
        sums = segment_sums(self.Z, like(index, self.Z), n_groups, like(share, self.Z))
        return to_host(sums)

    def group_squares(self, group: IntArray, weight: FloatArray, factor: FloatArray) -> FloatArray:
        """Return the squares of `group_sums`, each times its factor, added up."""
        if sparse.issparse(self.X):
            return SparseRows.of(self.X).group_squares(group, weight, factor)
        return factor @ self.group_sums(group, weight, len(factor)) ** 2

    def in_stored_order(self) -> tuple[ColumnOrder, StoredRows]:
        """Return the rows themselves."""
        return GIVEN_ORDER, self

    def rounded(self) -> StoredRows:
        """Return the rows themselves."""
        return self


def _sparse_like(X: Any, where: Array) -> tuple[Array, Array]:
    """Bring a CSR matrix to where a tensor is, and transpose it there: both can be multiplied."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    torch = namespace_of(where)
    parts = (X.indptr, X.indices, X.data.astype(np.float64, copy=False))
    moved = [like(part, where) for part in parts]
    with warnings.catch_warnings(), torch.sparse.check_sparse_tensor_invariants(enable=True):
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        warnings.filterwarnings("ignore", message="Sparse CSC tensor support is in beta")
        Z = torch.sparse_csr_tensor(*moved, size=X.shape)
        # the columns of Z, one after another, are the rows of its transpose
        columns = Z.to_sparse_csc()
        parts = (columns.ccol_indices(), columns.row_indices(), columns.values())
        return Z, torch.sparse_csr_tensor(*parts, size=X.shape[::-1])


def rows_like(X: Matrix, where: Array, dtype: DTypeLike | None = None) -> StoredRows:
    """Return rows to be multiplied where another array is; on the host stored as ``dtype``."""
    return as_rows(X, dtype) if is_on_host(where) else MovedRows.of(X, where)
