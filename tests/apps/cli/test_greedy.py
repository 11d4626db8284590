"""``rankwise fit greedy``: as in Python, with the features and the path printed."""

import numpy as np

import rankwise
from rankwise import NDCG, GreedyRankRLS


def test_options_reach_the_ranker(fit, folder):
    options = ["--n-features", 2, "--alpha", 0.3, "--ties", "keep", "--measure", "NDCG @ 3"]
    report, ranker = fit("greedy", "train.csv", "--qid", "city", "--y", "rating", *options)
    expected = GreedyRankRLS(2, alpha=0.3, ties="keep", measure=NDCG @ 3, random_state=0)
    expected.fit(folder.train.X, folder.train.y, folder.train.qid)
    assert ranker.get_params() == expected.get_params()
    np.testing.assert_array_equal(ranker.features_, expected.features_)
    assert report["features"] == ranker.feature_names_in_[ranker.features_].tolist()
    np.testing.assert_allclose(report["selection"]["values"], expected.path_.values)


def test_features_are_printed_in_the_order_of_their_choice(succeed, tmp_path):
    printed = succeed("fit", "greedy", "train.txt", "-o", tmp_path / "model")
    ranker = rankwise.load(tmp_path / "model")
    names = ", ".join(f"x{at + 1}" for at in ranker.features_)
    assert f"The features, in the order of their choice: {names}." in printed
    assert "Judged on what was left out as the features were chosen" in printed
    assert "end of the grid" not in printed


def test_a_validation_file_measures_the_features(fit, folder):
    report, ranker = fit("greedy", "train.txt", "--n-features", 2, "--validate", "validation.txt")
    held_out = folder.validation
    value = ranker.score(held_out.X, held_out.y, qid=held_out.qid)
    np.testing.assert_allclose(report["selection"]["values"], [value])
