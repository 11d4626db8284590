"""``rankwise fit cluster``: files that the workers of a Dask cluster read themselves."""

import sys

import numpy as np
import pytest

from rankwise import RankRLS
from rankwise.io import write_table

pytest.importorskip("distributed", reason="the extra 'distributed' is not installed")


@pytest.fixture
def parts(folder):
    """Files through which queries run on."""
    train = folder.train
    for k, rows in enumerate(np.array_split(np.arange(len(train.y)), 3)):
        columns = {f"f{j}": train.X[rows, j] for j in range(train.X.shape[1])}
        write_table(
            folder / f"part-{k}.parquet", columns | {"y": train.y[rows], "qid": train.qid[rows]}
        )
    return "part-*.parquet"


def test_workers_of_this_machine(fit, folder, parts):
    report, ranker = fit("cluster", parts, "--workers", "1", "--alpha", "0.5")
    expected = RankRLS(0.5).fit(folder.train.X, folder.train.y, qid=folder.train.qid)
    assert report["ranker"] == "RankRLS"
    np.testing.assert_allclose(ranker.coef_, expected.coef_, rtol=1e-8)


def test_the_cluster_of_a_scheduler(fit, parts):
    from distributed import LocalCluster

    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(processes=False, protocol="tcp", **options) as cluster:
        address = cluster.scheduler_address
        report, _ = fit("cluster", parts, "--cluster", address, "--alphas", "0.1,1")
    assert report["selection"]["judged"] == "by leaving out each query in turn"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], "--workers or --cluster must be given"),
        (["--workers", "1", "--cluster", "tcp://x"], "Only one of --workers and --cluster"),
        (["--workers", "1", "--alpha", "1", "--alphas", "1,2"], "Only one of --alpha and --alphas"),
        (["--workers", "1", "--validate", "validation.txt"], "--validate must not come with"),
    ],
)
def test_refusals(refuse, parts, options, expected):
    assert expected in refuse("fit", "cluster", parts, "-o", "new.model", *options)


def test_without_distributed_the_extra_is_named(refuse, parts, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    line = refuse("fit", "cluster", parts, "-o", "new.model", "--workers", "1")
    assert "rankwise[distributed]" in line
