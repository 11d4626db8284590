"""Fit RankSVM for one C, or for the best of a grid."""

import sys
from typing import Any

from rankwise.cli.fit_commands import FitSVM
from rankwise.cli.jobs.fits.training import (
    FitInput,
    Fitted,
    best_of,
    fit_and_save,
    kernel_of,
    measure_of,
    measured,
    parse_grid,
    refuse_beside_pairs,
    refuse_both,
    refuse_if,
)
from rankwise.core.arrays import FloatArray
from rankwise.measures.value import Measure
from rankwise.rankers.svm.rank_svm import RankSVM


def run(command: FitSVM) -> None:
    """Fit, save and report."""
    refuse_both(command.c, command.cs, "--C and --Cs")
    refuse_beside_pairs(command)
    refuse_if(
        command.cs is not None and command.validate is None,
        "--Cs must come with --validate: got no data to choose on. Put some queries into a file of "
        "their own.",
    )
    grid = None if command.cs is None else parse_grid(command.cs, "--Cs")
    measure = measure_of(command, chooses=grid is not None)
    ranker = RankSVM(
        1.0 if command.c is None else command.c,
        loss=command.loss,
        kernel=kernel_of(command),
        cost=command.cost,
        query_weight=command.query_weight,
        basis=command.basis,
        tol=command.tol,
        max_iter=command.max_iter,
        progress=sys.stderr.isatty(),
        random_state=command.random_state,
    )
    problem = FitInput.read(command, command.pairs)
    fit_and_save(command, problem, lambda: _fit(command, ranker, grid, problem, measure), describe)


def _fit(
    command: FitSVM,
    ranker: RankSVM,
    grid: FloatArray | None,
    problem: FitInput,
    measure: Measure | None,
) -> Fitted:
    """Fit for one C, or for every C of a grid, of which the validation file decides."""
    X, preferences = problem.data.X, problem.preferences
    if grid is None:
        ranker.fit(X, **preferences)
        fitted = measured(command, ranker, "C", ranker.C, problem, measure)
    else:
        path = ranker.fit_path(X, Cs=grid, **preferences)
        fitted = best_of(command, path, problem, measure)
    fitted.ranker.set_params(progress=False)  # of this run, and not of the model
    return fitted


def describe(ranker: RankSVM) -> dict[str, Any]:
    """Return kernel, number of steps and gap."""
    gap = ranker.solution_.gap
    return {"kernel": repr(ranker.kernel_), "n_iter": ranker.n_iter_, "gap": gap}
