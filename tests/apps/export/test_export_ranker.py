"""Files for other engines score as `predict` does; what a format cannot express is refused."""

import json
import shutil
import subprocess
import sys
import warnings
from importlib.util import find_spec
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

from apps.export.readers import READERS
from problems import problem
from rankwise import (
    DORM,
    ConditionalRankRLS,
    Gaussian,
    InvalidInputError,
    KPCRank,
    Laplacian,
    LinearRankRLS,
    NumericalError,
    Polynomial,
    PreferenceGP,
    RankingFactorization,
    RankRLS,
    RankRLSCV,
    RankSVM,
    SquaredExponential,
    export_ranker,
    load,
)
from rankwise.apps.export.engines import TEXT_FORMATS as TEXT
from rankwise.rankers.scoring_function import scoring_function

NAMES = ["bm25(title)", "attribute(price)", "freshness", "fieldMatch(body).proximity", "x5"]
LINEAR = [
    RankRLS(alpha=0.5),
    RankRLSCV(alphas=[0.1, 1.0]),
    LinearRankRLS(),
    RankSVM(),
    DORM(random_state=0),
    KPCRank(3, kernel="linear"),
]
KERNELS = [
    RankRLS(kernel=Gaussian(0.3)),
    RankRLS(kernel=Laplacian(0.3)),
    RankRLS(kernel=Polynomial(2, 0.5, 1.0)),
    RankRLS(kernel=Gaussian(0.3), basis=10),
    KPCRank(5, kernel=Gaussian(0.3)),
    RankSVM(kernel=Gaussian(0.3)),
]
PROCESSES = [
    PreferenceGP(),
    PreferenceGP(SquaredExponential(length_scale="per_feature")),
    PreferenceGP(SquaredExponential(item_effect=0.3)),
    PreferenceGP(Polynomial(2, 0.5, 1.0)),
    PreferenceGP("linear"),
]
SCALERS = [StandardScaler(), MinMaxScaler((-1, 1)), MaxAbsScaler(), RobustScaler()]
TEXT_FORMATS = ["solr", "elasticsearch", "opensearch", "ranklib", "vespa", "pmml"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(40, 5))
    y = np.exp(X @ rng.normal(size=5) / 4 + 0.1 * rng.normal(size=40))
    return X, y, np.repeat(np.arange(4), 10)


def fitted(ranker, data):
    X, y, qid = data
    return ranker.fit(X, y, qid=qid) if not isinstance(ranker, PreferenceGP) else ranker.fit(X, y)


def run(path, X):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    dtype = np.float64 if session.get_inputs()[0].type == "tensor(double)" else np.float32
    return session.run(None, {"X": X.astype(dtype)})


@pytest.mark.parametrize("ranker", LINEAR + KERNELS + PROCESSES, ids=str)
def test_onnx_gives_the_scores_of_predict(ranker, data, tmp_path):
    ranker = fitted(ranker, data)
    check = export_ranker(ranker, tmp_path / "model.onnx")
    assert check.relative_error < 1e-8
    scores = run(tmp_path / "model.onnx", data[0])[0]
    expected = ranker.predict(data[0])
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-8 * np.std(expected))


@pytest.mark.parametrize("ranker", PROCESSES, ids=str)
def test_onnx_gives_the_variance_of_a_process(ranker, data, tmp_path):
    ranker = fitted(ranker, data)
    check = export_ranker(ranker, tmp_path / "model.onnx")
    assert check.variance_error < 1e-6
    assert "variance" in str(check)
    new = data[0] + 0.5
    _, variance = run(tmp_path / "model.onnx", new)
    expected = ranker.predict(new, return_std=True)[1] ** 2
    np.testing.assert_allclose(variance, expected, rtol=0, atol=1e-6 * expected.max())


@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("shared", [False, True])
def test_item_effects_are_those_of_predict(shared, precision, data, tmp_path):
    """Items are known again after rounding; a row that several items share is none of them."""
    X = data[0].copy()
    X[1:3] = X[0] if shared else X[1:3]
    order = np.argsort(np.random.default_rng(0).random((2, 200)), axis=1)[:, :60] % len(X)
    pairs = order.T[order[0] != order[1]]
    ranker = PreferenceGP(SquaredExponential(1.0, 2.0, 0.5), optimize=False).fit(X, pairs=pairs)
    path, limit = tmp_path / "m.onnx", 1e-9 if precision == "double" else 1e-4
    check = export_ranker(ranker, path, precision=precision)
    assert max(check.relative_error, check.variance_error) < limit
    assert export_ranker(ranker, path, precision=precision, X=X).relative_error < limit
    new = np.vstack([X.astype(np.float32), np.round(X, 6), X * (1 + 3e-6), X * 1.001, X + 1e-3])
    expected = np.array([ranker.predict(row[None])[0] for row in new])
    scores = run(path, new)[0]
    np.testing.assert_allclose(scores, expected, rtol=0, atol=limit * np.std(expected))


@pytest.mark.parametrize("scaler", SCALERS, ids=str)
@pytest.mark.parametrize("format", ["onnx", *TEXT_FORMATS])
def test_a_pipeline_with_a_scaler_is_one_model(scaler, format, data, tmp_path):
    X, y, _ = data
    X = X * [1, 10, 100, 0.1, 1] + [0, 5, 1000, 0, -3]
    pipeline = make_pipeline(scaler, RankRLS()).fit(X, y)
    check = export_ranker(pipeline, tmp_path / "model", format, feature_names=NAMES, X=X)
    limit = 1e-9 if format in ("onnx", "pmml") else 1e-3
    assert check.relative_error < limit
    assert check.n_rows == len(X)
    if format != "onnx":
        read_back = READERS[format]((tmp_path / "model").read_text(), NAMES, X)
        assert_equal_but_for_a_constant(read_back, pipeline.predict(X), limit)


def assert_equal_but_for_a_constant(scores, expected, limit):
    difference = scores - expected
    spread = np.std(expected)
    np.testing.assert_allclose(difference, np.median(difference), rtol=0, atol=limit * spread)


def test_two_scalers_in_a_row(data, tmp_path):
    X, y, _ = data
    steps = StandardScaler(), MinMaxScaler(), "passthrough", RankRLS(kernel=Gaussian(0.5))
    pipeline = make_pipeline(*steps).fit(X + 100, y)
    assert export_ranker(pipeline, tmp_path / "m.onnx", X=X + 100).relative_error < 1e-9


def test_a_process_in_a_pipeline_keeps_its_variance(data, tmp_path):
    X, y, _ = data
    pipeline = make_pipeline(StandardScaler(), PreferenceGP()).fit(5 * X + 3, y)
    assert export_ranker(pipeline, tmp_path / "m.onnx").variance_error < 1e-6


@pytest.mark.parametrize("ranker", LINEAR, ids=str)
@pytest.mark.parametrize("format", TEXT_FORMATS)
def test_engines_give_the_scores_of_predict(ranker, format, data, tmp_path):
    ranker = fitted(ranker, data)
    check = export_ranker(ranker, tmp_path / "m", format, feature_names=NAMES)
    assert check.relative_error < 1e-5
    X = data[0]
    read_back = READERS[format]((tmp_path / "m").read_text(), NAMES, X)
    assert_equal_but_for_a_constant(read_back, ranker.predict(X), 1e-5)


@pytest.mark.parametrize("format", TEXT_FORMATS)
def test_the_check_computes_as_the_loader_of_the_file_does(format, data, tmp_path):
    X, y, _ = data
    X = X * [1, 10, 100, 0.1, 1] + [0, 5, 1000, 0, -3]
    function = scoring_function(make_pipeline(StandardScaler(), RankRLS()).fit(X, y))
    text = TEXT[format].write(function, "model", NAMES)
    read_back = READERS[format](text, NAMES, X)
    scored = TEXT[format].score(function, X)
    np.testing.assert_allclose(scored, read_back, rtol=1e-13, atol=1e-13 * np.ptp(scored))


def test_single_precision_is_accurate_far_from_the_origin(data, tmp_path):
    X, y, _ = data
    ranker = RankRLS(kernel=Gaussian(0.3)).fit(X + 1000, y)
    check = export_ranker(ranker, tmp_path / "m.onnx", precision="single", X=X + 1000)
    assert check.relative_error < 1e-3


@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize("ranker", [*KERNELS[:2], *KERNELS[3:], *PROCESSES[:3]], ids=str)
def test_far_rows_score_as_in_predict(ranker, precision, data, tmp_path):
    """Squares of far features overflow, more so in single precision; kernels are 0 there."""
    ranker = fitted(ranker, data)
    export_ranker(ranker, tmp_path / "m.onnx", precision=precision, X=data[0])
    sizes = [1e18, 1e25, 2e38] + ([1e200, 1e300] if precision == "double" else [])
    rows = np.vstack([size * (np.eye(5) - np.ones(5) / 3) for size in sizes])
    scores = run(tmp_path / "m.onnx", rows)[0]
    np.testing.assert_array_equal(scores, 0.0 * rows[:, 0])
    np.testing.assert_array_equal(scores, ranker.predict(rows))


def test_the_check_looks_at_stored_rows_and_far_rows(data, tmp_path, monkeypatch):
    """A file that scores stored rows or far ones in another way is refused."""
    from rankwise.apps.export import export_ranker as module
    from rankwise.apps.export.onnx_graph import run_onnx

    def wrong_where(is_wrong):
        def wrong_run(content, rows, **options):
            outputs = run_onnx(content, rows, **options)
            outputs["scores"] = outputs["scores"] + is_wrong(rows)
            return outputs

        return wrong_run

    ranker = fitted(RankRLS(kernel=Gaussian(0.3)), data)
    stored = {row.tobytes() for row in data[0]}
    places = [
        lambda rows: np.array([row.tobytes() in stored for row in rows], dtype=float),
        lambda rows: (np.abs(rows).max(axis=1) > 1e20) * np.arange(len(rows)),
        lambda rows: 1.0 * (rows == 0.0).all(axis=1),
    ]
    for is_wrong in places:
        monkeypatch.setattr(module, "run_onnx", wrong_where(is_wrong))
        with pytest.raises(NumericalError, match="must give the scores of `predict`"):
            export_ranker(ranker, tmp_path / "m.onnx")


def test_several_outputs_are_columns(data, tmp_path):
    X, y, _ = data
    ranker = RankRLS().fit(X, np.column_stack([y, -y, X[:, 0]]))
    export_ranker(ranker, tmp_path / "m.onnx")
    np.testing.assert_allclose(run(tmp_path / "m.onnx", X)[0], ranker.predict(X), atol=1e-12)
    with pytest.raises(InvalidInputError, match="must have one output: this ranker has 3"):
        export_ranker(ranker, tmp_path / "m", "ranklib")


def test_sparse_training_rows_are_exported(data, tmp_path):
    from scipy.sparse import csr_array

    X, y, _ = data
    ranker = RankRLS(kernel=Gaussian(0.3)).fit(csr_array(X * (X > 0)), y)
    assert export_ranker(ranker, tmp_path / "m.onnx").relative_error < 1e-9


def test_names_come_from_the_frame_and_are_stored(data, tmp_path):
    import onnx

    X, y, _ = data
    ranker = RankRLS().fit(pd.DataFrame(X, columns=NAMES), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export_ranker(ranker, tmp_path / "m.onnx")
        export_ranker(ranker, tmp_path / "m.json", "solr", name="mine")
    props = {p.key: p.value for p in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert json.loads(props["feature_names"]) == NAMES
    body = json.loads((tmp_path / "m.json").read_text())
    assert body["name"] == "mine"
    assert [entry["name"] for entry in body["features"]] == NAMES


def test_solr_normalisers_are_strings_and_weights_are_numbers(data, tmp_path):
    X, y, _ = data
    pipeline = make_pipeline(StandardScaler(), RankRLS()).fit(X, y)
    export_ranker(pipeline, tmp_path / "m.json", "solr", feature_names=NAMES)
    body = json.loads((tmp_path / "m.json").read_text())
    assert body["class"] == "org.apache.solr.ltr.model.LinearModel"
    norm = body["features"][0]["norm"]
    assert norm["class"] == "org.apache.solr.ltr.norm.StandardNormalizer"
    assert float(norm["params"]["avg"]) == pipeline[0].mean_[0]
    assert isinstance(norm["params"]["std"], str)
    assert body["params"]["weights"][NAMES[0]] == pipeline[1].coef_[0]


@pytest.mark.parametrize("format", ["elasticsearch", "opensearch"])
def test_elasticsearch_body(format, data, tmp_path):
    X, y, _ = data
    pipeline = make_pipeline(StandardScaler(), RankRLS()).fit(X, y)
    export_ranker(pipeline, tmp_path / "m.json", format, feature_names=NAMES)
    model = json.loads((tmp_path / "m.json").read_text())["model"]["model"]
    assert model["type"] == "model/linear"
    assert set(json.loads(model["definition"])) == set(NAMES)
    assert set(model["feature_normalizers"][NAMES[1]]["standard"]) == {
        "mean",
        "standard_deviation",
    }


def test_ranklib_text(tmp_path):
    ranker = RankRLS().fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    export_ranker(ranker, tmp_path / "m.txt", "ranklib")
    head, terms = (tmp_path / "m.txt").read_text().splitlines()
    assert head == "## Coordinate Ascent"
    assert [term.partition(":")[0] for term in terms.split()] == ["1", "2"]


def test_ranklib_says_what_constant_it_leaves_out(data, tmp_path):
    X, y, _ = data
    pipeline = make_pipeline(StandardScaler(), RankRLS()).fit(X + 5, y)
    check = export_ranker(pipeline, tmp_path / "m.txt", "ranklib")
    shift = pipeline[0].mean_ / pipeline[0].scale_
    assert check.constant == pytest.approx(float(pipeline[1].coef_ @ shift), rel=1e-5)
    assert "which changes no order" in str(check)


@pytest.mark.parametrize("ranker", [KERNELS[0], KERNELS[2], PROCESSES[4]], ids=str)
def test_pmml_of_a_kernel_scores_as_predict(ranker, data, tmp_path):
    ranker, X = fitted(ranker, data), data[0]
    export_ranker(ranker, tmp_path / "m.pmml", feature_names=NAMES)
    read_back = READERS["pmml"]((tmp_path / "m.pmml").read_text(), NAMES, X)
    assert_equal_but_for_a_constant(read_back, ranker.predict(X), 1e-9)


def test_pmml_of_a_kernel_scales_by_derived_fields(data, tmp_path):
    X, y, _ = data
    kernel = SquaredExponential(length_scale="per_feature")
    pipeline = make_pipeline(StandardScaler(), PreferenceGP(kernel)).fit(X, y)
    check = export_ranker(pipeline, tmp_path / "m.pmml", feature_names=NAMES)
    assert check.relative_error < 1e-9
    read_back = READERS["pmml"]((tmp_path / "m.pmml").read_text(), NAMES, X)
    assert_equal_but_for_a_constant(read_back, pipeline.predict(X), 1e-9)
    root = ElementTree.parse(tmp_path / "m.pmml").getroot()
    assert len(root.findall(".//{*}DerivedField")) == 5


# in a process of its own: while a JVM runs, its bridge takes names of modules for Java packages
JPMML = """
import json, sys
import jpmml_evaluator
evaluator = jpmml_evaluator.make_evaluator(sys.argv[1]).verify()
print(json.dumps([float(evaluator.evaluate(row)["score"]) for row in json.load(sys.stdin)]))
"""


@pytest.mark.parametrize(
    "ranker",
    [
        RankRLS(),
        RankRLS(kernel=Gaussian(0.3)),
        RankRLS(kernel=Polynomial(2, 0.5, 1.0)),
        make_pipeline(StandardScaler(), PreferenceGP(SquaredExponential())),
        PreferenceGP("linear"),
    ],
    ids=str,
)
def test_pmml_agrees_with_jpmml(ranker, data, tmp_path):
    if find_spec("jpmml_evaluator") is None:
        pytest.skip("needs jpmml-evaluator")
    if shutil.which("java") is None:
        pytest.skip("JPMML needs a Java runtime")
    X, y, _ = data
    ranker.fit(X, y)
    export_ranker(ranker, tmp_path / "m.pmml", feature_names=["a b", "c<d", "e&f", "g", "h"])
    names = ["a b", "c<d", "e&f", "g", "h"]
    rows = [dict(zip(names, row, strict=True)) for row in X[:8].tolist()]
    done = subprocess.run(
        [sys.executable, "-c", JPMML, tmp_path / "m.pmml"],
        input=json.dumps(rows),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    scores = json.loads(done.stdout)
    np.testing.assert_allclose(scores, ranker.predict(X[:8]), rtol=1e-9, atol=1e-9)


def test_a_saved_ranker_can_be_exported_later(data, tmp_path):
    fitted(RankRLS(kernel=Gaussian(0.3)), data).save(tmp_path / "m.rankwise")
    assert export_ranker(load(tmp_path / "m.rankwise"), tmp_path / "m.onnx").relative_error < 1e-9


# Refusals


def test_a_kernel_cannot_go_to_a_linear_engine(data, tmp_path):
    ranker = fitted(RankRLS(kernel=Gaussian(0.3)), data)
    with pytest.raises(InvalidInputError, match="must be linear in the features.*Gaussian"):
        export_ranker(ranker, tmp_path / "m", "solr", feature_names=NAMES)
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("kernel", [lambda A, B: A @ B.T + 1.0, "precomputed"])
def test_onnx_refuses_kernels_of_other_code(kernel, tmp_path):
    X = np.arange(6.0)[:, None]
    X = X @ X.T if kernel == "precomputed" else X
    ranker = RankRLS(kernel=kernel).fit(X, [0, 1, 2, 3, 4, 5])
    with pytest.raises(InvalidInputError, match="ONNX can express the kernels"):
        export_ranker(ranker, tmp_path / "m.onnx")


@pytest.mark.parametrize(
    ("ranker", "message"),
    [
        (RankRLS(kernel=Laplacian(0.3)), "PMML has linear, polynomial and Gaussian kernels"),
        (PreferenceGP(SquaredExponential(item_effect=0.3)), "PMML cannot express an item effect"),
    ],
    ids=str,
)
def test_pmml_refuses_what_it_has_no_words_for(ranker, message, data, tmp_path):
    with pytest.raises(InvalidInputError, match=message):
        export_ranker(fitted(ranker, data), tmp_path / "m.pmml")


def test_format_must_be_known(data, tmp_path):
    ranker = fitted(RankRLS(), data)
    with pytest.raises(InvalidInputError, match="`format` must be given"):
        export_ranker(ranker, tmp_path / "m.model")
    with pytest.raises(InvalidInputError, match="`format` must be one of 'onnx'"):
        export_ranker(ranker, tmp_path / "m", "tensorflow")
    with pytest.raises(InvalidInputError, match="`precision` must be one of"):
        export_ranker(ranker, tmp_path / "m.onnx", precision="half")


def test_engines_need_names(data, tmp_path):
    ranker = fitted(RankRLS(), data)
    with pytest.raises(InvalidInputError, match="`feature_names` must be given for solr"):
        export_ranker(ranker, tmp_path / "m", "solr")
    with pytest.raises(InvalidInputError, match="must hold 5 different names.*got 5, 4 of them"):
        export_ranker(ranker, tmp_path / "m", "solr", feature_names=["a", "a", "b", "c", "d"])
    with pytest.raises(InvalidInputError, match="named as a rank feature.*'a b'"):
        export_ranker(ranker, tmp_path / "m", "vespa", feature_names=["a b", "c", "d", "e", "f"])


def test_rows_to_check_must_fit(data, tmp_path):
    ranker = fitted(RankRLS(), data)
    with pytest.raises(InvalidInputError, match="rows of 5 features to check the file on"):
        export_ranker(ranker, tmp_path / "m.onnx", X=np.zeros((3, 4)))


def test_other_steps_of_a_pipeline_are_refused(data, tmp_path):
    X, y, _ = data
    pipeline = make_pipeline(PCA(2), RankRLS()).fit(X, y)
    with pytest.raises(InvalidInputError, match="must be scalers.*step 'pca' is a PCA"):
        export_ranker(pipeline, tmp_path / "m.onnx")
    pipeline = make_pipeline(MinMaxScaler(clip=True), RankRLS()).fit(X, y)
    with pytest.raises(InvalidInputError, match="without clipping"):
        export_ranker(pipeline, tmp_path / "m.onnx")


def test_what_is_no_formula_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="weights of features.*got RankingFactorization"):
        export_ranker(RankingFactorization(), tmp_path / "m.onnx")


def test_large_errors_of_single_precision_are_refused(data, tmp_path):
    X, y, _ = data
    ranker = RankRLS().fit(X, y)
    path = tmp_path / "m.txt"
    with pytest.raises(NumericalError, match=r"in \d+ of 40 rows.*single precision.*or export to"):
        export_ranker(ranker, path, "ranklib", X=X + 1e9)
    with pytest.raises(NumericalError, match="single precision.*or use precision='double'"):
        export_ranker(ranker, tmp_path / "m.onnx", X=X + 1e9, precision="single")
    assert not path.exists()


def test_a_scale_that_is_zero_in_single_precision_is_refused(data, tmp_path):
    X, y, _ = data
    pipeline = make_pipeline(StandardScaler(), RankRLS()).fit(X * 1e-60, y)
    with pytest.raises(NumericalError, match="rules of the engine's loader"):
        export_ranker(pipeline, tmp_path / "m", "solr", feature_names=NAMES)


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_missing_packages_name_the_extra(package, data, tmp_path, monkeypatch):
    from rankwise import MissingExtraError

    monkeypatch.setitem(__import__("sys").modules, package, None)
    with pytest.raises(MissingExtraError, match=r"rankwise\[export\]"):
        export_ranker(fitted(RankRLS(), data), tmp_path / "m.onnx")


def test_random_problems(tmp_path):
    given = problem(3)
    check = export_ranker(RankRLS().fit(given.X, given.y, qid=given.qid), tmp_path / "m.onnx")
    assert check.relative_error < 1e-9


# Pairs of objects


@pytest.mark.parametrize("precision", ["double", "single"])
@pytest.mark.parametrize(
    "kernels", [("linear", "linear"), ("gaussian", "polynomial"), ("laplacian", "linear")]
)
def test_pairs_of_objects_as_onnx(kernels, precision, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    drugs, targets, y = rng.normal(size=(9, 2)), rng.normal(size=(7, 3)), rng.normal(size=(9, 7))
    options = {"condition_kernel": kernels[0], "item_kernel": kernels[1]}
    ranker = ConditionalRankRLS(**options).fit(drugs, targets, y)
    check = export_ranker(ranker, tmp_path / "pairs.onnx", precision=precision)
    assert check.relative_error < (1e-9 if precision == "double" else 1e-4)
    new = rng.normal(size=(4, 2)), rng.normal(size=(5, 3))
    kind = np.float64 if precision == "double" else np.float32
    session = onnxruntime.InferenceSession(tmp_path / "pairs.onnx")
    feed = {"conditions": new[0].astype(kind), "items": new[1].astype(kind)}
    (scores,) = session.run(["scores"], feed)
    share = 1e-9 if precision == "double" else 1e-4
    np.testing.assert_allclose(scores, ranker.predict(*new), atol=share)


def test_refusals_of_pairs_of_objects(tmp_path):
    y = np.random.default_rng(0).normal(size=(4, 4))
    ranker = ConditionalRankRLS().fit(y, y, y)
    with pytest.raises(InvalidInputError, match="one formula of the features of an item"):
        export_ranker(ranker, tmp_path / "pairs.pmml")
    known = ConditionalRankRLS(condition_kernel="precomputed", item_kernel="precomputed").fit(
        np.eye(4), np.eye(4), y
    )
    with pytest.raises(InvalidInputError, match="ONNX can express the kernels"):
        export_ranker(known, tmp_path / "pairs.onnx")
