"""The Gaussian posterior of the scores, and the gradient of its evidence."""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.linalg.blas import dsyrk, dtrsm, dtrsv
from scipy.sparse import csr_array

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.threads import few_threads
from rankwise.rankers.gp.inference.likelihoods import Likelihood
from rankwise.rankers.gp.inference.prior import (
    Prior,
    laplacian_factor,
    pivoted_cholesky,
    signed_sums,
)


@final
@dataclass(frozen=True, eq=False)
class Posterior:
    """Describe the scores after the comparisons: w ~ N(w, (C C')^-1), scores V'w plus a rest.

    Prediction takes kernel blocks: ``K_cross`` is always the kernel between ``X[items]`` (rows)
    and the new items (columns). The kernel itself stays outside.

    Parameters
    ----------
    prior : Prior
    likelihood : Likelihood
    tau, nu : (n_pairs,)
        The site exp(nu s - tau s^2 / 2) of one recorded answer to each comparison.
    C : (rank, rank)
        Lower Cholesky factor of the precision of the weights.
    w : (rank,)
        Mean of the weights.
    log_evidence : float
        Log of the probability of the answers, as approximated.
    residual : float
        How far the sites are from their fixed point, in units of the posterior.
    n_sweeps : int
        Sweeps (or Newton steps) taken.
    converged : bool
        Whether the residual reached the tolerance.
    alpha, beta : (n_rows,)
        Vectors of the gradient of the evidence; alpha solves ``K alpha = mean``.
    n_cut : int
        Sites whose negative tau was set to zero; the gradient is exact when there are none.
    by_noise : (n_pairs,)
        Derivative of the evidence in the noise variance of each comparison.
    by_parameter : dict
        Derivative of the evidence in each parameter of the likelihood.
    """

    prior: Prior
    likelihood: Likelihood
    tau: FloatArray
    nu: FloatArray
    C: FloatArray
    w: FloatArray
    log_evidence: float
    residual: float
    n_sweeps: int
    converged: bool
    alpha: FloatArray
    beta: FloatArray
    n_cut: int
    by_noise: FloatArray
    by_parameter: dict[str, float]

    @property
    def items(self) -> IntArray:
        """The rows of X that prediction needs."""
        return self.prior.items

    @cached_property
    def dual_coef(self) -> FloatArray:
        """Weights of the kernel rows of ``items``: the mean is ``K_cross.T @ dual_coef``."""
        folded = dtrsv(self.prior.root, self.w, lower=1, trans=1)
        if not self.prior.in_pair_space:
            return folded
        winner, loser = self.prior.basis.T
        return signed_sums(winner, loser, folded, len(self.items))

    def mean_at(self, K_cross: FloatArray) -> FloatArray:
        """Return the mean score of new items. O(n_basis) each."""
        return np.asarray(K_cross.T @ self.dual_coef)

    def variance_at(self, K_cross: FloatArray, prior_variance: FloatArray) -> FloatArray:
        """Return the variance of the score of new items. O(rank^2) each.

        Parameters
        ----------
        K_cross : (n_basis_items, n)
        prior_variance : (n,)
            The kernel's diagonal at the new items.
        """
        return self._variance(self.prior.project(K_cross), prior_variance)

    def covariance_at(self, K_cross: FloatArray, K_new: FloatArray) -> FloatArray:
        """Return the joint covariance of new items, given the kernel between them."""
        V = self.prior.project(K_cross)
        Y = dtrsm(1.0, self.C, V, lower=1)
        return K_new - V.T @ V + Y.T @ Y

    def difference_at(
        self, K_first: FloatArray, K_second: FloatArray, prior_variance: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of f(first) - f(second), pair by pair. O(rank^2) each.

        Parameters
        ----------
        K_first, K_second : (n_basis_items, n)
            ``K_cross`` of the first and of the second items.
        prior_variance : (n,)
            k(first, first) + k(second, second) - 2 k(first, second).
        """
        V = self.prior.project(K_first - K_second)
        return V.T @ self.w, self._variance(V, prior_variance)

    def draws_at(
        self, K_cross: FloatArray, K_new: FloatArray, n_draws: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw the scores of new items jointly: (n_draws, n). O(n^3 + n_draws n^2)."""
        V = self.prior.project(K_cross)
        z = rng.standard_normal((len(self.w), n_draws))
        weights = self.w[:, None] + dtrsm(1.0, self.C, z, lower=1, trans_a=1)
        draws = weights.T @ V
        rest = K_new - V.T @ V
        R, _, pivots = pivoted_cholesky(rest, 1e-10, scale=float(K_new.diagonal().max()))
        draws[:, pivots] += rng.standard_normal((n_draws, R.shape[1])) @ R.T
        return draws

    def _variance(self, V: FloatArray, prior_variance: FloatArray) -> FloatArray:
        Y = dtrsm(1.0, self.C, V, lower=1)
        unexplained = np.maximum(prior_variance - np.square(V).sum(axis=0), 0.0)
        return unexplained + np.square(Y).sum(axis=0)


def kernel_gradient(posterior: Posterior) -> FloatArray:
    """Return M with d log_evidence = sum of M * dK, K the kernel between the compared items.

    The sites are stationary, so only the explicit dependence on K counts:
    M = (alpha beta' + beta alpha') / 4 - (L - L Sigma L) / 2 with L the Laplacian of the sites.
    O(n_rows^2 rank).

    Returns
    -------
    M : (n_items, n_items)
        In the order of ``comparisons.items``.
    """
    prior = posterior.prior
    weight = prior.comparisons.count * posterior.tau
    with few_threads(prior.rank):
        Y = dtrsm(1.0, posterior.C, laplacian_factor(prior, weight).T, lower=1)
        half = dsyrk(0.5, Y, trans=1, lower=1)
    M = half + np.tril(half, -1).T - _laplacian(prior, 0.5 * weight).toarray()
    outer = 0.25 * np.outer(posterior.alpha, posterior.beta)
    M += outer + outer.T
    place = np.argsort(prior.rows)  # of the items or comparisons: leaves the row of zeros out
    M = M[np.ix_(place, place)]
    return _pull_back(M, prior) if prior.in_pair_space else M


def inducing_gradient(posterior: Posterior) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the gradient of the evidence in the three arrays of `inducing_factor`.

    Returns
    -------
    G_cross : (rank, n_items)
        Against ``K_cross``, for the basis items that were kept (``posterior.items``).
    G_basis : (rank, rank)
        Against ``K_basis`` of the same items.
    g_spread : (n_pairs,)
        Against the prior variance of each comparison.
    """
    prior = posterior.prior
    weight = prior.comparisons.count * posterior.tau
    edges = np.where(prior.excess > 0.0, posterior.by_noise, 0.0)
    with few_threads(prior.rank):
        P = dtrsm(1.0, prior.root, prior.R.T, lower=1, trans_a=1)
        Y = dtrsm(1.0, posterior.C, laplacian_factor(prior, weight).T, lower=1)
        G = 0.5 * (P @ Y.T) @ Y - (_laplacian(prior, 0.5 * weight + edges) @ P.T).T
        G += 0.25 * np.outer(P @ posterior.alpha, posterior.beta)
        G += 0.25 * np.outer(P @ posterior.beta, posterior.alpha)
        return 2.0 * G, -G @ P.T, edges


def _laplacian(prior: Prior, weight: FloatArray) -> csr_array:
    """Return A' diag(weight) A over the rows of the prior's factor."""
    i, j, n_rows = prior.first, prior.second, len(prior.R)
    rows, columns = np.concatenate([i, j, i, j]), np.concatenate([i, j, j, i])
    values = np.concatenate([weight, weight, -weight, -weight])
    return csr_array((values, (rows, columns)), shape=(n_rows, n_rows))


def _pull_back(M: FloatArray, prior: Prior) -> FloatArray:
    """Return A'MA: the gradient in the kernel of the items, from that in the preference kernel."""
    comparisons = prior.comparisons
    n_pairs = comparisons.n_pairs
    ends = np.concatenate([comparisons.first, comparisons.second])
    signs = np.repeat([1.0, -1.0], n_pairs)
    pairs = np.tile(np.arange(n_pairs), 2)
    A = csr_array((signs, (ends, pairs)), shape=(len(comparisons.items), n_pairs))
    return np.asarray(A @ (A @ M).T)
