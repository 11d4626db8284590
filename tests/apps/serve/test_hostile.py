"""Requests that no model can answer, bodies that are far too large, sockets that are too slow."""

import http.client
import json
import logging
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from rankwise import AutoRanker, Polynomial, RankRLS, make_app

testclient = pytest.importorskip("starlette.testclient")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))


class StubRanker(BaseEstimator):
    """Answers with whatever a function of the rows does."""

    n_features_in_ = 1

    def __init__(self, answer):
        self.answer = answer

    def predict(self, X):
        return self.answer(X) if np.any(X) else X[:, 0]


def raising(error):
    def answer(_):
        raise error

    return answer


def client(ranker, **limits):
    return testclient.TestClient(make_app(ranker, **limits))


def strict(text):
    """Read JSON as others do: NaN and infinity are refused."""
    return json.loads(text, parse_constant=pytest.fail)


@pytest.fixture(scope="module")
def models():
    mixed = np.array([[*row, "red" if row[0] > 0 else "blue"] for row in X.tolist()], dtype=object)
    return {
        "cubic": RankRLS(kernel=Polynomial(3)).fit(X, X[:, 0]),
        "linear": RankRLS().fit(X, X[:, 0]),
        "raw": AutoRanker("KendallTau", time_budget=1e-6).fit(
            mixed, X[:, 0], qid=np.arange(40) // 4
        ),
    }


@pytest.mark.parametrize("value", ["1e155", "1e308", "1e999", "9" * 400, '"inf"', '"1e999"'])
@pytest.mark.parametrize("name", ["cubic", "linear", "raw"])
def test_numbers_that_no_model_can_score_are_a_clear_400(models, name, value):
    more = ', "red"' if name == "raw" else ""
    served = client(models[name])
    answer = served.post("/rank", content=f'{{"items": [[{value}, 0, 0{more}]]}}')
    assert answer.status_code in (200, 400)  # a model may well score a large number
    assert answer.headers["content-type"] == "application/json"
    if value != "1e155" and value != "1e308":
        assert answer.status_code == 400
    if answer.status_code == 400:
        assert "must" in strict(answer.text)["error"]
    else:
        assert np.isfinite(strict(answer.text)["scores"]).all()
    assert (
        f'rankwise_requests_total{{status="{answer.status_code}"}} 1' in served.get("/metrics").text
    )


def test_a_kernel_that_overflows_is_a_clear_400(models):
    answer = client(models["cubic"]).post("/rank", json={"items": [[1e155, 0, 0]]})
    assert answer.status_code == 400
    assert "can score" in answer.json()["error"]


@pytest.mark.parametrize(
    "error", [ValueError("infinite"), OverflowError("too large"), FloatingPointError("overflow")]
)
def test_what_a_model_refuses_is_a_clear_400(error):
    answer = client(StubRanker(raising(error))).post("/rank", json={"items": [[1.0]]})
    assert answer.status_code == 400
    assert f"features that the ranker can score: {error}" in answer.json()["error"]


@pytest.mark.parametrize("score", [np.nan, np.inf, -np.inf])
def test_scores_that_are_not_finite_are_not_sent(score):
    served = client(StubRanker(lambda rows: np.full(len(rows), score)))
    answer = served.post("/rank", json={"items": [[1.0], [2.0]]})
    assert answer.status_code == 400
    assert "double precision: item 0" in strict(answer.text)["error"]


@pytest.mark.parametrize(
    ("ids", "got"),
    [
        ("[1e999]", "a number beyond double precision"),
        ("[-1e999]", "a number beyond double precision"),
        ("[[1]]", "a list"),
        ("[[]]", "an empty list"),
        ('[{"a": 1e999}]', "an object"),
    ],
)
def test_ids_that_cannot_be_sent_back_are_refused(models, ids, got):
    answer = client(models["linear"]).post(
        "/rank", content=f'{{"items": [[1, 2, 3]], "ids": {ids}}}'
    )
    assert answer.status_code == 400
    assert (
        f"ids[0] must be text, a finite number, a truth value or null: got {got}."
        == (strict(answer.text)["error"])
    )


def test_an_unexpected_failure_is_json_without_a_traceback_counted_and_logged(caplog):
    served = client(StubRanker(raising(RuntimeError("secret"))))
    with caplog.at_level(logging.ERROR, "rankwise.apps.serve"):
        answer = served.post("/rank", json={"items": [[1.0]]})
    assert answer.status_code == 500
    assert answer.json() == {"error": "The server failed; its log says why."}
    assert "secret" in caplog.text
    assert 'rankwise_requests_total{status="500"} 1' in served.get("/metrics").text


def test_every_failure_is_counted(models):
    served = client(models["linear"], max_bytes=100)
    served.get("/nothing")
    served.get("/rank")
    served.post("/rank", content=b"x" * 101)
    text = served.get("/metrics").text
    for status in (404, 405, 413):
        assert f'rankwise_requests_total{{status="{status}"}} 1' in text


EMPTY = b'{"items": [' + b"[]," * 700_000 + b"[]]}"


@pytest.mark.parametrize(
    "body",
    [EMPTY, EMPTY.replace(b"[]", b"{}"), EMPTY.replace(b"[]", b"0"), EMPTY.replace(b"[]", b'""')],
    ids=["lists", "objects", "numbers", "texts"],
)
def test_too_many_values_are_refused_before_they_are_read(models, monkeypatch, body):
    monkeypatch.setattr("rankwise.apps.serve.requests.json", None)  # reading would fail
    answer = client(models["linear"]).post("/rank", content=body)
    assert answer.status_code == 413
    assert "enough for 10000 items of 3 features" in answer.json()["error"]


def test_signs_inside_of_texts_are_no_values(models):
    ids = ["[,{" * 1000 + '\\"', "\\" * 7 + '"[[[' * 1000]
    body = {"items": [[1, 0, 0], [0, 1, 0]], "ids": ids}
    answer = client(models["linear"], max_items=2).post("/rank", json=body)
    assert answer.status_code == 200, answer.text
    assert sorted(answer.json()["ids"]) == sorted(ids)


def test_as_many_items_as_allowed_are_answered_in_every_form(models):
    served = client(models["linear"], max_items=500)
    names = RankRLS().fit(_frame(), X[:, 0])
    items, ids = [[1.5, 2.5, 3.5]] * 500, list(range(500))
    queries = {"queries": [{"items": [item], "ids": [at]} for at, item in enumerate(items)]}
    assert served.post("/rank", json={"items": items, "ids": ids, "k": 3}).status_code == 200
    assert served.post("/rank", json={**queries, "k": 3}).status_code == 200
    named = [dict(zip("abc", item, strict=True)) for item in items]
    answer = client(names, max_items=500).post("/rank", json={"items": named, "ids": ids})
    assert answer.status_code == 200


def test_long_bodies_give_the_same_scores_as_short_ones(models):
    items = RNG.normal(size=(9000, 3)).round(6).tolist()
    items[4] = [1, 2, 3]
    answer = client(models["linear"]).post("/rank", json={"items": items})
    np.testing.assert_array_equal(
        answer.json()["scores"], models["linear"].predict(np.array(items))
    )
    items[8000] = [1, 2]
    answer = client(models["linear"]).post("/rank", json={"items": items})
    assert "items[8000] must be a list of 3 numbers: got 2 entries" in answer.json()["error"]


@pytest.mark.parametrize("depth", [1500, 40_000])
def test_deep_nesting_is_refused(models, depth):
    for body in ("[" * depth, '{"items": ' * depth, '{"ids": ' + "[" * depth + "]" * depth + "}"):
        answer = client(models["linear"]).post("/rank", content=body)
        assert answer.status_code == 400
        assert "must be JSON" in answer.json()["error"]


def test_a_few_requests_are_scored_at_once_and_the_others_wait():
    lock, now, most = threading.Lock(), [0], [0]

    def slow(rows):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.05)
        with lock:
            now[0] -= 1
        return rows[:, 0]

    answers = []
    with client(StubRanker(slow)) as served:

        def post():
            answers.append(served.post("/rank", json={"items": [[1.0]]}).status_code)

        threads = [threading.Thread(target=post) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == [200] * 12
    assert most[0] <= 2


# Running servers


SERVER = """
from rankwise import RankRLS, serve_ranker
serve_ranker(RankRLS().fit([[0.0], [1.0]], [0, 1]), port={port}, max_bytes=1000, timeout={timeout})
"""


@pytest.fixture
def serving():
    """Start servers on this machine, and stop them at the end."""
    started = []

    def start(timeout):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        code = SERVER.format(port=port, timeout=timeout)
        started.append(subprocess.Popen([sys.executable, "-c", code]))
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
            except ConnectionError:
                time.sleep(0.1)
            else:
                return port
        raise AssertionError("the server did not start")

    yield start
    for server in started:
        server.terminate()
        server.wait(timeout=60)


def post(port, body):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/rank", body)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def begun(port, text):
    """Return a connection on which something was sent."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(text)
    return connection


def until_closed(connection):
    """Return what the server says until it closes the connection; fail if it never does."""
    said = b""
    try:
        while part := connection.recv(1 << 16):
            said += part
    except ConnectionResetError:
        pass
    connection.close()
    return said


HEADER = b"POST /rank HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n"
WHOLE = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_slow_sockets_are_closed(serving):
    port = serving(timeout=1.0)
    silent, in_header = begun(port, b""), begun(port, HEADER[:30])
    in_body, second = begun(port, HEADER + b'{"items": ['), begun(port, WHOLE + HEADER[:30])
    assert until_closed(silent) == b""
    assert until_closed(in_header) == b""
    said = until_closed(in_body)
    assert said.startswith(b"HTTP/1.1 408")
    assert b"must arrive within 1 seconds" in said
    assert until_closed(second).startswith(b"HTTP/1.1 200")
    assert post(port, b'{"items": [[1], [2]]}')[1]["order"] == [1, 0]


def test_bodies_in_memory_are_bounded_and_make_room_again(serving):
    port = serving(timeout=60.0)
    held = [begun(port, HEADER + b" " * 899) for _ in range(8)]
    body = b'{"items": [[1], [2]]}' + b" " * 900
    for _ in range(600):  # the eight are read a moment after they were sent
        status, said = post(port, body)
        if status == 503:
            break
        time.sleep(0.05)
    assert status == 503
    assert "too large together" in said["error"]
    for connection in held:
        connection.close()
    for _ in range(600):
        status, said = post(port, body)
        if status == 200:
            break
        time.sleep(0.05)
    assert status == 200
    assert said["order"] == [1, 0]


def _frame():
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(X, columns=list("abc"))
