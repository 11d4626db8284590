"""Ratings by name: who gave which item how much, from frames and files, as a sparse matrix."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from rankwise.core.arrays import FloatArray, IntArray, Matrix
from rankwise.core.checks import hint
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.io.data import USUAL_NAMES, ColumnNames, plain_name
from rankwise.io.frames import column_ids, column_numbers, frame_table
from rankwise.io.tables.reading import open_table

Names: TypeAlias = NDArray[Any]
"""Names in ascending order, each once: whole numbers or text."""

USUAL = {
    "user": (
        "user", "user_id", "uid", "customer", "customer_id", "visitor", "visitor_id", "member",
        "member_id", "reader", "listener", "account_id", "reviewer", "reviewer_id", "person",
    ),
    "item": (
        "movie", "movie_id", "film", "film_id", "book", "book_id", "isbn", "song", "song_id",
        "track", "track_id", "artist", "artist_id", "joke", "joke_id", "product", "article",
        "article_id", "asin", "sku", "business_id", *USUAL_NAMES["item"],
    ),
    "rating": ("rating", "ratings", "stars", *USUAL_NAMES["y"]),
    "count": ("count", "counts", "plays", "play_count", "clicks", "views", "purchases", "quantity"),
    "time": ("timestamp", "time", "date", "datetime"),
}  # fmt: skip
"""The names by which columns of ratings are found, in any spelling."""


@final
@dataclass(frozen=True)
class RatingColumns:
    """The columns of a table of ratings; without ratings and counts, every row counts 1."""

    user: str
    item: str
    rating: str | None = None
    count: str | None = None
    time: str | None = None

    @classmethod
    def of(cls, names: ColumnNames, given: Mapping[str, str | None]) -> Self:
        """Return the given columns, and those with usual names for the others."""
        if given.get("rating") is not None and given.get("count") is not None:
            raise InvalidInputError(
                "Only one of `rating` and `count` may be given: got both. Ratings say how much an "
                "item is liked, counts how often it was chosen."
            )
        found: dict[str, str | None] = {}
        for role in USUAL:
            name = given.get(role)
            found[role] = _usual(names, role) if name is None else names.required(name, role)
        for role in ("user", "item"):
            if found[role] is None:
                raise names.error(
                    f"{names.owner} must have a column of {role}s: its columns are {names.names}. "
                    f"Name it with {role}=..."
                )
        # a named column decides; of two found ones ratings say more
        if given.get("count") is not None:
            found["rating"] = None
        elif found["rating"] is not None:
            found["count"] = None
        return cls(**found)  # type: ignore[arg-type]

    @classmethod
    def usual(cls, names: ColumnNames) -> Self | None:
        """Return the columns of a table of ratings with usual names; None for other tables."""
        if any(_usual(names, role) is None for role in ("user", "item", "rating")):
            return None
        return cls.of(names, {})

    @property
    def found(self) -> dict[str, str]:
        """The columns by role, without those that are not there."""
        return {role: name for role, name in vars(self).items() if name is not None}


def _usual(names: ColumnNames, role: str) -> str | None:
    by_name = {plain_name(name): name for name in reversed(names.names)}
    usual = map(plain_name, USUAL[role])
    return next((by_name[name] for name in usual if name in by_name), None)


@final
@dataclass(frozen=True, eq=False)
class RatingTable:
    """Hold the rows of a table of ratings.

    Parameters
    ----------
    users, items : (n_rows,)
        Names: whole numbers or text.
    values : (n_rows,), or None
        Ratings or counts.
    times : (n_rows,), or None
        Of two ratings of an item by a user the later one counts.
    columns : RatingColumns
        Where they were found.
    owner : str
        What has the rows, to begin a sentence.
    """

    users: NDArray[Any]
    items: NDArray[Any]
    values: FloatArray | None
    times: NDArray[Any] | None
    columns: RatingColumns
    owner: str = "The frame"

    @classmethod
    def of_frame(cls, frame: Any, **given: str | None) -> Self:
        """Take the columns of a frame of pandas, polars, Arrow or others."""
        table = frame_table(frame)
        columns = RatingColumns.of(ColumnNames.of_frame(table.columns), given)
        value = columns.rating or columns.count
        return cls(
            plain_names(column_ids(table, columns.user)),
            plain_names(column_ids(table, columns.item)),
            None if value is None else column_numbers(table, value),
            None if columns.time is None else column_ids(table, columns.time),
            columns,
        )

    @classmethod
    def of_files(cls, paths: Sequence[str | os.PathLike[str]], **given: str | None) -> Self:
        """Read files, one below the other."""
        parts: list[Self] = []
        for path in paths:
            table = open_table(path)
            columns = RatingColumns.of(ColumnNames.of_file(path, table.names), given)
            value = columns.rating or columns.count
            texts = [columns.user, columns.item, *([] if columns.time is None else [columns.time])]
            (values,), (users, items, *times) = table.read(
                [[] if value is None else [value]], texts
            )
            one = values[:, 0] if value is not None else None
            time = times[0] if times else None
            parts.append(cls(plain_names(users), plain_names(items), one, time, columns, str(path)))
        if len({part.columns for part in parts}) > 1:
            raise DataFileError(
                f"Files of ratings must have the same columns: {parts[0].owner} has "
                f"{list(parts[0].columns.found.values())}, others have others. Name them with "
                "user=..., item=..."
            )
        first = parts[0]
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("users", "items", "values", "times")
            if getattr(first, name) is not None
        }
        return replace(first, **joined)

    def as_choices(self) -> Self:
        """Return the same rows without ratings: what was chosen, or how often."""
        values = None if self.columns.count is None else self.values
        return replace(self, values=values, columns=replace(self.columns, rating=None))

    @property
    def is_implicit(self) -> bool:
        """Whether rows say what was chosen, not how much it was liked."""
        return self.columns.rating is None

    def matrix(
        self, users: Names | None = None, items: Names | None = None
    ) -> tuple[Matrix, Names, Names]:
        """Return ratings as a CSR array with the names of its rows and columns.

        Counts become ``log2(1 + count)``: once is 1, three times is 2.

        Parameters
        ----------
        users, items
            Known names; rows about others are left out. By default all names of the table.
        """
        users, row = _numbered(self.users, users)
        items, column = _numbered(self.items, items)
        known = np.flatnonzero((row >= 0) & (column >= 0))
        if self.times is not None:
            known = known[np.argsort(self.times[known], kind="stable")]
        # equal pairs next to each other, in the order of time
        code = row[known] * np.int64(len(items)) + column[known]
        order = np.argsort(code, kind="stable")
        known, code = known[order], code[order]
        is_first = np.r_[True, code[1:] != code[:-1]][: len(code)]
        firsts = np.flatnonzero(is_first)
        values = np.ones(len(known)) if self.values is None else self.values[known]
        if self.is_implicit:
            self._refuse_negative(values)
            total = np.add.reduceat(values, firsts) if len(firsts) else values
            kept = np.log2(1.0 + total)
        else:
            self._refuse_repeated(known, is_first)
            lasts = np.r_[firsts[1:], len(known)].astype(np.intp)[: len(firsts)] - 1
            kept = values[lasts]
        pairs = row[known[firsts]], column[known[firsts]]
        starts = np.searchsorted(pairs[0], np.arange(len(users) + 1))
        return csr_array((kept, pairs[1], starts), shape=(len(users), len(items))), users, items

    def _refuse_negative(self, values: FloatArray) -> None:
        if len(values) and values.min() < 0.0:
            raise InvalidInputError(
                f"Counts must not be negative: the column {self.columns.count!r} holds "
                f"{values.min():g}. Ratings are named with rating=..."
            )

    def _refuse_repeated(self, rows: IntArray, is_first: NDArray[np.bool_]) -> None:
        if is_first.all() or self.times is not None:
            return
        at = rows[int(np.argmin(is_first))]
        raise (InvalidInputError if self.owner == "The frame" else DataFileError)(
            f"{self.owner}: expected one rating for each user and item, got several by "
            f"{self.users[at]!s} of {self.items[at]!s}. Keep one of them, or add a column "
            "timestamp: then the last one counts."
        )


def plain_names(values: Any) -> NDArray[Any]:
    """Return names as whole numbers or text, whatever type they came in."""
    names = np.asarray(values)
    if names.dtype.kind in "iu":
        return names.astype(np.int64)
    if names.dtype.kind == "f" and np.isfinite(names).all() and (names == np.floor(names)).all():
        return names.astype(np.int64)
    return names.astype(str)


def positions_among(names: Any, known: Names) -> IntArray:
    """Return the position of each name among known ones; -1 for others."""
    asked = np.asarray(names)
    if known.dtype.kind == "U":
        asked = plain_names(asked).astype(str)
    else:
        texts = plain_names(asked)
        if texts.dtype.kind == "U":
            is_whole = np.char.isdigit(np.char.lstrip(texts, "-"))
            asked = np.where(is_whole, texts, "-1").astype(np.int64)
            if not is_whole.all():
                found = positions_among(asked, known)
                return np.where(is_whole, found, -1)
        else:
            asked = texts
    at = np.searchsorted(known, asked)
    inside = np.minimum(at, len(known) - 1)
    same = known[inside] == asked if len(known) else np.zeros(asked.shape, dtype=bool)
    return np.where(same, inside, -1).astype(np.intp)


def required_positions(names: Any, known: Names, what: str, advice: str = "") -> IntArray:
    """Return the position of each name among known ones; refuse others."""
    found = positions_among(names, known)
    if (found < 0).any():
        strange = np.asarray(names).ravel()[int(np.argmax(found.ravel() < 0))]
        raise InvalidInputError(
            f"`{what}` must be known to the model: got {strange!s}."
            f"{hint(str(strange), known.astype(str).tolist())}{advice}"
        )
    return found


def _numbered(values: NDArray[Any], known: Names | None) -> tuple[Names, IntArray]:
    if known is not None:
        return known, positions_among(values, known)
    names, index = np.unique(values, return_inverse=True)
    return names, index.astype(np.intp)
