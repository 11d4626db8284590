"""The mean of a likelihood over a Gaussian, with its derivatives, safe far out in the tails."""

from dataclasses import dataclass, field
from math import pi, sqrt
from typing import Self, final

import numpy as np
from scipy.special import erfcx, log_ndtr

from rankwise.core.arrays import BoolArray, FloatArray, IntArray


@final
@dataclass(frozen=True, eq=False)
class Answers:
    """State what was recorded about each comparison, next to who won.

    Parameters
    ----------
    tied : (n_pairs,)
        Whether the answer was "no preference".
    margin : (n_pairs,)
        The recorded difference of scores; read by `GaussianMargin` only.
    excess : (n_pairs,)
        Variance of the comparison that the prior's factor leaves out; it counts as noise.
    """

    tied: BoolArray = field(default_factory=lambda: np.zeros(1, dtype=bool))
    margin: FloatArray = field(default_factory=lambda: np.zeros(1))
    excess: FloatArray = field(default_factory=lambda: np.zeros(1))

    def take(self, rows: IntArray) -> Self:
        """Keep the given comparisons."""
        return type(self)(self.tied[rows], self.margin[rows], self.excess[rows])


WIN = Answers()
TIE = Answers(tied=np.ones(1, dtype=bool))


@final
@dataclass(frozen=True, eq=False)
class Tilted:
    """Describe log Z(m) = log of the mean likelihood of s ~ N(m, v), for every comparison.

    Parameters
    ----------
    log_z, slope, curvature : (n_pairs,)
        log Z, its derivative in m, and minus its second derivative.
    shrink : (n_pairs,)
        ``1 - curvature * v``: the variance of the tilted distribution over v.
    """

    log_z: FloatArray
    slope: FloatArray
    curvature: FloatArray
    shrink: FloatArray

    @property
    def by_noise(self) -> FloatArray:
        """The derivative of log Z in the noise variance: Z solves the heat equation."""
        return 0.5 * (self.slope**2 - self.curvature)

    def sites(
        self, mean: FloatArray, variance: FloatArray, *, cut: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Return (tau, nu) of the Gaussian site exp(nu s - tau s^2 / 2) with the same moments.

        A likelihood that is not log-concave can ask for a negative tau. With ``cut`` it is set to
        zero, and nu then still matches the mean.
        """
        tau = self.curvature / self.shrink
        tau = np.maximum(tau, 0.0) if cut else tau
        return tau, self.slope * (1.0 + tau * variance) + tau * mean


def hazard(z: FloatArray) -> FloatArray:
    """Return phi(z) / Phi(z), to full accuracy for every z."""
    return np.asarray(sqrt(2.0 / pi) / erfcx(-z / sqrt(2.0)))


def hazard_gap(z: FloatArray, r: FloatArray) -> FloatArray:
    """Return 1 - r (z + r) for r = hazard(z): the variance of N(0, 1) cut off below -z.

    Below -50 the difference cancels and its asymptotic series takes over (error under 1e-9).
    """
    x2 = 1.0 / np.square(np.minimum(z, -50.0))
    series = x2 * (1.0 - x2 * (6.0 - x2 * (50.0 - x2 * 518.0)))
    return np.where(z < -50.0, series, 1.0 - r * (z + r))


def tilted_win(mean: FloatArray, noise: FloatArray, variance: FloatArray) -> Tilted:
    """Average Phi(s / sqrt(noise)) over s ~ N(mean, variance)."""
    total = noise + variance
    scale = np.sqrt(total)
    z = mean / scale
    r = hazard(z)
    gap = hazard_gap(z, r)
    return Tilted(log_ndtr(z), r / scale, (1.0 - gap) / total, (noise + variance * gap) / total)


def tilted_tie(
    mean: FloatArray, noise: FloatArray, variance: FloatArray, width: float
) -> tuple[Tilted, FloatArray]:
    """Average P(|s + e| < width), e ~ N(0, noise); the second is d log Z / d width."""
    total = noise + variance
    scale = np.sqrt(total)
    sign = np.where(mean < 0.0, -1.0, 1.0)  # reflected to a positive mean: the far end is b
    a, b = (-width - sign * mean) / scale, (width - sign * mean) / scale
    log_b = log_ndtr(b)
    log_ratio = log_ndtr(a) - log_b  # of Phi(a) to Phi(b), below 0
    kept = -np.expm1(log_ratio)
    ra, rb = hazard(a), hazard(b)
    pa, pb = ra * np.exp(log_ratio) / kept, rb / kept
    direct = 1.0 - ((pa - pb) ** 2 + b * pb - a * pa)
    gap = np.clip(np.where(log_ratio < -37.0, hazard_gap(b, rb), direct), 0.0, 1.0)
    tilted = Tilted(
        log_b + np.log(kept),
        sign * (pa - pb) / scale,
        (1.0 - gap) / total,
        (noise + variance * gap) / total,
    )
    return tilted, (pa + pb) / scale
