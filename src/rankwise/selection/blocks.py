"""Diagonal blocks V_U diag(weight) V_U' of a matrix function, for a grid of weights."""

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky
from scipy.linalg.blas import dsyrk

from rankwise.core.arrays import FloatArray
from rankwise.selection._kernels import row_products, solve_each, unpack

SMALL_BLOCK = 32
"""Up to this order the products of all rows are formed once for the whole grid."""


def weighted_blocks(V: FloatArray, weights: FloatArray) -> FloatArray:
    """Return ``V diag(w) V'`` for every column w of ``weights``, shape (n_weights, n, n).

    Small blocks multiply the elementwise products of their rows by all weights in one product;
    larger ones run a product per weight. Weights must not be negative.
    """
    n = len(V)
    if n <= SMALL_BLOCK:
        return unpack(row_products(V) @ weights, n)
    return np.stack([_symmetric(V * np.sqrt(w)) for w in weights.T])


def _symmetric(V: FloatArray) -> FloatArray:
    """Return ``V V'`` at half the price of a general product."""
    upper = dsyrk(1.0, V.T, trans=True)
    return upper + np.triu(upper, 1).T


def solve_blocks(A: FloatArray, B: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve a stack of symmetric definite systems; A and B are overwritten.

    Returns
    -------
    X : (n_matrices, n, k)
    pivot : (n_matrices,)
        Smallest pivot as a share of the largest diagonal entry, 0 where a matrix is not definite.
    """
    pivot = np.ones(len(A))
    if A.shape[1] <= SMALL_BLOCK:
        if A.shape[1]:
            solve_each(A, B, pivot)
        return B, pivot
    for a in range(len(A)):
        largest = np.diagonal(A[a]).max()
        try:
            factor = cholesky(A[a], lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            pivot[a] = 0.0
            continue
        pivot[a] = np.diagonal(factor).min() ** 2 / largest
        B[a] = cho_solve((factor, True), B[a], overwrite_b=True, check_finite=False)
    return B, pivot
