"""The exact oracles against SciPy's assignment solver on thousands of random queries."""

from dataclasses import dataclass

import numpy as np
import pytest

import reference
from rankwise.core.errors import InvalidInputError
from rankwise.rankers.dorm.oracles.assignment import (
    assign,
    assign_by_value,
    ideal_positions,
    plan_assignments,
)

DECAYS = {
    "root": lambda i: (i + 1.0) ** -0.5,
    "reciprocal": lambda i: 1.0 / (i + 1.0),
    "cubic": lambda i: (i + 1.0) ** -3,
    "logarithm": lambda i: 1.0 / np.log(i + 2.0),
    "linear": lambda i: i[-1] - 1.0 * i,
    "flat behind 3": lambda i: np.where(i <= 3, 4.0 - i, 0.0),
    "constant": lambda i: np.ones(len(i)),
}
DISCOUNTS = {
    "NDCG": lambda i, _: 1.0 / np.log2(i + 1.0),
    "NDCG @ n": lambda i, n: np.where(i <= n, 1.0 / np.log2(i + 1.0), 0.0),
    "precision @ n": lambda i, n: np.where(i <= n, 1.0 / n, 0.0),
    "reciprocal rank": lambda i, _: 1.0 / i,
    "rank utility": lambda i, n: 2.0 ** ((1.0 - i) / (n + 1.0)),
    "first": lambda i, _: 1.0 * (i == 1),
    "constant behind n": lambda i, n: np.where(i <= n, 2.0, 0.5),
}


@dataclass(frozen=True)
class Instances:
    """Many queries, one after the other, each with its own sequences."""

    starts: np.ndarray
    scores: np.ndarray
    gains: np.ndarray
    decay: np.ndarray
    discounts: np.ndarray

    def plan(self, method="auto"):
        return plan_assignments(self.gains, self.discounts, self.decay, self.starts, method)

    def query(self, q):
        rows = slice(self.starts[q], self.starts[q + 1])
        return self.scores[rows], self.gains[rows], self.decay[rows], self.discounts[rows]

    def values(self, positions):
        place = positions + np.repeat(self.starts[:-1], np.diff(self.starts))
        terms = self.decay[place] * self.scores - self.discounts[place] * self.gains
        return np.add.reduceat(terms, self.starts[:-1])

    def best(self):
        queries = (self.query(q) for q in range(len(self.starts) - 1))
        return np.array(
            [reference.greatest_assignment(reference.values_by_position(*q)) for q in queries]
        )


def draw(rng, n_queries, sizes, n_grades=(1, 6), real_gains=True, discounts=tuple(DISCOUNTS)):
    """Draw queries with ties, constant scores, one grade, and cut-offs beyond their length."""
    columns = []
    lengths = rng.integers(*sizes, n_queries)
    for length in lengths:
        i = np.arange(1, length + 1)
        grades = rng.integers(0, rng.integers(*n_grades, endpoint=True), length)
        gains = [grades * 1.0, 2.0**grades - 1.0, rng.random(length)]
        b = gains[rng.integers(3 if real_gains else 2)]
        noise = rng.normal(size=length)
        g = [noise, 0.1 * noise, 10 * noise, b + noise, rng.integers(3, size=length) * 0.3, 0 * b]
        a = DISCOUNTS[discounts[rng.integers(len(discounts))]](i, rng.integers(1, 12))
        c = list(DECAYS.values())[rng.integers(len(DECAYS))](i)
        columns.append((g[rng.integers(6)], b, c, a))
    starts = np.concatenate([[0], np.cumsum(lengths)])
    return Instances(starts, *(np.concatenate(column) for column in zip(*columns, strict=True)))


def assert_best(instances, method="auto"):
    positions = assign(instances.plan(method), instances.scores)
    for q in range(len(instances.starts) - 1):
        found = np.sort(positions[instances.starts[q] : instances.starts[q + 1]])
        np.testing.assert_array_equal(found, np.arange(len(found)))
    np.testing.assert_allclose(
        instances.values(positions), instances.best(), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("method", ["auto", "general", "truncated"])
def test_small_queries_reach_the_best_assignment(method):
    assert_best(draw(np.random.default_rng(0), 3000, (1, 12)), method)


@pytest.mark.parametrize("method", ["auto", "general", "truncated"])
def test_longer_queries_reach_the_best_assignment(method):
    assert_best(draw(np.random.default_rng(1), 300, (12, 90)), method)


@pytest.mark.parametrize("method", ["auto", "general", "two grades"])
def test_two_grades_reach_the_best_assignment(method):
    instances = draw(np.random.default_rng(2), 3000, (2, 30), (2, 2), real_gains=False)
    keep = [q for q in range(3000) if len(np.unique(instances.query(q)[1])) == 2]
    columns = [np.concatenate(c) for c in zip(*map(instances.query, keep), strict=True)]
    lengths = [len(instances.query(q)[0]) for q in keep]
    assert_best(Instances(np.concatenate([[0], np.cumsum(lengths)]), *columns), method)


def test_two_grades_leave_the_first_band():
    """Long queries whose optimum is far from the thresholds make the band grow."""
    rng = np.random.default_rng(3)
    i = np.arange(1, 301)
    for scale in (0.01, 0.1, 1.0):
        b = 1.0 * (rng.random(300) < 0.4)
        g = scale * rng.normal(size=300)
        instances = Instances(
            np.array([0, 300]), g, b, (i + 1.0) ** -0.5, np.where(i <= 150, 1.0, 0.0)
        )
        assert_best(instances, "two grades")


def test_threads_change_nothing():
    instances = draw(np.random.default_rng(8), 200, (1, 12))
    plan = instances.plan()
    alone = assign(plan, instances.scores)
    for n_parts in (2, 7, 500):
        np.testing.assert_array_equal(assign(plan, instances.scores, n_parts), alone)


def test_discounts_that_rise_are_solved():
    rng = np.random.default_rng(4)
    instances = draw(rng, 500, (1, 12))
    assert_best(
        Instances(
            instances.starts,
            instances.scores,
            instances.gains,
            instances.decay,
            rng.normal(size=len(instances.scores)),
        )
    )


def test_discounts_proportional_to_the_decay_need_one_sort():
    rng = np.random.default_rng(5)
    drawn = draw(rng, 500, (1, 12))
    instances = Instances(
        drawn.starts, drawn.scores, drawn.gains, drawn.decay, 3.0 * drawn.decay + 2.0
    )
    assert_best(instances, "sort")


def test_a_constant_added_to_the_discounts_changes_nothing():
    instances = draw(np.random.default_rng(6), 300, (1, 12))
    raised = plan_assignments(
        instances.gains, instances.discounts + 0.5, instances.decay, instances.starts
    )
    np.testing.assert_allclose(
        instances.values(assign(raised, instances.scores)), instances.best(), atol=1e-12
    )


def test_ties_in_the_scores_stay_in_the_order_of_the_items():
    plan = plan_assignments(np.zeros(5), np.zeros(5), [5.0, 4.0, 3.0, 2.0, 1.0])
    np.testing.assert_array_equal(assign(plan, [1.0, 2.0, 1.0, 2.0, 0.0]), [2, 0, 3, 1, 4])


@pytest.mark.parametrize("offset", [0.0, 1e9, -1e300])
def test_scores_that_hardly_differ_are_sorted(offset):
    g = offset + np.array([0.0, 1e-9, 2e-9, 1.0, 1.0 + 1e-12]) * max(abs(offset) * 1e-9, 1.0)
    plan = plan_assignments(np.zeros(5), np.zeros(5), np.arange(5.0, 0.0, -1.0))
    expected = np.empty(5, dtype=int)
    expected[np.argsort(-g, kind="stable")] = np.arange(5)
    np.testing.assert_array_equal(assign(plan, g), expected)


def test_scores_may_be_as_small_as_can_be():
    plan = plan_assignments(np.zeros(3), np.zeros(3), [3.0, 2.0, 1.0])
    np.testing.assert_array_equal(assign(plan, [0.0, 2e-310, 1e-310]), [2, 0, 1])


def test_general_costs_reach_the_best_assignment():
    V = np.random.default_rng(7).normal(size=(6, 6))
    positions = assign_by_value(V)
    np.testing.assert_allclose(V[np.arange(6), positions].sum(), reference.greatest_assignment(V))


def test_items_without_a_position_get_minus_one():
    V = np.array([[1.0], [3.0], [2.0]])
    np.testing.assert_array_equal(assign_by_value(V), [-1, 0, -1])


def test_ideal_positions_follow_the_gains_then_preliminary_scores():
    positions = ideal_positions([0, 1, 1, 0, 5, 5], [1, 2, 3, 4, 0, 1], [0, 4, 6])
    np.testing.assert_array_equal(positions, [3, 1, 0, 2, 1, 0])


def test_positions_of_equal_discount_are_filled_in_the_order_of_preliminary_scores():
    discounts = [1.0, 0.5, 0.0, 0.0, 0.0, 1.0, 1.0]
    gains, preliminary = [0, 3, 1, 2, 0, 0, 1], [5.0, 1, 2, 3, 4, 1, 0]
    positions = ideal_positions(gains, preliminary, [0, 5, 7], discounts)
    np.testing.assert_array_equal(positions, [2, 0, 4, 1, 3, 0, 1])


def test_the_plan_refuses_arrays_of_different_lengths():
    with pytest.raises(InvalidInputError, match="one entry per item"):
        plan_assignments([1.0, 2.0], [1.0], [1.0, 0.5])


def test_the_plan_refuses_empty_queries():
    with pytest.raises(InvalidInputError, match="every query needs at least one item"):
        plan_assignments([1.0, 2.0], [1.0, 0.0], [1.0, 0.5], [0, 1, 1, 2])


def test_the_plan_refuses_numbers_that_are_not_finite():
    with pytest.raises(InvalidInputError, match="must be finite"):
        plan_assignments([1.0, np.nan], [1.0, 0.0], [1.0, 0.5])


def test_the_plan_refuses_a_decay_that_rises():
    with pytest.raises(InvalidInputError, match="`decay` must not increase"):
        plan_assignments([1.0, 2.0], [1.0, 0.0], [0.5, 1.0])


def test_a_decay_may_rise_from_one_query_to_the_next():
    plan = plan_assignments([1.0, 2.0], [1.0, 0.0], [0.5, 1.0], [0, 1, 2])
    np.testing.assert_array_equal(assign(plan, [0.0, 1.0]), [0, 0])


def test_a_method_must_fit_every_query():
    with pytest.raises(InvalidInputError, match=r"does not fit query 0. Use \"auto\""):
        plan_assignments([0.0, 1.0, 2.0], [1.0, 0.5, 0.0], [1.0, 0.9, 0.0], method="two grades")


def test_scores_must_match_the_plan():
    plan = plan_assignments([1.0, 2.0], [1.0, 0.0], [1.0, 0.5])
    with pytest.raises(InvalidInputError, match="the plan has 2 items"):
        assign(plan, [1.0])
