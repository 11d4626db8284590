"""The report of a session: one self-contained page."""

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader

from rankwise.apps.ask.session import AskSession
from rankwise.core.arrays import FloatArray

TEMPLATES = Path(__file__).parent / "page"
MAX_MATRIX = 25
"""Items of which the report shows who beats whom."""

MAX_IMAGES_BYTES = 8 << 20
"""Images larger than this in all are left out of the report."""


def render_report(session: AskSession) -> str:
    """Return the report as HTML: ranking, who beats whom, raters, how the certainty grew."""
    standing, items = session.standing(), session.items.items
    images = _images(session)
    # the ranking, with intervals of ranks and images
    ranking = [
        {
            "rank": rank,
            "name": items[i].name,
            "low": int(standing.interval[i, 0]),
            "high": int(standing.interval[i, 1]),
            "best": float(standing.best[i]),
            "image": images.get(i),
        }
        for rank, i in enumerate(standing.order.tolist(), 1)
    ]
    records = session.records
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html").render(
        goal=str(session.goal),
        message=str(standing),
        settled=standing.is_goal_reached,
        n_items=len(items),
        n_answers=len(records),
        kinds={k: sum(r.answer == k for r in records) for k in ("tie", "skip")},
        ranking=ranking,
        matrix=_matrix(session),
        raters=session.raters(),
        curve=_curve(session.store.certainty()),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _matrix(session: AskSession) -> dict[str, Any]:
    """Return how often each of the best items was preferred to each other one."""
    leading = session.standing().order[:MAX_MATRIX].tolist()
    position = {item: n for n, item in enumerate(leading)}
    # wins among the leading items, a tie counting one half
    wins: FloatArray = np.zeros((len(leading), len(leading)))
    for record in session.records:
        a, b = record.winner_first
        if record.answer != "skip" and a in position and b in position:
            share = 0.5 if record.answer == "tie" else 1.0
            wins[position[a], position[b]] += share
            wins[position[b], position[a]] += 1.0 - share
    names = [session.items.items[i].name for i in leading]
    rows = [
        [None if wins[i, j] + wins[j, i] == 0 else float(wins[i, j]) for j in range(len(leading))]
        for i in range(len(leading))
    ]
    return {"names": names, "rows": rows, "all": len(session.items) <= MAX_MATRIX}


def _curve(history: list[tuple[int, float]]) -> dict[str, Any] | None:
    """Return the polyline of the certainty in a box of 600 x 160."""
    if len(history) < 2:
        return None
    last = max(n for n, _ in history)
    points = [(600.0 * n / last, 160.0 * (1.0 - value)) for n, value in history]
    return {"points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points), "last": last}


def _images(session: AskSession) -> dict[int, str]:
    """Return images as data URLs, as long as their total size is small enough."""
    found: dict[int, str] = {}
    bytes_left = MAX_IMAGES_BYTES
    for i in session.standing().order.tolist():
        path = session.items.items[i].image
        if path is None or not path.is_file() or path.stat().st_size > bytes_left:
            continue
        bytes_left -= path.stat().st_size
        kind = {".jpg": "jpeg"}.get(path.suffix.lower(), path.suffix.lower().lstrip("."))
        found[i] = f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
    return found
