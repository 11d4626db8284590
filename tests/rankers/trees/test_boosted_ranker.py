"""Boosted trees: exact derivatives, any order, any grades, and honest numbers of trees."""

import signal
from itertools import islice

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime
from sklearn.base import clone

import rankwise
from problems import problem
from rankwise import (
    BoostedRanker,
    ConvergenceWarning,
    InvalidInputError,
    evaluate,
)
from rankwise.core.queries import TrainingData
from rankwise.rankers.trees.boosted_ranker import (
    TreeProblem,
    fit_to_problem,
    staged_scores,
    trees_of_folds,
)
from rankwise.rankers.trees.objectives import tree_objective
from rankwise.selection.holdouts import Folds

LOSSES = ("rank_rls", "squared_hinge", "lambdarank")


def drawn(n_queries=40, seed=0):
    """Draw queries whose grades depend on a feature in a way that no line follows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(10 * n_queries, 4))
    y = np.round(np.abs(X[:, 0]) * 1.5 + 0.3 * rng.normal(size=len(X)))
    return X, np.maximum(y, 0.0), np.repeat(np.arange(n_queries), 10)


def pair_loss(kind, cost, ties, P, omega):
    """Return half the loss over all pairs of each query, pair by pair."""

    def loss(f):
        total = 0.0
        for q in np.unique(P.qid):
            rows = np.flatnonzero(P.qid == q)
            for i in rows:
                for j in rows:
                    gap = P.y[i] - P.y[j]
                    if gap < 0 or i == j or (gap == 0 and (ties == "drop" or i < j)):
                        continue
                    target = {"magnitude": gap, "unit": np.sign(gap), "relative": gap}[cost]
                    weight = 1 / gap**2 if cost == "relative" else 1.0
                    slack = target - (f[i] - f[j])
                    if kind == "squared_hinge":
                        slack = max(slack, 0.0)
                    total += 0.5 * omega(len(rows)) * weight * slack**2
        return total

    return loss


@pytest.mark.parametrize(
    ("loss", "cost", "ties"),
    [
        ("rank_rls", "magnitude", "drop"),
        ("rank_rls", "magnitude", "keep"),
        ("rank_rls", "unit", "drop"),
        ("rank_rls", "relative", "drop"),
        ("squared_hinge", "unit", "drop"),
        ("squared_hinge", "magnitude", "drop"),
    ],
)
def test_derivatives_are_those_of_the_loss_over_all_pairs(loss, cost, ties):
    P = problem(seed=3)
    data = TrainingData.of(len(P.y), P.y, P.qid)
    objective = tree_objective(loss, data, cost, ties, "items")
    f = np.random.default_rng(0).normal(size=len(P.y))
    dense = pair_loss(loss, cost, ties, P, omega=lambda n: 1.0 / n)
    gradient, curvature = objective.derivatives(f)
    numeric = approx_fprime(f, dense, 1e-7)
    np.testing.assert_allclose(gradient / objective.factor, numeric, atol=1e-4)
    second = [
        approx_fprime(f, lambda g, i=i: approx_fprime(g, dense, 1e-4)[i], 1e-4)[i]
        for i in range(len(f))
    ]
    np.testing.assert_allclose(curvature / objective.factor, second, atol=1e-2)


@pytest.mark.parametrize("loss", LOSSES)
def test_trees_rank_what_lines_cannot(loss):
    X, y, qid = drawn()
    ranker = BoostedRanker(loss, n_trees=60, measure="NDCG @ 5", random_state=0)
    ranker.fit(X, y, qid=qid)
    fresh = drawn(seed=1)
    value = evaluate(fresh[1], ranker.predict(fresh[0]), fresh[2], "NDCG @ 5").mean[0]
    assert value > 0.9
    assert abs(ranker.held_out_value_ - value) < 0.05
    held = evaluate(y, ranker.held_out_scores_, qid, "NDCG @ 5").mean[0]
    assert held == pytest.approx(ranker.held_out_value_, abs=1e-9)
    assert ranker.feature_importances_.argmax() == 0


@pytest.mark.parametrize("loss", ["rank_rls", "squared_hinge"])
def test_order_of_rows_does_not_matter(loss):
    X, y, qid = drawn(n_queries=15)
    order = np.random.default_rng(5).permutation(len(y))
    ranker = BoostedRanker(loss, n_trees=20, early_stopping=False, random_state=0)
    straight = ranker.fit(X, y, qid=qid).predict(X)
    mixed = ranker.fit(X[order], y[order], qid=qid[order]).predict(X)
    np.testing.assert_allclose(mixed, straight, atol=0.2)
    assert np.corrcoef(mixed, straight)[0, 1] > 0.99


@pytest.mark.parametrize("loss", LOSSES)
def test_grades_may_be_any_real_numbers(loss):
    X, y, qid = drawn(n_queries=15)
    ranker = BoostedRanker(loss, n_trees=20, early_stopping=False)
    y = 1000.0 * (y - 1.7)
    assert ranker.fit(X, y, qid=qid).score(X, y, qid=qid) > 0.8


def test_comparisons_and_blanks():
    X, y, _ = drawn(n_queries=15)
    rng = np.random.default_rng(0)
    pairs = rng.integers(len(y), size=(2000, 2))
    pairs = pairs[y[pairs[:, 0]] > y[pairs[:, 1]]]
    X = np.where(rng.random(X.shape) < 0.05, np.nan, X)
    ranker = BoostedRanker(n_trees=40, random_state=0).fit(X, pairs=pairs)
    assert ranker.held_out_value_ > 0.8
    assert ranker.held_out_scores_ is None
    with pytest.raises(InvalidInputError, match="lambdarank' must have scores"):
        BoostedRanker("lambdarank").fit(X, pairs=pairs)


def test_validation_data_decide():
    X, y, qid = drawn()
    fresh = drawn(seed=1)
    ranker = BoostedRanker(n_trees=40, random_state=0)
    ranker.fit(X, y, qid=qid, X_val=fresh[0], y_val=fresh[1], qid_val=fresh[2])
    value = evaluate(fresh[1], ranker.predict(fresh[0]), fresh[2], "Concordance").mean[0]
    assert value == pytest.approx(ranker.held_out_value_)
    assert ranker.n_trees_ == ranker.path_.grid[ranker.path_.best()]
    with pytest.raises(InvalidInputError, match="got no `X_val`"):
        ranker.fit(X, y, qid=qid, y_val=y)


def test_the_same_random_state_gives_the_same_trees(tmp_path):
    X, y, qid = drawn(n_queries=15)
    one, two = (
        BoostedRanker(n_trees=20, feature_share=0.5, random_state=3).fit(X, y, qid=qid)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.model_, two.model_)
    one.save(tmp_path / "model")
    np.testing.assert_array_equal(rankwise.load(tmp_path / "model").predict(X), two.predict(X))


def test_a_callback_stops_and_ctrl_c_keeps_the_trees():
    X, y, qid = drawn(n_queries=15)
    ranker = BoostedRanker(early_stopping=False, progress=lambda step: step.iteration == 7)
    assert ranker.fit(X, y, qid=qid).n_trees_ == 7
    assert ranker.ending_.reason == "callback"

    def interrupt(step):
        if step.iteration == 5:
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(ConvergenceWarning, match="Ctrl-C"):
        ranker.set_params(progress=interrupt).fit(X, y, qid=qid)
    assert ranker.n_trees_ in (5, 6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "x"}, "`loss` must be one of"),
        ({"loss": "squared_hinge", "cost": "relative"}, "must have cost='unit' or"),
        ({"feature_share": 1.5}, "up to 1"),
        ({"max_leaf_nodes": 1}, "a whole number from 2 on"),
        ({"max_bins": 1}, "`max_bins` must be a whole number from 2 on"),
        ({"alpha": 0.0}, "`alpha` must be"),
        ({"n_trees": 0}, "`n_trees` must be"),
        ({"cv": 1}, "at least 2"),
    ],
)
def test_parameters_are_checked(options, message):
    X, y, qid = drawn(n_queries=4)
    with pytest.raises(InvalidInputError, match=message):
        BoostedRanker(**options).fit(X, y, qid=qid)


def test_a_measure_that_no_held_out_query_defines_is_refused():
    X, y, qid = drawn(n_queries=4)
    y = np.where(qid == 0, y, 0.0)
    with pytest.raises(InvalidInputError, match="At least one held-out query"):
        BoostedRanker(measure="NDCG").fit(X, y, qid=qid)


@pytest.mark.parametrize("loss", LOSSES)
def test_few_items_give_constant_scores_and_equal_rows_are_refused(loss):
    P = problem(seed=0)  # fewer items than two leaves take
    ranker = BoostedRanker(loss, n_trees=3, early_stopping=False)
    assert np.ptp(ranker.fit(P.X, P.y, qid=P.qid).predict(P.X)) == 0.0
    with pytest.raises(InvalidInputError, match="At least one feature must vary"):
        ranker.fit(np.ones_like(P.X), P.y, qid=P.qid)


def test_staged_scores_are_those_of_refits_without_each_fold():
    X, y, qid = drawn(n_queries=20, seed=3)
    shuffled = np.random.default_rng(0).permutation(len(y))
    X, y, qid = X[shuffled], y[shuffled], qid[shuffled]
    data = TrainingData.of(len(y), y, qid)
    problem = TreeProblem.of(X, data, 63)
    folds = Folds.random(3, data.queries.index, np.random.default_rng(0))
    ranker = BoostedRanker(n_trees=30, early_stopping=False, max_bins=63, random_state=0)
    growing = trees_of_folds([problem] * folds.n_folds, ranker, folds)
    stages = staged_scores(growing, ranker.n_trees, folds, 10)
    scores = np.stack(list(islice(stages, 2)))
    assert scores.shape == (2, len(y))
    for k in range(3):
        kept, out = folds.fold != k, folds.fold == k
        alone = BoostedRanker(n_trees=20, early_stopping=False, max_bins=1000, random_state=0)
        alone.fit(X[kept], y[kept], qid=qid[kept])
        agreement = np.corrcoef(alone.predict(X[out]), scores[1, out])[0, 1]
        assert agreement > 0.9
    whole = fit_to_problem(ranker, problem).predict(X)
    np.testing.assert_allclose(whole, ranker.fit(X, y, qid=qid).predict(X))


def test_large_queries_are_refused_by_lambdarank_only():
    X = np.random.default_rng(0).normal(size=(10_001, 1))
    options = {"n_trees": 1, "early_stopping": False}
    with pytest.raises(InvalidInputError, match="at most 10,000 items in a query: got 10,001"):
        BoostedRanker("lambdarank", **options).fit(X, X[:, 0].round())
    assert BoostedRanker("rank_rls", **options).fit(X, X[:, 0].round()).n_trees_ == 1


def noisy(seed=0, n_queries=60):
    """Draw items whose grades fall with the first feature, roughly."""
    rng = np.random.default_rng(seed)
    X, qid = rng.normal(size=(n_queries * 8, 3)), np.repeat(np.arange(n_queries), 8)
    return X, np.round(np.sin(3.0 * X[:, 0]) - X[:, 0] + X[:, 1] + rng.normal(size=len(X))), qid


@pytest.mark.parametrize("loss", ["rank_rls", "squared_hinge", "lambdarank"])
@pytest.mark.parametrize("sign", [1, -1])
def test_scores_only_rise_or_fall_in_a_monotone_feature(loss, sign):
    X, y, qid = noisy()
    grid = np.repeat(X[:50], 40, axis=0)
    grid[:, 0] = np.tile(np.linspace(-3.0, 3.0, 40), 50)

    def steps(monotone):
        ranker = BoostedRanker(
            loss, n_trees=40, early_stopping=False, monotone=monotone, random_state=0
        ).fit(X, y, qid=qid)
        return np.diff(ranker.predict(grid).reshape(50, 40), axis=1)

    assert (sign * steps({0: sign})).min() >= 0.0
    assert (sign * steps(None)).min() < 0.0


def test_monotone_features_are_checked():
    X, y, qid = noisy(n_queries=10)
    frame = pd.DataFrame(X, columns=["price", "size", "age"])
    for wrong, message in (
        ({"prise": -1}, "by name, or by position from 0 to 2: got 'prise'"),
        ({3: 1}, "got 3"),
        ({0: 2}, "may only fall: got 2 for 0"),
        ("price", "must map features to 1 or -1"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            BoostedRanker(n_trees=2, early_stopping=False, monotone=wrong).fit(frame, y, qid=qid)
    ranker = BoostedRanker(n_trees=9, early_stopping=False, random_state=0)
    by_name = clone(ranker).set_params(monotone={"price": -1}).fit(frame, y, qid=qid)
    by_place = clone(ranker).set_params(monotone={0: -1}).fit(X, y, qid=qid)
    np.testing.assert_array_equal(by_name.predict(frame), by_place.predict(X))
