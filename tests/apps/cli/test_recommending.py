"""``rankwise fit factorization`` and what can be done with its model: from a file, by name."""

import json

import numpy as np
import pandas as pd
import pytest

import rankwise
from rankwise.io import write_table

RNG = np.random.default_rng(0)
TASTE, KIND = RNG.normal(size=(30, 2)), RNG.normal(size=(20, 2))
STARS = np.digitize(TASTE @ KIND.T, [-1.5, 0, 1, 2])
USERS, ITEMS = np.nonzero(RNG.random(STARS.shape) < 0.6)


@pytest.fixture
def ratings(folder):
    names = {"userId": USERS + 1, "movieId": [f"m{i}" for i in ITEMS]}
    table = {**names, "rating": STARS[USERS, ITEMS], "timestamp": np.arange(len(USERS))}
    write_table(folder / "ratings.csv", table)
    return "ratings.csv"


@pytest.fixture
def model(succeed, ratings):
    succeed("fit", "factorization", ratings, "-o", "model", "--n-components", 2)
    return "model"


def test_a_fit_says_what_it_read_and_what_it_is_worth(succeed, ratings, folder):
    options = ("-o", "model", "--n-components", 2)
    printed = succeed("fit", "factorization", ratings, *options)
    assert "users from 'userId', items from 'movieId', ratings from 'rating'" in printed
    fitted = rankwise.RankingFactorization(2, held_out=0.2, random_state=0)
    honest = fitted.fit(pd.read_csv(folder / ratings)).honest_value_
    assert f"{honest}." in printed
    found = json.loads(succeed("fit", "factorization", ratings, *options, "--json"))
    assert found["honest_value"]["value"] == honest.value
    assert found["columns"]["user"] == "userId"
    silent = succeed("fit", "factorization", ratings, *options, "--held-out", 0)
    assert "NDCG" not in silent


def test_recommendations_equal_python(succeed, model, folder):
    loaded = rankwise.load(folder / model)
    found = json.loads(succeed("recommend", model, "--user", 7, "--top", 3, "--json"))
    assert found["item"] == loaded.recommend(7, 3).tolist()
    assert found["score"] == pytest.approx(loaded.predict(7, loaded.recommend(7, 3)))
    assert succeed("recommend", model, "--user", 7, "--top", 3).split()[5] == found["item"][0]
    succeed("recommend", model, "-o", "all.csv", "--top", 2)
    rows = pd.read_csv(folder / "all.csv")
    assert rows.item.tolist() == [i for user in loaded.users_ for i in loaded.recommend(user, 2)]
    like = json.loads(succeed("recommend", model, "--similar-to", "m3", "--top", 4, "--json"))
    assert like["item"] == loaded.similar_items("m3", 4).tolist()


def test_new_users_get_recommendations_without_a_fit(succeed, model, folder):
    new = {"userId": ["ann", "ann"], "movieId": ["m3", "m5"], "rating": [4, 0]}
    write_table(folder / "new.csv", new)
    found = json.loads(succeed("recommend", model, "--ratings", "new.csv", "--json"))
    folded = rankwise.load(folder / model).fold_in(pd.DataFrame(new))
    assert found["user"][0] == "ann"
    assert found["item"] == folded.recommend("ann").tolist()


def test_scores_of_a_file_are_evaluated_user_by_user(succeed, model, ratings, folder):
    succeed("predict", model, ratings, "-o", "scores.csv")
    found = json.loads(succeed("evaluate", ratings, "scores.csv", "-m", "NDCG @ 10", "--json"))
    value = rankwise.load(folder / model).score(pd.read_csv(folder / ratings))
    assert found["n_queries"] == len(np.unique(USERS))
    assert found["measures"]["NDCG @ 10"]["mean"] == pytest.approx(value)
    best = succeed("rank", model, ratings, "--top", 1).splitlines()
    assert best[0].split() == ["query", "item", "rank", "score"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("model", "--user", 999), "--user must be known to the model: got 999"),
        (("model",), "--user must name somebody, or -o a file"),
        (("model", "--user", 1, "--similar-to", "m1"), "Only one of --similar-to"),
        (("ranker", "--user", 1), "must hold a model of fit factorization"),
    ],
)
def test_what_makes_no_sense_is_refused(refuse, model, folder, arguments, message):
    rankwise.RankRLS().fit([[0.0], [1.0]], [0, 1]).save(folder / "ranker")
    assert message in refuse("recommend", *arguments)


def test_a_report_is_judged_user_by_user(succeed, model, ratings, folder):
    pytest.importorskip("matplotlib")
    succeed("report", model, ratings, "-o", "page.html")
    page = (folder / "page.html").read_text()
    value = rankwise.load(folder / model).score(pd.read_csv(folder / ratings))
    assert f"{value:.3f}" in page
    assert "NDCG @ 10, unseen ratings" in page
    assert "Worst 1: query" in page
    assert "What the model uses" not in page


def test_a_report_needs_ratings(succeed, refuse, ratings, folder):
    choices = {"userId": USERS + 1, "movieId": [f"m{i}" for i in ITEMS]}
    write_table(folder / "choices.csv", choices)
    succeed("fit", "factorization", "choices.csv", "-o", "model", "--n-components", 2)
    assert "a column of ratings" in refuse("report", "model", "choices.csv", "-o", "page.html")
