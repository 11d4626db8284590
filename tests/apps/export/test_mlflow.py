"""MLflow keeps rankers: what is loaded scores as what was saved, queries included."""

import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise import (
    DataFileError,
    InvalidInputError,
    KPCRank,
    LinearRankRLS,
    MissingExtraError,
    ModelFileError,
    RankerPipeline,
    RankRLS,
    WithinQueryScaler,
)
from rankwise.apps.export.mlflow import load_model, log_model, save_model

mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
pytest.importorskip("mlflow.pyfunc")

pytestmark = [  # of MLflow's own code
    pytest.mark.filterwarnings("ignore:Operation with range"),
    pytest.mark.filterwarnings("ignore::UserWarning:mlflow"),
    pytest.mark.filterwarnings("ignore::FutureWarning:mlflow"),
]
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.normal(size=(24, 3)), columns=["bm25", "age", "clicks"])
TABLE["search"] = RNG.permutation(np.repeat(["red shoes", "blue hat", "tent"], 8))
TABLE["grade"] = np.digitize(TABLE["bm25"] + TABLE["age"], [-1.0, 1.0])
ROWS = TABLE.drop(columns="grade")

RANKERS = [
    RankRLS(alpha=0.5),
    RankRLS(kernel="gaussian"),
    LinearRankRLS(),
    KPCRank(3),
    RankerPipeline([WithinQueryScaler(), RankRLS()]),
]
INSIDE = RankerPipeline([WithinQueryScaler(), RankRLS()])


@pytest.fixture(autouse=True)
def no_tracking(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    yield
    mlflow.set_tracking_uri(before)


@pytest.mark.parametrize("ranker", RANKERS, ids=lambda ranker: type(ranker).__name__)
def test_a_saved_ranker_comes_back(ranker, tmp_path):
    ranker.fit(TABLE, y="grade", qid="search")
    save_model(ranker, tmp_path / "model", qid="search")
    again = load_model(tmp_path / "model")
    assert repr(again) == repr(ranker)
    expected = ranker.predict(ROWS, qid="search")
    np.testing.assert_array_equal(again.predict(ROWS, qid="search"), expected)
    function = mlflow.pyfunc.load_model(tmp_path / "model")
    np.testing.assert_array_equal(function.predict(ROWS), expected)
    np.testing.assert_array_equal(function.predict(ROWS[ROWS.columns[::-1]]), expected)


def test_a_ranker_without_names_takes_the_other_columns_in_order(tmp_path):
    X, qid = ROWS[["bm25", "age", "clicks"]].to_numpy(), ROWS["search"].to_numpy()
    ranker = INSIDE.fit(X, TABLE["grade"], qid=qid)
    save_model(ranker, tmp_path / "model", qid="search")
    scores = mlflow.pyfunc.load_model(tmp_path / "model").predict(ROWS)
    np.testing.assert_array_equal(scores, ranker.predict(X, qid=qid))


def test_rows_without_queries_are_scored_where_the_ranker_needs_none(tmp_path):
    X = ROWS[["bm25", "age", "clicks"]].to_numpy()
    ranker = RankRLS().fit(X, TABLE["grade"])
    save_model(ranker, tmp_path / "model")
    scores = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(X)
    np.testing.assert_array_equal(scores, ranker.predict(X))


def test_queries_that_are_needed_are_never_guessed(tmp_path):
    ranker = INSIDE.fit(TABLE, y="grade", qid="search")
    save_model(ranker, tmp_path / "named", qid="search")
    function = mlflow.pyfunc.load_model(str(tmp_path / "named"))
    with pytest.raises((InvalidInputError, DataFileError), match="must have the column 'search'"):
        function.predict(ROWS.rename(columns={"search": "query"}))
    save_model(ranker, tmp_path / "unnamed")
    with pytest.raises(InvalidInputError, match="`predict` must be given `qid`"):
        mlflow.pyfunc.load_model(str(tmp_path / "unnamed")).predict(ROWS)


def test_the_example_says_what_goes_in_and_out(tmp_path):
    ranker = RankRLS().fit(TABLE, y="grade", qid="search")
    save_model(ranker, tmp_path / "model", qid="search", input_example=ROWS)
    signature = mlflow.models.Model.load(str(tmp_path / "model")).signature
    assert signature.inputs.input_names() == list(ROWS)
    function = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    with pytest.raises(mlflow.exceptions.MlflowException, match="clicks"):
        function.predict(ROWS.drop(columns="clicks"))


def test_parameters_of_predict_are_refused(tmp_path):
    save_model(RankRLS().fit(TABLE, y="grade", qid="search"), tmp_path / "model", qid="search")
    inner = mlflow.pyfunc.load_model(str(tmp_path / "model"))._model_impl
    with pytest.raises(InvalidInputError, match="takes no parameters to predict: got k"):
        inner.predict(ROWS, params={"k": 3})


def test_a_ranker_is_logged_with_its_run():
    ranker = RankRLS().fit(TABLE, y="grade", qid="search")
    with mlflow.start_run():
        info = log_model(ranker, "ranker", qid="search", input_example=ROWS)
    assert set(info.flavors) == {"rankwise", "python_function"}
    expected = ranker.predict(ROWS)
    np.testing.assert_array_equal(load_model(info.model_uri).predict(ROWS), expected)
    function = mlflow.pyfunc.load_model(info.model_uri)
    np.testing.assert_allclose(function.predict(ROWS), expected, rtol=1e-14)


def test_what_is_no_fitted_ranker_is_refused(tmp_path):
    with pytest.raises(InvalidInputError, match=r"must be a ranker of rankwise.*mlflow\.sklearn"):
        save_model(make_pipeline(StandardScaler(), RankRLS()), tmp_path / "model")
    with pytest.raises(NotFittedError, match="not fitted"):
        save_model(RankRLS(), tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_model_of_another_flavour_is_refused(tmp_path):
    save_model(RankRLS().fit(TABLE, y="grade", qid="search"), tmp_path / "model")
    description = tmp_path / "model" / "MLmodel"
    description.write_text(description.read_text().replace("\n  rankwise:", "\n  other:"))
    with pytest.raises(ModelFileError, match="must be a model with the flavour rankwise"):
        load_model(tmp_path / "model")


def test_a_damaged_model_is_refused(tmp_path):
    save_model(RankRLS().fit(TABLE, y="grade", qid="search"), tmp_path / "model")
    file = tmp_path / "model" / "data" / "ranker.model"
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(ModelFileError, match=r"ranker\.model"):
        load_model(tmp_path / "model")


def test_mlflow_keeps_scikit_learn_pipelines_by_skops(tmp_path):
    skops = pytest.importorskip("skops.io")
    flavor = pytest.importorskip("mlflow.sklearn")
    X = ROWS[["bm25", "age", "clicks"]].to_numpy()
    pipeline = make_pipeline(StandardScaler(), RankRLS()).fit(X, TABLE["grade"])
    types = skops.get_untrusted_types(data=skops.dumps(pipeline))
    assert all(name.startswith("rankwise.") for name in types)
    flavor.save_model(
        pipeline,
        tmp_path / "model",
        serialization_format="skops",
        skops_trusted_types=types,
        pip_requirements=["rankwise"],
    )
    again = flavor.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(X), pipeline.predict(X))


def test_a_missing_mlflow_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingExtraError, match=r"mlflow.*rankwise\[mlflow\]"):
        load_model(tmp_path)
