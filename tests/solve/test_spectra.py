"""Shifted symmetric systems, by every route."""

import numpy as np
import pytest

from laws.namespaces import every_namespace
from rankwise import InvalidInputError, NumericalError, PreferenceGraph
from rankwise.core.namespaces import to_host
from rankwise.solve.normal_equations import (
    Spectrum,
    System,
    refuse_indefinite_matrix,
    solve_once,
    solve_path,
)

ALPHAS = np.array([1e-8, 1e-3, 1.0, 1e6])


def semidefinite(order, rank, seed=0):
    Z = np.random.default_rng(seed).normal(size=(order, rank))
    return Z @ Z.T


@pytest.mark.parametrize(("order", "rank"), [(1, 1), (2, 2), (3, 2), (12, 12), (12, 4)])
@pytest.mark.parametrize("route", ["spectrum", "path", "cholesky"])
@every_namespace
def test_solutions_satisfy_their_equations(order, rank, route, there):
    A = semidefinite(order, rank)
    B = A @ np.random.default_rng(1).normal(size=(order, 3))  # in the range of A
    if route == "spectrum":
        X = Spectrum.of(there(A)).path(B, ALPHAS)
        one = Spectrum.of(there(A)).solve(B, 1.0)
        np.testing.assert_allclose(one, X[2], atol=1e-12)
    elif route == "path":
        X = solve_path(there(A), B, ALPHAS)
    else:
        X = np.stack([solve_once(there(A), B, alpha) for alpha in ALPHAS])
    for x, alpha in zip(X, ALPHAS, strict=True):
        np.testing.assert_allclose(A @ x + alpha * x, B, atol=1e-7 * np.abs(B).max())


ROUTES = [solve_once, lambda A, B, alpha: solve_path(A, B, np.array([alpha]))[0]]


@every_namespace
@pytest.mark.parametrize("route", ROUTES)
def test_alpha_below_rounding_errors_still_gives_an_answer(route, there):
    A = semidefinite(30, 3) * 1e8
    A -= 1e-9 * np.eye(30) * np.abs(A).max() * 1e-3  # slightly indefinite
    B = semidefinite(30, 3) @ np.ones((30, 1))
    x = route(there(A), B, 1e-12)
    np.testing.assert_allclose(A @ x, B, atol=1e-6 * np.abs(B).max())


@every_namespace
def test_truly_indefinite_matrices_are_refused(there):
    A = semidefinite(6, 6) - 2 * np.eye(6)
    routes = (
        Spectrum.of,
        lambda A: solve_path(A, np.ones((6, 1)), np.array([1e-3])),
        lambda A: solve_once(A, np.ones((6, 1)), 1e-3),
        lambda A: refuse_indefinite_matrix(to_host(A)),
    )
    for call in routes:
        with pytest.raises(InvalidInputError, match="positive semidefinite"):
            call(there(A))


@every_namespace
def test_an_alpha_that_makes_a_matrix_definite_is_solved_by_every_route(there):
    A = semidefinite(6, 6) - 2 * np.eye(6)
    B = np.ones((6, 1))
    expected = np.linalg.solve(A + 3 * np.eye(6), B)
    for route in ROUTES:
        np.testing.assert_allclose(route(there(A), B, 3.0), expected)


def test_rounding_errors_below_zero_are_set_to_zero():
    assert Spectrum.of(semidefinite(20, 3)).values.min() >= 0.0


def test_empty_systems_are_fine():
    empty = np.zeros((0, 0))
    assert Spectrum.of(empty).order == 0
    assert solve_once(empty, np.zeros((0, 2)), 1.0).shape == (0, 2)
    refuse_indefinite_matrix(empty)


@every_namespace
@pytest.mark.parametrize("pairs", [None, np.array([[0, 1], [2, 1], [5, 9], [9, 3]])])
def test_systems_are_the_same_in_every_namespace(there, pairs):
    """Primal and dual, also with sums whitened in place of rows."""
    rng = np.random.default_rng(0)
    Z, C = rng.normal(size=(12, 4)) + 3.0, np.tril(rng.normal(size=(4, 4))) + 4 * np.eye(4)
    y = rng.integers(0, 4, size=12).astype(float)
    graph = PreferenceGraph.from_scores(y, np.arange(12) // 5)
    if pairs is not None:
        graph = PreferenceGraph.from_pairs(pairs, n_items=12)
    F = Z @ C.T
    ways = (
        lambda bring: System.primal(graph, bring(Z)),
        lambda bring: System.primal(graph, bring(F), bring(C)),
        lambda bring: System.dual(graph, bring(Z @ Z.T), trusted=False),
    )
    for make in ways:
        expected, rhs = make(np.array).path(ALPHAS), make(there).rhs
        found = make(there).path(ALPHAS)
        spectrum, lift = make(there).spectrum(), make(there).lift
        for k, alpha in enumerate(ALPHAS.tolist()):
            # rounding times the condition number, of eigenvalues up to 1e3
            slack = 1e-14 * (1.0 + 1e3 / alpha) * np.abs(expected[k]).max()
            for other in (found[k], make(there).solve(alpha), lift(spectrum.solve(rhs, alpha))):
                np.testing.assert_allclose(other, expected[k], rtol=0, atol=slack)


@every_namespace
def test_normal_equations_beyond_double_precision_are_refused(there):
    y = np.arange(5.0)
    with pytest.raises(NumericalError, match="The normal equations must be finite"):
        System.primal(PreferenceGraph.from_scores(y), there(1e180 * y[:, None]))
