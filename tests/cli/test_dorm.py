"""``rankwise fit --optimise``: as in Python, and what is refused."""

import json

import numpy as np
import pytest

import rankwise
from rankwise import DORM, DORMCV, evaluate
from rankwise.io import read_scores

VALIDATE = ["--validate", "validation.txt"]


@pytest.fixture
def fit(succeed, tmp_path):
    """Run a fit that must succeed and return its report and its model."""

    def invoke(*arguments):
        printed = succeed("fit", *arguments, "-o", tmp_path / "model", "--json")
        return json.loads(printed), rankwise.load(tmp_path / "model")

    return invoke


def trained(folder, ranker, *, validate=False):
    held_out, data = folder.validation, folder.train
    given = {"X_val": held_out.X, "y_val": held_out.y, "qid_val": held_out.qid} if validate else {}
    return ranker.fit(data.X, data.y, qid=data.qid, **given)


def test_a_measure_is_optimised_as_in_python(fit, folder):
    report, ranker = fit("train.txt", "--optimise", "NDCG @ 3", "--C", 0.5, "--decay", 1)
    expected = trained(folder, DORM("NDCG @ 3", 0.5, decay=1.0, random_state=0))
    np.testing.assert_allclose(ranker.coef_, expected.coef_)
    assert (report["ranker"], report["C"], report["n_queries"]) == ("DORM", 0.5, 8)
    assert report["gap"] <= 1e-3
    assert report["validation"] is None
    assert not ranker.progress


def test_kernels_limits_and_tables_are_understood(succeed, folder, tmp_path):
    options = [
        "--kernel",
        "gaussian",
        "--gamma",
        0.3,
        "--basis",
        9,
        "--tol",
        0.01,
        "--decay",
        "log",
    ]
    model = ["-o", tmp_path / "model", "--y", "rating", "--qid", "city"]
    succeed("fit", "train.csv", "--optimise", "mWTA", *options, *model, "--max-iter", 500)
    succeed("predict", tmp_path / "model", "reordered.csv", "-o", tmp_path / "scores.txt")
    ranker = DORM(
        "mWTA",
        kernel=rankwise.Gaussian(0.3),
        basis=9,
        tol=0.01,
        decay="log",
        max_iter=500,
        random_state=0,
    )
    expected = trained(folder, ranker).predict(folder.test.X)
    np.testing.assert_allclose(read_scores(tmp_path / "scores.txt"), expected, rtol=1e-9)


@pytest.mark.parametrize("validate", [False, True], ids=["folds", "file"])
@pytest.mark.parametrize("grid", ["4", "0.01,0.1,1", "0.01:1:3"])
def test_the_best_of_several_is_chosen(fit, folder, validate, grid):
    arguments = ["--optimise", "NDCG", "--Cs", grid, "--measure", "MAP"]
    report, ranker = fit("train.txt", *arguments, *(VALIDATE if validate else []))
    Cs = 4 if grid == "4" else [0.01, 0.1, 1]
    expected = trained(folder, DORMCV(Cs, scoring="MAP", random_state=0), validate=validate)
    assert ranker.C_ == report["C"] == pytest.approx(expected.C_)
    assert report["validation"]["measure"] == "AP"
    np.testing.assert_allclose(report["validation"]["Cs"], expected.path_.Cs)
    np.testing.assert_allclose(report["validation"]["values"], expected.path_.values)


def test_one_value_is_measured_on_the_validation_file(fit, folder):
    report, _ = fit("train.txt", "--optimise", "Precision @ 2", *VALIDATE)
    ranker = trained(folder, DORM("Precision @ 2", random_state=0))
    scores = ranker.predict(folder.validation.X)
    value = evaluate(folder.validation.y, scores, folder.validation.qid, "Precision @ 2").mean
    assert report["validation"]["measure"] == "Precision @ 2"
    assert report["validation"]["values"] == pytest.approx(value.tolist())


def test_the_report_tells_the_gap_and_the_choice(succeed, tmp_path):
    printed = succeed(
        *("fit", "train.txt", "-o", tmp_path / "model", "--optimise", "NDCG", "--Cs", 3, *VALIDATE)
    )
    ranker = rankwise.load(tmp_path / "model")
    assert f"Trained DORMCV(C={ranker.C_:g}, kernel=Linear()) on 42 items" in printed
    assert f"Optimised NDCG to a gap of {ranker.solution_.gap:.1e} in" in printed
    assert "chosen" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--C", "1"], "--C must come with --optimise: got it alone"),
        (["--Cs", "3"], "--Cs must come with --optimise: got it alone"),
        (["--decay", "1"], "--decay must come with --optimise"),
        (["--tol", "0.1"], "--tol must come with --iterative, --stream or --optimise"),
        (["--optimise", "NDCG", "--alpha", "1"], "--alpha must not come with --optimise"),
        (["--optimise", "NDCG", "--cost", "unit"], "--cost must not come with --optimise"),
        (["--optimise", "NDCG", "--iterative"], "--iterative must not come with --optimise"),
        (["--optimise", "NDCG", "--C", "1", "--Cs", "3"], "Only one of --C and --Cs may be given"),
        (["--optimise", "NDCG", "--C", "big"], "--C must be a number or scale: got 'big'"),
        (["--optimise", "NDCG", "--Cs", "a,b"], "--Cs must read like 0.1,1,10"),
        (["--optimise", "MAP"], "`measure` must add up gains times discounts"),
        (["--optimise", "NDCG", "--decay", "cubic"], "`decay` must be an exponent above 0"),
    ],
)
def test_options_without_sense_are_refused(refuse, tmp_path, arguments, message):
    assert message in refuse("fit", "train.txt", "-o", tmp_path / "model", *arguments)
    assert not (tmp_path / "model").exists()
