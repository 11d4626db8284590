"""What every ranker must do: scikit-learn's contract, routing, saving."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import rankwise
from problems import problem
from rankwise import (
    DORM,
    DORMCV,
    Gaussian,
    InvalidInputError,
    KPCRank,
    KPCRankCV,
    LinearRankRLS,
    PreferenceGP,
    RankRLS,
    RankRLSCV,
    RankSVM,
    make_ranking_scorer,
)
from rankwise.rankers.base import Ranker

EXAMPLES = [
    DORM(tol=1e-9, max_iter=10_000, random_state=0),
    DORM(C=0.1, kernel=Gaussian(0.5), tol=1e-7, max_iter=10_000, random_state=0),
    DORMCV(Cs=[0.01, 0.1], cv=3, tol=1e-9, max_iter=10_000, random_state=0),
    KPCRank(3, kernel=Gaussian(0.5)),
    KPCRankCV(4, kernel=Gaussian(0.5)),
    LinearRankRLS(),
    PreferenceGP(),
    RankRLS(),
    RankRLS(kernel=Gaussian(0.5)),
    RankRLSCV(alphas=(0.1, 1.0, 10.0)),
    RankSVM(),
    RankSVM(0.1, loss="hinge", kernel=Gaussian(0.5)),
]
GRIDS = {
    "DORM": {"C": [0.1, 1.0]},
    "DORMCV": {"decay": [0.5, 1.0]},
    "KPCRank": {"n_components": [2, 3]},
    "KPCRankCV": {"alpha": [0.0, 1.0]},
    "LinearRankRLS": {"alpha": [0.1, 10.0]},
    "PreferenceGP": {"likelihood": ["robust", "probit"]},
    "RankRLS": {"alpha": [0.1, 10.0]},
    "RankRLSCV": {"query_weight": ["items", "pairs"]},
    "RankSVM": {"C": [0.1, 10.0]},
}

WHOLE_QUERIES = "a weight belongs to a query: items of one ranking cannot stand in one place"
EXPECTED = {
    "DORM": {
        "check_sample_weight_equivalence_on_dense_data": WHOLE_QUERIES,
        "check_sample_weight_equivalence_on_sparse_data": WHOLE_QUERIES,
    },
    "DORMCV": {
        "check_sample_weight_equivalence_on_dense_data": WHOLE_QUERIES,
        "check_sample_weight_equivalence_on_sparse_data": WHOLE_QUERIES,
    },
}


@parametrize_with_checks(
    EXAMPLES, expected_failed_checks=lambda ranker: EXPECTED.get(type(ranker).__name__, {})
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_every_ranker_is_tried():
    public = (getattr(rankwise, name) for name in rankwise.__all__)
    rankers = {cls for cls in public if isinstance(cls, type) and issubclass(cls, Ranker)}
    assert {type(ranker) for ranker in EXAMPLES} == rankers


@pytest.fixture(params=EXAMPLES, ids=repr)
def ranker(request):
    return clone(request.param)


P = problem(seed=0, sizes=(6, 5, 1, 7, 4, 6))


def test_scores_come_back_from_a_file(ranker, tmp_path):
    ranker.fit(P.X, P.y, qid=P.qid)
    ranker.save(tmp_path / "model")
    loaded = rankwise.load(tmp_path / "model")
    assert type(loaded) is type(ranker)
    assert repr(loaded) == repr(ranker)
    np.testing.assert_array_equal(loaded.predict(P.X), ranker.predict(P.X))
    assert loaded.score(P.X, P.y, qid=P.qid) == ranker.score(P.X, P.y, qid=P.qid)
    with pytest.raises(InvalidInputError, match="must be given `qid`"):
        loaded.score(P.X, P.y)


def test_grid_search_routes_queries(ranker):
    with config_context(enable_metadata_routing=True):
        grid = GRIDS[type(ranker).__name__]
        search = GridSearchCV(ranker, grid, cv=GroupKFold(3).set_split_request(groups="qid"))
        search.fit(P.X, P.y, qid=P.qid)
        test = next(iter(GroupKFold(3).split(P.X, P.y, P.qid)))
        again = clone(search.best_estimator_).fit(P.X[test[0]], P.y[test[0]], qid=P.qid[test[0]])
        value = again.score(P.X[test[1]], P.y[test[1]], qid=P.qid[test[1]])
        assert search.cv_results_["split0_test_score"][search.best_index_] == value


def test_pipelines_and_scorers_route_queries(ranker):
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), ranker)
        values = cross_val_score(
            pipeline,
            P.X,
            P.y,
            scoring=make_ranking_scorer("NDCG @ 3"),
            cv=GroupKFold(3).set_split_request(groups="qid"),
            params={"qid": P.qid},
        )
        assert values.shape == (3,)
        assert ((values > 0) & (values <= 1)).all()


def test_cross_validation_without_routing_refuses_to_guess(ranker):
    with pytest.raises(InvalidInputError, match="enable_metadata_routing"):
        cross_val_score(
            ranker,
            P.X,
            P.y,
            groups=P.qid,
            cv=GroupKFold(3),
            params={"qid": P.qid},
            error_score="raise",
        )


def test_sparse_rows_equal_dense(ranker):
    X = np.where(P.X > 0, P.X, 0.0)
    dense = ranker.fit(X, P.y, qid=P.qid).predict(X)
    sparse = clone(ranker).fit(csr_array(X), P.y, qid=P.qid).predict(csr_array(X))
    np.testing.assert_allclose(sparse - sparse.mean(), dense - dense.mean(), atol=1e-8)


def test_column_names_are_kept_and_checked(ranker):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(P.X, columns=["a", "b", "c"])
    ranker.fit(frame, P.y, qid=P.qid)
    assert ranker.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names"):
        ranker.predict(frame.rename(columns={"a": "z"}))


def test_fit_leaves_parameters_alone(ranker):
    before = repr(ranker)
    ranker.fit(P.X, P.y, qid=P.qid)
    assert repr(ranker) == before
