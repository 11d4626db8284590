"""Hold-outs in closed form against solves of the equations that remain."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import reference
from rankwise.native import holdouts as kernels

EPS = float(np.finfo(float).eps)


def definite(rng, *shape):
    """Return symmetric matrices with eigenvalues between about 1 and a few times the order."""
    X = rng.normal(size=(*shape, shape[-1] + 3))
    return X @ np.swapaxes(X, -1, -2) + np.eye(shape[-1])


def frozen(array):
    """Return a copy that may not be written to."""
    copy = np.array(array)
    copy.flags.writeable = False
    return copy


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 9, 20, 33])
def test_refits_without_each_fold_solve_what_remains(n, n_outputs):
    rng = np.random.default_rng(n)
    n_folds, alphas = 4, frozen([1e-2, 1.0, 1e3, 1e8])
    grams, rhs = definite(rng, n_folds, n), rng.normal(size=(n_folds, n_outputs, n))
    expected = reference.weights_without_each(grams, rhs, alphas)
    tolerance = np.linalg.cond(grams.sum(axis=0)) * 100 * n * EPS
    behind, behind_rhs = (np.cumsum(a[::-1], axis=0)[::-1] - a for a in (grams, rhs))
    W, worst = np.full((n_folds, n_outputs, n, len(alphas)), np.nan), np.empty((n_folds, 4))
    behind, behind_rhs = np.ascontiguousarray(behind), np.ascontiguousarray(behind_rhs)
    kernels.refit_without_each(grams, rhs, behind, behind_rhs, alphas, W, worst)
    size = np.abs(expected).max(axis=2, keepdims=True)
    np.testing.assert_allclose(W / size, expected / size, atol=tolerance)
    assert (worst > 0.0).all()
    assert (worst <= 1.0).all()


def test_threads_refit_without_folds_side_by_side():
    rng, alphas = np.random.default_rng(0), frozen([0.1, 10.0])
    grams, rhs = definite(rng, 6, 3, 9), rng.normal(size=(6, 3, 1, 9))
    found = np.empty((2, 6, 3, 1, 9, 2))

    def refit(out, k):
        arrays = (grams[k].copy(), rhs[k].copy(), definite(np.random.default_rng(k), 3, 9))
        kernels.refit_without_each(*arrays, rhs[k].copy(), alphas, out[k], np.empty((3, 2)))

    for k in range(6):
        refit(found[0], k)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: refit(found[1], k), range(6)))
    np.testing.assert_array_equal(found[1], found[0])


@pytest.mark.parametrize("n_columns", [0, 1, 3])
@pytest.mark.parametrize("n", [1, 2, 9, 32])
def test_small_definite_systems_are_solved_in_place(n, n_columns):
    rng = np.random.default_rng(n)
    A, B, worst = definite(rng, 5, n), rng.normal(size=(5, n, n_columns)), np.empty(5)
    expected, tolerance = np.linalg.solve(A, B), 100 * n * EPS * np.linalg.cond(A).max()
    pivots = np.diagonal(np.linalg.cholesky(A), axis1=1, axis2=2) ** 2
    share = pivots.min(axis=1) / np.diagonal(A, axis1=1, axis2=2).max(axis=1)
    kernels.solve_each(A, B, worst)
    np.testing.assert_allclose(B, expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(worst, share, rtol=tolerance)


def test_systems_that_are_not_definite_have_no_pivot():
    A, worst = np.stack([np.zeros((2, 2)), -np.eye(2), [[1.0, 2.0], [2.0, 1.0]]]), np.ones(3)
    A[0, 0, 0] = np.nan
    kernels.solve_each(A, np.ones((3, 2, 1)), worst)
    np.testing.assert_array_equal(worst, 0.0)


@pytest.mark.parametrize(
    ("n_items", "decisive"),
    [(12, (-1, -1)), (12, (2, -1)), (12, (5, 1)), (12, (0, 1)), (12, (11, -1)), (90, (40, 70))],
)
def test_pairs_left_out_are_counted_as_by_a_solve_for_each(n_items, decisive):
    rng = np.random.default_rng(0)
    B, A = definite(rng, n_items), rng.normal(size=(n_items, 2))
    Y = np.round(rng.normal(size=(n_items, 2)))
    listed = frozen([[-1, -1], decisive])
    right, total, expected, number = np.zeros((4, n_items, 2))
    worst = min(
        kernels.complete_pairs(
            frozen(B), frozen(A), frozen(Y), frozen([1e-12, 0.5]), listed,
            np.arange(part, n_items, 2), right, total,
        )
        for part in range(2)
    )  # fmt: skip
    shares = []
    for i in range(n_items):
        for j in range(i):
            lead = reference.pair_leads_left_out(B, A, Y, i, j)
            shares.append(1.0 - B[i, j] ** 2 / (B[i, i] * B[j, j]))
            for k, tie in enumerate([1e-12, 0.5]):
                gone = {i, j} >= {m for m in listed[k].tolist() if m >= 0} != set()
                if Y[i, k] == Y[j, k] or gone:
                    continue
                is_right = (lead[k] > 0.0) == (Y[i, k] > Y[j, k])
                expected[[i, j], k] += 0.5 if abs(lead[k]) <= tie else is_right
                number[[i, j], k] += 1
    np.testing.assert_array_equal(right, expected)
    np.testing.assert_array_equal(total, number)
    np.testing.assert_allclose(worst, min(shares), rtol=1e-12)


@pytest.mark.parametrize("n_columns", [1, 5, 8])
def test_columns_without_a_pivot_of_their_own_are_left_out(n_columns):
    rng = np.random.default_rng(n_columns)
    X = rng.normal(size=(20, n_columns))
    X[:, n_columns // 2] = X[:, 0]  # determined by the first, or the first itself
    panel = np.vstack([X.T @ X, rng.normal(size=(4, n_columns))])
    floor, pivots = frozen(1e-9 * np.diagonal(panel)), np.zeros(n_columns)
    expected, expected_pivots = reference.nested_elimination(panel, floor)
    kernels.eliminate_panel(panel, 0, n_columns, floor, pivots)
    row, column = np.tril_indices(len(panel), 0, n_columns)
    np.testing.assert_allclose(panel[row, column], expected[row, column], atol=1e-11)
    np.testing.assert_allclose(pivots, expected_pivots, rtol=1e-11)
    assert np.count_nonzero(pivots) == max(1, n_columns - 1)
