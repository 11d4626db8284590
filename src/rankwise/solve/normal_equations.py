"""The normal equations of RankRLS in the smallest space, and their solution for any alpha.

Matrices may be of any namespace, and what is expensive happens there; right-hand sides and weights
are on the host.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol, Self, final

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dormqr, dpotrf, dptsv, dsytrd

from rankwise.core.arrays import FloatArray, IntArray, Matrix, as_columns
from rankwise.core.errors import InvalidInputError, NumericalError
from rankwise.core.namespaces import (
    Array,
    contiguous,
    eigh_in_place,
    is_finite,
    is_on_host,
    like,
    namespace_of,
    solve_shifted,
    solve_triangular,
    to_host,
)
from rankwise.graph.laplacian import Root, moment
from rankwise.graph.preference_graph import PreferenceGraph

INDEFINITE = 1e-8
"""A smallest eigenvalue below minus this share of the largest is no rounding error."""

TRUSTED = 1e-3
"""Scores that may be off by more than this share of their targets, by rounding alone, are refused.
"""

BLOCK = 64
"""LAPACK's block size, by which its work space is measured."""


@final
@dataclass(frozen=True, eq=False)
class Spectrum:
    """The eigenvalues and eigenvectors of A: they answer every alpha and right-hand side.

    Attributes
    ----------
    values : (order,)
        Eigenvalues in rising order, rounding errors below 0 set to 0; on the host.
    vectors : (order, order)
        Eigenvectors as columns, where A was.
    size : float
        The largest number that A was computed from, where it is known: rounding errors of A are a
        share of it.
    """

    values: FloatArray
    vectors: Array
    size: float = 0.0

    @classmethod
    def of(cls, A: Array, size: float = 0.0) -> Self:
        """Decompose a symmetric matrix, which is overwritten; its upper triangle is read."""
        if A.shape[0] == 0:
            return cls(np.zeros(0), A)
        found, vectors = eigh_in_place(A)
        values = to_host(found)
        refuse_indefinite(values[0], max(values[-1], size))
        return cls(np.maximum(values, 0.0), vectors, size)

    @property
    def order(self) -> int:
        """Number of unknowns."""
        return len(self.values)

    def rcond(self, alphas: FloatArray) -> FloatArray:
        """Return the reciprocal condition number of ``A + alpha I`` for every alpha."""
        return (self.values[0] + alphas) / (max(self.values[-1], self.size) + alphas)

    def projected(self, B: FloatArray) -> FloatArray:
        """Return right-hand sides in the eigenvectors."""
        return to_host(self.vectors.T @ like(B, self.vectors))

    def solve(self, B: FloatArray, alpha: float) -> FloatArray:
        """Return ``(A + alpha I)^-1 B``."""
        return self._rotated_back(self.projected(B) / (self.values + alpha)[:, None])

    def path(self, B: FloatArray, alphas: FloatArray) -> FloatArray:
        """Return the solutions for every alpha, shape (n_alphas, order, k)."""
        # [PTA09] eq. (31), [PTAB07] Sect. 2.4
        scaled = self.projected(B)[None] / (self.values + alphas[:, None])[:, :, None]
        return _all_at_once(scaled, self._rotated_back)

    def _rotated_back(self, B: FloatArray) -> FloatArray:
        return to_host(self.vectors @ like(B, self.vectors))


def _all_at_once(solutions: FloatArray, rotate: Callable[[FloatArray], FloatArray]) -> FloatArray:
    """Rotate the solutions of all alphas together: one matrix product."""
    n_alphas, order, k = solutions.shape
    stacked = solutions.transpose(1, 0, 2).reshape(order, n_alphas * k)
    return rotate(stacked).reshape(order, n_alphas, k).transpose(1, 0, 2)


def solve_once(A: Array, B: FloatArray, alpha: float, size: float = 0.0) -> FloatArray:
    """Return ``(A + alpha I)^-1 B`` by one Cholesky factorisation; A is overwritten.

    Where alpha is lost in the rounding errors of A, the eigendecomposition takes over; ``size`` is
    that of `Spectrum`.
    """
    if A.shape[0] == 0:
        return np.zeros_like(B)
    solution = solve_shifted(A, B, alpha)
    return Spectrum.of(A, size).solve(B, alpha) if solution is None else solution


def solve_path(A: Array, B: FloatArray, alphas: FloatArray, size: float = 0.0) -> FloatArray:
    """Return the solutions for every alpha, (n_alphas, order, k); A is overwritten.

    On the host they come from one tridiagonal reduction, which takes as long as about 8
    factorisations and half as long as the eigendecomposition. A GPU has no such reduction, and
    makes 70 factorisations in the time of one decomposition: there it is a factor for each alpha.
    """
    if is_on_host(A):
        return _tridiagonal_path(A, B, alphas, size)
    solutions = {}
    for alpha in alphas.tolist():
        if (found := solve_shifted(A, B, alpha)) is not None:
            solutions[alpha] = found
    lost = [alpha for alpha in alphas.tolist() if alpha not in solutions]
    if lost:  # in rounding errors
        spectrum = Spectrum.of(A, size)
        solutions |= {alpha: spectrum.solve(B, alpha) for alpha in lost}
    return np.stack([solutions[alpha] for alpha in alphas.tolist()])


def _tridiagonal_path(A: FloatArray, B: FloatArray, alphas: FloatArray, size: float) -> FloatArray:
    """Solve for every alpha by ``A = Q T Q'``, T tridiagonal, Q in LAPACK's compact form.

    Whether A is positive semidefinite shows for an alpha that does not make it definite.
    """
    order = len(A)
    reflectors, d, e, tau, _ = dsytrd(A.T, lower=True, lwork=BLOCK * order, overwrite_a=True)

    def rotate(V: FloatArray, trans: str) -> FloatArray:
        """Return ``Q @ V`` or ``Q.T @ V``; Q leaves the first row alone."""
        out = np.array(V, order="F")
        if order > 1:
            a, work = reflectors[1:, :-1], BLOCK * out.shape[1]
            out[1:], _, _ = dormqr("L", trans, a, tau, out[1:], work)
        return out

    def solve(V: FloatArray, alpha: float) -> FloatArray:
        if order == 1:
            return V / (d + alpha)
        _, _, x, info = dptsv(d + alpha, e, V)
        if info != 0:  # alpha is lost in the rounding errors of T
            return Spectrum.of(np.diag(d) + np.diag(e, 1), size).solve(V, alpha)
        return x

    rotated = rotate(B, "T")
    solutions = np.stack([solve(rotated, alpha) for alpha in alphas])
    return _all_at_once(solutions, lambda stacked: rotate(stacked, "N"))


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


class SolvableSpace(Protocol):
    """What the normal equations ask of a function space."""

    is_explicit: ClassVar[bool]

    @property
    def kernel_is_trusted(self) -> bool:
        """Whether the kernel matrix is positive semidefinite by construction."""
        ...

    def features(self, rows: IntArray | None = None) -> Matrix:
        """Return explicit features of some rows, or of all."""
        ...

    def raw_features(self) -> tuple[Matrix, Array | None]:
        """Return F and C with the features ``F C^-T`` of all rows."""
        ...

    def kernel_matrix(self, rows: IntArray | None = None) -> Array:
        """Return the kernel between some rows, or all."""
        ...


@final
@dataclass(frozen=True, eq=False)
class System:
    """A symmetric system ``(A + alpha I) c = b``, and the way from c to the weights wanted.

    Each of `solve`, `path` and `spectrum` may overwrite the matrix: one of them is called, once.

    Parameters
    ----------
    matrix : (order, order)
        A, of any namespace.
    rhs : (order, n_outputs)
        b, on the host.
    root : Root, optional
        How weights of items are made of c; features have their weights as they are.
    size : float
        The largest number that A was computed from, 0 where nothing larger than A is known.
    rounding : float
        The rounding error of a score, as a share of its target, per unit of the weights.
    """

    matrix: Array
    rhs: FloatArray
    root: Root | None = None
    size: float = 0.0
    rounding: float = 0.0

    @classmethod
    def of(cls, graph: PreferenceGraph, space: SolvableSpace, rows: IntArray | None = None) -> Self:
        """Build primal for explicit features, else dual.

        Parameters
        ----------
        graph : PreferenceGraph
            The preferences.
        space : FunctionSpace
            The space of the ranking function.
        rows : (n_rows,), optional
            The rows of the graph's items in the space; by default all of them.
        """
        if space.is_explicit:
            F, C = space.raw_features() if rows is None else (space.features(rows), None)
            return cls.primal(graph, F, C)
        return cls.dual(graph, space.kernel_matrix(rows), trusted=space.kernel_is_trusted)

    @classmethod
    def primal(cls, graph: PreferenceGraph, F: Matrix, C: Array | None = None) -> Self:
        """Build with features as unknowns: ``(Z'LZ + alpha I) w = Z'r``.

        Parameters
        ----------
        graph : PreferenceGraph
            The preferences.
        F : (n_items, n_features)
            The features Z of its items, or F with ``Z = F C^-T``.
        C : (n_features, n_features), optional
            Lower triangular.

        Notes
        -----
        [PTAB07] (11) for the function (10), [PTA09] (28) for the function (27), [APS10] (6).
        The cost is [PTA09] (30) for scores, and (29) without the terms in m^2 for comparisons.
        """
        rhs = moment(F, as_columns(graph.rhs), graph.laplacian.anchor())
        with np.errstate(over="ignore", invalid="ignore"):
            # [PTAB07] eq. (11), [PTA09] eq. (28): H M M' H', [APS10] eq. (6)
            gram = graph.laplacian.gram(F)
        if C is not None:  # sums are whitened in place of rows
            half = solve_triangular(C, gram)
            gram = contiguous(solve_triangular(C, contiguous(half.T)))
            rhs = to_host(solve_triangular(C, like(rhs, C)))
        _refuse_overflow(gram, rhs)
        return cls(gram, rhs)

    @classmethod
    def dual(cls, graph: PreferenceGraph, K: Array, *, trusted: bool = True) -> Self:
        """Build with coordinates of the graph as unknowns: ``(R'KR + alpha I) c = c0``.

        With ``R c0 = r``, the dual coefficients are ``a = R c``, which solves [PTA09] (17) without
        ever inverting K or L and without the null space of L that makes (17) lose digits as alpha
        falls. K is overwritten, and checked unless its kernel is trusted.

        Notes
        -----
        [PTAB07] (8) is (17) for scores; [APS10] (7) is symmetric too, of the order of the items.
        The cost is [PTA09] (26) for scores, and (19) for comparisons, whose sums cost (18).
        """
        xp, root = namespace_of(K), graph.laplacian.root()
        largest = float(xp.max(xp.abs(xp.linalg.diagonal(K))))
        with np.errstate(over="ignore", invalid="ignore"):
            reduced = root.like(K).reduce(K)
        rhs = root.solve(as_columns(graph.rhs))
        _refuse_overflow(reduced, rhs)
        if not trusted:
            refuse_indefinite_matrix(to_host(reduced))
        return cls(reduced, rhs, root, largest, rounding_of_scores(graph, largest))

    def lift(self, C: FloatArray) -> FloatArray:
        """Turn solutions c into weights: those of features as they are, ``R @ C`` of items."""
        # [PTAB07] eq. (8), [PTA09] eq. (17), [APS10] eq. (7)
        return C if self.root is None else self.root.to_items(C)

    def scores_of(self, V: Array) -> Array:
        """Turn vectors in coordinates of the graph into scores of the items, where they are."""
        return V if self.root is None else self.root.like(V).to_scores(V)

    def solve(self, alpha: float) -> FloatArray:
        """Return the weights for one alpha: one Cholesky factorisation."""
        return self._trusted(solve_once(self.matrix, self.rhs, alpha, self.size))

    def path(self, alphas: FloatArray, *, checked: bool = True) -> FloatArray:
        """Return the weights for every alpha, (n_alphas, n_weights, n_outputs).

        Weights whose scores are rounding errors are refused, unless the caller reports the errors
        of each alpha itself (``checked=False``).
        """
        solutions = solve_path(self.matrix, self.rhs, alphas, self.size)
        made = self._trusted if checked else self.lift
        return np.stack([made(C) for C in solutions])

    def spectrum(self) -> Spectrum:
        """Return the decomposition that answers every alpha and every hold-out."""
        return Spectrum.of(self.matrix, self.size)

    def _trusted(self, C: FloatArray) -> FloatArray:
        return trusted_weights(self.lift(C), self.rhs, self.rounding)


def rounding_of_scores(graph: PreferenceGraph, largest: float) -> float:
    """Return what ``K a`` rounds off, as a norm over all pairs, per unit of the norm of a.

    ``largest`` is the largest entry of K, which is on its diagonal.
    """
    mass = float(graph.laplacian.diagonal().sum())
    return float(np.finfo(float).eps) * largest * float(np.sqrt(mass))


def trusted_weights(weights: FloatArray, rhs: FloatArray, rounding: float) -> FloatArray:
    """Return weights; raise where their scores are rounding errors."""
    if not np.isfinite(weights).all():
        raise NumericalError(
            "The weights must be finite: this problem cannot be solved in double precision. "
            "Regularise more, or scale the features."
        )
    error = rounding * float(np.linalg.norm(weights))
    if error > TRUSTED * float(np.linalg.norm(rhs)):
        raise NumericalError(
            "The scores must be larger than their rounding errors: the relative error may be "
            f"{error / float(np.linalg.norm(rhs)):.2g}. Centre and scale the features "
            "(StandardScaler), lower the degree of the kernel, or raise `alpha`."
        )
    return weights


def _refuse_overflow(A: Array, rhs: FloatArray) -> None:
    """Raise unless the normal equations are finite."""
    if not (is_finite(A) and np.isfinite(rhs).all()):
        raise NumericalError(
            "The normal equations must be finite: squares of the features, the kernel or the "
            "scores exceed the range of double precision. Scale the features, or lower the "
            "degree of the kernel."
        )
