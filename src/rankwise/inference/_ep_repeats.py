"""Sites of comparisons recorded more than once: the copies agree before the next sweep."""

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.inference.likelihoods import Likelihood
from rankwise.inference.tilted import Answers

MAX_ROUNDS = 4
MAX_NEWTON = 25
TOL = 1e-3


def agreeing_sites(
    likelihood: Likelihood,
    answers: Answers,
    count: FloatArray,
    mean: FloatArray,
    variance: FloatArray,
    start: tuple[FloatArray, FloatArray],
) -> tuple[FloatArray, FloatArray]:
    """Return the site that ``count`` copies of an answer share, given s ~ N(mean, variance) else.

    If all copies took a plain step at once, they would overshoot ``count`` times. With the
    precision of the sites fixed, the mean of the cavity solves an increasing equation, by Newton's
    method; between such solutions the precision settles by itself, by about a factor of ten in each
    round. A rough agreement will do: the next sweep goes on from there. The likelihood must be
    log-concave.
    """
    tau, nu = start
    others, rest = count - 1.0, 1.0 / np.maximum(variance, 1e-30)
    m = (rest * mean + others * nu) / (rest + others * tau)
    for _ in range(MAX_ROUNDS):
        v = 1.0 / (rest + others * tau)
        m = _cavity_mean(likelihood, answers, rest, mean, others * (1.0 + tau * v), m, v)
        settled, _ = likelihood.tilted(m, v, answers).sites(m, v)
        change = np.abs(settled - tau) * count * v
        tau = settled
        if change.max() < TOL:
            break
    v = 1.0 / (rest + others * tau)
    return tau, likelihood.tilted(m, v, answers).slope * (1.0 + tau * v) + tau * m


def _cavity_mean(
    likelihood: Likelihood,
    answers: Answers,
    rest: FloatArray,
    mean: FloatArray,
    pull: FloatArray,
    m: FloatArray,
    v: FloatArray,
) -> FloatArray:
    """Solve rest (m - mean) = pull * slope(m), by Newton steps kept inside the bracket so far."""
    low, high = np.full_like(m, -np.inf), np.full_like(m, np.inf)
    for _ in range(MAX_NEWTON):
        tilted = likelihood.tilted(m, v, answers)
        gap = rest * (m - mean) - pull * tilted.slope
        low, high = np.where(gap < 0.0, m, low), np.where(gap > 0.0, m, high)
        step = m - gap / (rest + pull * tilted.curvature)
        outside = (step < low) | (step > high)
        step = 0.5 * np.add(low, high, out=2.0 * step, where=outside)
        moved = np.abs(step - m) / np.sqrt(v)
        m = step
        if moved.max() < TOL:
            break
    return m
