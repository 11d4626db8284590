"""Kernels: frozen values that are called as ``k(A, B)``."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, TypeAlias, final

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from rankwise.core.arrays import FloatArray, Matrix, dense_rows
from rankwise.core.checks import check_choice, check_positive, real_number
from rankwise.core.devices import Device, DeviceArray
from rankwise.core.errors import InvalidInputError, NumericalError
from rankwise.core.storable import storable
from rankwise.core.threads import WORK_PER_THREAD, in_threads, n_threads, serial_blas

Gamma: TypeAlias = float | Literal["scale"]

ProductTerms: TypeAlias = list[tuple[float, FloatArray]]
"""A sum of products over features: a factor, and for each row the factors of its features."""

EXP_ROWS = 64
"""Rows whose exponentials are taken together, so that they stay in cache."""

EPS = float(np.finfo(float).eps)

LOST = 1e-10
"""Largest error of an exponent that computing distances from products may make."""

DENSE_ENTRIES = 1 << 22
"""Entries of sparse rows that are made dense together."""

TILE = 512
"""Rows and columns of a block of a product, which one thread forms and which stays in cache."""

DEVICE_ENTRIES = 1 << 28
"""Entries of a block of a product on a device: two gigabytes."""


KERNELS: dict[str, "type[Kernel]"] = {}
"""The kernels that can be chosen by name; each enters itself."""


class Kernel(ABC):
    """A similarity of two rows that is an inner product in some feature space.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import Gaussian, Kernel
    >>> isinstance(Gaussian(0.5), Kernel)
    True
    >>> Gaussian(0.5).diagonal(np.zeros((2, 3)))
    array([1., 1.])
    """

    name: ClassVar[str | None] = None
    """What ``kernel="..."`` calls it; a kernel that sets one can be chosen by it."""

    accepts_sparse: ClassVar[bool] = True
    """Whether sparse rows are understood."""

    is_trusted: ClassVar[bool] = True
    """Whether positive semidefinite by construction; other kernels are checked when fitted."""

    is_linear: ClassVar[bool] = False
    """Whether the rows themselves are its features."""

    is_function: ClassVar[bool] = True
    """Whether it can be computed between any two rows."""

    def __init_subclass__(cls) -> None:
        if cls.name is not None:
            KERNELS[cls.name] = cls

    @abstractmethod
    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel of every row of A with every row of B."""

    @abstractmethod
    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the kernel of every row of A with itself."""

    @abstractmethod
    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:
        """Return this kernel with parameters that depend on the data replaced by numbers.

        A row of weight k counts as k equal rows.
        """

    def with_rows(self, B: Matrix) -> Callable[[Matrix], FloatArray]:
        """Return the kernel of any rows with those of B; what B alone decides is computed once."""
        return lambda A: self(A, B)

    def products(self, row: FloatArray, rows: FloatArray) -> ProductTerms | None:  # noqa: ARG002
        """Return the kernel as a sum of products over features, None where it is no such sum.

        Parameters
        ----------
        row : (n_features,)
        rows : (n_rows, n_features)

        Returns
        -------
        terms : list of (factor, (n_rows, n_features)), or None
            ``k(row, rows)`` is the sum over terms of the factor times the product of each line.
        """
        return None


@storable
@final
@dataclass(frozen=True)
class Linear(Kernel):
    """The linear kernel: the inner product of two rows.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import Linear
    >>> Linear()(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    """

    name = "linear"
    is_linear = True

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return all inner products."""
        return _products(A, B)

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the squared length of every row."""
        return _squared_norms(A)

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:  # noqa: ARG002
        """Return itself: there is nothing to fit."""
        return self


@storable
@final
@dataclass(frozen=True)
class Gaussian(Kernel):
    r"""The Gaussian kernel :math:`\exp(-\gamma |a - b|^2)`.

    Parameters
    ----------
    gamma : float or "scale"
        Inverse squared width; "scale" means 1 / (n_features * variance of X), as in scikit-learn;
        rows count by their `sample_weight`.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import Gaussian
    >>> Gaussian(gamma=0.5)(np.array([[0.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 1.0]])).round(3)
    array([[1.   , 0.368]])
    """

    name = "gaussian"

    gamma: Gamma = "scale"

    def __post_init__(self) -> None:
        _check_gamma(self.gamma)

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix: one product, then the exponential in place."""
        gamma = _number(self.gamma)
        same = A is B
        A, B = _centred(A, B)
        a, b = gamma * _squared_norms(A), gamma * _squared_norms(B)
        if sparse.issparse(A) and EPS * (a.max(initial=0.0) + b.max(initial=0.0)) > LOST:
            return np.exp(-gamma * _squared_distances(A, B))
        K = _products(A, B)

        def finish(rows: slice) -> None:
            block = K[rows]
            block *= 2 * gamma
            block -= a[rows, None]
            block -= b
            _exp_in_place(block)

        _by_few_rows(finish, K)
        if same:
            np.fill_diagonal(K, 1.0)
        return K

    def with_rows(self, B: Matrix) -> Callable[[Matrix], FloatArray]:
        """Return the kernel with rows whose centre and norms are computed once."""
        if sparse.issparse(B):
            return lambda A: self(A, B)
        held = _GaussianOfRows.of(_number(self.gamma), B)
        return lambda A: self(A, B) if sparse.issparse(A) else held(A)

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return ones."""
        return np.ones(A.shape[0])

    def products(self, row: FloatArray, rows: FloatArray) -> ProductTerms:
        """Return the one product of exponentials."""
        return [(1.0, np.exp(-_number(self.gamma) * np.square(rows - row)))]

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:
        """Return this kernel with a numeric gamma."""
        return replace(self, gamma=_fit_gamma(self.gamma, X, sample_weight))


@final
@dataclass(frozen=True, eq=False)
class _GaussianOfRows:
    """The Gaussian kernel with given rows: its exponents are one product of two matrices.

    Parameters
    ----------
    shift : (n_features,)
        The centre of the rows, which is taken off all rows, so that an offset costs no digits.
    factors : (n_features + 2, n_rows)
        What moved rows, their squared norms and 1 are multiplied with.
    """

    shift: FloatArray
    factors: FloatArray

    @classmethod
    def of(cls, gamma: float, B: FloatArray) -> Self:
        """Build from dense rows."""
        shift = B.mean(axis=0, dtype=float)
        factors = np.empty((B.shape[1] + 2, len(B)))
        moved = np.subtract(B.T, shift[:, None], out=factors[:-2])
        factors[-2], factors[-1] = -gamma, -gamma * _squared_norms(moved.T)
        moved *= 2 * gamma
        return cls(shift, factors)

    def __call__(self, A: FloatArray) -> FloatArray:
        """Return the kernel of every row of A with every given row."""
        left = np.empty((len(A), len(self.factors)))
        moved = np.subtract(A, self.shift, out=left[:, :-2])
        left[:, -2], left[:, -1] = _squared_norms(moved), 1.0
        K = left @ self.factors
        _by_few_rows(lambda rows: _exp_in_place(K[rows]), K)
        return K


def _exp_in_place(exponents: FloatArray) -> None:
    """Replace exponents, of which rounding alone makes some positive, by their exponentials."""
    if exponents.max(initial=0.0) > 0.0:
        np.minimum(exponents, 0.0, out=exponents)
    np.exp(exponents, out=exponents)


def _by_few_rows(finish: Callable[[slice], None], K: FloatArray) -> None:
    """Call ``finish`` for all rows of a kernel matrix, in threads for so many as stay in cache."""
    if K.size <= WORK_PER_THREAD:
        finish(slice(None))
        return
    n_parts = -(-len(K) // EXP_ROWS)
    in_threads(lambda k: finish(slice(k * EXP_ROWS, (k + 1) * EXP_ROWS)), n_parts)


@storable
@final
@dataclass(frozen=True)
class Laplacian(Kernel):
    r"""The Laplacian kernel :math:`\exp(-\gamma \sum_k |a_k - b_k|)`, for dense rows.

    Parameters
    ----------
    gamma : float or "scale"
        Inverse width; "scale" means 1 / (n_features * standard deviation of X).

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import Laplacian
    >>> Laplacian(gamma=0.5)(np.array([[0.0, 0.0]]), np.array([[1.0, 1.0]])).round(3)
    array([[0.368]])
    """

    name = "laplacian"

    gamma: Gamma = "scale"
    accepts_sparse = False

    def __post_init__(self) -> None:
        _check_gamma(self.gamma)

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix from city-block distances."""
        K = cdist(A, B, "cityblock")
        K *= -_number(self.gamma)
        return np.exp(K, out=K)

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return ones."""
        return np.ones(A.shape[0])

    def products(self, row: FloatArray, rows: FloatArray) -> ProductTerms:
        """Return the one product of exponentials."""
        return [(1.0, np.exp(-_number(self.gamma) * np.abs(rows - row)))]

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:
        """Return this kernel with a numeric gamma."""
        if self.gamma != "scale":
            return self
        squared = _fit_gamma("scale", X, sample_weight)
        return replace(self, gamma=float(np.sqrt(squared / X.shape[1])))


@storable
@final
@dataclass(frozen=True)
class Polynomial(Kernel):
    r"""The polynomial kernel :math:`(\gamma \, a \cdot b + c)^d`.

    Parameters
    ----------
    degree : int
        d, at least 1.
    gamma : float or "scale"
        Factor of the inner product; "scale" means 1 / (n_features * variance of X).
    coef0 : float
        c, not negative.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import Polynomial
    >>> Polynomial(degree=2, gamma=1.0, coef0=1.0)(np.array([[1.0]]), np.array([[2.0]]))
    array([[9.]])
    """

    name = "polynomial"

    degree: int = 3
    gamma: Gamma = "scale"
    coef0: float = 1.0

    def __post_init__(self) -> None:
        _check_gamma(self.gamma)
        if not isinstance(self.degree, int | np.integer) or self.degree < 1:
            raise InvalidInputError(f"`degree` must be an integer of at least 1: {self.degree!r}.")
        if self.degree > 2**31:
            raise InvalidInputError("`degree` must be at most 2**31: usual degrees are 2 to 5.")
        coef0 = real_number(self.coef0)
        if not (np.isfinite(coef0) and coef0 >= 0):
            raise InvalidInputError(
                f"`coef0` must not be negative, or the kernel is not an inner product: "
                f"got {self.coef0!r}."
            )

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix: one product, then the power in place."""
        return self._power(_products(A, B))

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the kernel of every row with itself."""
        return self._power(_squared_norms(A))

    def _power(self, products: FloatArray) -> FloatArray:
        products *= _number(self.gamma)
        products += self.coef0
        with np.errstate(over="ignore"):  # `finite_kernel` refuses it
            return np.power(products, self.degree, out=products)

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:
        """Return this kernel with a numeric gamma."""
        return replace(self, gamma=_fit_gamma(self.gamma, X, sample_weight))


@storable
@final
@dataclass(frozen=True)
class Precomputed(Kernel):
    """Take X itself as the kernel matrix: square for training, (test, training) for prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import Precomputed, RankRLS
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> ranker = RankRLS(kernel=Precomputed()).fit(X @ X.T, [0, 1, 2])
    >>> bool(np.allclose(ranker.predict(X @ X.T), RankRLS().fit(X, [0, 1, 2]).predict(X)))
    True
    """

    name = "precomputed"
    is_function = False

    accepts_sparse = False
    is_trusted = False

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix A, whose columns belong to the training rows."""
        if A.shape[1] != B.shape[0]:
            raise InvalidInputError(
                "With a precomputed kernel `X` must have one column per training item: "
                f"there are {B.shape[0]}, got {A.shape[1]} columns."
            )
        return np.array(A, dtype=float, order="C")

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the diagonal of the square training kernel."""
        return np.diagonal(A).astype(float)

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:  # noqa: ARG002
        """Return itself: there is nothing to fit."""
        return self


@final
@dataclass(frozen=True)
class Custom(Kernel):
    """Wrap any function of two sets of rows that returns their kernel matrix."""

    function: Callable[[Any, Any], Any]
    is_trusted = False

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the function's matrix, checked."""
        K = np.array(dense_rows(self.function(A, B)), dtype=float, order="C")
        if K.shape != (A.shape[0], B.shape[0]):
            raise InvalidInputError(
                "A kernel must return one row per row of its first argument and one column per "
                f"row of its second: expected {(A.shape[0], B.shape[0])}, got {K.shape}."
            )
        if not np.isfinite(K).all():
            raise InvalidInputError("A kernel must return finite numbers: got NaN or infinity.")
        return K

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the kernel of every row with itself, one row at a time."""
        return np.array([self(A[i : i + 1], A[i : i + 1])[0, 0] for i in range(A.shape[0])])

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:  # noqa: ARG002
        """Return itself: there is nothing to fit."""
        return self


def kernel_on(
    kernel: Kernel, A: DeviceArray, B: DeviceArray, device: Device, *, checked: bool = True
) -> DeviceArray:
    """Return the kernel matrix of rows on a device; custom kernels are computed here.

    One beyond the range of double precision is refused, unless it is not to be looked at.
    """
    on_device = _ON_DEVICE.get(kernel.name or "")
    if on_device is None:
        return device.array(finite_kernel(kernel, device.host(A), device.host(B)))
    K = on_device(kernel, A, B, device)
    if checked:
        _refuse_overflow(kernel, is_finite=device.is_finite(K))
    return K


def _linear_on(_: Any, A: DeviceArray, B: DeviceArray, device: Device) -> DeviceArray:  # noqa: ARG001
    return A @ B.T


def _gaussian_on(kernel: Any, A: DeviceArray, B: DeviceArray, device: Device) -> DeviceArray:
    same = A is B
    left, right = _exponents_on(kernel, A, B, device)
    K = left @ right.T
    if same:
        K.fill_diagonal_(0.0)
    return device.exp_in_place(K)


def _exponents_on(
    kernel: Any, A: DeviceArray, B: DeviceArray, device: Device
) -> tuple[DeviceArray, DeviceArray]:
    """Return two matrices whose product holds the exponents of a Gaussian kernel."""
    gamma, shift = _number(kernel.gamma), B.mean(0)
    A, B = A - shift, B - shift
    n_features = A.shape[1]
    left, right = device.empty(len(A), n_features + 2), device.empty(len(B), n_features + 2)
    left[:, :-2], right[:, :-2] = 2 * gamma * A, B
    left[:, -2], right[:, -2] = -gamma * (A * A).sum(1), 1.0
    left[:, -1], right[:, -1] = 1.0, -gamma * (B * B).sum(1)
    return left, right


def _laplacian_on(kernel: Any, A: DeviceArray, B: DeviceArray, device: Device) -> DeviceArray:
    return device.exp_in_place(device.city_block(A, B) * -_number(kernel.gamma))


def _polynomial_on(kernel: Any, A: DeviceArray, B: DeviceArray, device: Device) -> DeviceArray:  # noqa: ARG001
    K = A @ B.T
    K *= _number(kernel.gamma)
    K += kernel.coef0
    return K**kernel.degree


_ON_DEVICE = {
    "linear": _linear_on,
    "gaussian": _gaussian_on,
    "laplacian": _laplacian_on,
    "polynomial": _polynomial_on,
}


def own_product(kernel: Kernel, X: Matrix, V: FloatArray) -> FloatArray:
    """Return ``k(X, X) @ V``; half of the blocks are formed, the others are their transposes.

    Each thread adds up its own blocks in a fixed order, so that the result depends on the number
    of threads only, by rounding errors.

    Parameters
    ----------
    kernel : Kernel
        A kernel of any two rows.
    X : (n_items, n_features)
        The rows.
    V : (n_items, k)
        The vectors.
    """
    n_items = X.shape[0]
    rows = [X[start : start + TILE] for start in range(0, n_items, TILE)]
    edges = [slice(start, start + TILE) for start in range(0, n_items, TILE)]
    n_parts = max(1, min(n_threads(), len(rows) // 2))
    sums = np.zeros((n_parts, *V.shape))

    def add(out: FloatArray, i: int) -> None:
        out[edges[i]] += kernel(rows[i], rows[i]) @ V[edges[i]]
        for j in range(i + 1, len(rows)):
            K = kernel(rows[i], rows[j])
            out[edges[i]] += K @ V[edges[j]]
            out[edges[j]] += K.T @ V[edges[i]]

    def task(part: int) -> None:
        for i in _shares(len(rows), n_parts)[part]:
            add(sums[part], i)

    with serial_blas():
        in_threads(task, n_parts)
    return sums.sum(axis=0)


def _shares(n_rows: int, n_parts: int) -> list[list[int]]:
    """Deal rows of blocks, of which later ones are shorter, so that parts have equal work."""
    shares: list[list[int]] = [[] for _ in range(n_parts)]
    for i in range(n_rows):
        turn, place = divmod(i, n_parts)
        shares[place if turn % 2 == 0 else n_parts - 1 - place].append(i)
    return shares


def own_product_on(
    kernel: Kernel, X: DeviceArray, device: Device, V: DeviceArray, entries: int = DEVICE_ENTRIES
) -> DeviceArray:
    """Return ``k(X, X) @ V`` of rows on a device; so many entries are formed at a time."""
    n_items, out, start = len(X), V * 0.0, 0
    while start < n_items:
        stop = min(n_items, start + max(1, entries // (n_items - start)))
        K = kernel_on(kernel, X[start:stop], X[start:], device, checked=False)
        out[start:stop] += K @ V[start:]
        out[stop:] += K[:, stop - start :].T @ V[start:stop]
        start = stop
    return out


def rough_product_on(
    kernel: Kernel, X: DeviceArray, device: Device
) -> Callable[[DeviceArray], DeviceArray] | None:
    """Return the product with ``k(X, X)`` in single precision; None where it is not quicker."""
    if kernel.name != "gaussian":
        return None
    left, right = _exponents_on(kernel, X, X, device)
    return lambda V: device.exp_product(left, right, V)


OTHER_NAMES = {"rbf": "gaussian", "poly": "polynomial"}
"""What other libraries call the kernels."""


def as_kernel(kernel: str | Kernel | Callable[[Any, Any], Any]) -> Kernel:
    """Return the kernel that a name, a kernel or a function stands for."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        if kernel in OTHER_NAMES:
            raise InvalidInputError(
                f"`kernel` must be one of {', '.join(map(repr, KERNELS))}: got {kernel!r}, which "
                f"is called {OTHER_NAMES[kernel]!r} here."
            )
        check_choice("kernel", kernel, tuple(KERNELS))
        return KERNELS[kernel]()
    if callable(kernel):
        return Custom(kernel)
    raise InvalidInputError(
        f"`kernel` must be a name, a kernel or a function of two sets of rows: got {kernel!r}."
    )


def refuse_sparse(X: Matrix, kernel: Kernel) -> None:
    """Refuse sparse rows where a kernel does not understand them."""
    if sparse.issparse(X) and not kernel.accepts_sparse:
        raise InvalidInputError(
            f"The kernel {kernel!r} must have dense rows: got a sparse X. "
            "Use X.toarray(), or a kernel that takes sparse rows."
        )


def _products(A: Matrix, B: Matrix) -> FloatArray:
    if sparse.issparse(A) or sparse.issparse(B):
        product = A @ B.T
        return product.toarray() if sparse.issparse(product) else np.asarray(product)
    return A @ B.T


def _squared_norms(A: Matrix) -> FloatArray:
    if sparse.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", A, A)


def _centred(A: Matrix, B: Matrix) -> tuple[Matrix, Matrix]:
    """Move both sets of rows, so that an offset costs no digits: dense ones by the mean of B.

    Of sparse rows only columns without zeros move: the others would become dense.
    """
    if sparse.issparse(A) or sparse.issparse(B):
        return _centred_sparse(A, B)
    shift = B.mean(axis=0, dtype=float)
    moved = A - shift
    return moved, moved if A is B else B - shift


def _centred_sparse(A: Matrix, B: Matrix) -> tuple[Matrix, Matrix]:
    same = A is B
    A = sparse.csr_array(A, dtype=float)
    B = A if same else sparse.csr_array(B, dtype=float)
    full = (A.count_nonzero(axis=0) == A.shape[0]) & (B.count_nonzero(axis=0) == B.shape[0])
    if not full.any():
        return A, B
    shift = np.where(full, np.asarray(B.mean(axis=0)).ravel(), 0.0)
    moved = _moved(A, shift)
    return moved, moved if same else _moved(B, shift)


def _moved(A: Any, shift: FloatArray) -> Any:
    """Subtract a shift from the stored entries of sparse rows."""
    values = A.data - shift[A.indices]
    return sparse.csr_array((values, A.indices, A.indptr), shape=A.shape)


def _squared_distances(A: Any, B: Any) -> FloatArray:
    """Return the squared distances of sparse rows from differences, in dense blocks."""
    used = np.union1d(A.indices, B.indices)
    A, B = A[:, used], B[:, used]
    size = max(1, DENSE_ENTRIES // max(len(used), 1))
    out = np.empty((A.shape[0], B.shape[0]))
    for j in range(0, B.shape[0], size):
        columns = B[j : j + size].toarray()
        for i in range(0, A.shape[0], size):
            out[i : i + size, j : j + size] = cdist(
                A[i : i + size].toarray(), columns, "sqeuclidean"
            )
    return out


def finite_kernel(kernel: Kernel, A: Matrix, B: Matrix) -> FloatArray:
    """Return the kernel of two sets of rows; refuse one beyond the range of double precision."""
    K = kernel(A, B)
    _refuse_overflow(kernel, is_finite=bool(np.isfinite(K).all()))
    return K


def _refuse_overflow(kernel: Kernel, *, is_finite: bool) -> None:
    if not is_finite:
        raise NumericalError(
            f"The kernel {kernel!r} must be finite: its values exceed the range of double "
            "precision. Scale the features, or lower its degree."
        )


def _check_gamma(gamma: object) -> None:
    if not isinstance(gamma, str) or gamma != "scale":
        check_positive("gamma", gamma, "Use a positive number or 'scale'.")


def _fit_gamma(gamma: Gamma, X: Matrix, sample_weight: FloatArray | None) -> float:
    if gamma != "scale":
        return float(gamma)
    if sample_weight is not None:
        variance = _weighted_variance(X, sample_weight)
    elif sparse.issparse(X):
        n_entries = X.shape[0] * X.shape[1]
        mean = float(np.sum(X.data, dtype=float)) / n_entries
        squares = float(np.sum((X.data.astype(float) - mean) ** 2))
        variance = (squares + (n_entries - X.nnz) * mean**2) / n_entries
    else:
        variance = float(np.var(X, dtype=float))
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0


def _weighted_variance(X: Matrix, weight: FloatArray) -> float:
    """Return the variance of all entries, those of a row counted by its weight."""
    share = weight / (weight.sum() * X.shape[1])
    sums = np.asarray(X.sum(axis=1), dtype=float).ravel()
    mean = float(share @ sums)
    if sparse.issparse(X):
        rows = sparse.csr_array(X)
        stored = sparse.csr_array(
            ((rows.data.astype(float) - mean) ** 2, rows.indices, rows.indptr), shape=rows.shape
        )
        n_zeros = rows.shape[1] - np.diff(rows.indptr)
        return float(share @ (stored.sum(axis=1) + n_zeros * mean**2))
    return float(share @ ((X - mean) ** 2).sum(axis=1))


def _number(gamma: Gamma) -> float:
    if isinstance(gamma, str):
        raise InvalidInputError(
            "gamma='scale' must be fitted before a kernel is called: use "
            "`kernel.fitted_to(X)` or give a number."
        )
    return gamma
