"""Fit RankRLS for one alpha, or for the best of a grid."""

from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from rankwise.cli.fit_commands import FitCommand, FitRLS
from rankwise.cli.jobs.files import read_comparisons
from rankwise.cli.jobs.fits.cluster import fit_on_cluster
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
from rankwise.distributed.closed_form import DaskRankRLS, DaskRankRLSCV
from rankwise.measures.value import Measure
from rankwise.rankers.rls.rank_rls import RankRLS
from rankwise.rankers.rls.rank_rls_cv import RankRLSCV
from rankwise.selection.judging import PAIR_MEASURES

LEFT_OUT = "by leaving out each {} in turn"
"""How exact hold-outs judge."""


def run(command: FitRLS) -> None:
    """Fit, save and report."""
    refuse_both(command.alpha, command.alphas, "--alpha and --alphas")
    refuse_beside_pairs(command)
    refuse_if(
        command.pairs_val is not None and (command.pairs is None or command.alphas is None),
        "--pairs-val must come with --pairs and --alphas: its comparisons choose among the alphas.",
    )
    alphas = None if command.alphas is None else parse_grid(command.alphas, "--alphas")
    measure = measure_of(command, chooses=alphas is not None)
    if command.is_on_cluster:
        _fit_on_cluster(command, alphas, measure)
        return
    ranker = RankRLS(
        1.0 if command.alpha is None else command.alpha,
        kernel=kernel_of(command),
        cost=command.cost,
        ties=command.ties,
        query_weight=command.query_weight,
        basis=command.basis,
        random_state=command.random_state,
    )
    problem = FitInput.read(command, command.pairs)
    if alphas is None:
        fit = partial(fit_one, command, ranker, problem, measure)
    else:
        fit = partial(fit_best, command, ranker, alphas, problem, measure, command.pairs_val)
    fit_and_save(command, problem, fit, describe)


def describe(ranker: Any) -> dict[str, Any]:
    """Return the kernel."""
    return {"kernel": repr(ranker.kernel_)}


def fit_one(
    command: FitCommand, ranker: RankRLS, problem: FitInput, measure: Measure | None
) -> Fitted:
    """Fit for the alpha of the ranker."""
    ranker.fit(problem.data.X, **problem.preferences)
    return measured(command, ranker, "alpha", ranker.alpha, problem, measure)


def fit_best(
    command: FitCommand,
    ranker: RankRLS,
    alphas: ArrayLike,
    problem: FitInput,
    measure: Measure | None,
    pairs_val: Path | None = None,
) -> Fitted:
    """Fit for every alpha and keep the best: by the validation file, or by exact hold-outs."""
    X, preferences = problem.data.X, problem.preferences
    if problem.validation:
        path = ranker.fit_path(X, alphas=alphas, **preferences)
        return best_of(command, path, problem, measure)
    judges: dict[str, Any] = {}
    if pairs_val is not None:
        given = read_comparisons(pairs_val, problem.data.items)
        judges = {"pairs_val": given["pairs"], "pair_weight_val": given["pair_weight"]}
    unit = "query" if problem.has_qid else "comparison" if problem.has_pairs else "pair of items"
    _refuse_listwise(measure, unit)
    known = set(RankRLSCV().get_params()) - {"alpha"}
    options = {name: value for name, value in ranker.get_params().items() if name in known}
    search = RankRLSCV(alphas, measure=measure, **options).fit(X, **preferences, **judges)
    judged = f"on {pairs_val}" if judges else LEFT_OUT.format(unit)
    return Fitted(search, "alpha", search.alpha_, search.path_, judged)


def _fit_on_cluster(command: FitRLS, alphas: ArrayLike | None, measure: Measure | None) -> None:
    """Fit where the rows are, with a linear kernel."""
    idle = {
        f"--kernel {command.kernel}": command.kernel != "linear",
        "--basis": command.basis is not None,
        "--pairs": command.pairs is not None,
    }
    options: dict[str, Any] = {
        "cost": command.cost,
        "ties": command.ties,
        "query_weight": command.query_weight,
    }
    if alphas is None:
        alpha = 1.0 if command.alpha is None else command.alpha
        fit_on_cluster(
            command, DaskRankRLS(alpha, **options), lambda r: Fitted(r, "alpha", r.alpha), idle
        )
        return
    search = DaskRankRLSCV(alphas, measure=measure, **options)
    fit_on_cluster(command, search, chosen_by_queries, idle)


def chosen_by_queries(ranker: RankRLSCV) -> Fitted:
    """Say that queries left out decided."""
    return Fitted(ranker, "alpha", ranker.alpha_, ranker.path_, LEFT_OUT.format("query"))


def _refuse_listwise(measure: Measure | None, unit: str) -> None:
    """Refuse measures of whole rankings where only pairs are left out."""
    known = ", ".join(map(repr, PAIR_MEASURES))
    refuse_if(
        unit != "query" and measure not in (None, *PAIR_MEASURES),
        f"--measure must be one of {known} where each {unit} is left out: got {measure!r}. Give "
        "data with queries, or --validate.",
    )
