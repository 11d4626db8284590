"""``rankwise fit --for``: what a search engine can run, and what that costs."""

import json

import numpy as np
import pandas as pd
import pytest

import rankwise
from rankwise.io import write_table

pytest.importorskip("lightgbm")

RNG = np.random.default_rng(0)
QID = np.repeat(np.arange(25), 8)
X = RNG.normal(size=(200, 3)) * [1.0, 500.0, 0.01]
STRAIGHT = np.digitize(X @ [1.0, 1 / 500, 100.0] + 0.2 * RNG.normal(size=200), [-1, 0, 1])
CURVED = np.digitize(np.abs(X[:, 0]) * np.sign(X[:, 1]), [-1, 0, 1])


def table(folder, y):
    columns = {name: X[:, at] for at, name in enumerate(["bm25", "age", "clicks"])}
    write_table(folder / "engine.csv", {"query": QID, **columns, "grade": y})


@pytest.mark.parametrize(("y", "kind"), [(STRAIGHT, "linear"), (CURVED, "trees")])
def test_the_better_of_what_the_engine_runs_is_saved_and_exported(succeed, folder, y, kind):
    table(folder, y)
    options = ("-o", "engine.model", "--for", "elasticsearch", "--json")
    found = json.loads(succeed("fit", "engine.csv", *options))
    assert found["chosen"] == kind
    assert found["values"][kind] == max(found["values"].values())
    assert found["cost"] == pytest.approx(found["unrestricted"] - found["values"][kind])
    printed = succeed("export", "engine.model", "-o", "engine.json", "--format", "elasticsearch")
    assert "no server was run" in printed
    name = json.loads((folder / "engine.json").read_text())["model"]["model"]["type"]
    assert name == {"linear": "model/linear", "trees": "model/xgboost+json"}[kind]
    rows = pd.DataFrame(X, columns=["bm25", "age", "clicks"])
    assert rankwise.load(folder / "engine.model").score(rows, y, qid=QID) > 0.8


def test_engines_of_trees_get_trees(succeed, folder):
    table(folder, STRAIGHT)
    printed = succeed("fit", "engine.csv", "-o", "engine.model", "--for", "xgboost")
    assert "linear" not in printed
    assert "To run in xgboost costs" in printed
    assert type(rankwise.load(folder / "engine.model")).__name__ == "BoostedRanker"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--validate", "engine.csv"), "--validate must not come with --for"),
        (("--group", "bm25"), "--group must not come with --for"),
    ],
)
def test_what_makes_no_sense_is_refused(refuse, folder, options, message):
    table(folder, STRAIGHT)
    assert message in refuse("fit", "engine.csv", "-o", "engine.model", "--for", "solr", *options)


def test_a_search_engine_needs_queries(run, folder):
    write_table(folder / "items.csv", {"bm25": X[:, 0], "grade": STRAIGHT})
    result = run("fit", "items.csv", "-o", "engine.model", "--for", "solr")
    assert result.exit_code == 2
    assert "must name queries for --for solr" in result.stderr


def test_a_raw_table_is_fitted_to_its_numbers_and_blanks_count_as_in_the_engine(run, folder):
    rng = np.random.default_rng(0)
    lines = ["query_id,title,price,added,clicks,grade"]
    for number in range(150):
        price, clicks = np.exp(rng.normal(7, 1)), rng.integers(0, 4)
        cells = [f"q{number // 6}", f"{rng.random()} of it", f'"${price:,.2f}"', "2024-05-01"]
        grade = int(price > 1000) + int(clicks > 1)
        lines.append(",".join([*cells, "" if clicks == 0 else str(clicks), str(grade)]))
    (folder / "raw.csv").write_text("\n".join(lines) + "\n")
    result = run("fit", "raw.csv", "-o", "raw.model", "--for", "elasticsearch")
    assert result.exit_code == 0, result.output + result.stderr
    said = " ".join(result.output.split())
    assert "price as numbers (decimal points, $)" in said
    assert "Blanks count 0, as in elasticsearch." in said
    model = rankwise.load(folder / "raw.model")
    assert model.feature_names_in_.tolist() == ["price", "added", "clicks"]
    result = run("export", "raw.model", "-o", "raw.json", "--format", "elasticsearch")
    assert result.exit_code == 0, result.output + result.stderr
    # the same table is predicted, and a blank is the 0 of the engine
    filled = [line.replace(",,", ",0,") for line in lines]
    (folder / "filled.csv").write_text("\n".join(filled) + "\n")
    scores = [run("predict", "raw.model", name).output for name in ("raw.csv", "filled.csv")]
    assert scores[0] == scores[1]
    assert len(scores[0].split()) == 150
    # with a column of words that repeat, whose values the engine does not hold
    kinds = [f"{line},{'kind' if at == 0 else 'ab'[at % 2]}" for at, line in enumerate(lines)]
    (folder / "kinds.csv").write_text("\n".join(kinds) + "\n")
    result = run("fit", "kinds.csv", "-o", "k.model", "--for", "xgboost", "--y", "grade")
    said = " ".join(result.output.split())
    assert "Left out kind: xgboost holds numbers." in said
    assert "Blanks count 0" not in said


def test_a_table_without_numbers_is_refused_for_an_engine(run, folder):
    text = "query_id,kind,grade\n" + "".join(
        f"q{k // 4},{'ab'[k % 2]},{k % 2}\n" for k in range(40)
    )
    (folder / "words.csv").write_text(text)
    result = run("fit", "words.csv", "-o", "w.model", "--for", "solr")
    assert result.exit_code == 2
    assert "must have features that are numbers for --for solr: got kind" in result.stderr
