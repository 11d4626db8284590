"""Fit DORM for one C, or for the best of a grid."""

import sys
from typing import Any

from rankwise.cli.fit_commands import FitDORM
from rankwise.cli.jobs.fits.training import (
    FitInput,
    Fitted,
    fit_and_save,
    kernel_of,
    measure_of,
    measured,
    on_file,
    parse_grid,
    refuse_both,
)
from rankwise.core.arrays import FloatArray
from rankwise.core.errors import InvalidInputError
from rankwise.measures.value import Measure
from rankwise.rankers.dorm.dorm import DORM
from rankwise.rankers.dorm.dorm_cv import DORMCV
from rankwise.rankers.dorm.losses import default_measure


def run(command: FitDORM) -> None:
    """Fit, save and report."""
    refuse_both(command.c, command.cs, "--C and --Cs")
    measure = measure_of(command, chooses=command.cs is not None) or default_measure(
        command.objective
    )
    options = _options(command)
    C, Cs = _number(command.c), _grid(command.cs)
    problem = FitInput.read(command)

    def fit() -> Fitted:
        if Cs is None:
            return _fit_one(command, DORM(C=C, **options), problem, measure)
        return _fit_best(command, DORMCV(Cs, measure=measure, **options), problem)

    fit_and_save(command, problem, fit, describe)


def _options(command: FitDORM) -> dict[str, Any]:
    return {
        "objective": command.objective,
        "kernel": kernel_of(command),
        "decay": _decay(command.decay),
        "basis": command.basis,
        "tol": command.tol,
        "max_iter": command.max_iter,
        "progress": sys.stderr.isatty(),
        "random_state": command.random_state,
    }


def _fit_one(command: FitDORM, ranker: DORM, problem: FitInput, measure: Measure) -> Fitted:
    ranker.fit(problem.data.X, **problem.preferences)
    ranker.set_params(progress=False)  # of this run, and not of the model
    return measured(command, ranker, "C", ranker.C_, problem, measure)


def _fit_best(command: FitDORM, ranker: DORMCV, problem: FitInput) -> Fitted:
    """Fit for every C: the validation file decides, or folds do."""
    ranker.fit(problem.data.X, **problem.preferences, **problem.validation)
    ranker.set_params(progress=False)  # of this run, and not of the model
    unit = "queries" if problem.has_qid else "items"
    judged = on_file(command) if problem.validation else f"by five folds of {unit}"
    return Fitted(ranker, "C", ranker.C_, ranker.path_, judged)


def describe(ranker: DORM | DORMCV) -> dict[str, Any]:
    """Return kernel, number of passes and gap."""
    gap = ranker.solution_.gap
    return {"kernel": repr(ranker.kernel_), "n_iter": ranker.n_iter_, "gap": gap}


def _number(text: str | None) -> Any:
    """Return a number, or the one word that stands for a fitting one."""
    if text is None or text == "scale":
        return "scale"
    try:
        return float(text)
    except ValueError:
        raise InvalidInputError(f"--C must be a number or scale: got {text!r}.") from None


def _grid(text: str | None) -> int | FloatArray | None:
    """Return the values of C, or how many of them are to be found."""
    if text is None:
        return None
    return int(text) if text.isdigit() else parse_grid(text, "--Cs")


def _decay(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
