"""Figures that come out the same on every run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure


@contextmanager
def figure(path: Path, n_rows: int, n_columns: int, size: tuple[float, float]) -> Iterator[Any]:
    """Give axes to draw on, and write them to an svg file at the end."""
    with mpl.rc_context({"svg.hashsalt": "rankwise", "font.size": 8}):
        drawing = Figure(figsize=size, layout="constrained")
        yield drawing.subplots(n_rows, n_columns)
        drawing.savefig(path, metadata={"Date": None})
