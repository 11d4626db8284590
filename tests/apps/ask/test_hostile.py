"""Requests that nobody sends by accident, files that are locked, and people who take all places."""

import csv
import io
import ipaddress
import json
import logging
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import closing

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra 'ask' is not installed")

from starlette.testclient import TestClient

from rankwise import leaderboard
from rankwise.apps.ask import session as session_module
from rankwise.apps.ask.items import Item, ItemList
from rankwise.apps.ask.ranking import AskGoal
from rankwise.apps.ask.server import JoinedFrom, build_app, ranking_csv, reachable
from rankwise.apps.ask.session import AskSession
from rankwise.apps.ask.store import AnswerStore
from rankwise.apps.cli.commands import Ask
from rankwise.apps.cli.jobs.ask import _announce
from rankwise.core.display import spreadsheet_text

HOST = "http://localhost:8000"
PAGE = {"origin": HOST, "content-type": "application/json"}
FORMULA = "=cmd|' /C calc'!A0"


def opened(path, names=("pear", "apple", "plum", "fig")):
    items = ItemList(tuple(Item(name) for name in names))
    return AskSession(AnswerStore.open(path, items), AskGoal())


@pytest.fixture
def session(tmp_path):
    with closing(opened(tmp_path / "a.db")) as running:
        yield running


def client(session, address="testclient", base=HOST):
    return TestClient(build_app(session), base_url=base, client=(address, 50000))


def join(browser, name="ann"):
    return browser.post("/api/join", json={"name": name}, headers=PAGE)


# Requests


@pytest.mark.parametrize(
    ("address", "body", "message"),
    [
        ("join", r'{"name": "\ud800"}', "text that can be stored"),
        ("join", "[" * 4000, "valid JSON"),
        ("answer", f'{{"question": {2**70}, "answer": "left"}}', "by number"),
        ("answer", f'{{"question": {"9" * 4060}, "answer": "left"}}', "by number"),
        ("answer", '{"question": -1, "answer": "left"}', "by number"),
        ("answer", '{"question": true, "answer": "left"}', "by number"),
        ("answer", '{"question": 1, "answer": ["left"]}', "by number"),
    ],
)
def test_small_hostile_requests_are_refused(session, address, body, message):
    browser = client(session)
    if address == "answer":
        join(browser)
    response = browser.post(f"/api/{address}", content=body, headers=PAGE)
    assert response.status_code == 400
    assert message in response.json()["error"]


def test_a_broken_origin_is_refused(session):
    response = client(session).post("/api/join", json={}, headers={**PAGE, "origin": "http://[::1"})
    assert response.status_code == 400
    assert "An origin must be an address" in response.json()["error"]


@pytest.mark.parametrize("number", ["9" * 5000, "-1", "x", "²"])
def test_images_have_the_numbers_of_items(session, number):
    assert client(session).get(f"/image/{number}").status_code == 404


def test_an_unexpected_failure_is_json(session, monkeypatch):
    browser = TestClient(build_app(session), base_url=HOST, raise_server_exceptions=False)
    monkeypatch.setattr(session, "standing", lambda: 1 / 0)
    response = browser.get("/api/state")
    assert response.status_code == 500
    assert response.json() == {"error": "The server failed; what it printed says why."}
    assert "default-src 'none'" in response.headers["content-security-policy"]


# A file that cannot be written


@pytest.fixture
def impatient(monkeypatch):
    """Wait for locks, and between attempts, a moment only."""
    monkeypatch.setattr("rankwise.apps.ask.store.PATIENCE", 0.05)
    monkeypatch.setattr(session_module, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(session_module, "LONGEST_PAUSE", 0.05)


def until(condition):
    for _ in range(3000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to pass")


def give(session, rater, answer="left"):
    session.answer(rater, session.question(rater).id, answer)


def test_a_locked_file_delays_the_ranking_and_does_not_freeze_it(tmp_path, impatient, caplog):
    with closing(opened(tmp_path / "a.db")) as session:
        browser = client(session)
        join(browser)
        rater = session.store.rater(browser.cookies["rankwise_rater"])
        session.start()
        assert session.wait_until_refitted()
        before = session.standing().certainty
        give(session, rater)
        session.question(rater)
        with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            session._changed.set()  # a refit must not succeed before the lock
            until(lambda: session.trouble is not None)
            assert "database is locked" in browser.get("/api/state").json()["trouble"]
            other.execute("COMMIT")
        until(lambda: session.trouble is None)
        for _ in range(4):
            give(session, rater)
        assert session.wait_until_refitted()
        assert session.standing().certainty != before
        assert browser.get("/api/state").json()["trouble"] is None
        assert dict(session.store.certainty())[5] == session.standing().certainty
    assert "The ranking could not be updated" in caplog.text


def test_a_refit_that_fails_in_any_way_is_tried_again(session, impatient, monkeypatch, caplog):
    attempts = []

    def failing(n_answers, value):
        attempts.append(n_answers)
        if len(attempts) < 4:
            raise sqlite3.OperationalError("database or disk is full")
        if len(attempts) == 4:
            raise MemoryError

    monkeypatch.setattr(session.store, "note_certainty", failing)
    with caplog.at_level(logging.WARNING, "rankwise.apps.ask"):
        session.start()
        until(lambda: len(attempts) >= 5)
        assert session.wait_until_refitted()
        until(lambda: session.trouble is None)
    assert "disk is full" in caplog.text


def test_a_locked_file_is_said_to_the_one_who_answers(tmp_path, impatient):
    with closing(opened(tmp_path / "a.db")) as session:
        browser = client(session)
        state = join(browser).json()
        answer = {"question": state["question"]["id"], "answer": "left"}
        with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            response = browser.post("/api/answer", json=answer, headers=PAGE)
            assert response.status_code == 503
            assert "cannot be used at the moment (database is locked)" in response.json()["error"]
            other.execute("COMMIT")
        assert browser.post("/api/answer", json=answer, headers=PAGE).json()["answers"] == 1


def test_a_full_disk_leaves_no_transaction_open(tmp_path):
    with closing(opened(tmp_path / "a.db")) as session:
        store = session.store
        rater = store.add_rater("ann", "key")
        pages = store._db.execute("PRAGMA page_count").fetchone()[0]
        store._db.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(sqlite3.OperationalError, match="full"):
            store.add_rater("x" * 100_000, "another")
        store._db.execute("PRAGMA max_page_count = 100000")
        question = store.ask(rater.id, 0, 1)
        assert store.record(rater.id, question.id, "left") is not None


# Names in spreadsheets


@pytest.mark.parametrize("text", [FORMULA, "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "-", "\n=1"])
def test_texts_that_begin_like_formulas_are_shown_as_they_are(text):
    assert spreadsheet_text(text) == f"'{text}"


@pytest.mark.parametrize("text", ["pear", "a=b", "-5", "+1.5e3", "", "'=x", "1-2", " =x"])
def test_other_texts_and_numbers_stay(text):
    assert spreadsheet_text(text) == text


def test_no_table_for_people_holds_a_formula(tmp_path):
    with closing(opened(tmp_path / "a.db", ["pear", FORMULA, "@home", "-3"])) as session:
        rows = list(csv.DictReader(io.StringIO(ranking_csv(session))))
    assert {row["name"] for row in rows} == {"pear", f"'{FORMULA}", "'@home", "-3"}
    board = leaderboard({"winner": [FORMULA, "pear", FORMULA], "loser": ["pear", "-3", "-3"]})
    rows = list(csv.DictReader(io.StringIO(board.format("csv"))))
    assert [row["item"] for row in rows] == [f"'{FORMULA}", "pear", "-3"]
    assert all(float(row["low"]) < float(row["score"]) for row in rows)


# Places


def test_somebody_who_joins_again_stays_the_same_person(session):
    browser = client(session)
    first, second = join(browser, "ann"), join(browser, "bob")
    assert first.json()["rater"] == second.json()["rater"] == "ann"
    assert len(session.store.raters()) == 1


def test_a_class_behind_one_address_can_join(session):
    for number in range(35):
        assert join(client(session, "192.0.2.7"), f"pupil {number}").status_code == 200


def test_one_person_cannot_take_all_places(session):
    app = build_app(session)

    def status(address):
        return join(TestClient(app, base_url=HOST, client=(address, 1))).status_code

    statuses = [status("192.0.2.7") for _ in range(103)]
    assert statuses == [200] * 100 + [429] * 3
    assert status("192.0.2.8") == 200


def test_places_of_an_address_come_back_with_time_up_to_half_of_all():
    joined = JoinedFrom()
    admitted = [joined.admit("192.0.2.7", now) for now in np.arange(0.0, 86400.0, 2.0)]
    assert sum(admitted) == 500
    assert sum(admitted[:300]) == 100  # ten minutes
    assert joined.admit("192.0.2.8", 0.0)


def test_a_network_of_version_6_is_one_place_and_mapped_addresses_are_their_own():
    joined = JoinedFrom()
    first = ipaddress.ip_address("2001:db8::1")
    assert sum(joined.admit(str(first + k), 0.0) for k in range(200)) == 100
    assert not joined.admit("::ffff:192.0.2.7", 0.0) or joined.admit("192.0.2.7", 0.0)
    assert sum(joined.admit("::ffff:192.0.2.7", 0.0) for _ in range(200)) == 98
    assert joined.admit("fe80::1%eth0", 0.0)


def test_joins_at_the_same_moment_are_counted_one_by_one():
    joined, admitted = JoinedFrom(), []

    def hurry():
        admitted.extend(joined.admit("192.0.2.7", 0.0) for _ in range(50))

    threads = [threading.Thread(target=hurry) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(admitted) == 100


# Links


class FakeSocket:
    """A datagram socket that knows a route, and would fail if something were sent."""

    def __init__(self, *_):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def connect(self, address):
        if address[0] != "192.0.2.1":
            raise OSError("no route")

    def getsockname(self):
        return ("192.168.7.20", 40000)


def known_as(monkeypatch, *addresses):
    entries = [(socket.AF_INET, None, 0, "", (address, 0)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_: entries)


def test_all_addresses_are_shown_as_ones_that_a_phone_can_open(monkeypatch):
    monkeypatch.setattr(socket, "socket", FakeSocket)
    known_as(monkeypatch, "127.0.1.1", "192.168.7.20", "10.0.0.5", "169.254.1.1")
    assert reachable("0.0.0.0") == ["192.168.7.20", "10.0.0.5"]
    assert reachable("192.168.7.20") == ["192.168.7.20"]
    assert reachable("127.0.0.1") == ["127.0.0.1"]


def test_without_a_network_a_hint_says_what_to_do(monkeypatch, tmp_path, capsys):
    known_as(monkeypatch, "127.0.1.1")
    monkeypatch.setattr(FakeSocket, "connect", lambda *_: (_ for _ in ()).throw(OSError("no")))
    monkeypatch.setattr(socket, "socket", FakeSocket)
    assert reachable("0.0.0.0") == ["127.0.0.1"]
    assert reachable("::") == ["::1"]
    command = Ask(tmp_path, host="0.0.0.0", browser=False)
    _announce(command, ["http://127.0.0.1:8000/?token=x"])
    assert "put the address of this machine in its place" in capsys.readouterr().out
    _announce(command, ["http://192.0.2.7:8000/?token=x", "http://10.0.0.5:8000/?token=x"])
    said = capsys.readouterr().out
    assert "Open http://192.0.2.7:8000/?token=x and answer" in said
    assert "From another network: http://10.0.0.5:8000/?token=x" in said
    assert "in its place" not in said


def test_what_the_page_is_told_is_json(session):
    text = client(session).get("/api/state").text
    assert json.loads(text, parse_constant=pytest.fail)["trouble"] is None


# A running server


@pytest.mark.skipif(os.name == "nt", reason="there are no such signals there")
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_server_that_is_stopped_writes_the_ranking(tmp_path, sign):
    (tmp_path / "items.csv").write_text("name\npear\nfig\n")
    code = "import signal, runpy; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code += "runpy.run_module('rankwise', run_name='__main__')"
    command = [sys.executable, "-c", code, "ask", "items.csv", "--no-browser", "--port", "0"]
    server = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    link = next(found[1] for line in server.stdout if (found := re.search("Open (http.*/)", line)))
    with urllib.request.urlopen(f"{link}api/state", timeout=60) as state:
        assert json.load(state)["answers"] == 0
    server.send_signal(sign)
    said, _ = server.communicate(timeout=120)
    assert server.returncode == 0
    assert "Wrote" in said
    assert "pear" in (tmp_path / "items.answers.ranking.csv").read_text()
    assert "pear" in (tmp_path / "items.answers.report.html").read_text()
