"""Rank names from a table of comparisons."""

import sys

from rankwise.cli.commands import LeaderboardCommand
from rankwise.cli.jobs.files import check_target
from rankwise.core.errors import InvalidInputError
from rankwise.io.comparisons import ComparisonColumns, read_comparisons
from rankwise.io.files import open_write
from rankwise.rankers.arena.rating import leaderboard
from rankwise.rankers.leaderboard import LeaderboardFormat
from rankwise.report.report import leaderboard_report

KINDS: dict[str, LeaderboardFormat] = {
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".txt": "text",
}


def run(command: LeaderboardCommand) -> None:
    """Print the leaderboard; columns that tell nothing here are named on standard error."""
    _check_output(command)
    table = read_comparisons(command.comparisons, _columns(command))
    if table.unread:
        print(f"warning: columns not used: {', '.join(table.unread)}", file=sys.stderr)
    board = leaderboard(
        table,
        judges=command.judges,
        clustered=command.clustered,
        first=command.first,
        half_life=command.half_life,
        level=command.level,
        random_state=0,
    )
    board = board.elo() if command.elo else board
    if command.output is None:
        print(board.format(command.format))
        return
    if command.output.suffix.lower() == ".html":
        leaderboard_report(board, table, title=command.comparisons.stem).save(command.output)
    else:
        text = board.format(KINDS[command.output.suffix.lower()])
        with open_write(command.output) as stream:
            stream.write(f"{text.rstrip()}\n".encode())
    print(f"Wrote {command.output}.")


def _columns(command: LeaderboardCommand) -> ComparisonColumns:
    """Return the columns that were named."""
    same = ("winner", "loser", "result", "count", "weight", "judge", "date", "home")
    covariates = [name.strip() for name in (command.covariates or "").split(",")]
    return ComparisonColumns(
        first=command.a,
        second=command.b,
        covariates=tuple(name for name in covariates if name),
        **{name: getattr(command, name) for name in same},
    )


def _check_output(command: LeaderboardCommand) -> None:
    """Refuse, before the work is done, a file of a kind that is not known."""
    check_target(command.output, command.comparisons)
    known = [".html", *KINDS]
    if command.output is not None and command.output.suffix.lower() not in known:
        raise InvalidInputError(
            f"-o must name a file that ends in one of {', '.join(known)}: got {command.output}."
        )
