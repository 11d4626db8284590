"""The answers file of ``rankwise ask``: an SQLite database of items and answers, read only here."""

import json
import os
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import DataFileError
from rankwise.io.files import is_stream

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
        """Read everything."""
        try:
            with closing(
                sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
            ) as db:
                items = db.execute("SELECT name, features FROM items ORDER BY id").fetchall()
                answers = db.execute(_ANSWERS).fetchall()
        except sqlite3.Error as error:
            raise DataFileError(
                f"{os.fspath(path)}: expected an answers file of rankwise ask, got another or a "
                f"damaged database ({error})."
            ) from error
        rows = [json.loads(features) for _, features in items]
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
