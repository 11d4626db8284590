"""``rankwise fit FILE``: the recommended ranker."""

import shutil

import numpy as np
import pytest

from rankwise import AutoRanker, RankRLS, RankRLSCV, evaluate
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
