"""One parallel sweep of expectation propagation."""

from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.inference._ep_repeats import agreeing_sites
from rankwise.inference._ep_solve import (
    Solved,
    difference_means,
    difference_variances,
    solve_sites,
)
from rankwise.inference.likelihoods import Likelihood
from rankwise.inference.prior import Prior
from rankwise.inference.tilted import Tilted


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
