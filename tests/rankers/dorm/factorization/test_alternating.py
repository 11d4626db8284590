"""Ranking factorisation against all rankings of small users, and what may never happen."""

import signal
import time
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.sparse import csr_array

import reference
from rankwise.rankers.dorm.cutting_planes import PrimalPlanes, solve
from rankwise.rankers.dorm.factorization import alternating
from rankwise.rankers.dorm.factorization.alternating import (
    Factors,
    ItemFactorPlanes,
    Ratings,
    best_scaled,
    factorize,
    fold_in,
    onset_of_factors,
    spectral_start,
)
from rankwise.rankers.dorm.losses import RankingLoss
from rankwise.rankers.dorm.oracles.assignment import ideal_positions, plan_assignments
from rankwise.solve.iteration import StoppingRule

EXACT = StoppingRule(tol=1e-8, max_iter=20_000)
LONG = StoppingRule(tol=1e-9, max_iter=50)

DISCOUNTS = {
    "NDCG": lambda i: 1.0 / np.log2(i + 1.0),
    "NDCG @ 2": lambda i: np.where(i <= 2, 1.0 / np.log2(i + 1.0), 0.0),
    "precision @ 3": lambda i: np.where(i <= 3, 1.0 / 3.0, 0.0),
    "ERU": lambda i: 2.0 ** ((1.0 - i) / 4.0),
}


@dataclass(frozen=True)
class Case:
    """Users with few ratings, and any factors."""

    ratings: Ratings
    factors: Factors
    R: csr_array

    @property
    def starts(self):
        return self.ratings.plan.starts

    def users(self):
        plan = self.ratings.plan
        for first, last in zip(self.starts[:-1], self.starts[1:], strict=True):
            rows = slice(first, last)
            columns = plan.gains, plan.discounts, plan.decay
            yield self.ratings.items[rows], *(column[rows] for column in columns)

    def naive(self, factors, C):
        return reference.factorization_objective(
            factors.U, factors.V, factors.bias, C, list(self.users())
        )

    def planes(self):
        """List the planes of each user for the target next to the ranking by the factors."""
        scores = np.split(self.ratings.scores(self.factors), self.starts[1:-1])
        for g, (_, *columns) in zip(scores, self.users(), strict=True):
            yield reference.all_planes(*columns, reference.nearest_ideal(g, *columns))


def case(seed=0, measure="NDCG", sizes=(4, 1, 5, 3, 2, 4), n_items=7, n_components=2, grades=3):
    """Draw users with ties, a user with one rating, an item that nobody rated."""
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    items = [np.sort(rng.permutation(n_items - 1)[:size]) for size in sizes]
    items = np.concatenate(items).astype(np.intp)
    i = np.concatenate([np.arange(1, size + 1) for size in sizes])
    gains = rng.integers(0, grades, len(i)) * 1.0
    plan = plan_assignments(gains, DISCOUNTS[measure](i), (i + 1.0) ** -0.5, starts)
    factors = Factors(
        rng.normal(size=(len(sizes), n_components)),
        rng.normal(size=(n_items, n_components)),
        rng.normal(size=n_items),
    )
    R = csr_array((gains, items, starts), shape=(len(sizes), n_items))
    return Case(Ratings(plan, items), factors, R)


def many(seed=0, n_users=40, n_items=30, n_rated=12, noise=0.3):
    """Draw users whose ratings follow two factors, as far as noise lets them."""
    rng = np.random.default_rng(seed)
    U, V = rng.normal(size=(n_users, 2)), rng.normal(size=(n_items, 2))
    signal_ = U @ V.T + 0.5 * rng.normal(size=n_items) + noise * rng.normal(size=(n_users, n_items))
    items = np.concatenate([np.sort(rng.permutation(n_items)[:n_rated]) for _ in range(n_users)])
    starts = np.arange(n_users + 1) * n_rated
    users = np.repeat(np.arange(n_users), n_rated)
    grades = np.digitize(signal_[users, items], [-1.0, 0.0, 1.0, 2.0]) * 1.0
    i = np.tile(np.arange(1, n_rated + 1), n_users)
    plan = plan_assignments(grades / 10.0, DISCOUNTS["NDCG"](i), (i + 1.0) ** -0.25, starts)
    R = csr_array((grades, items, starts), shape=(n_users, n_items))
    return Case(Ratings(plan, items), spectral_start(R, 3, rng), R)


@pytest.mark.parametrize("measure", DISCOUNTS)
def test_the_objective_is_that_of_all_rankings(measure):
    for seed in range(5):
        problem = case(seed, measure)
        loss = problem.ratings.loss_towards(problem.factors)
        fast = problem.ratings.objective(problem.factors, loss, 1.7)
        np.testing.assert_allclose(fast, problem.naive(problem.factors, 1.7), rtol=1e-12)


def test_factors_that_are_zero_pay_the_greatest_losses():
    problem = case(8)
    loss = problem.ratings.loss_towards(problem.factors)
    nothing = Factors(np.zeros((6, 2)), np.zeros((7, 2)), np.zeros(7))
    expected = problem.naive(nothing, 1.0)
    np.testing.assert_allclose(problem.ratings.greatest_losses(loss), expected, rtol=1e-12)


def test_aiming_next_to_the_current_ranking_lowers_the_objective():
    problem = case(1, grades=2)
    ratings, factors = problem.ratings, problem.factors
    at_best = ratings.objective(factors, ratings.loss_towards(factors), 1.0)
    rng = np.random.default_rng(0)
    others = [
        ratings.objective(
            factors, RankingLoss.from_gains(ratings.plan, rng.normal(size=len(ratings.items))), 1.0
        )
        for _ in range(20)
    ]
    assert min(others) >= at_best
    assert max(others) > at_best


@pytest.mark.parametrize("C", [0.1, 3.0, 30.0])
@pytest.mark.parametrize("measure", ["NDCG", "NDCG @ 2"])
def test_users_reach_the_optimum_over_all_rankings(C, measure):
    problem = case(2, measure)
    U = fold_in(problem.ratings, C, problem.factors, StoppingRule(max_iter=1), 1e-9)
    V, bias = problem.factors.V, problem.factors.bias
    for u, (items, *_), planes in zip(U, problem.users(), problem.planes(), strict=True):
        shifted = [(beta, loss - beta @ bias[items]) for beta, loss in planes]
        blocks = [(V[items], 1.0, shifted)]
        best = reference.structured_optimum(C, blocks, np.zeros(V.shape[1]))
        reached = reference.structured_objective(u, C, blocks)
        np.testing.assert_allclose(reached, best, rtol=1e-6, atol=1e-9)


def rows_for_items(problem):
    """Return the features of each rating when the factors of the items are the weights."""
    users = np.repeat(np.arange(len(problem.starts) - 1), np.diff(problem.starts))
    U, items = problem.factors.with_constant, problem.ratings.items
    X = np.zeros((len(items), *problem.factors.with_bias.shape))
    X[np.arange(len(items)), items] = U[users]
    return X.reshape(len(items), -1)


def space_of(problem):
    shape = problem.factors.with_bias.shape
    return ItemFactorPlanes(problem.ratings.items, problem.starts, shape)


@pytest.mark.parametrize("C", [0.1, 3.0])
@pytest.mark.parametrize("measure", ["NDCG", "precision @ 3"])
def test_items_reach_the_optimum_over_all_rankings(C, measure):
    problem = case(3, measure)
    loss = problem.ratings.loss_towards(problem.factors)
    space = space_of(problem)
    space.retarget(problem.factors.with_constant, loss.target)
    solution = solve(space, loss, C, EXACT)
    X = rows_for_items(problem)
    parts = zip(np.split(X, problem.starts[1:-1]), problem.planes(), strict=True)
    blocks = [(rows, 1.0, planes) for rows, planes in parts]
    best = reference.structured_optimum(C, blocks, np.zeros(X.shape[1]))
    reached = reference.structured_objective(solution.point.ravel(), C, blocks)
    np.testing.assert_allclose(solution.objective, reached, rtol=1e-10)
    np.testing.assert_allclose(reached, best, rtol=2e-7)
    np.testing.assert_array_equal(solution.point[-1], 0.0)  # the item that nobody rated


def test_planes_stay_valid_when_users_and_targets_move():
    problem, other = case(4), case(14)
    space, ratings = space_of(problem), problem.ratings
    for factors in (problem.factors, other.factors, problem.factors):
        loss = ratings.loss_towards(factors)
        space.retarget(factors.with_constant, loss.target)
        X = rows_for_items(Case(ratings, factors, problem.R))
        warm = solve(space, loss, 3.0, EXACT)
        cold = solve(PrimalPlanes(csr_array(X), problem.starts), loss, 3.0, EXACT)
        assert warm.converged
        np.testing.assert_allclose(warm.objective, cold.objective, rtol=2e-7)
        np.testing.assert_allclose(warm.bound, cold.bound, rtol=2e-7)


def test_items_learn_from_planes_found_elsewhere():
    problem = case(5)
    loss = problem.ratings.loss_towards(problem.factors)
    cuts = [list(planes) for planes in problem.planes()]

    def oracle(q, g):
        beta, _ = max(cuts[q], key=lambda plane: plane[1] - plane[0] @ g)
        rows = slice(problem.starts[q], problem.starts[q + 1])
        decay = problem.ratings.plan.decay[rows]
        return np.array([int(np.argmin(abs(decay - c))) for c in loss.target[rows] - beta])

    given = RankingLoss(loss.plan, loss.target, loss.ideal, loss.weights, oracle)
    objectives = []
    for each in (loss, given):
        space = space_of(problem)
        space.retarget(problem.factors.with_constant, each.target)
        objectives.append(solve(space, each, 2.0, EXACT).objective)
    np.testing.assert_allclose(*objectives, rtol=2e-7)


@pytest.mark.parametrize("measure", DISCOUNTS)
@pytest.mark.parametrize("C", [0.3, 3.0])
def test_the_objective_never_increases(measure, C):
    problem = case(6, measure, sizes=(6, 5, 1, 6, 3, 2, 6, 6))
    found = factorize(problem.ratings, C, problem.factors)
    assert len(found.objectives) > 2
    assert np.all(np.diff(found.objectives) <= 0.0)
    np.testing.assert_allclose(
        found.objectives[-1], problem.naive(found.factors, C), rtol=1e-10, atol=1e-12
    )


def test_no_half_step_improves_on_where_a_run_came_to_rest():
    problem, rule = many(n_users=15, n_items=8, n_rated=6), StoppingRule(1e-6, max_iter=500)
    found = factorize(problem.ratings, 0.5, problem.factors, rule, half_step_tol=1e-5)
    assert found.ending.converged
    loss, factors = problem.ratings.loss_towards(found.factors), found.factors
    U = fold_in(problem.ratings, 0.5, factors, rule, 1e-5)
    space = space_of(problem)
    space.retarget(factors.with_constant, loss.target)
    V = solve(space, loss, 0.5, StoppingRule(1e-5)).point
    users = Factors(U, factors.V, factors.bias)
    items = Factors(factors.U, V[:, :-1], V[:, -1])
    for moved in (users, items):
        value = problem.ratings.objective(moved, problem.ratings.loss_towards(moved), 0.5)
        assert value >= found.objectives[-1] * (1 - 1e-4)


def test_balanced_factors_have_the_same_scores_and_the_trace_norm_as_penalty():
    for n_components in (2, 9):  # also more than there are items
        factors = case(7, n_components=n_components).factors
        balanced = factors.balanced()
        scores = factors.U @ factors.V.T
        np.testing.assert_allclose(balanced.U @ balanced.V.T, scores, atol=1e-12)
        norm = np.linalg.svd(scores, compute_uv=False).sum()
        np.testing.assert_allclose(
            balanced.penalty, norm + 0.5 * np.sum(factors.bias**2), rtol=1e-12
        )
        assert balanced.penalty <= factors.penalty


def test_the_start_is_the_decomposition_of_centred_ratings():
    problem = many(noise=1.0)
    dense, rated = problem.R.toarray(), np.zeros(problem.R.shape, dtype=bool)
    users = np.repeat(np.arange(problem.R.shape[0]), np.diff(problem.R.indptr))
    rated[users, problem.R.indices] = True
    means = np.array([row[here].mean() for row, here in zip(dense, rated, strict=True)])
    dense = np.where(rated, dense - means[:, None], 0.0)
    dense /= dense[rated].std()
    bias = np.array([c[here].mean() for c, here in zip(dense.T, rated.T, strict=True)])
    left, s, right = np.linalg.svd(np.where(rated, dense - bias, 0.0))
    start = spectral_start(problem.R, 30, np.random.default_rng(0))
    np.testing.assert_allclose(start.bias, bias, atol=1e-12)
    np.testing.assert_allclose(start.U @ start.V.T, (left[:, :30] * s) @ right, atol=1e-10)


def test_equal_ratings_start_from_nothing():
    R = csr_array((np.full(6, 4.0), [0, 1, 2, 0, 1, 3], [0, 3, 6]), shape=(2, 5))
    start = spectral_start(R, 2, np.random.default_rng(0))
    for part in (start.U, start.V, start.bias):
        np.testing.assert_array_equal(part, 0.0)


def test_the_scale_of_the_start_is_the_best_of_many():
    problem = many(3)
    ratings, start = problem.ratings, problem.factors
    for C in (0.3, 30.0):
        best = best_scaled(ratings, start, C)
        np.testing.assert_allclose(best.U / best.U[0, 0], start.U / start.U[0, 0], rtol=1e-10)
        values = [
            ratings.objective(start.scaled(scale), ratings.loss_towards(start), C)
            for scale in alternating._SCALES
        ]
        scale = alternating._SCALES[int(np.argmin(values))]
        np.testing.assert_array_equal(best.bias, start.scaled(scale).bias)


def test_factors_of_users_pay_from_the_onset_on():
    problem = many(4, n_users=60)
    ratings, start = problem.ratings, problem.factors
    onset = onset_of_factors(ratings, start, np.random.default_rng(0))
    rule = StoppingRule(tol=1e-6, max_iter=200)
    norms = []
    for C in (onset / 3.0, 3.0 * onset):
        found = factorize(ratings, C, best_scaled(ratings, start, C), rule, half_step_tol=1e-4)
        norms.append(np.linalg.norm(found.factors.U @ found.factors.V.T))
    assert norms[0] < 1e-3 * norms[1]


def test_the_onset_does_not_fail_where_nothing_is_learned():
    plan = plan_assignments(np.zeros(2), np.array([1.0, 0.5]), np.array([1.0, 0.7]), [0, 2])
    ratings = Ratings(plan, np.array([0, 1]))
    factors = Factors(np.zeros((1, 1)), np.zeros((2, 1)), np.zeros(2))
    assert onset_of_factors(ratings, factors, np.random.default_rng(0)) == 1.0


def test_known_users_are_folded_in_where_they_were():
    problem, rule = many(5, n_users=20), StoppingRule(tol=1e-4, max_iter=200)
    found = factorize(problem.ratings, 2.0, problem.factors, rule, half_step_tol=1e-3)
    nobody = Factors(np.zeros_like(found.factors.U), found.factors.V, found.factors.bias)
    again = Factors(fold_in(problem.ratings, 2.0, nobody, rule, 1e-3), nobody.V, nobody.bias)
    value = problem.ratings.objective(again, problem.ratings.loss_towards(again), 2.0)
    np.testing.assert_allclose(value, found.objectives[-1], rtol=0.02)


def test_runs_follow_the_generator():
    problem = many(6)

    def run(seed):
        rng = np.random.default_rng(seed)
        return factorize(
            problem.ratings, 3.0, problem.factors, StoppingRule(max_iter=2), rng=rng
        ).factors.V

    np.testing.assert_array_equal(run(0), run(0))
    assert np.any(run(0) != run(1))


def test_users_come_out_the_same_however_they_are_shared_out():
    problem = many(7)
    together = fold_in(problem.ratings, 3.0, problem.factors)
    shared = fold_in(problem.ratings, 3.0, problem.factors, ratings_per_part=(50, 50_000))
    np.testing.assert_array_equal(shared, together)


def test_a_run_can_be_stopped_by_its_callback():
    problem, seen = many(8), []

    def stop(step):
        seen.append(step)
        return len(seen) == 3

    found = factorize(
        problem.ratings, 3.0, problem.factors, StoppingRule(tol=1e-9, max_iter=50), stop
    )
    assert found.ending.reason == "callback"
    assert [(step.iteration, step.label) for step in seen] == [
        (1, "users"),
        (1, "items"),
        (2, "users"),
    ]
    assert [step.objective for step in seen] == found.objectives[1:].tolist()


@pytest.mark.parametrize("half", ["users", "items"])
def test_an_interrupt_returns_the_best_so_far(half):
    problem = many(9)

    def interrupt(step):
        if step.iteration == 2 and step.label == half:
            signal.raise_signal(signal.SIGINT)

    found = factorize(
        problem.ratings, 3.0, problem.factors, StoppingRule(tol=1e-9, max_iter=50), interrupt
    )
    loss = problem.ratings.loss_towards(found.factors)
    assert found.ending.reason == "interrupted"
    assert problem.ratings.objective(found.factors, loss, 3.0) <= found.objectives[-1] * (1 + 1e-12)
    assert np.all(np.diff(found.objectives) <= 0.0)


def test_an_interrupt_inside_a_half_step_is_kept_in_mind(monkeypatch):
    problem = many(10)

    def pressed(*arguments, **settings):
        return solve(*arguments, on_step=lambda _: signal.raise_signal(signal.SIGINT), **settings)

    monkeypatch.setattr(alternating, "solve", pressed)
    found = factorize(
        problem.ratings, 3.0, problem.factors, StoppingRule(tol=1e-9), half_step_tol=1e-6
    )
    assert found.ending.reason == "interrupted"
    assert found.n_iter == 1


def test_an_interrupt_among_the_users_leaves_the_others_as_they_are(monkeypatch):
    problem, calls = many(7), []
    fit_users = alternating.fit_users

    def pressed(*arguments):
        time.sleep(0.02)
        fit_users(*arguments)
        calls.append(1)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(alternating, "fit_users", pressed)
    found = factorize(problem.ratings, 3.0, problem.factors, LONG, ratings_per_part=(20, 20))
    assert found.ending.reason == "interrupted"
    assert len(calls) < 12  # of 24 parts
    assert len(found.objectives) == 2
    assert found.objectives[1] < found.objectives[0]


def test_a_target_of_equal_gains_follows_the_scores():
    problem = case(11, grades=1)
    scores = problem.ratings.scores(problem.factors)
    loss = problem.ratings.loss_towards(problem.factors)
    place = ideal_positions(np.zeros(len(scores)), scores, problem.starts)
    place += np.repeat(problem.starts[:-1], np.diff(problem.starts))
    np.testing.assert_array_equal(loss.target, problem.ratings.plan.decay[place])
    np.testing.assert_allclose(loss.slacks(scores), 0.0, atol=1e-12)
