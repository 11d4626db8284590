"""``rankwise fit dorm``: as in Python, and what is refused."""

import numpy as np
import pytest

import rankwise
from rankwise import DORM, DORMCV, evaluate
from rankwise.io import read_scores

VALIDATE = ["--validate", "validation.txt"]


def trained(folder, ranker, *, validate=False):
    held_out, data = folder.validation, folder.train
    given = {"X_val": held_out.X, "y_val": held_out.y, "qid_val": held_out.qid} if validate else {}
    return ranker.fit(data.X, data.y, qid=data.qid, **given)


def test_a_measure_is_optimised_as_in_python(fit, folder):
    report, ranker = fit("dorm", "train.txt", "--objective", "NDCG @ 3", "--C", 0.5, "--decay", 1)
    expected = trained(folder, DORM("NDCG @ 3", 0.5, decay=1.0, random_state=0))
    np.testing.assert_allclose(ranker.coef_, expected.coef_)
    assert (report["ranker"], report["C"], report["n_queries"]) == ("DORM", 0.5, 8)
    assert report["gap"] <= 1e-3
    assert report["selection"] is None
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
    succeed("fit", "dorm", "train.csv", "--objective", "mWTA", *options, *model, "--max-iter", 500)
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
    arguments = ["--objective", "NDCG", "--Cs", grid, "--measure", "MAP"]
    report, ranker = fit("dorm", "train.txt", *arguments, *(VALIDATE if validate else []))
    Cs = 4 if grid == "4" else [0.01, 0.1, 1]
    expected = trained(folder, DORMCV(Cs, measure="MAP", random_state=0), validate=validate)
    assert ranker.C_ == report["C"] == pytest.approx(expected.C_)
    assert report["selection"]["measure"] == "AP"
    judged = "on validation.txt" if validate else "by five folds of queries"
    assert report["selection"]["judged"] == judged
    np.testing.assert_allclose(report["selection"]["grid"], expected.path_.grid)
    np.testing.assert_allclose(report["selection"]["values"], expected.path_.values)


def test_one_value_is_measured_on_the_validation_file(fit, folder):
    report, _ = fit("dorm", "train.txt", "--objective", "Precision @ 2", *VALIDATE)
    ranker = trained(folder, DORM("Precision @ 2", random_state=0))
    scores = ranker.predict(folder.validation.X)
    value = evaluate(folder.validation.y, scores, folder.validation.qid, "Precision @ 2").mean
    assert report["selection"]["measure"] == "Precision @ 2"
    assert report["selection"]["values"] == pytest.approx(value.tolist())


def test_the_report_tells_the_gap_and_the_choice(succeed, tmp_path):
    printed = succeed(*("fit", "dorm", "train.txt", "-o", tmp_path / "model", "--Cs", 3, *VALIDATE))
    ranker = rankwise.load(tmp_path / "model")
    assert f"Trained DORMCV(C={ranker.C_:g}, kernel=Linear()) on 42 items" in printed
    assert f"The duality gap is {ranker.solution_.gap:.1e} after" in printed
    assert "chosen" in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--C", "1", "--Cs", "3"], "Only one of --C and --Cs may be given"),
        (["--C", "big"], "or 'scale': got 'big'"),
        (["--Cs", "a,b"], "--Cs must be a list such as 0.1,1,10"),
        (["--measure", "AP"], "--measure must come with --validate, or with several values"),
        (["--objective", "MAP"], "--objective must add up gains times discounts"),
        (["--decay", "cubic"], "--decay must be an exponent above 0"),
    ],
)
def test_options_without_sense_are_refused(refuse, tmp_path, arguments, message):
    assert message in refuse("fit", "dorm", "train.txt", "-o", tmp_path / "model", *arguments)
    assert not (tmp_path / "model").exists()
