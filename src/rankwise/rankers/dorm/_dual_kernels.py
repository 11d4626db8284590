"""Visits of queries for ranking functions of a kernel: the planes are weights of items."""

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import njit
from rankwise.rankers.dorm.oracles.assignment import Scratch, assign_queries
from rankwise.rankers.dorm.planes import OracleTargets, Planes, cut, dot, improve


@njit(cache=True, nogil=True)
def visit(
    targets: OracleTargets,
    K: FloatArray,
    planes: Planes,
    scratch: Scratch,
    queries: IntArray,
    dual: FloatArray,
    scores: FloatArray,
) -> float:
    """Visit queries in turn with the oracle; return the sum of their gaps.

    Keeps the scores of all items equal to K times the dual weights: a visit costs one product of
    the query's rows of K, and n_items^2 of the query for the new plane.
    """
    gap = 0.0
    for q in queries:
        first, last = targets.plan.starts[q], targets.plan.starts[q + 1]
        g, beta = scores[first:last].copy(), np.empty(last - first)
        positions = np.empty(last - first, np.intp)
        assign_queries(targets.plan, scratch, g, q, q + 1, positions)
        loss = cut(targets, q, positions, beta)
        gap += visit_given(targets, K, planes, q, beta, loss, dual, scores)
    return gap


@njit(cache=True, nogil=True)
def visit_given(
    targets: OracleTargets,
    K: FloatArray,
    planes: Planes,
    q: int,
    beta: FloatArray,
    loss: float,
    dual: FloatArray,
    scores: FloatArray,
) -> float:
    """Visit one query with a plane found elsewhere."""
    first, last = targets.plan.starts[q], targets.plan.starts[q + 1]
    image = np.empty(last - first)
    for i in range(last - first):
        image[i] = dot(K[first + i, first:last], beta)
    return _move(targets, K, planes, q, beta, image, loss, True, dual, scores)


@njit(cache=True, nogil=True)
def revisit(
    targets: OracleTargets,
    K: FloatArray,
    planes: Planes,
    queries: IntArray,
    dual: FloatArray,
    scores: FloatArray,
) -> float:
    """Visit queries in turn with the planes they have; return the sum of the gaps these show."""
    gap = 0.0
    none = np.empty(0)
    for q in queries:
        gap += _move(targets, K, planes, q, none, none, 0.0, False, dual, scores)
    return gap


@njit(cache=True, nogil=True)
def _move(
    targets: OracleTargets,
    K: FloatArray,
    planes: Planes,
    q: int,
    beta: FloatArray,
    image: FloatArray,
    loss: float,
    is_new: bool,
    dual: FloatArray,
    scores: FloatArray,
) -> float:
    first, last = targets.plan.starts[q], targets.plan.starts[q + 1]
    g, direction = scores[first:last].copy(), np.empty(last - first)
    gap = improve(planes, q, targets.C[q], g, beta, image, loss, is_new, direction)
    for i in range(last - first):
        dual[first + i] += direction[i]
    _add_rows(K[first:last], direction, scores)
    return gap


@njit(cache=True, nogil=True)
def _add_rows(K: FloatArray, direction: FloatArray, scores: FloatArray) -> None:
    """Add rows times coefficients to the scores, four at a time to touch the scores less often."""
    used = np.zeros(len(direction) + 3, np.intp)
    count = 0
    for i in range(len(direction)):
        if direction[i] != 0.0:
            used[count] = i
            count += 1
    for k in range(0, count, 4):
        i0, i1, i2, i3 = used[k], used[k + 1], used[k + 2], used[k + 3]
        d0 = direction[i0]
        d1 = direction[i1] if k + 1 < count else 0.0
        d2 = direction[i2] if k + 2 < count else 0.0
        d3 = direction[i3] if k + 3 < count else 0.0
        r0, r1, r2, r3 = K[i0], K[i1], K[i2], K[i3]
        for j in range(len(scores)):
            scores[j] += d0 * r0[j] + d1 * r1[j] + d2 * r2[j] + d3 * r3[j]


@njit(cache=True, nogil=True)
def sum_planes(targets: OracleTargets, planes: Planes, dual: FloatArray) -> None:
    """Add all planes, times their weights, to the dual weights of the items."""
    for q in range(len(planes.counts)):
        size, at = planes.sizes[q], targets.plan.starts[q]
        for slot in range(1, planes.counts[q]):
            first = planes.starts[q] + slot * size
            weight = targets.C[q] * planes.weights[q, slot]
            for i in range(size):
                dual[at + i] += weight * planes.vectors[first + i]
