"""How far scores spread: the posterior of their deviation, by expectation propagation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import Self, final

import numpy as np
import scipy
from scipy.linalg import lapack
from scipy.special import ndtri

from rankwise.comparisons.arena.newton import (
    Mode,
    ScoreModel,
    ScoreSpread,
    log_prior,
    refined_mode,
)
from rankwise.comparisons.arena.paired import PairedModel
from rankwise.core.arrays import FloatArray

UNCERTAIN_LEAD, SURE_LEAD = 0.1, 0.02
"""The variance of a lead from which the learning of the deviation is biased, and that up to which
answers are as good as Gaussian."""

N_DEVIATIONS, N_OF_MANY, SURE_DEVIATION = 5, 3, 0.1
"""Deviations that stand for their posterior, for few and for many items, and the spread of its
logarithm below which one does."""

STEP, NEAR, REACH = 0.3, (0.6, 1.2), (3.0, 1.5)
"""Step of the grid of the logarithm of the deviation, and its least and most extent, down and up.
"""

N_POINTS, N_FINE = 20, 400
"""Points of a quadrature, and of the posterior of the deviation."""

SITE_TOL, MAX_SWEEPS, LEAST_DAMPING = 1e-3, 40, 0.5
"""When sweeps end: the change of the sites in standard deviations, and their number."""

_X, _W = np.polynomial.hermite_e.hermegauss(N_POINTS)
POINTS, LOG_WEIGHTS = _X[:, None], (np.log(_W / _W.sum()) + 0.5 * _X**2)[:, None]
"""Points in standard deviations, with the logarithms of weights for a density over a Gaussian."""


@final
@dataclass(frozen=True, eq=False)
class Sites:
    """Hold the Gaussian factor exp(nu s - tau s^2 / 2) of the lead s of every cell."""

    tau: FloatArray
    nu: FloatArray

    @classmethod
    def at_mode(cls, model: PairedModel, mode: Mode) -> Self:
        """Return the sites of Laplace's approximation."""
        found, cells = model.answers(*mode.start), model.cells
        factor = 1.0 if model.reliability is None else model.reliability
        tau = factor**2 * found.curvature
        lead = mode.f[cells.first] - mode.f[cells.second]
        return cls(tau, tau * lead + factor * found.slope)


@final
@dataclass(frozen=True, eq=False)
class _LeadPosterior:
    """The Gaussian of all scores that sites and a deviation make, as far as leads need it."""

    mean: FloatArray
    variance: FloatArray
    log_normaliser: float

    @classmethod
    def of(cls, model: PairedModel, sites: Sites, deviation: float) -> _LeadPosterior:
        cells = model.cells
        # precision of the scores: the Laplacian of the sites, and the prior
        H = -cells.weighted(sites.tau).toarray()
        H = H + H.T
        H[np.diag_indices(len(H))] += cells.degrees(sites.tau) + deviation**-2.0
        factor, info = lapack.dpotrf(H, lower=1, clean=1)
        assert info == 0  # positive curvatures
        lower, _ = lapack.dpotri(factor, lower=1)
        C = lower + lower.T
        own = 0.5 * C.diagonal()
        C[np.diag_indices(len(C))] = own
        # mean and variance of each lead, and log Z of the Gaussian
        b, i, j = cells.scatter(sites.nu), cells.first, cells.second
        mu = C @ b
        value = 0.5 * float(mu @ b) - float(np.log(factor.diagonal()).sum())
        return cls(mu[i] - mu[j], own[i] + own[j] - 2.0 * C[i, j], value - len(b) * log(deviation))


def log_evidence(
    model: PairedModel, mode: Mode, sites: Sites, deviation: float
) -> tuple[float, Sites]:
    """Return the log probability of the answers under N(0, deviation^2), and the sites.

    Parallel expectation propagation, a site for each cell; parameters stay as at the mode. Tilted
    moments come from a quadrature around the present posterior.

    Parameters
    ----------
    model : PairedModel
    mode : Mode
    sites : Sites
        Where to start.
    deviation : float
    """
    share, last = 1.0, np.inf
    for sweep in range(MAX_SWEEPS + 1):
        tau, nu, here = sites.tau, sites.nu, _LeadPosterior.of(model, sites, deviation)
        # cavity distributions: the posterior without the site
        left = np.maximum(1.0 - tau * here.variance, 1e-9)
        variance = here.variance / left
        mean = (here.mean - nu * here.variance) / left
        # moments of the tilted distributions
        s = here.mean + np.sqrt(here.variance) * POINTS
        log_p = LOG_WEIGHTS + model.likelihoods(s, mode.parameters)
        log_p += 0.5 * (np.log(left) - (s - mean) ** 2 / variance)
        log_z = np.logaddexp.reduce(log_p, axis=0)
        p = np.exp(log_p - log_z)
        tilted = (p * s).sum(axis=0)
        tilted_variance = (p * (s - tilted) ** 2).sum(axis=0)
        # update of the sites, damped if it does not settle
        new_tau = np.maximum(1.0 / tilted_variance - 1.0 / variance, 0.0)
        new_nu = tilted / tilted_variance - mean / variance
        change = np.abs(new_tau - tau) * here.variance
        error = max(change.max(), float((np.abs(new_nu - nu) * np.sqrt(here.variance)).max()))
        if error < SITE_TOL or sweep == MAX_SWEEPS:
            break
        share = share if error < 0.9 * last else max(LEAST_DAMPING, 0.8 * share)
        last = error
        sites = Sites(tau + share * (new_tau - tau), nu + share * (new_nu - nu))
    of_sites = 2.0 * mean * nu + variance * nu**2 - tau * mean**2
    of_sites /= 1.0 + tau * variance
    total = log_z + 0.5 * np.log1p(tau * variance) - 0.5 * of_sites
    return here.log_normaliser + float(total.sum()), sites


def doubt_of_deviation(mode: Mode) -> float:
    """Return the standard deviation of the logarithm of the deviation, about.

    Its information is twice the sum of the squared shares to which answers determine the items.
    """
    return float(np.sqrt(len(mode.f) / 2.0) / max(mode.n_determined, 1e-6))


def deviations_of_many(mode: Mode) -> FloatArray | None:
    """Return deviations that stand for a Gaussian of their logarithm; None if one is as good."""
    doubt = doubt_of_deviation(mode)
    if doubt < SURE_DEVIATION:
        return None
    shares = (np.arange(N_OF_MANY) + 0.5) / N_OF_MANY
    return np.asarray(mode.deviation * np.exp(min(doubt, 1.0) * ndtri(shares)))


def plausible_deviations(model: PairedModel, mode: Mode, spread: ScoreSpread) -> FloatArray | None:
    """Return deviations that stand for their posterior, in equal shares; None if one is as good.

    Where few items are compared, or many that hardly differ, the answers may not tell how far these
    differ; where most items have few answers, the deviation at the mode of the scores is too small.

    Parameters
    ----------
    model : PairedModel
        Not averaged over leads.
    mode : Mode
        Its mode, with the deviation that is learned from it.
    spread : ScoreSpread
        The spread of the scores at this deviation.
    """
    cells, doubt = model.cells, doubt_of_deviation(mode)
    variance = float(np.mean(spread.lead_variance(cells.first, cells.second)))
    if doubt < SURE_DEVIATION and variance < UNCERTAIN_LEAD:
        return None
    # log evidence along a grid, from the largest deviation down
    grid, sites, found = _grid(mode), Sites.at_mode(model, mode), []
    for x in grid:
        if variance < SURE_LEAD:  # Gaussian answers: the sites stay, up to a constant
            value = _LeadPosterior.of(model, sites, float(np.exp(x))).log_normaliser
        else:
            value, sites = log_evidence(model, mode, sites, float(np.exp(x)))
        found.append(value)
    return _representatives(grid, found)


def plausible_deviations_of_choices(
    model: ScoreModel, mode: Mode, deviation: float
) -> FloatArray | None:
    """Return the same for choices among several, whose evidence is that of Laplace.

    That at the modes is largest for deviations that are too small; it is moved so that it peaks at
    the deviation that is learned from the mean of the scores.
    """
    if doubt_of_deviation(mode) < SURE_DEVIATION:
        return None
    grid, found = _grid(mode), []
    for x in grid:
        mode = refined_mode(model, replace(mode, deviation=float(np.exp(x))))
        half_log_det = float(np.log(mode.precision.factor.diagonal()).sum())
        found.append(mode.posterior_value - half_log_det - len(mode.f) * x)
    return _representatives(grid, found, log(deviation))


def _grid(mode: Mode) -> FloatArray:
    """Return logarithms of deviations around that of a mode, the largest first."""
    down, up = np.clip(4.0 * doubt_of_deviation(mode), NEAR, REACH)
    return log(mode.deviation) + np.arange(up, -down - 0.5 * STEP, -STEP)


def _representatives(grid: FloatArray, found: list[float], peak: float | None = None) -> FloatArray:
    """Return the middles of equal shares of the posterior, or its mean if it is narrow."""
    # the posterior, with the prior of the logarithm, between the points of the grid
    spline = scipy.interpolate.CubicSpline(grid[::-1], found[::-1])
    fine = np.linspace(grid[-1], grid[0], N_FINE)
    log_p = spline(fine) + log_prior(fine)
    if peak is not None:
        fine = fine + peak - fine[log_p.argmax()]
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    middle = float(p @ fine)
    if np.sqrt(p @ (fine - middle) ** 2) < SURE_DEVIATION:
        return np.exp([middle])
    shares = (np.arange(N_DEVIATIONS) + 0.5) / N_DEVIATIONS
    return np.asarray(np.exp(np.interp(shares, np.cumsum(p), fine)))
