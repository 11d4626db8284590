"""The best pair found with bounds is the best of all pairs."""

import numpy as np
import pytest

from rankwise.comparisons.gp.questions import information_gain, winner_score
from rankwise.native.processes import most_informative_pair, most_promising_pair


def beliefs(n_items, spread, seed):
    """Return frozen moments of scores; the covariance in column order."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n_items, n_items + 1))
    mean, S = spread * rng.normal(size=n_items), np.asfortranarray(root @ root.T / n_items)
    mean.flags.writeable = S.flags.writeable = False
    return mean, S


@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0, 30.0])
@pytest.mark.parametrize("noise", [1e-2, 1.0, 100.0])
@pytest.mark.parametrize("n_items", [2, 3, 9, 25])
def test_the_best_pair_that_is_not_taken_is_found(n_items, noise, spread):
    mean, S = beliefs(n_items, spread, n_items)
    i, j = np.triu_indices(n_items, 1)
    difference, variance = mean[i] - mean[j], S[i, i] + S[j, j] - 2.0 * S[i, j]
    gain = information_gain(difference, variance, noise)
    worth = winner_score(mean[j], difference, variance)
    for values, search in (gain, most_informative_pair), (worth, most_promising_pair):
        order = np.argsort(-values)
        for n_taken in range(min(3, len(order))):
            taken = np.stack([i[order[:n_taken]], j[order[:n_taken]]], axis=1)
            found = search(mean, S, noise, taken)
            best = order[n_taken]
            at = np.flatnonzero((i == found[0]) & (j == found[1]))[0]
            assert at not in order[:n_taken]
            np.testing.assert_allclose(values[at], values[best], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("search", [most_informative_pair, most_promising_pair])
def test_there_is_no_pair_of_no_items_or_if_all_are_taken(search):
    none = np.zeros((0, 2), dtype=np.intp)
    assert search(np.zeros(0), np.zeros((0, 0)), 1.0, none) == (-1, -1)
    assert search(np.zeros(2), np.eye(2), 1.0, np.array([[0, 1]])) == (-1, -1)
