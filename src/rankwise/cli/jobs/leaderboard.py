"""Rank names from a table of comparisons."""

import sys

from rankwise.cli.commands import LeaderboardCommand
from rankwise.io.comparisons import read_comparisons
from rankwise.rankers.arena.rating import leaderboard


def run(command: LeaderboardCommand) -> None:
    """Print the leaderboard; columns that tell nothing here are named on standard error."""
    table = read_comparisons(command.comparisons)
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
    print((board.elo() if command.elo else board).format(command.format))
