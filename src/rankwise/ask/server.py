"""The page and its requests: who may send them, and how they are answered."""

import csv
import hmac
import io
import json
import secrets
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias, cast, final
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

from rankwise.ask.report import render_report
from rankwise.ask.session import AskSession
from rankwise.ask.store import ANSWERS, Answer, Question, Rater
from rankwise.core.errors import InvalidInputError

PAGE = Path(__file__).parent / "page"
MAX_BODY = 4096
LOCAL_HOSTS = {"127.0.0.1", "localhost", "[::1]"}
RATER_COOKIE = "rankwise_rater"
TOKEN_COOKIE = "rankwise_token"
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
class Gate(BaseHTTPMiddleware):
    """Accept only requests from this page: the right host, the right origin, the token."""

    def __init__(self, app: Any, token: str | None) -> None:
        super().__init__(app)
        self.token = token

    async def dispatch(self, request: Request, call_next: Handler) -> Response:
        """Refuse, or pass on and add the headers."""
        refusal = self._refusal(request)
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
        if request.method != "GET" and (origin is None or urlsplit(origin).netloc != host):
            return "Answers are taken from this page only."
        if self.token is None:
            return None
        given = request.query_params.get("token") or request.cookies.get(TOKEN_COOKIE, "")
        same = hmac.compare_digest(given.encode(), self.token.encode())
        return None if same else "Open the whole link, with its token."


def build_app(session: AskSession, token: str | None = None) -> Starlette:
    """Return the application over a session.

    Parameters
    ----------
    session : AskSession
        The session that receives the answers.
    token : str, optional
        The token that the link must contain, for pages that other machines may open.
    """
    requests = _Requests(session)
    routes = [
        Route("/", _page("index.html", "text/html")),
        Route("/page.js", _page("page.js", "text/javascript")),
        Route("/page.css", _page("page.css", "text/css")),
        Route("/icon.svg", _page("icon.svg", "image/svg+xml")),
        Route("/image/{item:int}", requests.image),
        Route("/api/join", requests.join, methods=["POST"]),
        Route("/api/state", requests.state),
        Route("/api/answer", requests.answer, methods=["POST"]),
        Route("/api/undo", requests.undo, methods=["POST"]),
        Route("/report.html", requests.report),
        Route("/ranking.csv", requests.ranking),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Gate, token=token)],
        exception_handlers={InvalidInputError: _refused, HTTPException: _failed},
    )


@final
class _Requests:
    """The handler of each address."""

    def __init__(self, session: AskSession) -> None:
        self.session = session

    async def join(self, request: Request) -> Response:
        body = await _body(request)
        name = body.get("name", "")
        if not isinstance(name, str):
            raise InvalidInputError("`name` must be text.")
        rater = await run_in_threadpool(self.session.join, name)
        response = await self._where(rater)
        _set_cookie(response, RATER_COOKIE, rater.key)
        return response

    async def state(self, request: Request) -> Response:
        return await self._where(self._rater(request))

    async def answer(self, request: Request) -> Response:
        rater = self._known_rater(request)
        body = await _body(request)
        question, answer = body.get("question"), body.get("answer")
        if not isinstance(question, int) or isinstance(question, bool) or answer not in ANSWERS:
            raise InvalidInputError(
                f"An answer must name its `question` by number and be one of {', '.join(ANSWERS)}."
            )
        await run_in_threadpool(self.session.answer, rater, question, cast(Answer, answer))
        return await self._where(rater)

    async def undo(self, request: Request) -> Response:
        rater = self._known_rater(request)
        await _body(request)
        await run_in_threadpool(self.session.undo, rater)
        return await self._where(rater)

    async def image(self, request: Request) -> Response:
        number = request.path_params["item"]
        items = self.session.items.items
        path = items[number].image if 0 <= number < len(items) else None
        if path is None or not path.is_file():
            raise HTTPException(404, "There is no such image.")
        return FileResponse(
            path, headers={"Content-Security-Policy": "default-src 'none'; sandbox"}
        )

    async def report(self, request: Request) -> Response:  # noqa: ARG002
        text = await run_in_threadpool(render_report, self.session)
        headers = {"Content-Security-Policy": REPORT_POLICY}
        return Response(text, media_type="text/html", headers=headers)

    async def ranking(self, request: Request) -> Response:  # noqa: ARG002
        text = await run_in_threadpool(ranking_csv, self.session)
        headers = {"Content-Disposition": 'attachment; filename="ranking.csv"'}
        return Response(text, media_type="text/csv", headers=headers)

    async def _where(self, rater: Rater | None) -> Response:
        return JSONResponse(await run_in_threadpool(self._state, rater))

    def _state(self, rater: Rater | None) -> dict[str, Any]:
        """Return what the page shows: the question of this rater, and the ranking."""
        standing = self.session.standing()
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
        question = None if rater is None else self.session.question(rater)
        return {
            "rater": None if rater is None else rater.name,
            "question": None if question is None else self._shown(question),
            "finished": rater is not None and question is None,
            "goal": str(self.session.goal),
            "certainty": standing.certainty,
            "confidence": self.session.goal.confidence,
            "settled": standing.is_settled,
            "message": str(standing),
            "answers": len(self.session.records),
            "ranking": ranking,
            "raters": [
                {
                    "name": r.name,
                    "answers": r.n_answers,
                    "agreement": r.agreement,
                    "unusual": r.is_unusual,
                    "weight": r.weight,
                }
                for r in self.session.raters()
            ],
        }

    def _shown(self, question: Question) -> dict[str, Any]:
        return {
            "id": question.id,
            "left": self._shown_item(question.left),
            "right": self._shown_item(question.right),
        }

    def _shown_item(self, number: int) -> dict[str, Any]:
        item = self.session.items.items[number]
        image = None if item.image is None else f"/image/{number}"
        return {"name": item.name, "text": item.text, "image": image}

    def _rater(self, request: Request) -> Rater | None:
        key = request.cookies.get(RATER_COOKIE)
        return None if key is None else self.session.store.rater(key)

    def _known_rater(self, request: Request) -> Rater:
        rater = self._rater(request)
        if rater is None:
            raise HTTPException(401, "Say who you are first.")
        return rater


def ranking_csv(session: AskSession) -> str:
    """Return the ranking as CSV: rank, name, interval of ranks, probability of being best."""
    standing = session.standing()
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["rank", "name", "rank_low", "rank_high", "probability_best"])
    for rank, i in enumerate(standing.order.tolist(), 1):
        low, high = standing.interval[i].tolist()
        name = session.items.items[i].name
        writer.writerow([rank, name, low, high, round(float(standing.best[i]), 4)])
    return out.getvalue()


def new_token() -> str:
    """Return a token that cannot be guessed."""
    return secrets.token_urlsafe(24)


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
    except ValueError as error:
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


async def _refused(request: Request, error: Exception) -> Response:  # noqa: ARG001
    return JSONResponse({"error": str(error)}, status_code=400)


async def _failed(request: Request, error: Exception) -> Response:  # noqa: ARG001
    failure = cast(HTTPException, error)
    return JSONResponse({"error": failure.detail}, status_code=failure.status_code)


def run_server(session: AskSession, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serve the page until Ctrl-C or SIGTERM; all answers given until then are kept.

    Parameters
    ----------
    session : AskSession
        A session; it is started here and stopped at the end.
    host, port
        Where to listen; port 0 picks a free one. Any host but localhost needs a token in the link.
    announce : callable
        Called with the link once the server listens.
    """
    token = None if host in ("127.0.0.1", "localhost", "::1") else new_token()
    listener = socket.create_server((host, port), family=_family(host))
    number = listener.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    link = f"http://{shown}:{number}/" + ("" if token is None else f"?token={token}")
    config = uvicorn.Config(
        build_app(session, token), log_level="warning", access_log=False, timeout_keep_alive=30
    )
    session.start()
    try:
        announce(link)
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        session.stop()
        listener.close()


def _family(host: str) -> int:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
