"""Jobs about comparisons: prefer, and leaderboard.

Public names are written ``rankwise.name``: they are loaded when first used, so that no command
waits for what another one needs.
"""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

import rankwise
from rankwise.apps.cli.commands import LeaderboardCommand, Prefer
from rankwise.apps.cli.jobs.files import AS_NUMBERS, check_target, read_named, read_raw_named
from rankwise.apps.cli.jobs.parameters import refuse_alone, values_of
from rankwise.apps.cli.options import column_names
from rankwise.apps.cli.output import counted, print_json, print_table
from rankwise.comparisons.leaderboard import Leaderboard, LeaderboardFormat
from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.checks import hint
from rankwise.core.comparisons.choice_table import ChoiceTable
from rankwise.core.comparisons.comparison_table import ComparisonTable
from rankwise.core.errors import DataFileError, InvalidInputError
from rankwise.io.answer_file import AnswerFile, is_answer_file
from rankwise.io.choices import read_answers
from rankwise.io.comparison_columns import ComparisonColumns
from rankwise.io.comparisons import (
    read_comparisons,
)
from rankwise.io.feature_columns import described
from rankwise.io.files import open_write
from rankwise.io.tables.table import CellError

N_DRAWS = 4000

KINDS: dict[str, LeaderboardFormat] = {
    ".csv": "csv",
    ".json": "json",
    ".md": "markdown",
    ".txt": "text",
}


# Prefer


@final
@dataclass(frozen=True, eq=False)
class NamedItems:
    """Names of items, and rows of features that say which items are alike."""

    names: list[str]
    X: FloatArray
    has_features: bool


def prefer(command: Prefer) -> None:
    """Print the ranking with its intervals, and the questions worth asking next."""
    items = _read_items(command)
    table = _weighted_answers(command, _read_answers(command, items))
    # fit a process to the answers; its posterior gives ranks and questions
    gp = rankwise.PreferenceGP(
        None if items.has_features else "linear",
        likelihood="logistic" if command.logistic else "robust" if command.robust else "probit",
        drift=command.drift,
        tastes=command.tastes,
        interactions="auto" if command.interactions and items.has_features else False,
        random_state=0,
    )
    gp.fit(items.X, pairs=table)
    _check_person(command.person, gp)
    ranking = _ranking(command, gp, items)
    questions = _questions(command, gp, items)
    if command.json:
        report = {"ranking": ranking, "level": command.level, "questions": questions}
        if gp.judges_ is not None:
            report["judges"] = gp.judges_.rows()
        for _, learned in gp.process_.model.reports():
            report.update(learned)
        if gp.interactions_ is not None:
            report["interactions"] = gp.interactions_.to_dict()
        print_json({**report, "likelihood": gp.likelihood_.parameters})
    else:
        _print_report(command, gp, ranking, questions)


def _weighted_answers(command: Prefer, table: ComparisonTable) -> ComparisonTable:
    """Let old answers count less if requested; keep judges if there is more than one."""
    if command.half_life is not None:
        table = table.decayed(command.half_life)
    alone = table.judge is not None and table.judge.n_names < 2 and not command.tastes
    return replace(
        table,
        judge=None if alone else table.judge,
        date=table.date if command.drift else None,
    )


def _read_items(command: Prefer) -> NamedItems:
    """Read the items, features standardised; without features each item has its own indicator."""
    path = command.items
    if is_answer_file(path):
        return _items_of_answers(command)
    chosen = column_names(command.features)
    try:
        names, X = read_named(path, command.item, "item", chosen)
    except CellError:
        return _raw_items(command, chosen)
    if X.shape[1] == 0:
        return NamedItems(names, np.eye(len(names)), has_features=False)
    # features of one scale
    deviation = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(deviation > 0.0, deviation, 1.0)
    return NamedItems(names, X, has_features=True)


def _raw_items(command: Prefer, chosen: tuple[str, ...] | None) -> NamedItems:
    """Read items that words, prices, dates and blanks describe; numbers get one scale."""
    path = command.items
    names, cells, columns = read_raw_named(path, command.item, "item", features=chosen)
    if cells.shape[1] == 0:
        raise DataFileError(
            f"{path}: expected features beside the names, got text that differs from row to row. "
            "Add numbers or categories, or rank by the answers alone with rankwise leaderboard "
            f"{command.answer_file}."
        )
    said = "; ".join(described(columns, ["items"]))
    print(f"Read {path}: names from {columns.item!r}; {said}. {AS_NUMBERS}", file=sys.stderr)
    return NamedItems(names, rankwise.IndicatorEncoder().fit_transform(cells), has_features=True)


def _items_of_answers(command: Prefer) -> NamedItems:
    """Return the items of a file of rankwise ask, with the features that it keeps."""
    if command.item is not None or command.features is not None:
        raise InvalidInputError(
            f"--item and --features must name columns of a table: {command.items} is an answers "
            "file, which holds its items. Leave them out."
        )
    file = AnswerFile.read(command.items)
    names = [str(name) for name in file.names]
    if file.features.shape[1] == 0:
        return NamedItems(names, np.eye(len(names)), has_features=False)
    return NamedItems(names, file.features, has_features=True)


def _read_answers(command: Prefer, items: NamedItems) -> ComparisonTable:
    """Read the answers of a table, or of a file of rankwise ask, about the items by position."""
    path = command.answer_file
    columns = ComparisonColumns(
        tied=command.tied, judge=command.judge, date=command.date, codes=command.codes
    )
    if is_answer_file(path) and columns != ComparisonColumns():
        raise InvalidInputError(
            "--tied, --codes, --judge and --date must be about columns of a table: "
            f"{path} is an answers file, which already holds ties, raters and times. Leave them "
            "out."
        )
    table = read_comparisons(path, columns)
    if not is_answer_file(path):
        _tell_answers(command, table)
    ends = _positions(command, table.names[np.stack([table.first, table.second], axis=1)], items)
    names = np.arange(len(items.names))
    return replace(table, first=ends[:, 0], second=ends[:, 1], names=names)


def _tell_answers(command: Prefer, table: ComparisonTable) -> None:
    """Say on standard error what is not used of the answers; refuse options without columns."""
    uses_dates = command.drift or command.half_life is not None
    if command.date is not None and not uses_dates:
        raise InvalidInputError("--date must come with --drift or --half-life, which read dates.")
    if table.date is not None and not uses_dates:
        print("note: dates are ignored; --drift or --half-life use them", file=sys.stderr)
    if table.unread:
        print(f"warning: columns not used: {', '.join(table.unread)}", file=sys.stderr)


def _positions(command: Prefer, names: NDArray[Any], items: NamedItems) -> IntArray:
    """Return the positions of the items compared, which must be two in every row."""
    position_of = {name: position for position, name in enumerate(items.names)}
    # unknown names are -1; the first bad row is reported
    known = [[position_of.get(str(name), -1) for name in row] for row in names.tolist()]
    pairs = np.array(known, dtype=np.intp)
    row = int(np.argmax((pairs < 0).any(axis=1) | (pairs[:, 0] == pairs[:, 1])))
    unknown = [str(name) for name in names[row].tolist() if str(name) not in position_of]
    if unknown:
        raise DataFileError(
            f"{command.answer_file}, row {row + 1}: expected names of items in {command.items}, "
            f"got {unknown[0]!r}.{hint(unknown[0], items.names)}"
        )
    if pairs[row, 0] == pairs[row, 1]:
        raise DataFileError(
            f"{command.answer_file}, row {row + 1}: expected two different items, got "
            f"{items.names[pairs[row, 0]]!r} twice."
        )
    return pairs


def _questions(command: Prefer, gp: "rankwise.PreferenceGP", items: NamedItems) -> list[list[str]]:
    n_pairs = len(items.names) * (len(items.names) - 1) // 2
    n_asked = min(command.ask, n_pairs)
    if n_asked == 0:
        return []
    goal, _, number = command.goal.partition(" ")
    k = int(number) if number.isdigit() else None
    if bool(number) != (goal == "top") or (number and k is None):
        raise InvalidInputError(
            f"--goal must be 'order', 'best' or 'top K', such as 'top 5': got {command.goal!r}."
        )
    aim: Any = goal
    pairs = gp.suggest(items.X, n_asked, goal=aim, k=k, random_state=0)
    return [[items.names[i], items.names[j]] for i, j in pairs.tolist()]


def _ranking(
    command: Prefer, gp: "rankwise.PreferenceGP", items: NamedItems
) -> list[dict[str, Any]]:
    """Return what is known about every item, best first.

    Scores are relative to their mean, since comparisons say nothing about a common shift.
    """
    # scores up to a common shift: centred, with the covariance of the centred scores
    scores, covariance = gp.predict(items.X, return_cov=True, judge=command.person)
    scores = scores - scores.mean()
    covariance -= covariance.mean(axis=0)
    std = np.sqrt(np.maximum((covariance - covariance.mean(axis=1)[:, None]).diagonal(), 0.0))
    ranks = gp.rank_distribution(items.X, n_draws=N_DRAWS, judge=command.person, random_state=0)
    intervals = ranks.interval(command.level)
    return [
        {
            "item": items.names[i],
            "rank": position,
            "interval": intervals[i].tolist(),
            "best": float(ranks.best[i]),
            "score": float(scores[i]),
            "std": float(std[i]),
        }
        for position, i in enumerate(np.argsort(-scores, kind="stable").tolist(), start=1)
    ][: command.top]


def _print_report(
    command: Prefer,
    gp: "rankwise.PreferenceGP",
    ranking: list[dict[str, Any]],
    questions: list[list[str]],
) -> None:
    rows = [
        [
            one["item"],
            str(one["rank"]),
            "{} to {}".format(*one["interval"]),
            f"{one['best']:.0%}",
            f"{one['score']:.2f}",
            f"{one['std']:.2f}",
        ]
        for one in ranking
    ]
    print_table(["item", "rank", f"{command.level:.0%} interval", "best", "score", "std"], rows)
    # what was learned besides the scores
    n_answers = float(gp.posterior_.prior.comparisons.count.sum())
    print(counted(round(n_answers), "answer", "answers"))
    if "flip_rate" in gp.likelihood_.parameters:
        rate = gp.likelihood_.parameters["flip_rate"]
        print(f"estimated share of answers recorded the wrong way round: {rate:.1%}")
    for term, learned in gp.process_.model.reports():
        if learned:
            print(term.summary(learned))
    if gp.interactions_ is not None:
        print(gp.interactions_)
    if gp.judges_ is not None:
        print()
        print(gp.judges_)
        print()
    for first, second in questions:
        print(f"ask next: {first} or {second}?")


# Leaderboard


Reader: TypeAlias = Callable[[LeaderboardCommand, ComparisonColumns], ComparisonTable | ChoiceTable]


def read_file(
    command: LeaderboardCommand, columns: ComparisonColumns
) -> ComparisonTable | ChoiceTable:
    """Read the one file that was named."""
    return read_answers(command.comparisons, columns, skip_bad=command.skip_bad)


def leaderboard(command: LeaderboardCommand, read: Reader = read_file) -> None:
    """Print the leaderboard; how the table was read, on standard error."""
    _check_output(command)
    _check_tastes(command)
    values = values_of(rankwise.leaderboard, command.parameters)
    if command.cluster is not None:
        values["clustered"] = "question"
    table = read(command, _columns(command))
    _tell_reading(command, table)
    if command.tastes:
        board = _board_of_tastes(command, table, values)
    else:
        board = rankwise.leaderboard(table, **values)
    for line in board.reading_[len(table.reading) :]:
        print(f"note: {line}", file=sys.stderr)
    board = board.elo() if command.elo else board
    audit = board.audit() if command.audit else None
    categories = _boards_of_categories(command, table, values)
    shown = board
    if command.top is not None:
        shown = board.top(command.top)
        categories = {name: one.top(command.top) for name, one in categories.items()}
    # standard output, an HTML report, or a file of another format
    kind = "json" if command.json else command.format
    if command.output is None:
        _print_board(shown, audit, categories, kind)
        return
    if command.output.suffix.lower() == ".html":
        pairs = table if isinstance(table, ComparisonTable) else None
        name = command.comparisons.stem.replace("_", " ").replace("-", " ").strip()
        title = f"Leaderboard: {name}" if name else "Leaderboard"
        page = rankwise.make_report(board, pairs, title=title, categories=categories)
        page.save(command.output)
    else:
        text = shown.format(KINDS[command.output.suffix.lower()])
        with open_write(command.output) as stream:
            stream.write(f"{text.rstrip()}\n".encode())
    print(f"Wrote {command.output}.")


def _print_board(
    board: Leaderboard,
    audit: "rankwise.Audit | None",
    categories: Mapping[str, Leaderboard],
    kind: LeaderboardFormat,
) -> None:
    """Print a leaderboard with its judges, its audit and the leaderboards of categories."""
    if kind == "json":
        report = json.loads(board.format("json"))
        report |= {} if audit is None else {"audit": audit.to_dict()}
        if categories:
            report["categories"] = {name: one.rows() for name, one in categories.items()}
        print(json.dumps(report, indent=2, default=str))
        return
    print(board.format(kind))
    if kind != "text":
        return
    if board.judges is not None:
        print(f"\n{board.judges}")
    for name, one in categories.items():
        print(f"\n{name}\n{one}")
    if audit is not None:
        print(f"\n{audit}")


def _boards_of_categories(
    command: LeaderboardCommand, table: ComparisonTable | ChoiceTable, values: dict[str, Any]
) -> dict[str, Leaderboard]:
    """Return the leaderboard of each category, those of most answers first."""
    if command.by is None:
        return {}
    if not isinstance(table, ComparisonTable) or table.category is None:
        raise InvalidInputError("--by needs comparisons of two items with a column of categories.")
    category = table.category
    return {
        str(category.names[k]): rankwise.leaderboard(
            table.take(np.flatnonzero(category.index == k)), **values
        )
        for k in np.argsort(-category.counts, kind="stable").tolist()
    }


def _board_of_tastes(
    command: LeaderboardCommand, table: ComparisonTable | ChoiceTable, values: dict[str, Any]
) -> Leaderboard:
    """Rank by the scores of a person, or by the common scores of all persons."""
    if not isinstance(table, ComparisonTable):
        raise InvalidInputError(
            f"--tastes needs comparisons of two items: {command.comparisons} holds rankings or "
            "choices among several. Leave it out."
        )
    if values.get("half_life") == "auto" or command.audit or command.by is not None:
        raise InvalidInputError(
            "--half-life auto, --audit and --by need the common order: leave out --tastes."
        )
    if "half_life" in values:
        table = table.decayed(values["half_life"])
    # common scores and the tastes of persons around them
    gp = rankwise.PreferenceGP(likelihood="logistic", tastes=True, random_state=0)
    persons = None if command.persons is None else _read_persons(command.persons)
    table = replace(table, margin=None, date=None)
    gp.fit(pairs=table, first=values.get("first", False), persons=persons)
    _check_person(command.person, gp)
    for term, learned in gp.process_.model.reports():
        if learned:
            print(term.summary(learned), file=sys.stderr)
    level = values.get("level", 0.9)
    return gp.leaderboard(level=level, judge=command.person, random_state=0)


def _check_tastes(command: LeaderboardCommand) -> None:
    """Refuse options that exclude tastes, or that need them."""
    refuse_alone(command, ["person", "persons"], "tastes")
    if command.tastes and {"judges", "clustered"} & set(command.parameters):
        raise InvalidInputError(
            "--tastes must be used without --judges and --clustered: it learns an order for every "
            "judge, and all count as equally reliable."
        )


def _tell_reading(command: LeaderboardCommand, table: ComparisonTable | ChoiceTable) -> None:
    """Say on standard error how the table was read, and which option would use what is not used."""
    for line in table.reading:
        print(f"read: {line}", file=sys.stderr)
    if table.unread:
        print(f"warning: columns not used: {', '.join(table.unread)}", file=sys.stderr)
    if not isinstance(table, ComparisonTable):
        return
    if table.margin is not None:
        print("note: margins are ignored; only who won counts", file=sys.stderr)
    if table.date is not None and "half_life" not in command.parameters:
        print("note: dates are ignored; --half-life lets old ones count less", file=sys.stderr)
    n_judges = 0 if table.judge is None else table.judge.n_names
    if n_judges > 1 and not (command.tastes or {"judges", "clustered"} & set(command.parameters)):
        print(
            f"note: the {n_judges} judges count alike; --judges learns how reliable each one is, "
            "--tastes an order for each",
            file=sys.stderr,
        )


def _columns(command: LeaderboardCommand) -> ComparisonColumns:
    """Return the columns that were named."""
    same = (
        *("winner", "loser", "result", "codes", "count", "weight", "judge", "date", "home"),
        *("match", "item"),
    )
    return ComparisonColumns(
        first=command.a,
        second=command.b,
        points=_points(command.points),
        covariates=_listed(command.covariates),
        controls=_listed(command.control),
        question=command.cluster,
        category=command.by,
        favours=command.favours,
        middle=command.middle,
        **{name: getattr(command, name) for name in same},
    )


def _listed(named: str | None) -> tuple[str, ...]:
    """Return names that are separated by commas."""
    parts = [name.strip() for name in (named or "").split(",")]
    return tuple(name for name in parts if name)


def _points(named: str | None) -> tuple[str, str] | None:
    """Return the two columns of points."""
    if named is None:
        return None
    columns = [name.strip() for name in named.split(",")]
    if len(columns) != 2 or not all(columns):
        raise InvalidInputError(
            f"--points must name two columns, those of a and b, with a comma: got {named!r}."
        )
    return columns[0], columns[1]


def _check_output(command: LeaderboardCommand) -> None:
    """Refuse a file with an unknown suffix before the work is done."""
    check_target(command.output, command.comparisons)
    known = [".html", *KINDS]
    if command.output is not None and command.output.suffix.lower() not in known:
        raise InvalidInputError(
            f"-o must name a file that ends in one of {', '.join(known)}: got {command.output}."
        )


# Persons, whose orders are asked for by name


def _check_person(person: str | None, gp: "rankwise.PreferenceGP") -> None:
    """Refuse a person without answers, who would get the common order."""
    if person is None:
        return
    known = [] if gp.taste_share_ is None or gp.judge_names_ is None else gp.judge_names_.tolist()
    if person not in known:
        raise InvalidInputError(
            f"--person must name one of the {len(known)} judges whose tastes are learned (with "
            f"--tastes): got {person!r}.{hint(person, known)}"
        )


def _read_persons(path: Path) -> dict[str, FloatArray]:
    """Read a table of persons: their names in the first column, numbers in all others."""
    names, rows = read_named(path, None, "person")
    if rows.shape[1] == 0:
        raise DataFileError(
            f"{path}: expected names of persons and features as numbers, got only one column."
        )
    return dict(zip(names, rows, strict=True))
