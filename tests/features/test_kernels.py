"""Kernels have the values of their definitions; what all have in common is in laws/."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise

from rankwise import (
    Gaussian,
    InvalidInputError,
    Laplacian,
    Linear,
    NumericalError,
    Polynomial,
    Precomputed,
)
from rankwise.features.kernels import Custom, as_kernel, finite_kernel

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(7, 3)), RNG.normal(size=(5, 3))
EXPECTED = [
    (Linear(), pairwise.linear_kernel, {}),
    (Gaussian(0.7), pairwise.rbf_kernel, {"gamma": 0.7}),
    (Laplacian(0.7), pairwise.laplacian_kernel, {"gamma": 0.7}),
    (
        Polynomial(2, 0.7, 1.5),
        pairwise.polynomial_kernel,
        {"degree": 2, "gamma": 0.7, "coef0": 1.5},
    ),
]


@pytest.mark.parametrize(("kernel", "function", "options"), EXPECTED)
def test_values_equal_scikit_learn(kernel, function, options):
    np.testing.assert_allclose(kernel(A, B), function(A, B, **options), atol=1e-13)


def test_scale_follows_the_data():
    gamma = Gaussian().fitted_to(A).gamma
    assert gamma == pytest.approx(1 / (3 * A.var()))
    assert Gaussian().fitted_to(csr_array(A)).gamma == pytest.approx(gamma)
    assert Gaussian().fitted_to(10 * A).gamma == pytest.approx(gamma / 100)
    assert Polynomial().fitted_to(A).gamma == pytest.approx(gamma)
    assert Laplacian().fitted_to(A).gamma == pytest.approx(1 / (3 * A.std()))
    assert Gaussian().fitted_to(np.ones((3, 2))).gamma == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Gaussian(0.0), "`gamma` must be a finite number above 0"),
        (lambda: Laplacian("wide"), "`gamma` must be"),
        (lambda: Polynomial(degree=0), "`degree` must be"),
        (lambda: Polynomial(degree=1.5), "`degree` must be"),
        (lambda: Polynomial(coef0=-1), "`coef0` must be a finite number from 0 on"),
        (lambda: Gaussian()(A, A), "must be fitted before"),
        (lambda: Precomputed()(A, A), "one column per training item"),
        (lambda: as_kernel(3), "`kernel` must be a name"),
        (lambda: as_kernel("sigmoid"), "`kernel` must be one of 'linear'"),
        (lambda: Custom(lambda *_: np.ones(3))(A, B), r"expected \(7, 5\)"),
        (lambda: Custom(lambda *_: np.full((7, 5), np.nan))(A, B), "finite numbers"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1e8])
@pytest.mark.parametrize("pattern", ["full", "half"])
def test_an_offset_costs_sparse_rows_no_digits(offset, pattern):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3)) + offset
    if pattern == "half":
        rows[rng.uniform(size=rows.shape) < 0.5] = 0.0
    some, others = rows[:40], rows[30:]
    for gamma in (0.1, "scale"):
        kernel = Gaussian(gamma).fitted_to(rows)
        sparse_kernel = Gaussian(gamma).fitted_to(csr_array(rows))
        assert sparse_kernel.gamma == pytest.approx(kernel.gamma, rel=1e-6)
        exact = np.exp(-kernel.gamma * cdist(some, others, "sqeuclidean"))
        found = kernel(csr_array(some), csr_array(others))
        np.testing.assert_allclose(found, exact, atol=1e-9)
        square = csr_array(some)
        whole = kernel(square, square)
        np.testing.assert_allclose(
            whole, np.exp(-kernel.gamma * cdist(some, some, "sqeuclidean")), atol=1e-9
        )
        assert np.linalg.eigvalsh(whole)[0] > -1e-8


def test_kernels_beyond_all_doubles_are_refused():
    with pytest.raises(NumericalError, match="must be finite.*lower its degree"):
        finite_kernel(Polynomial(1000, gamma=1.0), 10 * A, 10 * A)


@pytest.mark.parametrize("offset", [2.0, 1e6])
@pytest.mark.parametrize("kernel", [Gaussian(), Laplacian(), Polynomial()], ids=repr)
def test_a_weight_counts_as_repeated_rows(kernel, offset):
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(6, 3)) + offset, np.array([0, 1, 2, 0, 3, 1])
    repeated = kernel.fitted_to(np.repeat(X, weight, axis=0))
    assert kernel.fitted_to(X, weight.astype(float)).gamma == pytest.approx(repeated.gamma)
    if kernel.accepts_sparse:
        sparse_rows = kernel.fitted_to(csr_array(X), weight.astype(float))
        assert sparse_rows.gamma == pytest.approx(repeated.gamma)


@pytest.mark.parametrize(("name", "ours"), [("rbf", "gaussian"), ("poly", "polynomial")])
def test_names_of_other_libraries_are_translated(name, ours):
    with pytest.raises(InvalidInputError, match=f"got '{name}', which is called '{ours}' here"):
        as_kernel(name)
