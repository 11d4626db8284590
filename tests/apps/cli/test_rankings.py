"""Scores and rankings in files: written by suffix, read back and matched by names."""

import re

import numpy as np
import pytest

import rankwise
from rankwise.apps.cli.app import as_options
from rankwise.apps.cli.jobs.files import columns_chosen
from rankwise.apps.cli.output import duration
from rankwise.io import RankedItems, read_ranked, read_table, write_svmlight, write_table

SUFFIXES = [".csv", ".tsv", ".csv.gz", ".parquet", ".jsonl", ".run"]


@pytest.fixture(scope="module")
def named(folder):
    """Write the test data with a name for each item, and the same in another order."""
    table = read_table(folder / "test.csv", y="rating", qid="city")
    names = np.array([f"hotel {i:02d}".replace(" ", "_") for i in range(table.n_items)])
    columns = dict(zip(table.feature_names, table.X.T, strict=True))
    given = {"doc_id": names, "city": table.qid, **columns, "rating": table.y}
    write_table(folder / "named.csv", given)
    order = np.random.default_rng(0).permutation(table.n_items)
    write_table(folder / "shuffled.csv", {name: values[order] for name, values in given.items()})
    return names


@pytest.fixture
def model(succeed, tmp_path):
    path = tmp_path / "model"
    succeed("fit", "rls", "train.csv", "-o", path, "--y", "rating", "--qid", "city")
    return path


COLUMNS = ("--qid", "city", "--y", "rating")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_scores_are_matched_by_name_in_any_order(succeed, named, model, tmp_path, suffix):
    scores = tmp_path / f"scores{suffix}"
    printed = succeed("predict", model, "named.csv", *COLUMNS, "-o", scores)
    assert "42 scores written" in printed
    succeed("predict", model, "named.csv", *COLUMNS, "-o", tmp_path / "scores.txt")
    by_place = succeed("evaluate", "named.csv", tmp_path / "scores.txt", *COLUMNS)
    for data in ("named.csv", "shuffled.csv"):
        assert succeed("evaluate", data, scores, *COLUMNS) == by_place
    ranked = read_ranked(scores)
    assert sorted(ranked.items.tolist()) == sorted(named.tolist())


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_without_names_rows_are_counted(succeed, model, tmp_path, suffix):
    scores = tmp_path / f"scores{suffix}"
    succeed("predict", model, "test.csv", *COLUMNS, "-o", scores)
    succeed("predict", model, "test.csv", *COLUMNS, "-o", tmp_path / "scores.txt")
    first = succeed("evaluate", "test.csv", tmp_path / "scores.txt", *COLUMNS)
    assert succeed("evaluate", "test.csv", scores, *COLUMNS) == first


def test_names_come_from_the_comments_of_letor_files(succeed, folder, tmp_path):
    test = folder.test
    names = [f"GX{i:03d}" for i in range(len(test.y))]
    comments = [f"docid = {name} inc = 1" for name in names]
    write_svmlight(tmp_path / "letor.txt", test.X, test.y, test.qid, comments)
    succeed("fit", "rls", "train.txt", "-o", tmp_path / "model")
    succeed("predict", tmp_path / "model", tmp_path / "letor.txt", "-o", tmp_path / "a.csv")
    assert read_ranked(tmp_path / "a.csv").items.tolist() == names


def test_rank_puts_the_best_first(succeed, folder, named, model, tmp_path):
    succeed("rank", model, "named.csv", *COLUMNS, "--top", 2, "-o", tmp_path / "top.csv")
    lines = (tmp_path / "top.csv").read_text().splitlines()
    assert lines[0] == "query,item,rank,score"
    data = read_table(folder / "named.csv", y="rating", qid="city", drop="doc_id")
    with columns_chosen():
        order = rankwise.load(model).rank(data.X, qid=data.qid, k=2)
    assert [line.split(",")[1] for line in lines[1:]] == named[order].tolist()
    printed = succeed("rank", model, "named.csv", *COLUMNS, "--top", 2)
    assert [line.split()[1] for line in printed.splitlines()[1:]] == named[order].tolist()


def test_diverse_rankings(succeed, refuse, folder, named, model, tmp_path):
    table = read_table(folder / "named.csv", features=["stars", "price", "age"], item="doc_id")
    sources = np.where(np.arange(table.n_items) % 3 == 0, "a", "b")
    columns = dict(zip(table.feature_names, table.X.T, strict=True))
    qid = read_table(folder / "test.csv", qid="city").qid
    write_table(folder / "sourced.csv", {"chain": sources, "id": table.items, "q": qid, **columns})
    dorm = tmp_path / "dorm"
    succeed("fit", "dorm", "train.csv", "-o", dorm, "--qid", "city", "--y", "rating")
    options = ("--qid", "q", "--sources", "chain", "--n-diverse", 2)
    succeed("rank", dorm, "sourced.csv", *options, "-o", tmp_path / "a.csv")
    ranked = read_ranked(tmp_path / "a.csv")
    with columns_chosen():
        order = rankwise.load(dorm).predict_diverse(table.X, sources, 2, qid=qid)
    assert ranked.items.tolist() == table.items[order].tolist()
    assert "must come with a model of fit dorm" in refuse("rank", model, "sourced.csv", *options)
    line = refuse("rank", dorm, "test.txt", "--sources", "chain")
    assert "--sources must name a column of a table" in line
    line = refuse("rank", dorm, "sourced.csv", "--n-diverse", 2, "--qid", "q")
    assert "--n-diverse must come with --sources" in line


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"item": ["x"], "score": [1.0]}, "must hold the same items.*no score for"),
        ({"row": [0], "score": [1.0]}, "must hold the same items"),
        ({"row": [0.5], "score": [1.0]}, "expected row numbers"),
        ({"item": ["x", "x"], "score": [1.0, 2.0]}, "must hold each item once"),
        ({"item": ["x"], "points": [1.0]}, "must have the column 'score'"),
    ],
)
def test_files_that_do_not_belong_together_are_refused(refuse, named, tmp_path, columns, message):
    write_table(tmp_path / "scores.csv", columns)
    line = refuse("evaluate", "named.csv", tmp_path / "scores.csv", *COLUMNS)
    assert re.search(message, line)


def test_scores_of_other_items_are_refused(refuse, named, tmp_path):
    extra = np.append(named, "another")
    write_table(tmp_path / "scores.csv", {"item": extra, "score": np.zeros(len(extra))})
    line = refuse("evaluate", "named.csv", tmp_path / "scores.csv", *COLUMNS)
    assert "scores of other items. Do they belong together?" in line
    line = refuse("evaluate", "test.csv", tmp_path / "scores.csv", *COLUMNS)
    assert "test.csv must name its items, since the scores do" in line


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", '{"score": 1}\nno\n', r"a\.jsonl, line 2: expected a JSON object"),
        ("a.jsonl", '{"score": NaN}\n', "row 1, column 'score': expected a finite number"),
        ("a.run", "q Q0 x 1 2.5 t\nq Q0 x\n", "line 2: expected query, Q0, item, rank, score"),
    ],
)
def test_bad_rankings_are_refused(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(rankwise.DataFileError, match=message):
        read_ranked(tmp_path / name)


def test_a_run_has_ids_without_blanks(tmp_path):
    with pytest.raises(rankwise.InvalidInputError, match="ids without blanks"):
        RankedItems.of([1.0], items=["a b"]).write(tmp_path / "a.run")


def test_ranked_items_refuse_other_shapes():
    with pytest.raises(rankwise.InvalidInputError, match="`scores` must be a vector"):
        RankedItems.of([[1.0]])
    with pytest.raises(rankwise.InvalidInputError, match="`items` must have one name per score"):
        RankedItems.of([1.0], items=["a", "b"])


@pytest.mark.usefixtures("named")
def test_ids_are_no_features_and_drop_settles_it(succeed, refuse, folder, tmp_path):
    printed = succeed("fit", "rls", "named.csv", "-o", tmp_path / "m", *COLUMNS)
    assert "items from 'doc_id'; features from stars, price, age." in printed
    other = (folder / "named.csv").read_text().replace("doc_id", "owner_id", 1)
    (tmp_path / "other.csv").write_text(other)
    line = refuse("fit", "rls", tmp_path / "other.csv", "-o", tmp_path / "m", *COLUMNS)
    assert "column 'owner_id'" in line
    assert "--drop 'owner_id'" in line
    printed = succeed("fit", "rls", "named.csv", "-o", tmp_path / "m", *COLUMNS, "--drop", "doc*")
    assert "Read named.csv: features from stars, price, age." in printed
    chosen = ("--features", "stars-age", "--drop", "price")
    succeed("fit", "rls", "named.csv", "-o", tmp_path / "m", *COLUMNS, *chosen)
    assert rankwise.load(tmp_path / "m").feature_names_in_.tolist() == ["stars", "age"]


def test_a_likely_column_of_queries_is_not_a_feature(refuse, tmp_path):
    columns = {"city": np.repeat(np.arange(9), 4), "f": np.sin(np.arange(36)), "y": np.arange(36)}
    write_table(tmp_path / "a.csv", columns)
    line = refuse("fit", "rls", tmp_path / "a.csv", "-o", tmp_path / "m")
    assert "'city' looks like an id of queries" in line
    assert "--qid 'city'" in line


def test_parameters_are_named_as_options():
    message = "`max_iter` and `C` must fit, `X` too: try drop='a b', features=... or Cs=[1]."
    flags = {name: f"--{name}" for name in ("C", "drop", "features", "Cs")}
    flags |= {"max_iter": "--max-iter"}
    assert as_options(message, {name.lower(): flag for name, flag in flags.items()}) == (
        "--max-iter and --C must fit, `X` too: try --drop 'a b', --features ... or Cs=[1]."
    )
    assert as_options(message, {}) == message


def test_parameters_of_rankers_and_of_commands_are_named_as_options(refuse):
    line = refuse("fit", "svm", "train.txt", "-o", "m", "--C", "-1")
    assert line.startswith("error: --C must be")
    assert "--y, --qid" in refuse("fit", "linear", "train.txt", "-o", "m", "--y", "stars")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "0.012 s"), (9.94, "9.9 s"), (12.3, "12 s"), (59.7, "1 min 0 s"), (190, "3 min 10 s"),
     (7500, "2 h 5 min")],
)  # fmt: skip
def test_times_read_as_people_say_them(seconds, text):
    assert duration(seconds) == text


def test_items_are_not_ranked_across_queries_after_a_fit_with_queries(succeed, refuse, folder):
    succeed("fit", "rls", "train.csv", "-o", "q.model", "--y", "rating", "--qid", "city")
    write_table(folder / "no_city.csv", {"stars": [1], "price": [2], "age": [3]})
    line = refuse("rank", "q.model", "no_city.csv")
    assert "no_city.csv must name queries, as the data of q.model did" in line
    succeed("predict", "q.model", "no_city.csv")
