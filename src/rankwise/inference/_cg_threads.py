"""Running parts of a pass side by side."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise

import numpy as np
from numba import config
from threadpoolctl import ThreadpoolController

from rankwise.core.arrays import FloatArray, IntArray

WORK_PER_THREAD = 1 << 18
"""A further thread is started for so many entries: about half a millisecond of work."""


def even_parts(work: IntArray) -> IntArray:
    """Return where to cut rows into parts of equal work, given the work before each row and in all.

    There are as many parts as threads worth starting.
    """
    total = int(work[-1] - work[0])
    n_parts = max(1, min(config.NUMBA_NUM_THREADS, total // WORK_PER_THREAD, len(work) - 1))
    inner = work[0] + total * np.arange(1, n_parts) // n_parts
    return np.concatenate([[0], np.searchsorted(work, inner), [len(work) - 1]])


def run_parts(task: Callable[[int, int, int], None], edges: IntArray) -> None:
    """Call ``task(part, first, last)`` for every part, one thread each.

    Threads, and not numba's own, because those must not be mixed with forked processes or entered
    by two threads at once; ``NUMBA_NUM_THREADS`` limits these as well.
    """
    parts = list(enumerate(pairwise(edges.tolist())))
    if len(parts) == 1:
        task(0, *parts[0][1])
        return
    with ThreadPoolExecutor(len(parts)) as pool:
        running = [pool.submit(task, part, first, last) for part, (first, last) in parts]
        for one in running:
            one.result()


def sum_parts(
    task: Callable[[int, int, FloatArray], None], edges: IntArray, length: int
) -> FloatArray:
    """Call ``task(first, last, out)`` with a vector of zeros of its own for every part; add up."""
    sums = np.zeros((len(edges) - 1, length))
    run_parts(lambda part, first, last: task(first, last, sums[part]), edges)
    return sums[0] if len(sums) == 1 else sums.sum(axis=0)


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def serial_blas() -> Iterator[None]:
    """Keep BLAS to one thread: its workers spin after each small product and steal the cores."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
