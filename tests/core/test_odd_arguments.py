"""What the fuzzers found, one case each."""

import numpy as np
import pytest

import rankwise
from problems import problem
from rankwise import (
    InvalidInputError,
    RankerPipeline,
    RankRLS,
    RankRLSCV,
    WithinQueryEncoder,
    WithinQueryScaler,
)
from rankwise.io import read_comparisons

P = problem(seed=0, sizes=(4, 3, 5))


ODD_MEASURES = {"bytes": b"NDCG", "number": 3, "array": np.zeros(3), "iterator": iter("a")}


@pytest.mark.parametrize("measure", ODD_MEASURES.values(), ids=ODD_MEASURES)
def test_a_measure_is_a_measure_or_its_name(measure):
    with pytest.raises(InvalidInputError, match="measure"):
        RankRLSCV([0.1, 1.0], measure=measure).fit(P.X, P.y, P.qid)


SWITCHES = [
    (cls, name)
    for cls in (RankRLSCV, rankwise.LinearRankRLS, rankwise.RankSVM, rankwise.DORM)
    for name, value in cls().get_params().items()
    if isinstance(value, bool)
]


@pytest.mark.parametrize("value", [np.arange(3.0), [True], {}], ids=repr)
@pytest.mark.parametrize(("cls", "name"), SWITCHES, ids=str)
def test_a_switch_is_no_array(cls, name, value):
    with pytest.raises(InvalidInputError, match=f"`{name}` must be True or False: got "):
        cls(**{name: value}).fit(P.X, P.y, P.qid)


@pytest.mark.parametrize(
    ("ranker", "message"),
    [
        (RankRLSCV(ties=np.arange(3.0)), "`ties` must be one of 'drop', 'keep'"),
        (rankwise.RankSVM(cost=np.arange(3.0)), "`cost` must be one of 'unit', 'magnitude'"),
        (rankwise.RankSVM(kernel=np.arange(3.0)), "`kernel` must be a name, a kernel or"),
        (rankwise.DORM(kernel=np.arange(3.0)), "`kernel` must be a name, a kernel or"),
    ],
)
def test_an_array_is_no_name(ranker, message):
    with pytest.raises(InvalidInputError, match=message):
        ranker.fit(P.X, P.y, P.qid)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bounds", "`bounds` must map names of hyperparameters"),
        ("flip_rate", "`flip_rate` must lie between 0 and 1 / 2"),
    ],
)
def test_hyperparameters_of_a_process_are_no_arrays(name, message):
    ranker = rankwise.PreferenceGP(**{name: np.arange(3.0)})
    with pytest.raises(InvalidInputError, match=message):
        ranker.fit(P.X, pairs=[[0, 1], [2, 1]])


def test_a_degree_beyond_all_floats_is_refused():
    with pytest.raises(InvalidInputError, match=r"`degree` must be at most 2\*\*31"):
        rankwise.Polynomial(10**400)


def test_a_choice_is_a_text_and_no_array():
    with pytest.raises(InvalidInputError, match="`cost` must be one of"):
        RankRLS(cost=np.ones(3)).fit(P.X, P.y, P.qid)


@pytest.mark.parametrize("transformer", [WithinQueryScaler, WithinQueryEncoder])
def test_numbers_beyond_all_floats_are_refused(transformer):
    with pytest.raises(ValueError, match="fit a float|2D array"):
        transformer().fit(10**400, P.y, qid=P.qid)
    with pytest.raises(InvalidInputError, match="`scores` must hold numbers"):
        rankwise.evaluate(P.y, [10**400] * len(P.y), P.qid)
    with pytest.raises(InvalidInputError, match="`X` must hold numbers that fit a float"):
        rankwise.leave_pair_out_auc(10**400, P.y > 0)


def test_basis_rows_that_span_nothing_are_no_division_by_zero():
    basis = np.full((3, P.X.shape[1]), 1e-320)
    ranker = RankRLSCV([0.1, 1.0], basis=basis).fit(P.X, P.y, P.qid)
    assert np.ptp(ranker.predict(P.X)) == 0.0


def test_the_steps_of_a_pipeline_are_a_list():
    with pytest.raises(InvalidInputError, match="`steps` must end in a ranker"):
        RankerPipeline({"a": RankRLS()}).fit(P.X, P.y, P.qid)


def test_a_number_is_no_path_of_a_model():
    with pytest.raises(TypeError, match="PathLike"):
        rankwise.load(1)  # would read, and close, standard output


def test_comparisons_that_cannot_be_read_are_named(tmp_path):
    path = tmp_path / "matches.csv"
    path.write_text("who,whom\na,b\n")
    with pytest.raises(rankwise.DataFileError, match=r"matches\.csv: Comparisons must"):
        read_comparisons(path)
