"""Running compiled loops side by side, and keeping BLAS out of the way."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache

from numba import config
from threadpoolctl import ThreadpoolController


def n_threads() -> int:
    """Return how many threads to use; the variable ``NUMBA_NUM_THREADS`` limits them."""
    return int(config.NUMBA_NUM_THREADS)


def in_threads(task: Callable[[int], None], n_tasks: int) -> None:
    """Call ``task(k)`` for every k below ``n_tasks``, several at a time; the first error is raised.

    These are plain threads around kernels that release the lock, and not numba's own, which must
    not be mixed with forked processes or entered by two threads at once. The calling thread works
    too: it is on a core already, where a thread that only waits would leave two new ones to be
    placed, for some milliseconds on the same core.
    """
    turns = deque(range(n_tasks))

    def work() -> None:
        try:
            for k in _taken_from(turns):
                task(k)
        finally:
            turns.clear()  # after an error nobody goes on

    others = min(n_threads(), n_tasks) - 1
    if others <= 0:
        work()
        return
    with ThreadPoolExecutor(others) as pool:
        waiting = [pool.submit(work) for _ in range(others)]
        work()
    for one in waiting:
        one.result()


def _taken_from(turns: deque[int]) -> Iterator[int]:
    """Yield what is left at the front, which other threads take from as well."""
    while True:
        try:
            k = turns.popleft()
        except IndexError:
            return
        yield k


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def serial_blas() -> Iterator[None]:
    """Keep BLAS to one thread: its workers spin after each small product and steal the cores."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
