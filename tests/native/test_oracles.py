"""The oracles' sort, positions, planes and losses, on scores of every kind."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import reference
from rankwise.core.arrays import freeze
from rankwise.native.oracles import (
    OracleRoom,
    OracleTargets,
    StateTable,
    find_planes,
    place_first_relevant,
)
from rankwise.rankers.dorm.oracles.assignment import make_room, plan_assignments

SCORES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "zero": lambda _, n: np.zeros(n),
    "both zeros": lambda rng, n: rng.choice([0.0, -0.0, 1.0, -1.0], n),
    "a few ties": lambda rng, n: np.round(rng.normal(size=n), 1),
    "next to each other": lambda rng, n: 1.0 + rng.integers(0, 60, n) * 2.0**-52,
    "huge and tiny": lambda rng, n: rng.choice([1e300, -1e300, 1e-310, -5e-324, 0.0], n),
    "descending": lambda _, n: -np.arange(1.0 * n),
}
SIZES = [1, 2, 7, 8, 9, 16, 17, 33, 100, 1000]


def planes(plan, scores, target, ideal, first=0, last=None, room=None):
    """Return positions, coefficients and losses of some queries; all that is given is frozen."""
    last = len(plan.methods) if last is None else last
    rows = slice(plan.starts[first], plan.starts[last])
    given = freeze(scores[rows].copy())
    targets = OracleTargets(plan, freeze(target), freeze(ideal), freeze(np.ones(len(ideal))))
    found = np.empty(len(given), np.intp), np.empty(len(given)), np.empty(last - first)
    find_planes(targets, room or make_room(plan), first, last, given, *found)
    return found


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("n_items", SIZES)
def test_items_are_sorted_and_ties_stay_as_they_came(kind, n_items):
    scores = SCORES[kind](np.random.default_rng(n_items), n_items)
    nothing = np.zeros(n_items)
    plan = plan_assignments(nothing, nothing, -np.arange(1.0 * n_items))
    positions, _, _ = planes(plan, scores, nothing, np.zeros(1))
    np.testing.assert_array_equal(np.argsort(positions), np.argsort(-scores, kind="stable"))


def many_queries(kind, seed, n_grades, cutoff):
    """Return a plan of queries of different lengths, and scores."""
    rng = np.random.default_rng(seed)
    sizes = np.array([1, 2, 5, 8, 9, 30, 41])
    starts = np.concatenate([[0], np.cumsum(sizes)])
    i = np.concatenate([np.arange(1.0, n + 1) for n in sizes])
    discounts = np.where(i <= cutoff, 1.0 / np.log2(i + 1.0), 0.0)
    gains = 10.0 ** rng.uniform(-2, 1) * rng.integers(0, n_grades, len(i))
    scores = np.concatenate([SCORES[kind](rng, n) for n in sizes])
    return plan_assignments(gains, discounts, (i + 1.0) ** -0.5, starts), scores


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("n_grades", [1, 2, 5])
@pytest.mark.parametrize("cutoff", [3, 100])
def test_planes_are_those_of_the_best_rankings(kind, n_grades, cutoff):
    plan, scores = many_queries(kind, 0, n_grades, cutoff)
    rng = np.random.default_rng(1)
    target, ideal = rng.normal(size=len(scores)), rng.normal(size=len(plan.methods))
    positions, beta, losses = planes(plan, scores, target, ideal)
    for q, (first, last) in enumerate(zip(plan.starts[:-1], plan.starts[1:], strict=True)):
        rows, at = slice(first, last), positions[first:last]
        assert sorted(at) == list(range(last - first))
        b, a, c = plan.gains[rows], plan.discounts[rows], plan.decay[rows]
        V = reference.values_by_position(scores[rows], b, c, a)
        found = V[np.arange(len(V)), at].sum()
        size = np.abs(V).max(initial=1e-300)
        assert abs(found - reference.greatest_assignment(V)) <= 1e-13 * size * len(V)
        np.testing.assert_array_equal(beta[rows], target[rows] - c[at])
        np.testing.assert_allclose(losses[q], ideal[q] - a[at] @ b, atol=1e-13 * (1 + b.sum()))


def test_a_part_of_the_queries_has_the_same_planes_also_side_by_side_with_others():
    plan, scores = many_queries("a few ties", 3, 5, 4)
    target, ideal = np.linspace(0.0, 1.0, len(scores)), np.arange(1.0 * len(plan.methods))
    whole = planes(plan, scores, target, ideal)
    parts = [(0, 3), (3, 4), (4, 4), (4, 7)] * 20
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda part: planes(plan, scores, target, ideal, *part), parts))
    for k in range(3):
        joined = np.concatenate([part[k] for part in found[:4]])
        np.testing.assert_array_equal(joined, whole[k])
    for k, part in enumerate(found):
        for one, other in zip(part, found[k % 4], strict=True):
            np.testing.assert_array_equal(one, other)


def test_room_can_be_used_again_and_by_shorter_queries():
    plan, scores = many_queries("normal", 5, 3, 4)
    target, ideal, room = np.zeros(len(scores)), np.zeros(len(plan.methods)), make_room(plan)
    whole = planes(plan, scores, target, ideal)
    for first in (5, 0, 6, 2):
        positions, _, _ = planes(plan, scores, target, ideal, first, first + 1, room)
        rows = slice(plan.starts[first], plan.starts[first + 1])
        np.testing.assert_array_equal(positions, whole[0][rows])


def test_the_general_oracle_takes_over_where_states_do_not_suffice():
    plan, scores = many_queries("normal", 6, 5, 4)
    target, ideal = np.zeros(len(scores)), np.zeros(len(plan.methods))
    few = OracleRoom(41, StateTable(1, 4, 5, 41))
    small, _, _ = planes(plan, scores, target, ideal, room=few)
    for first, last in zip(plan.starts[:-1], plan.starts[1:], strict=True):
        rows = slice(first, last)
        V = reference.values_by_position(
            scores[rows], plan.gains[rows], plan.decay[rows], plan.discounts[rows]
        )
        found = V[np.arange(len(V)), small[rows]].sum()
        np.testing.assert_allclose(found, reference.greatest_assignment(V), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("fall", [2.0, 8.0, 40.0])
@pytest.mark.parametrize("scale", [1e-3, 1e-2, 0.1])
def test_a_chain_of_two_grades_may_be_far_from_its_first_guess(fall, scale):
    rng, n = np.random.default_rng(0), 300
    i = np.arange(1.0, n + 1)
    gains = 1.0 * (rng.random(n) < 0.4)
    scores = scale * (rng.normal(size=n) - gains)
    plan = plan_assignments(gains, np.exp(-i / fall), (i + 1.0) ** -0.1, method="two grades")
    positions, _, _ = planes(plan, scores, np.zeros(n), np.zeros(1))
    V = reference.values_by_position(scores, gains, plan.decay, plan.discounts)
    found = V[np.arange(n), positions].sum()
    np.testing.assert_allclose(found, reference.greatest_assignment(V), rtol=1e-12)


@pytest.mark.parametrize("kind", SCORES)
def test_the_first_relevant_item_on_frozen_arrays(kind):
    """Of the rankings with k others first, the best is found."""
    rng = np.random.default_rng(2)
    for n in (1, 2, 5, 12, 30):
        scores, i = SCORES[kind](rng, n), np.arange(1.0, n + 1)
        hits = rng.random(n) < 0.3
        hits[rng.integers(n)] = True
        decay, discounts = (i + 1.0) ** -0.5, 1.0 / i
        given = [freeze(v) for v in (scores, hits.view(np.uint8), decay, discounts)]
        positions = np.empty(n, np.intp)
        place_first_relevant(*given, positions)
        order = np.argsort(-scores, kind="stable")
        others, values = order[~hits[order]], []
        for k in range(len(others) + 1):
            ranking = [*others[:k], *(item for item in order if item not in others[:k])]
            first = np.flatnonzero(hits[ranking])[0]
            values.append(decay @ scores[ranking] - discounts[first])
        ranking = np.argsort(positions)
        assert sorted(positions) == list(range(n))
        found = decay @ scores[ranking] - discounts[np.flatnonzero(hits[ranking])[0]]
        assert found >= max(values) - 1e-13 * (1.0 + np.abs(scores).sum())
