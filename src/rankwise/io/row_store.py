"""Rows in binary on disk: written once, read back in any range without parsing."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import issparse

from rankwise.core.arrays import IntArray, Matrix


@final
@dataclass(eq=False)
class RowStore:
    """Keep rows, all sparse or all dense, in plain files of a folder.

    Values are of the given type; indices take 16 bits where that is enough. Nothing stays in
    memory.

    Parameters
    ----------
    folder : path
        An empty folder; whoever made it removes it.
    n_features : int
        Number of columns.
    dtype : data type
        Of the values.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from rankwise.io.row_store import RowStore
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = RowStore.create(folder, 2, np.float64)
    ...     store.append(np.array([[1.0, 2.0], [3.0, 4.0]]))
    ...     store.append(np.array([[5.0, 6.0]]))
    ...     store.read_dense(1, 3)
    array([[3., 4.],
           [5., 6.]])
    """

    folder: Path
    n_features: int
    dtype: np.dtype[Any]
    is_sparse: bool = False

    @classmethod
    def create(cls, folder: str | Path, n_features: int, dtype: DTypeLike) -> Self:
        """Begin an empty store."""
        return cls(Path(folder), n_features, np.dtype(dtype))

    @property
    def index_dtype(self) -> np.dtype[Any]:
        """Type of the indices of sparse rows."""
        return np.dtype(np.uint16 if self.n_features <= 1 << 16 else np.int32)

    def append(self, X: Matrix) -> None:
        """Write more rows."""
        self.is_sparse = issparse(X)
        if self.is_sparse:
            self._write("values", X.data.astype(self.dtype, copy=False))
            self._write("indices", X.indices.astype(self.index_dtype))
            self._write("lengths", np.diff(X.indptr).astype(np.int64))
        else:
            self._write("values", np.ascontiguousarray(X, dtype=self.dtype))
            self._write("lengths", np.full(len(X), self.n_features, dtype=np.int64))

    def _write(self, name: str, values: NDArray[Any]) -> None:
        with (self.folder / name).open("ab") as file:
            values.tofile(file)

    def starts(self) -> IntArray:
        """Return the number of values before each row, and of all."""
        lengths = np.fromfile(self.folder / "lengths", dtype=np.int64)
        return np.concatenate([[0], np.cumsum(lengths)])

    def read_dense(self, first: int, last: int) -> NDArray[Any]:
        """Read the dense rows first to last."""
        begin, end = first * self.n_features, last * self.n_features
        values = self._read("values", self.dtype, begin, end)
        return values.reshape(last - first, self.n_features)

    def read_sparse(
        self, first: int, last: int, starts: IntArray
    ) -> tuple[NDArray[Any], NDArray[Any], IntArray]:
        """Read values, indices and row pointers of the sparse rows first to last."""
        begin, end = int(starts[first]), int(starts[last])
        values = self._read("values", self.dtype, begin, end)
        indices = self._read("indices", self.index_dtype, begin, end)
        return values, indices, starts[first : last + 1] - begin

    def _read(self, name: str, dtype: np.dtype[Any], begin: int, end: int) -> NDArray[Any]:
        return np.fromfile(
            self.folder / name, dtype=dtype, count=end - begin, offset=begin * dtype.itemsize
        )
