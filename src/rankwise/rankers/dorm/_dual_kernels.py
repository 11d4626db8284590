"""Visits of queries for ranking functions of a kernel: the planes are weights of items."""

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import CALLED_BY_KERNELS, MAKES_NO_ARRAYS, njit
from rankwise.rankers.dorm.oracles.assignment import OracleTargets, Scratch
from rankwise.rankers.dorm.oracles.assignment_kernels import (
    BETA,
    GIVEN_SCORES,
    IMAGE,
    POSITIONS,
    START,
    WEIGHT,
)
from rankwise.rankers.dorm.planes import KNOWN, ORACLE, Planes, fill_products, find_plane, improve


@njit(**MAKES_NO_ARRAYS, is_scalar=True)
def visit(
    targets: OracleTargets,
    K: FloatArray,
    planes: Planes,
    scratch: Scratch,
    points: FloatArray,
    queries: IntArray,
    which: int,
    loss: float,
    dual: FloatArray,
    scores: FloatArray,
) -> float:
    """Visit queries in turn; return the sum of their gaps.

    Keeps the scores of all items equal to K times the dual weights: a visit costs one product of
    the query's rows of K, and n_items^2 of the query for a new plane.

    Parameters
    ----------
    K : (n_items * n_items,)
        Row by row.
    which, loss
        As for linear ranking functions.
    """
    vectors, integers, slots, grams, room = planes
    starts, n_all = targets.bounds[START], len(scores)
    g, beta, image, direction = (
        scratch.floats[GIVEN_SCORES],
        scratch.floats[BETA],
        scratch.floats[IMAGE],
        points[2],
    )
    gap = 0.0
    for k in range(len(queries)):
        q = queries[k]
        first, n_items = starts[q], starts[q + 1] - starts[q]
        for i in range(n_items):
            g[i] = scores[first + i]
        if which == ORACLE:
            loss = find_plane(targets, scratch, q)
        if which != KNOWN:
            fill_products(K, first * (n_all + 1), n_all, 0, n_items, beta, n_items, image)
        C, is_new = targets.weights[WEIGHT, q], which != KNOWN
        gap += improve(
            vectors, integers, slots, grams, room, q, C, g, beta, image, loss, is_new, direction
        )
        for i in range(n_items):
            dual[first + i] += direction[i]
        add_rows(K, first, n_items, direction, scratch.integers[POSITIONS], scores)
    return gap


@njit(
    **CALLED_BY_KERNELS,
    apart="void(float64[::1], int64, int64, float64[::1], int64[::1], float64[::1])",
)
def add_rows(
    K: FloatArray,
    first: int,
    n_items: int,
    direction: FloatArray,
    used: IntArray,
    scores: FloatArray,
) -> None:
    """Add rows times coefficients to the scores, four at a time to touch the scores less often."""
    count, n_all = 0, len(scores)
    for i in range(n_items):
        if direction[i] != 0.0:
            used[count] = i
            count += 1
    for i in range(count, count + 3):
        used[i] = 0
    for i in range(0, count, 4):
        i0, i1, i2, i3 = used[i], used[i + 1], used[i + 2], used[i + 3]
        d0 = direction[i0]
        d1 = direction[i1] if i + 1 < count else 0.0
        d2 = direction[i2] if i + 2 < count else 0.0
        d3 = direction[i3] if i + 3 < count else 0.0
        r0, r1 = np.uintp((first + i0) * n_all), np.uintp((first + i1) * n_all)
        r2, r3 = np.uintp((first + i2) * n_all), np.uintp((first + i3) * n_all)
        for j in range(np.uintp(n_all)):
            scores[j] += d0 * K[r0 + j] + d1 * K[r1 + j] + d2 * K[r2 + j] + d3 * K[r3 + j]
