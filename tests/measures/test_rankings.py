"""Cells shared out to threads."""

import numpy as np
import pytest

from rankwise.core.queries import Queries
from rankwise.measures._kernels import precision_sums, sort_items, swapped_pairs
from rankwise.measures.rankings import Judgements, Rankings, run_cells


def drawn():
    rng = np.random.default_rng(0)
    queries = Queries.from_qid(rng.integers(0, 37, 500))
    judgements = Judgements.of(rng.integers(0, 3, 500), queries)
    return Rankings.of(judgements, rng.integers(0, 9, (3, 500)))


@pytest.mark.parametrize("workers", [2, 5, 1000])
def test_parts_sort_like_the_whole(workers):
    rankings = drawn()
    judgements, whole = rankings.judgements, rankings.sorted("average")
    order, tied = np.empty_like(whole.order), np.empty_like(whole.tied)
    arguments = (rankings.scores, judgements.by_grade.order[0], order, tied)
    run_cells(sort_items, judgements.starts, rankings.n_vectors, *arguments, workers=workers)
    np.testing.assert_array_equal(order, whole.order)
    np.testing.assert_array_equal(tied, whole.tied)


@pytest.mark.parametrize("workers", [2, 5, 1000])
def test_parts_give_the_same_values(workers):
    rankings = drawn()
    judgements, (order, tied) = rankings.judgements, rankings.sorted("average")
    for kernel, arguments in (
        (precision_sums, (judgements.y >= 1, 10, order, tied)),
        (swapped_pairs, (judgements.y, judgements.weight, order)),
    ):
        out = np.empty((rankings.n_vectors, judgements.queries.n_queries))
        run_cells(kernel, judgements.starts, len(out), *arguments, out, workers=workers)
        np.testing.assert_array_equal(out, rankings.table(kernel, *arguments))


@pytest.mark.parametrize("workers", [None, 1, 3, 50])
def test_parts_cover_every_cell_once(workers):
    seen = np.zeros(35, dtype=int)

    def kernel(first, last, starts, counts):
        counts[first:last] += 1

    run_cells(kernel, np.arange(8), 5, seen, workers=workers)
    assert (seen == 1).all()


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_a_part_is_raised(workers):
    def kernel(first, last, starts):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_cells(kernel, np.arange(8), 5, workers=workers)
