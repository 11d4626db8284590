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
