"""Fits of linear rankers on a Dask cluster, to files that its workers read themselves."""

import time
from collections.abc import Callable
from typing import Any

from rankwise.apps.cli.fit_commands import ClusterCommand, Fit, FitLinear, FitRLS
from rankwise.apps.cli.jobs.files import check_target, reading_options
from rankwise.apps.cli.jobs.fits.automatic import save_and_report
from rankwise.apps.cli.jobs.fits.pairwise import fitted_linear, linear_ranker
from rankwise.apps.cli.jobs.fits.training import (
    LEFT_OUT,
    Fitted,
    fit_and_save,
    measure_of,
)
from rankwise.apps.cli.jobs.parameters import (
    OF_WORKERS,
    refuse_both,
    refuse_idle,
    refuse_if,
    values_of,
)
from rankwise.apps.cli.parameters import flag_of
from rankwise.apps.distributed.automatic import DaskAutoRanker
from rankwise.apps.distributed.base import DaskRanker
from rankwise.apps.distributed.closed_form import DaskRankRLS, DaskRankRLSCV
from rankwise.apps.distributed.engine import client_of
from rankwise.apps.distributed.linear import DaskLinearRankRLS
from rankwise.rankers.rls.rank_rls import RankRLS
from rankwise.rankers.rls.rank_rls_cv import RankRLSCV


def fit(command: Fit) -> None:
    """Fit the linear families of AutoRanker, and report what it says."""
    _refuse_what_is_idle(command, {"--group": command.group is not None})
    start = time.perf_counter()
    ranker = _learned(command, DaskAutoRanker(command.measure or "NDCG @ 10"))
    save_and_report(command, ranker, time.perf_counter() - start)


def fit_rls(command: FitRLS) -> None:
    """Fit RankRLS with a linear kernel, for one alpha or for the best of a grid."""
    texts = command.parameters
    refuse_idle(command, RankRLS, RankRLSCV, "alphas")
    measure = measure_of(command, chooses="alphas" in texts)
    if "alphas" in texts:
        ranker: DaskRanker = DaskRankRLSCV(measure=measure)
        values, fitted = values_of(RankRLSCV, texts), _chosen_by_queries
    else:
        ranker = DaskRankRLS()
        values, fitted = values_of(RankRLS, texts), _fitted_for_alpha
    known = ranker.get_params()
    ranker.set_params(**{name: value for name, value in values.items() if name in known})
    idle = {flag_of(name): True for name in texts if name not in (*known, "random_state")}
    idle |= {"--pairs": command.pairs is not None, "--pairs-val": command.pairs_val is not None}
    _fit_on_cluster(command, ranker, fitted, idle)


def fit_linear(command: FitLinear) -> None:
    """Fit LinearRankRLS by conjugate gradients."""
    ranker = linear_ranker(command)
    given, known = ranker.get_params(), DaskLinearRankRLS().get_params()
    distributed_ranker = DaskLinearRankRLS(**{name: given[name] for name in known if name in given})
    idle = {"--pairs": command.pairs is not None, "--stream": command.stream}
    _fit_on_cluster(command, distributed_ranker, lambda found: fitted_linear(command, found), idle)


def _fit_on_cluster(
    command: ClusterCommand,
    ranker: DaskRanker,
    fitted: Callable[[Any], Fitted],
    idle: dict[str, bool],
) -> None:
    """Fit, save and report.

    Parameters
    ----------
    command
        The files and the cluster.
    ranker
        The ranker to fit.
    fitted
        Describes what an ordinary ranker learned.
    idle
        Options that have no effect on a cluster, and whether they were given.
    """
    _refuse_what_is_idle(command, idle)
    fit_and_save(command, None, lambda: fitted(_learned(command, ranker)))


def _refuse_what_is_idle(command: ClusterCommand, idle: dict[str, bool]) -> None:
    refuse_both(command, "workers", "cluster")
    for option, is_given in {"--validate": command.validate is not None, **idle}.items():
        refuse_if(
            is_given,
            f"{option} must not come with --workers or --cluster, which fit linear rankers to the "
            "scores of the files and hold out some of their queries. Leave one of them out.",
        )
    check_target(command.output)


def _learned(command: ClusterCommand, ranker: DaskRanker) -> Any:
    options = reading_options(command.train, command.layout)
    with client_of(command.cluster, command.workers, **OF_WORKERS) as client:
        return ranker.set_params(client=client).fit_files(command.train, **options).ranker_


def _fitted_for_alpha(ranker: RankRLS) -> Fitted:
    return Fitted(ranker, "alpha", ranker.alpha)


def _chosen_by_queries(ranker: RankRLSCV) -> Fitted:
    """Say that queries left out decided."""
    return Fitted(ranker, "alpha", ranker.alpha_, ranker.path_, LEFT_OUT.format("query"))
