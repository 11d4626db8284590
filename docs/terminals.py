"""Draw what commands print, in light and dark; they are run before each build."""

import csv
import io
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.terminal_theme import TerminalTheme

from rankwise.datasets import load_digits_queries
from rankwise.io import write_table

WIDTH = 96
MODELS = ["alpha-large", "beta-70b", "gamma-pro", "delta-mini", "epsilon-7b"]
COLOURS = [(12, 12, 12), (197, 15, 31), (19, 161, 14), (193, 156, 0)]
COLOURS += [(0, 55, 218), (136, 23, 152), (58, 150, 221), (118, 118, 118)]
THEMES = {
    "light": TerminalTheme((255, 255, 255), (31, 35, 40), COLOURS),
    "dark": TerminalTheme((13, 17, 23), (230, 237, 243), COLOURS),
}
TERMINALS = {
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
    data = getattr(load_digits_queries(), part)
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


def terminal_svg(text: str, name: str) -> dict[str, str]:
    """Return the picture of a terminal for each theme; a dollar sign begins what was typed."""
    drawn = {}
    for theme, colours in THEMES.items():
        console = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False)
        for line in text.splitlines():
            is_marked = line.startswith(("$", "!")) or "unseen queries" in line
            console.print(line, style="bold" if is_marked else None, markup=False, soft_wrap=True)
        drawn[theme] = console.export_svg(
            title="rankwise", theme=colours, unique_id=f"{name}-{theme}"
        )
    return drawn


def draw_terminal(name: str) -> dict[str, str]:
    """Run the commands of a terminal and draw what they print."""
    folder = folder_of_data().name
    parts = [f"$ {command}\n{printed(folder, command)}" for command in TERMINALS[name]]
    lines = "\n\n".join(part.rstrip() for part in parts).splitlines()
    return terminal_svg("\n".join(line[: WIDTH - 1] for line in lines), name)
