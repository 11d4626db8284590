"""Fits that train for a measure of whole rankings: DORM.

Public names are written ``rankwise.name``: they are loaded when first used, so that no command
waits for what another one needs.
"""

import rankwise
from rankwise.apps.cli.fit_commands import FitDORM
from rankwise.apps.cli.jobs.fits.training import (
    FitInput,
    fit_and_save,
    fit_or_choose,
    measure_of,
)
from rankwise.apps.cli.jobs.parameters import refuse_idle, values_of
from rankwise.rankers.dorm.losses import default_measure


def fit_dorm(command: FitDORM) -> None:
    """Fit, save and report."""
    texts, classes = command.parameters, (rankwise.DORM, rankwise.DORMCV)
    refuse_idle(command, *classes, "Cs")
    values = values_of(classes["Cs" in texts], texts)
    objective = values.get("objective", rankwise.DORM().objective)
    measure = measure_of(command, chooses="Cs" in texts) or default_measure(objective)
    problem = FitInput.read(command)
    fit_and_save(
        command, problem, lambda: fit_or_choose(command, problem, *classes, "Cs", "C", measure)
    )
