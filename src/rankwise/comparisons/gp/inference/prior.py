"""The prior of the compared scores as a factor: f = R w with w ~ N(0, I)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Literal, Self, TypeAlias, final

import numpy as np
from scipy.linalg import lapack
from scipy.linalg.blas import dgemm, dgemv, dtrmm, dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf

from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.likelihood import Outcomes
from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError, NumericalError
from rankwise.core.namespaces import (
    Array,
    add_to_diagonal,
    cholesky,
    like,
    namespace_of,
    segment_sums,
    solve_triangular,
    to_host,
)
from rankwise.core.params import Shape
from rankwise.core.storable import PositionsIn, storable
from rankwise.graph.edges import Incidence
from rankwise.native.laplacians import laplacian_product, squared_distances


@storable
@final
@dataclass(frozen=True, eq=False)
class Prior:
    """Hold a factor R of the prior covariance, and the two rows of every comparison.

    The rows of R are the compared items. With fewer comparisons than items, they are the
    comparisons themselves and one more row of zeros: a comparison is then the difference of its row
    and the row of zeros, and every formula stays the same.

    Parameters
    ----------
    comparisons : Comparisons
    R : (n_rows, rank), C-contiguous
        The covariance of the rows is R R'.
    pairs : Incidence
        The rows of R whose difference is the comparison.
    rows : (n_rows,) or (n_pairs,)
        For each row of R the position of its item (or comparison) in ``comparisons``.
    root : (rank, rank)
        Lower triangular factor of the covariance of the basis.
    basis : (rank,) or (rank, 2)
        The positions in ``items`` that make up the basis: items, or differences of two.
    items : (n_basis_items,)
        The rows of X that prediction needs.
    extra_noise : (n_pairs,)
        Variance of each comparison that R leaves out.
    triangular : bool
        Whether the first ``rank`` rows of R are ``root``.
    """

    comparisons: Comparisons
    R: Annotated[FloatArray, Shape("n_rows", "rank")]
    pairs: Incidence
    rows: IntArray
    root: Annotated[FloatArray, Shape("rank", "rank")]
    basis: Annotated[IntArray, Shape("rank"), Shape("rank", "two"), PositionsIn("n_basis_items")]
    items: Annotated[IntArray, Shape("n_basis_items")]
    extra_noise: Annotated[FloatArray, Shape("n_pairs")]
    triangular: bool

    @property
    def rank(self) -> int:
        """The number of weights."""
        return self.R.shape[1]

    @property
    def in_pair_space(self) -> bool:
        """Whether the rows are comparisons instead of items."""
        return self.basis.ndim == 2

    @cached_property
    def outcomes(self) -> Outcomes:
        """What the likelihood needs to know about each comparison."""
        return replace(self.comparisons.outcomes, extra_noise=self.extra_noise)

    @cached_property
    def copies(self) -> tuple[IntArray, Outcomes] | None:
        """The answers that were recorded more than once, with their outcomes; None without any."""
        rows = np.flatnonzero(self.comparisons.count > 1.0)
        return (rows, self.outcomes.take(rows)) if len(rows) else None

    def project(self, K_cross: FloatArray) -> FloatArray:
        """Return the (rank, n) features V of new items: their scores are V'w and a remainder.

        Parameters
        ----------
        K_cross : (len(items), n)
            The kernel between ``X[items]`` and the new items.
        """
        return dtrsm(1.0, self.root, self.basis_kernel(K_cross), lower=1)

    def basis_kernel(self, K_cross: FloatArray) -> FloatArray:
        """Return the kernel rows of the basis: those of items, or differences of two of them."""
        if len(K_cross) != len(self.items):
            raise InvalidInputError(
                f"`K_cross` must have a row for each of the {len(self.items)} items of the basis: "
                f"got {len(K_cross)} rows."
            )
        if self.in_pair_space:
            return K_cross[self.basis[:, 0]] - K_cross[self.basis[:, 1]]
        return K_cross


def factorize_kernel(
    K: FloatArray,
    comparisons: Comparisons,
    *,
    space: Literal["auto", "items", "pairs"] = "auto",
    tol: float = 1e-10,
) -> Prior:
    """Factorize the kernel matrix of the compared items by pivoted Cholesky.

    The rank found is the numerical rank, at most the smaller of the numbers of items and of
    comparisons. No jitter is added and nothing is inverted. O(n_rows rank^2).

    Parameters
    ----------
    K : (n_items, n_items)
        The kernel between ``comparisons.items``.
    comparisons : Comparisons
    space : {"auto", "items", "pairs"}
        What the rows of the factor are. The result is the same; "auto" takes fewer rows.
    tol : float
        Largest variance left out, relative to the largest entry on the diagonal; in absolute
        terms it is kept below 1e-6 as well, the noise of a comparison being about 1.

    Notes
    -----
    In pair space the matrix is the preference kernel
    ``k(i, i') - k(i, j') - k(j, i') + k(j, j')``.
    """
    check_kernel(K, len(comparisons.items))
    fewer_pairs = len(comparisons.count) < len(comparisons.items)
    if space == "pairs" or (space == "auto" and fewer_pairs):
        return _factorize_pairs(K, comparisons, tol)
    prior = factorize_rows(K, comparisons, np.arange(len(K)), tol=tol)
    return replace(prior, items=comparisons.items[prior.items])


def factorize_rows(
    K: FloatArray, comparisons: Comparisons, at: IntArray, *, tol: float = 1e-10
) -> Prior:
    """Factorize the kernel matrix of rows by pivoted Cholesky, the compared items among them.

    ``items`` of the result are positions among these rows.

    Parameters
    ----------
    K : (n_rows, n_rows)
        A matrix that has been checked.
    comparisons : Comparisons
    at : (n_items,)
        The position of each of ``comparisons.items`` among the rows.
    tol : float
        As in `factorize_kernel`.
    """
    R, root, pivots = pivoted_cholesky(K, tol)
    rank, place, compared = R.shape[1], np.argsort(pivots)[at], comparisons.pairs
    return Prior(
        comparisons=comparisons,
        R=R,
        pairs=Incidence(place[compared.first], place[compared.second], len(R)),
        rows=pivots,
        root=root,
        basis=np.arange(rank),
        items=pivots[:rank],
        extra_noise=np.zeros_like(comparisons.count),
        triangular=True,
    )


def _factorize_pairs(K: FloatArray, comparisons: Comparisons, tol: float) -> Prior:
    """Factorize the preference kernel of the comparisons."""
    D = comparisons.pairs.differences(K)
    R, root, pivots = pivoted_cholesky(comparisons.pairs.differences(D.T), tol)
    rank, n_rows = R.shape[1], len(R)
    ends = np.stack([comparisons.winner, comparisons.loser], axis=1)[pivots[:rank]]
    items, basis = np.unique(ends, return_inverse=True)
    return Prior(
        comparisons=comparisons,
        R=np.vstack([R, np.zeros(rank)]),
        pairs=Incidence(np.argsort(pivots), np.full(n_rows, n_rows), n_rows + 1),
        rows=pivots,
        root=root,
        basis=basis.reshape(rank, 2),
        items=items,
        extra_noise=np.zeros_like(comparisons.count),
        triangular=True,
    )


def factorize_through_basis(
    K_basis: FloatArray,
    K_cross: FloatArray,
    difference_variance: FloatArray,
    basis_items: IntArray,
    comparisons: Comparisons,
    *,
    tol: float = 1e-8,
) -> Prior:
    """Approximate the kernel through a few basis items: R = K_xz L^-T with K_zz = L L'.

    The variance of a comparison that the basis cannot express is added to its noise (FITC on
    comparisons). O(n_items n_basis^2) time, O(n_items n_basis) memory.

    Parameters
    ----------
    K_basis : (n_basis, n_basis)
        The kernel between the basis items. Items that depend on others are dropped.
    K_cross : (n_basis, n_items)
        The kernel between the basis items and ``comparisons.items``.
    difference_variance : (n_pairs,)
        The prior variance of each comparison, k(i, i) + k(j, j) - 2 k(i, j).
    basis_items : (n_basis,)
        The rows of X that are the basis.
    comparisons : Comparisons
    tol : float
        Largest variance of a basis item given the others, relative, at which it is dropped.
    """
    check_kernel(K_basis, len(basis_items))
    _, root, pivots = pivoted_cholesky(K_basis, tol)
    rank = len(root)
    kept = pivots[:rank]
    R = np.ascontiguousarray(dtrsm(1.0, root, K_cross[kept], lower=1).T)
    explained = np.square(comparisons.pairs.differences(R)).sum(axis=1)
    return Prior(
        comparisons=comparisons,
        R=R,
        pairs=comparisons.pairs,
        rows=np.arange(len(R)),
        root=root,
        basis=np.arange(rank),
        items=basis_items[kept],
        extra_noise=np.maximum(difference_variance - explained, 0.0),
        triangular=False,
    )


def pivoted_cholesky(
    K: FloatArray, tol: float, scale: float | None = None
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return (R, root, pivots): K[pivots][:, pivots] = R R' up to the tolerance, root = R[:rank].

    A matrix of zeros gets one column of zeros and a root of 1, with which prediction returns the
    prior. O(n rank^2).

    Parameters
    ----------
    K : (n, n)
    tol : float
        Largest variance left out, relative to ``scale``; in absolute terms it is kept below 1e-6.
    scale : float, optional
        The size of the numbers K was computed from; its largest diagonal entry by default.
    """
    largest = float(K.diagonal().max())
    scale = largest if scale is None else scale
    limit = max(min(tol * scale, 1e-6), len(K) * np.finfo(np.float64).eps * scale)
    if largest <= limit:
        return np.zeros((len(K), 1)), np.ones((1, 1), order="F"), np.arange(len(K))
    factor, pivots, rank, _ = lapack.dpstrf(K.T, tol=limit, lower=1)
    R = np.ascontiguousarray(np.tril(factor[:, :rank]))
    return R, np.asfortranarray(R[:rank]), pivots.astype(np.intp) - 1


def check_kernel(K: FloatArray, n_items: int) -> None:
    """Refuse a kernel matrix of another shape, or one that is not finite."""
    if K.shape != (n_items, n_items):
        raise InvalidInputError(
            f"The kernel matrix must be square with a row for each of the {n_items} items: got "
            f"shape {K.shape}."
        )
    if not np.isfinite(K).all():
        raise NumericalError("The kernel matrix must be finite: got NaN or infinity.")


@final
@dataclass(frozen=True, eq=False)
class WeightPosterior:
    """Hold the Gaussian N(w, (C C')^-1) of the weights.

    Parameters
    ----------
    C : (rank, rank)
        Lower Cholesky factor of the precision I + R'LR, on the host or on a device.
    u, w : (rank,)
        C^-1 R'b, and the mean C^-T u, which is empty while C is on a device.
    pivots : (rank,)
        The diagonal of C.
    """

    C: Array
    u: FloatArray
    w: FloatArray
    pivots: FloatArray

    @property
    def log_normalizer(self) -> float:
        """The log of the integral of prior times sites exp(nu s - tau s^2 / 2)."""
        return float(0.5 * self.u @ self.u - np.log(self.pivots).sum())


INDEFINITE = (
    "The posterior precision must be positive definite in double precision; it is not. "
    "Lower the kernel's amplitude."
)


def condition_on_sites(prior: Prior, tau: FloatArray, nu: FloatArray) -> WeightPosterior:
    """Condition the prior on sites (tau, nu), given once for each recorded answer.

    The precision of the weights has no eigenvalue below 1, so its Cholesky factor always exists.
    O(n_rows rank^2 + n_pairs rank).
    """
    R, pairs, count, rank = prior.R, prior.pairs, prior.comparisons.count, prior.R.shape[1]
    # precision I + R'LR of the weights; the triangle at the top of R halves the work there
    n_top, tail = (rank, 1) if prior.triangular else (0, rank)
    T = laplacian_product(R, pairs.first, pairs.second, count * tau, tail)
    if n_top:
        B = dtrmm(1.0, R[:n_top].T, T[:n_top].T, side=1, trans_a=1, overwrite_b=1)
    else:
        B = np.zeros((rank, rank), order="F")
    if n_top < len(R):
        B = dgemm(1.0, T[n_top:].T, R[n_top:].T, beta=1.0, c=B, trans_b=1, overwrite_c=1)
    B.flat[:: rank + 1] += 1.0
    C, info = dpotrf(B, lower=1, overwrite_a=1)
    if info != 0 or not np.isfinite(C[-1, -1]):
        raise NumericalError(INDEFINITE)
    # mean C^-T C^-1 R'b of the weights
    u = dtrsv(C, dgemv(1.0, R.T, pairs.adjoint(count * nu)), lower=1)
    return WeightPosterior(C, u, dtrsv(C, u, lower=1, trans=1), C.diagonal())


def difference_means(prior: Prior, w: FloatArray) -> FloatArray:
    """Return the mean of every comparison."""
    return prior.pairs.differences(dgemv(1.0, prior.R.T, w, trans=1))


def difference_variances(prior: Prior, C: FloatArray) -> FloatArray:
    """Return the posterior variance of every comparison. O(n_rows rank^2 + n_pairs rank)."""
    V = dtrsm(1.0, C, prior.R.T, lower=1)
    return squared_distances(V.T, prior.pairs.first, prior.pairs.second)


def laplacian_factor(prior: Prior, weight: FloatArray) -> FloatArray:
    """Return L R for the Laplacian L of the comparisons with these weights. O(n_pairs rank)."""
    pairs, tail = prior.pairs, 1 if prior.triangular else prior.R.shape[1]
    return laplacian_product(prior.R, pairs.first, pairs.second, weight, tail)


MomentFunction: TypeAlias = Callable[
    [FloatArray, FloatArray], tuple[WeightPosterior, FloatArray, FloatArray]
]
"""Gives the weights under sites (tau, nu), and mean and variance of every comparison."""


def moments_under(
    prior: Prior, tau: FloatArray, nu: FloatArray
) -> tuple[WeightPosterior, FloatArray, FloatArray]:
    """Condition the prior on sites; see `MomentFunction`. O(n_rows rank^2 + n_pairs rank)."""
    weights, pairs = condition_on_sites(prior, tau, nu), prior.pairs
    mean = pairs.differences(dgemv(1.0, prior.R.T, weights.w, trans=1))
    V = dtrsm(1.0, weights.C, prior.R.T, lower=1)
    return weights, mean, squared_distances(V.T, pairs.first, pairs.second)


DEVICE_ENTRIES = 1 << 26
"""Numbers of the differences that a device forms together: 512 MB."""

MATRIX_SHARE = 4
"""Rows of R per column up to which a device forms the Laplacian of the comparisons."""


@final
@dataclass(frozen=True, eq=False)
class DeviceMoments:
    """Do what `moments_under` does, with the factor R on a device and the sites on the host."""

    prior: Prior
    R: Array
    first: Array
    second: Array
    entries: int = DEVICE_ENTRIES

    @classmethod
    def of(cls, prior: Prior, where: Array, entries: int = DEVICE_ENTRIES) -> Self:
        """Move R and the comparisons to where an array is; differences are formed in blocks."""
        pairs = prior.pairs
        R, first, second = (like(a, where) for a in (prior.R, pairs.first, pairs.second))
        return cls(prior, R, first, second, entries)

    def __call__(
        self, tau: FloatArray, nu: FloatArray
    ) -> tuple[WeightPosterior, FloatArray, FloatArray]:
        """Condition the prior on sites: one factorisation, one substitution, one transfer back."""
        pairs, count = self.prior.pairs, self.prior.comparisons.count
        B = self.R.T @ self._laplacian_factor(count * tau)
        add_to_diagonal(B, 1.0)
        C = cholesky(B)
        if C is None:
            raise NumericalError(INDEFINITE)
        b = like(pairs.adjoint(count * nu)[None, :], self.R)
        V = solve_triangular(C, self.R.T)
        u = (V @ b.T)[:, 0]  # C^-1 R'b
        rows = V.T.contiguous()
        mean = rows @ u  # R w, with w = C^-T u
        parts = [mean[self.first] - mean[self.second], self._variances(rows), u, C.diagonal()]
        on_host = to_host(namespace_of(C).concat(parts))
        mean, variance, u_host, pivots = np.split(
            on_host, np.cumsum([pairs.n_pairs, pairs.n_pairs, self.prior.rank])
        )
        if not np.isfinite(pivots).all():
            raise NumericalError(INDEFINITE)
        return WeightPosterior(C, u_host, np.zeros(0), pivots), mean, variance

    def _blocks(self) -> Iterator[tuple[slice, Array, Array]]:
        n_together = max(1, self.entries // self.prior.rank)
        for start in range(0, len(self.first), n_together):
            some = slice(start, start + n_together)
            yield some, self.first[some], self.second[some]

    def _laplacian_factor(self, weight: FloatArray) -> Array:
        """Return L R for the Laplacian L of the comparisons with these weights."""
        n_rows, weights = len(self.R), like(weight[:, None], self.R)
        if n_rows <= MATRIX_SHARE * self.prior.rank:  # L is no larger than R
            values = namespace_of(weights).concat([weights, weights, -weights, -weights])
            L = segment_sums(values, self._entries, n_rows**2).reshape(n_rows, n_rows)
            return L @ self.R
        out = self.R * 0.0
        for some, first, second in self._blocks():
            D = (self.R[first] - self.R[second]) * weights[some]
            out += segment_sums(D, first, n_rows)
            out -= segment_sums(D, second, n_rows)
        return out

    @cached_property
    def _entries(self) -> Array:
        """The four entries of each comparison in L, row by row: two on the diagonal, two off it."""
        first, second, n_rows = self.first, self.second, len(self.R)
        places = [(first, first), (second, second), (first, second), (second, first)]
        return namespace_of(first).concat([i * n_rows + j for i, j in places])

    def _variances(self, V: Array) -> Array:
        """Return the squared distances between rows of V that comparisons join."""
        parts = []
        for _, first, second in self._blocks():
            D = V[first]
            D -= V[second]
            D *= D
            parts.append(D.sum(1))
        return namespace_of(V).concat(parts)

    def on_host(self, weights: WeightPosterior) -> WeightPosterior:
        """Move a factor from the device, in LAPACK's column order, and compute the mean."""
        C = np.asfortranarray(to_host(weights.C))
        return replace(weights, C=C, w=dtrsv(C, weights.u, lower=1, trans=1))
