"""Hold-outs in closed form: refits without each fold, small definite systems, pairs left out."""

import numpy as np

cimport rankwise.native.registers
from libc.math cimport INFINITY, copysign, fabs, sqrt
from libc.stdint cimport int64_t as i64

cdef extern from *:
    """
    #include <math.h>
    ON_WIDE_REGISTERS static void multiply_symmetric(const double *A, int64_t stride, int64_t n,
                                                     const double *restrict v,
                                                     double *restrict out) {
        for (int64_t j = 0; j < n; j++) {
            const double *restrict row = A + j * stride;
            double s[8] = {0};
            int64_t k = 0;
            out[j] = 0.0;
            for (; k + 8 <= j; k += 8)
                for (int l = 0; l < 8; l++) {
                    s[l] += row[k + l] * v[k + l];
                    out[k + l] += row[k + l] * v[j];
                }
            for (; k < j; k++) {
                s[0] += row[k] * v[k];
                out[k] += row[k] * v[j];
            }
            out[j] += ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
                + row[j] * v[j];
        }
    }
    ON_WIDE_REGISTERS static void subtract_products(double *A, int64_t stride, int64_t n,
                                                    const double *restrict v,
                                                    const double *restrict p) {
        for (int64_t j = 0; j < n; j++) {
            double *restrict row = A + j * stride, vj = v[j], pj = p[j];
            for (int64_t k = 0; k <= j; k++) row[k] -= vj * p[k] + pj * v[k];
        }
    }
    ON_WIDE_REGISTERS static void reflect(double *X, int64_t n, int64_t n_columns, const double *v,
                                          double tau, double *restrict dots) {
        int64_t j = 0;
        for (int64_t a = 0; a < n_columns; a++) dots[a] = 0.0;
        for (; j + 4 <= n; j += 4) { /* dots are read and written a quarter as often */
            const double *restrict x = X + j * n_columns, *restrict y = x + n_columns;
            const double *restrict z = y + n_columns, *restrict w = z + n_columns;
            double p = v[j], q = v[j + 1], r = v[j + 2], s = v[j + 3];
            for (int64_t a = 0; a < n_columns; a++)
                dots[a] = ((dots[a] + p * x[a] + q * y[a]) + r * z[a]) + s * w[a];
        }
        for (; j < n; j++) {
            const double *restrict x = X + j * n_columns;
            for (int64_t a = 0; a < n_columns; a++) dots[a] += v[j] * x[a];
        }
        for (j = 0; j < n; j++) {
            double *restrict x = X + j * n_columns, p = tau * v[j];
            for (int64_t a = 0; a < n_columns; a++) x[a] -= p * dots[a];
        }
    }
    ON_WIDE_REGISTERS static double smallest_share(const double *restrict b, double b_ii,
                                                   const double *restrict diagonal, int64_t n) {
        double smallest = 1.0;
        for (int64_t j = 0; j < n; j++) {
            double share = (b_ii * diagonal[j] - b[j] * b[j]) / (b_ii * diagonal[j]);
            smallest = share < smallest ? share : smallest;
        }
        return smallest;
    }
    ON_WIDE_REGISTERS static void judge_pairs(
            const double *restrict b, double b_ii, const double *restrict diagonal, double a_i,
            const double *restrict a, double y_i, const double *restrict y, double tie, int64_t n,
            double *restrict right, double *restrict total, double *restrict own) {
        double credits[8] = {0}, counts[8] = {0};
        for (int64_t first = 0; first < n; first += 64) { /* of which credits stay in registers */
            double credit[64], counted[64];
            int64_t length = n - first < 64 ? n - first : 64;
            for (int64_t k = 0; k < length; k++) {
                int64_t j = first + k;
                double det = b_ii * diagonal[j] - b[j] * b[j], gap = y_i - y[j];
                /* [PTA09] eq. (38), as one 2 x 2 solve */
                double turn = (diagonal[j] + b[j]) * a_i - (b_ii + b[j]) * a[j];
                double difference = gap * det - turn;
                double value = (difference > 0.0) == (gap > 0.0) ? 1.0 : 0.0;
                value = fabs(difference) <= tie * det ? 0.5 : value;
                credit[k] = gap == 0.0 ? 0.0 : value;
                counted[k] = gap == 0.0 ? 0.0 : 1.0;
                right[j] += credit[k];
                total[j] += counted[k];
            }
            for (int64_t k = length; k < 64; k++) credit[k] = counted[k] = 0.0;
            for (int64_t k = 0; k < 64; k += 8)
                for (int l = 0; l < 8; l++) {
                    credits[l] += credit[k + l];
                    counts[l] += counted[k + l];
                }
        }
        for (int l = 0; l < 8; l++) {
            own[0] += credits[l];
            own[1] += counts[l];
        }
    }
    """
    # out = A v, of a symmetric A whose lower triangle is read once
    void multiply_symmetric(const double *A, i64 stride, i64 n, const double *v,
                            double *out) noexcept nogil
    # A -= v p' + p v', in the lower triangle
    void subtract_products(double *A, i64 stride, i64 n, const double *v,
                           const double *p) noexcept nogil
    # X -= tau v v' X, with room for the products v' X
    void reflect(double *X, i64 n, i64 n_columns, const double *v, double tau,
                 double *dots) noexcept nogil
    # the smallest determinant of b_ii, b_j and diagonal_j, as a share of the product of the two
    double smallest_share(const double *b, double b_ii, const double *diagonal,
                          i64 n) noexcept nogil
    # what `complete_pairs` does for one item i and output, and those before it; own is for i
    void judge_pairs(const double *b, double b_ii, const double *diagonal, double a_i,
                     const double *a, double y_i, const double *y, double tie, i64 n,
                     double *right, double *total, double *own) noexcept nogil


# --- refits without each fold -------------------------------------------------------------------


def refit_without_each(double[:, :, ::1] grams, double[:, :, ::1] rhs, double[:, :, ::1] behind,
                       double[:, :, ::1] behind_rhs, const double[::1] alphas,
                       double[:, :, :, ::1] W, double[:, ::1] worst):
    """Fit without each fold in turn, for every alpha.

    Parameters
    ----------
    grams, rhs : (n_folds, n, n) and (n_folds, n_outputs, n)
        The normal equations of each fold. They become running sums.
    behind, behind_rhs : the same shapes
        The sums over later folds and over what is outside. They are overwritten.
    alphas : (n_alphas,)
    W : (n_folds, n_outputs, n, n_alphas)
        The weights.
    worst : (n_folds, n_alphas)
        The smallest pivots, as a share of the largest diagonal entry.
    """
    cdef Py_ssize_t n_folds = rhs.shape[0], n_outputs = rhs.shape[1], n = rhs.shape[2]
    cdef Py_ssize_t n_alphas = alphas.shape[0], q, k
    cdef double[::1] room = np.empty(2 * n + n * n + n_alphas * (n + 1))
    cdef double *tau
    cdef double *p
    cdef double *V
    cdef double *pivots
    cdef double *dots
    if n_folds == 0 or n == 0 or n_alphas == 0:
        return
    tau = &room[0]
    p = tau + n
    V = p + n
    pivots = V + n * n
    dots = pivots + n * n_alphas
    with nogil:
        for q in range(n_folds):
            # what remains is before the fold, behind it or outside: eq. hold-prefix
            if q > 0:
                add_to(&behind[q, 0, 0], &grams[q - 1, 0, 0], n * n)
                add_to(&grams[q, 0, 0], &grams[q - 1, 0, 0], n * n)
            # eq. hold-tridiagonal
            tridiagonalise(&behind[q, 0, 0], n, V, tau, p)
            for k in range(n_outputs):
                if q > 0:
                    add_to(&behind_rhs[q, k, 0], &rhs[q - 1, k, 0], n)
                    add_to(&rhs[q, k, 0], &rhs[q - 1, k, 0], n)
                shifted_solutions(&behind[q, 0, 0], n, V, tau, &behind_rhs[q, k, 0], &alphas[0],
                                  n_alphas, pivots, dots, &W[q, k, 0, 0], &worst[q, 0])


cdef inline void add_to(double *sums, const double *values, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(length):
        sums[i] += values[i]


cdef void tridiagonalise(double *A, Py_ssize_t n, double *V, double *tau, double *p) noexcept nogil:
    """Reduce a small symmetric matrix to tridiagonal form in place, A = Q T Q'.

    The lower triangle is read and written. The diagonal of A becomes that of T and its first
    subdiagonal T's neighbour; row i of V and tau[i] hold the Householder reflection of step i.
    ``p`` is room for a vector.
    """
    cdef Py_ssize_t i, j, below
    cdef double tail, head, beta, scale, dot, half
    cdef double *v
    cdef double *corner
    for i in range(n - 1):
        v = V + i * n
        below = i + 1
        # the reflection that leaves one entry of column i below the diagonal
        tail = 0.0
        for j in range(i + 2, n):
            v[j] = A[j * n + i]
            tail += v[j] * v[j]
        head = A[below * n + i]
        tau[i] = 0.0
        if tail == 0.0:
            continue
        beta = -copysign(sqrt(head * head + tail), head)
        tau[i] = (beta - head) / beta
        scale = 1.0 / (head - beta)
        v[below] = 1.0
        for j in range(i + 2, n):
            v[j] *= scale
        A[below * n + i] = beta
        # p = tau (A v - (tau / 2) (v' A v) v)
        corner = A + below * n + below
        multiply_symmetric(corner, n, n - below, v + below, p + below)
        dot = 0.0
        for j in range(below, n):
            p[j] *= tau[i]
            dot += p[j] * v[j]
        half = 0.5 * tau[i] * dot
        for j in range(below, n):
            p[j] -= half * v[j]
        # A - v p' - p v'
        subtract_products(corner, n, n - below, v + below, p + below)


cdef void shifted_solutions(const double *A, Py_ssize_t n, const double *V, const double *tau,
                            double *y, const double *alphas, Py_ssize_t n_alphas, double *pivot,
                            double *dots, double *X, double *worst) noexcept nogil:
    """Solve (Q T Q' + alpha I) x = y for every alpha into the columns of X.

    All loops run over the alphas innermost. Sets ``worst`` to the smallest pivot for each alpha,
    as a share of the largest diagonal entry: rounding errors grow by its inverse.

    Parameters
    ----------
    A, V, tau
        From ``tridiagonalise``.
    y : (n,)
        Overwritten.
    alphas, worst : (n_alphas,)
    pivot, dots : (n, n_alphas) and (n_alphas,)
        To work in.
    X : (n, n_alphas)
    """
    cdef Py_ssize_t i, j, a
    cdef double dot, largest, e, d, ratio, yi
    cdef const double *v
    cdef const double *before
    cdef const double *known
    cdef double *own
    cdef double *x
    # Q' y
    for i in range(n - 1):
        if tau[i] != 0.0:
            v = V + i * n
            dot = 0.0
            for j in range(i + 1, n):
                dot += v[j] * y[j]
            for j in range(i + 1, n):
                y[j] -= tau[i] * v[j] * dot
    # forwards: pivots of T + alpha
    largest = fabs(A[0])
    for a in range(n_alphas):
        pivot[a] = A[0] + alphas[a]
        worst[a] = pivot[a]
        X[a] = y[0]
    for i in range(1, n):
        e = A[i * n + i - 1]
        d = A[i * n + i]
        yi = y[i]
        if fabs(d) > largest:
            largest = fabs(d)
        before = pivot + (i - 1) * n_alphas
        own = pivot + i * n_alphas
        known = X + (i - 1) * n_alphas
        x = X + i * n_alphas
        for a in range(n_alphas):
            ratio = e / before[a]
            own[a] = d + alphas[a] - ratio * e
            x[a] = yi - ratio * known[a]
            worst[a] = worst[a] if worst[a] < own[a] else own[a]
    # and backwards
    x = X + (n - 1) * n_alphas
    own = pivot + (n - 1) * n_alphas
    for a in range(n_alphas):
        x[a] /= own[a]
        worst[a] /= largest + alphas[a]
    for i in range(n - 2, -1, -1):
        e = A[(i + 1) * n + i]
        x = X + i * n_alphas
        own = pivot + i * n_alphas
        known = X + (i + 1) * n_alphas
        for a in range(n_alphas):
            x[a] = (x[a] - e * known[a]) / own[a]
    # Q times the solutions
    for i in range(n - 2, -1, -1):
        if tau[i] != 0.0:
            reflect(X + (i + 1) * n_alphas, n - i - 1, n_alphas, V + i * n + i + 1, tau[i], dots)


# --- small definite systems ---------------------------------------------------------------------


cdef double solve_definite(double *A, double *B, Py_ssize_t n, Py_ssize_t n_columns) noexcept nogil:
    """Solve A X = B in place for a small symmetric matrix by its Cholesky factorisation.

    Returns the smallest pivot as a share of the largest diagonal entry; 0 if A is not definite.
    """
    cdef Py_ssize_t i, j, p, c
    cdef double total, largest = 0.0, worst = INFINITY
    for i in range(n):
        if A[i * n + i] > largest:
            largest = A[i * n + i]
    # the factor, in the lower triangle
    for i in range(n):
        for j in range(i + 1):
            total = A[i * n + j]
            for p in range(j):
                total -= A[i * n + p] * A[j * n + p]
            if i > j:
                A[i * n + j] = total / A[j * n + j]
        if not total > 0.0:
            return 0.0
        if total / largest < worst:
            worst = total / largest
        A[i * n + i] = sqrt(total)
    # forwards and backwards, column by column
    for c in range(n_columns):
        for i in range(n):
            total = B[i * n_columns + c]
            for p in range(i):
                total -= A[i * n + p] * B[p * n_columns + c]
            B[i * n_columns + c] = total / A[i * n + i]
        for i in range(n - 1, -1, -1):
            total = B[i * n_columns + c]
            for p in range(i + 1, n):
                total -= A[p * n + i] * B[p * n_columns + c]
            B[i * n_columns + c] = total / A[i * n + i]
    return worst


def solve_each(double[:, :, ::1] A, double[:, :, ::1] B, double[::1] worst):
    """Solve a stack of small definite systems in place.

    ``worst`` gets the smallest pivot of each as a share of its largest diagonal entry; 0 if a
    matrix is not definite.
    """
    cdef Py_ssize_t a
    if A.shape[1] == 0:
        return
    with nogil:
        for a in range(A.shape[0]):
            worst[a] = solve_definite(&A[a, 0, 0], &B[a, 0, 0] if B.shape[2] else NULL, A.shape[1],
                                      B.shape[2])


# --- pairs left out of a complete graph ---------------------------------------------------------


def complete_pairs(const double[:, ::1] B, const double[:, ::1] A, const double[:, ::1] Y,
                   const double[::1] tie, const i64[:, ::1] decisive, const i64[::1] rows,
                   double[:, ::1] right, double[:, ::1] total):
    """Count, for each item and output, its pairs and how many are in the right order if left out.

    Every pair (i, j) with i in ``rows`` and j < i is counted for both its items, except pairs
    of the one or two ``decisive`` items of an output, which leave nothing to learn from.

    With r = B_UU^-1 a_U the residuals of the pair U = {i, j}, the held-out difference is
    ``(y_i - y_j) - (r_i - r_j)``; it is judged after multiplication by the determinant of B_UU.
    The lower triangle of B is read. A tie counts one half. Returns the smallest determinant as a
    share of the product of its diagonal: rounding errors grow by its inverse.
    """
    cdef Py_ssize_t n_items = B.shape[0], n_outputs = Y.shape[1], row, i, k, without
    cdef i64 first, second
    cdef double worst = 1.0
    cdef double[2] own
    cdef const double[::1] diagonal = np.diagonal(B).copy()
    # output by output, so that items follow one another
    cdef const double[:, ::1] a = np.ascontiguousarray(A.T)
    cdef const double[:, ::1] y = np.ascontiguousarray(Y.T)
    cdef double[:, ::1] credits = np.zeros((n_outputs, n_items))
    cdef double[:, ::1] counts = np.zeros((n_outputs, n_items))
    with nogil:
        for row in range(rows.shape[0]):
            i = rows[row]
            worst = min(worst, smallest_share(&B[i, 0], B[i, i], &diagonal[0], i))
            for k in range(n_outputs):
                # the one item before i that decides with it, if not all do
                first = decisive[k, 0]
                second = decisive[k, 1]
                if first == i and (second < 0 or second == i):
                    continue
                without = i
                if first == i:
                    without = second
                elif first >= 0 and (second < 0 or second == i or second == first):
                    without = first
                without = min(without, i)
                own[0] = own[1] = 0.0
                judge_pairs(&B[i, 0], B[i, i], &diagonal[0], a[k, i], &a[k, 0], y[k, i], &y[k, 0],
                            tie[k], without, &credits[k, 0], &counts[k, 0], own)
                if without + 1 < i:
                    judge_pairs(&B[i, 0] + without + 1, B[i, i], &diagonal[without + 1], a[k, i],
                                &a[k, without + 1], y[k, i], &y[k, without + 1], tie[k],
                                i - without - 1, &credits[k, without + 1], &counts[k, without + 1],
                                own)
                credits[k, i] += own[0]
                counts[k, i] += own[1]
    np.asarray(right)[:] += np.asarray(credits).T
    np.asarray(total)[:] += np.asarray(counts).T
    return worst


# --- nested least squares -----------------------------------------------------------------------


def eliminate_panel(double[:, ::1] panel, Py_ssize_t first, Py_ssize_t n_columns,
                    const double[::1] floor, double[::1] pivots):
    """Eliminate the columns of a panel, of which the first has its pivot in row ``first``.

    A column whose pivot is not above its floor is set to zero, with 1 on the diagonal.
    """
    cdef double[::1] column = np.empty(n_columns)
    cdef Py_ssize_t n_rows = panel.shape[0], c, s, i
    cdef double pivot, root, x
    cdef double *row
    with nogil:
        for c in range(n_columns):
            pivot = panel[first + c, c]
            if not pivot > floor[first + c]:
                panel[first + c, c] = 1.0
                for i in range(first + c + 1, n_rows):
                    panel[i, c] = 0.0
                continue
            pivots[first + c] = pivot
            root = sqrt(pivot)
            panel[first + c, c] = root
            for s in range(c + 1, n_columns):
                column[s] = panel[first + s, c] / root
            for i in range(first + c + 1, n_rows):
                row = &panel[i, 0]
                x = row[c] / root
                row[c] = x
                for s in range(c + 1, n_columns):
                    row[s] -= x * column[s]
