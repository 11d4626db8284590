"""Running a kernel over every cell (score vector, query), on several threads when it pays."""

from collections.abc import Callable
from typing import Any

import numpy as np

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.threads import in_threads, n_threads

ROWS_PER_THREAD = 1 << 17
"""A further thread is started for so many rows: a few milliseconds of sorting."""

TASKS_PER_THREAD = 4
"""Cells are dealt out in more parts than there are threads, as queries differ in length."""


def run_cells(
    kernel: Callable[..., None], starts: IntArray, n_vectors: int, *arguments: Any
) -> None:
    """Call ``kernel(first, last, starts, *arguments)`` for parts that cover all cells."""
    n_cells = n_vectors * (len(starts) - 1)
    n_rows = n_vectors * int(starts[-1])
    workers = min(n_threads(), n_rows // ROWS_PER_THREAD, n_cells)
    n_parts = min(n_cells, TASKS_PER_THREAD * workers) if workers > 1 else 1
    edges = [n_cells * part // n_parts for part in range(n_parts + 1)]
    in_threads(lambda k: kernel(edges[k], edges[k + 1], starts, *arguments), n_parts)


def table(
    kernel: Callable[..., None], starts: IntArray, n_vectors: int, *arguments: Any
) -> FloatArray:
    """Return the numbers that ``kernel`` finds for each cell, shape (n_vectors, n_queries)."""
    out = np.empty((n_vectors, len(starts) - 1))
    run_cells(kernel, starts, n_vectors, *arguments, out)
    return out
