"""How a difference of scores becomes an answer: probit, with ties, logistic, flips, margins."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cache
from math import log, log1p, pi, sqrt
from typing import Annotated, Any, Self, TypeAlias, final

import numpy as np
import scipy
from scipy.special import erfcx, log_ndtr, logsumexp

from rankwise.comparisons.leaderboard import Link
from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.params import Above, Advice, Below, Positive, check_value, unchecked
from rankwise.core.storable import storable

SCORE_DEVIATION = 3.0
"""Typical standard deviation of scores, in units of the noise of an answer."""

SQRT_2_PI, SQRT_HALF = sqrt(2.0 / pi), 1.0 / sqrt(2.0)


@final
@dataclass(frozen=True, eq=False)
class Outcomes:
    """Hold what was recorded about each comparison besides its winner.

    Parameters
    ----------
    tied : (n_pairs,)
        Whether the answer was "no preference".
    margin : (n_pairs,)
        The recorded difference of scores; read by `GaussianMargin` only.
    extra_noise : (n_pairs,)
        Variance of the comparison that the prior's factor leaves out, added to the noise.
    judge : (n_pairs,)
        Who answered, counted from 1; 0 if unknown. Read by `ByJudge` only.
    width_factor : (n_pairs,)
        Factor of the tie width.
    """

    tied: BoolArray = field(default_factory=lambda: np.zeros(1, dtype=bool))
    margin: FloatArray = field(default_factory=lambda: np.zeros(1))
    extra_noise: FloatArray = field(default_factory=lambda: np.zeros(1))
    judge: IntArray = field(default_factory=lambda: np.zeros(1, dtype=np.intp))
    width_factor: FloatArray = field(default_factory=lambda: np.ones(1))

    def take(self, rows: IntArray) -> Self:
        """Keep the given comparisons; values that are the same for all stay one number."""
        names = ("tied", "margin", "extra_noise", "judge", "width_factor")
        values: list[Any] = [getattr(self, name) for name in names]
        return type(self)(*[v if len(v) == 1 else v[rows] for v in values])


WIN = Outcomes()
TIE = Outcomes(tied=np.ones(1, dtype=bool))


@final
@dataclass(frozen=True)
class FreeParameter:
    """Hold the bounds and the hyperprior of a parameter of a likelihood.

    Parameters
    ----------
    bounds : (low, high)
        The smallest and the largest value.
    usual : (median, deviation), optional
        The median of its hyperprior and the standard deviation of its logarithm; by default flat.
    """

    bounds: tuple[float, float]
    usual: tuple[float, float] | None = None


@final
@dataclass(frozen=True, eq=False)
class AverageLikelihood:
    """Hold log Z(m), the log of the mean likelihood under s ~ N(m, v), for every comparison.

    Parameters
    ----------
    log_z, slope, curvature : (n_pairs,)
        log Z, its derivative in m, and minus its second derivative.
    variance_ratio : (n_pairs,)
        ``1 - curvature * v``: the variance of s given the answer, over v.
    """

    log_z: FloatArray
    slope: FloatArray
    curvature: FloatArray
    variance_ratio: FloatArray

    @property
    def noise_gradient(self) -> FloatArray:
        """The derivative of log Z in the noise variance: Z solves the heat equation."""
        return 0.5 * (self.slope**2 - self.curvature)

    def sites(
        self, mean: FloatArray, variance: FloatArray, *, clip: bool = True
    ) -> tuple[FloatArray, FloatArray]:
        """Return (tau, nu) of the Gaussian site exp(nu s - tau s^2 / 2) with the same moments.

        A likelihood that is not log-concave can lead to a negative tau. With ``clip`` it is set
        to zero, and nu then still matches the mean.
        """
        tau = self.curvature / self.variance_ratio
        tau = np.maximum(tau, 0.0) if clip else tau
        return tau, self.slope * (1.0 + tau * variance) + tau * mean


class Likelihood(ABC):
    """Give the probability of an answer when the difference of scores is s."""

    @property
    def is_log_concave(self) -> bool:
        """Whether log-likelihoods are concave in s, so that sites never have negative tau."""
        return True

    @property
    def is_gaussian(self) -> bool:
        """Whether the posterior is Gaussian, so that nothing needs to be approximated."""
        return False

    @property
    def link(self) -> Link:
        """The curve that maps a difference to a probability."""
        return "probit"

    @property
    @abstractmethod
    def parameters(self) -> dict[str, float]:
        """The parameters by name."""

    @property
    def free_parameters(self) -> dict[str, FreeParameter]:
        """The parameters to learn.

        The noise of an answer is learned with margins only: without them only its ratio to the
        amplitude of the scores matters.
        """
        return {}

    def replace(self, **parameters: float) -> Self:
        """Return the same likelihood with other parameters."""
        return type(self)(**{**self.parameters, **parameters}) if parameters else self

    def without_flips(self) -> "Likelihood":
        """Return the likelihood of answers that are all recorded as they were given."""
        return self

    @abstractmethod
    def score_deviation(self, margin_scale: float) -> float:
        """Return the typical standard deviation of scores, given the size of the margins."""

    @abstractmethod
    def average(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> AverageLikelihood:
        """Average the likelihood over s ~ N(mean, variance)."""

    @abstractmethod
    def gradient(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> dict[str, FloatArray]:
        """Return the derivative of every log Z in every parameter."""

    def answer_probabilities(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> FloatArray:
        """Return P(first wins), or with ties (win, tie, loss) as columns, of recorded answers.

        ``outcomes`` is used only for who answers.
        """
        if "tie_width" not in self.parameters:
            return np.exp(self.average(mean, variance, outcomes).log_z)
        decided, undecided = (replace(outcomes, tied=np.array([tied])) for tied in (False, True))
        win, loss = (self.average(sign * mean, variance, decided).log_z for sign in (1.0, -1.0))
        tie = self.average(mean, variance, undecided).log_z
        return np.exp(np.stack([win, tie, loss], axis=1))

    @abstractmethod
    def step_reach(self, deviations: float, outcomes: Outcomes) -> FloatArray:
        """Return the s beyond which an answer is decided, up to some deviations of the noise."""

    @property
    def probit_noise(self) -> float:
        """The variance of Gaussian noise with which answers are about as informative."""
        return self.parameters["noise"] * (8.0 / pi if self.link == "logit" else 1.0)


class Around(Likelihood):
    """A likelihood around another one, whose parameters it has."""

    base: Likelihood

    @property
    def parameters(self) -> dict[str, float]:
        """Those of the base."""
        return self.base.parameters

    @property
    def free_parameters(self) -> dict[str, FreeParameter]:
        """Those of the base."""
        return self.base.free_parameters

    def score_deviation(self, margin_scale: float) -> float:
        """Return that of the base."""
        return self.base.score_deviation(margin_scale)

    def step_reach(self, deviations: float, outcomes: Outcomes) -> FloatArray:
        """Return that of the base."""
        return self.base.step_reach(deviations, outcomes)


def inverse_mills_ratio(z: FloatArray) -> FloatArray:
    """Return phi(z) / Phi(z), to full accuracy for every z."""
    return np.asarray(SQRT_2_PI / erfcx(-SQRT_HALF * z))


def truncated_variance(z: FloatArray, r: FloatArray) -> FloatArray:
    """Return 1 - r (z + r) for the inverse Mills ratio r: the variance of N(0, 1) above -z.

    Below -50 the difference cancels and its asymptotic series takes over (error under 1e-9).
    """
    x2 = 1.0 / np.square(np.minimum(z, -50.0))
    series = x2 * (1.0 - x2 * (6.0 - x2 * (50.0 - x2 * 518.0)))
    return np.where(z < -50.0, series, 1.0 - r * (z + r))


def average_tie(
    mean: FloatArray, noise: FloatArray, variance: FloatArray, width: FloatArray
) -> tuple[AverageLikelihood, FloatArray]:
    """Average P(|s + e| < width), e ~ N(0, noise); the second is d log Z / d width."""
    total = noise + variance
    scale = np.sqrt(total)
    sign = np.where(mean < 0.0, -1.0, 1.0)  # reflected to a positive mean: the far end is b
    a, b = (-width - sign * mean) / scale, (width - sign * mean) / scale
    log_b = log_ndtr(b)
    log_ratio = log_ndtr(a) - log_b  # of Phi(a) to Phi(b), below 0
    kept = -np.expm1(log_ratio)
    ra, rb = inverse_mills_ratio(a), inverse_mills_ratio(b)
    pa, pb = ra * np.exp(log_ratio) / kept, rb / kept
    direct = 1.0 - ((pa - pb) ** 2 + b * pb - a * pa)
    left = np.clip(np.where(log_ratio < -37.0, truncated_variance(b, rb), direct), 0.0, 1.0)
    average = AverageLikelihood(
        log_b + np.log(kept),
        sign * (pa - pb) / scale,
        (1.0 - left) / total,
        (noise + variance * left) / total,
    )
    return average, (pa + pb) / scale


Noise: TypeAlias = Annotated[float, Positive(), Advice("It is the variance of an answer.")]
FlipRate: TypeAlias = Annotated[
    float, Above(0), Below(0.5), Advice("Use the likelihood without flips for a rate of 0.")
]
TieWidth: TypeAlias = Annotated[float, Positive(), Advice("It is a difference of scores.")]


class OneNoise(Likelihood):
    """A likelihood without ties, whose parameter is the variance of Gaussian noise."""

    noise: float

    def __post_init__(self) -> None:
        check_value("noise", self.noise, Noise)

    @property
    def parameters(self) -> dict[str, float]:
        """The noise variance."""
        return {"noise": self.noise}

    def gradient(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> dict[str, FloatArray]:
        """Return the derivative in the noise."""
        return {"noise": self.average(mean, variance, outcomes).noise_gradient}

    def step_reach(self, deviations: float, outcomes: Outcomes) -> FloatArray:
        """Return a number of deviations of the noise."""
        return np.asarray(deviations * np.sqrt(self.noise + outcomes.extra_noise))


@storable
@final
@dataclass(frozen=True)
class Probit(OneNoise):
    """Let the first item win with probability Phi(s / sqrt(noise)).

    Notes
    -----
    [TH10] (10) has ``noise`` = 1. Only the ratio of amplitude to noise matters.
    """

    noise: float = 1.0

    def score_deviation(self, margin_scale: float) -> float:  # noqa: ARG002
        """Return a few times the noise."""
        return SCORE_DEVIATION * sqrt(self.noise)

    def average(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> AverageLikelihood:
        """Return log Phi(m / S) and its derivatives, S^2 = noise + v."""
        noise = self.noise + outcomes.extra_noise
        total = noise + variance
        scale = np.sqrt(total)
        z = mean / scale  # [TH10] eq. (10): a factor, averaged over s ~ N(mean, variance)
        r = SQRT_2_PI / erfcx(-SQRT_HALF * z)  # the inverse Mills ratio
        left = 1.0 - r * (z + r) if z.size and z.min() > -50.0 else truncated_variance(z, r)
        return AverageLikelihood(
            log_ndtr(z), r / scale, (1.0 - left) / total, (noise + variance * left) / total
        )


@storable
@final
@dataclass(frozen=True)
class ProbitWithTies(Likelihood):
    """Let the first item win if s + noise exceeds ``tie_width``, and tie if it stays within it."""

    tie_width: float = 0.5
    noise: float = 1.0

    def __post_init__(self) -> None:
        check_value("tie_width", self.tie_width, TieWidth)
        check_value("noise", self.noise, Noise)

    @property
    def parameters(self) -> dict[str, float]:
        """The largest difference that ties, and the noise variance."""
        return {"tie_width": self.tie_width, "noise": self.noise}

    @property
    def free_parameters(self) -> dict[str, FreeParameter]:
        """The width."""
        return {"tie_width": FreeParameter((1e-3, 1e2), usual=(0.5, 1.0))}

    def score_deviation(self, margin_scale: float) -> float:  # noqa: ARG002
        """Return a few times the noise."""
        return SCORE_DEVIATION * sqrt(self.noise)

    def average(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> AverageLikelihood:
        """Return log Phi((m - width) / S) for wins, log P(|m + S e| < width) for ties."""
        noise, width = self.noise + outcomes.extra_noise, self.tie_width * outcomes.width_factor
        win = Probit(self.noise).average(mean - width, variance, outcomes)
        tied = outcomes.tied
        if not tied.any():
            return win
        tie = average_tie(mean, noise, variance, width)[0]
        return AverageLikelihood(
            np.where(tied, tie.log_z, win.log_z),
            np.where(tied, tie.slope, win.slope),
            np.where(tied, tie.curvature, win.curvature),
            np.where(tied, tie.variance_ratio, win.variance_ratio),
        )

    def gradient(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> dict[str, FloatArray]:
        """Return the derivatives in the width and in the noise."""
        average = self.average(mean, variance, outcomes)
        noise, width = self.noise + outcomes.extra_noise, self.tie_width * outcomes.width_factor
        of_ties = average_tie(mean, noise, variance, width)[1]
        by_width = np.where(outcomes.tied, of_ties, -average.slope)
        return {
            "tie_width": outcomes.width_factor * by_width,
            "noise": average.noise_gradient,
        }

    def step_reach(self, deviations: float, outcomes: Outcomes) -> FloatArray:
        """Return the width plus a number of deviations of the noise."""
        noise = self.noise + outcomes.extra_noise
        return np.asarray(self.tie_width * outcomes.width_factor + deviations * np.sqrt(noise))


N_SCALES = 20
"""Normal distributions whose mixture stands for the logistic one."""


@cache
def logistic_scales() -> tuple[FloatArray, FloatArray]:
    """Return variances and weights of normal distributions that mix to the logistic one.

    A logistic variable is a normal one of random scale 2 K, K with Kolmogorov's distribution. The
    trapezoidal rule over log K is accurate to 1e-10, and in the logarithm to 1e-5 at odds of e^20.
    """
    scale = np.geomspace(0.25, 4.5, N_SCALES)
    weight = scipy.stats.kstwobign.pdf(scale) * scale
    return 4.0 * scale**2, weight / weight.sum()


@storable
@final
@dataclass(frozen=True)
class Logistic(Around):
    r"""Let the odds of a win be :math:`e^{s / \sqrt{\text{noise}}}`, as Bradley and Terry do.

    The noise of an answer is logistic instead of normal. The logistic distribution is a mixture of
    normal ones, so every average is that of the base with several noises, on the first axis.

    Notes
    -----
    [TH10] Sect. 5: "any sigmoid" can take the place of the normal distribution. With ties it is the
    model of Rao and Kupper.
    """

    base: Probit | ProbitWithTies = Probit()

    @property
    def link(self) -> Link:
        """The logistic distribution."""
        return "logit"

    def replace(self, **parameters: float) -> Self:
        """Return the same likelihood with another base."""
        return type(self)(self.base.replace(**parameters))

    def score_deviation(self, margin_scale: float) -> float:
        """Return a few times the noise, whose variance is pi^2 / 3."""
        return pi / sqrt(3.0) * self.base.score_deviation(margin_scale)

    def average(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> AverageLikelihood:
        """Mix Z of all scales; the shares of these weigh slopes and curvatures."""
        parts, log_z, share = self._mixed(mean, variance, outcomes)
        slope = (share * parts.slope).sum(axis=0)
        between = (share * (parts.slope - slope) ** 2).sum(axis=0)
        curvature = (share * parts.curvature).sum(axis=0) - between
        ratio = (share * parts.variance_ratio).sum(axis=0) + between * variance
        return AverageLikelihood(log_z, slope, curvature, ratio)

    def gradient(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> dict[str, FloatArray]:
        """Return the derivatives in the base's parameters."""
        _, _, share = self._mixed(mean, variance, outcomes)
        inner = self.base.gradient(mean, variance, self._scaled(outcomes))
        factors = {"noise": logistic_scales()[0][:, None]}
        return {
            name: (share * values * factors.get(name, 1.0)).sum(axis=0)
            for name, values in inner.items()
        }

    def _scaled(self, outcomes: Outcomes) -> Outcomes:
        """Return the outcomes with the noise of every scale, beyond that of the base."""
        more = self.base.noise * (logistic_scales()[0][:, None] - 1.0)
        return replace(outcomes, extra_noise=more + outcomes.extra_noise)

    def _mixed(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes
    ) -> tuple[AverageLikelihood, FloatArray, FloatArray]:
        """Return the averages of all scales, log Z, and the share of every scale in Z."""
        parts = self.base.average(mean, variance, self._scaled(outcomes))
        logs = parts.log_z + np.log(logistic_scales()[1])[:, None]
        log_z = logsumexp(logs, axis=0)
        return parts, log_z, np.exp(logs - log_z)


@storable
@final
@dataclass(frozen=True)
class WithFlips(Around):
    """Let a win of ``base`` be recorded as the other item's with probability ``flip_rate``.

    The likelihood of a recorded win is ``(1 - flip_rate) * win + flip_rate * loss``. However
    unexpected an answer is, it costs little more than ``log(flip_rate)``, so a few wrong records
    cannot flatten the scores. A flip exchanges win and loss; ties are never flipped. The likelihood
    is not log-concave.
    """

    base: Probit | ProbitWithTies = Probit()
    flip_rate: float = 0.02

    def __post_init__(self) -> None:
        check_value("flip_rate", self.flip_rate, FlipRate)

    @property
    def is_log_concave(self) -> bool:
        """No: the posterior can have several modes."""
        return False

    @property
    def parameters(self) -> dict[str, float]:
        """The rate, and the parameters of the base."""
        return {"flip_rate": self.flip_rate, **self.base.parameters}

    @property
    def free_parameters(self) -> dict[str, FreeParameter]:
        """The rate, and those of the base."""
        rate = FreeParameter((1e-4, 0.3), usual=(0.02, 1.0))
        return {"flip_rate": rate, **self.base.free_parameters}

    def replace(self, **parameters: float) -> Self:
        """Return the same likelihood with another rate or another base."""
        rate = parameters.pop("flip_rate", self.flip_rate)
        base = self.base.replace(**parameters)
        if not 0.0 < rate < 0.5:
            return type(self)(base, rate)  # which refuses it
        return unchecked(type(self), base=base, flip_rate=rate)

    def without_flips(self) -> Likelihood:
        """Return the base."""
        return self.base

    def average(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> AverageLikelihood:
        """Mix Z of a win with that of a loss; the shares of both weigh their slopes."""
        both = self.base.average(np.array([mean, -mean]), variance, outcomes)
        log_z, share, flipped = self._mixed(both.log_z, outcomes)
        between = share * flipped * (both.slope[0] + both.slope[1]) ** 2
        return AverageLikelihood(
            log_z,
            share * both.slope[0] - flipped * both.slope[1],
            share * both.curvature[0] + flipped * both.curvature[1] - between,
            share * both.variance_ratio[0] + flipped * both.variance_ratio[1] + between * variance,
        )

    def gradient(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> dict[str, FloatArray]:
        """Return the derivatives in the rate and in the base's parameters."""
        both = np.array([mean, -mean])
        logs = self.base.average(both, variance, outcomes).log_z
        log_z, share, flipped = self._mixed(logs, outcomes)
        by_rate = np.exp(logs[1] - log_z) - np.exp(logs[0] - log_z)
        inner = self.base.gradient(both, variance, outcomes)
        of_base = {name: share * one + flipped * other for name, (one, other) in inner.items()}
        return {"flip_rate": np.where(outcomes.tied, 0.0, by_rate)} | of_base

    def _mixed(
        self, logs: FloatArray, outcomes: Outcomes
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return log Z, and the shares of true and of flipped records in it; ties have no flips."""
        true, flipped = log1p(-self.flip_rate) + logs[0], log(self.flip_rate) + logs[1]
        log_z = np.where(outcomes.tied, logs[0], np.logaddexp(true, flipped))
        share = np.where(outcomes.tied, 1.0, np.exp(true - log_z))
        return log_z, share, np.where(outcomes.tied, 0.0, np.exp(flipped - log_z))


@storable
@final
@dataclass(frozen=True)
class GaussianMargin(OneNoise):
    """Let the recorded margin be s plus Gaussian noise: the probabilistic RankRLS, in closed form.

    Notes
    -----
    [TH10] Sect. 5, the equations after (11): N(w | s, 1 / v) with ``noise`` = 1 / v.
    """

    noise: float = 1.0

    @property
    def is_gaussian(self) -> bool:
        """Yes."""
        return True

    @property
    def free_parameters(self) -> dict[str, FreeParameter]:
        """The noise."""
        return {"noise": FreeParameter((1e-6 * self.noise, 1e2 * self.noise))}

    def score_deviation(self, margin_scale: float) -> float:
        """Return the size of the margins."""
        return margin_scale

    def average(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> AverageLikelihood:
        """Return log N(margin | m, noise + v) and its derivatives."""
        noise = self.noise + outcomes.extra_noise
        curvature = 1.0 / (noise + variance)
        slope = (outcomes.margin - mean) * curvature
        log_z = 0.5 * (np.log(curvature) - log(2.0 * pi) - slope * (outcomes.margin - mean))
        return AverageLikelihood(log_z, slope, curvature, noise * curvature)

    def answer_probabilities(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> FloatArray:
        """Return P(the margin is positive)."""
        return Probit(self.noise).answer_probabilities(mean, variance, outcomes)
