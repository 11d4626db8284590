"""Scores, queries and features by the names of columns, the same for every kind of frame."""

import narwhals
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.inspection import permutation_importance

from rankwise import (
    InvalidInputError,
    LinearRankRLS,
    RankerPipeline,
    RankRLS,
    RankRLSCV,
    SearchRanker,
    WithinQueryScaler,
    explain,
    export_ranker,
    load,
)

polars = pytest.importorskip("polars")
pyarrow = pytest.importorskip("pyarrow")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
QUERIES = np.repeat(np.arange(10), 6)
GRADES = (X @ [1.0, -1.0, 0.5] > 0).astype(float) + RNG.integers(2, size=60)
COLUMNS = {"a": X[:, 0], "grade": GRADES, "b": X[:, 1], "query": QUERIES, "c": X[:, 2]}
MAKERS = {
    "pandas": pd.DataFrame,
    "polars": polars.DataFrame,
    "lazy": lambda columns: polars.DataFrame(columns).lazy(),
    "arrow": pyarrow.table,
}
every_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
RANKERS = {
    "rls": RankRLS(),
    "cv": RankRLSCV(),
    "linear": LinearRankRLS(),
    "pipeline": RankerPipeline([WithinQueryScaler(), RankRLS()]),
}


@every_maker
@pytest.mark.parametrize("ranker", RANKERS.values(), ids=RANKERS)
def test_named_columns_give_the_ranker_of_arrays(make, ranker):
    frame = make(COLUMNS)
    expected = ranker.fit(X, GRADES, qid=QUERIES).predict(X, qid=QUERIES)
    value = ranker.score(X, GRADES, qid=QUERIES)
    fitted = ranker.fit(frame, y="grade", qid="query")
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(fitted.predict(frame, qid="query"), expected, rtol=1e-12)
    assert fitted.score(frame, "grade", qid="query") == value
    order = np.lexsort((-expected, QUERIES))
    np.testing.assert_array_equal(fitted.rank(frame, qid="query"), order)


def test_arrays_are_taken_as_they_are(monkeypatch):
    def refuse(*_):
        raise AssertionError("read as a frame")

    monkeypatch.setattr("narwhals.from_native", refuse)
    monkeypatch.setattr("rankwise.io.frames.is_into_dataframe", refuse)
    for rows in (X, csr_array(X)):
        ranker = RankRLS().fit(rows, GRADES, qid=QUERIES)
        assert ranker.predict(rows).shape == GRADES.shape
        assert ranker.score(rows, GRADES, QUERIES) > 0.5
    with pytest.raises(AssertionError, match="read as a frame"):
        RankRLS().fit(pd.DataFrame(COLUMNS), "grade", qid="query")


def test_comparisons_in_arrays_of_objects_are_read_by_name():
    pairs = RNG.permuted(np.arange(60).reshape(-1, 2), axis=1)
    expected = RankRLS().fit(X, pairs=pairs)
    named = RankRLS().fit(X, pairs=pairs.astype(object))
    np.testing.assert_array_equal(named.coef_, expected.coef_)


@pytest.mark.parametrize("ranker", RANKERS.values(), ids=RANKERS)
@pytest.mark.parametrize("rows", [X, X.tolist(), pd.DataFrame(X, columns=list("abc"))], ids=type)
def test_an_error_is_raised_by_the_method_that_was_called(ranker, rows):
    for call in (ranker.fit, ranker.fit(rows, GRADES, QUERIES).score):
        with pytest.raises(InvalidInputError) as caught:
            call(rows, GRADES[:-1], QUERIES)
        assert caught.traceback[1].name == call.__name__


def test_dask_frames_are_collected():
    dask = pytest.importorskip("dask.dataframe")
    frame = dask.from_pandas(pd.DataFrame(COLUMNS), npartitions=3)
    ranker = RankRLS().fit(frame, y="grade", qid="query")
    expected = RankRLS().fit(X, GRADES, qid=QUERIES).predict(X)
    np.testing.assert_allclose(ranker.predict(frame), expected, rtol=1e-12)


@every_maker
def test_features_are_found_by_name_in_any_order(make, tmp_path):
    ranker = RankRLS().fit(make(COLUMNS), y="grade", qid="query")
    shuffled = make({name: COLUMNS[name] for name in ["query", "c", "b", "a"]} | {"new": X[:, 0]})
    expected = ranker.predict(make({name: COLUMNS[name] for name in "abc"}))
    np.testing.assert_allclose(ranker.predict(shuffled), expected, rtol=1e-12)
    ranker.save(tmp_path / "model")
    np.testing.assert_allclose(load(tmp_path / "model").predict(shuffled), expected, rtol=1e-12)


@every_maker
def test_missing_features_are_named(make):
    ranker = RankRLS().fit(make(COLUMNS), y="grade", qid="query")
    lacking = {"a": X[:, 0], "B": X[:, 1], "query": QUERIES}
    with pytest.raises(InvalidInputError, match="no column 'b', 'c'. Did you mean 'B'"):
        ranker.predict(make(lacking))


def test_many_missing_features_are_counted():
    frame = pd.DataFrame(RNG.normal(size=(9, 8)), columns=[f"f{j}" for j in range(8)])
    ranker = RankRLS().fit(frame, RNG.normal(size=9))
    with pytest.raises(InvalidInputError, match="'f4' and 3 more"):
        ranker.predict(pd.DataFrame({"other": [1.0]}))


def test_weights_and_validation_data_by_name():
    frame = pd.DataFrame({**COLUMNS, "w": RNG.random(60)})
    ranker = RankRLS().fit(frame, y="grade", qid="query", sample_weight="w")
    expected = RankRLS().fit(X, GRADES, qid=QUERIES, sample_weight=frame["w"])
    np.testing.assert_array_equal(ranker.coef_, expected.coef_)
    held_out = frame[["query", "c", "b", "grade", "a"]]
    chosen = LinearRankRLS(alphas=[0.1, 1.0]).fit(
        frame.drop(columns="w"), "grade", "query", X_val=held_out, y_val="grade", qid_val="query"
    )
    arrays = LinearRankRLS(alphas=[0.1, 1.0]).fit(
        X, GRADES, QUERIES, X_val=X, y_val=GRADES, qid_val=QUERIES
    )
    np.testing.assert_array_equal(chosen.coef_, arrays.coef_)
    np.testing.assert_array_equal(chosen.history_["value"], arrays.history_["value"])


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (COLUMNS, {"y": "grad", "qid": "query"}, "the column 'grad' for `y`.*mean 'grade'"),
        (COLUMNS, {"y": "grade"}, "`qid` must be given.*'query' looks like one.*qid='query'"),
        ({**COLUMNS, "doc_id": QUERIES}, {"y": "grade", "qid": "query"}, "'doc_id' looks like"),
        ({**COLUMNS, "t": ["x"] * 60}, {"y": "grade", "qid": "query"}, "the column 't' holds"),
    ],
)
@every_maker
def test_doubtful_columns_are_refused(make, columns, options, message):
    with pytest.raises(InvalidInputError, match=message):
        RankRLS().fit(make(columns), **options)


def test_names_need_a_frame():
    with pytest.raises(InvalidInputError, match="`X` must be a data frame if `y` names a col"):
        RankRLS().fit(X, "grade", qid=QUERIES)
    with pytest.raises(InvalidInputError, match="`X_val` must be a data frame if `y_val`"):
        LinearRankRLS().fit(pd.DataFrame(COLUMNS), "grade", "query", X_val=X, y_val="grade")


def test_rankers_that_take_words_keep_them():
    frame = pd.DataFrame({**COLUMNS, "kind": np.where(X[:, 0] > 0, "new", "old")})
    ranker = SearchRanker().fit(frame, y="grade", qid="query")
    assert ranker.feature_names_in_.tolist() == ["a", "b", "c", "kind"]
    assert ranker.predict(frame, qid="query").shape == (60,)


# Methods that stand for functions of other packages


@every_maker
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_ranking_as_a_frame(make):
    frame = make({**COLUMNS, "id": [f"item {i}" for i in range(60)]})
    ranker = RankRLS().fit(make(COLUMNS), y="grade", qid="query")
    found = ranker.rank(frame, qid="query", k=2, as_frame=True, items="id")
    order = ranker.rank(frame, qid="query", k=2)
    whole = frame.collect() if isinstance(frame, polars.LazyFrame) else frame
    assert type(found) is type(whole)
    found = narwhals.from_native(found).to_pandas()
    assert list(found.columns) == ["query", "item", "rank", "score"]
    assert found["item"].tolist() == [f"item {i}" for i in order]
    assert found["query"].tolist() == QUERIES[order].tolist()
    assert found["rank"].tolist() == [1, 2] * 10
    np.testing.assert_array_equal(found["score"], ranker.predict(frame)[order])
    one_query = ranker.rank(X[:3], qid=[0, 0, 0], as_frame=True)
    assert one_query.columns.tolist() == ["query", "item", "rank", "score"]
    assert sorted(one_query["item"]) == [0, 1, 2]
    with pytest.raises(InvalidInputError, match="`items` must come with as_frame=True"):
        ranker.rank(frame, qid="query", items="id")


def test_rank_needs_queries_as_score_does():
    ranker = RankRLS().fit(X, COLUMNS["grade"], qid=QUERIES)
    with pytest.raises(InvalidInputError, match="`rank` must be given `qid`, .* one id for all"):
        ranker.rank(X[:3])
    with pytest.raises(InvalidInputError, match="`score` must be given `qid`"):
        ranker.score(X, COLUMNS["grade"])
    assert len(RankRLS().fit(X, COLUMNS["grade"]).rank(X[:3])) == 3


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_explain_report_and_export_are_methods(tmp_path):
    frame = pd.DataFrame(COLUMNS)
    ranker = RankRLS().fit(frame, y="grade", qid="query")
    found = ranker.explain(frame, "query", 1, 2)
    rows = frame[["a", "b", "c"]]
    assert str(found) == str(explain(ranker, rows, QUERIES, 1, 2))
    assert "contribution" in str(found)
    check = ranker.export(tmp_path / "model.json", format="solr")
    assert str(check).startswith(str(tmp_path / "model.json"))
    export_ranker(ranker, tmp_path / "other.json", "solr")
    assert (tmp_path / "model.json").read_text() == (tmp_path / "other.json").read_text()
    page = ranker.report(frame, "grade", "query", title="About hotels")
    page.save(tmp_path / "report.html")
    assert "About hotels" in (tmp_path / "report.html").read_text()


def test_scikit_learns_permutation_importance_works():
    frame = pd.DataFrame(COLUMNS)
    rows, target = frame[["a", "b", "c"]], X[:, 0]
    ranker = RankRLS(1e-6).fit(rows, target)
    found = permutation_importance(ranker, rows, target, random_state=0).importances_mean
    assert found[0] > 0.3
    assert np.abs(found[1:]).max() < 1e-3


def test_shap_explains_rankers():
    shap = pytest.importorskip("shap")
    ranker = RankRLS().fit(X, GRADES)
    found = shap.Explainer(ranker.predict, X)(X[:5])
    expected = (X[:5] - X.mean(axis=0)) * ranker.coef_
    np.testing.assert_allclose(found.values, expected, atol=1e-8)
