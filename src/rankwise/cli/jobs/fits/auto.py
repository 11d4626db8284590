"""Try the families and keep the best sum of them."""

import time

from rankwise.automatic.auto_ranker import AutoRanker
from rankwise.cli.fit_commands import FitAuto, FitCommand
from rankwise.cli.jobs.files import remember_columns
from rankwise.cli.jobs.fits.training import FitInput, refuse_if
from rankwise.cli.output import print_json


def run(command: FitAuto) -> None:
    """Search, save the ranker, and print the leaderboard and the honest value."""
    refuse_if(
        command.validate is not None,
        "--validate must not come with fit auto, which sets queries aside itself. Leave it out.",
    )
    problem = FitInput.read(command, takes_raw=True)
    refuse_if(
        not problem.has_qid,
        f"{command.train} must name queries for fit auto: it has none. Name the column with --qid, "
        "or use fit rls for one global ranking.",
    )
    search(command, problem, AutoRanker(time_budget=command.time_budget))


def search(command: FitCommand, problem: FitInput, ranker: AutoRanker) -> None:
    """Fit to data that were read, save, and print what was found."""
    start = time.perf_counter()
    usual = "NDCG @ 10" if problem.has_qid else "Concordance"
    ranker.set_params(measure=command.measure or usual)
    ranker.fit(problem.data.X, **problem.preferences)
    remember_columns(ranker, problem.data)
    ranker.save(command.output)
    honest = ranker.honest_value_
    if command.json:
        values: dict[str, float | None] = {"value": None, "low": None, "high": None}
        if honest.n_queries > 0:
            values = {"value": honest.value, "low": honest.low, "high": honest.high}
        found = {"measure": honest.measure, "n_queries": honest.n_queries, **values}
        seconds = time.perf_counter() - start
        names = {"ranker": "AutoRanker", "model": str(command.output)}
        print_json({**names, "honest_value": found, "seconds": seconds})
    else:
        print(ranker.report())
        print(f"Saved as {command.output}.")
