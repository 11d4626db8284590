"""Sums over violated pairs, the losses made of them, and the solver with its certificate."""

import signal
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

import reference
from problems import problem
from rankwise.core.queries import Queries, TrainingData
from rankwise.graph.pair_sums import BLOCK_ENTRIES, BLOCK_ROWS, ExplicitPairs, GradedPairs
from rankwise.graph.preference_graph import Grades
from rankwise.rankers.svm.newton import minimize_hinge
from rankwise.rankers.svm.objective import (
    ItemSystems,
    NewtonSystems,
    RegularizedLoss,
    approximate_inverse,
    is_triangular,
    smoothed_hinge,
    solve_in_span,
    squared_hinge,
)
from rankwise.solve.iteration import StoppingRule

COSTS = ["unit", "magnitude"]
LOSSES = ["hinge", "squared_hinge"]
B = np.arange(1.0, 4.0)


def scored(seed, cost="unit", grades=3, query_weight="items", sizes=(5, 1, 7, 2, 40), n_features=3):
    """Return a problem, its pairs as a set and as a list."""
    P = problem(seed, sizes, n_features, grades)
    weight = np.random.default_rng(seed).integers(0, 4, len(P.y)) / 2.0
    grades = Grades.of(Queries.from_qid(P.qid), P.y, weight, keep_ties=False)
    omega = grades.query_weights(query_weight)
    listed = reference.score_pairs(P.y, P.qid, cost, "drop", query_weight, weight)
    return P, GradedPairs.of(grades, omega, P.y, cost), reference.winners_first(listed)


def explicit(pairs, margin, weight, n_items, cost="magnitude"):
    """Return comparisons as a set."""
    data = TrainingData.of(n_items, pairs=pairs, pair_margin=margin, pair_weight=weight)
    return ExplicitPairs.of(data, cost)


def rule(tol=1e-4, max_iter=200):
    return StoppingRule(tol, max_iter)


def compared(seed, n_items=12, n_pairs=40, n_features=3, cost="magnitude"):
    """Return rows, comparisons with any margin and weight as a set and as a list."""
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(n_items, 2, replace=False) for _ in range(n_pairs)])
    margin, weight = rng.normal(1.0, 1.0, n_pairs), rng.integers(0, 3, n_pairs).astype(float)
    listed = reference.compared_pairs(pairs, margin, weight, cost)
    X = rng.normal(size=(n_items, n_features))
    return X, explicit(pairs, margin, weight, n_items, cost), listed


def assert_same_sums(slacks, listed, scores, low, high, Z):
    total, squares, total_slope, slope, L = reference.violations(listed, scores, low)
    active = slacks.violations(low)
    np.testing.assert_allclose(active.total, total, atol=1e-10)
    np.testing.assert_allclose(active.squares, squares, atol=1e-10)
    np.testing.assert_allclose(active.squares_slope, slope, atol=1e-10)
    np.testing.assert_allclose(active.total_slope, total_slope, atol=1e-10)
    L -= reference.violations(listed, scores, high)[-1]
    band = slacks.band(low, high)
    np.testing.assert_allclose(band @ Z[:, 0], L @ Z[:, 0], atol=1e-10)
    np.testing.assert_allclose(band.gram(Z), Z.T @ L @ Z, atol=1e-9)
    added = np.ones(L.shape)
    band.add_to(added, 2.0)
    np.testing.assert_allclose(np.tril(added), np.tril(1.0 + 2.0 * L), atol=1e-10)


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("grades", [2, 3, None])
@pytest.mark.parametrize("seed", range(4))
def test_sums_over_scored_pairs_equal_those_pair_by_pair(cost, grades, seed):
    rng = np.random.default_rng(seed)
    query_weight = ["items", "pairs", "equal", {3: 1.0, 10: 2.0, 17: 0.0, 24: 3.0, 31: 0.5}][seed]
    P, pairs, listed = scored(seed, cost, grades, query_weight)
    scores = rng.normal(size=len(P.y)) if seed % 2 else rng.integers(-2, 3, len(P.y)) / 2.0
    Z = rng.normal(size=(len(P.y), 4))
    slacks = pairs.slacks(scores)
    for low, high in [(0.0, 0.5), (0.5, 2.0), (-1.0, np.inf), (0.0, np.inf)]:
        assert_same_sums(slacks, listed, scores, low, high, Z)
        assert_same_sums(pairs.slacks(scores, low), listed, scores, low, high, Z)


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("seed", range(3))
def test_sums_over_comparisons_equal_those_pair_by_pair(seed, cost):
    rng = np.random.default_rng(seed)
    _, pairs, listed = compared(seed, cost=cost)
    scores, Z = rng.normal(size=12), rng.normal(size=(12, 2))
    slacks = pairs.slacks(scores)
    for low, high in [(0.0, 0.7), (0.7, np.inf)]:
        assert_same_sums(slacks, listed, scores, low, high, Z)


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("grades", [2, 3, None])
@pytest.mark.parametrize("lowest", [-1.0, 0.0, 0.5, 50.0])
def test_only_items_in_a_pair_above_the_lowest_slack_are_sorted(cost, grades, lowest):
    P, pairs, listed = scored(2, cost, grades)
    scores = np.random.default_rng(2).integers(-2, 3, len(P.y)) / 2.0 + P.y
    above = {k for i, j, m, _ in listed if m - (scores[i] - scores[j]) > lowest for k in (i, j)}
    found = pairs.slacks(scores, lowest).items.item.tolist()
    assert len(found) == len(set(found))
    assert set(found) == above


@pytest.mark.parametrize("sizes", [(1500,), (900, 3, 800, 900, 700)])
def test_large_queries_are_summed_in_blocks_of_rows_and_columns(sizes):
    n_features = 1 + BLOCK_ENTRIES // max(sizes)
    assert len(sizes) == 1 or sum(sizes) > BLOCK_ROWS
    P = problem(2, sizes, n_features, grades=None)
    grades = Grades.of(Queries.from_qid(P.qid), P.y, np.ones(len(P.y)), keep_ties=False)
    pairs = GradedPairs.of(grades, np.ones(len(sizes)), P.y, "unit")
    band = pairs.slacks(P.y).band(0.0, np.inf)
    some = np.array([0, n_features // 2, n_features - 1])
    expected = np.stack([P.X.T @ (band @ P.X[:, k]) for k in some])
    np.testing.assert_allclose(band.gram(P.X)[some], expected, rtol=1e-9, atol=1e-6)


def test_an_offset_of_a_query_changes_nothing():
    P, pairs, _ = scored(0)
    scores = np.random.default_rng(0).integers(-9, 9, len(P.y)) / 8.0
    near = pairs.slacks(scores).violations(0.25)
    far = pairs.slacks(scores + 2.0**40 * P.qid).violations(0.25)
    assert near.squares == far.squares
    np.testing.assert_array_equal(near.squares_slope, far.squares_slope)


@pytest.mark.parametrize("width", [0.1, 1.0, 3.0])
def test_the_hinge_is_rounded_off_below_the_width(width):
    P, pairs, listed = scored(1, grades=None)
    scores = np.random.default_rng(1).normal(size=len(P.y))
    loss = smoothed_hinge(pairs, scores, width)
    t = np.array([max(0.0, m - (scores[i] - scores[j])) for i, j, m, _ in listed])
    c = np.array([c for *_, c in listed])
    share = np.minimum(1.0, t / width)
    np.testing.assert_allclose(loss.exact, c @ t)
    np.testing.assert_allclose(loss.smooth, c @ np.where(t < width, t * share / 2, t - width / 2))
    np.testing.assert_allclose(loss.smoothing_gap, c @ (t - share * t), atol=1e-12)
    slope = np.zeros(len(scores))
    for (i, j, *_), push in zip(listed, c * share, strict=True):
        slope[i] -= push
        slope[j] += push
    np.testing.assert_allclose(loss.slope, slope, atol=1e-10)
    step = 1e-6 * width
    wider, narrower = (smoothed_hinge(pairs, scores, width + s).slope for s in (step, -step))
    np.testing.assert_allclose(loss.slope_by_width, (wider - narrower) / (2 * step), atol=1e-4)


@pytest.mark.parametrize("kind", ["scored", "compared"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0])
def test_the_gap_is_that_to_the_best_multiple_of_the_dual_variables(kind, loss, scale):
    C, rng = 0.3, np.random.default_rng(3)
    if kind == "scored":
        P, pairs, listed = scored(3)
        X = P.X
    else:
        X, pairs, listed = compared(3)
    used = [p for p in listed if p[3] > 0]
    w = scale * rng.normal(size=3)
    at, power = (lambda f: smoothed_hinge(pairs, f, 0.4), 1) if loss == "hinge" else (None, 2)
    at = at or (lambda f: squared_hinge(pairs, f))
    point = RegularizedLoss.of(X, pairs, C).complete(w, X @ w, at(X @ w))
    f = X @ w
    t = np.maximum(0.0, [m - (f[i] - f[j]) for i, j, m, _ in used])
    share = np.minimum(1.0, t / 0.4) if loss == "hinge" else 2 * t
    duals = C * np.array([c for *_, c in used]) * share
    dual = reference.svm_best_scaled_dual(used, X, duals, C, power)
    np.testing.assert_allclose(point.objective, reference.svm_objective(used, X, w, C, power))
    np.testing.assert_allclose(point.bound, dual)
    np.testing.assert_allclose(point.objective - point.gap, dual)
    assert dual >= reference.svm_dual_objective(used, X, duals, C, power)


@pytest.mark.parametrize("C", [1.0, 1e6, 1e12])
def test_the_bound_keeps_its_digits_however_large_c_is(C):
    P, pairs, listed = scored(1)
    used = [p for p in listed if p[3] > 0]
    differences = np.array([P.X[i] - P.X[j] for i, j, *_ in used])
    c = np.array([c for *_, c in used])
    at_zero = RegularizedLoss.of(P.X, pairs, C).iterate(np.zeros(3), None)
    duals = 2.0 * C * c  # all slacks are 1
    total = duals @ differences
    quadratic = duals @ (duals / (4.0 * C * c)) + total @ total / 2.0
    np.testing.assert_allclose(at_zero.bound, duals.sum() ** 2 / (4.0 * quadratic), rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_hessian_equals_the_dense_one(dtype):
    P, pairs, listed = scored(4, n_features=40)
    Z = (P.X + 5.0).astype(dtype)
    scores = P.X[:, 0]
    L = reference.violations(listed, scores, 0.0)[-1]
    expected = np.eye(40) + 0.7 * 2 * Z.T.astype(float) @ L @ Z
    H = RegularizedLoss.of(Z, pairs, 0.7).formed_hessian(squared_hinge(pairs, scores))
    np.testing.assert_allclose(H, expected, atol=1e-9)


def test_cholesky_and_conjugate_gradients_solve_the_same_system():
    P, pairs, _ = scored(5)
    dense, loss, b = RegularizedLoss.of(P.X, pairs, 0.5), squared_hinge(pairs, P.y), B
    rows_only = replace(dense, dense=None)
    x = NewtonSystems.of(rows_only).solve(loss, b, 1e-12)
    np.testing.assert_allclose(NewtonSystems.of(dense).solve(loss, b, 1e-12), x, rtol=1e-9)
    np.testing.assert_allclose(dense.hessian(loss) @ x, b, rtol=1e-9)


def kernel_factor(n_items, seed=0):
    """Return a triangular Z with ZZ' the matrix of a kernel."""
    X = np.random.default_rng(seed).normal(size=(n_items, 2))
    squares = np.square(X[:, None] - X).sum(axis=2)
    return np.linalg.cholesky(np.exp(-squares) + 1e-3 * np.eye(n_items))


@pytest.mark.parametrize("c", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("is_scored", [True, False])
def test_items_give_the_solution_of_the_same_system(c, is_scored):
    _, pairs, listed = scored(4) if is_scored else compared(4)
    n_items = pairs.n_items
    Z, scores = kernel_factor(n_items), np.zeros(n_items)
    L = reference.violations(listed, scores, 0.0)[-1]
    b = np.random.default_rng(1).normal(size=n_items)
    solver = ItemSystems.of(Z).factorize(pairs.slacks(scores).band(0.0, np.inf), c)
    expected = np.linalg.solve(np.eye(n_items) + c * Z.T @ L @ Z, b)
    np.testing.assert_allclose(solver(b), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("n_items", [80, 600])
def test_a_triangular_map_gives_what_a_turned_one_gives(loss, n_items):
    _, pairs, _ = scored(4, sizes=(n_items,), grades=None)
    Z = kernel_factor(n_items)
    assert is_triangular(Z)
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=Z.shape))[0]
    assert not is_triangular(Z @ turn)
    by_items, formed = (minimize_hinge(A, pairs, loss, 3.0, rule(1e-6)) for A in (Z, Z @ turn))
    np.testing.assert_allclose(by_items.objective, formed.objective, rtol=1e-5)
    scores = Z @ by_items.point
    np.testing.assert_allclose(scores, Z @ turn @ formed.point, atol=2e-3 * np.abs(scores).max())


def test_the_hessian_is_formed_where_items_have_not_sufficed():
    P, pairs, _ = scored(4, grades=None)
    Z = kernel_factor(len(P.y))
    objective = RegularizedLoss.of(Z, pairs, 10.0)
    loss, b = objective.loss(np.zeros(len(P.y)), None), np.arange(1.0, len(P.y) + 1.0)
    systems_by_items = NewtonSystems.of(objective)
    assert systems_by_items.is_by_items
    systems_by_items.few_products = 0
    x = systems_by_items.solve(loss, b, 1e-8)
    assert not systems_by_items.is_by_items
    np.testing.assert_allclose(objective.formed_hessian(loss) @ x, b, rtol=1e-6)


def test_an_indefinite_hessian_falls_back_to_conjugate_gradients(monkeypatch):
    P, pairs, _ = scored(5)
    dense, loss, b = RegularizedLoss.of(P.X, pairs, 0.5), squared_hinge(pairs, P.y), B
    expected = NewtonSystems.of(dense).solve(loss, b, 1e-12)
    rounded = np.diag([1.0, -1.0, 1.0])
    monkeypatch.setattr(RegularizedLoss, "formed_hessian", lambda *_: rounded)
    x = NewtonSystems.of(dense).solve(loss, b, 1e-12)
    np.testing.assert_allclose(x, expected, rtol=1e-9)


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e2])
@pytest.mark.parametrize("n_features", [3, 90])
@pytest.mark.parametrize("is_scored", [True, False])
def test_the_span_of_the_pairs_holds_the_solution_of_the_same_system(C, n_features, is_scored):
    if is_scored:
        P, pairs, _ = scored(5, n_features=n_features)
        X = P.X
    else:
        X, pairs, _ = compared(5, n_features=n_features)
    objective = RegularizedLoss.of(X, pairs, C)
    rng = np.random.default_rng(1)
    loss, b = squared_hinge(pairs, rng.normal(size=len(X))), rng.normal(size=n_features)
    expected = np.linalg.solve(objective.formed_hessian(loss), b)
    x, is_solved = solve_in_span(objective.hessian(loss), b, 1e-8, 4000)
    assert is_solved
    np.testing.assert_allclose(objective.formed_hessian(loss) @ x, b, atol=1e-7 * np.abs(b).max())
    np.testing.assert_allclose(x, expected, atol=1e-6 * np.abs(expected).max())


def test_the_approximate_inverse_is_one_where_all_pairs_of_two_grades_count():
    y, v = np.repeat([0.0, 1.0], [12, 5]), np.random.default_rng(0).normal(size=17)
    grades = Grades.of(Queries.single(17), y, np.ones(17), keep_ties=False)
    L = GradedPairs.of(grades, np.ones(1), y, "unit").slacks(np.zeros(17)).band(0.0, np.inf)
    np.testing.assert_allclose(L @ approximate_inverse(L)(L @ v), L @ v, atol=1e-12)


def test_without_violated_pairs_the_span_is_empty():
    P, pairs, _ = scored(5)
    objective = RegularizedLoss.of(P.X, pairs, 1.0)
    loss = squared_hinge(pairs, 100.0 * P.y)
    x, is_solved = solve_in_span(objective.hessian(loss), B, 1e-8, 10)
    assert is_solved
    np.testing.assert_array_equal(x, B)


def test_products_take_over_where_the_span_has_not_sufficed(monkeypatch):
    P, pairs, _ = scored(5, n_features=40)
    objective = RegularizedLoss.of(csr_array(P.X), pairs, 5.0)
    loss, b = squared_hinge(pairs, np.zeros(len(P.y))), np.arange(1.0, 41.0)
    objective = replace(objective, dense=None)
    expected = NewtonSystems.of(objective).solve(loss, b, 1e-10)
    monkeypatch.setattr("rankwise.rankers.svm.objective.solve_in_span", lambda *_: (b, False))
    late = NewtonSystems(objective, 0)
    np.testing.assert_allclose(late.solve(loss, b, 1e-10), expected, rtol=1e-6)
    assert not late.is_spanned


@pytest.mark.parametrize("is_scored", [True, False])
def test_items_without_a_pair_can_be_left_out(is_scored):
    n_items = 55 if is_scored else 12
    pairs = scored(3)[1] if is_scored else compared(3, n_pairs=12)[1]
    band = pairs.slacks(np.random.default_rng(3).normal(size=n_items)).band(0.0, 1.5)
    items, among_them = band.joined()
    np.testing.assert_array_equal(np.sort(items), np.flatnonzero(band.diagonal() > 0.0))
    assert 0 < len(items) < n_items
    v = np.random.default_rng(4).normal(size=n_items)
    np.testing.assert_allclose(among_them @ v[items], (band @ v)[items], atol=1e-12)
    np.testing.assert_allclose(among_them.diagonal(), band.diagonal()[items], atol=1e-12)


@pytest.mark.parametrize("stop_at", [1, 3])
def test_a_run_stopped_early_is_certified_for_the_value_of_c_wanted(stop_at):
    P, pairs, _ = scored(5, n_features=90)
    X = csr_array(np.where(np.random.default_rng(0).random(P.X.shape) < 0.1, P.X, 0.0))
    full = minimize_hinge(X, pairs, "squared_hinge", 1e4, rule(1e-8))
    assert full.ending.converged
    stopped = minimize_hinge(
        X, pairs, "squared_hinge", 1e4, rule(1e-8), on_step=lambda step: step.iteration == stop_at
    )
    assert stopped.ending.was_stopped
    assert stopped.n_iter == stop_at
    found = stopped.certificate
    assert found.bound <= full.certificate.objective <= found.objective * (1 + 1e-12)


@pytest.mark.parametrize("max_products", [0, 2, 400])
def test_the_hessian_is_formed_when_products_have_not_sufficed(max_products):
    P, pairs, _ = scored(5, n_features=40)
    objective, b = RegularizedLoss.of(P.X, pairs, 500.0), np.arange(1.0, 41.0)
    loss = squared_hinge(pairs, np.zeros(len(P.y)))
    expected = np.linalg.solve(objective.formed_hessian(loss), b)
    given = NewtonSystems(objective, max_products)
    for _ in range(2):
        x = given.solve(loss, b, 1e-12)
        np.testing.assert_allclose(x, expected, rtol=1e-6)
        assert given.max_products == (400 if max_products == 400 else 0)


def test_products_come_first_for_many_features_and_are_all_for_sparse_ones():
    P, pairs, _ = scored(5, n_features=600)
    assert NewtonSystems.of(RegularizedLoss.of(P.X[:, :500], pairs, 1.0)).max_products == 0
    assert 0 < NewtonSystems.of(RegularizedLoss.of(P.X, pairs, 1.0)).max_products < 600
    rows = RegularizedLoss.of(csr_array(P.X), pairs, 1.0)
    assert rows.dense is None
    assert RegularizedLoss.of(csr_array(P.X[:, :500]), pairs, 1.0).dense is not None


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("cost", COSTS)
def test_the_optimum_lies_between_bound_and_objective(C, loss, cost):
    P, pairs, listed = scored(6, cost, grades=None if cost == "magnitude" else 3)
    power = 1 if loss == "hinge" else 2
    rough = minimize_hinge(P.X, pairs, loss, C, rule(0.05))
    tight = minimize_hinge(P.X, pairs, loss, C, rule(1e-7))
    assert rough.converged
    assert tight.converged
    assert rough.gap <= 0.05
    assert tight.gap <= 1e-7
    assert rough.bound <= tight.objective * (1 + 1e-9)
    assert tight.bound <= rough.objective
    expected = reference.svm_objective(listed, P.X, tight.point, C, power)
    np.testing.assert_allclose(tight.objective, expected)
    for nearby in 1e-3 * np.random.default_rng(0).normal(size=(20, 3)):
        value = reference.svm_objective(listed, P.X, tight.point + nearby, C, power)
        assert value >= tight.bound


@pytest.mark.parametrize("loss", LOSSES)
def test_many_sparse_features_give_what_few_dense_ones_would(loss):
    rng = np.random.default_rng(7)
    P, pairs, _ = scored(7)
    X = np.zeros((len(P.y), 700))
    X[:, rng.choice(700, 30, replace=False)] = rng.normal(size=(len(P.y), 30))
    sparse = minimize_hinge(csr_array(X), pairs, loss, 0.1, rule(1e-8))
    dense = minimize_hinge(X[:, X.any(axis=0)], pairs, loss, 0.1, rule(1e-8))
    assert sparse.converged
    np.testing.assert_allclose(sparse.point[X.any(axis=0)], dense.point, atol=1e-4)
    assert not sparse.point[~X.any(axis=0)].any()
    np.testing.assert_allclose(sparse.objective, dense.objective, rtol=2e-8)


def test_a_start_at_the_optimum_needs_no_step():
    P, pairs, _ = scored(8)
    first = minimize_hinge(P.X, pairs, "squared_hinge", 1.0, rule(1e-9))
    assert minimize_hinge(P.X, pairs, "squared_hinge", 1.0, rule(1e-9), first.point).n_iter == 0


@pytest.mark.parametrize("loss", LOSSES)
def test_without_positive_margins_zero_is_optimal(loss):
    pairs = explicit([[0, 1], [1, 2]], [0.0, -1.0], [1.0, 1.0], 3)
    solution = minimize_hinge(np.eye(3), pairs, loss, 1.0, rule())
    assert not solution.point.any()
    assert (solution.objective, solution.gap, solution.ending.reason) == (0.0, 0.0, "converged")


def test_runs_end_for_the_reason_they_give():
    P, pairs, _ = scored(9)

    def run(max_iter=200, on_step=None):
        return minimize_hinge(P.X, pairs, "hinge", 10.0, rule(1e-6, max_iter), on_step=on_step)

    assert run(max_iter=2).ending.reason == "max_iter"
    assert run(on_step=lambda step: step.iteration == 3).n_iter == 3
    assert run(on_step=lambda step: step.iteration == 3).ending.reason == "callback"
    interrupted = run(on_step=lambda _: signal.raise_signal(signal.SIGINT))
    assert (interrupted.ending.reason, interrupted.n_iter) == ("interrupted", 1)
    assert np.isfinite(interrupted.gap)


def test_only_true_stops_a_run():
    P, pairs, _ = scored(9)
    on_step = {"on_step": lambda _: "a word"}
    solution = minimize_hinge(P.X, pairs, "squared_hinge", 1.0, rule(), **on_step)
    assert solution.ending.reason == "converged"


def test_a_run_ends_where_rounding_errors_begin():
    P, pairs, _ = scored(9, grades=None, n_features=60)
    solution = minimize_hinge(P.X, pairs, "hinge", 1.0, rule(1e-14))
    assert solution.ending.reason == "precision"
    assert 1e-14 < solution.gap < 1e-5


def test_steps_tell_the_best_so_far():
    P, pairs, _ = scored(10)
    steps = []
    solution = minimize_hinge(P.X, pairs, "hinge", 1.0, rule(1e-5), on_step=steps.append)
    assert [step.iteration for step in steps] == list(range(1, solution.n_iter + 1))
    assert (np.diff([step.objective for step in steps]) <= 0).all()
    assert (np.diff([step.error * step.objective for step in steps]) <= 1e-12).all()
    assert steps[-1].error == pytest.approx(solution.gap)
