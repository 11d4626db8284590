"""Kernels with parameters to learn, and what is known about these beforehand."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Self, final

import numpy as np
from scipy.linalg import block_diag

from rankwise.core.arrays import FloatArray
from rankwise.features.kernels import Kernel

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
