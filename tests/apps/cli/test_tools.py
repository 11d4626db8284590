"""The commands around a model: export, report, explain, leaderboard."""

import json
from pathlib import Path

import numpy as np
import pytest

import rankwise
from rankwise.datasets import load_digits_queries
from rankwise.io import read_scores, write_svmlight


@pytest.fixture
def model(run, folder):
    options = ("-o", "tool.model", "--y", "rating", "--qid", "city")
    assert run("fit", "rls", "train.csv", *options).exit_code == 0
    return folder / "tool.model"


def test_a_model_is_exported_and_scores_the_same(run, folder, model):
    onnxruntime = pytest.importorskip("onnxruntime")
    result = run("export", model, "-o", "tool.onnx")
    assert result.exit_code == 0, result.output
    session = onnxruntime.InferenceSession(folder / "tool.onnx")
    name = session.get_inputs()[0].name
    scores = session.run(None, {name: folder.test.X})[0].ravel()
    expected = folder.test.X @ rankwise.load(model).coef_
    np.testing.assert_allclose(scores - scores[0], expected - expected[0], atol=1e-8)


def test_the_families_are_tried_in_one_command(run, folder):
    pytest.importorskip("lightgbm")
    data = load_digits_queries(n_queries=30, n_items=10).train
    write_svmlight(folder / "digits.txt", data.X, data.y, data.qid)
    result = run("fit", "auto", "digits.txt", "-o", "auto.model", "--time-budget", 1)
    assert result.exit_code == 0, result.output
    assert "unseen queries" in result.output
    result = run("predict", "auto.model", "digits.txt", "-o", "auto.scores")
    assert result.exit_code == 0, result.output
    assert len(read_scores(folder / "auto.scores")) == data.n_items
    result = run("report", "auto.model", "digits.txt", "-o", "auto.html")
    assert result.exit_code == 0, result.output


def test_the_families_need_items_to_hold_out(run, folder):
    (folder / "bare.txt").write_text("1 1:0.5\n0 1:0.1\n")
    result = run("fit", "auto", "bare.txt", "-o", "auto.model")
    assert result.exit_code == 2
    assert "at least 3 items to hold one out" in " ".join((result.output + result.stderr).split())


def test_an_explanation_names_the_features(run, folder, model):
    first, second = np.flatnonzero(folder.test.qid == folder.test.qid[0])[:2]
    options = ("--row", first, "--above", second, "--qid", "city")
    result = run("explain", model, "test.csv", *options)
    assert result.exit_code == 0, result.output
    found = json.loads(run("explain", model, "test.csv", *options, "--json").stdout)
    assert sum(found["contributions"].values()) == pytest.approx(found["lead"])
    assert "stars" in result.output


def test_an_explanation_names_the_items(run, folder):
    lines = [f"sku-{k},{k % 3},{k % 3 + k / 50}" for k in range(30)]
    (folder / "named.csv").write_text("item,stars,rating\n" + "\n".join(lines) + "\n")
    options = ("--item", "item")
    result = run("fit", "named.csv", "-o", "named.model", *options)
    assert result.exit_code == 0, result.output + result.stderr
    options = ("--row", "sku-2", "--above", "sku-7", *options)
    result = run("explain", "named.model", "named.csv", *options)
    assert result.output.startswith("sku-2 is above sku-7: "), result.output + result.stderr
    found = json.loads(run("explain", "named.model", "named.csv", *options, "--json").stdout)
    assert (found["item"], found["other_item"], found["row"]) == ("sku-2", "sku-7", 2)
    scores = json.loads(run("predict", "named.model", "named.csv", "--json").stdout)
    assert scores["item"][:2] == ["sku-0", "sku-1"]
    printed = run("predict", "named.model", "named.csv").stdout.split()
    assert scores["score"] == [float(score) for score in printed]


@pytest.mark.parametrize("option", ["--row", "--above"])
def test_a_row_that_is_not_there_is_named_by_its_option(run, folder, model, option):
    result = run("explain", model, "test.csv", option, 99_999, "--qid", "city")
    assert result.exit_code == 2
    last = len(folder.test.y) - 1
    said = f"{option} must be a row of test.csv, 0 to {last}, or the name of one item from a column"
    assert said in " ".join(result.stderr.split())
    assert "(--item): got 99999." in result.stderr


def test_an_item_that_stands_in_several_rows_is_not_called_unknown(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = [f"sku-{k % 3}" for k in range(12)]
    values = np.random.default_rng(0).normal(size=12)
    queries = np.repeat(["a", "b", "c", "d"], 3)
    table = {"query": queries, "sku": names, "x": values, "grade": np.arange(12) % 3}
    rankwise.io.write_table("t.csv", table)
    assert run("fit", "rls", "t.csv", "-o", "m").exit_code == 0
    said = " ".join(run("explain", "m", "t.csv", "--row", "sku-1").stderr.split())
    assert said.endswith("got sku-1, which stands in the rows 1, 4, 7, 10. Give a row.")
    assert "Did you mean 'sku-1'?" in run("explain", "m", "t.csv", "--row", "sku1").stderr


def test_models_of_files_that_are_called_alike_stay_apart(run, folder, model):
    other = folder / "other" / Path(model).name
    other.parent.mkdir(exist_ok=True)
    other.write_bytes(Path(model).read_bytes())
    options = ("test.csv", "-o", "both.html", "--y", "rating", "--qid", "city")
    result = run("report", model, *options, "--beside", other)
    assert result.exit_code == 0, result.stderr
    assert f"{model}, {other}, judged on" in (folder / "both.html").read_text()
    result = run("report", model, *options, "--beside", model)
    assert "--beside must name other models" in result.stderr
    result = run("report", model, "test.csv", "-o", "page.pdf")
    assert "-o must name a file that ends in .html" in result.stderr


def test_a_report_is_written(run, folder, model):
    pytest.importorskip("jinja2")
    result = run("report", model, "test.csv", "-o", "page.html", "--y", "rating", "--qid", "city")
    assert result.exit_code == 0, result.output
    assert "<html" in (folder / "page.html").read_text()[:200].lower()


def test_a_leaderboard_in_one_command(run, folder):
    rows = (
        "winner,loser,count,colour\n"
        + "ann,bob,5,red\nbob,cat,4,red\nann,cat,6,blue\ncat,ann,1,red\n"
    )
    (folder / "battles.csv").write_text(rows)
    result = run("leaderboard", "battles.csv", "--format", "json")
    assert result.exit_code == 0, result.output
    text = result.output[result.output.index("[") if "[" in result.output else 0 :]
    assert "ann" in text
    assert "columns not used: colour" in result.output + result.stderr
    plain = run("leaderboard", "battles.csv").output
    assert plain.index("ann") < plain.index("bob") < plain.index("cat")


def test_the_numbering_of_features_stays_with_the_model(run, folder):
    """A model of a file that numbers features from 0 reads later files the same way."""
    p = folder.train
    write_svmlight(folder / "zero.txt", p.X, p.y, p.qid, zero_based=True)
    later = folder.test.X.copy()
    later[:, 0] = 0.0  # no feature 0 in the file
    write_svmlight(folder / "later.txt", later, folder.test.y, folder.test.qid, zero_based=True)
    assert run("fit", "rls", "zero.txt", "-o", "zero.model").exit_code == 0
    result = run("predict", "zero.model", "later.txt", "-o", "later.scores")
    assert result.exit_code == 0, result.output
    expected = rankwise.load(folder / "zero.model").predict(later)
    np.testing.assert_allclose(read_scores(folder / "later.scores"), expected)


@pytest.mark.parametrize(
    "command",
    [
        ("fit", "train.txt", "-o", "train.txt"),
        ("predict", "tool.model", "test.txt", "-o", "tool.model"),
        ("predict", "tool.model", "test.txt", "-o", "test.txt"),
        ("evaluate", "test.txt", "scores.txt", "--per-query", "scores.txt"),
    ],
)
def test_inputs_are_never_overwritten(run, folder, model, command):
    before = {path.name: path.read_bytes() for path in folder.path.iterdir() if path.is_file()}
    result = run(*command)
    assert result.exit_code == 2
    assert "must not overwrite" in result.output + result.stderr
    assert model.exists()
    after = {path.name: path.read_bytes() for path in folder.path.iterdir() if path.is_file()}
    assert after == before


def test_columns_of_a_leaderboard_are_named_by_options(run, folder):
    rows = ["us,them,who,times,pace", "x,y,a,3,0.5", "y,z,b,1,-0.5", "x,z,tie,2,0.1"]
    (folder / "odd.csv").write_text("\n".join(rows))
    named = ("--a", "US", "--b", "them", "--result", "who", "--covariates", "pace")
    found = json.loads(run("leaderboard", "odd.csv", *named, "--format", "json").stdout)
    assert {row["item"] for row in found["items"]} == {"x", "y", "z"}
    assert [one["name"] for one in found["effects"]] == ["pace"]
    assert sum(row["answers"] for row in found["items"]) == 2 * 6
    result = run("leaderboard", "odd.csv", "--a", "we")
    assert result.exit_code != 0


def test_numbers_that_can_mean_two_winners_need_codes(run, folder):
    """Both orders cover 0 and 1: 1 may be the first or the second of two."""
    rows = ["x,y,0", "y,z,0", "z,x,1", "x,y,2"]
    (folder / "coded.csv").write_text("\n".join(["model_a,model_b,winner", *rows * 5]))
    result = run("leaderboard", "coded.csv")
    assert result.exit_code == 2
    assert "0 = tie, 1 = a, 2 = b; or 0 = a, 1 = b, 2 = tie" in result.stderr
    assert "Say which is meant: --codes '0=tie,1=a,2=b'." in result.stderr
    found = run("leaderboard", "coded.csv", "--codes", "0=a,1=b,2=tie", "--format", "json")
    assert [row["item"] for row in json.loads(found.stdout)["items"]] == ["x", "y", "z"]
    found = run("leaderboard", "coded.csv", "--codes", "0=b,1=a,2=tie", "--format", "json")
    assert [row["item"] for row in json.loads(found.stdout)["items"]] == ["z", "y", "x"]
    result = run("leaderboard", "coded.csv", "--codes", "0=x")
    assert "--codes must say once for each cell whether it means a, b, tie or skip" in result.stderr


@pytest.mark.filterwarnings("always::rankwise.LeftOutWarning")
def test_rows_that_do_not_say_who_won_are_counted_on_standard_error(run, folder):
    rows = ["x,y,a", "y,z,", "x,z,a", "z,x,"]
    (folder / "blank.csv").write_text("\n".join(["model_a,model_b,winner", *rows]))
    result = run("leaderboard", "blank.csv", "--format", "json")
    assert "warning: 2 of 4 rows do not say who won, and are left out." in result.stderr
    assert sum(row["answers"] for row in json.loads(result.stdout)["items"]) == 2 * 2


@pytest.mark.parametrize(
    "rows",
    [
        ["rank1,rank2,rank3", *["x,y,z"] * 9, "y,x,"],
        ["person,item,rank", *(f"{p},{n},{r}" for p in range(9) for r, n in enumerate("xyz", 1))],
        ["item1,item2,item3,best,worst", *["z,y,x,x,z"] * 9],
    ],
)
def test_a_leaderboard_of_rankings_and_choices(run, folder, rows):
    pytest.importorskip("jinja2")
    (folder / "orders.csv").write_text("\n".join(rows))
    found = json.loads(run("leaderboard", "orders.csv", "--format", "json").stdout)
    assert [row["item"] for row in found["items"]] == ["x", "y", "z"]
    assert run("leaderboard", "orders.csv", "-o", "orders.html").exit_code == 0
    for option in ("--judges", "--first", "--tastes"):
        result = run("leaderboard", "orders.csv", option)
        assert result.exit_code == 2
        assert "comparisons of two items" in " ".join(result.stderr.split())


def test_a_leaderboard_of_every_person(run, folder):
    rows = ["worker,a,b,winner,date,margin"]
    rows += ["ann,tea,milk,a,soon,1", "bob,tea,milk,b,now,2"] * 6
    (folder / "tastes.csv").write_text("\n".join(rows))
    for person, best in (("ann", "tea"), ("bob", "milk")):
        result = run("leaderboard", "tastes.csv", "--tastes", "--person", person, "--format", "csv")
        assert result.stdout.splitlines()[1].split(",")[1] == best
        assert "is their own taste" in result.stderr
    assert "reliability" in run("leaderboard", "tastes.csv", "--judges").stdout
    told = run("leaderboard", "tastes.csv").stderr
    assert "columns not used: date" in told
    assert "margins are ignored" in told
    assert "the 2 judges count alike; --judges learns" in told
    for options, message in (
        (("--person", "ann"), "--person must come with --tastes"),
        (("--tastes", "--judges"), "--tastes must be used without --judges"),
        (("--tastes", "--person", "anne"), "Did you mean 'ann'?"),
        (("--half-life", "5"), "--half-life must come with dates"),
        (("--date", "date", "--half-life", "5"), "--date must hold dates such as"),
        (("--points", "a"), "--points must name two columns"),
    ):
        result = run("leaderboard", "tastes.csv", *options)
        assert result.exit_code == 2
        assert message in " ".join(result.stderr.split())


def test_features_of_persons_rank_for_those_who_have_not_answered(run, folder):
    rows = ["worker,a,b,winner"]
    rows += ["ann,tea,milk,a", "bob,tea,milk,b", "cid,tea,milk,a", "dan,tea,milk,b"] * 4
    (folder / "tastes.csv").write_text("\n".join(rows))
    ages = "who,age\nann,60\nbob,20\ncid,70\ndan,30\neve,65\nfay,25\n"
    (folder / "ages.csv").write_text(ages)
    asked = ("leaderboard", "tastes.csv", "--tastes", "--persons", "ages.csv", "--format", "csv")
    for person, best in (("eve", "tea"), ("fay", "milk")):
        result = run(*asked, "--person", person)
        assert result.stdout.splitlines()[1].split(",")[1] == best
    assert run("leaderboard", "tastes.csv", "--persons", "ages.csv").exit_code == 2
    for text, message in (
        ("who\nann\n", "got only"),
        (ages + "ann,3\n", "got 'ann' several times"),
    ):
        (folder / "ages.csv").write_text(text)
        result = run(*asked)
        assert result.exit_code == 2
        assert message in " ".join(result.stderr.split())


def test_points_and_dates_as_sports_pages_write_them(run, folder):
    rows = ["Date,Visitor,G,Home,Goals"]
    rows += ["1/13/2024,x,1,y,3", "1/20/2024,y,2,x,1", "2/20/2024,x,4,y,2"] * 3
    (folder / "games.csv").write_text("\n".join(rows))
    named = ("--points", "goals,G", "--half-life", "10", "--format", "json")
    result = run("leaderboard", "games.csv", *named)
    found = json.loads(result.stdout)
    assert found["items"][0]["item"] == "x"
    assert found["items"][0]["answers"] < 9.0
    assert "dates are ignored" in run("leaderboard", "games.csv", *named[:2]).stderr


def test_a_leaderboard_is_written_by_its_suffix(run, folder):
    pytest.importorskip("jinja2")
    (folder / "games.csv").write_text("winner,loser\n" + "ann,bob\nbob,cid\nann,cid\n" * 8)
    for name, mark in (("b.html", "Who beats whom"), ("b.csv", "rank,item"), ("b.md", "| rank |")):
        result = run("leaderboard", "games.csv", "-o", name)
        assert result.exit_code == 0, result.output + result.stderr
        assert mark in (folder / name).read_text()
    result = run("leaderboard", "games.csv", "-o", "b.pdf")
    assert result.exit_code == 2
    assert "-o must name a file that ends in" in " ".join(result.stderr.split())


def test_a_leaderboard_of_the_best_as_json(run, folder):
    (folder / "games.csv").write_text("winner,loser\n" + "ann,bob\nbob,cid\nann,cid\n" * 8)
    whole = json.loads(run("leaderboard", "games.csv", "--json").stdout)
    assert whole == json.loads(run("leaderboard", "games.csv", "--format", "json").stdout)
    best = json.loads(run("leaderboard", "games.csv", "--json", "--top", 2).stdout)
    assert best["items"] == whole["items"][:2]
    result = run("leaderboard", "games.csv", "--level", "2")
    assert "--level must" in result.stderr


def test_groups_in_words_are_refused_with_a_remedy(run, folder):
    (folder / "groups.csv").write_text("crp,ill\n1.5,yes\n0.5,no\n")
    result = run("leave-pair-out", "groups.csv", "--y", "ill")
    assert result.exit_code == 2
    assert "say with --positive ... which label ranks above" in " ".join(result.stderr.split())


ARENA = """model_a,model_b,winner,judge,question_id,language,tokens_a,tokens_b
x,y,model_a,ann,1,en,30,10
y,x,model_b,ann,1,en,12,30
y,z,model_a,bob,2,de,20,20
z,x,model_b,bob,2,de,10,15
x,z,model_a,cid,3,en,25,20
z,y,tie,cid,3,en,20,20
y,z,,cid,3,en,20,20
"""


@pytest.mark.filterwarnings("default::rankwise.LeftOutWarning")
def test_a_leaderboard_is_audited_and_its_reading_is_said(run, folder):
    (folder / "arena.csv").write_text(ARENA)
    options = ("--audit", "--by", "language", "--control", "tokens", "--top", "2")
    result = run("leaderboard", "arena.csv", *options)
    assert result.exit_code == 0
    said = result.stderr
    assert "read: items: model_a and model_b" in said
    assert "read: 1 rows left out, since they do not say who won" in said
    assert "read: 1 questions were asked in both orders" in said
    assert "tokens:" in result.stdout
    assert "neighbours" in result.stdout
    assert "\nen\n" in result.stdout
    found = json.loads(run("leaderboard", "arena.csv", *options, "--json").stdout)
    assert len(found["items"]) == 2
    assert set(found["categories"]) == {"en", "de"}
    assert found["audit"]["findings"][0]["probe"] == "neighbours"
    assert found["reading"][0] == "items: model_a and model_b"


def test_leaderboards_take_clusters_and_learn_half_lives(run, folder):
    rows = ["winner,loser,question,date"]
    rows += [
        f"{'xyz'[k % 3]},{'xyz'[(k + 1) % 3]},q{k % 6},2026-01-{1 + k % 28:02}" for k in range(60)
    ]
    (folder / "games.csv").write_text("\n".join(rows))
    clustered = run("leaderboard", "games.csv", "--cluster", "question")
    assert clustered.exit_code == 0
    learned = run("leaderboard", "games.csv", "--half-life", "auto")
    assert "note: half-life: " in learned.stderr
    wrong = run("leaderboard", "games.csv", "--half-life", "soon")
    assert "--half-life must be a finite number, 'auto' or None: got 'soon'" in wrong.stderr
    refused = run("leaderboard", "games.csv", "--cluster", "question", "--judges")
    assert "Name the column of the judges" in refused.stderr
