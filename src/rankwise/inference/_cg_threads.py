"""Running parts of a pass side by side."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.threads import in_threads, n_threads

WORK_PER_THREAD = 1 << 18
"""A further thread is started for so many entries: about half a millisecond of work."""


def even_parts(work: IntArray) -> IntArray:
    """Return where to cut rows into parts of equal work, given the work before each row and in all.

    There are as many parts as threads worth starting.
    """
    total = int(work[-1] - work[0])
    n_parts = max(1, min(n_threads(), total // WORK_PER_THREAD, len(work) - 1))
    inner = work[0] + total * np.arange(1, n_parts) // n_parts
    return np.concatenate([[0], np.searchsorted(work, inner), [len(work) - 1]])


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
