"""Visits of queries: what they know of their planes is true, and the three forms agree."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.sparse import csr_array

from rankwise.core.arrays import freeze
from rankwise.native.oracles import OracleTargets
from rankwise.native.planes import Planes, visit_dense, visit_kernel, visit_sparse
from rankwise.rankers.dorm.cutting_planes import PrimalPlanes
from rankwise.rankers.dorm.losses import RankingLoss
from rankwise.rankers.dorm.oracles.assignment import make_room, plan_assignments

SIZES = (6, 1, 9, 3, 14)
C = 0.7


@dataclass(frozen=True)
class Problem:
    """Frozen rows, and the loss of their rankings."""

    X: np.ndarray
    loss: RankingLoss

    @property
    def targets(self):
        return OracleTargets(
            self.loss.plan, self.loss.target, self.loss.ideal, freeze(C * self.loss.weights)
        )

    def rows(self, q):
        return slice(self.loss.plan.starts[q], self.loss.plan.starts[q + 1])


def draw(n_features, seed=0, density=1.0):
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(SIZES)])
    i = np.concatenate([np.arange(1.0, n + 1) for n in SIZES])
    X = rng.normal(size=(len(i), n_features)) * (rng.random((len(i), n_features)) < density)
    gains = 1.0 * rng.integers(0, 3, len(i))
    plan = plan_assignments(gains, 1.0 / np.log2(i + 1.0), (i + 1.0) ** -0.5, starts)
    weights = freeze(rng.uniform(0.5, 2.0, len(SIZES)))
    return Problem(freeze(X), RankingLoss.from_gains(plan, rng.normal(size=len(i)), weights))


def visited(problem, n_passes, capacity=40, w=None):
    """Return planes and weights after passes with the oracle and passes over known planes."""
    planes = Planes(np.full(len(SIZES), problem.X.shape[1]), capacity)
    w = np.zeros(problem.X.shape[1]) if w is None else w
    room, queries = make_room(problem.loss.plan), freeze(np.arange(len(SIZES)))
    for k in range(n_passes):
        given = problem.targets, room, planes, problem.X, queries
        visit_dense(*given, k % 2 == 0, None, 0.0, w)
    return planes, w


def vectors(planes, q):
    """Return the vectors of a query's planes, that of slot 0 included."""
    size, count = planes.sizes[q], planes.counts[q]
    own = planes.vectors[planes.starts[q] : planes.starts[q] + count * size].reshape(count, size)
    return np.concatenate([np.zeros((1, size)), own[1:]])


@pytest.mark.parametrize("n_features", [1, 7, 8, 9, 46])
@pytest.mark.parametrize("capacity", [4, 40], ids="at most {} planes".format)
def test_what_is_known_of_the_planes_is_true(n_features, capacity):
    problem = draw(n_features)
    planes, w = visited(problem, 60, capacity)
    total, size = np.zeros(n_features), 0.0
    for q in range(len(SIZES)):
        count, own = planes.counts[q], vectors(planes, q)
        assert 1 <= count <= capacity
        weights = planes.weights[q, :count]
        assert (weights >= 0.0).all()
        np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)
        gram = planes.grams[q, :count, :count]
        np.testing.assert_allclose(gram, own @ own.T, atol=1e-12 * np.abs(own).max() ** 2)
        np.testing.assert_array_equal(gram, gram.T)
        total += C * problem.loss.weights[q] * weights @ own
        size += C * problem.loss.weights[q] * np.abs(own).max()
    np.testing.assert_allclose(w, total, rtol=0, atol=1e-12 * size)


@pytest.mark.parametrize("capacity", [4, 40])
def test_every_plane_is_below_the_slack_wherever_it_was_found(capacity):
    problem = draw(5)
    planes, _ = visited(problem, 60, capacity)
    rng = np.random.default_rng(1)
    for w in rng.normal(size=(20, 5)):
        slacks = problem.loss.slacks(problem.X @ w)
        for q in range(len(SIZES)):
            values = planes.losses[q, : planes.counts[q]] - vectors(planes, q) @ w
            assert values.max() <= slacks[q] + 1e-12


def dual(problem, planes, w):
    gain = (planes.weights * planes.losses).sum(axis=1)
    return C * problem.loss.weights @ gain - 0.5 * w @ w


def test_no_visit_lowers_the_dual_and_the_gap_is_that_of_the_query():
    """At a visit, the gap is C times the slack less the mean of the planes under their weights."""
    problem = draw(6)
    planes, w = Planes(np.full(len(SIZES), 6), 40), np.zeros(6)
    room, before = make_room(problem.loss.plan), 0.0
    for k in range(60):
        q, with_oracle = k % len(SIZES), k % 3 > 0
        count, slack_weight = planes.counts[q], C * problem.loss.weights[q]
        values = planes.losses[q, :count] - vectors(planes, q) @ w
        mean = planes.weights[q, :count] @ values
        slack = problem.loss.slacks(problem.X @ w)[q] if with_oracle else max(0.0, values.max())
        how = np.array([q]), with_oracle, None, 0.0
        gap = visit_dense(problem.targets, room, planes, problem.X, *how, w)
        np.testing.assert_allclose(gap, slack_weight * (slack - mean), atol=1e-12)
        after = dual(problem, planes, w)
        assert after >= before - 1e-12
        before = after


def test_a_given_plane_is_taken_as_one_of_the_oracle_is():
    problem = draw(4)
    planes, w = visited(problem, 0)
    beta, losses = problem.loss.cuts(np.zeros(len(problem.X)))
    room, own, v = make_room(problem.loss.plan), Planes(np.full(len(SIZES), 4), 40), np.zeros(4)
    given = problem.targets, room, own, problem.X
    visit_dense(*given, np.array([2]), False, freeze(beta[problem.rows(2)]), losses[2], v)
    visit_dense(problem.targets, room, planes, problem.X, np.array([2]), True, None, 0.0, w)
    np.testing.assert_array_equal(v, w)
    np.testing.assert_array_equal(own.weights, planes.weights)


@pytest.mark.parametrize("density", [1.0, 0.3, 0.0])
def test_sparse_rows_and_kernels_are_visited_as_dense_rows_are(density):
    """One pass and one over the planes known: two planes a query, whose order rounding leaves."""
    problem = draw(11, seed=2, density=density)
    room, queries = make_room(problem.loss.plan), np.arange(len(SIZES))
    _, w = visited(problem, 2)
    sparse = PrimalPlanes(csr_array(problem.X), problem.loss.plan.starts)
    v, n_items = np.zeros(11), len(problem.X)
    kernel, scores, coefficients = Planes(np.array(SIZES), 40), np.zeros(n_items), np.zeros(n_items)
    K = freeze(problem.X @ problem.X.T)
    for with_oracle in (True, False):
        how = queries, with_oracle, None, 0.0
        visit_sparse(problem.targets, room, sparse.planes, sparse._rows, *how, v)
        visit_kernel(problem.targets, room, kernel, K, *how, coefficients, scores)
    close = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(v, w, **close)
    np.testing.assert_allclose(scores, problem.X @ w, **close)
    np.testing.assert_allclose(problem.X.T @ coefficients, w, **close)


@pytest.mark.parametrize("has_weight", [False, True])
def test_a_plane_is_forgotten_after_ten_visits_without_weight(has_weight):
    problem, q = draw(3), 4
    planes, w, room = Planes(np.full(len(SIZES), 3), 40), np.zeros(3), make_room(problem.loss.plan)
    given = problem.targets, room, planes, problem.X, np.array([q])
    visit_dense(*given, True, None, 0.0, w)
    assert planes.counts[q] == 2
    assert planes.weights[q, 1] > 0.0
    if not has_weight:  # and it is so low at w that it gets none
        planes.weights[q, :2] = 1.0, 0.0
        w[:] = 1e6 * vectors(planes, q)[1]
    counts = []
    for _ in range(15):
        visit_dense(*given, False, np.zeros(SIZES[q]), -1.0, w)  # a plane that is never taken in
        counts.append(int(planes.counts[q]))
    assert counts == ([2] * 15 if has_weight else [2] * 9 + [1] * 6)
