"""The one kernel of a GPU: products with exponentials that are never formed."""

import numpy as np
import pytest
import torch

from rankwise import Gaussian
from rankwise.core import fused
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


def attempts_on(monkeypatch, failures):
    """Let the kernel of a GPU fail in turn; return what is then used, and the tiles tried."""
    tried, errors = [], iter(failures)

    def product(A, B, v, tile):
        tried.append(tile)
        if (error := next(errors, None)) is not None:
            raise error
        return torch.ones(1)

    monkeypatch.setattr(fused, "fused_exp_product", lambda: product)
    return fused._fused_on.__wrapped__(torch, "cpu", torch.float64, 16), tried


OutOfResources = type("OutOfResources", (Exception,), {})
"""What Triton raises for want of shared memory."""


def test_smaller_tiles_are_taken_where_a_gpu_has_no_room(monkeypatch):
    found, tried = attempts_on(monkeypatch, [OutOfResources("shared memory")])
    assert tried == list(fused.DOUBLE_TILES[:2])
    assert found.keywords == {"tile": fused.DOUBLE_TILES[1]}


@pytest.mark.parametrize(
    ("failures", "n_tried"), [([OutOfResources("shared memory")] * 3, 3), ([OSError("no gcc")], 1)]
)
def test_a_kernel_that_cannot_be_compiled_is_named(monkeypatch, failures, n_tried):
    with pytest.warns(UserWarning, match=f"in blocks: Triton failed with .*{failures[-1]}"):
        found, tried = attempts_on(monkeypatch, failures)
    assert found is None
    assert len(tried) == n_tried


@on_a_gpu
@pytest.mark.parametrize("n_features", [1, 20, 62, 100, 126])
@pytest.mark.parametrize("n_items", [1, 127, 128, 1000])
def test_both_precisions_are_those_of_the_matrix(n_items, n_features):
    X, V, left, right, there = problem(n_items, n_features, "cuda")
    expected = Gaussian(0.05)(X, X) @ V
    scale = np.abs(expected).max()
    exact = to_host(exact_exp_product(left, right, there))
    np.testing.assert_allclose(exact, expected, rtol=0, atol=1e-13 * scale)
    # an exponent is a sum of products, of each of which three of tf32 keep 21 bits
    terms = np.abs(to_host(left)) @ np.abs(to_host(right)).T
    single = to_host(exp_product(left, right, there))
    np.testing.assert_allclose(single, expected, rtol=0, atol=2.0**-20 * terms.max() * scale)


@on_a_gpu
def test_the_product_of_a_gpu_is_made_by_it():
    X, V, *_, there = problem(300, 4, "cuda")
    found = own_product(Gaussian(0.05), torch.tensor(X, device="cuda"), there)
    np.testing.assert_allclose(to_host(found), Gaussian(0.05)(X, X) @ V, rtol=0, atol=1e-12)
