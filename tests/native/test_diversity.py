"""The search of heads with different sources against all rankings."""

import numpy as np
import pytest

import reference
from rankwise.core.arrays import freeze
from rankwise.native.diversity import best_diverse_head
from rankwise.native.oracles import StateTable


def draw(rng):
    """Return the frozen arrays of one query, and what is the head's depth and number of sources."""
    n_items, n_grades = int(rng.integers(1, 8)), int(rng.integers(1, 4))
    grades = np.unique(rng.integers(0, n_grades, n_items), return_inverse=True)[1]
    sources = np.unique(rng.integers(0, 4, n_items), return_inverse=True)[1]
    n_sources = int(sources.max()) + 1
    depth, i = int(rng.integers(1, n_sources + 1)), np.arange(1.0, n_items + 1)
    noise = rng.normal(size=n_items)
    scores = [noise, 0.1 * noise, np.zeros(n_items), np.round(noise)][rng.integers(4)]
    gains = 1.5 * np.arange(grades.max() + 1.0)
    discounts = np.where(i <= depth, 1.0 / i, 0.0)
    arrays = scores, grades, gains, (i + 1.0) ** -0.5, discounts, sources
    return [freeze(v) for v in arrays], n_sources, depth


@pytest.mark.parametrize("seed", range(60))
def test_the_head_is_best_among_all_with_different_sources(seed):
    (scores, grades, gains, decay, discounts, sources), n_sources, depth = draw(
        np.random.default_rng(seed)
    )
    n_items = len(scores)
    table, positions = StateTable(5000, depth, len(gains), n_items), np.empty(n_items, np.intp)
    given = table, scores, grades, gains, decay, discounts, sources, n_sources, depth
    assert best_diverse_head(*given, 1000, positions)
    V = reference.values_by_position(scores, gains[grades], decay, discounts)
    head = sources[positions < depth]
    assert len(set(head)) == len(head)
    found = V[np.arange(n_items), positions].sum()
    best = reference.greatest_diverse_assignment(V, sources, depth)
    np.testing.assert_allclose(found, best, rtol=1e-12, atol=1e-12)


def test_the_search_gives_up_beyond_its_states_and_nodes():
    """The items of least gain, which the head would take, are all of one source."""
    n_items = 12
    grades, sources = np.maximum(3 - np.arange(n_items), 0), np.arange(n_items) // 4
    grades[4:], sources = 3, np.minimum(sources, 1)
    scores, i = np.linspace(1.0, 0.9, n_items), np.arange(1.0, n_items + 1)
    decay, discounts = (i + 1.0) ** -0.5, np.where(i <= 2, 1.0 / i, 0.0)
    given = scores, grades, np.arange(4.0), decay, discounts, sources, 2, 2
    positions = np.full(n_items, -7)
    assert not best_diverse_head(StateTable(3, 2, 4, n_items), *given, 1000, positions)
    assert not best_diverse_head(StateTable(500, 2, 4, n_items), *given, 1, positions)
    np.testing.assert_array_equal(positions, -7)
    assert best_diverse_head(StateTable(500, 2, 4, n_items), *given, 1000, positions)
