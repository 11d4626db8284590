"""One factorisation gives the solution on the first p features, for every p."""

import numpy as np
import pytest

import reference
from problems import problem
from rankwise import PreferenceGraph
from rankwise.rankers.kpcrank import nested_cholesky as module
from rankwise.rankers.kpcrank.nested_cholesky import Moments, NestedSolutions

CONVENTIONS = [
    ("magnitude", "drop"),
    ("magnitude", "keep"),
    ("unit", "drop"),
    ("relative", "drop"),
]


def solved(X, graph, alpha, rows=None):
    return NestedSolutions.of(
        Moments.of(graph, X), np.eye(X.shape[1]) if rows is None else rows, alpha
    )


def dense(p, cost="magnitude", ties="drop"):
    return reference.laplacian(reference.score_pairs(p.y, p.qid, cost, ties, "items"), len(p.y))


@pytest.mark.parametrize("panel", [1, 3, 32])
@pytest.mark.parametrize("alpha", [0.0, 1e-3, 10.0])
@pytest.mark.parametrize(("cost", "ties"), CONVENTIONS)
def test_every_number_of_features_equals_a_separate_fit(monkeypatch, cost, ties, alpha, panel):
    monkeypatch.setattr(module, "PANEL", panel)
    p = problem(seed=1, n_features=7)
    graph = PreferenceGraph.from_scores(p.y, p.qid, cost=cost, ties=ties)
    L, r = dense(p, cost, ties)
    solutions = solved(p.X, graph, alpha)
    new = np.random.default_rng(0).normal(size=(4, 7))
    scores = solved(p.X, graph, alpha, new).scores()
    for k in range(1, 8):
        w = reference.fit_primal(p.X[:, :k], L, r, alpha)
        np.testing.assert_allclose(solutions.at(k)[:k, 0], w, rtol=1e-8)
        np.testing.assert_array_equal(solutions.at(k)[k:], 0.0)
        np.testing.assert_allclose(scores[k - 1, :, 0], new[:, :k] @ w, rtol=1e-8)


def test_outputs_are_solved_together():
    p = problem(seed=2, n_features=5, grades=None)
    Y = np.column_stack([p.y, np.sin(p.y), -p.y])
    together = solved(p.X, PreferenceGraph.from_scores(Y, p.qid), 0.1).scores()
    for k, y in enumerate(Y.T):
        alone = solved(p.X, PreferenceGraph.from_scores(y, p.qid), 0.1).scores()
        np.testing.assert_allclose(together[:, :, k], alone[:, :, 0], atol=1e-12)


@pytest.mark.parametrize("panel", [2, 32])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_features_that_add_nothing_get_no_weight(monkeypatch, panel, offset):
    monkeypatch.setattr(module, "PANEL", panel)
    p = problem(seed=3, n_features=4)
    graph = PreferenceGraph.from_scores(p.y, p.qid)
    a, b, c, d = p.X.T
    constant = np.cos(p.qid)  # inside queries
    X = np.column_stack(
        [constant + offset, a, b, a - 2 * b + np.sin(p.qid), np.zeros_like(a), c, d]
    )
    useful = [1, 2, 5, 6]
    found, plain = solved(X, graph, 0.0), solved(p.X, graph, 0.0)
    np.testing.assert_array_equal(found.at(7)[[0, 3, 4]], 0.0)
    np.testing.assert_allclose(found.at(7)[useful], plain.at(4), rtol=1e-7)
    np.testing.assert_allclose(found.at(4)[useful[:2]], plain.at(2)[:2], rtol=1e-7)
    assert found.errors.max() < 1e-10


def test_features_beyond_the_rank_of_the_graph_change_nothing():
    p = problem(seed=4, n_features=40)
    graph = PreferenceGraph.from_scores(p.y, p.qid, ties="keep")
    rank = graph.laplacian.rank()
    solutions = solved(p.X, graph, 0.0, p.X)
    scores = solutions.scores()[:, :, 0]
    np.testing.assert_array_equal(
        scores[rank:], np.broadcast_to(scores[rank - 1], scores[rank:].shape)
    )
    fitted = scores[rank - 1]
    for q in set(p.qid):
        gap = (fitted - p.y)[p.qid == q]
        np.testing.assert_allclose(gap, gap[0], atol=1e-7)


def test_moments_of_disjoint_graphs_add_up():
    p = problem(seed=5)
    first = p.qid == p.qid[0]
    whole = Moments.of(PreferenceGraph.from_scores(p.y, p.qid), p.X)
    parts = [
        Moments.of(PreferenceGraph.from_scores(p.y[rows], p.qid[rows]), p.X[rows])
        for rows in (first, ~first)
    ]
    total = parts[0] + parts[1]
    np.testing.assert_allclose(total.gram, whole.gram)
    np.testing.assert_allclose(total.rhs, whole.rhs)
    np.testing.assert_allclose(total.size, whole.size)


def test_lost_digits_are_admitted():
    p = problem(seed=6, n_features=3)
    graph = PreferenceGraph.from_scores(p.y, p.qid)
    near = p.X[:, :1] + 1e-5 * p.X[:, 1:2]
    solutions = solved(np.hstack([p.X[:, :1], near, p.X[:, 2:]]), graph, 0.0)
    assert solutions.errors[0] < 1e-14
    assert solutions.errors[1] > 1e-8
    assert solutions.errors[2] >= solutions.errors[1]
