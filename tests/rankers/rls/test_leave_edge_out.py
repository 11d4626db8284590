"""Held-out comparisons equal those of a model fitted without them."""

import numpy as np
import pytest

from rankwise import Gaussian, Linear, PreferenceGraph, RankRLS
from rankwise.rankers.rls.leave_edge_out import leave_edge_out
from rankwise.selection.spaces import smallest_space

ALPHAS = np.array([1e-4, 1.0, 1e5])


@pytest.mark.parametrize("n_pairs", [5, 12, 60])
@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.3)], ids=repr)
@pytest.mark.parametrize("n_features", [2, 30])
def test_leave_edge_out_equals_refit(n_pairs, kernel, n_features):
    rng = np.random.default_rng(n_pairs)
    X = rng.normal(size=(12, n_features))
    pairs = np.array([rng.choice(12, 2, replace=False) for _ in range(n_pairs)])
    pairs = np.vstack([pairs, pairs[:2], pairs[:1, ::-1]])  # repeated and contradicting
    margin, weight = rng.normal(size=len(pairs)), rng.uniform(0.5, 2, len(pairs))
    graph = PreferenceGraph.from_pairs(pairs, margin, weight, n_items=12)
    space = smallest_space(X, kernel, None, graph.laplacian.rank(), rng)
    found = leave_edge_out(space, graph, pairs, margin, weight, ALPHAS)
    expected = np.empty((len(ALPHAS), len(pairs)))
    for e, (winner, loser) in enumerate(pairs):
        rest = np.delete(np.arange(len(pairs)), e)
        for a, alpha in enumerate(ALPHAS):
            ranker = RankRLS(alpha, kernel=kernel)
            ranker.fit(X, pairs=pairs[rest], pair_margin=margin[rest], pair_weight=weight[rest])
            expected[a, e] = np.subtract(*ranker.predict(X[[winner, loser]]))
    scale = np.abs(expected).max(axis=1, keepdims=True)
    np.testing.assert_allclose(found.differences / scale, expected / scale, atol=1e-8)
    assert found.error.max() < 1e-5
