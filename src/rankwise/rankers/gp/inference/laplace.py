"""Laplace's method over comparisons: the posterior's mode, and its curvature there."""

import warnings
from dataclasses import dataclass
from typing import final

import numpy as np
from scipy.linalg.blas import dgemv, dtrmv, dtrsv

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import ConvergenceWarning
from rankwise.core.threads import few_threads
from rankwise.rankers.gp.inference.likelihoods import SmoothLikelihood, Tilted
from rankwise.rankers.gp.inference.posterior import Posterior
from rankwise.rankers.gp.inference.prior import (
    Prior,
    Solved,
    difference_means,
    difference_variances,
    scatter,
    solve_sites,
)


def laplace(
    prior: Prior,
    likelihood: SmoothLikelihood,
    *,
    start: tuple[FloatArray, FloatArray] | None = None,
    tol: float = 1e-9,
    max_steps: int = 100,
) -> Posterior:
    """Approximate the posterior by the Gaussian that has its mode and its curvature there.

    Newton's method on the weights, each step O(n_rows rank^2 + n_pairs rank). For `GaussianMargin`
    the first step arrives, the second proves it, and the result is exact.

    Parameters
    ----------
    prior : Prior
    likelihood : SmoothLikelihood
    start : (tau, nu), optional
        Sites whose posterior mean to begin with, such as those found with another kernel.
    tol : float
        Bound on the Newton decrement: twice the rise of the log posterior still ahead.
    max_steps : int
        Steps after which the last state is returned with a `ConvergenceWarning`.

    Notes
    -----
    Where scores differ by much more than the noise, the mode lies up to two standard deviations
    from the mean; `expectation_propagation` finds the mean.
    """
    likelihood.check(prior.answers)
    with few_threads(prior.rank):
        w = np.zeros(prior.rank) if start is None else solve_sites(prior, *start).w
        mode, n_steps = _climb(prior, likelihood, w, tol, max_steps)
        converged = mode.decrement < tol
        if not converged:
            warnings.warn(
                f"Newton's method must reach a decrement of {tol:g}: got {mode.decrement:.2g} "
                f"after {n_steps} steps. Raise the number of steps.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return _posterior(prior, likelihood, mode, n_steps, converged)


@final
@dataclass(frozen=True, eq=False)
class _Point:
    """The log posterior at the weights w."""

    w: FloatArray
    s: FloatArray
    tilted: Tilted
    objective: float


@final
@dataclass(frozen=True, eq=False)
class _Mode:
    """A point, and the Newton step from there: ``solved`` is where it leads."""

    point: _Point
    tau: FloatArray
    nu: FloatArray
    solved: Solved
    decrement: float


def _climb(
    prior: Prior, likelihood: SmoothLikelihood, w: FloatArray, tol: float, max_steps: int
) -> tuple[_Mode, int]:
    """Return the mode and the number of systems solved."""
    mode, n_steps = _newton(prior, _at(prior, likelihood, w)), 1
    while mode.decrement >= tol and n_steps < max_steps:
        mode, n_steps = _newton(prior, _line_search(prior, likelihood, mode)), n_steps + 1
    return mode, n_steps


def _at(prior: Prior, likelihood: SmoothLikelihood, w: FloatArray) -> _Point:
    s = difference_means(prior, w)
    tilted = likelihood.tilted(s, np.zeros_like(s), prior.answers)
    objective = float(prior.comparisons.count @ tilted.log_z - 0.5 * w @ w)
    return _Point(w, s, tilted, objective)


def _newton(prior: Prior, point: _Point) -> _Mode:
    tau, nu = point.tilted.sites(point.s, np.zeros_like(point.s))
    solved = solve_sites(prior, tau, nu)
    step = dtrmv(solved.C, solved.w - point.w, lower=1, trans=1)
    return _Mode(point, tau, nu, solved, float(step @ step))


def _line_search(prior: Prior, likelihood: SmoothLikelihood, mode: _Mode) -> _Point:
    """Halve the Newton step until the log posterior rises as it should."""
    w, step, share = mode.point.w, mode.solved.w - mode.point.w, 1.0
    slack = 1e-12 * (1.0 + abs(mode.point.objective))
    point = _at(prior, likelihood, w + step)
    while point.objective < mode.point.objective + 1e-4 * share * mode.decrement - slack:
        share *= 0.5
        point = _at(prior, likelihood, w + share * step)
    return point


def _posterior(
    prior: Prior, likelihood: SmoothLikelihood, mode: _Mode, n_steps: int, converged: bool
) -> Posterior:
    count, tilted, C = prior.comparisons.count, mode.point.tilted, mode.solved.C
    alpha = scatter(prior, count * tilted.slope)
    pull, shift, by_noise = _mode_shift(prior, likelihood, mode)
    return Posterior(
        prior=prior,
        likelihood=likelihood,
        tau=mode.tau,
        nu=mode.nu,
        C=C,
        w=mode.point.w,
        log_evidence=mode.point.objective - float(np.log(C.diagonal()).sum()),
        residual=mode.decrement,
        n_sweeps=n_steps,
        converged=converged,
        alpha=alpha,
        beta=alpha + 2.0 * scatter(prior, pull - count * mode.tau * shift),
        n_cut=0,
        by_noise=by_noise,
        by_parameter={"noise": float(by_noise.sum())},
    )


def _mode_shift(
    prior: Prior, likelihood: SmoothLikelihood, mode: _Mode
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return how the evidence feels a move of the mode.

    ``pull`` is its derivative in every s, ``shift`` the posterior covariance of the comparisons
    times ``pull``, and the third its whole derivative in the noise of every comparison.
    """
    count, slope, curvature = prior.comparisons.count, mode.point.tilted.slope, mode.tau
    s, C = mode.point.s, mode.solved.C
    third = likelihood.curvature_slope(s, prior.answers)
    variance = difference_variances(prior, C)
    pull = -0.5 * count * variance * third
    u = dtrsv(C, dgemv(1.0, prior.R.T, scatter(prior, pull)), lower=1)
    shift = difference_means(prior, dtrsv(C, u, lower=1, trans=1))
    noise = likelihood.noise + prior.excess
    curvature_by_noise = -(curvature + 0.5 * s * third) / noise
    slope_by_noise = -slope * curvature - 0.5 * third
    explicit = mode.point.tilted.by_noise - 0.5 * variance * curvature_by_noise
    return pull, shift, count * (explicit + slope_by_noise * shift)
