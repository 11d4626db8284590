"""Tasks side by side."""

import os
import subprocess
import sys
import threading
import warnings
import weakref
from pathlib import Path

import numpy as np
import pytest

import rankwise
from rankwise.core import threads
from rankwise.core.threads import in_threads


@pytest.fixture(params=[1, 2, 4])
def n_workers(request, monkeypatch):
    monkeypatch.setenv("RANKWISE_NUM_THREADS", str(request.param))
    return request.param


def test_the_environment_says_how_many_threads(monkeypatch):
    monkeypatch.delenv("RANKWISE_NUM_THREADS", raising=False)
    for given, expected in (("3", 3), (" 5 ", 5), ("4,2", 4), ("0", 1)):
        monkeypatch.setenv("OMP_NUM_THREADS", given)
        assert threads.n_threads() == expected
    monkeypatch.setenv("RANKWISE_NUM_THREADS", "7")
    assert threads.n_threads() == 7
    monkeypatch.delenv("RANKWISE_NUM_THREADS")
    for given in ("", "many", "-1"):
        monkeypatch.setenv("OMP_NUM_THREADS", given)
        assert 1 <= threads.n_threads() <= os.cpu_count()


IS_LATER = sys.version_info >= (3, 13)  # Python then says itself how many a process may use


@pytest.mark.parametrize(
    ("ways", "expected"),
    [
        ({"sched_getaffinity": lambda _: range(5), "cpu_count": lambda: 8}, 5),
        ({"cpu_count": lambda: 7}, 7),
        ({"cpu_count": lambda: None}, 1),
    ],
)
def test_cores_are_counted_as_the_system_allows(monkeypatch, ways, expected):
    if IS_LATER:
        ways = {"process_cpu_count": lambda: expected}
    for name in ("RANKWISE_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("process_cpu_count", "sched_getaffinity", "cpu_count"):
        monkeypatch.delattr(os, name, raising=False)
    for name, way in ways.items():
        monkeypatch.setattr(os, name, way, raising=False)
    assert threads.n_threads() == expected


ELSEWHERE = """
import os
import joblib  # with psutil, which needs sysconf on this system
vars(os).pop("sysconf", None)
assert not hasattr(os, "sched_getaffinity")
import numpy as np, rankwise as rw
X = np.random.default_rng(0).random((3000, 5))
y, qid = np.round(X[:, 0] * 3), np.arange(3000) // 10
rw.evaluate(y, X[:, 1], qid, "NDCG")
for ranker in (rw.LinearRankRLS(), rw.RankSVM(), rw.RankRLS(kernel="gaussian", basis=20)):
    ranker.fit(X, y, qid).predict(X)
rw.RankRLSCV(kernel="gaussian").fit(X[:50], y[:50], qid[:50])
"""


def test_systems_without_affinity_and_configuration():
    """macOS has no sched_getaffinity; Windows has no sysconf either."""
    folder = Path(__file__).parents[1] / "elsewhere"
    path = os.pathsep.join([str(folder), str(Path(rankwise.__file__).parents[1])])
    names = ("RANKWISE_NUM_THREADS", "OMP_NUM_THREADS")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        env=environment | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("n_tasks", [0, 1, 2, 3, 50])
def test_every_task_runs_once(n_workers, n_tasks):
    done = []
    in_threads(done.append, n_tasks)
    assert sorted(done) == list(range(n_tasks))


def test_the_caller_works_beside_the_others(n_workers):
    met = threading.Barrier(n_workers, timeout=30)
    workers = set()

    def task(k):
        workers.add(threading.get_ident())
        met.wait()

    in_threads(task, n_workers)
    assert threading.get_ident() in workers
    assert len(workers) == n_workers


@pytest.mark.parametrize("failing", [0, 7, 19])
@pytest.mark.parametrize("error", [ValueError, IndexError])
def test_an_error_is_raised_and_ends_the_work(n_workers, failing, error):
    done = []

    def task(k):
        if k == failing:
            raise error("no more")
        done.append(k)

    with pytest.raises(error, match="no more"):
        in_threads(task, 20)
    assert failing not in done
    if n_workers == 1:
        assert done == list(range(failing))


def test_inner_tasks_are_let_go_while_the_outer_ones_go_on(n_workers):
    held = []

    def outer(_):
        rows = np.zeros(3)
        held.append(weakref.ref(rows))
        in_threads(lambda k, rows=rows: rows.fill(k), 3)
        del rows
        assert sum(one() is not None for one in held) <= n_workers

    in_threads(outer, 40)


def test_tasks_may_have_tasks_of_their_own(n_workers):
    done = []
    in_threads(lambda k: in_threads(lambda j: done.append((k, j)), 3), 8)
    assert sorted(done) == [(k, j) for k in range(8) for j in range(3)]


def test_threads_wait_for_the_next_call():
    before = {thread.ident for thread in _waiting()}
    for _ in range(20):
        in_threads(set().add, 8)
    assert len({thread.ident for thread in _waiting()} - before) <= threads.n_threads()


def _waiting():
    return [thread for thread in threading.enumerate() if thread.name.startswith("rankwise")]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_starts_threads_of_its_own(n_workers):
    in_threads(set().add, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any thread
        child = os.fork()
    if child == 0:
        done = []
        in_threads(done.append, 20)
        os._exit(0 if sorted(done) == list(range(20)) else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("n_rows", [0, 1, 5, 1000, 10**6])
@pytest.mark.parametrize("work", [1, 7, 1000])
def test_equal_parts_are_even_parts_of_equal_work(n_workers, n_rows, work):
    edges = threads.equal_parts(n_rows, work)
    assert len(edges) == len(threads.even_parts(work * np.arange(max(1, n_rows) + 1)))
    assert (edges[0], edges[-1]) == (0, n_rows)
    sizes = np.diff(edges)
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("first_to_end", [0, 1])
def test_blas_gets_its_threads_back_whichever_of_two_blocks_ends_first(first_to_end):
    def n_threads_of_blas():
        found = threads._controller().select(user_api="blas").info()
        return {one["num_threads"] for one in found}

    with threads._controller().limit(limits=2, user_api="blas"):
        before = n_threads_of_blas()
        blocks = [threads.serial_blas(), threads.serial_blas()]
        for block in blocks:
            block.__enter__()
        assert n_threads_of_blas() == {1}
        blocks[first_to_end].__exit__(None, None, None)
        assert n_threads_of_blas() == {1}
        blocks[1 - first_to_end].__exit__(None, None, None)
        assert n_threads_of_blas() == before
