"""Rank names from a table of comparisons."""

import sys
from dataclasses import replace

from rankwise.cli.commands import LeaderboardCommand
from rankwise.cli.jobs.files import check_target
from rankwise.cli.jobs.persons import check_person, read_persons
from rankwise.core.comparisons.choice_table import ChoiceTable
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.core.errors import InvalidInputError
from rankwise.io.choices import read_answers
from rankwise.io.comparisons import ComparisonColumns
from rankwise.io.files import open_write
from rankwise.rankers.arena.rating import leaderboard
from rankwise.rankers.gp.preference_gp import PreferenceGP
from rankwise.rankers.leaderboard import Leaderboard, LeaderboardFormat
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
    _check_tastes(command)
    table = read_answers(command.comparisons, _columns(command))
    _tell_unused(command, table)
    board = _board_of_tastes(command, table) if command.tastes else _board(command, table)
    board = board.elo() if command.elo else board
    if command.output is None:
        print(board.format(command.format))
        if board.judges is not None and command.format == "text":
            print(f"\n{board.judges}")
        return
    if command.output.suffix.lower() == ".html":
        pairs = table if isinstance(table, ComparisonTable) else None
        leaderboard_report(board, pairs, title=command.comparisons.stem).save(command.output)
    else:
        text = board.format(KINDS[command.output.suffix.lower()])
        with open_write(command.output) as stream:
            stream.write(f"{text.rstrip()}\n".encode())
    print(f"Wrote {command.output}.")


def _board(command: LeaderboardCommand, table: ComparisonTable | ChoiceTable) -> Leaderboard:
    """Rank by scores that all judges share."""
    return leaderboard(
        table,
        judges=command.judges,
        clustered=command.clustered,
        first=command.first,
        half_life=command.half_life,
        level=command.level,
        random_state=0,
    )


def _board_of_tastes(
    command: LeaderboardCommand, table: ComparisonTable | ChoiceTable
) -> Leaderboard:
    """Rank by the scores of a person, or by those that are common to all of them."""
    if not isinstance(table, ComparisonTable):
        raise InvalidInputError(
            f"--tastes is for comparisons of two items: {command.comparisons} holds rankings or "
            "choices among several. Leave it out."
        )
    if command.half_life is not None:
        table = table.decayed(command.half_life)
    gp = PreferenceGP(likelihood="logistic", tastes=True, random_state=0)
    persons = None if command.persons is None else read_persons(command.persons)
    table = replace(table, margin=None, date=None)
    gp.fit(pairs=table, first=command.first, persons=persons)
    check_person(command.person, gp)
    share = f"of the variance of a person's scores, {gp.taste_share_:.0%} is its own taste"
    print(share, file=sys.stderr)
    return gp.leaderboard(level=command.level, judge=command.person, random_state=0)


def _check_tastes(command: LeaderboardCommand) -> None:
    """Refuse options that go together with persons' own orders, or only with them."""
    if (command.person is not None or command.persons is not None) and not command.tastes:
        raise InvalidInputError(
            "--person and --persons must come with --tastes, which learns orders of persons."
        )
    if command.tastes and (command.judges or command.clustered):
        raise InvalidInputError(
            "--tastes must be used without --judges and --clustered: every judge then has an order "
            "of its own, and all are equally reliable."
        )


def _tell_unused(command: LeaderboardCommand, table: ComparisonTable | ChoiceTable) -> None:
    """Say on standard error what was not read, and which option would read it."""
    if table.unread:
        print(f"warning: columns not used: {', '.join(table.unread)}", file=sys.stderr)
    if not isinstance(table, ComparisonTable):
        return
    if table.margin is not None:
        print("note: who won counts here, margins do not", file=sys.stderr)
    if table.date is not None and command.half_life is None:
        print("note: all dates count alike; --half-life lets old ones count less", file=sys.stderr)
    n_judges = 0 if table.judge is None else table.judge.n_names
    if n_judges > 1 and not (command.judges or command.clustered or command.tastes):
        print(
            f"note: the {n_judges} judges count alike; --judges learns how reliable each one is, "
            "--tastes the order of each",
            file=sys.stderr,
        )


def _columns(command: LeaderboardCommand) -> ComparisonColumns:
    """Return the columns that were named."""
    same = ("winner", "loser", "result", "count", "weight", "judge", "date", "home")
    covariates = [name.strip() for name in (command.covariates or "").split(",")]
    return ComparisonColumns(
        first=command.a,
        second=command.b,
        points=_points(command.points),
        covariates=tuple(name for name in covariates if name),
        **{name: getattr(command, name) for name in same},
    )


def _points(named: str | None) -> tuple[str, str] | None:
    """Return the two columns of points."""
    if named is None:
        return None
    columns = [name.strip() for name in named.split(",")]
    if len(columns) != 2 or not all(columns):
        raise InvalidInputError(
            f"--points must name two columns with a comma, those of a and b: got {named!r}."
        )
    return columns[0], columns[1]


def _check_output(command: LeaderboardCommand) -> None:
    """Refuse, before the work is done, a file of a kind that is not known."""
    check_target(command.output, command.comparisons)
    known = [".html", *KINDS]
    if command.output is not None and command.output.suffix.lower() not in known:
        raise InvalidInputError(
            f"-o must name a file that ends in one of {', '.join(known)}: got {command.output}."
        )
