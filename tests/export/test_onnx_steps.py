"""Rankers of several steps as ONNX: the file gives the scores of `predict`, query by query."""

import json

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from rankwise import (
    BoostedRanker,
    Gaussian,
    InvalidInputError,
    RankerPipeline,
    RankRLS,
    SearchRanker,
    WithinQueryEncoder,
    WithinQueryImputer,
    WithinQueryRanks,
    WithinQueryScaler,
    export_ranker,
)
from rankwise.export.onnx_graph import run_onnx

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(0)
QID = RNG.permutation(np.repeat(np.arange(12), 7))
X = np.exp(RNG.normal(size=(len(QID), 4))) * [1.0, 1000.0, 0.01, 1.0]
X[:, 3] = RNG.integers(0, 3, size=len(QID))  # ties
Y = X[:, 0] - X[:, 1] / 1000 + X[:, 3] + 0.3 * RNG.normal(size=len(QID))
BLANKS = np.where(RNG.random(X.shape) < 0.2, np.nan, X)
BLANKS[QID == 3, 2] = np.nan  # a query that knows nothing of a feature

PIPELINES = {
    **{kind: [WithinQueryScaler(kind), RankRLS()] for kind in ("min_max", "standard", "max_abs")},
    "robust": [WithinQueryScaler("robust"), RankRLS(kernel=Gaussian(0.2))],
    "ranks": [WithinQueryRanks(), RankRLS()],
    "values and ranks": [StandardScaler(), WithinQueryRanks("values_and_ranks"), RankRLS()],
    "median": [WithinQueryImputer(add_indicator=True), WithinQueryScaler(), RankRLS()],
    "mean": [WithinQueryImputer("mean"), WithinQueryScaler(), RankRLS()],
    "min": [WithinQueryImputer("min"), WithinQueryRanks(), RankRLS(kernel=Gaussian(0.5))],
}


def by_query(path, rows, qid):
    scores = np.empty(len(rows))
    for query in np.unique(qid):
        members = np.flatnonzero(qid == query)
        scores[members] = run_onnx(path.read_bytes(), rows[members])["scores"]
    return scores


@pytest.mark.parametrize("name", PIPELINES)
def test_steps_inside_queries_are_written(tmp_path, name):
    rows = BLANKS if name in ("median", "mean", "min") else X
    ranker = RankerPipeline(PIPELINES[name]).fit(rows, Y, qid=QID)
    check = export_ranker(ranker, tmp_path / "ranker.onnx")
    assert check.relative_error < 1e-9
    assert "query by query" in check.checked_by
    scores = by_query(tmp_path / "ranker.onnx", rows, QID)
    np.testing.assert_allclose(scores, ranker.predict(rows, qid=QID), rtol=1e-9, atol=1e-9)


def test_a_query_of_one_item_and_constant_features(tmp_path):
    steps = [WithinQueryScaler("standard"), WithinQueryRanks("values_and_ranks"), RankRLS()]
    ranker = RankerPipeline(steps).fit(X, Y, qid=QID)
    export_ranker(ranker, tmp_path / "ranker.onnx")
    for rows in (X[:1], np.tile(X[:1], (3, 1))):
        expected = ranker.predict(rows, qid=np.zeros(len(rows)))
        scores = run_onnx((tmp_path / "ranker.onnx").read_bytes(), rows)["scores"]
        np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-9)


def raw_table():
    rows = BLANKS.astype(object)
    rows[:, 1] = RNG.choice(["pdf", "html", None], size=len(rows))
    return rows


def test_categories_are_an_input_of_their_own(tmp_path):
    rows = raw_table()
    steps = [WithinQueryEncoder(), WithinQueryImputer(), WithinQueryScaler(), RankRLS()]
    ranker = RankerPipeline(steps).fit(rows, Y, qid=QID)
    names = ["bm25", "kind", "age", "grade"]
    check = export_ranker(ranker, tmp_path / "r.onnx", feature_names=names, X=rows, qid=QID)
    assert check.relative_error < 1e-9
    assert check.inputs == {"X": ("bm25", "age", "grade"), "categories": ("kind",)}
    assert str(check).endswith("input X: bm25, age, grade\ninput categories: kind")
    session = onnxruntime.InferenceSession(tmp_path / "r.onnx")
    assert [given.name for given in session.get_inputs()] == ["X", "categories"]
    known = session.get_modelmeta().custom_metadata_map
    assert json.loads(known["feature_names"]) == ["bm25", "age", "grade"]
    assert json.loads(known["categories_names"]) == ["kind"]
    query = rows[QID == 5]
    feed = {
        "X": query[:, [0, 2, 3]].astype(float),
        "categories": np.array([[word or ""] for word in query[:, 1]], dtype=object),
    }
    expected = ranker.predict(query, qid=np.zeros(len(query)))
    np.testing.assert_allclose(session.run(None, feed)[0], expected, rtol=1e-9)


def test_a_sum_of_rankers_with_raw_features_is_written(tmp_path):
    rows = raw_table()
    ranker = SearchRanker(basis=20).fit(rows, Y - Y.min(), qid=QID)
    check = export_ranker(ranker, tmp_path / "ranker.onnx", X=rows, qid=QID)
    assert check.relative_error < 1e-9


def test_trees_are_written(tmp_path):
    pytest.importorskip("lightgbm")
    ranker = BoostedRanker(n_trees=20).fit(X, Y, qid=QID)
    check = export_ranker(ranker, tmp_path / "trees.onnx", X=X, qid=QID)
    assert check.relative_error < 1e-5
    ranker = RankerPipeline([WithinQueryRanks(), ranker]).fit(X, Y, qid=QID)
    assert export_ranker(ranker, tmp_path / "ranked.onnx").relative_error < 1e-5


def test_other_engines_are_told_what_to_do(tmp_path):
    ranker = RankerPipeline([WithinQueryScaler(), RankRLS()]).fit(X, Y, qid=QID)
    with pytest.raises(InvalidInputError, match="must be one formula of the features"):
        export_ranker(ranker, tmp_path / "model.json", "solr")


def test_a_step_that_onnx_cannot_express_is_named(tmp_path):
    from sklearn.preprocessing import PowerTransformer

    ranker = RankerPipeline([PowerTransformer(), RankRLS()]).fit(X, Y, qid=QID)
    with pytest.raises(InvalidInputError, match="PowerTransformer"):
        export_ranker(ranker, tmp_path / "model.onnx")


def test_categories_must_come_first(tmp_path):
    rows = X.copy()
    steps = [WithinQueryScaler(), WithinQueryEncoder(columns=[3]), RankRLS()]
    ranker = RankerPipeline(steps).fit(rows, Y, qid=QID)
    with pytest.raises(InvalidInputError, match="must be the first step"):
        export_ranker(ranker, tmp_path / "model.onnx")


def test_several_outputs_are_refused(tmp_path):
    ranker = RankerPipeline([WithinQueryScaler(), RankRLS()]).fit(X, np.stack([Y, -Y], 1), qid=QID)
    with pytest.raises(InvalidInputError, match="must have one output"):
        export_ranker(ranker, tmp_path / "model.onnx")
