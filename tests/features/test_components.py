"""Kernel principal components are those of the centred kernel, however they are found."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.linalg import ArpackNoConvergence

from rankwise import Gaussian, InvalidInputError, Laplacian, Linear, Polynomial, Precomputed
from rankwise.features import components as module
from rankwise.features.components import find_components
from rankwise.features.kernels import as_kernel

KERNELS = [Linear(), Gaussian(0.3), Laplacian(0.2), Polynomial(2, 0.5, 1.0)]
RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4)) + np.array([5.0, 0.0, -3.0, 0.0])
NEW = RNG.normal(size=(7, 4))


def centred_kernels(kernel, X, new):
    """Return the centred kernels of training rows and of new rows, [TH10] Sect. 6.1."""
    n, J = len(X), np.ones((len(X), len(X))) / len(X)
    K, K_new = kernel(X, X), kernel(new, X)
    C = np.eye(n) - J
    return C @ K @ C, (K_new - np.ones((len(new), n)) / n @ K) @ C


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("n_components", [1, 3, 29])
def test_components_are_the_leading_eigenvectors_of_the_centred_kernel(kernel, n_components):
    K, K_new = centred_kernels(kernel, X, NEW)
    values, vectors = np.linalg.eigh(K)
    leading = np.argsort(-values)[: min(n_components, np.sum(values > 1e-9 * values[-1]))]
    components, Z = find_components(kernel, X, n_components)
    np.testing.assert_allclose(components.variances, values[leading], rtol=1e-8)
    for k, i in enumerate(leading):
        sign = np.sign(Z[:, k] @ vectors[:, i])
        atol = 1e-6 * np.sqrt(values[leading[0]])
        np.testing.assert_allclose(Z[:, k], sign * vectors[:, i] * np.sqrt(values[i]), atol=atol)
        expected = sign * K_new @ vectors[:, i] / np.sqrt(values[i])  # [TH10] (3)
        np.testing.assert_allclose(components.map(NEW)[:, k], expected, atol=atol)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_all_components_give_the_centred_kernel_back(kernel):
    K, K_new = centred_kernels(kernel, X, NEW)
    components, Z = find_components(kernel, X, 30)
    np.testing.assert_allclose(Z @ Z.T, K, atol=1e-8)
    np.testing.assert_allclose(components.map(NEW) @ Z.T, K_new, atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_training_rows_map_to_their_components(kernel):
    components, Z = find_components(kernel, X, 4)
    np.testing.assert_allclose(components.map(X), Z, atol=1e-10)


@pytest.mark.parametrize("n_components", [1, 5, 20])
def test_truncated_equals_full(n_components):
    full, Z = find_components(Gaussian(0.3), X, n_components, "full")
    other, Z_other = find_components(Gaussian(0.3), X, n_components, "truncated")
    np.testing.assert_allclose(other.variances, full.variances, rtol=1e-10)
    sign = np.sign(np.sum(Z * Z_other, axis=0))
    np.testing.assert_allclose(Z_other * sign, Z, atol=1e-9)
    np.testing.assert_allclose(other.map(NEW) * sign, full.map(NEW), atol=1e-9)


def test_a_few_components_of_many_items_are_found_by_lanczos():
    many, per_component = module.MANY_ITEMS, module.ITEMS_PER_COMPONENT
    assert module.truncating_pays(many, many // per_component)
    assert not module.truncating_pays(many, many // per_component + 1)
    assert not module.truncating_pays(many - 1, 1)
    assert module.truncating_pays(4 * many, 2 * many // per_component)


def test_the_solver_is_chosen_by_what_pays(monkeypatch):
    calls = []

    def counted(K, k, **_):
        calls.append(len(K))
        return np.ones(k), np.eye(len(K), k)

    monkeypatch.setattr(module, "eigsh", counted)
    find_components(Gaussian(0.3), X, 3)
    assert calls == []
    many = np.random.default_rng(2).normal(size=(module.MANY_ITEMS, 2))
    find_components(Gaussian(0.3), many, 1)
    assert calls == [module.MANY_ITEMS]


def test_lanczos_without_convergence_gives_way_to_the_full_solver(monkeypatch):
    def fail(*_, **__):
        raise ArpackNoConvergence("no", [], [])

    monkeypatch.setattr(module, "eigsh", fail)
    found, _ = find_components(Gaussian(0.3), X, 3, "truncated")
    expected, _ = find_components(Gaussian(0.3), X, 3, "full")
    np.testing.assert_array_equal(found.variances, expected.variances)


@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.3), Polynomial(2, 0.5, 1.0)], ids=repr)
def test_sparse_rows_equal_dense(kernel):
    dense, Z = find_components(kernel, X, 3)
    thin, Z_thin = find_components(kernel, csr_array(X), 3)
    sign = np.sign(np.sum(Z * Z_thin, axis=0))
    np.testing.assert_allclose(Z_thin * sign, Z, atol=1e-9)
    np.testing.assert_allclose(thin.map(csr_array(NEW)) * sign, dense.map(NEW), atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_an_integer_weight_equals_repetition(kernel):
    weight = np.random.default_rng(2).integers(0, 4, len(X))
    repeated, _ = find_components(kernel, np.repeat(X, weight, axis=0), 3)
    weighted, Z = find_components(kernel, X, 3, weight=weight.astype(float))
    np.testing.assert_allclose(weighted.variances, repeated.variances, rtol=1e-9)
    mapped = repeated.map(X)
    sign = np.sign(np.sum(Z * mapped, axis=0))
    np.testing.assert_allclose(Z * sign, mapped, atol=1e-9)


def test_a_precomputed_kernel_equals_the_kernel():
    given, Z = find_components(Precomputed(), Gaussian(0.3)(X, X), 5)
    own, Z_own = find_components(Gaussian(0.3), X, 5)
    sign = np.sign(np.sum(Z * Z_own, axis=0))
    np.testing.assert_allclose(given.map(Gaussian(0.3)(NEW, X)) * sign, own.map(NEW), atol=1e-10)


def test_a_kernel_that_is_an_inner_product_once_centred_is_enough():
    components, _ = find_components(as_kernel(minus_squared_distance), X, 4)
    linear, _ = find_components(Linear(), X, 4)
    np.testing.assert_allclose(components.variances, 2 * linear.variances)


def minus_squared_distance(A, B):
    return -((A[:, None] - B) ** 2).sum(axis=2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: find_components(Gaussian(1.0), X[[0] * 5], 2), "rows of `X` must differ"),
        (lambda: find_components(Linear(), X[[0] * 5], 2), "rows of `X` must differ"),
        (lambda: find_components(Laplacian(1.0), csr_array(X), 2), "must have dense rows"),
        (lambda: find_components(Linear(), X, 2, "fast"), "`solver` must be one of"),
        (lambda: find_components(Precomputed(), X @ X.T - np.eye(30), 2), "semidefinite"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
