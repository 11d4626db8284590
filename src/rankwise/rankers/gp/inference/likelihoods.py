"""How a difference of scores becomes an answer: probit, ties, wrong records, Gaussian margins."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from math import log, log1p, pi, sqrt
from typing import Self, final

import numpy as np
from scipy.special import erfcx, log_ndtr

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.errors import InvalidInputError


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


def _check_positive(name: str, value: float) -> None:
    if not (value > 0.0 and np.isfinite(value)):
        raise InvalidInputError(f"`{name}` must be a finite number above 0: got {value}.")


def _refuse_ties(answers: Answers) -> None:
    if answers.tied.any():
        raise InvalidInputError(
            f"This likelihood knows wins only: got {int(answers.tied.sum())} tied comparisons. "
            "Use `Ties`, or leave the ties out."
        )


class Likelihood(ABC):
    """Give the probability of an answer when the difference of scores is s."""

    @property
    @abstractmethod
    def log_concave(self) -> bool:
        """Whether log-likelihoods are concave in s, so that sites never have negative tau."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, float]:
        """The parameters by name."""

    @abstractmethod
    def replace(self, **parameters: float) -> Self:
        """Return the same likelihood with other parameters."""

    @abstractmethod
    def tilted(self, mean: FloatArray, variance: FloatArray, answers: Answers = WIN) -> Tilted:
        """Average the likelihood over s ~ N(mean, variance)."""

    @abstractmethod
    def gradient(
        self, mean: FloatArray, variance: FloatArray, answers: Answers = WIN
    ) -> dict[str, FloatArray]:
        """Return the derivative of every log Z in every parameter."""

    @abstractmethod
    def check(self, answers: Answers) -> None:
        """Refuse answers that this likelihood does not know."""


class SmoothLikelihood(Likelihood):
    """A log-concave likelihood of s / sqrt(noise) or a Gaussian: what Laplace's method needs."""

    noise: float

    @abstractmethod
    def curvature_slope(self, s: FloatArray, answers: Answers) -> FloatArray:
        """Return minus the third derivative of the log-likelihood in s."""


@final
@dataclass(frozen=True)
class Probit(SmoothLikelihood):
    """Let the first item win with probability Phi(s / sqrt(noise)).

    Notes
    -----
    [TH10] (10) has ``noise`` = 1. The scale of the scores takes the noise up: amplitude and noise
    matter through their ratio only.
    """

    noise: float = 1.0

    def __post_init__(self) -> None:
        _check_positive("noise", self.noise)

    @property
    def n_outcomes(self) -> int:
        """Two: the one or the other wins."""
        return 2

    @property
    def log_concave(self) -> bool:
        """Yes: the posterior has one mode."""
        return True

    @property
    def parameters(self) -> dict[str, float]:
        """The noise variance."""
        return {"noise": self.noise}

    def replace(self, **parameters: float) -> Self:
        """Return the same likelihood with another noise."""
        return type(self)(**{**self.parameters, **parameters})

    def tilted(self, mean: FloatArray, variance: FloatArray, answers: Answers = WIN) -> Tilted:
        """Return log Phi(m / S) and its derivatives, S^2 = noise + v."""
        return tilted_win(mean, self.noise + answers.excess, variance)

    def gradient(
        self, mean: FloatArray, variance: FloatArray, answers: Answers = WIN
    ) -> dict[str, FloatArray]:
        """Return the derivative in the noise."""
        return {"noise": self.tilted(mean, variance, answers).by_noise}

    def check(self, answers: Answers) -> None:
        """Refuse ties."""
        _refuse_ties(answers)

    def curvature_slope(self, s: FloatArray, answers: Answers) -> FloatArray:
        """Return q'(z) / noise^(3/2) with z = s / sqrt(noise)."""
        scale = np.sqrt(self.noise + answers.excess)
        z = s / scale
        r = hazard(z)
        return (r - r * (z + r) * (z + 2.0 * r)) / scale**3


@final
@dataclass(frozen=True)
class Ties(Likelihood):
    """Let the first item win if s + noise exceeds ``tie_width``, and tie if it stays within it."""

    tie_width: float = 0.5
    noise: float = 1.0

    def __post_init__(self) -> None:
        _check_positive("tie_width", self.tie_width)
        _check_positive("noise", self.noise)

    @property
    def n_outcomes(self) -> int:
        """Three: the one or the other wins, or neither."""
        return 3

    @property
    def log_concave(self) -> bool:
        """Yes: the posterior has one mode."""
        return True

    @property
    def parameters(self) -> dict[str, float]:
        """The half-width of the zone of indifference, and the noise variance."""
        return {"tie_width": self.tie_width, "noise": self.noise}

    def replace(self, **parameters: float) -> Self:
        """Return the same likelihood with another width or noise."""
        return type(self)(**{**self.parameters, **parameters})

    def tilted(self, mean: FloatArray, variance: FloatArray, answers: Answers = WIN) -> Tilted:
        """Return log Phi((m - width) / S) for wins, log P(|m + S e| < width) for ties."""
        noise = self.noise + answers.excess
        win = tilted_win(mean - self.tie_width, noise, variance)
        if not answers.tied.any():
            return win
        tie = tilted_tie(mean, noise, variance, self.tie_width)[0]
        choose = answers.tied
        return Tilted(
            np.where(choose, tie.log_z, win.log_z),
            np.where(choose, tie.slope, win.slope),
            np.where(choose, tie.curvature, win.curvature),
            np.where(choose, tie.shrink, win.shrink),
        )

    def gradient(
        self, mean: FloatArray, variance: FloatArray, answers: Answers = WIN
    ) -> dict[str, FloatArray]:
        """Return the derivatives in the width and in the noise."""
        tilted = self.tilted(mean, variance, answers)
        by_width = tilted_tie(mean, self.noise + answers.excess, variance, self.tie_width)[1]
        return {
            "tie_width": np.where(answers.tied, by_width, -tilted.slope),
            "noise": tilted.by_noise,
        }

    def check(self, answers: Answers) -> None:
        """Accept wins and ties."""


@final
@dataclass(frozen=True)
class Flip(Likelihood):
    """Let an answer of ``base`` be recorded as each of the others with probability ``flip_rate``.

    The likelihood is ``flip_rate + (1 - n_outcomes * flip_rate) * base``: however far an answer is
    from what is expected, it costs at most ``log(flip_rate)``, so a few wrong records cannot
    flatten the scores. It is not log-concave.
    """

    base: Probit | Ties = Probit()
    flip_rate: float = 0.02

    def __post_init__(self) -> None:
        if not 0.0 < self.flip_rate < 1.0 / self.n_outcomes:
            raise InvalidInputError(
                f"`flip_rate` must lie between 0 and 1 / {self.n_outcomes} (excluded): got "
                f"{self.flip_rate}. Use the likelihood without flips for a rate of 0."
            )

    @property
    def n_outcomes(self) -> int:
        """As many as the base has."""
        return self.base.n_outcomes

    @property
    def log_concave(self) -> bool:
        """No: the posterior can have several modes."""
        return False

    @property
    def parameters(self) -> dict[str, float]:
        """The rate, and the parameters of the base."""
        return {"flip_rate": self.flip_rate, **self.base.parameters}

    def replace(self, **parameters: float) -> Self:
        """Return the same likelihood with another rate or another base."""
        rate = parameters.pop("flip_rate", self.flip_rate)
        return type(self)(self.base.replace(**parameters), rate)

    def tilted(self, mean: FloatArray, variance: FloatArray, answers: Answers = WIN) -> Tilted:
        """Mix the base's Z with the flip rate; the share of the base scales its slope."""
        base = self.base.tilted(mean, variance, answers)
        log_z, share, rest = self._mix(base.log_z)
        spread = share * rest * base.slope**2
        return Tilted(
            log_z,
            share * base.slope,
            share * base.curvature - spread,
            rest + share * base.shrink + spread * variance,
        )

    def gradient(
        self, mean: FloatArray, variance: FloatArray, answers: Answers = WIN
    ) -> dict[str, FloatArray]:
        """Return the derivatives in the rate and in the base's parameters."""
        base = self.base.tilted(mean, variance, answers)
        log_z, share, _ = self._mix(base.log_z)
        by_rate = np.exp(-log_z) - self.n_outcomes * np.exp(base.log_z - log_z)
        inner = self.base.gradient(mean, variance, answers)
        return {"flip_rate": by_rate} | {name: share * value for name, value in inner.items()}

    def check(self, answers: Answers) -> None:
        """Accept what the base accepts."""
        self.base.check(answers)

    def _mix(self, base_log_z: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return log Z, and the shares of the base and of the flips in it."""
        kept = log1p(-self.n_outcomes * self.flip_rate) + base_log_z
        log_z = np.logaddexp(log(self.flip_rate), kept)
        return log_z, np.exp(kept - log_z), self.flip_rate * np.exp(-log_z)


@final
@dataclass(frozen=True)
class GaussianMargin(SmoothLikelihood):
    """Let the recorded margin be s plus Gaussian noise: the probabilistic RankRLS, in closed form.

    Notes
    -----
    [TH10] Sect. 5: N(w | s, 1 / v) with ``noise`` = 1 / v.
    """

    noise: float = 1.0

    def __post_init__(self) -> None:
        _check_positive("noise", self.noise)

    @property
    def log_concave(self) -> bool:
        """Yes: the posterior has one mode."""
        return True

    @property
    def parameters(self) -> dict[str, float]:
        """The noise variance."""
        return {"noise": self.noise}

    def replace(self, **parameters: float) -> Self:
        """Return the same likelihood with another noise."""
        return type(self)(**{**self.parameters, **parameters})

    def tilted(self, mean: FloatArray, variance: FloatArray, answers: Answers = WIN) -> Tilted:
        """Return log N(margin | m, noise + v) and its derivatives."""
        noise = self.noise + answers.excess
        curvature = 1.0 / (noise + variance)
        slope = (answers.margin - mean) * curvature
        log_z = 0.5 * (np.log(curvature) - log(2.0 * pi) - slope * (answers.margin - mean))
        return Tilted(log_z, slope, curvature, noise * curvature)

    def gradient(
        self, mean: FloatArray, variance: FloatArray, answers: Answers = WIN
    ) -> dict[str, FloatArray]:
        """Return the derivative in the noise."""
        return {"noise": self.tilted(mean, variance, answers).by_noise}

    def check(self, answers: Answers) -> None:
        """Refuse ties: a tie is a margin of 0 here."""
        _refuse_ties(answers)

    def curvature_slope(self, s: FloatArray, answers: Answers) -> FloatArray:  # noqa: ARG002
        """Return zero: the log-likelihood is a parabola."""
        return np.zeros_like(s)
