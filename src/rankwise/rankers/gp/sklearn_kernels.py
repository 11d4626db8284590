"""scikit-learn's Gaussian process kernels as kernels of this package."""

from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.features.covariances import ROWS_AT_ONCE, Hyperprior, ParametricKernel, row_by_row

GRADIENT_NUMBERS = 2**24
"""Entries of a gradient that may exist at a time: 128 MiB."""


@final
@dataclass(frozen=True)
class SklearnKernel(ParametricKernel):
    """Wrap a kernel of `sklearn.gaussian_process.kernels`, with its parameters and bounds.

    Its gradients come as arrays with an axis for the parameters; they are formed and summed up a
    block of rows at a time, so that the memory stays bounded.
    """

    kernel: Any

    def __call__(self, A: Matrix, B: Matrix) -> FloatArray:
        """Return the kernel matrix; white noise counts between a set of rows and itself only."""
        return np.array(self.kernel(A) if A is B else self.kernel(A, B))

    def diagonal(self, A: Matrix) -> FloatArray:
        """Return the kernel of every row with itself."""
        return np.asarray(self.kernel.diag(A), dtype=float)

    def fitted_to(self, X: Matrix) -> Self:  # noqa: ARG002
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

    def hyperprior_on(self, X: FloatArray, spread: float) -> Hyperprior:  # noqa: ARG002
        """Return nothing: what the parameters mean is known to the kernel alone."""
        return Hyperprior.flat(len(self.theta))

    def with_theta(self, theta: FloatArray) -> Self:
        """Return a copy with other parameters."""
        return replace(self, kernel=self.kernel.clone_with_theta(theta))

    def contract(self, A: FloatArray, B: FloatArray, M: FloatArray) -> FloatArray:
        """Return the derivative of ``sum(M * k(A, B))``, block by block."""
        size = int(np.sqrt(GRADIENT_NUMBERS / max(1, len(self.theta))))
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

    def spread(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return the variance of f(a) - f(b)."""
        return self.diagonal(A) + self.diagonal(B) - 2.0 * row_by_row(self, A, B)

    def contract_spread(self, A: FloatArray, B: FloatArray, g: FloatArray) -> FloatArray:
        """Return the derivative of ``g @ spread(A, B)``, a few rows at a time."""
        total = np.zeros(len(self.theta))
        for start in range(0, len(A), ROWS_AT_ONCE):
            a, b, weight = (values[start : start + ROWS_AT_ONCE] for values in (A, B, g))
            D = self.kernel(np.concatenate([a, b]), eval_gradient=True)[1]
            i = np.arange(len(a))
            j = i + len(a)
            total += weight @ (D[i, i] + D[j, j] - 2.0 * D[i, j])
        return total

    def _gradient_between(self, A: FloatArray, B: FloatArray) -> FloatArray:
        """Return dk(A, B): scikit-learn knows gradients of square matrices only."""
        D = self.kernel(np.concatenate([A, B]), eval_gradient=True)[1]
        return np.asarray(D[: len(A), len(A) :])
