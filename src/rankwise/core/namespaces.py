"""What the array API standard lacks: the few operations that must know their namespace.

Formulas are written once, for arrays of NumPy, of PyTorch and of any namespace of the standard.
Each function here is right in every namespace, and has a line for those in which it pays.
"""

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import linalg as scipy_linalg
from scipy import sparse
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.spatial.distance import cdist

from rankwise.core.arrays import FloatArray, dense_rows
from rankwise.core.errors import InvalidInputError, extra
from rankwise.core.threads import WORK_PER_THREAD, in_threads

Array: TypeAlias = Any
"""A dense array of NumPy, of PyTorch or of a namespace of the array API standard."""

BLOCK_ENTRIES = 1 << 25
"""Entries of a large matrix that are looked at together."""

EPS = float(np.finfo(float).eps)

LEAF = 512
"""Triangles of up to this order are inverted as a whole, larger ones by halves."""


HOST = np.empty(0)
"""An array of the host, for functions that compute where another array is."""

HOST_DEVICES: tuple[str, ...] = ("cpu",)
"""Devices of PyTorch whose tensors are computed with by NumPy, unless a device is named."""

UNKNOWN_MEMORY = 8 << 30
"""The bytes of a machine that does not say how many it has."""


def is_on_host(array: Array) -> bool:
    """Return whether NumPy and SciPy compute with an array."""
    return isinstance(array, np.ndarray) or sparse.issparse(array)


def namespace_of(array: Array) -> Any:
    """Return the module whose functions take an array, under the names of the standard.

    PyTorch has these names but for a few, which no formula uses.
    """
    if isinstance(array, np.ndarray):
        return np
    torch = sys.modules.get("torch")  # who has a tensor has imported it
    if torch is not None and isinstance(array, torch.Tensor):
        return torch
    return array.__array_namespace__()


def _is_torch(xp: Any) -> bool:
    return xp.__name__ == "torch"


def to_host(array: Array) -> NDArray[Any]:
    """Return an array as one of NumPy; what is on the host stays as it is."""
    if is_on_host(array):
        return array
    return np.asarray(array.cpu() if _is_torch(namespace_of(array)) else array)


def like(values: Array, other: Array) -> Array:
    """Bring an array of NumPy to the namespace and device of another; leave others alone."""
    if is_on_host(other) or not is_on_host(values):
        return values
    given = np.ascontiguousarray(dense_rows(values) if values.dtype.kind == "f" else values)
    if not given.flags.writeable:  # PyTorch shares the memory and would let it be written to
        given = given.copy()
    return namespace_of(other).asarray(given, device=other.device)


# Where to compute, and tensors that a caller gives and gets back


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
        return X.new_empty(0) if is_on_device(X) else HOST
    if not isinstance(name, str):
        raise InvalidInputError(f"`device` must be a name such as 'cuda', or None: got {name!r}.")
    with extra("Computing on a device", "torch", "gpu"):
        import torch  # noqa: PLC0415
    try:
        return torch.zeros(1, device=torch.device(name))[:0]
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
    copied = value.detach().cpu()
    if str(copied.dtype) in ("torch.float16", "torch.bfloat16"):
        copied = copied.double()
    return copied.numpy()


def as_given(result: Any, X: Any) -> Any:
    """Return arrays as tensors where X is one, on its device; otherwise as they are."""
    if not _is_tensor(X):
        return result
    if isinstance(result, tuple):
        return tuple(as_given(part, X) for part in result)
    if isinstance(result, np.ndarray) and result.dtype.kind in "fiub":
        return sys.modules["torch"].from_numpy(np.ascontiguousarray(result)).to(X.device)
    return result


# Blocks, rows and entries


def memory_of(array: Array) -> int:
    """Return the bytes of memory of the device that an array is on, or of this machine."""
    if not is_on_host(array) and str(array.device).startswith("cuda"):
        properties = namespace_of(array).cuda.get_device_properties(array.device)
        return int(properties.total_memory)
    return memory_of_host()


def memory_of_host() -> int:
    """Return the bytes of memory of this machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except AttributeError:  # on Windows
        return UNKNOWN_MEMORY


def copy_of(array: Array) -> Array:
    """Return a copy in double precision, row by row."""
    if isinstance(array, np.ndarray):
        return np.array(array, dtype=float, order="C")
    xp = namespace_of(array)
    made = xp.asarray(array, dtype=xp.float64, copy=True)
    return made.contiguous() if _is_torch(xp) else made


def contiguous(array: Array) -> Array:
    """Return an array whose rows are contiguous, of which the standard knows nothing."""
    xp = namespace_of(array)
    if xp is np:
        return np.ascontiguousarray(array)
    return array.contiguous() if _is_torch(xp) else array


def zeros(shape: tuple[int, ...], other: Array) -> Array:
    """Return zeros of double precision where another array is."""
    if is_on_host(other):
        return np.zeros(shape)
    xp = namespace_of(other)
    return xp.zeros(shape, dtype=xp.float64, device=other.device)


def take_rows(values: Array, rows: Array) -> Array:
    """Return the rows of these numbers."""
    if is_on_host(values):
        return values[rows]
    xp = namespace_of(values)
    if _is_torch(xp):
        return values.index_select(0, like(rows, values))
    return xp.take(values, like(rows, values), axis=0)


def column_means(Z: Array) -> Array:
    """Return the mean of every column in double precision."""
    xp = namespace_of(Z)
    return xp.mean(xp.asarray(Z, dtype=xp.float64), axis=0)


def segment_sums(values: Array, index: Array, length: int, weight: Array | None = None) -> Array:
    """Sum the rows that share an index, (length, n_columns).

    Parameters
    ----------
    values : (n_rows, n_columns)
        The rows.
    index : (n_rows,)
        Where each is added, 0 to length - 1, in any order.
    length : int
        Number of sums.
    weight : (n_rows, 1), optional
        What the rows are multiplied with before.
    """
    xp = namespace_of(values)
    if xp is np:
        entries = np.ones(len(values)) if weight is None else weight[:, 0]
        rows = (entries, index, np.arange(len(values) + 1))
        return sparse.csr_array(rows, shape=(len(values), length)).T @ values
    if _is_torch(xp):  # some rows at a time: products take memory
        sums = zeros((length, values.shape[1]), values)
        for some in row_blocks(values):
            part = values[some] if weight is None else values[some] * weight[some]
            sums.index_add_(0, index[some], part)
        return sums
    numbers = xp.arange(length, dtype=index.dtype, device=values.device)
    chosen = xp.astype(numbers[:, None] == index[None, :], xp.float64)
    return chosen @ (values if weight is None else values * weight)


def in_turn(task: Callable[[int], None], n_tasks: int, where: Array) -> None:
    """Call ``task(k)`` for parts of an array: in threads on the host if it is large."""
    if is_on_host(where) and where.size > WORK_PER_THREAD:
        in_threads(task, n_tasks)
        return
    for k in range(n_tasks):
        task(k)


def blocks_of(length: int, size: int) -> Iterator[slice]:
    """Cut a range into blocks of this size; the standard has no slices beyond the end."""
    return (slice(start, min(start + size, length)) for start in range(0, length, size))


def row_blocks(values: Array, entries: int = BLOCK_ENTRIES) -> Iterator[slice]:
    """Cut the rows of a matrix into blocks of about this many entries."""
    return blocks_of(values.shape[0], max(1, entries // max(1, values.shape[1])))


def is_finite(values: Array, entries: int = BLOCK_ENTRIES) -> bool:
    """Return whether all values of a matrix are finite, looking at this many at a time."""
    xp = namespace_of(values)
    with np.errstate(over="ignore", invalid="ignore"):
        if bool(xp.isfinite(xp.sum(values))):  # a sum of finite values may overflow
            return True
    blocks = row_blocks(values, entries)
    return all(bool(xp.all(xp.isfinite(values[some, :]))) for some in blocks)


def set_diagonal(A: Array, value: float) -> None:
    """Set the diagonal of a square matrix in place; it must be contiguous."""
    namespace_of(A).reshape(A, (-1,))[:: A.shape[0] + 1] = value


def add_to_diagonal(A: Array, value: Array | float) -> None:
    """Add a number, or one for each row, to the diagonal of a contiguous matrix in place."""
    namespace_of(A).reshape(A, (-1,))[:: A.shape[0] + 1] += value


def add_gram(G: Array, H: Array) -> None:
    """Add ``H' H`` to a symmetric G; blocks above the diagonal are copies."""
    for own in blocks_of(H.shape[1], LEAF):
        G[own, : own.stop] += H[:, own].T @ H[:, : own.stop]
        G[: own.start, own] = G[own, : own.start].T


def gram(Z: Array) -> Array:
    """Return ``Z' Z``."""
    if is_on_host(Z):  # NumPy knows that the product is symmetric
        return Z.T @ Z
    G = zeros((Z.shape[1], Z.shape[1]), Z)
    add_gram(G, Z)
    return G


ROUNDED_AWAY = 2.0**-53
"""Exponents up to which an exponential is rounded to 1."""


def exp_in_place(exponents: Array) -> Array:
    """Replace exponents, of which rounding alone makes some positive, by their exponentials."""
    if isinstance(exponents, np.ndarray):
        if exponents.max(initial=0.0) > ROUNDED_AWAY:
            np.minimum(exponents, 0.0, out=exponents)
        return np.exp(exponents, out=exponents)
    xp = namespace_of(exponents)
    if _is_torch(xp):
        return exponents.clamp_(max=0.0).exp_()
    exponents[...] = xp.exp(xp.clip(exponents, max=0.0))
    return exponents


def squared_norms(A: Array) -> Array:
    """Return the sum of squares of every row, dense or sparse."""
    if sparse.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    if isinstance(A, np.ndarray):
        return np.einsum("ij,ij->i", A, A)
    return namespace_of(A).sum(A * A, axis=1)


def city_block(A: Array, B: Array) -> Array:
    """Return the sum of absolute differences of every two rows."""
    xp = namespace_of(A)
    if xp is np:
        return cdist(A, B, "cityblock")
    if _is_torch(xp):
        return xp.cdist(A, B, p=1.0)
    return xp.sum(xp.abs(A[:, None, :] - B[None, :, :]), axis=2)


# Factorisations


def cholesky(A: Array) -> Array | None:
    """Return the lower Cholesky factor of a symmetric matrix; None if it is not definite.

    Elsewhere than on the host, A may be a stack: None if any of its matrices is not definite.
    """
    xp = namespace_of(A)
    if xp is np:
        factor, info = dpotrf(A.T, lower=True, clean=True)
        return None if info else factor
    if _is_torch(xp):
        factor, info = xp.linalg.cholesky_ex(A)
        return None if bool(info.any()) else factor
    try:
        return xp.linalg.cholesky(A)
    except Exception:  # the standard does not say which
        return None


def cholesky_in_place(A: Array) -> Array | None:
    """Return the lower Cholesky factor, zeros above, in place of a contiguous matrix.

    None if the matrix is not definite.
    """
    xp = namespace_of(A)
    if xp is np:  # LAPACK works on columns: the transpose is factorised without a copy
        factor, info = dpotrf(A.T, lower=False, clean=True, overwrite_a=True)
        return None if info else factor.T
    if _is_torch(xp):
        info = xp.empty((), dtype=xp.int32, device=A.device)
        xp.linalg.cholesky_ex(A.mT, out=(A.mT, info))
        return None if int(info) else A.mT
    return cholesky(A)


def cholesky_solve(C: Array, B: Array) -> Array:
    """Solve with a Cholesky factor."""
    return solve_triangular(C, solve_triangular(C, B), transposed=True)


def solve_shifted(A: Array, B: FloatArray, alpha: float) -> FloatArray | None:
    """Return ``(A + alpha I)^-1 B`` by a Cholesky factorisation, on the host; None if it fails.

    On the host A is overwritten, but for the upper triangle where it fails; elsewhere it is copied.
    """
    if namespace_of(A) is not np:
        shifted = copy_of(A)
        add_to_diagonal(shifted, float(alpha))
        C = cholesky_in_place(shifted)
        return None if C is None else to_host(cholesky_solve(C, like(B, C)))
    diagonal = np.diagonal(A).copy()
    add_to_diagonal(A, alpha)
    factor, info = dpotrf(A.T, lower=False, clean=False, overwrite_a=True)
    if info == 0:
        return dpotrs(factor, B, lower=False)[0]
    A.flat[:: len(A) + 1] = diagonal
    return None


def invert_triangle(C: Array) -> Array:
    """Return the inverse of a lower triangular matrix, in whose memory it is: n^3 / 3 operations.

    The halves on the diagonal are inverted; what is left of them is multiplied by both.
    """
    xp, order = namespace_of(C), C.shape[0]
    if order <= LEAF:
        identity = xp.eye(order, dtype=C.dtype, device=C.device)
        C[...] = solve_triangular(C, identity)
        return C
    half = order // 2
    top, left, bottom = C[:half, :half], C[half:, :half], C[half:, half:]
    invert_triangle(top)
    invert_triangle(bottom)
    left[...] = -(bottom @ left) @ top
    return C


def invert_factored(C: Array) -> Array:
    """Return the inverse of a matrix in place of its Cholesky factor, zeros above."""
    if namespace_of(C) is np:
        inverse, _ = dpotri(C.T, lower=False, overwrite_c=True)
        lower = inverse.T
        for some in blocks_of(len(lower), LEAF):  # both triangles: above are zeros so far
            lower[: some.start, some] = lower[some, : some.start].T
            own, diagonal = lower[some, some], np.diagonal(lower)[some].copy()
            own += own.T
            np.fill_diagonal(own, diagonal)
        return lower
    invert_triangle(C)
    _square_triangle(C)
    return C.T  # symmetric, and row by row again


def _square_triangle(C: Array) -> None:
    """Replace a lower triangular matrix C by C'C, both triangles of it."""
    half = C.shape[0] // 2
    if C.shape[0] <= LEAF:
        C[...] = C.T @ C
        return
    top, left, bottom = C[:half, :half], C[half:, :half], C[half:, half:]
    _square_triangle(top)
    top += left.T @ left
    left[...] = bottom.T @ left
    C[:half, half:] = left.T
    _square_triangle(bottom)


def solve_triangular(C: Array, B: Array, *, transposed: bool = False) -> Array:
    """Solve with a lower triangular matrix, or with its transpose."""
    xp = namespace_of(C)
    if xp is np and C.ndim == 2:
        return scipy_linalg.solve_triangular(C, B, lower=True, trans="T" if transposed else "N")
    if _is_torch(xp):
        return xp.linalg.solve_triangular(C.mT if transposed else C, B, upper=transposed)
    return xp.linalg.solve(C.mT if transposed else C, B)


def solve_definite(A: Array, B: Array) -> tuple[Array, Array]:
    """Solve stacks of symmetric definite systems, (..., n, n) and (..., n, k), by factors.

    The second result is the smallest pivot of each, as a share of the largest entry of its
    diagonal; 0 where a matrix is not definite.
    """
    xp = namespace_of(A)
    if _is_torch(xp):
        factor, info = xp.linalg.cholesky_ex(A)
        is_definite = info == 0
    else:
        largest = xp.max(xp.linalg.eigvalsh(A), axis=-1)
        is_definite = xp.min(xp.linalg.eigvalsh(A), axis=-1) > EPS * largest
        identity = xp.eye(A.shape[-1], dtype=A.dtype, device=A.device)
        factor = xp.linalg.cholesky(xp.where(is_definite[..., None, None], A, identity))
    pivots, entries = xp.linalg.diagonal(factor) ** 2, xp.linalg.diagonal(A)
    share = _least(pivots) / -_least(-entries)
    X = solve_triangular(factor, solve_triangular(factor, B), transposed=True)
    return X, xp.where(is_definite, share, xp.zeros_like(share))


def _least(values: Array) -> Array:
    """Return the smallest of the last axis, by the name that PyTorch has for it."""
    xp = namespace_of(values)
    return values.amin(-1) if _is_torch(xp) else xp.min(values, axis=-1)


def solve_rows(C: Array, Z: Array) -> Array:
    """Replace rows z by ``C^-1 z``, C lower triangular; Z may be overwritten."""
    xp = namespace_of(Z)
    if xp is np:
        return scipy_linalg.solve_triangular(C, Z.T, lower=True, overwrite_b=True).T
    # substitute forward by blocks of columns: products, and inverses of small triangles
    for start in range(0, C.shape[0], LEAF):
        own = slice(start, min(start + LEAF, C.shape[0]))
        block = Z[:, own] - Z[:, :start] @ C[own, :start].T
        identity = xp.eye(own.stop - start, dtype=Z.dtype, device=Z.device)
        Z[:, own] = block @ solve_triangular(C[own, own], identity).T
    return Z


def eigh_in_place(A: Array) -> tuple[Array, Array]:
    """Return rising eigenvalues and eigenvectors of a contiguous matrix, in whose memory they are.

    Its upper triangle is read.
    """
    xp = namespace_of(A)
    if xp is np:  # LAPACK works on columns: the transpose is decomposed without a copy
        return scipy_linalg.eigh(A.T, driver="evd", overwrite_a=True, check_finite=False)
    if _is_torch(xp):
        values = xp.empty(A.shape[0], dtype=A.dtype, device=A.device)
        xp.linalg.eigh(A.mT, out=(values, A.mT))
        return values, A.mT
    return xp.linalg.eigh(A)


def largest_eigenpairs(A: Array, n_pairs: int) -> tuple[FloatArray, FloatArray]:
    """Return the largest eigenvalues, rising, and their eigenvectors; A may be overwritten."""
    order = A.shape[0]
    if is_on_host(A):
        largest = [order - n_pairs, order - 1]
        return scipy_linalg.eigh(
            A, subset_by_index=largest, driver="evr", overwrite_a=True, check_finite=False
        )
    values, vectors = eigh_in_place(A)
    return to_host(values)[order - n_pairs :], to_host(vectors[:, order - n_pairs :])
