"""Fit KPCRank for a number of components, or for the best of all numbers up to one."""

from typing import Any

from rankwise.cli.fit_commands import FitKPCRank
from rankwise.cli.jobs.fits.training import (
    FitInput,
    Fitted,
    fit_and_save,
    kernel_of,
    measure_of,
    measured,
    on_file,
    refuse_beside_pairs,
    refuse_both,
    refuse_if,
)
from rankwise.measures.value import Measure
from rankwise.rankers.kpcrank.kpc_rank import KPCRank, KPCRankCV

DEFAULT_COMPONENTS = 10


def run(command: FitKPCRank) -> None:
    """Fit, save and report."""
    several = command.max_components is not None
    refuse_both(command.n_components, command.max_components, "--n-components and --max-components")
    refuse_beside_pairs(command)
    refuse_if(
        several and command.pairs is not None,
        "--max-components must not come with --pairs: the number of components is chosen by items "
        "with scores. Give --n-components.",
    )
    measure = measure_of(command, chooses=several)
    options: dict[str, Any] = {
        "kernel": kernel_of(command),
        "alpha": command.alpha,
        "cost": command.cost,
        "ties": command.ties,
        "query_weight": command.query_weight,
    }
    problem = FitInput.read(command, command.pairs)
    fit = _fit_best if several else _fit_one
    fit_and_save(command, problem, lambda: fit(command, options, problem, measure), describe)


def _fit_one(
    command: FitKPCRank, options: dict[str, Any], problem: FitInput, measure: Measure | None
) -> Fitted:
    number = command.n_components
    ranker = KPCRank(DEFAULT_COMPONENTS if number is None else number, **options)
    ranker.fit(problem.data.X, **problem.preferences)
    return measured(command, ranker, "n_components", ranker.n_components_, problem, measure)


def _fit_best(
    command: FitKPCRank, options: dict[str, Any], problem: FitInput, measure: Measure | None
) -> Fitted:
    """Fit for every number of components: the validation file decides, or hold-outs do."""
    assert command.max_components is not None
    ranker = KPCRankCV(command.max_components, measure=measure, **options)
    ranker.fit(problem.data.X, **problem.preferences, **problem.validation)
    if problem.validation:
        judged = on_file(command)
    elif problem.has_qid:
        judged = "by leaving out each query in turn"
    else:
        judged = "by five folds of items"
    return Fitted(ranker, "n_components", ranker.n_components_, ranker.path_, judged)


def describe(ranker: KPCRank | KPCRankCV) -> dict[str, Any]:
    """Return the kernel."""
    return {"kernel": repr(ranker.kernel_)}
