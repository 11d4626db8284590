"""The habits of judges are improved by a step that never makes their answers less probable."""

import numpy as np

from rankwise.comparisons.judges import improved_habits

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
