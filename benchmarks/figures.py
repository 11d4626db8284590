"""Figures that come out the same on every run, and small: text stays text."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

SETTINGS = {
    "svg.hashsalt": "rankwise",
    "svg.fonttype": "none",
    "font.size": 8,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
}
HEADS = r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>"
SPARED = {r"(\d\.\d\d)\d+": r"\1", r"\s+": " ", r" (?=[\"/>])|(?<=[:;]) ": ""}
"""What no viewer needs inside a tag: digits below a hundredth of a pixel, and space."""


@contextmanager
def figure(path: Path, n_rows: int, n_columns: int, size: tuple[float, float]) -> Iterator[Any]:
    """Give axes to draw on, and write them to an svg file at the end."""
    with mpl.rc_context(SETTINGS):
        drawing = Figure(figsize=size, layout="constrained")
        yield drawing.subplots(n_rows, n_columns)
        text = StringIO()
        drawing.savefig(text, format="svg", metadata={"Date": None})
        path.write_text(squeezed(text.getvalue()), encoding="utf-8")


def squeezed(svg: str) -> str:
    """Return a drawing that looks the same in fewer bytes; what is written stays as it is."""

    def spared(tag: re.Match[str]) -> str:
        text = tag[0]
        for pattern, instead in SPARED.items():
            text = re.sub(pattern, instead, text)
        return text

    svg = re.sub(HEADS, "", svg, flags=re.DOTALL)
    return re.sub(r">\s+<", ">\n<", re.sub(r"<[^>]*>", spared, svg)).strip() + "\n"
