"""Running compiled loops side by side, and keeping BLAS out of the way."""

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
    not be mixed with forked processes or entered by two threads at once.
    """
    workers = min(n_threads(), n_tasks)
    if workers <= 1:
        for k in range(n_tasks):
            task(k)
        return
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(task, range(n_tasks)))


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def serial_blas() -> Iterator[None]:
    """Keep BLAS to one thread: its workers spin after each small product and steal the cores."""
    with _controller().limit(limits=1, user_api="blas"):
        yield
