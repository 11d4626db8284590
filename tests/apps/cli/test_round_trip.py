"""From a data file to a model, to scores, to measures: as in Python."""

import json

import numpy as np
import pytest

import rankwise
from rankwise import Gaussian, Polynomial, RankerPipeline, RankRLS, WithinQueryScaler, evaluate
from rankwise.io import read_scores, read_table, write_svmlight, write_table

TABLE = ["--y", "rating", "--qid", "city"]


def fitted(folder, **options):
    return RankRLS(**options).fit(folder.train.X, folder.train.y, qid=folder.train.qid)


@pytest.mark.parametrize("suffix", ["txt", "txt.gz"])
def test_letor_file_to_measures_equals_python(succeed, folder, tmp_path, suffix):
    model, scores = tmp_path / "model", tmp_path / f"scores.{suffix}"
    assert "Saved as" in succeed("fit", "rls", f"train.{suffix}", "-o", model, "--alpha", 0.5)
    assert "42 scores written" in succeed("predict", model, f"test.{suffix}", "-o", scores)
    expected = fitted(folder, alpha=0.5).predict(folder.test.X)
    np.testing.assert_allclose(read_scores(scores), expected, rtol=1e-12)
    printed = succeed("evaluate", f"test.{suffix}", scores, "-m", "NDCG @ 10", "-m", "KendallTau")
    names = ["NDCG @ 10", "KendallTau"]
    assert printed.strip() == str(evaluate(folder.test.y, expected, folder.test.qid, names))


def test_scores_on_standard_output_equal_those_in_a_file(succeed, tmp_path):
    succeed("fit", "rls", "train.txt", "-o", tmp_path / "model")
    succeed("predict", tmp_path / "model", "test.txt", "-o", tmp_path / "scores.txt")
    printed = succeed("predict", tmp_path / "model", "test.txt")
    assert printed == (tmp_path / "scores.txt").read_text()


def test_file_that_lacks_the_last_features_is_scored_with_zeros(succeed, folder, tmp_path):
    succeed("fit", "rls", "train.txt", "-o", tmp_path / "model")
    short = folder.test.X[:, :1]
    write_svmlight(tmp_path / "short.txt", short, folder.test.y)
    succeed("predict", tmp_path / "model", tmp_path / "short.txt", "-o", tmp_path / "scores.txt")
    filled = np.hstack([short, np.zeros((len(short), 2))])
    expected = fitted(folder).predict(filled)
    np.testing.assert_allclose(read_scores(tmp_path / "scores.txt"), expected, rtol=1e-12)


def test_validation_file_that_lacks_the_last_features_is_measured(fit, folder, tmp_path):
    short = folder.validation.X[:, :1]
    write_svmlight(tmp_path / "short.txt", short, folder.validation.y, folder.validation.qid)
    report, _ = fit("rls", "train.txt", "--validate", tmp_path / "short.txt")
    filled = np.hstack([short, np.zeros((len(short), 2))])
    value = fitted(folder).score(filled, folder.validation.y, qid=folder.validation.qid)
    assert report["selection"]["values"] == pytest.approx([value])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_table_to_measures_equals_python(succeed, folder, tmp_path, suffix):
    model, scores = tmp_path / "model", tmp_path / "scores.txt"
    succeed("fit", "rls", f"train.{suffix}", "-o", model, *TABLE)
    succeed("predict", model, f"test.{suffix}", "-o", scores, *TABLE)
    expected = fitted(folder).predict(folder.test.X)
    np.testing.assert_allclose(read_scores(scores), expected, rtol=1e-12)
    report = json.loads(succeed("evaluate", f"test.{suffix}", scores, *TABLE, "--json"))
    assert report == evaluate(folder.test.y, expected, folder.test.qid).to_dict()


def test_columns_of_a_table_are_found_by_the_names_in_the_model(succeed, tmp_path):
    succeed("fit", "rls", "train.csv", "-o", tmp_path / "model", *TABLE)
    printed = succeed("predict", tmp_path / "model", "reordered.csv", *TABLE)
    assert printed == succeed("predict", tmp_path / "model", "test.csv", *TABLE)


def test_chosen_columns_are_the_features(succeed, folder, tmp_path):
    model = tmp_path / "model"
    succeed("fit", "rls", "train.csv", "-o", model, *TABLE, "--features", "age, stars")
    expected = RankRLS().fit(folder.train.X[:, [2, 0]], folder.train.y, qid=folder.train.qid)
    loaded = rankwise.load(model)
    np.testing.assert_allclose(loaded.coef_, expected.coef_, rtol=1e-12)
    assert loaded.feature_names_in_.tolist() == ["age", "stars"]


def test_table_without_scores_can_be_predicted(succeed, folder, tmp_path):
    succeed("fit", "rls", "train.csv", "-o", tmp_path / "model", *TABLE)
    names = ["stars", "price", "age"]
    write_table(tmp_path / "new.csv", dict(zip(names, folder.test.X.T, strict=True)))
    printed = succeed("predict", tmp_path / "model", tmp_path / "new.csv")
    assert printed == succeed("predict", tmp_path / "model", "test.csv", *TABLE)


def test_rankers_that_compare_the_rows_of_a_query_are_given_the_queries(
    succeed, run, folder, tmp_path
):
    train, test = folder.train, folder.test
    ranker = RankerPipeline([WithinQueryScaler(), RankRLS()]).fit(train.X, train.y, qid=train.qid)
    ranker.save(tmp_path / "model")
    printed = succeed("predict", tmp_path / "model", "test.txt")
    expected = ranker.predict(test.X, qid=test.qid)
    np.testing.assert_allclose([float(line) for line in printed.split()], expected, atol=1e-12)
    write_svmlight(tmp_path / "none.txt", test.X, test.y)
    refused = run("predict", tmp_path / "model", tmp_path / "none.txt")
    assert refused.exit_code != 0
    assert "must be given" in refused.output


def test_zero_based_features_are_read_as_told(succeed, folder, tmp_path):
    succeed("fit", "rls", "train.txt", "-o", tmp_path / "model")
    path = tmp_path / "zero.txt"
    path.write_text("0 1:2.0\n0 2:-1.5\n")
    printed = succeed("predict", tmp_path / "model", path, "--zero-based")
    expected = fitted(folder).predict([[0.0, 2.0, 0.0], [0.0, 0.0, -1.5]])
    np.testing.assert_allclose([float(line) for line in printed.split()], expected, rtol=1e-12)


def test_options_of_fit_reach_the_ranker(succeed, folder, tmp_path):
    model = tmp_path / "model"
    succeed(
        *("fit", "rls", "train.txt", "-o", model, "--alpha", 0.25, "--kernel", "gaussian"),
        *("--gamma", 0.5, "--cost", "unit", "--query-weight", "equal", "--basis", 7),
        *("--random-state", 3),
    )
    options = {
        "alpha": 0.25,
        "kernel": Gaussian(0.5),
        "cost": "unit",
        "ties": "drop",
        "query_weight": "equal",
        "basis": 7,
        "random_state": 3,
        "device": None,
        "solver": "auto",
    }
    loaded = rankwise.load(model)
    assert loaded.get_params() == options
    expected = fitted(folder, **options).predict(folder.test.X)
    np.testing.assert_allclose(loaded.predict(folder.test.X), expected, rtol=1e-9)


def test_ties_and_polynomial_reach_the_ranker(succeed, tmp_path):
    kernel = ["--kernel", "polynomial", "--degree", 2, "--gamma", 0.1, "--coef0", 0.5]
    succeed("fit", "rls", "train.txt", "-o", tmp_path / "model", "--ties", "keep", *kernel)
    loaded = rankwise.load(tmp_path / "model")
    assert loaded.kernel == Polynomial(degree=2, gamma=0.1, coef0=0.5)
    assert loaded.ties == "keep"


@pytest.mark.parametrize("measure", ["Concordance", "NDCG @ 3", "Disagreement"])
def test_chosen_alpha_is_the_best_on_the_validation_file(fit, folder, measure):
    alphas = [0.01, 1.0, 100.0, 1e4]
    grid = ["--alphas", "1e-2:1e4:4", "--validate", "validation.txt", "--measure", measure]
    report, ranker = fit("rls", "train.txt", *grid)
    held_out = folder.validation
    values = [
        evaluate(held_out.y, fitted(folder, alpha=a).predict(held_out.X), held_out.qid, measure)[
            measure
        ]
        for a in alphas
    ]
    assert report["selection"]["grid"] == pytest.approx(alphas)
    assert report["selection"]["values"] == pytest.approx(values)
    best = min(values) if measure == "Disagreement" else max(values)
    largest = max(a for a, value in zip(alphas, values, strict=True) if value == best)
    assert report["alpha"] == ranker.alpha == pytest.approx(largest)
    assert report["selection"]["judged"] == "on validation.txt"


def test_without_a_validation_file_queries_are_left_out(fit, folder):
    grid = ["--alphas", "0.01,1,100", "--measure", "NDCG @ 3"]
    report, ranker = fit("rls", "train.txt", *grid)
    search = rankwise.RankRLSCV([0.01, 1.0, 100.0], measure="NDCG @ 3")
    search.fit(folder.train.X, folder.train.y, qid=folder.train.qid)
    assert report["selection"]["values"] == pytest.approx(search.path_.values.tolist())
    assert report["selection"]["judged"] == "by leaving out each query in turn"
    assert report["alpha"] == search.alpha_
    assert report["ranker"] == "RankRLSCV"
    np.testing.assert_allclose(ranker.predict(folder.test.X), search.predict(folder.test.X))


def test_choice_of_alpha_is_printed_as_a_table(succeed, tmp_path):
    grid = ["--alphas", "0.1,1,10", "--validate", "validation.txt"]
    lines = succeed("fit", "rls", "train.txt", "-o", tmp_path / "model", *grid).splitlines()
    assert lines[0].split() == ["alpha", "Concordance"]
    assert [line.split()[0] for line in lines[1:4]] == ["0.1", "1", "10"]
    assert sum("chosen" in line for line in lines) == 1 + sum("at an end" in line for line in lines)


def test_summary_counts_items_features_and_queries(fit, succeed, folder, tmp_path):
    report, ranker = fit("rls", "train.txt")
    assert (report["n_items"], report["n_features"]) == folder.train.X.shape
    assert report["n_queries"] == ranker.n_queries_ == 8
    assert report["n_ignored_queries"] == ranker.n_ignored_queries_ >= 1
    assert report["selection"] is None
    printed = succeed("fit", "rls", "train.txt", "-o", tmp_path / "model")
    assert "42 items, 3 features, 8 queries" in printed
    assert "held no preference" in printed


def test_values_by_query_are_written_to_a_table(succeed, folder, tmp_path):
    path = tmp_path / "values.csv"
    succeed("evaluate", "test.txt", "scores.txt", "-m", "RR", "--per-query", path)
    measured = evaluate(folder.test.y, folder.test.X[:, 0], folder.test.qid, "RR")
    lines = path.read_text().splitlines()
    assert lines[0].split(",")[0] == "qid"
    assert len(lines) == 9
    values = np.array([float(line.rsplit(",", 1)[1]) for line in lines[1:]])
    np.testing.assert_array_equal(values, measured.values[:, 0])


def test_preset_follows_the_tool(succeed, folder):
    printed = succeed(
        "evaluate", "test.txt", "scores.txt", "-m", "NDCG @ 5", "--preset", "lightgbm", "--json"
    )
    measure = rankwise.parse_measure("NDCG @ 5", preset="lightgbm")
    value = evaluate(folder.test.y, folder.test.X[:, 0], folder.test.qid, measure)[measure]
    assert json.loads(printed)["measures"][repr(measure)]["mean"] == pytest.approx(value)


def test_tables_of_the_fixture_hold_the_same_rows(folder):
    table = read_table(folder / "test.csv", y="rating", qid="city")
    np.testing.assert_array_equal(table.X, folder.test.X)
