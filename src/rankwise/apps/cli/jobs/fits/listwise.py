"""Fits that train for a measure of whole rankings: DORM.

Public names are written ``rankwise.name``: they are loaded when first used, so that no command
waits for what another one needs.
"""

from dataclasses import replace
from typing import Any

import rankwise
from rankwise.apps.cli.fit_commands import FitDORM
from rankwise.apps.cli.jobs.files import read_words
from rankwise.apps.cli.jobs.fits.training import (
    FitInput,
    fit_and_save,
    fit_or_choose,
    measure_of,
)
from rankwise.apps.cli.jobs.parameters import refuse_alone, refuse_idle, values_of
from rankwise.rankers.dorm.losses import default_measure


def fit_dorm(command: FitDORM) -> None:
    """Fit, save and report."""
    texts, classes = command.parameters, (rankwise.DORM, rankwise.DORMCV)
    refuse_idle(command, *classes, "Cs")
    values = values_of(classes["Cs" in texts], texts)
    objective = values.get("objective", rankwise.DORM().objective)
    measure = measure_of(command, chooses="Cs" in texts) or default_measure(objective)
    refuse_alone(command, ["n_diverse"], "sources")
    learned, judged = _sources(command)
    read = FitInput.read(command)
    problem = replace(
        read, preferences=read.preferences | learned, validation=read.validation | judged
    )
    fit_and_save(
        command, problem, lambda: fit_or_choose(command, problem, *classes, "Cs", "C", measure)
    )


def _sources(command: FitDORM) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the sources of the items, and of those that choose C, as arguments of ``fit``."""
    if command.sources is None:
        return {}, {}
    learned = {"sources": read_words(command.train, command.sources, "sources")}
    if command.validate is None or "Cs" not in command.parameters:
        return learned, {}
    return learned, {"sources_val": read_words([command.validate], command.sources, "sources")}
