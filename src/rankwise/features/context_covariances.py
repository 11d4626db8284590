"""Covariances of items in context: copies, dates, covariates, cycles, persons.

Each wraps the covariance of items and reads further columns of its rows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, final

import numpy as np

from rankwise.core.arrays import BoolArray, FloatArray, Matrix
from rankwise.features.covariances import (
    ROWS_AT_ONCE,
    Hyperprior,
    ParametricKernel,
    equal_rows,
    row_by_row,
)

DRIFT_RANGE = ((0.01, 100.0), (0.01, 100.0))
DRIFT_VARIANCES = (1.0, 1.0)
"""Bounds of the two parameters of a drift as multiples of their medians, and the variances of
their logarithms in the hyperprior."""

CYCLE_SHARE = 0.5
"""Usual deviation of what goes in circles, as a share of that of the scores."""

TASTE_SHARE = 0.5
"""Usual deviation of what a person adds to a score, as a share of that of the common scores."""


@dataclass(frozen=True)
class InnerParameters(ParametricKernel, ABC):
    """A kernel whose parameters are those of an inner one, on some columns of the rows."""

    kernel: ParametricKernel

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:
        """Return this kernel with the inner one fitted."""
        return replace(self, kernel=self.kernel.fitted_to(self._items(X, X)[0], sample_weight))

    @property
    def theta(self) -> FloatArray:
        """Those of the inner kernel."""
        return self.kernel.theta

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the inner kernel."""
        return self.kernel.names

    def bounds_on(self, X: FloatArray) -> FloatArray:
        """Return those of the inner kernel."""
        return self.kernel.bounds_on(self._items(X, X)[0])

    def hyperprior_on(self, X: FloatArray, deviation: float) -> Hyperprior:
        """Return that of the inner kernel."""
        return self.kernel.hyperprior_on(self._items(X, X)[0], deviation)

    def with_theta(self, theta: FloatArray) -> Self:
        """Return this kernel with other parameters."""
        return replace(self, kernel=self.kernel.with_theta(theta))

    @property
    def own_variance(self) -> float:
        """That of the inner kernel."""
        return self.kernel.own_variance

    def own_variance_gradient(self) -> FloatArray:
        """Return that of the inner kernel."""
        return self.kernel.own_variance_gradient()

    @abstractmethod
    def _items(self, A: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the columns of the inner kernel, of A and of B."""


@final
@dataclass(frozen=True)
class CopiesApart(InnerParameters):
    """Another kernel on rows whose last column tells items with equal features apart.

    Such items share what their features explain, and each has its own item effect. Everything else,
    including the parameters, is that of the inner kernel on the other columns.
    """

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix."""
        a, b = self._items(A, B)
        K = self.kernel(a, b)
        if self.kernel.own_variance > 0.0:
            K[self._copies(A, B)] -= self.kernel.own_variance
        return K

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the kernel of every row with itself."""
        return self.kernel.diagonal(A[:, :-1])

    def weighted_gradient(self, A: FloatArray, B: FloatArray, M: FloatArray) -> FloatArray:
        """Return the derivative of ``sum(M * k(A, B))``."""
        gradient = self.kernel.weighted_gradient(*self._items(A, B), M)
        if self.kernel.own_variance == 0.0:
            return gradient
        return gradient - M[self._copies(A, B)].sum() * self.kernel.own_variance_gradient()

    def difference_variance(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return the variance of f(a) - f(b)."""
        between = self.kernel.difference_variance(A[:, :-1], B[:, :-1])
        return between + 2.0 * self.kernel.own_variance * self._are_copies(A, B)

    def weighted_variance_gradient(self, A: FloatArray, B: FloatArray, g: FloatArray) -> FloatArray:
        """Return the derivative of ``g @ difference_variance(A, B)``."""
        gradient = self.kernel.weighted_variance_gradient(A[:, :-1], B[:, :-1], g)
        copies = float(g @ self._are_copies(A, B))
        return gradient + 2.0 * copies * self.kernel.own_variance_gradient()

    def _items(self, A: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray]:
        a = A[:, :-1]
        return a, a if A is B else B[:, :-1]

    def _copies(self, A: FloatArray, B: FloatArray) -> BoolArray:
        """Return which rows have equal features and are different items, (n, m)."""
        return equal_rows(*self._items(A, B)) & (A[:, -1][:, None] != B[:, -1])

    def _are_copies(self, A: FloatArray, B: FloatArray) -> BoolArray:
        """Return the same, row by row."""
        return np.all(A[:, :-1] == B[:, :-1], axis=1) & (A[:, -1] != B[:, -1])


@final
@dataclass(frozen=True)
class WithDrift(ParametricKernel):
    r"""Another kernel times a covariance over dates, which stand in the last column, in days.

    .. math:: k(a, b) \, \frac{1 + q\, e^{-|t_a - t_b| / \ell}}{1 + q}

    A score has a lasting part, and one of q times its variance that is forgotten within about
    :math:`\ell` days (an Ornstein-Uhlenbeck process).

    Parameters
    ----------
    kernel : ParametricKernel
        The kernel of the other columns.
    drift, drift_time : float
        q and :math:`\ell`.
    usual_time : float
        The median of the hyperprior of ``drift_time``.
    """

    kernel: ParametricKernel
    drift: float
    drift_time: float
    usual_time: float

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix."""
        return self.kernel(*self._items(A, B)) * self._over_time(self._decay(A, B)[0])

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the kernel of every row with itself."""
        return self.kernel.diagonal(A[:, :-1])

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:
        """Return this kernel with the inner one fitted."""
        return replace(self, kernel=self.kernel.fitted_to(X[:, :-1], sample_weight))

    @property
    def theta(self) -> FloatArray:
        """Those of the inner kernel, and the logarithms of drift and its time."""
        return np.append(self.kernel.theta, np.log([self.drift, self.drift_time]))

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the inner kernel, and the two of the drift."""
        return (*self.kernel.names, "drift", "drift_time")

    def bounds_on(self, X: FloatArray) -> FloatArray:
        """Return those of the inner kernel, and wide ones of the drift."""
        usual = np.log([[1.0, 1.0], [self.usual_time, self.usual_time]])
        return np.vstack([self.kernel.bounds_on(X[:, :-1]), usual + np.log(DRIFT_RANGE)])

    def hyperprior_on(self, X: FloatArray, deviation: float) -> Hyperprior:
        """Return that of the inner kernel, and independent ones of the drift."""
        own = Hyperprior.from_medians(np.array([1.0, self.usual_time]), np.diag(DRIFT_VARIANCES))
        return self.kernel.hyperprior_on(X[:, :-1], deviation).joined_with(own)

    def with_theta(self, theta: FloatArray) -> Self:
        """Return this kernel with other parameters."""
        drift, time = np.exp(theta[-2:]).tolist()
        kernel = self.kernel.with_theta(theta[:-2])
        return replace(self, kernel=kernel, drift=drift, drift_time=time)

    def weighted_gradient(self, A: FloatArray, B: FloatArray, M: FloatArray) -> FloatArray:
        """Return the derivative of ``sum(M * k(A, B))``."""
        decay, age = self._decay(A, B)
        items = self._items(A, B)
        inner = self.kernel.weighted_gradient(*items, M * self._over_time(decay))
        return np.append(inner, self._drift_gradient(M * self.kernel(*items), decay, age))

    def difference_variance(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return the variance of f(a) - f(b)."""
        a, b = self._items(A, B)
        apart = 1.0 - self._over_time(self._decay_by_row(A, B)[0])
        return self.kernel.difference_variance(a, b) + 2.0 * apart * row_by_row(self.kernel, a, b)

    def weighted_variance_gradient(self, A: FloatArray, B: FloatArray, g: FloatArray) -> FloatArray:
        """Return the derivative of ``g @ difference_variance(A, B)``."""
        (a, b), (decay, age) = self._items(A, B), self._decay_by_row(A, B)
        weight = 2.0 * g * (1.0 - self._over_time(decay))
        inner = self.kernel.weighted_variance_gradient(a, b, g)
        for start in range(0, len(a), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            inner = inner + self.kernel.weighted_gradient(a[rows], b[rows], np.diag(weight[rows]))
        own = self._drift_gradient(-2.0 * g * row_by_row(self.kernel, a, b), decay, age)
        return np.append(inner, own)

    @property
    def own_variance(self) -> float:
        """That of the inner kernel."""
        return self.kernel.own_variance

    def own_variance_gradient(self) -> FloatArray:
        """Return that of the inner kernel."""
        return np.append(self.kernel.own_variance_gradient(), [0.0, 0.0])

    def _items(self, A: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the columns of the inner kernel, of A and of B."""
        a = A[:, :-1]
        return a, a if A is B else B[:, :-1]

    def _decay(self, A: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the exponentials, and the times between rows in units of the drift's."""
        age = np.abs(A[:, -1][:, None] - B[:, -1]) / self.drift_time
        return np.exp(-age), age

    def _decay_by_row(self, A: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the same, row by row."""
        age = np.abs(A[:, -1] - B[:, -1]) / self.drift_time
        return np.exp(-age), age

    def _over_time(self, decay: FloatArray) -> FloatArray:
        """Return the correlation of the same item at two dates."""
        return np.asarray((1.0 + self.drift * decay) / (1.0 + self.drift))

    def _drift_gradient(self, P: FloatArray, decay: FloatArray, age: FloatArray) -> list[float]:
        """Return the derivatives of ``sum(P * correlation)`` in the two parameters of the drift."""
        share = self.drift / (1.0 + self.drift)
        by_drift = share / (1.0 + self.drift) * np.sum(P * (decay - 1.0))
        return [float(by_drift), float(share * np.sum(P * decay * age))]


@final
@dataclass(frozen=True)
class WithEffects(InnerParameters):
    """Another kernel plus a linear one on the last columns, which hold covariates of an answer.

    A row is an item as it was shown: its score is that of the item plus the covariates times
    their effects, independent Gaussians. The parameters are those of the inner kernel.

    Parameters
    ----------
    kernel : ParametricKernel
        The kernel of the other columns.
    deviations : tuple of float
        The standard deviation of each effect.
    """

    deviations: tuple[float, ...]

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix."""
        return self.kernel(*self._items(A, B)) + self._covariates(A) @ self._covariates(B).T

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the kernel of every row with itself."""
        own = np.square(self._covariates(A)).sum(axis=1)
        return self.kernel.diagonal(self._items(A, A)[0]) + own

    def weighted_gradient(self, A: FloatArray, B: FloatArray, M: FloatArray) -> FloatArray:
        """Return the derivative of ``sum(M * k(A, B))``."""
        return self.kernel.weighted_gradient(*self._items(A, B), M)

    def difference_variance(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return the variance of f(a) - f(b)."""
        between = np.square(self._covariates(A) - self._covariates(B)).sum(axis=1)
        return self.kernel.difference_variance(*self._items(A, B)) + between

    def weighted_variance_gradient(self, A: FloatArray, B: FloatArray, g: FloatArray) -> FloatArray:
        """Return the derivative of ``g @ difference_variance(A, B)``."""
        return self.kernel.weighted_variance_gradient(*self._items(A, B), g)

    def _items(self, A: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the columns of the inner kernel, of A and of B."""
        a = A[:, : -len(self.deviations)]
        return a, a if A is B else B[:, : -len(self.deviations)]

    def _covariates(self, A: FloatArray) -> FloatArray:
        """Return the covariates in units of their effects."""
        return np.asarray(A[:, -len(self.deviations) :] * np.array(self.deviations))


@final
@dataclass(frozen=True)
class WithCycles(ParametricKernel):
    r"""The kernel of comparisons that no two scores explain: what a makes of b, g(a, b) = -g(b, a).

    .. math:: \operatorname{cov}\bigl(f(a) - f(b),\, f(c) - f(d)\bigr)
        + k_2(a, c)\, k_2(b, d) - k_2(a, d)\, k_2(b, c)

    A row holds two items side by side, and in its last two columns which of them are there: both
    for a comparison, the first alone for its score, none for 0. The second part can go in circles
    and is no part of a score.

    Parameters
    ----------
    kernel : ParametricKernel
        Of the scores f.
    cyclic : ParametricKernel
        :math:`k_2`, on the first columns of every item.
    n_columns : int
        How many these are.
    """

    kernel: ParametricKernel
    cyclic: ParametricKernel
    n_columns: int

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix."""
        K = np.zeros((len(A), len(B)))
        for a, b, mask in self._sides(A, B):
            K += mask * self.kernel(a, b)
        ac, bd, ad, bc = self._products(A, B)
        return K + self._both(A, B) * (ac * bd - ad * bc)

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the kernel of every row with itself."""
        return row_by_row(self, A, A)

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:
        """Return this kernel with the inner ones fitted to the first items."""
        first = self._items(X)[0]
        kernel = self.kernel.fitted_to(first, sample_weight)
        cyclic = self.cyclic.fitted_to(first[:, : self.n_columns], sample_weight)
        return replace(self, kernel=kernel, cyclic=cyclic)

    @property
    def theta(self) -> FloatArray:
        """Those of both kernels."""
        return np.append(self.kernel.theta, self.cyclic.theta)

    @property
    def names(self) -> tuple[str, ...]:
        """Those of both kernels."""
        return (*self.kernel.names, *(f"cyclic_{name}" for name in self.cyclic.names))

    def bounds_on(self, X: FloatArray) -> FloatArray:
        """Return those of both kernels."""
        first = self._items(X)[0]
        own = self.cyclic.bounds_on(first[:, : self.n_columns])
        return np.vstack([self.kernel.bounds_on(first), own])

    def hyperprior_on(self, X: FloatArray, deviation: float) -> Hyperprior:
        """Return those of both; the amplitude of the second counts squared."""
        first, usual = self._items(X)[0], np.sqrt(CYCLE_SHARE * deviation)
        own = self.cyclic.hyperprior_on(first[:, : self.n_columns], usual)
        return self.kernel.hyperprior_on(first, deviation).joined_with(own)

    def with_theta(self, theta: FloatArray) -> Self:
        """Return this kernel with other parameters."""
        n_kernel = len(self.kernel.theta)
        kernel = self.kernel.with_theta(theta[:n_kernel])
        return replace(self, kernel=kernel, cyclic=self.cyclic.with_theta(theta[n_kernel:]))

    def weighted_gradient(self, A: FloatArray, B: FloatArray, M: FloatArray) -> FloatArray:
        """Return the derivative of ``sum(M * k(A, B))``."""
        by_scores = np.zeros(len(self.kernel.theta))
        for a, b, mask in self._sides(A, B):
            by_scores = by_scores + self.kernel.weighted_gradient(a, b, M * mask)
        (a, b), (c, d) = self._cyclic_items(A), self._cyclic_items(B)
        P, (ac, bd, ad, bc) = M * self._both(A, B), self._products(A, B)
        parts = ((a, c, P * bd), (b, d, P * ac), (a, d, -P * bc), (b, c, -P * ad))
        by_cycles = sum(self.cyclic.weighted_gradient(*part) for part in parts)
        return np.append(by_scores, by_cycles)

    def difference_variance(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return the variance of the difference of two rows."""
        return self.diagonal(A) + self.diagonal(B) - 2.0 * row_by_row(self, A, B)

    def weighted_variance_gradient(self, A: FloatArray, B: FloatArray, g: FloatArray) -> FloatArray:
        """Return the derivative of ``g @ difference_variance(A, B)``."""
        total = np.zeros(len(self.theta))
        for start in range(0, len(A), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            a, b, G = A[rows], B[rows], np.diag(g[rows])
            for one, other, factor in ((a, a, 1.0), (b, b, 1.0), (a, b, -2.0)):
                total = total + factor * self.weighted_gradient(one, other, G)
        return total

    @property
    def own_variance(self) -> float:
        """That of the scores."""
        return self.kernel.own_variance

    def own_variance_gradient(self) -> FloatArray:
        """Return that of the scores."""
        return np.append(self.kernel.own_variance_gradient(), np.zeros(len(self.cyclic.theta)))

    def _items(self, A: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the columns of the first and of the second items."""
        width = (A.shape[1] - 2) // 2
        return A[:, :width], A[:, width : 2 * width]

    def _cyclic_items(self, A: FloatArray) -> tuple[FloatArray, FloatArray]:
        first, second = self._items(A)
        return first[:, : self.n_columns], second[:, : self.n_columns]

    def _sides(
        self, A: FloatArray, B: FloatArray
    ) -> list[tuple[FloatArray, FloatArray, FloatArray]]:
        """Return every item of A with every one of B, and the sign of their covariance."""
        return [
            (a, b, sign * np.outer(A[:, -2 + i], B[:, -2 + j]))
            for i, a in enumerate(self._items(A))
            for j, b in enumerate(self._items(B))
            for sign in [1.0 if i == j else -1.0]
        ]

    def _both(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return which rows are both comparisons."""
        return np.outer(A[:, -2] * A[:, -1], B[:, -2] * B[:, -1])

    def _products(self, A: FloatArray, B: FloatArray) -> list[FloatArray]:
        """Return the second kernel between first and first, second and second, and across."""
        (a, b), (c, d) = self._cyclic_items(A), self._cyclic_items(B)
        return [self.cyclic(*ends) for ends in ((a, c), (b, d), (a, d), (b, c))]


@dataclass(frozen=True)
class WithDeviations(ParametricKernel, ABC):
    r"""Common scores, and deviations from them that some share.

    .. math:: k(a, b) + s(a, b)\, k_2(a, b)

    Here s tells how alike those are who see the two rows.

    Parameters
    ----------
    kernel : ParametricKernel
        Of the common scores f.
    own : ParametricKernel
        :math:`k_2`, of the deviations g.
    n_columns : int, optional
        How many columns of a row are the item, which is all that :math:`k_2` reads; by default all
        that the first kernel reads.
    """

    kernel: ParametricKernel
    own: ParametricKernel
    n_columns: int | None = None

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix."""
        alike = self._alike(A, B)
        K = self.kernel(*self._pair(self._inner, A, B))
        return K + alike * self.own(*self._pair(self._item, A, B)) if alike.any() else K

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the kernel of every row with itself."""
        own = self._alike_by_row(A, A) * self.own.diagonal(self._item(A))
        return np.asarray(self.kernel.diagonal(self._inner(A)) + own)

    def fitted_to(self, X: Matrix, sample_weight: FloatArray | None = None) -> Self:
        """Return this kernel with the inner ones fitted."""
        kernel = self.kernel.fitted_to(self._inner(X), sample_weight)
        return replace(self, kernel=kernel, own=self.own.fitted_to(self._item(X), sample_weight))

    @property
    def theta(self) -> FloatArray:
        """Those of both kernels."""
        return np.append(self.kernel.theta, self.own.theta)

    @property
    def names(self) -> tuple[str, ...]:
        """Those of both kernels."""
        return (*self.kernel.names, *(f"{self._word}_{name}" for name in self.own.names))

    def bounds_on(self, X: FloatArray) -> FloatArray:
        """Return those of both kernels."""
        own = self.own.bounds_on(self._item(X))
        return np.vstack([self.kernel.bounds_on(self._inner(X)), own])

    def hyperprior_on(self, X: FloatArray, deviation: float) -> Hyperprior:
        """Return those of both kernels."""
        own = self.own.hyperprior_on(self._item(X), TASTE_SHARE * deviation)
        return self.kernel.hyperprior_on(self._inner(X), deviation).joined_with(own)

    def with_theta(self, theta: FloatArray) -> Self:
        """Return this kernel with other parameters."""
        n_kernel = len(self.kernel.theta)
        kernel = self.kernel.with_theta(theta[:n_kernel])
        return replace(self, kernel=kernel, own=self.own.with_theta(theta[n_kernel:]))

    def weighted_gradient(self, A: FloatArray, B: FloatArray, M: FloatArray) -> FloatArray:
        """Return the derivative of ``sum(M * k(A, B))``."""
        items = self._pair(self._item, A, B)
        by_own = self.own.weighted_gradient(*items, M * self._alike(A, B))
        by_common = self.kernel.weighted_gradient(*self._pair(self._inner, A, B), M)
        return np.append(by_common, by_own)

    def difference_variance(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return the variance of the difference of two rows."""
        (a, b), (first, both, second) = self._pair(self._item, A, B), self._shares(A, B)
        own = both * self.own.difference_variance(a, b)
        own = own + first * self.own.diagonal(a) + second * self.own.diagonal(b)
        inner = self._pair(self._inner, A, B)
        return np.asarray(self.kernel.difference_variance(*inner) + own)

    def weighted_variance_gradient(self, A: FloatArray, B: FloatArray, g: FloatArray) -> FloatArray:
        """Return the derivative of ``g @ difference_variance(A, B)``."""
        (a, b), (first, both, second) = self._pair(self._item, A, B), self._shares(A, B)
        by_own = self.own.weighted_variance_gradient(a, b, g * both)
        for rows, share in ((a, first), (b, second)):
            for start in range(0, len(rows), ROWS_AT_ONCE) if share.any() else ():
                part = slice(start, start + ROWS_AT_ONCE)
                G = np.diag(g[part] * share[part])
                by_own = by_own + self.own.weighted_gradient(rows[part], rows[part], G)
        inner = self._pair(self._inner, A, B)
        return np.append(self.kernel.weighted_variance_gradient(*inner, g), by_own)

    @property
    def own_variance(self) -> float:
        """That of the common scores."""
        return self.kernel.own_variance

    def own_variance_gradient(self) -> FloatArray:
        """Return that of the common scores."""
        return np.append(self.kernel.own_variance_gradient(), np.zeros(len(self.own.theta)))

    def _item(self, A: FloatArray) -> FloatArray:
        """Return the columns of the item."""
        return self._inner(A) if self.n_columns is None else A[:, : self.n_columns]

    def _pair(
        self, columns: Callable[[FloatArray], FloatArray], A: FloatArray, B: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return columns of A and of B, the same array where these are one."""
        a = columns(A)
        return a, a if A is B else columns(B)

    def _shares(self, A: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return how much of the deviations is in the first row alone, in both, in the second."""
        both = self._alike_by_row(A, B)
        return self._alike_by_row(A, A) - both, both, self._alike_by_row(B, B) - both

    @property
    @abstractmethod
    def _word(self) -> str:
        """What the names of the parameters of the deviations begin with."""

    @abstractmethod
    def _inner(self, A: FloatArray) -> FloatArray:
        """Return the columns of the first kernel."""

    @abstractmethod
    def _alike(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return s for all rows of A with all of B."""

    @abstractmethod
    def _alike_by_row(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return s row by row."""


@final
@dataclass(frozen=True)
class WithTastes(WithDeviations):
    """Let every person deviate by itself: s is 1 for rows of one person, and 0 otherwise.

    The last column of a row is the number of a person, or 0 for the common score.
    """

    @property
    def _word(self) -> str:
        return "taste"

    def _inner(self, A: FloatArray) -> FloatArray:
        return A[:, :-1]

    def _alike(self, A: FloatArray, B: FloatArray) -> FloatArray:
        a, b = A[:, -1][:, None], B[:, -1]
        return np.asarray((a == b) & (a != 0.0), dtype=np.float64)

    def _alike_by_row(self, A: FloatArray, B: FloatArray) -> FloatArray:
        a, b = A[:, -1], B[:, -1]
        return np.asarray((a == b) & (a != 0.0), dtype=np.float64)


@final
@dataclass(frozen=True)
class WithTraits(WithDeviations):
    """Let persons deviate as their features say: s is the product of two persons' features.

    These stand in the last columns of a row; zeros are an average person. The kernel of persons and
    items is the product of a linear one of persons and one of items.

    Parameters
    ----------
    n_traits : int
        The number of features of a person.
    """

    n_traits: int = 1

    @property
    def _word(self) -> str:
        return "trait"

    def _inner(self, A: FloatArray) -> FloatArray:
        return A[:, : -self.n_traits]

    def _alike(self, A: FloatArray, B: FloatArray) -> FloatArray:
        return np.asarray(A[:, -self.n_traits :] @ B[:, -self.n_traits :].T)

    def _alike_by_row(self, A: FloatArray, B: FloatArray) -> FloatArray:
        return np.einsum("ij,ij->i", A[:, -self.n_traits :], B[:, -self.n_traits :])
