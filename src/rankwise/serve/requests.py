"""Read the items of requests into rows, and write scores and orders as answers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Self, final

import numpy as np

from rankwise.core.arrays import FloatArray
from rankwise.core.errors import RankwiseError


class RequestError(RankwiseError):
    """A request cannot be answered; ``status`` is the HTTP status to answer with."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@final
@dataclass(frozen=True)
class ItemReader:
    """Turn items of a request into rows of features.

    Parameters
    ----------
    n_features : int
        How many numbers an item has.
    names : tuple of str, or None
        Their names, where items may be given as objects.
    max_items : int
        How many items a request may hold in all.
    """

    n_features: int
    names: tuple[str, ...] | None
    max_items: int

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
        try:
            found = np.array(plain)
        except ValueError:  # lists of different length
            raise self._culprit(plain, where) from None
        if found.shape != (len(items), self.n_features) or found.dtype.kind not in "biuf":
            raise self._culprit(plain, where)
        rows = found.astype(float)
        if not np.isfinite(rows).all():
            at = int(np.argmin(np.isfinite(rows).all(axis=1)))
            raise RequestError(f"{where}[{at}] must hold finite numbers.")
        return rows

    def _numbers(self, item: Any, where: str) -> Any:
        """Return the features of an item that is a list, or an object with names."""
        if not isinstance(item, dict):
            return item
        if self.names is None:
            raise RequestError(
                f"{where} must be a list of {self.n_features} numbers: got an object, and this "
                "model was fitted without names."
            )
        if item.keys() != set(self.names):
            raise RequestError(f"{where} {_mismatch(item, self.names)}")
        return [item[name] for name in self.names]

    def _culprit(self, items: list[Any], where: str) -> RequestError:
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


def _mismatch(item: dict[str, Any], names: Sequence[str]) -> str:
    missing = [name for name in names if name not in item]
    unknown = [name for name in item if name not in names]
    if missing:
        return f"must have the feature {missing[0]!r}: it is missing."
    close = get_close_matches(unknown[0], names, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"must have the features of the model only: got {unknown[0]!r}.{hint}"


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "an empty list", str: "text", bool: "a truth value"}
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
        Return the best k of each query only.
    is_batch : bool
        Whether the request holds several queries.
    """

    rows: list[FloatArray]
    ids: list[list[Any] | None]
    k: int | None
    is_batch: bool

    @classmethod
    def read(cls, body: bytes, reader: ItemReader) -> Self:
        """Read the JSON of a request: one query with ``items``, or a list of ``queries``."""
        try:
            content = json.loads(body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise RequestError(f"The body must be JSON: {error}.") from error
        if not isinstance(content, dict) or ("items" in content) == ("queries" in content):
            raise RequestError(
                'The body must be an object with either "items", the items of one query, or '
                '"queries", a list of such objects.'
            )
        unknown = sorted(set(content) - {"items", "queries", "ids", "k"})
        if unknown:
            raise RequestError(f'The body may hold "items", "ids" and "k": got {unknown[0]!r}.')
        k = content.get("k")
        if k is not None and (not isinstance(k, int) or isinstance(k, bool) or k < 1):
            raise RequestError(f'"k" must be a whole number above 0: got {k!r}.')
        if "items" in content:
            rows = reader.rows(content["items"], "items")
            return cls([rows], [_ids(content, len(rows), "ids")], k, False)
        return cls._of_queries(content["queries"], reader, k)

    @classmethod
    def _of_queries(cls, queries: Any, reader: ItemReader, k: int | None) -> Self:
        if not isinstance(queries, list) or not queries:
            raise RequestError(f'"queries" must be a list of objects: got {_kind(queries)}.')
        rows, ids, n_items = [], [], 0
        for at, query in enumerate(queries):
            where = f"queries[{at}]"
            if not isinstance(query, dict) or "items" not in query:
                raise RequestError(f'{where} must be an object with "items".')
            rows.append(reader.rows(query["items"], f"{where}.items"))
            ids.append(_ids(query, len(rows[-1]), f"{where}.ids"))
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
        """Return the answer for the scores of all rows, one after the other."""
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
    raise ValueError(f"{name} is no number of JSON")


def _ids(query: dict[str, Any], n_items: int, where: str) -> list[Any] | None:
    ids = query.get("ids")
    if ids is None:
        return None
    if not isinstance(ids, list) or len(ids) != n_items:
        got = f"{len(ids)}" if isinstance(ids, list) else _kind(ids)
        raise RequestError(f"{where} must hold an id for each of the {n_items} items: got {got}.")
    return ids
