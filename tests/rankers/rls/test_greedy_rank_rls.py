"""GreedyRankRLS: the path is that of RankRLSCV on the features chosen so far."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.model_selection import GroupKFold

from problems import comparisons_of, problem
from rankwise import GreedyRankRLS, InvalidInputError, PairKFold, RankRLS, RankRLSCV, leave_pair_out

SIZES = (6, 1, 5, 9, 2, 4)
P = problem(seed=3, sizes=SIZES, n_features=6)
C = comparisons_of(P)
COMPARED = {"pairs": C.pairs, "pair_margin": C.margin, "pair_weight": C.weight}
GIVEN = {
    "queries": ({"y": P.y, "qid": P.qid}, {}),
    "weighted queries": ({"y": P.y, "qid": P.qid, "sample_weight": np.arange(27) % 3}, {}),
    "folds of queries": ({"y": P.y, "qid": P.qid}, {"cv": 3, "random_state": 1}),
    "splitter": ({"y": P.y, "qid": P.qid}, {"cv": GroupKFold(3)}),
    "NDCG": ({"y": P.y, "qid": P.qid}, {"measure": "NDCG @ 3", "cost": "relative"}),
    "pairs of items": ({"y": P.y}, {"ties": "keep"}),
    "pairs of grades": ({"y": P.y}, {"cost": "unit"}),
    "pairs, some of weight 0": (
        {"y": P.y, "sample_weight": np.arange(27) % 4 != 0},
        {"query_weight": "pairs"},
    ),
    "folds of items": ({"y": P.y}, {"cv": [[0, 1, 2, 5], [3, 7, 8, 9]], "cost": "relative"}),
    "comparisons": (COMPARED, {}),
    "folds of comparisons": (COMPARED, {"cv": PairKFold(4, random_state=0)}),
    "comparisons in queries": (COMPARED | {"qid": P.qid}, {}),
    "comparisons one by one": (COMPARED | {"qid": P.qid}, {"cv": "leave_edge_out"}),
}


@pytest.mark.parametrize("name", GIVEN)
def test_each_step_is_rank_rls_on_the_features_so_far(name):
    given, options = GIVEN[name]
    ranker = GreedyRankRLS(4, alpha=0.5, **options).fit(P.X, **given)
    assert len(set(ranker.features_.tolist())) == 4
    for k in range(1, 5):
        X = P.X[:, ranker.features_[:k]]
        alone = RankRLSCV([0.5], **options).fit(X, **given)
        assert ranker.path_.values[k - 1] == pytest.approx(alone.held_out_value_, abs=1e-12)
        np.testing.assert_allclose(
            ranker.path_.standard_errors[k - 1], alone.path_.standard_errors[0]
        )
    plain = {
        key: value for key, value in options.items() if key in ("cost", "ties", "query_weight")
    }
    plain = RankRLS(0.5, **plain).fit(X, **given)
    np.testing.assert_allclose(ranker.coef_[ranker.features_], plain.coef_, rtol=1e-9, atol=1e-12)
    assert np.count_nonzero(ranker.coef_) == 4
    if alone.held_out_scores_ is not None:
        np.testing.assert_allclose(ranker.held_out_scores_, alone.held_out_scores_, atol=1e-9)


def test_items_without_a_closed_form_are_left_out_in_folds():
    ranker = GreedyRankRLS(2, cost="relative").fit(P.X, P.y)
    folds = [np.arange(k, len(P.y), 5) for k in range(5)]
    given = GreedyRankRLS(2, cost="relative", cv=folds).fit(P.X, P.y)
    np.testing.assert_array_equal(ranker.features_, given.features_)
    np.testing.assert_array_equal(ranker.path_.values, given.path_.values)


def test_sparse_rows_choose_the_same_features():
    X = np.where(P.X > 0, P.X, 0.0)
    dense, rows = (GreedyRankRLS(3).fit(A, P.y, P.qid) for A in (X, csr_array(X)))
    np.testing.assert_array_equal(rows.features_, dense.features_)
    np.testing.assert_allclose(rows.predict(csr_array(X)), dense.predict(X))


def test_fewer_features_than_asked_if_fewer_vary():
    X = np.column_stack([np.ones(len(P.y)), P.X[:, 0]])
    assert GreedyRankRLS(5).fit(X, P.y, P.qid).features_.tolist() == [1]
    assert GreedyRankRLS(5).fit(X[:, :1], P.y, P.qid).coef_.tolist() == [0.0]


def test_the_value_around_the_selection_is_that_of_chance_where_nothing_is_to_be_found():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 200)), np.repeat([0, 1], 15)
    ranker = GreedyRankRLS(5)
    assert ranker.fit(X, y).held_out_value_ > 0.85  # the search has seen every pair
    assert 0.2 < leave_pair_out(ranker, X, y, n_fits=30, random_state=0).value < 0.8
    qid, grades = np.repeat(np.arange(10), 3), rng.integers(0, 3, 30)
    inside = ranker.fit(X, grades, qid).held_out_value_
    folds = [(np.flatnonzero(qid != q), np.flatnonzero(qid == q)) for q in range(10)]
    outside = [
        ranker.fit(X[a], grades[a], qid[a]).score(X[b], grades[b], qid[b])
        for a, b in folds
        if len(set(grades[b])) > 1
    ]
    assert inside > 0.9 > 0.75 > np.mean(outside)


def test_what_cannot_be_chosen_from_is_refused():
    with pytest.raises(InvalidInputError, match="one output at a time"):
        GreedyRankRLS().fit(P.X, np.c_[P.y, P.y], P.qid)
    with pytest.raises(InvalidInputError, match="must have a closed form to choose features by"):
        GreedyRankRLS(cv="leave_pair_out", cost="relative").fit(P.X, P.y)
    with pytest.raises(InvalidInputError, match="needs scores of one global ranking: got `qid`"):
        GreedyRankRLS(cv="leave_pair_out").fit(P.X, P.y, P.qid)
    wide = csr_array((3, 10**10))
    with pytest.raises(InvalidInputError, match="dense copies of X in memory"):
        GreedyRankRLS().fit(wide, [1, 2, 3])


def test_the_path_is_drawn():
    pytest.importorskip("matplotlib")
    ax = GreedyRankRLS(3).fit(P.X, P.y, P.qid).plot_path()
    assert ax.get_xlabel() == "n_features"
    assert ax.get_xscale() == "linear"
