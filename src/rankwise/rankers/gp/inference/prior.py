"""The prior of the compared scores as a factor: f = R w with w ~ N(0, I)."""

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from scipy.linalg import lapack
from scipy.linalg.blas import dgemm, dgemv, dtrmm, dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import InvalidInputError, NumericalError
from rankwise.core.threads import few_threads
from rankwise.rankers.gp.inference._kernels import laplacian_product, squared_distances
from rankwise.rankers.gp.inference.comparisons import Comparisons
from rankwise.rankers.gp.inference.likelihoods import Answers


@final
@dataclass(frozen=True, eq=False)
class Prior:
    """Hold a factor R of the prior covariance, and which of its rows every comparison is between.

    The rows of R are the compared items, or, where there are fewer comparisons than items, the
    comparisons themselves with one more row of zeros: a comparison is then "its row against
    nothing", and every formula stays as it is.

    Parameters
    ----------
    comparisons : Comparisons
    R : (n_rows, rank), C-contiguous
        The covariance of the rows is R R'.
    first, second : (n_pairs,)
        The rows of R whose difference is the comparison.
    rows : (n_rows,) or (n_pairs,)
        For each row of R the position of its item (or comparison) in ``comparisons``.
    root : (rank, rank)
        Lower triangular factor of the covariance of the basis.
    basis : (rank,) or (rank, 2)
        The positions in ``items`` that make up the basis: items, or differences of two.
    items : (n_basis_items,)
        The rows of X that prediction needs.
    excess : (n_pairs,)
        Variance of each comparison that R leaves out.
    triangular : bool
        Whether the first ``rank`` rows of R are ``root``.
    """

    comparisons: Comparisons
    R: FloatArray
    first: IntArray
    second: IntArray
    rows: IntArray
    root: FloatArray
    basis: IntArray
    items: IntArray
    excess: FloatArray
    triangular: bool

    @property
    def rank(self) -> int:
        """The number of weights."""
        return self.R.shape[1]

    @property
    def in_pair_space(self) -> bool:
        """Whether the rows are comparisons instead of items."""
        return self.basis.ndim == 2

    @property
    def answers(self) -> Answers:
        """What the likelihood needs to know about the comparisons."""
        return Answers(self.comparisons.tied, self.comparisons.margin, self.excess)

    def project(self, K_cross: FloatArray) -> FloatArray:
        """Return the (rank, n) features V of new items, so that their scores are V'w + a rest.

        Parameters
        ----------
        K_cross : (len(items), n)
            The kernel between ``X[items]`` and the new items.
        """
        return dtrsm(1.0, self.root, self.fold(K_cross), lower=1)

    def fold(self, K_cross: FloatArray) -> FloatArray:
        """Return the kernel rows of the basis: those of items, or differences of two of them."""
        if len(K_cross) != len(self.items):
            raise InvalidInputError(
                f"`K_cross` must have a row for each of the {len(self.items)} items of the basis: "
                f"got {len(K_cross)} rows."
            )
        if self.in_pair_space:
            return K_cross[self.basis[:, 0]] - K_cross[self.basis[:, 1]]
        return K_cross


def factorise(
    K: FloatArray,
    comparisons: Comparisons,
    *,
    space: Literal["auto", "items", "pairs"] = "auto",
    tol: float = 1e-10,
) -> Prior:
    """Factor the kernel matrix of the compared items by pivoted Cholesky.

    The rank found is the numerical rank, at most the smaller of the numbers of items and of
    comparisons. No jitter is added and nothing is inverted. O(n_rows rank^2).

    Parameters
    ----------
    K : (n_items, n_items)
        The kernel between ``comparisons.items``.
    comparisons : Comparisons
    space : {"auto", "items", "pairs"}
        What the rows of the factor are; the answer is the same, "auto" takes the fewer rows.
    tol : float
        Largest variance left out, relative to the largest entry on the diagonal; in absolute
        terms it is kept below 1e-6 as well, the noise of a comparison being about 1.

    Notes
    -----
    In pair space the matrix factored is the preference kernel
    ``k(i, i') - k(i, j') - k(j, i') + k(j, j')``.
    """
    _check_kernel(K, len(comparisons.items))
    first, second = comparisons.first, comparisons.second
    fewer_pairs = comparisons.n_pairs < len(comparisons.items)
    if space == "pairs" or (space == "auto" and fewer_pairs):
        D = K[first] - K[second]
        R, root, pivots = pivoted_cholesky(D[:, first] - D[:, second], tol)
        rank, n_rows = R.shape[1], len(R)
        ends = np.stack([comparisons.winner, comparisons.loser], axis=1)[pivots[:rank]]
        items, basis = np.unique(ends, return_inverse=True)
        R = np.vstack([R, np.zeros(rank)])
        first, second = np.argsort(pivots), np.full(n_rows, n_rows)
        basis = basis.reshape(rank, 2)
    else:
        R, root, pivots = pivoted_cholesky(K, tol)
        rank = R.shape[1]
        place = np.argsort(pivots)
        first, second = place[first], place[second]
        items, basis = comparisons.items[pivots[:rank]], np.arange(rank)
    return Prior(
        comparisons=comparisons,
        R=R,
        first=first,
        second=second,
        rows=pivots,
        root=root,
        basis=basis,
        items=items,
        excess=np.zeros(comparisons.n_pairs),
        triangular=True,
    )


def inducing_factor(
    K_basis: FloatArray,
    K_cross: FloatArray,
    spread: FloatArray,
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
    spread : (n_pairs,)
        The prior variance of each comparison, k(i, i) + k(j, j) - 2 k(i, j).
    basis_items : (n_basis,)
        The rows of X that are the basis.
    comparisons : Comparisons
    tol : float
        Largest variance of a basis item given the others, relative, at which it is dropped.
    """
    _check_kernel(K_basis, len(basis_items))
    _, root, pivots = pivoted_cholesky(K_basis, tol)
    rank = len(root)
    kept = pivots[:rank]
    R = dtrsm(1.0, root, K_cross[kept], lower=1).T
    first, second = comparisons.first, comparisons.second
    explained = np.square(R[first] - R[second]).sum(axis=1)
    return Prior(
        comparisons=comparisons,
        R=np.ascontiguousarray(R),
        first=first,
        second=second,
        rows=np.arange(len(R)),
        root=root,
        basis=np.arange(rank),
        items=basis_items[kept],
        excess=np.maximum(spread - explained, 0.0),
        triangular=False,
    )


def pivoted_cholesky(
    K: FloatArray, tol: float, scale: float | None = None
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return (R, root, pivots): K[pivots][:, pivots] = R R' up to the tolerance, root = R[:rank].

    A matrix of zeros gets one column of zeros and a root of 1, with which prediction gives the
    prior back. O(n rank^2).

    Parameters
    ----------
    K : (n, n)
    tol : float
        Largest variance left out, relative to ``scale``; in absolute terms it is kept below 1e-6.
    scale : float, optional
        What K was computed from; its largest diagonal entry by default.
    """
    largest = float(K.diagonal().max())
    scale = largest if scale is None else scale
    limit = max(min(tol * scale, 1e-6), len(K) * np.finfo(np.float64).eps * scale)
    if largest <= limit:
        return np.zeros((len(K), 1)), np.ones((1, 1), order="F"), np.arange(len(K))
    with few_threads(len(K)):
        factor, pivots, rank, _ = lapack.dpstrf(K.T, tol=limit, lower=1)
    R = np.ascontiguousarray(np.tril(factor[:, :rank]))
    return R, np.asfortranarray(R[:rank]), pivots.astype(np.intp) - 1


def _check_kernel(K: FloatArray, n_items: int) -> None:
    if K.shape != (n_items, n_items):
        raise InvalidInputError(
            f"The kernel matrix must be square with a row for each of the {n_items} items: got "
            f"shape {K.shape}."
        )
    if not np.isfinite(K).all():
        raise NumericalError("The kernel matrix must be finite: got NaN or infinity.")


@final
@dataclass(frozen=True, eq=False)
class Solved:
    """Hold the Gaussian N(w, (C C')^-1) of the weights.

    Parameters
    ----------
    C : (rank, rank)
        Lower Cholesky factor of the precision I + R'LR.
    u, w : (rank,)
        C^-1 R'b and C^-T u, the mean.
    """

    C: FloatArray
    u: FloatArray
    w: FloatArray

    @property
    def log_normaliser(self) -> float:
        """The log of the integral of prior times sites exp(nu s - tau s^2 / 2)."""
        return float(0.5 * self.u @ self.u - np.log(self.C.diagonal()).sum())


def solve_sites(prior: Prior, tau: FloatArray, nu: FloatArray) -> Solved:
    """Condition the prior on sites (tau, nu), given once for each recorded answer.

    The precision of the weights has no eigenvalue below 1, so its Cholesky factor always exists.
    O(n_rows rank^2 + n_pairs rank).
    """
    count = prior.comparisons.count
    B = _precision(prior, count * tau)
    C, info = dpotrf(B, lower=1, overwrite_a=1)
    if info != 0 or not np.isfinite(C[-1, -1]):
        raise NumericalError(
            "The posterior precision must be positive definite in double precision; it is not. "
            "Lower the kernel's amplitude."
        )
    u = dtrsv(C, dgemv(1.0, prior.R.T, scatter(prior, count * nu)), lower=1)
    return Solved(C, u, dtrsv(C, u, lower=1, trans=1))


def difference_means(prior: Prior, w: FloatArray) -> FloatArray:
    """Return the mean of every comparison."""
    f = dgemv(1.0, prior.R.T, w, trans=1)
    return f[prior.first] - f[prior.second]


def difference_variances(prior: Prior, C: FloatArray) -> FloatArray:
    """Return the posterior variance of every comparison. O(n_rows rank^2 + n_pairs rank)."""
    V = dtrsm(1.0, C, prior.R.T, lower=1)
    return squared_distances(V.T, prior.first, prior.second)


def scatter(prior: Prior, values: FloatArray) -> FloatArray:
    """Return A'values: add a value to the first row of every comparison, take it off the second."""
    return signed_sums(prior.first, prior.second, values, len(prior.R))


def signed_sums(first: IntArray, second: IntArray, values: FloatArray, n_rows: int) -> FloatArray:
    """Sum for each row the values it is first in, less those it is second in."""
    plus = np.bincount(first, weights=values, minlength=n_rows)
    minus = np.bincount(second, weights=values, minlength=n_rows)
    return np.asarray(plus - minus, dtype=np.float64)


def laplacian_factor(prior: Prior, weight: FloatArray) -> FloatArray:
    """Return L R, where L = A' diag(weight) A is the Laplacian of the weighted comparisons."""
    tail = 1 if prior.triangular else prior.rank
    return laplacian_product(prior.R, prior.first, prior.second, weight, tail)


def _precision(prior: Prior, weight: FloatArray) -> FloatArray:
    """Return I + R'LR; the triangle at the head of R halves the work there."""
    R, T = prior.R, laplacian_factor(prior, weight)
    head = prior.rank if prior.triangular else 0
    B = np.zeros((prior.rank, prior.rank), order="F")
    if head:
        B = dtrmm(1.0, R[:head].T, T[:head].T, side=1, trans_a=1, overwrite_b=1)
    if head < len(R):
        B = dgemm(1.0, T[head:].T, R[head:].T, beta=1.0, c=B, trans_b=1, overwrite_c=1)
    B[np.diag_indices(prior.rank)] += 1.0
    return B
