"""The half-steps of ranking factorisation: the factors of each user, and visits for the items'."""

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import njit
from rankwise.rankers.dorm.oracles.assignment import Scratch, assign_queries, make_scratch
from rankwise.rankers.dorm.planes import OracleTargets, Planes, cut, dot, improve

CAPACITY = 40  # planes of a user while its factors are sought


@njit(cache=True, nogil=True)
def rated_scores(
    starts: IntArray, items: IntArray, U: FloatArray, V: FloatArray, scores: FloatArray
) -> None:
    """Fill the scores <U_u, V_i> of all rated items, user by user."""
    for u in range(len(U)):
        for at in range(starts[u], starts[u + 1]):
            scores[at] = dot(U[u], V[items[at]])


@njit(cache=True, nogil=True)
def fit_users(
    targets: OracleTargets,
    items: IntArray,
    bias: FloatArray,
    V: FloatArray,
    tol: float,
    max_visits: int,
    first: int,
    last: int,
    U: FloatArray,
) -> None:
    """Minimise ``1/2 |U_u|^2 + C_u slack_u`` for the users first ... last - 1.

    Cutting planes from U_u = 0 until the duality gap is below ``tol`` of the objective; the best
    point met replaces the row of ``U`` if it is better. A visit costs two products with the factors
    of the user's items, and the oracle.
    """
    planes, scratch = _make_planes(V.shape[1]), make_scratch(targets.plan)
    for u in range(first, last):
        rated = items[targets.plan.starts[u] : targets.plan.starts[u + 1]]
        _fit_user(targets, u, bias[rated], V[rated], tol, max_visits, planes, scratch, U[u])


@njit(cache=True, nogil=True)
def _fit_user(
    targets: OracleTargets,
    u: int,
    given: FloatArray,
    F: FloatArray,
    tol: float,
    max_visits: int,
    planes: Planes,
    scratch: Scratch,
    best: FloatArray,
) -> None:
    """Improve the factors of one user, whose items have the scores ``given`` whatever they are."""
    beta, vector, direction = np.empty(len(F)), np.empty(len(best)), np.empty(len(best))
    least, _ = _evaluate(targets, u, given, F, scratch, best, beta, vector)
    w = np.zeros(len(best))
    _reset(planes)
    for _ in range(max_visits):
        value, loss = _evaluate(targets, u, given, F, scratch, w, beta, vector)
        if value < least:
            least = value
            for k in range(len(w)):
                best[k] = w[k]
        gap = improve(planes, 0, targets.C[u], w, vector, vector, loss, True, direction)
        if gap <= tol * value:
            break
        for k in range(len(w)):
            w[k] += direction[k]


@njit(cache=True, nogil=True)
def _evaluate(
    targets: OracleTargets,
    u: int,
    given: FloatArray,
    F: FloatArray,
    scratch: Scratch,
    w: FloatArray,
    beta: FloatArray,
    vector: FloatArray,
) -> tuple[float, float]:
    """Fill the plane that is highest at ``w``; return the user's objective and the plane at 0."""
    g, positions = given.copy(), np.empty(len(given), np.intp)
    for i in range(len(g)):
        g[i] += dot(F[i], w)
    assign_queries(targets.plan, scratch, g, u, u + 1, positions)
    loss = cut(targets, u, positions, beta) - dot(beta, given)
    for k in range(len(vector)):
        vector[k] = 0.0
    for i in range(len(beta)):
        if beta[i] != 0.0:
            for k in range(len(vector)):
                vector[k] += beta[i] * F[i, k]
    return 0.5 * dot(w, w) + targets.C[u] * max(0.0, loss - dot(vector, w)), loss


@njit(cache=True, nogil=True)
def _make_planes(size: int) -> Planes:
    """Reserve the working set of one user after the other."""
    return Planes(
        np.empty(CAPACITY * size),
        np.zeros(1, np.intp),
        np.full(1, size, np.intp),
        np.zeros((1, CAPACITY)),
        np.zeros((1, CAPACITY)),
        np.zeros((1, CAPACITY, CAPACITY)),
        np.zeros((1, CAPACITY), np.int32),
        np.ones(1, np.intp),
    )


@njit(cache=True, nogil=True)
def _reset(planes: Planes) -> None:
    for slot in range(planes.weights.shape[1]):
        planes.weights[0, slot] = 0.0
    planes.weights[0, 0] = 1.0
    planes.counts[0] = 1


@njit(cache=True, nogil=True)
def visit(
    targets: OracleTargets,
    items: IntArray,
    U: FloatArray,
    planes: Planes,
    scratch: Scratch,
    users: IntArray,
    V: FloatArray,
) -> float:
    """Visit users in turn with the oracle, moving ``V`` each time; return the sum of their gaps.

    Planes are coefficients of the user's items, so that the inner product of two is that of their
    coefficients times |U_u|^2. A visit costs two products with the factors of these items, the
    oracle, and O(n_items) of the user for each plane.
    """
    gap = 0.0
    for u in users:
        first = targets.plan.starts[u]
        n_items = targets.plan.starts[u + 1] - first
        g, beta = np.empty(n_items), np.empty(n_items)
        positions = np.empty(n_items, np.intp)
        for i in range(n_items):
            g[i] = dot(U[u], V[items[first + i]])
        assign_queries(targets.plan, scratch, g, u, u + 1, positions)
        loss = cut(targets, u, positions, beta)
        gap += _move(targets, items, U, planes, u, g, beta, loss, True, V)
    return gap


@njit(cache=True, nogil=True)
def visit_given(
    targets: OracleTargets,
    items: IntArray,
    U: FloatArray,
    planes: Planes,
    u: int,
    beta: FloatArray,
    loss: float,
    V: FloatArray,
) -> float:
    """Visit one user with a plane found elsewhere."""
    g = np.empty(len(beta))
    for i in range(len(g)):
        g[i] = dot(U[u], V[items[targets.plan.starts[u] + i]])
    return _move(targets, items, U, planes, u, g, beta, loss, True, V)


@njit(cache=True, nogil=True)
def revisit(
    targets: OracleTargets,
    items: IntArray,
    U: FloatArray,
    planes: Planes,
    users: IntArray,
    V: FloatArray,
) -> float:
    """Visit users in turn with the planes they have; return the sum of the gaps these show."""
    gap = 0.0
    for u in users:
        first = targets.plan.starts[u]
        g = np.empty(targets.plan.starts[u + 1] - first)
        for i in range(len(g)):
            g[i] = dot(U[u], V[items[first + i]])
        gap += _move(targets, items, U, planes, u, g, g, 0.0, False, V)
    return gap


@njit(cache=True, nogil=True)
def _move(
    targets: OracleTargets,
    items: IntArray,
    U: FloatArray,
    planes: Planes,
    u: int,
    g: FloatArray,
    beta: FloatArray,
    loss: float,
    is_new: bool,
    V: FloatArray,
) -> float:
    image, direction = np.empty(len(g)), np.empty(len(g))
    square = dot(U[u], U[u])
    for i in range(len(g)):
        image[i] = square * beta[i]
    gap = improve(planes, u, targets.C[u], g, beta, image, loss, is_new, direction)
    _add_to(items[targets.plan.starts[u] :], U[u], 1.0, direction, V)
    return gap


@njit(cache=True, nogil=True, inline="always")
def _add_to(
    items: IntArray, user: FloatArray, factor: float, vector: FloatArray, V: FloatArray
) -> None:
    for i in range(len(vector)):
        step = factor * vector[i]
        if step != 0.0:
            row = V[items[i]]
            for k in range(len(user)):
                row[k] += step * user[k]


@njit(cache=True, nogil=True)
def sum_planes(
    targets: OracleTargets, items: IntArray, U: FloatArray, planes: Planes, V: FloatArray
) -> None:
    """Add all planes, times their weights and the factors of their users, to ``V``."""
    for u in range(len(U)):
        size = planes.sizes[u]
        for slot in range(1, planes.counts[u]):
            first = planes.starts[u] + slot * size
            weight = targets.C[u] * planes.weights[u, slot]
            vector = planes.vectors[first : first + size]
            _add_to(items[targets.plan.starts[u] :], U[u], weight, vector, V)


@njit(cache=True, nogil=True)
def move_planes(starts: IntArray, planes: Planes, shift: FloatArray, squares: FloatArray) -> None:
    """Shift the planes to another target, and compute their inner products for other factors.

    Parameters
    ----------
    shift : (n_ratings,)
        By how much the target has changed.
    squares : (n_users,)
        |U_u|^2.
    """
    for u in range(len(squares)):
        size, at = planes.sizes[u], planes.starts[u]
        for slot in range(1, planes.counts[u]):
            own = planes.vectors[at + slot * size : at + (slot + 1) * size]
            for i in range(size):
                own[i] += shift[starts[u] + i]
            for other in range(1, slot + 1):
                product = squares[u] * dot(
                    own, planes.vectors[at + other * size : at + (other + 1) * size]
                )
                planes.grams[u, slot, other] = planes.grams[u, other, slot] = product
