"""Draw what `rankwise fit` and `rankwise leaderboard` print, for the README, in light and in dark.

``python docs/readme_picture.py`` runs both commands on data that ship with the package, or that it
draws, and writes docs/_static/readme-light.svg and readme-dark.svg.
"""

import csv
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.terminal_theme import TerminalTheme

from rankwise.datasets import load_digits_queries
from rankwise.io import write_table

FOLDER = Path(__file__).parent / "_static"
WIDTH = 96
MODELS = ["alpha-large", "beta-70b", "gamma-pro", "delta-mini", "epsilon-7b"]
COLOURS = [(12, 12, 12), (197, 15, 31), (19, 161, 14), (193, 156, 0)]
COLOURS += [(0, 55, 218), (136, 23, 152), (58, 150, 221), (118, 118, 118)]
THEMES = {
    "light": TerminalTheme((255, 255, 255), (31, 35, 40), COLOURS),
    "dark": TerminalTheme((13, 17, 23), (230, 237, 243), COLOURS),
}


def write_queries(path: Path) -> None:
    """Write the handwritten digits as a table of queries."""
    data = load_digits_queries().train
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


def printed(folder: str, *arguments: str) -> str:
    """Return what a command prints on standard output."""
    command = [sys.executable, "-m", "rankwise", *arguments]
    environment = dict(os.environ, COLUMNS=str(WIDTH), NO_COLOR="1")
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.rstrip()


def main() -> None:
    """Run the commands and draw them."""
    with tempfile.TemporaryDirectory() as folder:
        write_queries(Path(folder, "train.csv"))
        write_battles(Path(folder, "battles.csv"))
        fit = printed(folder, "fit", "train.csv", "-o", "model")
        board = printed(folder, "leaderboard", "battles.csv", "--audit")
    shown = [line for line in board.splitlines() if "not looked at" not in line]
    text = (
        f"$ rankwise fit train.csv -o model\n{fit}\n\n$ rankwise leaderboard battles.csv --audit\n"
    )
    text += "\n".join(line[: WIDTH - 1] for line in shown)
    for name, theme in THEMES.items():
        console = Console(record=True, width=WIDTH, file=io.StringIO(), highlight=False)
        for line in text.splitlines():
            is_marked = line.startswith(("$", "!")) or "unseen queries" in line
            console.print(line, style="bold" if is_marked else None, markup=False, soft_wrap=True)
        FOLDER.mkdir(exist_ok=True)
        picture = console.export_svg(title="rankwise", theme=theme, unique_id=f"readme-{name}")
        (FOLDER / f"readme-{name}.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
