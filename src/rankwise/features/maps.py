"""Feature maps: explicit features Z with K ~ Z Z', and how weights on Z become predictions."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh, solve_triangular
from scipy.linalg.lapack import dpotrf

from rankwise.core.arrays import FloatArray, IntArray, Matrix, dense_rows
from rankwise.core.checks import as_floats
from rankwise.core.devices import Device, DeviceArray
from rankwise.core.errors import InvalidInputError
from rankwise.core.storable import storable
from rankwise.features.kernels import Kernel, finite_kernel, kernel_on

BLOCK_ROWS = 2048
"""Rows whose kernel values are formed together when predicting, at most."""

BLOCK_ENTRIES = 1 << 24
"""Kernel values that are formed together when predicting, at most."""

DEVICE_ENTRIES = 1 << 27
"""The same on a device: 1 GB."""

WELL_CONDITIONED = 1e-6
"""Smallest ratio of Cholesky pivots at which a kernel of basis rows is whitened by Cholesky."""

WHITENED_LATE = 1e6
"""Largest condition of a kernel of basis rows at which sums of squares are whitened, not rows.

Rounding errors grow by the condition: 1e-10 of the sums at most.
"""

RANK_TOLERANCE = 1e-12
"""Eigenvalues below this share of the largest carry rounding errors only."""


class FeatureMap(ABC):
    """Explicit features of rows, in which a ranking function is linear."""

    is_dual: ClassVar[bool] = False
    """Whether folded weights belong to rows (`dual_coef_`) rather than features (`coef_`)."""

    @property
    def expansion_rows(self) -> Matrix | None:
        """The rows whose kernel functions folded weights belong to, None for features."""
        return None

    @property
    def expansion_kernel(self) -> Kernel | None:
        """The kernel of these rows, None for features."""
        return None

    @abstractmethod
    def map(self, X: Matrix) -> Matrix:
        """Return the features Z of rows X."""

    @abstractmethod
    def map_on(self, X: DeviceArray, device: Device) -> DeviceArray:
        """Return the features Z of rows X on a device."""

    @abstractmethod
    def raw_on(self, X: DeviceArray, device: Device) -> tuple[DeviceArray, DeviceArray | None]:
        """Return features F on a device, which may be overwritten, and C with ``Z = F C^-T``.

        C is lower triangular; None where F is Z, as whitening F'F in place of F would lose digits.
        """

    @abstractmethod
    def fold(self, W: FloatArray) -> FloatArray:
        """Turn weights on Z into weights that `product` takes."""

    @abstractmethod
    def product(self, X: Matrix, weights: FloatArray) -> FloatArray:
        """Return the scores of rows X from folded weights: one product."""

    @abstractmethod
    def product_on(self, X: DeviceArray, weights: DeviceArray, device: Device) -> DeviceArray:
        """Return the same on a device."""


@storable
@final
@dataclass(frozen=True)
class Identity(FeatureMap):
    """The rows themselves: the primal form of a linear ranking function."""

    def map(self, X: Matrix) -> Matrix:
        """Return X as it is, without a copy."""
        return X

    def map_on(self, X: DeviceArray, device: Device) -> DeviceArray:  # noqa: ARG002
        """Return X as it is."""
        return X

    def raw_on(self, X: DeviceArray, device: Device) -> tuple[DeviceArray, DeviceArray | None]:  # noqa: ARG002
        """Return a copy of X."""
        return X.clone(), None

    def fold(self, W: FloatArray) -> FloatArray:
        """Return the weights as they are."""
        return W

    def product(self, X: Matrix, weights: FloatArray) -> FloatArray:
        """Return ``X @ weights``."""
        return X @ weights  # [PTAB07] eq. (10), [PTA09] eq. (27)

    def product_on(self, X: DeviceArray, weights: DeviceArray, device: Device) -> DeviceArray:  # noqa: ARG002
        """Return ``X @ weights`` on a device."""
        return X @ weights


@storable
@final
@dataclass(frozen=True, eq=False)
class Expansion(FeatureMap):
    """The full kernel: scores are ``k(X, rows) @ weights``, one weight per training row.

    Notes
    -----
    [PTAB07] (2); [PTA09] (6) to (8), with the norm (9).
    """

    kernel: Kernel
    rows: Matrix
    is_dual: ClassVar[bool] = True

    @property
    def expansion_rows(self) -> Matrix | None:
        """The rows."""
        return self.rows

    @property
    def expansion_kernel(self) -> Kernel | None:
        """The kernel."""
        return self.kernel

    def map(self, X: Matrix) -> Matrix:
        """Return the kernel of X with every row."""
        return self.kernel(X, self.rows)  # [PTA09] eq. (7)

    def map_on(self, X: DeviceArray, device: Device) -> DeviceArray:
        """Return the kernel of X with every row, on a device."""
        return kernel_on(self.kernel, X, device.array(dense_rows(self.rows)), device)

    def raw_on(self, X: DeviceArray, device: Device) -> tuple[DeviceArray, DeviceArray | None]:
        """Return the kernel of X with every row, on a device."""
        return self.map_on(X, device), None

    def fold(self, W: FloatArray) -> FloatArray:
        """Return the weights as they are."""
        return W

    def product(self, X: Matrix, weights: FloatArray) -> FloatArray:
        """Return ``k(X, rows) @ weights``, a block of rows at a time."""
        n_rows = max(1, min(BLOCK_ROWS, BLOCK_ENTRIES // max(1, self.rows.shape[0])))
        parts = [  # [PTAB07] eq. (2), [PTA09] eq. (6), (8)
            self.kernel(X[start : start + n_rows], self.rows) @ weights
            for start in range(0, X.shape[0], n_rows)
        ]
        return np.concatenate(parts) if parts else np.zeros((0, *weights.shape[1:]))

    def product_on(self, X: DeviceArray, weights: DeviceArray, device: Device) -> DeviceArray:
        """Return ``k(X, rows) @ weights`` on a device, a block of rows at a time."""
        rows = device.array(dense_rows(self.rows))
        n_rows = max(1, DEVICE_ENTRIES // len(rows))
        parts = [
            kernel_on(self.kernel, X[start : start + n_rows], rows, device) @ weights
            for start in range(0, len(X), n_rows)
        ]
        return device.concatenate(parts)


@final
@dataclass(frozen=True, eq=False)
class Basis(FeatureMap):
    r"""The subset of regressors: features spanned by the kernel functions of chosen basis rows.

    With :math:`K_{RR} = C C^\top` the features are :math:`Z = K_{XR} C^{-\top}`, so that
    :math:`|w|^2` is the norm of the ranking function, as in the full problem.

    Notes
    -----
    [PTA09] Sect. 3.5: functions (40), in whose features (28) is (41) and (42) is (31).
    """

    expansion: Expansion
    whitening: DeviceArray
    is_triangular: bool
    device: Device | None = None
    """Where the whitening is, None for here."""
    is_dual: ClassVar[bool] = True

    @classmethod
    def of(cls, kernel: Kernel, rows: Matrix, device: Device | None = None) -> Self:
        """Build from a kernel and basis rows, which may be nearly dependent.

        On a device their kernel is factored there.
        """
        expansion = Expansion(kernel, rows)
        if device is not None:
            return cls._of_device(expansion, device)
        K = finite_kernel(kernel, rows, rows)
        C, info = dpotrf(K.T, lower=True, clean=True)
        pivots = np.diagonal(C)
        if info != 0 or pivots.min() < WELL_CONDITIONED * pivots.max():
            return cls(expansion, _eigen_whitening(K), is_triangular=False)
        return cls(expansion, C, is_triangular=True)

    @classmethod
    def _of_device(cls, expansion: Expansion, device: Device) -> Self:
        rows = device.array(dense_rows(expansion.rows))
        K = kernel_on(expansion.kernel, rows, rows, device)
        C = device.factor(K)
        pivots = np.zeros(1) if C is None else device.host(C.diagonal())
        if C is None or pivots.min() < WELL_CONDITIONED * pivots.max():
            whitening = device.array(_eigen_whitening(device.host(K)))
            return cls(expansion, whitening, is_triangular=False, device=device)
        return cls(expansion, C, is_triangular=True, device=device)

    @cached_property
    def _whitening_here(self) -> FloatArray:
        return self.whitening if self.device is None else self.device.host(self.whitening)

    def _whitening_on(self, device: Device) -> DeviceArray:
        return self.whitening if self.device is not None else device.array(self.whitening)

    def map(self, X: Matrix) -> Matrix:
        """Return Z."""
        K = self.expansion.map(X)  # [PTA09] eq. (41), (42), in features of norm (9)
        if self.is_triangular:
            return solve_triangular(self._whitening_here, K.T, lower=True, overwrite_b=True).T
        return K @ self._whitening_here

    def map_on(self, X: DeviceArray, device: Device) -> DeviceArray:
        """Return Z on a device."""
        K, whitening = self.expansion.map_on(X, device), self._whitening_on(device)
        if self.is_triangular:
            return device.solve_rows(whitening, K)
        return K @ whitening

    def raw_on(self, X: DeviceArray, device: Device) -> tuple[DeviceArray, DeviceArray | None]:
        """Return the kernel of X with the basis rows and C, if few digits are lost that way."""
        whitening = self._whitening_on(device)
        if not self.is_triangular or _condition(whitening, device) > WHITENED_LATE:
            return self.map_on(X, device), None
        return self.expansion.map_on(X, device), whitening

    def own_features(self) -> FloatArray:
        """Return Z of the basis rows themselves, at no cost: the empirical kernel map."""
        whitening = self._whitening_here
        if self.is_triangular:
            return whitening  # Z = K C^-T = C
        return whitening / np.square(whitening).sum(axis=0)  # V / sqrt(s) to V sqrt(s)

    def fold(self, W: FloatArray) -> FloatArray:
        """Return one weight per basis row."""
        if not self.is_triangular:
            return self._whitening_here @ W
        if self.device is None:
            return solve_triangular(self.whitening, W, lower=True, trans="T")
        return self.device.host(self.device.solve_transposed(self.whitening, self.device.array(W)))

    def product(self, X: Matrix, weights: FloatArray) -> FloatArray:
        """Return ``k(X, basis) @ weights``."""
        return self.expansion.product(X, weights)  # [PTA09] eq. (40)

    def product_on(self, X: DeviceArray, weights: DeviceArray, device: Device) -> DeviceArray:
        """Return ``k(X, basis) @ weights`` on a device."""
        return self.expansion.product_on(X, weights, device)


def _condition(C: DeviceArray, device: Device) -> float:
    """Return a bound on the condition number of ``C C'``, C lower triangular."""
    inverse = device.invert_triangle(C.clone())
    K, inverted = C @ C.T, inverse.T @ inverse
    return float((K * K).sum() ** 0.5 * (inverted * inverted).sum() ** 0.5)


def _eigen_whitening(K: FloatArray) -> FloatArray:
    values, vectors = eigh(K)
    if values[0] < -1e-8 * values[-1]:
        raise InvalidInputError(
            "The kernel must be positive semidefinite: its smallest eigenvalue on the basis rows "
            f"is {values[0]:.3g}, the largest {values[-1]:.3g}. Use a valid kernel."
        )
    kept = values > RANK_TOLERANCE * values[-1]
    return vectors[:, kept] / np.sqrt(values[kept])


def choose_basis(
    basis: int | ArrayLike | None, X: Matrix, rng: np.random.Generator
) -> Matrix | None:
    """Return basis rows given as a number of random rows, as indices, or as rows themselves.

    None, no basis, stays None.
    """
    if basis is None:
        return None
    n_items = X.shape[0]
    if isinstance(basis, int | np.integer) and not isinstance(basis, bool):
        if not 1 <= basis <= n_items:
            raise InvalidInputError(
                f"`basis` as a number must lie between 1 and the {n_items} rows of `X`: "
                f"got {basis}."
            )
        return X[np.sort(rng.choice(n_items, int(basis), replace=False))]
    try:
        chosen = np.asarray(basis)
    except ValueError as error:
        raise InvalidInputError(f"`basis` must be a table of numbers: {error}.") from error
    if chosen.ndim == 1 and chosen.dtype.kind in "iu":
        return X[_checked_indices(chosen, n_items)]
    if chosen.ndim == 2 and chosen.shape[1] == X.shape[1] and len(chosen) > 0:
        return as_floats("basis", chosen)
    raise InvalidInputError(
        "`basis` must be a number of rows, row indices, or at least one row with as many columns "
        f"as `X` ({X.shape[1]}): got an array of shape {chosen.shape} and dtype {chosen.dtype}."
    )


def _checked_indices(chosen: IntArray, n_items: int) -> IntArray:
    if len(chosen) == 0 or chosen.min() < 0 or chosen.max() >= n_items:
        raise InvalidInputError(
            f"`basis` as indices must name at least one row and only rows 0 to {n_items - 1}."
        )
    return np.unique(chosen)
