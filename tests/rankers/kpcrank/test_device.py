"""Components found on a device of PyTorch are those that NumPy finds; here on its CPU device."""

import numpy as np
import pytest

from problems import close, problem
from rankwise import InvalidInputError, KPCRank, KPCRankCV, PreferenceGraph
from rankwise.core.devices import as_device
from rankwise.core.queries import Queries
from rankwise.features.components import find_components
from rankwise.features.kernels import Gaussian, Precomputed
from rankwise.rankers.kpcrank.component_fit import leave_query_out_components
from rankwise.selection.holdouts import Folds

pytestmark = pytest.mark.usefixtures("torch_on_one_thread")


@pytest.mark.parametrize("solver", ["full", "truncated"])
@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "linear"])
def test_fit(solver, kernel):
    p = problem(seed=1, sizes=(7, 1, 5, 9, 2, 3), grades=3, n_features=4)
    weight = np.arange(len(p.y)) % 3.0
    for options in ({}, {"sample_weight": weight}):
        expected = KPCRank(4, kernel, solver=solver).fit(p.X, p.y, qid=p.qid, **options)
        found = KPCRank(4, kernel, solver=solver, device="cpu").fit(p.X, p.y, qid=p.qid, **options)
        close(found.variances_, expected.variances_)
        close(found.predict(p.X), expected.predict(p.X))


def test_choice_of_components():
    p = problem(seed=1, sizes=(7, 6, 5, 9), grades=3, n_features=4)
    expected = KPCRankCV(10).fit(p.X, p.y, qid=p.qid)
    found = KPCRankCV(10, device="cpu").fit(p.X, p.y, qid=p.qid)
    assert found.n_components_ == expected.n_components_
    close(found.path_.values, expected.path_.values)
    close(found.held_out_scores_, expected.held_out_scores_)


def folded(n_outputs, seed=0):
    """A problem with queries of several sizes, items of no fold, one query alone in its size."""
    p = problem(seed=seed, sizes=(7, 6, 5, 7, 9, 6, 1, 7), grades=3, n_features=4)
    Y = p.y if n_outputs == 1 else np.column_stack([p.y, np.round(p.X[:, 0])])
    graph = PreferenceGraph.from_scores(Y, p.qid, ties="keep")
    queries = Queries.from_qid(p.qid)
    fold = np.where(queries.index == 1, -1, queries.index)
    return p.X, graph, Folds(fold, queries.n_queries)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("n_outputs", [1, 2])
@pytest.mark.parametrize("entries", [1, 100, 1 << 27])
def test_queries_left_out_of_components(alpha, n_outputs, entries):
    Z, graph, folds = folded(n_outputs)
    expected = leave_query_out_components(Z, graph, folds, alpha)
    found = leave_query_out_components(Z, graph, folds, alpha, as_device("cpu"), entries)
    close(found.scores, expected.scores)
    np.testing.assert_allclose(found.error, expected.error, rtol=1e-6)
    assert np.isnan(found.scores[:, folds.fold < 0]).all()


def test_components_that_depend_on_others_are_left_out_here():
    """One is constant in every query but one, another the sum of two."""
    Z, graph, folds = folded(1)
    Z = np.column_stack([Z, np.where(folds.fold == 2, Z[:, 0], 1.0), Z[:, 0] + Z[:, 1]])
    expected = leave_query_out_components(Z, graph, folds, 0.0)
    found = leave_query_out_components(Z, graph, folds, 0.0, as_device("cpu"))
    close(found.scores, expected.scores)


def test_a_flat_spectrum_is_decomposed_in_full(monkeypatch):
    X = np.random.default_rng(0).normal(size=(20, 3))
    expected, _ = find_components(Gaussian(0.1), X, 5)
    monkeypatch.setattr("rankwise.features.components._by_lanczos", lambda *_: None)
    found, _ = find_components(Gaussian(0.1), X, 5, "truncated", device=as_device("cpu"))
    close(found.variances, expected.variances)


def test_an_indefinite_kernel_is_refused():
    K = np.diag([1.0, -1.0, 1.0, 1.0])
    with pytest.raises(InvalidInputError, match="centred kernel must be positive semidefinite"):
        find_components(Precomputed(), K, 2, device=as_device("cpu"))
