"""Kernels with parameters to learn: the covariance functions of Gaussian processes."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias, final

import numpy as np
from scipy.spatial.distance import cdist

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.errors import InvalidInputError
from rankwise.core.validation import check_choice, check_positive
from rankwise.features.kernels import Gaussian, Kernel

LengthScale: TypeAlias = float | tuple[float, ...] | Literal["one", "per_feature"]

AMPLITUDE_RANGE = (0.05, 30.0)
LENGTH_SCALE_RANGE = (0.01, 100.0)
"""Default bounds, as multiples of where the search starts."""

NEIGHBOUR_ROWS = 500
"""Rows whose nearest neighbours are looked for."""

ROWS_AT_ONCE = 64
"""Rows of which only the diagonal of a kernel block is wanted."""


class ParametricKernel(Kernel):
    """A kernel whose parameters are learnt, as the logarithms ``theta``.

    A gradient is never an array of matrices: `contract` sums it against a given matrix.
    """

    accepts_sparse = False

    @property
    @abstractmethod
    def theta(self) -> FloatArray:
        """The logarithms of the parameters."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """The name of the parameter behind each entry of ``theta``."""

    @abstractmethod
    def bounds_on(self, X: FloatArray) -> FloatArray:
        """Where to look for the ``theta`` of rows X from here on: (n_parameters, 2)."""

    @abstractmethod
    def with_theta(self, theta: FloatArray) -> Self:
        """Return the same kernel with other parameters."""

    @abstractmethod
    def contract(self, A: FloatArray, B: FloatArray, M: FloatArray) -> FloatArray:
        """Return the derivative of ``sum(M * k(A, B))`` in ``theta``."""

    @abstractmethod
    def spread(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return k(a, a) + k(b, b) - 2 k(a, b), row by row: the variance of f(a) - f(b)."""

    @abstractmethod
    def contract_spread(self, A: FloatArray, B: FloatArray, g: FloatArray) -> FloatArray:
        """Return the derivative of ``g @ spread(A, B)`` in ``theta``."""


@final
@dataclass(frozen=True)
class SquaredExponential(ParametricKernel):
    r"""The kernel :math:`s^2 \exp(-\frac12 \sum_k (a_k - b_k)^2 / \ell_k^2)`, for dense rows.

    Parameters
    ----------
    amplitude : float
        s: how far scores spread, in units of the noise of an answer.
    length_scale : float, tuple of floats, "one" or "per_feature"
        :math:`\ell`: how far apart items are before their scores have little to do with each
        other. A tuple has one entry per feature, and features that do not matter get a large one.
        The words leave the numbers to the data: "one" for all features together starts at the root
        of their summed variances, "per_feature" at the deviation of each times
        :math:`\sqrt{\text{n\_features}}`.

    Examples
    --------
    >>> import numpy as np
    >>> from rankwise import SquaredExponential
    >>> kernel = SquaredExponential(amplitude=2.0, length_scale=(1.0, 10.0))
    >>> kernel(np.zeros((1, 2)), np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])).round(2)
    array([[4.  , 2.43, 3.98]])
    """

    amplitude: float = 1.0
    length_scale: LengthScale = "one"

    def __post_init__(self) -> None:
        check_positive("amplitude", self.amplitude, "It is a standard deviation.")
        if isinstance(self.length_scale, str):
            check_choice("length_scale", self.length_scale, ("one", "per_feature"))
            return
        for value in np.ravel(self.length_scale):
            check_positive("length_scale", value, "Or use 'one' or 'per_feature'.")
        if np.ndim(self.length_scale) > 0:  # a list or an array: a frozen value holds a tuple
            object.__setattr__(self, "length_scale", tuple(np.ravel(self.length_scale).tolist()))

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix."""
        scaled = self._scaled(A)
        K = Gaussian(0.5)(scaled, scaled if A is B else self._scaled(B))
        K *= self.amplitude**2
        return K

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the squared amplitude."""
        return np.full(A.shape[0], self.amplitude**2)

    def fitted_to(self, X: Matrix) -> Self:
        """Return this kernel with numbers for its length-scales."""
        if not isinstance(self.length_scale, str):
            return self
        variance = np.var(X, axis=0)
        if self.length_scale == "one":
            total = float(np.sqrt(variance.sum()))
            return replace(self, length_scale=total or 1.0)
        scale = np.sqrt(len(variance) * np.where(variance > 0.0, variance, 1.0))
        return replace(self, length_scale=tuple(scale.tolist()))

    @property
    def theta(self) -> FloatArray:
        """The logarithms of amplitude and length-scales."""
        return np.log(np.append(self.amplitude, self._lengths))

    @property
    def names(self) -> tuple[str, ...]:
        """The amplitude, then as many length-scales as there are."""
        return ("amplitude",) + ("length_scale",) * self._lengths.size

    def bounds_on(self, X: FloatArray) -> FloatArray:
        """Return fixed multiples of the parameters.

        A common length-scale is at least half the usual distance of a row to the next one: below
        that, all scores are independent and the evidence is a plateau.
        """
        ranges = [AMPLITUDE_RANGE] + [LENGTH_SCALE_RANGE] * self._lengths.size
        bounds = self.theta[:, None] + np.log(ranges)
        if self._lengths.size == 1:
            shortest = np.log(0.5 * neighbour_distance(X))
            bounds[1, 0] = max(bounds[1, 0], min(shortest, self.theta[1]))
        return bounds

    def with_theta(self, theta: FloatArray) -> Self:
        """Return this kernel with other parameters."""
        amplitude, *lengths = np.exp(theta).tolist()
        one = isinstance(self.length_scale, int | float)
        return type(self)(amplitude, lengths[0] if one else tuple(lengths))

    def contract(self, A: FloatArray, B: FloatArray, M: FloatArray) -> FloatArray:
        """Return the derivative of ``sum(M * k(A, B))``. O(n_rows^2 n_features), no third axis."""
        P = self(A, B)
        P *= M
        shift = B.mean(axis=0)  # distances stay, digits are won
        a, b = self._scaled(A - shift), self._scaled(B - shift)
        squares = P.sum(axis=1) @ a**2 + P.sum(axis=0) @ b**2
        return self._gathered(2.0 * P.sum(), squares - 2.0 * np.sum(a * (P @ b), axis=0))

    def spread(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return the variance of f(a) - f(b), exact for close rows too."""
        squares = np.square(self._scaled(A - B)).sum(axis=1)
        return -2.0 * self.amplitude**2 * np.expm1(-0.5 * squares)

    def contract_spread(self, A: FloatArray, B: FloatArray, g: FloatArray) -> FloatArray:
        """Return the derivative of ``g @ spread(A, B)``."""
        squares = np.square(self._scaled(A - B))
        decay = 2.0 * self.amplitude**2 * g * np.exp(-0.5 * squares.sum(axis=1))
        return self._gathered(2.0 * float(g @ self.spread(A, B)), -(decay @ squares))

    @property
    def _lengths(self) -> FloatArray:
        if isinstance(self.length_scale, str):
            raise InvalidInputError(
                f"length_scale={self.length_scale!r} must be fitted before a kernel is called: use "
                "`kernel.fitted_to(X)` or give numbers."
            )
        return np.atleast_1d(np.asarray(self.length_scale, dtype=float))

    def _scaled(self, A: FloatArray) -> FloatArray:
        lengths = self._lengths
        if lengths.size not in (1, A.shape[1]):
            raise InvalidInputError(
                "`length_scale` must be one number or one for each feature: there are "
                f"{A.shape[1]} features, got {lengths.size} numbers."
            )
        return A / lengths

    def _gathered(self, by_amplitude: float, by_lengths: FloatArray) -> FloatArray:
        """Join both parts of a gradient; one length-scale gets the sum over the features."""
        one = isinstance(self.length_scale, int | float)
        return np.append(by_amplitude, by_lengths.sum() if one else by_lengths)


@final
@dataclass(frozen=True)
class Scaled(ParametricKernel):
    """Another kernel times a squared amplitude to learn; its own parameters stay."""

    kernel: Kernel
    amplitude: float = 1.0

    def __post_init__(self) -> None:
        check_positive("amplitude", self.amplitude, "It is a standard deviation.")

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix."""
        K = self.kernel(A, B)
        K *= self.amplitude**2
        return K

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the kernel of every row with itself."""
        return self.amplitude**2 * self.kernel.diagonal(A)

    def fitted_to(self, X: Matrix) -> Self:
        """Return this kernel with the inner one fitted."""
        return replace(self, kernel=self.kernel.fitted_to(X))

    @property
    def theta(self) -> FloatArray:
        """The logarithm of the amplitude."""
        return np.log([self.amplitude])

    @property
    def names(self) -> tuple[str, ...]:
        """The amplitude."""
        return ("amplitude",)

    def bounds_on(self, X: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return fixed multiples of the amplitude."""
        return self.theta[:, None] + np.log([AMPLITUDE_RANGE])

    def with_theta(self, theta: FloatArray) -> Self:
        """Return this kernel with another amplitude."""
        return replace(self, amplitude=float(np.exp(theta[0])))

    def contract(self, A: FloatArray, B: FloatArray, M: FloatArray) -> FloatArray:
        """Return the derivative of ``sum(M * k(A, B))``."""
        return np.array([2.0 * np.vdot(M, self(A, B))])

    def spread(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return the variance of f(a) - f(b)."""
        return self.diagonal(A) + self.diagonal(B) - 2.0 * row_by_row(self, A, B)

    def contract_spread(self, A: FloatArray, B: FloatArray, g: FloatArray) -> FloatArray:
        """Return the derivative of ``g @ spread(A, B)``."""
        return np.array([2.0 * g @ self.spread(A, B)])


def neighbour_distance(X: FloatArray) -> float:
    """Return the median distance of a row to the next different one, 1 where there is none.

    At most ``NEIGHBOUR_ROWS`` evenly chosen rows are asked. O(n_rows n_features).
    """
    asked = X[:: max(1, len(X) // NEIGHBOUR_ROWS)]
    distances = cdist(asked, X)
    distances[distances == 0.0] = np.inf
    nearest = distances.min(axis=1)
    nearest = nearest[np.isfinite(nearest)]
    return float(np.median(nearest)) if len(nearest) else 1.0


def row_by_row(kernel: Kernel, A: FloatArray, B: FloatArray) -> FloatArray:
    """Return k(a, b) for every row a of A and the row b of B at the same place."""
    values = np.empty(len(A))
    for start in range(0, len(A), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        values[rows] = kernel(A[rows], B[rows]).diagonal()
    return values
