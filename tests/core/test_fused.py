"""The one kernel of a GPU: products with exponentials that are never formed."""

import numpy as np
import pytest
import torch

from rankwise import Gaussian
from rankwise.core.fused import exact_exp_product, exp_product
from rankwise.core.namespaces import to_host
from rankwise.features.kernels import GaussianOfRows, own_product

on_a_gpu = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="there is no GPU for the kernel of a GPU"
)


def problem(n_items, n_features, where):
    rng = np.random.default_rng(n_items)
    X, V = rng.normal(size=(n_items, n_features)), rng.normal(size=(n_items, 2))
    rows = torch.tensor(X, device=where)
    held = GaussianOfRows.of(0.05, rows)
    return X, V, held.left(rows), held.factors.T, torch.tensor(V, device=where)


def test_nothing_but_a_gpu_has_such_a_kernel():
    _, _, left, right, V = problem(9, 3, "cpu")
    assert exact_exp_product(left, right, V) is None


@on_a_gpu
@pytest.mark.parametrize("n_features", [1, 20, 100])
@pytest.mark.parametrize("n_items", [1, 127, 128, 1000])
def test_both_precisions_are_those_of_the_matrix(n_items, n_features):
    X, V, left, right, there = problem(n_items, n_features, "cuda")
    expected = Gaussian(0.05)(X, X) @ V
    scale = np.abs(expected).max()
    exact = to_host(exact_exp_product(left, right, there))
    np.testing.assert_allclose(exact, expected, rtol=0, atol=1e-13 * scale)
    single = to_host(exp_product(left, right, there))
    np.testing.assert_allclose(single, expected, rtol=0, atol=1e-5 * scale)


@on_a_gpu
def test_the_product_of_a_gpu_is_made_by_it():
    X, V, *_, there = problem(300, 4, "cuda")
    found = own_product(Gaussian(0.05), torch.tensor(X, device="cuda"), there)
    np.testing.assert_allclose(to_host(found), Gaussian(0.05)(X, X) @ V, rtol=0, atol=1e-12)
