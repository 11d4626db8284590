"""The rule for ties of held-out scores, against a naive form of it."""

import numpy as np
import pytest

from rankwise.selection.ties import CHUNK, equal_ties, tie_share, zero_ties


def naive(scores, group, error):
    """Sort each group and pass the smallest score on along runs of close neighbours."""
    out = scores.copy()
    for a, k, g in np.ndindex(len(scores), scores.shape[2], group.max() + 1):
        rows = np.flatnonzero(group == g)
        order = rows[np.argsort(scores[a, rows, k])]
        values = scores[a, order, k]
        slack = min(max(10 * error[a], 1e-12), 1e-6) * np.ptp(values)
        slack = max(slack, 2.0**-46 * np.abs(values).max())
        for before, here, value, last in zip(
            order[:-1], order[1:], values[1:], values[:-1], strict=True
        ):
            out[a, here, k] = out[a, before, k] if value - last <= slack else value
    return out


@pytest.mark.parametrize("error", [0.0, 1e-10, 1.0])
@pytest.mark.parametrize("offset", [0.0, 1e6])
@pytest.mark.parametrize("n_items", [40, CHUNK])
def test_ties_are_runs_of_close_neighbours(n_items, offset, error):
    rng = np.random.default_rng(0)
    scores = np.round(rng.normal(size=(2, n_items, 2)), 1) + offset
    scores += 10.0 ** rng.uniform(-18, -5, scores.shape)
    group = rng.integers(-1, 7, n_items) if n_items < CHUNK else np.sort(rng.integers(-1, 7, CHUNK))
    scores[:, group < 0] = np.nan
    errors = np.array([error, 0.0])
    given = scores.copy()
    found = equal_ties(scores, group, errors)
    assert np.array_equal(found, naive(scores, group, errors), equal_nan=True)
    assert np.array_equal(scores, given, equal_nan=True)
    assert len(np.unique(found)) < len(np.unique(scores))


def test_ties_are_passed_on_from_neighbour_to_neighbour():
    chain = np.r_[np.arange(5) * 0.9e-12, 0.5, 1.0]
    found = equal_ties(chain[None, :, None], np.zeros(7, dtype=int), np.zeros(1))
    assert found[0, :, 0].tolist() == [0.0] * 5 + [0.5, 1.0]


def test_scores_without_ties_are_not_copied():
    scores = np.random.default_rng(0).normal(size=(3, 50, 1))
    scores[:, 1] = scores[:, 0]
    assert equal_ties(scores, np.zeros(50, dtype=int), np.zeros(3)) is scores


def test_groups_without_two_items_have_no_ties():
    scores = np.array([[[1.0], [1.0 + 1e-15], [np.nan]]])
    assert equal_ties(scores, np.array([0, 1, -1]), np.zeros(1)) is scores
    assert equal_ties(scores, np.full(3, -1), np.zeros(1)) is scores


def test_a_lead_is_zero_up_to_a_share_of_what_it_is_formed_from():
    leads = np.array([2e-12, 0.5e-12, -0.5e-12, 2e-11])
    assert zero_ties(leads, 1.0, 0.0).tolist() == [2e-12, 0.0, 0.0, 2e-11]
    assert zero_ties(leads, 1.0, 1e-12).tolist() == [0.0, 0.0, 0.0, 2e-11]
    assert zero_ties(leads, 10.0, 1e-12).tolist() == [0.0] * 4


def test_an_unknown_error_is_the_largest_that_counts():
    assert tie_share(np.array([0.0, 1e-9, np.inf, np.nan])).tolist() == [1e-12, 1e-8, 1e-6, 1e-6]
