"""Solve (A + alpha I) x = b for one alpha or for many, with A symmetric and not negative."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, final

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dormqr, dpotrf, dpotrs, dptsv, dsytrd

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError

INDEFINITE = 1e-8
"""A smallest eigenvalue below minus this share of the largest is no rounding error."""

BLOCK = 64
"""LAPACK's block size, by which its work space is measured."""


@final
@dataclass(frozen=True, eq=False)
class Spectrum:
    """The eigenvalues and eigenvectors of A: they answer every alpha and right-hand side.

    Attributes
    ----------
    values : (order,)
        Eigenvalues in rising order, rounding errors below 0 set to 0.
    vectors : (order, order)
        Eigenvectors as columns.
    size : float
        The largest number that A was computed from, where it is known: rounding errors of A are a
        share of it.
    """

    values: FloatArray
    vectors: FloatArray
    size: float = 0.0

    @classmethod
    def of(cls, A: FloatArray, size: float = 0.0) -> Self:
        """Decompose a symmetric matrix, which is overwritten; its upper triangle is read."""
        if len(A) == 0:
            return cls(np.zeros(0), np.zeros((0, 0)))
        # LAPACK works on columns: the transpose of a symmetric matrix is decomposed without a copy
        values, vectors = eigh(A.T, driver="evd", overwrite_a=True, check_finite=False)
        return cls.known(values, vectors, size)

    @classmethod
    def known(cls, values: FloatArray, vectors: FloatArray, size: float = 0.0) -> Self:
        """Take eigenvalues in rising order and eigenvectors that were found elsewhere."""
        refuse_indefinite(values[0], max(values[-1], size))
        return cls(np.maximum(values, 0.0), vectors, size)

    @property
    def order(self) -> int:
        """Number of unknowns."""
        return len(self.values)

    def rcond(self, alphas: FloatArray) -> FloatArray:
        """Return the reciprocal condition number of ``A + alpha I`` for every alpha."""
        return (self.values[0] + alphas) / (max(self.values[-1], self.size) + alphas)

    def solve(self, B: FloatArray, alpha: float) -> FloatArray:
        """Return ``(A + alpha I)^-1 B``."""
        return self.vectors @ ((self.vectors.T @ B) / (self.values + alpha)[:, None])

    def path(self, B: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return the solutions for every alpha, shape (n_alphas, order, k)."""
        projected = self.vectors.T @ B
        # [PTA09] eq. (31), [PTAB07] Sect. 2.4
        scaled = projected[None] / (self.values + alphas[:, None])[:, :, None]
        return _back(scaled, lambda stacked: self.vectors @ stacked)


@final
@dataclass(frozen=True, eq=False)
class Tridiagonal:
    """The reduction A = Q T Q': about half the price of a `Spectrum`, enough for a path.

    Attributes
    ----------
    reflectors, tau
        LAPACK's compact form of Q.
    diagonal : (order,)
        The diagonal of T.
    off_diagonal : (order - 1,)
        Its neighbour.
    size : float
        As in `Spectrum`.
    """

    reflectors: FloatArray
    tau: FloatArray
    diagonal: FloatArray
    off_diagonal: FloatArray
    size: float = 0.0

    @classmethod
    def of(cls, A: FloatArray, size: float = 0.0) -> Self:
        """Reduce a symmetric matrix, which is overwritten.

        Whether it is positive semidefinite shows for an alpha that does not make it definite.
        """
        order = len(A)
        c, d, e, tau, _ = dsytrd(A.T, lower=True, lwork=BLOCK * order, overwrite_a=True)
        return cls(c, tau, d, e, size)

    def path(self, B: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return the solutions for every alpha, shape (n_alphas, order, k)."""
        turned = self._turn(B, "T")
        solutions = np.stack([self._solve(turned, alpha) for alpha in alphas])
        return _back(solutions, lambda stacked: self._turn(stacked, "N"))

    def _solve(self, B: FloatArray, alpha: float) -> FloatArray:
        if len(B) == 1:
            return B / (self.diagonal + alpha)
        _, _, x, info = dptsv(self.diagonal + alpha, self.off_diagonal, B)
        if info != 0:  # alpha is lost in the rounding errors of T
            dense = np.diag(self.diagonal) + np.diag(self.off_diagonal, 1)
            return Spectrum.of(dense, self.size).solve(B, alpha)
        return x

    def _turn(self, B: FloatArray, trans: str) -> FloatArray:
        """Return ``Q @ B`` or ``Q.T @ B``; Q leaves the first row alone."""
        out = np.array(B, order="F")
        if len(out) > 1:
            a = self.reflectors[1:, :-1]
            out[1:], _, _ = dormqr("L", trans, a, self.tau, out[1:], BLOCK * out.shape[1])
        return out


def _back(solutions: FloatArray, turn: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Turn the solutions of all alphas back together: one matrix product."""
    n_alphas, order, k = solutions.shape
    stacked = solutions.transpose(1, 0, 2).reshape(order, n_alphas * k)
    return turn(stacked).reshape(order, n_alphas, k).transpose(1, 0, 2)


def solve_once(A: FloatArray, B: FloatArray, alpha: float, size: float = 0.0) -> FloatArray:
    """Return ``(A + alpha I)^-1 B`` by one Cholesky factorisation; A is overwritten.

    Where alpha is lost in the rounding errors of A, the eigendecomposition takes over; ``size`` is
    that of `Spectrum`.
    """
    if len(A) == 0:
        return np.zeros_like(B)
    diagonal = np.diagonal(A).copy()
    A.flat[:: len(A) + 1] += alpha
    factor, info = dpotrf(A.T, lower=False, clean=False, overwrite_a=True)
    if info == 0:
        return dpotrs(factor, B, lower=False)[0]
    A = np.triu(A, 1)  # the factor filled the lower triangle; `Spectrum.of` reads the upper one
    A.flat[:: len(A) + 1] = diagonal
    return Spectrum.of(A, size).solve(B, alpha)


def refuse_indefinite(lowest: float, highest: float) -> None:
    """Raise unless the smallest eigenvalue is zero or more, up to rounding errors."""
    if lowest < -INDEFINITE * max(abs(highest), abs(lowest)):
        raise InvalidInputError(
            "The kernel must be positive semidefinite: its smallest eigenvalue is "
            f"{lowest:.3g}, the largest {highest:.3g}. Use a valid kernel, or repair this one, "
            "for example by adding to its diagonal."
        )


def refuse_indefinite_matrix(A: FloatArray) -> None:
    """Raise unless A is positive semidefinite up to rounding errors: one Cholesky of a copy."""
    if len(A) == 0:
        return
    shifted = A + INDEFINITE * np.abs(A).sum(axis=1).max() * np.eye(len(A))
    if dpotrf(shifted.T, lower=False, overwrite_a=True)[1] != 0:
        values = eigh(A, eigvals_only=True, check_finite=False)
        refuse_indefinite(values[0], values[-1])
