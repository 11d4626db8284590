"""Fit on a Dask cluster, to files that its workers read themselves."""

from collections.abc import Callable
from typing import Any

from rankwise.cli.fit_commands import ClusterCommand
from rankwise.cli.jobs.files import check_target, reading_options
from rankwise.cli.jobs.fits.training import Fitted, fit_and_save, refuse_both, refuse_if
from rankwise.distributed.base import DaskRanker
from rankwise.distributed.engine import client_of


def fit_on_cluster(
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
        What learns.
    fitted
        Says what an ordinary ranker learned.
    idle
        Options that a cluster has no use for, and whether they were given.
    """
    refuse_both(command.workers, command.cluster, "--workers and --cluster")
    for option, is_given in {"--validate": command.validate is not None, **idle}.items():
        refuse_if(
            is_given,
            f"{option} must not come with --workers or --cluster, which learn linear rankers from "
            "the scores of the files and hold out queries of these. Leave one of them out.",
        )
    check_target(command.output)
    fit_and_save(command, None, lambda: fitted(_learned(command, ranker)), describe)


def _learned(command: ClusterCommand, ranker: DaskRanker) -> Any:
    options = reading_options(command.train, command.layout)
    with client_of(command.cluster, command.workers) as client:
        return ranker.set_params(client=client).fit_files(command.train, **options).ranker_


def describe(ranker: Any) -> dict[str, Any]:
    """Return the number of features."""
    return {"n_features": ranker.n_features_in_}
