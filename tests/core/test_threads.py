"""Tasks side by side."""

import threading

import pytest

from rankwise.core import compile as compiled
from rankwise.core.compile import in_threads


@pytest.fixture(params=[1, 2, 4])
def n_workers(request, monkeypatch):
    monkeypatch.setattr(compiled, "n_threads", lambda: request.param)
    return request.param


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
