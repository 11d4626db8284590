"""Weighted sums of Gaussian kernels against squared distances and NumPy's exponential."""

import numpy as np
import pytest

from rankwise.features.kernels import FEW_ROWS, GaussianOfRows
from rankwise.native.gaussians import gaussian_scores

EPS = float(np.finfo(float).eps)


def exponentials(exponents):
    """Return the exponential of each, as the kernel takes it: one column at a time."""
    out, factors = np.empty(1), np.zeros((3, 1))
    found = []
    for x in exponents:
        factors[2] = x
        gaussian_scores(np.zeros((1, 1)), np.zeros(1), factors, np.ones(1), out)
        found.append(out[0])
    return np.array(found)


@pytest.mark.parametrize("n_rows", [1, 3, 4, 9, FEW_ROWS])
@pytest.mark.parametrize("n_columns", [1, 15, 16, 17, 50])
@pytest.mark.parametrize("n_features", [1, 7, 8, 21])
def test_scores_are_sums_of_kernels(n_rows, n_columns, n_features):
    rng = np.random.default_rng(n_rows * n_columns)
    A, B = 5.0 + rng.normal(size=(n_rows, n_features)), rng.normal(size=(n_columns, n_features))
    weights, gamma = rng.normal(size=n_columns), 0.5 / n_features
    for array in (A, weights):
        array.flags.writeable = False
    scores = GaussianOfRows.of(gamma, B).scores_of_few(A, weights)
    distances = np.square(A[:, None, :] - B[None, :, :]).sum(axis=2)
    K = np.exp(-gamma * distances)
    # an exponent is the sum of terms that cancel, each rounded
    sizes = gamma * (np.abs(A - B.mean(axis=0))[:, None, :] + np.abs(B)) ** 2
    error = 4 * EPS * (n_features + n_columns + sizes.sum(axis=2).max())
    np.testing.assert_allclose(
        scores, K @ weights, rtol=0.0, atol=error * (K @ np.abs(weights)).max()
    )


def test_exponentials_are_rounded_as_numpys():
    rng = np.random.default_rng(0)
    x = -np.concatenate(
        [rng.uniform(0, 700, 300), rng.uniform(0, 1, 300), 10.0 ** -np.arange(20.0)]
    )
    expected = np.exp(x)
    assert (np.abs(exponentials(x) - expected) <= 2 * np.spacing(expected)).all()


def test_odd_exponents():
    x = [0.0, -0.0, 1e-13, 5.0, np.inf, -5e-324, -708.5, -1e300, -np.inf, np.nan]
    expected = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, np.nan]  # rounding alone exceeds 0
    np.testing.assert_array_equal(exponentials(x), expected)


def test_equal_rows_get_equal_scores_wherever_they_stand():
    rng = np.random.default_rng(0)
    held, weights = GaussianOfRows.of(0.1, rng.normal(size=(37, 5))), rng.normal(size=37)
    row = rng.normal(size=(1, 5))
    alone = held.scores_of_few(row, weights)[0]
    for n_rows in (2, 5, FEW_ROWS):
        scores = held.scores_of_few(np.repeat(row, n_rows, axis=0), weights)
        np.testing.assert_array_equal(scores, np.full(n_rows, alone))


def test_other_than_a_few_rows_of_doubles_go_another_way():
    held, weights = GaussianOfRows.of(0.1, np.ones((3, 2))), np.ones(3)
    A = np.ones((4, 2))
    assert held.scores_of_few(A, weights) is not None
    others = [np.ones((FEW_ROWS + 1, 2)), np.ones((0, 2)), A.astype(np.float32), A[:, ::-1]]
    assert [held.scores_of_few(other, weights) for other in others] == [None] * 4
    assert held.scores_of_few(A, np.ones((3, 2))) is None
