"""Folds of whole queries."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from problems import problem
from rankwise import InvalidInputError, QueryKFold, RankRLS, make_ranking_scorer

P = problem(seed=0, sizes=(6, 5, 1, 7, 4, 6, 9, 3))


def test_folds_hold_whole_queries_and_every_row_once():
    seen = []
    for train, test in QueryKFold(3).split(P.X, P.y, qid=P.qid):
        assert not set(P.qid[train]) & set(P.qid[test])
        seen.extend(test)
    assert sorted(seen) == list(range(len(P.y)))


def test_folds_are_of_even_size_and_can_be_drawn_again():
    sizes = [len(test) for _, test in QueryKFold(3).split(P.X, groups=P.qid)]
    assert max(sizes) - min(sizes) <= 9
    first, again, other = (
        [test.tolist() for _, test in QueryKFold(3, random_state=seed).split(P.X, groups=P.qid)]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_cross_validation_and_search_need_no_settings():
    with config_context(enable_metadata_routing=True):
        values = cross_val_score(RankRLS(), P.X, P.y, cv=QueryKFold(4), params={"qid": P.qid})
        assert values.shape == (4,)
        search = GridSearchCV(RankRLS(), {"alpha": [0.1, 1.0]}, cv=QueryKFold(2))
        assert search.fit(P.X, P.y, qid=P.qid).best_params_["alpha"] in (0.1, 1.0)


def test_torn_folds_are_refused():
    with (
        config_context(enable_metadata_routing=True),
        pytest.raises(InvalidInputError, match="must not be in the training data"),
    ):
        cross_val_score(
            RankRLS(),
            P.X,
            P.y,
            cv=KFold(3, shuffle=True, random_state=0),
            scoring=make_ranking_scorer("Concordance"),
            params={"qid": P.qid},
            error_score="raise",
        )


def test_training_values_are_allowed():
    with config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            RankRLS(),
            {"alpha": [1.0]},
            cv=QueryKFold(2),
            return_train_score=True,
            scoring=make_ranking_scorer("Concordance"),
        )
        search.fit(P.X, P.y, qid=P.qid)
    assert np.isfinite(search.cv_results_["mean_train_score"]).all()


def test_folds_are_checked():
    with pytest.raises(InvalidInputError, match="must be given `qid`"):
        next(QueryKFold(2).split(P.X))
    with pytest.raises(InvalidInputError, match="between 2 and the number of queries"):
        next(QueryKFold(99).split(P.X, qid=P.qid))
    with pytest.raises(InvalidInputError, match="`seen_queries` must be one of"):
        make_ranking_scorer("NDCG", seen_queries="x")
