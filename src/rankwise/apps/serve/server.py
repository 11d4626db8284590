"""An application that scores and orders the items of queries sent to it."""

import asyncio
import json
import logging
import math
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Annotated, Any, final

import numpy as np
from sklearn.utils import get_tags

from rankwise import __version__
from rankwise.apps.serve.openapi import docs_page, openapi, openapi_of
from rankwise.apps.serve.recommendations import Recommender
from rankwise.apps.serve.requests import ItemReader, RankRequest, RequestError
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError, NumericalError, extra
from rankwise.core.params import Advice, Count, Positive, check_value
from rankwise.core.sockets import listen_on
from rankwise.io.feature_columns import columns_kept
from rankwise.rankers.dorm.factorization.ranking_factorization import RankingFactorization
from rankwise.rankers.scoring_function import predicted

LOG = logging.getLogger("rankwise.apps.serve")

N_THREADS = 2
"""Requests that are read and scored at the same time: JSON of one while another is scored."""

BODIES_HELD = 8
"""Bodies of the largest size that fit in memory together; further ones are refused."""


QUICK = 1e-3
"""Processor seconds up to which a request is answered at once, since a thread would take longer."""

FIXED_BYTES, PACE_KEPT = 1 << 16, 0.98
"""What is added to the length of a body for the fixed cost of an answer; decay of the pace."""


BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Upper bounds of the histogram of seconds."""


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
@dataclass
class HeldBodies:
    """Count the bytes of all bodies in memory."""

    n_bytes: int = 0
    lock: Lock = field(default_factory=Lock)

    def add(self, n_bytes: int, most: int) -> bool:
        """Count some more bytes; return False, and count nothing, if they exceed the limit."""
        with self.lock:
            if self.n_bytes + n_bytes > most:
                return False
            self.n_bytes += n_bytes
            return True

    def remove(self, n_bytes: int) -> None:
        """Subtract the bytes of a body."""
        with self.lock:
            self.n_bytes -= n_bytes


@final
@dataclass
class Pace:
    """Remember how long answers take, by the slowest of late."""

    seconds_per_byte: float = math.inf

    def is_quick(self, n_bytes: int) -> bool:
        """Return whether a body of so many bytes is likely to be answered at once."""
        return self.seconds_per_byte * (n_bytes + FIXED_BYTES) < QUICK

    def add(self, n_bytes: int, seconds: float) -> None:
        """Take in an answer."""
        pace, before = seconds / (n_bytes + FIXED_BYTES), self.seconds_per_byte
        self.seconds_per_byte = max(pace, 0.0 if math.isinf(before) else PACE_KEPT * before)


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
    timeout : float
        Seconds within which a body must have arrived.
    name, version : str
        What the model is called, and which one it is.
    recommender : Recommender, optional
        Answers in place of the ranker, for models of users and items.
    """

    ranker: Any
    reader: ItemReader
    max_bytes: int
    timeout: float
    name: str
    version: str
    recommender: Recommender | None = None
    counters: Counters = field(default_factory=Counters)
    bodies: HeldBodies = field(default_factory=HeldBodies)
    pace: Pace = field(default_factory=Pace)

    @property
    def path(self) -> str:
        """Where requests are posted to."""
        return "/rank" if self.recommender is None else self.recommender.path

    def description(self) -> dict[str, Any]:
        """Return the interface as an OpenAPI document."""
        if self.recommender is None:
            return openapi(self.facts(), self.reader)
        return openapi_of(self.facts(), self.path, **self.recommender.description())

    def facts(self) -> dict[str, Any]:
        """Return what is served, for a health check."""
        names = self.reader.names
        takes: dict[str, Any] = {
            "n_features": self.reader.n_features,
            "features": None if names is None else list(names),
        }
        if self.recommender is not None:
            takes = self.recommender.facts()
        return {
            "status": "ok",
            "ranker": type(self.ranker).__name__,
            **takes,
            "model": {"name": self.name, "version": self.version},
            "version": __version__,
        }

    def answer(self, body: bytearray) -> tuple[int, bytes, int]:
        """Return status, response and number of items of one request."""
        start = time.thread_time()
        try:
            if self.recommender is not None:
                content, n_items = self.recommender.answer(body)
            else:
                request = RankRequest.read(body, self.reader)
                content, n_items = request.answer(self._scores(request)), request.n_items
            content["model"] = {"name": self.name, "version": self.version}
            return 200, json.dumps(content, allow_nan=False).encode(), n_items
        except RequestError as error:
            return error.status, _error(str(error)), 0
        finally:
            self.pace.add(len(body), time.thread_time() - start)

    def _scores(self, request: RankRequest) -> FloatArray:
        """Return the scores of all items; refuse items that the ranker cannot score."""
        rows = request.rows[0] if len(request.rows) == 1 else np.concatenate(request.rows)
        query_of_row = np.repeat(np.arange(len(request.rows)), [len(part) for part in request.rows])
        try:
            with np.errstate(all="ignore"):  # what is not finite is refused below
                scores = np.asarray(predicted(self.ranker, rows, query_of_row))
        except InvalidInputError as error:
            raise RequestError(str(error)) from error
        except (NumericalError, ArithmeticError, ValueError) as error:
            raise RequestError(
                f"The items must have features that the ranker can score: {error}"
            ) from error
        if not np.isfinite(scores).all():
            raise RequestError(
                "The items must have features that the ranker can score in double precision: "
                f"item {int(np.argmin(np.isfinite(scores)))} of the request gets {scores.min()}."
            )
        return scores

    async def body_of(self, request: Any, body: bytearray) -> None:
        """Read the body of a request; refuse a long one before it is read to its end."""
        async for part in request.stream():
            if len(body) + len(part) > self.max_bytes:
                raise RequestError(
                    f"The body must have at most {self.max_bytes} bytes. Send fewer items.", 413
                )
            if not self.bodies.add(len(part), BODIES_HELD * self.max_bytes):
                raise RequestError(
                    "There must be room for the requests that arrive at the same time: they are "
                    "too large together. Send this one again later.",
                    503,
                )
            body += part


def _error(message: str) -> bytes:
    return json.dumps({"error": message}).encode()


def make_app(
    ranker: Any,
    *,
    max_items: int = 10_000,
    max_bytes: int = 16_000_000,
    timeout: float = 30.0,
    name: str | None = None,
    version: str = "",
) -> Any:
    """Make an ASGI application that re-ranks the items of queries; needs starlette.

    ``POST /rank`` takes ``{"items": [[...], ...]}`` and returns ``{"scores": [...], "order":
    [...]}``, where ``order`` lists positions of items, best first. Optional fields are ``"ids"``,
    which are returned in ranked order, and ``"k"``, which keeps the best k. Items may be objects
    with the names of the features: other keys are ignored, an ``"id"`` in each, or the column of
    names that was learned from, is returned as ``"ids"``, and missing features are blanks where the
    ranker takes blanks. Send several queries at once as ``{"queries": [{"items": ...}, ...]}``.
    Every answer names the ``"model"``.
    ``GET /health`` says what is served, ``GET /openapi.json`` describes the interface and ``GET
    /docs`` shows it to people, and ``GET /metrics`` counts requests for Prometheus. Errors are
    ``{"error": ...}`` with status 400, 413 for requests that are too large, 408 for bodies that
    arrive too slowly, 503 where too many large ones arrive at once, and 500, with a line in the
    log, for unexpected errors.

    For a `RankingFactorization` it is ``POST /recommend`` with ``{"user": "u7", "k": 5}``, with the
    ``{"ratings": {"m3": 5, "m8": 1}}`` of a new user, or with an ``{"item": "m3"}`` whose like are
    wanted; the answer has ``"items"``, best first, and their ``"scores"``.

    Parameters
    ----------
    ranker : ranker, Pipeline or RankingFactorization
        Fitted, with one output.
    max_items : int
        Largest number of items in a request.
    max_bytes : int
        Largest size of its body in bytes. Eight such bodies are held in memory at the same time.
    timeout : float
        Seconds within which a body must have arrived.
    name, version : str, optional
        What answers say about the model; by default the class of the ranker.

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
    with extra("Serving", "starlette", "serve"):
        from starlette.applications import Starlette  # noqa: PLC0415 - optional dependency
        from starlette.exceptions import HTTPException  # noqa: PLC0415
        from starlette.responses import RedirectResponse, Response  # noqa: PLC0415
        from starlette.routing import Route  # noqa: PLC0415
    # one service for all requests
    name = type(ranker).__name__ if name is None else name
    service = _service(ranker, max_items, max_bytes, timeout, name, version)
    description = service.description()

    async def health(_: Any) -> Any:
        return Response(json.dumps(service.facts()), media_type="application/json")

    async def described(_: Any) -> Any:
        return Response(json.dumps(description), media_type="application/json")

    async def docs(_: Any) -> Any:
        headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return Response(docs_page(description), 200, headers, "text/html")

    async def start(_: Any) -> Any:
        return RedirectResponse("/docs")

    async def metrics(_: Any) -> Any:
        return Response(service.counters.text(), media_type="text/plain; version=0.0.4")

    async def unknown(_: Any, error: Any) -> Any:
        service.counters.add(error.status_code, 0, 0.0)
        places = f"POST {service.path}, GET /health, GET /docs and GET /metrics"
        content = _error(f"{error.detail}: {places} are there.")
        return Response(content, error.status_code, error.headers, "application/json")

    routes = [
        Route(service.path, _ranking_endpoint(service), methods=["POST"]),
        Route("/health", health),
        Route("/metrics", metrics),
        Route("/openapi.json", described),
        Route("/docs", docs),
        Route("/", start),
    ]
    return Starlette(routes=routes, exception_handlers={HTTPException: unknown})


def _ranking_endpoint(service: RankService) -> Any:
    """Return the endpoint that ranks; few requests are read and scored at the same time."""
    with extra("Serving", "starlette", "serve"):
        from anyio import CapacityLimiter, fail_after, to_thread  # noqa: PLC0415 - with starlette
        from starlette.requests import ClientDisconnect  # noqa: PLC0415
        from starlette.responses import Response  # noqa: PLC0415
    threads = CapacityLimiter(N_THREADS)

    async def rank(request: Any) -> Any:
        start, body = time.perf_counter(), bytearray()
        n_items, headers = 0, {}
        try:
            # read the body in time, score it in a thread unless that takes no time
            with fail_after(service.timeout):
                await service.body_of(request, body)
            if service.pace.is_quick(len(body)):
                status, content, n_items = service.answer(body)
            else:
                status, content, n_items = await to_thread.run_sync(
                    service.answer, body, limiter=threads
                )
        # every failure becomes a status with a message; its bytes no longer count
        except RequestError as error:
            status, content = error.status, _error(str(error))
        except (TimeoutError, ClientDisconnect):
            status, headers = 408, {"Connection": "close"}
            content = _error(f"The body must arrive within {service.timeout:g} seconds.")
        except Exception:
            LOG.exception("A request could not be answered")
            status, content = 500, _error("The server failed; its log says why.")
        finally:
            service.bodies.remove(len(body))
        service.counters.add(status, n_items, time.perf_counter() - start)
        return Response(content, status, headers, media_type="application/json")

    return rank


def _service(
    ranker: Any, max_items: int, max_bytes: int, timeout: float, name: str, version: str
) -> RankService:
    """Return the service of a ranker that scores rows."""
    n_features = getattr(ranker, "n_features_in_", None)
    if n_features is None:
        raise InvalidInputError(
            f"The ranker must be fitted to rows of features: {type(ranker).__name__} is not. "
            "Call `fit` first."
        )
    sizes = {"max_items": max_items, "max_bytes": max_bytes}
    limits = [check_value(name, size, Count) for name, size in sizes.items()]
    wait = check_value("timeout", timeout, Annotated[float, Positive(), Advice("Give seconds.")])
    if isinstance(ranker, RankingFactorization):
        pairs, recommender = (
            ItemReader(2, ("user", "item"), limits[0]),
            Recommender(ranker, limits[0]),
        )
        return RankService(ranker, pairs, limits[1], wait, name, version, recommender)
    # a trial prediction shows whether scores order items
    if np.ndim(predicted(ranker, np.zeros((2, n_features)), np.zeros(2))) != 1:
        raise InvalidInputError(
            "The ranker must have one output to order items by: got several. Serve one for each."
        )
    names = getattr(ranker, "feature_names_in_", None)
    tags = get_tags(ranker).input_tags
    columns = columns_kept(getattr(ranker, "table_columns_", {}), ())
    reader = ItemReader(
        n_features,
        None if names is None else tuple(map(str, names)),
        limits[0],
        takes_raw=tags.string,
        takes_blanks=tags.allow_nan or columns.blanks_as_zero,
        forms=columns.forms,
        text=(*columns.categories, *columns.texts),
        blank=0.0 if columns.blanks_as_zero else np.nan,
        item=columns.item,
    )
    return RankService(ranker, reader, limits[1], wait, name, version)


def serve_ranker(
    ranker: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    max_items: int = 10_000,
    max_bytes: int = 16_000_000,
    timeout: float = 30.0,
    name: str | None = None,
    version: str = "",
    announce: Callable[[str], None] | None = None,
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
    timeout : float
        Seconds within which the header of a request must have arrived, and then its body.
    name, version
        As in `make_app`.
    announce : callable, optional
        Called with the address once the server listens there.

    Examples
    --------
    >>> from rankwise import RankRLS, serve_ranker
    >>> ranker = RankRLS().fit([[0.0], [1.0]], [0, 1])
    >>> serve_ranker(ranker, port=8080)  # doctest: +SKIP
    """
    with extra("Serving", "uvicorn", "serve"):
        import uvicorn  # noqa: PLC0415 - optional dependency
        from uvicorn.protocols.http.auto import AutoHTTPProtocol  # noqa: PLC0415
    limits: dict[str, Any] = {"max_items": max_items, "max_bytes": max_bytes, "timeout": timeout}
    config = uvicorn.Config(
        make_app(ranker, **limits, name=name, version=version),
        log_level="warning",
        access_log=False,
        http=_timed_protocol(AutoHTTPProtocol, timeout),
    )
    try:
        listener = listen_on(host, port)
    except OSError as error:
        raise InvalidInputError(
            f"The server must be able to listen on {host}, port {port}: {error}. Give another port."
        ) from error
    with listener:
        if announce is not None:
            shown = f"[{host}]" if ":" in host else host
            announce(f"http://{shown}:{listener.getsockname()[1]}")
        uvicorn.Server(config).run(sockets=[listener])


def _timed_protocol(base: Any, timeout: float) -> Any:
    """Return a protocol of uvicorn that closes connections whose headers take too long.

    uvicorn itself waits for ever, unless a connection was used before and is idle.
    """

    @final
    class TimedProtocol(base):
        """Wait for a header from the first byte, or from the beginning of the connection."""

        timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self._watch(transport)

        def data_received(self, data: bytes) -> None:
            transport = self.transport
            super().data_received(data)
            self._watch(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _watch(self, transport: asyncio.Transport) -> None:
            # no timer while a request is being answered
            is_answering = self.cycle is not None and not self.cycle.response_complete
            if is_answering:
                self._stop()
            elif self.timer is None:
                self.timer = asyncio.get_running_loop().call_later(timeout, transport.abort)

        def _stop(self) -> None:
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None

    return TimedProtocol
