"""The half-steps of ranking factorisation: the factors of each user, and visits for the items'."""

from libc.stdint cimport int64_t as i64

import numpy as np

from rankwise.native.oracles cimport OracleRoom, OracleTargets, Queries, Query, find_plane, query_of
from rankwise.native.planes cimport (
    Planes,
    WorkingSet,
    fill_combination,
    fill_products,
    improve,
    working_set_of,
)


def rated_scores(const i64[::1] starts, const i64[::1] items, const double[:, ::1] U,
                 const double[:, ::1] V, double[::1] scores):
    """Fill the scores <U_u, V_i> of all rated items, user by user.

    Parameters
    ----------
    starts : (n_users + 1,)
    items, scores : (n_ratings,)
    U, V : (n_users, n_factors) and (n_items, n_factors)
    """
    cdef i64 u, first, last
    with nogil:
        for u in range(U.shape[0]):
            first = starts[u]
            last = starts[u + 1]
            if first < last:
                fill_scores(&items[first], last - first, &U[u, 0], &V[0, 0], U.shape[1],
                            &scores[first])


cdef void fill_scores(const i64 *items, i64 n_items, const double *user, const double *V,
                      i64 n_factors, double *scores) noexcept nogil:
    """Fill the scores of items for one user."""
    cdef i64 i
    for i in range(n_items):
        fill_products(V + items[i] * n_factors, n_factors, 1, user, n_factors, scores + i)


def fit_users(OracleTargets targets not None, OracleRoom room not None, Planes planes not None,
              const i64[::1] items, const double[::1] bias, const double[:, ::1] V, double tol,
              i64 max_visits, i64 first, i64 last, double[:, ::1] U):
    """Minimise ``1/2 |U_u|^2 + C_u slack_u`` for the users first ... last - 1.

    Cutting planes from U_u = 0 until the duality gap is below ``tol`` of the objective; the best
    point met replaces the row of ``U`` if it is better. A visit costs two products with the factors
    of the user's items, and the oracle.

    Parameters
    ----------
    targets, room
        Of the oracle; a query is a user.
    planes
        Room for the planes of one user after the other.
    items : (n_ratings,)
    bias : (n_items,)
    V : (n_items, n_factors)
    tol, max_visits
        When to stop.
    U : (n_users, n_factors), changed
    """
    cdef WorkingSet working = working_set_of(planes, 0)
    cdef Queries *queries = &targets.queries
    cdef Query query
    cdef i64 size = U.shape[1], u, i, k, item, number
    cdef double[:, ::1] F = np.empty((room.longest, size))  # the factors of the user's items
    cdef double[::1] given = np.empty(room.longest)  # the bias of the user's items
    cdef double *g = room.plane.scores
    cdef double *beta = room.plane.beta
    cdef double[:, ::1] points = np.empty((3, size))
    cdef double *w = &points[0, 0]
    cdef double *vector = &points[1, 0]
    cdef double *direction = &points[2, 0]
    cdef double C, loss, slack, value, least, gap
    with nogil:
        for u in range(first, last):
            query = query_of(queries, u)
            C = queries.slack_weights[u]
            for i in range(query.n_items):
                item = items[queries.starts[u] + i]
                given[i] = bias[item]
                for k in range(size):
                    F[i, k] = V[item, k]
            # an empty working set, and a first visit at the present factors
            working.weights[0] = 1.0
            working.count[0] = 1
            least = 0.0
            for k in range(size):
                w[k] = U[u, k]
            for number in range(max_visits + 1):
                # the plane that is highest at w; what the bias adds to the scores counts as loss
                fill_products(&F[0, 0], size, query.n_items, w, size, g)
                for i in range(query.n_items):
                    g[i] += given[i]
                find_plane(&query, room, g, room.plane.positions, beta, &loss)
                for i in range(query.n_items):
                    loss -= beta[i] * given[i]
                fill_combination(&F[0, 0], size, query.n_items, beta, 1.0, size, vector)
                # the objective at w
                slack = loss
                value = 0.0
                for k in range(size):
                    slack -= vector[k] * w[k]
                    value += 0.5 * w[k] * w[k]
                if slack > 0.0:
                    value += C * slack
                if number == 0:
                    least = value
                    for k in range(size):
                        w[k] = 0.0
                    continue
                if value < least:
                    least = value
                    for k in range(size):
                        U[u, k] = w[k]
                gap = improve(&working, C, w, vector, vector, loss, direction)
                if gap <= tol * value:
                    break
                for k in range(size):
                    w[k] += direction[k]


def visit_users(OracleTargets targets not None, OracleRoom room not None, Planes planes not None,
                const i64[::1] items, const double[:, ::1] U, const i64[::1] users,
                bint with_oracle, const double[::1] given, double loss, double[:, ::1] V):
    """Visit users in turn, moving ``V`` each time; return the sum of their gaps.

    Planes are coefficients of the user's items, so that the inner product of two is that of their
    coefficients times |U_u|^2. A visit costs two products with the factors of these items, the
    oracle, and O(n_items) of the user for each plane.

    Parameters
    ----------
    targets, room, planes, with_oracle, given, loss
        As for the visits of queries: a query is a user.
    items : (n_ratings,)
    U : (n_users, n_factors)
    users
        The numbers of the users to visit.
    V : (n_items, n_factors), changed
    """
    cdef Queries *queries = &targets.queries
    cdef Query query
    cdef WorkingSet working
    cdef i64 n_factors = U.shape[1], k, u, i, j, item, first
    cdef double[:, ::1] of_items = np.empty((2, room.longest))
    cdef double *image = &of_items[0, 0]
    cdef double *direction = &of_items[1, 0]
    cdef double *g = room.plane.scores
    cdef bint is_new = with_oracle or given is not None
    cdef const double *beta = room.plane.beta
    cdef double gap = 0.0, square
    if given is not None:
        beta = &given[0]
    with nogil:
        for k in range(users.shape[0]):
            u = users[k]
            query = query_of(queries, u)
            working = working_set_of(planes, u)
            first = queries.starts[u]
            fill_scores(&items[first], query.n_items, &U[u, 0], &V[0, 0], n_factors, g)
            if with_oracle:
                find_plane(&query, room, g, room.plane.positions, room.plane.beta, &loss)
            if is_new:
                square = 0.0
                for j in range(n_factors):
                    square += U[u, j] * U[u, j]
                for i in range(query.n_items):
                    image[i] = square * beta[i]
            gap += improve(&working, queries.slack_weights[u], g, beta if is_new else NULL, image,
                           loss, direction)
            for i in range(query.n_items):
                if direction[i] != 0.0:
                    item = items[first + i]
                    for j in range(n_factors):
                        V[item, j] += direction[i] * U[u, j]
    return gap
