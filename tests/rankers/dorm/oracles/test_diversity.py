"""Rankings with different sources in the head, against enumeration and mixed-integer programmes."""

from itertools import combinations

import numpy as np
import pytest

import reference
from rankwise.core.errors import InvalidInputError
from rankwise.rankers.dorm.oracles.assignment import assign, plan_assignments
from rankwise.rankers.dorm.oracles.diversity import (
    assign_constrained,
    diverse_oracle,
    diverse_positions,
    plan_diverse,
)


def assign_diverse(diverse, scores, **limits):
    """Return the positions in all queries."""
    find, parts = diverse_oracle(diverse, **limits), np.split(scores, diverse.plan.starts[1:-1])
    return np.concatenate([find(q, np.ascontiguousarray(g)) for q, g in enumerate(parts)])


def draw(rng, n_items, n_sources, cutoff, depth, flat=False):
    """Draw scores, gains, decay, discounts and sources of one query."""
    i = np.arange(1, n_items + 1)
    c = np.where((i > depth) & flat, (depth + 2.0) ** -0.5, (i + 1.0) ** -0.5)
    a = np.where(i <= cutoff, 1.0 / np.log2(i + 1.0), 0.0)
    b = rng.integers(0, 4, n_items) * 1.0
    noise = rng.normal(size=n_items)
    g = [noise, 0.1 * noise, b + noise, rng.integers(3, size=n_items) * 0.5, 0 * b]
    return g[rng.integers(5)], b, c, a, rng.integers(0, n_sources, n_items)


def value_of(positions, V):
    return V[np.arange(len(V)), positions].sum()


def head_sources(positions, sources, depth):
    return sources[positions < min(depth, len(np.unique(sources)))]


def assert_diverse(positions, sources, depth):
    head = head_sources(positions, sources, depth)
    assert len(np.unique(head)) == len(head)
    np.testing.assert_array_equal(np.sort(positions), np.arange(len(positions)))


@pytest.mark.parametrize("cutoff", [1, 3, 7], ids="loss up to {}".format)
@pytest.mark.parametrize("flat", [False, True], ids=["falling tail", "flat tail"])
def test_the_oracle_is_best_among_all_diverse_rankings(cutoff, flat):
    rng = np.random.default_rng(cutoff)
    for _ in range(12):
        n_items, depth = rng.integers(1, 8), rng.integers(1, 5)
        g, b, c, a, sources = draw(rng, n_items, rng.integers(1, 6), cutoff, depth, flat)
        positions = assign_diverse(plan_diverse(plan_assignments(b, a, c), sources, depth), g)
        assert_diverse(positions, sources, depth)
        V = reference.values_by_position(g, b, c, a)
        depth = min(depth, len(np.unique(sources)))
        best = reference.greatest_diverse_assignment(V, sources, depth)
        np.testing.assert_allclose(value_of(positions, V), best, atol=1e-12)


@pytest.mark.parametrize("flat", [False, True], ids=["falling tail", "flat tail"])
def test_the_oracle_agrees_with_a_mixed_integer_programme(flat):
    rng = np.random.default_rng(8)
    for _ in range(25):
        g, b, c, a, sources = draw(rng, 14, 5, 4, 4, flat)
        positions = assign_diverse(plan_diverse(plan_assignments(b, a, c), sources, 4), g)
        V = reference.values_by_position(g, b, c, a)
        depth = min(4, len(np.unique(sources)))
        by_programme = assign_constrained(V, np.eye(5)[sources], depth)
        np.testing.assert_allclose(value_of(positions, V), value_of(by_programme, V), atol=1e-9)


def test_the_programme_of_the_paper_is_integral_and_that_with_the_tail_is_not():
    """[LS08] (33) has rows for positions and sources; scoring the tail adds rows for items."""
    sources, n_items, depth = np.array([0, 0, 1, 1]), 4, 2
    of_source = np.eye(2)[:, sources]
    head = np.vstack([np.kron(np.ones(n_items), np.eye(depth)), np.kron(of_source, np.ones(depth))])
    for size in range(1, len(head) + 1):
        for rows in combinations(range(len(head)), size):
            for columns in combinations(range(head.shape[1]), size):
                assert abs(round(np.linalg.det(head[np.ix_(rows, columns)]))) <= 1
    items = np.kron(np.eye(n_items), np.ones(n_items))
    positions = np.kron(np.ones(n_items), np.eye(n_items))
    in_head = np.kron(of_source, np.arange(n_items) < depth)
    chosen = np.vstack([items[1:], positions[[1, 3]], in_head[1]])
    columns = [4 * i + j for i, j in ((1, 1), (1, 3), (2, 1), (2, 2), (3, 0), (3, 3))]
    assert abs(np.linalg.det(chosen[:, columns])) == pytest.approx(2.0)


def test_many_queries_are_solved_as_each_alone():
    rng = np.random.default_rng(9)
    queries = [draw(rng, rng.integers(1, 30), 6, rng.integers(1, 8), 5) for _ in range(40)]
    g, b, c, a, sources = (np.concatenate(column) for column in zip(*queries, strict=True))
    starts = np.concatenate([[0], np.cumsum([len(query[0]) for query in queries])])
    together = assign_diverse(plan_diverse(plan_assignments(b, a, c, starts), sources, 5), g)
    alone = [
        assign_diverse(plan_diverse(plan_assignments(b, a, c), sources, 5), g)
        for g, b, c, a, sources in queries
    ]
    np.testing.assert_array_equal(together, np.concatenate(alone))


def test_sources_of_their_own_change_nothing():
    rng = np.random.default_rng(10)
    g, b, c, a, _ = draw(rng, 20, 1, 5, 5)
    plan = plan_assignments(b, a, c)
    V = reference.values_by_position(g, b, c, a)
    diverse = assign_diverse(plan_diverse(plan, np.arange(20), 5), g)
    np.testing.assert_allclose(value_of(diverse, V), value_of(assign(plan, g), V), atol=1e-12)


@pytest.mark.parametrize("limit", [{"max_nodes": 1}, {"max_states": 2}])
@pytest.mark.parametrize("cutoff", [2, 6], ids="loss up to {}".format)
def test_a_search_that_grows_too_long_is_finished_by_a_programme(limit, cutoff):
    rng = np.random.default_rng(11)
    for _ in range(5):
        g, b, c, a, sources = draw(rng, 8, 3, cutoff, 3)
        diverse = plan_diverse(plan_assignments(b, a, c), sources, 3)
        V = reference.values_by_position(g, b, c, a)
        best = value_of(assign_diverse(diverse, g), V)
        limited = assign_diverse(diverse, g, **limit)
        np.testing.assert_allclose(value_of(limited, V), best, atol=1e-9)


def test_predicted_positions_are_best_among_all_diverse_rankings():
    rng = np.random.default_rng(12)
    for _ in range(30):
        g, _, c, _, sources = draw(rng, rng.integers(1, 8), 4, 1, 3)
        positions = diverse_positions(g, sources, [0, len(g)], 3)
        assert_diverse(positions, sources, 3)
        V = np.outer(g, c)
        depth = min(3, len(np.unique(sources)))
        best = reference.greatest_diverse_assignment(V, sources, depth)
        np.testing.assert_allclose(value_of(positions, V), best, atol=1e-12)


def test_positions_of_each_query_are_predicted_alone():
    scores = [5.0, 4.0, 3.0, 2.0, 1.0, 2.0, 3.0]
    sources = ["a", "a", "b", "b", "a", "a", "a"]
    positions = diverse_positions(scores, sources, [0, 4, 7], 2)
    np.testing.assert_array_equal(positions, [0, 2, 1, 3, 2, 1, 0])


def test_overlapping_weights_limit_the_head():
    V = np.outer([4.0, 3.0, 2.0, 1.0], [3.0, 2.0, 1.0, 0.0])
    weights = [[0.6, 0.0], [0.6, 0.0], [0.3, 1.0], [0.0, 0.5]]
    positions = assign_constrained(V, weights, 2)
    np.testing.assert_array_equal(positions, [0, 2, 1, 3])


def test_weights_that_leave_no_room_are_refused():
    with pytest.raises(InvalidInputError, match="leave room for 2 items"):
        assign_constrained(np.eye(3), np.ones((3, 1)), 2)


@pytest.mark.parametrize("depth", [0, -1])
def test_a_head_must_have_a_position(depth):
    plan = plan_assignments([1.0], [1.0], [1.0])
    with pytest.raises(InvalidInputError, match="`depth` must be 1 or more"):
        plan_diverse(plan, ["a"], depth)
    with pytest.raises(InvalidInputError, match="`depth` must be 1 or more"):
        diverse_positions([1.0], ["a"], [0, 1], depth)
