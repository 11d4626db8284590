"""Saved rankers come back as they were, or not at all."""

import sys
from dataclasses import dataclass, fields, is_dataclass
from importlib import import_module
from inspect import signature
from pkgutil import walk_packages

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator

import rankwise
from laws.kernels import CASES
from problems import problem
from rankwise import (
    Concordance,
    ConjugateGradients,
    Gaussian,
    GreedyRankRLS,
    InvalidInputError,
    Laplacian,
    Linear,
    ModelFileError,
    RankerPipeline,
    RankRLS,
    RankRLSCV,
    SquaredExponential,
    WithinQueryEncoder,
    WithinQueryImputer,
)
from rankwise.core.params import rules_of
from rankwise.core.queries import Queries, QueryFingerprints
from rankwise.core.storable import STORABLE, state_of, storable
from rankwise.features.function_space import Expansion, Identity
from rankwise.graph.edges import Incidence
from rankwise.io.model_file import read_model, write_model
from rankwise.measures.honest_value import HonestValue
from rankwise.rankers.storage import StateReader, StateWriter
from rankwise.selection.path import Candidate, SelectionPath
from rankwise.solve.iteration import Certificate, CertifiedSolution, Ending

P = problem(seed=0)
PATH = SelectionPath(
    "alpha",
    np.array([1.0, 2.0]),
    Concordance,
    np.array([0.5, np.nan]),
    np.ones(2),
    None,
    np.ones(2),
)
ENDING = Ending("converged", "done")
VALUES = [
    *(case.kernel for case in CASES if case.is_storable),
    SquaredExponential(),
    ConjugateGradients(1e-6, n_basis=20),
    Incidence.of(np.array([[0, 2], [3, 1]]), 5),
    Identity(),
    Expansion(Gaussian(1.0), P.X),
    Expansion(Linear(), csr_array(np.where(P.X > 0, P.X, 0))),
    ENDING,
    Certificate(2.0, 1.5),
    CertifiedSolution(
        1.0, np.arange(3.0), Certificate(2.0, 1.5), 7, ENDING, {"slacks": np.ones(2), 3: (1, [2])}
    ),
    PATH,
    Candidate({"kernel": Gaussian(1.0), "cost": "unit", "basis": None}, PATH),
    HonestValue("NDCG @ 10", 0.5, 0.4, 0.6, 7, "users"),
    QueryFingerprints.of(Queries.from_qid(["a", "b", "a"]), np.array([1.0, 0.0, 2.0])),
]
"""One value of each class below the rankers that a model file may hold."""


def saved_and_loaded(value, path):
    writer = StateWriter()
    write_model(path, {"value": writer.encode(value)}, writer.arrays)
    metadata, arrays = read_model(path)
    return StateReader(path, arrays).decode(metadata["value"])


def assert_same(a, b):
    assert type(a) is type(b)
    if is_dataclass(a) and type(a).__name__ in STORABLE:
        for entry in fields(a):
            assert_same(getattr(a, entry.name), getattr(b, entry.name))
    elif issparse(a):
        np.testing.assert_array_equal(a.toarray(), b.toarray())
    else:
        np.testing.assert_equal(a, b)


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_every_value_comes_back(value, tmp_path):
    assert_same(saved_and_loaded(value, tmp_path / "m"), value)


def test_every_storable_class_below_the_rankers_is_tested():
    for package in ("graph", "features", "selection", "solve"):
        home = import_module(f"rankwise.{package}")
        for module in walk_packages(home.__path__, f"{home.__name__}."):
            import_module(module.name)
    above = ("rankwise.rankers.", "rankwise.comparisons.", "rankwise.automatic.")
    below = {name for name, cls in STORABLE.items() if not cls.__module__.startswith(above)}
    assert below == {type(value).__name__ for value in VALUES}


def test_an_unknown_value_in_a_file_is_named(tmp_path):
    reader = StateReader(tmp_path / "m", {})
    with pytest.raises(ModelFileError, match="values that this version .* knows: .* a 'Mystery'"):
        reader.decode({"value": "Mystery", "fields": {}})
    with pytest.raises(ModelFileError, match="its Gaussian has 'mystery'"):
        reader.decode({"value": "Gaussian", "fields": {"gamma": 1.0, "mystery": 2}})


def test_a_class_that_is_not_storable_is_not_saved():
    @dataclass(frozen=True)
    class Gaussian:
        gamma: float

    with pytest.raises(InvalidInputError, match="Only built-in values"):
        StateWriter().encode(Gaussian(1.0))


def test_two_storable_classes_of_one_name_are_refused():
    @dataclass(frozen=True)
    class Gaussian:
        gamma: float

    with pytest.raises(TypeError, match="Two storable classes are called Gaussian"):
        storable(Gaussian)
    assert STORABLE["Gaussian"] is rankwise.Gaussian


@pytest.mark.parametrize(
    "ranker",
    [
        RankRLS(),
        RankRLS(0.3, kernel="gaussian", cost="unit"),
        RankRLS(kernel="polynomial", basis=4, random_state=0),
        RankRLS(query_weight={int(q): 1.5 for q in P.qid}),
        RankRLSCV(kernel=[Gaussian(0.1), Gaussian(1.0)], measure="NDCG @ 3"),
    ],
    ids=repr,
)
def test_everything_fitted_comes_back(ranker, tmp_path):
    ranker.fit(P.X, P.y, qid=P.qid).save(tmp_path / "m")
    loaded = rankwise.load(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(P.X), ranker.predict(P.X))
    assert set(vars(loaded)) == set(vars(ranker))
    assert loaded.n_queries_ == ranker.n_queries_
    assert loaded.kernel_ == ranker.kernel_


def test_the_path_of_a_search_comes_back(tmp_path):
    ranker = RankRLSCV(measure="AP").fit(P.X, P.y, qid=P.qid)
    ranker.save(tmp_path / "m")
    path = rankwise.load(tmp_path / "m").path_
    assert path.measure == rankwise.AP
    np.testing.assert_array_equal(path.per_query, ranker.path_.per_query)


def test_chosen_features_come_back_and_others_are_refused(tmp_path):
    ranker = GreedyRankRLS(2).fit(P.X, P.y, qid=P.qid)
    ranker.save(tmp_path / "m")
    again = rankwise.load(tmp_path / "m")
    np.testing.assert_array_equal(again.features_, ranker.features_)
    np.testing.assert_array_equal(again.path_.grid, [1, 2])
    ranker.features_ = np.array([0, 3])
    ranker.save(tmp_path / "m")
    with pytest.raises(rankwise.ModelFileError, match="features_"):
        rankwise.load(tmp_path / "m")


def test_an_alpha_for_each_output_comes_back(tmp_path):
    ranker = RankRLSCV(alpha_per_output=True).fit(P.X, np.c_[P.y, P.X[:, 0]], qid=P.qid)
    ranker.save(tmp_path / "model")
    again = rankwise.load(tmp_path / "model")
    np.testing.assert_array_equal(again.alpha_, ranker.alpha_)
    assert [path.best() for path in again.paths_] == [path.best() for path in ranker.paths_]
    np.testing.assert_array_equal(again.predict(P.X), ranker.predict(P.X))


def test_sparse_training_rows_come_back(tmp_path):
    X = csr_array(np.where(P.X > 0, P.X, 0))
    ranker = RankRLS(kernel="gaussian").fit(X, P.y, qid=P.qid)
    ranker.save(tmp_path / "m")
    np.testing.assert_array_equal(rankwise.load(tmp_path / "m").predict(X), ranker.predict(X))


def test_column_names_come_back(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(P.X, columns=["a", "b", "c"])
    RankRLS().fit(frame, P.y).save(tmp_path / "m")
    assert rankwise.load(tmp_path / "m").feature_names_in_.tolist() == ["a", "b", "c"]


def test_python_functions_are_not_saved_and_the_old_file_stays(tmp_path):
    RankRLS().fit(P.X, P.y).save(tmp_path / "m")
    before = (tmp_path / "m").read_bytes()
    ranker = RankRLS(kernel=lambda A, B: A @ B.T).fit(P.X, P.y)
    with pytest.raises(InvalidInputError, match="Only built-in values"):
        ranker.save(tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == before


def test_unfitted_rankers_are_not_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        RankRLS().save(tmp_path / "m")


def test_what_is_not_declared_is_not_saved(tmp_path):
    ranker = RankRLS().fit(P.X, P.y)
    ranker.mystery_ = 1
    with pytest.raises(InvalidInputError, match="`mystery_` must be declared to be saved: RankRLS"):
        ranker.save(tmp_path / "m")


def test_what_is_not_declared_is_not_loaded(tmp_path):
    change = set_state("mystery_", 1)
    with pytest.raises(ModelFileError, match="names of fitted attributes .* got 'mystery_'"):
        rankwise.load(changed(tmp_path / "m", RankRLS().fit(P.X, P.y), change))


ESTIMATORS = [
    cls
    for cls in map(rankwise.__getattr__, rankwise.__all__[1:])
    if isinstance(cls, type) and issubclass(cls, BaseEstimator)
]


@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_rules_and_state_of_every_estimator_can_be_read(cls):
    assert all(rule.says for rule in rules_of(cls).values())
    assert list(rules_of(cls)) == list(signature(cls).parameters)
    assert isinstance(state_of(cls), dict)


@pytest.mark.parametrize("name", ["first", "second"])
def test_pairs_of_items_that_are_not_there_are_refused(name, tmp_path):
    writer = StateWriter()
    stored = writer.encode(Incidence.of(np.array([[0, 2], [3, 1]]), 5))
    writer.arrays[stored["fields"][name]["array"]] = np.array([0, 5])
    with pytest.raises(ModelFileError, match=rf"a shape that fits .* value.{name}"):
        StateReader(tmp_path / "m", writer.arrays).decode(stored)


def test_a_model_of_an_unknown_class_is_refused(tmp_path):
    write_model(tmp_path / "m", {"class": "Mystery"}, {"x": np.zeros(1)})
    with pytest.raises(ModelFileError, match="must hold a ranker .* it holds 'Mystery'"):
        rankwise.load(tmp_path / "m")


@pytest.mark.parametrize("name", ["Gaussian", "load", "__version__", None])
def test_what_is_no_ranker_is_not_built(name, tmp_path):
    write_model(tmp_path / "m", {"class": name}, {"x": np.zeros(1)})
    with pytest.raises(ModelFileError, match="must hold a ranker that this version"):
        rankwise.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("value", "match"),
    [
        ({"value": "Mystery", "fields": {}}, "it holds a 'Mystery'"),
        ({"value": "Gaussian", "fields": {"mystery": 1.0}}, "its Gaussian has 'mystery'"),
        ({"value": "Polynomial", "fields": {"degree": 2}}, "expected a Polynomial with"),
    ],
)
def test_a_model_with_an_unknown_value_is_refused(value, match, tmp_path):
    RankRLS(kernel="gaussian").fit(P.X, P.y).save(tmp_path / "m")
    metadata, arrays = read_model(tmp_path / "m")
    metadata["params"]["dict"].append(["kernel", value])
    write_model(tmp_path / "m", metadata, arrays)
    with pytest.raises(ModelFileError, match=match):
        rankwise.load(tmp_path / "m")


def test_a_model_with_an_unknown_parameter_is_refused(tmp_path):
    RankRLS().fit(P.X, P.y).save(tmp_path / "m")
    metadata, arrays = read_model(tmp_path / "m")
    metadata["params"]["dict"].append(["mystery", 1])
    write_model(tmp_path / "m", metadata, arrays)
    with pytest.raises(ModelFileError, match="its RankRLS has 'mystery'"):
        rankwise.load(tmp_path / "m")


def test_a_model_that_gives_other_scores_is_refused(tmp_path):
    RankRLS().fit(P.X, P.y).save(tmp_path / "m")
    metadata, arrays = read_model(tmp_path / "m")
    write_model(tmp_path / "m", metadata, {**arrays, "probe/scores": arrays["probe/scores"] + 1})
    with pytest.raises(ModelFileError, match="must give the scores"):
        rankwise.load(tmp_path / "m")


def test_a_foreign_file_is_refused(tmp_path):
    (tmp_path / "m").write_text("## Coordinate Ascent\n1:0.3 2:-0.5\n")
    with pytest.raises(ModelFileError, match="expected a model saved by rankwise"):
        rankwise.load(tmp_path / "m")


def changed(path, ranker, change):
    """Save a ranker with a changed document, and a checksum that fits it."""
    ranker.save(path)
    metadata, arrays = read_model(path)
    change(metadata, arrays)
    write_model(path, metadata, arrays)
    return path


def csr_node(metadata):
    return dict(metadata["state"]["dict"])["predictor_"]["fields"]["rows"]


@pytest.mark.parametrize(
    "change",
    [
        lambda data, indices, indptr: (data, np.full_like(indices, 10**6), indptr),
        lambda data, indices, indptr: (data, np.full_like(indices, -1), indptr),
        lambda data, indices, indptr: (data, indices, np.full_like(indptr, 2**30)),
        lambda data, indices, indptr: (data, indices, indptr[::-1].copy()),
        lambda data, indices, indptr: (data, indices[:-1], indptr),
        lambda data, indices, indptr: (data[:-1], indices, indptr),
        lambda data, indices, indptr: (data, indices, indptr[:-1]),
        lambda data, indices, indptr: (data, indices.astype(float), indptr),
        lambda data, indices, indptr: (data[None], indices, indptr),
    ],
)
def test_sparse_rows_with_indices_out_of_range_are_refused(change, tmp_path):
    ranker = RankRLS(kernel="gaussian").fit(csr_array(np.where(P.X > 0, P.X, 0)), P.y)

    def break_rows(metadata, arrays):
        names = [part["array"] for part in csr_node(metadata)["csr"]]
        new = change(*(arrays[name] for name in names))
        arrays.update(dict(zip(names, new, strict=True)))

    with pytest.raises(ModelFileError, match=r"indices lie inside .* state.predictor_.rows"):
        rankwise.load(changed(tmp_path / "m", ranker, break_rows))


@pytest.mark.parametrize(
    "shape", [[1, 2, 3], [10**12, 3], [-1, 3], "x", [2.5, 3], [23, 2], [23, 10**20]]
)
def test_sparse_rows_of_another_shape_are_refused(shape, tmp_path):
    ranker = RankRLS(kernel="gaussian").fit(csr_array(np.where(P.X > 0, P.X, 0)), P.y)

    def reshape(metadata, arrays):
        csr_node(metadata)["shape"] = shape

    with pytest.raises(ModelFileError, match=r"field state.predictor_"):
        rankwise.load(changed(tmp_path / "m", ranker, reshape))


@pytest.mark.parametrize("name", ["grid", "values", "standard_errors", "errors", "per_query"])
def test_a_path_whose_columns_differ_in_length_is_refused(name, tmp_path):
    ranker = rankwise.RankRLSCV().fit(P.X, P.y, P.qid)

    def shorten(metadata, arrays):
        path = dict(metadata["state"]["dict"])["path_"]["fields"]
        array = path[name]["array"]
        arrays[array] = arrays[array][:-1]

    with pytest.raises(ModelFileError, match=r"a shape that fits the others .*path_\."):
        rankwise.load(changed(tmp_path / "m", ranker, shorten))


def nested(depth):
    return 1 if depth == 0 else {"list": [nested(depth - 1)], "tuple": False}


def set_state(name, value):
    def change(metadata, arrays):
        entries = dict(metadata["state"]["dict"]) | {name: value}
        metadata["state"]["dict"] = [[key, entry] for key, entry in entries.items()]

    return change


def set_param(name, value):
    def change(metadata, arrays):
        entries = dict(metadata["params"]["dict"]) | {name: value}
        metadata["params"]["dict"] = [[key, entry] for key, entry in entries.items()]

    return change


def set_array(name, value):
    return lambda _, arrays: arrays.update({name: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_state("n_features_in_", 10**12), r"number of columns of the probe .*n_features_in_"),
        (set_state("n_features_in_", "3"), r"field state.n_features_in_"),
        (set_state("coef_", "x"), r"field state.coef_, got 'x'"),
        (set_state("coef_", {"array": "array/9"}), r"name of an array .* field state.coef_"),
        (set_state("predictor_", None), r"field state.predictor_"),
        (set_state("predict", 1), r"names of fitted attributes"),
        (set_state("_private_", 1), r"names of fitted attributes"),
        (set_state("extra_", nested(40)), r"at most 32 nested values"),
        (set_state("extra_", {"list": 3, "tuple": 1}), r"a value as rankwise saves it .*extra_"),
        (set_state("extra_", {"dict": [["a"]]}), r"pairs of a key and a value .*extra_"),
        (set_state("extra_", {"dict": [[nested(1), 1]]}), r"names or numbers as keys .*extra_"),
        (set_state("extra_", {"dict": [["a", 1], ["a", 2]]}), r"every key once .*extra_, got 'a'"),
        (
            set_state("extra_", {"dict": [[{"value": "Identity", "fields": {}}, 1]]}),
            r"names or numbers as keys in field state.extra_, got Identity",
        ),
        (set_state("extra_", {"measure": "NDGC"}), r"field state.extra_ cannot, Unknown measure"),
        (set_param("alpha", "x"), r"what RankRLS takes in field params.alpha, got 'x'"),
        (set_param("cost", "free"), r"field params.cost, got 'free'"),
        (
            set_param("kernel", {"value": "Gaussian", "fields": {"gamma": -1.0}}),
            r"params.kernel cannot, `gamma` must",
        ),
        (
            set_param("kernel", {"value": "Polynomial", "fields": {"degree": "2"}}),
            r"what a Polynomial holds there in field params.kernel.degree",
        ),
        (
            set_param("kernel", {"value": "Expansion", "fields": {}}),
            r"a Expansion with 'kernel' in field params.kernel",
        ),
        (set_array("probe/rows", np.ones((2, 5))), r"number of columns of the probe"),
        (set_array("probe/scores", np.ones(7)), r"must give the scores"),
        (set_array("array/0", np.ones(7)), r"a shape that fits .* state.coef_"),
        (set_array("array/0", np.full(3, np.nan)), r"field state.coef_"),
        (lambda metadata, _: metadata.pop("params"), r"parameters by name in field params"),
        (lambda metadata, _: metadata.pop("state"), r"by name in field state"),
        (lambda _, arrays: arrays.pop("probe/rows"), r"name of an array .* field probe"),
    ],
)
def test_fields_that_do_not_fit_are_named(change, message, tmp_path):
    ranker = RankRLS().fit(P.X, P.y, P.qid)
    with pytest.raises(ModelFileError, match=message):
        rankwise.load(changed(tmp_path / "m", ranker, change))


def pipeline():
    steps = [WithinQueryEncoder([0]), WithinQueryImputer(), RankRLS()]
    return RankerPipeline(steps).fit(P.X, P.y, P.qid)


def step(metadata, number):
    """Return the document of a fitted step of a pipeline."""
    return dict(metadata["state"]["dict"])["steps_"]["list"][number]["estimator"]


def set_step(number, name, value):
    return lambda metadata, arrays: set_state(name, value)(step(metadata, number), arrays)


def array_of_step(number, name, values):
    def change(metadata, arrays):
        found = dict(step(metadata, number)["state"]["dict"])[name]
        first = found if "array" in found else found["list"][0]
        arrays[first["array"]] = values

    return change


WITHOUT_STATE = {"class": "RankRLS", "params": {"dict": []}, "state": {"dict": []}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, _: step(m, 2).update({"class": "Mystery"}), r"it holds 'Mystery'"),
        (lambda m, _: step(m, 2).update({"class": "Gaussian"}), r"it holds 'Gaussian'"),
        (lambda m, _: step(m, 2).pop("params"), r"by name in field state.steps_\[2\].params"),
        (lambda m, _: step(m, 2).update(WITHOUT_STATE), r"can score rows: NotFittedError"),
        (set_state("steps_", {"list": [], "tuple": False}), r"a ranker that can score rows"),
        (set_state("steps_", {"list": [3], "tuple": False}), r"fitted ranker .* state.steps_"),
        (set_state("steps_", {"estimator": 3}), r"a value as rankwise saves it .*steps_"),
        (set_step(2, "predict", 1), r"names of fitted attributes in field state.steps_\[2\].state"),
        (set_step(2, "coef_", "x"), r"field state.steps_\[2\].state.coef_, got 'x'"),
        (set_step(2, "n_features_in_", None), r"field state.steps_\[2\].state.n_features_in_"),
        (set_step(2, "n_features_in_", 4), r"a shape that fits .* state.steps_\[2\].state.coef_"),
        (set_step(2, "training_queries_", 4), r"field state.steps_\[2\].state.training_queries_"),
        (set_step(0, "columns_", {"list": [7], "tuple": False}), r"\[0\].state.columns_"),
        (set_step(0, "columns_", {"list": [], "tuple": False}), r"\[0\].state.categories_"),
        (set_step(0, "columns_", {"list": [-1], "tuple": False}), r"\[0\].state.columns_"),
        (array_of_step(0, "categories_", np.array(["a"])), r"fits .* \[0\].state.codes_"),
        (array_of_step(0, "codes_", np.ones((2, 2))), r"\[0\].state.codes_"),
        (array_of_step(1, "fallback_", np.ones(2)), r"fits .* \[1\].state.fallback_"),
        (array_of_step(1, "indicated_", np.array([3])), r"fits .* \[1\].state.indicated_"),
        (array_of_step(1, "indicated_", np.array([-1])), r"\[1\].state.indicated_"),
        (array_of_step(1, "indicated_", np.array([9], np.uint64)), r"\[1\].state.indicated_"),
    ],
)
def test_steps_inside_a_pipeline_are_checked_like_rankers(change, message, tmp_path):
    with pytest.raises(ModelFileError, match=message.replace(r" \[", r" .*\[")):
        rankwise.load(changed(tmp_path / "m", pipeline(), change))


def test_estimators_deep_inside_each_other_are_refused(tmp_path):
    def wrapped(depth):
        if depth == 0:
            return WITHOUT_STATE
        steps = {"list": [{"estimator": wrapped(depth - 1)}], "tuple": False}
        params = {"dict": [["steps", steps]]}
        return {"class": "RankerPipeline", "params": params, "state": {"dict": []}}

    change = set_param("steps", {"list": [{"estimator": wrapped(20)}], "tuple": False})
    with pytest.raises(ModelFileError, match="at most 32 nested values"):
        rankwise.load(changed(tmp_path / "m", pipeline(), change))


def test_a_ranker_that_cannot_score_is_refused(tmp_path):
    ranker = RankRLS(kernel=Laplacian(1.0)).fit(P.X, P.y, P.qid)
    rows = {"csr": [{"array": f"csr/{k}"} for k in range(3)], "shape": [len(P.X), 3]}

    def make_sparse(metadata, arrays):
        dict(metadata["state"]["dict"])["predictor_"]["fields"]["rows"] = rows
        parts = (np.ones(0), np.zeros(0, np.int32), np.zeros(len(P.X) + 1, np.int32))
        arrays.update({f"csr/{k}": part for k, part in enumerate(parts)})

    with pytest.raises(ModelFileError, match="a ranker that can score rows"):
        rankwise.load(changed(tmp_path / "m", ranker, make_sparse))


def test_a_whole_file_is_not_called_damaged_where_an_extra_is_missing(tmp_path, monkeypatch):
    pytest.importorskip("lightgbm")
    P = problem()
    ranker = rankwise.BoostedRanker(n_trees=3, early_stopping=False, min_samples_leaf=2)
    ranker.fit(P.X, P.y, qid=P.qid).save(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(rankwise.MissingExtraError, match=r"needs lightgbm, which"):
        rankwise.load(tmp_path / "model")
