"""Fit on a Dask cluster, to files that its workers read themselves."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rankwise.cli.commands import ClusterCommand
from rankwise.cli.jobs.files import check_target, reading_options
from rankwise.cli.jobs.fits.training import Fitted, fit_and_save, refuse_both, refuse_if
from rankwise.core.errors import MissingExtraError
from rankwise.distributed.base import DaskRanker


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
    with _client(command) as client:
        return ranker.set_params(client=client).fit_files(command.train, **options).ranker_


@contextmanager
def _client(command: ClusterCommand) -> Iterator[Any]:
    """Connect to a cluster, or start one on this machine and end it."""
    try:
        import distributed  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("Learning on a cluster", "distributed", "distributed") from error
    if command.cluster is not None:
        with distributed.Client(command.cluster) as client:
            yield client
        return
    with (
        distributed.LocalCluster(
            n_workers=command.workers, threads_per_worker=1, dashboard_address=None
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


def describe(ranker: Any) -> dict[str, Any]:
    """Return the number of features."""
    return {"n_features": ranker.n_features_in_}
