"""Cells shared out to threads."""

import numpy as np
import pytest

import reference
from rankwise.core.queries import Queries
from rankwise.measures.graded import NDCG
from rankwise.measures.pairwise import PAIRS_PER_ITEM, PairCounts
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import EVERY_POSITION, Judgements, Rankings, run_cells
from rankwise.native.measures import precision_sums, swapped_pairs
from rankwise.native.sorting import sort_items


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
    arguments = (rankings.scores, judgements.by_grade.order[0], EVERY_POSITION, order, tied)
    run_cells(sort_items, judgements.starts, rankings.n_vectors, *arguments, workers=workers)
    np.testing.assert_array_equal(order, whole.order)
    np.testing.assert_array_equal(tied, whole.tied)


@pytest.mark.parametrize("workers", [2, 5, 1000])
def test_parts_give_the_same_values(workers):
    rankings = drawn()
    judgements, (order, tied) = rankings.judgements, rankings.sorted("average")
    for kernel, arguments in (
        (precision_sums, ((judgements.y >= 1).view(np.uint8), 10, order, tied)),
        (swapped_pairs, (judgements.y, judgements.weight, order)),
    ):
        out = np.empty((rankings.n_vectors, judgements.queries.n_queries))
        run_cells(kernel, judgements.starts, len(out), *arguments, out, workers=workers)
        np.testing.assert_array_equal(out, rankings.table(kernel, *arguments))


@pytest.mark.parametrize("size", [PAIRS_PER_ITEM // 2, 2 * PAIRS_PER_ITEM])  # compared, sorted
def test_pairs_of_short_and_long_queries_are_weighed(size):
    rng = np.random.default_rng(size)
    queries = Queries.from_qid(np.tile([4, 7], size))
    y, scores = rng.integers(0, 4, 2 * size), rng.integers(0, 30, (2, 2 * size))
    judgements = Judgements.of(y, queries, rng.integers(1, 4, 2 * size))
    total = judgements.pairs(judgements.y)
    rankings = Rankings.of(judgements, scores)
    counts = PairCounts.of(judgements.y, total, rankings)
    weight = judgements.weight.reshape(2, size)
    for q, graded in enumerate(judgements.y.reshape(2, size)):
        for v, scored in enumerate(rankings.scores.reshape(2, 2, size)[:, q]):
            right = reference.pair_sums(graded, scored, weight[q])[:3]
            assert (total[q], counts.swapped[v, q], counts.tied[v, q]) == right


CUT_OFF = ["NDCG", "NDCG(gain='exponential')", "DCG", "AP", "RR", "ERR", "Precision", "Recall"]


@pytest.mark.parametrize("ties", ["average", "input", "reverse", "best", "worst"])
@pytest.mark.parametrize("name", CUT_OFF)
def test_values_to_a_cutoff_are_those_of_a_whole_sort(name, ties):
    rng = np.random.default_rng(4)
    queries = Queries.from_qid(np.repeat(np.arange(60), rng.integers(1, 130, 60)))
    y = rng.choice([0.0, 0.25, 1.0, 1.3, 2.0], queries.n_items)
    scores = np.stack([y + rng.normal(size=len(y)), np.round(rng.normal(size=len(y)), 1)])
    judgements = Judgements.of(y, queries)
    measure = parse_measure(name)(ties=ties) @ 7
    plan = measure.prepare(judgements)
    whole = plan.values(Rankings.of(judgements, scores))
    np.testing.assert_array_equal(plan.values(Rankings.of(judgements, scores, plan.depth)), whole)
    assert plan.depth == 7


@pytest.mark.parametrize("n_counted", [1, 2, 9, 64, 200])
def test_the_best_sums_are_those_of_the_best_ranking_to_the_last_bit(n_counted):
    rng = np.random.default_rng(5)
    sizes = np.r_[np.arange(1, 40), 63, 64, 65, 66, 128, 129, 130, 257, 1000]
    queries = Queries.from_qid(np.repeat(np.arange(len(sizes)), sizes))
    y = rng.integers(0, 5, sizes.sum()) / 3
    discounts = np.sort(rng.random(n_counted))[::-1].copy()
    best = Judgements.of(y, queries).best(y, discounts)
    ideal = [np.sort(part)[::-1] for part in np.split(y, queries.starts[1:-1])]
    sums = [sum(a * b for a, b in zip(part, discounts, strict=False)) for part in ideal]
    np.testing.assert_array_equal(best, sums)
    scores = y - 1e-9 * np.arange(len(y))  # no ties, and an order as good as any
    values = (NDCG @ n_counted).per_query(y, scores, queries)
    np.testing.assert_array_equal(values[best > 0], 1.0)


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
