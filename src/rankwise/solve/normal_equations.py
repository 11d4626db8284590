"""The normal equations of RankRLS in the smallest space, and their solution for any alpha."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self, final

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dormqr, dpotrf, dpotrs, dptsv, dsytrd

from rankwise.core.arrays import FloatArray, Matrix, as_columns
from rankwise.core.devices import Device, DeviceArray
from rankwise.core.errors import InvalidInputError, NumericalError
from rankwise.core.namespaces import eigh_in_place, is_finite
from rankwise.graph.laplacian import Root, moment
from rankwise.graph.preference_graph import PreferenceGraph

INDEFINITE = 1e-8
"""A smallest eigenvalue below minus this share of the largest is no rounding error."""

CENTRED_ON = 1000
"""Rows whose mean is taken from features on a device, so that products of them keep digits."""

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
                "The scores must be larger than their rounding errors: the relative error may be "
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

    def eigenpairs(self) -> tuple[FloatArray, FloatArray]:
        """Return the eigenvalues, 0 or more, and the eigenvectors; the matrix is overwritten."""
        found = self.spectrum()
        return found.values, found.vectors

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
    def primal(
        cls, graph: PreferenceGraph, F: DeviceArray, C: DeviceArray | None, device: Device
    ) -> Self:
        """Build from features ``Z = F C^-T`` on the device, F if C is None: [PTA09] (28).

        F is overwritten.
        """
        F -= F[:CENTRED_ON].mean(0)  # no graph sees the difference, but digits are saved
        moment = F.T @ device.array(as_columns(graph.rhs))
        with np.errstate(over="ignore", invalid="ignore"):
            gram = graph.laplacian.gram_on(F, device)
        if C is not None:
            half = device.solve_triangular(C, gram)
            gram, moment = device.solve_triangular(C, half.T), device.solve_triangular(C, moment)
        rhs = device.host(moment)
        _refuse_overflow(is_finite=is_finite(gram) and bool(np.isfinite(rhs).all()))
        return cls(gram, rhs, None, device)

    @classmethod
    def dual(cls, graph: PreferenceGraph, K: DeviceArray, device: Device, *, trusted: bool) -> Self:
        """Build from a kernel matrix on the device, which is overwritten."""
        root = graph.laplacian.root()
        size = float(abs(K.diagonal()).max())
        reduced = root.on(device).reduce(K)
        rhs = root.solve(as_columns(graph.rhs))
        _refuse_overflow(is_finite=is_finite(reduced) and bool(np.isfinite(rhs).all()))
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
        return V if self.root is None else self.root.on(self.device).coordinates(V)

    def eigenpairs(self) -> tuple[FloatArray, DeviceArray]:
        """Return the eigenvalues, 0 or more, and the eigenvectors, which stay on the device.

        The matrix may be overwritten.
        """
        values, vectors = eigh_in_place(self.matrix.contiguous())
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
        # [PTAB07] eq. (11), [PTA09] eq. (28): H M M' H', [APS10] eq. (6)
        return self.graph.laplacian.gram(self.Z)

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
        return self.root.to_items(C)  # [PTAB07] eq. (8), [PTA09] eq. (17), [APS10] eq. (7)
