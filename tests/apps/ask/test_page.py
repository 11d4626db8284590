"""What raters see, what they may do when all is asked, and projects that are opened again."""

import json
import re
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from contextlib import closing

import pytest

pytest.importorskip("starlette", reason="the extra 'ask' is not installed")

from starlette.testclient import TestClient

from rankwise.apps.ask.items import Item, ItemList
from rankwise.apps.ask.ranking import AskGoal
from rankwise.apps.ask.server import AskPage, build_app
from rankwise.apps.ask.session import AskSession
from rankwise.apps.ask.store import AnswerStore
from rankwise.apps.cli.commands import Ask
from rankwise.apps.cli.jobs.ask import ask
from rankwise.core.errors import InvalidInputError

HOST = "http://localhost:8000"
PAGE = {"origin": HOST}
ITEMS = ItemList(tuple(Item(name, text=f"about {name[0]}") for name in ("pear", "fig", "kiwi")))


@pytest.fixture
def session(tmp_path):
    with closing(AskSession(AnswerStore.open(tmp_path / "a.db", ITEMS), AskGoal())) as running:
        yield running


def joined(session, page=None):
    browser = TestClient(build_app(session, None, page), base_url=HOST)
    return browser, browser.post("/api/join", json={"name": "ann"}, headers=PAGE).json()


def answer(browser, state, choice="left"):
    body = {"question": state["question"]["id"], "answer": choice}
    return browser.post("/api/answer", json=body, headers=PAGE).json()


def shown(session, **options):
    return AskPage.of(
        session.items,
        options.pop("question", "Which is better?"),
        **{"hide_names": False, "hide_ranking": False, **options},
    )


def test_the_question_is_the_one_given(session):
    _, state = joined(session, shown(session, question="  Which would  you eat?"))
    assert state["title"] == "Which would you eat?"
    assert joined(session)[1]["title"] == "Which is better?"


def test_hidden_names_are_not_sent(session):
    _, state = joined(session, shown(session, hide_names=True))
    for side in ("left", "right"):
        assert state["question"][side]["name"] == ""
        assert state["question"][side]["text"].startswith("about")


def test_a_hidden_ranking_is_not_sent_in_any_form(session):
    browser, state = joined(session, shown(session, hide_ranking=True))
    assert state["hidden"]
    assert not {"ranking", "raters"} & set(answer(browser, state))
    for address in ("/report.html", "/ranking.csv"):
        response = browser.get(address)
        assert response.status_code == 403
        assert "written when the server stops" in response.json()["error"]


def test_names_of_items_that_have_nothing_else_cannot_be_hidden():
    bare = ItemList((Item("pear", text="green"), Item("fig")))
    with pytest.raises(InvalidInputError, match="have an image or a text: 'fig' has neither"):
        AskPage.of(bare, "Which?", hide_names=True, hide_ranking=False)


@pytest.mark.parametrize("question", ["", "  ", "x" * 201])
def test_a_question_must_be_a_short_text(question):
    with pytest.raises(InvalidInputError, match="at most 200 characters"):
        AskPage.of(ITEMS, question, hide_names=False, hide_ranking=False)


def test_who_was_asked_everything_may_be_asked_again(session):
    browser, state = joined(session)
    for _ in range(3):
        state = answer(browser, state)
    assert state["finished"]
    assert not state["settled"]
    again = browser.post("/api/again", json={}, headers=PAGE).json()
    assert not again["finished"]
    assert answer(browser, again)["answers"] == 4
    _, other = joined(session)
    assert other["question"] is not None


# A project is opened again


def served(tmp_path, *words):
    """Run the command until it serves, read the state of its page, and stop it."""
    command = [sys.executable, "-m", "rankwise", "ask", *words, "--no-browser"]
    server = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        link = next(
            found[1] for line in server.stdout if (found := re.search("Open (http.*/)", line))
        )
        with urllib.request.urlopen(f"{link}api/state", timeout=60) as state:
            return json.load(state)
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=120)


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals there")
def test_an_answers_file_opens_as_it_was(tmp_path):
    (tmp_path / "items.csv").write_text("name,text\npear,green\nfig,blue\nkiwi,brown\n")
    given = ["--goal", "top 2", "--question", "Which is riper?", "--hide-names", "--hide-ranking"]
    before = served(tmp_path, "items.csv", *given)
    assert (before["title"], before["goal"], before["hidden"]) == (
        "Which is riper?",
        "the best 2",
        True,
    )
    (tmp_path / "items.csv").unlink()
    assert served(tmp_path, "items.answers.db") == before
    after = served(tmp_path, "items.answers.db", "--show-ranking", "--goal", "best")
    assert (after["title"], after["goal"], after["hidden"]) == (
        "Which is riper?",
        "the best one",
        False,
    )


def test_a_goal_that_cannot_be_read_makes_no_file(tmp_path):
    (tmp_path / "items.csv").write_text("name\npear\nfig\n")
    with pytest.raises(InvalidInputError, match="goal must be 'order', 'best' or 'top K'"):
        ask(Ask(tmp_path / "items.csv", goal="top 9", browser=False))
    assert [path.name for path in tmp_path.iterdir()] == ["items.csv"]


def test_settings_that_somebody_else_wrote_are_checked(tmp_path):
    AnswerStore.open(tmp_path / "a.db", ITEMS).close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as db, db:
        db.execute("INSERT INTO about VALUES ('confidence', 'high')")
    with pytest.raises(InvalidInputError, match="between 0.5 and 1: got high"):
        ask(Ask(tmp_path / "a.db", browser=False))
