"""The oracle of the reciprocal rank against all rankings written out."""

import numpy as np
import pytest

import reference
from rankwise.rankers.dorm.oracles.assignment import assign_first_relevant


def found_value(scores, hits, decay, discounts):
    positions = assign_first_relevant(scores, hits, decay, discounts)
    assert sorted(positions) == list(range(len(scores)))
    return decay[positions] @ scores - discounts[positions[hits].min()]


@pytest.mark.parametrize("cutoff", [1, 2, 3, 7])
@pytest.mark.parametrize("exponent", [0.25, 1.0, 3.0])
def test_the_oracle_is_best_among_all_rankings(cutoff, exponent):
    rng = np.random.default_rng(7)
    for trial in range(60):
        n_items = int(rng.integers(1, 7))
        hits = rng.random(n_items) < rng.choice([0.2, 0.5, 0.9])
        hits[rng.integers(n_items)] = True
        scores = rng.choice([0.03, 0.3, 3.0]) * rng.normal(size=n_items)
        if trial % 3 == 0:
            scores = np.round(scores, 1)  # ties
        i = np.arange(1.0, n_items + 1.0)
        decay, discounts = (i + 1.0) ** -exponent, np.where(i <= cutoff, 1.0 / i, 0.0)
        best = reference.greatest_with_first_relevant(scores, hits, decay, discounts)
        assert found_value(scores, hits, decay, discounts) == pytest.approx(best, abs=1e-12)


def test_a_single_relevant_item_is_an_assignment():
    rng = np.random.default_rng(8)
    i = np.arange(1.0, 41.0)
    for scale in (0.02, 0.2, 2.0):
        scores, gains = scale * rng.normal(size=40), np.zeros(40)
        gains[rng.integers(40)] = 1.0
        V = reference.values_by_position(scores, gains, (i + 1.0) ** -0.5, 1.0 / i)
        value = found_value(scores, gains > 0, (i + 1.0) ** -0.5, 1.0 / i)
        assert value == pytest.approx(reference.greatest_assignment(V), abs=1e-12)
