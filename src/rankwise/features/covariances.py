"""Covariances of Gaussian processes: kernels with parameters to learn, and their hyperpriors.

A covariance is a kernel that differentiates itself in its parameters: subclass `ParametricKernel`.
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import block_diag
from scipy.spatial.distance import cdist

from rankwise.core.arrays import BoolArray, FloatArray, Matrix, first_equal
from rankwise.core.checks import as_array
from rankwise.core.errors import InvalidInputError
from rankwise.core.params import Advice, AtLeast, Positive, check_value, unchecked
from rankwise.core.storable import storable
from rankwise.features.kernels import Kernel, ProductTerms, gaussian_of_centred

LengthWord: TypeAlias = Literal["one", "per_feature"]
LengthScale: TypeAlias = float | tuple[float, ...] | LengthWord
ItemEffect: TypeAlias = Annotated[
    float, AtLeast(0), Advice("Use 0 for scores that depend on the features alone.")
]
OneLength: TypeAlias = Annotated[float, Positive(), Advice("Or use 'one' or 'per_feature'.")]
Amplitude: TypeAlias = Annotated[float, Positive(), Advice("It is a standard deviation.")]

AMPLITUDE_RANGE = (0.05, 30.0)
LENGTH_SCALE_RANGE = (0.01, 100.0)
ITEM_EFFECT_RANGE = (0.01, 10.0)
"""Default bounds, as multiples of the starting values."""

AMPLITUDE_DEVIATION = 1.0
"""Standard deviation of the logarithm of an amplitude in its hyperprior."""

LENGTH_SCALE_MEDIAN = 3.0
COMMON_DEVIATION, FEATURE_DEVIATION = 1.0, 0.5
"""Hyperprior of length-scales: the median as a multiple of the starting value, and the standard
deviations of the part of the logarithm that all features share and of the part of each feature."""

ITEM_EFFECT_MEDIAN, ITEM_EFFECT_DEVIATION = 0.3, 0.7
"""Hyperprior of the item effect: its median, and the standard deviation of its logarithm."""


ROWS_AT_ONCE = 64
"""Rows per block where only the diagonal of a kernel block is needed."""

NEIGHBOUR_ROWS = 500
"""Rows whose nearest neighbours are computed."""


@final
@dataclass(frozen=True, eq=False)
class Hyperprior:
    """Hold a prior of parameters: their logarithms are jointly Gaussian.

    Parameters
    ----------
    mean : (n_parameters,)
        The logarithms of the medians.
    precision : (n_parameters, n_parameters)
        Inverse covariance of the logarithms; zero for parameters without a preference.
    """

    mean: FloatArray
    precision: FloatArray

    @classmethod
    def flat(cls, n_parameters: int) -> Self:
        """Return a hyperprior without any preference."""
        return cls(np.zeros(n_parameters), np.zeros((n_parameters, n_parameters)))

    @classmethod
    def from_medians(cls, medians: ArrayLike, covariance: ArrayLike) -> Self:
        """Build from the medians and the covariance of the logarithms; two numbers for one."""
        precision = np.linalg.inv(np.atleast_2d(np.asarray(covariance, dtype=float)))
        return cls(np.log(np.atleast_1d(medians)), precision)

    def joined_with(self, *others: Self) -> Self:
        """Return the hyperprior of all sets of parameters, independent of each other."""
        every: list[Self] = [self, *others]
        means, precisions = zip(*[(part.mean, part.precision) for part in every], strict=True)
        return type(self)(np.concatenate(means), block_diag(*precisions))

    def log_density(self, theta: FloatArray) -> float:
        """Return the log density of the logarithms ``theta``, up to a constant."""
        away = theta - self.mean
        return -0.5 * float(away @ self.precision @ away)

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Return the derivative of the log density."""
        return self.precision @ (self.mean - theta)


class ParametricKernel(Kernel):
    """A kernel whose parameters are learned, as the logarithms ``theta``.

    A gradient is never an array of matrices: it is summed with given weights.
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
        """Return the bounds of a search that starts here, for rows X: (n_parameters, 2)."""

    @abstractmethod
    def hyperprior_on(self, X: FloatArray, deviation: float) -> Hyperprior:
        """Return what is usual, if scores of rows X have about this standard deviation."""

    @abstractmethod
    def with_theta(self, theta: FloatArray) -> Self:
        """Return the same kernel with other parameters."""

    @abstractmethod
    def weighted_gradient(
        self, A: FloatArray, B: FloatArray, M: FloatArray, K: FloatArray | None = None
    ) -> FloatArray:
        """Return the derivative of ``sum(M * k(A, B))`` in ``theta``; K is k(A, B), if known."""

    def difference_variance(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return k(a, a) + k(b, b) - 2 k(a, b), row by row: the variance of f(a) - f(b)."""
        return self.diagonal(A) + self.diagonal(B) - 2.0 * row_by_row(self, A, B)

    def weighted_variance_gradient(self, A: FloatArray, B: FloatArray, g: FloatArray) -> FloatArray:
        """Return the derivative of ``g @ difference_variance(A, B)`` in ``theta``."""
        ends = self.weighted_row_gradient(A, A, g) + self.weighted_row_gradient(B, B, g)
        return ends - 2.0 * self.weighted_row_gradient(A, B, g)

    def weighted_row_gradient(self, A: FloatArray, B: FloatArray, g: FloatArray) -> FloatArray:
        """Return the derivative of ``g`` times k(a, b), row by row, in ``theta``."""
        total = np.zeros(len(self.theta))
        for start in range(0, len(A), ROWS_AT_ONCE):
            a = A[start : start + ROWS_AT_ONCE]
            b = a if A is B else B[start : start + ROWS_AT_ONCE]
            total += self.weighted_gradient(a, b, np.diag(g[start : start + ROWS_AT_ONCE]))
        return total

    @property
    def own_variance(self) -> float:
        """Variance of the part of a score that belongs to one item and not to its features."""
        return 0.0

    def own_variance_gradient(self) -> FloatArray:
        """Return the derivative of ``own_variance`` in ``theta``."""
        return np.zeros(len(self.theta))


@storable
@final
@dataclass(frozen=True)
class SquaredExponential(ParametricKernel):
    r"""The kernel :math:`s^2 \exp(-\frac12 \sum_k (a_k - b_k)^2 / \ell_k^2)`, for dense rows.

    Parameters
    ----------
    amplitude : float
        s, the standard deviation of the scores, in units of the noise of an answer.
    length_scale : float, tuple of floats, "one" or "per_feature"
        :math:`\ell`, the distance beyond which the scores of two items are nearly independent. A
        tuple has one entry per feature; a feature that does not matter gets a large one. The names
        take the numbers from the data: "one" length-scale for all features starts at the root of
        their summed variances, "per_feature" at the standard deviation of each times
        :math:`\sqrt{\text{n\_features}}`.
    item_effect : float
        Standard deviation of the part of an item's score that its features do not explain, as a
        share of the amplitude: :math:`(s \cdot \text{item\_effect})^2` is added if a = b. It is
        learned too, unless it is 0, which means no item effect. `PreferenceGP` knows the items of
        `fit` again in single precision and from files of six digits.

    Notes
    -----
    [TH10] Sect. 5 uses this kernel with one length-scale and without item effects.

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
    item_effect: float = 0.0

    def __post_init__(self) -> None:
        check_value("amplitude", self.amplitude, Amplitude)
        check_value("item_effect", self.item_effect, ItemEffect)
        if isinstance(self.length_scale, str):
            check_value("length_scale", self.length_scale, LengthWord)
            return
        lengths = np.ravel(as_array("length_scale", self.length_scale))
        usable = lengths.dtype.kind in "iuf" and (lengths > 0.0) & np.isfinite(lengths)
        for value in lengths[~np.broadcast_to(usable, lengths.shape)]:
            check_value("length_scale", value, OneLength)
        if np.ndim(self.length_scale) > 0:  # a list or an array: a frozen value holds a tuple
            object.__setattr__(self, "length_scale", tuple(lengths.tolist()))

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix."""
        shift = B.mean(axis=0, dtype=float)  # before rows are scaled: an offset costs no digits
        columns = self._scaled(B - shift)
        K = gaussian_of_centred(0.5, columns if A is B else self._scaled(A - shift), columns)
        K *= self.amplitude**2
        if self.item_effect > 0.0:
            K[equal_rows(A, B)] += self._effect_variance
        return K

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the squared amplitude and the variance of the item effect, added."""
        return np.full(A.shape[0], self.amplitude**2 * (1.0 + self.item_effect**2))

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:  # noqa: ARG002
        """Return this kernel with numbers for its length-scales."""
        if not isinstance(self.length_scale, str):
            return self
        scale = deviations(X)
        if self.length_scale == "one":
            return replace(self, length_scale=float(np.sqrt(np.sum(scale**2))) or 1.0)
        scale = np.sqrt(len(scale)) * np.where(scale > 0.0, scale, 1.0)
        return replace(self, length_scale=tuple(scale.tolist()))

    def products(self, row: FloatArray, rows: FloatArray) -> ProductTerms:
        """Return a product of exponentials, and one of equalities for the item effect."""
        terms = [(self.amplitude**2, np.exp(-0.5 * np.square(self._scaled(rows - row))))]
        if self.item_effect > 0.0:
            terms.append((self._effect_variance, np.equal(rows, row).astype(float)))
        return terms

    @property
    def theta(self) -> FloatArray:
        """The logarithms of amplitude, length-scales, and item effect if there is one."""
        effect = [self.item_effect] if self.item_effect > 0.0 else []
        return np.log(np.concatenate([[self.amplitude], self._lengths, effect]))

    @property
    def names(self) -> tuple[str, ...]:
        """The amplitude, each length-scale, and the item effect if there is one."""
        effect = ("item_effect",) if self.item_effect > 0.0 else ()
        return ("amplitude", *("length_scale",) * self._lengths.size, *effect)

    def bounds_on(self, X: FloatArray) -> FloatArray:
        """Return fixed multiples of the parameters.

        A common length-scale is at least half the median distance of a row to the next one: below
        that, all scores are independent and the evidence is flat.
        """
        n_lengths = self._lengths.size
        ranges = [AMPLITUDE_RANGE] + [LENGTH_SCALE_RANGE] * n_lengths + [ITEM_EFFECT_RANGE]
        bounds = self.theta[:, None] + np.log(ranges[: len(self.theta)])
        if n_lengths == 1:
            shortest = np.log(0.5 * neighbour_distance(X))
            bounds[1, 0] = max(bounds[1, 0], min(shortest, self.theta[1]))
        return bounds

    def hyperprior_on(self, X: FloatArray, deviation: float) -> Hyperprior:
        """Return independent hyperpriors of amplitude, length-scales and item effect.

        The logarithms of length-scales share a part, and each has a small part of its own.
        """
        words: LengthScale = "one" if self._is_common else "per_feature"
        medians = LENGTH_SCALE_MEDIAN * type(self)(1.0, words).fitted_to(X)._lengths
        covariance = np.full((medians.size, medians.size), COMMON_DEVIATION**2)
        if not self._is_common:
            covariance += FEATURE_DEVIATION**2 * np.eye(medians.size)
        amplitude = Hyperprior.from_medians(deviation, AMPLITUDE_DEVIATION**2)
        prior = amplitude.joined_with(Hyperprior.from_medians(medians, covariance))
        if self.item_effect == 0.0:
            return prior
        effect = Hyperprior.from_medians(ITEM_EFFECT_MEDIAN, ITEM_EFFECT_DEVIATION**2)
        return prior.joined_with(effect)

    def with_theta(self, theta: FloatArray) -> Self:
        """Return this kernel with other parameters."""
        amplitude, *lengths = values = np.exp(theta).tolist()
        effect = lengths.pop() if self.item_effect > 0.0 else 0.0
        length = lengths[0] if self._is_common else tuple(lengths)
        if not 0.0 < min(values) <= max(values) < np.inf:
            return type(self)(amplitude, length, effect)  # which refuses them
        return unchecked(type(self), amplitude=amplitude, length_scale=length, item_effect=effect)

    def weighted_gradient(
        self, A: FloatArray, B: FloatArray, M: FloatArray, K: FloatArray | None = None
    ) -> FloatArray:
        """Return the derivative of ``sum(M * k(A, B))``. O(n_rows^2 n_features), no third axis."""
        K = self(A, B) if K is None else K
        P = M * K
        shift = B.mean(axis=0)  # distances stay the same, and large offsets cost no digits
        b = self._scaled(B - shift)
        a = b if A is B else self._scaled(A - shift)
        squares = P.sum(axis=1) @ a**2 + P.sum(axis=0) @ b**2  # equal rows: nothing is left
        between = self.amplitude**2 + 0.5 * self._effect_variance  # only equal rows are above it
        equal = M[between < K].sum() if self.item_effect > 0.0 else 0.0
        of_features = P.sum() - equal * self._effect_variance
        by_lengths = squares - 2.0 * np.sum(a * (P @ b), axis=0)
        return self._joined_gradient(of_features, by_lengths, equal)

    def difference_variance(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return the variance of f(a) - f(b), exact for close rows too."""
        effect = 2.0 * self._effect_variance * np.any(A != B, axis=1)
        return self._feature_difference_variance(A, B) + effect

    def weighted_variance_gradient(self, A: FloatArray, B: FloatArray, g: FloatArray) -> FloatArray:
        """Return the derivative of ``g @ difference_variance(A, B)``."""
        squares = np.square(self._scaled(A - B))
        decay = 2.0 * self.amplitude**2 * g * np.exp(-0.5 * squares.sum(axis=1))
        different = 2.0 * float(g @ np.any(A != B, axis=1))
        of_features = float(g @ self._feature_difference_variance(A, B))
        return self._joined_gradient(of_features, -(decay @ squares), different)

    @property
    def own_variance(self) -> float:
        """The variance of the item effect."""
        return self._effect_variance

    def own_variance_gradient(self) -> FloatArray:
        """Return its derivative in amplitude and item effect."""
        return self._joined_gradient(0.0, np.zeros(self._lengths.size), 1.0)

    @cached_property
    def _lengths(self) -> FloatArray:
        if isinstance(self.length_scale, str):
            raise InvalidInputError(
                f"length_scale={self.length_scale!r} must be fitted before a kernel is called: use "
                "`kernel.fitted_to(X)` or give numbers."
            )
        return np.atleast_1d(np.asarray(self.length_scale, dtype=float))

    @cached_property
    def _is_common(self) -> bool:
        """Whether all features share a length-scale."""
        return isinstance(self.length_scale, int | float)

    @cached_property
    def _effect_variance(self) -> float:
        return (self.amplitude * self.item_effect) ** 2

    def _scaled(self, A: FloatArray) -> FloatArray:
        lengths = self._lengths
        if lengths.size not in (1, A.shape[1]):
            raise InvalidInputError(
                "`length_scale` must be one number or one for each feature: there are "
                f"{A.shape[1]} features, got {lengths.size} numbers."
            )
        return A / lengths

    def _feature_difference_variance(self, A: FloatArray, B: FloatArray) -> FloatArray:
        squares = np.square(self._scaled(A - B)).sum(axis=1)
        return -2.0 * self.amplitude**2 * np.expm1(-0.5 * squares)

    def _joined_gradient(
        self, of_features: float, by_lengths: FloatArray, of_effects: float
    ) -> FloatArray:
        """Return a gradient from the sums over the kernel of features and over item effects."""
        of_effects *= self._effect_variance
        lengths = [by_lengths.sum()] if self._is_common else by_lengths
        effect = [2.0 * of_effects] if self.item_effect > 0.0 else []
        return np.concatenate([[2.0 * (of_features + of_effects)], lengths, effect])


@storable
@final
@dataclass(frozen=True)
class Scaled(ParametricKernel):
    """Another kernel times a squared amplitude to learn; the parameters of that kernel stay."""

    kernel: Kernel
    amplitude: float = 1.0

    def __post_init__(self) -> None:
        check_value("amplitude", self.amplitude, Amplitude)

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix."""
        K = self.kernel(A, B)
        K *= self.amplitude**2
        return K

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the kernel of every row with itself."""
        return self.amplitude**2 * self.kernel.diagonal(A)

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:
        """Return this kernel with the inner one fitted."""
        return replace(self, kernel=self.kernel.fitted_to(X, sample_weight))

    def products(self, row: FloatArray, rows: FloatArray) -> ProductTerms | None:
        """Return the terms of the inner kernel with larger factors."""
        terms = self.kernel.products(row, rows)
        if terms is None:
            return None
        return [(self.amplitude**2 * factor, factors) for factor, factors in terms]

    @property
    def theta(self) -> FloatArray:
        """The logarithm of the amplitude."""
        return np.log([self.amplitude])

    @property
    def names(self) -> tuple[str, ...]:
        """The amplitude."""
        return ("amplitude",)

    def bounds_on(self, X: FloatArray) -> FloatArray:
        """Return multiples of this amplitude and of the one that gives scores a deviation of 1."""
        centres = np.log([self.amplitude, 1.0 / self._inner_deviation(X)])
        low, high = np.log(AMPLITUDE_RANGE)
        return np.array([[centres.min() + low, centres.max() + high]])

    def hyperprior_on(self, X: FloatArray, deviation: float) -> Hyperprior:
        """Return a hyperprior under which scores of rows X have this standard deviation."""
        median = deviation / self._inner_deviation(X)
        return Hyperprior.from_medians(median, AMPLITUDE_DEVIATION**2)

    def with_theta(self, theta: FloatArray) -> Self:
        """Return this kernel with another amplitude."""
        return replace(self, amplitude=float(np.exp(theta[0])))

    def weighted_gradient(
        self, A: FloatArray, B: FloatArray, M: FloatArray, K: FloatArray | None = None
    ) -> FloatArray:
        """Return the derivative of ``sum(M * k(A, B))``."""
        return np.array([2.0 * np.vdot(M, self(A, B) if K is None else K)])

    def weighted_variance_gradient(self, A: FloatArray, B: FloatArray, g: FloatArray) -> FloatArray:
        """Return the derivative of ``g @ difference_variance(A, B)``."""
        return np.array([2.0 * g @ self.difference_variance(A, B)])

    def _inner_deviation(self, X: FloatArray) -> float:
        """Return the standard deviation of scores of rows X under the inner kernel."""
        following = np.roll(X, 1, axis=0)
        variance = 0.5 * float(np.mean(Scaled(self.kernel).difference_variance(X, following)))
        return float(np.sqrt(variance)) if variance > 0.0 else 1.0


@final
@dataclass(frozen=True)
class SklearnKernel(ParametricKernel):
    """Wrap a kernel of `sklearn.gaussian_process.kernels`, with its parameters and bounds.

    Its gradients are arrays with an axis for the parameters; they are computed and summed in
    blocks of rows, so that the memory stays bounded.

    Parameters
    ----------
    kernel : scikit-learn kernel
    max_entries : int
        Entries of a gradient that may exist at a time: 128 MiB by default.
    """

    kernel: Any
    max_entries: int = 2**24

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix; white noise counts between a set of rows and itself only."""
        return np.array(self.kernel(A) if A is B else self.kernel(A, B))

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the kernel of every row with itself."""
        return np.asarray(self.kernel.diag(A), dtype=float)

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:  # noqa: ARG002
        """Return itself: there is nothing to fit."""
        return self

    @property
    def theta(self) -> FloatArray:
        """The logarithms of the parameters that are not fixed."""
        return np.asarray(self.kernel.theta, dtype=float)

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, with the prefixes of nested kernels."""
        free = [one for one in self.kernel.hyperparameters if not one.fixed]
        return tuple(one.name for one in free for _ in range(one.n_elements))

    def bounds_on(self, X: FloatArray) -> FloatArray:  # noqa: ARG002
        """Return the kernel's own bounds."""
        return np.asarray(self.kernel.bounds, dtype=float).reshape(-1, 2)

    def hyperprior_on(self, X: FloatArray, deviation: float) -> Hyperprior:  # noqa: ARG002
        """Return a flat one: the meaning of the parameters is not known here."""
        return Hyperprior.flat(len(self.theta))

    def with_theta(self, theta: FloatArray) -> Self:
        """Return a copy with other parameters."""
        return replace(self, kernel=self.kernel.clone_with_theta(theta))

    def weighted_gradient(
        self,
        A: FloatArray,
        B: FloatArray,
        M: FloatArray,
        K: FloatArray | None = None,  # noqa: ARG002
    ) -> FloatArray:
        """Return the derivative of ``sum(M * k(A, B))``, block by block."""
        size = int(np.sqrt(self.max_entries / max(1, len(self.theta))))
        size = size if A is B and len(A) <= size else max(1, size // 2)
        total = np.zeros(len(self.theta))
        for i in range(0, len(A), size):
            for j in range(0, len(B), size):
                rows, columns = slice(i, i + size), slice(j, j + size)
                if A is B and i == j:
                    D = self.kernel(A[rows], eval_gradient=True)[1]
                else:
                    D = self._gradient_between(A[rows], B[columns])
                total += np.einsum("ij,ijk->k", M[rows, columns], D)
        return total

    def _gradient_between(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return dk(A, B); scikit-learn has gradients of square matrices only."""
        D = self.kernel(np.concatenate([A, B]), eval_gradient=True)[1]
        return np.asarray(D[: len(A), len(A) :])


def row_by_row(kernel: Kernel, A: FloatArray, B: FloatArray) -> FloatArray:
    """Return k(a, b) for every row a of A and the row b of B at the same place."""
    values = np.empty(len(A))
    for start in range(0, len(A), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        values[rows] = kernel(A[rows], B[rows]).diagonal()
    return values


def deviations(X: FloatArray) -> FloatArray:
    """Return the standard deviation of every column, exactly 0 where it is constant."""
    return np.asarray(np.std(X, axis=0) * (np.ptp(X, axis=0) > 0.0))


def neighbour_distance(X: FloatArray) -> float:
    """Return the median distance of a row to the nearest different one, 1 where there is none.

    It is computed for at most about ``NEIGHBOUR_ROWS`` evenly spaced rows. O(n_rows n_features).
    """
    sample = X[:: max(1, len(X) // NEIGHBOUR_ROWS)]
    distances = cdist(sample, X)
    distances[distances == 0.0] = np.inf
    nearest = distances.min(axis=1)
    nearest = nearest[np.isfinite(nearest)]
    return float(np.median(nearest)) if len(nearest) else 1.0


def equal_rows(A: FloatArray, B: FloatArray) -> BoolArray:
    """Return which rows of A equal which rows of B, (n, m)."""
    if A is B:
        first = first_equal(A)
        return first[:, None] == first
    first = first_equal(np.concatenate([A, B]))
    return first[: len(A), None] == first[len(A) :]
