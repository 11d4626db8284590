"""``rankwise fit FILE``: the recommended ranker."""

import re
import shutil

import numpy as np
import pytest

from rankwise import AutoRanker, RankRLS, RankRLSCV, evaluate
from rankwise.apps.cli.jobs import parameters
from rankwise.automatic.families import FAMILIES
from rankwise.io import read_scores, write_svmlight
from rankwise.rankers.rls.rank_rls_cv import ALPHAS

VALIDATE = ["--validate", "validation.txt"]


@pytest.mark.parametrize("measure", [None, "Concordance"])
def test_with_queries_the_families_are_tried(fit, folder, measure):
    report, ranker = fit("train.txt", *([] if measure is None else ["--measure", measure]))
    expected = AutoRanker(measure or "NDCG @ 10")
    expected.fit(folder.train.X, folder.train.y, qid=folder.train.qid)
    assert report["ranker"] == "AutoRanker"
    assert report["honest_value"]["measure"] == (measure or "NDCG @ 10")
    assert report["honest_value"]["n_queries"] == expected.honest_value_.n_queries
    scores = ranker.predict(folder.test.X, qid=folder.test.qid)
    np.testing.assert_allclose(scores, expected.predict(folder.test.X, qid=folder.test.qid))


def test_without_queries_pairs_are_left_out(fit, folder, tmp_path):
    path = tmp_path / "flat.txt"
    write_svmlight(path, folder.train.X, folder.train.y)
    report, ranker = fit(path)
    expected = RankRLSCV().fit(folder.train.X, folder.train.y)
    assert report["selection"]["measure"] == "Concordance"
    assert report["selection"]["judged"] == "by leaving out each pair of items in turn"
    assert ranker.alpha_ == expected.alpha_


def test_a_measure_of_rankings_needs_queries(refuse, folder):
    write_svmlight(folder / "flat_train.txt", folder.train.X, folder.train.y)
    line = refuse("fit", "flat_train.txt", "-o", "new.model", "--measure", "NDCG @ 10")
    assert "--measure must be one of Concordance, AUC, " in line
    assert "where each pair of items is left out: got NDCG @ 10" in line
    assert not (folder / "new.model").exists()


def test_a_validation_file_decides(fit, folder):
    report, ranker = fit("train.txt", *VALIDATE)
    path = RankRLS().fit_path(folder.train.X, folder.train.y, qid=folder.train.qid, alphas=ALPHAS)
    held_out = folder.validation
    values = [
        evaluate(held_out.y, scores, held_out.qid, "NDCG @ 10")["NDCG @ 10"]
        for scores in path.predict(held_out.X)
    ]
    np.testing.assert_allclose(report["selection"]["values"], values)
    assert report["alpha"] == ranker.alpha
    assert values[ALPHAS.index(ranker.alpha)] == pytest.approx(max(values))
    np.testing.assert_allclose(ranker.coef_, path[ALPHAS.index(ranker.alpha)].coef_)


def test_what_was_found_is_printed(succeed, tmp_path):
    printed = succeed("fit", "train.txt", "-o", tmp_path / "model")
    assert printed.startswith("NDCG @ 10 on unseen queries: ")
    assert "linear RankRLS with ranks " in printed
    assert "All families were tried." in printed
    assert f"Saved as {tmp_path / 'model'}." in printed


def test_features_are_numbered_as_in_the_file(succeed, folder, tmp_path):
    """LETOR counts from 1, and so does ``explain`` about the same file."""
    X = np.column_stack([np.zeros(len(folder.train.y)), folder.train.y])
    write_svmlight(tmp_path / "letor.txt", X, folder.train.y, folder.train.qid)
    printed = succeed("fit", tmp_path / "letor.txt", "-o", tmp_path / "model")
    assert "The best feature by itself, feature 2" in printed


def test_all_families_were_tried_only_if_they_were(succeed, tmp_path):
    printed = succeed("fit", "train.txt", "-o", tmp_path / "model", "--memory", "200K")
    n_left = printed.count("not tried")
    assert n_left > 0
    assert f"All families were tried but {n_left}" in printed


@pytest.mark.filterwarnings("always::rankwise.FeatureScaleWarning")
def test_advice_about_scales_is_for_the_command_line(run, folder, tmp_path):
    X = folder.train.X * [1.0, 1e8, 1.0]
    write_svmlight(tmp_path / "wide.txt", X, folder.train.y, folder.train.qid)
    said = run("fit", "rls", tmp_path / "wide.txt", "-o", tmp_path / "m").stderr
    assert said.startswith("warning: Features differ in scale")
    assert "rankwise fit, without the name of a ranker, scales them itself." in said
    assert "Pipeline" not in said


def test_time_and_memory_are_limited_by_options(succeed, tmp_path):
    printed = succeed("fit", "train.txt", "-o", tmp_path / "model", "--time-budget", "1e-9")
    assert "The time budget of 1e-09 s ended the search." in printed


def test_a_terminal_hears_about_every_family(run, tmp_path, monkeypatch):
    monkeypatch.setattr(parameters, "is_watched", lambda: True)
    lines = run("fit", "train.txt", "-o", tmp_path / "model").stderr.splitlines()
    assert lines[0] == "at most 300 s left, trying linear RankRLS"
    pattern = (
        r"linear RankRLS: 0\.\d+ in \d+\.\d s; best so far 0\.\d+, at most \d+ s left, trying .*"
    )
    assert re.fullmatch(pattern, lines[1])
    assert lines[-1].endswith("fitting the best to all data")
    assert len(lines) == len(FAMILIES) + 1


@pytest.mark.parametrize(("equal", "said"), [(True, False), (False, True)])
def test_a_wider_grid_is_advised_only_if_the_end_is_better(succeed, folder, tmp_path, equal, said):
    """One feature: all alphas give the same order, and none is better."""
    X = folder.train.X[:, :1] if equal else folder.train.X
    write_svmlight(tmp_path / "flat.txt", X, folder.train.y, folder.train.qid)
    grid = "1,10,100" if equal else "1e-9,1e9"
    printed = succeed("fit", "rls", tmp_path / "flat.txt", "-o", tmp_path / "m", "--alphas", grid)
    assert ("a wider grid may have a better one" in printed) == said


def test_a_table_is_fitted_and_options_may_stand_before_it(succeed, folder, tmp_path):
    model, scores = tmp_path / "model", tmp_path / "scores.txt"
    succeed("fit", "-o", model, "--y", "rating", "train.csv", "--qid", "city")
    succeed("predict", model, "reordered.csv", "-o", scores, "--qid", "city")
    expected = AutoRanker().fit(folder.train.X, folder.train.y, qid=folder.train.qid)
    found = expected.predict(folder.test.X, qid=folder.test.qid)
    np.testing.assert_allclose(read_scores(scores), found)


def test_a_file_with_the_name_of_a_family_is_written_as_a_path(fit, run, tmp_path, folder):
    shutil.copy(folder / "train.txt", folder / "rls")
    report, _ = fit("./rls")
    assert report["ranker"] == "AutoRanker"
    assert run("fit", "rls", "-o", tmp_path / "other").exit_code == 2
