"""Figures as SVG that takes its colours from the page and has unique ids."""

import re
from collections.abc import Callable, Sequence
from html import escape
from io import StringIO
from typing import Any, final

from rankwise.core.arrays import FloatArray
from rankwise.core.display import LONGEST_NAME, short_label
from rankwise.core.errors import extra

INK = "#123456"
"""Placeholder for the colour of the text, which the page decides."""

REM_PER_INCH = 6.5
"""How large a figure may become on a wide page."""

_TICKS = {"log": "numticks", "linear": "nbins"}

_STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "rankwise",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "text.parse_math": False,
}


@final
class Inline(str):
    """Text that is HTML already: templates insert it as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        """Return the text itself, by the convention of template engines."""
        return self


def heat_map(names: Sequence[str], values: FloatArray, description: str) -> Inline:
    """Draw probabilities of rows against columns: blue above one half, orange below.

    Parameters
    ----------
    names : (n_items,)
    values : (n_items, n_items)
        The diagonal is left blank.
    description : str
        What the figure shows, read out by screen readers.
    """
    n_items = len(names)
    cell, top = max(9.0, min(28.0, 560.0 / n_items)), 30.0
    size = max(7.0, min(12.0, cell - 1.0))
    labels = [f"{i + 1} {short_label(name, LONGEST_NAME)}" for i, name in enumerate(names)]
    left = 10.0 + 0.55 * size * max(map(len, labels))
    parts = []
    for i, label in enumerate(labels):
        y = top + cell * i
        parts.append(
            f'<text x="{left - 6.0:.0f}" y="{y + 0.5 * cell + 0.35 * size:.1f}" text-anchor="end" '
            f'font-size="{size:.1f}">{escape(label)}</text>'
        )
        if i % (1 if cell > 14.0 else 5) == 0:
            parts.append(
                f'<text x="{left + cell * (i + 0.5):.1f}" y="{top - 6.0:.0f}" '
                f'text-anchor="middle" font-size="{size:.1f}">{i + 1}</text>'
            )
        for j in range(n_items):
            if i != j:
                lead = 2.0 * float(values[i, j]) - 1.0
                colour = "#1f6fc4" if lead > 0.0 else "#d9730d"
                parts.append(
                    f'<rect x="{left + cell * j:.1f}" y="{y:.1f}" width="{cell:.1f}" '
                    f'height="{cell:.1f}" fill="{colour}" fill-opacity="{abs(lead):.2f}"/>'
                )
    width, height = left + cell * n_items + 10.0, top + cell * n_items + 10.0
    return Inline(
        f'<svg role="img" aria-label="{escape(description)}" viewBox="0 0 {width:.0f} '
        f'{height:.0f}" style="max-width: {width / 16.0:.0f}rem; min-width: {width / 26.0:.0f}rem" '
        'fill="currentColor" shape-rendering="crispEdges" '
        f'font-family="sans-serif">{"".join(parts)}</svg>'
    )


@final
class FigureWriter:
    """Draw figures one by one; each has a description for screen readers."""

    def __init__(self) -> None:
        self.n_figures = 0

    def draw(
        self, paint: Callable[[Any], Any], description: str, width: float = 5.2, height: float = 3.0
    ) -> Inline:
        """Return what ``paint`` draws on axes as SVG.

        Parameters
        ----------
        paint : callable
            Draws on the axes it is given.
        description : str
            What the figure shows, read out by screen readers.
        width, height : float
            In inches.
        """
        with extra("A report", "matplotlib", "report"):
            import matplotlib as mpl  # noqa: PLC0415 - optional dependency
            from matplotlib.figure import Figure  # noqa: PLC0415 - optional dependency
        self.n_figures += 1
        with mpl.rc_context(_STYLE):
            figure = Figure(figsize=(width, height), layout="constrained")
            ax: Any = figure.subplots()
            paint(ax)
            ax.locator_params(axis="x", **{_TICKS[ax.get_xscale()]: 6})
            if ax.get_xscale() == "log":  # formulas are not drawn, as names may hold their signs
                ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
                ax.xaxis.set_minor_formatter(lambda *_: "")
            text = StringIO()
            figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
        return self._inline(text.getvalue(), description, width)

    def _inline(self, svg: str, description: str, width: float) -> Inline:
        svg = svg[svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        prefix = f"f{self.n_figures}-"
        svg = re.sub(r'\bid="', f'id="{prefix}', svg)
        svg = re.sub(r'href="#', f'href="#{prefix}', svg)
        svg = re.sub(r"url\(#", f"url(#{prefix}", svg)
        svg = svg.replace(INK, "currentColor")
        svg = re.sub(r'^<svg([^>]*?) width="[^"]*"', r"<svg\1", svg, count=1)
        svg = re.sub(r'^<svg([^>]*?) height="[^"]*"', r"<svg\1", svg, count=1)
        size = f"max-width: {REM_PER_INCH * width:g}rem"
        label = f'<svg role="img" aria-label="{escape(description)}" style="{size}"'
        return Inline(svg.replace("<svg", label, 1))
