"""Answers in an SQLite file: written before anything else happens, never lost or duplicated."""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, TypeAlias, cast, final

from rankwise.apps.ask.items import Item, ItemList
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.io.answer_file import FORMAT, SCHEMA, check_answers, item_features, refusing_damage

Answer: TypeAlias = Literal["left", "right", "tie", "skip"]
ANSWERS: tuple[Answer, ...] = ("left", "right", "tie", "skip")

PATIENCE = 10.0
"""Seconds to wait for another program that has locked the file."""


@final
@dataclass(frozen=True)
class Rater:
    """Somebody who answers."""

    id: int
    name: str
    key: str


@final
@dataclass(frozen=True)
class Question:
    """Two items shown to a rater, as positions in the list of items."""

    id: int
    rater: int
    left: int
    right: int


@final
@dataclass(frozen=True)
class Record:
    """An answered question that counts."""

    question: Question
    answer: Answer
    answered: float

    @property
    def winner_first(self) -> tuple[int, int]:
        """The two items, the preferred one first; as shown for a tie."""
        q = self.question
        return (q.right, q.left) if self.answer == "right" else (q.left, q.right)


@final
class AnswerStore:
    """Keep items, raters, questions and answers in one SQLite file.

    Every method that changes something has committed it to disk when it returns. One process at a
    time may hold a file; others may read it.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: sqlite3.Connection):
        self.path = path
        self._db = connection
        self._process_lock = lock
        self._guard = threading.RLock()

    @classmethod
    def open(cls, path: Path, items: ItemList | None = None) -> Self:
        """Open a file and continue it, or create one for some items.

        Parameters
        ----------
        path : path
            The file; it is created if ``items`` are given and it does not exist.
        items : ItemList, optional
            The items to rank. They must match the items of the file; new ones may follow.
        """
        if items is None and not path.exists():
            raise DataFileError(f"{path} must be an answers file: it does not exist.")
        file = _refuse_hard_links(path)
        with refusing_damage(path), ExitStack() as opened:
            lock = opened.enter_context(closing(_lock_process(path, file)))
            connection = opened.enter_context(closing(_connect(file)))
            store = cls(path, connection, lock)
            store._prepare(items)
            opened.pop_all()  # nothing was refused: they stay open
        return store

    def close(self) -> None:
        """Close the file and let other processes have it.

        The empty file of the lock stays: another process may have opened it already, and would lock
        a file that the next one does not find.
        """
        with self._guard:
            self._db.close()
            self._process_lock.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._guard:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:  # a full disk may have ended it
                    self._db.execute("ROLLBACK")
                raise

    def _prepare(self, items: ItemList | None) -> None:
        """Check the file before anything is written to it; make the tables of a new one."""
        is_new = self._db.execute("SELECT 1 FROM sqlite_master").fetchone() is None
        if not is_new:
            check_answers(self._db, self.path)
        # an answer is on disk when its transaction has ended
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA foreign_keys = ON")
        with self._transaction() as db:
            if is_new:
                for statement in SCHEMA:
                    db.execute(statement)
                db.execute("INSERT INTO about VALUES ('format', ?)", (str(FORMAT),))
                db.execute("INSERT INTO about VALUES ('begun', ?)", (repr(time.time()),))
            if items is not None:
                self._merge_items(items)

    def _merge_items(self, items: ItemList) -> None:
        # items keep their numbers: the known ones come first, in the same order
        known = [row[0] for row in self._db.execute("SELECT name FROM items ORDER BY id")]
        names = [item.name for item in items.items]
        if names[: len(known)] != known:
            missing = next((name for name in known if name not in names), None)
            reason = f"{missing!r} is gone" if missing else "their order differs"
            raise DataFileError(
                f"{self.path} must be about the same items in the same order, new ones last: "
                f"{reason}. Give the items it was created with, or another file for the answers."
            )
        for number, item in enumerate(items.items):
            self._db.execute(
                "INSERT OR REPLACE INTO items VALUES (?, ?, ?, ?, ?)",
                (
                    number,
                    item.name,
                    item.text,
                    None if item.image is None else str(item.image),
                    json.dumps(item.features),
                ),
            )

    def items(self) -> ItemList:
        """Return the items in their order."""
        with self._guard:
            rows = self._db.execute(
                "SELECT name, text, image, features FROM items ORDER BY id"
            ).fetchall()
        features = item_features(self.path, [row[3] for row in rows])
        found = [
            Item(name, text, None if image is None else Path(image), numbers)
            for (name, text, image, _), numbers in zip(rows, features, strict=True)
        ]
        return ItemList(tuple(found))

    def settings(self) -> dict[str, str]:
        """Return what was chosen when the file was used last, by name."""
        with self._guard:
            rows = self._db.execute("SELECT key, value FROM about").fetchall()
        return {str(key): str(value) for key, value in rows}

    def keep_settings(self, settings: Mapping[str, str]) -> None:
        """Keep settings for those who open the file again."""
        with self._transaction() as db:
            db.executemany("INSERT OR REPLACE INTO about VALUES (?, ?)", settings.items())

    def add_rater(self, name: str, key: str) -> Rater:
        """Add a rater; a number is appended to a name that is taken."""
        with self._transaction() as db:
            taken = {row[0] for row in db.execute("SELECT name FROM raters")}
            unused = name
            number = 2
            while unused in taken:
                unused, number = f"{name} {number}", number + 1
            cursor = db.execute(
                "INSERT INTO raters (name, key, joined) VALUES (?, ?, ?)",
                (unused, key, time.time()),
            )
            return Rater(cast(int, cursor.lastrowid), unused, key)

    def rater(self, key: str) -> Rater | None:
        """Return the rater with a key."""
        with self._guard:
            row = self._db.execute(
                "SELECT id, name, key FROM raters WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else Rater(*row)

    def raters(self) -> dict[int, str]:
        """Return the names of all raters by their numbers."""
        with self._guard:
            return dict(self._db.execute("SELECT id, name FROM raters ORDER BY id").fetchall())

    def ask(self, rater: int, left: int, right: int) -> Question:
        """Record that a question is shown."""
        with self._transaction() as db:
            cursor = db.execute(
                'INSERT INTO questions (rater, "left", "right", asked) VALUES (?, ?, ?, ?)',
                (rater, left, right, time.time()),
            )
            return Question(cast(int, cursor.lastrowid), rater, left, right)

    def open_question(self, rater: int) -> Question | None:
        """Return the question that a rater was shown last, if it has no answer yet."""
        with self._guard:
            row = self._db.execute(
                'SELECT q.id, q.rater, q."left", q."right" FROM questions q '
                "LEFT JOIN answers a ON a.question = q.id "
                "WHERE q.rater = ? AND a.question IS NULL ORDER BY q.id DESC LIMIT 1",
                (rater,),
            ).fetchone()
        return None if row is None else Question(*row)

    def record(self, rater: int, question: int, answer: Answer) -> Record | None:
        """Commit an answer and return it, or None if this question was answered before.

        A question is answered once, even if the request is repeated.
        """
        with self._transaction() as db:
            row = db.execute(
                'SELECT id, rater, "left", "right" FROM questions WHERE id = ? AND rater = ?',
                (question, rater),
            ).fetchone()
            if row is None:
                raise InvalidInputError(
                    f"The question must have been asked of this rater: {question} was not."
                )
            now = time.time()
            inserted = db.execute(
                "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, NULL)", (question, answer, now)
            )
            return Record(Question(*row), answer, now) if inserted.rowcount else None

    def undo(self, rater: int) -> Record | None:
        """Take back the last answer of a rater and return it; None if there is none."""
        with self._transaction() as db:
            row = db.execute(
                'SELECT q.id, q.rater, q."left", q."right", a.answer, a.answered FROM answers a '
                "JOIN questions q ON q.id = a.question WHERE q.rater = ? AND a.undone IS NULL "
                "ORDER BY a.answered DESC, q.id DESC LIMIT 1",
                (rater,),
            ).fetchone()
            if row is None:
                return None
            db.execute("UPDATE answers SET undone = ? WHERE question = ?", (time.time(), row[0]))
            return Record(Question(*row[:4]), row[4], row[5])

    def records(self) -> list[Record]:
        """Return the answers that count, in the order in which they were given."""
        with self._guard:
            rows = self._db.execute(
                'SELECT q.id, q.rater, q."left", q."right", a.answer, a.answered FROM answers a '
                "JOIN questions q ON q.id = a.question WHERE a.undone IS NULL "
                "ORDER BY a.answered, q.id"
            ).fetchall()
        return [Record(Question(*row[:4]), row[4], row[5]) for row in rows]

    def note_certainty(self, n_answers: int, value: float) -> None:
        """Store how sure the ranking was after a number of answers."""
        with self._transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO certainty VALUES (?, ?, ?)", (n_answers, value, time.time())
            )

    def certainty(self) -> list[tuple[int, float]]:
        """Return how sure the ranking was, by the number of answers."""
        with self._guard:
            return self._db.execute(
                "SELECT n_answers, value FROM certainty ORDER BY n_answers"
            ).fetchall()


def _connect(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(file, timeout=PATIENCE, isolation_level=None, check_same_thread=False)


def _refuse_hard_links(path: Path) -> Path:
    """Return the file behind symbolic links; refuse one that has other names of its own."""
    file = Path(os.path.realpath(path))
    if file.exists() and file.stat().st_nlink > 1:
        raise DataFileError(
            f"{path} must be a file with a single name: it has {file.stat().st_nlink} (hard "
            "links). Answers that arrive under one name might be lost under another. Make a copy."
        )
    return file


def _lock_process(path: Path, file: Path) -> sqlite3.Connection:
    """Hold a lock that is released when this process ends, however it ends."""
    lock = sqlite3.connect(
        file.with_name(file.name + ".lock"),
        timeout=0.0,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
            raise
        raise DataFileError(
            f"{path} is in use by another `rankwise ask`. Stop that one, or give another file."
        ) from error
    return lock
