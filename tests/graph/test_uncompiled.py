"""What is done without compiled code at first is what the kernels do later, bit by bit."""

import numpy as np
import pytest

from rankwise.graph._kernels import anchored_product, centred_rows, group_means
from rankwise.graph.laplacian import (
    anchored_product_uncompiled,
    centred_rows_uncompiled,
    group_means_uncompiled,
)


@pytest.fixture(params=[0, 1, 2])
def groups(request):
    """Return rows with an offset, their groups (some empty, some rows in none), weights, masses."""
    rng = np.random.default_rng(request.param)
    n_items, n_groups = 40, (9, 1, 30)[request.param]
    group = rng.integers(-1, n_groups, size=n_items)
    weight = rng.uniform(0.1, 2.0, size=n_items)
    mass = np.bincount(group[group >= 0], weight[group >= 0], minlength=n_groups)
    return 1e6 + rng.normal(size=(n_items, 5)), group, weight, mass


def test_means_are_those_of_the_kernel(groups):
    V, group, weight, mass = groups
    means = np.zeros((len(mass), V.shape[1]))
    group_means(V, group, weight, mass, np.full(len(mass), -1), means)
    np.testing.assert_array_equal(group_means_uncompiled(V, group, weight, mass), means)


def test_centred_rows_are_those_of_the_kernel(groups):
    V, group, weight, mass = groups
    means = group_means_uncompiled(V, group, weight, mass)
    compiled, found = np.empty((2, *V.shape))
    centred_rows(V, means, group, weight, compiled)
    centred_rows_uncompiled(V, means, group, weight, found)
    np.testing.assert_array_equal(found, compiled)
    assert np.all(found[group < 0] == 0.0)


def test_no_rows_and_no_groups_have_no_means():
    none, no_group = np.zeros((0, 3)), np.zeros(0, dtype=np.intp)
    assert group_means_uncompiled(none, no_group, np.zeros(0), np.zeros(0)).shape == (0, 3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_columns", [1, 2, 7])
def test_anchored_products_are_those_of_the_kernel(n_columns, dtype):
    rng = np.random.default_rng(n_columns)
    Z = (1e3 + rng.normal(size=(300, n_columns))).astype(dtype)
    R = np.where(rng.random((300, 3)) < 0.2, 0.0, rng.normal(size=(300, 3)))
    anchor = rng.integers(0, 300, size=300)
    compiled = np.zeros((3, n_columns))
    anchored_product(Z, R, anchor, compiled)
    np.testing.assert_array_equal(anchored_product_uncompiled(Z, R, anchor), compiled.T)


def test_no_rows_have_an_anchored_product_of_zeros():
    none, no_anchor = np.zeros((0, 3)), np.zeros(0, dtype=np.intp)
    product = anchored_product_uncompiled(none, np.zeros((0, 2)), no_anchor)
    np.testing.assert_array_equal(product, np.zeros((3, 2)))
