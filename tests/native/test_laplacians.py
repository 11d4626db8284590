"""Products with Laplacians against dense matrices, pair by pair and group by group."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest

import reference
from rankwise.native import laplacians as kernels

SIZES = [(), (0,), (1,), (5,), (7, 0, 1, 12, 3), (40, 25)]
PRECISIONS = [np.float64, np.float32]


def frozen(*arrays):
    """Return copies that may not be written to."""
    copies = [np.array(array) for array in arrays]
    for copy in copies:
        copy.flags.writeable = False
    return copies


def sorted_queries(sizes, seed, n_grades=4, tied=False):
    """Return starts, numbers of grades, grades and keys; the keys of each query rise."""
    rng = np.random.default_rng(seed)
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    keys = rng.normal(size=starts[-1])
    if tied:
        keys = rng.choice([-0.0, 0.0, 0.5, 1.0], size=starts[-1])
    for q in range(len(sizes)):
        keys[starts[q] : starts[q + 1]].sort()
    grade = rng.integers(n_grades, size=starts[-1])
    return frozen(starts, np.full(len(sizes), n_grades), grade, keys)


def windows(starts, keys, margin=0.5):
    """Return the windows of pairs with a slack above 0 and not above 1, in units of the margin."""
    start = kernels.find_band_start(keys, starts, margin)
    stop = kernels.find_band_start(keys, starts, margin - 1.0)
    return frozen(start, stop)


@pytest.mark.parametrize("margin", [-0.5, 0.0, 0.5, np.inf])
@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_a_band_starts_at_the_first_key_above_the_own_less_the_margin(sizes, tied, margin):
    starts, _, _, keys = sorted_queries(sizes, 0, tied=tied)
    found = kernels.find_band_start(keys, starts, margin)
    for q in range(len(sizes)):
        own = keys[starts[q] : starts[q + 1]]
        expected = [starts[q] + np.count_nonzero(own <= key - margin) for key in own]
        np.testing.assert_array_equal(found[starts[q] : starts[q + 1]], expected)


@pytest.mark.parametrize("margin", [-0.5, 0.0, 0.5, np.inf])
@pytest.mark.parametrize("sizes", SIZES)
def test_joined_positions_are_those_of_an_active_pair_in_any_order_of_keys(sizes, margin):
    starts, n_grades, grade, keys = sorted_queries(sizes, 1, tied=True)
    keys = keys[np.random.default_rng(0).permutation(len(keys))]
    query = np.repeat(np.arange(len(sizes)), sizes)
    active = (keys > keys[:, None] - margin) & (grade < grade[:, None])
    active &= query == query[:, None]
    expected = np.flatnonzero(active.any(axis=0) | active.any(axis=1))
    found = kernels.find_joined(keys, grade, n_grades, starts, margin)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("n_columns", [0, 1, 2, 9])
@pytest.mark.parametrize("n_grades", [1, 2, 5])
@pytest.mark.parametrize("sizes", SIZES)
def test_sums_over_partners_are_those_of_the_active_pairs(sizes, n_grades, n_columns):
    starts, grades, grade, keys = sorted_queries(sizes, 2, n_grades)
    bands = windows(starts, keys)
    (values,) = frozen(np.random.default_rng(0).normal(size=(len(keys), n_columns)))
    below, above = np.zeros((2, *values.shape))
    arguments = grade, grades, starts, *bands, 0, len(sizes)
    kernels.sum_partners(values, *arguments, below, above)
    active = reference.active_pairs(grade, starts, *bands)
    np.testing.assert_allclose(below, active @ values, atol=1e-13)
    np.testing.assert_allclose(above, active.T @ values, atol=1e-13)


def test_threads_sum_over_partners_of_different_queries_side_by_side():
    sizes = (30, 0, 50, 20, 60)
    starts, grades, grade, keys = sorted_queries(sizes, 3)
    bands = windows(starts, keys)
    (values,) = frozen(np.random.default_rng(0).normal(size=(len(keys), 3)))
    whole, parts = np.zeros((2, 2, *values.shape))
    kernels.sum_partners(values, grade, grades, starts, *bands, 0, len(sizes), *whole)

    def one(q):
        rows = slice(starts[q], starts[q + 1])
        out = parts[0, rows], parts[1, rows]
        kernels.sum_partners(values[rows], grade, grades, starts, *bands, q, q + 1, *out)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(len(sizes))))
    np.testing.assert_array_equal(parts, whole)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("sizes", SIZES)
def test_products_with_a_band_are_those_of_its_dense_laplacian(sizes, order):
    starts, grades, grade, keys = sorted_queries(sizes, 4)
    rng, n_items = np.random.default_rng(0), len(keys)
    start, stop = windows(starts, keys)
    item, weight, degree = frozen(rng.permutation(n_items), *rng.uniform(0.1, 2, (2, n_items)))
    v = rng.normal(size=(n_items, 2))[:, 0]
    active = reference.active_pairs(grade, starts, start, stop)
    L = reference.band_laplacian(active, item, weight, 3.0 * weight, degree)
    out, matrix = np.empty(n_items), np.zeros((n_items, n_items), order=order)
    positions = item, grade, weight, 3.0 * weight, degree
    kernels.apply_band(v, *positions, grades, starts, start, stop, out)
    np.testing.assert_allclose(out, L @ v, atol=1e-12)
    kernels.add_band(*positions, start, stop, matrix)
    np.testing.assert_allclose(matrix, np.tril(L), atol=1e-12)


def grouped_rows(seed, dtype, n_items=40, n_columns=11, offset=0.0):
    """Return rows, their groups (some empty, some rows in none), weights and masses."""
    rng, n_groups = np.random.default_rng(seed), (9, 1, 60)[seed]
    group = rng.integers(-1, n_groups, size=n_items)
    weight = rng.uniform(0.1, 2.0, size=n_items)
    mass = np.bincount(group[group >= 0], weight[group >= 0], minlength=n_groups)
    V = (offset + rng.normal(size=(n_items, n_columns))).astype(dtype)
    return frozen(V, group, weight, mass.astype(float))


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_means_of_groups_and_rows_without_them(seed, dtype):
    V, group, weight, mass = grouped_rows(seed, dtype)
    expected = reference.group_means(V.astype(float), group, weight, len(mass))
    means = kernels.group_means(V, group, weight, mass)
    np.testing.assert_allclose(means, expected, atol=1e-14)
    out = np.full(V.shape, np.nan)
    kernels.centred_rows(V, means, group, weight, out)
    centred = np.where((group >= 0)[:, None], weight[:, None] * (V - means[group]), 0.0)
    np.testing.assert_allclose(out, centred, atol=1e-14)


@pytest.mark.parametrize("dtype", PRECISIONS)
def test_an_offset_costs_the_means_no_digits(dtype):
    V, group, weight, mass = grouped_rows(0, dtype, offset=2.0**20)
    exact = reference.group_means(V.astype(float) - 2.0**20, group, weight, len(mass))
    found = kernels.group_means(V, group, weight, mass) - 2.0**20
    is_used = np.bincount(group[group >= 0], minlength=len(mass)) > 0
    np.testing.assert_allclose(found[is_used], exact[is_used], atol=2.0**-32)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0), (0, 0)])
def test_rows_without_entries_have_no_means_and_no_products(shape):
    V, group, weight = np.zeros(shape), np.zeros(shape[0], dtype=np.intp), np.ones(shape[0])
    means = kernels.group_means(V, group, weight, np.ones(2))
    np.testing.assert_array_equal(means, np.zeros((2, shape[1])))
    out, product = np.empty(shape), np.zeros((1, shape[1]))
    kernels.centred_rows(V, means, group, weight, out)
    kernels.anchored_product(V, weight[:, None], group, product)
    none = np.zeros(0, dtype=np.intp)
    assert kernels.laplacian_product(V, none, none, np.zeros(0), shape[1]).shape == shape
    assert kernels.squared_distances(V, none, none).shape == (0,)
    np.testing.assert_array_equal(product, 0.0)


@pytest.mark.parametrize("n_columns", [0, 1, 2, 33])
def test_rows_are_reflected_as_by_a_householder_matrix(n_columns):
    rng = np.random.default_rng(n_columns)
    V = rng.normal(size=(30, n_columns))
    rows, starts = rng.permutation(30)[:20], np.array([0, 2, 9, 20])
    weight, degree = rng.uniform(0.2, 2.0, size=20), np.repeat([0.5, 2.0, 3.0], [2, 7, 11])
    axis, scale = np.empty(20), np.sqrt(weight * degree)
    expected = []
    for begin, end in pairwise(starts.tolist()):
        part = slice(begin, end)
        axis[part] = np.sqrt(weight[part] / weight[part].sum())
        expected.append(reference.householder_rows(V[rows[part]], axis[part], scale[part]))
    out = np.empty((17, n_columns))
    groups, begins = np.array([2, 0, 1]), np.array([7, 0, 1])
    kernels.reflect_rows(*frozen(V, rows, starts, axis, scale, groups, begins), out)
    np.testing.assert_allclose(out, np.concatenate(expected), atol=1e-13)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("n_outputs", [0, 1, 3])
def test_anchored_products_are_products_with_differences(n_outputs, dtype):
    rng = np.random.default_rng(n_outputs)
    Z = (1e3 + rng.normal(size=(50, 7))).astype(dtype)
    R = np.where(rng.random((50, n_outputs)) < 0.2, 0.0, rng.normal(size=(50, n_outputs)))
    anchor = rng.integers(0, 50, size=50)
    out = np.zeros((n_outputs, 7))
    kernels.anchored_product(*frozen(Z), np.asfortranarray(R), *frozen(anchor), out)
    expected = R.T @ (Z.astype(float) - Z[anchor])
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("n_columns", [1, 6, 20])
def test_products_of_weighted_pairs_are_those_of_their_laplacian(n_columns, dtype):
    rng = np.random.default_rng(n_columns)
    pairs, weight = rng.integers(0, 20, size=(60, 2)), rng.normal(size=60)
    A = reference.difference_rows(pairs, 20)
    L = A.T @ (weight[:, None] * A)
    V = rng.normal(size=(20, n_columns)).astype(dtype)
    full = kernels.laplacian_product(*frozen(V), *pairs.T, weight, n_columns)
    np.testing.assert_allclose(full, L @ V, atol=1e-12)
    low = np.tril(V)
    half = kernels.laplacian_product(*frozen(low), *pairs.T, weight, 1)
    np.testing.assert_allclose(half, L @ low, atol=1e-12)


@pytest.mark.parametrize("n_columns", [1, 7, 8, 9, 30])
def test_squared_distances_are_those_of_differences(n_columns):
    rng = np.random.default_rng(n_columns)
    V, pairs = rng.normal(size=(20, n_columns)), rng.integers(0, 20, size=(60, 2))
    expected = np.square(V[pairs[:, 0]] - V[pairs[:, 1]]).sum(axis=1)
    np.testing.assert_allclose(
        kernels.squared_distances(*frozen(V), *pairs.T), expected, rtol=1e-14
    )


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("n_columns", [1, 3, 8, 13, 16, 31, 46, 70])
def test_loops_over_rows_add_up_in_one_order_whatever_the_registers(n_columns, dtype):
    """To the last bit what NumPy finds row by row."""
    V, group, weight, mass = grouped_rows(0, dtype, n_columns=n_columns, offset=3.0)
    rng, wide, n_items = np.random.default_rng(n_columns), V.astype(float), len(V)
    sums, first = np.zeros((len(mass), n_columns)), {}
    for i in np.flatnonzero(group >= 0):
        start = first.setdefault(group[i], i)
        sums[group[i]] += weight[i] * (wide[i] - wide[start])
    expected = np.zeros_like(sums)
    for g, start in first.items():
        expected[g] = wide[start] + sums[g] / mass[g]
    np.testing.assert_array_equal(kernels.group_means(V, group, weight, mass), expected)

    pairs = rng.integers(0, n_items, size=(80, 2))  # some of an item with itself
    flows, product = np.zeros((n_items, n_columns)), np.zeros((1, n_columns))
    for i, (a, b) in enumerate(pairs[:n_items]):
        flow = weight[i] * (wide[a] - wide[b])
        flows[a] += flow
        flows[b] -= flow
        product[0] += weight[i] * (wide[i] - wide[a])
    found = kernels.laplacian_product(V, *pairs[:n_items].T, weight, n_columns)
    np.testing.assert_array_equal(found, flows)
    anchored = np.zeros((1, n_columns))
    kernels.anchored_product(V, weight[:, None], np.ascontiguousarray(pairs[:n_items, 0]), anchored)
    np.testing.assert_array_equal(anchored, product)
