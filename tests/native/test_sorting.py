"""The one sort of the package against NumPy's stable sort."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, product

import numpy as np
import pytest

import reference
from rankwise.native.sorting import has_ties, number_keys, sort_by_key, sort_items

EVERY_POSITION = 2**63 - 1
SIZES = np.r_[np.arange(1, 42), 64, 100, 0, 256, 1000, 4097]


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


def problem(kind, seed, n_vectors=2):
    """Return queries of many sizes with their items in some order; all arrays are frozen."""
    rng = np.random.default_rng(seed)
    starts = np.r_[0, np.cumsum(SIZES)]
    keys = np.stack([hard_keys(kind, int(starts[-1]), rng) for _ in range(n_vectors)])
    parts = [a + rng.permutation(int(b - a)) for a, b in pairwise(starts)]
    base = np.concatenate(parts).astype(np.uint32)
    for array in (starts, keys, base):
        array.flags.writeable = False
    return starts, keys, base


@pytest.mark.parametrize("kind", KINDS)
def test_items_are_sorted_by_falling_key_and_ties_keep_their_order(kind):
    starts, keys, base = problem(kind, 1)
    order, tied = np.empty(keys.shape, np.uint32), np.full(keys.shape, 7, np.uint8)
    sort_items(0, len(keys) * len(SIZES), starts, keys, base, EVERY_POSITION, order, tied)
    for v in range(len(keys)):
        whole_order, whole_tied = reference.sorted_items(keys[v], base, starts)
        np.testing.assert_array_equal(order[v], whole_order)
        np.testing.assert_array_equal(tied[v], whole_tied)


@pytest.mark.parametrize("depth", [1, 2, 10, 33])
@pytest.mark.parametrize("kind", KINDS)
def test_the_first_positions_are_those_of_a_whole_sort(kind, depth):
    starts, keys, base = problem(kind, 3)
    order, tied = np.full(keys.shape, len(base), np.uint32), np.ones(keys.shape, np.uint8)
    sort_items(0, len(keys) * len(SIZES), starts, keys, base, depth, order, tied)
    whole = [reference.sorted_items(key, base, starts) for key in keys]
    for v, (start, stop) in product(range(len(keys)), pairwise(starts)):
        whole_order, whole_tied = whole[v]
        end = min(start + depth, stop)
        while end < stop and whole_tied[end]:
            end += 1
        np.testing.assert_array_equal(order[v, start:end], whole_order[start:end])
        np.testing.assert_array_equal(tied[v, start:end], whole_tied[start:end])
        assert end == stop or not tied[v, end]


def test_threads_may_share_the_cells():
    starts, keys, base = problem("normal", 4, n_vectors=8)
    order, tied = np.empty(keys.shape, np.uint32), np.empty(keys.shape, np.uint8)
    edges = np.linspace(0, len(keys) * len(SIZES), 24).astype(int)

    def part(k):
        arguments = starts, keys, base, EVERY_POSITION, order, tied
        sort_items(int(edges[k]), int(edges[k + 1]), *arguments)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(part, range(len(edges) - 1)))
    for v in range(len(keys)):
        np.testing.assert_array_equal(order[v], reference.sorted_items(keys[v], base, starts)[0])


@pytest.mark.parametrize("kind", KINDS)
def test_keys_are_sorted_in_place_and_their_order_with_them(kind):
    starts, keys, _ = problem(kind, 5, n_vectors=1)
    order = np.random.default_rng(0).permutation(keys.shape[1])
    found_keys, found_order = keys[0].copy(), order.copy()
    sort_by_key(found_keys, found_order, starts)
    for a, b in pairwise(starts):
        place = a + np.argsort(keys[0, a:b], kind="stable")
        assert found_keys[a:b].tobytes() == keys[0, place].tobytes()  # signs of zeros as well
        np.testing.assert_array_equal(found_order[a:b], order[place])


@pytest.mark.parametrize("size", [1, 2, 3, 8, 100])
@pytest.mark.parametrize("kind", KINDS)
def test_ties_are_found_inside_queries_only(kind, size):
    rng = np.random.default_rng(size)
    for _ in range(20):
        keys, order = hard_keys(kind, 4 * size, rng), rng.permutation(4 * size)
        starts = np.arange(5) * size
        keys.flags.writeable = order.flags.writeable = starts.flags.writeable = False
        tied = any(len(set(keys[order[a:b]].tolist())) < b - a for a, b in pairwise(starts))
        assert has_ties(keys, order, starts) == tied


@pytest.mark.parametrize("kind", KINDS)
def test_keys_are_numbered_as_by_a_dictionary_for_each_query(kind):
    starts, (keys, *_), base = problem(kind, 6, n_vectors=1)
    order = base.astype(np.int64)
    number, first = number_keys(keys, order, starts)
    known, items = {}, []
    for q, (a, b) in enumerate(pairwise(starts)):
        for item in order[a:b].tolist():
            if (q, keys[item]) not in known:
                items.append(item)
            known.setdefault((q, keys[item]), len(known))
            assert number[item] == known[q, keys[item]]
    np.testing.assert_array_equal(first, items)


@pytest.mark.parametrize("n_items", [2, 3, 1000, 4097])
def test_one_tie_is_found_wherever_it_is(n_items):
    rng = np.random.default_rng(n_items)
    keys, order, starts = rng.normal(size=n_items), np.arange(n_items), np.array([0, n_items])
    assert not has_ties(keys, order, starts)
    for _ in range(20):
        a, b = rng.choice(n_items, 2, replace=False)
        tied = keys.copy()
        tied[a] = tied[b]
        assert has_ties(tied, order, starts)
    keys[0], keys[-1] = 0.0, -0.0  # one number
    assert has_ties(keys, order, starts)


@pytest.mark.parametrize("n_queries", [0, 1, 3])
def test_nothing_to_sort(n_queries):
    starts, nothing = np.zeros(n_queries + 1, dtype=np.int64), np.zeros((1, 0))
    order, tied = nothing.astype(np.uint32), nothing.astype(np.uint8)
    sort_items(0, n_queries, starts, nothing, order[0], EVERY_POSITION, order, tied)
    sort_by_key(nothing[0], np.zeros(0, dtype=np.int64), starts)
    assert not has_ties(nothing[0], np.zeros(0, dtype=np.int64), starts)
    assert [len(part) for part in number_keys(nothing[0], np.zeros(0, np.int64), starts)] == [0, 0]
