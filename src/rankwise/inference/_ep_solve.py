"""The Gaussian posterior of the weights, given a Gaussian site on every comparison."""

from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.linalg.blas import dgemm, dgemv, dtrmm, dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import NumericalError
from rankwise.inference._ep_kernels import laplacian_product, squared_distances
from rankwise.inference.prior import Prior


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
