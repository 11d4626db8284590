"""Draw what `rankwise fit` and `rankwise leaderboard` print, for the README, in light and in dark.

``python docs/readme_picture.py`` runs both commands on data that ship with the package, or that it
draws, and writes docs/_static/readme-light.svg and readme-dark.svg.
"""

from pathlib import Path

from terminals import folder_of_data, printed, terminal_svg

FOLDER = Path(__file__).parent / "_static"

LEFT_OUT_OF_FIT = (
    "Read ",
    "linear ",
    "Gaussian DORM",
    "RankSVM",
    "single",
    "All ",
    "The table",
    "Saved",
)
LEFT_OUT_OF_BOARD = ("  groups", "  uneven", "  ties", "  circles", "  self", "  agreement")
LEFT_OUT_OF_BOARD += ("  bound", "  influence", "  not")
"""How lines begin that the picture has no room for; dots stand where they were."""


def shortened(text: str, left_out: tuple[str, ...]) -> list[str]:
    """Return the lines of a text, with dots in place of those that are left out."""
    lines: list[str] = []
    for line in text.splitlines()[text.startswith(left_out) :]:
        is_out = line.startswith(left_out)
        if not is_out or lines[-1:] not in ([""], ["..."]):
            lines.append("..." if is_out else line)
    return lines


def main() -> None:
    """Run the commands and draw them."""
    folder = folder_of_data().name
    fit = printed(folder, "rankwise fit queries.csv -o model 2>/dev/null")
    board = printed(folder, "rankwise leaderboard battles.csv --audit 2>/dev/null")
    text = [
        "$ rankwise fit train.csv -o model",
        *shortened(fit, LEFT_OUT_OF_FIT),
        "$ rankwise leaderboard battles.csv --audit",
        *shortened(board, LEFT_OUT_OF_BOARD),
    ]
    for theme, svg in terminal_svg("\n".join(text)).items():
        (FOLDER / f"readme-{theme}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
