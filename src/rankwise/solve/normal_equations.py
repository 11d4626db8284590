"""The normal equations of RankRLS, in the smallest space there is."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Self, final

import numpy as np

from rankwise.core.arrays import FloatArray, Matrix, as_columns
from rankwise.core.devices import Device, DeviceArray
from rankwise.core.errors import NumericalError
from rankwise.graph.laplacian import Root, moment
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.solve.spectra import (
    Spectrum,
    Tridiagonal,
    refuse_indefinite,
    refuse_indefinite_matrix,
    solve_once,
)

TRUSTED = 1e-3
"""Scores that may be off by more than this share of their targets, by rounding alone, are refused.
"""


class System(ABC):
    """A symmetric system (A + alpha I) c = b, and the way from c to the weights wanted."""

    rhs: FloatArray
    """b, of shape (order, n_outputs)."""
    size: float
    """The largest number that A was computed from, 0 where it is not known."""
    rounding: float
    """The rounding error of a score, as a share of its target, per unit of the weights."""

    @abstractmethod
    def lift(self, C: FloatArray) -> FloatArray:
        """Turn solutions c into weights."""

    @abstractmethod
    def solve(self, alpha: float) -> FloatArray:
        """Return the weights for one alpha: one Cholesky factorisation."""

    @abstractmethod
    def path(self, alphas: FloatArray, *, checked: bool = True) -> FloatArray:
        """Return the weights for every alpha, (n_alphas, n_weights, n_outputs).

        Weights whose scores are rounding errors are refused, unless the caller reports the errors
        of each alpha itself (``checked=False``).
        """

    @abstractmethod
    def spectrum(self) -> Spectrum:
        """Return the decomposition that answers every alpha and every hold-out."""

    def _trusted_weights(self, C: FloatArray) -> FloatArray:
        """Turn a solution c into weights; raise where their scores are rounding errors."""
        weights = self.lift(C)
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
        return weights


def _refuse_overflow(*, is_finite: bool) -> None:
    """Raise unless the normal equations are finite."""
    if not is_finite:
        raise NumericalError(
            "The normal equations must be finite: squares of the features, the kernel or the "
            "scores exceed the range of double precision. Scale the features, or lower the "
            "degree of the kernel."
        )


class HostSystem(System, ABC):
    """A system whose matrix is here."""

    @abstractmethod
    def matrix(self) -> FloatArray:
        """Return A as a matrix that may be overwritten."""

    def solve(self, alpha: float) -> FloatArray:
        """Return the weights for one alpha: one Cholesky factorisation."""
        C = solve_once(self._finite_matrix(), self.rhs, alpha, self.size)
        return self._trusted_weights(C)

    def path(self, alphas: FloatArray, *, checked: bool = True) -> FloatArray:
        """Return the weights for every alpha, (n_alphas, n_weights, n_outputs)."""
        solutions = Tridiagonal.of(self._finite_matrix(), self.size).path(self.rhs, alphas)
        made = self._trusted_weights if checked else self.lift
        return np.stack([made(C) for C in solutions])

    def spectrum(self) -> Spectrum:
        """Return the decomposition that answers every alpha and every hold-out."""
        return Spectrum.of(self._finite_matrix(), self.size)

    def _finite_matrix(self) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            A = self.matrix()
        _refuse_overflow(is_finite=bool(np.isfinite(A).all() and np.isfinite(self.rhs).all()))
        return A


@final
@dataclass(frozen=True, eq=False)
class DeviceSystem(System):
    """A system whose matrix is on a device.

    Many alphas are as many factorisations: on a GPU each takes a hundredth of the
    eigendecomposition or less.

    Parameters
    ----------
    matrix : device array
        A.
    rhs : (order, n_outputs)
        b.
    root : Root, optional
        How weights of items are made of c; features have their weights as they are.
    device : Device
        Where the matrix is.
    size, rounding : float
        As in every `System`.
    """

    matrix: DeviceArray
    rhs: FloatArray
    root: Root | None
    device: Device
    size: float = 0.0
    rounding: float = 0.0

    @classmethod
    def primal(cls, graph: PreferenceGraph, Z: DeviceArray, device: Device) -> Self:
        """Build from features on the device: [PTA09] (28)."""
        Z = Z - Z.mean(0)  # no graph sees the difference, but digits are saved
        rhs = device.host(Z.T @ device.array(as_columns(graph.rhs)))
        with np.errstate(over="ignore", invalid="ignore"):
            gram = graph.laplacian.gram_on(Z, device)
        _refuse_overflow(is_finite=device.is_finite(gram) and bool(np.isfinite(rhs).all()))
        return cls(gram, rhs, None, device)

    @classmethod
    def dual(cls, graph: PreferenceGraph, K: DeviceArray, device: Device, *, trusted: bool) -> Self:
        """Build from a kernel matrix on the device, which is overwritten."""
        root = graph.laplacian.root()
        size = float(device.absolute(K.diagonal()).max())
        reduced = root.reduce_on(K, device)
        rhs = root.solve(as_columns(graph.rhs))
        _refuse_overflow(is_finite=device.is_finite(reduced) and bool(np.isfinite(rhs).all()))
        if not trusted:
            refuse_indefinite_matrix(device.host(reduced))
        return cls(reduced, rhs, root, device, size, rounding_of_scores(graph, size))

    def lift(self, C: FloatArray) -> FloatArray:
        """Turn solutions c into weights."""
        return C if self.root is None else self.root.to_items(C)

    def solve(self, alpha: float) -> FloatArray:
        """Return the weights for one alpha: one Cholesky factorisation."""
        return self._trusted_weights(self._solution(alpha, None))

    def path(self, alphas: FloatArray, *, checked: bool = True) -> FloatArray:
        """Return the weights for every alpha: a factorisation each."""
        lost: list[Spectrum] = []
        made = self._trusted_weights if checked else self.lift
        return np.stack([made(self._solution(float(a), lost)) for a in alphas])

    def root_on(self, V: DeviceArray) -> DeviceArray:
        """Return the coordinates of vectors over the items, on the device."""
        return V if self.root is None else self.root.coordinates_on(V, self.device)

    def eigenpairs(self) -> tuple[FloatArray, DeviceArray]:
        """Return the eigenvalues, 0 or more, and the eigenvectors, which stay on the device.

        The matrix may be overwritten.
        """
        values, vectors = self.device.eigh_in_place(self.matrix.contiguous())
        known = self.device.host(values)
        refuse_indefinite(known[0], max(known[-1], self.size))
        return np.maximum(known, 0.0), vectors

    def spectrum(self) -> Spectrum:
        """Return the decomposition, made on the device and brought here."""
        values, vectors = self.device.eigh(self.matrix)
        return Spectrum.known(self.device.host(values), self.device.host(vectors), self.size)

    def _solution(self, alpha: float, lost: list[Spectrum] | None) -> FloatArray:
        """Solve; where alpha is lost in rounding errors, the eigendecomposition takes over."""
        A = self.matrix.clone()
        A.diagonal().add_(alpha)
        factor = self.device.factor_in_place(A)
        if factor is not None:
            return self.device.host(self.device.solve_factored(factor, self.device.array(self.rhs)))
        known = [] if lost is None else lost
        if not known:
            known.append(self.spectrum())
        return known[0].solve(self.rhs, alpha)


def rounding_of_scores(graph: PreferenceGraph, largest: float) -> float:
    """Return what ``K a`` rounds off, as a norm over all pairs, per unit of the norm of a."""
    mass = float(graph.laplacian.diagonal().sum())
    return float(np.finfo(float).eps) * largest * float(np.sqrt(mass))


@final
@dataclass(frozen=True, eq=False)
class Primal(HostSystem):
    """Features as unknowns: ``(Z'LZ + alpha I) w = Z'r``.

    Notes
    -----
    [PTAB07] (11) for the function (10), [PTA09] (28) for the function (27), [APS10] (6).
    """

    graph: PreferenceGraph
    Z: Matrix
    rhs: FloatArray
    size: float = 0.0
    """Nothing larger than A itself is known."""
    rounding: float = 0.0
    """The scores are differences of features, of which the graph has taken the offset."""

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
class Dual(HostSystem):
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
    size: float
    """Largest entry of K, which is on its diagonal."""
    rounding: float
    """What ``K a`` rounds off, as a norm over all pairs, per unit of the norm of a."""

    @classmethod
    def of(cls, graph: PreferenceGraph, K: FloatArray, *, trusted: bool = True) -> Self:
        """Reduce a kernel matrix, which is overwritten; check it unless its kernel is trusted."""
        root = graph.laplacian.root()
        largest = float(np.abs(np.diagonal(K)).max(initial=0.0))
        with np.errstate(over="ignore", invalid="ignore"):
            reduced = root.reduce(K)
        if not trusted and np.isfinite(reduced).all():
            refuse_indefinite_matrix(reduced)
        rhs = root.solve(as_columns(graph.rhs))
        return cls(reduced, root, rhs, largest, rounding_of_scores(graph, largest))

    def matrix(self) -> FloatArray:
        """Return ``R' K R``; this system cannot be used after it is overwritten."""
        return self.reduced

    def lift(self, C: FloatArray) -> FloatArray:
        """Return ``R @ C``, one weight per item."""
        return self.root.to_items(C)  # [PTA09] eq. (17)
