"""Fit a linear RankRLS on a Dask cluster, to files that its workers read themselves."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rankwise.cli.commands import FitCluster
from rankwise.cli.jobs.files import check_target, reading_options
from rankwise.cli.jobs.fits.training import (
    Fitted,
    fit_and_save,
    measure_of,
    parse_grid,
    refuse_both,
    refuse_if,
)
from rankwise.core.errors import MissingExtraError
from rankwise.distributed.closed_form import DaskRankRLS, DaskRankRLSCV
from rankwise.distributed.linear import DaskLinearRankRLS


def run(command: FitCluster) -> None:
    """Fit for one alpha or the best of a grid, save and report."""
    refuse_both(command.alpha, command.alphas, "--alpha and --alphas")
    refuse_both(command.workers, command.cluster, "--workers and --cluster")
    refuse_if(
        command.workers is None and command.cluster is None,
        "--workers or --cluster must be given: got neither. Add --workers 4 to use this machine.",
    )
    refuse_if(
        command.validate is not None,
        "--validate must not come with a cluster: queries of the files are held out. Leave it out.",
    )
    check_target(command.output)
    fit_and_save(command, None, lambda: _fit(command), describe)


def _fit(command: FitCluster) -> Fitted:
    options = reading_options(command.train, command.layout)
    with _client(command) as client:
        ranker = _ranker(command, client).fit_files(command.train, **options)
    kept = ranker.ranker_
    if command.alphas is None:
        return Fitted(kept, "alpha", kept.alpha)
    if command.many_features:
        kept.set_params(progress=False)
        return Fitted(kept, "alpha", kept.alpha_)
    return Fitted(kept, "alpha", kept.alpha_, kept.path_, "by leaving out each query in turn")


def _ranker(command: FitCluster, client: Any) -> Any:
    options: dict[str, Any] = {
        "cost": command.cost,
        "ties": command.ties,
        "query_weight": command.query_weight,
        "client": client,
    }
    measure = measure_of(command, chooses=command.alphas is not None)
    alpha = 1.0 if command.alpha is None else command.alpha
    grid = None if command.alphas is None else parse_grid(command.alphas, "--alphas")
    if command.many_features:
        return DaskLinearRankRLS(
            alpha, alphas=grid, measure=measure or "Concordance", progress=sys.stderr.isatty(),
            random_state=command.random_state, **options,
        )  # fmt: skip
    if grid is None:
        return DaskRankRLS(alpha, **options)
    return DaskRankRLSCV(grid, measure=measure, **options)


@contextmanager
def _client(command: FitCluster) -> Iterator[Any]:
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
