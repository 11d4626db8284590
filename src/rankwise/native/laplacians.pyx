"""Laplacians of preference graphs: of pairs that are active, of groups of items, of pairs given."""

import numpy as np

cimport rankwise.native.registers
from libc.math cimport INFINITY
from libc.stdint cimport int64_t as i64

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define PREFETCH(address) __builtin_prefetch(address)
    #else
    #define PREFETCH(address)
    #endif
    """
    void PREFETCH(const double *address) noexcept nogil

cdef extern from *:
    """
    /* for rows in single and in double precision; sums are in double precision */
    #define LOOPS_OVER_ROWS(VALUE) \\
    ON_WIDE_REGISTERS static void add_deviations_##VALUE( \\
            const VALUE *V, int64_t n_rows, int64_t n_columns, const int64_t *group, \\
            const double *weight, int64_t *first, double *sums) { \\
        for (int64_t i = 0; i < n_rows; i++) { \\
            int64_t g = group[i]; \\
            if (g < 0) continue; \\
            if (first[g] < 0) { first[g] = i; continue; } \\
            double w = weight[i], *restrict sum = sums + g * n_columns; \\
            const VALUE *restrict row = V + i * n_columns; \\
            const VALUE *restrict start = V + first[g] * n_columns; \\
            for (int64_t j = 0; j < n_columns; j++) sum[j] += w * ((double)row[j] - start[j]); \\
        } \\
    } \\
    ON_WIDE_REGISTERS static void fill_centred_##VALUE( \\
            const VALUE *V, int64_t n_rows, int64_t n_columns, const double *means, \\
            const int64_t *group, const double *scale, double *out) { \\
        for (int64_t i = 0; i < n_rows; i++) { \\
            double c = scale[i], *restrict centred = out + i * n_columns; \\
            const VALUE *restrict row = V + i * n_columns; \\
            if (group[i] < 0) { \\
                for (int64_t j = 0; j < n_columns; j++) centred[j] = 0.0; \\
                continue; \\
            } \\
            const double *restrict mean = means + group[i] * n_columns; \\
            for (int64_t j = 0; j < n_columns; j++) centred[j] = c * (row[j] - mean[j]); \\
        } \\
    } \\
    ON_WIDE_REGISTERS static void add_anchored_##VALUE( \\
            const VALUE *Z, int64_t n_rows, int64_t n_columns, const double *R, \\
            int64_t n_outputs, int64_t row_step, int64_t step, const int64_t *anchor, \\
            double *out) { \\
        for (int64_t i = 0; i < n_rows; i++) { \\
            const VALUE *restrict row = Z + i * n_columns; \\
            const VALUE *restrict start = Z + anchor[i] * n_columns; \\
            for (int64_t k = 0; k < n_outputs; k++) { \\
                double r = R[i * row_step + k * step], *restrict sum = out + k * n_columns; \\
                if (r != 0.0) \\
                    for (int64_t j = 0; j < n_columns; j++) \\
                        sum[j] += r * ((double)row[j] - start[j]); \\
            } \\
        } \\
    } \\
    ON_WIDE_REGISTERS static void add_flows_##VALUE( \\
            const VALUE *V, int64_t n_columns, const int64_t *first, int64_t step, \\
            const int64_t *second, int64_t other_step, const double *weight, int64_t weight_step, \\
            int64_t n_pairs, int64_t tail, double *out) { \\
        for (int64_t pair = 0; pair < n_pairs; pair++) { \\
            int64_t i = first[pair * step], j = second[pair * other_step]; \\
            int64_t end = (i > j ? i : j) + tail; \\
            double w = weight[pair * weight_step]; \\
            const VALUE *restrict row = V + i * n_columns; \\
            const VALUE *restrict other = V + j * n_columns; \\
            double *restrict gain = out + i * n_columns; \\
            double *restrict loss = out + j * n_columns; \\
            if (i == j) continue; /* nothing flows */ \\
            if (end > n_columns) end = n_columns; \\
            for (int64_t k = 0; k < end; k++) { \\
                double flow = w * ((double)row[k] - other[k]); \\
                gain[k] += flow; \\
                loss[k] -= flow; \\
            } \\
        } \\
    }
    LOOPS_OVER_ROWS(float)
    LOOPS_OVER_ROWS(double)

    ON_WIDE_REGISTERS static void fill_squared_distances(
            const double *V, int64_t n_columns, const int64_t *first, int64_t step,
            const int64_t *second, int64_t other_step, int64_t n_pairs, double *out) {
        for (int64_t pair = 0; pair < n_pairs; pair++) {
            const double *a = V + first[pair * step] * n_columns;
            const double *b = V + second[pair * other_step] * n_columns;
            double s[8] = {0}, rest = 0.0, difference;
            int64_t k = 0;
            for (; k + 8 <= n_columns; k += 8)
                for (int j = 0; j < 8; j++) {
                    difference = a[k + j] - b[k + j];
                    s[j] += difference * difference;
                }
            for (; k < n_columns; k++) {
                difference = a[k] - b[k];
                rest += difference * difference;
            }
            out[pair] = rest + (((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7])));
        }
    }
    """
    # sums[g] += weight_i (V_i - the first row of group g), which is set where it is -1
    void add_deviations_float(const float *V, i64 n_rows, i64 n_columns, const i64 *group,
                              const double *weight, i64 *first, double *sums) noexcept nogil
    void add_deviations_double(const double *V, i64 n_rows, i64 n_columns, const i64 *group,
                               const double *weight, i64 *first, double *sums) noexcept nogil
    # out_i = scale_i (V_i - the mean of its group), 0 for group -1
    void fill_centred_float(const float *V, i64 n_rows, i64 n_columns, const double *means,
                            const i64 *group, const double *scale, double *out) noexcept nogil
    void fill_centred_double(const double *V, i64 n_rows, i64 n_columns, const double *means,
                             const i64 *group, const double *scale, double *out) noexcept nogil
    # out += R' (Z - Z[anchor])
    void add_anchored_float(const float *Z, i64 n_rows, i64 n_columns, const double *R,
                            i64 n_outputs, i64 row_step, i64 step, const i64 *anchor,
                            double *out) noexcept nogil
    void add_anchored_double(const double *Z, i64 n_rows, i64 n_columns, const double *R,
                             i64 n_outputs, i64 row_step, i64 step, const i64 *anchor,
                             double *out) noexcept nogil
    # out = L V; the numbers of the pairs, and their weights, are so many steps apart
    void add_flows_float(const float *V, i64 n_columns, const i64 *first, i64 step,
                         const i64 *second, i64 other_step, const double *weight, i64 weight_step,
                         i64 n_pairs, i64 tail, double *out) noexcept nogil
    void add_flows_double(const double *V, i64 n_columns, const i64 *first, i64 step,
                          const i64 *second, i64 other_step, const double *weight, i64 weight_step,
                          i64 n_pairs, i64 tail, double *out) noexcept nogil
    # |V_i - V_j|^2 for the pairs, eight sums side by side
    void fill_squared_distances(const double *V, i64 n_columns, const i64 *first, i64 step,
                                const i64 *second, i64 other_step, i64 n_pairs,
                                double *out) noexcept nogil

ctypedef fused Value:
    float
    double


# --- pairs that grades make: sweeps over items sorted by key ------------------------------------


def find_band_start(const double[::1] keys, const i64[::1] starts, double margin):
    """Return the first position of each one's query with a key above its own less the margin."""
    cdef i64[::1] band_start = np.empty(keys.shape[0], dtype=np.int64)
    cdef Py_ssize_t q, p, r, end
    with nogil:
        for q in range(starts.shape[0] - 1):
            r = starts[q]
            end = starts[q + 1]
            for p in range(starts[q], end):
                while r < end and keys[r] <= keys[p] - margin:
                    r += 1
                band_start[p] = r
    return np.asarray(band_start)


def find_joined(const double[::1] keys, const i64[::1] grade, const i64[::1] n_grades,
                const i64[::1] starts, double margin):
    """Return the positions that are in an active pair, in any order of the keys; O(n).

    A pair of positions (p, r), the grade of p above that of r, is active here if the key of r is
    above that of p less the margin. So r is in one if that holds for the lowest key of a higher
    grade, and p if it holds for the highest key of a lower one.
    """
    cdef Py_ssize_t room = largest(n_grades) + 1, n_queries = n_grades.shape[0], n_found = 0
    cdef double[::1] lowest = np.empty(room)
    cdef double[::1] highest = np.empty(room)
    cdef i64[::1] found = np.empty(keys.shape[0], dtype=np.int64)
    cdef Py_ssize_t q, p, g, k
    cdef double key
    with nogil:
        for q in range(n_queries):
            k = n_grades[q]
            # the lowest key of each grade, and the highest of the grade before
            for g in range(k + 1):
                lowest[g] = INFINITY
                highest[g] = -INFINITY
            for p in range(starts[q], starts[q + 1]):
                g = grade[p]
                key = keys[p]
                if key < lowest[g]:
                    lowest[g] = key
                if key > highest[g + 1]:
                    highest[g + 1] = key
            # the lowest of this grade and all higher ones, the highest of all lower ones
            for g in range(k - 1, -1, -1):
                if lowest[g + 1] < lowest[g]:
                    lowest[g] = lowest[g + 1]
            for g in range(1, k + 1):
                if highest[g - 1] > highest[g]:
                    highest[g] = highest[g - 1]
            for p in range(starts[q], starts[q + 1]):
                g = grade[p]
                if keys[p] > lowest[g + 1] - margin or highest[g] > keys[p] - margin:
                    found[n_found] = p
                    n_found += 1
    return np.asarray(found)[:n_found]


cdef Py_ssize_t largest(const i64[::1] numbers) noexcept nogil:
    """Return the largest of some numbers, 0 if there are none above it."""
    cdef Py_ssize_t i
    cdef i64 most = 0
    for i in range(numbers.shape[0]):
        if numbers[i] > most:
            most = numbers[i]
    return most


# A Fenwick tree over the grades: nodes 1 to k - 1, of which sums of prefixes are taken.


cdef inline void add_row(double *tree, Py_ssize_t node, Py_ssize_t k, double sign,
                         const double *row, Py_ssize_t n_columns) noexcept nogil:
    """Add a row at a node from 1; sums never reach the last one, k."""
    cdef Py_ssize_t j
    cdef double *sums
    while node < k:
        sums = tree + node * n_columns
        for j in range(n_columns):
            sums[j] += sign * row[j]
        node += node & -node


cdef inline void add_prefix(const double *tree, Py_ssize_t node, double *out,
                            Py_ssize_t n_columns) noexcept nogil:
    """Add the sums over the nodes 1 to ``node`` to a row."""
    cdef Py_ssize_t j
    cdef const double *sums
    while node > 0:
        sums = tree + node * n_columns
        for j in range(n_columns):
            out[j] += sums[j]
        node &= node - 1


cdef inline void add_value(double *tree, Py_ssize_t node, Py_ssize_t k,
                           double value) noexcept nogil:
    while node < k:
        tree[node] += value
        node += node & -node


cdef inline double prefix_sum(const double *tree, Py_ssize_t node) noexcept nogil:
    cdef double total = 0.0
    while node > 0:
        total += tree[node]
        node &= node - 1
    return total


cdef inline void clear(double *tree, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(length):
        tree[i] = 0.0


def sum_partners(const double[:, ::1] values, const i64[::1] grade, const i64[::1] n_grades,
                 const i64[::1] starts, const i64[::1] band_start, const i64[::1] band_stop,
                 Py_ssize_t first, Py_ssize_t last, double[:, ::1] below, double[:, ::1] above):
    """Add up rows of ``values`` over the active partners of every position of some queries.

    ``below`` gets the sums over partners of lower grade, ``above`` those over partners of higher
    grade; both may be one array. These three have a row for each position of the queries first to
    last, the others an entry for each position. Two sweeps with a Fenwick tree over the grades.
    """
    if values.shape[0] == 0 or values.shape[1] == 0:
        return
    cdef Py_ssize_t n_columns = values.shape[1]
    cdef double[::1] room = np.empty((largest(n_grades[first:last]) + 1) * n_columns)
    cdef double *tree = &room[0]
    cdef Py_ssize_t base = starts[first], q, p, begin, end, k, low, high
    with nogil:
        for q in range(first, last):
            begin = starts[q]
            end = starts[q + 1]
            k = n_grades[q]
            if k < 2 or begin == end:
                continue
            # from the last position to the first: partners of lower grade
            clear(tree, k * n_columns)
            low = high = end
            for p in range(end - 1, begin - 1, -1):
                while low > band_start[p]:
                    low -= 1
                    add_row(tree, grade[low] + 1, k, 1.0, &values[low - base, 0], n_columns)
                while high > band_stop[p]:
                    high -= 1
                    add_row(tree, grade[high] + 1, k, -1.0, &values[high - base, 0], n_columns)
                add_prefix(tree, grade[p], &below[p - base, 0], n_columns)
            # from the first to the last: partners of higher grade
            clear(tree, k * n_columns)
            low = high = begin
            for p in range(begin, end):
                while low < end and band_start[low] <= p:
                    add_row(tree, k - grade[low], k, 1.0, &values[low - base, 0], n_columns)
                    low += 1
                while high < end and band_stop[high] <= p:
                    add_row(tree, k - grade[high], k, -1.0, &values[high - base, 0], n_columns)
                    high += 1
                add_prefix(tree, k - 1 - grade[p], &above[p - base, 0], n_columns)


def apply_band(const double[:] v, const i64[::1] item, const i64[::1] grade,
               const double[::1] weight, const double[::1] share, const double[::1] degree,
               const i64[::1] n_grades, const i64[::1] starts, const i64[::1] band_start,
               const i64[::1] band_stop, double[::1] out):
    """Fill the product of the Laplacian of the active pairs with a vector of the items.

    What `sum_partners` does for rows of values, for one value and in one go.
    """
    cdef double[::1] room = np.empty(largest(n_grades) + 1)
    cdef double[::1] values = np.empty(item.shape[0])  # of one query at a time
    cdef double *tree = &room[0]
    cdef Py_ssize_t q, p, k, begin, end, low, high
    cdef double own
    with nogil:
        for q in range(n_grades.shape[0]):
            begin = starts[q]
            end = starts[q + 1]
            k = n_grades[q]
            # the degree of each item times its own value
            for p in range(begin, end):
                own = v[item[p]]
                values[p - begin] = weight[p] * own
                out[item[p]] = degree[p] * own
            # less the values of its partners of lower grade
            clear(tree, k)
            low = high = end
            for p in range(end - 1, begin - 1, -1):
                while low > band_start[p]:
                    low -= 1
                    add_value(tree, grade[low] + 1, k, values[low - begin])
                while high > band_stop[p]:
                    high -= 1
                    add_value(tree, grade[high] + 1, k, -values[high - begin])
                out[item[p]] -= share[p] * prefix_sum(tree, grade[p])
            # and of those of higher grade
            clear(tree, k)
            low = high = begin
            for p in range(begin, end):
                while low < end and band_start[low] <= p:
                    add_value(tree, k - grade[low], k, values[low - begin])
                    low += 1
                while high < end and band_stop[high] <= p:
                    add_value(tree, k - grade[high], k, -values[high - begin])
                    high += 1
                out[item[p]] -= share[p] * prefix_sum(tree, k - 1 - grade[p])


def add_band(const i64[::1] item, const i64[::1] grade, const double[::1] weight,
             const double[::1] share, const double[::1] degree, const i64[::1] band_start,
             const i64[::1] band_stop, double[:, :] out):
    """Add the Laplacian of the active pairs to the lower triangle of ``out``."""
    cdef Py_ssize_t p, r, i, j
    cdef i64 own
    cdef double s
    with nogil:
        for p in range(item.shape[0]):
            i = item[p]
            own = grade[p]
            s = share[p]
            out[i, i] += degree[p]
            for r in range(band_start[p], band_stop[p]):
                if grade[r] < own:
                    j = item[r]
                    if i > j:
                        out[i, j] -= s * weight[r]
                    else:
                        out[j, i] -= s * weight[r]


# --- groups of items ----------------------------------------------------------------------------


def group_means(const Value[:, ::1] V, const i64[::1] group, const double[::1] weight,
                const double[::1] mass):
    """Return the weighted mean of each group of rows; rows of group -1 take no part.

    The first row of a group is subtracted before summing, so that an offset costs no digits.
    """
    cdef i64[::1] first = np.full(mass.shape[0], -1, dtype=np.int64)
    cdef double[:, ::1] out = np.zeros((mass.shape[0], V.shape[1]))
    cdef Py_ssize_t j, g, f, n_rows = V.shape[0], n_columns = V.shape[1]
    if n_columns == 0 or n_rows == 0 or mass.shape[0] == 0:
        return np.asarray(out)
    with nogil:
        if Value is float:
            add_deviations_float(&V[0, 0], n_rows, n_columns, &group[0], &weight[0], &first[0],
                                 &out[0, 0])
        else:
            add_deviations_double(&V[0, 0], n_rows, n_columns, &group[0], &weight[0], &first[0],
                                  &out[0, 0])
        for g in range(mass.shape[0]):
            f = first[g]
            if f >= 0:
                for j in range(n_columns):
                    out[g, j] = V[f, j] + out[g, j] / mass[g]
    return np.asarray(out)


def centred_rows(const Value[:, ::1] V, const double[:, ::1] means, const i64[::1] group,
                 const double[::1] scale, double[:, ::1] out):
    """Fill in ``scale * (row - mean of its group)``, and zeros for rows of group -1."""
    cdef Py_ssize_t n_rows = V.shape[0], n_columns = V.shape[1]
    cdef const double *mean = &means[0, 0] if means.shape[0] and n_columns else NULL
    if n_columns == 0 or n_rows == 0:
        return
    with nogil:
        if Value is float:
            fill_centred_float(&V[0, 0], n_rows, n_columns, mean, &group[0], &scale[0], &out[0, 0])
        else:
            fill_centred_double(&V[0, 0], n_rows, n_columns, mean, &group[0], &scale[0],
                                &out[0, 0])


def reflect_rows(const double[:, ::1] V, const i64[::1] rows, const i64[::1] starts,
                 const double[::1] axis, const double[::1] scale, const i64[::1] groups,
                 const i64[::1] begins, double[:, ::1] out):
    """Reflect groups of rows so that the mean of each falls on its first one, which is left out.

    The rows of group g are ``rows[starts[g]:starts[g + 1]]``; what becomes of those of group
    ``groups[k]`` goes to ``out`` from row ``begins[k]``. The first of them is subtracted from
    the others before anything is summed, which is exact for columns that are nearly constant.
    """
    cdef Py_ssize_t k, p, j, begin, end, n_columns = V.shape[1]
    cdef double share, c
    cdef double[::1] room = np.empty(n_columns)
    cdef double *projection
    cdef double *reflected
    cdef const double *row
    cdef const double *first
    if n_columns == 0:
        return
    projection = &room[0]
    with nogil:
        for k in range(groups.shape[0]):
            begin = starts[groups[k]]
            end = starts[groups[k] + 1]
            first = &V[rows[begin], 0]
            # what the rows have along the axis of the reflection
            clear(projection, n_columns)
            for p in range(begin + 1, end):
                share = axis[p] * axis[p] / (1.0 + axis[begin])
                row = &V[rows[p], 0]
                if p + 2 < end:  # rows in any order are not foreseen by the processor
                    for j in range(0, n_columns, 8):
                        PREFETCH(&V[rows[p + 2], j])
                for j in range(n_columns):
                    projection[j] += share * (row[j] - first[j])
            # is taken off, eq. rls-householder
            for p in range(begin + 1, end):
                c = scale[p]
                row = &V[rows[p], 0]
                reflected = &out[begins[k] + p - begin - 1, 0]
                for j in range(n_columns):
                    reflected[j] = c * (row[j] - first[j] - projection[j])


def anchored_product(const Value[:, ::1] Z, const double[:, :] R, const i64[::1] anchor,
                     double[:, ::1] out):
    """Add ``R.T @ (Z - Z[anchor])`` to ``out`` in one pass.

    This is ``R.T @ Z`` when R sums to zero over the items of each anchor, without the rounding
    errors of offsets, and exactly zero for columns that are constant over them.
    """
    cdef Py_ssize_t n_rows = Z.shape[0], n_columns = Z.shape[1], n_outputs = R.shape[1]
    cdef Py_ssize_t row_step = R.strides[0] // <Py_ssize_t>sizeof(double)
    cdef Py_ssize_t step = R.strides[1] // <Py_ssize_t>sizeof(double)
    if n_columns == 0 or n_rows == 0 or n_outputs == 0:
        return
    with nogil:
        if Value is float:
            add_anchored_float(&Z[0, 0], n_rows, n_columns, &R[0, 0], n_outputs, row_step, step,
                               &anchor[0], &out[0, 0])
        else:
            add_anchored_double(&Z[0, 0], n_rows, n_columns, &R[0, 0], n_outputs, row_step, step,
                                &anchor[0], &out[0, 0])


# --- pairs given one by one ---------------------------------------------------------------------


def laplacian_product(const Value[:, ::1] V, const i64[:] first, const i64[:] second,
                      const double[:] weight, Py_ssize_t tail):
    """Return L V for the Laplacian L of weighted pairs, without L.

    Row i of V is zero from column ``i + tail`` on, which halves the work for a square V.
    """
    cdef double[:, ::1] product = np.zeros((V.shape[0], V.shape[1]))
    cdef Py_ssize_t n_pairs = first.shape[0], n_columns = V.shape[1]
    cdef Py_ssize_t step = first.strides[0] // <Py_ssize_t>sizeof(i64)
    cdef Py_ssize_t other_step = second.strides[0] // <Py_ssize_t>sizeof(i64)
    cdef Py_ssize_t weight_step = weight.strides[0] // <Py_ssize_t>sizeof(double)
    if n_columns == 0 or n_pairs == 0:
        return np.asarray(product)
    with nogil:
        if Value is float:
            add_flows_float(&V[0, 0], n_columns, &first[0], step, &second[0], other_step,
                            &weight[0], weight_step, n_pairs, tail, &product[0, 0])
        else:
            add_flows_double(&V[0, 0], n_columns, &first[0], step, &second[0], other_step,
                             &weight[0], weight_step, n_pairs, tail, &product[0, 0])
    return np.asarray(product)


def squared_distances(const double[:, ::1] V, const i64[:] first, const i64[:] second):
    """Return |V_i - V_j|^2 for every pair (i, j) of rows. O(n_pairs n_columns).

    Eight sums are added up side by side, so that they run in vector registers.
    """
    cdef double[::1] distances = np.empty(first.shape[0])
    cdef Py_ssize_t n_pairs = first.shape[0], n_columns = V.shape[1]
    cdef Py_ssize_t step = first.strides[0] // <Py_ssize_t>sizeof(i64)
    cdef Py_ssize_t other_step = second.strides[0] // <Py_ssize_t>sizeof(i64)
    if n_columns == 0 or n_pairs == 0:
        return np.zeros(n_pairs)
    with nogil:
        fill_squared_distances(&V[0, 0], n_columns, &first[0], step, &second[0], other_step,
                               n_pairs, &distances[0])
    return np.asarray(distances)
