"""Kernels: frozen values that are called as ``k(A, B)``."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self, TypeAlias, final

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist

from rankwise.core.arrays import FloatArray, Matrix, dense_rows
from rankwise.core.checks import check_choice, check_positive
from rankwise.core.errors import InvalidInputError
from rankwise.core.storable import storable

Gamma: TypeAlias = float | Literal["scale"]

EXP_ROWS = 64
"""Rows whose exponentials are taken together, so that they stay in cache."""


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
    def fitted_to(self, X: Matrix) -> Self:
        """Return this kernel with parameters that depend on the data replaced by numbers."""


@storable
@final
@dataclass(frozen=True)
class Linear(Kernel):
    """The inner product of two rows itself.

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

    def fitted_to(self, X: Matrix) -> Self:  # noqa: ARG002
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
        Inverse squared width; "scale" means 1 / (n_features * variance of X), as in scikit-learn.

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
        K = _products(A, B)
        a, b = gamma * _squared_norms(A), gamma * _squared_norms(B)
        for start in range(0, len(K), EXP_ROWS):
            block = K[start : start + EXP_ROWS]
            block *= 2 * gamma
            block -= a[start : start + EXP_ROWS, None]
            block -= b
            np.minimum(block, 0.0, out=block)
            np.exp(block, out=block)
        if same:
            np.fill_diagonal(K, 1.0)
        return K

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return ones."""
        return np.ones(A.shape[0])

    def fitted_to(self, X: Matrix) -> Self:
        """Return this kernel with a numeric gamma."""
        return replace(self, gamma=_fit_gamma(self.gamma, X))


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

    def fitted_to(self, X: Matrix) -> Self:
        """Return this kernel with a numeric gamma."""
        if self.gamma != "scale":
            return self
        squared = _fit_gamma("scale", X)
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
        if not (np.isfinite(self.coef0) and self.coef0 >= 0):
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
        return np.power(products, self.degree, out=products)

    def fitted_to(self, X: Matrix) -> Self:
        """Return this kernel with a numeric gamma."""
        return replace(self, gamma=_fit_gamma(self.gamma, X))


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

    def fitted_to(self, X: Matrix) -> Self:  # noqa: ARG002
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

    def fitted_to(self, X: Matrix) -> Self:  # noqa: ARG002
        """Return itself: there is nothing to fit."""
        return self


def as_kernel(kernel: str | Kernel | Callable[[Any, Any], Any]) -> Kernel:
    """Return the kernel that a name, a kernel or a function stands for."""
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
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
    """Move both sets of dense rows by the mean of B, so that an offset costs no digits."""
    if sparse.issparse(A) or sparse.issparse(B):
        return A, B
    shift = B.mean(axis=0, dtype=float)
    moved = A - shift
    return moved, moved if A is B else B - shift


def _check_gamma(gamma: object) -> None:
    if gamma != "scale":
        check_positive("gamma", gamma, "Use a positive number or 'scale'.")


def _fit_gamma(gamma: Gamma, X: Matrix) -> float:
    if gamma != "scale":
        return float(gamma)
    if sparse.issparse(X):
        variance = float(X.multiply(X).mean() - X.mean() ** 2)
    else:
        variance = float(np.var(X, dtype=float))
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0


def _number(gamma: Gamma) -> float:
    if isinstance(gamma, str):
        raise InvalidInputError(
            "gamma='scale' must be fitted before a kernel is called: use "
            "`kernel.fitted_to(X)` or give a number."
        )
    return gamma
