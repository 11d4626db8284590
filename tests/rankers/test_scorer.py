"""Scorers inside scikit-learn's model selection."""

import warnings
from typing import ClassVar

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rankwise
from problems import problem
from rankwise.core.errors import InvalidInputError
from rankwise.measures.evaluation import evaluate
from rankwise.measures.graded import NDCG
from rankwise.measures.pairwise import Concordance, Disagreement
from rankwise.rankers.scorer import make_ranking_scorer


class FirstFeature(RegressorMixin, BaseEstimator):
    """A ranker that scores by one feature."""

    __metadata_request__fit: ClassVar = {"qid": True}

    def __init__(self, sign=1.0):
        self.sign = sign

    def fit(self, X, y, qid=None):
        self.fitted_with_qid_ = qid is not None
        return self

    def predict(self, X):
        return self.sign * X[:, 0]


@pytest.fixture(scope="module")
def drawn():
    return problem(3, sizes=(5, 6, 7, 4, 5, 6, 8, 5), grades=3)


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield GroupKFold(3).set_split_request(groups="qid")


def by_hand(model, measure, drawn, fit_with_qid):
    values = []
    for train, test in GroupKFold(3).split(drawn.X, drawn.y, drawn.qid):
        extra = {"qid": drawn.qid[train]} if fit_with_qid else {}
        scores = clone(model).fit(drawn.X[train], drawn.y[train], **extra).predict(drawn.X[test])
        values.append(evaluate(drawn.y[test], scores, drawn.qid[test], measure)[measure])
    return values


@pytest.mark.parametrize("model", [Ridge(), FirstFeature()], ids=["regressor", "ranker"])
@pytest.mark.parametrize(("measure", "sign"), [("NDCG @ 3", 1), (Disagreement, -1)])
def test_cross_validation_reads_queries_without_settings(model, measure, sign, drawn, routing):
    scorer, params = make_ranking_scorer(measure), {"qid": drawn.qid}
    values = cross_val_score(model, drawn.X, drawn.y, cv=routing, scoring=scorer, params=params)
    expected = by_hand(model, measure, drawn, isinstance(model, FirstFeature))
    np.testing.assert_allclose(values, sign * np.array(expected))


def test_grid_search_chooses_the_lower_disagreement(drawn, routing):
    search = GridSearchCV(
        make_pipeline(StandardScaler(), FirstFeature()),
        {"firstfeature__sign": [-1.0, 1.0]},
        scoring=make_ranking_scorer("Disagreement"),
        cv=routing,
    ).fit(drawn.X, drawn.y, qid=drawn.qid)
    best = search.best_params_["firstfeature__sign"]
    error = evaluate(drawn.y, best * drawn.X[:, 0], drawn.qid, Disagreement)[Disagreement]
    assert error < 0.5
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    with pytest.raises(InvalidInputError, match="`qid` must be given to score by NDCG"):
        make_ranking_scorer(NDCG)(search, drawn.X, drawn.y)


def test_several_scorers_work_together(drawn, routing):
    scoring = {"ndcg": make_ranking_scorer(NDCG), "c": make_ranking_scorer(Concordance)}
    result = cross_validate(
        Ridge(), drawn.X, drawn.y, cv=routing, scoring=scoring, params={"qid": drawn.qid}
    )
    np.testing.assert_allclose(result["test_c"], by_hand(Ridge(), Concordance, drawn, False))
    np.testing.assert_allclose(result["test_ndcg"], by_hand(Ridge(), NDCG, drawn, False))


def test_requests_can_be_set_as_for_other_scorers(drawn, routing):
    scorer = make_ranking_scorer(Concordance).set_score_request(
        qid=True, sample_weight="importance"
    )
    weight = np.random.default_rng(0).integers(0, 3, len(drawn.y))
    params = {"qid": drawn.qid, "importance": weight}
    values = cross_val_score(Ridge(), drawn.X, drawn.y, cv=routing, scoring=scorer, params=params)
    for value, (train, test) in zip(
        values, GroupKFold(3).split(drawn.X, drawn.y, drawn.qid), strict=True
    ):
        scores = Ridge().fit(drawn.X[train], drawn.y[train]).predict(drawn.X[test])
        kept = evaluate(drawn.y[test], scores, drawn.qid[test], Concordance, weight[test])
        assert value == pytest.approx(kept[Concordance])


def test_weights_are_not_taken_without_a_word(drawn, routing):
    params = {"qid": drawn.qid, "sample_weight": np.ones(len(drawn.y))}
    scorer, model = make_ranking_scorer(Concordance), Ridge().set_fit_request(sample_weight=True)
    with pytest.raises(UnsetMetadataPassedError, match="sample_weight"):
        cross_val_score(model, drawn.X, drawn.y, cv=routing, scoring=scorer, params=params)


def test_one_query_is_the_default_for_a_fit_without_queries(drawn):
    scorer = make_ranking_scorer(Concordance)
    model = FirstFeature().fit(drawn.X, drawn.y)
    expected = evaluate(drawn.y, drawn.X[:, 0], measures=Concordance)[Concordance]
    assert scorer(model, drawn.X, drawn.y) == expected
    assert scorer(Ridge().fit(drawn.X, drawn.y), drawn.X, drawn.y) > 0.5


@pytest.mark.parametrize("wrap", [lambda model: model, make_pipeline])
def test_queries_of_the_fit_are_asked_for_again(wrap, drawn):
    model = FirstFeature().fit(drawn.X, drawn.y, qid=drawn.qid)
    with pytest.raises(InvalidInputError, match="since the ranker was fitted with it.*set_config"):
        make_ranking_scorer("NDCG @ 3")(wrap(model), drawn.X, drawn.y)


def test_search_without_routing_passes_weights_on_where_they_are_taken(drawn):
    weight = np.random.default_rng(0).integers(1, 3, len(drawn.y))
    search = GridSearchCV(Ridge(), {"alpha": [1.0]}, scoring=make_ranking_scorer(Concordance), cv=2)
    search.fit(drawn.X, drawn.y, sample_weight=weight)
    assert np.isfinite(search.best_score_)
    scoring = {"n": make_ranking_scorer(NDCG)}
    search = GridSearchCV(Ridge(), {"alpha": [1.0]}, scoring=scoring, refit="n", cv=2)
    with warnings.catch_warnings():  # of later versions of scikit-learn
        warnings.filterwarnings("ignore", ".*does not support sample_weight", UserWarning)
        search.fit(drawn.X, drawn.y, sample_weight=weight)
    assert np.isfinite(search.best_score_)


def test_a_fold_without_a_defined_query_is_refused(drawn):
    model = FirstFeature().fit(drawn.X, drawn.y)
    with pytest.raises(InvalidInputError, match="At least one query must define NDCG: none of 1"):
        make_ranking_scorer(NDCG)(model, drawn.X, np.zeros(len(drawn.y)))


def test_length_of_queries_is_checked(drawn):
    with pytest.raises(InvalidInputError, match="`qid` must have one entry per row"):
        make_ranking_scorer(NDCG)(FirstFeature(), drawn.X, drawn.y, qid=drawn.qid[1:])


def test_unknown_requests_are_refused():
    with pytest.raises(InvalidInputError, match="takes 'qid': got 'quid'. Did you mean 'qid'"):
        make_ranking_scorer(NDCG).set_score_request(quid=True)


def test_scorers_print_how_they_are_made():
    assert repr(make_ranking_scorer(NDCG @ 10)) == "make_ranking_scorer('NDCG @ 10')"


@pytest.mark.parametrize(
    "ranker",
    [
        rankwise.RankRLSCV(measure="NDCG @ 3"),
        rankwise.RankRLSCV(measure="Disagreement"),
        rankwise.KPCRankCV(3, measure="NDCG @ 3"),
        rankwise.DORMCV(Cs=[0.1], cv=2, measure="NDCG @ 3", random_state=0),
        rankwise.DORMCV([0.1], objective="NDCG @ 3", cv=2, random_state=0),
        rankwise.AutoRanker("NDCG @ 3", time_budget=1e-6),
        rankwise.SearchRanker("NDCG @ 3", basis=10),
    ],
    ids=repr,
)
def test_score_is_by_the_measure_that_decided(ranker):
    data = problem(seed=0, sizes=(8, 7, 9, 6))
    ranker = clone(ranker).fit(data.X, data.y, qid=data.qid)
    measure = getattr(ranker, "measure", None) or "NDCG @ 3"
    found = rankwise.evaluate(data.y, ranker.predict(data.X, qid=data.qid), data.qid, measure)
    sign = -1.0 if measure == "Disagreement" else 1.0
    assert ranker.score(data.X, data.y, qid=data.qid) == pytest.approx(sign * found.mean[0])
