"""An offset of all features changes no order: closed forms lose no more digits than it has."""

import numpy as np
import pytest
from sklearn.base import clone

from rankwise import (
    ConditionalRankRLS,
    ConditionalRankRLSCV,
    Gaussian,
    GreedyRankRLS,
    KPCRank,
    KPCRankCV,
    LinearRankRLS,
    RankRLS,
    RankRLSCV,
)

EPS = np.finfo(float).eps
OFFSET = 500.0  # in standard deviations
ALPHAS = 2.0 ** np.arange(-15, 16, 3)
N_ITEMS = 60


def _exact(rng, *shape):
    """Draw numbers to which the offset can be added without rounding."""
    return np.round(rng.normal(size=shape) * 2**20) / 2**20


def _data(given, n_features):
    rng = np.random.default_rng(n_features)
    X, qid = _exact(rng, N_ITEMS, n_features), np.repeat(np.arange(6), N_ITEMS // 6)
    y = rng.integers(0, 3, N_ITEMS).astype(float)
    pairs = [rng.choice(np.flatnonzero(qid == q), 2, replace=False) for q in rng.integers(0, 6, 80)]
    offset = OFFSET * rng.choice([-1.0, 1.0], n_features)
    named = {"scores": {"y": y}, "pairs": {"pairs": pairs}}
    named["queries"] = {"y": y, "qid": qid}
    named["pairs in queries"] = {"pairs": pairs, "qid": qid}
    return X, X + offset, named[given]


RANKERS = [
    (RankRLS(), 4),
    (RankRLS(), 80),  # more features than items: the dual
    (RankRLS(kernel=Gaussian(0.1)), 4),
    (RankRLS(kernel=Gaussian(0.1), basis=20, random_state=0), 4),
    (RankRLSCV(ALPHAS), 4),
    (RankRLSCV(ALPHAS), 30),  # hold-outs by updates
    (RankRLSCV(ALPHAS), 80),
    (RankRLSCV(ALPHAS, kernel=Gaussian(0.1)), 4),
    (GreedyRankRLS(3), 6),
    (KPCRank(3, "linear"), 4),
    (KPCRank(10, Gaussian(0.1)), 4),
    (KPCRankCV(4, "linear"), 4),
    (KPCRankCV(10, Gaussian(0.1)), 4),
    (LinearRankRLS(tol=1e-12), 4),
]


@pytest.mark.parametrize(("ranker", "n_features"), RANKERS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("given", ["scores", "queries", "pairs", "pairs in queries"])
def test_offsets_of_features(ranker, n_features, given):
    X, shifted, data = _data(given, n_features)
    expected, found = clone(ranker).fit(X, **data), clone(ranker).fit(shifted, **data)
    if hasattr(expected, "path_"):
        np.testing.assert_allclose(found.path_.values, expected.path_.values, rtol=0, atol=1e-12)
        assert found.path_.best() == expected.path_.best()
    scores, others = expected.predict(X), found.predict(shifted)
    # rounding of the offset times the condition: the sum of squares of all features over alpha
    alpha = getattr(expected, "alpha_", 1.0)
    slack = OFFSET * EPS * (1.0 + X.size / alpha) * np.ptp(scores)
    np.testing.assert_allclose(others - others.mean(), scores - scores.mean(), rtol=0, atol=slack)


def _relation(scale=1.0):
    rng = np.random.default_rng(0)
    conditions, items = _exact(rng, 30, 5), scale * _exact(rng, 40, 5)
    y = conditions @ rng.normal(size=(5, 5)) @ items.T / scale + 0.3 * rng.normal(size=(30, 40))
    return conditions, items, items + scale * OFFSET, y


@pytest.mark.parametrize("cost", ["magnitude", "unit"])
@pytest.mark.parametrize("alpha", [1e-2, 1.0, 100.0])
@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_offsets_of_the_items_of_a_relation(scale, alpha, cost):
    """The vector 1 leaves the dual weights, which an uncentred kernel would multiply."""
    conditions, items, shifted, y = _relation(scale)
    alpha *= scale**2
    ranker = ConditionalRankRLS(alpha, cost=cost, ties="keep" if cost == "magnitude" else "drop")
    scores = clone(ranker).fit(conditions, items, y).predict(conditions, items)
    others = clone(ranker).fit(conditions, shifted, y).predict(conditions, shifted)
    condition = np.linalg.norm(conditions @ conditions.T, 2) * np.linalg.norm(shifted @ shifted.T)
    slack = EPS * condition / alpha * np.ptp(scores)
    centred = scores - scores.mean(axis=1, keepdims=True)
    others -= others.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(others, centred, rtol=0, atol=slack)


@pytest.mark.parametrize("new", ["conditions", "items", "both", "cells"])
def test_offsets_of_the_items_held_out(new):
    conditions, items, shifted, y = _relation()
    ranker = ConditionalRankRLSCV(2.0 ** np.arange(-6, 7, 3), new=new, random_state=0)
    expected = clone(ranker).fit(conditions, items, y)
    found = clone(ranker).fit(conditions, shifted, y)
    np.testing.assert_allclose(found.path_.values, expected.path_.values, rtol=0, atol=1e-12)
    assert found.alpha_ == expected.alpha_
