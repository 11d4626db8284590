"""Rows on a device of PyTorch give what NumPy gives; here on its CPU device."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from problems import close, problem
from rankwise import LinearRankRLS
from rankwise.core.namespaces import place
from rankwise.solve.moved_rows import rows_like
from rankwise.solve.rows import as_rows

pytestmark = pytest.mark.usefixtures("torch_on_one_thread")


@pytest.mark.parametrize("ties", ["drop", "keep"])
@pytest.mark.parametrize("sizes", [(40,), (7, 1, 5, 9, 2, 3) * 3])
@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("made", [np.asarray, sparse.csr_array])
def test_fit(ties, sizes, shuffled, made):
    p = problem(seed=1, sizes=sizes, grades=3, n_features=4)
    order = np.random.default_rng(0).permutation(len(p.y)) if shuffled else np.arange(len(p.y))
    X, y, qid = p.X[order], p.y[order], p.qid[order]
    X = made(X + 100.0 if made is np.asarray else X * (X > 0))
    options = {"ties": ties, "alpha": 0.1, "tol": 1e-12}
    expected = LinearRankRLS(**options).fit(X, y, qid=qid)
    close(LinearRankRLS(device="cpu", **options).fit(X, y, qid=qid).coef_, expected.coef_)


@pytest.mark.parametrize("made", [np.asarray, sparse.csr_array])
def test_grids_validation_and_comparisons(made):
    p = problem(seed=2, sizes=(9,) * 12, grades=3, n_features=5)
    p = replace(p, X=made(p.X))
    options = {"alphas": [0.01, 1.0, 100.0], "random_state": 0, "tol": 1e-12}
    expected = LinearRankRLS(**options).fit(p.X, p.y, qid=p.qid)
    found = LinearRankRLS(device="cpu", **options).fit(p.X, p.y, qid=p.qid)
    assert found.alpha_ == expected.alpha_
    close(found.coef_, expected.coef_)
    one = LinearRankRLS(**options).fit(p.X, p.y)  # several hold-outs of a single query
    close(LinearRankRLS(device="cpu", **options).fit(p.X, p.y).coef_, one.coef_)
    pairs = [[0, 1], [2, 1], [5, 9], [9, 14], [20, 3], [7, 8]]
    expected = LinearRankRLS(tol=1e-12).fit(p.X, pairs=pairs)
    close(LinearRankRLS(tol=1e-12, device="cpu").fit(p.X, pairs=pairs).coef_, expected.coef_)


@pytest.mark.parametrize("made", [np.asarray, sparse.csr_array])
def test_rows_of_a_device(made):
    rng = np.random.default_rng(3)
    X, w, v = made(rng.normal(size=(12, 3))), rng.normal(size=3), rng.normal(size=12)
    here, there = as_rows(X), rows_like(X, place("cpu"))
    assert (there.n_items, there.n_features, there.n_stored) == (12, 3, 36)
    close(there.squares(v**2), here.squares(v**2))
    some = np.array([4, 1, 7])
    close(there.take(some).product(w), here.take(some).product(w))
    group = np.array([0, 1, -1] * 4)
    close(there.group_sums(group, v, 2), here.group_sums(group, v, 2))
    factor = np.array([2.0, -1.0])
    close(there.group_squares(group, v, factor), here.group_squares(group, v, factor))


def test_sparse_rows_in_any_order_of_columns():
    """With entries that are given twice, too."""
    columns, values = np.array([2, 0, 0, 1, 2, 1]), np.array([1.0, 2.0, 3.0, -1.0, 0.5, 4.0])
    X = sparse.csr_array((values, columns, np.array([0, 2, 4, 6])), shape=(3, 3))
    twice = sparse.csr_array((np.ones(4), np.array([1, 1, 0, 2]), np.array([0, 2, 3, 4])))
    for given in (X, twice):
        expected = LinearRankRLS(tol=1e-12).fit(given, [0.0, 1.0, 2.0])
        found = LinearRankRLS(tol=1e-12, device="cpu").fit(given, [0.0, 1.0, 2.0])
        close(found.coef_, expected.coef_)
