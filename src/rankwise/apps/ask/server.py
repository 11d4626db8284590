"""The page and its requests: who may send them, and how they are answered."""

import csv
import hmac
import io
import ipaddress
import json
import secrets
import socket
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeAlias, cast, final
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from rankwise.apps.ask.items import ItemList
from rankwise.apps.ask.ranking import Standing
from rankwise.apps.ask.report import render_report
from rankwise.apps.ask.session import LOG, AskSession
from rankwise.apps.ask.store import ANSWERS, Answer, Question, Rater
from rankwise.core.display import spreadsheet_text
from rankwise.core.errors import InvalidInputError
from rankwise.core.sockets import listen_on

PAGE = Path(__file__).parent / "page"
MAX_BODY = 4096
MAX_QUESTION = 200
LOCAL_HOSTS = {"127.0.0.1", "localhost", "[::1]"}
RATER_COOKIE = "rankwise_rater"
TOKEN_COOKIE = "rankwise_token"
LARGEST_ID = 2**63 - 1

MOST_JOINED, MOST_JOINED_AT_ONCE, AT_ONCE = 500, 100, 600.0
"""People who may join from one address in all, and within ten minutes (in seconds)."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


@final
@dataclass(frozen=True)
class AskPage:
    """What the page shows, besides the question.

    Parameters
    ----------
    question : str
        What is asked about two items.
    hide_names : bool
        Show images and texts without names, which may bias.
    hide_ranking : bool
        Show neither the ranking nor how well people agree before the server stops.
    """

    question: str = "Which is better?"
    hide_names: bool = False
    hide_ranking: bool = False

    @classmethod
    def of(cls, items: ItemList, question: str, *, hide_names: bool, hide_ranking: bool) -> Self:
        """Check what can be shown of some items."""
        words = " ".join(question.split())
        if not 0 < len(words) <= MAX_QUESTION:
            raise InvalidInputError(
                f"The question must be a text of at most {MAX_QUESTION} characters: got "
                f"{question!r}."
            )
        bare = next((item.name for item in items.items if not item.image and not item.text), None)
        if hide_names and bare is not None:
            raise InvalidInputError(
                f"Names can be hidden of items that have an image or a text: {bare!r} has neither."
            )
        return cls(words, hide_names, hide_ranking)


@final
class Gate(BaseHTTPMiddleware):
    """Accept only requests from this page: the right host, the right origin, the token."""

    def __init__(self, app: Any, token: str | None) -> None:
        super().__init__(app)
        self.token = token

    async def dispatch(self, request: Request, call_next: Handler) -> Response:
        """Refuse, or pass on and add the headers."""
        try:
            refusal = self._refusal(request)
        except InvalidInputError as error:
            return _with_headers(await _invalid_input(request, error))
        if refusal is not None:
            return _with_headers(JSONResponse({"error": refusal}, status_code=403))
        if self.token is not None and "token" in request.query_params:
            response: Response = RedirectResponse("/", status_code=303)
            _set_cookie(response, TOKEN_COOKIE, self.token)
            return _with_headers(response)
        return _with_headers(await call_next(request))

    def _refusal(self, request: Request) -> str | None:
        host = request.headers.get("host", "")
        if self.token is None and host.rsplit(":", 1)[0] not in LOCAL_HOSTS:
            return "This page answers to localhost only."
        origin = request.headers.get("origin")
        if request.method != "GET" and (origin is None or _host_of(origin) != host):
            return "Answers are taken from this page only."
        if self.token is None:
            return None
        given = request.query_params.get("token") or request.cookies.get(TOKEN_COOKIE, "")
        same = hmac.compare_digest(given.encode(), self.token.encode())
        return None if same else "Open the whole link, with its token."


def build_app(
    session: AskSession, token: str | None = None, page: AskPage | None = None
) -> Starlette:
    """Return the application over a session.

    Parameters
    ----------
    session : AskSession
        The session that receives the answers.
    page : AskPage, optional
        What is shown.
    token : str, optional
        The token that the link must contain, for pages that other machines may open.
    """
    requests = _Requests(session, AskPage() if page is None else page)
    routes = [
        Route("/", _page("index.html", "text/html")),
        Route("/page.js", _page("page.js", "text/javascript")),
        Route("/page.css", _page("page.css", "text/css")),
        Route("/icon.svg", _page("icon.svg", "image/svg+xml")),
        Route("/image/{item}", requests.image),
        Route("/api/join", requests.join, methods=["POST"]),
        Route("/api/state", requests.state),
        Route("/api/answer", requests.answer, methods=["POST"]),
        Route("/api/undo", requests.undo, methods=["POST"]),
        Route("/api/again", requests.again, methods=["POST"]),
        Route("/report.html", requests.report),
        Route("/ranking.csv", requests.ranking),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Gate, token=token)],
        exception_handlers={
            InvalidInputError: _invalid_input,
            HTTPException: _http_error,
            sqlite3.Error: _storage_failed,
            Exception: _internal_error,
        },
    )


@final
class _Requests:
    """The handler of each address."""

    def __init__(self, session: AskSession, page: AskPage) -> None:
        self.session = session
        self.page = page
        self.joined = JoinedFrom()

    async def join(self, request: Request) -> Response:
        body = await _body(request)
        name = body.get("name", "")
        if not isinstance(name, str):
            raise InvalidInputError("`name` must be text.")
        rater = await self._rater(request)  # who has joined before stays the same person
        if rater is None:
            rater = await run_in_threadpool(self._join, name, request)
        response = await self._state_response(rater)
        _set_cookie(response, RATER_COOKIE, rater.key)
        return response

    def _join(self, name: str, request: Request) -> Rater:
        address = "" if request.client is None else request.client.host
        if not self.joined.admit(address, time.monotonic()):
            raise HTTPException(
                429,
                f"At most {MOST_JOINED_AT_ONCE} people may join from one address in ten minutes, "
                f"and {MOST_JOINED} in all: try again later, or from another network.",
            )
        return self.session.join(name)

    async def state(self, request: Request) -> Response:
        return await self._state_response(await self._rater(request))

    async def answer(self, request: Request) -> Response:
        rater = await self._known_rater(request)
        body = await _body(request)
        question, answer = body.get("question"), body.get("answer")
        is_number = isinstance(question, int) and not isinstance(question, bool)
        number = cast(int, question) if is_number else 0
        if not 0 < number <= LARGEST_ID or answer not in ANSWERS:
            raise InvalidInputError(
                f"An answer must name its `question` by number and be one of {', '.join(ANSWERS)}."
            )
        await run_in_threadpool(self.session.answer, rater, number, cast(Answer, answer))
        return await self._state_response(rater)

    async def undo(self, request: Request) -> Response:
        rater = await self._known_rater(request)
        await _body(request)
        await run_in_threadpool(self.session.undo, rater)
        return await self._state_response(rater)

    async def again(self, request: Request) -> Response:
        rater = await self._known_rater(request)
        await _body(request)
        await run_in_threadpool(self.session.ask_again, rater)
        return await self._state_response(rater)

    async def image(self, request: Request) -> Response:
        images = {str(i): item.image for i, item in enumerate(self.session.items.items)}
        path = images.get(request.path_params["item"])
        if path is None or not path.is_file():
            raise HTTPException(404, "There is no such image.")
        return FileResponse(
            path, headers={"Content-Security-Policy": "default-src 'none'; sandbox"}
        )

    async def report(self, request: Request) -> Response:  # noqa: ARG002
        self._refuse_if_hidden()
        text = await run_in_threadpool(render_report, self.session)
        headers = {"Content-Security-Policy": REPORT_POLICY}
        return Response(text, media_type="text/html", headers=headers)

    async def ranking(self, request: Request) -> Response:  # noqa: ARG002
        self._refuse_if_hidden()
        text = await run_in_threadpool(ranking_csv, self.session)
        headers = {"Content-Disposition": 'attachment; filename="ranking.csv"'}
        return Response(text, media_type="text/csv", headers=headers)

    def _refuse_if_hidden(self) -> None:
        if self.page.hide_ranking:
            raise HTTPException(403, "The ranking is hidden: it is written when the server stops.")

    async def _state_response(self, rater: Rater | None) -> Response:
        return JSONResponse(await run_in_threadpool(self._state, rater))

    def _state(self, rater: Rater | None) -> dict[str, Any]:
        """Return what the page shows: the question of this rater, and the ranking."""
        standing = self.session.standing()
        question = None if rater is None else self.session.question(rater)
        state = {
            "title": self.page.question,
            "rater": None if rater is None else rater.name,
            "question": None if question is None else self._question_content(question),
            "finished": rater is not None and question is None,
            "goal": str(self.session.goal),
            "certainty": standing.certainty,
            "confidence": self.session.goal.confidence,
            "settled": standing.is_goal_reached,
            "message": str(standing),
            "trouble": self.session.trouble,
            "answers": len(self.session.records),
            "hidden": self.page.hide_ranking,
        }
        return state if self.page.hide_ranking else state | self._ranking_content(standing)

    def _ranking_content(self, standing: Standing) -> dict[str, Any]:
        """Return the ranking so far, and how well people agree with it."""
        items = self.session.items.items
        ranking = [
            {
                "name": items[i].name,
                "low": int(standing.interval[i, 0]),
                "high": int(standing.interval[i, 1]),
                "best": round(float(standing.best[i]), 4),
            }
            for i in standing.order.tolist()
        ]
        raters = [
            {
                "name": r.name,
                "answers": r.n_answers,
                "agreement": r.agreement,
                "unusual": r.is_unusual,
                "care": r.care,
            }
            for r in self.session.raters()
        ]
        return {"ranking": ranking, "raters": raters}

    def _question_content(self, question: Question) -> dict[str, Any]:
        return {
            "id": question.id,
            "left": self._item_content(question.left),
            "right": self._item_content(question.right),
        }

    def _item_content(self, number: int) -> dict[str, Any]:
        item = self.session.items.items[number]
        image = None if item.image is None else f"/image/{number}"
        name = "" if self.page.hide_names else item.name
        return {"name": name, "text": item.text, "image": image}

    async def _rater(self, request: Request) -> Rater | None:
        key = request.cookies.get(RATER_COOKIE)
        return None if key is None else await run_in_threadpool(self.session.store.rater, key)

    async def _known_rater(self, request: Request) -> Rater:
        rater = await self._rater(request)
        if rater is None:
            raise HTTPException(401, "Say who you are first.")
        return rater


@final
class JoinedFrom:
    """Count joins by network, so that one person cannot take all places.

    A class behind one router shares an address; an IPv6 network counts as one.
    """

    def __init__(self) -> None:
        self._recent: dict[str, deque[float]] = {}
        self._all: dict[str, int] = {}
        self._guard = threading.Lock()

    def admit(self, address: str, now: float) -> bool:
        """Return whether somebody may join from an address at a time in seconds, and count them."""
        network = _network(address)
        with self._guard:
            # forget joins older than the window
            recent = self._recent.setdefault(network, deque())
            while recent and recent[0] <= now - AT_ONCE:
                recent.popleft()
            n_joined = self._all.get(network, 0)
            if len(recent) >= MOST_JOINED_AT_ONCE or n_joined >= MOST_JOINED:
                return False
            recent.append(now)
            self._all[network] = n_joined + 1
            return True


def _network(address: str) -> str:
    """Return an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        known = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if known.version == 4:
        return address
    mapped = known.ipv4_mapped
    return str(ipaddress.ip_network((known, 64), strict=False) if mapped is None else mapped)


def ranking_csv(session: AskSession) -> str:
    """Return the ranking as CSV: rank, name, interval of ranks, probability of being best."""
    standing = session.standing()
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["rank", "name", "rank_low", "rank_high", "probability_best"])
    for rank, i in enumerate(standing.order.tolist(), 1):
        low, high = standing.interval[i].tolist()
        name = spreadsheet_text(session.items.items[i].name)
        writer.writerow([rank, name, low, high, round(float(standing.best[i]), 4)])
    return out.getvalue()


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(24)


def _host_of(origin: str) -> str:
    """Return host and port of an origin."""
    try:
        return urlsplit(origin).netloc
    except ValueError as error:
        raise InvalidInputError(f"An origin must be an address: {error}.") from error


async def _body(request: Request) -> dict[str, Any]:
    """Read a small JSON object."""
    if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
        raise InvalidInputError("A request must be JSON.")
    data = b""
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_BODY:
            raise HTTPException(413, f"A request must not be larger than {MAX_BODY} bytes.")
    try:
        body = json.loads(data or b"{}")
    except (ValueError, RecursionError) as error:
        raise InvalidInputError("A request must be valid JSON.") from error
    if not isinstance(body, dict):
        raise InvalidInputError("A request must be a JSON object.")
    return body


def _page(name: str, media_type: str) -> Handler:
    async def show(request: Request) -> Response:  # noqa: ARG001
        return FileResponse(PAGE / name, media_type=media_type)

    return show


def _with_headers(response: Response) -> Response:
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    return response


def _set_cookie(response: Response, name: str, value: str) -> None:
    response.set_cookie(name, value, max_age=365 * 86400, httponly=True, samesite="strict")


async def _invalid_input(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return JSONResponse({"error": str(error)}, status_code=400)


async def _http_error(request: Request, error: Exception) -> Response:  # noqa: ARG001
    failure = cast(HTTPException, error)
    return JSONResponse({"error": failure.detail}, status_code=failure.status_code)


async def _storage_failed(request: Request, error: Exception) -> Response:  # noqa: ARG001
    LOG.warning("The answers file cannot be used: %s", error)
    message = f"The answers file cannot be used at the moment ({error})."
    return JSONResponse({"error": message}, status_code=503)


async def _internal_error(request: Request, error: Exception) -> Response:  # noqa: ARG001
    message = "The server failed; what it printed says why."
    return _with_headers(JSONResponse({"error": message}, status_code=500))


def run_server(
    session: AskSession,
    page: AskPage,
    host: str,
    port: int,
    announce: Callable[[list[str]], None],
) -> None:
    """Serve the page until Ctrl-C or SIGTERM; all answers given until then are kept.

    Parameters
    ----------
    session : AskSession
        A session; it is started here and stopped at the end.
    page : AskPage
        What is shown.
    host, port
        Where to listen; port 0 picks a free one. Any host but localhost needs a token in the link.
    announce : callable
        Called with the links once the server listens: one for each address that others can reach.
    """
    # pages for other machines need a token in the link
    token = None if host in ("127.0.0.1", "localhost", "::1") else new_token()
    listener = listen_on(host, port)
    links = [
        f"http://{f'[{address}]' if ':' in address else address}:{listener.getsockname()[1]}/"
        + ("" if token is None else f"?token={token}")
        for address in reachable(host)
    ]
    config = uvicorn.Config(
        build_app(session, token, page),
        log_level="warning",
        access_log=False,
        timeout_keep_alive=30,
    )
    session.start()
    try:
        announce(links)
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        session.stop()
        listener.close()


def _family(host: str) -> int:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def reachable(host: str) -> list[str]:
    """Return the addresses at which a server that listens on ``host`` can be opened.

    For a wildcard host, all addresses of this machine in its networks; if none is found, the
    loopback address. Nothing is sent.
    """
    if host not in ("0.0.0.0", "::"):
        return [host]
    family, remote = _family(host), {"0.0.0.0": "192.0.2.1", "::": "2001:db8::1"}[host]
    found: list[str] = []
    # the address of the route to other networks, then all names of this machine
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((remote, 9))  # only looks up the route: a datagram socket sends nothing yet
        found.append(str(probe.getsockname()[0]))
    with suppress(OSError, UnicodeError):
        known = socket.getaddrinfo(socket.gethostname(), None, family)
        found += [str(entry[4][0]) for entry in known]
    usable = [a for a in dict.fromkeys(found) if not _is_local(a)]
    return usable or [{"0.0.0.0": "127.0.0.1", "::": "::1"}[host]]


def _is_local(address: str) -> bool:
    """Return whether other machines cannot use an address."""
    known = ipaddress.ip_address(address.partition("%")[0])
    return known.is_loopback or known.is_unspecified or known.is_link_local
