"""An application that scores and orders the items of queries sent to it."""

import json
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import get_tags

from rankwise import __version__
from rankwise.core.arrays import FloatArray, raw_rows
from rankwise.core.checks import check_count, hint
from rankwise.core.errors import InvalidInputError, MissingExtraError, RankwiseError
from rankwise.rankers.scoring_function import predicted


class RequestError(RankwiseError):
    """Raised for a request that cannot be answered; ``status`` is the HTTP status to return."""

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
        Number of features of an item.
    names : tuple of str, or None
        The names of the features, if items may be given as objects.
    max_items : int
        Largest number of items in a request.
    takes_raw : bool
        Whether features may be text, or null for a blank.
    """

    n_features: int
    names: tuple[str, ...] | None
    max_items: int
    takes_raw: bool = False

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

    def _raw_rows(self, items: list[Any], where: str) -> NDArray[Any]:
        """Return rows of numbers, text and blanks."""
        for at, item in enumerate(items):
            known = isinstance(item, list) and len(item) == self.n_features
            if not known or not all(v is None or isinstance(v, int | float | str) for v in item):
                raise RequestError(
                    f"{where}[{at}] must be a list of {self.n_features} numbers, texts or nulls: "
                    f"got {_entries(item)}."
                )
        rows = np.empty((len(items), self.n_features), dtype=object)
        rows[:] = items
        return raw_rows(rows)

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
    return f"must have the features of the model only: got {unknown[0]!r}.{hint(unknown[0], names)}"


def _entries(item: Any) -> str:
    return f"{len(item)} entries" if isinstance(item, list) else _kind(item)


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
        Return only the best k items of each query.
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


def _ids(query: dict[str, Any], n_items: int, where: str) -> list[Any] | None:
    ids = query.get("ids")
    if ids is None:
        return None
    if not isinstance(ids, list) or len(ids) != n_items:
        got = f"{len(ids)}" if isinstance(ids, list) else _kind(ids)
        raise RequestError(f"{where} must hold an id for each of the {n_items} items: got {got}.")
    return ids


BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds up to which requests are counted together."""


@final
@dataclass
class Counters:
    """Count requests, items and seconds, in a fixed amount of memory."""

    requests: dict[int, int] = field(default_factory=dict)
    n_items: int = 0
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    lock: Lock = field(default_factory=Lock)

    def add(self, status: int, n_items: int, seconds: float) -> None:
        """Count one request."""
        with self.lock:
            self.requests[status] = self.requests.get(status, 0) + 1
            self.n_items += n_items
            self.seconds += seconds
            self.buckets[bisect_left(BUCKETS, seconds)] += 1

    def text(self) -> str:
        """Return everything in the text format of Prometheus."""
        with self.lock:
            lines = ["# TYPE rankwise_requests_total counter"]
            lines += [
                f'rankwise_requests_total{{status="{status}"}} {count}'
                for status, count in sorted(self.requests.items())
            ]
            lines += ["# TYPE rankwise_items_total counter", f"rankwise_items_total {self.n_items}"]
            lines += ["# TYPE rankwise_request_seconds histogram"]
            total = 0
            for edge, count in zip((*BUCKETS, "+Inf"), self.buckets, strict=True):
                total += count
                lines.append(f'rankwise_request_seconds_bucket{{le="{edge}"}} {total}')
            lines.append(f"rankwise_request_seconds_sum {self.seconds:.6f}")
            lines.append(f"rankwise_request_seconds_count {total}")
        return "\n".join(lines) + "\n"


@final
@dataclass(frozen=True, eq=False)
class RankService:
    """Answer requests with one ranker.

    Parameters
    ----------
    ranker : ranker or Pipeline
        Fitted, with one output.
    reader : ItemReader
        Reads and checks the items of requests.
    max_bytes : int
        Largest length of a body.
    """

    ranker: Any
    reader: ItemReader
    max_bytes: int
    counters: Counters = field(default_factory=Counters)

    def facts(self) -> dict[str, Any]:
        """Return what is served, for a health check."""
        return {
            "status": "ok",
            "ranker": type(self.ranker).__name__,
            "n_features": self.reader.n_features,
            "features": None if self.reader.names is None else list(self.reader.names),
            "version": __version__,
        }

    def answer(self, body: bytes) -> tuple[int, bytes, int]:
        """Return status, response and number of items of one request."""
        try:
            request = RankRequest.read(body, self.reader)
            rows = request.rows[0] if len(request.rows) == 1 else np.concatenate(request.rows)
            of_row = np.repeat(np.arange(len(request.rows)), [len(part) for part in request.rows])
            scores = np.asarray(predicted(self.ranker, rows, of_row))
            return 200, json.dumps(request.answer(scores)).encode(), request.n_items
        except RequestError as error:
            return error.status, _error(str(error)), 0
        except InvalidInputError as error:
            return 400, _error(str(error)), 0

    async def body_of(self, request: Any) -> bytes:
        """Return the body of a request; refuse a long one before it is read to its end."""
        parts, length = [], 0
        async for part in request.stream():
            length += len(part)
            if length > self.max_bytes:
                raise RequestError(
                    f"The body must have at most {self.max_bytes} bytes. Send fewer items.", 413
                )
            parts.append(part)
        return b"".join(parts)


def _error(message: str) -> bytes:
    return json.dumps({"error": message}).encode()


def make_app(ranker: Any, *, max_items: int = 10_000, max_bytes: int = 16_000_000) -> Any:
    """Make an ASGI application that re-ranks the items of queries; needs starlette.

    ``POST /rank`` takes ``{"items": [[...], ...]}`` and returns ``{"scores": [...], "order":
    [...]}``, where ``order`` lists positions of items, best first. Optional fields are ``"ids"``,
    which are returned in ranked order, and ``"k"``, which keeps the best k. Items may be objects
    with the names of the features. Send several queries at once as
    ``{"queries": [{"items": ...}, ...]}``. ``GET /health`` says what is served, and
    ``GET /metrics`` counts requests for Prometheus. Errors are ``{"error": ...}`` with status 400,
    or 413 for requests that are too large.

    Parameters
    ----------
    ranker : ranker or Pipeline
        Fitted, with one output.
    max_items : int
        Largest number of items in a request.
    max_bytes : int
        Largest size of its body in bytes.

    Returns
    -------
    app : Starlette
        For uvicorn or any other ASGI server.

    Examples
    --------
    >>> from starlette.testclient import TestClient
    >>> from rankwise import RankRLS, make_app
    >>> client = TestClient(make_app(RankRLS().fit([[0.0], [1.0]], [0, 1])))
    >>> client.post("/rank", json={"items": [[0.5], [2.0]], "ids": ["a", "b"]}).json()["ids"]
    ['b', 'a']
    """
    try:
        from starlette.applications import Starlette  # noqa: PLC0415 - optional dependency
        from starlette.concurrency import run_in_threadpool  # noqa: PLC0415
        from starlette.exceptions import HTTPException  # noqa: PLC0415
        from starlette.responses import Response  # noqa: PLC0415
        from starlette.routing import Route  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("Serving", "starlette", "serve") from error
    service = _service(ranker, max_items, max_bytes)

    async def rank(request: Any) -> Any:
        start = time.perf_counter()
        try:
            body = await service.body_of(request)
            status, content, n_items = await run_in_threadpool(service.answer, body)
        except RequestError as error:
            status, content, n_items = error.status, _error(str(error)), 0
        service.counters.add(status, n_items, time.perf_counter() - start)
        return Response(content, status, media_type="application/json")

    async def health(_: Any) -> Any:
        return Response(json.dumps(service.facts()), media_type="application/json")

    async def metrics(_: Any) -> Any:
        return Response(service.counters.text(), media_type="text/plain; version=0.0.4")

    async def unknown(_: Any, error: Any) -> Any:
        content = _error(f"{error.detail}: POST /rank, GET /health and GET /metrics are there.")
        return Response(content, error.status_code, error.headers, "application/json")

    routes = [
        Route("/rank", rank, methods=["POST"]),
        Route("/health", health),
        Route("/metrics", metrics),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: unknown})


def _service(ranker: Any, max_items: int, max_bytes: int) -> RankService:
    """Return the service of a ranker that scores rows."""
    n_features = getattr(ranker, "n_features_in_", None)
    if n_features is None:
        raise InvalidInputError(
            f"The ranker must be fitted to rows of features: {type(ranker).__name__} is not. "
            "Call `fit` first."
        )
    if np.ndim(predicted(ranker, np.zeros((2, n_features)), np.zeros(2))) != 1:
        raise InvalidInputError(
            "The ranker must have one output to order items by: got several. Serve one for each."
        )
    names = getattr(ranker, "feature_names_in_", None)
    limit = check_count("max_items", max_items)
    reader = ItemReader(
        n_features,
        None if names is None else tuple(map(str, names)),
        limit,
        takes_raw=get_tags(ranker).input_tags.string,
    )
    return RankService(ranker, reader, check_count("max_bytes", max_bytes))


def serve_ranker(
    ranker: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    max_items: int = 10_000,
    max_bytes: int = 16_000_000,
) -> None:
    """Serve a fitted ranker over HTTP until interrupted; needs starlette and uvicorn.

    There is neither encryption nor login: put a proxy in front before others can reach it.

    Parameters
    ----------
    ranker : ranker or Pipeline
        Fitted, with one output.
    host, port
        Where to listen; by default on this machine only.
    max_items, max_bytes
        As in `make_app`.

    Examples
    --------
    >>> from rankwise import RankRLS, serve_ranker
    >>> ranker = RankRLS().fit([[0.0], [1.0]], [0, 1])
    >>> serve_ranker(ranker, port=8080)  # doctest: +SKIP
    """
    try:
        import uvicorn  # noqa: PLC0415 - optional dependency
    except ImportError as error:
        raise MissingExtraError("Serving", "uvicorn", "serve") from error
    app = make_app(ranker, max_items=max_items, max_bytes=max_bytes)
    uvicorn.run(app, host=host, port=port, log_level="warning", access_log=False)
