"""Habits of judges: steps never make answers less probable, careless judges are as many as told."""

import numpy as np
import pytest
from scipy.special import expit, log_expit

from rankwise.comparisons.judges import careless_probability, improved_habits

CURVATURE = np.array([[2.0, 1.0, 4.0], [0.5, 0.0, -1.0], [1.0, 3.0, 2.0]])
TARGET = np.array([[0.3, -0.2, 5.0], [-0.2, 0.3, 0.1]])


def matrices(curvature):
    """Return the second derivatives of every judge as matrices."""
    return np.array([[[aa, ab], [ab, bb]] for aa, ab, bb in curvature.T])


def log_density(habits):
    off = habits - TARGET
    return -0.5 * np.einsum("ij,jik,kj->j", off, matrices(CURVATURE), off)


def improved(curvature):
    gradient = np.einsum("jik,kj->ij", matrices(CURVATURE), TARGET)
    return improved_habits(np.zeros((2, 3)), gradient, curvature, log_density)


def test_a_step_leads_to_the_maximum_but_no_habit_changes_by_more_than_a_factor_e():
    habits, variance = improved(CURVATURE)
    np.testing.assert_allclose(habits[:, :2], TARGET[:, :2], rtol=1e-12)
    np.testing.assert_array_equal(habits[0, 2], 1.0)
    inverse = np.linalg.inv(matrices(CURVATURE))
    np.testing.assert_allclose(variance, inverse.diagonal(axis1=1, axis2=2).T, rtol=1e-12)


def test_a_step_too_long_for_one_judge_is_halved_for_that_judge():
    """With a third of the true curvature the step is three times too long."""
    habits, _ = improved(CURVATURE * [1.0, 1.0 / 3.0, 1.0])
    np.testing.assert_allclose(habits[:, 0], TARGET[:, 0], rtol=1e-12)
    np.testing.assert_allclose(habits[:, 1], 1.5 * TARGET[:, 1], rtol=1e-12)
    assert (log_density(habits) >= log_density(np.zeros((2, 3)))).all()


def judged(share, rng, n_judges=80):
    """Return how every judge's answers depend on a reliability, and who answers at random."""
    is_random = rng.random(n_judges) < share
    reliability = np.where(is_random, 0.0, np.exp(0.4 * rng.normal(size=n_judges)))
    lead = 2.0 * rng.normal(size=(40, n_judges))
    given = np.arange(40)[:, None] < rng.integers(5, 41, size=n_judges)
    sign = np.where(rng.random(lead.shape) < expit(reliability * lead), 1.0, -1.0)
    return lambda r: (given * log_expit(sign * r * lead)).sum(axis=0), is_random


@pytest.mark.parametrize("share", [0.05, 0.15, 0.3])
def test_of_judges_said_to_be_careless_with_some_probability_that_share_is(share):
    rng = np.random.default_rng(0)
    worlds = [judged(share, rng) for _ in range(12)]
    said = np.concatenate([careless_probability(value, 80) for value, _ in worlds])
    true = np.concatenate([is_random for _, is_random in worlds])
    for low, high in [(0.0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1.0)]:
        some = (said >= low) & (said <= high)
        error = np.sqrt((said * (1.0 - said))[some].sum()) / some.sum()
        assert abs(said[some].mean() - true[some].mean()) < 3.0 * error + 0.03


def test_a_judge_alone_is_compared_with_usual_judges():
    agrees = careless_probability(lambda r: 30.0 * log_expit(2.0 * r), 1)
    against = careless_probability(lambda r: 30.0 * log_expit(-2.0 * r), 1)
    assert agrees[0] < 0.01
    assert against[0] > 0.99
