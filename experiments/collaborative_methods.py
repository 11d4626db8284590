"""Ways to score items for users from some ratings of each, in few lines apiece.

A method takes ratings and a setting and returns a function that scores all items for the users it
learned from, or for new users from a few ratings of theirs.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.linalg import svds

from rankwise import ConvergenceWarning, RankingFactorization, RankRLS

Scorer = Callable[[csr_array], np.ndarray]


def centred(R):
    """Return ratings less the mean of their user."""
    sizes = np.maximum(np.diff(R.indptr), 1)
    means = R.sum(axis=1) / sizes
    return csr_array((R.data - np.repeat(means, np.diff(R.indptr)), R.indices, R.indptr), R.shape)


def damped_means(R, damping):
    """Return the mean of each item's centred ratings, with some ratings of 0 added."""
    total = np.bincount(R.indices, centred(R).data, R.shape[1])
    return total / np.maximum(np.bincount(R.indices, minlength=R.shape[1]) + damping, 1)


def item_means(train: csr_array, damping: float) -> Scorer:
    """Score every item with its mean."""
    bias = damped_means(train, damping)
    return lambda R: np.tile(bias, (R.shape[0], 1))


def without(R, bias):
    """Return what is left of centred ratings without the bias of the items; 0 if not rated."""
    rest = centred(R)
    rest.data -= bias[rest.indices]
    return rest


def truncated_svd(train: csr_array, setting: tuple[float, int]) -> Scorer:
    """Project what is left of the ratings on its leading right singular vectors."""
    damping, n_components = setting
    bias = damped_means(train, damping)
    V = svds(without(train, bias), n_components, rng=np.random.default_rng(0))[2].T
    return lambda R: bias + (without(R, bias) @ V) @ V.T


def least_squares(train: csr_array, setting: tuple[int, float]) -> Scorer:
    """Factorise what is left of the ratings by alternating ridge regressions."""
    n_components, alpha = setting
    bias = damped_means(train, 5.0)
    rest = without(train, bias)
    columns = csr_array(rest.T)
    V = np.random.default_rng(0).normal(size=(train.shape[1], n_components))
    for _ in range(10):
        V = ridge(columns, ridge(rest, V, alpha), alpha)
    return lambda R: bias + ridge(without(R, bias), V, alpha) @ V.T


def ridge(R, V, alpha):
    """Return the factors of the rows of R that fit its stored entries, given those of columns."""
    U = np.zeros((R.shape[0], V.shape[1]))
    for u, (first, last) in enumerate(zip(R.indptr[:-1], R.indptr[1:], strict=True)):
        F = V[R.indices[first:last]]
        U[u] = np.linalg.solve(F.T @ F + alpha * np.eye(V.shape[1]), F.T @ R.data[first:last])
    return U


def rankrls_by_user(train: csr_array, alpha: float) -> Scorer:
    """Learn a ranking of each user alone, on features of the items from all users."""
    bias = damped_means(train, 5.0)
    _, s, Vt = svds(without(train, bias), 5, rng=np.random.default_rng(0))
    X = np.column_stack([10.0 * bias, Vt.T * s])

    def scores(R: csr_array) -> np.ndarray:
        ranker = RankRLS(alpha=alpha, ties="keep")
        rows = [slice(*ends) for ends in zip(R.indptr[:-1], R.indptr[1:], strict=True)]
        fits = (ranker.fit(X[R.indices[row]], R.data[row]) for row in rows)
        return np.array([fit.predict(X) for fit in fits])

    return scores


def ranking_factors(
    measure: Any, graded: Callable[[csr_array], csr_array], seed: int = 0
) -> Callable:
    """Return the method that learns factors for a measure of grades, from a random start."""

    def method(train: csr_array, C: float) -> Scorer:
        model = RankingFactorization(10, objective=measure, C=C, tol=1e-3, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # where C is too small
            model.fit(graded(train))

        def scores(R: csr_array) -> np.ndarray:
            known = model if R is train else model.fold_in(graded(R))
            return known.predict(np.arange(R.shape[0]))

        return scores

    return method
