"""Trees in the formats of search engines, XGBoost and LightGBM: they score as `predict` does."""

import json

import numpy as np
import pytest
from tests.apps.export.tree_readers import TREE_READERS

from rankwise import (
    InvalidInputError,
    RankerPipeline,
    RankRLS,
    SearchRanker,
    WithinQueryScaler,
    export_ranker,
)
from rankwise.apps.export.trees import (
    SOLR_SLACK,
    _tree,
    dumped,
    largest_single,
    trees_of,
    without_slack,
)

lightgbm = pytest.importorskip("lightgbm")
from rankwise import BoostedRanker  # noqa: E402 - needs LightGBM

NAMES = ["bm25_title", "age", "clicks"]
RNG = np.random.default_rng(0)
QID = np.repeat(np.arange(30), 10)
X = RNG.normal(size=(300, 3)) * [1.0, 100.0, 1e-3]
Y = np.digitize(X[:, 0] + X[:, 1] / 100 * (X[:, 2] > 0), [-0.5, 0.5, 1.5])
SCALED = X / X.std(axis=0)
BLANKS = np.where(RNG.random(X.shape) < 0.2, np.nan, X)


def fitted(rows=X, **options):
    given = {"n_trees": 12, "early_stopping": False, "random_state": 0, **options}
    return BoostedRanker(**given).fit(rows, Y, qid=QID)


RANKER, WITH_BLANKS = fitted(n_trees=60), fitted(BLANKS)
SINGLE = X.astype(np.float32).astype(float)


@pytest.mark.parametrize("format", TREE_READERS)
def test_engines_score_as_predict_does(format, tmp_path):
    check = export_ranker(RANKER, tmp_path / "m", format, feature_names=NAMES)
    assert check.relative_error < 1e-6
    assert "no server was run" in check.checked_by
    assert "later" in check.checked_by
    scores = TREE_READERS[format]((tmp_path / "m").read_text(), NAMES, X)
    np.testing.assert_allclose(scores, RANKER.predict(SINGLE), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("ranker", [RANKER, WITH_BLANKS], ids=["numbers", "blanks"])
def test_xgboost_itself_scores_as_predict_does(ranker, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    check = export_ranker(ranker, tmp_path / "m.json", "xgboost", feature_names=NAMES)
    assert check.checked_by == "XGBoost"
    booster = xgboost.Booster(model_file=tmp_path / "m.json")
    rows = BLANKS.astype(np.float32).astype(float)
    scores = booster.predict(xgboost.DMatrix(rows, feature_names=NAMES))
    np.testing.assert_allclose(scores, ranker.predict(rows), rtol=1e-5, atol=1e-6)
    # the dump that the plugins and Vespa read is XGBoost's own
    for own, written in zip(booster.get_dump(dump_format="json"), trees_of(ranker), strict=True):
        assert _without_digits(json.loads(own)) == _without_digits(dumped(written, NAMES))


def test_siblings_stand_next_to_each_other():
    """XGBoost adds one to the left child to find the right one."""
    for tree in trees_of(RANKER):
        inner = tree.feature >= 0
        np.testing.assert_array_equal(tree.right[inner], tree.left[inner] + 1)
        assert np.all(tree.left[inner] > np.flatnonzero(inner))


def _without_digits(node):
    """Return a node with numbers in single precision."""
    numbers = {key: np.float32(node[key]) for key in ("split_condition", "leaf") if key in node}
    inner = {"children": [_without_digits(child) for child in node.get("children", [])]}
    return {**node, **numbers, **inner}


def test_lightgbm_itself_scores_as_predict_does(tmp_path):
    check = export_ranker(WITH_BLANKS, tmp_path / "m.txt", "lightgbm", feature_names=NAMES)
    assert check.checked_by == "LightGBM"
    booster = lightgbm.Booster(model_file=str(tmp_path / "m.txt"))
    assert booster.feature_name() == NAMES
    np.testing.assert_array_equal(booster.predict(BLANKS), WITH_BLANKS.predict(BLANKS))


def test_numbers_of_single_precision_go_where_they_went():
    assert largest_single(1e300) == np.finfo(np.float32).max  # no JSON has infinity
    for threshold in [0.1, -0.1, 1e-35, -1e-35, 0.0, 16777217.0, 1.5, 3e38]:
        limit = largest_single(threshold)
        assert float(limit) <= threshold
        assert float(np.nextafter(limit, np.float32(np.inf))) > threshold


def test_solr_adds_its_slack_to_what_was_written():
    thresholds = RNG.normal(size=500).astype(np.float32) * 10.0 ** RNG.integers(-3, 5, 500)
    for threshold in thresholds.astype(np.float32):
        read = np.float32(without_slack(threshold) + SOLR_SLACK)
        assert abs(float(read) - float(threshold)) <= max(1e-6, abs(np.spacing(threshold)))


def test_a_pipeline_of_trees_alone_is_trees(tmp_path):
    pipeline = RankerPipeline([BoostedRanker(n_trees=3, early_stopping=False, random_state=0)])
    pipeline.fit(X, Y, qid=QID)
    check = export_ranker(pipeline, tmp_path / "m", "ranklib")
    assert check.relative_error < 1e-6


@pytest.mark.parametrize(
    ("ranker", "format", "message"),
    [
        (RANKER, "solr", "`feature_names` must be given for solr"),
        (RANKER, "pmml", "is a sum of trees"),
        (RankRLS().fit(SCALED, Y, qid=QID), "xgboost", "must be a sum of trees: got a RankRLS"),
        (
            RankerPipeline([WithinQueryScaler(), RankRLS()]).fit(X, Y, qid=QID),
            "solr",
            "RankerPipeline compares the items of a query.*rankwise fit --for",
        ),
        (SearchRanker().fit(X, Y, qid=QID), "vespa", "SearchRanker compares the items of a query"),
    ],
)
def test_what_an_engine_cannot_run_is_refused(ranker, format, message, tmp_path):
    with pytest.raises(InvalidInputError, match=message):
        export_ranker(ranker, tmp_path / "m", format)
    assert not (tmp_path / "m").exists()


def test_names_that_lightgbm_cannot_hold_are_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="LightGBM takes names"):
        export_ranker(RANKER, tmp_path / "m", "lightgbm", feature_names=["a b", "c", "d"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decision_type": "=="}, "splits? on feature 1 of the kind '=='"),
        ({"missing_type": "Zero", "default_left": False}, "zero_as_missing"),
    ],
)
def test_splits_that_are_no_thresholds_are_refused(changes, message):
    leaves = {"left_child": {"leaf_value": 1.0}, "right_child": {"leaf_value": 2.0}}
    plain = {"split_feature": 1, "threshold": 0.5, "decision_type": "<=", "missing_type": "None"}
    with pytest.raises(InvalidInputError, match=message):
        _tree({**plain, **leaves, **changes})
