"""Data as people have them: several files and patterns, JSON lines, index columns, labels, ids."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array

import rankwise
from rankwise.io import read, read_scores, read_table, write_svmlight, write_table

COLUMNS = ["stars", "price", "age"]
TABLE = ["--y", "rating", "--qid", "city"]


def parts_of(folder, suffix, data, n_parts=3):
    """Write the rows of a problem to several files, torn inside queries."""
    paths = []
    for number, rows in enumerate(np.array_split(np.arange(len(data.y)), n_parts)):
        path = folder / f"part-{number}.{suffix}"
        if suffix == "txt":
            write_svmlight(path, data.X[rows], data.y[rows], data.qid[rows])
        else:
            columns = dict(zip(COLUMNS, data.X[rows].T, strict=True))
            write_table(path, {"city": data.qid[rows], **columns, "rating": data.y[rows]})
        paths.append(path)
    return paths


@pytest.mark.parametrize("suffix", ["csv", "txt", "jsonl", "parquet"])
@pytest.mark.parametrize("pattern", [True, False])
def test_several_files_are_one(run, folder, tmp_path, suffix, pattern):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    options = [] if suffix == "txt" else TABLE
    paths = parts_of(tmp_path, suffix, folder.train)
    given = [tmp_path / f"part-*.{suffix}"] if pattern else paths
    model = tmp_path / "model"
    result = run("fit", "rls", *given, "-o", model, *options)
    assert result.exit_code == 0, result.output
    expected = rankwise.RankRLS().fit(folder.train.X, folder.train.y, qid=folder.train.qid)
    np.testing.assert_allclose(rankwise.load(model).coef_, expected.coef_, rtol=1e-9)
    # predict, evaluate and the recommended fit read them too
    scores = tmp_path / "scores.out"
    assert run("predict", model, *given, "-o", scores, *options[2:]).exit_code == 0
    np.testing.assert_allclose(read_scores(scores), expected.predict(folder.train.X), rtol=1e-8)
    measured = run("evaluate", *given, scores, "--json", *options)
    assert json.loads(measured.stdout)["n_queries"] == len(np.unique(folder.train.qid))
    assert run("fit", *paths, "-o", model, *options, "--time-budget", "1e-9").exit_code == 0


def test_a_pattern_that_matches_nothing_is_refused(refuse, tmp_path):
    line = refuse("fit", "rls", tmp_path / "no-*.csv", "-o", tmp_path / "m")
    assert "no-*.csv: expected files that match this pattern, got none" in line


def test_a_wrong_command_is_still_recognised(run):
    result = run("fit", "rsl", "train.txt", "-o", "m")
    assert "No such command 'rsl'. Did you mean 'rls'" in result.stderr


def test_files_of_which_one_has_no_queries_are_refused(refuse, folder, tmp_path):
    write_table(tmp_path / "a.csv", {"qid": [1, 1, 2], "x": [1, 2, 3], "y": [0, 1, 0]})
    write_table(tmp_path / "b.csv", {"x": [1, 2, 3], "y": [0, 1, 0]})
    line = refuse("fit", "rls", tmp_path / "a.csv", tmp_path / "b.csv", "-o", tmp_path / "m")
    assert "must have the column 'qid'" in line
    write_svmlight(tmp_path / "a.txt", np.eye(3), [0, 1, 2], [1, 1, 1])
    write_svmlight(tmp_path / "b.txt", np.eye(3), [0, 1, 2])
    line = refuse("fit", "rls", tmp_path / "a.txt", tmp_path / "b.txt", "-o", tmp_path / "m")
    assert "expected --qid in all files or in none, got none here" in line


def test_svmlight_files_with_fewer_features_and_zeros_are_joined(tmp_path):
    (tmp_path / "a.txt").write_text("1 1:5\n2 1:3\n")
    (tmp_path / "b.txt").write_text("1 0:1 3:2\n")
    found = read([tmp_path / "a.txt", tmp_path / "b.txt"])
    np.testing.assert_array_equal(
        csr_array(found.X).toarray(), [[0, 5, 0, 0], [0, 3, 0, 0], [1, 0, 0, 2]]
    )
    assert found.zero_based is True


def test_stream_reads_one_file(refuse, folder, tmp_path):
    paths = parts_of(tmp_path, "txt", folder.train)
    line = refuse("fit", "linear", *paths, "-o", tmp_path / "m", "--stream")
    assert "--stream must come with one file" in line


@pytest.mark.parametrize("name", ["__index_level_0__", "Unnamed: 0", ""])
def test_the_index_of_a_data_frame_is_left_out_with_a_note(run, folder, tmp_path, name):
    number = np.arange(len(folder.train.y))
    columns = dict(zip(COLUMNS, folder.train.X.T, strict=True))
    table = {name: number, "city": folder.train.qid, **columns, "rating": folder.train.y}
    write_table(tmp_path / "a.csv", table)
    result = run("fit", "rls", tmp_path / "a.csv", "-o", tmp_path / "m", *TABLE)
    assert result.exit_code == 0, result.output
    assert f"left out {name or 'Unnamed: 0'} (the index of a data frame)" in result.stdout
    assert rankwise.load(tmp_path / "m").n_features_in_ == len(COLUMNS)


def test_json_lines_are_read_as_they_are_written(tmp_path):
    path = tmp_path / "a.jsonl.gz"
    write_table(path, {"qid": ["a", "b"], "x": [1.5, 2.0], "kind": ["s", "t"], "y": [1, 0]})
    data = read_table(path, categories="auto")
    assert data.feature_names == ["x", "kind"]
    assert data.columns.categories == ("kind",)
    assert data.X.tolist() == [[1.5, "s"], [2.0, "t"]]
    assert (data.qid.tolist(), data.y.tolist()) == (["a", "b"], [1.0, 0.0])


# Labels and groups

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
ILL = X[:, 0] + RNG.normal(size=40) > 0
PATIENT = [f"p{number // 2}" for number in range(40)]


def write_patients(path, labels):
    columns = {"crp": X[:, 0], "age": X[:, 1], "patient": PATIENT, "ill": labels}
    write_table(path, columns)


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        (np.where(ILL, "yes", "no"), ["--positive", "yes"]),
        (np.where(ILL, "a ill", "b well"), ["--positive", "A ill"]),
        (np.where(ILL, 2, 1), ["--positive", "2.0"]),
        (ILL, []),
        (ILL, ["--positive", "true"]),
    ],
)
def test_labels_are_read_everywhere(run, folder, tmp_path, labels, options):
    write_patients(tmp_path / "p.csv", labels)
    given = [tmp_path / "p.csv", "--y", "ill", "--drop", "patient", *options]
    found = run("leave-pair-out", *given, "--json")
    expected = rankwise.leave_pair_out(rankwise.RankRLS(ties="keep"), X, ILL.astype(int))
    numbers = json.loads(found.stdout)
    assert numbers == pytest.approx({name: getattr(expected, name) for name in numbers})
    found = run("permutation-test", *given, "--n-permutations", 9, "--json")
    assert json.loads(found.stdout)["value"] == pytest.approx(expected.value)
    assert run("fit", *given, "-o", tmp_path / "m").exit_code == 0
    expected = rankwise.RankRLSCV().fit(X, ILL.astype(int))
    np.testing.assert_allclose(rankwise.load(tmp_path / "m").coef_, expected.coef_)
    assert run("predict", tmp_path / "m", tmp_path / "p.csv", "-o", tmp_path / "s").exit_code == 0
    measured = run("evaluate", tmp_path / "p.csv", tmp_path / "s", "--y", "ill", *options, "--json")
    assert measured.exit_code == 0, measured.output


def test_a_label_that_is_not_there_is_refused(refuse, tmp_path):
    write_patients(tmp_path / "p.csv", np.where(ILL, "yes", "no"))
    line = refuse("leave-pair-out", tmp_path / "p.csv", "--y", "ill", "--positive", "yess")
    assert "must have the label --positive in the column 'ill': got 'yess'" in line
    assert "Did you mean 'yes'?" in line


def test_groups_are_left_out_together(run, refuse, tmp_path):
    write_patients(tmp_path / "p.csv", ILL)
    given = [tmp_path / "p.csv", "--y", "ill", "--group", "patient"]
    found = json.loads(run("leave-pair-out", *given, "--alpha", 2, "--json").stdout)
    model = rankwise.RankRLS(2.0, ties="keep")
    expected = rankwise.leave_pair_out(model, X, ILL.astype(int), PATIENT)
    assert found["value"] == pytest.approx(expected.value)
    result = run("permutation-test", *given, "--n-permutations", 3, "--json")
    assert 0 < json.loads(result.stdout)["pvalue"] <= 1
    result = run("fit", *given, "-o", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert "by leaving out each pair of groups in the column 'patient'" in result.stdout
    saved = rankwise.load(tmp_path / "m")
    assert (saved.n_features_in_, saved.cv) == (2, "leave_pair_out")
    model = rankwise.RankRLS(saved.alpha_)
    expected = rankwise.leave_pair_out(model, X, ILL.astype(int), PATIENT)
    assert saved.held_out_value_ == pytest.approx(expected.value)
    line = refuse("permutation-test", *given, "--alphas", "1,2")
    assert "--group must come without --measure and --alphas" in line
    assert "must have the column" in refuse("leave-pair-out", *given[:-1], "doctor")
    line = refuse("fit", "train.txt", "-o", tmp_path / "m", "--group", "patient")
    assert "must name columns of a table" in line


def write_visits(path, labels=ILL):
    """Write two visits a patient, with text, blanks, dates and money beside what says."""
    crp = [f"{value:.3f}" if row % 7 else "" for row, value in enumerate(X[:, 0])]
    columns = {
        "patient": PATIENT,
        "crp": crp,
        "sex": ["f" if number % 3 else "m" for number in range(40)],
        "cost": [f"${100 * abs(value):,.2f}" for value in X[:, 1]],
        "seen": [f"2024-0{1 + number % 9}-15" for number in range(40)],
        "ill": labels,
    }
    write_table(path, columns)


@pytest.mark.parametrize("labels", [np.where(ILL, "yes", "no"), ILL], ids=["text", "bool"])
def test_text_and_blanks_keep_the_closed_forms_of_small_samples(run, tmp_path, labels):
    write_visits(tmp_path / "p.csv", labels)
    given = [tmp_path / "p.csv", "--y", "ill", "--drop", "patient"]
    given += ["--positive", "yes"] if labels.dtype.kind == "U" else []
    label = "yes" if labels.dtype.kind == "U" else "true"
    data = read_table(
        tmp_path / "p.csv", y="ill", drop="patient", categories="auto", positive=label
    )
    rows = rankwise.IndicatorEncoder().fit_transform(data.X)
    expected = rankwise.leave_pair_out(rankwise.RankRLS(ties="keep"), rows, ILL)
    found = run("leave-pair-out", *given, "--json")
    assert json.loads(found.stdout)["value"] == pytest.approx(expected.value)
    said = run("leave-pair-out", *given).stdout
    assert "categories in sex; cost as numbers (decimal points, $)" in said
    assert "Categories are indicators, blanks are means with an indicator" in said
    found = run("permutation-test", *given, "--n-permutations", 9, "--json")
    assert json.loads(found.stdout)["value"] == pytest.approx(expected.value)
    # the fit leaves out the same pairs, and takes the same table to rank
    result = run("fit", *given, "-o", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert "by leaving out each pair of items in turn" in result.stdout
    assert "Trained RankRLSCV" in result.stdout
    inner = rankwise.load(tmp_path / "m").steps_[-1]
    assert inner.held_out_value_ == rankwise.RankRLSCV().fit(rows, ILL).held_out_value_
    for command in (["predict"], ["explain"]):
        result = run(*command, tmp_path / "m", tmp_path / "p.csv")
        assert result.exit_code == 0, result.output


def test_a_report_leaves_out_whole_patients(run, tmp_path):
    write_visits(tmp_path / "p.csv")
    given = [tmp_path / "p.csv", "--y", "ill", "--group", "patient"]
    assert run("fit", *given, "-o", tmp_path / "m").exit_code == 0
    result = run("report", tmp_path / "m", tmp_path / "p.csv", "-o", tmp_path / "r.html")
    assert result.exit_code == 0, result.output
    inner, page = rankwise.load(tmp_path / "m").steps_[-1], (tmp_path / "r.html").read_text()
    assert "retrained without each pair, and without the other items of their groups" in page
    data = read_table(tmp_path / "p.csv", y="ill", drop="patient", categories="auto")
    rows = rankwise.IndicatorEncoder().fit_transform(data.X)
    expected = rankwise.leave_pair_out(rankwise.RankRLS(inner.alpha_), rows, ILL, PATIENT)
    assert f"{expected.value:.3f}" in page
    assert "p12" not in page  # neither the page nor the model says who took part
    assert b"p12" not in (tmp_path / "m").read_bytes()


# Ids


def test_scores_of_queries_are_not_judged_as_one_ranking(run, folder, tmp_path):
    """The data file names items and no queries: those of the scores count."""
    names = [f"d{row}" for row in range(len(folder.test.y))]
    write_table(tmp_path / "data.csv", {"item": names, "y": folder.test.y})
    scored = {"query": folder.test.qid, "item": names, "score": folder.test.X[:, 0]}
    write_table(tmp_path / "scores.csv", scored)
    found = json.loads(
        run("evaluate", tmp_path / "data.csv", tmp_path / "scores.csv", "--json").stdout
    )
    expected = rankwise.evaluate(folder.test.y, folder.test.X[:, 0], folder.test.qid)
    assert found["n_queries"] == expected.n_queries > 1
    assert found == expected.to_dict()


def test_text_ids_that_repeat_are_no_names_of_items(refuse, run, tmp_path):
    races = [f"2015-{number // 4}" for number in range(40)]
    columns = {"race_id": races, "kind": ["a", "b"] * 20, "odds": X[:, 0], "y": X[:, 1]}
    write_table(tmp_path / "races.csv", columns)
    line = refuse("fit", tmp_path / "races.csv", "-o", tmp_path / "m")
    assert "the column 'race_id' looks like an id of queries" in line
    assert "--qid 'race_id'" in line


def test_numbers_are_categories_if_asked(run, folder, tmp_path):
    brand = folder.train.X[:, 0].round().astype(int)
    columns = {"qid": folder.train.qid, "brand_id": brand, "price": folder.train.X[:, 1]}
    write_table(tmp_path / "shop.csv", {**columns, "y": folder.train.y})
    given = ["fit", tmp_path / "shop.csv", "-o", tmp_path / "m", "--time-budget", "1e-9"]
    assert "looks like an id" in run(*given).stderr
    result = run(*given, "--categories", "brand_id")
    assert result.exit_code == 0, result.output
    model = rankwise.load(tmp_path / "m")
    assert model.table_columns_["categories"] == ["brand_id"]
    result = run("predict", tmp_path / "m", tmp_path / "shop.csv")
    assert result.exit_code == 0, result.output
