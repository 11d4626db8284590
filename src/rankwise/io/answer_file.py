"""The answers file of ``rankwise ask``: an SQLite database of items and answers.

Anybody may have written it, so it is checked as a whole before anything in it is used.
"""

import json
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import DataFileError
from rankwise.io.files import is_stream

FORMAT = 1
SCHEMA = (
    "CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    """CREATE TABLE items (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, text TEXT NOT NULL, image TEXT,
    features TEXT NOT NULL)""",
    """CREATE TABLE raters (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, key TEXT NOT NULL UNIQUE,
    joined REAL NOT NULL)""",
    """CREATE TABLE questions (
    id INTEGER PRIMARY KEY AUTOINCREMENT, rater INTEGER NOT NULL REFERENCES raters,
    "left" INTEGER NOT NULL REFERENCES items, "right" INTEGER NOT NULL REFERENCES items,
    asked REAL NOT NULL)""",
    """CREATE TABLE answers (
    question INTEGER PRIMARY KEY REFERENCES questions,
    answer TEXT NOT NULL CHECK (answer IN ('left', 'right', 'tie', 'skip')),
    answered REAL NOT NULL, undone REAL)""",
    "CREATE TABLE certainty (n_answers INTEGER PRIMARY KEY, value REAL NOT NULL, at REAL NOT NULL)",
)
"""The tables of an answers file, in SQLite's words."""

_RULES = {
    "items": "typeof(name) = 'text' AND typeof(text) = 'text' AND typeof(features) = 'text' AND "
    "typeof(image) IN ('text', 'null') AND id BETWEEN 0 AND (SELECT count(*) FROM items) - 1",
    "raters": "typeof(name) = 'text' AND typeof(key) = 'text'",
    "questions": "typeof(\"left\") = 'integer' AND typeof(\"right\") = 'integer' AND "
    'typeof(rater) = \'integer\' AND "left" != "right" AND id < 1000000000000',
    "answers": "answer IN ('left', 'right', 'tie', 'skip') AND typeof(answered) = 'real' AND "
    "abs(answered) < 1e11 AND typeof(undone) IN ('real', 'null')",
    "certainty": "typeof(value) = 'real' AND value BETWEEN 0 AND 1",
}
"""What must hold in every row of a table, besides its own constraints."""

_SQLITE_MARK = b"SQLite format 3\0"
_ANSWERS = """
SELECT one.name, other.name, answers.answer, raters.name, answers.answered
FROM answers JOIN questions ON questions.id = answers.question
JOIN items one ON one.id = questions."left" JOIN items other ON other.id = questions."right"
JOIN raters ON raters.id = questions.rater
WHERE answers.undone IS NULL AND answers.answer != 'skip' ORDER BY answers.answered, questions.id
"""
ANSWERS = {"left": "a", "right": "b", "tie": "tie"}
"""What an answer means, whatever the items are called."""


def is_answer_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file is an SQLite database, such as the answers file of rankwise ask."""
    if is_stream(path) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(_SQLITE_MARK)) == _SQLITE_MARK


@contextmanager
def refusing_damage(path: str | os.PathLike[str]) -> Iterator[None]:
    """Raise errors of SQLite as a `DataFileError` that names the file."""
    try:
        yield
    except (sqlite3.Error, UnicodeError) as error:  # the latter where a message is damaged too
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise DataFileError(
                f"{os.fspath(path)} must not be in use by another program: {error}. Close it "
                "there, and try again."
            ) from error
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL):
            raise DataFileError(
                f"{os.fspath(path)} must be in a folder that can be written to: {error}."
            ) from error
        raise _damaged(path, str(error)) from error


def _damaged(path: str | os.PathLike[str], reason: str) -> DataFileError:
    return DataFileError(
        f"{os.fspath(path)}: expected an answers file of rankwise ask, got another or a damaged "
        f"database ({reason})."
    )


def check_answers(db: sqlite3.Connection, path: str | os.PathLike[str]) -> None:
    """Refuse a database that is not an answers file in every part, before it is used.

    Parameters
    ----------
    db : sqlite3.Connection
    path : path
        The file, for errors.
    """
    db.execute("PRAGMA trusted_schema = OFF")
    found = db.execute("SELECT type, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    about, *others = map(_words, SCHEMA)
    tables = {_words(sql) for kind, sql in found if kind == "table"}
    if about not in tables:
        raise _damaged(path, "it has no table about itself")
    version = db.execute("SELECT value FROM about WHERE key = 'format'").fetchone()
    if version != (str(FORMAT),):
        raise DataFileError(
            f"{os.fspath(path)} must have format {FORMAT}: it has "
            f"{None if version is None else version[0]}. A later version of rankwise may have "
            "written it."
        )
    if not tables.issuperset(others) or any(kind in ("trigger", "view") for kind, _ in found):
        raise _damaged(path, "its tables are not those of rankwise ask")
    (damage,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if damage != "ok":
        raise _damaged(path, damage)
    if db.execute("PRAGMA foreign_key_check").fetchone() is not None:
        raise _damaged(path, "rows that others refer to are missing")
    for table, rule in _RULES.items():
        if db.execute(f"SELECT 1 FROM {table} WHERE ({rule}) IS NOT TRUE LIMIT 1").fetchone():
            raise _damaged(path, f"a row of {table} does not hold what it should")
    db.execute("SELECT name, key FROM raters").fetchall()  # SQLite does not check that texts
    items = db.execute("SELECT name, text, image, features FROM items").fetchall()  # are UTF-8
    item_features(path, [row[3] for row in items])


def _words(sql: str) -> str:
    return " ".join(str(sql).split())


def item_features(path: str | os.PathLike[str], cells: Iterable[str]) -> list[tuple[float, ...]]:
    """Return the features of items from the cells of an answers file, as many for each."""
    try:
        rows = [json.loads(cell) for cell in cells]
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"features of an item are no list: {error}") from error
    known = all(
        isinstance(row, list)
        and len(row) == len(rows[0])
        and all(isinstance(v, int | float) and abs(v) <= sys.float_info.max for v in row)
        for row in rows
    )
    if not known:
        raise _damaged(path, "items do not have the same number of finite features")
    return [tuple(map(float, row)) for row in rows]


@final
@dataclass(frozen=True, eq=False)
class AnswerFile:
    """The contents of an answers file of ``rankwise ask``: items with features, and answers.

    Answers that were undone or skipped are left out. The file is opened read-only, even while it
    is in use.
    """

    names: NDArray[Any]
    features: FloatArray
    answers: list[tuple[str, str, str, str, float]]

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read everything, as of one moment."""
        address = f"{Path(path).absolute().as_uri()}?mode=ro"
        with refusing_damage(path), closing(sqlite3.connect(address, uri=True)) as db:
            db.execute("BEGIN")
            check_answers(db, path)
            items = db.execute("SELECT name, features FROM items ORDER BY id").fetchall()
            answers = db.execute(_ANSWERS).fetchall()
        rows = item_features(path, [features for _, features in items])
        names = np.array([name for name, _ in items], dtype=object)
        return cls(names, np.array(rows, dtype=float).reshape(len(names), -1), answers)

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return a row per answer: both items as shown, who won, the rater and the time."""
        if not self.answers:
            raise DataFileError("The answers file must hold answers: there are none yet.")
        left, right, answer, rater, seconds = zip(*self.answers, strict=True)
        words = {"a": left, "b": right, "winner": answer, "judge": rater}
        found = {name: np.array(values, dtype=object) for name, values in words.items()}
        times = np.array(seconds, dtype="int64").astype("datetime64[s]")
        return {**found, "date": times.astype(str).astype(object)}
