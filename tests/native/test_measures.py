"""Sums over rankings against every order of tied items, and every pair of items."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

import reference
from rankwise.native import measures as kernels
from rankwise.native.sorting import sort_items

EVERY_POSITION = 2**63 - 1
SIZES = [3, 1, 0, 5, 6, 2]


def rankings(seed, sizes=SIZES, levels=3, n_vectors=3):
    """Return starts, scores, grades, weights, order and ties, all frozen; scores are often tied."""
    rng = np.random.default_rng(seed)
    starts = np.r_[0, np.cumsum(sizes)]
    n_items = int(starts[-1])
    scores = rng.choice([-0.0, 0.0, 0.25, 1.0, -2.0][:levels], (n_vectors, n_items))
    y = rng.choice([0.0, 1.0, 2.5], n_items)
    weight = rng.random(n_items)
    best, _ = reference.sorted_items(y, np.arange(n_items), starts)
    order = np.empty(scores.shape, np.uint32)
    tied = np.empty(scores.shape, np.uint8)
    n_cells = n_vectors * len(sizes)
    base = best.astype(np.uint32)
    sort_items(0, n_cells, starts, scores, base, EVERY_POSITION, order, tied)
    arrays = starts, scores, y, weight, order, tied
    for array in arrays:
        array.flags.writeable = False
    return arrays


def cells(kernel, starts, n_vectors, *arguments):
    out = np.full((n_vectors, len(starts) - 1), np.nan)
    kernel(0, out.size, starts, *arguments, out)
    return out


def expected(value, starts, scores, y):
    """Return the mean of a value of the ranked ``y`` over all orders of tied items."""
    out = np.zeros((len(scores), len(starts) - 1))
    for v, score in enumerate(scores):
        for q, (a, b) in enumerate(pairwise(starts)):
            orders = reference.tied_orders(score[a:b])
            out[v, q] = np.mean([value(y[a:b][np.array(o, dtype=int)]) for o in orders])
    return out


def close(found, right):
    np.testing.assert_allclose(found, right, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_discounts", [1, 3, 6])
def test_sums_of_gain_times_discount(seed, n_discounts):
    starts, scores, y, _, order, tied = rankings(seed)
    discounts = 1 / np.arange(1.0, n_discounts + 1)
    padded = np.r_[discounts, np.zeros(6)]
    arguments = y, discounts, np.r_[0, np.cumsum(padded)][:7], order, tied
    found = cells(kernels.inner_products, starts, len(scores), *arguments)
    close(found, expected(lambda ranked: ranked @ padded[: len(ranked)], starts, scores, y))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cutoff", [1, 2, 6, EVERY_POSITION])
def test_sums_to_a_cutoff(seed, cutoff):
    starts, scores, y, _, order, tied = rankings(seed)
    hits = (y >= 1).astype(float)
    arguments = hits.astype(np.uint8), cutoff, order, tied

    def precisions(ranked):
        means = np.cumsum(ranked) / np.arange(1, len(ranked) + 1)
        return (means * ranked)[:cutoff].sum()

    found = cells(kernels.precision_sums, starts, len(scores), *arguments)
    close(found, expected(precisions, starts, scores, hits))

    def reciprocal(ranked):
        place = np.flatnonzero(ranked)[:1] + 1
        return sum(1 / place[place <= cutoff])

    found = cells(kernels.first_reciprocals, starts, len(scores), *arguments)
    close(found, expected(reciprocal, starts, scores, hits))

    def cascade(ranked):
        going = np.r_[1.0, np.cumprod(1 - ranked)[:-1]] if len(ranked) else ranked
        return (going * ranked / np.arange(1, len(ranked) + 1))[:cutoff].sum()

    chances = y / 4
    found = cells(kernels.cascade_sums, starts, len(scores), chances, cutoff, order, tied)
    close(found, expected(cascade, starts, scores, chances))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("sizes", [SIZES, [40, 0, 17, 33, 100]])  # runs, and runs that are merged
def test_pairs_are_weighed(seed, sizes):
    starts, scores, y, weight, order, tied = rankings(seed, sizes, levels=5)
    n_vectors = len(scores)
    right = np.array(
        [
            [reference.pair_sums(y[a:b], s[a:b], weight[a:b]) for a, b in pairwise(starts)]
            for s in scores
        ]
    )
    close(cells(kernels.swapped_pairs, starts, n_vectors, y, weight, order), right[..., 1])
    close(cells(kernels.tied_pairs, starts, n_vectors, y, weight, order, tied), right[..., 2])
    close(cells(kernels.differing_pairs, starts, n_vectors, scores, weight, order), right[..., 3])
    swapped, tied = np.full((2, n_vectors, len(starts) - 1), np.nan)
    kernels.compared_pairs(0, swapped.size, starts, y, weight, scores, swapped, tied)
    close(swapped, right[..., 1])
    close(tied, right[..., 2])


@pytest.mark.parametrize("seed", range(4))
def test_tied_items_share_their_mean_rank(seed):
    starts, scores, _, _, order, tied = rankings(seed)
    out = np.empty(scores.shape)
    kernels.midranks(0, len(scores) * len(SIZES), starts, order, tied, out)
    for s, found in zip(scores, out, strict=True):
        for a, b in pairwise(starts):
            above = (s[a:b] > s[a:b, None]).sum(axis=1) - (s[a:b] < s[a:b, None]).sum(axis=1)
            np.testing.assert_array_equal(found[a:b], above / 2)


def test_threads_may_share_the_cells():
    sizes = [30] * 50
    starts, scores, y, weight, order, _ = rankings(0, sizes, levels=5, n_vectors=8)
    whole = cells(kernels.swapped_pairs, starts, len(scores), y, weight, order)
    shared = np.empty_like(whole)
    edges = np.linspace(0, whole.size, 24).astype(int).tolist()
    with ThreadPoolExecutor(4) as pool:
        parts = pool.map(
            lambda part: kernels.swapped_pairs(*part, starts, y, weight, order, shared),
            pairwise(edges),
        )
        list(parts)
    np.testing.assert_array_equal(shared, whole)
