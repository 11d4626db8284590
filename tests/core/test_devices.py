"""The linear algebra of devices, on PyTorch's CPU device."""

import sys

import numpy as np
import pytest

from rankwise import MissingExtraError
from rankwise.core.devices import LEAF, as_device
from rankwise.core.fused import fused_exp_product

pytestmark = pytest.mark.usefixtures("torch_on_one_thread")


def definite(order, seed=0):
    A = np.random.default_rng(seed).normal(size=(order, order + 3))
    return A @ A.T / order + 0.1 * np.eye(order)


@pytest.mark.parametrize("order", [1, 7, 2 * LEAF + 5])
def test_factors_and_inverses_take_no_memory_of_their_own(order):
    device, A = as_device("cpu"), definite(order)
    there = device.array(A.copy())
    factor = device.factor_in_place(there)
    assert factor.data_ptr() == there.data_ptr()
    np.testing.assert_allclose(device.host(factor), np.linalg.cholesky(A), atol=1e-12)
    B = np.arange(2.0 * order).reshape(order, 2)
    solved = device.host(device.solve_factored(factor, device.array(B)))
    np.testing.assert_allclose(A @ solved, B, atol=1e-8 * B.max())
    inverse = device.invert_factored(factor)
    assert inverse.data_ptr() == there.data_ptr()
    np.testing.assert_allclose(device.host(inverse), np.linalg.inv(A), atol=1e-10)


def test_an_indefinite_matrix_has_no_factor():
    device = as_device("cpu")
    for factor in (device.factor, device.factor_in_place):
        assert factor(device.array(np.diag([1.0, -1.0]))) is None


@pytest.mark.parametrize("width", [3, LEAF + 9])
def test_grams_and_substitution_by_blocks(width):
    device, rng = as_device("cpu"), np.random.default_rng(0)
    Z, C = rng.normal(size=(20, width)), np.linalg.cholesky(definite(width))
    there = device.array(Z.copy())
    np.testing.assert_allclose(device.host(device.gram(there)), Z.T @ Z, atol=1e-11)
    found = device.solve_rows(device.array(C), there)
    assert found.data_ptr() == there.data_ptr()
    expected = np.linalg.solve(C, Z.T).T
    np.testing.assert_allclose(device.host(found), expected, atol=1e-10 * np.abs(expected).max())


def test_sums_of_all_others():
    device, values = as_device("cpu"), np.random.default_rng(0).normal(size=(5, 2, 3))
    expected = np.stack([np.delete(values, k, axis=0).sum(axis=0) for k in range(5)])
    found = device.sums_of_others(device.array(values))
    np.testing.assert_allclose(device.host(found), expected, atol=1e-14)


def test_sums_of_exponentials_need_triton(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    fused_exp_product.cache_clear()
    with pytest.raises(MissingExtraError, match="triton"):
        fused_exp_product()
    fused_exp_product.cache_clear()


def test_entries_that_are_summed_by_place():
    device = as_device("cpu")
    places = device.array(np.array([2, 0, 2]))
    found = device.add_at(device.array(np.array([1.0, 2.0, 3.0])), places, 4)
    np.testing.assert_array_equal(device.host(found), [2.0, 0.0, 4.0, 0.0])


def test_the_inverse_of_a_triangle():
    device, L = as_device("cpu"), np.tril(np.arange(1.0, 17.0).reshape(4, 4))
    found = device.invert_triangle(device.array(L.copy()))
    np.testing.assert_allclose(device.host(found), np.linalg.inv(L), atol=1e-14)
