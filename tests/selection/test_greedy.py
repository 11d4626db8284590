"""What a feature would change, by updates, equals refits with and without it."""

from itertools import combinations

import numpy as np
import pytest

import reference
from problems import comparisons_of, problem
from rankwise import PreferenceGraph
from rankwise.core.queries import TrainingData
from rankwise.selection.greedy import (
    ItemsLeftOut,
    PairsLeftOut,
    RowsLeftOut,
    greedy_features,
    pairs_have_closed_form,
    rows_of_comparisons,
    rows_of_graph,
)
from rankwise.selection.holdouts import Folds

SIZES = (6, 1, 5, 4, 2)
ALPHAS = (1e-6, 1.0, 1e6)
OPTIONS = [
    {"cost": cost, "ties": ties, "query_weight": weight}
    for cost, ties in [
        ("magnitude", "drop"),
        ("magnitude", "keep"),
        ("unit", "drop"),
        ("relative", "drop"),
    ]
    for weight in ("items", "pairs", "equal")
]


def awkward(seed, sizes=SIZES, grades=3):
    """Draw a problem with equal rows, equal features and a constant one, far from the origin."""
    p = problem(seed=seed, sizes=sizes, n_features=4, grades=grades)
    rng = np.random.default_rng(seed)
    X = np.column_stack([p.X, p.X[:, 1], np.full(len(p.y), 3.0), rng.integers(0, 2, len(p.y))])
    X[1] = X[0]
    return X + 10.0, p.y, p.qid


def assert_changes_are_those_of_refits(hold_out, X, splits, alpha, order=(2, 0, 6)):
    """Compare the change that each feature would make, after each of some features."""
    Z = X - X.mean(axis=0)
    taken = []
    for feature in order:
        before = reference.left_out_loss(Z[:, taken], splits, alpha)
        after = [
            reference.left_out_loss(Z[:, [*taken, j]], splits, alpha) for j in range(Z.shape[1])
        ]
        others = [j for j in range(Z.shape[1]) if j not in taken]
        expected = (np.array(after) - before)[others]
        found = hold_out.changes()[others]
        # the reference subtracts two sums, so it is off by a share of these
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9 * before)
        hold_out.add(feature)
        taken.append(feature)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o.values()))
def test_leaving_queries_out_equals_refits(options, alpha):
    X, y, qid = awkward(1)
    graph = PreferenceGraph.from_scores(y, qid, **options)
    rows = rows_of_graph(X, graph, Folds.by_query(graph.queries))
    listed = reference.score_pairs(y, qid, **options)
    splits = [
        ([p for p in listed if qid[p[0]] != q], [p for p in listed if qid[p[0]] == q])
        for q in np.unique(qid)
    ]
    assert_changes_are_those_of_refits(RowsLeftOut(*rows, alpha), X, splits, alpha)


def test_folds_of_queries_are_left_out_together_and_others_never():
    X, y, qid = awkward(2)
    fold_of = {q: k for k, q in enumerate(np.unique(qid))} | {qid[0]: 0}
    fold_of[np.unique(qid)[-1]] = -1
    folds = Folds(np.array([fold_of[q] for q in qid]), 4)
    graph = PreferenceGraph.from_scores(y, qid)
    listed = reference.score_pairs(y, qid, "magnitude", "drop", "items")
    splits = [
        (
            [p for p in listed if folds.fold[p[0]] != k],
            [p for p in listed if folds.fold[p[0]] == k],
        )
        for k in range(4)
    ]
    hold_out = RowsLeftOut(*rows_of_graph(X, graph, folds), 1.0)
    assert_changes_are_those_of_refits(hold_out, X, splits, 1.0)


@pytest.mark.parametrize("cost", ["magnitude", "unit", "relative"])
def test_leaving_comparisons_out_equals_refits(cost):
    X, y, _ = awkward(3)
    p = problem(seed=3, sizes=SIZES)
    c = comparisons_of(p)
    data = TrainingData.of(len(y), pairs=c.pairs, pair_margin=c.margin, pair_weight=c.weight)
    rows = rows_of_comparisons(X, data, cost, "items")
    listed = reference.compared_pairs(c.pairs, c.margin, c.weight, cost)
    splits = [(listed[:k] + listed[k + 1 :], [listed[k]]) for k in range(len(listed))]
    hold_out = RowsLeftOut(*rows, np.arange(len(listed)), 1.0)
    assert_changes_are_those_of_refits(hold_out, X, splits, 1.0)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o.values()))
def test_leaving_folds_of_items_out_equals_refits(options, alpha):
    X, y, _ = awkward(4, sizes=(14,))
    data = TrainingData.of(len(y), y)
    folds = Folds(np.arange(len(y)) % 3, 3)
    splits = []
    for k in range(3):
        learned, judged = [], []
        for rows, found in [(folds.fold != k, learned), (folds.fold == k, judged)]:
            at = np.flatnonzero(rows)
            listed = reference.score_pairs(y[at], np.zeros(len(at)), **options)
            found += [(at[i], at[j], z, w) for i, j, z, w in listed]
        splits.append((learned, judged))
    hold_out = ItemsLeftOut(X, data, folds, alpha, **options)
    assert_changes_are_those_of_refits(hold_out, X, splits, alpha)


@pytest.mark.parametrize("weight", [1.0, 2.5])
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(
    ("options", "grades"),
    [
        (options, grades)
        for options in OPTIONS
        for grades in {"magnitude": (None, 2, 3), "unit": (2, 3)}.get(options["cost"], ())
    ],
    ids=str,
)
def test_leaving_pairs_out_equals_refits(options, grades, alpha, weight):
    X, y, _ = awkward(5, sizes=(9,), grades=grades)
    every, weights = np.arange(len(y)), np.full(len(y), weight)
    data = TrainingData.of(len(y), y, sample_weight=weights)
    assert pairs_have_closed_form(data, **options)
    splits = []
    for i, j in combinations(every, 2):
        if y[i] == y[j]:
            continue
        rest = np.delete(every, [i, j])
        listed = reference.score_pairs(
            y[rest], np.zeros(len(rest)), **options, sample_weight=weights[rest]
        )
        gap = y[i] - y[j]
        judged = [(i, j, np.sign(gap) if options["cost"] == "unit" else gap, 1.0)]
        splits.append(([(rest[a], rest[b], z, w) for a, b, z, w in listed], judged))
    hold_out = PairsLeftOut(X, data, alpha, **options)
    assert_changes_are_those_of_refits(hold_out, X, splits, alpha)


def test_the_first_of_equal_features_is_taken_and_a_constant_one_never():
    X, y, qid = awkward(6)
    graph = PreferenceGraph.from_scores(y, qid)
    rows = rows_of_graph(X, graph, Folds.by_query(graph.queries))
    chosen = greedy_features(RowsLeftOut(*rows, 0.1), 10).tolist()
    assert 5 not in chosen
    assert sorted(chosen) == [0, 1, 2, 3, 4, 6]
    assert chosen.index(1) < chosen.index(4)


def test_features_are_taken_by_the_least_left_out_error():
    X, y, qid = awkward(7)
    graph = PreferenceGraph.from_scores(y, qid)
    rows = rows_of_graph(X, graph, Folds.by_query(graph.queries))
    chosen = greedy_features(RowsLeftOut(*rows, 0.1), 4).tolist()
    listed = reference.score_pairs(y, qid, "magnitude", "drop", "items")
    splits = [
        ([p for p in listed if qid[p[0]] != q], [p for p in listed if qid[p[0]] == q])
        for q in np.unique(qid)
    ]
    Z, expected = X - X.mean(axis=0), []
    for _ in range(4):
        losses = {
            j: reference.left_out_loss(Z[:, [*expected, j]], splits, 0.1)
            for j in (0, 1, 2, 3, 6)
            if j not in expected
        }
        expected.append(min(losses, key=losses.get))
    assert chosen == expected
