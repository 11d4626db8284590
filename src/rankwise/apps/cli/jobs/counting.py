"""Comparisons in many files, counted by processes of this machine."""

from rankwise.apps.cli.commands import LeaderboardCommand
from rankwise.apps.cli.jobs.parameters import OF_WORKERS
from rankwise.apps.distributed.engine import client_of
from rankwise.apps.distributed.leaderboards import Kept, count_comparisons
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.io.comparison_columns import ComparisonColumns


def count_files(command: LeaderboardCommand, columns: ComparisonColumns) -> ComparisonTable:
    """Count the rows of the files that match a pattern, with what the command needs of them."""
    by_judge = command.tastes or not {"judges", "clustered"}.isdisjoint(command.parameters)
    needed: dict[Kept, bool] = {
        "judge": by_judge,
        "question": command.cluster is not None,
        "category": command.by is not None,
        "date": "half_life" in command.parameters,
    }
    keep = [role for role, is_needed in needed.items() if is_needed]
    with client_of(None, command.workers, **OF_WORKERS) as client:
        return count_comparisons(
            command.comparisons, columns, keep=keep, skip_bad=command.skip_bad, client=client
        )
