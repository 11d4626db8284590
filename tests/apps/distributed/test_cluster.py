"""On a real cluster of processes: the law on split queries, lost workers, interrupts, names."""

import _thread
import gc
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from rankwise import ConvergenceWarning, InvalidInputError, LinearRankRLS, RankRLS, RankRLSCV
from rankwise.apps.distributed import DaskLinearRankRLS, DaskRankRLS, DaskRankRLSCV, evaluate
from rankwise.apps.distributed.engine import (
    KEPT_MEMORY,
    _explain_lost_worker,
    client_of,
    may_keep_memory,
)

da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

KILL = getattr(signal, "SIGKILL", 9)  # Windows has no name for it


@pytest.fixture(scope="module")
def client():
    settings_ = {"distributed.worker.memory.terminate": False}
    import dask

    with dask.config.set(settings_), client_of(None, 2) as client:
        yield client


def at_start(name):
    """Return a variable of the environment that this process was started with."""
    given = Path("/proc/self/environ").read_text().split("\0")
    return dict(line.split("=", 1) for line in given if line).get(name)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs Linux")
@pytest.mark.parametrize("name", ["MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"])
def test_workers_are_started_to_keep_freed_memory(client, name):
    found = client.run(at_start, name)
    assert set(found.values()) == {str(KEPT_MEMORY)}


@pytest.mark.parametrize(
    ("limit", "may"),
    [(None, True), (1 << 30, False), ("64 MiB", False), ("1 TiB", True), (1e-6, False)],
)
def test_a_worker_keeps_nothing_of_a_small_limit(limit, may):
    assert may_keep_memory(limit, 1) is may
    assert not may_keep_memory("auto", 1 << 20)


def data(seed=0, n_items=150, n_queries=9):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_items, 4)) + 3
    qid = rng.integers(0, n_queries, n_items)
    y = np.clip(np.round(X[:, 0] + X[:, 1] - 6 + rng.normal(size=n_items)), -2, 2)
    return X, y, qid


def cut(X, n_parts, seed=0):
    edges = np.sort(np.random.default_rng(seed).integers(1, len(X), n_parts - 1))
    sizes = np.diff(np.concatenate([[0], edges, [len(X)]]))
    return da.from_array(X, chunks=(tuple(sizes[sizes > 0].tolist()), X.shape[1]))


def close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("seed", "n_parts", "ties", "query_weight"),
    [
        (1, 1, "drop", "items"),
        (2, 2, "keep", "pairs"),
        (3, 7, "drop", "equal"),
        (4, 7, "keep", "items"),
        (5, 2, "drop", "pairs"),
        (6, 7, "drop", "items"),
        (7, 1, "keep", "equal"),
        (8, 7, "keep", "pairs"),
    ],
)
def test_queries_may_be_split_in_any_way(client, seed, n_parts, ties, query_weight):
    X, y, qid = data(seed)
    order = np.random.default_rng(seed).permutation(len(y))
    rows, options = cut(X[order], n_parts, seed), {"ties": ties, "query_weight": query_weight}
    given_ = {"y": y[order], "qid": qid[order]}
    close(
        DaskRankRLS(0.5, client=client, **options).fit(rows, **given_).coef_,
        RankRLS(0.5, **options).fit(X, y, qid=qid).coef_,
    )
    close(
        DaskLinearRankRLS(0.5, tol=1e-13, client=client, **options).fit(rows, **given_).coef_,
        LinearRankRLS(0.5, tol=1e-13, **options).fit(X, y, qid=qid).coef_,
    )


def test_cross_validation_and_evaluation(client):
    X, y, qid = data()
    expected = RankRLSCV().fit(X, y, qid=qid)
    rows = cut(X, 5)
    found = DaskRankRLSCV(client=client).fit(rows, y, qid=qid)
    close(found.coef_, expected.coef_)
    assert found.alpha_ == expected.alpha_
    value = evaluate(y, found.predict(rows), qid, "Concordance", client=client)["Concordance"]
    assert value == pytest.approx(expected.score(X, y, qid=qid), abs=1e-12)


def test_a_worker_killed_between_iterations(client):
    X, y, qid = data()
    options = {"alpha": 0.5, "tol": 1e-13}
    killed = []

    def kill_once(step):
        if step.iteration == 2 and not killed:
            pids = client.run(os.getpid)
            killed.append(min(pids.values()))
            os.kill(killed[0], KILL)

    found = DaskLinearRankRLS(progress=kill_once, client=client, **options)
    found.fit(cut(X, 6), y, qid=qid)
    assert killed
    close(found.coef_, LinearRankRLS(**options).fit(X, y, qid=qid).coef_)


def _deadly(block, marker):
    """Kill the worker that gets here first."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return block
    os.kill(os.getpid(), KILL)
    return block


@pytest.mark.parametrize("ranker", [DaskRankRLS, DaskRankRLSCV])
def test_a_worker_killed_by_a_partition_once(client, ranker, tmp_path):
    X, y, qid = data()
    rows = cut(X, 6).map_blocks(_deadly, str(tmp_path / "killed"), dtype=float, meta=X[:0])
    found = ranker(client=client).fit(rows, y, qid=qid)
    assert (tmp_path / "killed").exists()
    plain = RankRLS() if ranker is DaskRankRLS else RankRLSCV()
    close(found.coef_, plain.fit(X, y, qid=qid).coef_)


@pytest.mark.parametrize("task", [("eaten-4f1", 2, 0), "rankwise-hold-out-2-4f17"])
def test_a_partition_that_ends_its_workers_is_named(task):
    error = distributed.scheduler.KilledWorker(task, None, 3)
    with pytest.raises(MemoryError, match="Partition 2 killed the workers that ran it"):
        _explain_lost_worker(error)


def _too_large(block, block_info=None):
    """Fail for want of memory in the third partition."""
    if block_info and block_info[0]["chunk-location"][0] == 2:
        raise MemoryError
    return block


def test_a_partition_that_its_own_code_cannot_make_is_named(client):
    X, y, qid = data()
    rows = cut(X, 6).map_blocks(_too_large, dtype=float, meta=X[:0])
    with pytest.raises(MemoryError, match="Partition 2 must fit in the memory of a worker"):
        DaskRankRLS(client=client).fit(rows, y, qid=qid)


def test_a_bad_partition_is_named(client):
    X, y, qid = data()
    X[140, 1] = np.inf
    with pytest.raises(InvalidInputError, match="Partition 2: .*X"):
        DaskRankRLS(client=client).fit(da.from_array(X, chunks=(50, 4)), y, qid=qid)


def test_an_error_that_is_kept_keeps_nothing_on_the_workers(client):
    X, y, qid = data()
    rows = cut(X, 6).map_blocks(_too_large, dtype=float, meta=X[:0])
    with pytest.raises(MemoryError) as kept:
        DaskRankRLS(client=client).fit(rows, y, qid=qid)
    assert left_over(client) == []
    assert kept.traceback


def test_an_interrupt_leaves_the_cluster_clean(client):
    X, y, qid = data()
    timers = []

    def interrupt(step):
        if step.iteration == 1:
            timers.append(threading.Timer(0.0, _thread.interrupt_main))
            timers[0].start()
            timers[0].join()

    ranker = DaskLinearRankRLS(tol=0.0, alpha=1e-9, progress=interrupt, client=client)
    with pytest.warns(ConvergenceWarning, match="Stopped by Ctrl-C"):
        ranker.fit(cut(X, 4), y, qid=qid)
    assert ranker.ranker_.n_iter_ < 5
    assert left_over(client) == []


def left_over(client):
    """Return the tasks that the scheduler still knows, after their owners had time to go.

    An error that a thread of the client is still handling reaches the tasks of its call.
    """
    for _ in range(100):
        gc.collect()
        left = client.run_on_scheduler(
            lambda dask_scheduler: [k for k in dask_scheduler.tasks if "rankwise" in str(k)]
        )
        if not left:
            break
        time.sleep(0.05)
    return left


def test_tasks_have_names_and_go_away(client):
    X, y, qid = data()
    seen = set()

    def look(step):
        seen.update(
            client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.task_prefixes))
        )

    DaskLinearRankRLS(progress=look, client=client).fit(cut(X, 3), y, qid=qid)
    assert {"rankwise-apply", "rankwise-vector", "rankwise-operators"} <= seen
    assert left_over(client) == []
