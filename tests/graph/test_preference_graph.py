"""Preference graphs equal their definition, pair by pair."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from problems import problem
from rankwise import InvalidInputError, NothingToLearnError, PreferenceGraph, Queries
from rankwise.graph.grades import Grades

CONVENTIONS = [
    ("magnitude", "drop"),
    ("magnitude", "keep"),
    ("unit", "drop"),
    ("relative", "drop"),
]
WEIGHTS = ["items", "pairs", "equal"]


def dense(y, qid, cost, ties, query_weight, sample_weight=None):
    pairs = reference.score_pairs(y, qid, cost, ties, query_weight, sample_weight)
    return reference.laplacian(pairs, len(y))


def graphs():
    """Every convention on ties, no ties, single-item queries, one grade, zero weights."""
    for cost, ties in CONVENTIONS:
        for query_weight in WEIGHTS:
            for grades in (None, 2, 4):
                for weighted in (False, True):
                    p = problem(seed=3, sizes=(6, 1, 5, 9, 2), grades=grades)
                    weight = np.random.default_rng(1).integers(0, 4, len(p.y)) / 2.0
                    s = weight if weighted else None
                    label = f"{cost}-{ties}-{query_weight}-{grades}-{weighted}"
                    yield pytest.param(p, cost, ties, query_weight, s, id=label)


@pytest.mark.parametrize(("p", "cost", "ties", "query_weight", "s"), list(graphs()))
class TestScoreGraph:
    @pytest.fixture
    def graph(self, p, cost, ties, query_weight, s):
        return PreferenceGraph.from_scores(
            p.y, p.qid, cost=cost, ties=ties, query_weight=query_weight, sample_weight=s
        )

    @pytest.fixture
    def truth(self, p, cost, ties, query_weight, s):
        return dense(p.y, p.qid, cost, ties, query_weight, s)

    def test_operator_equals_the_sum_over_pairs(self, graph, truth):
        np.testing.assert_allclose(graph @ np.eye(graph.n_items), truth[0], atol=1e-12)

    def test_right_hand_side_equals_the_sum_over_pairs(self, graph, truth):
        np.testing.assert_allclose(graph.rhs, truth[1], atol=1e-11)

    def test_diagonal_is_the_degree(self, graph, truth):
        np.testing.assert_allclose(graph.laplacian.diagonal(), np.diag(truth[0]), atol=1e-12)

    def test_gram_equals_the_dense_product(self, graph, truth, p):
        offset = p.X + 1e3
        np.testing.assert_allclose(graph.laplacian.gram(offset), p.X.T @ truth[0] @ p.X, atol=1e-9)

    def test_gram_of_sparse_rows_equals_dense(self, graph, p):
        from scipy.sparse import csr_array

        X = np.where(p.X > 0, p.X, 0.0)
        G = graph.laplacian.gram(csr_array(X))
        np.testing.assert_allclose(G, graph.laplacian.gram(X), atol=1e-12)

    def test_root_times_its_transpose_is_the_laplacian(self, graph, truth):
        root = graph.laplacian.root()
        R = root.to_items(np.eye(root.rank))
        np.testing.assert_allclose(R @ R.T, truth[0], atol=1e-11)
        np.testing.assert_allclose(root.to_coordinates(np.eye(graph.n_items)), R.T, atol=1e-12)

    def test_root_has_full_column_rank(self, graph, truth):
        root = graph.laplacian.root()
        assert root.rank == graph.laplacian.rank() == np.linalg.matrix_rank(truth[0])

    def test_root_solves_for_the_right_hand_side(self, graph):
        root = graph.laplacian.root()
        c = root.solve(graph.rhs[:, None])
        np.testing.assert_allclose(root.to_items(c)[:, 0], graph.rhs, atol=1e-10)

    def test_coordinates_and_scores_are_inverse(self, graph):
        root = graph.laplacian.root()
        P = np.random.default_rng(0).normal(size=(root.rank, 2))
        np.testing.assert_allclose(root.to_coordinates(root.to_scores(P)), P, atol=1e-11)

    def test_coordinates_stay_inside_their_query(self, graph, p):
        root = graph.laplacian.root()
        R = root.to_items(np.eye(root.rank))
        for column, component in zip(R.T, root.component, strict=True):
            assert set(graph.queries.index[np.abs(column) > 1e-14]) == {component}


def random_pairs(seed=0, n_items=12, n_pairs=30):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, n_items - 2, size=(n_pairs, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    pairs = np.vstack([pairs, pairs[:3], pairs[:2, ::-1]])  # repeated and contradicting
    return pairs, rng.normal(size=len(pairs)), rng.integers(0, 3, len(pairs)).astype(float)


@pytest.mark.parametrize("cost", ["magnitude", "unit", "relative"])
@pytest.mark.parametrize("n_pairs", [3, 8, 40])
def test_pair_graph_equals_the_sum_over_pairs(n_pairs, cost):
    pairs, margin, weight = random_pairs(n_pairs=n_pairs)
    margin = margin + np.sign(margin)  # so that no relative weight is beyond all measure
    graph = PreferenceGraph.from_pairs(pairs, margin, weight, n_items=12, cost=cost)
    L, r = reference.laplacian(reference.compared_pairs(pairs, margin, weight, cost), 12)
    root = graph.laplacian.root()
    R = root.to_items(np.eye(root.rank))
    X = np.random.default_rng(2).normal(size=(12, 4)) + 50
    np.testing.assert_allclose(graph @ np.eye(12), L, atol=1e-13)
    np.testing.assert_allclose(graph.rhs, r, atol=1e-13)
    np.testing.assert_allclose(R @ R.T, L, atol=1e-12)
    np.testing.assert_allclose(R @ root.solve(graph.rhs[:, None])[:, 0], r, atol=1e-12)
    np.testing.assert_allclose(graph.laplacian.gram(X), X.T @ L @ X, atol=1e-9)
    assert root.rank == np.linalg.matrix_rank(L)
    P = np.random.default_rng(0).normal(size=(root.rank, 2))
    np.testing.assert_allclose(root.to_coordinates(root.to_scores(P)), P, atol=1e-12)


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


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize(("cost", "ties"), CONVENTIONS)
def test_a_copy_of_a_graph_is_the_same_graph(copied, cost, ties):
    p = problem(seed=2)
    graph = PreferenceGraph.from_scores(p.y, p.qid, cost=cost, ties=ties)
    again = copied(graph)
    np.testing.assert_array_equal(again @ p.X, graph @ p.X)
    np.testing.assert_array_equal(again.rhs, graph.rhs)
    assert again.n_ignored_queries == graph.n_ignored_queries


@settings(max_examples=60, deadline=None)
@given(
    y=st.lists(st.integers(-2, 2), min_size=2, max_size=12),
    data=st.data(),
    convention=st.sampled_from(CONVENTIONS),
    query_weight=st.sampled_from(WEIGHTS),
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
    (cost, ties, w) for cost, ties in CONVENTIONS for w in WEIGHTS if (ties, w) != ("keep", "equal")
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
            "for cost='magnitude' only",
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
