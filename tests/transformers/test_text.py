"""Features from text are what search engines compute; what is learned stays in its rows."""

import math

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import rankwise
from rankwise import AutoRanker, InvalidInputError, RankerPipeline, RankRLS, TextFeatures
from rankwise.apps.cli.app import app
from rankwise.automatic.sum_of_rankers import fit_preparation, prepared_without
from rankwise.core.queries import TrainingData
from rankwise.core.words import matching_columns
from rankwise.selection.holdouts import Folds

WORDS = np.array(
    ["red", "blue", "green", "shoes", "socks", "hat", "wool", "silk", "long", "short", "of", "with"]
)


def draw(n_queries=12, seed=0):
    """Draw queries of two words, titles, bodies and grades that count the words in common."""
    rng = np.random.default_rng(seed)
    rows = []
    for query in range(n_queries):
        asked = rng.choice(WORDS[:10], 2, replace=False)
        for _ in range(6):
            title = rng.choice(WORDS, int(rng.integers(3, 6)))
            body = rng.choice(WORDS, int(rng.integers(5, 20)))
            grade = sum(word in title for word in asked) + (rng.random() < 0.1)
            title = " ".join(title) + f" {rng.integers(1_000_000)}"
            rows.append((f"{query} {' '.join(asked)}", title, " ".join(body), rng.random(), grade))
    return pd.DataFrame(rows, columns=["query", "title", "body", "price", "grade"])


def naive(queries, texts, known):
    """The three features of one column, word by word."""
    split = [text.lower().split() for text in sorted(set(known))]
    mean = sum(map(len, split)) / len(split)

    def idf(word):
        n = sum(word in words for words in split)
        return math.log(1 + (len(split) - n + 0.5) / (n + 0.5))

    def vector(words):
        return {w: (1 + math.log(words.count(w))) * idf(w) for w in set(words)}

    found = []
    for query, text in zip(queries, texts, strict=True):
        asked, words = query.lower().split(), text.lower().split()
        bm25 = 0.0
        for word in set(asked):
            t = words.count(word)
            bm25 += idf(word) * t * 2.2 / (t + 1.2 * (0.25 + 0.75 * len(words) / mean))
        a, b = vector(asked), vector(words)
        norms = math.sqrt(sum(v * v for v in a.values()) * sum(v * v for v in b.values()))
        cosine = sum(a[w] * b[w] for w in a if w in b) / norms
        found.append([np.mean([w in words for w in set(asked)]), bm25, cosine])
    return np.array(found)


def test_features_are_those_of_the_formulas():
    table, later = draw(), draw(seed=1)
    known = TextFeatures("query", ["title", "body"]).fit(table[["query", "title", "body", "price"]])
    found = known.transform(later[["query", "title", "body", "price"]])
    for k, column in enumerate(["title", "body"]):
        expected = naive(later["query"], later[column], table[column])
        np.testing.assert_allclose(found[:, 1 + 3 * k : 4 + 3 * k], expected, rtol=1e-12)
    np.testing.assert_array_equal(found[:, 0], later["price"])
    assert known.get_feature_names_out().tolist()[:2] == ["price", "title, share of query words"]


def test_blank_texts_match_nothing_and_other_categories_stay():
    X = np.array([["red hat", None, "a"], [None, "red", "b"], ["red hat", "Red, RED hat", None]])
    found = TextFeatures(0, [1]).fit_transform(X)
    assert found[:, 0].tolist() == ["a", "b", None]
    assert found[:2, 1:].tolist() == [[0.0] * 3] * 2
    assert found[2, 1] == 1.0


def test_an_embedding_of_the_user_adds_a_cosine():
    def embed(texts):
        return [[text.count("e"), text.count("d"), 1.0] for text in texts]

    X = np.array([["red", "red"], ["red", "blue"], ["hat", "eel"]], dtype=object)
    found = TextFeatures(0, [1], embed=embed).fit_transform(X)
    a, b = np.array(embed(X[:, 0])), np.array(embed(X[:, 1]))
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    np.testing.assert_allclose(found[:, 3], (a * b).sum(axis=1) / norms)
    with pytest.raises(InvalidInputError, match="`embed` must return a vector of finite numbers"):
        TextFeatures(0, [1], embed=lambda texts: [np.nan] * len(texts)).fit_transform(X)


@pytest.mark.parametrize(("query", "texts"), [(0, [7]), (0, [0]), ("q", [1]), (0, [])])
def test_columns_must_be_known_and_different(query, texts):
    with pytest.raises(InvalidInputError, match="`texts` must name|`query` and `texts` must be"):
        TextFeatures(query, texts).fit(np.array([["a", "b"], ["a", "c"]], dtype=object))


def test_the_text_of_queries_is_found_by_what_it_shares():
    table = draw()
    columns = {name: table[name].tolist() for name in ("title", "body", "query")}
    assert matching_columns(columns, table["query"].tolist()) == ("query", ["title", "body"])
    columns["query"] = [f"q{one}" for one in range(len(table))]
    assert matching_columns(columns, table["query"].tolist()) is None


def test_what_is_learned_from_texts_of_a_fold_stays_in_it():
    table = draw()
    X = table[["query", "title", "body", "price"]].to_numpy(dtype=object)
    data = TrainingData.of(len(X), table["grade"].to_numpy(float), table["query"].to_numpy())
    folds = Folds.random(3, data.queries.index, np.random.default_rng(0))
    steps, _ = fit_preparation(X, data)
    before = prepared_without(steps, X, data, folds)
    other = X.copy()
    out = folds.fold == 1
    other[out, 1] = [f"{title} red" for title in X[out, 1]]
    after = prepared_without(steps, other, data, folds)
    np.testing.assert_array_equal(before[1][~out], after[1][~out])
    assert (before[0][~out] != after[0][~out]).any()


def test_a_pipeline_with_texts_is_saved(tmp_path):
    table = draw()
    X = table[["query", "title", "price"]].to_numpy(dtype=object)
    ranker = RankerPipeline([TextFeatures(0, [1]), RankRLS()])
    ranker.fit(X, table["grade"], qid=table["query"])
    ranker.save(tmp_path / "model")
    again = rankwise.load(tmp_path / "model")
    np.testing.assert_array_equal(
        again.predict(X, qid=table["query"]), ranker.predict(X, qid=table["query"])
    )


def test_texts_decide_in_a_search_from_python_and_the_command_line(tmp_path):
    table, later = draw(30), draw(10, seed=1)
    plain = AutoRanker(time_budget=1e-6).fit(
        table[["query", "price", "grade"]], y="grade", qid="query"
    )
    ranker = AutoRanker(time_budget=1e-6).fit(table, y="grade", qid="query")
    assert ranker.honest_value_.value > plain.honest_value_.value + 0.1
    assert "text in title, body, matched with query" in ranker.reading_
    table.to_csv(tmp_path / "train.csv", index=False)
    later.to_csv(tmp_path / "later.csv", index=False)
    model, scores = tmp_path / "model", tmp_path / "scores.csv"
    fit = ["fit", tmp_path / "train.csv", "-o", model, "--time-budget", "1e-6"]
    for arguments in (fit, ["predict", model, tmp_path / "later.csv", "-o", scores]):
        result = CliRunner().invoke(app, list(map(str, arguments)))
        assert result.exit_code == 0, result.output
    there = rankwise.load(model)
    assert there.reading_ == ranker.reading_
    expected = ranker.predict(later, qid="query")
    np.testing.assert_allclose(pd.read_csv(scores)["score"], expected)
    np.testing.assert_allclose(there.predict(later, qid="query"), expected)


def test_words_are_not_exported(tmp_path):
    pytest.importorskip("onnx", reason="the extra 'export' is not installed")
    X = np.array([["red shoe", "shoe"], ["red shoe", "bag"]] * 3, dtype=object)
    ranker = RankerPipeline([TextFeatures(0, [1]), RankRLS()]).fit(X, [1, 0] * 3)
    with pytest.raises(InvalidInputError, match="cannot be exported: formats hold numbers"):
        rankwise.export_ranker(ranker, tmp_path / "m.onnx")
