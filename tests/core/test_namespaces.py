"""Where to compute, and what needs PyTorch."""

import sys

import numpy as np
import pytest
import torch

from rankwise import MissingExtraError
from rankwise.core.fused import fused_exp_product
from rankwise.core.namespaces import (
    LEAF,
    cholesky_in_place,
    cholesky_solve,
    invert_factored,
    is_on_host,
    on_device,
    place,
    solve_rows,
)

pytestmark = pytest.mark.usefixtures("torch_on_one_thread")


def definite(order, seed=0):
    A = np.random.default_rng(seed).normal(size=(order, order + 3))
    return A @ A.T / order + 0.1 * np.eye(order)


@pytest.mark.parametrize("order", [1, 7, 2 * LEAF + 5])
@pytest.mark.parametrize("there", [torch.tensor, np.array])
def test_factors_and_inverses_take_no_memory_of_their_own(order, there):
    A = definite(order)
    given = there(A)
    factor = cholesky_in_place(given)
    assert np.shares_memory(np.asarray(factor), np.asarray(given))
    np.testing.assert_allclose(factor, np.linalg.cholesky(A), atol=1e-12)
    B = np.arange(2.0 * order).reshape(order, 2)
    solved = np.asarray(cholesky_solve(factor, there(B)))
    np.testing.assert_allclose(A @ solved, B, atol=1e-8 * B.max())
    inverse = invert_factored(factor)
    assert np.shares_memory(np.asarray(inverse), np.asarray(given))
    np.testing.assert_allclose(inverse, np.linalg.inv(A), atol=1e-10)


def test_substitution_by_blocks_takes_no_memory_of_its_own():
    width = LEAF + 9
    Z, C = np.random.default_rng(0).normal(size=(20, width)), np.linalg.cholesky(definite(width))
    given = torch.tensor(Z)
    found = solve_rows(torch.tensor(C), given)
    assert found.data_ptr() == given.data_ptr()
    expected = np.linalg.solve(C, Z.T).T
    np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


def test_sums_of_exponentials_need_triton(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    fused_exp_product.cache_clear()
    with pytest.raises(MissingExtraError, match="triton"):
        fused_exp_product()
    fused_exp_product.cache_clear()


def test_a_device_needs_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtraError, match="torch"):
        place("cuda")


def test_rows_are_moved_once():
    """To the device of a name, or of the tensor they were read from, which is not moved again."""
    X = np.arange(6.0).reshape(3, 2)
    assert is_on_host(place(None))
    assert on_device(X, None) is X
    moved = on_device(X, "cpu")
    assert isinstance(moved, torch.Tensor)
    np.testing.assert_array_equal(moved, X)
    given = torch.tensor(X)
    assert on_device(X, "cpu", given).data_ptr() == given.data_ptr()
    assert on_device(X, None, given) is X  # NumPy computes with what the CPU holds
    assert on_device(X, "cpu", given.float()).dtype == torch.float64
