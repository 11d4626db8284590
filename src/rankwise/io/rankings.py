"""Ranked items: names, queries, scores and ranks, in files and as frames."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TextIO, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.display import data_frame
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.core.queries import Queries
from rankwise.io.files import format_suffix, open_read, open_write
from rankwise.io.numbers import bad_line, decode, integers_or_texts
from rankwise.io.tables.reading import TABLE_SUFFIXES, open_table, require_column, write_table

if TYPE_CHECKING:
    from pandas import DataFrame


def write_scores(target: str | os.PathLike[str] | TextIO, scores: ArrayLike) -> None:
    """Write one score per line to a file, plain or compressed, or to an open text stream.

    Parameters
    ----------
    target
        A file, replaced only when the new one is complete, or a stream such as ``sys.stdout``.
    scores : (n_items,)
        Finite numbers; they are read back exactly.

    Examples
    --------
    >>> import sys
    >>> from rankwise.io import write_scores
    >>> write_scores(sys.stdout, [0.1, -2, 1e-300])
    0.1
    -2.0
    1e-300
    """
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1:
        raise InvalidInputError(f"`scores` must be a vector: got shape {values.shape}.")
    if not np.isfinite(values).all():
        raise InvalidInputError("`scores` must be finite: they hold NaN or infinity.")
    text = "".join([f"{value!r}\n" for value in values.tolist()])
    if isinstance(target, str | os.PathLike):
        with open_write(target) as stream:
            stream.write(text.encode())
    elif callable(getattr(target, "write", None)):
        target.write(text)
    else:
        raise InvalidInputError(
            f"`target` must be the path of a file or an open one: got {type(target).__name__}."
        )


def read_scores(path: str | os.PathLike[str]) -> FloatArray:
    r"""Read one finite number per line from a plain or compressed file.

    Parameters
    ----------
    path
        The file; blank lines are allowed only at its end.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io import read_scores
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "scores.txt")
    ...     _ = path.write_text("0.5\n-2\n")
    ...     read_scores(path)
    array([ 0.5, -2. ])
    """
    with open_read(path) as stream:
        lines = stream.read().rstrip().split(b"\n")
    return np.array([_score(path, number, line) for number, line in enumerate(lines, start=1)])


def _score(path: str | os.PathLike[str], number: int, line: bytes) -> float:
    try:
        value = float(line)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or b"_" in line:  # Python reads 1_000, other tools do not
        raise bad_line(path, number, "one finite number", decode(line.strip()))
    return value


RUN_SUFFIXES = {".run", ".trec"}
RANKING_SUFFIXES = TABLE_SUFFIXES | RUN_SUFFIXES
"""The suffixes of files that hold names and queries in addition to scores."""

_RUN_WORDS = 6
_ONE_QUERY = "all"
"""What a TREC run calls the query of items without one."""


@final
@dataclass(frozen=True, eq=False)
class RankedItems:
    """Hold items with their scores, and their ranks inside queries.

    Parameters
    ----------
    scores : (n_items,)
        Higher is better.
    ranks : (n_items,)
        From 1 inside each query; of equal scores the earlier item comes first.
    qid : (n_items,), optional
        The query of each item.
    items : (n_items,), optional
        The name of each item; by default row numbers from 0.

    Examples
    --------
    >>> from rankwise.io import RankedItems
    >>> ranked = RankedItems.of([0.5, 2.0, 1.0], qid=["a", "a", "b"], items=["x", "y", "z"])
    >>> ranked.in_order().to_dict()["item"].tolist(), ranked.ranks.tolist()
    (['y', 'x', 'z'], [2, 1, 1])
    """

    scores: FloatArray
    ranks: IntArray
    qid: NDArray[Any] | None = None
    items: NDArray[Any] | None = None
    rows: IntArray | None = None

    @classmethod
    def of(
        cls, scores: ArrayLike, qid: ArrayLike | None = None, items: ArrayLike | None = None
    ) -> Self:
        """Rank scores inside queries."""
        values = np.asarray(scores, dtype=float)
        if values.ndim != 1:
            raise InvalidInputError(f"`scores` must be a vector: got shape {values.shape}.")
        queries = Queries.of(qid, len(values))
        ranks = queries.ranks(queries.best_first(values))
        names = None if items is None else np.asarray(items)
        if names is not None and names.shape != values.shape:
            raise InvalidInputError(
                f"`items` must have one name per score: got shapes {names.shape} and "
                f"{values.shape}."
            )
        given = None if qid is None else np.asarray(qid)
        return cls(values, ranks, given, names, np.arange(len(values)))

    def __len__(self) -> int:
        return len(self.scores)

    def in_order(self, k: int | None = None) -> RankedItems:
        """Return the items query by query, best first, at most k of each."""
        return self._take(Queries.of(self.qid, len(self)).best_first(-self.ranks, k))

    def _take(self, rows: IntArray) -> RankedItems:
        def part(values: NDArray[Any] | None) -> Any:
            return None if values is None else values[rows]

        return RankedItems(
            self.scores[rows], self.ranks[rows], part(self.qid), part(self.items), part(self.rows)
        )

    def to_dict(self) -> dict[str, NDArray[Any]]:
        """Return the columns query (if any), item (or row), rank and score."""
        columns: dict[str, Any] = {} if self.qid is None else {"query": self.qid}
        columns |= {"row": self.rows} if self.items is None else {"item": self.items}
        return columns | {"rank": self.ranks, "score": self.scores}

    def by_item(self) -> dict[str, NDArray[Any]]:
        """Return the columns with the items, by their row numbers if they have no names."""
        return {"item" if name == "row" else name: v for name, v in self.to_dict().items()}

    def to_frame(self) -> DataFrame:
        """Return the columns as a pandas data frame."""
        return data_frame(self.to_dict())

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write a CSV, TSV, Parquet, JSON lines (.jsonl) or TREC run (.run) file by its suffix."""
        suffix = format_suffix(path)
        if suffix in RUN_SUFFIXES:
            with open_write(path) as stream, io.TextIOWrapper(stream, "utf-8") as text:
                text.writelines(f"{line}\n" for line in self.run_lines())
        else:
            write_table(path, self.to_dict())

    def run_lines(self) -> Iterable[str]:
        """Return the lines of a TREC run: query, Q0, item, rank, score, tag."""
        ordered = self.in_order()
        columns = ordered.to_dict()
        items = columns.get("item", columns.get("row"))
        queries = [_ONE_QUERY] * len(self) if ordered.qid is None else ordered.qid.tolist()
        assert items is not None
        rows = zip(
            queries, items.tolist(), ordered.ranks.tolist(), ordered.scores.tolist(), strict=True
        )
        for query, item, rank, score in rows:
            words = [str(query), str(item)]
            if any(not word or word.split() != [word] for word in words):
                raise InvalidInputError(
                    f"A TREC run must have ids without blanks: got {words}. Write .csv or .jsonl."
                )
            yield f"{words[0]} Q0 {words[1]} {rank} {score!r} rankwise"

    def matched(
        self, path: str | os.PathLike[str], qid: NDArray[Any] | None, items: NDArray[Any] | None
    ) -> FloatArray:
        """Return the scores in the order of other data, matched by names and queries.

        Parameters
        ----------
        path : path
            The data, for errors.
        qid, items : (n_items,)
            Queries and names of the data. If the scores or the data have no names, they are
            matched by row numbers from 0.
        """
        # match by names, or by row numbers where either side has none
        counted = self.items is None or (items is None and self.items.dtype.kind == "i")
        if not counted and items is None:
            raise DataFileError(
                f"{os.fspath(path)} must name its items, since the scores do: it has no column of "
                "names. Choose one with item=..."
            )
        n_rows = len(qid) if qid is not None else len(items) if items is not None else len(self)
        theirs = np.arange(n_rows) if counted else items
        mine = self.rows if self.items is None else self.items
        assert theirs is not None
        assert mine is not None
        # keys are queries with items, or items alone
        if qid is not None and self.qid is not None:
            places = _places(path, zip(map(str, self.qid), map(str, mine), strict=True))
            keys: list[Any] = list(zip(map(str, qid), map(str, theirs), strict=True))
        else:
            places = _places(path, map(str, mine))
            keys = list(map(str, theirs))
        lost = next((key for key in keys if key not in places), None)
        if lost is not None or len(places) != len(keys):
            what = f"no score for {lost!r}" if lost is not None else "scores of other items"
            raise DataFileError(
                f"{os.fspath(path)} and the scores must hold the same items: there are {len(keys)} "
                f"items, {len(places)} scores, and {what}. Do they belong together?"
            )
        return self.scores[[places[key] for key in keys]]


def _places(path: str | os.PathLike[str], keys: Iterable[Any]) -> dict[Any, int]:
    found: dict[Any, int] = {}
    for place, key in enumerate(keys):
        if found.setdefault(key, place) != place:
            raise DataFileError(
                f"The scores for {os.fspath(path)} must hold each item once: {key!r} occurs twice."
            )
    return found


def read_ranked(path: str | os.PathLike[str]) -> RankedItems:
    """Read what `RankedItems.write` wrote: a table, JSON lines or a TREC run, by its suffix.

    Parameters
    ----------
    path : path
        A table must have the column score; query, item and row are read if present.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from rankwise.io import RankedItems, read_ranked
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "scores.csv")
    ...     RankedItems.of([0.5, 2.0], items=["x", "y"]).write(path)
    ...     read_ranked(path).scores.tolist()
    [0.5, 2.0]
    """
    suffix = format_suffix(path)
    if suffix in RUN_SUFFIXES:
        return _read_run(path)
    table = open_table(path)
    score = require_column(path, table, "score", "score")
    words = [name for name in ("query", "item", "row") if name in table.names]
    (scores,), ids = table.read([[score]], words)
    return _of_columns(path, {"score": scores[:, 0], **dict(zip(words, ids, strict=True))})


def _of_columns(path: str | os.PathLike[str], columns: dict[str, Any]) -> RankedItems:
    rows = columns.get("row")
    if rows is not None and np.asarray(rows).dtype.kind not in "iu":
        raise DataFileError(f"{os.fspath(path)}: expected row numbers in the column row.")
    found = RankedItems.of(columns["score"], columns.get("query"), columns.get("item"))
    return found if rows is None else RankedItems(**{**vars(found), "rows": np.asarray(rows)})


def _read_run(path: str | os.PathLike[str]) -> RankedItems:
    with open_read(path) as stream:
        lines = [decode(line) for line in stream.read().splitlines() if line.strip()]
    parts = [line.split() for line in lines]
    scores = []
    for number, words in enumerate(parts, start=1):
        try:
            scores.append(float(words[4] if len(words) == _RUN_WORDS else "none"))
        except ValueError:
            line = lines[number - 1]
            raise bad_line(path, number, "query, Q0, item, rank, score and tag", line) from None
    queries = [words[0] for words in parts]
    qid = None if set(queries) == {_ONE_QUERY} else integers_or_texts(queries)
    return RankedItems.of(scores, qid, integers_or_texts([words[2] for words in parts]))
