"""Compiled loops over all pairs of items."""

import numpy as np
from numba import njit

from rankwise.core.arrays import FloatArray, IntArray


@njit(cache=True, nogil=True, error_model="numpy")
def complete_pairs(
    B: FloatArray,
    A: FloatArray,
    Y: FloatArray,
    tie: FloatArray,
    rows: IntArray,
    right: FloatArray,
    total: FloatArray,
) -> float:
    """Count, for each item and output, its pairs and how many come out right when left out.

    Every pair (i, j) with i in ``rows`` and j < i is counted for both its items.

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
def class_pairs(
    B: FloatArray,
    x: FloatArray,
    across: FloatArray,
    beta: FloatArray,
    offset: FloatArray,
    low: IntArray,
    high: IntArray,
    tie: float,
) -> FloatArray:
    """Return, for items of a lower and a higher class, which held-out pairs come out right.

    Parameters
    ----------
    B : (n_items, n_items)
        Inverse of the bordered system, item part; the lower triangle is read.
    x : (n_items,)
        Item part of its solution.
    across : (n_items, 2)
        Columns of the inverse that lead to the multipliers of the two classes, times the inverse
        degree of the class.
    beta : (2,)
        Multipliers of the two classes in the solution, times the inverse degree of the class.
    offset : (2,)
        Target of an item of each class over its degree.
    low, high
        The items of the two classes.
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
