"""What a likelihood of answers is: outcomes, averages over differences, free parameters."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from math import pi
from typing import Literal, Self, TypeAlias, final

import numpy as np

from rankwise.core.arrays import BoolArray, FloatArray, IntArray


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
        Who answered, counted from 1; 0 where it is not known. Read by `ByJudge` only.
    width_factor : (n_pairs,)
        What the width of ties is multiplied with.
    """

    tied: BoolArray = field(default_factory=lambda: np.zeros(1, dtype=bool))
    margin: FloatArray = field(default_factory=lambda: np.zeros(1))
    extra_noise: FloatArray = field(default_factory=lambda: np.zeros(1))
    judge: IntArray = field(default_factory=lambda: np.zeros(1, dtype=np.intp))
    width_factor: FloatArray = field(default_factory=lambda: np.ones(1))

    def take(self, rows: IntArray) -> Self:
        """Keep the given comparisons; what is the same for all of them stays one number."""
        names = ("tied", "margin", "extra_noise", "judge", "width_factor")
        values = {name: getattr(self, name) for name in names}
        return type(self)(**{k: v if len(v) == 1 else v[rows] for k, v in values.items()})


Link: TypeAlias = Literal["probit", "logit"]

WIN = Outcomes()
TIE = Outcomes(tied=np.ones(1, dtype=bool))


@final
@dataclass(frozen=True)
class FreeParameter:
    """Say where a parameter of a likelihood is searched for, and what is usual for it.

    Parameters
    ----------
    bounds : (low, high)
        The smallest and the largest value.
    usual : (median, deviation), optional
        The median of its hyperprior and the standard deviation of its logarithm; flat when left
        out.
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

        A likelihood that is not log-concave can ask for a negative tau. With ``clip`` it is set
        to zero, and nu then still matches the mean.
        """
        tau = self.curvature / self.variance_ratio
        tau = np.maximum(tau, 0.0) if clip else tau
        return tau, self.slope * (1.0 + tau * variance) + tau * mean


class Likelihood(ABC):
    """Give the probability of an answer when the difference of scores is s."""

    @property
    @abstractmethod
    def is_log_concave(self) -> bool:
        """Whether log-likelihoods are concave in s, so that sites never have negative tau."""

    @property
    @abstractmethod
    def is_gaussian(self) -> bool:
        """Whether the posterior is Gaussian, so that nothing needs to be approximated."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, float]:
        """The parameters by name."""

    @property
    @abstractmethod
    def free_parameters(self) -> dict[str, FreeParameter]:
        """The parameters to learn.

        The noise of an answer is learnt with margins only: without them only its ratio to the
        amplitude of the scores matters.
        """

    @abstractmethod
    def replace(self, **parameters: float) -> Self:
        """Return the same likelihood with other parameters."""

    @abstractmethod
    def without_flips(self) -> "Likelihood":
        """Return the likelihood of answers that are all recorded as they were given."""

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

    @abstractmethod
    def answer_probabilities(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> FloatArray:
        """Return P(first wins), or with ties (win, tie, loss) as columns, of recorded answers.

        Of ``outcomes`` only who answers is read.
        """

    @abstractmethod
    def check(self, outcomes: Outcomes) -> None:
        """Refuse outcomes to which this likelihood gives no probability."""

    @abstractmethod
    def step_reach(self, deviations: float, outcomes: Outcomes) -> FloatArray:
        """Return from where on s decides an answer, so many deviations of the noise away."""

    @property
    @abstractmethod
    def link(self) -> Link:
        """Which curve leads from a difference to a probability."""

    def extra_noise_gradient(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> FloatArray:
        """Return the derivative of every log Z in ``outcomes.extra_noise``."""
        return self.average(mean, variance, outcomes).noise_gradient

    @property
    def probit_noise(self) -> float:
        """The variance of Gaussian noise with which answers are about as telling."""
        return self.parameters["noise"] * (8.0 / pi if self.link == "logit" else 1.0)


class OrdinalLikelihood(Likelihood):
    """A likelihood of wins and losses, with or without ties: what flips can be added to."""

    @property
    @abstractmethod
    def n_outcomes(self) -> int:
        """Number of answers that a comparison can have."""


def win_tie_loss(
    likelihood: Likelihood, mean: FloatArray, variance: FloatArray, outcomes: Outcomes
) -> FloatArray:
    """Return the probabilities of the three outcomes as columns."""
    decided, undecided = (replace(outcomes, tied=np.array([tied])) for tied in (False, True))
    win, loss = (likelihood.average(sign * mean, variance, decided).log_z for sign in (1.0, -1.0))
    tie = likelihood.average(mean, variance, undecided).log_z
    return np.exp(np.stack([win, tie, loss], axis=1))
