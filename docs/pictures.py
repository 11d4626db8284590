"""Draw the pictures of the documentation with rankwise itself, in light and dark.

Plots come from ``painters.py``, what commands print from ``terminals.py``. Both are drawn before
each build, so none grows old, as ``_static/generated/NAME-light.svg`` and ``-dark.svg``. Pages show
one by ``.. picture:: NAME``, with what it shows as text. What needs a browser is drawn by
``screenshots.py`` and kept in ``_static/shots``.
"""

import io
import os
from pathlib import Path
from typing import ClassVar

import matplotlib as mpl
import painters
from docutils import nodes
from docutils.parsers.rst import Directive, directives
from matplotlib.figure import Figure
from terminals import TERMINALS, draw_terminal

STATIC = Path(__file__).parent / "_static"
FOLDER, SHOTS = STATIC / "generated", STATIC / "shots"
INK = {"light": "#1f2a37", "dark": "#ced6dd"}
STYLE = {
    "svg.hashsalt": "rankwise",
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": mpl.cycler(color=["#0a9396", "#e8710a", "#8a63d2", "#6b9e1f", "#d1495b"]),
    "legend.frameon": False,
    "savefig.transparent": True,
    **dict.fromkeys(
        ["text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"],
        INK["light"],
    ),
}
PAINTERS = {name: paint for name, paint in vars(painters).items() if name in painters.PICTURES}


def draw(name: str) -> dict[str, str]:
    """Return a picture as SVG for each theme: drawn once, its ink exchanged."""
    stream = io.StringIO()
    with mpl.rc_context(STYLE):
        width, height = painters.PICTURES[name]
        figure = Figure(figsize=(width, height), layout="constrained")
        PAINTERS[name](figure)
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return {theme: stream.getvalue().replace(INK["light"], ink) for theme, ink in INK.items()}


def write_pictures(_app=None):
    """Write all pictures; unchanged files are left alone."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    drawn = {name: draw(name) for name in PAINTERS} | {
        name: draw_terminal(name) for name in TERMINALS
    }
    for name, themes in drawn.items():
        for theme, svg in themes.items():
            path = FOLDER / f"{name}-{theme}.svg"
            if not path.exists() or path.read_text(encoding="utf-8") != svg:
                path.write_text(svg, encoding="utf-8")


class Picture(Directive):
    """Show a picture in the colours of the page; the content says what it shows."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar = {"width": directives.unchanged}

    def run(self):
        """Return an image for each theme."""
        name, document = self.arguments[0], self.state.document
        alt = " ".join(self.content)
        if not alt:
            raise self.error(f"The picture {name!r} must have a text that says what it shows.")
        here = Path(document.current_source or document["source"]).parent
        images = []
        for theme in INK:
            path = FOLDER / f"{name}-{theme}.svg"
            path = path if path.exists() else SHOTS / f"{name}-{theme}.webp"
            if not path.exists():
                raise self.error(f"There is no picture {path}.")
            uri = Path(os.path.relpath(path, here)).as_posix()
            image = nodes.image(uri=uri, alt=alt, classes=["picture", f"only-{theme}"])
            if "width" in self.options:
                image["width"] = self.options["width"]
            images.append(image)
        return images


def setup(app):
    """Draw before the build, and offer the directive."""
    app.connect("builder-inited", write_pictures)
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
