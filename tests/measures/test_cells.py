"""Sharing the cells out to threads."""

import numpy as np
import pytest

from rankwise.core import threads
from rankwise.core.queries import Queries
from rankwise.measures import rankings as cells
from rankwise.measures.binary import AP
from rankwise.measures.pairwise import Disagreement


@pytest.mark.parametrize("measure", [AP, Disagreement], ids=repr)
def test_threads_give_the_same_values(measure, monkeypatch):
    rng = np.random.default_rng(0)
    y, qid = rng.integers(0, 3, 500), rng.integers(0, 37, 500)
    scores, queries = rng.integers(0, 9, (3, 500)), Queries.from_qid(qid)
    one = measure.values_many(y, scores, queries)
    monkeypatch.setattr(cells, "ROWS_PER_THREAD", 64)
    monkeypatch.setattr(threads.config, "NUMBA_NUM_THREADS", 5)
    np.testing.assert_array_equal(measure.values_many(y, scores, queries), one)


def test_parts_cover_every_cell_once(monkeypatch):
    monkeypatch.setattr(cells, "ROWS_PER_THREAD", 1)
    monkeypatch.setattr(threads.config, "NUMBA_NUM_THREADS", 3)
    seen = np.zeros(35, dtype=int)

    def kernel(first, last, starts, counts):
        counts[first:last] += 1

    cells.run_cells(kernel, np.arange(8), 5, seen)
    assert (seen == 1).all()


def test_an_error_in_a_thread_is_raised(monkeypatch):
    monkeypatch.setattr(cells, "ROWS_PER_THREAD", 1)
    monkeypatch.setattr(threads.config, "NUMBA_NUM_THREADS", 2)

    def kernel(first, last, starts):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cells.run_cells(kernel, np.arange(8), 5)
