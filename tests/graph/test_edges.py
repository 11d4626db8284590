"""Pairs of items with any weights: every product equals that with the dense matrix."""

import numpy as np
import pytest
from scipy.sparse import issparse

import reference
from rankwise.graph import edges
from rankwise.graph.edges import EdgeLaplacian, Incidence

N_ITEMS = 9


def incidence(seed, n_pairs=25):
    """Return pairs, some repeated and some turned round, their dense matrix and weights."""
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(N_ITEMS - 1, 2, replace=False) for _ in range(n_pairs)])
    D = reference.difference_rows(pairs, N_ITEMS)
    return Incidence.of(pairs, N_ITEMS), D, rng.integers(0, 4, n_pairs) / 2.0


@pytest.mark.parametrize("shape", [(), (1,), (4,)])
@pytest.mark.parametrize("seed", range(3))
def test_differences_and_their_adjoint_equal_dense_products(seed, shape):
    pairs, D, _ = incidence(seed)
    rng = np.random.default_rng(seed)
    V, values = rng.normal(size=(N_ITEMS, *shape)), rng.normal(size=(len(D), *shape))
    np.testing.assert_allclose(pairs.differences(V), D @ V, atol=1e-14)
    np.testing.assert_allclose(pairs.adjoint(values), D.T @ values, atol=1e-13)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_laplacians_of_any_weights_equal_the_dense_one(order, dtype):
    pairs, D, weight = incidence(1)
    V = np.asarray(np.random.default_rng(1).normal(size=(N_ITEMS, 4)), dtype=dtype, order=order)
    for w in (weight, 3.0 * weight[::-1].copy(), np.zeros_like(weight)):
        L = D.T @ np.diag(w) @ D
        assert issparse(pairs.laplacian(w))
        np.testing.assert_allclose(pairs.laplacian(w).toarray(), L, atol=1e-13)
        np.testing.assert_allclose(pairs.product(w, V), L @ V, atol=1e-12)
        np.testing.assert_allclose(pairs.product(w, V[:, 0]), L @ V[:, 0], atol=1e-12)
        np.testing.assert_allclose(pairs.gram(w, V), V.T @ L @ V, rtol=1e-6, atol=1e-12)


def test_an_offset_of_all_items_costs_no_digits():
    pairs, _, weight = incidence(3)
    V = np.random.default_rng(3).integers(-8, 8, size=(N_ITEMS, 3)) / 8.0
    np.testing.assert_array_equal(pairs.product(weight, V + 2.0**40), pairs.product(weight, V))
    np.testing.assert_array_equal(pairs.gram(weight, V + 2.0**40), pairs.gram(weight, V))


def test_the_gram_matrix_is_a_sum_over_blocks_of_pairs():
    n_pairs = 2 * edges.BLOCK_PAIRS + 7
    pairs, D, weight = incidence(4, n_pairs)
    Z = np.random.default_rng(4).normal(size=(N_ITEMS, 3))
    expected = Z.T @ D.T @ (weight[:, None] * (D @ Z))
    np.testing.assert_allclose(pairs.gram(weight, Z), expected)


def test_chosen_pairs_are_those_rows():
    pairs, D, weight = incidence(5)
    chosen = np.array([7, 0, 3])
    some = pairs.take(chosen)
    assert (some.n_pairs, some.n_items) == (3, N_ITEMS)
    expected = D[chosen].T @ np.diag(weight[chosen]) @ D[chosen]
    np.testing.assert_allclose(some.laplacian(weight[chosen]).toarray(), expected, atol=1e-14)
    none = pairs.take(np.array([], dtype=np.intp))
    assert not none.product(np.zeros(0), np.ones(N_ITEMS)).any()
    assert not none.gram(np.zeros(0), np.ones((N_ITEMS, 2))).any()
    assert not none.adjoint(np.zeros(0)).any()


def test_pairs_of_weight_zero_join_nothing():
    pairs = Incidence.of(np.array([[0, 1], [1, 2], [3, 4]]), 6)
    laplacian = EdgeLaplacian.of_pairs(pairs, np.array([1.0, 0.0, 2.0]))
    assert (laplacian.component >= 0).tolist() == [True, True, False, True, True, False]
    assert laplacian.rank() == 2
