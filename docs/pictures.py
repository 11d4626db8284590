"""Draw the pictures of the documentation with rankwise itself, in light and dark.

Plots come from ``painters.py``, what commands print from ``terminals.py``. Both are drawn before
each build, so none grows old, as ``_static/generated/NAME-light.svg`` and ``-dark.svg``. Pages show
one by ``.. picture:: NAME``, with what it shows as text. What needs a browser is drawn by
``screenshots.py`` and kept in ``_static/shots``.
"""

import io
import os
import re
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
COLOURS = ["#0a9396", "#e8710a", "#8a63d2", "#6b9e1f", "#d1495b"]
IN_DARK = {
    INK["light"]: INK["dark"],
    **dict(zip(COLOURS, ["#2bb5b8", "#f08a30", "#a98bea", "#85b93a", "#e56b7c"], strict=True)),
}
"""Colours for dark pages in place of those for light ones."""
STYLE = {
    "svg.hashsalt": "rankwise",
    "font.size": 11,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": mpl.cycler(color=COLOURS),
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
    drawn = stream.getvalue()
    dark = re.sub("|".join(IN_DARK), lambda found: IN_DARK[found[0]], drawn)
    return {"light": drawn, "dark": dark}


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
            places = [FOLDER / f"{name}-{theme}.svg", STATIC / f"{name}-{theme}.svg"]
            places += [SHOTS / f"{name}-{theme}.webp"]
            path = next((place for place in places if place.exists()), None)
            if path is None:
                raise self.error(f"There is no picture {name!r}.")
            uri = Path(os.path.relpath(path, here)).as_posix()
            image = nodes.image(uri=uri, alt=alt, classes=["picture", f"only-{theme}"])
            if "width" in self.options:
                image["width"] = self.options["width"]
            images.append(image)
        kind = "terminal" if name in {*TERMINALS, "readme"} else "plot"
        if path.parent == SHOTS:
            kind = "page"
        return [nodes.container("", *images, classes=["pictures", f"picture-{kind}"])]


def setup(app):
    """Draw before the build, and offer the directive."""
    app.connect("builder-inited", write_pictures)
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
