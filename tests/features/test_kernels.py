"""Kernels are inner products, computed as defined."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.metrics import pairwise

from rankwise import Gaussian, InvalidInputError, Laplacian, Linear, Polynomial, Precomputed
from rankwise.features.kernels import Custom, as_kernel

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
KERNELS = [kernel for kernel, _, _ in EXPECTED] + [Custom(lambda A, B: A @ B.T)]


@pytest.mark.parametrize(("kernel", "function", "options"), EXPECTED)
def test_values_equal_scikit_learn(kernel, function, options):
    np.testing.assert_allclose(kernel(A, B), function(A, B, **options), atol=1e-13)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
class TestEveryKernel:
    def test_is_symmetric_and_semidefinite(self, kernel):
        K = kernel(A, A)
        np.testing.assert_allclose(K, K.T, atol=1e-14)
        assert np.linalg.eigvalsh(K).min() > -1e-12

    def test_diagonal_is_that_of_the_matrix(self, kernel):
        np.testing.assert_allclose(kernel.diagonal(A), np.diag(kernel(A, A)), atol=1e-14)

    def test_fitted_kernel_is_itself(self, kernel):
        assert kernel.fitted_to(A) == kernel

    def test_leaves_its_input_alone(self, kernel):
        before = A.copy()
        kernel(A, A)
        np.testing.assert_array_equal(A, before)


@pytest.mark.parametrize("kernel", [k for k, _, _ in EXPECTED if k.accepts_sparse], ids=repr)
def test_sparse_rows_equal_dense(kernel):
    S = np.where(A > 0, A, 0.0)
    np.testing.assert_allclose(kernel(csr_array(S), csr_array(S)), kernel(S, S), atol=1e-14)
    np.testing.assert_allclose(kernel(csr_array(S), S[:2]), kernel(S, S[:2]), atol=1e-14)
    np.testing.assert_allclose(kernel.diagonal(csr_array(S)), kernel.diagonal(S), atol=1e-14)


def test_gaussian_does_not_lose_digits_to_an_offset():
    exact = np.round(A * 2**20) / 2**20
    np.testing.assert_allclose(
        Gaussian(0.5)(exact + 2.0**30, exact + 2.0**30), Gaussian(0.5)(exact, exact), atol=1e-9
    )


def test_scale_follows_the_data():
    gamma = Gaussian().fitted_to(A).gamma
    assert gamma == pytest.approx(1 / (3 * A.var()))
    assert Gaussian().fitted_to(csr_array(A)).gamma == pytest.approx(gamma)
    assert Gaussian().fitted_to(10 * A).gamma == pytest.approx(gamma / 100)
    assert Polynomial().fitted_to(A).gamma == pytest.approx(gamma)
    assert Laplacian().fitted_to(A).gamma == pytest.approx(1 / (3 * A.std()))
    assert Gaussian().fitted_to(np.ones((3, 2))).gamma == 1.0


@pytest.mark.parametrize("name", ["linear", "gaussian", "laplacian", "polynomial", "precomputed"])
def test_names_stand_for_kernels(name):
    assert type(as_kernel(name)).__name__.lower() == name


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Gaussian(0.0), "`gamma` must be a finite number above 0"),
        (lambda: Laplacian("wide"), "`gamma` must be"),
        (lambda: Polynomial(degree=0), "`degree` must be"),
        (lambda: Polynomial(degree=1.5), "`degree` must be"),
        (lambda: Polynomial(coef0=-1), "`coef0` must not be negative"),
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
