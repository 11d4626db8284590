"""Kernels of Gaussian processes: covariances of scores, with their parameters to learn."""

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias, final

import numpy as np
from scipy.linalg import block_diag
from scipy.spatial.distance import cdist

from rankwise.core.arrays import BoolArray, FloatArray, Matrix, first_equal
from rankwise.core.checks import check_choice, check_positive
from rankwise.core.errors import InvalidInputError
from rankwise.core.storable import storable
from rankwise.features.kernels import Gaussian, Kernel

ROWS_AT_ONCE = 64
"""Rows of which only the diagonal of a kernel block is wanted."""


@final
@dataclass(frozen=True, eq=False)
class Hyperprior:
    """Say what is known about parameters beforehand: their logarithms are jointly Gaussian.

    Parameters
    ----------
    mean : (n_parameters,)
        The logarithms of the medians.
    precision : (n_parameters, n_parameters)
        Inverse covariance of the logarithms; zero where nothing is known.
    """

    mean: FloatArray
    precision: FloatArray

    @classmethod
    def flat(cls, n_parameters: int) -> Self:
        """Know nothing."""
        return cls(np.zeros(n_parameters), np.zeros((n_parameters, n_parameters)))

    @classmethod
    def around(cls, medians: FloatArray, covariance: FloatArray) -> Self:
        """Build from the medians and the covariance of the logarithms."""
        return cls(np.log(medians), np.asarray(np.linalg.inv(covariance), dtype=float))

    def beside(self, other: Self) -> Self:
        """Return the prior of both sets of parameters, independent of each other."""
        mean = np.append(self.mean, other.mean)
        return type(self)(mean, block_diag(self.precision, other.precision))

    def log_density(self, theta: FloatArray) -> float:
        """Return the log density of the logarithms ``theta``, up to a constant."""
        return 0.5 * float((theta - self.mean) @ self.gradient(theta))

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return the derivative of the log density."""
        return self.precision @ (self.mean - theta)


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
    def hyperprior_on(self, X: FloatArray, spread: float) -> Hyperprior:
        """Return what is known beforehand, if scores of rows X spread by about ``spread``."""

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


def row_by_row(kernel: Kernel, A: FloatArray, B: FloatArray) -> FloatArray:
    """Return k(a, b) for every row a of A and the row b of B at the same place."""
    values = np.empty(len(A))
    for start in range(0, len(A), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        values[rows] = kernel(A[rows], B[rows]).diagonal()
    return values


LengthScale: TypeAlias = float | tuple[float, ...] | Literal["one", "per_feature"]

AMPLITUDE_RANGE = (0.05, 30.0)
LENGTH_SCALE_RANGE = (0.01, 100.0)
OWN_RANGE = (0.01, 10.0)
"""Default bounds, as multiples of where the search starts."""

AMPLITUDE_DEVIATION = 1.0
"""Of the logarithm of an amplitude beforehand."""

LENGTH_SCALE_MEDIAN = 3.0
COMMON_DEVIATION, FEATURE_DEVIATION = 1.0, 0.5
"""Length-scales beforehand: a multiple of where the words start them, how far the logarithms of all
move together, and how far that of each feature moves on its own."""

OWN_MEDIAN, OWN_DEVIATION = 0.3, 0.7
"""The share of items' own scores beforehand."""

NEIGHBOUR_ROWS = 500
"""Rows whose nearest neighbours are looked for."""


@storable
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
    own : float
        What features do not tell: :math:`(s \cdot \text{own})^2` is added where a = b, so that
        every item has a score of its own on top. It is learnt too, unless it is 0 for none.

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
    own: float = 0.0

    def __post_init__(self) -> None:
        check_positive("amplitude", self.amplitude, "It is a standard deviation.")
        if not (self.own >= 0.0 and np.isfinite(self.own)):
            raise InvalidInputError(f"`own` must be 0 or a finite number above: got {self.own}.")
        if isinstance(self.length_scale, str):
            check_choice("length_scale", self.length_scale, ("one", "per_feature"))
            return
        for value in np.ravel(self.length_scale):
            check_positive("length_scale", value, "Or use 'one' or 'per_feature'.")
        if np.ndim(self.length_scale) > 0:  # a list or an array: a frozen value holds a tuple
            object.__setattr__(self, "length_scale", tuple(np.ravel(self.length_scale).tolist()))

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix."""
        K = self._shared(A, B)
        if self.own > 0.0:
            K[_equal(A, B)] += (self.amplitude * self.own) ** 2
        return K

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the squared amplitude, with the items' own part."""
        return np.full(A.shape[0], self.amplitude**2 * (1.0 + self.own**2))

    def fitted_to(self, X: Matrix) -> Self:
        """Return this kernel with numbers for its length-scales."""
        if not isinstance(self.length_scale, str):
            return self
        scale = deviations(X)
        if self.length_scale == "one":
            return replace(self, length_scale=float(np.sqrt(np.sum(scale**2))) or 1.0)
        scale = np.sqrt(len(scale)) * np.where(scale > 0.0, scale, 1.0)
        return replace(self, length_scale=tuple(scale.tolist()))

    @property
    def theta(self) -> FloatArray:
        """The logarithms of amplitude, length-scales and the share of the items' own scores."""
        own = [self.own] if self.own > 0.0 else []
        return np.log(np.concatenate([[self.amplitude], self._lengths, own]))

    @property
    def names(self) -> tuple[str, ...]:
        """The amplitude, as many length-scales as there are, and the share if there is one."""
        own = ("own",) if self.own > 0.0 else ()
        return ("amplitude", *("length_scale",) * self._lengths.size, *own)

    def bounds_on(self, X: FloatArray) -> FloatArray:
        """Return fixed multiples of the parameters.

        A common length-scale is at least half the usual distance of a row to the next one: below
        that, all scores are independent and the evidence is a plateau.
        """
        n_lengths = self._lengths.size
        ranges = [AMPLITUDE_RANGE] + [LENGTH_SCALE_RANGE] * n_lengths + [OWN_RANGE]
        bounds = self.theta[:, None] + np.log(ranges[: len(self.theta)])
        if n_lengths == 1:
            shortest = np.log(0.5 * neighbour_distance(X))
            bounds[1, 0] = max(bounds[1, 0], min(shortest, self.theta[1]))
        return bounds

    def hyperprior_on(self, X: FloatArray, spread: float) -> Hyperprior:
        """Return independent priors of amplitude, length-scales and share.

        Length-scales of features move together, and each a little on its own.
        """
        words: LengthScale = "one" if self._is_common else "per_feature"
        medians = LENGTH_SCALE_MEDIAN * type(self)(1.0, words).fitted_to(X)._lengths
        covariance = np.full((medians.size, medians.size), COMMON_DEVIATION**2)
        if not self._is_common:
            covariance += FEATURE_DEVIATION**2 * np.eye(medians.size)
        variance = np.array([[AMPLITUDE_DEVIATION**2]])
        prior = Hyperprior.around(np.array([spread]), variance)
        prior = prior.beside(Hyperprior.around(medians, covariance))
        if self.own == 0.0:
            return prior
        variance = np.array([[OWN_DEVIATION**2]])
        return prior.beside(Hyperprior.around(np.array([OWN_MEDIAN]), variance))

    def with_theta(self, theta: FloatArray) -> Self:
        """Return this kernel with other parameters."""
        amplitude, *lengths = np.exp(theta).tolist()
        own = lengths.pop() if self.own > 0.0 else 0.0
        return type(self)(amplitude, lengths[0] if self._is_common else tuple(lengths), own)

    def contract(self, A: FloatArray, B: FloatArray, M: FloatArray) -> FloatArray:
        """Return the derivative of ``sum(M * k(A, B))``. O(n_rows^2 n_features), no third axis."""
        P = self._shared(A, B)
        P *= M
        shift = B.mean(axis=0)  # distances stay, digits are won
        a, b = self._scaled(A - shift), self._scaled(B - shift)
        squares = P.sum(axis=1) @ a**2 + P.sum(axis=0) @ b**2
        own = M[_equal(A, B)].sum() if self.own > 0.0 else 0.0
        return self._gathered(P.sum(), squares - 2.0 * np.sum(a * (P @ b), axis=0), own)

    def spread(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return the variance of f(a) - f(b), exact for close rows too."""
        differ = np.any(A != B, axis=1)
        own = 2.0 * (self.amplitude * self.own) ** 2 * differ
        return self._shared_spread(A, B) + own

    def contract_spread(self, A: FloatArray, B: FloatArray, g: FloatArray) -> FloatArray:
        """Return the derivative of ``g @ spread(A, B)``."""
        squares = np.square(self._scaled(A - B))
        decay = 2.0 * self.amplitude**2 * g * np.exp(-0.5 * squares.sum(axis=1))
        own = 2.0 * float(g @ np.any(A != B, axis=1))
        return self._gathered(float(g @ self._shared_spread(A, B)), -(decay @ squares), own)

    @property
    def _lengths(self) -> FloatArray:
        if isinstance(self.length_scale, str):
            raise InvalidInputError(
                f"length_scale={self.length_scale!r} must be fitted before a kernel is called: use "
                "`kernel.fitted_to(X)` or give numbers."
            )
        return np.atleast_1d(np.asarray(self.length_scale, dtype=float))

    @property
    def _is_common(self) -> bool:
        """Whether all features share a length-scale."""
        return isinstance(self.length_scale, int | float)

    def _scaled(self, A: FloatArray) -> FloatArray:
        lengths = self._lengths
        if lengths.size not in (1, A.shape[1]):
            raise InvalidInputError(
                "`length_scale` must be one number or one for each feature: there are "
                f"{A.shape[1]} features, got {lengths.size} numbers."
            )
        return A / lengths

    def _shared(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return the kernel matrix of what the features tell."""
        scaled = self._scaled(A)
        K = Gaussian(0.5)(scaled, scaled if A is B else self._scaled(B))
        K *= self.amplitude**2
        return K

    def _shared_spread(self, A: FloatArray, B: FloatArray) -> FloatArray:
        squares = np.square(self._scaled(A - B)).sum(axis=1)
        return -2.0 * self.amplitude**2 * np.expm1(-0.5 * squares)

    def _gathered(self, shared: float, by_lengths: FloatArray, own: float) -> FloatArray:
        """Join a gradient from the sum over what features tell, and over pairs of equal rows."""
        own *= (self.amplitude * self.own) ** 2
        lengths = [by_lengths.sum()] if self._is_common else by_lengths
        gradient = np.concatenate([[2.0 * (shared + own)], lengths, [2.0 * own]])
        return gradient[: len(self.theta)]


@storable
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

    def bounds_on(self, X: FloatArray) -> FloatArray:
        """Return fixed multiples of the amplitude that spreads scores by 1, or of this one."""
        centres = np.log([self.amplitude, 1.0 / self._unscaled_spread(X)])
        low, high = np.log(AMPLITUDE_RANGE)
        return np.array([[centres.min() + low, centres.max() + high]])

    def hyperprior_on(self, X: FloatArray, spread: float) -> Hyperprior:
        """Return a prior under which scores of rows X spread as told."""
        medians = np.array([spread / self._unscaled_spread(X)])
        return Hyperprior.around(medians, np.array([[AMPLITUDE_DEVIATION**2]]))

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

    def _unscaled_spread(self, X: FloatArray) -> float:
        """Return the deviation of scores of rows X under the inner kernel."""
        following = np.roll(X, 1, axis=0)
        variance = 0.5 * float(np.mean(Scaled(self.kernel).spread(X, following)))
        return float(np.sqrt(variance)) if variance > 0.0 else 1.0


def deviations(X: FloatArray) -> FloatArray:
    """Return the standard deviation of every column, exactly 0 where it is constant."""
    return np.asarray(np.std(X, axis=0) * (np.ptp(X, axis=0) > 0.0))


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


def _equal(A: FloatArray, B: FloatArray) -> BoolArray:
    """Return which rows of A are which rows of B, (n, m)."""
    if A is B:
        first = first_equal(A)
        return first[:, None] == first
    first = first_equal(np.concatenate([A, B]))
    return first[: len(A), None] == first[len(A) :]
