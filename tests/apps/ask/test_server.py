import threading

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra 'ask' is not installed")

from starlette.testclient import TestClient

from rankwise.apps.ask.items import Item, ItemList
from rankwise.apps.ask.ranking import AskGoal
from rankwise.apps.ask.server import build_app, ranking_csv
from rankwise.apps.ask.session import AskSession
from rankwise.apps.ask.store import AnswerStore

HOST = "http://localhost:8000"
FROM_PAGE = {"origin": HOST}
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def session(tmp_path):
    names = ["pear", "apple", HOSTILE, "fig", "kiwi"]
    items = ItemList(tuple(Item(name, text=f"about {name}") for name in names))
    running = AskSession(AnswerStore.open(tmp_path / "a.db", items), AskGoal())
    running.start()
    yield running
    running.close()


def client(session, token=None, base=HOST):
    return TestClient(build_app(session, token), base_url=base)


def joined(session, name="ann"):
    browser = client(session)
    state = browser.post("/api/join", json={"name": name}, headers=FROM_PAGE).json()
    return browser, state


def answer(browser, question, choice):
    body = {"question": question["id"], "answer": choice}
    return browser.post("/api/answer", json=body, headers=FROM_PAGE)


def test_a_session_from_joining_to_the_ranking(session):
    browser, state = joined(session)
    assert state["rater"] == "ann"
    for _ in range(10):
        question = state["question"]
        names = (question["left"]["name"], question["right"]["name"])
        state = answer(browser, question, "left" if names[0] < names[1] else "right").json()
    assert state["finished"]
    assert state["answers"] == 10
    assert session.wait_until_refitted()
    names = [item["name"] for item in browser.get("/api/state").json()["ranking"]]
    assert names == sorted(names)


def test_reloading_shows_the_same_question(session):
    browser, state = joined(session)
    assert browser.get("/api/state").json()["question"] == state["question"]


def test_a_resent_answer_counts_once(session):
    browser, state = joined(session)
    first = answer(browser, state["question"], "left").json()
    again = answer(browser, state["question"], "right").json()
    assert again["answers"] == 1
    assert again["question"] == first["question"]


def test_no_question_comes_twice_to_one_person(session):
    browser, state = joined(session)
    seen = set()
    while state["question"] is not None:
        sides = state["question"]
        pair = frozenset([sides["left"]["name"], sides["right"]["name"]])
        assert pair not in seen
        seen.add(pair)
        state = answer(browser, sides, "skip").json()
    assert len(seen) == 10


def test_undo_asks_the_same_question_again(session):
    browser, state = joined(session)
    first = state["question"]
    answer(browser, first, "left")
    back = browser.post("/api/undo", json={}, headers=FROM_PAGE).json()
    assert back["answers"] == 0
    assert {back["question"][side]["name"] for side in ("left", "right")} == {
        first[side]["name"] for side in ("left", "right")
    }


def test_two_people_are_asked_different_things(session):
    _, first = joined(session, "ann")
    _, second = joined(session, "bob")
    pairs = [
        {state["question"][side]["name"] for side in ("left", "right")} for state in (first, second)
    ]
    assert not pairs[0] & pairs[1]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"question": 1, "answer": "up"}, 400, "one of left, right, tie, skip"),
        ({"question": "1", "answer": "left"}, 400, "by number"),
        ({"question": 10**6, "answer": "left"}, 400, "asked of this rater"),
        ({"question": 1, "answer": "left", "more": "x" * 5000}, 413, "larger than 4096"),
    ],
)
def test_bad_answers_are_refused(session, body, status, message):
    browser, _ = joined(session)
    response = browser.post("/api/answer", json=body, headers=FROM_PAGE)
    assert response.status_code == status
    assert message in response.json()["error"]


def test_requests_must_be_json_objects(session):
    browser, _ = joined(session)
    headers = {**FROM_PAGE, "content-type": "application/json"}
    for text, message in [("{", "valid JSON"), ("[1]", "JSON object")]:
        response = browser.post("/api/answer", content=text, headers=headers)
        assert (response.status_code, message in response.json()["error"]) == (400, True)
    form = browser.post("/api/answer", data={"answer": "left"}, headers=FROM_PAGE)
    assert "must be JSON" in form.json()["error"]


def test_a_stranger_must_say_who_they_are(session):
    response = client(session).post("/api/answer", json={}, headers=FROM_PAGE)
    assert response.status_code == 401


def test_other_sites_cannot_answer(session):
    browser, state = joined(session)
    body = {"question": state["question"]["id"], "answer": "left"}
    for headers in [{}, {"origin": "http://evil.example"}, {"origin": "null"}]:
        assert browser.post("/api/answer", json=body, headers=headers).status_code == 403
    assert len(session.records) == 0


def test_a_rebound_host_name_is_refused(session):
    rebound = client(session, base="http://evil.example")
    assert rebound.get("/").status_code == 403


def test_a_page_for_other_machines_needs_its_token(session):
    browser = client(session, token="secret", base="http://192.0.2.7:8000")
    assert browser.get("/").status_code == 403
    assert browser.get("/?token=wrong").status_code == 403
    assert browser.get("/?token=secret").status_code == 200  # redirected, with a cookie now
    assert browser.get("/api/state").status_code == 200


def test_every_answer_carries_the_policy(session):
    browser, _ = joined(session)
    for path in ["/", "/page.js", "/api/state", "/nothing", "/report.html"]:
        response = browser.get(path)
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert "unsafe-inline" not in response.headers["content-security-policy"] or (
            path == "/report.html"
        )
        assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/image/0", "/image/99", "/image/..%2f..%2fetc%2fpasswd"])
def test_only_images_of_items_are_served(session, path):
    assert client(session).get(path).status_code == 404


@pytest.mark.portable
def test_hostile_names_stay_text_in_the_report(session):
    browser, _ = joined(session)
    text = browser.get("/report.html").text
    assert HOSTILE not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text


def test_the_ranking_is_a_table(session):
    lines = ranking_csv(session).splitlines()
    assert lines[0] == "rank,name,rank_low,rank_high,probability_best"
    assert len(lines) == 6


def test_twenty_raters_at_once_lose_and_double_nothing(tmp_path):
    rng = np.random.default_rng(0)
    items = ItemList(tuple(Item(f"item {i}") for i in range(40)))
    session = AskSession(AnswerStore.open(tmp_path / "a.db", items), AskGoal())
    session.start()
    acknowledged, failures = [], []

    def rate(name, choices):
        browser, state = joined(session, name)
        for choice in choices:
            question = state["question"]
            response = answer(browser, question, choice)
            if response.status_code != 200:
                failures.append(response.text)
            answer(browser, question, choice)  # a double click
            state = response.json()
            acknowledged.append(question["id"])

    choices = rng.choice(["left", "right", "tie"], size=(20, 100)).tolist()
    threads = [
        threading.Thread(target=rate, args=(f"rater {k}", row)) for k, row in enumerate(choices)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorded = sorted(record.question.id for record in session.records)
    stored = sorted(record.question.id for record in session.store.records())
    session.close()
    assert not failures
    assert recorded == stored == sorted(acknowledged)
    assert len(recorded) == 2000


def test_a_careless_rater_is_seen(tmp_path):
    rng = np.random.default_rng(0)
    items = ItemList(tuple(Item(f"{i:02}") for i in range(12)))
    session = AskSession(AnswerStore.open(tmp_path / "a.db", items), AskGoal())
    for number in range(4):
        rater = session.join(f"rater {number}")
        for _ in range(60):
            question = session.question(rater)
            good = "left" if question.left < question.right else "right"
            session.answer(
                rater, question.id, rng.choice(["left", "right"]) if number == 3 else good
            )
    session.start()
    assert session.wait_until_refitted()
    unusual = [summary.is_unusual for summary in session.raters()]
    session.close()
    assert unusual == [False, False, False, True]
