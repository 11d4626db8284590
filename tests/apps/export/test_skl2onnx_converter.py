"""skl2onnx converts rankers: the file gives the scores of `predict` in onnxruntime."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rankwise
from rankwise import (
    DORM,
    BoostedRanker,
    Gaussian,
    GreedyRankRLS,
    InvalidInputError,
    KPCRank,
    Laplacian,
    LinearRankRLS,
    MissingExtraError,
    Polynomial,
    PreferenceGP,
    RankerPipeline,
    RankRLS,
    RankRLSCV,
    RankSVM,
    WithinQueryEncoder,
    WithinQueryScaler,
    register_skl2onnx,
)
from rankwise.apps.export.skl2onnx_converter import CONVERTED
from rankwise.rankers.base import Ranker

skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) * [1.0, 5.0, 0.5] + [0.0, 50.0, 0.0]
Y = np.digitize(X[:, 0] + (X[:, 1] - 50) / 5, [-1.0, 0.0, 1.0])
QID = np.repeat(np.arange(4), 10)

RANKERS = {
    "linear": RankRLS(),
    "gaussian": RankRLS(kernel=Gaussian(0.5)),
    "laplacian": RankRLS(kernel=Laplacian(0.5)),
    "polynomial": RankRLSCV(kernel=Polynomial(2, gamma=0.3)),
    "GreedyRankRLS": GreedyRankRLS(2),
    "LinearRankRLS": LinearRankRLS(),
    "KPCRank": KPCRank(5, kernel=Gaussian(0.5)),
    "RankSVM": RankSVM(),
    "DORM": DORM(max_iter=30),
}


@pytest.fixture(autouse=True)
def registered():
    register_skl2onnx()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blanks_go_where_the_trees_send_them(dtype):
    rows = np.where(RNG.random(X.shape) < 0.3, np.nan, X).astype(dtype)
    ranker = BoostedRanker(n_trees=10, early_stopping=False, min_samples_leaf=2)
    ranker.fit(rows, Y, qid=QID)
    content = skl2onnx.to_onnx(ranker, rows[:1]).SerializeToString()
    (scores,) = onnxruntime.InferenceSession(content).run(["variable"], {"X": rows})
    np.testing.assert_allclose(scores[:, 0], ranker.predict(rows), atol=1e-6)


def converted(model, rows, **options):
    """Convert a model and score the rows with onnxruntime."""
    content = skl2onnx.to_onnx(model, rows, **options).SerializeToString()
    return onnxruntime.InferenceSession(content).run(["variable"], {"X": rows})[0]


@pytest.mark.parametrize("name", RANKERS)
@pytest.mark.parametrize(("dtype", "error"), [(np.float64, 1e-12), (np.float32, 1e-3)])
def test_a_pipeline_with_a_ranker_is_converted(name, dtype, error):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rankwise.ConvergenceWarning)
        pipeline = make_pipeline(StandardScaler(), RANKERS[name]).fit(X, Y)
    scores = converted(pipeline, X.astype(dtype))
    assert (scores.dtype, scores.shape) == (dtype, (40, 1))
    expected = pipeline.predict(X)
    np.testing.assert_allclose(scores[:, 0], expected, rtol=0, atol=error * np.std(expected))


def test_steps_that_we_cannot_export_ourselves_are_left_to_skl2onnx():
    pipeline = make_pipeline(StandardScaler(), PCA(2), RankRLS(kernel=Gaussian(0.5))).fit(X, Y)
    np.testing.assert_allclose(converted(pipeline, X)[:, 0], pipeline.predict(X), rtol=1e-9)


def test_every_output_is_a_column():
    ranker = RankRLS().fit(X, np.c_[Y, -Y, X[:, 0]], qid=QID)
    np.testing.assert_allclose(converted(ranker, X), ranker.predict(X), rtol=1e-12)


def test_a_process_writes_its_mean():
    rows = X / [1.0, 50.0, 0.5]
    ranker = PreferenceGP().fit(rows[:6], pairs=[[0, 1], [2, 1], [3, 4], [5, 0]])
    np.testing.assert_allclose(converted(ranker, rows)[:, 0], ranker.predict(rows), atol=1e-9)


def test_rows_of_one_query_are_compared_with_each_other():
    ranker = RankerPipeline([WithinQueryScaler(), RankRLS()]).fit(X, Y, qid=QID)
    expected = ranker.predict(X, qid=QID)
    np.testing.assert_allclose(converted(ranker, X[QID == 2])[:, 0], expected[QID == 2], rtol=1e-9)


def test_trees_are_converted():
    pytest.importorskip("lightgbm")
    ranker = BoostedRanker(n_trees=10, min_samples_leaf=3).fit(X, Y, qid=QID)
    np.testing.assert_allclose(converted(ranker, X)[:, 0], ranker.predict(X), rtol=1e-4)


def test_columns_of_a_frame_are_inputs():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    ranker = RankRLS().fit(frame, Y)
    content = skl2onnx.to_onnx(ranker, frame).SerializeToString()
    feed = {name: frame[[name]].to_numpy() for name in frame}
    scores = onnxruntime.InferenceSession(content).run(None, feed)[0]
    np.testing.assert_allclose(scores[:, 0], ranker.predict(frame), rtol=1e-12)


def test_whole_numbers_are_scored_as_floats():
    rows = RNG.integers(0, 9, size=(20, 3))
    ranker = RankRLS().fit(rows.astype(float), rows[:, 0])
    np.testing.assert_allclose(converted(ranker, rows)[:, 0], ranker.predict(rows), rtol=1e-4)


def test_the_file_keeps_the_names_of_two_rankers_apart():
    """Two converters in one process do not share names of arrays."""
    first, second = RankRLS().fit(X, Y), RankRLS(alpha=100.0).fit(X, Y)
    for ranker in (first, second, first):
        np.testing.assert_allclose(converted(ranker, X)[:, 0], ranker.predict(X), rtol=1e-12)


def test_an_old_target_is_refused():
    with pytest.raises(InvalidInputError, match="`target_opset` must be at least 18 .*got 15"):
        converted(RankRLS().fit(X, Y), X, target_opset=15)


def test_text_is_refused():
    rows = np.array([["a", 1.0], ["b", 2.0], ["a", 3.0], ["b", 4.0]], dtype=object)
    ranker = RankerPipeline([WithinQueryEncoder(), RankRLS()]).fit(rows, [0, 1, 2, 3])
    with pytest.raises(InvalidInputError, match="ONNX takes categories as an input"):
        converted(ranker, np.ones((4, 2)))


def test_every_ranker_of_features_is_registered():
    public = [getattr(rankwise, name) for name in rankwise.__all__ if name[0].isupper()]
    rankers = {cls for cls in public if isinstance(cls, type) and issubclass(cls, Ranker)}
    others = {rankwise.RankingFactorization, rankwise.ConditionalRankRLS}
    others |= {rankwise.ConditionalRankRLSCV, rankwise.LengthScaleAverage}
    assert rankers - others == set(CONVERTED)


def test_a_missing_skl2onnx_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "skl2onnx", None)
    with pytest.raises(MissingExtraError, match=r"skl2onnx.*rankwise\[export\]"):
        register_skl2onnx()
