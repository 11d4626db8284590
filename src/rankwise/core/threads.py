"""The threads that compiled kernels run in, and how work is cut for them."""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import pairwise
from threading import Lock
from typing import Any, TypeAlias, final

import numpy as np
from threadpoolctl import ThreadpoolController

from rankwise.core.arrays import FloatArray, IntArray


def n_threads() -> int:
    """Return how many threads to use: as many as the cores that this process may use.

    The environment variable ``RANKWISE_NUM_THREADS`` says another number, or, where it is not set,
    ``OMP_NUM_THREADS``.
    """
    for name in ("RANKWISE_NUM_THREADS", "OMP_NUM_THREADS"):
        given = os.environ.get(name, "").partition(",")[0].strip()  # of nested loops the outer one
        if given.isdecimal():
            return max(1, int(given))
    return _n_cores()


def _n_cores() -> int:
    if sys.version_info >= (3, 13):
        return os.process_cpu_count() or 1
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # it exists on Linux only
        return os.cpu_count() or 1


def in_threads(task: Callable[[int], None], n_tasks: int) -> None:
    """Call ``task(k)`` for every k below ``n_tasks``, several at a time; the first error is raised.

    These are plain threads around kernels that release the lock. The calling thread works
    too: it is on a core already, where a thread that only waits would leave two new ones to be
    placed, for some milliseconds on the same core.
    """
    if n_tasks == 1:
        task(0)
        return
    # a turn that is never taken stays with a busy pool: what it holds must be empty by then
    turns = deque((task, k) for k in range(n_tasks))

    def work() -> None:
        try:
            for one, k in _taken_from(turns):
                one(k)
        finally:
            turns.clear()  # after an error nobody goes on

    others = min(n_threads(), n_tasks) - 1
    if others <= 0:
        work()
        return
    pool = _pool(os.getpid(), others)
    waiting = [pool.submit(work) for _ in range(others)]
    try:
        work()
    finally:
        begun = [one for one in waiting if not one.cancel()]  # nothing is left for the others
        wait(begun)
    for one in begun:
        one.result()


@cache
def _pool(process: int, n_threads: int) -> ThreadPoolExecutor:  # noqa: ARG001
    """Return threads that wait for work; a forked process has to start its own.

    To start a thread takes as long as a product with small rows.
    """
    return ThreadPoolExecutor(n_threads, thread_name_prefix="rankwise")


Turn: TypeAlias = tuple[Callable[[int], None], int]
"""A task and what it is called with."""


def _taken_from(turns: deque[Turn]) -> Iterator[Turn]:
    """Yield what is left at the front, which other threads take from as well."""
    while True:
        try:
            turn = turns.popleft()
        except IndexError:
            return
        yield turn


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@final
class _SerialBlocks:
    """The open blocks of a process in which BLAS has one thread: the last to end gives it back.

    Blocks of several threads may overlap, and each alone would give back what it found.
    """

    def __init__(self) -> None:
        self.lock = Lock()
        self.n_open = 0
        self.limit: Any = None

    def __enter__(self) -> None:
        with self.lock:
            if self.n_open == 0:
                self.limit = _controller().limit(limits=1, user_api="blas")
            self.n_open += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.n_open -= 1
            if self.n_open == 0:
                self.limit.restore_original_limits()


@cache
def _serial_blocks(process: int) -> _SerialBlocks:  # noqa: ARG001
    """Return those of a process; a forked one begins with none."""
    return _SerialBlocks()


def serial_blas() -> AbstractContextManager[None]:
    """Keep BLAS to one thread: its workers spin after each small product and steal the cores."""
    return _serial_blocks(os.getpid())


WORK_PER_THREAD = 1 << 18
"""Entries for which a further thread is started: about half a millisecond of work."""


def even_parts(work: IntArray) -> IntArray:
    """Return where to cut rows into parts of equal work, given the work before each row and in all.

    There are as many parts as threads worth starting.
    """
    total = int(work[-1] - work[0])
    n_parts = max(1, min(n_threads(), total // WORK_PER_THREAD, len(work) - 1))
    inner = work[0] + total * np.arange(1, n_parts) // n_parts
    return np.concatenate([[0], np.searchsorted(work, inner), [len(work) - 1]])


def equal_parts(n_rows: int, work: int) -> IntArray:
    """Return where to cut rows that take the same work each, as `even_parts` does."""
    n_parts = max(1, min(n_threads(), n_rows * work // WORK_PER_THREAD, n_rows))
    return n_rows * np.arange(n_parts + 1) // n_parts


def run_parts(task: Callable[[int, int, int], None], edges: IntArray) -> None:
    """Call ``task(part, first, last)`` for every part, several at a time."""
    parts = list(pairwise(edges.tolist()))
    in_threads(lambda part: task(part, *parts[part]), len(parts))


def sum_parts(
    task: Callable[[int, int, FloatArray], None], edges: IntArray, length: int
) -> FloatArray:
    """Call ``task(first, last, out)`` with a vector of zeros of its own for every part; add up."""
    sums = np.zeros((len(edges) - 1, length))
    run_parts(lambda part, first, last: task(first, last, sums[part]), edges)
    return sums[0] if len(sums) == 1 else sums.sum(axis=0)


LARGEST_SERIAL = 500


def few_threads(rank: int) -> AbstractContextManager[None]:
    """Run small matrices on one BLAS thread.

    Waking and waiting for threads costs more than they save up to a rank of about 500, and
    hundreds of times more on a busy machine.
    """
    return nullcontext() if rank > LARGEST_SERIAL else _serial_blocks(os.getpid())
