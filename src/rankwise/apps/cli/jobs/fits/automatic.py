"""Fits that choose the ranker: by the contents of the file, or AutoRanker.

Public names are written ``rankwise.name``: they are loaded when first used, so that no command
waits for what another one needs.
"""

import sys
import time
from typing import Any

import rankwise
from rankwise.apps.cli.fit_commands import Fit, FitAuto, FitCommand, RawCommand
from rankwise.apps.cli.jobs.files import AS_NUMBERS, read_words, remember_columns
from rankwise.apps.cli.jobs.fits.pairwise import fit_best_rls
from rankwise.apps.cli.jobs.fits.training import FitInput, fit_and_save
from rankwise.apps.cli.jobs.parameters import refuse_if, values_of
from rankwise.apps.cli.output import print_json
from rankwise.core.queries import Queries
from rankwise.io.data import RankingData
from rankwise.measures.graded import NDCG
from rankwise.measures.pairwise import Concordance
from rankwise.measures.registry import parse_measure
from rankwise.solve.iteration import Step


def fit(command: Fit) -> None:
    """Fit, save and report."""
    asked = None if command.measure is None else parse_measure(command.measure)
    problem = FitInput.read(command, takes_raw=command.validate is None)
    queries = Queries.of(problem.preferences["qid"], problem.data.n_items)
    has_several = queries.n_queries > 1
    if (has_several or (problem.is_raw and problem.has_qid)) and command.validate is None:
        refuse_if(
            command.group is not None,
            "--group must come with one ranking of all items: got queries. Leave it out; whole "
            "queries are held out anyway.",
        )
        _search(command, problem)
        return
    measure = asked or (NDCG @ 10 if problem.has_qid else Concordance)
    for name in ("time", "folds-by", "monotone"):
        refuse_if(
            getattr(command, name.replace("-", "_")) is not None,
            f"--{name} must come with queries, and without --validate: one ranking of all items "
            "is linear, and leaves out each of its pairs in turn. Leave it out, or use rankwise "
            "fit auto.",
        )
    if problem.is_raw and not command.json:
        print(AS_NUMBERS)
    fit_and_save(command, problem, lambda: fit_best_rls(command, {}, problem, measure))


def fit_auto(command: FitAuto) -> None:
    """Search, save the ranker, and print the leaderboard and the honest value."""
    refuse_if(
        command.validate is not None,
        "--validate must not come with fit auto, which sets queries aside itself. Leave it out.",
    )
    problem = FitInput.read(command, takes_raw=True)
    _search(command, problem)


def _search(command: RawCommand, problem: FitInput) -> None:
    """Fit to data that were read, save, and print what was found."""
    start = time.perf_counter()
    usual = "NDCG @ 10" if problem.has_qid else "Concordance"
    given = values_of(rankwise.AutoRanker, command.parameters)
    if given["progress"]:
        given["progress"] = _say
    given["monotone"] = _directions(command.monotone, problem.data)
    ranker = rankwise.AutoRanker(command.measure or usual, **given)
    dates = None if command.time is None else read_words(command.train, command.time, "time")
    apart = command.folds_by and read_words(command.train, command.folds_by, "folds-by")
    ranker.fit(problem.data.X, **problem.preferences, time=dates, folds_by=apart)
    ranker.set_params(progress=False)  # of this run, and not of the model
    remember_columns(ranker, problem.data)
    save_and_report(command, ranker, time.perf_counter() - start)


def save_and_report(command: FitCommand, ranker: Any, seconds: float) -> None:
    """Save a fitted AutoRanker, and print its leaderboard and the honest value."""
    ranker.save(command.output)
    honest = ranker.honest_value_
    if command.json:
        values: dict[str, float | None] = {"value": None, "low": None, "high": None}
        if honest.n_queries > 0:
            values = {"value": honest.value, "low": honest.low, "high": honest.high}
        found = {"measure": honest.measure, "n_queries": honest.n_queries, **values}
        names = {"ranker": "AutoRanker", "model": str(command.output)}
        found |= {"unseen": honest.unit, "repeated_share": ranker.repeated_share_}
        reading = list(ranker.reading_)
        print_json({**names, "honest_value": found, "reading": reading, "seconds": seconds})
    else:
        print(ranker.report())
        print(f"Saved as {command.output}.")


def _directions(text: str | None, data: RankingData) -> dict[int, int] | None:
    """Return 1 or -1 by the place of features that are named, or numbered as in the file."""
    if text is None:
        return None
    first = 1 if data.zero_based is False else 0
    names = data.feature_names or [str(first + j) for j in range(data.n_features)]
    directions = {}
    for part in text.split(","):
        name, _, sign = (word.strip() for word in part.rpartition("="))
        refuse_if(
            name not in names or sign not in ("1", "+1", "-1"),
            f"--monotone must name features with 1 or -1, such as {names[0]}=-1: got {part!r}.",
        )
        directions[names.index(name)] = int(sign)
    return directions


def _say(step: Step) -> None:
    """Print a line about each family that was tried, for who waits at a terminal."""
    print(step.label, file=sys.stderr)
