"""The same table gives the same model, from a file of the command line and a frame in Python."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import rankwise
from rankwise import AutoRanker, InvalidInputError, SearchRanker
from rankwise.apps.cli.app import app

BUDGET = 1e-6


@pytest.fixture(scope="module")
def shop():
    rng = np.random.default_rng(0)
    n, qid = 90, np.repeat([f"q{k}" for k in range(15)], 6)
    bm25, days = rng.gamma(3.0, 4.0, n).round(3), rng.integers(0, 300, n)
    kind = rng.choice(["shoes", "bags"], n).astype(object)
    kind[rng.random(n) < 0.1] = None
    frame = pd.DataFrame(
        {
            "search_id": qid,
            "doc_id": [f"D{k}" for k in range(n)],
            "title": [f"{rng.random():.6f} of {k}" for k in kind],
            "kind": kind,
            "bm25": bm25,
            "price": [f"${1000 * x:,.2f}" for x in rng.lognormal(size=n)],
            "added": pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(days, "D")).dt.strftime(
                "%Y-%m-%d"
            ),
            "in_stock": rng.random(n) < 0.5,
            "brand": rng.integers(1, 4, n),
            "empty": np.full(n, np.nan),
            "grade": np.clip(bm25 / 6 + (kind == "shoes"), 0, 3).astype(int),
        }
    )
    return frame.set_index(np.arange(n)[::-1] + 1000)


def of_command_line(shop, folder, *options):
    shop.to_csv(folder / "shop.csv", index=False)
    model = folder / "shop.model"
    arguments = ["fit", str(folder / "shop.csv"), "-o", str(model), "--time-budget", str(BUDGET)]
    result = CliRunner().invoke(app, [*arguments, *options])
    assert result.exit_code == 0, result.output
    return rankwise.load(model), " ".join(result.stdout.split())


def in_library(library, shop):
    if library == "pandas":
        return shop
    pytest.importorskip(library)
    if library == "polars":
        import polars

        return polars.from_pandas(shop.astype({"added": "datetime64[ns]"}))
    import pyarrow

    return pyarrow.Table.from_pandas(shop)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_the_same_table_gives_the_same_model(library, shop, tmp_path):
    there, said = of_command_line(shop, tmp_path)
    frame = in_library(library, shop)
    here = AutoRanker(time_budget=BUDGET).fit(frame, y="grade", qid="search_id")
    assert list(here.feature_names_in_) == list(there.feature_names_in_)
    assert here.reading_ == there.reading_
    for sentence in here.reading_:
        assert sentence in said
    assert here.honest_value_ == there.honest_value_
    scores = here.predict(frame, qid="search_id")
    np.testing.assert_allclose(scores, there.predict(frame, qid="search_id"))
    # the file is scored by the model of the frame as the frame is
    here.save(tmp_path / "here.model")
    target = tmp_path / "scores.csv"
    arguments = ["predict", tmp_path / "here.model", tmp_path / "shop.csv", "-o", target]
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    np.testing.assert_allclose(pd.read_csv(target)["score"], scores)


def test_the_reading_says_what_became_of_every_column(shop):
    ranker = SearchRanker(basis=20).fit(shop, y="grade", qid="search_id")
    assert ranker.reading_ == (
        "scores from 'grade'",
        "queries from 'search_id'",
        "items from 'doc_id'",
        "features from kind, bm25, price, added, in_stock, brand",
        "categories in kind",
        "price as numbers (decimal points, $)",
        "added as numbers (days since 1970)",
        "in_stock as numbers (true or false)",
        "left out title (text that differs from row to row), empty (blank everywhere)",
    )
    assert SearchRanker(basis=5).fit(shop[["bm25"]].to_numpy(), shop["grade"]).reading_ == ()


def test_the_choice_of_columns_can_be_overruled_in_both(shop, tmp_path):
    chosen = ["kind", "bm25", "brand", "title"]
    there, _ = of_command_line(
        shop, tmp_path, "--features", ",".join(chosen), "--categories", "brand"
    )
    here = AutoRanker(time_budget=BUDGET, features=chosen, categories="brand")
    here.fit(shop, y="grade", qid="search_id")
    assert list(here.feature_names_in_) == list(there.feature_names_in_) == chosen
    assert here.table_columns_["categories"] == there.table_columns_["categories"]
    scores = here.predict(shop, qid="search_id")
    np.testing.assert_allclose(scores, there.predict(shop, qid="search_id"))


def test_names_of_columns_need_a_frame(shop):
    with pytest.raises(InvalidInputError, match="`X` must be a data frame .* if `categories`"):
        AutoRanker(categories="brand").fit(shop[["bm25"]].to_numpy(), shop["grade"])


def test_rows_are_explained_as_they_are_scored(shop):
    ranker = SearchRanker(basis=20).fit(shop, y="grade", qid="search_id")
    found = ranker.explain(shop, qid="search_id", a=3, b=5, n_permutations=1)
    scores = ranker.predict(shop, qid="search_id")
    np.testing.assert_allclose([found.score_a, found.score_b], scores[[3, 5]])
