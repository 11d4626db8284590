"""What holds for every preference graph: of scores by each convention, and of comparisons."""

import copy
import pickle
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from scipy.sparse import csr_array

import reference
from laws.implementations import implementations
from laws.namespaces import every_namespace
from problems import problem
from rankwise import PreferenceGraph
from rankwise.core.namespaces import to_host
from rankwise.graph.laplacian import GraphLaplacian

CONVENTIONS = [  # cost and ties; a new cost is one line
    ("magnitude", "drop"),
    ("magnitude", "keep"),
    ("unit", "drop"),
    ("relative", "drop"),
]
QUERY_WEIGHTS = ["items", "pairs", "equal"]


@dataclass(frozen=True)
class Scored:
    """A graph of scores, with what builds it and what it must be."""

    y: np.ndarray
    qid: np.ndarray
    options: dict
    sample_weight: np.ndarray | None

    def graph(self):
        return PreferenceGraph.from_scores(
            self.y, self.qid, sample_weight=self.sample_weight, **self.options
        )

    def dense(self):
        pairs = reference.score_pairs(self.y, self.qid, **self.options, sample_weight=self.weight)
        return reference.laplacian(pairs, len(self.y))

    @property
    def weight(self):
        return np.ones(len(self.y)) if self.sample_weight is None else self.sample_weight

    @property
    def queries(self):
        return self.qid

    def take(self, rows):
        weight = None if self.sample_weight is None else self.sample_weight[rows]
        return replace(self, y=self.y[rows], qid=self.qid[rows], sample_weight=weight)

    def renamed(self):
        return replace(self, qid=np.array([f"query {-q}" for q in self.qid], dtype=object))

    def weighted(self, factor):
        return replace(self, sample_weight=factor * self.weight)

    def factor(self, of_weights):
        """Return what weights times a factor multiply the graph by."""
        power = {"items": 1, "pairs": 2, "equal": 0}[self.options["query_weight"]]
        return of_weights**power


@dataclass(frozen=True)
class Compared:
    """A graph of comparisons, some repeated and some contradicting each other."""

    pairs: np.ndarray
    margin: np.ndarray
    weight: np.ndarray
    cost: str
    n_items: int = 12

    def graph(self):
        return PreferenceGraph.from_pairs(
            self.pairs, self.margin, self.weight, self.n_items, cost=self.cost
        )

    def dense(self):
        listed = reference.compared_pairs(self.pairs, self.margin, self.weight, self.cost)
        return reference.laplacian(listed, self.n_items)

    @property
    def queries(self):
        return np.zeros(self.n_items)

    def take(self, rows):
        place = np.argsort(rows)
        return replace(self, pairs=place[self.pairs])

    def renamed(self):
        return self

    def weighted(self, factor):
        return replace(self, weight=factor * self.weight)

    def factor(self, of_weights):
        return of_weights


def scored(cost, ties, query_weight, grades, weighted):
    p = problem(seed=3, sizes=(6, 1, 5, 9, 2), grades=grades)
    weight = np.random.default_rng(1).integers(0, 4, len(p.y)) / 2.0 if weighted else None
    options = {"cost": cost, "ties": ties, "query_weight": query_weight}
    label = f"{cost}-{ties}-{query_weight}-{grades}-{weighted}"
    return pytest.param(Scored(p.y, p.qid, options, weight), id=label)


def compared(cost, n_pairs):
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 10, size=(n_pairs, 2))  # items 10 and 11 are never compared
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    pairs = np.vstack([pairs, pairs[:3], pairs[:2, ::-1]])
    margin = rng.normal(size=len(pairs))
    margin += np.sign(margin)  # so that no relative weight is beyond all measure
    weight = rng.integers(0, 3, len(pairs)).astype(float)
    return pytest.param(Compared(pairs, margin, weight, cost), id=f"{cost}-{n_pairs} pairs")


GRAPHS = [
    *(
        scored(*convention, query_weight, grades, weighted)
        for convention, query_weight, grades, weighted in product(
            CONVENTIONS, QUERY_WEIGHTS, (None, 2, 4), (False, True)
        )
    ),
    *(
        compared(cost, n_pairs)
        for cost, n_pairs in product(("magnitude", "unit", "relative"), (3, 8, 40))
    ),
]


def test_every_laplacian_is_asked():
    made = {type(case.values[0].graph().laplacian) for case in GRAPHS}
    assert made == implementations(GraphLaplacian)


@pytest.mark.parametrize("given", GRAPHS)
class TestEveryGraph:
    @pytest.fixture
    def graph(self, given):
        return given.graph()

    @pytest.fixture
    def truth(self, given):
        return given.dense()

    @pytest.fixture
    def root(self, graph):
        return graph.laplacian.root()

    @pytest.fixture
    def features(self, graph):
        return np.random.default_rng(2).normal(size=(graph.n_items, 3))

    def test_operator_equals_the_sum_over_pairs(self, graph, truth, features):
        L, _ = truth
        np.testing.assert_allclose(graph @ np.eye(graph.n_items), L, atol=1e-12)
        np.testing.assert_allclose(graph @ features, L @ features, atol=1e-11)
        np.testing.assert_allclose(graph @ features[:, 0], L @ features[:, 0], atol=1e-11)

    def test_right_hand_side_equals_the_sum_over_pairs(self, graph, truth):
        np.testing.assert_allclose(graph.rhs, truth[1], atol=1e-11)

    def test_operator_is_symmetric_and_semidefinite(self, graph):
        L = graph @ np.eye(graph.n_items)
        np.testing.assert_allclose(L, L.T, atol=1e-12)
        assert np.linalg.eigvalsh(L).min() > -1e-11
        f = np.random.default_rng(0).normal(size=graph.n_items)
        assert graph.quadratic(f) == pytest.approx(f @ L @ f)

    def test_constants_of_a_component_are_what_it_does_not_see(self, graph, truth):
        component = graph.laplacian.component
        labels = np.unique(component[component >= 0])
        constants = (component[:, None] == labels).astype(float)
        scale = 1.0 + graph.laplacian.diagonal().max()
        np.testing.assert_allclose(graph @ constants / scale, 0.0, atol=1e-14)
        np.testing.assert_allclose(constants.T @ graph.rhs, 0.0, atol=1e-10)
        n_isolated = np.count_nonzero(component < 0)
        assert not truth[0][component < 0].any()
        rank = graph.n_items - n_isolated - len(labels)
        assert graph.laplacian.rank() == rank == np.linalg.matrix_rank(truth[0])

    def test_components_stay_inside_their_query(self, graph, given):
        component = graph.laplacian.component
        for label in np.unique(component[component >= 0]):
            assert len(set(given.queries[component == label])) == 1

    def test_diagonal_is_the_degree(self, graph, truth):
        np.testing.assert_allclose(graph.laplacian.diagonal(), np.diag(truth[0]), atol=1e-12)

    def test_gram_equals_the_dense_product(self, graph, truth, features):
        np.testing.assert_allclose(
            graph.laplacian.gram(features + 1e3), features.T @ truth[0] @ features, atol=1e-9
        )

    def test_gram_of_sparse_rows_equals_dense(self, graph, features):
        some = np.where(features > 0, features, 0.0)
        G = graph.laplacian.gram(csr_array(some))
        np.testing.assert_allclose(G, graph.laplacian.gram(some), atol=1e-11)

    def test_root_times_its_transpose_is_the_laplacian(self, graph, truth, root):
        R = root.to_items(np.eye(root.rank))
        np.testing.assert_allclose(R @ R.T, truth[0], atol=1e-11)
        np.testing.assert_allclose(root.to_coordinates(np.eye(graph.n_items)), R.T, atol=1e-12)

    def test_root_has_full_column_rank(self, graph, root):
        assert root.rank == graph.laplacian.rank()

    def test_root_reduces_a_kernel(self, graph, root, features):
        R, K = root.to_items(np.eye(root.rank)), features @ features.T
        np.testing.assert_allclose(root.reduce(K.copy()), R.T @ K @ R, atol=1e-10)

    def test_root_solves_for_the_right_hand_side(self, graph, root):
        c = root.solve(graph.rhs[:, None])
        np.testing.assert_allclose(root.to_items(c)[:, 0], graph.rhs, atol=1e-10)

    def test_coordinates_and_scores_are_inverse(self, root):
        P = np.random.default_rng(0).normal(size=(root.rank, 2))
        np.testing.assert_allclose(root.to_coordinates(root.to_scores(P)), P, atol=1e-11)

    @every_namespace
    def test_every_namespace_does_the_same(self, graph, root, features, there):
        C = np.random.default_rng(0).normal(size=(root.rank, 3))
        V, K = features, features @ features.T
        moved = root.like(there(V))
        for found, expected in (
            (moved.to_coordinates(there(V)), root.to_coordinates(V)),
            (moved.coordinates_in_place(there(V)), root.to_coordinates(V)),
            (moved.to_items(there(C)), root.to_items(C)),
            (moved.to_scores(there(C)), root.to_scores(C)),
            (moved.solve(there(graph @ V)), root.solve(graph @ V)),
            (moved.reduce(there(K)), root.reduce(K.copy())),
            (graph.laplacian.gram(there(V + 1e3)), graph.laplacian.gram(V)),
        ):
            np.testing.assert_allclose(to_host(found), expected, atol=1e-9)

    def test_coordinates_stay_inside_their_component(self, graph, root):
        R = root.to_items(np.eye(root.rank))
        for column, component in zip(R.T, root.component, strict=True):
            assert set(graph.laplacian.component[np.abs(column) > 1e-14]) == {component}

    def test_rows_may_come_in_any_order(self, graph, given, features):
        rows = np.random.default_rng(4).permutation(graph.n_items)
        other = given.take(rows).graph()
        np.testing.assert_allclose(other @ features[rows], (graph @ features)[rows], atol=1e-11)
        np.testing.assert_allclose(other.rhs, graph.rhs[rows], atol=1e-11)
        assert other.laplacian.rank() == graph.laplacian.rank()
        assert other.n_ignored_queries == graph.n_ignored_queries

    def test_names_of_queries_do_not_matter(self, graph, given, features):
        other = given.renamed().graph()
        np.testing.assert_array_equal(other @ features, graph @ features)
        np.testing.assert_array_equal(other.rhs, graph.rhs)

    def test_scaled_weights_scale_the_graph(self, graph, given, features):
        other, factor = given.weighted(4.0).graph(), given.factor(4.0)
        np.testing.assert_allclose(other @ features, factor * (graph @ features), atol=1e-10)
        np.testing.assert_allclose(other.rhs, factor * graph.rhs, atol=1e-10)

    @pytest.mark.parametrize(
        "copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))]
    )
    def test_a_copy_is_the_same_graph(self, graph, copied, features):
        again = copied(graph)
        np.testing.assert_array_equal(again @ features, graph @ features)
        np.testing.assert_array_equal(again.rhs, graph.rhs)
        assert again.n_ignored_queries == graph.n_ignored_queries
        np.testing.assert_array_equal(again.laplacian.component, graph.laplacian.component)
