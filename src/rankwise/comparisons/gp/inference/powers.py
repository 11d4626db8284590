"""Averages of powers of a likelihood: answers that weigh less than one."""

from typing import final

import numpy as np

from rankwise.comparisons.gp.inference.likelihood import AverageLikelihood, Likelihood, Outcomes
from rankwise.core.arrays import FloatArray

REACH = 8.5
"""Standard deviations on either side that an average takes in."""

N_PIECES, N_NODES = 4, 14
"""Pieces of that range, besides the cuts around the step of the likelihood, and nodes of each."""

MAX_ENTRIES = 200_000
"""Nodes that exist at a time."""


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
