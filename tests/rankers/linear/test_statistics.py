"""Rows read part by part, and statistics gathered chunk by chunk, give what rows in memory give."""

import threading
import weakref

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

from problems import problem
from rankwise import InvalidInputError, NothingToLearnError, PreferenceGraph
from rankwise.rankers.linear.files import RowSource, StreamedRows, cut, streamed_operator
from rankwise.rankers.linear.statistics import (
    GradeMoments,
    OnePassError,
    ScoredRows,
    Statistics,
    accumulate,
)
from rankwise.solve.normal_equations import solve_once
from rankwise.solve.operators import KnownMeans, QueryByQuery, TwoPasses
from rankwise.solve.rows import DenseRows, SparseRows

SIZES = (5, 1, 17, 2, 4, 1, 1, 9)
OPTIONS = [
    {"cost": cost, "ties": ties, "query_weight": weight}
    for cost, ties in [
        ("magnitude", "drop"),
        ("magnitude", "keep"),
        ("unit", "drop"),
        ("relative", "drop"),
    ]
    for weight in ("items", "pairs", "equal", {3 + 7 * k: 1.0 + k for k in range(8)})
]


def source(X):
    """Serve the rows of an array as if they were on disk."""
    if issparse(X):
        return RowSource(lambda a, b: SparseRows.of(X[a:b]), 12 * X.indptr, X.shape[1], X.nnz)
    offset = X[0].copy()
    row_bytes = 8 * X.shape[1] * np.arange(len(X) + 1)
    return RowSource(lambda a, b: DenseRows(X[a:b], offset), row_bytes, X.shape[1], X.size)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("memory", [1, 600, 4000, 10**6])
@pytest.mark.parametrize(
    ("shuffle", "n_features", "form"),
    [(True, 9, TwoPasses), (False, 9, QueryByQuery), (True, 1, KnownMeans)],
)
def test_streamed_operators_equal_the_dense_one(shuffle, n_features, form, memory, sparse):
    sizes = (400,) if form is KnownMeans else SIZES
    p = problem(1, sizes=sizes, n_features=n_features, shuffle=shuffle)
    graph = PreferenceGraph.from_scores(p.y, p.qid)
    X = csr_array(p.X) if sparse else p.X
    operator = streamed_operator(source(X), graph, memory)
    fits = memory > 2 * 12 * 17 * n_features
    assert type(operator) is (form if fits or form is KnownMeans else TwoPasses)
    w = np.random.default_rng(0).normal(size=n_features)
    np.testing.assert_allclose(operator.apply(w), p.X.T @ (graph @ (p.X @ w)), atol=1e-11)
    np.testing.assert_allclose(operator.rhs(), p.X.T @ graph.rhs, atol=1e-11)
    expected = np.diagonal(p.X.T @ (graph @ p.X))
    if type(operator) is TwoPasses:
        expected = graph.laplacian.diagonal() @ (p.X - (0.0 if sparse else p.X[0])) ** 2
    np.testing.assert_allclose(operator.diagonal(), expected, atol=1e-11)


def test_comparisons_are_streamed_in_two_passes():
    p = problem(2, n_features=4)
    graph = PreferenceGraph.from_pairs([[0, 18], [3, 1]], n_items=len(p.y))
    operator = streamed_operator(source(p.X), graph, 100)
    assert type(operator) is TwoPasses
    np.testing.assert_allclose(operator.apply(np.ones(4)), p.X.T @ (graph @ p.X.sum(axis=1)))


@pytest.mark.parametrize("most", [1, 7, 30, 1000])
def test_cuts_are_at_borders_and_parts_as_large_as_allowed(most):
    work = np.concatenate([[0], np.cumsum(np.random.default_rng(0).integers(1, 6, 40))])
    borders = np.array([0, 3, 4, 11, 12, 20, 38, 40])
    edges = cut(work, borders, most)
    assert edges[0] == 0
    assert edges[-1] == 40
    assert set(edges) <= set(borders)
    steps = np.diff(work[edges])
    for first, last, step in zip(edges[:-1], edges[1:], steps, strict=True):
        neighbours = np.searchsorted(borders, last) - np.searchsorted(borders, first) == 1
        assert step <= most or neighbours
    together = steps[:-1] + np.array(
        [work[borders[np.searchsorted(borders, e) + 1]] - work[e] for e in edges[1:-1]]
    )
    assert (together > most).all()


def test_one_part_is_read_ahead_and_no_more_are_held():
    alive, most, second_is_read = set(), [], threading.Event()

    class Part:
        def product(self, w):
            if len(most) == 1:
                assert second_is_read.wait(10)  # while the first is in use
            return np.ones(1)

    def load(first, last):
        part = Part()
        alive.add(first)
        most.append(len(alive))
        weakref.finalize(part, alive.discard, first)
        if first == 1:
            second_is_read.set()
        return part

    rows = StreamedRows(RowSource(load, np.arange(11), 1, 10), np.arange(11))
    assert rows.product(np.ones(1)).sum() == 10
    assert max(most) == 2


def test_what_goes_wrong_while_reading_ahead_is_raised():
    def load(first, last):
        if first >= 4:
            raise OSError("disk on fire")
        return SparseRows.of(csr_array(np.ones((last - first, 1))))

    rows = StreamedRows(RowSource(load, np.arange(11), 1, 10), np.arange(11))
    with pytest.raises(OSError, match="disk on fire"):
        rows.product(np.ones(1))


def chunked(p, X, size):
    return [ScoredRows(X[k : k + size], p.y[k : k + size], p.qid[k : k + size])
            for k in range(0, len(p.y), size)]  # fmt: skip


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(map(str, o.values()))[:25])
def test_statistics_of_chunks_equal_those_of_all_rows(options, sparse):
    p = problem(3, sizes=SIZES, shuffle=False, n_features=2)
    graph = PreferenceGraph.from_scores(p.y, p.qid, **options)
    G, h = p.X.T @ (graph @ p.X), p.X.T @ graph.rhs
    X = csr_array(p.X) if sparse else p.X
    scale = np.abs(G).max()
    for size in (1, 3, 7, 100):
        for memory in (10**6, 100):  # the largest query is reduced to its grades
            found = accumulate(chunked(p, X, size), 2, options, memory)
            np.testing.assert_allclose(found.gram, G, atol=1e-12 * scale)
            np.testing.assert_allclose(found.moment, h, atol=1e-12 * scale)
            assert found.n_queries == len(SIZES)
            assert found.n_ignored == graph.n_ignored_queries


def test_moments_of_parts_merge_to_those_of_the_whole_whatever_the_offset():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    whole = GradeMoments.of(X, y)
    far = np.round(X * 2**20) / 2**20 + 2.0**20
    merged = GradeMoments.of(far[:20], y[:20]).merge(GradeMoments.of(far[20:], y[20:]))
    np.testing.assert_allclose(merged.scatter, whole.scatter, rtol=1e-5)
    np.testing.assert_allclose(merged.cross, whole.cross, atol=1e-4)
    np.testing.assert_allclose(merged.mean - 2.0**20, whole.mean, atol=1e-5)
    assert merged.n_items == 50
    assert merged.y_mean == pytest.approx(whole.y_mean)


def test_statistics_answer_every_alpha():
    p = problem(4, sizes=SIZES, shuffle=False)
    graph = PreferenceGraph.from_scores(p.y, p.qid)
    options = OPTIONS[0]
    found = accumulate(chunked(p, p.X, 6), 3, options, 10**6)
    alphas = np.array([0.1, 10.0, 1.0])
    for coefs in (found.solve(alphas), np.vstack([found.solve(np.array([a])) for a in alphas])):
        for alpha, coef in zip(alphas, coefs, strict=True):
            G = p.X.T @ (graph @ p.X)
            exact = solve_once(G, (p.X.T @ graph.rhs)[:, None], alpha)[:, 0]
            np.testing.assert_allclose(coef, exact, rtol=1e-9)


def test_a_query_in_several_places_is_refused():
    p = problem(5, sizes=(4, 4, 4), shuffle=False)
    order = np.r_[0:6, 8:12, 6:8]
    moved = type(p)(p.X[order], p.y[order], p.qid[order])
    for size in (1, 3, 100):
        for memory in (80, 10**6):
            with pytest.raises(OnePassError, match="must be contiguous.*query 10 "):
                accumulate(chunked(moved, moved.X, size), 3, OPTIONS[4], memory)


def test_a_large_query_with_too_many_scores_is_refused():
    p = problem(6, sizes=(40,), shuffle=False, grades=None)
    with pytest.raises(OnePassError, match="40 distinct scores are too many"):
        accumulate([ScoredRows(p.X, p.y, p.qid)], 3, OPTIONS[0], 100)


@pytest.mark.parametrize("ties", ["drop", "keep"])
def test_a_large_query_of_weight_zero_teaches_nothing(ties):
    p = problem(7, sizes=(20, 5), shuffle=False, n_features=2)
    options = {"cost": "magnitude", "ties": ties, "query_weight": {3: 0.0, 10: 2.0}}
    graph = PreferenceGraph.from_scores(p.y, p.qid, **options)
    found = accumulate(chunked(p, p.X, 4), 2, options, 100)
    np.testing.assert_allclose(found.gram, p.X.T @ (graph @ p.X), atol=1e-12)
    assert (found.n_queries, found.n_ignored) == (2, graph.n_ignored_queries)


def test_a_large_query_without_a_weight_is_refused():
    p = problem(7, sizes=(20, 5), shuffle=False, n_features=2)
    options = OPTIONS[0] | {"query_weight": {10: 2.0}}
    with pytest.raises(InvalidInputError, match="an entry for every query id: 3 has none"):
        accumulate(chunked(p, p.X, 4), 2, options, 100)


@pytest.mark.parametrize("query_weight", ["items", "pairs", "equal"])
def test_a_large_query_of_one_item_is_ignored(query_weight):
    options = {"cost": "magnitude", "ties": "keep", "query_weight": query_weight}
    row = ScoredRows(csr_array([[2.0]]), np.ones(1), np.zeros(1))
    found = accumulate([row], 1, options, 10)  # sparse rows take half as much again
    assert (found.n_queries, found.n_ignored) == (1, 1)


def test_data_without_preference_teach_nothing():
    X = np.eye(3)
    for memory in (1, 10**6):
        chunks = [ScoredRows(X, np.ones(3), np.zeros(3))]
        found = accumulate(chunks, 3, OPTIONS[0], max(memory, 80))
        with pytest.raises(NothingToLearnError, match="at least one preference"):
            found.solve(np.ones(1))
    with pytest.raises(NothingToLearnError):
        Statistics.nothing(3).solve(np.ones(1))
