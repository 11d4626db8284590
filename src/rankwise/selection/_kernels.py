"""Compiled loops of the hold-outs."""

import numpy as np
from numba import njit

from rankwise.core.arrays import FloatArray, IntArray


@njit(cache=True, nogil=True)
def tridiagonalise(A: FloatArray, V: FloatArray, tau: FloatArray) -> None:
    """Reduce a small symmetric matrix to tridiagonal form in place, A = Q T Q'.

    The diagonal of A becomes that of T and its first subdiagonal T's neighbour; row i of V and
    tau[i] hold the Householder reflection of step i.
    """
    n = A.shape[0]
    p = np.empty(n)
    for i in range(n - 2):
        scale = 0.0
        for j in range(i + 2, n):
            scale += A[j, i] * A[j, i]
        head = A[i + 1, i]
        tau[i] = 0.0
        if scale == 0.0:
            continue
        beta = -np.copysign(np.sqrt(head * head + scale), head)
        tau[i] = (beta - head) / beta
        V[i, i + 1] = 1.0
        for j in range(i + 2, n):
            V[i, j] = A[j, i] / (head - beta)
        A[i + 1, i] = beta
        dot = 0.0
        for j in range(i + 1, n):
            total = 0.0
            for k in range(i + 1, n):
                total += A[j, k] * V[i, k]
            p[j] = tau[i] * total
            dot += p[j] * V[i, j]
        half = 0.5 * tau[i] * dot
        for j in range(i + 1, n):
            p[j] -= half * V[i, j]
        for j in range(i + 1, n):
            vj, pj = V[i, j], p[j]
            for k in range(i + 1, n):
                A[j, k] -= vj * p[k] + pj * V[i, k]


@njit(cache=True, nogil=True)
def _reflect(x: FloatArray, V: FloatArray, tau: FloatArray, i: int) -> None:
    n = len(x)
    dot = 0.0
    for j in range(i + 1, n):
        dot += V[i, j] * x[j]
    dot *= tau[i]
    for j in range(i + 1, n):
        x[j] -= dot * V[i, j]


@njit(cache=True, nogil=True)
def shifted_solutions(
    A: FloatArray,
    V: FloatArray,
    tau: FloatArray,
    b: FloatArray,
    alphas: FloatArray,
    X: FloatArray,
    worst: FloatArray,
) -> None:
    """Solve (Q T Q' + alpha I) x = b for every alpha into the rows of X.

    Sets ``worst`` to the smallest pivot for each alpha, as a share of the largest diagonal entry:
    rounding errors grow by its inverse.
    """
    n = len(b)
    y = b.copy()
    for i in range(n - 2):
        if tau[i] != 0.0:
            _reflect(y, V, tau, i)
    pivot, largest = np.empty(n), 0.0
    for i in range(n):
        largest = max(largest, abs(A[i, i]))
    for a in range(len(alphas)):
        x = X[a]
        pivot[0] = A[0, 0] + alphas[a]
        x[0] = y[0]
        for i in range(1, n):
            ratio = A[i, i - 1] / pivot[i - 1]
            pivot[i] = A[i, i] + alphas[a] - ratio * A[i, i - 1]
            x[i] = y[i] - ratio * x[i - 1]
        x[n - 1] /= pivot[n - 1]
        for i in range(n - 2, -1, -1):
            x[i] = (x[i] - A[i + 1, i] * x[i + 1]) / pivot[i]
        worst[a] = pivot.min() / (largest + alphas[a])
        for i in range(n - 3, -1, -1):
            if tau[i] != 0.0:
                _reflect(x, V, tau, i)


@njit(cache=True, nogil=True)
def direct_chunk(
    H: FloatArray,
    C: FloatArray,
    starts: IntArray,
    outside: FloatArray,
    outside_rhs: FloatArray,
    Z: FloatArray,
    item_starts: IntArray,
    alphas: FloatArray,
    out: FloatArray,
    pivot: FloatArray,
) -> None:
    """Refit without each fold of a chunk, without ever subtracting a Gram matrix.

    What remains without fold q is the sum of the folds before it (a running prefix), those behind
    it (stored suffix sums) and the folds outside the chunk.
    """
    n_folds, n, n_outputs, n_alphas = len(starts) - 1, H.shape[1], C.shape[1], len(alphas)
    G = np.empty((n_folds, n, n))
    h = np.empty((n_folds, n, n_outputs))
    behind = np.empty((n_folds + 1, n, n))
    behind_rhs = np.empty((n_folds + 1, n, n_outputs))
    behind[n_folds] = outside
    behind_rhs[n_folds] = outside_rhs
    for q in range(n_folds - 1, -1, -1):
        Hq = H[starts[q] : starts[q + 1]]
        G[q] = np.dot(Hq.T, Hq)
        h[q] = np.dot(Hq.T, C[starts[q] : starts[q + 1]])
        behind[q] = behind[q + 1] + G[q]
        behind_rhs[q] = behind_rhs[q + 1] + h[q]
    before = np.zeros((n, n))
    before_rhs = np.zeros((n, n_outputs))
    V, tau, W = np.zeros((n, n)), np.zeros(n), np.empty((n_alphas, n))
    for q in range(n_folds):
        rest = before + behind[q + 1]
        rest_rhs = before_rhs + behind_rhs[q + 1]
        tridiagonalise(rest, V, tau)
        rows = Z[item_starts[q] : item_starts[q + 1]]
        for k in range(n_outputs):
            b = rest_rhs[:, k].copy()
            shifted_solutions(rest, V, tau, b, alphas, W, pivot[q])
            out[item_starts[q] : item_starts[q + 1], :, k] = np.dot(rows, W.T)
        before += G[q]
        before_rhs += h[q]


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
def solve_each(A: FloatArray, B: FloatArray, worst: FloatArray) -> None:
    """Solve a stack of small definite systems in place; see `solve_definite`."""
    for a in range(len(A)):
        worst[a] = solve_definite(A[a], B[a])


@njit(cache=True, nogil=True)
def row_products(V: FloatArray) -> FloatArray:
    """Return the elementwise product of every two rows, one row per pair i >= j."""
    n, r = V.shape
    out = np.empty((n * (n + 1) // 2, r))
    row = 0
    for i in range(n):
        for j in range(i + 1):
            for k in range(r):
                out[row, k] = V[i, k] * V[j, k]
            row += 1
    return out


@njit(cache=True, nogil=True)
def unpack(packed: FloatArray, n: int) -> FloatArray:
    """Return symmetric matrices from their packed lower triangles, one column per matrix."""
    n_matrices = packed.shape[1]
    out = np.empty((n_matrices, n, n))
    row = 0
    for i in range(n):
        for j in range(i + 1):
            for a in range(n_matrices):
                out[a, i, j] = packed[row, a]
                out[a, j, i] = packed[row, a]
            row += 1
    return out
