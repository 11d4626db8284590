"""Conformal statements about the next query: they hold as often as they say, over drawn worlds."""

import numpy as np
import pytest

import rankwise
from rankwise import AutoRanker, InvalidInputError, NextQuery
from rankwise.core.queries import Queries


def world(rng, n_queries, n_items=6):
    """Draw scores that follow grades with noise, and a value for each query."""
    queries = Queries.of(np.repeat(np.arange(n_queries), n_items), n_queries * n_items)
    y = rng.integers(3, size=queries.n_items).astype(float)
    scores = y + rng.normal(size=queries.n_items)
    return rng.random(n_queries), scores, y, queries


def differs(y, queries):
    grades = y.reshape(queries.n_queries, -1)
    return grades.max(axis=1) > grades.min(axis=1)


@pytest.mark.parametrize("coverage", [0.8, 0.9])
def test_intervals_and_sets_hold_as_often_as_they_say(coverage):
    rng = np.random.default_rng(0)
    inside, sets = [], []
    for _ in range(300):  # a world of 40 queries, and the next 20
        found = NextQuery.of("NDCG", *world(rng, 40))
        values, scores, y, queries = world(rng, 20)
        low, high = found.interval(coverage)
        inside.append(np.mean((values >= low) & (values <= high)))
        in_set = found.best_set(scores, queries, coverage).reshape(20, -1)
        grades = y.reshape(20, -1)
        has_best = (in_set & (grades == grades.max(axis=1)[:, None])).any(axis=1)
        sets.append(has_best[differs(y, queries)].mean())
    error = np.std(inside) / np.sqrt(300), np.std(sets) / np.sqrt(300)
    # at least as often, and at most by a query in 40 more
    assert coverage - 3.0 * error[0] < np.mean(inside) < coverage + 2.0 / 41 + 3.0 * error[0]
    assert coverage - 3.0 * error[1] < np.mean(sets) < coverage + 1.0 / 35 + 3.0 * error[1]


def test_leads_are_of_the_first_item_before_the_best_one():
    queries = Queries.of([0, 0, 0, 1, 1, 2, 2, 3, 3], 9)
    y = np.array([0.0, 2.0, 2.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0])
    scores = np.array([3.0, 0.5, 1.0, 2.0, 0.0, 5.0, 1.0, 9.0, 0.0])
    found = NextQuery.of("NDCG", np.array([0.5, 1.0, 0.7, np.nan]), scores, y, queries)
    assert found.values.tolist() == [0.5, 0.7, 1.0]
    assert found.leads.tolist() == [0.0, 2.0]  # all grades of one query are equal, one is not known
    assert found.reach(0.5) == 2.0
    assert found.reach(0.9) == np.inf
    assert found.interval(0.9) == (0.5, 1.0)
    assert found.best_set(np.array([1.0, 0.0, -2.0]), Queries.of([0, 0, 0], 3), 0.5).tolist() == [
        True, True, False]  # fmt: skip
    with pytest.raises(InvalidInputError, match="`coverage` must be"):
        found.interval(1.0)
    with pytest.raises(InvalidInputError, match="`coverage` must be"):
        found.reach(0.0)
    nothing = NextQuery("NDCG", np.array([1.0]), np.zeros(0))
    with pytest.raises(InvalidInputError, match="with a best item"):
        nothing.best_set(scores, queries)


def test_a_ranker_tells_of_the_next_query(tmp_path):
    rng = np.random.default_rng(1)
    qid = np.repeat(np.arange(40), 6)
    X = rng.normal(size=(240, 3))
    y = np.digitize(X[:, 0] + 0.7 * rng.normal(size=240), [0.0, 1.0]).astype(float)
    ranker = AutoRanker("NDCG @ 3", time_budget=1e-6, cv=3).fit(X, y, qid=qid)
    low, high = ranker.next_query_.interval()
    assert 0.0 <= low < ranker.honest_value_.value < high <= 1.0
    assert f"One new query: {low:.4f} to {high:.4f}" in ranker.report()
    scores = ranker.predict(X, qid=qid).reshape(40, 6)
    in_set = ranker.best_set(X, qid=qid).reshape(40, 6)
    assert in_set[np.arange(40), scores.argmax(axis=1)].all()
    reach = ranker.next_query_.reach()
    np.testing.assert_array_equal(in_set, scores.max(axis=1)[:, None] - scores <= reach + 1e-9)
    ranker.save(tmp_path / "model")
    loaded = rankwise.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.best_set(X, qid=qid), in_set.ravel())
    assert "One new query" in ranker.report(X, y, qid).html
    alone = AutoRanker("Concordance", time_budget=1e-6, cv=3).fit(X, y)
    assert alone.next_query_ is None
    with pytest.raises(InvalidInputError, match="scores of at least 10 queries"):
        alone.best_set(X)
