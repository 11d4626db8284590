"""Rankers of several steps as ONNX: the file gives the scores of `predict`, query by query."""

import json

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from rankwise import (
    AutoRanker,
    BoostedRanker,
    Gaussian,
    InvalidInputError,
    KeptFeatures,
    NumericalError,
    RankerPipeline,
    RankRLS,
    SearchRanker,
    WithinQueryEncoder,
    WithinQueryImputer,
    WithinQueryRanks,
    WithinQueryScaler,
    export_ranker,
)
from rankwise.apps.export.onnx_graph import run_onnx
from rankwise.apps.export.onnx_steps import TreeNodes

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


def test_crosses_of_categories_are_written(tmp_path):
    rows = raw_table()
    rows[:, 3] = RNG.choice(["a", "b", "c"], size=len(rows))
    steps = [WithinQueryEncoder(crosses="auto"), WithinQueryImputer(), KeptFeatures([4, 0, 5, 6])]
    ranker = RankerPipeline([*steps, RankRLS()]).fit(rows, Y, qid=QID)
    assert ranker.steps_[0].crosses_.tolist() == [[0, 1]]
    check = export_ranker(ranker, tmp_path / "ranker.onnx", X=rows, qid=QID)
    assert check.relative_error < 1e-9


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


# What `predict` accepts: blanks, zeros of both signs, what LightGBM takes for zero, thresholds

TINY = float(np.float32(1e-35))
SPECIAL = [np.nan, 0.0, -0.0, TINY, -TINY, np.nextafter(-TINY, -1), 1.1e-35, -1.1e-35, 1e-40, 1e30]


def tree_problem(seed, blanks, zeros):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(300, 3)) * [1.0, 100.0, 1e-3] + [0.0, 500.0, 0.0]
    rows[rng.random(rows.shape) < zeros] = 0.0
    rows[rng.random(rows.shape) < blanks] = np.nan
    y = np.nan_to_num(rows[:, 0], nan=1.0) + np.isnan(rows[:, 1]) + (rows[:, 2] == 0.0)
    return rows, y + 0.1 * rng.normal(size=300), np.repeat(np.arange(30), 10)


def hard_rows(ranker, seed):
    """Return rows of thresholds, what lies beside them, and special values; some are all NaN."""
    rng = np.random.default_rng(seed)
    found = {j: [*SPECIAL] for j in range(3)}
    waiting = ranker.tree_structures()
    while waiting:
        node = waiting.pop()
        if "split_index" in node:
            at = node["threshold"]
            beside = [at, np.nextafter(at, -np.inf), np.nextafter(at, np.inf)]
            single = np.float32(min(at, 1e38))
            beside += [float(single), float(np.nextafter(single, np.float32(np.inf)))]
            found[node["split_feature"]] += beside
            waiting += [node["left_child"], node["right_child"]]
    columns = [rng.choice([*values, *SPECIAL], size=400) for values in found.values()]
    return np.vstack([np.column_stack(columns), np.full((1, 3), np.nan)])


def scores_like_predict(path, ranker, rows):
    expected = ranker.predict(rows)
    scores = run_onnx(path.read_bytes(), rows)["scores"]
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-6 * np.ptp(expected))


@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("zeros", [0.0, 0.3])
@pytest.mark.parametrize("blanks", [0.0, 0.2])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_trees_score_what_predict_accepts(tmp_path, seed, blanks, zeros, precision):
    """Blanks, zeros and thresholds fall on LightGBM's side, also where training had no blanks."""
    rows, y, qid = tree_problem(seed, blanks, zeros)
    ranker = BoostedRanker(n_trees=15, early_stopping=False).fit(rows, y, qid=qid)
    check = export_ranker(ranker, tmp_path / "trees.onnx", precision=precision)
    assert check.relative_error < 1e-6
    rows = hard_rows(ranker, seed)
    if precision == "single":
        rows = np.clip(rows, -3e38, 3e38).astype(np.float32).astype(float)
    scores_like_predict(tmp_path / "trees.onnx", ranker, rows)


@pytest.mark.parametrize("decision", [b"4", b"6"])
def test_trees_whose_zeros_are_blanks(tmp_path, decision):
    """Trees of LightGBM's zero_as_missing: zeros and blanks go to the default side."""
    rows, y, qid = tree_problem(0, 0.0, 0.4)
    ranker = BoostedRanker(n_trees=15, early_stopping=False).fit(rows, y, qid=qid)
    lines = ranker.model_.tobytes().split(b"\n")
    start = b"decision_type="
    lines = [x.replace(b"2", decision) if x.startswith(start) else x for x in lines]
    ranker.model_ = np.frombuffer(b"\n".join(lines), dtype=np.uint8)
    assert export_ranker(ranker, tmp_path / "trees.onnx").relative_error < 1e-6
    scores_like_predict(tmp_path / "trees.onnx", ranker, hard_rows(ranker, 0))


def test_trees_that_treat_zeros_in_two_ways_are_refused():
    leaf = {"leaf_value": 1.0}
    split = {"split_index": 0, "split_feature": 3, "threshold": 0.5, "decision_type": "<="}
    split |= {"default_left": True, "left_child": leaf, "right_child": leaf}
    nodes = TreeNodes()
    nodes.add_tree(0, split | {"missing_type": "NaN"})
    with pytest.raises(InvalidInputError, match="zeros of a feature alike.*feature 3.*'Zero'"):
        nodes.add_tree(1, split | {"missing_type": "Zero"})
    with pytest.raises(InvalidInputError, match="compare features with thresholds.*'=='"):
        TreeNodes().add_tree(0, split | {"missing_type": "None", "decision_type": "=="})


def test_the_check_notices_blanks_on_the_wrong_side(tmp_path, monkeypatch):
    """The rows of the check hold blanks: a file that does not treat them as predict is refused."""
    rows, y, qid = tree_problem(0, 0.2, 0.0)
    ranker = BoostedRanker(n_trees=15, early_stopping=False).fit(rows, y, qid=qid)
    written = TreeNodes.attributes

    def without_sides(self):
        options = written(self)
        sides = options["nodes_missing_value_tracks_true"]
        return {**options, "nodes_missing_value_tracks_true": [0] * len(sides)}

    monkeypatch.setattr(TreeNodes, "attributes", without_sides)
    with pytest.raises(NumericalError, match="in double precision.*report it as a defect"):
        export_ranker(ranker, tmp_path / "trees.onnx")
    with pytest.raises(NumericalError, match=r"in \d+ of 300 rows"):
        export_ranker(ranker, tmp_path / "trees.onnx", X=rows, qid=qid)
    assert not (tmp_path / "trees.onnx").exists()


FOREST = BoostedRanker(n_trees=10, early_stopping=False, min_samples_leaf=5)
BLANK_STEPS = {
    **{kind: [WithinQueryScaler(kind), FOREST] for kind in ("min_max", "standard", "max_abs")},
    "robust": [WithinQueryScaler("robust"), FOREST],
    "ranks": [WithinQueryRanks(), FOREST],
    "values and ranks": [StandardScaler(), WithinQueryRanks("values_and_ranks"), FOREST],
    "filled later": [WithinQueryRanks(), WithinQueryImputer("mean"), RankRLS()],
    "scaled blanks": [WithinQueryScaler(), WithinQueryImputer(), RankRLS(kernel=Gaussian(0.5))],
}


@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("name", BLANK_STEPS)
def test_steps_leave_blanks_blank(tmp_path, name, precision):
    """Scales and ranks ignore the blanks of a query, and blanks reach the steps behind them."""
    ranker = RankerPipeline(BLANK_STEPS[name]).fit(BLANKS, Y, qid=QID)
    path = tmp_path / "ranker.onnx"
    limit = 1e-6 if precision == "double" else 1e-4
    assert export_ranker(ranker, path, precision=precision).relative_error < limit
    rows = BLANKS if precision == "double" else BLANKS.astype(np.float32).astype(float)
    expected = ranker.predict(rows, qid=QID)
    scores = by_query(path, rows, QID)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=limit * np.std(expected))


@pytest.mark.parametrize("kind", ["min_max", "standard", "max_abs", "robust"])
def test_single_precision_sees_that_a_feature_is_constant(tmp_path, kind):
    """The mean of equal values is not that value in single precision; a constant feature is 0."""
    rows = np.where((QID % 3 == 0)[:, None], 0.1, X).astype(np.float32).astype(float)
    rows[QID % 4 == 0] *= 2.0**90  # squares overflow in single precision
    ranker = RankerPipeline([WithinQueryScaler(kind), RankRLS()]).fit(rows, Y, qid=QID)
    path = tmp_path / "ranker.onnx"
    export_ranker(ranker, path, precision="single", X=rows, qid=QID)
    expected = ranker.predict(rows, qid=QID)
    scores = by_query(path, rows, QID)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-5 * np.std(expected))


@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize(
    "ranker", [SearchRanker(basis=20), AutoRanker(cv=2, time_budget=None)], ids=str
)
def test_sums_of_rankers_score_what_predict_accepts(tmp_path, ranker, precision):
    rows = raw_table()
    ranker.fit(rows, Y - Y.min(), qid=QID)
    limit = 1e-6 if precision == "double" else 1e-3
    check = export_ranker(ranker, tmp_path / "ranker.onnx", precision=precision)
    assert check.relative_error < limit
    new = rows.copy()
    new[::7] = [np.nan, "unseen", np.nan, 0.0]
    new[1::7, 1] = None
    new[QID == 4] = [None, None, None, None]  # a query of blanks: no cell holds text
    check = export_ranker(ranker, tmp_path / "ranker.onnx", precision=precision, X=new, qid=QID)
    assert check.relative_error < limit


def test_categories_that_are_numbers(tmp_path):
    """The columns of the input `categories` are those of the encoder, whatever a row holds."""
    steps = [WithinQueryEncoder(columns=[3]), WithinQueryImputer(), WithinQueryScaler(), RankRLS()]
    ranker = RankerPipeline(steps).fit(BLANKS, Y, qid=QID)
    check = export_ranker(ranker, tmp_path / "r.onnx", X=BLANKS, qid=QID)
    assert check.relative_error < 1e-9
    assert check.inputs["categories"] == ("x4",)


def test_an_empty_category_cannot_be_told_from_a_blank(tmp_path):
    rows = raw_table()
    rows[::5, 1] = ""
    steps = [WithinQueryEncoder(), WithinQueryImputer(), RankRLS()]
    ranker = RankerPipeline(steps).fit(rows, Y, qid=QID)
    with pytest.raises(InvalidInputError, match='must not be empty.*feature 1 has the category ""'):
        export_ranker(ranker, tmp_path / "r.onnx")


# Refusals


def test_other_engines_are_told_what_to_do(tmp_path):
    ranker = RankerPipeline([WithinQueryScaler(), RankRLS()]).fit(X, Y, qid=QID)
    with pytest.raises(InvalidInputError, match="RankerPipeline compares the items of a query"):
        export_ranker(ranker, tmp_path / "model.json", "solr")
    ranker = RankerPipeline([StandardScaler(), RankRLS()]).fit(X, Y, qid=QID)
    with pytest.raises(InvalidInputError, match=r"has several steps.*StandardScaler in a Pipeline"):
        export_ranker(ranker, tmp_path / "model.json", "solr")
    with pytest.raises(InvalidInputError, match="BoostedRanker is a sum of trees"):
        export_ranker(FOREST.fit(X, Y, qid=QID), tmp_path / "model.pmml")


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
