"""Draw what commands print, in light and dark; they are run before each build."""

import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np

from rankwise.datasets import load_digits_queries
from rankwise.io import write_table

WIDTH = 96
MODELS = ["alpha-large", "beta-70b", "gamma-pro", "delta-mini", "epsilon-7b"]
INKS = {
    "light": {
        "page": "#f6f8fa", "edge": "#d0d7de", "text": "#1f2328",
        "typed": "#0969da", "matters": "#116329", "warns": "#9a5200",
    },
    "dark": {
        "page": "#151b23", "edge": "#3d444d", "text": "#e6edf3",
        "typed": "#58a6ff", "matters": "#56d364", "warns": "#f0ab3c",
    },
}  # fmt: skip
SIZE, ADVANCE, LEADING, MARGIN = 14, 8.45, 18, 16
"""Of the letters of a terminal, in units of its picture."""

QUIET = " 2>/dev/null"
TERMINALS = {
    "automatic": ["rankwise fit queries.csv -o model" + QUIET],
    "command_line": [
        "rankwise fit rls queries.csv -o model",
        "rankwise predict model test.csv -o scores.csv",
        "rankwise evaluate test.csv scores.csv --measure 'NDCG @ 10' --measure AP",
    ],
    "export": [
        "rankwise fit rls queries.csv -o model",
        "rankwise export model -o model.json --format solr",
    ],
    "files": ["head -4 battles.csv", "rankwise leaderboard battles.csv"],
    "deployment": [
        "rankwise fit rls queries.csv -o model",
        "wc -c model",
        "rankwise rank model test.csv --top 3 | head -7",
    ],
}
"""What is run for each picture; what commands say on standard error is shown too."""


def write_queries(path: Path, part: str = "train") -> None:
    """Write the handwritten digits as a table of queries."""
    data = getattr(load_digits_queries(n_queries=36, n_items=12, share_images=False), part)
    columns = {"query": data.qid, "grade": data.y}
    columns |= {f"pixel_{j}": data.X[:, j] for j in range(data.X.shape[1])}
    write_table(path, columns)


def write_battles(path: Path) -> None:
    """Draw battles of five models, in which what is shown first has an advantage."""
    rng, n_rows = np.random.default_rng(0), 900
    first = rng.integers(5, size=n_rows)
    second = (first + 1 + rng.integers(4, size=n_rows)) % 5
    lead = 0.35 * (second - first) + 0.4 + rng.logistic(size=n_rows)
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["model_a", "model_b", "winner", "judge"])
        for a, b, s in zip(first, second, lead, strict=True):
            winner = "tie" if abs(s) < 0.3 else "model_a" if s > 0 else "model_b"
            writer.writerow([MODELS[a], MODELS[b], winner, f"judge {rng.integers(6)}"])


def printed(folder: str, command: str) -> str:
    """Return what a command prints; the package is run by this interpreter."""
    environment = dict(os.environ, COLUMNS=str(WIDTH), NO_COLOR="1", LC_ALL="C")
    program = shutil.which("rankwise", path=str(Path(sys.executable).parent)) or "rankwise"
    line = (
        command.replace("rankwise ", f"'{program}' ", 1)
        if command.startswith("rankwise")
        else command
    )
    done = subprocess.run(
        line, shell=True, cwd=folder, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, check=True,
    )  # fmt: skip
    return done.stdout.decode(errors="replace").rstrip()


@cache
def folder_of_data() -> tempfile.TemporaryDirectory:
    """Write the tables that the commands read."""
    folder = tempfile.TemporaryDirectory()
    write_queries(Path(folder.name, "queries.csv"))
    write_queries(Path(folder.name, "test.csv"), "test")
    write_battles(Path(folder.name, "battles.csv"))
    return folder


def wrapped(line: str) -> list[str]:
    """Break a line between words; what follows stands where the text of its column began."""
    if line.startswith("$") or len(line) < WIDTH:
        return [line]
    column = re.match(r"[ !] [a-z][a-z -]*?  +", line)
    indent = " " * (column.end() if column else 2)
    return textwrap.wrap(line, WIDTH - 1, subsequent_indent=indent, replace_whitespace=False)


def role_of(line: str) -> str:
    """Return what a line is: typed, what matters most, a warning, or text."""
    if line.startswith(("$", "!")):
        return "typed" if line.startswith("$") else "warns"
    return "matters" if "unseen queries" in line else "text"


def terminal_svg(text: str) -> dict[str, str]:
    """Return the picture of a terminal for each theme; a dollar sign begins what was typed."""
    lines = [(part, role_of(line)) for line in text.splitlines() for part in wrapped(line)]
    width, height = WIDTH * ADVANCE + 2 * MARGIN, len(lines) * LEADING + 2 * MARGIN
    drawn = {}
    for theme, ink in INKS.items():
        svg = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}">',
            f"<style>text{{font:{SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}}",
            *(
                f".{role}{{fill:{ink[role]};font-weight:600}}"
                for role in ("typed", "matters", "warns")
            ),
            f".text{{fill:{ink['text']}}}</style>",
            f'<rect x="1" y="1" width="{width - 2:.0f}" height="{height - 2}" rx="8" '
            f'fill="{ink["page"]}" stroke="{ink["edge"]}"/>',
        ]
        for i, (line, role) in enumerate(lines):
            shown = escape(line).replace(" ", "\u00a0")
            at = f'x="{MARGIN}" y="{MARGIN + SIZE + i * LEADING}"'
            length = f'textLength="{len(line) * ADVANCE:.1f}"'
            svg += [f'<text class="{role}" {at} {length}>{shown}</text>'] if line else []
        drawn[theme] = "\n".join([*svg, "</svg>"]) + "\n"
    return drawn


def draw_terminal(name: str) -> dict[str, str]:
    """Run the commands of a terminal and draw what they print."""
    folder = folder_of_data().name
    parts = [
        f"$ {command.removesuffix(QUIET)}\n{printed(folder, command)}"
        for command in TERMINALS[name]
    ]
    return terminal_svg("\n\n".join(part.rstrip() for part in parts))
