"""Compiled loops over all pairs of items."""

import numpy as np
from numba import njit, prange

from rankwise.core.arrays import FloatArray, IntArray


@njit(cache=True, parallel=True)
def pair_order(
    B: FloatArray, A: FloatArray, Y: FloatArray, tie: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Count, for each output, how the pairs fare when both items are left out.

    With r = B_UU^-1 a_U the residuals of the pair U = {i, j}, the held-out difference is
    ``(y_i - y_j) - (r_i - r_j)``; it is judged after multiplication by the determinant of B_UU.

    Returns
    -------
    right : (n_outputs, n_items)
        For each item i, the pairs (i, j) with j < i in the right order, ties counting one half.
    total : (n_outputs, n_items)
        The pairs of different score among them.
    """
    n_items, n_outputs = Y.shape
    right = np.zeros((n_items, n_outputs))
    total = np.zeros((n_items, n_outputs))
    for i in prange(n_items):
        b_ii = B[i, i]
        for j in range(i):
            b_ij, b_jj = B[i, j], B[j, j]
            det = b_ii * b_jj - b_ij * b_ij
            for k in range(n_outputs):
                gap = Y[i, k] - Y[j, k]
                if gap == 0.0:
                    continue
                turn = (b_jj + b_ij) * A[i, k] - (b_ii + b_ij) * A[j, k]
                difference = gap * det - turn
                total[i, k] += 1.0
                if abs(difference) <= tie[k] * det:
                    right[i, k] += 0.5
                elif (difference > 0.0) == (gap > 0.0):
                    right[i, k] += 1.0
    return right.T.copy(), total.T.copy()


@njit(cache=True)
def class_pair_differences(
    B: FloatArray,
    x: FloatArray,
    Bb: FloatArray,
    xb: FloatArray,
    target: FloatArray,
    inverse_degree: FloatArray,
    first: IntArray,
    second: IntArray,
    classes: IntArray,
) -> FloatArray:
    """Return held-out f_i - f_j for items i of one class and j of another (rankrls.md 4c)."""
    g, h = classes
    out = np.empty((len(first), len(second)))
    n_classes = len(xb)
    for p in range(len(first)):
        i = first[p]
        for q in range(len(second)):
            j = second[q]
            det = B[i, i] * B[j, j] - B[i, j] * B[i, j]
            r_i = (B[j, j] * x[i] - B[i, j] * x[j]) / det
            r_j = (B[i, i] * x[j] - B[i, j] * x[i]) / det
            beta_g = xb[g] - Bb[i, g] * r_i - Bb[j, g] * r_j
            beta_h = xb[h] - Bb[i, h] * r_i - Bb[j, h] * r_j
            f_i = target[g] - r_i + beta_g * inverse_degree[g]
            f_j = target[h] - r_j + beta_h * inverse_degree[h]
            out[p, q] = f_i - f_j
    return out
