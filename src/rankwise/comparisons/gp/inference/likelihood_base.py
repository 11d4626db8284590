"""What a likelihood is: answers, its average over a score difference, and its powers."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from math import pi
from typing import Any, Self, final

import numpy as np

from rankwise.comparisons.leaderboard import Link
from rankwise.core.arrays import BoolArray, FloatArray, IntArray

REACH = 8.5
"""Standard deviations on either side that an average takes in."""

N_PIECES, N_NODES = 4, 14
"""Pieces of that range, besides the cuts around the step of the likelihood, and nodes of each."""

MAX_ENTRIES = 200_000
"""Nodes that exist at a time."""


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
        return type(self)(**{**self.parameters, **parameters})

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
    def check(self, outcomes: Outcomes) -> None:
        """Refuse outcomes to which this likelihood gives no probability."""

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

    def check(self, outcomes: Outcomes) -> None:
        """Accept what the base accepts."""
        self.base.check(outcomes)

    def step_reach(self, deviations: float, outcomes: Outcomes) -> FloatArray:
        """Return that of the base."""
        return self.base.step_reach(deviations, outcomes)


@final
class PoweredLikelihood:
    """Average likelihood**power over s ~ N(mean, variance), comparison by comparison.

    An answer of weight below 1 counts as its likelihood to that power. There is no known closed
    form, so Gauss-Legendre quadrature is used on pieces that follow the step of the likelihood;
    moments are accurate to about seven digits.

    Parameters
    ----------
    likelihood : Likelihood
    power : (n_pairs,)
        Weights, above 0 and at most 1.
    outcomes : Outcomes
        Of the same comparisons.
    """

    def __init__(self, likelihood: Likelihood, power: FloatArray, outcomes: Outcomes) -> None:
        self.likelihood = likelihood
        self.power = power
        self.outcomes = outcomes

    def average(self, mean: FloatArray, variance: FloatArray) -> AverageLikelihood:
        """Return log Z and its derivatives."""
        parts = [self._moments(rows, mean, variance) for rows in self._chunks()]
        log_z, first, second = (np.concatenate(values) for values in zip(*parts, strict=True))
        spread = second - first**2
        return AverageLikelihood(
            log_z, first / np.sqrt(variance), (1.0 - spread) / variance, np.maximum(spread, 1e-300)
        )

    def gradient(self, mean: FloatArray, variance: FloatArray) -> dict[str, FloatArray]:
        """Return the derivative of every log Z in every parameter."""
        parts = [self._gradient(rows, mean, variance) for rows in self._chunks()]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def extra_noise_gradient(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        """Return the derivative of every log Z in the extra noise of its comparison."""
        parts = []
        for rows in self._chunks():
            t, weight, _, outcomes = self._tilted(rows, mean, variance)
            s = (mean[rows, None] + np.sqrt(variance[rows, None]) * t).ravel()
            explicit = self.likelihood.average(s, np.zeros_like(s), outcomes).noise_gradient
            parts.append(self.power[rows] * (weight * explicit.reshape(t.shape)).sum(axis=1))
        return np.concatenate(parts)

    def _chunks(self) -> list[slice]:
        n_pairs = len(self.power)
        size = max(1, MAX_ENTRIES // ((N_PIECES + 3) * N_NODES))
        return [slice(start, start + size) for start in range(0, n_pairs, size)]

    def _moments(
        self, rows: slice, mean: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return log Z, and the first two moments of (s - mean) / std given the answer."""
        t, weight, log_z, _ = self._tilted(rows, mean, variance)
        return log_z, (weight * t).sum(axis=1), (weight * t**2).sum(axis=1)

    def _gradient(
        self, rows: slice, mean: FloatArray, variance: FloatArray
    ) -> dict[str, FloatArray]:
        t, weight, _, outcomes = self._tilted(rows, mean, variance)
        s = (mean[rows, None] + np.sqrt(variance[rows, None]) * t).ravel()
        explicit = self.likelihood.gradient(s, np.zeros_like(s), outcomes)
        return {
            name: self.power[rows] * (weight * values.reshape(t.shape)).sum(axis=1)
            for name, values in explicit.items()
        }

    def _tilted(
        self, rows: slice, mean: FloatArray, variance: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray, Outcomes]:
        """Return nodes in units of the deviation, their probabilities, log Z, and the outcomes."""
        m, std = mean[rows, None], np.sqrt(variance[rows, None])
        reach = self.likelihood.step_reach(REACH, self.outcomes)
        zone = np.broadcast_to(reach, mean.shape)[rows, None]
        t, width = _nodes(np.concatenate([-zone, 0.0 * zone, zone], 1), m, std)
        places = np.repeat(np.arange(len(self.power))[rows], t.shape[1])
        outcomes = self.outcomes.take(places)
        s = (m + std * t).ravel()
        log_p = self.likelihood.average(s, np.zeros_like(s), outcomes).log_z.reshape(t.shape)
        log_p = self.power[rows, None] * log_p - 0.5 * t**2
        top = log_p.max(axis=1, keepdims=True)
        weight = width * np.exp(log_p - top)
        total = weight.sum(axis=1, keepdims=True)
        log_z = (top + np.log(total))[:, 0] - 0.5 * np.log(2.0 * np.pi)
        return t, weight / total, log_z, outcomes


def _nodes(cuts: FloatArray, mean: FloatArray, std: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return nodes and widths on [-REACH, REACH], in pieces that end at the cuts as well."""
    even = np.broadcast_to(np.linspace(-REACH, REACH, N_PIECES + 1), (len(mean), N_PIECES + 1))
    ends = np.sort(np.concatenate([even, np.clip((cuts - mean) / std, -REACH, REACH)], 1), axis=1)
    x, w = np.polynomial.legendre.leggauss(N_NODES)
    centre, half = 0.5 * (ends[:, 1:] + ends[:, :-1]), 0.5 * np.diff(ends, axis=1)
    t = centre[:, :, None] + half[:, :, None] * x
    width = half[:, :, None] * w
    return t.reshape(len(mean), -1), width.reshape(len(mean), -1)
