"""``rankwise fit conditional``: scores of pairs of objects, features of both, new ones ranked."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_array

import rankwise
from rankwise import ConditionalRankRLS, ConditionalRankRLSCV
from rankwise.io import write_table

RNG = np.random.default_rng(0)
USERS, FILMS = RNG.normal(size=(8, 2)), RNG.normal(size=(6, 3))
NEW_FILMS = RNG.normal(size=(4, 3))
Y = RNG.normal(size=(8, 6))
USER_NAMES = np.array([f"u{k}" for k in range(8)])
FILM_NAMES = np.array([f"film {k}" for k in range(6)])


@pytest.fixture
def tables(tmp_path, monkeypatch):
    """Tables of scores and of features, whose rows stand in another order."""
    monkeypatch.chdir(tmp_path)
    rows, columns = np.divmod(RNG.permutation(48), 6)
    scores = {"condition": USER_NAMES[rows], "item": FILM_NAMES[columns], "score": Y[rows, columns]}
    write_table("scores.csv", scores)
    write_table("some.csv", {name: values[:30] for name, values in scores.items()})
    write_table("users.csv", {"condition": USER_NAMES, "a": USERS[:, 0], "b": USERS[:, 1]})
    features = {f"x{j}": FILMS[:, j] for j in range(3)}
    write_table("films.csv", {"item": FILM_NAMES, **features})
    write_table(
        "new.csv", {"item": ["w", "x", "y", "z"], **{f"x{j}": NEW_FILMS[:, j] for j in range(3)}}
    )
    pairs = {"condition": ["u0", "u0", "u5"], "winner": ["film 1", "film 2", "film 0"]}
    write_table("pairs.csv", {**pairs, "loser": ["film 2", "film 5", "film 4"]})
    known = np.full(48, np.nan)
    known[(rows * 6 + columns)[:30]] = Y[rows, columns][:30]
    return known.reshape(8, 6)


BOTH = ("--conditions", "users.csv", "--items", "films.csv", "-o", "model")


@pytest.fixture
def learn(run, tables):
    """Run a fit that must succeed and return its report and its model."""

    def invoke(*arguments, files=BOTH):
        result = run("fit", "conditional", *arguments, *files, "--json")
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout), rankwise.load("model")

    return invoke


@pytest.fixture
def run(monkeypatch):
    """Run a command where the tables are."""
    from typer.testing import CliRunner

    from rankwise.apps.cli.app import app

    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def test_a_full_table(learn):
    report, ranker = learn("scores.csv", "--alpha", "0.5", "--item-kernel", "gaussian")
    expected = ConditionalRankRLS(0.5, item_kernel="gaussian").fit(USERS, FILMS, Y)
    assert (report["n_conditions"], report["n_items"], report["alpha"]) == (8, 6, 0.5)
    np.testing.assert_allclose(ranker.dual_coef_, expected.dual_coef_, atol=1e-9)


def test_a_partial_table_and_comparisons(learn, tables):
    _, ranker = learn("some.csv")
    expected = ConditionalRankRLS().fit(USERS, FILMS, tables)
    np.testing.assert_allclose(ranker.dual_coef_, expected.dual_coef_, atol=1e-8)
    report, _ = learn("some.csv", "--alphas", "0.1,1,10", "--new", "items")
    chosen = ConditionalRankRLSCV([0.1, 1.0, 10.0], new="items", random_state=0)
    assert report["alpha"] == chosen.fit(USERS, FILMS, tables).alpha_
    _, ranker = learn("pairs.csv")
    compared = [[0, 1, 2], [0, 2, 5], [5, 0, 4]]
    expected = ConditionalRankRLS().fit(USERS, FILMS, comparisons=compared)
    chosen = ConditionalRankRLSCV([0.1, 1.0], random_state=0)
    report, _ = learn("pairs.csv", "--alphas", "0.1,1")
    assert report["alpha"] == chosen.fit(USERS, FILMS, comparisons=compared).alpha_
    np.testing.assert_allclose(ranker.dual_coef_, expected.dual_coef_, atol=1e-8)


def test_a_grid_and_rankings_of_new_items(learn):
    report, _ = learn(
        "scores.csv", "--alphas", "0.1,1,10", "--new", "both", "--rankings", "top.csv",
        "--top", "2", "--new-items", "new.csv",
    )  # fmt: skip
    expected = ConditionalRankRLSCV([0.1, 1.0, 10.0], new="both", random_state=0)
    expected.fit(USERS, FILMS, Y)
    assert report["alpha"] == expected.alpha_
    np.testing.assert_allclose(report["held_out_value"], expected.held_out_value_)
    lines = (line.split(",") for line in Path("top.csv").read_text().split()[1:])
    found = [(condition, item, rank) for condition, item, rank, _ in lines]
    order = expected.rank(USERS, NEW_FILMS, k=2)
    names = np.array(["w", "x", "y", "z"])[order]
    assert found == [
        (USER_NAMES[k], names[k, j], str(j + 1)) for k in range(8) for j in range(2)
    ]  # fmt: skip


def test_relations_need_one_table(run, tables):
    rows, columns = np.divmod(np.arange(64), 8)
    scores = {"condition": USER_NAMES[rows], "item": USER_NAMES[columns]}
    write_table("games.csv", {**scores, "score": RNG.normal(size=64)})
    options = ("--relation", "antisymmetric", "--conditions", "users.csv", "-o", "model")
    result = run("fit", "conditional", "games.csv", *options)
    assert result.exit_code == 0, result.output
    assert "8 conditions, 8 items" in result.stdout
    scores = rankwise.load("model").predict()
    np.testing.assert_allclose(scores, -scores.T, atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["scores.csv", "--alpha", "1", "--alphas", "1,2"], "Only one of --alpha and --alphas"),
        (["scores.csv", "--relation", "symmetric"], "--items must not come with --relation sym"),
        (["scores.csv", "--new", "items"], "--new must come with --alphas"),
        (["scores.csv", "--top", "3"], "must come with --rankings"),
        (["users.csv"], "must have the column 'item'"),
        (["scores.csv", "--conditions", "twice.csv"], "each name in the column 'condition' once"),
        (["scores.csv", "--conditions", "bare.csv"], "expected columns of features in addition"),
        (["scores.csv", "--conditions", "few.csv"], "expected names that few.csv has features for"),
        (["doubled.csv"], "expected one score for a condition and an item"),
    ],
)
def test_refusals(run, tables, arguments, expected):
    write_table("twice.csv", {"condition": ["u0", "u0"], "a": [1.0, 2.0]})
    write_table("bare.csv", {"condition": ["u0"]})
    write_table("few.csv", {"condition": ["u0"], "a": [1.0]})
    write_table(
        "doubled.csv",
        {"condition": ["u0", "u0"], "item": ["film 1", "film 1"], "score": [1.0, 2.0]},
    )
    result = run("fit", "conditional", *BOTH, *arguments)
    assert result.exit_code == 2, result.output
    assert expected in result.stderr


def test_the_model_becomes_onnx(learn, run):
    pytest.importorskip("onnxruntime")
    learn("scores.csv")
    result = run("export", "model", "-o", "model.onnx")
    assert result.exit_code == 0, result.output
    assert Path("model.onnx").exists()


def test_items_must_be_given(run, tables):
    result = run("fit", "conditional", "scores.csv", "--conditions", "users.csv", "-o", "model")
    assert "--items must come with --relation any" in result.stderr


def test_films_are_described_by_words(run, tables):
    """Genres are indicators, prices and blanks are read, and new films are read in the same way."""
    years = [f"{1990 + k}" if k else "" for k in range(6)]
    films = {"item": FILM_NAMES, "genre": ["a", "b"] * 3, "year": years, "cost": ["$1,000"] * 6}
    write_table("films.csv", {**films, "plot": [f"it was {k}" for k in range(6)]})
    write_table("new.csv", {"item": ["x", "y"], "genre": ["b", "c"], "year": ["", "2000"],
                            "cost": ["$2,000", "$5.50"], "plot": ["one", "two"]})  # fmt: skip
    options = ("--rankings", "best.csv", "--new-items", "new.csv", "--top", "2")
    result = run("fit", "conditional", "scores.csv", *BOTH, *options)
    assert result.exit_code == 0, (result.output, result.exception)
    said = " ".join(result.output.split())
    assert "categories in genre, plot; cost as numbers (decimal points, $)" in said
    assert "Categories are indicators" in said
    assert "Read films.csv: names from 'item'; features from genre" in said
    # against rows that were made by hand: plots that no other film has are 0 for new films
    rows = np.array([["a", "b"] * 3, [None, *map(float, years[1:])], [1000.0] * 6], dtype=object).T
    rows = np.column_stack([rows, [f"it was {k}" for k in range(6)]])
    new = np.array([["b", None, 2000.0, "one"], ["c", 2000.0, 5.5, "two"]], dtype=object)
    encoder = rankwise.IndicatorEncoder().fit(rows)
    ranker = ConditionalRankRLS().fit(USERS, encoder.transform(rows), Y)
    expected = ranker.predict(USERS, encoder.transform(new))
    best = rankwise.io.read_table("best.csv", y="score", qid="condition", features="rank")
    np.testing.assert_allclose(best.y.reshape(8, 2), -np.sort(-expected, axis=1))

    # the saved model reads the same tables in the same way, and says the same
    again = run("recommend", "model", "--items", "new.csv", "--top", "2", "-o", "again.csv")
    assert again.exit_code == 0, again.output
    assert Path("again.csv").read_text() == Path("best.csv").read_text()
    few = run("recommend", "model", "--items", "new.csv", "--user", "u3", "--top", "1", "--json")
    assert json.loads(few.stdout)["score"] == pytest.approx([expected[3].max()])


def test_a_saved_model_recommends_known_and_new_items_by_name_of_column(learn, run):
    _, ranker = learn("scores.csv")
    found = json.loads(run("recommend", "model", "--user", "u2", "--top", "3", "--json").stdout)
    order = np.argsort(-ranker.predict()[2], kind="stable")[:3]
    assert found["item"] == FILM_NAMES[order].tolist()
    # columns in another order, and one more, are found by name
    features = {f"x{j}": NEW_FILMS[:, j] for j in (2, 0, 1)}
    write_table("moved.csv", {"more": np.ones(4), **features, "item": ["w", "x", "y", "z"]})
    moved, plain = (
        run("recommend", "model", "--user", "u2", "--items", name, "--json").stdout
        for name in ("moved.csv", "new.csv")
    )
    assert json.loads(moved) == json.loads(plain)
    assert json.loads(plain)["score"] == pytest.approx(
        -np.sort(-ranker.predict(USERS[2:3], NEW_FILMS)[0])
    )
    write_table("others.csv", {"condition": ["n"], "b": [1.0], "a": [2.0]})
    new = json.loads(run("recommend", "model", "--conditions", "others.csv", "--json").stdout)
    assert new["score"] == pytest.approx(-np.sort(-ranker.predict([[2.0, 1.0]])[0]))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "--user must name somebody, or -o a file for all: model knows 8 conditions"),
        (["--user", "nobody"], "expected names that model has features for, got nobody"),
        (["--similar-to", "film 1"], "must come with a model of fit factorization"),
    ],
)
def test_recommending_by_features_is_refused_without_somebody(learn, run, arguments, expected):
    learn("scores.csv")
    result = run("recommend", "model", *arguments)
    assert result.exit_code == 2
    assert expected in " ".join(result.stderr.split())


def test_a_model_that_python_saved_has_no_names(run, tables):
    ConditionalRankRLS().fit(USERS, FILMS, Y).save("model")
    result = run("recommend", "model", "--user", "u0")
    assert "expected a model with the names of its objects" in result.stderr


@pytest.mark.parametrize("command", [("serve", "model"), ("explain", "model", "films.csv")])
def test_other_commands_point_to_recommend(learn, run, command):
    learn("scores.csv")
    result = run(*command)
    assert result.exit_code == 2
    assert "holds a ConditionalRankRLS. Use rankwise recommend." in " ".join(result.stderr.split())


def test_features_do_not_go_with_a_model_of_ratings(run, tables):
    rankwise.RankingFactorization(n_components=2, random_state=0).fit(
        csr_array(Y - Y.min() + 1)
    ).save("model")
    result = run("recommend", "model", "--user", "0", "--items", "new.csv")
    assert "--conditions and --items must come with a model of fit conditional" in result.stderr


def test_films_without_a_feature_are_refused(run, tables):
    write_table("films.csv", {"item": FILM_NAMES, "id": [f"no. {k}" for k in range(6)]})
    result = run("fit", "conditional", "scores.csv", *BOTH)
    assert result.exit_code == 2
    assert "got text that differs from row to row" in result.stderr
