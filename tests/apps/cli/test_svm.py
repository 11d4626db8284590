"""``rankwise fit svm``: as in Python, and what is refused."""

import numpy as np
import pytest

import rankwise
from rankwise import Gaussian, RankSVM, evaluate
from rankwise.io import read_scores, write_table

VALIDATE = ["--validate", "validation.txt"]


def trained(folder, **options):
    ranker = RankSVM(random_state=0, **options)
    return ranker.fit(folder.train.X, folder.train.y, qid=folder.train.qid)


def test_options_reach_the_ranker(succeed, folder, tmp_path):
    succeed(
        *("fit", "svm", "train.txt", "-o", tmp_path / "model", "--C", 0.5, "--loss", "hinge"),
        *("--kernel", "gaussian", "--gamma", 0.3, "--basis", 9, "--cost", "magnitude"),
        *("--query-weight", "equal", "--tol", 1e-3, "--max-iter", 300),
    )
    succeed("predict", tmp_path / "model", "test.txt", "-o", tmp_path / "scores.txt")
    expected = trained(
        folder,
        C=0.5,
        loss="hinge",
        kernel=Gaussian(0.3),
        basis=9,
        cost="magnitude",
        query_weight="equal",
        tol=1e-3,
        max_iter=300,
    )
    assert rankwise.load(tmp_path / "model").get_params() == expected.get_params()
    np.testing.assert_allclose(
        read_scores(tmp_path / "scores.txt"), expected.predict(folder.test.X), rtol=1e-9
    )


def test_the_best_c_of_a_grid_is_chosen_on_the_validation_file(fit, folder):
    grid = [0.001, 0.1, 10.0]
    arguments = ["--Cs", "0.001,0.1,10", *VALIDATE, "--measure", "NDCG @ 3"]
    report, ranker = fit("svm", "train.txt", *arguments)
    path = RankSVM(random_state=0).fit_path(
        folder.train.X, folder.train.y, qid=folder.train.qid, Cs=grid
    )
    held_out = folder.validation
    values = [
        evaluate(held_out.y, one.predict(held_out.X), held_out.qid, "NDCG @ 3")["NDCG @ 3"]
        for one in path
    ]
    np.testing.assert_allclose(report["selection"]["values"], values)
    best = min(C for C, value in zip(grid, values, strict=True) if value == max(values))
    assert report["C"] == ranker.C == best
    np.testing.assert_allclose(ranker.coef_, path[grid.index(best)].coef_)


def test_one_c_is_measured_on_the_validation_file(fit, folder):
    report, ranker = fit("svm", "train.txt", *VALIDATE)
    value = trained(folder).score(
        folder.validation.X, folder.validation.y, qid=folder.validation.qid
    )
    assert report["selection"]["values"] == pytest.approx([value])
    assert (report["ranker"], report["C"]) == ("RankSVM", 1.0)
    assert report["gap"] == ranker.solution_.gap <= 1e-4


def test_the_report_tells_the_gap(succeed, tmp_path):
    printed = succeed("fit", "svm", "train.txt", "-o", tmp_path / "model")
    ranker = rankwise.load(tmp_path / "model")
    assert "Trained RankSVM(C=1, kernel=Linear()) on 42 items" in printed
    assert f"The duality gap is {ranker.solution_.gap:.1e} after {ranker.n_iter_}" in printed


def test_comparisons_equal_python(fit, folder):
    pairs = np.array([[0, 5], [7, 5], [20, 3], [3, 41]])
    write_table(folder / "svm_pairs.csv", {"winner": pairs[:, 0], "loser": pairs[:, 1]})
    report, ranker = fit("svm", "train.txt", "--pairs", "svm_pairs.csv")
    expected = RankSVM(random_state=0).fit(folder.train.X, pairs=pairs)
    np.testing.assert_allclose(ranker.coef_, expected.coef_)
    assert report["n_pairs"] == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--C", "1", "--Cs", "1,2", *VALIDATE], "Only one of --C and --Cs may be given"),
        (["--Cs", "1,2"], "--Cs must come with --validate: got no data to choose on"),
        (["--Cs", "1;2", *VALIDATE], "--Cs must be a list such as 0.1,1,10"),
        (["--measure", "AP"], "--measure must come with --validate"),
        (["--C", "-1"], "--C must be a finite number above 0"),
        (["--pairs", "p.csv", "--query-weight", "items"], "--query-weight must not come with"),
    ],
)
def test_options_without_sense_are_refused(refuse, tmp_path, arguments, message):
    assert message in refuse("fit", "svm", "train.txt", "-o", tmp_path / "model", *arguments)
    assert not (tmp_path / "model").exists()
