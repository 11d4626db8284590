"""``--workers`` and ``--cluster``: files that the workers of a Dask cluster read themselves."""

import re
import subprocess
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
    report, ranker = fit("rls", parts, "--workers", "1", "--alpha", "0.5")
    expected = RankRLS(0.5).fit(folder.train.X, folder.train.y, qid=folder.train.qid)
    assert report["ranker"] == "RankRLS"
    np.testing.assert_allclose(ranker.coef_, expected.coef_, rtol=1e-8)


@pytest.fixture(scope="module")
def address():
    """The address of a scheduler with one worker."""
    from distributed import LocalCluster

    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(processes=False, protocol="tcp", **options) as cluster:
        yield cluster.scheduler_address


def test_a_plain_fit_chooses_among_linear_rankers(fit, folder, parts, address):
    report, ranker = fit(parts, "--cluster", address)
    assert report["ranker"] == "AutoRanker"
    assert report["honest_value"]["n_queries"] == ranker.honest_value_.n_queries
    tried = {one.name for one in ranker.leaderboard_.entries if not one.note}
    assert {"linear RankRLS", "linear RankRLS with ranks", "single feature"} < tried
    assert ranker.feature_names_in_.tolist()[:2] == ["f0", "f1"]


def test_rows_without_queries_need_one_alpha(refuse, folder, address):
    write_table(folder / "flat.parquet", {"f0": np.arange(9.0), "y": np.arange(9.0)})
    line = refuse("fit", "flat.parquet", "-o", "new.model", "--cluster", address, "--y", "y")
    assert "--qid must be given" in line


def test_a_grid_of_rls(fit, parts, address):
    report, _ = fit("rls", parts, "--cluster", address, "--alphas", "0.1,1")
    assert report["selection"]["grid"] == [0.1, 1.0]


def test_conjugate_gradients(fit, folder, parts, address):
    report, ranker = fit("linear", parts, "--cluster", address, "--alpha", "0.5")
    expected = RankRLS(0.5).fit(folder.train.X, folder.train.y, qid=folder.train.qid)
    assert report["ranker"] == "LinearRankRLS"
    np.testing.assert_allclose(ranker.coef_, expected.coef_, rtol=1e-6)


def test_a_grid_of_conjugate_gradients_is_judged_on_queries_held_out(fit, parts, address):
    report, _ = fit("linear", parts, "--cluster", address, "--alphas", "0.1,1")
    assert report["selection"]["judged"] == "on a tenth held out"


@pytest.mark.parametrize(
    ("family", "options", "expected"),
    [
        ([], ["--cluster", "tcp://x"], "Only one of --workers and --cluster"),
        ([], ["--validate", "validation.txt"], "--validate must not come with --workers"),
        ([], ["--group", "f1"], "--group must not come with --workers"),
        (["rls"], ["--kernel", "gaussian"], "--kernel must not come with --workers"),
        (["rls"], ["--basis", "3"], "--basis must not come with --workers"),
        (["rls"], ["--pairs", "pairs.csv"], "--pairs must not come with --workers"),
        (["rls"], ["--pairs-val", "pairs.csv"], "--pairs-val must not come with --workers"),
        (["rls"], ["--alpha", "1", "--alphas", "1,2"], "Only one of --alpha and --alphas"),
        (["linear"], ["--stream"], "--stream must not come with --workers"),
        (["linear"], ["--pairs", "pairs.csv"], "--pairs must not come with --workers"),
    ],
)
def test_refusals(refuse, parts, family, options, expected):
    line = refuse("fit", *family, parts, "-o", "new.model", "--workers", "1", *options)
    assert expected in line


def test_without_distributed_the_extra_is_named(refuse, parts, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    line = refuse("fit", parts, "-o", "new.model", "--workers", "1")
    assert "rankwise[distributed]" in line


@pytest.mark.portable
def test_a_leaderboard_of_many_files(run, folder):
    rows = ["ann,bob,a", "bob,cid,a", "cid,ann,tie", "bob,ann,b"]
    for k in range(3):
        text = "\n".join(rows[k:] * 3)
        (folder / f"games-{k}.csv").write_text(f"a,b,winner\n{text}\n")
    every = [row for k in range(3) for row in rows[k:] * 3]
    (folder / "all.csv").write_text("\n".join(["a,b,winner", *every]) + "\n")
    found = run("leaderboard", "games-*.csv", "--workers", "1", "--format", "csv")
    assert found.exit_code == 0, found.output
    assert found.stdout == run("leaderboard", "all.csv", "--format", "csv").stdout


def test_what_fails_on_a_worker_is_said_once(tmp_path):
    lines = ["qid,f1,grade", *(f"{k // 3},{k / 7},{k % 3}" for k in range(30)), "10,,1"]
    (tmp_path / "blank.csv").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "rankwise", "fit", "rls", "blank.csv", "-o", "no.model"]
    found = subprocess.run(
        [*command, "--workers", "1"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert found.returncode == 2
    assert re.fullmatch(r"error: Partition 0 .*expected a finite number.*\n", found.stderr)
