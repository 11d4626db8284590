"""Expectation propagation over comparisons: all sites in parallel, or one by one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Self, TypeAlias, final

import numpy as np
from scipy.linalg.blas import dgemm

from rankwise.comparisons.gp.inference.comparisons import Comparisons
from rankwise.comparisons.gp.inference.likelihood import (
    AverageLikelihood,
    Likelihood,
    Outcomes,
)
from rankwise.comparisons.gp.inference.posterior import Posterior
from rankwise.comparisons.gp.inference.powers import PoweredLikelihood
from rankwise.comparisons.gp.inference.prior import (
    DeviceMoments,
    MomentFunction,
    Prior,
    WeightPosterior,
    moments_under,
)
from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.errors import NumericalError
from rankwise.core.namespaces import HOST, Array, is_on_host
from rankwise.core.threads import few_threads
from rankwise.solve.iteration import Ending, Reason, StoppingRule

MAX_ROUNDS = 4
MAX_NEWTON = 25
COPIES_TOL = 1e-3
"""How well copies of an answer agree on their site between two sweeps."""


def repeated_sites(
    likelihood: Likelihood,
    outcomes: Outcomes,
    count: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    start: tuple[FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Return the site that ``count`` copies of an answer share; s ~ N(mean, variance) without them.

    If all copies took a plain step at once, they would overshoot ``count`` times. With the
    precision of the sites fixed, the mean of the cavity (the distribution without one copy) solves
    an increasing equation, by Newton's method; between such solutions the precision converges by
    itself, by about a factor of ten in each round. A few digits are enough, since the next sweep
    continues from there. The likelihood must be log-concave.
    """
    tau, nu = start
    others, precision = count - 1.0, 1.0 / np.maximum(variance, 1e-30)
    m = (precision * mean + others * nu) / (precision + others * tau)
    for _ in range(MAX_ROUNDS):
        v = 1.0 / (precision + others * tau)
        factor = others * (1.0 + tau * v)
        # mean of the cavity: precision (m - mean) = factor * slope(m), Newton steps in a bracket
        low, high = np.full_like(m, -np.inf), np.full_like(m, np.inf)
        for _ in range(MAX_NEWTON):
            average = likelihood.average(m, v, outcomes)
            error = precision * (m - mean) - factor * average.slope
            low, high = np.where(error < 0.0, m, low), np.where(error > 0.0, m, high)
            step = m - error / (precision + factor * average.curvature)
            outside = (step < low) | (step > high)
            step = 0.5 * np.add(low, high, out=2.0 * step, where=outside)
            moved = np.abs(step - m) / np.sqrt(v)
            m = step
            if moved.max() < COPIES_TOL:
                break
        # precision of the site with the moments of the tilted distribution
        average = likelihood.average(m, v, outcomes)
        new_tau = np.maximum(average.curvature / average.variance_ratio, 0.0)
        change = np.abs(new_tau - tau) * count * v
        tau = new_tau
        if change.max() < COPIES_TOL:
            break
    v = 1.0 / (precision + others * tau)
    return tau, likelihood.average(m, v, outcomes).slope * (1.0 + tau * v) + tau * m


@final
@dataclass(frozen=True, eq=False)
class Sweep:
    """Hold what a sweep computes at the sites (tau, nu).

    Parameters
    ----------
    x : (2 n_pairs,)
        tau and nu, the site of one recorded answer to each comparison.
    step : (2 n_pairs,)
        What a plain step adds to ``x``.
    scale : (2 n_pairs,)
        Factors that bring the step to units of the posterior.
    residual : float
        The largest change that a plain step makes to a comparison.
    is_proper : bool
        Whether every comparison keeps a positive precision without one of its answers.
    weights : WeightPosterior
        The posterior with these sites.
    mean : (n_pairs,)
        The mean of the comparisons under it.
    cavity : (mean, variance)
        The same without the site of one recorded answer, or of the whole answer if its weight is
        below 1.
    average : AverageLikelihood
        The exact likelihood of what was removed, averaged over the cavity.
    """

    x: FloatArray
    step: FloatArray
    scale: FloatArray
    residual: float
    is_proper: bool
    weights: WeightPosterior
    mean: FloatArray
    cavity: tuple[FloatArray, FloatArray]
    average: AverageLikelihood


def matched_sites(
    likelihood: Likelihood,
    outcomes: Outcomes,
    count: FloatArray,
    sites: tuple[FloatArray, FloatArray],
    moments: tuple[FloatArray, FloatArray],
    copies: tuple[IntArray, Outcomes] | None = None,
    *,
    clip: bool,
) -> tuple[tuple[FloatArray, FloatArray], AverageLikelihood, tuple[FloatArray, FloatArray]]:
    """Return the cavities, the averages over them, and the sites with the same moments.

    Parameters
    ----------
    likelihood : Likelihood
    outcomes : Outcomes
    count : (n_pairs,)
        How often each answer was recorded.
    sites : (tau, nu)
        The site of one recorded answer to each comparison.
    moments : (mean, variance)
        The comparisons under the posterior with these sites.
    copies : (rows, outcomes), optional
        Answers that were recorded more than once, whose copies are updated together.
    clip : bool
        Whether negative tau are set to zero.
    """
    (tau, nu), (mean, variance), removed = sites, moments, np.minimum(count, 1.0)
    # cavity distribution: the marginal divided by the site of one answer
    ratio = np.maximum(1.0 - removed * tau * variance, 1e-10)
    m, v = (mean - removed * nu * variance) / ratio, variance / ratio
    # moments of the tilted distribution: the cavity times the exact likelihood
    average = likelihood.average(m, v, outcomes)
    light = np.flatnonzero(count < 1.0)
    if len(light):
        average = _with_powers(average, likelihood, removed, light, (m, v), outcomes)
    # update of the sites: the Gaussians that give the cavity these moments
    new_tau = average.curvature / average.variance_ratio
    if clip:
        new_tau = np.maximum(new_tau, 0.0)
    new_nu = average.slope * (1.0 + new_tau * v) + new_tau * m
    if len(light):
        new_tau, new_nu = new_tau / removed, new_nu / removed
    # copies of an answer are updated together
    if copies is not None:
        repeated, same = copies
        old, c = (tau[repeated], nu[repeated]), count[repeated]
        others = without_site(mean[repeated], variance[repeated], c * old[0], c * old[1])
        new_tau[repeated], new_nu[repeated] = repeated_sites(likelihood, same, c, *others, old)
    return (m, v), average, (new_tau, new_nu)


Sweeper: TypeAlias = Callable[[FloatArray, bool], Sweep]
"""Sweeps over all sites x; the second argument is whether negative tau are set to zero."""


def sweep_sites(
    prior: Prior,
    likelihood: Likelihood,
    moments: MomentFunction,
    copies: tuple[IntArray, Outcomes] | None,
    x: FloatArray,
    clip: bool,
) -> Sweep:
    """Compute the posterior with the sites x = (tau, nu) and the sites that match its moments.

    O(n_rows rank^2 + n_pairs rank), where ``moments`` computes.
    """
    count, n_pairs = prior.comparisons.count, len(x) // 2
    tau, nu = x[:n_pairs], x[n_pairs:]
    # posterior with these sites, and the marginals of all comparisons
    weights, mean, variance = moments(tau, nu)
    now = (tau, nu), (mean, variance), copies
    cavity, average, target = matched_sites(likelihood, prior.outcomes, count, *now, clip=clip)
    # the step to the new sites, and its size in units of the posterior
    step = np.concatenate(target) - x
    scale = np.concatenate([count * variance, count * np.sqrt(variance)])
    residual = float(np.abs(scale * step).max())
    is_proper = bool((np.minimum(count, 1.0) * tau * variance).max() < 1.0 - 1e-6)
    return Sweep(x, step, scale, residual, is_proper, weights, mean, cavity, average)


def _with_powers(
    average: AverageLikelihood,
    likelihood: Likelihood,
    weight: FloatArray,
    light: IntArray,
    cavity: tuple[FloatArray, FloatArray],
    outcomes: Outcomes,
) -> AverageLikelihood:
    """Put averages of the likelihood to the power of its weight where that is below 1."""
    powered = PoweredLikelihood(likelihood, weight[light], outcomes.take(light))
    found = powered.average(cavity[0][light], cavity[1][light])
    for name in ("log_z", "slope", "curvature", "variance_ratio"):
        getattr(average, name)[light] = getattr(found, name)
    return average


def _weighed_gradient(
    likelihood: Likelihood, sweep: Sweep, count: FloatArray, outcomes: Outcomes
) -> tuple[dict[str, float], FloatArray]:
    """Return the derivatives of the evidence in every parameter, and in every extra noise."""
    mean, variance = sweep.cavity
    gradient = likelihood.gradient(mean, variance, outcomes)
    by_noise = count * sweep.average.noise_gradient
    light, of_light = np.flatnonzero(count < 1.0), {}
    if len(light):
        powered = PoweredLikelihood(likelihood, count[light], outcomes.take(light))
        of_light = powered.gradient(mean[light], variance[light])
        by_noise[light] = powered.extra_noise_gradient(mean[light], variance[light])
    total = {}
    for name, values in gradient.items():
        weighed = count * values
        if len(light):
            weighed[light] = of_light[name]
        total[name] = float(weighed.sum())
    return total, by_noise


def without_site(
    mean: FloatArray, variance: FloatArray, tau: FloatArray, nu: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Divide the Gaussian N(mean, variance) by the site (tau, nu)."""
    ratio = np.maximum(1.0 - tau * variance, 1e-10)
    return (mean - nu * variance) / ratio, variance / ratio


WINDOW = 5
"""Differences of sweeps that Anderson acceleration combines."""

PLAIN_SWEEPS = 4
"""Sweeps before acceleration may begin."""


@final
@dataclass(frozen=True, eq=False)
class StepRule:
    """Choose the next sites from the last sweeps.

    Undamped parallel sweeps can cycle, and no fixed damping works everywhere. So plain steps are
    taken as long as they halve the residual, followed by Anderson acceleration over the last
    sweeps. When the residual grows, the history is cleared and the steps are shortened, to 0.3 at
    first and further if it grows again.

    Parameters
    ----------
    history : tuple of (x, F)
        The last points, and what a plain step would have added to each.
    n_sweeps, n_restarts, n_rejected : int
        Number of sweeps, how often the residual grew, and how often a point was not a valid state.
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
        """Add the point x, where a plain step would add F."""
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
        """Clear the history and halve the steps: the last proposal was not a valid state."""
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


SWEEP_RULE = StoppingRule(tol=1e-6, max_iter=300)

MAX_REJECTED = 20
"""Invalid states after which sweeps end."""


def expectation_propagation(
    prior: Prior,
    likelihood: Likelihood,
    *,
    start: tuple[FloatArray, FloatArray] | None = None,
    rule: StoppingRule = SWEEP_RULE,
    where: Array = HOST,
    moments: MomentFunction | None = None,
) -> Posterior:
    """Approximate the posterior by a Gaussian site exp(nu s - tau s^2 / 2) on every comparison.

    A sweep refines all sites at once in O(n_rows rank^2 + n_pairs rank).

    Parameters
    ----------
    prior : Prior
    likelihood : Likelihood
    start : (tau, nu), optional
        Sites to begin with, such as those found with another kernel.
    rule : StoppingRule
        The tolerance is a bound on the change of the sites in a sweep, in units of the posterior;
        the evidence is then accurate to about ``tol**2`` and its gradient to ``tol``. If it is not
        reached, the best state is returned.
    where : array
        Where the dense algebra of the sweeps is computed.
    moments : MomentFunction, optional
        A function that computes mean and variance of every comparison, if scores are not those of
        the prior alone.

    Notes
    -----
    [TH10] Sect. 5 approximates its (10) by this method and leaves the algorithm open. The cavity
    removes one of the copies of a repeated comparison, or all of one that weighs less than 1.
    """
    x = np.zeros(2 * len(prior.extra_noise)) if start is None else np.concatenate(start)
    device = None if is_on_host(where) else DeviceMoments.of(prior, where)
    moments = device or moments or partial(moments_under, prior)
    is_concave = likelihood.is_log_concave
    copies = prior.copies if is_concave else None
    sweep: Sweeper = partial(sweep_sites, prior, likelihood, moments, copies)
    with few_threads(prior.rank):
        best, n_iter, reason = _iterate(sweep, x, rule, is_concave=is_concave)
    if device is not None:
        best = replace(best, weights=device.on_host(best.weights))
    other = "method='laplace'" if is_concave else "likelihood='probit'"
    remedy = f"Lower the amplitude of the kernel, or use {other}."
    ending = rule.end(reason, n_iter, best.residual, remedy)
    return _ep_posterior(prior, likelihood, best, n_iter, ending)


def _iterate(
    sweep: Sweeper, x: FloatArray, rule: StoppingRule, *, is_concave: bool
) -> tuple[Sweep, int, Reason]:
    """Return the best sweep, the number of sweeps, and why they ended.

    Without log-concavity, sites of negative tau are tried first: all their moments match, which
    makes the evidence more accurate and its gradient exact. If they lead to no proper posterior,
    they are clipped at zero.
    """
    n_unclipped = 0
    if not is_concave:
        best, n_unclipped, reason = _fixed_point(sweep, x, rule, clip=False)
        if reason == "converged":
            return best, n_unclipped, reason
    best, n_clipped, reason = _fixed_point(sweep, x, rule, clip=True)
    return best, n_unclipped + n_clipped, reason


def _fixed_point(
    sweep_from: Sweeper, x: FloatArray, rule: StoppingRule, *, clip: bool
) -> tuple[Sweep, int, Reason]:
    first = None if clip else _try_sweep(sweep_from, x, clip=clip)
    sweep = best = first or sweep_from(_without_negative(x), clip)
    steps = StepRule().observe(sweep.x, sweep.step, sweep.residual)
    while sweep.residual >= rule.tol and steps.n_sweeps < rule.max_iter:
        if steps.n_rejected == MAX_REJECTED:
            return best, steps.n_sweeps, "precision"
        # damped or accelerated step; one that leaves no proper posterior is taken back
        x = steps.propose(sweep.scale)
        trial = _try_sweep(sweep_from, _admissible(x, sweep) if clip else x, clip=clip)
        if trial is None:
            steps = steps.reject()
            continue
        sweep = trial
        steps = steps.observe(sweep.x, sweep.step, sweep.residual)
        best = sweep if sweep.residual < best.residual else best
    return best, steps.n_sweeps, "converged" if best.residual < rule.tol else "max_iter"


def _try_sweep(sweep_from: Sweeper, x: FloatArray, *, clip: bool) -> Sweep | None:
    """Return the sweep, or None if negative tau leave no proper posterior or cavity."""
    try:
        sweep = sweep_from(x, clip)
    except NumericalError:
        return None
    return sweep if clip or sweep.is_proper else None


def _without_negative(x: FloatArray) -> FloatArray:
    """Set negative tau to zero, which gives a valid state under any prior."""
    tau, nu = np.split(x, 2)
    return np.concatenate([np.maximum(tau, 0.0), nu])


def _admissible(x: FloatArray, sweep: Sweep) -> FloatArray:
    """Take the plain step for sites whose tau turned negative, or for all if these are many."""
    negative = x[: len(x) // 2] < 0.0
    if not negative.any():
        return x
    plain = sweep.x + sweep.step
    if negative.mean() > 0.05:
        return plain
    return np.where(np.tile(negative, 2), plain, x)


def _ep_posterior(
    prior: Prior, likelihood: Likelihood, sweep: Sweep, n_iter: int, ending: Ending
) -> Posterior:
    count = prior.comparisons.count
    tau, nu = np.split(sweep.x, 2)
    alpha = prior.pairs.adjoint(count * (nu - tau * sweep.mean))
    gradient, by_noise = _weighed_gradient(likelihood, sweep, count, prior.outcomes)
    return Posterior(
        prior=prior,
        likelihood=likelihood,
        tau=tau,
        nu=nu,
        C=sweep.weights.C,
        w=sweep.weights.w,
        log_evidence=_log_evidence(sweep, count),
        residual=sweep.residual,
        n_iter=n_iter,
        ending=ending,
        alpha=alpha,
        beta=alpha,
        n_clipped=int(np.sum((sweep.average.curvature < 0.0) & (tau == 0.0))),
        noise_gradient=by_noise,
        parameter_gradient=gradient,
    )


def _log_evidence(sweep: Sweep, count: FloatArray) -> float:
    """Return the log of p(D | theta) in [TH10] (10), without dividing by tau."""
    removed, (m, v) = np.minimum(count, 1.0), sweep.cavity
    tau, nu = np.split(np.tile(removed, 2) * sweep.x, 2)
    # normalizer of every site: that of the tilted distribution over that of the Gaussian
    ratio = 1.0 + tau * v
    exponent = (2.0 * m * nu + v * nu**2 - tau * m**2) / ratio
    constants = sweep.average.log_z + 0.5 * (np.log(ratio) - exponent)
    return sweep.weights.log_normalizer + float((count / removed) @ constants)


def sequential_sites(
    mean: FloatArray,
    covariance: FloatArray,
    count: FloatArray,
    outcomes: Outcomes,
    likelihood: Likelihood,
    *,
    n_passes: int = 1,
) -> tuple[FloatArray, FloatArray]:
    """Find the sites of a few comparisons one by one, from their joint Gaussian.

    To add answers to a posterior, give the mean and covariance of the new comparisons under it;
    the sites found start the next run of `expectation_propagation`. Each site costs O(n_pairs^2)
    in each pass.

    Parameters
    ----------
    mean, covariance : (n_pairs,), (n_pairs, n_pairs)
        Moments of the compared differences.
    count : (n_pairs,)
        How often each answer was recorded.
    outcomes : Outcomes
    likelihood : Likelihood
    n_passes : int
        One pass is assumed-density filtering; many reach the fixed point of the parallel sweeps.

    Returns
    -------
    tau, nu : (n_pairs,)
    """
    removed, every = np.minimum(count, 1.0), np.arange(len(mean))
    mu, S = mean.copy(), covariance.copy()
    tau, nu = np.zeros_like(mean), np.zeros_like(mean)
    for site in np.tile(every, n_passes):
        v, at = S[site, site], every[site : site + 1]
        # cavity distribution and update of one site
        moments = mu[at], S[at, at]
        one = likelihood, outcomes.take(at), removed[at], (tau[at], nu[at]), moments
        (new_tau,), (new_nu,) = matched_sites(*one, clip=True)[2]
        # update of the posterior, of rank one
        d_tau, d_nu = count[site] * (new_tau - tau[site]), count[site] * (new_nu - nu[site])
        kappa = d_tau / (1.0 + d_tau * v)
        column = S[:, site].copy()
        mu += column * (d_nu - kappa * (mu[site] + d_nu * v))
        S -= kappa * np.outer(column, column)
        tau[site], nu[site] = new_tau, new_nu
    return tau, nu


LIVE_TOL = 2e-2
"""Change of a site, in units of the posterior, below which live scores leave it alone."""

LIVE_BLOCK = 128
"""Sites that change together."""

LIVE_ROUNDS = 40
"""Rounds after which sweeps over all sites take over."""


@final
@dataclass(frozen=True, eq=False)
class LiveScores:
    """Hold the scores of all items as one Gaussian that is quick to update.

    An answer changes its own site and, slightly, those of related comparisons. Only sites that are
    off by more than ``LIVE_TOL`` posterior deviations are moved, in blocks, at O(n_items^2) per
    site; a sweep costs O(n_items^3).

    Parameters
    ----------
    mean, covariance : (n_items,), (n_items, n_items)
        Moments of the scores under the sites.
    comparisons : Comparisons
        Between the same items.
    likelihood : Likelihood
    tau, nu : (n_pairs,)
        The site of one recorded answer to each comparison.
    max_rounds : int
        Rounds after which sites count as not converged.
    """

    mean: FloatArray
    covariance: FloatArray
    comparisons: Comparisons
    likelihood: Likelihood
    tau: FloatArray
    nu: FloatArray
    max_rounds: int = LIVE_ROUNDS

    def extended(self, new: Comparisons) -> Self | None:
        """Return the scores after more answers; None if the sites do not converge."""
        comparisons = self.comparisons.extend(new)
        n_new = comparisons.n_pairs - self.comparisons.n_pairs
        applied = np.append(self.comparisons.count, np.zeros(n_new))
        tau, nu = (np.append(values, np.zeros(n_new)) for values in (self.tau, self.nu))
        start = replace(
            self,
            mean=self.mean.copy(),
            covariance=np.array(self.covariance, order="C"),
            comparisons=comparisons,
            tau=tau,
            nu=nu,
        )
        again = np.flatnonzero((applied != comparisons.count) & (applied > 0.0))
        if len(again):
            more = comparisons.count[again] - applied[again]
            start._move(again, more * tau[again], more * nu[again])
        return start._converged()

    def _converged(self) -> Self | None:
        """Move sites, block by block, until all match the moments of their answers."""
        count, damping, last = self.comparisons.count, 1.0, inf
        outcomes = self.comparisons.outcomes
        repeated = np.flatnonzero(count > 1.0)
        copies = (repeated, outcomes.take(repeated)) if len(repeated) else None
        copies = copies if self.likelihood.is_log_concave else None
        for _ in range(self.max_rounds):
            mean, variance = self._differences()
            if not (variance > 0.0).all() or not np.isfinite(mean).all():
                return None
            now = (self.tau, self.nu), (mean, variance), copies
            _, average, (tau, nu) = matched_sites(
                self.likelihood, outcomes, count, *now, clip=False
            )
            if not (average.variance_ratio > 0.0).all():
                return None
            by_tau, by_nu = tau - self.tau, nu - self.nu
            off = count * np.maximum(variance * np.abs(by_tau), np.sqrt(variance) * np.abs(by_nu))
            worst = float(off.max())
            if worst < LIVE_TOL:
                return self
            damping = max(0.1, 0.5 * damping) if worst > 0.9 * last else damping
            last = worst
            moved = np.flatnonzero(off >= LIVE_TOL)
            if len(moved) > LIVE_BLOCK:
                moved = np.argpartition(-off, LIVE_BLOCK)[:LIVE_BLOCK]
            by_tau, by_nu = damping * by_tau[moved], damping * by_nu[moved]
            self._move(moved, count[moved] * by_tau, count[moved] * by_nu)
            self.tau[moved] += by_tau
            self.nu[moved] += by_nu
        return None

    def sure_answers(self, deviations: float) -> tuple[float, float]:
        """Return how many answers were certain given the others, and how many of these surprised.

        Parameters
        ----------
        deviations : float
            Number of standard deviations of an answer above which it counts as certain.
        """
        removed = np.minimum(self.comparisons.count, 1.0)
        mean, variance = without_site(*self._differences(), removed * self.tau, removed * self.nu)
        z = mean / np.sqrt(self.likelihood.probit_noise + variance)
        sure = self.comparisons.count * ((np.abs(z) > deviations) & ~self.comparisons.tied)
        return float(sure.sum()), float(sure @ (z < 0.0))

    def _differences(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of every comparison. O(n_pairs)."""
        i, j, S = self.comparisons.winner, self.comparisons.loser, self.covariance
        spread = S.diagonal()
        return self.mean[i] - self.mean[j], spread[i] + spread[j] - 2.0 * S[i, j]

    def _move(self, at: IntArray, tau: FloatArray, nu: FloatArray) -> None:
        """Add to the natural parameters of some comparisons, in place (Woodbury's identity)."""
        i, j, S = self.comparisons.winner[at], self.comparisons.loser[at], self.covariance
        U = np.asfortranarray((S[i] - S[j]).T)
        G = U[i] - U[j]
        M = np.eye(len(at)) + tau[:, None] * G
        W = np.linalg.solve(M.T, U.T)  # (U M^-1)'
        pull = nu - tau * (self.mean[i] - self.mean[j])
        self.mean[:] += W.T @ pull
        dgemm(-1.0, U, W * tau[:, None], beta=1.0, c=S.T, overwrite_c=1)
