"""Where ranking factorisation begins: leading singular vectors, their scale, and the scale of C."""

import numpy as np
from scipy.sparse import csr_array

from rankwise.core.arrays import FloatArray, IntArray, Matrix, sum_by
from rankwise.inference.factorization import Factors, Ratings

_POWER_ITERATIONS = 4
_OVERSAMPLING = 10
_SCALES = np.geomspace(0.0025, 9.0, 13)


def spectral_start(R: Matrix, n_components: int, rng: np.random.Generator) -> Factors:
    """Return factors from a truncated singular value decomposition of the ratings.

    The mean of each user and then that of each item are taken out, and what is left is divided by
    its standard deviation; items that were not rated count 0. The means of the items are the bias.

    Parameters
    ----------
    R : (n_users, n_items), CSR
        Stored entries are ratings, also zeros.
    n_components
        At most the number of users and that of items.
    rng
        Draws the subspace in which the decomposition begins.
    """
    users, items = np.repeat(np.arange(R.shape[0]), np.diff(R.indptr)), R.indices
    centred = R.data - _means(users, R.data, R.shape[0])[users]
    centred /= np.linalg.norm(centred) / np.sqrt(max(1, len(centred))) or 1.0
    bias = _means(items, centred, R.shape[1])
    rest = csr_array((centred - bias[items], items, R.indptr), shape=R.shape)
    left, s, right = _leading_singular_vectors(rest, n_components, rng)
    U, V = (np.ascontiguousarray(vectors * np.sqrt(s)) for vectors in (left, right))
    return Factors(U, V, bias)


def best_scaled(ratings: Ratings, factors: Factors, C: float) -> Factors:
    """Return the multiple of the factors that has the least objective on a grid."""
    options, loss = [factors.scaled(scale) for scale in _SCALES], ratings.aimed(factors)
    objectives = [ratings.objective(option, loss, C) for option in options]
    return options[int(np.argmin(objectives))]


def onset_of_factors(ratings: Ratings, factors: Factors, rng: np.random.Generator) -> float:
    """Return the C up to which factors of users do not pay, at the bias of the factors.

    With planes ``loss_u - <B_u, scores_u>`` that are highest at the bias, the slope of the
    objective in scores F around 0 is the trace norm of F less ``C <B, F>``, which can be negative
    from ``C = 1 / |B|`` on, with the spectral norm of B.
    """
    agreed = Factors(np.zeros_like(factors.U), np.zeros_like(factors.V), factors.bias)
    beta, _ = ratings.aimed(agreed).cuts(ratings.scores(agreed))
    shape = len(factors.U), len(factors.V)
    B = csr_array((beta, ratings.items, ratings.plan.starts), shape=shape)
    largest = float(_leading_singular_vectors(B, 1, rng)[1][0])
    return 1.0 / largest if largest > 0.0 else 1.0


def _means(index: IntArray, values: FloatArray, length: int) -> FloatArray:
    counts = np.bincount(index, minlength=length)
    return sum_by(index, values, length) / np.maximum(counts, 1)


def _leading_singular_vectors(
    A: Matrix, n_components: int, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return left vectors, values and right vectors, by iterating on a random subspace."""
    width = min(n_components + _OVERSAMPLING, *A.shape)
    Q = rng.normal(size=(A.shape[1], width))
    for _ in range(_POWER_ITERATIONS):
        Q = np.linalg.qr(A.T @ np.linalg.qr(A @ Q)[0])[0]
    left, s, rotation = np.linalg.svd(A @ Q, full_matrices=False)
    return left[:, :n_components], s[:n_components], (Q @ rotation.T)[:, :n_components]
