"""Compiled loops of the hold-outs."""

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import CALLED_BY_KERNELS, MAKES_NO_ARRAYS, njit

ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
"""Indices are unsigned: numba then needs no test for negative ones, which doubles the speed."""


@njit(**MAKES_NO_ARRAYS)
def refit_without_each(
    grams: FloatArray,
    rhs: FloatArray,
    behind: FloatArray,
    behind_rhs: FloatArray,
    alphas: FloatArray,
    room: FloatArray,
    V: FloatArray,
    pivots: FloatArray,
    W: FloatArray,
    worst: FloatArray,
) -> None:
    """Fit without each fold in turn, for every alpha.

    Parameters
    ----------
    grams, rhs : (n_folds, n, n) and (n_folds, n_outputs, n)
        The normal equations of each fold. They become running sums.
    behind, behind_rhs : the same shapes
        The sums over later folds and over what is outside. They are overwritten.
    alphas : (n_alphas,)
    room, V, pivots : (3, max(n, n_alphas)), (n, n) and (n, n_alphas)
        To work in.
    W : (n_folds, n_outputs, n, n_alphas)
        The weights.
    worst : (n_folds, n_alphas)
        The smallest pivots, as in ``_shifted_solutions``.
    """
    n_folds, n_outputs, n = rhs.shape
    tau, y = room[1], room[2]
    for q in range(n_folds):
        for i in range(n):
            for j in range(n):
                if q > 0:
                    behind[q, i, j] += grams[q - 1, i, j]
                    grams[q, i, j] += grams[q - 1, i, j]
        _tridiagonalise(behind[q], V, tau, room[0])
        for k in range(n_outputs):
            for i in range(n):
                if q > 0:
                    behind_rhs[q, k, i] += rhs[q - 1, k, i]
                    rhs[q, k, i] += rhs[q - 1, k, i]
                y[i] = behind_rhs[q, k, i]
            _shifted_solutions(behind[q], V, tau, y, alphas, pivots, room[0], W[q, k], worst[q])


@njit(
    **CALLED_BY_KERNELS,
    fastmath={"reassoc", "contract"},  # sums are reordered to run on vector units
    apart="void(float64[:, ::1], float64[:, ::1], float64[::1], float64[::1])",
)
def _tridiagonalise(A: FloatArray, V: FloatArray, tau: FloatArray, p: FloatArray) -> None:
    """Reduce a small symmetric matrix to tridiagonal form in place, A = Q T Q'.

    The lower triangle is read and written. The diagonal of A becomes that of T and its first
    subdiagonal T's neighbour; row i of V and tau[i] hold the Householder reflection of step i.
    ``p`` is room for a vector.
    """
    n = np.uint64(A.shape[0])
    for i in range(n - ONE):
        tail = 0.0
        for j in range(i + TWO, n):
            V[i, j] = A[j, i]
            tail += V[i, j] * V[i, j]
        head = A[i + ONE, i]
        tau[i] = 0.0
        if tail == 0.0:
            continue
        beta = -np.copysign(np.sqrt(head * head + tail), head)
        tau[i] = (beta - head) / beta
        scale = 1.0 / (head - beta)
        V[i, i + ONE] = 1.0
        for j in range(i + TWO, n):
            V[i, j] *= scale
        A[i + ONE, i] = beta
        for j in range(i + ONE, n):
            p[j] = 0.0
        for j in range(i + ONE, n):
            vj, total = V[i, j], 0.0
            for k in range(i + ONE, j):
                total += A[j, k] * V[i, k]
                p[k] += A[j, k] * vj
            p[j] += total + A[j, j] * vj
        dot = 0.0
        for j in range(i + ONE, n):
            p[j] *= tau[i]
            dot += p[j] * V[i, j]
        half = 0.5 * tau[i] * dot
        for j in range(i + ONE, n):
            p[j] -= half * V[i, j]
        for j in range(i + ONE, n):
            vj, pj = V[i, j], p[j]
            for k in range(i + ONE, j + ONE):
                A[j, k] -= vj * p[k] + pj * V[i, k]


@njit(**CALLED_BY_KERNELS)
def _reflect(X: FloatArray, V: FloatArray, tau: FloatArray, i: np.uint64, dot: FloatArray) -> None:
    """Apply the reflection of step i to the columns of X."""
    n, n_columns = np.uint64(X.shape[0]), np.uint64(X.shape[1])
    for a in range(n_columns):
        dot[a] = 0.0
    fours = (n - i - ONE) & ~THREE
    for j in range(i + ONE, i + ONE + fours, FOUR):  # dot is read and written a quarter as often
        p, q, r, s = V[i, j], V[i, j + ONE], V[i, j + TWO], V[i, j + THREE]
        for a in range(n_columns):
            two = dot[a] + p * X[j, a] + q * X[j + ONE, a]
            dot[a] = two + r * X[j + TWO, a] + s * X[j + THREE, a]
    for j in range(i + ONE + fours, n):
        vj = V[i, j]
        for a in range(n_columns):
            dot[a] += vj * X[j, a]
    for j in range(i + ONE, n):
        vj = tau[i] * V[i, j]
        for a in range(n_columns):
            X[j, a] -= vj * dot[a]


@njit(
    **CALLED_BY_KERNELS,
    apart=(
        "void(float64[:, ::1], float64[:, ::1], float64[::1], float64[::1], float64[::1], "
        "float64[:, ::1], float64[::1], float64[:, ::1], float64[::1])"
    ),
)
def _shifted_solutions(
    A: FloatArray,
    V: FloatArray,
    tau: FloatArray,
    y: FloatArray,
    alphas: FloatArray,
    pivot: FloatArray,
    room: FloatArray,
    X: FloatArray,
    worst: FloatArray,
) -> None:
    """Solve (Q T Q' + alpha I) x = y for every alpha into the columns of X.

    All loops run over the alphas innermost. Sets ``worst`` to the smallest pivot for each alpha,
    as a share of the largest diagonal entry: rounding errors grow by its inverse.

    Parameters
    ----------
    A, V, tau
        From ``_tridiagonalise``.
    y : (n,)
        Overwritten.
    alphas, worst : (n_alphas,)
    pivot, room : (n, n_alphas) and (n_alphas,) or longer
        To work in.
    X : (n, n_alphas)
    """
    n, n_alphas = np.uint64(X.shape[0]), np.uint64(X.shape[1])
    for i in range(n - ONE):
        if tau[i] != 0.0:
            dot = 0.0
            for j in range(i + ONE, n):
                dot += V[i, j] * y[j]
            for j in range(i + ONE, n):
                y[j] -= tau[i] * V[i, j] * dot
    largest = abs(A[0, 0])
    for a in range(n_alphas):
        pivot[0, a] = A[0, 0] + alphas[a]
        worst[a] = pivot[0, a]
        X[0, a] = y[0]
    for i in range(ONE, n):
        e, d, yi = A[i, i - ONE], A[i, i], y[i]
        if abs(d) > largest:
            largest = abs(d)
        for a in range(n_alphas):
            ratio = e / pivot[i - ONE, a]
            pivot[i, a] = d + alphas[a] - ratio * e
            X[i, a] = yi - ratio * X[i - ONE, a]
            worst[a] = worst[a] if worst[a] < pivot[i, a] else pivot[i, a]
    for a in range(n_alphas):
        X[n - ONE, a] /= pivot[n - ONE, a]
        worst[a] /= largest + alphas[a]
    for back in range(ONE, n):
        p = n - ONE - back
        e = A[p + ONE, p]
        for a in range(n_alphas):
            X[p, a] = (X[p, a] - e * X[p + ONE, a]) / pivot[p, a]
    for back in range(ONE, n):
        p = n - ONE - back
        if tau[p] != 0.0:
            _reflect(X, V, tau, p, room)


@njit(**MAKES_NO_ARRAYS)
def solve_definite(A: FloatArray, B: FloatArray) -> float:
    """Solve A X = B in place for a small symmetric matrix by its Cholesky factorisation.

    Returns the smallest pivot as a share of the largest diagonal entry; 0 if A is not definite.
    """
    n, k = B.shape
    largest, worst = 0.0, np.inf
    for i in range(n):
        largest = max(largest, A[i, i])
    for i in range(n):
        for j in range(i + 1):
            total = A[i, j]
            for p in range(j):
                total -= A[i, p] * A[j, p]
            if i > j:
                A[i, j] = total / A[j, j]
        if not total > 0.0:
            return 0.0
        worst = min(worst, total / largest)
        A[i, i] = np.sqrt(total)
    for c in range(k):
        for i in range(n):
            total = B[i, c]
            for p in range(i):
                total -= A[i, p] * B[p, c]
            B[i, c] = total / A[i, i]
        for i in range(n - 1, -1, -1):
            total = B[i, c]
            for p in range(i + 1, n):
                total -= A[p, i] * B[p, c]
            B[i, c] = total / A[i, i]
    return worst


@njit(**MAKES_NO_ARRAYS)
def solve_each(A: FloatArray, B: FloatArray, worst: FloatArray) -> None:
    """Solve a stack of small definite systems in place; see `solve_definite`."""
    for a in range(len(A)):
        worst[a] = solve_definite(A[a], B[a])


@njit(cache=True, nogil=True, error_model="numpy")
def weighted_blocks(V: FloatArray, weights: FloatArray, n_rows: int) -> FloatArray:
    """Return ``V diag(w) V'`` for every column w of ``weights``, shape (n_weights, n, n).

    The elementwise products of every two rows, ``n_rows`` of them at a time, are multiplied by all
    weights in one product.
    """
    n, r = V.shape
    n_weights = weights.shape[1]
    out = np.empty((n_weights, n, n))
    products = np.empty((min(n_rows, n * (n + 1) // 2), r))
    sums = np.empty((len(products), n_weights))
    row, first_i, first_j = 0, 0, 0
    for i in range(n):
        for j in range(i + 1):
            for k in range(r):
                products[row, k] = V[i, k] * V[j, k]
            row += 1
            if row < len(products) and not (i == n - 1 and j == i):
                continue
            np.dot(products[:row], weights, sums[:row])
            p, q = first_i, first_j
            for done in range(row):
                for a in range(n_weights):
                    out[a, p, q] = sums[done, a]
                    out[a, q, p] = sums[done, a]
                q += 1
                if q > p:
                    p, q = p + 1, 0
            row, first_i, first_j = 0, p, q
    return out


@njit(**MAKES_NO_ARRAYS)
def complete_pairs(
    B: FloatArray,
    A: FloatArray,
    Y: FloatArray,
    tie: FloatArray,
    decisive: IntArray,
    rows: IntArray,
    right: FloatArray,
    total: FloatArray,
) -> float:
    """Count, for each item and output, its pairs and how many are in the right order if left out.

    Every pair (i, j) with i in ``rows`` and j < i is counted for both its items, except pairs
    of the one or two ``decisive`` items of an output, which leave nothing to learn from.

    With r = B_UU^-1 a_U the residuals of the pair U = {i, j}, the held-out difference is
    ``(y_i - y_j) - (r_i - r_j)``; it is judged after multiplication by the determinant of B_UU.
    The lower triangle of B is read. A tie counts one half. Returns the smallest determinant as a
    share of the product of its diagonal: rounding errors grow by its inverse.
    """
    n_outputs = Y.shape[1]
    worst = 1.0
    for i in rows:
        b_ii = B[i, i]
        for j in range(i):
            b_ij, b_jj = B[i, j], B[j, j]
            det = b_ii * b_jj - b_ij * b_ij
            worst = min(worst, det / (b_ii * b_jj))
            for k in range(n_outputs):
                gap = Y[i, k] - Y[j, k]
                if gap == 0.0:
                    continue
                first, second = decisive[k, 0], decisive[k, 1]
                if first in (i, j) and (second < 0 or second in (i, j)):
                    continue
                turn = (b_jj + b_ij) * A[i, k] - (b_ii + b_ij) * A[j, k]
                difference = gap * det - turn
                credit = 0.0
                if abs(difference) <= tie[k] * det:
                    credit = 0.5
                elif (difference > 0.0) == (gap > 0.0):
                    credit = 1.0
                right[i, k] += credit
                right[j, k] += credit
                total[i, k] += 1.0
                total[j, k] += 1.0
    return worst


@njit(cache=True, nogil=True, error_model="numpy")
def graded_pairs(
    B: FloatArray,
    x: FloatArray,
    across: FloatArray,
    beta: FloatArray,
    offset: FloatArray,
    low: IntArray,
    high: IntArray,
    tie: float,
) -> FloatArray:
    """Return, for items of a lower and a higher grade, which held-out pairs are in the right order.

    Parameters
    ----------
    B : (n_items, n_items)
        Inverse of the bordered system, item part; the lower triangle is read.
    x : (n_items,)
        Item part of its solution.
    across : (n_items, 2)
        Columns of the inverse that lead to the multipliers of the two grades, times the inverse
        degree of the grade.
    beta : (2,)
        Multipliers of the two grades in the solution, times the inverse degree of the grade.
    offset : (2,)
        Target of an item of each grade over its degree.
    low, high
        The items of the two grades.
    tie : float
        Differences up to this size count one half.
    """
    out = np.empty((len(low), len(high)))
    for p in range(len(low)):
        i = low[p]
        for q in range(len(high)):
            j = high[q]
            b_ij = B[max(i, j), min(i, j)]
            det = B[i, i] * B[j, j] - b_ij * b_ij
            r_i = (B[j, j] * x[i] - b_ij * x[j]) / det
            r_j = (B[i, i] * x[j] - b_ij * x[i]) / det
            f_i = offset[0] - r_i + beta[0] - across[i, 0] * r_i - across[j, 0] * r_j
            f_j = offset[1] - r_j + beta[1] - across[i, 1] * r_i - across[j, 1] * r_j
            out[p, q] = 0.5 if abs(f_j - f_i) <= tie else (1.0 if f_j > f_i else 0.0)
    return out
