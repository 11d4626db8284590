"""The working set of cutting planes of each query, and the dual steps on it."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import njit
from rankwise.rankers.dorm.oracles.assignment import OraclePlan

STEPS = 0.5  # pairwise steps in one visit of a query, at most, for each plane it may have
MAX_IDLE = 10  # visits that a plane without weight survives


class Planes(NamedTuple):
    """The planes ``loss - <vector, v>`` of each query and their dual weights.

    Slot 0 is the plane that is 0 everywhere; the weights of a query sum to 1. Vectors of a query
    have a length of their own and stand one after the other. All slots share the memory that is
    reserved for them, of which only those in use are ever touched.
    """

    vectors: FloatArray
    starts: IntArray  # where the slots of each query begin in vectors, (n_queries,)
    sizes: IntArray  # length of each query's vectors, (n_queries,)
    losses: FloatArray  # (n_queries, capacity)
    weights: FloatArray  # (n_queries, capacity)
    grams: FloatArray  # inner products of the vectors, (n_queries, capacity, capacity)
    idle: NDArray[np.int32]  # visits since a plane lost its weight, (n_queries, capacity)
    counts: IntArray  # slots in use, (n_queries,)


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def dot(x: FloatArray, y: FloatArray) -> float:
    """Return the inner product; the sum may be reordered, so that it runs on vector units."""
    total = 0.0
    for i in range(len(x)):
        total += x[i] * y[i]
    return total


@njit(cache=True, nogil=True, inline="always")
def _vector(planes: Planes, q: int, slot: int) -> FloatArray:
    first = planes.starts[q] + slot * planes.sizes[q]
    return planes.vectors[first : first + planes.sizes[q]]


@njit(cache=True, nogil=True)
def improve(
    planes: Planes,
    q: int,
    C: float,
    v: FloatArray,
    vector: FloatArray,
    image: FloatArray,
    loss: float,
    is_new: bool,
    direction: FloatArray,
) -> float:
    """Take a new plane into the working set of a query and move weights towards the best planes.

    Maximises the dual over the weights of this query by steps between two planes, each exact.

    Parameters
    ----------
    C
        Weight of the query's slack.
    v : (size,)
        Where the planes are evaluated: the primal weights, or the scores.
    vector, image : (size,)
        The new plane, and what its inner product with another plane's vector is taken with: itself,
        or itself times a kernel block.
    loss
        Of the new plane.
    is_new
        Whether there is a new plane; the three before do not matter otherwise.
    direction : (size,), filled
        By how much the sum of all weighted vectors has changed.

    Returns
    -------
    float
        The gap of this query at ``v`` before the steps, as far as the planes show it.
    """
    capacity = planes.losses.shape[1]
    values = np.zeros(capacity)
    best, mean = 0.0, 0.0
    for slot in range(1, planes.counts[q]):
        values[slot] = C * (planes.losses[q, slot] - dot(_vector(planes, q, slot), v))
        best = max(best, values[slot])
        mean += planes.weights[q, slot] * values[slot]
    if is_new:
        value = C * (loss - dot(vector, v))
        if value > best + 1e-12 * abs(best):
            slot = _make_room(planes, q, values)
            _add(planes, q, slot, vector, image, loss)
            values[slot] = best = value
        _age(planes, q, values)
    before = np.empty(capacity)
    for slot in range(capacity):
        before[slot] = planes.weights[q, slot]
    _exchange_weights(planes, q, C, values)
    for i in range(len(direction)):
        direction[i] = 0.0
    for slot in range(1, planes.counts[q]):
        change = C * (planes.weights[q, slot] - before[slot])
        if change != 0.0:
            other = _vector(planes, q, slot)
            for i in range(len(direction)):
                direction[i] += change * other[i]
    return best - mean


@njit(cache=True, nogil=True, inline="always")
def _exchange_weights(planes: Planes, q: int, C: float, values: FloatArray) -> None:
    """Move weight from the lowest plane that has some to the highest, as long as that helps."""
    weights, gram, count = planes.weights[q], planes.grams[q], planes.counts[q]
    for _ in range(int(STEPS * len(weights))):
        up, down = 0, -1
        for slot in range(count):
            if values[slot] > values[up]:
                up = slot
            if weights[slot] > 0.0 and (down < 0 or values[slot] < values[down]):
                down = slot
        rise = values[up] - values[down]
        if not rise > 1e-14 * abs(values[up]):
            break
        # [LS08] eq. (28) is quadratic along a pair of planes: step to its maximum, kept feasible
        curvature = C * C * (gram[up, up] + gram[down, down] - 2.0 * gram[up, down])
        step = weights[down]
        if curvature * step > rise:
            step = rise / curvature
        weights[up] += step
        weights[down] = weights[down] - step if step < weights[down] else 0.0
        for slot in range(count):
            values[slot] -= C * C * step * (gram[slot, up] - gram[slot, down])


@njit(cache=True, nogil=True, inline="always")
def _add(
    planes: Planes, q: int, slot: int, vector: FloatArray, image: FloatArray, loss: float
) -> None:
    own, gram = _vector(planes, q, slot), planes.grams[q]
    for i in range(len(vector)):
        own[i] = vector[i]
    gram[0, slot] = gram[slot, 0] = 0.0
    for other in range(1, planes.counts[q]):
        gram[other, slot] = gram[slot, other] = dot(_vector(planes, q, other), image)
    planes.losses[q, slot] = loss
    planes.weights[q, slot] = 0.0
    planes.idle[q, slot] = 0


@njit(cache=True, nogil=True, inline="always")
def _make_room(planes: Planes, q: int, values: FloatArray) -> int:
    """Return a free slot, counted as used; a full working set merges its two lightest planes."""
    if planes.counts[q] == planes.losses.shape[1]:
        first, second = _two_lightest(planes.weights[q])
        _merge(planes, q, first, second, values)
        _remove(planes, q, second, values)
    planes.counts[q] += 1
    return planes.counts[q] - 1


@njit(cache=True, nogil=True, inline="always")
def _two_lightest(weights: FloatArray) -> tuple[int, int]:
    first, second = 1, 2
    for slot in range(1, len(weights)):
        if weights[slot] < weights[first]:
            first, second = slot, first
        elif slot != first and weights[slot] < weights[second]:
            second = slot
    return first, second


@njit(cache=True, nogil=True, inline="always")
def _merge(planes: Planes, q: int, first: int, second: int, values: FloatArray) -> None:
    """Replace the first of two planes by their weighted mean, which changes no dual quantity."""
    gram, total = planes.grams[q], planes.weights[q, first] + planes.weights[q, second]
    t = planes.weights[q, second] / total if total > 0.0 else 0.0
    own, other = _vector(planes, q, first), _vector(planes, q, second)
    for i in range(len(own)):
        own[i] += t * (other[i] - own[i])
    for slot in range(planes.counts[q]):
        gram[first, slot] += t * (gram[second, slot] - gram[first, slot])
    for slot in range(planes.counts[q]):
        gram[slot, first] += t * (gram[slot, second] - gram[slot, first])
    planes.losses[q, first] += t * (planes.losses[q, second] - planes.losses[q, first])
    values[first] += t * (values[second] - values[first])
    planes.weights[q, first] = total


@njit(cache=True, nogil=True)
def _remove(planes: Planes, q: int, slot: int, values: FloatArray) -> None:
    """Free a slot by moving the last one into it."""
    last, gram = planes.counts[q] - 1, planes.grams[q]
    own, other = _vector(planes, q, slot), _vector(planes, q, last)
    for i in range(len(own)):
        own[i] = other[i]
    for k in range(last + 1):
        gram[slot, k] = gram[last, k]
    for k in range(last + 1):
        gram[k, slot] = gram[k, last]
    planes.losses[q, slot], planes.weights[q, slot] = (
        planes.losses[q, last],
        planes.weights[q, last],
    )
    planes.idle[q, slot], values[slot] = planes.idle[q, last], values[last]
    planes.losses[q, last] = planes.weights[q, last] = 0.0
    planes.counts[q] = last


@njit(cache=True, nogil=True, inline="always")
def _age(planes: Planes, q: int, values: FloatArray) -> None:
    """Forget planes that have been without weight for long."""
    for slot in range(planes.counts[q] - 1, 0, -1):
        planes.idle[q, slot] += 1
        if planes.weights[q, slot] > 0.0:
            planes.idle[q, slot] = 0
        elif planes.idle[q, slot] > MAX_IDLE:
            _remove(planes, q, slot, values)


class OracleTargets(NamedTuple):
    """The ranking without loss of each query, and what its slack counts; for compiled code."""

    plan: OraclePlan
    target: FloatArray  # coefficient of each item in the ranking without loss
    ideal: FloatArray  # gain of that ranking, (n_queries,)
    C: FloatArray  # weight of each query's slack, (n_queries,)


@njit(cache=True, nogil=True)
def cut(targets: OracleTargets, q: int, positions: IntArray, beta: FloatArray) -> float:
    """Fill the items' coefficients in the plane of a ranking and return the ranking's loss.

    The score of a ranking is [LS08] eq. (18), or (21) with the features (20): the coefficients are
    those of the target less those of the ranking.
    """
    plan, first = targets.plan, targets.plan.starts[q]
    loss = targets.ideal[q]  # [LS08] eq. (17)
    for i in range(len(positions)):
        # [LS08] eq. (20): c of the target less c of the ranking
        beta[i] = targets.target[first + i] - plan.decay[first + positions[i]]
        loss -= plan.discounts[first + positions[i]] * plan.gains[first + i]
    return loss
