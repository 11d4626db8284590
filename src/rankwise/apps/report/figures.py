"""Figures as SVG that takes its colours from the page and has unique ids."""

import re
from collections.abc import Callable
from io import StringIO
from typing import Any, final

from markupsafe import Markup, escape

from rankwise.core.errors import MissingExtraError

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
class FigureWriter:
    """Draw figures one by one; each has a description for screen readers."""

    def __init__(self) -> None:
        self.n_figures = 0

    def draw(
        self, paint: Callable[[Any], Any], description: str, width: float = 5.2, height: float = 3.0
    ) -> Markup:
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
        try:
            import matplotlib as mpl  # noqa: PLC0415 - optional dependency
            from matplotlib.figure import Figure  # noqa: PLC0415 - optional dependency
        except ImportError as error:
            raise MissingExtraError("A report", "matplotlib", "report") from error
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

    def _inline(self, svg: str, description: str, width: float) -> Markup:
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
        return Markup(svg.replace("<svg", label, 1))
