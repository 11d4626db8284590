"""Tables as people have them, from `rankwise fit` to a served model: text, blanks, ids."""

import json

import numpy as np
import pytest

import rankwise
from rankwise.io import read_table
from rankwise.io.rankings import read_ranked
from rankwise.rankers.scoring_function import predicted

HEADER = "Search_ID;doc_id;Title;Category;BM25;Price;Added;Relevance\n"


def write_searches(path, first, n_queries, seed):
    rng = np.random.default_rng(seed)
    lines = []
    for query in range(first, first + n_queries):
        for place in range(int(rng.integers(4, 9))):
            bm25, kind = rng.gamma(3.0, 4.0), rng.choice(["shoes", "bags", ""])
            price = "" if rng.random() < 0.2 else f"{rng.lognormal(6.0):.2f}"
            grade = int(np.clip(bm25 / 6 + (kind == "shoes"), 0, 3))
            row = [
                f"q{query}",
                f"D{query}{place}",
                f"{rng.random()} of {kind}",
                kind,
                f"{bm25:.3f}",
            ]
            lines.append(";".join([*row, price, "2024-05-01", str(grade)]))
    path.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8-sig")


@pytest.fixture
def shop(run, folder):
    write_searches(folder / "shop.csv", 100, 14, 0)
    write_searches(folder / "later.csv", 300, 6, 1)
    return ("fit", "auto", "shop.csv", "-o", "shop.model", "--time-budget", 1)


def test_text_and_blanks_are_learned_from_and_columns_are_remembered(run, folder, shop):
    result = run(*shop, "--qid", "search_id", "--y", "relevance")
    assert result.exit_code == 0, result.output + result.stderr
    said = " ".join(result.output.split())
    assert "items from 'doc_id'; features from Category, BM25, Price, Added;" in said
    assert "left out Title (text that differs from row to row)" in said
    assert "Added as numbers (days since 1970)" in said
    model = rankwise.load(folder / "shop.model")
    assert model.table_columns_ == {
        "y": ["Relevance"],
        "qid": ["Search_ID"],
        "item": ["doc_id"],
        "categories": ["Category"],
        "formed": ["Added"],
        "forms": ["days since 1970"],
        "left_out": ["Title"],
        "reasons": ["text that differs from row to row"],
    }
    result = run("predict", "shop.model", "later.csv", "-o", "later.scores.csv")
    assert result.exit_code == 0, result.output + result.stderr
    data = read_table(
        folder / "later.csv",
        features=["Category", "BM25", "Price", "Added"],
        categories=["Category"],
        forms={"Added": "days since 1970"},
    )
    ranked = read_ranked(folder / "later.scores.csv")
    assert ranked.items[0].startswith("D300")
    expected = predicted(model, data.X, data.qid)
    np.testing.assert_allclose(ranked.scores, expected)


def test_a_column_of_dates_makes_later_queries_judge(run, folder, shop):
    rows = (folder / "shop.csv").read_text("utf-8-sig").splitlines()
    names = dict.fromkeys(row.split(";")[0] for row in rows[1:])
    number = {name: k for k, name in enumerate(names, 1)}
    dated = [row.replace("2024-05-01", f"2024-05-{number[row.split(';')[0]]:02}")
             for row in rows[1:]]  # fmt: skip
    (folder / "shop.csv").write_text("\n".join([HEADER.strip(), *dated]))
    result = run(*shop, "--time", "added")
    assert result.exit_code == 0, result.output + result.stderr
    said = " ".join(result.output.split())
    assert "unseen later queries" in said
    assert "Every choice was made on later queries than were learned from." in said
    assert list(rankwise.load(folder / "shop.model").feature_names_in_) == [
        "Category",
        "BM25",
        "Price",
    ]
    result = run("fit", "shop.csv", "-o", "x.model", "--time", "nowhere")
    assert result.exit_code == 2
    assert "nowhere" in result.stderr


def test_a_column_of_what_must_be_new_is_no_feature(run, folder, shop):
    rows = (folder / "shop.csv").read_text("utf-8-sig").splitlines()
    names = dict.fromkeys(row.split(";")[0] for row in rows[1:])
    number = {name: k // 2 for k, name in enumerate(names)}
    named = [f"{row};u{number[row.split(';')[0]]}" for row in rows[1:]]
    (folder / "shop.csv").write_text("\n".join([f"{HEADER.strip()};Shopper", *named]))
    result = run(*shop, "--folds-by", "shopper", "--json")
    assert result.exit_code == 0, result.output + result.stderr
    found = json.loads(result.output)["honest_value"]
    assert found["unseen"] == "queries of new groups"
    assert "Shopper" not in rankwise.load(folder / "shop.model").feature_names_in_
    same = ("--qid", "search_id", "--folds-by", "Search_ID", "--json")
    result = run(*shop, *same)
    assert result.exit_code == 0, result.output + result.stderr
    assert json.loads(result.output)["honest_value"]["unseen"] == "queries"


def test_features_are_held_to_fall_by_name(run, folder, shop):
    result = run(*shop, "--monotone", "Price=-1,BM25=1")
    assert result.exit_code == 0, result.output + result.stderr
    assert rankwise.load(folder / "shop.model").monotone == {2: -1, 1: 1}
    for wrong in ("Prise=-1", "Price=2", "Price"):
        result = run(*shop, "--monotone", wrong)
        assert result.exit_code == 2
        assert "--monotone must name features with 1 or -1" in " ".join(result.stderr.split())


def test_a_raw_model_is_explained_reported_exported_and_served(run, folder, shop):
    for extra in ("jinja2", "matplotlib", "onnxruntime", "starlette"):
        pytest.importorskip(extra)
    assert run(*shop).exit_code == 0
    result = run("explain", "shop.model", "later.csv", "--row", 1)
    assert result.exit_code == 0, result.output + result.stderr
    assert "BM25" in result.output
    result = run("report", "shop.model", "later.csv", "-o", "shop.html")
    assert result.exit_code == 0, result.output + result.stderr
    page = (folder / "shop.html").read_text()
    assert "Judged on" in page
    assert ">D3000<" in page
    result = run("export", "shop.model", "-o", "shop.onnx")
    assert result.exit_code == 0, result.output + result.stderr
    from starlette.testclient import TestClient

    with TestClient(rankwise.make_app(rankwise.load(folder / "shop.model"))) as client:
        items = [
            {"Category": "shoes", "BM25": 20.0, "Price": None},
            {"Category": None, "BM25": 1.0, "Price": 10},
        ]
        answer = client.post("/rank", content=json.dumps({"items": items}))
        assert answer.status_code == 200, answer.text
        assert answer.json()["order"] == [0, 1]
        items[0]["Added"], items[1]["Added"] = "2024-05-01", "2024-05-02"
        answer = client.post("/rank", content=json.dumps({"items": items}))
        days = [19844.0, 19845.0]
        for item, day in zip(items, days, strict=True):
            item["Added"] = day
        assert client.post("/rank", content=json.dumps({"items": items})).json() == answer.json()
        items[0]["Added"] = "soon"
        answer = client.post("/rank", content=json.dumps({"items": items}))
        assert "'Added' must hold numbers (days since 1970): got 'soon'" in answer.json()["error"]
        items[0]["Added"] = None
        items[0]["BM25"] = "high"
        answer = client.post("/rank", content=json.dumps({"items": items}))
        assert answer.status_code == 400
        assert "must hold numbers" in answer.json()["error"]
        answer = client.post("/rank", content=json.dumps({"items": [["shoes", [2], 1.0]]}))
        assert "numbers, texts or nulls" in answer.json()["error"]


def test_a_named_ranker_says_which_command_takes_text(run, shop):
    result = run("fit", "rls", "shop.csv", "-o", "x.model", "--drop", "doc_id,Title,Added")
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert "rankwise fit shop.csv (without the name of a ranker) accepts text and blanks" in said


def test_text_in_a_column_of_numbers_is_refused_later(run, folder, shop):
    assert run(*shop).exit_code == 0
    text = (folder / "later.csv").read_text("utf-8-sig").splitlines()
    cells = text[3].split(";")
    cells[4] = "high"
    (folder / "wrong.csv").write_text("\n".join([*text[:3], ";".join(cells), *text[4:]]))
    result = run("predict", "shop.model", "wrong.csv")
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert "column 'BM25': expected a number, as was learned from, got 'high'" in said


def test_decimal_commas_are_read_and_said(run, folder, shop):
    for name in ("shop", "later"):
        text = (folder / f"{name}.csv").read_text("utf-8-sig").replace(".", ",")
        (folder / f"{name}-commas.csv").write_text(text)
    result = run("fit", "shop-commas.csv", "-o", "commas.model", "--time-budget", 1e-6)
    assert result.exit_code == 0, result.output
    said = " ".join(result.stdout.split())
    assert "BM25 as numbers (decimal commas); Price as numbers (decimal commas)" in said
    assert run("fit", "shop.csv", "-o", "points.model", "--time-budget", 1e-6).exit_code == 0
    for sign, name in (("points", "later.csv"), ("commas", "later-commas.csv")):
        result = run("predict", f"{sign}.model", name, "-o", f"{sign}.csv")
        assert result.exit_code == 0, result.output
    assert (folder / "commas.csv").read_text() == (folder / "points.csv").read_text()


def test_blanks_without_queries_are_learned_from(run, folder):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 2))
    lines = [
        f"{a:.4f},{'NA' if i % 9 == 0 else f'{b:.4f}'},{a > 0:d}" for i, (a, b) in enumerate(rows)
    ]
    (folder / "patients.csv").write_text("crp,hb,grade\n" + "\n".join(lines) + "\n")
    result = run("fit", "patients.csv", "-o", "patients.model")
    assert result.exit_code == 0, result.output + result.stderr
    assert "Judged by leaving out each pair of items in turn." in result.output
    result = run("predict", "patients.model", "patients.csv", "-o", "patients.scores.csv")
    assert result.exit_code == 0, result.output + result.stderr


def test_raw_cells_of_every_format(folder):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"kind": ["a", None, "b"], "size": [1.0, None, 2.5], "y": [0, 1, 2]})
    frame.to_parquet(folder / "raw.parquet")
    frame.to_csv(folder / "raw.csv", index=False)
    for name in ("raw.parquet", "raw.csv"):
        data = read_table(folder / name, categories="auto")
        assert data.columns.categories == ("kind",)
        assert data.X[:, 0].tolist() == ["a", None, "b"]
        assert np.isnan(data.X[1, 1])


def test_a_column_that_is_blank_everywhere_is_left_out(folder):
    (folder / "blank.csv").write_text("a,b,y\n1,,0\n2,,1\n")
    data = read_table(folder / "blank.csv", categories="auto")
    assert data.feature_names == ["a"]
    assert data.columns.left_out == (("b", "blank everywhere"),)


def test_ids_and_text_of_queries_stand_side_by_side(run, folder):
    """A table of a search engine has both query_id and query, and ratings that are features."""
    rng = np.random.default_rng(0)
    lines = ["query_id,query,title,rating,grade"]
    for number in range(40):
        sought = " ".join(rng.choice(["red", "blue", "shoe", "bag", "lamp", "desk"], 2))
        for _ in range(5):
            title, rating = " ".join(rng.choice(["red", "shoe", "bag", "oak"], 3)), rng.random()
            grade = len(set(sought.split()) & set(title.split()))
            lines.append(f"q{number},{sought},{title},{rating:.3f},{grade}")
    (folder / "found.csv").write_text("\n".join(lines) + "\n")
    given = ("found.csv", "--y", "grade", "-o", "found.model", "--time-budget", 1)
    result = run("fit", *given)
    assert result.exit_code == 0, result.output + result.stderr
    said = " ".join(result.output.split())
    assert "queries from 'query_id'; features from query, title, rating;" in said
    # new items have no grade; the rating stays a feature, blank or not
    blank = [line.rpartition(",")[0] for line in lines]
    blank[3] = blank[3].rpartition(",")[0] + ","
    (folder / "new.csv").write_text("\n".join(blank) + "\n")
    result = run("predict", "found.model", "new.csv")
    assert result.exit_code == 0, result.output + result.stderr
    assert len(result.output.split()) == len(lines) - 1
