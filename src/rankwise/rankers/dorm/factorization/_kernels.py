"""The half-steps of ranking factorisation: the factors of each user, and visits for the items'."""

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import CALLED_BY_KERNELS, MAKES_NO_ARRAYS, njit
from rankwise.rankers.dorm.oracles.assignment import OracleTargets, Scratch
from rankwise.rankers.dorm.oracles.assignment_kernels import (
    BETA,
    GIVEN_SCORES,
    IMAGE,
    START,
    WEIGHT,
)
from rankwise.rankers.dorm.plane_kernels import (
    COUNTS,
    KNOWN,
    ORACLE,
    WEIGHTS,
    Planes,
    fill_combination,
    fill_products,
    find_plane,
    improve,
)


@njit(**MAKES_NO_ARRAYS, is_scalar=True)
def rated_scores(
    starts: IntArray, items: IntArray, U: FloatArray, V: FloatArray, scores: FloatArray
) -> None:
    """Fill the scores <U_u, V_i> of all rated items, user by user; V stands row by row."""
    for u in range(len(U)):
        fill_scores(items, starts[u], starts[u + 1], U[u], V, starts[u], scores)


@njit(
    **CALLED_BY_KERNELS,
    fastmath={"reassoc", "contract"},  # sums are reordered to run on vector units
    apart="void(int64[::1], int64, int64, float64[::1], float64[::1], int64, float64[::1])",
)
def fill_scores(
    items: IntArray,
    first: int,
    last: int,
    user: FloatArray,
    V: FloatArray,
    to: int,
    scores: FloatArray,
) -> None:
    """Fill ``scores[to:]`` with the scores of ``items[first:last]`` for one user."""
    n_factors = np.uintp(len(user))
    for i in range(last - first):
        total, own = 0.0, np.uintp(items[first + i]) * n_factors
        for k in range(n_factors):
            total += V[own + k] * user[k]
        scores[to + i] = total


@njit(**MAKES_NO_ARRAYS, is_scalar=True)
def fit_users(
    targets: OracleTargets,
    items: IntArray,
    bias: FloatArray,
    V: FloatArray,
    tol: float,
    max_visits: int,
    first: int,
    last: int,
    planes: Planes,
    scratch: Scratch,
    points: FloatArray,
    F: FloatArray,
    U: FloatArray,
) -> None:
    """Minimise ``1/2 |U_u|^2 + C_u slack_u`` for the users first ... last - 1.

    Cutting planes from U_u = 0 until the duality gap is below ``tol`` of the objective; the best
    point met replaces the row of ``U`` if it is better. A visit costs two products with the factors
    of the user's items, and the oracle.

    Parameters
    ----------
    planes, scratch, points
        Room for one user after the other.
    F : (n_items * n_factors,)
        Room for the factors of the user with the most items.
    """
    vectors, integers, slots, grams, room = planes
    starts, size = targets.bounds[START], U.shape[1]
    g, beta, given = scratch.floats[GIVEN_SCORES], scratch.floats[BETA], scratch.floats[IMAGE]
    w, vector, move = points[0], points[1], points[2]
    for u in range(first, last):
        n_items, C = starts[u + 1] - starts[u], targets.weights[WEIGHT, u]
        gather(items, starts[u], n_items, bias, V, given, F)
        slots[WEIGHTS, 0, 0] = 1.0
        integers[COUNTS, 0] = 1
        least = 0.0
        for k in range(size):
            w[k] = U[u, k]
        for visit_number in range(max_visits + 1):  # the first one is at the present factors
            fill_products(F, 0, size, 0, n_items, w, size, g)
            for i in range(n_items):
                g[i] += given[i]
            loss = find_plane(targets, scratch, u)
            for i in range(n_items):
                loss -= beta[i] * given[i]
            fill_combination(F, 0, size, 0, n_items, beta, 1.0, size, vector)
            slack, value = loss, 0.0
            for k in range(size):
                slack -= vector[k] * w[k]
                value += 0.5 * w[k] * w[k]
            if slack > 0.0:
                value += C * slack
            if visit_number == 0:
                least = value
                for k in range(size):
                    w[k] = 0.0
                continue
            if value < least:
                least = value
                for k in range(size):
                    U[u, k] = w[k]
            gap = improve(
                vectors, integers, slots, grams, room, 0, C, w, vector, vector, loss, True, move
            )
            if gap <= tol * value:
                break
            for k in range(size):
                w[k] += move[k]


@njit(
    **CALLED_BY_KERNELS,
    is_scalar=True,
    apart=(
        "void(int64[::1], int64, int64, float64[::1], float64[:, ::1], float64[::1], float64[::1])"
    ),
)
def gather(
    items: IntArray,
    first: int,
    n_items: int,
    bias: FloatArray,
    V: FloatArray,
    given: FloatArray,
    F: FloatArray,
) -> None:
    """Fill in the bias and the factors of the items of one user."""
    at = 0
    for i in range(n_items):
        item = items[first + i]
        given[i] = bias[item]
        for k in range(V.shape[1]):
            F[at] = V[item, k]
            at += 1


@njit(**MAKES_NO_ARRAYS, is_scalar=True)
def visit(
    targets: OracleTargets,
    items: IntArray,
    U: FloatArray,
    planes: Planes,
    scratch: Scratch,
    points: FloatArray,
    users: IntArray,
    which: int,
    loss: float,
    V: FloatArray,
) -> float:
    """Visit users in turn, moving ``V`` each time; return the sum of their gaps.

    Planes are coefficients of the user's items, so that the inner product of two is that of their
    coefficients times |U_u|^2. A visit costs two products with the factors of these items, the
    oracle, and O(n_items) of the user for each plane.

    Parameters
    ----------
    which, loss
        As for linear ranking functions.
    V : (n_items * n_factors,)
        Row by row.
    """
    vectors, integers, slots, grams, room = planes
    starts, n_factors = targets.bounds[START], U.shape[1]
    g, beta, image, direction = (
        scratch.floats[GIVEN_SCORES],
        scratch.floats[BETA],
        scratch.floats[IMAGE],
        points[2],
    )
    gap = 0.0
    for k in range(len(users)):
        u = users[k]
        first, n_items, user = starts[u], starts[u + 1] - starts[u], U[u]
        fill_scores(items, first, first + n_items, user, V, 0, g)
        if which == ORACLE:
            loss = find_plane(targets, scratch, u)
        if which != KNOWN:
            square = 0.0
            for j in range(n_factors):
                square += user[j] * user[j]
            for i in range(n_items):
                image[i] = square * beta[i]
        C, is_new = targets.weights[WEIGHT, u], which != KNOWN
        gap += improve(
            vectors, integers, slots, grams, room, u, C, g, beta, image, loss, is_new, direction
        )
        for i in range(n_items):
            step, at = direction[i], np.uintp(items[first + i] * n_factors)
            if step != 0.0:
                for j in range(np.uintp(n_factors)):
                    V[at + j] += step * user[j]
    return gap
