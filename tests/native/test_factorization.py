"""Factors of users and items against dense rows: an item's factors times a user's are features."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from rankwise.core.arrays import freeze
from rankwise.native.factorization import fit_users, rated_scores, visit_users
from rankwise.native.oracles import OracleTargets
from rankwise.native.planes import Planes, visit_dense
from rankwise.rankers.dorm.losses import RankingLoss
from rankwise.rankers.dorm.oracles.assignment import make_room, plan_assignments

SIZES = (5, 1, 8, 3, 12)
N_ITEMS, C = 15, 0.8


def draw(n_factors, seed=0):
    """Return frozen ratings: the loss of rankings, the items, the factors U and V."""
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(SIZES)])
    i = np.concatenate([np.arange(1.0, n + 1) for n in SIZES])
    items = np.concatenate([rng.permutation(N_ITEMS)[:n] for n in SIZES])
    gains = 1.0 * rng.integers(0, 3, len(i))
    plan = plan_assignments(gains, 1.0 / np.log2(i + 1.0), (i + 1.0) ** -0.5, starts)
    loss = RankingLoss.from_gains(plan, rng.normal(size=len(i)))
    U, V = rng.normal(size=(len(SIZES), n_factors)), rng.normal(size=(N_ITEMS, n_factors))
    return loss, freeze(items), freeze(U), freeze(V)


def targets_of(loss):
    return OracleTargets(loss.plan, loss.target, loss.ideal, freeze(C * loss.weights))


def users_of(loss):
    return np.repeat(np.arange(len(SIZES)), np.diff(loss.plan.starts))


@pytest.mark.parametrize("n_factors", [1, 7, 8, 20])
def test_scores_of_all_ratings(n_factors):
    loss, items, U, V = draw(n_factors)
    scores = np.full(len(items), np.nan)
    rated_scores(loss.plan.starts, items, U, V, scores)
    expected = (U[users_of(loss)] * V[items]).sum(axis=1)
    np.testing.assert_allclose(scores, expected, atol=1e-13 * n_factors)


@pytest.mark.parametrize("n_factors", [1, 3, 9])
def test_a_visit_of_users_is_one_of_queries_whose_features_are_item_times_factor(n_factors):
    """One pass and one over the planes known: two planes a user, whose order rounding leaves."""
    loss, items, U, _ = draw(n_factors)
    Z = np.zeros((len(items), N_ITEMS, n_factors))
    Z[np.arange(len(items)), items] = U[users_of(loss)]
    Z = Z.reshape(len(items), -1)
    room, users = make_room(loss.plan), freeze(np.arange(len(SIZES))[::-1].copy())
    of_items, of_features = Planes(np.array(SIZES), 40), Planes(np.full(len(SIZES), Z.shape[1]), 40)
    V, w, targets = np.zeros((N_ITEMS, n_factors)), np.zeros(Z.shape[1]), targets_of(loss)
    for with_oracle in (True, False):
        how = users, with_oracle, None, 0.0
        gap = visit_users(targets, room, of_items, items, U, *how, V)
        expected = visit_dense(targets, room, of_features, Z, *how, w)
        np.testing.assert_allclose(gap, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(V.ravel(), w, rtol=1e-9, atol=1e-12)


def fitted(first, last, seed=1, tol=1e-10, scale=1.0):
    """Return factors of users after `fit_users` of some of them, and the arrays it was given."""
    loss, items, U, V = draw(3, seed)
    bias = freeze(np.linspace(-1.0, 1.0, N_ITEMS))
    found, planes = scale * U, Planes(np.array([3]), 40)
    given = targets_of(loss), make_room(loss.plan), planes, items, bias, V
    fit_users(*given, tol, 500, first, last, found)
    return found, loss, items, V, bias


def objectives(U, loss, items, V, bias):
    """Return 1/2 |U_u|^2 + C slack_u of each user."""
    scores = (U[users_of(loss)] * V[items]).sum(axis=1) + bias[items]
    return 0.5 * (U * U).sum(axis=1) + C * loss.slacks(scores)


def test_the_factors_of_each_user_minimise_its_objective():
    """It is strongly convex: no point nearby is better, and any start ends in the same point."""
    found, *given = fitted(0, len(SIZES))
    again, *_ = fitted(0, len(SIZES), scale=-2.0)
    np.testing.assert_allclose(again, found, atol=1e-4)  # |difference|^2 <= 2 tol objective
    least = objectives(found, *given)
    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(20):
            moved = found + size * rng.normal(size=found.shape)
            assert (objectives(moved, *given) >= least * (1.0 - 1e-9)).all()


def test_factors_that_cannot_be_improved_stay():
    found, loss, items, V, bias = fitted(0, len(SIZES))
    again = found.copy()
    given = targets_of(loss), make_room(loss.plan), Planes(np.array([3]), 40), items, bias, V
    fit_users(*given, 0.5, 500, 0, len(SIZES), again)
    np.testing.assert_array_equal(again, found)


def test_parts_of_the_users_side_by_side():
    whole, *_ = fitted(0, len(SIZES))
    parts = [(0, 2), (2, 3), (3, 3), (3, 5)] * 10
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda part: fitted(*part)[0], parts))
    for (first, last), one in zip(parts, found, strict=True):
        np.testing.assert_array_equal(one[first:last], whole[first:last])
