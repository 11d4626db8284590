"""Expectation propagation over comparisons: all sites in parallel, or one after the other."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Self, final

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import ConvergenceWarning, InvalidInputError, NumericalError
from rankwise.core.threads import few_threads
from rankwise.rankers.gp.inference.likelihoods import Answers, Likelihood, Tilted
from rankwise.rankers.gp.inference.posterior import Posterior
from rankwise.rankers.gp.inference.prior import (
    Prior,
    Solved,
    difference_means,
    difference_variances,
    scatter,
    solve_sites,
)

MAX_ROUNDS = 4
MAX_NEWTON = 25
TOL = 1e-3


def agreeing_sites(
    likelihood: Likelihood,
    answers: Answers,
    count: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    start: tuple[FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Return the site that ``count`` copies of an answer share, given s ~ N(mean, variance) else.

    If all copies took a plain step at once, they would overshoot ``count`` times. With the
    precision of the sites fixed, the mean of the cavity solves an increasing equation, by Newton's
    method; between such solutions the precision settles by itself, by about a factor of ten in each
    round. A rough agreement will do: the next sweep goes on from there. The likelihood must be
    log-concave.
    """
    tau, nu = start
    others, rest = count - 1.0, 1.0 / np.maximum(variance, 1e-30)
    m = (rest * mean + others * nu) / (rest + others * tau)
    for _ in range(MAX_ROUNDS):
        v = 1.0 / (rest + others * tau)
        m = _cavity_mean(likelihood, answers, rest, mean, others * (1.0 + tau * v), m, v)
        settled, _ = likelihood.tilted(m, v, answers).sites(m, v)
        change = np.abs(settled - tau) * count * v
        tau = settled
        if change.max() < TOL:
            break
    v = 1.0 / (rest + others * tau)
    return tau, likelihood.tilted(m, v, answers).slope * (1.0 + tau * v) + tau * m


def _cavity_mean(
    likelihood: Likelihood,
    answers: Answers,
    rest: FloatArray,
    mean: FloatArray,
    pull: FloatArray,
    m: FloatArray,
    v: FloatArray,
) -> FloatArray:
    """Solve rest (m - mean) = pull * slope(m), by Newton steps kept inside the bracket so far."""
    low, high = np.full_like(m, -np.inf), np.full_like(m, np.inf)
    for _ in range(MAX_NEWTON):
        tilted = likelihood.tilted(m, v, answers)
        gap = rest * (m - mean) - pull * tilted.slope
        low, high = np.where(gap < 0.0, m, low), np.where(gap > 0.0, m, high)
        step = m - gap / (rest + pull * tilted.curvature)
        outside = (step < low) | (step > high)
        step = 0.5 * np.add(low, high, out=2.0 * step, where=outside)
        moved = np.abs(step - m) / np.sqrt(v)
        m = step
        if moved.max() < TOL:
            break
    return m


@final
@dataclass(frozen=True, eq=False)
class Sweep:
    """Hold what a sweep finds at the sites (tau, nu).

    Parameters
    ----------
    tau, nu : (n_pairs,)
        The site of one recorded answer to each comparison.
    solved : Solved
        The posterior with these sites.
    mean, variance : (n_pairs,)
        The comparisons under it.
    cavity : (mean, variance)
        The comparisons without one recorded answer.
    tilted : Tilted
        That answer put back in exactly.
    target : (tau, nu)
        The sites with matching moments.
    count : (n_pairs,)
        How often each answer was recorded.
    """

    tau: FloatArray
    nu: FloatArray
    solved: Solved
    mean: FloatArray
    variance: FloatArray
    cavity: tuple[FloatArray, FloatArray]
    tilted: Tilted
    target: tuple[FloatArray, FloatArray]
    count: FloatArray

    @property
    def x(self) -> FloatArray:
        """The sites as one vector."""
        return np.concatenate([self.tau, self.nu])

    @cached_property
    def step(self) -> FloatArray:
        """What a plain step adds to ``x``."""
        return np.concatenate(self.target) - self.x

    @cached_property
    def scale(self) -> FloatArray:
        """What brings the step to units of the posterior."""
        return np.concatenate([self.count * self.variance, self.count * np.sqrt(self.variance)])

    @cached_property
    def residual(self) -> float:
        """The largest change that a plain step makes to a comparison."""
        return float(np.abs(self.scale * self.step).max())

    @property
    def proper(self) -> bool:
        """Whether every comparison keeps a positive precision without one of its answers."""
        return bool((self.tau * self.variance).max() < 1.0 - 1e-6)

    @property
    def log_evidence(self) -> float:
        """The log of the probability of the answers, without dividing by tau."""
        m, v = self.cavity
        spread = 1.0 + self.tau * v
        exponent = (2.0 * m * self.nu + v * self.nu**2 - self.tau * m**2) / spread
        constants = self.tilted.log_z + 0.5 * (np.log(spread) - exponent)
        return self.solved.log_normaliser + float(self.count @ constants)


def sweep_sites(prior: Prior, likelihood: Likelihood, x: FloatArray, *, cut: bool) -> Sweep:
    """Compute the posterior with the sites x and the sites that match its moments.

    O(n_rows rank^2 + n_pairs rank).
    """
    tau, nu = np.split(x, 2)
    count = prior.comparisons.count
    solved = solve_sites(prior, tau, nu)
    mean = difference_means(prior, solved.w)
    variance = difference_variances(prior, solved.C)
    cavity = _without(mean, variance, tau, nu)
    tilted = likelihood.tilted(*cavity, prior.answers)
    target = tilted.sites(*cavity, cut=cut)
    repeats = np.flatnonzero(count > 1.0)
    if len(repeats) and likelihood.log_concave:
        old, c = (tau[repeats], nu[repeats]), count[repeats]
        rest = _without(mean[repeats], variance[repeats], c * old[0], c * old[1])
        found = agreeing_sites(likelihood, prior.answers.take(repeats), c, *rest, old)
        target[0][repeats], target[1][repeats] = found
    return Sweep(tau, nu, solved, mean, variance, cavity, tilted, target, count)


def _without(
    mean: FloatArray, variance: FloatArray, tau: FloatArray, nu: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Take the site (tau, nu) off the Gaussian N(mean, variance)."""
    keep = np.maximum(1.0 - tau * variance, 1e-10)
    return (mean - nu * variance) / keep, variance / keep


WINDOW = 5
PLAIN_SWEEPS = 4


@final
@dataclass(frozen=True, eq=False)
class StepRule:
    """Choose the next point from what the last sweeps found.

    Undamped parallel sweeps can cycle, and no fixed damping is good everywhere. So plain steps are
    taken as long as they halve the residual, and from then on Anderson acceleration over the last
    sweeps; when the residual grows, the past is forgotten and the steps are shortened, to 0.3 at
    first and further if that keeps happening.

    Parameters
    ----------
    history : tuple of (x, F)
        The last points, and what a plain step would have added to each.
    n_sweeps, n_restarts, n_rejected : int
        Sweeps so far, how often the residual grew, and how often a point was no valid state.
    best, last : float
        The smallest and the last residual.
    accelerated : bool
        Whether plain steps are over.
    damping : float
        The share of F that a step takes.
    """

    history: tuple[tuple[FloatArray, FloatArray], ...] = ()
    n_sweeps: int = 0
    n_restarts: int = 0
    n_rejected: int = 0
    best: float = inf
    last: float = inf
    accelerated: bool = False
    damping: float = 1.0

    def observe(self, x: FloatArray, F: FloatArray, residual: float) -> Self:
        """Take note that a plain step at the point x would add F."""
        slow = self.n_sweeps >= PLAIN_SWEEPS and residual > 0.5 * self.last
        accelerated = self.accelerated or slow
        history, damping = self.history, self.damping
        restart = accelerated and residual > 2.0 * self.best
        if restart:
            floor = 0.3 * 0.8 ** max(0, self.n_restarts - 6)
            history, damping = (), max(min(floor, damping), 0.7 * damping)
        return replace(
            self,
            history=(*history, (x, F))[-WINDOW - 1 :] if accelerated else ((x, F),),
            n_sweeps=self.n_sweeps + 1,
            n_restarts=self.n_restarts + (restart and self.last <= 2.0 * self.best),
            best=min(self.best, residual),
            last=residual,
            accelerated=accelerated,
            damping=damping,
        )

    def reject(self) -> Self:
        """Take note that the last proposal was no valid state: forget the past, halve the steps."""
        return replace(
            self,
            history=self.history[-1:],
            n_sweeps=self.n_sweeps + 1,
            n_rejected=self.n_rejected + 1,
            accelerated=True,
            damping=0.5 * self.damping,
        )

    def propose(self, scale: FloatArray) -> FloatArray:
        """Return the next point; ``scale`` brings the entries of F to one unit."""
        x, F = self.history[-1]
        if len(self.history) == 1:
            return x + self.damping * F
        points, steps = (np.stack(part, axis=1) for part in zip(*self.history, strict=True))
        dX, dF = np.diff(points, axis=1), np.diff(steps, axis=1)
        scaled = scale[:, None] * dF
        gamma = np.linalg.lstsq(scaled.T @ scaled, scaled.T @ (scale * F), rcond=1e-12)[0]
        return x + self.damping * F - (dX + self.damping * dF) @ gamma


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
