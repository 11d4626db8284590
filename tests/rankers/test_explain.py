"""Contributions sum to the lead and equal Shapley values; importance is found by shuffling."""

import json
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import clone
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import rankwise
from rankwise import (
    AutoRanker,
    Gaussian,
    InvalidInputError,
    KPCRank,
    Laplacian,
    Polynomial,
    PreferenceGP,
    RankerPipeline,
    RankRLS,
    SearchRanker,
    SquaredExponential,
    WithinQueryEncoder,
    WithinQueryImputer,
    WithinQueryRanks,
    WithinQueryScaler,
    explain,
    feature_importance,
)
from rankwise.rankers.base import Ranker
from reference import shapley_values

EXACT = [
    RankRLS(),
    RankRLS(kernel=Gaussian(0.3)),
    RankRLS(kernel=Laplacian(0.3)),
    KPCRank(4, kernel=Gaussian(0.2)),
    PreferenceGP(SquaredExponential(length_scale="per_feature", item_effect=0.4)),
    PreferenceGP(Gaussian(0.2)),
    make_pipeline(StandardScaler(), RankRLS(kernel=Gaussian(0.3))),
    RankRLS(kernel=Polynomial(3, 0.2, 1.0)),
    make_pipeline(PolynomialFeatures(2), RankRLS()),
]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 5)) + 2.0
    return X, X[:, 0] * X[:, 1] - X[:, 2] + 0.1 * rng.normal(size=30)


@pytest.mark.parametrize("ranker", EXACT, ids=str)
def test_contributions_are_shapley_values(ranker, data):
    X, y = data
    ranker.fit(X, y)
    found = explain(ranker, X, a=3, b=7)
    expected = shapley_values(lambda row: ranker.predict(row[None])[0], X[3], X[7])
    np.testing.assert_allclose(found.contributions, expected, atol=1e-10 * np.ptp(y))
    assert found.is_exact
    assert found.contributions.sum() == pytest.approx(found.lead, abs=1e-10)


@pytest.mark.parametrize("kernel", [Gaussian(0.02), Laplacian(0.02)], ids=str)
def test_contributions_of_many_features_sum_to_the_lead(kernel):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 61))
    ranker = RankRLS(kernel=kernel).fit(X, X[:, 0])
    found = explain(ranker, X, a=0, b=1)
    assert found.contributions.sum() == pytest.approx(found.lead, abs=1e-12)


def test_without_b_the_contributions_are_centred_inside_the_query(data):
    X, y = data
    qid = np.repeat([0, 1, 2], 10)
    ranker = RankRLS().fit(X, y, qid=qid)
    found = explain(ranker, X, qid, a=12)
    others = np.delete(np.arange(10, 20), 2)
    expected = ranker.coef_ * (X[12] - X[others].mean(axis=0))
    np.testing.assert_allclose(found.contributions, expected, atol=1e-12)
    assert found.lead == pytest.approx(found.contributions.sum())
    assert "the mean of the others" in str(found)


def test_sampled_contributions_state_their_error(data):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(40, 12))
    ranker = RankRLS(kernel=Polynomial(2, 0.2, 1.0)).fit(X, X[:, 0] * X[:, 1])
    rough = explain(ranker, X, a=0, b=1, n_permutations=20, random_state=0)
    fine = explain(ranker, X, a=0, b=1, n_permutations=400, random_state=1)
    assert not rough.is_exact
    assert "20 random orders" in rough.method
    assert fine.standard_errors.max() < rough.standard_errors.max()
    apart = np.abs(rough.contributions - fine.contributions)
    assert (apart < 5 * np.hypot(rough.standard_errors, fine.standard_errors) + 1e-9).all()
    assert rough.contributions.sum() == pytest.approx(rough.lead, abs=1e-9)
    assert "std. error" in str(rough)


def test_equal_items_have_no_contributions(data):
    X, y = data
    X = np.vstack([X, X[:1]])
    ranker = RankRLS(kernel=Polynomial(2, 0.2, 1.0)).fit(X, np.append(y, y[0]))
    assert not explain(ranker, X, a=0, b=30).contributions.any()


def test_shap_agrees_with_a_background_of_b(data):
    shap = pytest.importorskip("shap")
    X, y = data
    ranker = RankRLS(kernel=Gaussian(0.3)).fit(X, y)
    explainer = shap.Explainer(ranker.predict, X[7:8], algorithm="exact")
    values = explainer(X[3:4]).values[0]
    np.testing.assert_allclose(explain(ranker, X, a=3, b=7).contributions, values, atol=1e-9)


def test_shap_explains_a_linear_ranker(data):
    shap = pytest.importorskip("shap")
    X, y = data
    ranker = RankRLS().fit(X, y)
    values = shap.Explainer(ranker.predict, X)(X).values
    np.testing.assert_allclose(values, ranker.coef_ * (X - X.mean(axis=0)), atol=1e-9)


def test_sparse_rows_and_names_of_frames(data):
    X, y = data
    names = ["age", "size", "price", "rank", "new"]
    ranker = RankRLS().fit(pd.DataFrame(X, columns=names), y)
    found = explain(ranker, pd.DataFrame(X, columns=names), a=0, b=1)
    assert found.names == tuple(names)
    sparse = explain(RankRLS().fit(X, y), csr_array(X), a=0, b=1)
    np.testing.assert_allclose(sparse.contributions, found.contributions)


def test_an_explanation_can_be_looked_at(data):
    X, y = data
    found = explain(RankRLS().fit(X, y), X, a=3, b=7, feature_names=["<b>", "b", "c", "d", "e"])
    text = str(found)
    assert ("item 3 is above" in text) == (found.lead > 0)
    assert max(map(len, text.splitlines())) < 100
    assert "&lt;b&gt;" in found._repr_html_()
    assert json.loads(json.dumps(found.to_dict()))["features"]["feature"][0] == "<b>"
    frame = found.to_frame()
    assert frame["contribution"].abs().is_monotonic_decreasing
    assert found.plot().get_xlabel() == "contribution to the lead"


def test_many_features_are_shortened(data):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 40))
    found = explain(RankRLS().fit(X, X[:, 0]), X, a=0, b=1)
    assert "30 others" in str(found)
    assert len(str(found).splitlines()) == 14
    assert len(found.plot().patches) == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"a": 99}, "`a` must be a row of `X`, 0 to 29: got 99"),
        ({"a": 0, "b": -1}, "`b` must be a row of `X`"),
        ({"a": 0, "b": 25, "qid": np.repeat([0, 1, 2], 10)}, "items of the same query"),
        ({"a": 0, "qid": np.arange(30)}, "must hold other items"),
        ({"a": 0, "b": 1, "feature_names": ["a"]}, "a name for each of the 5 features: got 1"),
        ({"a": 0, "b": 1, "n_permutations": 0}, "`n_permutations` must be a whole number"),
    ],
)
def test_wrong_questions_are_refused(options, message, data):
    X, y = data
    with pytest.raises(InvalidInputError, match=message):
        explain(RankRLS().fit(X, y), X, **options)


def test_several_outputs_are_refused(data):
    X, y = data
    ranker = RankRLS().fit(X, np.column_stack([y, y]))
    with pytest.raises(InvalidInputError, match="one output: this one has 2"):
        explain(ranker, X, a=0, b=1)
    pipeline = make_pipeline(PolynomialFeatures(2), RankRLS()).fit(X, np.column_stack([y, y]))
    with pytest.raises(InvalidInputError, match="one output: this one has 2"):
        explain(pipeline, X, a=0, b=1)


def test_rows_must_be_a_matrix(data):
    with pytest.raises(InvalidInputError, match="items as rows of features"):
        explain(RankRLS().fit(*data), data[0][0], a=0, b=1)


# Importance


def test_importance_finds_what_matters_inside_queries():
    rng = np.random.default_rng(0)
    qid = np.repeat(np.arange(20), 10)
    X = rng.normal(size=(200, 3))
    X[:, 1] = qid  # says nothing inside a query
    y = X[:, 0] + 0.3 * rng.normal(size=200)
    ranker = RankRLS().fit(X, y, qid=qid)
    found = feature_importance(ranker, X, y, qid, measure="KendallTau", random_state=0)
    assert found.mean[0] > 0.2
    assert found.mean[1] == 0.0
    assert abs(found.mean[2]) < 0.05
    assert found.losses.shape == (5, 3)


def test_shuffles_stay_inside_queries():
    qid = np.array([2, 0, 1, 0, 2, 1, 0, 2, 2])
    shuffles = list(
        rankwise.rankers.explain._shuffles(
            rankwise.Queries.from_qid(qid), 20, np.random.default_rng(0)
        )
    )
    for order in shuffles:
        assert sorted(order) == list(range(9))
        np.testing.assert_array_equal(qid[order], qid)
    assert len({tuple(order) for order in shuffles}) > 10


def test_importance_of_one_query_agrees_with_scikit_learn(data):
    X, y = data
    ranker = RankRLS().fit(X, y)
    ours = feature_importance(ranker, X, y, n_repeats=200, random_state=0)
    theirs = permutation_importance(ranker, X, y, n_repeats=200, random_state=0)
    np.testing.assert_allclose(ours.mean, theirs.importances_mean, atol=0.02)


def test_worse_is_a_loss_for_measures_that_are_better_when_lower(data):
    X, y = data
    ranker = RankRLS().fit(X, y)
    found = feature_importance(ranker, X, y, measure="Disagreement", random_state=0)
    assert found.mean.max() > 0


def test_importance_can_be_looked_at(data):
    X, y = data
    found = feature_importance(RankRLS().fit(X, y), X, y, n_repeats=2, random_state=0)
    assert "without shuffling" in str(found)
    assert "<caption>" in found._repr_html_()
    assert json.loads(json.dumps(found.to_dict()))["measure"] == "Concordance"
    assert list(found.to_frame().columns) == ["feature", "loss", "standard_deviation"]
    assert "shuffled" in found.plot().get_xlabel()
    with pytest.raises(InvalidInputError, match="`n_repeats` must be a whole number"):
        feature_importance(RankRLS().fit(X, y), X, y, n_repeats=0)


# Rankers that compare the items of a query


def naive_in_query(ranker, query, a, b):
    """Shapley values by all orders; half of what a and b exchange takes from the lead of a."""
    n_features = query.shape[1]
    gains = np.zeros(n_features)
    orders = list(permutations(range(n_features)))
    for order in orders:
        rows = query.copy()
        rows[[a, b]] = query[[b, a]]
        lead = half_lead(ranker, rows, a, b)
        for k in order:
            rows[[a, b], k] = query[[a, b], k]
            new = half_lead(ranker, rows, a, b)
            gains[k] += new - lead
            lead = new
    return gains / len(orders)


def half_lead(ranker, rows, a, b):
    scores = ranker.predict(rows, qid=np.zeros(len(rows)))
    return 0.5 * (scores[a] - scores[b])


@pytest.fixture(scope="module")
def within_queries():
    rng = np.random.default_rng(3)
    X, qid = rng.normal(size=(30, 3)), np.repeat(np.arange(5), 6)
    steps = [WithinQueryScaler(), WithinQueryRanks("values_and_ranks"), RankRLS()]
    return RankerPipeline(steps).fit(X, X @ [1.0, 2.0, 0.0], qid=qid), X, qid


@pytest.mark.parametrize("b", [7, None])
def test_a_ranker_that_compares_items_is_explained_in_its_query(within_queries, b):
    ranker, X, qid = within_queries
    found = explain(ranker, X, qid, a=9, b=b)
    query = X[qid == 1]
    others = [1] if b is not None else [0, 1, 2, 4, 5]
    expected = np.mean([naive_in_query(ranker, query, 3, other) for other in others], axis=0)
    np.testing.assert_allclose(found.contributions, expected, atol=1e-12)
    np.testing.assert_allclose(found.contributions.sum(), found.lead)
    scores = ranker.predict(X, qid=qid)[qid == 1]
    assert found.score_a == pytest.approx(scores[3])
    assert found.score_b == pytest.approx(scores[others].mean())
    assert "exchanged between the two items of the query" in found.method


def test_exchanged_features_of_a_linear_ranker_contribute_as_its_weights_say():
    rng = np.random.default_rng(8)
    X, qid = rng.normal(size=(12, 3)), np.repeat([0, 1], 6)
    ranker = RankerPipeline([WithinQueryScaler(), RankRLS()]).fit(X, X[:, 0], qid=qid)
    found = explain(ranker, X, qid, a=2, b=4)
    scaled = WithinQueryScaler().fit_transform(X, qid=qid)
    expected = ranker.steps_[-1].coef_ * (scaled[2] - scaled[4])
    np.testing.assert_allclose(found.contributions, expected, atol=1e-12)


def test_orders_are_drawn_where_subsets_are_too_many():
    rng = np.random.default_rng(4)
    X, qid = rng.normal(size=(12, 12)), np.repeat([0, 1], 6)
    ranker = RankerPipeline([WithinQueryScaler(), RankRLS()]).fit(X, X[:, 0], qid=qid)
    found = explain(ranker, X, qid, a=2, b=4, random_state=0)
    assert not found.is_exact
    np.testing.assert_allclose(found.contributions.sum(), found.lead)
    found = explain(ranker, X, qid, a=2, random_state=0)
    error = np.sqrt(np.square(found.standard_errors).sum())
    assert abs(found.contributions.sum() - found.lead) < 5 * error


def test_text_and_blanks_are_explained():
    kinds = np.array(["pdf", "html", None, "pdf", "html", "pdf"], dtype=object)
    sizes = np.array([1.0, np.nan, 3.0, 2.0, 4.0, 0.5], dtype=object)
    X, qid = np.column_stack([kinds, sizes]), [0, 0, 0, 1, 1, 1]
    steps = [WithinQueryEncoder(), WithinQueryImputer(), WithinQueryScaler(), RankRLS()]
    ranker = RankerPipeline(steps).fit(X, [2, 0, 1, 2, 0, 1], qid=qid)
    found = explain(ranker, X, qid, a=0, feature_names=["kind", "size"])
    np.testing.assert_allclose(found.contributions.sum(), found.lead)
    assert "html" in str(found)
    assert "blank" in str(explain(ranker, X, qid, a=0, b=1, feature_names=["kind", "size"]))
    assert feature_importance(ranker, X, [2, 0, 1, 2, 0, 1], qid).names == ("x1", "x2")


COMPARING = [
    SearchRanker("Concordance", basis=20),
    AutoRanker("Concordance", time_budget=1e-6, cv=3),
    RankerPipeline([WithinQueryScaler(), RankRLS()]),
    RankerPipeline([StandardScaler(), SearchRanker("Concordance", basis=20)]),
    make_pipeline(WithinQueryRanks("values_and_ranks"), RankRLS()),
    make_pipeline(StandardScaler(), SearchRanker("Concordance", basis=20)),
    GridSearchCV(RankerPipeline([WithinQueryScaler(), RankRLS()]), {}, cv=2),
    *EXACT,
]


@pytest.mark.parametrize("options", [{}, {"qid": np.repeat([2, 0, 1], 10)}], ids=["", "qid"])
@pytest.mark.parametrize("ranker", COMPARING, ids=str)
def test_the_scores_of_an_explanation_are_those_of_predict(ranker, options, data):
    """Fitted without queries, also where features are scaled and ranked inside them."""
    X, y = data
    ranker = clone(ranker).fit(X, y)
    with_queries = isinstance(ranker, Ranker) and options
    scores = ranker.predict(X, **(options if with_queries else {}))
    for a, b in [(3, 7), (12, 19), (28, 20)]:
        found = explain(ranker, X, a=a, b=b, n_permutations=1, **options)
        np.testing.assert_allclose([found.score_a, found.score_b], scores[[a, b]])
        if found.is_exact:
            np.testing.assert_allclose(found.contributions.sum(), found.lead)
    if not options:
        found = explain(ranker, X, a=4, n_permutations=1)
        np.testing.assert_allclose(found.score_a, scores[4])
        np.testing.assert_allclose(found.score_b, np.delete(scores, 4).mean())


def test_queries_reach_a_pipeline_of_scikit_learn_where_they_are_routed(data):
    (X, y), qid = data, np.repeat([2, 0, 1], 10)
    with config_context(enable_metadata_routing=True):
        ranker = make_pipeline(WithinQueryScaler(), RankRLS()).fit(X, y, qid=qid)
        scores = ranker.predict(X, qid=qid)
        found = explain(ranker, X, qid, a=3, b=7)
    np.testing.assert_allclose([found.score_a, found.score_b], scores[[3, 7]])
    np.testing.assert_allclose(found.contributions.sum(), found.lead)


def test_items_are_called_by_their_names():
    X = [[0.0], [1.0], [2.0]]
    ranker = RankRLS().fit(X, [0, 1, 2])
    found = explain(ranker, X, a=2, b=0, item_names=["ann", "bob", "cid"])
    assert str(found).startswith("cid is above ann: ")
    assert str(explain(ranker, X, a=0, item_names="abc")).startswith("a is below the mean")
    with pytest.raises(InvalidInputError, match="item_names"):
        explain(ranker, X, item_names=["ann"])


def test_dates_prices_and_flags_are_shown_as_they_were_written():
    """A model that has read a table keeps how: here in the form of the command line."""
    X = np.array([[19783.0, 1250.0, 1.0], [19787.0, 80.0, 0.0], [19754.5, 3.5, 1.0]])
    ranker = RankRLS().fit(X / [1e4, 1e3, 1.0], [3, 2, 1])
    ranker.feature_names_in_ = np.array(["posted", "price", "sold"], dtype=object)
    forms = ["days since 1970", "decimal points, $", "true or false"]
    ranker.table_columns_ = {"categories": [], "formed": ["posted", "price", "sold"],
                             "forms": forms}  # fmt: skip
    said = str(explain(ranker, X, a=0, b=1))
    lines = {line.split()[0]: line.split()[2:] for line in said.splitlines()[2:-1]}
    assert lines["posted"] == ["2024-03-01", "2024-03-05"]
    assert lines["price"] == ["$1250", "$80"]
    assert lines["sold"] == ["true", "false"]
    means = str(explain(ranker, X, a=0))  # of the others: the day is enough
    line = next(line for line in means.splitlines() if line.startswith("posted"))
    assert line.split()[2:] == ["2024-03-01", "2024-02-17"]
