"""Answers files that are damaged, or made to do harm, are refused with an error of rankwise's."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest

from rankwise.apps.ask.items import Item, ItemList
from rankwise.apps.ask.ranking import AskGoal
from rankwise.apps.ask.session import AskSession
from rankwise.apps.ask.store import AnswerStore
from rankwise.core.errors import DataFileError
from rankwise.io.answer_file import AnswerFile

ITEMS = ItemList(tuple(Item(f"item {i}", features=(float(i), 1.0)) for i in range(6)))


@pytest.fixture
def path(tmp_path):
    """A file with answers, all of them in the file itself."""
    store = AnswerStore.open(tmp_path / "a.db", ITEMS)
    rater = store.add_rater("ann", "key")
    for left in range(5):
        question = store.ask(rater.id, left, left + 1)
        store.record(rater.id, question.id, "left")
    store.note_certainty(5, 0.75)
    store.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    return tmp_path / "a.db"


def changed(path, *statements):
    """Change a file as its owner may, past all constraints."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        db.execute("PRAGMA writable_schema = ON")
        for statement in statements:
            db.execute(statement)


CRAFTED = {
    "no JSON": "UPDATE items SET features = 'x' WHERE id = 2",
    "no list": "UPDATE items SET features = '7'",
    "text": """UPDATE items SET features = '["1", "2"]'""",
    "null": "UPDATE items SET features = '[null, 1]'",
    "nested": "UPDATE items SET features = '[[1], 2]'",
    "deep": f"UPDATE items SET features = '{'[' * 100_000}'",
    "infinite": "UPDATE items SET features = '[1e999, 1]'",
    "NaN": "UPDATE items SET features = '[NaN, 1]'",
    "400 digits": f"UPDATE items SET features = '[{'9' * 400}, 1]'",
    "5000 digits": f"UPDATE items SET features = '[{'9' * 5000}, 1]'",
    "fewer features": "UPDATE items SET features = '[1]' WHERE id = 1",
    "a blob": "UPDATE items SET features = x'00ff'",
    "a name of bytes": "UPDATE items SET name = x'ff' WHERE id = 0",
    "no UTF-8": "UPDATE items SET name = CAST(x'ffff' AS TEXT) WHERE id = 0",
    "numbers of items": "UPDATE items SET id = 77 WHERE id = 5",
    "time as text": "UPDATE answers SET answered = 'noon'",
    "infinite time": "UPDATE answers SET answered = 9e999",
    "far time": "UPDATE answers SET answered = 1e300",
    "another answer": "UPDATE answers SET answer = 'up'",
    "bytes for an answer": "UPDATE answers SET answer = x'00'",
    "an unknown item": """UPDATE questions SET "left" = 77""",
    "a negative item": """UPDATE questions SET "left" = -1""",
    "an item twice": """UPDATE questions SET "left" = "right\"""",
    "an item of text": """UPDATE questions SET "left" = 'x'""",
    "an unknown rater": "UPDATE questions SET rater = 9",
    "a rater of bytes": "UPDATE raters SET name = x'ff'",
    "an unknown question": "UPDATE answers SET question = question + 1000",
    "certainty of text": "UPDATE certainty SET value = 'x'",
    "a later format": "UPDATE about SET value = '2'",
    "no format": "DELETE FROM about",
    "no table": "DROP TABLE answers",
    "other columns": "ALTER TABLE items RENAME COLUMN features TO numbers",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON answers BEGIN DELETE FROM answers; END",
}


@pytest.mark.parametrize("statement", CRAFTED.values(), ids=CRAFTED.keys())
def test_crafted_files_are_refused(path, statement):
    changed(path, statement)
    with pytest.raises(DataFileError, match="a.db.*(expected an answers file|must have format)"):
        AnswerFile.read(path).columns()
    with pytest.raises(DataFileError, match="a.db.*(expected an answers file|must have format)"):
        AnswerStore.open(path)


def test_a_view_that_never_ends_is_not_looked_at(path):
    endless = "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n)"
    columns = "i AS id, 'x' AS name, '' AS text, NULL AS image, '[]' AS features"
    changed(path, "DROP TABLE items", f"CREATE VIEW items AS {endless} SELECT {columns} FROM n")
    with pytest.raises(DataFileError, match="its tables are not those of rankwise ask"):
        AnswerFile.read(path)
    with pytest.raises(DataFileError, match="its tables are not those of rankwise ask"):
        AnswerStore.open(path, ITEMS)


def test_damaged_files_are_read_whole_or_refused(path, tmp_path):
    rng = np.random.default_rng(0)
    whole = path.read_bytes()
    outcomes = {"read": 0, "refused": 0}
    for number in range(300):
        damaged = bytearray(whole)
        kind = number % 3
        if kind == 0:
            for at in rng.integers(len(whole), size=rng.integers(1, 20)):
                damaged[at] = rng.integers(256)
        elif kind == 1:
            del damaged[rng.integers(len(whole)) :]
        else:
            at, length = rng.integers(len(whole)), rng.integers(1, 3000)
            damaged[at : at + length] = rng.bytes(len(damaged[at : at + length]))
        file = tmp_path / f"{number}.db"
        file.write_bytes(damaged)
        try:
            AnswerFile.read(file).columns()
            outcomes["read"] += 1
        except DataFileError:
            outcomes["refused"] += 1
        try:
            with closing(AnswerStore.open(file, ITEMS)) as store:
                store.items(), store.raters(), store.rater("key"), store.open_question(1)
                store.records(), store.certainty()
                if number % 10 == 0:
                    AskSession(store, AskGoal())
        except DataFileError:
            outcomes["refused"] += 1
        else:
            outcomes["read"] += 1
    assert outcomes["read"] > 0  # some bytes are free
    assert outcomes["refused"] > 300


def test_a_refused_file_stays_as_it_was(tmp_path):
    with closing(sqlite3.connect(tmp_path / "other.db")) as db:
        db.execute("CREATE TABLE t (x)")
    before = (tmp_path / "other.db").read_bytes()
    with pytest.raises(DataFileError, match="no table about itself"):
        AnswerStore.open(tmp_path / "other.db", ITEMS)
    assert (tmp_path / "other.db").read_bytes() == before


def test_a_file_in_use_by_another_program_is_said_to_be(path, monkeypatch):
    monkeypatch.setattr("rankwise.apps.ask.store.PATIENCE", 0.1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(DataFileError, match="must not be in use by another program"):
            AnswerStore.open(path, ITEMS)


def test_a_folder_that_does_not_exist_is_said_to_be(tmp_path):
    with pytest.raises(DataFileError, match="in a folder that can be written to"):
        AnswerStore.open(tmp_path / "nowhere" / "a.db", ITEMS)


# One process at a time


def test_a_symbolic_link_does_not_admit_a_second_server(path, tmp_path):
    link = tmp_path / "other" / "b.db"
    link.parent.mkdir()
    link.symlink_to(path)
    with closing(AnswerStore.open(path, ITEMS)):
        with pytest.raises(DataFileError, match="in use by another `rankwise ask`"):
            AnswerStore.open(link, ITEMS)
        code = "from pathlib import Path; from rankwise.apps.ask.store import AnswerStore"
        code += f"\nAnswerStore.open(Path({str(link)!r}))"
        command = [sys.executable, "-c", code]
        other = subprocess.run(command, check=False, capture_output=True, text=True)
        assert "in use by another `rankwise ask`" in other.stderr
    with closing(AnswerStore.open(link, ITEMS)), pytest.raises(DataFileError, match="in use by"):
        AnswerStore.open(path, ITEMS)


def test_a_file_with_two_names_is_refused(path, tmp_path):
    os.link(path, tmp_path / "b.db")
    for name in ("a.db", "b.db"):
        with pytest.raises(DataFileError, match=r"a single name: it has 2 \(hard links\)"):
            AnswerStore.open(tmp_path / name, ITEMS)
    shutil.copy(path, tmp_path / "c.db")
    AnswerStore.open(tmp_path / "c.db", ITEMS).close()


def test_closing_leaves_the_lock_to_those_who_opened_it(path):
    """A process that opened the lock before it was released must lock what the next one finds."""
    store = AnswerStore.open(path, ITEMS)
    second = sqlite3.connect(
        path.with_name("a.db.lock"), timeout=0.0, isolation_level=None
    )  # opens
    store.close()
    second.execute("BEGIN EXCLUSIVE")
    with closing(second), pytest.raises(DataFileError, match="in use by another"):
        AnswerStore.open(path, ITEMS)
