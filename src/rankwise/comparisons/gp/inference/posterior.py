"""The Gaussian posterior of the scores: predictions, evidence gradient, and Laplace's method."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, final

import numpy as np
from scipy.linalg.blas import dgemv, dsyrk, dtrmv, dtrsm, dtrsv

from rankwise.comparisons.gp.inference.likelihood import AverageLikelihood, Likelihood
from rankwise.comparisons.gp.inference.prior import (
    Prior,
    WeightPosterior,
    condition_on_sites,
    difference_means,
    difference_variances,
    laplacian_factor,
    pivoted_cholesky,
)
from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import NumericalError
from rankwise.core.params import Shape
from rankwise.core.storable import storable
from rankwise.core.threads import few_threads
from rankwise.graph.edges import Incidence
from rankwise.native.laplacians import laplacian_product
from rankwise.solve.iteration import Ending, StoppingRule
from rankwise.solve.newton import armijo, halved, newton_steps


@storable
@final
@dataclass(frozen=True, eq=False)
class Posterior:
    """Describe the scores given the answers: V'w and a remainder, with w ~ N(w, (C C')^-1).

    Prediction takes kernel blocks: ``K_cross`` is always the kernel between ``X[items]`` (rows)
    and the new items (columns). The kernel itself is not known here.

    Parameters
    ----------
    prior : Prior
    likelihood : Likelihood
    tau, nu : (n_pairs,)
        The site exp(nu s - tau s^2 / 2), a Gaussian in place of the likelihood of one answer to
        each comparison.
    C : (rank, rank)
        Lower Cholesky factor of the precision of the weights.
    w : (rank,)
        Mean of the weights.
    log_evidence : float
        Log of the approximate probability of the answers.
    residual : float
        How far the sites are from their fixed point, in units of the posterior; the Newton
        decrement for Laplace's method.
    n_iter : int
        Number of sweeps, or of Newton steps.
    ending : Ending
        Why the iteration ended.
    alpha, beta : (n_rows,)
        Vectors of the gradient of the evidence; alpha solves ``K alpha = mean``.
    n_clipped : int
        Number of sites whose negative tau was set to zero; the gradient is exact when it is 0.
    noise_gradient : (n_pairs,)
        Derivative of the evidence in the noise variance of each comparison.
    parameter_gradient : dict
        Derivative of the evidence in each parameter of the likelihood.
    """

    prior: Prior
    likelihood: Likelihood
    tau: Annotated[FloatArray, Shape("n_pairs")]
    nu: Annotated[FloatArray, Shape("n_pairs")]
    C: Annotated[FloatArray, Shape("rank", "rank")]
    w: Annotated[FloatArray, Shape("rank")]
    log_evidence: float
    residual: float
    n_iter: int
    ending: Ending
    alpha: FloatArray
    beta: FloatArray
    n_clipped: int
    noise_gradient: FloatArray
    parameter_gradient: dict[str, float]

    @property
    def items(self) -> IntArray:
        """The rows of X that prediction needs."""
        return self.prior.items

    @cached_property
    def dual_coef(self) -> FloatArray:
        """Weights of the kernel rows of ``items``: the mean is ``K_cross.T @ dual_coef``."""
        weights = dtrsv(self.prior.root, self.w, lower=1, trans=1)
        if not self.prior.in_pair_space:
            return weights
        return Incidence.of(self.prior.basis, len(self.items)).adjoint(weights)

    def mean_at(self, K_cross: FloatArray) -> FloatArray:
        """Return the mean score of new items. O(n_basis) each."""
        return np.asarray(K_cross.T @ self.dual_coef)  # [TH10] Sect. 5, between (10) and (11)

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
        """Return the joint covariance of new items, given the kernel between them.

        Notes
        -----
        R of [TH10] (11), k + k'K^-1 (C - K) K^-1 k, without K^-1.
        """
        V = self.prior.project(K_cross)
        Y = dtrsm(1.0, self.C, V, lower=1)
        return K_new - V.T @ V + Y.T @ Y  # [TH10] R of eq. (11)

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
        return V.T @ self.w, self._variance(V, prior_variance)  # [TH10] r11 + r22 - 2 r12, (11)

    def draws_at(
        self, K_cross: FloatArray, K_new: FloatArray, n_draws: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draw the scores of new items jointly: (n_draws, n). O(n^3 + n_draws n^2)."""
        V = self.prior.project(K_cross)
        z = rng.standard_normal((len(self.w), n_draws))
        weights = self.w[:, None] + dtrsm(1.0, self.C, z, lower=1, trans_a=1)
        draws = weights.T @ V
        scale = float(K_new.diagonal().max())
        return draws + gaussian_draws(np.zeros(len(K_new)), K_new - V.T @ V, n_draws, rng, scale)

    def _variance(self, V: FloatArray, prior_variance: FloatArray) -> FloatArray:
        Y = dtrsm(1.0, self.C, V, lower=1)
        unexplained = np.maximum(prior_variance - np.square(V).sum(axis=0), 0.0)
        return unexplained + np.square(Y).sum(axis=0)


def gaussian_draws(
    mean: FloatArray,
    covariance: FloatArray,
    n_draws: int,
    rng: np.random.Generator,
    scale: float | None = None,
) -> FloatArray:
    """Draw jointly, (n_draws, n); variance that rounding at this scale explains is left out."""
    with few_threads(len(covariance)):
        R, _, pivots = pivoted_cholesky(covariance, 1e-10, scale=scale)
    draws = np.tile(mean, (n_draws, 1))
    draws[:, pivots] += rng.standard_normal((n_draws, R.shape[1])) @ R.T
    return draws


def evidence_gradient(posterior: Posterior) -> FloatArray:
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
    Y = dtrsm(1.0, posterior.C, laplacian_factor(prior, weight).T, lower=1)
    half = dsyrk(0.5, Y, trans=1, lower=1)
    M = half + np.tril(half, -1).T
    M -= laplacian_product(np.eye(len(M)), prior.pairs.first, prior.pairs.second, 0.5 * weight, 1)
    outer = 0.25 * np.outer(posterior.alpha, posterior.beta)
    M += outer + outer.T
    place = np.argsort(prior.rows)  # of the items or comparisons: leaves the row of zeros out
    M = M[np.ix_(place, place)]
    if not prior.in_pair_space:
        return M
    compared = prior.comparisons.pairs  # from the preference kernel to that of the items
    return compared.adjoint(compared.adjoint(M).T)


def basis_evidence_gradient(posterior: Posterior) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the gradient of the evidence in the three arrays of `factorize_through_basis`.

    Returns
    -------
    G_cross : (rank, n_items)
        In ``K_cross``, for the basis items that were kept (``posterior.items``).
    G_basis : (rank, rank)
        In ``K_basis`` of the same items.
    g_variance : (n_pairs,)
        In the prior variance of each comparison.
    """
    prior = posterior.prior
    weight = prior.comparisons.count * posterior.tau
    g_variance = np.where(prior.extra_noise > 0.0, posterior.noise_gradient, 0.0)
    P = dtrsm(1.0, prior.root, prior.R.T, lower=1, trans_a=1)
    Y = dtrsm(1.0, posterior.C, laplacian_factor(prior, weight).T, lower=1)
    G = 0.5 * (P @ Y.T) @ Y - (prior.pairs.laplacian(0.5 * weight + g_variance) @ P.T).T
    G += 0.25 * np.outer(P @ posterior.alpha, posterior.beta)
    G += 0.25 * np.outer(P @ posterior.beta, posterior.alpha)
    return 2.0 * G, -G @ P.T, g_variance


NEWTON_RULE = StoppingRule(tol=1e-9, max_iter=100)

DIFFERENCE_STEP = 1e-5
"""Step of the central differences of slopes and curvatures, relative for parameters."""


def laplace(
    prior: Prior,
    likelihood: Likelihood,
    *,
    start: tuple[FloatArray, FloatArray] | None = None,
    rule: StoppingRule = NEWTON_RULE,
) -> Posterior:
    """Approximate the posterior by the Gaussian that has its mode and its curvature there.

    Newton's method on the weights, each step O(n_rows rank^2 + n_pairs rank). For `GaussianMargin`
    the first step is exact and the second confirms it.

    Parameters
    ----------
    prior : Prior
    likelihood : Likelihood
    start : (tau, nu), optional
        Sites whose posterior mean to begin with, such as those found with another kernel.
    rule : StoppingRule
        The tolerance is a bound on the Newton decrement: twice the possible rise of the log
        posterior. If it is not reached, the last state is returned.

    Notes
    -----
    If scores differ by much more than the noise, the mode is up to two standard deviations from the
    mean; `expectation_propagation` finds the mean. For a likelihood that is not log-concave,
    negative curvatures count as 0, and the mode depends on the start.
    """
    with few_threads(prior.rank):
        w = np.zeros(prior.rank) if start is None else condition_on_sites(prior, *start).w
        _, step, n_iter, ending = newton_steps(
            _log_posterior(prior, likelihood, w),
            lambda point, _: _newton_step(prior, point),
            lambda _, step: _line_search(prior, likelihood, step),
            rule,
            "Lower the amplitude of the kernel, or use method='ep'.",
        )
        return _laplace_posterior(prior, likelihood, step, n_iter, ending)


@final
@dataclass(frozen=True, eq=False)
class _LogPosterior:
    """The log posterior at the weights w, where the differences are s."""

    w: FloatArray
    s: FloatArray
    likelihood: AverageLikelihood
    value: float


@final
@dataclass(frozen=True, eq=False)
class _NewtonStep:
    """The Newton step from a point: ``target`` is the Gaussian whose mean it leads to."""

    point: _LogPosterior
    tau: FloatArray
    nu: FloatArray
    target: WeightPosterior
    decrement: float


def _log_posterior(prior: Prior, likelihood: Likelihood, w: FloatArray) -> _LogPosterior:
    s = difference_means(prior, w)
    exact = likelihood.average(s, np.zeros_like(s), prior.outcomes)
    value = float(prior.comparisons.count @ exact.log_z - 0.5 * w @ w)  # log of [TH10] eq. (10)
    return _LogPosterior(w, s, exact, value)


def _newton_step(prior: Prior, point: _LogPosterior) -> tuple[_NewtonStep, float]:
    """Return the step, and its decrement."""
    tau, nu = point.likelihood.sites(point.s, np.zeros_like(point.s))
    target = condition_on_sites(prior, tau, nu)
    scaled = dtrmv(target.C, target.w - point.w, lower=1, trans=1)
    decrement = float(scaled @ scaled)
    return _NewtonStep(point, tau, nu, target, decrement), decrement


def _line_search(prior: Prior, likelihood: Likelihood, step: _NewtonStep) -> _LogPosterior:
    """Halve the Newton step until the log posterior rises enough."""
    start, direction = step.point, step.target.w - step.point.w

    def ahead(share: float) -> _LogPosterior:
        return _log_posterior(prior, likelihood, start.w + share * direction)

    return halved(ahead, lambda point: point.value, armijo(start.value, step.decrement), 1.0)


def _laplace_posterior(
    prior: Prior, likelihood: Likelihood, step: _NewtonStep, n_iter: int, ending: Ending
) -> Posterior:
    count, mode, C = prior.comparisons.count, step.point, step.target.C
    alpha = prior.pairs.adjoint(count * mode.likelihood.slope)
    by_mode, shift, gradient, by_noise = _mode_gradients(prior, likelihood, step)
    return Posterior(
        prior=prior,
        likelihood=likelihood,
        tau=step.tau,
        nu=step.nu,
        C=C,
        w=mode.w,
        log_evidence=mode.value - float(np.log(C.diagonal()).sum()),
        residual=step.decrement,
        n_iter=n_iter,
        ending=ending,
        alpha=alpha,
        beta=alpha + 2.0 * prior.pairs.adjoint(by_mode - count * mode.likelihood.curvature * shift),
        n_clipped=int(np.sum(mode.likelihood.curvature < 0.0)),
        noise_gradient=by_noise,
        parameter_gradient={name: float(values.sum()) for name, values in gradient.items()},
    )


def _mode_gradients(
    prior: Prior, likelihood: Likelihood, step: _NewtonStep
) -> tuple[FloatArray, FloatArray, dict[str, FloatArray], FloatArray]:
    """Return what the dependence of the mode on the parameters adds to the gradient.

    The first is the derivative of the evidence in every s at the mode, the second the posterior
    covariance of the comparisons times the first, and the others the total derivatives in every
    parameter and in the extra noise, comparison by comparison. Slopes and curvatures are
    differentiated by central differences, to about nine digits.
    """
    count, s, C = prior.comparisons.count, step.point.s, step.target.C
    outcomes, none = prior.outcomes, np.zeros_like(s)
    # how the curvature changes with s, and with it log |C|: the derivative of log Z in the mode
    h = DIFFERENCE_STEP * (1.0 + np.abs(s))
    ahead, behind = (likelihood.average(s + move, none, outcomes) for move in (h, -h))
    third = _clipped_change(ahead, behind) / (2.0 * h)
    variance = difference_variances(prior, C)
    by_mode = -0.5 * count * variance * third
    shift = difference_means(prior, _at_mode(prior, step, by_mode))

    def total(
        explicit: FloatArray, ahead: AverageLikelihood, behind: AverageLikelihood, width: float
    ) -> FloatArray:
        """Return a derivative by its explicit part and the change of slope and curvature."""
        curvature = _clipped_change(ahead, behind) / (2.0 * width)
        slope = (ahead.slope - behind.slope) / (2.0 * width)
        return count * (explicit - 0.5 * variance * curvature + slope * shift)

    # total derivatives in the parameters of the likelihood, one by one
    gradient = {}
    for name, explicit in likelihood.gradient(s, none, outcomes).items():
        value = likelihood.parameters[name]
        width = DIFFERENCE_STEP * value
        more, less = (likelihood.replace(**{name: value + move}) for move in (width, -width))
        ahead, behind = (one.average(s, none, outcomes) for one in (more, less))
        gradient[name] = total(explicit, ahead, behind, width)
    # the same in the extra noise of every comparison
    width = DIFFERENCE_STEP * likelihood.parameters["noise"]
    ahead, behind = (
        likelihood.average(s, none, replace(outcomes, extra_noise=outcomes.extra_noise + move))
        for move in (width, -width)
    )
    explicit = likelihood.average(s, none, outcomes).noise_gradient
    by_noise = total(explicit, ahead, behind, width)
    return by_mode, shift, gradient, by_noise


def _at_mode(prior: Prior, step: _NewtonStep, values: FloatArray) -> FloatArray:
    """Return the covariance of the weights times R'A'values, with unclipped curvatures.

    If these are negative and leave no maximum, the clipped ones are used.
    """
    curvature = step.point.likelihood.curvature
    if (curvature < 0.0).any():
        try:
            return condition_on_sites(prior, curvature, values / prior.comparisons.count).w
        except NumericalError:
            pass
    u = dtrsv(step.target.C, dgemv(1.0, prior.R.T, prior.pairs.adjoint(values)), lower=1)
    return dtrsv(step.target.C, u, lower=1, trans=1)


def _clipped_change(ahead: AverageLikelihood, behind: AverageLikelihood) -> FloatArray:
    """Return the difference of curvatures; negative ones count as 0."""
    return np.maximum(ahead.curvature, 0.0) - np.maximum(behind.curvature, 0.0)
