"""Transductive scores are those with the smallest leave-query-out error."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import reference
from problems import problem
from rankwise import Gaussian, InvalidInputError, Linear, RankRLS, transductive_scores

P = problem(seed=4, sizes=(5, 1, 6, 4, 4, 1), n_features=4, shuffle=False)
NEW = np.isin(P.qid, [24, 31, 38])  # two queries of four items, and one of a single item


def given(rows=P.X):
    return rows[~NEW], P.y[~NEW], P.qid[~NEW], rows[NEW], P.qid[NEW]


@pytest.mark.parametrize("alpha", [0.1, 10.0])
@pytest.mark.parametrize("kernel", [Linear(), Gaussian(0.1)], ids=repr)
@pytest.mark.parametrize(
    ("ties", "query_weight"), [("drop", "items"), ("keep", "pairs"), ("drop", "equal")]
)
def test_scores_have_the_smallest_left_out_residuals(ties, query_weight, kernel, alpha):
    ranker = RankRLS(alpha, kernel=kernel, ties=ties, query_weight=query_weight)
    found = transductive_scores(ranker, *given())
    K = kernel(P.X, P.X)
    expected = reference.transductive_scores(K, P.y[~NEW], P.qid, ties, query_weight, alpha)
    for q in np.unique(P.qid[NEW]):
        rows = P.qid[NEW] == q
        lead, wanted = (s[rows] - s[rows][0] for s in (found, expected))
        np.testing.assert_allclose(lead, wanted, atol=1e-7)
    assert found[-1] == 0.0  # the query of one item


def test_sparse_rows_give_the_same():
    dense = transductive_scores(RankRLS(), *given())
    sparse = transductive_scores(RankRLS(), *given(csr_array(P.X)))
    np.testing.assert_allclose(sparse, dense, atol=1e-10)


def test_new_queries_may_have_the_names_of_known_ones():
    known = P.X[~NEW], P.y[~NEW], P.qid[~NEW]
    renamed = np.where(P.qid[NEW] == 24, 3, P.qid[NEW])
    found = transductive_scores(RankRLS(), *known, P.X[NEW], renamed)
    np.testing.assert_allclose(found, transductive_scores(RankRLS(), *given()))


@pytest.mark.parametrize(
    ("ranker", "message"),
    [
        (RankRLS(cost="unit"), "must have cost='magnitude'"),
        (RankRLS(query_weight=[1.0]), "named `query_weight`"),
        (RankRLS(basis=3), "no basis"),
        (RankRLS(kernel="precomputed"), "computed from the rows"),
        (RankRLS(0.0), "`alpha` must be"),
    ],
)
def test_settings_without_a_meaning_are_refused(ranker, message):
    with pytest.raises(InvalidInputError, match=message):
        transductive_scores(ranker, *given())


def test_input_is_checked():
    X, y, qid, X_new, qid_new = given()
    with pytest.raises(InvalidInputError, match="`qid` and `qid_new` must be given"):
        transductive_scores(RankRLS(), X, y, qid, X_new, None)
    with pytest.raises(InvalidInputError, match="qid_new has 8"):
        transductive_scores(RankRLS(), X, y, qid, X_new, qid_new[:-1])
    with pytest.raises(InvalidInputError, match="one output at a time"):
        transductive_scores(RankRLS(), X, np.c_[y, y], qid, X_new, qid_new)
    many = csr_array((8193, X.shape[1]))
    with pytest.raises(InvalidInputError, match="At most 8,192 items"):
        transductive_scores(RankRLS(), X, y, qid, many, np.zeros(8193))
