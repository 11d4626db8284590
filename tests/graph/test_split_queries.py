"""The graph of queries that are split over parts is the sum of its shares, exactly."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise.core.queries import Queries
from rankwise.graph.preference_graph import PreferenceGraph
from rankwise.graph.split_queries import GradeCounts, SplitQueries

OPTIONS = [("magnitude", "drop"), ("magnitude", "keep"), ("unit", "drop"), ("relative", "drop")]


def split_sums(X, y, qid, weight, part, options):
    """Return X'LX and X'r, added up from the parts."""
    rows = [np.flatnonzero(part == p) for p in range(part.max() + 1)]
    counts = [GradeCounts.of(y[r], qid[r], weight[r], ties=options["ties"]) for r in rows]
    split = SplitQueries.of([c.without_items() for c in counts], **options)
    G, h = np.zeros((X.shape[1],) * 2), np.zeros(X.shape[1])
    means = []
    for r, count, share in zip(rows, counts, split.shares, strict=True):
        graph = share.local_graph(count.grade, y[r], qid[r], weight[r])
        G += graph.laplacian.gram(X[r])
        h += X[r].T @ graph.rhs
        means.append(share.bundles(count.grade, weight[r]).means(X[r]))
        totals = np.bincount(share.bundle[count.grade], graph.rhs, share.n_bundles)
        np.testing.assert_allclose(totals, 0.0, atol=1e-10 * (1 + np.abs(graph.rhs).max()))
    B = np.concatenate(means)
    G += split.graph.laplacian.gram(B)
    return G, h + B.T @ split.graph.rhs, split


@pytest.mark.parametrize(("cost", "ties"), OPTIONS)
@pytest.mark.parametrize("query_weight", ["items", "pairs", "equal", "given"])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), n_parts=st.integers(1, 7), weighted=st.booleans())
def test_sum_over_parts(cost, ties, query_weight, seed, n_parts, weighted):
    rng = np.random.default_rng(seed)
    n_items, n_queries = int(rng.integers(12, 60)), int(rng.integers(1, 6))
    X = rng.normal(size=(n_items, 3)) + 10
    y = (
        rng.integers(0, 4, n_items).astype(float)
        if rng.random() < 0.7
        else rng.normal(size=n_items)
    )
    y[:2] = 0.0, 1.0
    qid = np.append([0, 0], rng.integers(0, n_queries, n_items - 2))
    weight = rng.integers(0, 3, n_items).astype(float) if weighted else np.ones(n_items)
    weight[:2] = 1.0
    part = np.unique(rng.integers(0, n_parts, n_items), return_inverse=True)[1]
    if query_weight == "given":
        query_weight = {q: float(rng.integers(0, 3) + (q == 0)) for q in range(n_queries)}
    options = {"cost": cost, "ties": ties, "query_weight": query_weight}
    whole = PreferenceGraph.from_scores(y, qid, sample_weight=weight, **options)
    G, h, split = split_sums(X, y, qid, weight, part, options)
    size = 1 + np.abs(G).max()
    np.testing.assert_allclose(G, whole.laplacian.gram(X), atol=1e-11 * size)
    np.testing.assert_allclose(h, X.T @ whole.rhs, atol=1e-11 * size)
    assert split.n_ignored_queries == whole.n_ignored_queries


def test_unshared_grades_travel_as_one_bundle():
    rng = np.random.default_rng(0)
    y, qid, part = rng.normal(size=100), np.zeros(100, dtype=int), np.arange(100) % 4
    counts = [
        GradeCounts.of(y[part == p], qid[part == p], np.ones(25), ties="drop") for p in range(4)
    ]
    split = SplitQueries.of(counts, cost="magnitude", ties="drop", query_weight="items")
    assert split.graph.n_items == 4
    assert split.graph.queries.n_queries == 1


def test_ids_of_any_type():
    y = np.array([0.0, 1.0])
    ids = np.empty(2, dtype=object)
    ids[:] = [("a", 1), "b"]
    counts = [GradeCounts.of(y, ids, np.ones(2), ties="drop") for _ in range(2)]
    split = SplitQueries.of(counts, cost="magnitude", ties="drop", query_weight="items")
    assert Queries.from_qid(ids).n_queries == split.graph.queries.n_queries == 2
    assert split.n_ignored_queries == 2
