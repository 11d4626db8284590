"""The normal equations of RankRLS, in the smallest space there is."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Self, final

import numpy as np
from scipy import sparse

from rankwise.core.arrays import FloatArray, Matrix
from rankwise.core.graph import PreferenceGraph
from rankwise.core.laplacian import Root
from rankwise.inference._rls_kernels import shifted_product
from rankwise.inference.systems import (
    Spectrum,
    Tridiagonal,
    refuse_indefinite_matrix,
    solve_once,
)


class System(ABC):
    """A symmetric system (A + alpha I) c = b, and the way from c to the weights wanted."""

    @abstractmethod
    def matrix(self) -> FloatArray:
        """Return A as a matrix that may be overwritten."""

    @property
    @abstractmethod
    def rhs(self) -> FloatArray:
        """b, of shape (order, n_outputs)."""

    @abstractmethod
    def lift(self, C: FloatArray) -> FloatArray:
        """Turn solutions c into weights."""

    def solve(self, alpha: float) -> FloatArray:
        """Return the weights for one alpha: one Cholesky factorisation."""
        return self.lift(solve_once(self.matrix(), self.rhs, alpha))

    def path(self, alphas: FloatArray) -> FloatArray:
        """Return the weights for every alpha, (n_alphas, n_weights, n_outputs)."""
        solutions = Tridiagonal.of(self.matrix()).path(self.rhs, alphas)
        return np.stack([self.lift(C) for C in solutions])

    def spectrum(self) -> Spectrum:
        """Return the decomposition that answers every alpha and every hold-out."""
        return Spectrum.of(self.matrix())


@final
@dataclass(frozen=True, eq=False)
class Primal(System):
    """Features as unknowns: ``(Z'LZ + alpha I) w = Z'r``, [PTA09] (28)."""

    graph: PreferenceGraph
    Z: Matrix

    def matrix(self) -> FloatArray:
        """Return ``Z' L Z``."""
        return self.graph.laplacian.gram(self.Z)

    @cached_property
    def rhs(self) -> FloatArray:
        """``Z' r``."""
        return moment(self.Z, as_columns(self.graph.rhs))

    def lift(self, C: FloatArray) -> FloatArray:
        """Return the weights as they are."""
        return C


@final
@dataclass(frozen=True, eq=False)
class Dual(System):
    """Coordinates of the graph as unknowns: ``(R'KR + alpha I) c = c0`` with ``R c0 = r``.

    The dual coefficients are ``a = R c``, which solves [PTA09] (17) without ever inverting K or L
    and without the null space of L that makes (17) lose digits as alpha falls.
    """

    reduced: FloatArray
    root: Root
    rhs: FloatArray

    @classmethod
    def of(cls, graph: PreferenceGraph, K: FloatArray, *, trusted: bool = True) -> Self:
        """Reduce a kernel matrix; one that is not trusted is checked to be semidefinite."""
        root = graph.laplacian.root()
        reduced = root.reduce(K)
        if not trusted:
            refuse_indefinite_matrix(reduced)
        return cls(reduced, root, root.solve(as_columns(graph.rhs)))

    def matrix(self) -> FloatArray:
        """Return ``R' K R``; this system cannot be used after it is overwritten."""
        return self.reduced

    def lift(self, C: FloatArray) -> FloatArray:
        """Return ``R @ C``, one weight per item."""
        return self.root.to_items(C)


def moment(Z: Matrix, R: FloatArray) -> FloatArray:
    """Return ``Z.T @ R`` for R whose columns sum to zero."""
    if sparse.issparse(Z):
        return Z.T @ R
    return shifted_product(Z, R)


def as_columns(values: FloatArray) -> FloatArray:
    """Return values of shape (n,) or (n, k) as a matrix of columns."""
    return values.reshape(len(values), -1)
