"""Shifted symmetric systems, by every route."""

import numpy as np
import pytest

from rankwise import InvalidInputError
from rankwise.solve.normal_equations import (
    Spectrum,
    Tridiagonal,
    refuse_indefinite_matrix,
    solve_once,
)

ALPHAS = np.array([1e-8, 1e-3, 1.0, 1e6])


def semidefinite(order, rank, seed=0):
    Z = np.random.default_rng(seed).normal(size=(order, rank))
    return Z @ Z.T


@pytest.mark.parametrize(("order", "rank"), [(1, 1), (2, 2), (3, 2), (12, 12), (12, 4)])
@pytest.mark.parametrize("route", ["spectrum", "tridiagonal", "cholesky"])
def test_solutions_satisfy_their_equations(order, rank, route):
    A = semidefinite(order, rank)
    B = A @ np.random.default_rng(1).normal(size=(order, 3))  # in the range of A
    if route == "spectrum":
        X = Spectrum.of(A.copy()).path(B, ALPHAS)
        one = Spectrum.of(A.copy()).solve(B, 1.0)
        np.testing.assert_allclose(one, X[2], atol=1e-12)
    elif route == "tridiagonal":
        X = Tridiagonal.of(A.copy()).path(B, ALPHAS)
    else:
        X = np.stack([solve_once(A.copy(), B, alpha) for alpha in ALPHAS])
    for x, alpha in zip(X, ALPHAS, strict=True):
        np.testing.assert_allclose(A @ x + alpha * x, B, atol=1e-7 * np.abs(B).max())


@pytest.mark.parametrize("route", [solve_once, lambda A, B, a: Tridiagonal.of(A).path(B, [a])[0]])
def test_alpha_below_rounding_errors_still_gives_an_answer(route):
    A = semidefinite(30, 3) * 1e8
    A -= 1e-9 * np.eye(30) * np.abs(A).max() * 1e-3  # slightly indefinite
    B = semidefinite(30, 3) @ np.ones((30, 1))
    x = route(A.copy(), B, 1e-12)
    np.testing.assert_allclose(A @ x, B, atol=1e-6 * np.abs(B).max())


def test_truly_indefinite_matrices_are_refused():
    A = semidefinite(6, 6) - 2 * np.eye(6)
    routes = (
        Spectrum.of,
        lambda A: Tridiagonal.of(A).path(np.ones((6, 1)), [1e-3]),
        lambda A: solve_once(A, np.ones((6, 1)), 1e-3),
        refuse_indefinite_matrix,
    )
    for call in routes:
        with pytest.raises(InvalidInputError, match="positive semidefinite"):
            call(A.copy())


def test_an_alpha_that_makes_a_matrix_definite_is_solved_by_every_route():
    A = semidefinite(6, 6) - 2 * np.eye(6)
    B = np.ones((6, 1))
    expected = np.linalg.solve(A + 3 * np.eye(6), B)
    np.testing.assert_allclose(solve_once(A.copy(), B, 3.0), expected)
    np.testing.assert_allclose(Tridiagonal.of(A.copy()).path(B, [3.0])[0], expected)


def test_rounding_errors_below_zero_are_set_to_zero():
    assert Spectrum.of(semidefinite(20, 3)).values.min() >= 0.0


def test_empty_systems_are_fine():
    empty = np.zeros((0, 0))
    assert Spectrum.of(empty).order == 0
    assert solve_once(empty, np.zeros((0, 2)), 1.0).shape == (0, 2)
    refuse_indefinite_matrix(empty)
