"""Judges of a preference process: how reliable each is and how often each ties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.comparisons.gp.evidence import (
    SEARCH_RANK_TOL,
    SEARCH_RULE,
    Inference,
    SiteParameters,
)
from rankwise.comparisons.gp.inference.ep import without_site
from rankwise.comparisons.gp.inference.likelihood import (
    WIN,
    Around,
    AverageLikelihood,
    Likelihood,
    Outcomes,
)
from rankwise.comparisons.gp.inference.posterior import Posterior
from rankwise.comparisons.gp.inference.prior import difference_means, difference_variances
from rankwise.comparisons.judges import (
    USUAL_SPREAD,
    JudgeReport,
    careless_probability,
    improved_habits,
    spread_between,
)
from rankwise.comparisons.leaderboard import Link
from rankwise.core.arrays import FloatArray, IntArray, sum_by
from rankwise.core.storable import storable
from rankwise.core.threads import few_threads
from rankwise.features.covariances import ParametricKernel
from rankwise.solve.iteration import StoppingRule

JUDGE_RULE = StoppingRule(tol=5e-3, max_iter=30)
"""The tolerance is a bound on the change of the logarithms of reliability and width."""

STEP = 1e-3
"""Step of the differences from which curvatures are computed."""

FLIP_RATE = 0.02
"""How often win and loss are exchanged, where the likelihood does not say."""


@storable
@final
@dataclass(frozen=True, eq=False)
class ByJudge(Around):
    r"""Let judge j answer as ``base`` does about :math:`r_j s`, with ties of width :math:`w_j`.

    A careless judge has a small r: answers do not depend on the scores. The logarithms of r and of
    w, relative to that of ``base``, are Gaussian between judges.

    Parameters
    ----------
    base : Likelihood
        The likelihood of an average judge.
    log_reliability, log_width : (n_judges,)
    reliability_std : (n_judges,)
        Posterior standard deviation of ``log_reliability``.
    reliability_spread, width_spread : float
        Standard deviations between judges.
    """

    base: Likelihood
    log_reliability: FloatArray
    log_width: FloatArray
    reliability_std: FloatArray
    reliability_spread: float = USUAL_SPREAD
    width_spread: float = USUAL_SPREAD

    @classmethod
    def alike(cls, base: Likelihood, n_judges: int) -> Self:
        """Return judges who are all average."""
        return cls(base, np.zeros(n_judges), np.zeros(n_judges), np.full(n_judges, USUAL_SPREAD))

    @property
    def n_judges(self) -> int:
        """Number of judges."""
        return len(self.log_reliability)

    @property
    def has_ties(self) -> bool:
        """Whether answers can be ties."""
        return "tie_width" in self.base.parameters

    @property
    def is_log_concave(self) -> bool:
        """As the base is."""
        return self.base.is_log_concave

    @property
    def is_gaussian(self) -> bool:
        """As the base is."""
        return self.base.is_gaussian

    @property
    def link(self) -> Link:
        """That of the base."""
        return self.base.link

    def replace(self, **parameters: float) -> Self:
        """Return the same judges with another base."""
        return replace(self, base=self.base.replace(**parameters))

    def without_flips(self) -> Likelihood:
        """Return the same judges with a base without flips."""
        base = self.base.without_flips()
        return self if base is self.base else replace(self, base=base)

    def average(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> AverageLikelihood:
        """Average that of the base over r s; a density of margins has a factor r."""
        return self._averaged(self._reliability(outcomes.judge), mean, variance, outcomes)

    def gradient(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> dict[str, FloatArray]:
        """Return the derivatives in the base's parameters."""
        r = self._reliability(outcomes.judge)
        return self.base.gradient(r * mean, r**2 * variance, self._seen(r, outcomes))

    def answer_probabilities(
        self, mean: FloatArray, variance: FloatArray, outcomes: Outcomes = WIN
    ) -> FloatArray:
        """Return the probabilities of each judge's answers; 0 stands for an average judge."""
        r = self._reliability(outcomes.judge)
        return self.base.answer_probabilities(r * mean, r**2 * variance, self._seen(r, outcomes))

    def step_reach(self, deviations: float, outcomes: Outcomes) -> FloatArray:
        """Return that of the base in units of s."""
        r = self._reliability(outcomes.judge)
        return self.base.step_reach(deviations, self._seen(r, outcomes)) / r

    def _reliability(self, judge: IntArray) -> FloatArray:
        return np.asarray(np.exp(np.append(0.0, self.log_reliability))[judge])

    def _seen(self, r: FloatArray, outcomes: Outcomes) -> Outcomes:
        """Return the outcomes in units of r s."""
        return replace(
            outcomes,
            margin=r * outcomes.margin,
            extra_noise=r**2 * outcomes.extra_noise,
            width_factor=np.exp(np.append(0.0, self.log_width))[outcomes.judge],
        )

    def _averaged(
        self, r: FloatArray, mean: FloatArray, variance: FloatArray, outcomes: Outcomes
    ) -> AverageLikelihood:
        """Average with the reliabilities r of all answers, which may be 0 or negative."""
        inner = self.base.average(r * mean, r**2 * variance, self._seen(r, outcomes))
        log_z = inner.log_z + np.log(r) if self.is_gaussian else inner.log_z
        ratio = inner.variance_ratio
        return AverageLikelihood(log_z, r * inner.slope, r**2 * inner.curvature, ratio)

    def distance(self, other: Self) -> float:
        """Return the largest change of a logarithm."""
        by_width = np.abs(self.log_width - other.log_width).max()
        return float(max(np.abs(self.log_reliability - other.log_reliability).max(), by_width))

    def improved(self, cavities: Cavities) -> Self:
        """Take a Newton step for every judge, and update the spreads between judges.

        At a fixed point the evidence times the density of the logarithms is stationary.
        """
        (log_reliability, log_width), variance = improved_habits(
            np.stack([self.log_reliability, self.log_width]),
            self._slopes(cavities),
            self._curvatures(cavities),
            lambda habits: self._with(habits)._value(cavities),
        )
        return replace(
            self._with((log_reliability, log_width)),
            reliability_std=np.sqrt(variance[0]),
            reliability_spread=spread_between(log_reliability, variance[0]),
            width_spread=spread_between(log_width, variance[1]),
        )

    def _with(self, habits: Sequence[FloatArray] | FloatArray) -> Self:
        return replace(self, log_reliability=habits[0], log_width=habits[1])

    def _shifted(self, by: tuple[float, float]) -> Self:
        log_width = self.log_width + by[1] if self.has_ties else self.log_width
        return replace(self, log_reliability=self.log_reliability + by[0], log_width=log_width)

    def _slopes(self, cavities: Cavities) -> FloatArray:
        """Return the derivatives of every judge's log density in both logarithms, (2, n_judges)."""
        mean, variance, outcomes = cavities.mean, cavities.variance, cavities.outcomes
        average = self.average(mean, variance, outcomes)
        total = variance + outcomes.extra_noise  # the scale of s enters through both
        lead = mean - outcomes.margin if self.is_gaussian else mean
        by_reliability = lead * average.slope + 2.0 * total * average.noise_gradient
        by_reliability += float(self.is_gaussian)
        by_width = np.zeros_like(mean)
        if self.has_ties:
            by_width = self.gradient(mean, variance, outcomes)["tie_width"]
            by_width = self.parameters["tie_width"] * by_width
        prior = np.stack(
            [
                self.log_reliability / self.reliability_spread**2,
                self.log_width / self.width_spread**2,
            ]
        )
        return cavities.by_judge(np.stack([by_reliability, by_width]), self.n_judges) - prior

    def _curvatures(self, cavities: Cavities) -> FloatArray:
        """Return minus the second derivatives (rr, rw, ww) of every judge, made positive."""
        columns = []
        for by in ((STEP, 0.0), (0.0, STEP)):
            ahead, behind = self._shifted(by), self._shifted((-by[0], -by[1]))
            columns.append((behind._slopes(cavities) - ahead._slopes(cavities)) / (2.0 * STEP))
        (rr, rw), (_, ww) = columns
        rr = np.maximum(rr, self.reliability_spread**-2)
        ww = np.maximum(ww, self.width_spread**-2)
        return np.stack([rr, np.where(rw**2 < 0.8 * rr * ww, rw, 0.0), ww])

    def _value(self, cavities: Cavities) -> FloatArray:
        """Return the log density of every judge."""
        found = self.average(cavities.mean, cavities.variance, cavities.outcomes).log_z
        prior = (self.log_reliability / self.reliability_spread) ** 2
        prior = prior + (self.log_width / self.width_spread) ** 2
        return cavities.by_judge(found, self.n_judges) - 0.5 * prior

    def careless(self, cavities: Cavities) -> FloatArray:
        """Return the probability that each judge answers at random or the wrong way round."""

        def log_likelihood(reliability: FloatArray) -> FloatArray:
            r = np.append(1.0, reliability)[cavities.outcomes.judge]
            found = self._averaged(r, cavities.mean, cavities.variance, cavities.outcomes)
            return cavities.by_judge(found.log_z, self.n_judges)

        if self.is_gaussian:  # margins have no answer at random: only their noise is larger
            return np.zeros(self.n_judges)
        return careless_probability(log_likelihood, self.n_judges)

    def report(self, names: NDArray[Any], cavities: Cavities) -> JudgeReport:
        """Return what was learned about the judges."""
        tied = cavities.outcomes.tied
        right = np.where(cavities.mean == 0.0, 0.5, cavities.mean > 0.0)
        columns = np.stack([tied, ~tied, ~tied * right])
        n_tied, n_decided, n_right = cavities.by_judge(columns, self.n_judges)
        return JudgeReport.of(
            names,
            n_tied,
            n_decided,
            n_right,
            self.log_reliability,
            self.reliability_std,
            self.parameters.get("tie_width", 0.0) * np.exp(self.log_width),
            self.careless(cavities),
        )


@final
@dataclass(frozen=True, eq=False)
class Cavities:
    """Hold the distribution of every comparison without one of its answers.

    Parameters
    ----------
    mean, variance : (n_pairs,)
        Moments of the difference of scores, winner first.
    outcomes : Outcomes
    count : (n_pairs,)
        How often each answer was recorded.
    """

    mean: FloatArray
    variance: FloatArray
    outcomes: Outcomes
    count: FloatArray

    @classmethod
    def of(cls, posterior: Posterior) -> Self:
        """Remove one answer from the posterior, for each comparison separately."""
        prior = posterior.prior
        mean, variance = (
            difference_means(prior, posterior.w),
            difference_variances(prior, posterior.C),
        )
        return cls.under(posterior, mean, variance)

    @classmethod
    def under(cls, posterior: Posterior, mean: FloatArray, variance: FloatArray) -> Self:
        """Do the same with given means and variances."""
        count = posterior.prior.comparisons.count
        removed = np.minimum(count, 1.0)
        cavity = without_site(mean, variance, removed * posterior.tau, removed * posterior.nu)
        return cls(*cavity, posterior.prior.outcomes, count)

    def by_judge(self, values: FloatArray, n_judges: int) -> FloatArray:
        """Add up values of all answers by judge, along the last axis."""
        judge = self.outcomes.judge
        rows = np.reshape(self.count * values, (-1, len(judge)))
        sums = np.stack([sum_by(judge, row, n_judges + 1)[1:] for row in rows])
        return sums.reshape(*values.shape[:-1], n_judges)

    def flipped(self, likelihood: Likelihood, careless: FloatArray | None) -> FloatArray:
        """Return the probability that each answer was random or recorded the wrong way round.

        Parameters
        ----------
        likelihood : Likelihood
        careless : (n_judges,), optional
            Probability that a judge is careless.
        """
        rate = likelihood.parameters.get("flip_rate", FLIP_RATE)
        honest = likelihood.without_flips()
        kept, lost = (
            honest.average(sign * self.mean, self.variance, self.outcomes).log_z
            for sign in (1.0, -1.0)
        )
        flipped = 1.0 / (1.0 + np.exp(kept - lost) * (1.0 - rate) / rate)
        if careless is None:
            return flipped
        random = np.append(0.0, careless)[self.outcomes.judge]
        return random + (1.0 - random) * flipped


def learnt_judges(
    inference: Inference,
    kernel: ParametricKernel,
    likelihood: ByJudge,
    sites: SiteParameters | None,
) -> tuple[ByJudge, SiteParameters | None]:
    """Improve judges and posterior in turn, until the judges converge.

    Parameters
    ----------
    inference : Inference
    kernel : ParametricKernel
    likelihood : ByJudge
        The initial judges.
    sites : (tau, nu), optional
        The initial sites.
    """
    for _ in range(JUDGE_RULE.max_iter):
        with few_threads(inference.size):
            posterior = inference.posterior(
                kernel, likelihood, start=sites, rule=SEARCH_RULE, rank_tol=SEARCH_RANK_TOL
            )
        sites = posterior.tau, posterior.nu
        better = likelihood.improved(Cavities.of(posterior))
        error, likelihood = likelihood.distance(better), better
        if error < JUDGE_RULE.tol:
            break
    return likelihood, sites
