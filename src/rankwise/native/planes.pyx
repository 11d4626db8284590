"""Visits of queries: score the items, find a plane, take it in, and move the weights of the planes.

A plane of a query is ``loss - <vector, v>``, one side of a constraint of [LS08] eq. (27), and a
visit is a block of its dual (28): that of one query, over the planes of the query's working set.
There is a visit for linear ranking functions on dense rows, on sparse rows, and one for those of a
kernel, whose planes are coefficients of items.
"""

from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t as i32, int64_t as i64

import numpy as np

from rankwise.native.oracles cimport OracleRoom, OracleTargets, Queries, Query, find_plane, query_of

cdef enum:
    MAX_IDLE = 10  # visits that a plane without weight survives


# One query


cdef double improve(WorkingSet *planes, double C, const double *v, const double *vector,
                    const double *image, double loss, double *direction) noexcept nogil:
    """Take a new plane into the working set of a query and move weight towards the best planes.

    Parameters
    ----------
    C
        Weight of the query's slack.
    v : (size,)
        Where the planes are evaluated: the primal weights, or the scores.
    vector : (size,)
        Of the new plane; NULL where there is none.
    image : (size,)
        What the inner product of the new plane with another plane's vector is taken with: its
        vector, or that times a kernel block.
    loss
        Of the new plane.
    direction : (size,), filled
        By how much the sum of all weighted vectors has changed.

    Returns
    -------
    float
        The gap of this query at ``v`` before the steps, as far as the planes show it.
    """
    cdef i64 size = planes.size, count = planes.count[0], slot
    cdef double *values = planes.values
    cdef double best = 0.0, mean = 0.0, value
    # the slack that the known planes show, and their mean under the weights
    values[0] = 0.0
    fill_products(planes.vectors + size, size, count - 1, v, size, values + 1)
    for slot in range(1, count):
        values[slot] = C * (planes.losses[slot] - values[slot])  # [LS08] eq. (27b), dorm-slack
        if values[slot] > best:
            best = values[slot]
        mean += planes.weights[slot] * values[slot]
    # Algorithm 2: the working set grows by a plane that is higher than all it has
    if vector != NULL:
        fill_products(vector, size, 1, v, size, &value)
        value = C * (loss - value)
        if value > best + 1e-12 * fabs(best):
            forget_planes(planes, count == planes.capacity)
            add_plane(planes, vector, image, loss)
            values[planes.count[0] - 1] = best = value
        else:
            forget_planes(planes, False)
    exchange_weights(planes, C * C)
    fill_combination(planes.vectors + size, size, planes.count[0] - 1, planes.change + 1, C, size,
                     direction)
    return best - mean


cdef void add_plane(WorkingSet *planes, const double *vector, const double *image,
                    double loss) noexcept nogil:
    """Put a plane without weight into the next slot."""
    cdef i64 size = planes.size, new = planes.count[0], capacity = planes.capacity, slot, i
    cdef double *own = planes.vectors + new * size
    cdef double *products = planes.gram + new * capacity
    planes.losses[new] = loss
    planes.weights[new] = 0.0
    planes.idle[new] = 1
    for i in range(size):
        own[i] = vector[i]
    products[0] = 0.0
    fill_products(planes.vectors + size, size, new, image, size, products + 1)
    for slot in range(new):
        planes.gram[slot * capacity + new] = products[slot]
    planes.count[0] = new + 1


cdef void exchange_weights(WorkingSet *planes, double square) noexcept nogil:
    """Move weight from the lowest plane that has some to the highest, as long as that helps.

    Each step is exact: [LS08] eq. (28) is quadratic along a pair of planes. Fills the change of
    each weight. The square is that of C.
    """
    cdef i64 count = planes.count[0], capacity = planes.capacity, slot, up, down, _
    cdef double *values = planes.values
    cdef double *weights = planes.weights
    cdef const double *with_up
    cdef const double *with_down
    cdef double highest, lowest, rise, curvature, step, left
    for slot in range(count):
        planes.change[slot] = -weights[slot]
    for _ in range(capacity // 2):
        # the highest plane, and the lowest that has weight
        up = down = 0
        highest = -INFINITY
        lowest = INFINITY
        for slot in range(count):
            if values[slot] > highest:
                up = slot
                highest = values[slot]
            if values[slot] < lowest and weights[slot] > 0.0:
                down = slot
                lowest = values[slot]
        rise = highest - lowest
        if not rise > 1e-14 * fabs(highest):
            break
        # [LS08] eq. (28), dorm-dual, along this pair: step to its maximum, kept feasible
        with_up = planes.gram + up * capacity
        with_down = planes.gram + down * capacity
        curvature = square * (with_up[up] + with_down[down] - 2.0 * with_up[down])
        step = left = weights[down]
        if curvature * step > rise:
            step = rise / curvature
        weights[up] += step
        weights[down] = left - step if step < left else 0.0
        for slot in range(count):
            values[slot] -= square * step * (with_up[slot] - with_down[slot])
    for slot in range(count):
        planes.change[slot] += weights[slot]


cdef void forget_planes(WorkingSet *planes, bint is_full) noexcept nogil:
    """Forget planes that have been without weight for long; a full working set forgets one more."""
    cdef i64 slot
    if is_full:
        join_lightest(planes)
    for slot in range(planes.count[0] - 1, 0, -1):
        planes.idle[slot] = 0 if planes.weights[slot] > 0.0 else planes.idle[slot] + 1
        if planes.idle[slot] > MAX_IDLE:
            remove_plane(planes, slot)


cdef void join_lightest(WorkingSet *planes) noexcept nogil:
    """Replace one of the two lightest planes by their weighted mean, and let the other one go idle.

    No dual quantity changes.
    """
    cdef i64 count = planes.count[0], capacity = planes.capacity, size = planes.size
    cdef i64 first = 1, second = 2, slot, i
    cdef double *weights = planes.weights
    cdef double *gram = planes.gram
    cdef double *own
    cdef double *other
    cdef double total, t
    for slot in range(1, count):
        if weights[slot] < weights[first]:
            second = first
            first = slot
        elif slot != first and weights[slot] < weights[second]:
            second = slot
    total = weights[first] + weights[second]
    t = weights[second] / total if total > 0.0 else 0.0
    own = planes.vectors + first * size
    other = planes.vectors + second * size
    for i in range(size):
        own[i] += t * (other[i] - own[i])
    for slot in range(count):  # their column, then their row
        own = gram + slot * capacity
        own[first] += t * (own[second] - own[first])
    own = gram + first * capacity
    other = gram + second * capacity
    for slot in range(count):
        own[slot] += t * (other[slot] - own[slot])
    planes.losses[first] += t * (planes.losses[second] - planes.losses[first])
    planes.values[first] += t * (planes.values[second] - planes.values[first])
    weights[first] = total
    weights[second] = 0.0
    planes.idle[second] = MAX_IDLE


cdef void remove_plane(WorkingSet *planes, i64 slot) noexcept nogil:
    """Forget a plane; the last one takes its place."""
    cdef i64 last = planes.count[0] - 1, capacity = planes.capacity, size = planes.size, i, k
    cdef double *gram = planes.gram
    for i in range(size):
        planes.vectors[slot * size + i] = planes.vectors[last * size + i]
    for k in range(last):
        gram[slot * capacity + k] = gram[k * capacity + slot] = gram[k * capacity + last]
    gram[slot * capacity + slot] = gram[last * capacity + last]
    planes.losses[slot] = planes.losses[last]
    planes.weights[slot] = planes.weights[last]
    planes.idle[slot] = planes.idle[last]
    planes.values[slot] = planes.values[last]
    planes.losses[last] = planes.weights[last] = 0.0
    planes.count[0] = last


# Visits


def visit_dense(OracleTargets targets not None, OracleRoom room not None, Planes planes not None,
                const double[:, ::1] X, const i64[::1] queries, bint with_oracle,
                const double[::1] given, double loss, double[::1] w):
    """Visit queries in turn, moving ``w`` each time; return the sum of their gaps.

    A visit costs two products with the query's rows and the oracle, and O(size) for each plane.

    Parameters
    ----------
    targets, room
        Of the oracle.
    planes
        The working sets of all queries.
    X : (n_items, n_features)
    queries
        The numbers of the queries.
    with_oracle
        Whether the oracle finds a new plane of each query.
    given : (n_items,) or None
        A new plane found elsewhere, of a single query: the coefficients of its items.
    loss
        Of the given plane.
    w : (n_features,), changed
    """
    cdef Queries *all_queries = &targets.queries
    cdef Query query
    cdef WorkingSet working
    cdef i64 size = w.shape[0], k, q, first, j
    cdef double[:, ::1] points = np.empty((2, size))
    cdef double *vector = &points[0, 0]
    cdef double *direction = &points[1, 0]
    cdef double *g = room.plane.scores
    cdef bint is_new = with_oracle or given is not None
    cdef const double *beta = room.plane.beta
    cdef double gap = 0.0
    if given is not None:
        beta = &given[0]
    with nogil:
        for k in range(queries.shape[0]):
            q = queries[k]
            query = query_of(all_queries, q)
            working = working_set_of(planes, q)
            first = all_queries.starts[q]
            if with_oracle:
                fill_products(&X[first, 0], size, query.n_items, &w[0], size, g)
                find_plane(&query, room, g, room.plane.positions, room.plane.beta, &loss)
            if is_new:
                fill_combination(&X[first, 0], size, query.n_items, beta, 1.0, size, vector)
            gap += improve(&working, all_queries.slack_weights[q], &w[0],
                           vector if is_new else NULL, vector, loss, direction)
            for j in range(size):
                w[j] += direction[j]
    return gap


def visit_sparse(OracleTargets targets not None, OracleRoom room not None, Planes planes not None,
                 rows, const i64[::1] queries, bint with_oracle, const double[::1] given,
                 double loss, double[::1] w):
    """Visit queries with sparse rows in turn; as for dense ones.

    Vectors are as short as the number of features that occur in their query.

    Parameters
    ----------
    rows : QueryRows
    """
    cdef const double[::1] data = rows.data
    cdef const i32[::1] numbers = rows.numbers
    cdef const i64[::1] row_starts = rows.row_starts
    cdef const i64[::1] columns = rows.columns
    cdef const i64[::1] column_starts = rows.column_starts
    cdef Queries *all_queries = &targets.queries
    cdef Query query
    cdef WorkingSet working
    cdef i64 k, q, i, j, p, first, at
    cdef double *g = room.plane.scores
    cdef double[:, ::1] points = np.empty((3, planes.sizes.max() + 1))
    cdef double *local = &points[0, 0]
    cdef double *vector = &points[1, 0]
    cdef double *direction = &points[2, 0]
    cdef bint is_new = with_oracle or given is not None
    cdef const double *beta = room.plane.beta
    cdef double gap = 0.0, total
    if given is not None:
        beta = &given[0]
    with nogil:
        for k in range(queries.shape[0]):
            q = queries[k]
            query = query_of(all_queries, q)
            working = working_set_of(planes, q)
            first = all_queries.starts[q]
            at = column_starts[q]
            for j in range(working.size):
                local[j] = w[columns[at + j]]
                vector[j] = 0.0
            if with_oracle:
                for i in range(query.n_items):
                    total = 0.0
                    for p in range(row_starts[first + i], row_starts[first + i + 1]):
                        total += data[p] * local[numbers[p]]
                    g[i] = total
                find_plane(&query, room, g, room.plane.positions, room.plane.beta, &loss)
            if is_new:
                for i in range(query.n_items):
                    if beta[i] != 0.0:
                        for p in range(row_starts[first + i], row_starts[first + i + 1]):
                            vector[numbers[p]] += beta[i] * data[p]
            gap += improve(&working, all_queries.slack_weights[q], local,
                           vector if is_new else NULL, vector, loss, direction)
            for j in range(working.size):
                w[columns[at + j]] += direction[j]
    return gap


def visit_kernel(OracleTargets targets not None, OracleRoom room not None, Planes planes not None,
                 const double[:, ::1] K, const i64[::1] queries, bint with_oracle,
                 const double[::1] given, double loss, double[::1] dual, double[::1] scores):
    """Visit queries in turn; return the sum of their gaps.

    Keeps the scores of all items equal to K times the dual weights: a visit costs one product of
    the query's rows of K, and n_items^2 of the query for a new plane.

    Parameters
    ----------
    targets, room, planes, queries, with_oracle, given, loss
        As for dense rows.
    K : (n_items, n_items)
    dual, scores : (n_items,), changed
    """
    cdef Queries *all_queries = &targets.queries
    cdef Query query
    cdef WorkingSet working
    cdef i64 n_all = scores.shape[0], k, q, i, first
    cdef double[:, ::1] items = np.empty((2, room.longest))
    cdef double *image = &items[0, 0]
    cdef double *direction = &items[1, 0]
    cdef double *g = room.plane.scores
    cdef bint is_new = with_oracle or given is not None
    cdef const double *beta = room.plane.beta
    cdef double gap = 0.0
    if given is not None:
        beta = &given[0]
    with nogil:
        for k in range(queries.shape[0]):
            q = queries[k]
            query = query_of(all_queries, q)
            working = working_set_of(planes, q)
            first = all_queries.starts[q]
            for i in range(query.n_items):
                g[i] = scores[first + i]
            if with_oracle:
                find_plane(&query, room, g, room.plane.positions, room.plane.beta, &loss)
            if is_new:
                fill_products(&K[first, first], n_all, query.n_items, beta, query.n_items, image)
            gap += improve(&working, all_queries.slack_weights[q], g, beta if is_new else NULL,
                           image, loss, direction)
            for i in range(query.n_items):
                dual[first + i] += direction[i]
            add_rows(&K[first, 0], query.n_items, direction, n_all, &scores[0])
    return gap


cdef void add_rows(const double *rows, i64 n_rows, const double *coefficients, i64 length,
                   double *out) noexcept nogil:
    """Add rows times coefficients, four at a time to touch the sums less often."""
    cdef i64 i = 0, k, n_used
    cdef const double *r[4]
    cdef double d[4]
    while i < n_rows:
        n_used = 0
        while i < n_rows and n_used < 4:
            if coefficients[i] != 0.0:
                r[n_used] = rows + i * length
                d[n_used] = coefficients[i]
                n_used += 1
            i += 1
        if n_used == 0:
            return
        for k in range(n_used, 4):
            r[k] = r[0]
            d[k] = 0.0
        add_four(r[0], r[1], r[2], r[3], d, length, out)


# Arrays


cdef class Planes:
    """The planes ``loss - <vector, v>`` of each query and their dual weights.

    Slot 0 is the plane that is 0 everywhere; the weights of a query sum to 1. Vectors of a query
    have a length of their own and stand one after the other. All slots share the memory that is
    reserved for them, of which only those in use are ever touched.

    Parameters
    ----------
    sizes : (n_queries,)
        Length of each query's vectors.
    capacity
        Number of slots of each query.

    Attributes
    ----------
    vectors
        Of all slots, query by query.
    starts, sizes, counts : (n_queries,)
        Where the slots of each query begin in the vectors; the lengths; how many slots are in use.
    losses, weights, idle : (n_queries, capacity)
        Of each plane; the last one counts the visits since it lost its weight.
    grams : (n_queries, capacity, capacity)
        Inner products of the vectors.
    """

    def __init__(self, sizes, i64 capacity):
        ends = np.cumsum(sizes) * capacity
        cdef double[::1] vectors = np.empty(int(np.sum(sizes)) * capacity)
        cdef i64[::1] counts = np.ones(len(sizes), np.int64)
        cdef double[:, ::1] losses = np.zeros((len(sizes), capacity))
        cdef double[:, ::1] weights = np.zeros((len(sizes), capacity))
        cdef i64[:, ::1] idle = np.zeros((len(sizes), capacity), np.int64)
        cdef double[:, :, ::1] grams = np.zeros((len(sizes), capacity, capacity))
        cdef double[:, ::1] room = np.empty((2, capacity))
        self.starts, self.sizes = ends - sizes * capacity, sizes
        self.first_of_vectors, self.size_of_vectors = self.starts, sizes
        self.vectors, self.counts = np.asarray(vectors), np.asarray(counts)
        self.losses, self.weights = np.asarray(losses), np.asarray(weights)
        self.idle, self.grams = np.asarray(idle), np.asarray(grams)
        self.room = room
        self.weights[:, 0] = 1.0
        self.first.size = self.size_of_vectors[0]
        self.first.capacity = capacity
        self.first.count = &counts[0]
        self.first.vectors = &vectors[0] if vectors.shape[0] else NULL
        self.first.losses = &losses[0, 0]
        self.first.weights = &weights[0, 0]
        self.first.idle = &idle[0, 0]
        self.first.gram = &grams[0, 0, 0]
        self.first.values = &room[0, 0]
        self.first.change = &room[1, 0]


cdef WorkingSet working_set_of(Planes planes, i64 q) noexcept nogil:
    """Return the working set of one query."""
    cdef WorkingSet one = planes.first
    one.size = planes.size_of_vectors[q]
    one.vectors += planes.first_of_vectors[q]
    one.count += q
    one.losses += q * one.capacity
    one.weights += q * one.capacity
    one.idle += q * one.capacity
    one.gram += q * one.capacity * one.capacity
    return one
