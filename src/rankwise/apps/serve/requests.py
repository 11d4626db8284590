"""Read the requests of a server: JSON of bounded size to rows of features, ids and a cut-off."""

import json
import math
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, raw_rows
from rankwise.core.checks import hint
from rankwise.core.errors import RankwiseError
from rankwise.io.feature_columns import numbers_in_form
from rankwise.native.svmlight import parse_json_rows

VALUES_AT_ONCE = 1 << 14
"""Values that are converted to an array before other threads may run."""

LONG_BODY = 1 << 17
"""Bytes above which reading the JSON lets other threads run in between."""


class RequestError(RankwiseError):
    """Raised for a request that cannot be answered; ``status`` is the HTTP status to return."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


MISSPELT = 0.75
"""Likeness from which a key that is no feature seems to be a missing one, misspelt."""


@final
@dataclass(frozen=True)
class ItemReader:
    """Read items of a request as rows of features.

    Parameters
    ----------
    n_features : int
        Number of features of an item.
    names : tuple of str, or None
        The names of the features, if items may be given as objects.
    max_items : int
        Largest number of items in a request.
    takes_raw : bool
        Whether features may be text, or null for a blank.
    takes_blanks : bool
        Whether numbers may be null for a blank.
    forms : tuple of (str, str)
        How numbers may be written in words, for features by name: "$1,234.50", or a date.
    text : tuple of str
        The features that hold text.
    blank : float
        What stands for the blank of a number: NaN, or 0 for the models of search engines.
    item : str, optional
        The column of the names of items that was learned from: another key for ids than "id".
    """

    n_features: int
    names: tuple[str, ...] | None
    max_items: int
    takes_raw: bool = False
    takes_blanks: bool = False
    forms: tuple[tuple[str, str], ...] = ()
    text: tuple[str, ...] = ()
    blank: float = np.nan
    item: str | None = None

    def id_key_of(self, item: Any) -> str | None:
        """Return the key by which an item carries its id, None if it has none."""
        keys = [key for key in ("id", self.item) if key not in (None, *(self.names or ()))]
        return next((key for key in keys if isinstance(item, dict) and key in item), None)

    def rows(self, items: Any, where: str) -> FloatArray:
        """Return the rows of one query; ``where`` names it in errors."""
        if not isinstance(items, list) or not items:
            raise RequestError(f"{where} must be a list of at least one item: got {_kind(items)}.")
        if len(items) > self.max_items:
            raise RequestError(
                f"{where} must hold at most {self.max_items} items: got {len(items)}. Send them in "
                "several requests.",
                413,
            )
        plain = [self._numbers(item, f"{where}[{at}]") for at, item in enumerate(items)]
        if self.takes_raw:
            return self._raw_rows(plain, where)
        # convert in blocks, so that other threads may run in between
        rows = np.empty((len(plain), self.n_features))
        step = max(1, VALUES_AT_ONCE // self.n_features)
        for at in range(0, len(plain), step):
            part = plain[at : at + step]
            try:
                found = np.array(part)
            except ValueError:  # lists of different length
                raise self._first_bad_item(plain, where) from None
            if found.shape != (len(part), self.n_features) or found.dtype.kind not in "biuf":
                raise self._first_bad_item(plain, where)
            rows[at : at + step] = found
        # JSON has no infinity, but numbers beyond double precision become one
        is_usable = ~np.isinf(rows) if self.takes_blanks else np.isfinite(rows)
        if not is_usable.all():
            at = int(np.argmin(is_usable.all(axis=1)))
            raise RequestError(f"{where}[{at}] must hold finite numbers.")
        return rows

    @property
    def max_lists(self) -> int:
        """Largest number of lists and objects: four for each item, if it is a query of its own."""
        return 4 * self.max_items + 1000

    @property
    def max_values(self) -> int:
        """Largest number of values, counting lists and objects and what they hold."""
        return (self.n_features + 4) * self.max_items + 1000

    def _raw_rows(self, items: list[Any], where: str) -> NDArray[Any]:
        """Return rows of numbers, text and blanks."""
        for at, item in enumerate(items):
            known = isinstance(item, list) and len(item) == self.n_features
            if not known or not all(v is None or isinstance(v, int | float | str) for v in item):
                raise RequestError(
                    f"{where}[{at}] must be a list of {self.n_features} numbers, texts or nulls: "
                    f"got {_entries(item)}."
                )
            if not all(map(_is_finite, item)):
                raise RequestError(f"{where}[{at}] must hold finite numbers.")
        rows = np.empty((len(items), self.n_features), dtype=object)
        rows[:] = items
        for name, form in self.forms:
            j = (self.names or ()).index(name)
            for at, value in enumerate(rows[:, j].tolist()):
                if isinstance(value, str):
                    rows[at, j] = self._number(value, form, f"{where}[{at}]", name)
        return raw_rows(rows)

    def _number(self, word: str, form: str, where: str, name: str) -> float:
        """Return a number that is written as in the table that was learned from."""
        found = numbers_in_form([word], form)
        if found is None:
            raise RequestError(f"{where}, {name!r} must hold numbers ({form}): got {word!r}.")
        return float(found[0])

    def _numbers(self, item: Any, where: str) -> Any:
        """Return the features of an item that is a list, or an object with names.

        Other keys of an object are ignored; missing ones are blanks where the model allows them.
        """
        blank = self.blank if self.takes_blanks and not self.takes_raw else None
        if not isinstance(item, dict):
            is_blank = isinstance(item, list) and blank is not None and None in item
            return [blank if value is None else value for value in item] if is_blank else item
        if self.names is None:
            raise RequestError(
                f"{where} must be a list of {self.n_features} numbers: got an object, and this "
                "model was fitted without names."
            )
        self._refuse_missing(item, self.names, where)
        found = [item.get(name) for name in self.names]
        return found if blank is None else [blank if value is None else value for value in found]

    def _refuse_missing(self, item: dict[str, Any], names: Sequence[str], where: str) -> None:
        """Refuse an item without a feature that it needs, or that seems to be misspelt."""
        missing = [name for name in names if name not in item]
        if not missing:
            return
        others = [name for name in item if name not in names]
        near = [
            f"; got {name!r}.{hint(name, missing)}"
            for name in others
            if get_close_matches(name.lower(), [one.lower() for one in missing], 1, MISSPELT)
        ]
        may_miss = (self.takes_raw or self.takes_blanks) and not near
        if not may_miss or len(missing) == len(names):
            raise RequestError(
                f"{where} must have the feature {missing[0]!r}: it is missing{[*near, '.'][0]}"
            )

    def _first_bad_item(self, items: list[Any], where: str) -> RequestError:
        """Return the error that names the first item that is not a list of numbers."""
        for at, item in enumerate(items):
            numbers = isinstance(item, list) and all(
                isinstance(value, int | float) for value in item
            )
            if not numbers or len(item) != self.n_features:
                got = f"{len(item)} entries" if isinstance(item, list) else _kind(item)
                got += "" if numbers or not isinstance(item, list) else " that are not all numbers"
                return RequestError(
                    f"{where}[{at}] must be a list of {self.n_features} numbers: got {got}."
                )
        return RequestError(f"{where} must hold numbers within double precision.")


def _entries(item: Any) -> str:
    return f"{len(item)} entries" if isinstance(item, list) else _kind(item)


def _kind(value: Any) -> str:
    kinds = {
        dict: "an object",
        list: "a list" if value else "an empty list",
        str: "text",
        bool: "a truth value",
    }
    return "nothing" if value is None else kinds.get(type(value), "a number")


@final
@dataclass(frozen=True, eq=False)
class RankRequest:
    """The queries of one request: rows, ids and how many items to return.

    Parameters
    ----------
    rows : list of (n_items, n_features)
    ids : list of lists, or None for positions
    k : int or None
        Return only the best k items of each query.
    is_batch : bool
        Whether the request holds several queries.
    """

    rows: list[FloatArray]
    ids: list[list[Any] | None]
    k: int | None
    is_batch: bool

    @classmethod
    def read(cls, body: bytes | bytearray, reader: ItemReader) -> Self:
        """Read the JSON of a request: one query with ``items``, or a list of ``queries``."""
        rows, rest = _leading_rows(body, reader)
        if rows is not None:
            try:
                content = json.loads(rest, parse_constant=_refuse_constant)
                return cls._read_fields(content | {"items": rows}, reader)
            except (ValueError, RecursionError):
                pass  # refused below, with the place in the body
        # limits first, then JSON, then fields
        _refuse_many_values(body, reader)
        numbers: dict[str, Any] = {}
        if len(body) > LONG_BODY:
            numbers = {"parse_float": _parse_float, "parse_int": _parse_int}
        try:
            content = json.loads(body, parse_constant=_refuse_constant, **numbers)
        except (ValueError, RecursionError) as error:
            raise RequestError(f"The body must be JSON: {error}.") from error
        return cls._read_fields(content, reader)

    @classmethod
    def _read_fields(cls, content: Any, reader: ItemReader) -> Self:
        """Check what was read; items may be rows already."""
        if not isinstance(content, dict) or ("items" in content) == ("queries" in content):
            raise RequestError(
                'The body must be an object with either "items", the items of one query, or '
                '"queries", a list of such objects.'
            )
        unknown = sorted(set(content) - {"items", "queries", "ids", "k"})
        if unknown:
            raise RequestError(f'The body may hold "items", "ids" and "k": got {unknown[0]!r}.')
        # how many items to return, then one query or several
        k = content.get("k")
        if k is not None and (not isinstance(k, int) or isinstance(k, bool) or k < 1):
            raise RequestError(f'"k" must be a whole number above 0: got {k!r}.')
        if "items" in content:
            items = content["items"]
            rows = items if isinstance(items, np.ndarray) else reader.rows(items, "items")
            return cls([rows], [_ids(content, reader, "")], k, False)
        return cls._read_queries(content["queries"], reader, k)

    @classmethod
    def _read_queries(cls, queries: Any, reader: ItemReader, k: int | None) -> Self:
        if not isinstance(queries, list) or not queries:
            raise RequestError(f'"queries" must be a list of objects: got {_kind(queries)}.')
        rows, ids, n_items = [], [], 0
        for at, query in enumerate(queries):
            where = f"queries[{at}]"
            if not isinstance(query, dict) or "items" not in query:
                raise RequestError(f'{where} must be an object with "items".')
            rows.append(reader.rows(query["items"], f"{where}.items"))
            ids.append(_ids(query, reader, f"{where}."))
            n_items += len(rows[-1])
            if n_items > reader.max_items:
                raise RequestError(
                    f"A request must hold at most {reader.max_items} items in all. Send the "
                    "queries in several requests.",
                    413,
                )
        return cls(rows, ids, k, True)

    @property
    def n_items(self) -> int:
        """Number of items in all queries."""
        return sum(map(len, self.rows))

    def answer(self, scores: FloatArray) -> dict[str, Any]:
        """Return the response for the concatenated scores of all rows."""
        answers, start = [], 0
        for rows, ids in zip(self.rows, self.ids, strict=True):
            part = scores[start : start + len(rows)]
            start += len(rows)
            order = np.argsort(-part, kind="stable")[: self.k]
            found: dict[str, Any] = {"scores": part.tolist(), "order": order.tolist()}
            if ids is not None:
                found["ids"] = [ids[at] for at in order]
            answers.append(found)
        return {"queries": answers} if self.is_batch else answers[0]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")


def _parse_float(digits: str) -> float:
    """Return a number as `json` does; a function of Python's lets other threads run."""
    return float(digits)


def _parse_int(digits: str) -> int:
    """Return a whole number as `json` does; a function of Python's lets other threads run."""
    return int(digits)


_ITEMS_FIRST = re.compile(rb'[ \t\n\r]*\{[ \t\n\r]*"items"[ \t\n\r]*:[ \t\n\r]*(?=\[)')
"""How the body of most requests begins."""


def _leading_rows(
    body: bytes | bytearray, reader: ItemReader
) -> tuple[FloatArray | None, bytes | bytearray]:
    """Return the items of a body that begins with lists of numbers, and the rest of the body.

    A tenth of the time that reading all of it as Python's numbers takes. Whatever needs a closer
    look, or an error, is left to that.
    """
    begin = _ITEMS_FIRST.match(body)
    if begin is None or not body.endswith(b"}"):
        return None, body
    n_most = min(reader.max_items, len(body) // (2 * reader.n_features) + 1)
    rows = np.empty((n_most, reader.n_features))
    n_rows, end = parse_json_rows(np.frombuffer(body, dtype=np.uint8), begin.end(), rows)
    rest = b'{"items": null' + body[end:]
    is_plain = n_rows > 0 and rest.count(b'"items"') == 1 and b"\\" not in rest
    if not is_plain or len(rest) > LONG_BODY or not _is_within_limits(rest, reader):
        return None, body
    return rows[:n_rows], rest


def _refuse_many_values(body: bytes | bytearray, reader: ItemReader) -> None:
    """Refuse a body of more values than a request may hold, before it is read.

    Every value follows a comma or an opening bracket. Commas and brackets inside texts are
    discounted only where it matters.
    """
    if _is_within_limits(body, reader):
        return
    # without the texts: every other part between quotation marks
    if body.count(b'"') <= 8 * reader.max_values:
        if b"\\" in body:
            body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
        if _is_within_limits(b"".join(body.split(b'"')[::2]), reader):
            return
    raise RequestError(
        f"The body must hold at most {reader.max_lists} lists and objects and "
        f"{reader.max_values} values, which is enough for {reader.max_items} items of "
        f"{reader.n_features} features: got more. Send the items in several requests.",
        413,
    )


def _is_within_limits(text: bytes | bytearray, reader: ItemReader) -> bool:
    """Count piece by piece, so that a text of brackets alone is refused early."""
    n_lists = n_commas = 0
    for start in range(0, len(text), LONG_BODY):
        stop = start + LONG_BODY
        n_lists += text.count(b"[", start, stop) + text.count(b"{", start, stop)
        n_commas += text.count(b",", start, stop)
        if n_lists > reader.max_lists or n_lists + n_commas > reader.max_values:
            return False
    return True


def _is_finite(value: Any) -> bool:
    """Return whether a single value is a finite number within double precision, text or null."""
    if isinstance(value, float):
        return math.isfinite(value)
    return not isinstance(value, int) or abs(value) <= sys.float_info.max


def _ids(query: dict[str, Any], reader: ItemReader, where: str) -> list[Any] | None:
    """Return the ids of a query: a list of its own, or those that every item carries."""
    ids, items = query.get("ids"), query["items"]
    where = f"{where}ids"
    if ids is None:
        key = reader.id_key_of(items[0])
        if key is None or not all(isinstance(item, dict) and key in item for item in items):
            return None
        ids = [item[key] for item in items]
    if not isinstance(ids, list) or len(ids) != len(items):
        got = f"{len(ids)}" if isinstance(ids, list) else _kind(ids)
        raise RequestError(
            f"{where} must hold an id for each of the {len(items)} items: got {got}."
        )
    for at, one in enumerate(ids):
        if isinstance(one, list | dict) or (isinstance(one, float) and not math.isfinite(one)):
            got = "a number beyond double precision" if isinstance(one, float) else _kind(one)
            raise RequestError(
                f"{where}[{at}] must be text, a finite number, a truth value or null: got {got}."
            )
    return ids
