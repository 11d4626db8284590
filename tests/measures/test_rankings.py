"""Cells shared out to threads."""

from itertools import pairwise, product

import numpy as np
import pytest

import rankwise.measures.value as value_module
from rankwise.core.compile import UncompiledWork
from rankwise.core.queries import Queries
from rankwise.measures._kernels import (
    differing_pairs,
    precision_sums,
    swapped_pairs,
    tied_pairs,
)
from rankwise.measures.pairwise import count_uncompiled
from rankwise.measures.registry import parse_measure
from rankwise.measures.value import (
    EVERY_POSITION,
    Judgements,
    Rankings,
    run_cells,
    sort_cells,
    sort_uncompiled,
)


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
    run_cells(sort_cells, judgements.starts, rankings.n_vectors, *arguments, workers=workers)
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


def hard_keys(kind, n_items, rng):
    """Return keys that are hard to sort: tied, close together, of both signs, far out."""
    tail = rng.integers(0, 2**9, n_items)
    ones = np.full(n_items, 1.0).view(np.int64)
    return {
        "grades": rng.integers(0, 5, n_items).astype(float),
        "many grades": rng.integers(0, 40, n_items).astype(float),
        "halves": rng.integers(-3, 4, n_items) / 2,
        "signed zeros": rng.choice([-0.0, 0.0, -1.0, 1.0, 0.5], n_items),
        "normal": rng.normal(size=n_items),
        "last bits": (ones + tail).view(float),
        "last bits below zero": -(ones + tail).view(float),
        "last bits falling": (ones - np.arange(n_items)).view(float),
        "huge offset": 1e15 + rng.integers(0, 30, n_items) / 8,
        "extremes": rng.choice([-1.7e308, -5e-324, 0.0, 5e-324, 1e-300, 1.7e308], n_items),
    }[kind]


KINDS = ["grades", "many grades", "halves", "signed zeros", "normal", "last bits"]
KINDS += ["last bits below zero", "last bits falling", "huge offset", "extremes"]


@pytest.mark.parametrize("kind", KINDS)
def test_items_are_sorted_by_falling_key_and_ties_keep_their_order(kind):
    rng = np.random.default_rng(1)
    sizes = np.r_[np.arange(1, 42), 64, 100, 0, 256, 1000, 4097]
    starts, n_items = np.r_[0, np.cumsum(sizes)], sizes.sum()
    keys = np.stack([hard_keys(kind, n_items, rng) for _ in range(2)])
    parts = [a + rng.permutation(b - a) for a, b in pairwise(starts)]
    base = np.concatenate(parts).astype(np.uint32)
    order, tied = np.empty(keys.shape, np.uint32), np.empty(keys.shape, bool)
    run_cells(sort_cells, starts, 2, keys, base, EVERY_POSITION, order, tied)
    for v in range(2):
        found = [part[np.argsort(-keys[v, part], kind="stable")] for part in parts]
        np.testing.assert_array_equal(order[v], np.concatenate(found))
        sorted_keys = keys[v, order[v]]
        same = np.r_[False, sorted_keys[1:] == sorted_keys[:-1]]
        same[starts[:-1][sizes > 0]] = False
        np.testing.assert_array_equal(tied[v], same)
    uncompiled = sort_uncompiled(keys, base, starts)
    np.testing.assert_array_equal(uncompiled.order, order)
    np.testing.assert_array_equal(uncompiled.tied, tied)


@pytest.mark.parametrize("depth", [1, 2, 10, 33])
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_positions_are_those_of_a_whole_sort(kind, depth):
    rng = np.random.default_rng(3)
    sizes = np.r_[np.arange(1, 42), 64, 100, 0, 256, 1000, 4097]
    starts, n_items = np.r_[0, np.cumsum(sizes)], sizes.sum()
    keys = np.stack([hard_keys(kind, n_items, rng) for _ in range(2)])
    base = np.concatenate([a + rng.permutation(b - a) for a, b in pairwise(starts)])
    whole = sort_uncompiled(keys, base.astype(np.uint32), starts)
    order, tied = np.full(keys.shape, n_items, np.uint32), np.ones(keys.shape, bool)
    run_cells(sort_cells, starts, 2, keys, base.astype(np.uint32), depth, order, tied)
    for v, (start, stop) in product(range(2), pairwise(starts)):
        end = min(start + depth, stop)
        while end < stop and whole.tied[v, end]:
            end += 1
        np.testing.assert_array_equal(order[v, start:end], whole.order[v, start:end])
        np.testing.assert_array_equal(tied[v, start:end], whole.tied[v, start:end])
        assert end == stop or not tied[v, end]


CUT_OFF = ["NDCG", "NDCG(gain='exponential')", "DCG", "AP", "RR", "ERR", "Precision", "Recall"]


@pytest.mark.parametrize("ties", ["average", "input", "reverse", "best", "worst"])
@pytest.mark.parametrize("name", CUT_OFF)
def test_values_to_a_cutoff_are_those_of_a_whole_sort(name, ties, monkeypatch):
    monkeypatch.setattr(value_module, "WORK", UncompiledWork(0))
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


@pytest.mark.parametrize("n_counted", [1, 2, 8, 9, 10, 17, 18, 64, 65, 66, 200])
def test_best_sums_are_those_of_all_positions_to_the_last_bit(n_counted):
    rng = np.random.default_rng(5)
    sizes = np.r_[np.arange(1, 40), 63, 64, 65, 66, 128, 129, 130, 257, 1000]
    judgements = Judgements.of(
        rng.random(sizes.sum()), Queries.from_qid(np.repeat(np.arange(len(sizes)), sizes))
    )
    discounts = np.sort(rng.random(n_counted))[::-1]
    counted = np.r_[discounts, np.zeros(1000)]
    ideal = [np.sort(part)[::-1] for part in np.split(judgements.y, judgements.starts[1:-1])]
    products = np.concatenate([part * counted[: len(part)] for part in ideal])
    sums = np.add.reduceat(products, judgements.starts[:-1])
    np.testing.assert_array_equal(judgements.best(judgements.y, discounts), sums)


def test_code_is_compiled_when_there_is_enough_to_sort():
    work = UncompiledWork(10_000)
    assert [work.is_small(1_000) for _ in range(5)] == [True, True, True, False, False]
    assert not UncompiledWork(10_000).is_small(20_000)


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


def test_pairs_are_counted_alike_with_and_without_compiled_code():
    rng = np.random.default_rng(2)
    queries = Queries.from_qid(np.r_[np.repeat(np.arange(30), 9), 30, 31, 31])
    n_items = queries.n_items
    judgements = Judgements.of(rng.integers(0, 4, n_items), queries)
    rankings = Rankings.of(judgements, rng.choice([-0.0, 0.0, 1.0, 1.5], (7, n_items)))
    grades, weight = judgements.y, judgements.weight
    order, tied = rankings.sorted("average")
    found = count_uncompiled(grades, rankings, at_once=40)  # several blocks of vectors
    np.testing.assert_array_equal(found[0], rankings.table(swapped_pairs, grades, weight, order))
    np.testing.assert_array_equal(found[1], rankings.table(tied_pairs, grades, weight, order, tied))
    best = judgements.by_grade.order
    run = np.empty((1, queries.n_queries))
    run_cells(differing_pairs, judgements.starts, 1, grades[None], weight, best, run)
    np.testing.assert_array_equal(judgements.pairs(grades), run[0])
