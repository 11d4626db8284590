"""Dense linear algebra on a device other than the CPU: the few expensive operations."""

import sys
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import IntArray
from rankwise.core.errors import InvalidInputError, MissingExtraError
from rankwise.core.namespaces import (
    LEAF,
    Array,
    is_on_host,
    like,
    memory_of_host,
    namespace_of,
    row_blocks,
)

DeviceArray: TypeAlias = Any
"""An array of double precision on a device; it understands ``+ - * / @ .T`` and slices."""


class Device(ABC):
    """The operations; all of them take and return arrays of the device."""

    @abstractmethod
    def array(self, values: NDArray[Any]) -> DeviceArray:
        """Bring an array to the device, floating point numbers in double precision."""

    @abstractmethod
    def host(self, values: DeviceArray) -> NDArray[Any]:
        """Bring an array back."""

    @abstractmethod
    def empty(self, n_rows: int, n_columns: int) -> DeviceArray:
        """Return a matrix to be filled."""

    @abstractmethod
    def memory(self) -> int:
        """Return the bytes of memory of the device."""

    @abstractmethod
    def segment_sums(
        self, values: DeviceArray, weight: DeviceArray, index: IntArray, length: int
    ) -> DeviceArray:
        """Sum the weighted rows that share an index; rows of index -1 are left out."""

    @abstractmethod
    def subtract_rows(self, values: DeviceArray, rows: DeviceArray, index: IntArray) -> None:
        """Subtract from each row the one of ``rows`` that has its index, in place."""

    @abstractmethod
    def add_at(self, values: DeviceArray, places: DeviceArray, length: int) -> DeviceArray:
        """Sum the rows that go to each place; the places are on the device."""

    @abstractmethod
    def sparse(self, X: Any) -> DeviceArray:
        """Bring a SciPy matrix in CSR form to the device, where it can be multiplied."""

    @abstractmethod
    def concatenate(self, parts: list[DeviceArray]) -> DeviceArray:
        """Put rows under one another."""

    @abstractmethod
    def factor(self, A: DeviceArray) -> DeviceArray | None:
        """Return the lower Cholesky factor of a symmetric matrix; None if it is not definite."""

    @abstractmethod
    def factor_in_place(self, A: DeviceArray) -> DeviceArray | None:
        """Do the same as `factor` in the memory of A, whose rows must follow each other."""

    @abstractmethod
    def solve_factored(self, factor: DeviceArray, B: DeviceArray) -> DeviceArray:
        """Solve with a Cholesky factor."""

    @abstractmethod
    def invert_triangle(self, factor: DeviceArray) -> DeviceArray:
        """Return the inverse of a lower triangular matrix, zeros above, in its memory."""

    @abstractmethod
    def invert_factored(self, factor: DeviceArray) -> DeviceArray:
        """Return the inverse of a matrix in the memory of its Cholesky factor."""

    @abstractmethod
    def factor_blocks(self, A: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        """Return the lower Cholesky factors of a stack of matrices, (..., n, n), and their pivots.

        Pivots are the squares of the diagonal of a factor, all 0 where a matrix is not definite.
        """

    @abstractmethod
    def sums_of_others(self, values: DeviceArray) -> DeviceArray:
        """Sum all entries along the first axis but one, for each of them: nothing is subtracted."""

    @abstractmethod
    def gram(self, Z: DeviceArray) -> DeviceArray:
        """Return ``Z' Z``."""

    @abstractmethod
    def solve_rows(self, factor: DeviceArray, Z: DeviceArray) -> DeviceArray:
        """Replace rows z by ``factor^-1 z``, factor lower triangular, in their memory."""

    @abstractmethod
    def solve_triangular(self, factor: DeviceArray, B: DeviceArray) -> DeviceArray:
        """Solve with a lower triangular matrix."""

    @abstractmethod
    def solve_transposed(self, factor: DeviceArray, B: DeviceArray) -> DeviceArray:
        """Solve with the transpose of a lower triangular matrix."""

    @abstractmethod
    def eigh(self, A: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        """Return eigenvalues in rising order and eigenvectors of a symmetric matrix."""


@final
@dataclass(frozen=True, eq=False)
class KeptArrays:
    """Arrays that are brought to a device once, though they are asked for in every iteration."""

    device: Device
    known: dict[int, tuple[NDArray[Any], DeviceArray]] = field(default_factory=dict)

    def array(self, values: NDArray[Any]) -> DeviceArray:
        """Return an array on the device."""
        if id(values) not in self.known:
            self.known[id(values)] = values, self.device.array(values)
        return self.known[id(values)][1]


HOST_DEVICES: tuple[str, ...] = ("cpu",)
"""Devices of PyTorch whose tensors are computed with by NumPy, unless a device is named."""


def place(name: str | None, X: Any = None) -> Array:
    """Return an empty array that is where to compute, for `like`.

    Parameters
    ----------
    name : str or None
        A device that PyTorch knows, such as "cuda". None is the device of the tensor X, or else
        the host.
    X : optional
        What was given by the caller.
    """
    if name is None:
        return X.new_empty(0) if is_on_device(X) else np.empty(0)
    if not isinstance(name, str):
        raise InvalidInputError(f"`device` must be a name such as 'cuda', or None: got {name!r}.")
    try:
        import torch  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("Computing on a device", "torch", "gpu") from error
    try:
        return torch.empty(0, device=torch.device(name))
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidInputError(
            f"`device` must name a device that PyTorch finds here: got {name!r} ({reason})."
        ) from None


def on_device(rows: Any, name: str | None, X: Any = None) -> Array:
    """Return rows where to compute with them, on a device dense and of double precision.

    Parameters
    ----------
    rows : (n_items, n_features)
        The rows on the host.
    name, X
        As in `place`; the rows were read from X, which need not be moved where it is a tensor.
    """
    where = place(name, X)
    if is_on_host(where) or not _is_tensor(X):
        return like(rows, where)
    torch = namespace_of(where)
    return torch.asarray(X.detach(), dtype=torch.float64, device=where.device).contiguous()


def device_of(values: Array) -> "TorchDevice":
    """Return the device that a tensor is on."""
    return TorchDevice(sys.modules["torch"], values.device)


def as_device(name: str | None, X: Any = None) -> Device | None:
    """Return the device of a name that PyTorch knows, such as "cuda".

    Without a name it is the device of a tensor X, or no device at all.
    """
    where = place(name, X)
    return None if is_on_host(where) else device_of(where)


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")  # who has a tensor has imported it
    return torch is not None and isinstance(value, torch.Tensor)


def is_on_device(X: Any) -> bool:
    """Return whether X is a tensor that is not computed with by NumPy."""
    return _is_tensor(X) and X.device.type not in HOST_DEVICES


def on_host(value: Any) -> Any:
    """Return a dense tensor as an array; anything else as it is."""
    if not _is_tensor(value):
        return value
    if str(value.layout) != "torch.strided":
        raise InvalidInputError(
            f"Tensors must be dense: got one of layout {value.layout}. Use to_dense(), or a SciPy "
            "matrix."
        )
    here = value.detach().cpu()
    if str(here.dtype) in ("torch.float16", "torch.bfloat16"):
        here = here.double()
    return here.numpy()


def where_given(rows: NDArray[Any], X: Any) -> DeviceArray:
    """Bring rows that were read from a tensor X back to its device, if NumPy does not compute."""
    return like(rows, X) if is_on_device(X) else rows


def as_given(result: Any, X: Any) -> Any:
    """Return arrays as tensors where X is one, on its device; otherwise as they are."""
    if not _is_tensor(X):
        return result
    if isinstance(result, tuple):
        return tuple(as_given(part, X) for part in result)
    if isinstance(result, np.ndarray) and result.dtype.kind in "fiub":
        return sys.modules["torch"].from_numpy(np.ascontiguousarray(result)).to(X.device)
    return result


def memory_of(device: Device | None) -> int:
    """Return the bytes of memory of a device, or of this machine."""
    if device is not None:
        return device.memory()
    return memory_of_host()


@final
@dataclass(frozen=True, eq=False)
class TorchDevice(Device):
    """A device of PyTorch, in double precision.

    Parameters
    ----------
    torch : module
        PyTorch.
    device : torch.device
        Which one.
    n_bytes : int, optional
        How much of its memory to count on; by default all.
    """

    torch: Any
    device: Any
    n_bytes: int | None = None

    @classmethod
    def of(cls, name: str, n_bytes: int | None = None) -> Self:
        """Check that the device is there."""
        where = place(name)
        return cls(namespace_of(where), where.device, n_bytes)

    def array(self, values: NDArray[Any]) -> DeviceArray:
        """Bring an array to the device."""
        given = np.ascontiguousarray(values)
        kind = np.float64 if given.dtype.kind == "f" else given.dtype
        given = given.astype(kind, copy=False)
        if not given.flags.writeable:
            given = given.copy()
        return self.torch.from_numpy(given).to(self.device)

    def host(self, values: DeviceArray) -> NDArray[Any]:
        """Bring an array back."""
        out: NDArray[Any] = values.cpu().numpy()
        return out

    def empty(self, n_rows: int, n_columns: int) -> DeviceArray:
        """Return a matrix to be filled."""
        return self.torch.empty((n_rows, n_columns), dtype=self.torch.float64, device=self.device)

    def memory(self) -> int:
        """Return the bytes of memory of the device; of the machine where it has none of its own."""
        if self.n_bytes is not None:
            return self.n_bytes
        if self.device.type != "cuda":
            return memory_of(None)
        return int(self.torch.cuda.get_device_properties(self.device).total_memory)

    def segment_sums(
        self, values: DeviceArray, weight: DeviceArray, index: IntArray, length: int
    ) -> DeviceArray:
        """Sum the weighted rows that share an index, a block of rows at a time."""
        places = self.array(np.where(index >= 0, index, length))
        sums = values.new_zeros((length + 1, values.shape[1]))
        for some in row_blocks(values):
            sums.index_add_(0, places[some], values[some] * weight[some, None])
        return sums[:length]

    def subtract_rows(self, values: DeviceArray, rows: DeviceArray, index: IntArray) -> None:
        """Subtract from each row the one of ``rows`` that has its index, a block at a time."""
        places = self.array(index)
        for some in row_blocks(values):
            values[some] -= rows.index_select(0, places[some])

    def add_at(self, values: DeviceArray, places: DeviceArray, length: int) -> DeviceArray:
        """Sum the rows that go to each place; the places are on the device."""
        return values.new_zeros((length, *values.shape[1:])).index_add_(0, places, values)

    def sparse(self, X: Any) -> DeviceArray:
        """Bring a SciPy matrix in CSR form to the device, where it can be multiplied."""
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        parts = (X.indptr.astype(np.int64), X.indices.astype(np.int64), X.data.astype(np.float64))
        there = [self.torch.from_numpy(part).to(self.device) for part in parts]
        with (
            warnings.catch_warnings(),
            self.torch.sparse.check_sparse_tensor_invariants(enable=True),
        ):
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
            return self.torch.sparse_csr_tensor(*there, size=X.shape)

    def concatenate(self, parts: list[DeviceArray]) -> DeviceArray:
        """Put rows under one another."""
        return self.torch.cat(parts)

    def factor(self, A: DeviceArray) -> DeviceArray | None:
        """Return the lower Cholesky factor of a symmetric matrix; None if it is not definite."""
        factor, info = self.torch.linalg.cholesky_ex(A)
        return None if int(info) else factor

    def factor_in_place(self, A: DeviceArray) -> DeviceArray | None:
        """Return the Cholesky factor in the memory of A: column by column, as LAPACK wants it."""
        columns = A.T
        info = self.torch.empty((), dtype=self.torch.int32, device=self.device)
        self.torch.linalg.cholesky_ex(columns, out=(columns, info))
        return None if int(info) else columns

    def solve_factored(self, factor: DeviceArray, B: DeviceArray) -> DeviceArray:
        """Solve with a Cholesky factor, of which `torch.cholesky_solve` would make a copy."""
        half = self.solve_triangular(factor, B)
        return self.solve_transposed(factor, half)

    def invert_triangle(self, factor: DeviceArray) -> DeviceArray:
        """Return the inverse of a lower triangular matrix, zeros above, in its memory."""
        self._invert_triangle(factor)
        return factor

    def invert_factored(self, factor: DeviceArray) -> DeviceArray:
        """Return the inverse of a matrix in the memory of its Cholesky factor."""
        self._invert_triangle(factor)
        self._square_triangle(factor)
        return factor.T  # symmetric, and row by row again

    def _invert_triangle(self, L: DeviceArray) -> None:
        """Replace a lower triangular matrix by its inverse: products of its halves."""
        half = len(L) // 2
        if len(L) <= LEAF:
            identity = self.torch.eye(len(L), dtype=L.dtype, device=self.device)
            L.copy_(self.solve_triangular(L, identity))
            return
        top, left, bottom = L[:half, :half], L[half:, :half], L[half:, half:]
        self._invert_triangle(top)
        self._invert_triangle(bottom)
        self.torch.mm((bottom @ left).neg_(), top, out=left)

    def _square_triangle(self, L: DeviceArray) -> None:
        """Replace a lower triangular matrix L by L'L, both triangles of it."""
        half = len(L) // 2
        if len(L) <= LEAF:
            L.copy_(L.T @ L)
            return
        top, left, bottom = L[:half, :half], L[half:, :half], L[half:, half:]
        self._square_triangle(top)
        top.addmm_(left.T, left)
        left.copy_(bottom.T @ left)
        L[:half, half:].copy_(left.T)
        self._square_triangle(bottom)

    def factor_blocks(self, A: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        """Return the lower Cholesky factors of a stack of matrices, and their pivots."""
        factor, info = self.torch.linalg.cholesky_ex(A)
        pivots = factor.diagonal(dim1=-2, dim2=-1) ** 2
        return factor, self.torch.where((info == 0)[..., None], pivots, 0.0)

    def sums_of_others(self, values: DeviceArray) -> DeviceArray:
        """Sum all entries along the first axis but one: those before it, and those after it."""
        out = self.torch.zeros_like(values)
        out[1:] += values[:-1].cumsum(0)
        out[:-1] += values[1:].flip(0).cumsum(0).flip(0)
        return out

    def gram(self, Z: DeviceArray) -> DeviceArray:
        """Return ``Z' Z``, of which blocks above the diagonal are copies."""
        width = Z.shape[1]
        G = Z.new_empty((width, width))
        for start in range(0, width, LEAF):
            own, stop = slice(start, start + LEAF), min(start + LEAF, width)
            self.torch.mm(Z[:, own].T, Z[:, :stop], out=G[own, :stop])
            G[:start, own] = G[own, :start].T
        return G

    def solve_rows(self, factor: DeviceArray, Z: DeviceArray) -> DeviceArray:
        """Substitute forward by blocks of columns: products, and inverses of small triangles."""
        for start in range(0, len(factor), LEAF):
            own = slice(start, start + LEAF)
            block = Z[:, own]
            block.addmm_(Z[:, :start], factor[own, :start].T, alpha=-1.0)
            triangle = factor[own, own]
            identity = self.torch.eye(len(triangle), dtype=Z.dtype, device=self.device)
            block.copy_(block @ self.solve_triangular(triangle, identity).T)
        return Z

    def solve_triangular(self, factor: DeviceArray, B: DeviceArray) -> DeviceArray:
        """Solve with a lower triangular matrix."""
        return self.torch.linalg.solve_triangular(factor, B, upper=False)

    def solve_transposed(self, factor: DeviceArray, B: DeviceArray) -> DeviceArray:
        """Solve with the transpose of a lower triangular matrix."""
        return self.torch.linalg.solve_triangular(factor.mT, B, upper=True)

    def eigh(self, A: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        """Return eigenvalues in rising order and eigenvectors of a symmetric matrix."""
        values, vectors = self.torch.linalg.eigh(A)
        return values, vectors
