"""Held-out comparisons equal those of a model fitted without them."""

import numpy as np
import pytest

import reference
from laws.namespaces import every_namespace
from rankwise import Gaussian, Linear, PreferenceGraph
from rankwise.core.queries import TrainingData
from rankwise.features.function_space import smallest_space
from rankwise.selection.leave_edge_out import leave_edge_out

ALPHAS = np.array([1e-4, 1.0, 1e5])


def refitted(Z, pairs, margin, weight, cost):
    """Leave out each comparison in turn and fit the others by least squares."""
    out = np.empty((len(ALPHAS), len(pairs)))
    for e, (winner, loser) in enumerate(pairs):
        rest = np.delete(np.arange(len(pairs)), e)
        listed = reference.compared_pairs(pairs[rest], margin[rest], weight[rest], cost)
        for a, alpha in enumerate(ALPHAS):
            w = reference.fit_least_squares(Z, listed, alpha)
            out[a, e] = Z[winner] @ w - Z[loser] @ w
    return out


@pytest.mark.parametrize("cost", ["magnitude", "unit", "relative"])
@pytest.mark.parametrize("n_pairs", [5, 12, 60])
@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.3)], ids=repr)
@pytest.mark.parametrize("n_features", [2, 30])
@every_namespace
def test_leave_edge_out_equals_refit(n_pairs, kernel, n_features, cost, there):
    rng = np.random.default_rng(n_pairs)
    X = rng.normal(size=(12, n_features))
    pairs = np.array([rng.choice(12, 2, replace=False) for _ in range(n_pairs)])
    pairs = np.vstack([pairs, pairs[:2], pairs[:1, ::-1]])  # repeated and contradicting
    margin, weight = rng.normal(size=len(pairs)), rng.uniform(0.5, 2, len(pairs))
    graph = PreferenceGraph.from_pairs(pairs, margin, weight, n_items=12)
    space = smallest_space(X, kernel, None, graph.laplacian.rank(), there(X))
    data = TrainingData.of(12, pairs=pairs, pair_margin=margin, pair_weight=weight)
    found = leave_edge_out(space, data, ALPHAS, cost=cost)
    Z = X if isinstance(kernel, Linear) else np.linalg.cholesky(kernel(X, X))
    expected = refitted(Z, pairs, margin, weight, cost)
    scale = np.abs(expected).max(axis=1, keepdims=True)
    np.testing.assert_allclose(found.differences / scale, expected / scale, atol=1e-8)
    assert found.error.max() < 1e-5


@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.3)], ids=repr)
@pytest.mark.parametrize("n_features", [2, 30])
@every_namespace
def test_a_huge_alpha_scales_the_differences_of_a_large_one(kernel, n_features, there):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, n_features))
    pairs = np.array([rng.choice(12, 2, replace=False) for _ in range(25)])
    graph = PreferenceGraph.from_pairs(pairs, n_items=12)
    space = smallest_space(X, kernel, None, graph.laplacian.rank(), there(X))
    alphas = np.array([1e10, 1e14, 1e18, 1e100])
    data = TrainingData.of(12, pairs=pairs)
    found = leave_edge_out(space, data, alphas)
    scaled = found.differences * alphas[:, None]
    size = np.abs(scaled).max()
    np.testing.assert_allclose(scaled[1:] - scaled[0], 0.0, atol=1e-6 * size)
    assert found.error.max() < 1e-10
