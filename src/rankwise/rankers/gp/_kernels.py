"""Compiled loops over all pairs of items."""

from math import erfc, exp, log, pi, sqrt

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import njit

ENTROPY_ERROR = 0.004
"""Above the largest error, in bits, of exp(-x^2 / (pi ln 2)) for the entropy of Phi(x)."""


@njit(cache=True)
def _is_among(i: int, j: int, pairs: IntArray) -> bool:
    found = False
    for k in range(len(pairs)):
        found |= pairs[k, 0] == i and pairs[k, 1] == j
    return found


@njit(cache=True)
def most_informative_pair(
    mean: FloatArray, S: FloatArray, noise: float, taken: IntArray
) -> tuple[int, int]:
    """Return the pair i < j of largest expected information that is not taken. O(n_items^2).

    Two upper bounds avoid computing the exact information of most pairs: that of a difference of 0
    with the same variance, and that from the approximate entropy of the answer.
    """
    c = 0.5 * pi * log(2.0) * noise
    best, first, second, least = -1.0, -1, -1, -1.0
    for i in range(len(mean)):
        for j in range(i + 1, len(mean)):
            v = max(S[i, i] + S[j, j] - 2.0 * S[i, j], 0.0)
            if v <= least:
                continue
            square = (mean[i] - mean[j]) ** 2
            known = sqrt(c / (c + v)) * exp(-0.5 * square / (c + v))
            bound = exp(-square / (pi * log(2.0) * (noise + v))) + ENTROPY_ERROR
            if bound - known <= best or _is_among(i, j, taken):
                continue
            q = 0.5 * erfc(sqrt(0.5 * square / (noise + v)))  # of the less likely answer
            entropy = 0.0 if q <= 0.0 else -(q * log(q) + (1.0 - q) * log(1.0 - q)) / log(2.0)
            if entropy - known > best:
                best, first, second = entropy - known, i, j
                if 0.0 < best < 1.0:
                    least = c * (1.0 / (1.0 - best) ** 2 - 1.0)
    return first, second


@njit(cache=True)
def most_promising_pair(
    mean: FloatArray,
    S: FloatArray,
    noise: float,  # noqa: ARG001
    taken: IntArray,
) -> tuple[int, int]:
    """Return the pair i < j whose winner has the largest expected score, not taken. O(n_items^2).

    A pair is worth at most its better mean plus 0.4 standard deviations of the difference.
    """
    best, first, second = -1e300, -1, -1
    for i in range(len(mean)):
        for j in range(i + 1, len(mean)):
            room = best - max(mean[i], mean[j])
            v = max(S[i, i] + S[j, j] - 2.0 * S[i, j], 1e-200)
            if (room > 0.0 and 0.16 * v <= room * room) or _is_among(i, j, taken):
                continue
            std = sqrt(v)
            u = (mean[i] - mean[j]) / std
            upper = 0.5 * erfc(-u / sqrt(2.0))
            worth = mean[j] + (mean[i] - mean[j]) * upper
            worth += std * exp(-0.5 * u * u) / sqrt(2.0 * pi)
            if worth > best:
                best, first, second = worth, i, j
    return first, second
