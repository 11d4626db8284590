"""The operator X'LX of every graph, in every form, equals the dense product."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import reference
from problems import problem
from rankwise import InvalidInputError, PreferenceGraph
from rankwise.core.threads import even_parts
from rankwise.solve.operators import (
    KnownMeans,
    QueryByQuery,
    TwoPasses,
    joint_operator,
    normal_operator,
    query_blocks,
)
from rankwise.solve.rows import CACHED_COLUMNS, ColumnOrder, DenseRows, SparseRows, as_rows

SIZES = (5, 1, 7, 2, 4, 1, 1, 9)
OPTIONS = [
    {"cost": "magnitude", "ties": "drop", "query_weight": "items"},
    {"cost": "magnitude", "ties": "keep", "query_weight": "pairs"},
    {"cost": "unit", "ties": "drop", "query_weight": "equal"},
    {"cost": "relative", "ties": "drop", "query_weight": "items"},
]


FEW = pytest.mark.parametrize("n_cached", [CACHED_COLUMNS, 2], ids=["given order", "reordered"])
"""Leave columns in their order, or reorder even few."""


def sparse_problem(seed, n_features=9, **options):
    p = problem(seed, sizes=SIZES, n_features=n_features, **options)
    p.X[np.random.default_rng(seed).random(p.X.shape) < 0.6] = 0.0
    return p


def forms(X, graph, n_cached=CACHED_COLUMNS):
    """Return all forms of the operator that a graph allows."""
    sparse = SparseRows.of(csr_array(X), n_cached=n_cached)
    small = SparseRows.of(csr_array(X), np.float32, n_cached)
    wide = csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    wide = SparseRows.of(wide, n_cached=n_cached)
    all_rows = [sparse, small, wide, DenseRows.of(X), DenseRows.of(X, np.float32)]
    found = [TwoPasses(rows, graph) for rows in all_rows]
    cliques = graph.laplacian.clique_form()
    if cliques is None:
        return found
    found += [KnownMeans.of(rows, graph, cliques) for rows in all_rows]
    blocks = query_blocks(graph.laplacian)
    if blocks is not None:
        found += [QueryByQuery(rows, graph, blocks) for rows in all_rows]
    return found


def single(operator):
    stored = operator.rows.X if isinstance(operator.rows, DenseRows) else operator.rows.data
    return stored.dtype == np.float32


@FEW
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("grades", [3, None])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(o.values()))
def test_every_form_equals_the_dense_operator(options, grades, shuffle, n_cached):
    p = sparse_problem(1, grades=grades, shuffle=shuffle)
    rng = np.random.default_rng(0)
    s = rng.integers(0, 3, len(p.y)).astype(float)
    pairs = reference.score_pairs(p.y, p.qid, **options, sample_weight=s)
    L, r = reference.laplacian(pairs, len(p.y))
    w = rng.normal(size=p.X.shape[1])
    graph = PreferenceGraph.from_scores(p.y, p.qid, **options, sample_weight=s)
    expected, scale = p.X.T @ L @ p.X @ w, np.abs(L).max()
    operators = forms(p.X, graph, n_cached)
    for operator in operators:
        tolerance = scale * (1e-5 if single(operator) else 1e-12)
        np.testing.assert_allclose(operator.apply(w), expected, atol=tolerance)
        np.testing.assert_allclose(operator.rhs(), p.X.T @ r, atol=tolerance)
        if not isinstance(operator, TwoPasses):
            expected_diagonal = np.diagonal(p.X.T @ L @ p.X)
            np.testing.assert_allclose(operator.diagonal(), expected_diagonal, atol=tolerance)
    by_query = [operator for operator in operators if isinstance(operator, QueryByQuery)]
    assert bool(by_query) == (not shuffle and options["cost"] != "relative")


def test_features_constant_inside_queries_have_a_diagonal_of_zero():
    p = problem(4, sizes=SIZES, n_features=3, grades=3, shuffle=False)
    X = np.column_stack([p.X, 1e3 + np.pi * p.qid])
    graph = PreferenceGraph.from_scores(p.y, p.qid)
    for operator in forms(X, graph):
        if not isinstance(operator, TwoPasses) and not single(operator):
            diagonal = operator.diagonal()
            assert diagonal[3] == 0
            assert (diagonal[:3] > 0).all()


@FEW
@pytest.mark.parametrize("options", [OPTIONS[0], OPTIONS[3]], ids=["by query", "by pair of grades"])
def test_threads_make_no_difference(monkeypatch, options, n_cached):
    """Where there is enough work to be cut into parts."""
    p = problem(4, sizes=(9,) * 3000, n_features=40, shuffle=False)
    p.X[np.random.default_rng(0).random(p.X.shape) < 0.3] = 0.0
    graph = PreferenceGraph.from_scores(p.y, p.qid, **options)
    found = []
    for n_threads, n_parts in (("1", 1), ("2", 2)):
        monkeypatch.setenv("RANKWISE_NUM_THREADS", n_threads)
        assert len(even_parts(csr_array(p.X).indptr)) == n_parts + 1
        found.append([_results(operator) for operator in forms(p.X, graph, n_cached)])
    for alone, together in zip(*found, strict=True):
        for expected, result in zip(alone, together, strict=True):
            np.testing.assert_allclose(result, expected, atol=1e-9 * np.abs(expected).max())


def _results(operator):
    """Return what an operator and its rows compute, of fixed vectors."""
    rng, rows = np.random.default_rng(1), operator.rows
    W, V = rng.normal(size=(5, rows.n_features)), rng.normal(size=(5, rows.n_items))
    V -= V.mean(axis=1, keepdims=True)
    taken = rows.take(np.arange(0, rows.n_items, 2))
    of_rows = rows.product(W[0]), rows.transposed(V[0]), rows.squares(V[1] ** 2)
    of_many = rows.products(W), rows.transposed_products(V), taken.product(W[0])
    return operator.apply(W[0]), operator.rhs(), operator.diagonal(), *of_rows, *of_many


@FEW
def test_pairs_equal_the_dense_operator(n_cached):
    p = sparse_problem(2)
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, len(p.y), size=(40, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    margin, weight = rng.normal(size=len(pairs)), rng.uniform(0, 2, len(pairs))
    L, r = reference.laplacian(zip(*pairs.T, margin, weight, strict=True), len(p.y))
    graph = PreferenceGraph.from_pairs(pairs, margin, weight, len(p.y))
    w = rng.normal(size=p.X.shape[1])
    for operator in forms(p.X, graph, n_cached):
        tolerance = 1e-4 if single(operator) else 1e-11
        np.testing.assert_allclose(operator.apply(w), p.X.T @ L @ p.X @ w, atol=tolerance)
        np.testing.assert_allclose(operator.rhs(), p.X.T @ r, atol=tolerance)


@pytest.mark.parametrize(
    ("sizes", "n_features", "shuffle", "form"),
    [
        ((200,), 4, True, KnownMeans),
        ((3,) * 60, 60, False, QueryByQuery),
        ((3,) * 60, 60, True, TwoPasses),
    ],
)
def test_the_form_is_chosen_by_what_it_costs(sizes, n_features, shuffle, form):
    p = problem(3, sizes=sizes, n_features=n_features, shuffle=shuffle)
    graph = PreferenceGraph.from_scores(p.y, p.qid)
    assert type(normal_operator(as_rows(csr_array(p.X)), graph)) is form


def test_large_queries_are_not_visited_twice_in_cache():
    p = problem(3, sizes=(12,) * 20, n_features=60, shuffle=False)
    graph = PreferenceGraph.from_scores(p.y, p.qid)
    rows = as_rows(csr_array(p.X))
    assert type(normal_operator(rows, graph)) is QueryByQuery
    assert type(normal_operator(rows, graph, largest_block=100)) is TwoPasses


@pytest.mark.parametrize("n_features", [3, 70_001])
def test_sparse_arrays_are_used_as_they_are(n_features):
    place = np.array([0], dtype=np.int32), np.array([n_features - 1], dtype=np.int32)
    X = csr_array(([1.0], place), shape=(3, n_features))
    rows = SparseRows.of(X)
    assert rows.data is X.data
    assert rows.indices is X.indices
    X.indices = X.indices.astype(np.int64)
    shortened = SparseRows.of(X)
    assert shortened.data is X.data
    assert (shortened.indices.dtype, shortened.indices.tolist()) == (np.int32, [n_features - 1])


def test_more_features_than_32_bits_number_are_refused():
    X = csr_array(([1.0], ([0], [2**31])), shape=(1, 2**31 + 1))
    with pytest.raises(InvalidInputError, match=r"at most 2\^31 - 1 features: got 2147483649"):
        SparseRows.of(X)


def test_columns_are_numbered_by_use_and_values_are_not_copied():
    p = sparse_problem(6, n_features=3000)
    X = csr_array(p.X)
    rows = SparseRows.of(X)
    assert rows.data is X.data
    assert rows.indices.dtype == np.uint16
    used = np.bincount(X.indices, minlength=3000)
    assert (np.diff(used[rows.columns.order]) <= 0).all()
    np.testing.assert_array_equal(rows.columns.order[rows.indices], X.indices)


@FEW
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("wanted", [np.float32, np.float64])
def test_indices_of_64_bits_are_read_as_those_of_32(dtype, wanted, n_cached):
    X = csr_array(sparse_problem(3).X.astype(dtype))
    wide = X.copy()
    wide.indices = wide.indices.astype(np.int64)
    w = np.random.default_rng(0).normal(size=X.shape[1])
    products = SparseRows.of(wide, wanted, n_cached).product(w)
    np.testing.assert_array_equal(products, SparseRows.of(X, wanted, n_cached).product(w))
    tolerance = 100 * np.finfo(np.result_type(dtype if dtype == wanted else np.float32)).eps
    np.testing.assert_allclose(products, X @ w, rtol=0.0, atol=tolerance * np.abs(X @ w).max())


def test_values_that_are_copied_stand_by_use_in_their_row():
    p = sparse_problem(7)
    X = csr_array(p.X)
    rows = SparseRows.of(X, np.float32, n_cached=3)
    for begin, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        is_near = rows.indices[begin:end] < 3
        assert (np.diff(is_near.astype(int)) <= 0).all()
        columns = rows.columns.order[rows.indices[begin:end]]
        assert sorted(columns) == sorted(X.indices[begin:end])
        found = dict(zip(columns, rows.data[begin:end], strict=True))
        given = dict(zip(X.indices[begin:end], X.data[begin:end].astype(np.float32), strict=True))
        assert found == given


def test_entries_in_stored_order_come_back_by_column():
    columns = ColumnOrder(np.array([2, 0, 1]))
    w = np.array([[5.0, 6.0, 7.0]])
    np.testing.assert_array_equal(columns.to_stored(w[0]), [7.0, 5.0, 6.0])
    np.testing.assert_array_equal(columns.to_given(columns.to_stored(w[0])[None]), w)


def test_single_precision_takes_half_the_memory():
    X = csr_array(np.eye(3))
    rows = SparseRows.of(X, np.float32)
    assert rows.data.dtype == np.float32
    assert rows.indices.dtype == np.uint16
    wide = csr_array(([1.0], ([0], [70_000])), shape=(1, 70_001))
    stored = SparseRows.of(wide, np.float32)
    assert stored.indices.dtype == np.int32
    assert stored.data.dtype == np.float32


def test_large_offsets_cost_dense_rows_no_digits():
    p = problem(4, n_features=5)
    X = np.round(p.X * 2**20) / 2**20
    graph = PreferenceGraph.from_scores(p.y, p.qid)
    w = np.random.default_rng(0).normal(size=5)
    expected = X.T @ (graph @ (X @ w))
    for operator in forms(X + 2.0**20, graph)[3::5]:
        np.testing.assert_allclose(operator.apply(w), expected, atol=1e-12)


@FEW
@pytest.mark.parametrize("n_vectors", [1, 2, 3, 4, 5, 7, 8, 9, 13])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_products_with_several_vectors_equal_those_with_each(n_vectors, dtype, n_cached):
    X = sparse_problem(2).X.astype(dtype)
    rng = np.random.default_rng(3)
    W, V = rng.normal(size=(n_vectors, X.shape[1])), rng.normal(size=(n_vectors, len(X)))
    rows = SparseRows.of(csr_array(X), n_cached=n_cached)
    np.testing.assert_allclose(rows.products(W), W @ X.T, atol=1e-12)
    np.testing.assert_allclose(rows.transposed_products(V), V @ X, atol=1e-12)


@FEW
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_are_taken_are_those_of_the_matrix(dtype, n_cached):
    X = sparse_problem(2).X.astype(dtype)
    items = np.random.default_rng(3).permutation(len(X))[:17]
    rng = np.random.default_rng(4)
    w, v = rng.normal(size=X.shape[1]), rng.normal(size=17)
    rows = SparseRows.of(csr_array(X), n_cached=n_cached).take(items)
    assert rows.data.dtype == dtype
    np.testing.assert_allclose(rows.product(w), X[items] @ w, atol=1e-12)
    np.testing.assert_allclose(rows.transposed(v), v @ X[items], atol=1e-12)
    assert rows.take(np.arange(0)).n_items == 0


def test_rounded_rows_have_single_values_and_the_same_indices():
    X = sparse_problem(2).X
    rows = SparseRows.of(csr_array(X))
    rounded = rows.rounded()
    assert rounded.indices is rows.indices
    np.testing.assert_array_equal(rounded.data, rows.data.astype(np.float32))
    assert rounded.data.dtype == np.float32
    huge = SparseRows.of(csr_array([[1e39, 1.0]]))
    assert huge.rounded() is huge


@FEW
def test_squares_are_those_of_the_columns(n_cached):
    p = sparse_problem(5)
    weight = np.random.default_rng(0).random(len(p.y))
    for rows in (SparseRows.of(csr_array(p.X), n_cached=n_cached), as_rows(p.X)):
        offset = p.X[0] if isinstance(rows, DenseRows) else 0.0
        np.testing.assert_allclose(rows.squares(weight), weight @ (p.X - offset) ** 2)


@FEW
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_several_graphs_over_the_same_rows_are_applied_at_once(kind, dtype, n_cached):
    p = sparse_problem(3)
    sparse = SparseRows.of(csr_array(p.X), dtype, n_cached)
    rows = sparse if kind == "sparse" else DenseRows.of(p.X, dtype)
    first = PreferenceGraph.from_scores(p.y, p.qid)
    graphs = [first, PreferenceGraph.from_scores(-np.round(p.X[:, 0]), p.qid), first, first]
    operators, product = joint_operator(rows, graphs)
    W = np.random.default_rng(0).normal(size=(4, 9))
    for which in ([2, 1], [1, 0, 3, 2]):
        expected = [operators[k].apply(w) for k, w in zip(which, W, strict=False)]
        np.testing.assert_allclose(product(W[: len(which)], which), expected, atol=1e-10)
    (alone,), product = joint_operator(rows, graphs[:1])
    np.testing.assert_allclose(product(W[:1], [0])[0], alone.apply(W[0]), atol=1e-12)
