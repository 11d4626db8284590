"""The normal equations of RankRLS, in the smallest space there is."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self, final

import numpy as np

from rankwise.core.arrays import FloatArray, Matrix, as_columns
from rankwise.core.errors import NumericalError
from rankwise.graph.laplacian import Root, moment
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.solve.spectra import Spectrum, Tridiagonal, refuse_indefinite_matrix, solve_once

TRUSTED = 1e-3
"""Scores that may be off by more than this share of their targets, by rounding alone, are refused.
"""


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

    @property
    @abstractmethod
    def rounding(self) -> float:
        """The rounding error of a score, as a share of its target, per unit of the weights."""

    @property
    @abstractmethod
    def size(self) -> float:
        """The largest number that A was computed from."""

    def solve(self, alpha: float) -> FloatArray:
        """Return the weights for one alpha: one Cholesky factorisation."""
        weights = self.lift(solve_once(self._finite_matrix(), self.rhs, alpha, self.size))
        self._refuse_noise(weights)
        return weights

    def path(self, alphas: FloatArray, *, checked: bool = True) -> FloatArray:
        """Return the weights for every alpha, (n_alphas, n_weights, n_outputs).

        Weights whose scores are rounding errors are refused, unless the caller reports the errors
        of each alpha itself (``checked=False``).
        """
        solutions = Tridiagonal.of(self._finite_matrix(), self.size).path(self.rhs, alphas)
        weights = np.stack([self.lift(C) for C in solutions])
        if checked:
            for W in weights:
                self._refuse_noise(W)
        return weights

    def spectrum(self) -> Spectrum:
        """Return the decomposition that answers every alpha and every hold-out."""
        return Spectrum.of(self._finite_matrix(), self.size)

    def _finite_matrix(self) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            A = self.matrix()
        if not (np.isfinite(A).all() and np.isfinite(self.rhs).all()):
            raise NumericalError(
                "The normal equations must be finite: squares of the features, the kernel or the "
                "scores exceed the range of double precision. Scale the features, or lower the "
                "degree of the kernel."
            )
        return A

    def _refuse_noise(self, weights: FloatArray) -> None:
        """Raise where the scores of these weights are rounding errors."""
        if not np.isfinite(weights).all():
            raise NumericalError(
                "The weights must be finite: this problem cannot be solved in double precision. "
                "Regularise more, or scale the features."
            )
        error = self.rounding * float(np.linalg.norm(weights))
        if error > TRUSTED * float(np.linalg.norm(self.rhs)):
            raise NumericalError(
                "The scores must stand above rounding errors: these may be off by a share of "
                f"{error / float(np.linalg.norm(self.rhs)):.2g}. Centre and scale the features "
                "(StandardScaler), lower the degree of the kernel, or raise `alpha`."
            )


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

    @property
    def rounding(self) -> float:
        """0: the scores are differences of features, of which the graph has taken the offset."""
        return 0.0

    @property
    def size(self) -> float:
        """0: nothing larger than A itself is known."""
        return 0.0

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
    largest: float
    """Largest entry of K, which is on its diagonal."""
    mass: float
    """Trace of L."""

    @classmethod
    def of(cls, graph: PreferenceGraph, K: FloatArray, *, trusted: bool = True) -> Self:
        """Reduce a kernel matrix, which is overwritten; check it unless its kernel is trusted."""
        root = graph.laplacian.root()
        largest = float(np.abs(np.diagonal(K)).max(initial=0.0))
        with np.errstate(over="ignore", invalid="ignore"):
            reduced = root.reduce(K)
        if not trusted and np.isfinite(reduced).all():
            refuse_indefinite_matrix(reduced)
        mass = float(graph.laplacian.diagonal().sum())
        return cls(reduced, root, root.solve(as_columns(graph.rhs)), largest, mass)

    @property
    def rounding(self) -> float:
        """What the sum ``K a`` rounds off, as a norm over all pairs, per unit of the norm of a."""
        return float(np.finfo(float).eps) * self.largest * float(np.sqrt(self.mass))

    @property
    def size(self) -> float:
        """The largest entry of K."""
        return self.largest

    def matrix(self) -> FloatArray:
        """Return ``R' K R``; this system cannot be used after it is overwritten."""
        return self.reduced

    def lift(self, C: FloatArray) -> FloatArray:
        """Return ``R @ C``, one weight per item."""
        return self.root.to_items(C)  # [PTA09] eq. (17)
