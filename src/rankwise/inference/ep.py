"""Expectation propagation over comparisons: all sites in parallel, or one after the other."""

import warnings

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import ConvergenceWarning, InvalidInputError, NumericalError
from rankwise.inference._ep_solve import scatter
from rankwise.inference._ep_steps import StepRule
from rankwise.inference._ep_sweep import Sweep, sweep_sites
from rankwise.inference._ep_threads import few_threads
from rankwise.inference.likelihoods import Likelihood
from rankwise.inference.posterior import Posterior
from rankwise.inference.prior import Prior
from rankwise.inference.tilted import Answers

MAX_REJECTED = 20


def expectation_propagation(
    prior: Prior,
    likelihood: Likelihood,
    *,
    start: tuple[FloatArray, FloatArray] | None = None,
    tol: float = 1e-6,
    max_sweeps: int = 300,
) -> Posterior:
    """Approximate the posterior by a Gaussian site exp(nu s - tau s^2 / 2) on every comparison.

    A sweep refines all sites at once in O(n_rows rank^2 + n_pairs rank).

    Parameters
    ----------
    prior : Prior
    likelihood : Likelihood
    start : (tau, nu), optional
        Sites to begin with, such as those found with another kernel.
    tol : float
        Bound on the change of the sites in a sweep, in units of the posterior. The evidence is
        then good to about ``tol**2`` and its gradient to ``tol``.
    max_sweeps : int
        Sweeps after which the best state so far is returned with a `ConvergenceWarning`.

    Notes
    -----
    [TH10] Sect. 5 approximates its (10) by this method and leaves the algorithm open. The cavity
    removes one of the copies of a repeated comparison.
    """
    likelihood.check(prior.answers)
    _check_counts(prior.comparisons.count)
    n_pairs = prior.comparisons.n_pairs
    x = np.zeros(2 * n_pairs) if start is None else np.concatenate(start)
    with few_threads(prior.rank):
        best, n_sweeps = _iterate(prior, likelihood, x, tol, max_sweeps)
    converged = best.residual < tol
    if not converged:
        other = "Laplace's method" if likelihood.log_concave else "the likelihood without flips"
        warnings.warn(
            f"Expectation propagation must reach a residual of {tol:g}: got {best.residual:.2g} "
            f"after {n_sweeps} sweeps. Raise the number of sweeps, or use {other}.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return _posterior(prior, likelihood, best, n_sweeps, converged)


def _iterate(
    prior: Prior, likelihood: Likelihood, x: FloatArray, tol: float, max_sweeps: int
) -> tuple[Sweep, int]:
    """Return the best sweep and the number of sweeps.

    Without log-concavity sites of negative tau are tried first: all their moments match, which
    makes the evidence more accurate and its gradient exact. Where they lead to no proper
    posterior, they are cut off at zero.
    """
    n_free = 0
    if not likelihood.log_concave:
        best, n_free = _fixed_point(prior, likelihood, x, tol, max_sweeps, cut=False)
        if best.residual < tol:
            return best, n_free
    best, n_cut = _fixed_point(prior, likelihood, x, tol, max_sweeps, cut=True)
    return best, n_free + n_cut


def _fixed_point(
    prior: Prior, likelihood: Likelihood, x: FloatArray, tol: float, max_sweeps: int, *, cut: bool
) -> tuple[Sweep, int]:
    first = None if cut else _try_sweep(prior, likelihood, x, cut=False)
    sweep = best = first or sweep_sites(prior, likelihood, _without_negative(x), cut=cut)
    rule = StepRule().observe(sweep.x, sweep.step, sweep.residual)
    while sweep.residual >= tol and rule.n_sweeps < max_sweeps and rule.n_rejected < MAX_REJECTED:
        x = rule.propose(sweep.scale)
        trial = _try_sweep(prior, likelihood, _admissible(x, sweep) if cut else x, cut=cut)
        if trial is None:
            rule = rule.reject()
            continue
        sweep = trial
        rule = rule.observe(sweep.x, sweep.step, sweep.residual)
        best = min(best, sweep, key=lambda one: one.residual)
    return best, rule.n_sweeps


def _try_sweep(prior: Prior, likelihood: Likelihood, x: FloatArray, *, cut: bool) -> Sweep | None:
    """Return the sweep, or nothing where negative tau leave no proper posterior or cavity."""
    try:
        sweep = sweep_sites(prior, likelihood, x, cut=cut)
    except NumericalError:
        return None
    return sweep if cut or sweep.proper else None


def _without_negative(x: FloatArray) -> FloatArray:
    """Set negative tau to zero: what is left is a valid state under any prior."""
    tau, nu = np.split(x, 2)
    return np.concatenate([np.maximum(tau, 0.0), nu])


def _admissible(x: FloatArray, sweep: Sweep) -> FloatArray:
    """Give sites whose tau turned negative the plain step; all of them if these are many."""
    negative = x[: len(x) // 2] < 0.0
    plain = sweep.x + sweep.step
    if negative.mean() > 0.05:
        return plain
    return np.where(np.tile(negative, 2), plain, x)


def _posterior(
    prior: Prior, likelihood: Likelihood, sweep: Sweep, n_sweeps: int, converged: bool
) -> Posterior:
    alpha = scatter(prior, sweep.count * (sweep.nu - sweep.tau * sweep.mean))
    gradient = likelihood.gradient(*sweep.cavity, prior.answers)
    return Posterior(
        prior=prior,
        likelihood=likelihood,
        tau=sweep.tau,
        nu=sweep.nu,
        C=sweep.solved.C,
        w=sweep.solved.w,
        log_evidence=sweep.log_evidence,
        residual=sweep.residual,
        n_sweeps=n_sweeps,
        converged=converged,
        alpha=alpha,
        beta=alpha,
        n_cut=int(np.sum((sweep.tilted.curvature < 0.0) & (sweep.tau == 0.0))),
        by_noise=sweep.count * sweep.tilted.by_noise,
        by_parameter={name: float(sweep.count @ value) for name, value in gradient.items()},
    )


def sequential_sites(
    mean: FloatArray,
    covariance: FloatArray,
    count: FloatArray,
    answers: Answers,
    likelihood: Likelihood,
    *,
    n_passes: int = 1,
) -> tuple[FloatArray, FloatArray]:
    """Find the sites of a few comparisons, one after the other, from their joint Gaussian.

    This is how answers are added to a posterior: ``mean`` and ``covariance`` are then those of the
    new comparisons before the answers, and the sites found start the next run of
    `expectation_propagation`. Each site costs O(n_pairs^2) in each pass.

    Parameters
    ----------
    mean, covariance : (n_pairs,), (n_pairs, n_pairs)
        Of the differences compared.
    count : (n_pairs,)
        How often each answer was recorded.
    answers : Answers
    likelihood : Likelihood
    n_passes : int
        One pass is assumed-density filtering; many reach the fixed point of the parallel sweeps.

    Returns
    -------
    tau, nu : (n_pairs,)
    """
    likelihood.check(answers)
    _check_counts(count)
    mu, S = mean.copy(), covariance.copy()
    tau, nu = np.zeros_like(mean), np.zeros_like(mean)
    for site in np.tile(np.arange(len(mean)), n_passes):
        v = S[site, site]
        keep = max(1.0 - tau[site] * v, 1e-10)
        cavity = np.array([(mu[site] - nu[site] * v) / keep]), np.array([v / keep])
        tilted = likelihood.tilted(*cavity, answers.take(np.array([site])))
        new_tau, new_nu = (values[0] for values in tilted.sites(*cavity))
        d_tau, d_nu = count[site] * (new_tau - tau[site]), count[site] * (new_nu - nu[site])
        kappa = d_tau / (1.0 + d_tau * v)
        column = S[:, site].copy()
        mu += column * (d_nu - kappa * (mu[site] + d_nu * v))
        S -= kappa * np.outer(column, column)
        tau[site], nu[site] = new_tau, new_nu
    return tau, nu


def _check_counts(count: FloatArray) -> None:
    if (count < 1.0).any():
        raise InvalidInputError(
            "Expectation propagation removes one answer at a time, so every comparison must weigh "
            f"at least 1: got {count.min():g}. Scale the weights up, or use Laplace's method."
        )
