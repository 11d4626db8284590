"""Draw what `rankwise fit` and `rankwise leaderboard` print, for the README, in light and in dark.

``python docs/readme_picture.py`` runs both commands on data that ship with the package, or that it
draws, and writes docs/_static/readme-light.svg and readme-dark.svg.
"""

from pathlib import Path

from terminals import WIDTH, folder_of_data, printed, terminal_svg

FOLDER = Path(__file__).parent / "_static"


def main() -> None:
    """Run the commands and draw them."""
    folder = folder_of_data().name
    fit = printed(folder, "rankwise fit queries.csv -o model 2>/dev/null")
    board = printed(folder, "rankwise leaderboard battles.csv --audit 2>/dev/null")
    shown = [line[: WIDTH - 1] for line in board.splitlines() if "not looked at" not in line]
    text = (
        f"$ rankwise fit train.csv -o model\n{fit}\n\n$ rankwise leaderboard battles.csv --audit\n"
    )
    for theme, svg in terminal_svg(text + "\n".join(shown), "readme").items():
        (FOLDER / f"readme-{theme}.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
