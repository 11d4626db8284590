"""Preference graphs equal their definition, pair by pair."""

import copy
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from laws.test_graphs import CONVENTIONS, QUERY_WEIGHTS
from problems import problem
from rankwise import InvalidInputError, NothingToLearnError, PreferenceGraph, Queries
from rankwise.graph import laplacian
from rankwise.graph.preference_graph import Grades


def dense(y, qid, cost, ties, query_weight, sample_weight=None):
    pairs = reference.score_pairs(y, qid, cost, ties, query_weight, sample_weight)
    return reference.laplacian(pairs, len(y))


@pytest.mark.parametrize("cost", ["magnitude", "unit", "relative"])
def test_a_cost_means_the_same_for_scores_and_for_their_pairs(cost):
    p = problem(seed=4, sizes=(6, 5), grades=4)
    listed = reference.score_pairs(p.y, p.qid, "magnitude", "drop", "pairs")
    i, j, margin, weight = map(np.array, zip(*listed, strict=True))
    by_pairs = PreferenceGraph.from_pairs(
        np.column_stack([i, j]), margin, weight, len(p.y), cost=cost
    )
    by_scores = PreferenceGraph.from_scores(p.y, p.qid, cost=cost, query_weight="pairs")
    np.testing.assert_allclose(by_pairs @ p.X, by_scores @ p.X, atol=1e-12)
    np.testing.assert_allclose(by_pairs.rhs, by_scores.rhs, atol=1e-12)


def test_a_margin_of_zero_has_no_direction_in_the_unit_cost():
    graph = PreferenceGraph.from_pairs([[0, 1], [1, 2]], [0.0, -3.0], cost="unit")
    assert graph.rhs.tolist() == [0.0, -1.0, 1.0]


def test_tiny_margins_of_the_relative_cost_are_bounded():
    graph = PreferenceGraph.from_pairs([[0, 1], [1, 2]], [1e-12, 1.0], cost="relative")
    assert graph.laplacian.diagonal().max() == pytest.approx(1e12, rel=1e-6)


COPIES = [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]


@pytest.mark.parametrize("n_decimals", [0, 6])
@pytest.mark.parametrize("shuffled", [False, True])
def test_grades_are_numbered_query_by_query_and_by_score(n_decimals, shuffled):
    """Of queries of three sizes, which are sorted size by size."""
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(600), np.tile([1, 3, 8], 200))
    if shuffled:
        qid = rng.permutation(qid)
    y = rng.normal(size=len(qid)).round(n_decimals)
    queries = Queries.from_qid(qid)
    grades = Grades.of(queries, y, np.ones(len(y)), keep_ties=False)
    both, expected = np.unique([queries.index, y], axis=1, return_inverse=True)
    np.testing.assert_array_equal(grades.grade, expected.reshape(-1))
    np.testing.assert_array_equal(grades.query, both[0])


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("keep_ties", [False, True])
def test_kept_ties_survive_a_copy_of_the_grades(copied, keep_ties):
    p = problem(seed=2)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(p.y))
    grades = Grades.of(Queries.from_qid(p.qid), p.y, weight, keep_ties=keep_ties)
    again = copied(grades)
    assert again.ties_kept == keep_ties
    omega = grades.query_weights("equal")
    np.testing.assert_array_equal(again.query_weights("equal"), omega)
    np.testing.assert_array_equal(again.clique(omega) @ p.X, grades.clique(omega) @ p.X)


@settings(max_examples=60, deadline=None)
@given(
    y=st.lists(st.integers(-2, 2), min_size=2, max_size=12),
    data=st.data(),
    convention=st.sampled_from(CONVENTIONS),
    query_weight=st.sampled_from(QUERY_WEIGHTS),
)
def test_any_small_graph_equals_its_definition(y, data, convention, query_weight):
    qid = data.draw(st.lists(st.sampled_from("abc"), min_size=len(y), max_size=len(y)))
    y = np.array(y, dtype=float)
    L, r = dense(y, qid, *convention, query_weight)
    try:
        graph = PreferenceGraph.from_scores(
            y, qid, cost=convention[0], ties=convention[1], query_weight=query_weight
        )
    except NothingToLearnError:
        assert not L.any()
        return
    np.testing.assert_allclose(graph @ np.eye(len(y)), L, atol=1e-12)
    np.testing.assert_allclose(graph.rhs, r, atol=1e-12)


def test_given_query_weights_by_id_and_by_order():
    p = problem(seed=1)
    ids = list(dict.fromkeys(p.qid.tolist()))
    weights = dict(zip(ids, [0.5, 2.0, 0.0, 1.0, 3.0], strict=True))
    L, r = dense(p.y, p.qid, "magnitude", "drop", weights)
    for given_as in (weights, list(weights.values())):
        graph = PreferenceGraph.from_scores(p.y, p.qid, query_weight=given_as)
        np.testing.assert_allclose(graph @ np.eye(len(p.y)), L, atol=1e-13)
        np.testing.assert_allclose(graph.rhs, r, atol=1e-13)


REPEATABLE = [  # not keep and equal: copies of an item form tied pairs, and these count then
    (cost, ties, w)
    for cost, ties in CONVENTIONS
    for w in QUERY_WEIGHTS
    if (ties, w) != ("keep", "equal")
]


@pytest.mark.parametrize(("cost", "ties", "query_weight"), REPEATABLE)
def test_integer_weights_equal_repetition(cost, ties, query_weight):
    p = problem(seed=5)
    times = np.random.default_rng(0).integers(0, 3, len(p.y))
    options = {"cost": cost, "ties": ties, "query_weight": query_weight}
    weighted = PreferenceGraph.from_scores(p.y, p.qid, sample_weight=times, **options)
    rows = np.repeat(np.arange(len(p.y)), times)
    repeated = PreferenceGraph.from_scores(p.y[rows], p.qid[rows], **options)
    f = np.random.default_rng(1).normal(size=len(p.y))
    np.testing.assert_allclose(weighted.quadratic(f), repeated.quadratic(f[rows]))
    np.testing.assert_allclose(weighted.rhs @ f, repeated.rhs @ f[rows])


@pytest.mark.parametrize("cost", ["magnitude", "unit"])
def test_several_outputs_are_several_right_hand_sides(cost):
    p = problem(seed=2, grades=None)
    Y = np.column_stack([p.y, -p.y, np.cos(7 * p.y)])
    graph = PreferenceGraph.from_scores(Y, p.qid, cost=cost)
    for k in range(3):
        single = PreferenceGraph.from_scores(Y[:, k], p.qid, cost=cost)
        np.testing.assert_allclose(graph.rhs[:, k], single.rhs, atol=1e-13)


def test_outputs_that_tie_other_items_need_their_own_graph():
    Y = np.array([[0, 0], [0, 1], [1, 1]])
    with pytest.raises(InvalidInputError, match="must tie the same items.*output 1"):
        PreferenceGraph.from_scores(Y)
    assert PreferenceGraph.from_scores(Y, ties="keep").rhs.shape == (3, 2)
    with pytest.raises(InvalidInputError, match="one output per graph"):
        PreferenceGraph.from_scores(np.array([[0, 0], [1, 2.0]]), cost="relative")


def test_tiny_gaps_of_the_relative_cost_are_bounded():
    graph = PreferenceGraph.from_scores([0.0, 1e-12, 1.0], cost="relative", query_weight="pairs")
    assert graph.laplacian.diagonal().max() == pytest.approx(1e12, rel=1e-6)


def test_useless_queries_are_counted():
    graph = PreferenceGraph.from_scores([1, 0, 5, 2, 2], qid=["a", "a", "b", "c", "c"])
    assert graph.n_ignored_queries == 2
    assert PreferenceGraph.from_scores([1, 0], qid=[0, 0]).n_ignored_queries == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PreferenceGraph.from_scores([1, 1, 1]), "at least one preference.*equal"),
        (lambda: PreferenceGraph.from_scores([0, 1], qid=[1]), "X has 2 rows, qid has 1"),
        (lambda: PreferenceGraph.from_scores([0, np.nan]), "`y` must be finite: row 1"),
        (lambda: PreferenceGraph.from_scores([0, 1], cost="hinge"), "`cost` must be one of"),
        (lambda: PreferenceGraph.from_scores([0, 1], ties="no"), "`ties` must be one of"),
        (
            lambda: PreferenceGraph.from_scores([0, 1], cost="unit", ties="keep"),
            "only for cost='magnitude'",
        ),
        (
            lambda: PreferenceGraph.from_scores([0, 1], query_weight="all"),
            "`query_weight` must be one of",
        ),
        (
            lambda: PreferenceGraph.from_scores([0, 1], ["a", "a"], query_weight={"b": 1}),
            "entry for every query id: 'a'",
        ),
        (
            lambda: PreferenceGraph.from_scores([0, 1], sample_weight=[1, -1]),
            "not negative: entry 1",
        ),
        (
            lambda: PreferenceGraph.from_scores([0, 1], sample_weight=[1]),
            "one entry per row",
        ),
        (lambda: PreferenceGraph.from_scores([[[1]]]), "must have shape"),
        (lambda: PreferenceGraph.from_scores(["a", "b"]), "must hold numbers"),
        (lambda: PreferenceGraph.from_pairs([[0, 1], [2, 2]]), "pair 1 compares item 2 with"),
        (lambda: PreferenceGraph.from_pairs([[0, 5]], n_items=3), "rows 0 to 2: pair 0 is"),
        (lambda: PreferenceGraph.from_pairs([[0, -1]]), "pair 0 is"),
        (
            lambda: PreferenceGraph.from_pairs([[0, 1]], weight=[0]),
            "must not be zero",
        ),
        (lambda: PreferenceGraph.from_scores([0, 1], sample_weight=[1, 0]), "one preference"),
        (lambda: PreferenceGraph.from_pairs([[0, 1]], margin=[1, 2]), "`pair_margin` must have"),
        (lambda: PreferenceGraph.from_pairs([[0, 1]], margin=[np.inf]), "`pair_margin` must be"),
        (lambda: PreferenceGraph.from_pairs([[0, 1]], cost="hinge"), "`cost` must be one of"),
        (
            lambda: PreferenceGraph.from_pairs([[0, 1]], [0.0], cost="relative"),
            "a margin other than 0",
        ),
        (lambda: PreferenceGraph.from_pairs([[0.5, 1]]), "integer positions"),
        (lambda: PreferenceGraph.from_pairs(np.zeros((0, 2), int)), "at least one row"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(InvalidInputError, match=message):
        call()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("rows", ["alike", "shifted by block", "one far out", "sorted"])
def test_squares_of_one_query_add_up_whatever_the_blocks(rows, dtype, monkeypatch):
    """Blocks are centred on their own means: neither offsets nor an odd block cost digits."""
    n_items, n_features = 103, 3
    monkeypatch.setattr(laplacian, "BLOCK_BYTES", 10 * 8 * n_features)
    rng = np.random.default_rng(0)
    X = 500.0 + rng.normal(size=(n_items, n_features))
    X[:10] += 1e4 if rows == "shifted by block" else 0.0
    X[0] += 1e6 if rows == "one far out" else 0.0
    X = (np.sort(X, axis=0) if rows == "sorted" else X).astype(dtype)
    weight = rng.uniform(size=n_items) * (np.arange(n_items) // 10 != 4)  # a block of none
    graph = PreferenceGraph.from_scores(rng.normal(size=n_items), sample_weight=weight)
    exact, share = X.astype(np.longdouble), weight / weight.astype(np.longdouble).sum()
    centred = exact - share @ exact
    truth = (centred.T * weight @ centred).astype(float)
    size = np.sqrt(np.outer(np.diag(truth), np.diag(truth)))
    # means are rounded where the offset is; squares of the offset would cost its square
    offset = np.max(np.abs(share @ exact) / np.sqrt(np.diag(truth) / weight.sum()))
    tolerance = np.finfo(float).eps * (4.0 + float(offset))
    gram = graph.laplacian.gram(X)
    np.testing.assert_allclose(gram / size, truth / size, rtol=0, atol=tolerance)


@pytest.mark.parametrize("query_weight", QUERY_WEIGHTS)
def test_scores_without_ties_make_the_graph_that_keeps_ties(query_weight):
    p = problem(seed=5, sizes=(6, 1, 5), grades=4)
    y = np.random.default_rng(0).permutation(len(p.y)).astype(float)
    dropped, kept = (
        PreferenceGraph.from_scores(y, p.qid, ties=ties, query_weight=query_weight)
        for ties in ("drop", "keep")
    )
    np.testing.assert_array_equal(dropped @ p.X, kept @ p.X)
    np.testing.assert_array_equal(dropped.rhs, kept.rhs)
    truth = dense(y, p.qid, "magnitude", "drop", query_weight)[0]
    np.testing.assert_allclose(dropped @ p.X, truth @ p.X, atol=1e-13)


@pytest.mark.parametrize("n_queries", [1, 40])
def test_a_kernel_matrix_is_reduced_in_its_own_memory(n_queries):
    n_items = 400
    rng = np.random.default_rng(0)
    graph = PreferenceGraph.from_scores(rng.normal(size=n_items), np.arange(n_items) % n_queries)
    root = graph.laplacian.root()
    root.reduce(np.eye(n_items))  # compile
    tracemalloc.start()
    K = np.eye(n_items)
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    reduced = root.reduce(K)
    beside = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert np.shares_memory(reduced, K)
    assert reduced.shape == (root.rank, root.rank)
    assert reduced.flags.c_contiguous
    assert beside < 0.6 * 8 * n_items**2
