"""The normal equations of RankRLS, in the smallest space there is."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self, final

import numpy as np

from rankwise.core.arrays import FloatArray, Matrix, as_columns
from rankwise.graph.laplacian import Root, moment
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.solve.spectra import Spectrum, Tridiagonal, refuse_indefinite_matrix, solve_once


class System(ABC):
    """A symmetric system (A + alpha I) c = b, and the way from c to the weights wanted."""

    rhs: FloatArray
    """b, of shape (order, n_outputs)."""

    @abstractmethod
    def matrix(self) -> FloatArray:
        """Return A as a matrix that may be overwritten."""

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
    """Features as unknowns: ``(Z'LZ + alpha I) w = Z'r``.

    Notes
    -----
    [PTAB07] (11) for the function (10), [PTA09] (28) for the function (27), [APS10] (6).
    """

    graph: PreferenceGraph
    Z: Matrix
    rhs: FloatArray

    @classmethod
    def of(cls, graph: PreferenceGraph, Z: Matrix) -> Self:
        """Build from a graph and the features of its items."""
        return cls(graph, Z, moment(Z, as_columns(graph.rhs), graph.laplacian.anchor()))

    def matrix(self) -> FloatArray:
        """Return ``Z' L Z``."""
        return self.graph.laplacian.gram(self.Z)  # [PTA09] eq. (28): H M M' H'

    def lift(self, C: FloatArray) -> FloatArray:
        """Return the weights as they are."""
        return C


@final
@dataclass(frozen=True, eq=False)
class Dual(System):
    """Coordinates of the graph as unknowns: ``(R'KR + alpha I) c = c0`` with ``R c0 = r``.

    The dual coefficients are ``a = R c``, which solves [PTA09] (17) without ever inverting K or L
    and without the null space of L that makes (17) lose digits as alpha falls.

    Notes
    -----
    [PTAB07] (8) is (17) for scores; [APS10] (7) is symmetric too, of the order of the items.
    """

    reduced: FloatArray
    root: Root
    rhs: FloatArray

    @classmethod
    def of(cls, graph: PreferenceGraph, K: FloatArray, *, trusted: bool = True) -> Self:
        """Reduce a kernel matrix, which is overwritten; check it unless its kernel is trusted."""
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
        return self.root.to_items(C)  # [PTA09] eq. (17)
