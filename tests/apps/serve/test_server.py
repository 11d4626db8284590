"""The server answers as `predict` does, and says clearly what it refuses."""

import json
import re
import socket
import subprocess
import sys
import time
import urllib.request
from copy import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rankwise import (
    BoostedRanker,
    IndicatorEncoder,
    InvalidInputError,
    MissingExtraError,
    PreferenceGP,
    RankerPipeline,
    RankingFactorization,
    RankRLS,
    make_app,
    serve_ranker,
)
from rankwise.apps.cli.commands import ServeCommand
from rankwise.apps.cli.jobs.models import serve
from rankwise.apps.serve.server import Pace

testclient = pytest.importorskip("starlette.testclient")


@pytest.fixture(scope="module")
def ranker():
    X = np.random.default_rng(0).normal(size=(40, 3))
    return RankRLS().fit(pd.DataFrame(X, columns=["text", "clicks", "age"]), X[:, 0] - X[:, 2])


@pytest.fixture
def client(ranker):
    return testclient.TestClient(make_app(ranker, max_items=20, max_bytes=5000))


def scores_of(ranker, rows):
    return ranker.predict(pd.DataFrame(rows, columns=["text", "clicks", "age"]))


ROWS = [[0.5, 1.0, 2.0], [3.0, 0.0, 0.0], [1.0, 1.0, 1.0]]


def test_scores_and_order_are_those_of_the_ranker(client, ranker):
    answer = client.post("/rank", json={"items": ROWS})
    assert answer.status_code == 200
    expected = scores_of(ranker, ROWS)
    np.testing.assert_allclose(answer.json()["scores"], expected)
    assert answer.json()["order"] == np.argsort(-expected).tolist()


ODD_BODIES = [
    '{"items": [[1, 2, 3], [4, 5, 6e0]], "k": 1, "ids": ["a", "b"]}',
    '{"items": [[1, 2, 3], [4, 5, 6]], "items": [[1, 2, 3]]}',
    '{"items": [[1, 2, 3], [4, 5, 6]], "\\u0069tems": [[1, 2, 3]]}',
    '{"items": [[1, 2, 3]], "items": null}',
    '{"items": [[1, 2, 3]], "queries": []}',
    '{"items": [[1, 2, 3]], "ids": ["a", "b"]}',
    '{"items": [[1, 2, 3]], "k": NaN}',
    '{"items": [[1, 2, 3]]]}',
    '{"items": [[1, 2, 3]], }',
    '{"items": [[1, 2, 3]], "odd": 1}',
    '{"items": [[1, 2, 3]], "ids": [[]]}',
    '{"items": [[1, 2, 1e999]]}',
    '{"items": [[1, 2, 12345678901234567890123]]}',
    '{"items": [[1, 2, 0.12345678901234567890123]]}',
    '{"items": [[1, 2, -0], [1, 2, true]]}',
    '{"items": [[1, 2], [1, 2, 3]]}',
    '{"items": [' + ", ".join(["[1, 2, 3]"] * 21) + "]}",
]


@pytest.mark.parametrize("body", ODD_BODIES)
def test_rows_that_come_first_are_read_as_anywhere_else(client, body):
    later = '{"k": null, ' + body[1:]
    found, expected = (client.post("/rank", content=text) for text in (body, later))
    place = re.compile(r"line \d+ column \d+ \(char \d+\)")
    assert found.status_code == expected.status_code
    assert place.sub("", found.text) == place.sub("", expected.text)


def test_ids_come_in_ranked_order_and_k_cuts(client):
    answer = client.post("/rank", json={"items": ROWS, "ids": ["a", 7, None], "k": 2}).json()
    assert answer["ids"] == [7, None]
    assert answer["order"] == [1, 2]
    assert len(answer["scores"]) == 3


def test_items_may_be_objects_in_any_order(client, ranker):
    items = [{"age": 2.0, "text": 0.5, "clicks": 1}, {"clicks": 0, "age": 0, "text": 3.0}]
    answer = client.post("/rank", json={"items": items}).json()
    np.testing.assert_allclose(answer["scores"], scores_of(ranker, ROWS[:2]))


def test_a_batch_answers_each_query(client, ranker):
    queries = [{"items": ROWS[:2], "ids": ["a", "b"]}, {"items": ROWS[1:]}]
    answers = client.post("/rank", json={"queries": queries}).json()["queries"]
    assert answers[0]["ids"] == ["b", "a"]
    np.testing.assert_allclose(answers[1]["scores"], scores_of(ranker, ROWS[1:]))
    assert answers[1]["order"] == [0, 1]


def test_health_says_what_is_served(client):
    facts = client.get("/health").json()
    assert facts["status"] == "ok"
    assert facts["ranker"] == "RankRLS"
    assert facts["features"] == ["text", "clicks", "age"]


def test_metrics_count(client):
    client.post("/rank", json={"items": ROWS})
    client.post("/rank", json={"items": []})
    text = client.get("/metrics").text
    assert 'rankwise_requests_total{status="200"} 1' in text
    assert 'rankwise_requests_total{status="400"} 1' in text
    assert "rankwise_items_total 3" in text
    assert 'rankwise_request_seconds_bucket{le="+Inf"} 2' in text
    assert "rankwise_request_seconds_count 2" in text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{", "must be JSON"),
        ("[" * 100_0, "must be JSON"),
        ('{"items": [[1, 2, NaN]]}', "NaN is not a number in JSON"),
        ("[]", 'either "items"'),
        ({"items": ROWS, "queries": []}, 'either "items"'),
        ({}, 'either "items"'),
        ({"items": ROWS, "top": 3}, "got 'top'"),
        ({"items": ROWS, "k": 0}, '"k" must be a whole number above 0: got 0'),
        ({"items": ROWS, "k": True}, '"k" must be a whole number'),
        ({"items": []}, "items must be a list of at least one item: got an empty list"),
        ({"items": "abc"}, "got text"),
        ({"items": None}, "got nothing"),
        ({"items": [[1, 2]]}, r"items\[0\] must be a list of 3 numbers: got 2 entries"),
        ({"items": [[1, 2, 3], 5]}, r"items\[1\] must be a list of 3 numbers: got a number"),
        ({"items": [[1, 2, "3"]]}, "got 3 entries that are not all numbers"),
        ({"items": [[1, 2, 3], [1, 2, None]]}, r"items\[1\].*that are not all numbers"),
        ({"items": [[1, 2, 3], [1, 2, 10**400]]}, "within double precision"),
        ('{"items": [[1, 2, 1e999]]}', r"items\[0\] must hold finite numbers"),
        ({"items": [{"text": 1, "clicks": 2}]}, r"must have the feature 'age': it is missing"),
        (
            {"items": [{"text": 1, "clicks": 2, "agee": 4}]},
            "the feature 'age': it is missing; got 'agee'. Did you mean 'age'",
        ),
        ({"items": ROWS, "ids": [1]}, "ids must hold an id for each of the 3 items: got 1"),
        ({"items": ROWS, "ids": "abc"}, "got text"),
        ({"queries": {}}, '"queries" must be a list of objects: got an object'),
        ({"queries": [{}]}, r'queries\[0\] must be an object with "items"'),
        ({"queries": [{"items": [[1]]}]}, r"queries\[0\].items\[0\] must be a list of 3"),
    ],
)
def test_wrong_requests_get_a_clear_answer(client, body, message):
    content = body if isinstance(body, str) else json.dumps(body)
    answer = client.post("/rank", content=content)
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}
    with pytest.raises(ValueError, match=message):
        raise ValueError(answer.json()["error"])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"items": [[0.0, 0.0, 0.0]] * 21}, "at most 20 items: got 21"),
        ({"queries": [{"items": [[0, 0, 0]] * 11}] * 2}, "at most 20 items in all"),
        ({"items": [[0.123456789] * 3] * 200}, "at most 5000 bytes"),
    ],
)
def test_too_much_is_refused(client, body, message):
    answer = client.post("/rank", json=body)
    assert answer.status_code == 413
    assert message in answer.json()["error"]


def test_other_addresses_say_what_is_there(client):
    assert client.get("/nothing").status_code == 404
    wrong = client.get("/rank")
    assert wrong.status_code == 405
    assert "POST /rank" in wrong.json()["error"]
    assert wrong.headers["allow"] == "POST"


def test_objects_need_names():
    client = testclient.TestClient(make_app(RankRLS().fit([[0.0], [1.0]], [0, 1])))
    answer = client.post("/rank", json={"items": [{"a": 1}]})
    assert "fitted without names" in answer.json()["error"]


def test_pipelines_and_processes_are_served():
    X = np.random.default_rng(0).normal(size=(20, 2))
    for ranker in (make_pipeline(StandardScaler(), RankRLS()), PreferenceGP()):
        ranker.fit(X, X[:, 0])
        client = testclient.TestClient(make_app(ranker))
        answer = client.post("/rank", json={"items": X.tolist()}).json()
        np.testing.assert_allclose(answer["scores"], ranker.predict(X))


def test_rankers_that_cannot_be_served_are_refused():
    with pytest.raises(InvalidInputError, match="must be fitted to rows of features"):
        make_app(RankRLS())
    with pytest.raises(InvalidInputError, match="must be fitted to rows of features"):
        make_app(RankingFactorization())
    with pytest.raises(InvalidInputError, match="must have one output"):
        make_app(RankRLS().fit([[0.0], [1.0]], [[0, 1], [1, 0]]))
    fitted = RankRLS().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(InvalidInputError, match="`max_items` must be a whole number"):
        make_app(fitted, max_items=0)
    with pytest.raises(InvalidInputError, match="`max_bytes` must be a whole number"):
        make_app(fitted, max_bytes=-1)


@pytest.mark.parametrize(("package", "call"), [("starlette", make_app), ("uvicorn", serve_ranker)])
def test_missing_packages_name_the_extra(package, call, ranker, monkeypatch):
    loaded = [name for name in sys.modules if name.partition(".")[0] == package]
    for name in {package, *loaded}:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r"rankwise\[serve\]"):
        call(ranker)


def test_a_real_server_answers(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code = (
        "from rankwise import RankRLS, serve_ranker\n"
        f"serve_ranker(RankRLS().fit([[0.0], [1.0]], [0, 1]), port={port})\n"
    )
    server = subprocess.Popen([sys.executable, "-c", code])
    try:
        answer = ask(port, b'{"items": [[0.5], [2.0]]}')
        assert answer["order"] == [1, 0]
    finally:
        server.terminate()
        server.wait(timeout=20)


def ask(port, body):
    for _ in range(300):
        try:
            request = urllib.request.Request(f"http://127.0.0.1:{port}/rank", body)
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except ConnectionError:
            time.sleep(0.1)
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionError):
                raise
            time.sleep(0.1)
    raise AssertionError("the server did not start")


# Items as people have them


def test_items_may_carry_an_id_and_other_keys(client):
    items = [
        {"id": "low", "text": 0.0, "clicks": 0.0, "age": 0.0, "title": "x", "tags": ["a"]},
        {"id": "high", "text": 9.0, "clicks": 9.0, "age": 9.0},
    ]
    plain = client.post("/rank", json={"items": [[0, 0, 0], [9, 9, 9]]}).json()
    answer = client.post("/rank", json={"items": items}).json()
    assert answer["scores"] == plain["scores"]
    assert answer["ids"] == [items[at]["id"] for at in answer["order"]]
    batch = client.post("/rank", json={"queries": [{"items": items}], "k": 1}).json()
    assert batch["queries"][0]["ids"] == answer["ids"][:1]
    given = client.post("/rank", json={"items": items, "ids": [1, 2]}).json()
    assert set(given["ids"]) == {1, 2}
    assert "ids" not in client.post("/rank", json={"items": [items[0], [1, 2, 3]]}).json()


def test_the_column_that_named_items_carries_their_ids(ranker):
    named = copy(ranker)
    named.table_columns_ = {"item": ["sku"], "categories": []}
    there = testclient.TestClient(make_app(named))
    values = {"text": 0.0, "clicks": 0.0, "age": 0.0}
    items = [{"sku": "low", **values}, {"sku": "high", **values, "text": 9.0}]
    assert there.post("/rank", json={"items": items}).json()["ids"] == ["high", "low"]
    both = [{"id": k, **item} for k, item in enumerate(items)]
    assert there.post("/rank", json={"items": both}).json()["ids"] == [1, 0]


def test_an_id_must_be_a_single_value(client):
    items = [{"id": [1], "text": 0.0, "clicks": 0.0, "age": 0.0}]
    answer = client.post("/rank", json={"items": items})
    assert answer.status_code == 400
    assert "ids[0] must be text, a finite number" in answer.json()["error"]


def test_missing_features_are_blanks_where_the_model_takes_blanks():
    pytest.importorskip("lightgbm", reason="the extra 'trees' is not installed")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["price", "stars"])
    X.loc[::5, "price"] = np.nan
    ranker = BoostedRanker(n_trees=5).fit(X, X["stars"].round(), np.arange(200) // 10)
    browser = testclient.TestClient(make_app(ranker))
    items = [{"stars": 1.0}, {"stars": 1.0, "price": None}, {"price": 0.5, "stars": 1.0}]
    scores = browser.post("/rank", json={"items": items}).json()["scores"]
    expected = ranker.predict(pd.DataFrame(items, columns=["price", "stars"]).astype(float))
    np.testing.assert_allclose(scores, expected)
    rows = browser.post("/rank", json={"items": [[None, 1.0]]}).json()["scores"]
    assert rows == scores[:1]
    misspelt = browser.post("/rank", json={"items": [{"stars": 1.0, "prize": 2.0}]})
    assert "it is missing; got 'prize'. Did you mean 'price'" in misspelt.json()["error"]
    other = browser.post("/rank", json={"items": [{"stars": 1.0, "pieces": 2.0}]})
    assert other.json()["scores"] == scores[:1]  # another word, and no feature
    empty = browser.post("/rank", json={"items": [{"id": 1}]})
    assert "must have the feature 'price': it is missing." in empty.json()["error"]


def test_an_example_shows_text_as_text_and_the_first_page_leads_to_it():
    rows = pd.DataFrame({"kind": ["inn", "spa"] * 6, "stars": np.arange(12.0)})
    ranker = RankerPipeline([IndicatorEncoder(), RankRLS()]).fit(rows, rows["stars"])
    ranker.table_columns_ = {
        "categories": ["kind"],
        "formed": ["stars"],
        "forms": ["decimal points"],
    }
    browser = testclient.TestClient(make_app(ranker))
    body = browser.get("/openapi.json").json()["paths"]["/rank"]["post"]["requestBody"]
    example = body["content"]["application/json"]["example"]
    assert example == {"items": [{"id": "a", "kind": "text", "stars": 0.5}]}
    assert browser.post("/rank", json=example).status_code == 200
    first = browser.get("/")
    assert first.url.path == "/docs"
    assert "POST /rank" in first.text


def test_blanks_count_zero_in_models_of_search_engines():
    ranker = RankRLS().fit(pd.DataFrame({"bm25": [0.0, 1.0, 2.0]}), [0, 1, 2])
    ranker.table_columns_ = {"blanks": ["0"]}
    browser = testclient.TestClient(make_app(ranker))
    items = [{"bm25": None}, {"bm25": 0.0}, {"bm25": 1.0}]
    scores = browser.post("/rank", json={"items": items}).json()["scores"]
    assert scores[0] == scores[1] < scores[2]


def test_answers_name_the_model():
    ranker = RankRLS().fit([[0.0], [1.0]], [0, 1])
    named = testclient.TestClient(make_app(ranker, name="shop.model", version="ab12"))
    answer = named.post("/rank", json={"items": [[1.0]]}).json()
    assert answer["model"] == {"name": "shop.model", "version": "ab12"}
    batch = named.post("/rank", json={"queries": [{"items": [[1.0]]}]}).json()
    assert batch["model"] == named.get("/health").json()["model"] == answer["model"]
    plain = testclient.TestClient(make_app(ranker)).post("/rank", json={"items": [[1.0]]}).json()
    assert plain["model"]["name"] == "RankRLS"


def test_the_interface_is_described_for_programs_and_people(client):
    description = client.get("/openapi.json").json()
    assert description["openapi"].startswith("3.")
    assert set(description["paths"]) == {"/rank", "/health", "/metrics"}
    body = description["paths"]["/rank"]["post"]["requestBody"]["content"]["application/json"]
    assert client.post("/rank", json=body["example"]).status_code == 200
    named, listed = body["schema"]["properties"]["items"]["items"]["oneOf"]
    assert named["required"] == ["text", "clicks", "age"]
    assert listed["minItems"] == 3
    page = client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "POST /rank" in page.text
    assert "<script" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_a_port_that_is_taken_is_said_before_anything_is_announced():
    ranker, announced = RankRLS().fit([[0.0], [1.0]], [0, 1]), []
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InvalidInputError, match=f"listen on 127.0.0.1, port {port}"):
            serve_ranker(ranker, port=port, announce=announced.append)
    assert announced == []


def test_the_command_announces_nothing_without_the_extra(tmp_path, monkeypatch, capsys):
    RankRLS().fit([[0.0], [1.0]], [0, 1]).save(tmp_path / "m.model")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[serve\]"'):
        serve(ServeCommand(tmp_path / "m.model"))
    assert "Serving" not in capsys.readouterr().out


def test_what_is_answered_at_once_needs_no_thread_until_an_answer_is_slow():
    pace = Pace()
    assert not pace.is_quick(10)  # nothing is known yet
    pace.add(100_000, 1e-4)
    assert pace.is_quick(100_000)
    assert not pace.is_quick(10_000_000)
    pace.add(10, 5e-3)
    assert not pace.is_quick(10)
    for _ in range(200):
        pace.add(10, 1e-5)
    assert pace.is_quick(10)
