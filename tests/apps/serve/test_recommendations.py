"""A server of recommendations: by name, for new users, and in its own words when refused."""

import numpy as np
import pandas as pd
import pytest

from rankwise import RankingFactorization, make_app

testclient = pytest.importorskip("starlette.testclient")

RNG = np.random.default_rng(0)
USERS, ITEMS = np.nonzero(RNG.random((20, 15)) < 0.6)
FRAME = pd.DataFrame(
    {
        "user": [f"u{u}" for u in USERS],
        "item": [f"i{i}" for i in ITEMS],
        "rating": RNG.integers(1, 6, len(USERS)).astype(float),
    }
)
MODEL = RankingFactorization(2, C=5.0, random_state=0).fit(FRAME)
CLIENT = testclient.TestClient(make_app(MODEL, name="films", max_items=50))


def ask(**content):
    return CLIENT.post("/recommend", json=content)


def test_a_user_gets_what_python_recommends():
    found = ask(user="u7", k=3).json()
    assert found["items"] == MODEL.recommend("u7", 3).tolist()
    assert found["scores"] == MODEL.predict("u7", MODEL.recommend("u7", 3)).tolist()
    assert found["model"]["name"] == "films"
    assert len(ask(user="u7", k=50, exclude_rated=False).json()["items"]) == 15


def test_a_new_user_says_what_they_like():
    ratings = {"i3": 5.0, "i8": 1.0}
    assert ask(ratings=ratings).json()["items"] == MODEL.fold_in(ratings).recommend(0).tolist()


def test_items_like_another():
    assert ask(item="i3", k=4).json()["items"] == MODEL.similar_items("i3", 4).tolist()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"user": "nobody"}, "must be known to the model: got nobody"),
        ({"user": ["u1"]}, "must be a name or a number"),
        ({}, 'one of "user"'),
        ({"user": "u1", "item": "i1"}, 'one of "user"'),
        ({"user": "u1", "n": 3}, "got 'n'"),
        ({"user": "u1", "k": 0}, "whole number from 1 to 50"),
        ({"ratings": {"i3": "good"}}, "must hold numbers"),
        ({"ratings": {}}, "must be an object of 1 to 50 numbers"),
        ({"ratings": {"unknown": 3}}, "must be known to the model"),
    ],
)
def test_what_makes_no_sense_is_refused(content, message):
    answer = ask(**content)
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_a_body_that_is_no_json_is_refused():
    answer = CLIENT.post("/recommend", content=b"{")
    assert answer.status_code == 400
    assert "must be JSON" in answer.json()["error"]


def test_the_interface_says_what_it_takes():
    assert CLIENT.get("/health").json()["n_users"] == 20
    described = CLIENT.get("/openapi.json").json()["paths"]["/recommend"]["post"]
    example = described["requestBody"]["content"]["application/json"]["example"]
    assert ask(**example).status_code == 200
    assert "POST /recommend" in CLIENT.get("/docs").text
    assert "POST /recommend" in CLIENT.post("/rank", json={}).json()["error"]
