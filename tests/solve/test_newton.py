"""Damped Newton steps reach the maximum, also from where plain ones leave it."""

import numpy as np
import pytest

from rankwise.solve.iteration import StoppingRule
from rankwise.solve.newton import MAX_HALVINGS, armijo, halved, newton_steps

RULE = StoppingRule(tol=1e-12, max_iter=50)


def value(x):
    return -float(np.log(np.cosh(x)))


def solve(x, _):
    """Return the Newton step of -log cosh, and its decrement."""
    slope, curvature = -np.tanh(x), np.cosh(x) ** -2.0
    return slope / curvature, slope**2 / curvature


def damped(x, step):
    enough = armijo(value(x), solve(x, 0.0)[1])
    return halved(lambda share: x + share * step, value, enough, 1.0)


def test_halved_steps_converge_where_plain_ones_diverge():
    assert abs(2.0 + solve(2.0, 0.0)[0]) > 10.0
    x, step, n_iter, ending = newton_steps(2.0, solve, damped, RULE)
    assert ending.reason == "converged"
    assert n_iter < 12
    assert x + step == pytest.approx(0.0, abs=1e-6)  # the decrement is the square of the distance


def test_a_limit_of_steps_is_told_with_the_remedy():
    rule = StoppingRule(tol=1e-12, max_iter=2)
    _, _, n_iter, ending = newton_steps(2.0, solve, damped, rule, "Begin nearer.")
    assert n_iter == 2
    assert ending.reason == "max_iter"
    assert ending.message.endswith("Begin nearer.")


def test_a_step_is_solved_for_with_the_decrement_of_the_one_before():
    told = []

    def follow(x, last):
        told.append((last, solve(x, last)[1]))
        return solve(x, last)

    newton_steps(2.0, follow, damped, RULE)
    lasts, decrements = zip(*told, strict=True)
    assert lasts == (0.0, *decrements[:-1])


def test_separate_problems_halve_their_own_steps():
    start, step = np.array([1.0, 1.0, 0.0]), np.array([-1.0, -8.0, 0.0])

    def squares(x):
        return -(x**2)

    found = halved(
        lambda share: start + share * step, squares, lambda _: squares(start), np.ones(3)
    )
    np.testing.assert_array_equal(found, [0.0, -1.0, 0.0])


def test_a_step_that_never_leads_up_is_given_up():
    shares = []
    halved(lambda share: shares.append(share) or share, lambda _: -1.0, lambda _: 0.0, 1.0)
    assert len(shares) == MAX_HALVINGS + 1
    assert shares[-1] == 0.5**MAX_HALVINGS
