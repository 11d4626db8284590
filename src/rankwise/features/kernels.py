"""Kernels: frozen values that are called as ``k(A, B)``, with rows of any namespace."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, TypeVar, final

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from rankwise.core.arrays import FloatArray, Matrix, dense_rows
from rankwise.core.errors import InvalidInputError, NumericalError
from rankwise.core.fused import exact_exp_product, exp_product
from rankwise.core.namespaces import (
    Array,
    blocks_of,
    city_block,
    column_means,
    copy_of,
    exp_in_place,
    is_finite,
    is_on_host,
    like,
    namespace_of,
    set_diagonal,
    squared_norms,
    to_host,
)
from rankwise.core.params import (
    Advice,
    AtLeast,
    AtMost,
    Positive,
    Reads,
    check_values,
    choice,
    settle,
)
from rankwise.core.storable import storable
from rankwise.core.threads import WORK_PER_THREAD, in_threads, n_threads, serial_blas
from rankwise.native.gaussians import gaussian_scores

Gamma: TypeAlias = (
    Annotated[float, Positive(), Advice("Use a positive number or 'scale'.")] | Literal["scale"]
)
"""The inverse of a squared width, or one that depends on the data."""

ProductTerms: TypeAlias = list[tuple[float, FloatArray]]
"""A sum of products over features: a factor, and for each row the factors of its features."""

INNER_PRODUCT = "With a negative one the kernel is not an inner product."

EXP_ROWS = 64
"""Rows whose exponentials are taken together, so that they stay in cache."""

FEW_ROWS = 64
"""Rows whose Gaussian kernels are formed and added up in one pass, before BLAS would thread."""

EPS = float(np.finfo(float).eps)

LOST = 1e-10
"""Largest error of an exponent that computing distances from products may make."""

DENSE_ENTRIES = 1 << 22
"""Entries of sparse rows that are made dense together."""

TILE = 512
"""Rows and columns of a block of a product, which one thread forms and which stays in cache."""

DEVICE_TILE = 1 << 14
"""The same on a device: a block of two gigabytes."""


KERNELS: dict[str, "type[Kernel]"] = {}
"""The kernels that can be chosen by name."""


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
    """What ``kernel="..."`` calls it, if it is `chosen_by_name`."""

    accepts_sparse: ClassVar[bool] = True
    """Whether sparse rows are understood."""

    is_trusted: ClassVar[bool] = True
    """Whether positive semidefinite by construction; other kernels are checked when fitted."""

    is_linear: ClassVar[bool] = False
    """Whether the rows themselves are its features."""

    is_function: ClassVar[bool] = True
    """Whether it can be computed between any two rows."""

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


KernelT = TypeVar("KernelT", bound=type[Kernel])


def chosen_by_name(cls: KernelT) -> KernelT:
    """Let ``kernel="..."`` choose this class by its ``name``."""
    assert cls.name is not None
    KERNELS[cls.name] = cls
    return cls


@chosen_by_name
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
        return squared_norms(A)

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:  # noqa: ARG002
        """Return itself: there is nothing to fit."""
        return self


@chosen_by_name
@storable
@final
@dataclass(frozen=True)
class Gaussian(Kernel):
    r"""The Gaussian kernel :math:`\exp(-\gamma |a - b|^2)`.

    Parameters
    ----------
    gamma : float or "scale"
        Inverse squared width. "scale" means 1 / (n_features * variance of X), as in scikit-learn;
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
        settle(self)

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix: one product, then the exponential in place."""
        gamma = _number(self.gamma)
        same = A is B
        if not is_on_host(A):  # a pass over K takes a device longer than two more features
            K = GaussianOfRows.of(gamma, B)(A)
            if same:
                set_diagonal(K, 1.0)
            return K
        A, B = _centred(A, B)
        a = gamma * squared_norms(A)
        b = a if same else gamma * squared_norms(B)
        if sparse.issparse(A) and EPS * (a.max(initial=0.0) + b.max(initial=0.0)) > LOST:
            return np.exp(-gamma * _squared_distances(A, B))
        K = _products(A, B)
        _finish_gaussian(K, gamma, a, b, same=same)
        return K

    def with_rows(self, B: Matrix) -> Callable[[Matrix], FloatArray]:
        """Return the kernel with rows whose centre and norms are computed once."""
        if sparse.issparse(B):
            return lambda A: self(A, B)
        return GaussianOfRows.of(_number(self.gamma), B)

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return ones."""
        return _ones(A)

    def products(self, row: FloatArray, rows: FloatArray) -> ProductTerms:
        """Return the one product of exponentials."""
        return [(1.0, np.exp(-_number(self.gamma) * np.square(rows - row)))]

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:
        """Return this kernel with a numeric gamma."""
        return replace(self, gamma=_fit_gamma(self.gamma, X, sample_weight))


def gaussian_of_centred(gamma: float, A: FloatArray, B: FloatArray) -> FloatArray:
    """Return the Gaussian kernel of dense rows of the host whose mean is near 0."""
    K, b = A @ B.T, gamma * squared_norms(B)
    _finish_gaussian(K, gamma, b if A is B else gamma * squared_norms(A), b, same=A is B)
    return K


def _finish_gaussian(
    K: FloatArray, gamma: float, a: FloatArray, b: FloatArray, *, same: bool
) -> None:
    """Turn inner products into Gaussians in place, given the squared norms times gamma."""

    def finish(rows: slice) -> None:
        block = K[rows, :]
        block *= 2 * gamma
        block -= a[rows, None]
        block -= b
        exp_in_place(block)

    _by_few_rows(finish, K)
    if same:
        np.fill_diagonal(K, 1.0)


def are_contiguous_doubles(X: Matrix, weights: FloatArray) -> bool:
    """Return whether rows and the weights of a single output are as kernels take them."""
    return (
        type(X) is np.ndarray
        and weights.ndim == 1
        and X.dtype == weights.dtype == np.float64
        and X.flags.c_contiguous
        and weights.flags.c_contiguous
    )


@final
@dataclass(frozen=True, eq=False)
class GaussianOfRows:
    """The Gaussian kernel with given rows: its exponents are one product of two matrices.

    Parameters
    ----------
    gamma : float
    rows : (n_rows, n_features)
        The rows given.
    shift : (n_features,)
        The centre of the rows, which is taken off all rows, so that an offset costs no digits.
    factors : (n_features + 2, n_rows)
        What moved rows, their squared norms and 1 are multiplied with.
    """

    gamma: float
    rows: Array
    shift: Array
    factors: Array

    @classmethod
    def of(cls, gamma: float, B: Array) -> Self:
        """Build from dense rows."""
        shift = column_means(B)
        factors = _empty((B.shape[1] + 2, B.shape[0]), B)
        moved = factors[:-2, :]
        moved[...] = B.T
        moved -= shift[:, None]
        factors[-2, :], factors[-1, :] = -gamma, -gamma * squared_norms(moved.T)
        moved *= 2 * gamma
        return cls(gamma, B, shift, factors)

    def left(self, A: Array) -> Array:
        """Return what the factors are multiplied with: moved rows, their squared norms, and 1."""
        left = _empty((A.shape[0], self.factors.shape[0]), A)
        moved = A - self.shift
        left[:, :-2], left[:, -2], left[:, -1] = moved, squared_norms(moved), 1.0
        return left

    def __call__(self, A: Array) -> Array:
        """Return the kernel of every row of A with every given row."""
        if sparse.issparse(A):
            return Gaussian(self.gamma)(A, self.rows)
        K = self.left(A) @ self.factors
        _by_few_rows(lambda rows: exp_in_place(K[rows, :]), K)
        return K

    def scores_of_few(self, A: Matrix, weights: FloatArray) -> FloatArray | None:
        """Return the kernel of A times weights, None for other than a few rows of doubles.

        It takes less than half the time of BLAS and NumPy, and equal rows get equal scores.
        """
        if not are_contiguous_doubles(A, weights) or not 0 < A.size <= FEW_ROWS * A.shape[1]:
            return None
        if not are_contiguous_doubles(self.factors, self.shift):
            return None
        scores = np.empty(len(A))
        gaussian_scores(A, self.shift, self.factors, weights, scores)
        return scores


def _by_few_rows(finish: Callable[[slice], None], K: Array) -> None:
    """Call ``finish`` for all rows of a kernel matrix, in threads by blocks that stay in cache.

    Elsewhere than on the host for all at once.
    """
    if not isinstance(K, np.ndarray) or K.size <= WORK_PER_THREAD:
        finish(slice(None))
        return
    n_parts = -(-len(K) // EXP_ROWS)
    in_threads(lambda k: finish(slice(k * EXP_ROWS, (k + 1) * EXP_ROWS)), n_parts)


@chosen_by_name
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
        settle(self)

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix from city-block distances."""
        K = city_block(A, B)
        K *= -_number(self.gamma)
        return exp_in_place(K)

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return ones."""
        return _ones(A)

    def products(self, row: FloatArray, rows: FloatArray) -> ProductTerms:
        """Return the one product of exponentials."""
        return [(1.0, np.exp(-_number(self.gamma) * np.abs(rows - row)))]

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:
        """Return this kernel with a numeric gamma."""
        if self.gamma != "scale":
            return self
        squared = _fit_gamma("scale", X, sample_weight)
        return replace(self, gamma=float(np.sqrt(squared / X.shape[1])))


@chosen_by_name
@storable
@final
@dataclass(frozen=True)
class Polynomial(Kernel):
    r"""The polynomial kernel :math:`(\gamma \, a \cdot b + c)^d`.

    Parameters
    ----------
    degree : int
        The degree d, at least 1.
    gamma : float or "scale"
        Factor of the inner product; "scale" means 1 / (n_features * variance of X).
    coef0 : float
        The constant c, not negative.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import Polynomial
    >>> Polynomial(degree=2, gamma=1.0, coef0=1.0)(np.array([[1.0]]), np.array([[2.0]]))
    array([[9.]])
    """

    name = "polynomial"

    degree: Annotated[int, AtLeast(1), AtMost(2**31), Advice("Usual degrees are 2 to 5.")] = 3
    gamma: Gamma = "scale"
    coef0: Annotated[float, AtLeast(0), Advice(INNER_PRODUCT)] = 1.0

    def __post_init__(self) -> None:
        settle(self)

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix: one product, then the power in place."""
        return self._power(_products(A, B))

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the kernel of every row with itself."""
        return self._power(squared_norms(A))

    def _power(self, products: Array) -> Array:
        products *= _number(self.gamma)
        products += self.coef0
        with np.errstate(over="ignore"):  # `finite_kernel` refuses it
            products **= int(self.degree)
        return products

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:
        """Return this kernel with a numeric gamma."""
        return replace(self, gamma=_fit_gamma(self.gamma, X, sample_weight))


@chosen_by_name
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
        return copy_of(A)

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the diagonal of the square training kernel."""
        xp = namespace_of(A)
        return xp.asarray(xp.linalg.diagonal(A), dtype=xp.float64, copy=True)

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


ANY_NAMESPACE = (Linear, Gaussian, Laplacian, Polynomial, Precomputed)
"""Kernels of rows of any namespace; others are computed by NumPy."""


def kernel_matrix(kernel: Kernel, A: Matrix, B: Matrix) -> Array:
    """Return the kernel of two sets of rows where they are; kernels of NumPy alone, by the host."""
    if is_on_host(A) or isinstance(kernel, ANY_NAMESPACE):
        return kernel(A, B)
    rows = to_host(A)
    return like(kernel(rows, rows if A is B else to_host(B)), A)


def kernel_with_rows(kernel: Kernel, B: Matrix) -> Callable[[Matrix], Array]:
    """Return the kernel of any rows with those of B, both in one place."""
    if is_on_host(B) or isinstance(kernel, ANY_NAMESPACE):
        return kernel.with_rows(B)
    return lambda A: kernel_matrix(kernel, A, B)


def own_product(kernel: Kernel, X: Matrix, V: Array, tile: int | None = None) -> Array:
    """Return ``k(X, X) @ V``; half of the blocks are formed, the others are their transposes.

    Each thread adds up its own blocks in a fixed order, so that the result depends on the number
    of threads only, by rounding errors. Elsewhere than on the host there is one thread, and a GPU
    forms the Gaussian kernel in its registers.

    Parameters
    ----------
    kernel : Kernel
        A kernel of any two rows.
    X : (n_items, n_features)
        The rows.
    V : (n_items, k)
        The vectors.
    tile : int, optional
        Rows and columns of a block; by default as many as serve where X is.
    """
    on_host = is_on_host(X)
    if not on_host and isinstance(kernel, Gaussian):
        fused = exact_exp_product(*_exponent_factors(kernel, X), V)
        if fused is not None:
            return fused
    tile = tile or (TILE if on_host else DEVICE_TILE)
    edges = list(blocks_of(X.shape[0], tile))
    rows = [X[edge, :] for edge in edges]
    n_parts = max(1, min(n_threads(), len(rows) // 2)) if on_host else 1
    sums = [namespace_of(V).zeros_like(V) for _ in range(n_parts)]

    def add(out: Array, i: int) -> None:
        out[edges[i], :] += kernel_matrix(kernel, rows[i], rows[i]) @ V[edges[i], :]
        for j in range(i + 1, len(rows)):
            K = kernel_matrix(kernel, rows[i], rows[j])
            out[edges[i], :] += K @ V[edges[j], :]
            out[edges[j], :] += K.T @ V[edges[i], :]

    def task(part: int) -> None:
        for i in _shares(len(rows), n_parts)[part]:
            add(sums[part], i)

    with serial_blas():
        in_threads(task, n_parts)
    return sum(sums[1:], start=sums[0])


def _shares(n_rows: int, n_parts: int) -> list[list[int]]:
    """Deal rows of blocks, of which later ones are shorter, so that parts have equal work."""
    shares: list[list[int]] = [[] for _ in range(n_parts)]
    for i in range(n_rows):
        turn, place = divmod(i, n_parts)
        shares[place if turn % 2 == 0 else n_parts - 1 - place].append(i)
    return shares


def single_product(kernel: Kernel, X: Matrix) -> Callable[[Array], Array] | None:
    """Return the product with ``k(X, X)`` in single precision; None where it is not quicker."""
    if is_on_host(X) or not isinstance(kernel, Gaussian):
        return None
    left, right = _exponent_factors(kernel, X)
    return lambda V: exp_product(left, right, V)


def _exponent_factors(kernel: Gaussian, X: Array) -> tuple[Array, Array]:
    """Return A and B, of which ``A B'`` are the exponents of the kernel of all rows."""
    held = GaussianOfRows.of(_number(kernel.gamma), X)
    return held.left(X), held.factors.T


def is_precomputed(kernel: Any) -> bool:
    """Return whether X is the kernel matrix itself."""
    named = isinstance(kernel, str) and kernel == Precomputed.name
    return named or isinstance(kernel, Precomputed)


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
        check_values({"kernel": choice(tuple(KERNELS))}, {"kernel": kernel})
        return KERNELS[kernel]()
    if callable(kernel):
        return Custom(kernel)
    raise InvalidInputError(
        f"`kernel` must be a name, a kernel or a function of two sets of rows: got {kernel!r}."
    )


KernelLike: TypeAlias = Annotated[
    str | Kernel | Callable[[Any, Any], Any], Reads(as_kernel, "a kernel or a function", KERNELS)
]
"""A kernel by name or value, or a function of two sets of rows."""


def refuse_sparse(X: Matrix, kernel: Kernel) -> None:
    """Refuse sparse rows where a kernel does not understand them."""
    if sparse.issparse(X) and not kernel.accepts_sparse:
        raise InvalidInputError(
            f"The kernel {kernel!r} must have dense rows: got a sparse X. "
            "Use X.toarray(), or a kernel that takes sparse rows."
        )


def _products(A: Matrix, B: Matrix) -> Array:
    if sparse.issparse(A) or sparse.issparse(B):
        product = A @ B.T
        return product.toarray() if sparse.issparse(product) else np.asarray(product)
    return A @ B.T


def _empty(shape: tuple[int, int], like_rows: Array) -> Array:
    """Return a matrix of double precision to be filled, where rows are."""
    if isinstance(like_rows, np.ndarray):
        return np.empty(shape)
    xp = namespace_of(like_rows)
    return xp.empty(shape, dtype=xp.float64, device=like_rows.device)


def _ones(A: Matrix) -> Array:
    """Return a one for each row, where the rows are."""
    if is_on_host(A):
        return np.ones(A.shape[0])
    xp = namespace_of(A)
    return xp.ones(A.shape[0], dtype=xp.float64, device=A.device)


def _centred(A: Matrix, B: Matrix) -> tuple[Matrix, Matrix]:
    """Move both sets of rows, so that an offset costs no digits: dense ones by the mean of B.

    Of sparse rows only columns without zeros move: the others would become dense.
    """
    if sparse.issparse(A) or sparse.issparse(B):
        return _centred_sparse(A, B)
    shift = column_means(B)
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


def finite_kernel(kernel: Kernel, A: Matrix, B: Matrix) -> Array:
    """Return the kernel of two sets of rows; refuse one beyond the range of double precision."""
    K = kernel_matrix(kernel, A, B)
    if not is_finite(K):
        raise NumericalError(
            f"The kernel {kernel!r} must be finite: its values exceed the range of double "
            "precision. Scale the features, or lower its degree."
        )
    return K


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
