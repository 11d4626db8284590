"""Results as people look at them: aligned text, a small HTML table, a data frame, a drawing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields
from html import escape
from math import ceil, floor, isfinite, log10
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.core.errors import extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from pandas import DataFrame

Row = Sequence[str]


def decimals(value: float | None, digits: int = 4) -> str:
    """Return a number with a few decimals, a dash for none."""
    if value is None or value != value:
        return "-"
    text = f"{value:.{digits}f}"
    return text if abs(value) < 1e5 else f"{value:.{digits}g}"


def between(low: float, high: float, digits: int = 3) -> str:
    """Return the two ends of an interval."""
    return f"{decimals(low, digits)} to {decimals(high, digits)}"


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return names with commas, the first few where there are many."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def brief(value: float) -> str:
    """Return a number of any size with four significant digits, a dash for none."""
    return "-" if value != value else f"{value:.4g}"


def p_value(value: float) -> str:
    """Return a p-value as it is printed: ``p = 0.031`` or ``p < 0.0001``."""
    return "p < 0.0001" if value < 1e-4 else f"p = {value:.2g}"


def text_table(rows: Sequence[Row]) -> str:
    """Return rows of cells in aligned columns, the first to the left; the first row is the head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [f"{first:<{widths[0]}}"]
        cells += [f"{cell:>{width}}" for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def html_table(rows: Sequence[Row], caption: str) -> str:
    """Return rows of cells as an HTML table; the first row is the head, all text is escaped."""
    head, *body = rows
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = [
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in others)
        + "</tr>"
        for first, *others in body
    ]
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead>"
        f"<tbody>{''.join(lines)}</tbody></table>"
    )


def data_frame(columns: Mapping[str, Any]) -> Any:
    """Return columns as a pandas data frame; pandas is needed here and nowhere else."""
    with extra("A data frame", "pandas", "frames"):
        import pandas  # noqa: PLC0415 - optional dependency
    return pandas.DataFrame(dict(columns))


LONGEST_LABEL, LONGEST_NAME = 24, 34
"""Characters of a name beside a drawing, and in one that is made of names."""


def short_label(name: str, most: int = LONGEST_LABEL) -> str:
    """Return a name that fits next to a figure; a long one is cut in the middle."""
    half = most // 2
    return name if len(name) <= most else f"{name[:half]}…{name[half + 1 - most :]}"


def interval_chart(
    names: Sequence[str],
    value: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    description: str,
) -> str:
    """Draw values with their intervals as SVG, one line for each name, the first on top.

    The drawing takes its colours from the page around it.

    Parameters
    ----------
    names : (n_items,)
    value, low, high : (n_items,)
    description : str
        What the figure shows, read out by screen readers.
    """
    labels = [short_label(name, LONGEST_NAME) for name in names]
    left, width, line = 20.0 + 6.6 * max(map(len, labels)), 360.0, 20.0
    start, end = min(low), max(high)
    unit = width / ((end - start) or 1.0)
    bottom = line * len(names) + 6.0
    parts = []
    # an axis with grid lines at round numbers
    step = 10.0 ** floor(log10((end - start) / 4.0 or 1.0))
    step *= next((k for k in (1.0, 2.0, 5.0) if k * step >= (end - start) / 6.0), 10.0)
    for k in range(ceil(start / step), floor(end / step) + 1):
        number = k * step
        x = left + unit * (number - start)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom:.0f}" stroke="currentColor" '
            f'stroke-opacity="0.15"/><text x="{x:.1f}" y="{bottom + 14.0:.0f}" '
            f'text-anchor="middle" font-size="11">{number:.6g}</text>'
        )
    # a label, an interval and a point for each item
    rows = enumerate(zip(names, labels, value, low, high, strict=True))
    for place, (name, label, middle, lower, upper) in rows:
        y = line * (place + 0.5) + 2.0
        x0, x, x1 = (left + unit * (at - start) for at in (lower, middle, upper))
        parts.append(
            f'<text x="{left - 10.0:.0f}" y="{y + 4.0:.1f}" text-anchor="end" font-size="12">'
            f"{escape(label)}<title>{escape(name)}</title></text>"
            f'<line x1="{x0:.1f}" x2="{x1:.1f}" y1="{y:.1f}" y2="{y:.1f}" stroke="#4c8ed9" '
            f'stroke-width="3" stroke-linecap="round"/><circle cx="{x:.1f}" cy="{y:.1f}" r="4" '
            'fill="#1f6fc4"/>'
        )
    total = left + width + 20.0
    size = f"max-width: {total / 13.0:.0f}rem; min-width: {total / 26.0:.0f}rem"
    return (
        f'<svg role="img" aria-label="{escape(description)}" viewBox="0 0 {total:.0f} '
        f'{bottom + 20.0:.0f}" style="width: 100%; {size}; height: auto" '
        f'fill="currentColor" font-family="sans-serif">{"".join(parts)}</svg>'
    )


def plain(value: Any) -> Any:
    """Return a value in types that JSON can hold: arrays are lists, NaN and infinity are None."""
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def new_axes() -> Any:
    """Return axes to draw on; matplotlib is needed here and nowhere else."""
    with extra("Plotting", "matplotlib", "plot"):
        from matplotlib import pyplot as plt  # noqa: PLC0415 - optional dependency
    return plt.subplots()[1]


def columns_of(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return rows that have the same keys as columns."""
    return {name: [row[name] for row in rows] for name in rows[0]} if rows else {}


def draw_interval(
    ax: Any, value: float, low: float, high: float, label: str, chance: float | None = None
) -> None:
    """Draw one value with its interval along the horizontal axis, next to that of chance."""
    ends = [[max(value - low, 0.0)], [max(high - value, 0.0)]]
    ax.errorbar([value], [0], xerr=ends, marker="o", capsize=4)
    ax.set_yticks([])
    ax.set_xlabel(label)
    if chance is not None:
        ax.axvline(chance, linestyle="--", color="grey")


def label_bars(ax: Any, names: Sequence[str]) -> None:
    """Name the horizontal lines or bars of a drawing, the first on top."""
    ax.set_yticks(range(len(names)), [short_label(name) for name in names])
    ax.invert_yaxis()


class Result(ABC):
    """What results share: plain values, a data frame, a table in notebooks, a drawing.

    A result is a dataclass that gives its cells and their caption, and draws itself on axes.
    """

    @abstractmethod
    def _cells(self) -> Sequence[Row]:
        """Return the table that is shown, the head first."""

    @abstractmethod
    def _caption(self) -> str:
        """Say what the table is about."""

    @abstractmethod
    def _draw(self, ax: Any) -> None:
        """Draw the result on axes."""

    def _columns(self) -> Mapping[str, Any]:
        """Return the columns of the data frame; by default a row of the plain values."""
        return {name: [value] for name, value in self.to_dict().items()}

    def to_dict(self) -> dict[str, Any]:
        """Return everything in types that JSON can hold; numbers that are none are None."""
        own: Any = self
        return {field.name: plain(getattr(self, field.name)) for field in fields(own)}

    def to_frame(self) -> DataFrame:
        """Return the result as a data frame. Needs pandas."""
        return data_frame(self._columns())

    def _repr_html_(self) -> str:
        return html_table(self._cells(), self._caption())

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the result; return the axes. Needs matplotlib.

        Parameters
        ----------
        ax : axes, optional
            Where to draw; by default new axes.
        """
        ax = ax if ax is not None else new_axes()
        self._draw(ax)
        return ax


def spreadsheet_text(text: str) -> str:
    """Return a text that a spreadsheet shows as it is, though it begins like a formula.

    Such a text gets a single quote in front; numbers stay as they are. This is for tables that
    people open. `write_table` writes what it is given, for programs to read it back.
    """
    if not text.startswith(("=", "+", "-", "@", "\t", "\r", "\n")):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text
