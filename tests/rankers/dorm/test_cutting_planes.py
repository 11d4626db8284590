"""The solver against quadratic programmes over all rankings of small queries."""

import signal
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pytest
from scipy.sparse import csr_array

import reference
from rankwise.core.errors import InvalidInputError
from rankwise.rankers.dorm.cutting_planes import DualPlanes, PrimalPlanes, solve, solve_path
from rankwise.rankers.dorm.losses import RankingLoss
from rankwise.rankers.dorm.oracles.assignment import ideal_positions, plan_assignments
from rankwise.solve.iteration import StoppingRule

EXACT = StoppingRule(tol=1e-7, max_iter=20_000)

DISCOUNTS = {
    "NDCG": lambda i: 1.0 / np.log2(i + 1.0),
    "NDCG @ 2": lambda i: np.where(i <= 2, 1.0 / np.log2(i + 1.0), 0.0),
    "reciprocal rank": lambda i: 1.0 / i,
    "precision @ 2": lambda i: np.where(i <= 2, 0.5, 0.0),
}


@dataclass(frozen=True)
class Small:
    """Few items in few queries, so that all rankings can be written out."""

    X: np.ndarray
    starts: np.ndarray
    gains: np.ndarray
    discounts: np.ndarray
    decay: np.ndarray
    preliminary: np.ndarray

    @property
    def plan(self):
        return plan_assignments(self.gains, self.discounts, self.decay, self.starts)

    def loss(self, weights=None):
        return RankingLoss.from_gains(self.plan, self.preliminary, weights)

    def rows(self, q):
        return slice(self.starts[q], self.starts[q + 1])

    def blocks(self, weights=None):
        target = ideal_positions(self.gains, self.preliminary, self.starts, self.discounts)
        columns = self.gains, self.discounts, self.decay, target
        planes = [
            reference.all_planes(*(column[self.rows(q)] for column in columns))
            for q in range(len(self.starts) - 1)
        ]
        weights = np.ones(len(planes)) if weights is None else weights
        return [(self.X[self.rows(q)], weights[q], planes[q]) for q in range(len(planes))]


def small(seed=0, sizes=(4, 1, 5, 3, 2), n_features=3, measure="NDCG"):
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    i = np.concatenate([np.arange(1, size + 1) for size in sizes])
    X = rng.normal(size=(starts[-1], n_features))
    X[:, -1] = 1.0  # a constant feature, which no ranking depends on
    gains = rng.integers(0, 3, starts[-1]) * 1.0
    preliminary = rng.normal(size=starts[-1])
    return Small(X, starts, gains, DISCOUNTS[measure](i), (i + 1.0) ** -0.5, preliminary)


def certify(solution, problem, blocks, earlier=None):
    """Check the objective by enumeration and the bounds by the optimum."""
    earlier = np.zeros(problem.X.shape[1]) if earlier is None else earlier
    best = reference.structured_optimum(solution.C, blocks, earlier)
    reached = reference.structured_objective(solution.point, solution.C, blocks, earlier)
    np.testing.assert_allclose(solution.objective, reached, rtol=1e-10)
    assert solution.bound <= best * (1 + 1e-7)
    assert solution.objective >= best * (1 - 1e-7)
    return best


@pytest.mark.parametrize("measure", DISCOUNTS)
@pytest.mark.parametrize("C", [0.03, 1.0, 30.0])
def test_the_optimum_over_all_rankings_is_reached(measure, C):
    for seed in range(2):
        problem = small(seed, measure=measure)
        solution = solve(PrimalPlanes(problem.X, problem.starts), problem.loss(), C, EXACT)
        best = certify(solution, problem, problem.blocks())
        assert solution.converged
        assert solution.gap <= 1e-7
        np.testing.assert_allclose(solution.objective, best, rtol=2e-7)


def test_the_certificate_holds_when_the_run_stops_early():
    problem = small(3)
    space = PrimalPlanes(problem.X, problem.starts)
    solution = solve(space, problem.loss(), 10.0, StoppingRule(tol=0.0, max_iter=2))
    certify(solution, problem, problem.blocks())
    assert solution.ending.reason == "max_iter"
    assert solution.n_iter == 2
    assert solution.gap > 0
    assert solution.details["n_oracle_calls"] == 3 * 5
    assert set(solution.details["seconds"]) == {"oracle passes", "cached passes", "certificates"}


@pytest.mark.parametrize("max_iter", range(1, 12))
@pytest.mark.parametrize("tol", [0.3, 0.03, 0.003])
def test_a_run_has_converged_just_when_its_gap_is_below_tol(tol, max_iter):
    problem = small(seed=3, sizes=(6, 8, 1, 7, 9, 5))
    space = PrimalPlanes(problem.X, problem.starts)
    solution = solve(space, problem.loss(), 3.0, StoppingRule(tol, max_iter))
    assert solution.converged == (solution.gap <= tol)


def test_a_constant_feature_gets_no_weight():
    problem = small(4)
    solution = solve(PrimalPlanes(problem.X, problem.starts), problem.loss(), 1.0, EXACT)
    assert abs(solution.point[-1]) < 1e-12


def test_slacks_bound_the_loss_of_the_ranking_by_the_scores():
    problem = small(5, sizes=(30, 20, 25))
    solution = solve(PrimalPlanes(problem.X, problem.starts), problem.loss(), 1.0)
    scores = problem.X @ solution.point
    for q, slack in enumerate(solution.details["slacks"]):
        rows = problem.rows(q)
        gains, discounts = problem.gains[rows], problem.discounts[rows]
        reached = discounts @ gains[np.argsort(-scores[rows])]
        assert slack >= discounts @ np.sort(gains)[::-1] - reached - 1e-12


def test_queries_without_a_preference_leave_the_weights_at_zero():
    problem = small(6, sizes=(3, 1))
    plan = plan_assignments(np.ones(4), problem.discounts, problem.decay, problem.starts)
    loss = RankingLoss.from_gains(plan, problem.X[:, 0])
    solution = solve(PrimalPlanes(problem.X, problem.starts), loss, 0.0, StoppingRule())
    assert solution.converged
    assert solution.objective == solution.gap == 0.0
    np.testing.assert_array_equal(solution.point, 0.0)


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_a_linear_kernel_gives_the_linear_solution(C):
    problem = small(7)
    linear = solve(PrimalPlanes(problem.X, problem.starts), problem.loss(), C, EXACT)
    K = problem.X @ problem.X.T
    dual = solve(DualPlanes(K, problem.starts), problem.loss(), C, EXACT)
    assert dual.converged
    np.testing.assert_allclose(dual.objective, linear.objective, rtol=2e-7)
    np.testing.assert_allclose(K @ dual.point, problem.X @ linear.point, atol=1e-3)


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_sparse_rows_give_the_dense_solution(C):
    rng = np.random.default_rng(8)
    problem = small(8, n_features=12)
    X = problem.X * (rng.random(problem.X.shape) < 0.3)
    X[problem.rows(2)] = 0.0
    dense = solve(PrimalPlanes(X, problem.starts), problem.loss(), C)
    sparse = solve(PrimalPlanes(csr_array(X), problem.starts), problem.loss(), C)
    np.testing.assert_allclose(sparse.point, dense.point, atol=1e-9)
    assert sparse.n_iter == dense.n_iter


def test_a_path_solves_every_c():
    problem = small(9)
    Cs = [0.1, 1.0, 10.0, 2.0, 0.5]
    path = list(solve_path(PrimalPlanes(problem.X, problem.starts), problem.loss(), Cs, EXACT))
    assert [solution.C for solution in path] == Cs
    for solution in path:
        best = certify(solution, problem, problem.blocks())
        np.testing.assert_allclose(solution.objective, best, rtol=2e-7)


def test_a_larger_c_starts_from_the_same_point():
    problem = small(10)
    space, loss = PrimalPlanes(problem.X, problem.starts), problem.loss()
    solve(space, loss, 1.0, EXACT)
    before = space.point.copy()
    space.move_to(loss.targets(5.0))
    np.testing.assert_allclose(space.point, before, rtol=1e-12)
    np.testing.assert_allclose(space.planes.weights.sum(axis=1), 1.0, rtol=1e-12)


def test_a_path_is_no_longer_than_separate_runs():
    problem = small(11, sizes=(20,) * 20)
    loss, Cs = problem.loss(), [0.1, 1.0, 10.0]
    path = list(solve_path(PrimalPlanes(problem.X, problem.starts), loss, Cs))
    alone = [solve(PrimalPlanes(problem.X, problem.starts), loss, C) for C in Cs]
    assert sum(s.n_iter for s in path) < sum(s.n_iter for s in alone)


def test_weights_multiply_the_slacks():
    problem = small(12)
    weights = np.array([2.0, 1.0, 0.5, 0.0, 3.0])
    space = PrimalPlanes(problem.X, problem.starts)
    solution = solve(space, problem.loss(weights), 1.0, EXACT)
    best = certify(solution, problem, problem.blocks(weights))
    np.testing.assert_allclose(solution.objective, best, rtol=2e-7)


def test_the_weights_stay_close_to_an_earlier_function():
    problem = small(13)
    earlier = np.array([1.0, -2.0, 0.0])
    space = PrimalPlanes(problem.X, problem.starts, earlier)
    solution = solve(space, problem.loss(), 0.3, EXACT)
    best = certify(solution, problem, problem.blocks(), earlier)
    np.testing.assert_allclose(solution.objective, best, rtol=2e-7)


def test_full_working_sets_merge_planes_and_still_converge():
    problem = small(14, sizes=(6, 6, 6), n_features=8)
    space = PrimalPlanes(problem.X, problem.starts, max_planes=4)
    rule = StoppingRule(tol=1e-4, max_iter=20_000)
    solution = solve(space, problem.loss(), 30.0, rule)
    best = certify(solution, problem, problem.blocks())
    assert solution.converged
    assert space.planes.counts.max() == 4
    np.testing.assert_allclose(solution.objective, best, rtol=2e-4)


def test_different_sources_in_the_head_are_learned_exactly():
    problem = small(15, measure="NDCG @ 2")
    sources = np.random.default_rng(15).integers(0, 2, len(problem.X))
    loss = RankingLoss.from_sources(problem.plan, sources, 2, problem.preliminary)
    solution = solve(PrimalPlanes(problem.X, problem.starts), loss, 1.0, EXACT)
    blocks = []
    for q in range(5):
        rows = problem.rows(q)
        depth = min(2, len(np.unique(sources[rows])))
        target = _best_diverse(problem, rows, sources[rows], depth)
        columns = (c[rows] for c in (problem.gains, problem.discounts, problem.decay))
        planes = reference.all_planes(*columns, target, sources[rows], depth)
        blocks.append((problem.X[rows], 1.0, planes))
    best = certify(solution, problem, blocks)
    np.testing.assert_allclose(solution.objective, best, rtol=2e-7)


def _best_diverse(problem, rows, sources, depth):
    """Return the positions of a greedy ranking by gains and ties."""
    order = list(np.lexsort((-problem.preliminary[rows], -problem.gains[rows])))
    head = []
    for item in order:
        if len(head) < depth and sources[item] not in [sources[other] for other in head]:
            head.append(item)
    return np.argsort(head + [item for item in order if item not in head])


@pytest.mark.parametrize("kernel", [False, True], ids=["linear", "kernel"])
def test_costs_of_positions_give_the_same_as_gains_and_discounts(kernel):
    problem = small(16)
    gains = np.random.default_rng(16).random(len(problem.gains))  # no ties, so one target only
    plan = plan_assignments(gains, problem.discounts, problem.decay, problem.starts)
    costs = [
        -np.outer(gains[rows], problem.discounts[rows]) for rows in map(problem.rows, range(5))
    ]
    make = (
        (lambda: DualPlanes(problem.X @ problem.X.T, problem.starts))
        if kernel
        else (lambda: PrimalPlanes(problem.X, problem.starts))
    )
    by_gains = solve(make(), RankingLoss.from_gains(plan), 1.0, EXACT)
    by_costs = solve(make(), RankingLoss.from_costs(costs, problem.decay), 1.0, EXACT)
    np.testing.assert_allclose(by_costs.objective, by_gains.objective, rtol=2e-7)


def test_preliminary_scores_choose_among_the_rankings_of_the_least_cost():
    cost = np.array([[0.0, 1, 1, 1], [1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 1]])
    decay = np.array([4.0, 3, 2, 1])
    for preliminary, order in ([0, 1, 2, 3], [0, 3, 2, 1]), ([0, 2, 1, 3], [0, 3, 1, 2]):
        loss = RankingLoss.from_costs([cost], decay, preliminary)
        np.testing.assert_array_equal(loss.target[order], decay)


def test_conditions_are_learned_exactly():
    problem = small(22, sizes=(4, 3, 5), measure="NDCG @ 2")
    rng = np.random.default_rng(22)
    shares = rng.choice([0.0, 0.4, 0.7], size=(len(problem.X), 2), p=[0.5, 0.25, 0.25])
    loss = RankingLoss.from_conditions(problem.plan, shares, 2, problem.preliminary)
    solution = solve(PrimalPlanes(problem.X, problem.starts), loss, 1.0, EXACT)
    blocks = []
    for q in range(3):
        rows = problem.rows(q)
        target = np.argsort(np.argsort(-loss.target[rows]))
        columns = (c[rows] for c in (problem.gains, problem.discounts, problem.decay))
        planes = [
            plane
            for plane, ranking in zip(
                reference.all_planes(*columns, target),
                permutations(range(rows.stop - rows.start)),
                strict=True,
            )
            if (shares[rows][list(ranking[:2])].sum(axis=0) <= 1).all()
        ]
        assert min(value for _, value in planes) > -1e-5  # no ranking is better than the target
        blocks.append((problem.X[rows], 1.0, planes))
    best = certify(solution, problem, blocks)
    np.testing.assert_allclose(solution.objective, best, rtol=1e-6)


def test_zero_weights_are_optimal_for_an_arbitrary_order_of_ties():
    """Items of one gain must be ordered by what can be learned, or nothing is."""
    rng = np.random.default_rng(1)
    i, starts = np.tile(np.arange(1, 41), 50), np.arange(51) * 40
    X = rng.normal(size=(len(i), 10))
    signal = X.sum(axis=1) / np.sqrt(10) + rng.normal(size=len(i))
    grades = np.digitize(signal, np.quantile(signal, [0.65, 0.85, 0.95]))
    discounts = np.where(i <= 10, 1.0 / np.log2(i + 1.0), 0.0)
    ideal = np.sort(2.0 ** grades.reshape(50, 40) - 1)[:, ::-1] @ discounts[:40]
    gains = (2.0**grades - 1) / np.repeat(ideal, 40)
    plan = plan_assignments(gains, discounts, (i + 1.0) ** -0.5, starts)
    ridge = X @ np.linalg.solve(X.T @ X + np.eye(10), X.T @ 2.0**grades)
    learned, not_learned = (
        solve(PrimalPlanes(X, starts), RankingLoss.from_gains(plan, preliminary), 0.1)
        for preliminary in (ridge, rng.normal(size=len(i)))
    )
    at_zero = 0.1 * RankingLoss.from_gains(plan).slacks(np.zeros(len(i))).sum()
    assert learned.objective < 0.95 * at_zero
    assert not_learned.bound > 0.999 * at_zero


def test_a_run_can_be_stopped_by_its_callback():
    problem = small(18)
    seen = []

    def stop(step):
        seen.append(step)
        return len(seen) == 3

    rule = StoppingRule(tol=0.0)
    solution = solve(PrimalPlanes(problem.X, problem.starts), problem.loss(), 10.0, rule, stop)
    assert solution.ending.reason == "callback"
    assert [step.iteration for step in seen] == [1, 2, 3]
    assert all(step.error > 0 and step.label == "C=10" for step in seen)
    certify(solution, problem, problem.blocks())


def test_an_interrupt_returns_the_best_so_far_with_a_certificate():
    problem = small(19)

    def interrupt(step):
        if step.iteration == 2:
            signal.raise_signal(signal.SIGINT)

    space, rule = PrimalPlanes(problem.X, problem.starts), StoppingRule(tol=0.0)
    path = list(solve_path(space, problem.loss(), [1.0, 10.0], rule, interrupt))
    assert [solution.ending.reason for solution in path] == ["interrupted"]
    certify(path[0], problem, problem.blocks())


def test_the_order_of_visits_follows_the_generator():
    problem = small(20, sizes=(10,) * 10)

    def run(seed):
        space, rng = PrimalPlanes(problem.X, problem.starts), np.random.default_rng(seed)
        return solve(space, problem.loss(), 1.0, StoppingRule(tol=0.1), rng=rng).point

    np.testing.assert_array_equal(run(0), run(0))
    assert np.any(run(0) != run(1))


@pytest.mark.parametrize("weights", [[1.0], [1.0, 1.0, 1.0, 1.0, -1.0], [1, 1, 1, 1, np.inf]])
def test_weights_must_be_one_number_for_each_query(weights):
    with pytest.raises(InvalidInputError, match="for each of the 5 queries"):
        small().loss(weights)
