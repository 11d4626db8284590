"""An application that scores and orders the items of queries sent to it."""

import json
import time
from bisect import bisect_left
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, final

import numpy as np

from rankwise import __version__
from rankwise.core.checks import check_count
from rankwise.core.errors import InvalidInputError, MissingExtraError
from rankwise.rankers.scoring_function import predicted
from rankwise.serve.requests import ItemReader, RankRequest, RequestError

BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds up to which requests are counted together."""


@final
@dataclass
class Counters:
    """Count requests, items and seconds; a fixed number of numbers, whatever happens."""

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
        What requests may hold.
    max_bytes : int
        How long a body may be.
    """

    ranker: Any
    reader: ItemReader
    max_bytes: int
    counters: Counters = field(default_factory=Counters)

    def facts(self) -> dict[str, Any]:
        """Return what is served, for a check of health."""
        return {
            "status": "ok",
            "ranker": type(self.ranker).__name__,
            "n_features": self.reader.n_features,
            "features": None if self.reader.names is None else list(self.reader.names),
            "version": __version__,
        }

    def answer(self, body: bytes) -> tuple[int, bytes, int]:
        """Return status, answer and number of items of one request."""
        try:
            request = RankRequest.read(body, self.reader)
            rows = request.rows[0] if len(request.rows) == 1 else np.concatenate(request.rows)
            scores = np.asarray(predicted(self.ranker, rows))
            return 200, json.dumps(request.answer(scores)).encode(), request.n_items
        except RequestError as error:
            return error.status, _error(str(error)), 0

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
    """Make an ASGI application that re-ranks the items of queries. Needs starlette.

    ``POST /rank`` takes ``{"items": [[...], ...]}`` and answers ``{"scores": [...], "order":
    [...]}``, the best position first. Optional are ``"ids"``, answered in ranked order, and
    ``"k"``. Items may be objects with the names of the features. Several queries at once are
    ``{"queries": [{"items": ...}, ...]}``. ``GET /health`` says what is served, ``GET /metrics``
    counts requests for Prometheus. Errors are ``{"error": ...}`` with status 400, or 413 for too
    much at once.

    Parameters
    ----------
    ranker : ranker or Pipeline
        Fitted, with one output.
    max_items : int
        How many items a request may hold.
    max_bytes : int
        How long its body may be.

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
            f"The ranker must be fitted to rows of features: got {type(ranker).__name__} without. "
            "Call `fit` first."
        )
    if np.ndim(predicted(ranker, np.zeros((2, n_features)))) != 1:
        raise InvalidInputError(
            "The ranker must have one output to order items by: got several. Serve one for each."
        )
    names = getattr(ranker, "feature_names_in_", None)
    limit = check_count("max_items", max_items)
    reader = ItemReader(n_features, None if names is None else tuple(map(str, names)), limit)
    return RankService(ranker, reader, check_count("max_bytes", max_bytes))


def serve_ranker(
    ranker: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    max_items: int = 10_000,
    max_bytes: int = 16_000_000,
) -> None:
    """Serve a fitted ranker over HTTP until interrupted. Needs starlette and uvicorn.

    There is no encryption and no login: put a proxy in front of it before others can reach it.

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
