"""Measures of predicted answers."""

import numpy as np
import pytest

from rankwise import InvalidInputError, evaluate_answers


def test_probabilities_of_two_outcomes_are_judged_as_such():
    p = np.array([0.9, 0.6, 0.2, 0.5])
    found = evaluate_answers(p, [1, -1, -1, 1], weight=[1, 2, 1, 2])
    surprise = -np.log([0.9, 0.4, 0.8, 0.5])
    assert found.log_loss == pytest.approx(np.average(surprise, weights=[1, 2, 1, 2]))
    assert found.decided_log_loss == pytest.approx(found.log_loss)
    assert found.disagreement == pytest.approx((2 + 0.5 * 2) / 6)


def test_ties_count_as_answers_where_they_are_predicted():
    p = np.array([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]])
    found = evaluate_answers(p, [-1, 0])
    assert found.log_loss == pytest.approx(-np.mean(np.log([0.2, 0.6])))
    assert found.decided_log_loss == pytest.approx(-np.log(0.2 / 0.7))
    assert found.disagreement == 1.0


def test_calibrated_answers_are_found_to_be_so():
    rng = np.random.default_rng(0)
    p = rng.uniform(size=40_000)
    found = evaluate_answers(p, np.where(rng.random(40_000) < p, 1, -1))
    np.testing.assert_allclose(found.predicted, found.observed, atol=0.03)
    assert found.weight.sum() == 40_000
    assert len(found.predicted) == 10


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: evaluate_answers([1.2]), "`probability` must hold numbers from 0 to 1"),
        (lambda: evaluate_answers([[0.5, 0.5]]), "`probability` must hold"),
        (lambda: evaluate_answers([0.5], [2]), "`outcome` must be 1, 0 or -1"),
        (lambda: evaluate_answers([0.5], [1, 1]), "`outcome` must be 1, 0 or -1"),
        (lambda: evaluate_answers([[0.2, 0.6, 0.2]], [0]), "all are ties"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()
