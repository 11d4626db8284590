"""Passes over rows against dense matrices, sparse ones in every precision and width of indices."""

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from rankwise.native import rows as kernels

KINDS = [(v, i) for v in (np.float64, np.float32) for i in (np.uint16, np.int32)]
SHAPES = [(30, 17), (1, 5), (0, 4), (6, 0)]


def frozen(*arrays):
    """Return copies that may not be written to."""
    copies = [np.array(array) for array in arrays]
    for copy in copies:
        copy.flags.writeable = False
    return copies


@pytest.fixture(params=KINDS, ids=lambda kind: f"{kind[0].__name__}-{kind[1].__name__}")
def kind(request):
    return request.param


@pytest.fixture(params=SHAPES, ids=str)
def given(request, kind):
    """Return the arrays of frozen sparse rows, some of them empty, and the dense matrix."""
    rng, (n_items, n_features) = np.random.default_rng(0), request.param
    X = np.where(rng.random((n_items, n_features)) < 0.4, rng.normal(size=request.param), 0.0)
    X[n_items // 2 :: 7] = 0.0
    X = X.astype(kind[0])
    S = sparse.csr_array(X)
    arrays = frozen(S.data, S.indices.astype(kind[1]), S.indptr.astype(np.int64))
    return arrays, X.astype(float), rng


def in_parts(task, n_items, n_parts=3):
    """Run ``task(first, last)`` for parts of the rows side by side."""
    edges = (n_items * np.arange(n_parts + 1) // n_parts).tolist()
    with ThreadPoolExecutor(n_parts) as pool:
        list(pool.map(lambda part: task(*part), pairwise(edges)))


def test_products_with_vectors(given):
    arrays, X, rng = given
    (w,) = frozen(rng.normal(size=X.shape[1]))
    out = np.full(len(X), np.nan)
    in_parts(lambda a, b: kernels.row_products(*arrays, w, a, b, out), len(X))
    np.testing.assert_allclose(out, X @ w, atol=1e-13)
    v = np.where(rng.random(len(X)) < 0.3, 0.0, rng.normal(size=len(X)))
    sums = np.zeros(X.shape[1])
    kernels.add_rows(*arrays, *frozen(v), 0, len(X), sums)
    np.testing.assert_allclose(sums, v @ X, atol=1e-13)


@pytest.mark.parametrize(
    "shape", [(20, 46), (1, 1), (3, 4), (9, 7), (5, 2), (0, 3), (4, 0)], ids=str
)
def test_products_of_dense_rows_are_exact_to_rounding_and_equal_for_equal_rows(shape):
    rng = np.random.default_rng(0)
    once = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 4, shape)
    X, w = frozen(np.concatenate([once, once]), rng.normal(size=shape[1]))
    out = np.full(len(X), np.nan)
    kernels.dense_products(X, w, out)
    assert out[: len(once)].tobytes() == out[len(once) :].tobytes()
    right = np.array([math.fsum(terms) for terms in X * w])  # exact sums of rounded products
    bound = (shape[1] + 1) * np.finfo(float).eps * np.abs(X * w).sum(axis=1)
    assert np.all(np.abs(out - right) <= bound)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_products_of_dense_rows_leave_out_no_entry(bad):
    X, w, out = np.zeros((5, 6)), np.zeros(6), np.zeros(5)
    X[range(5), range(5)] = bad
    kernels.dense_products(X, w, out)
    assert np.isnan(out).all()


@pytest.mark.parametrize("width", [4, 8])
def test_products_with_several_vectors(given, width):
    arrays, X, rng = given
    W, V = frozen(rng.normal(size=(X.shape[1], width)), rng.normal(size=(len(X), width - 3)))
    out = np.full((len(X), width), np.nan)
    in_parts(lambda a, b: kernels.row_products_of_few(*arrays, W, a, b, out), len(X))
    np.testing.assert_allclose(out, X @ W, atol=1e-13)
    sums = np.zeros((X.shape[1], width - 3))
    kernels.add_rows_of_many(*arrays, V, 0, len(X), sums)
    np.testing.assert_allclose(sums, X.T @ V, atol=1e-13)


def test_sums_of_squares_and_of_groups(given):
    arrays, X, rng = given
    n_groups, n_items = 4, len(X)
    group, weight, factor = frozen(
        rng.integers(-1, n_groups, n_items), rng.normal(size=n_items), rng.normal(size=n_groups)
    )
    out = np.zeros(X.shape[1])
    kernels.add_squares(*arrays, weight, 0, n_items, out)
    np.testing.assert_allclose(out, weight @ X**2, atol=1e-13)
    sums = np.zeros((n_groups, X.shape[1]))
    kernels.add_group_rows(*arrays, group, weight, sums)
    member = np.equal.outer(np.arange(n_groups), group)
    np.testing.assert_allclose(sums, member @ (weight[:, None] * X), atol=1e-13)
    items = np.concatenate([np.flatnonzero(row) for row in member]).astype(np.intp)
    starts = np.concatenate([[0], np.cumsum(member.sum(axis=1))])
    out = np.zeros(X.shape[1])
    for part in (0, 2), (2, n_groups):
        kernels.add_group_squares(*arrays, *frozen(items, starts), weight, factor, *part, out)
    np.testing.assert_allclose(out, factor @ sums**2, atol=1e-12)


def test_a_groupwise_map_is_applied_in_one_pass(given):
    arrays, X, rng = given
    group, slope, weight = frozen(
        rng.integers(-1, 3, len(X)), rng.normal(size=len(X)), rng.normal(size=len(X))
    )
    centre, pull = frozen(*rng.normal(size=(2, 3)))
    w = rng.normal(size=X.shape[1])
    both = np.column_stack([w, np.zeros(len(w))]).ravel()
    kernels.groupwise_pass(*arrays, group, slope, weight, centre, pull, 0, len(X), both)
    v = slope * (X @ w - centre[group]) + weight * pull[group]
    np.testing.assert_allclose(both[1::2], np.where(group >= 0, v, 0.0) @ X, atol=1e-12)
    np.testing.assert_array_equal(both[::2], w)


def test_blocks_are_drawn_to_the_means_of_groups_and_these_to_their_own(kind):
    rng = np.random.default_rng(1)
    X = sparse.random_array((24, 9), density=0.5, rng=rng, data_sampler=rng.standard_normal)
    X = X.tocsr().astype(kind[0])
    arrays = frozen(X.data, X.indices.astype(kind[1]), X.indptr.astype(np.int64))
    starts, first_group = np.array([0, 10, 10, 24]), np.array([2, 4, 5, 8])
    group = np.concatenate([rng.integers(2, 4, 10), rng.integers(5, 8, 14)])
    group[::6] = -1
    slope, share = rng.normal(size=(2, 24))
    between_slope, between_share = rng.normal(size=(2, 8))
    w, out = rng.normal(size=9), np.zeros(9)
    items = frozen(w, starts, first_group, group, slope, share, between_slope, between_share)
    for block in range(3):
        kernels.block_pass(*arrays, *items, block, block + 1, out)
    p, v = X.toarray().astype(float) @ w, np.zeros(24)
    means = np.array([share[group == g] @ p[group == g] for g in range(8)])
    for b in range(3):
        own = slice(first_group[b], first_group[b + 1])
        block_mean = between_share[own] @ means[own]
        for i in range(starts[b], starts[b + 1]):
            if group[i] >= 0:
                g = group[i]
                pull = between_slope[g] * (means[g] - block_mean)
                v[i] = slope[i] * (p[i] - means[g]) + share[i] * pull
    np.testing.assert_allclose(out, v @ X.toarray().astype(float), atol=1e-12)


def test_rows_are_copied_and_columns_counted_and_renumbered(given):
    (data, indices, indptr), X, rng = given
    n_items, n_features = X.shape
    items = rng.integers(0, n_items, 9 if n_items else 0)
    starts = np.concatenate([[0], np.cumsum(indptr[items + 1] - indptr[items])])
    out, columns = np.empty(starts[-1], data.dtype), np.empty(starts[-1], indices.dtype)
    for entries, copy in ((data, out), (indices, columns)):
        as_bytes = [a.view(np.uint8).reshape(len(a), a.itemsize) for a in (entries, copy)]
        kernels.copy_rows(
            as_bytes[0], indptr, *frozen(items, starts), 0, len(items), as_bytes[1]
        )  # fmt: skip
    copied = sparse.csr_array((out, columns.astype(int), starts), shape=(len(items), n_features))
    np.testing.assert_array_equal(copied.toarray(), X[items])
    indices = indices.astype(np.int32)
    counts = np.zeros(n_features)
    kernels.count_columns(indices, 0, len(indices), counts)
    np.testing.assert_array_equal(counts, (X != 0).sum(axis=0))
    number = rng.permutation(n_features).astype(np.uint16)
    renumbered = np.empty(len(indices), np.uint16)
    kernels.renumber_columns(indices, *frozen(number), 0, len(indices), renumbered)
    np.testing.assert_array_equal(renumbered, number[indices])


@pytest.mark.parametrize("n_near", [0, 6, 100])
def test_packed_rows_begin_with_their_nearest_columns(given, n_near):
    (data, indices, indptr), X, rng = given
    data, indices = data.astype(np.float64), indices.astype(np.int32)
    number = rng.permutation(X.shape[1]).astype(np.uint16)
    out, columns = np.empty(len(data), np.float32), np.empty(len(data), np.uint16)
    kernels.pack_rows(
        data, indices, indptr, *frozen(number), n_near, 0, len(X), out, columns
    )  # fmt: skip
    for begin, end in pairwise(indptr.tolist()):
        given_numbers = number[indices[begin:end]]
        order = np.argsort(given_numbers >= n_near, kind="stable")
        np.testing.assert_array_equal(columns[begin:end], given_numbers[order])
        np.testing.assert_array_equal(out[begin:end], data[begin:end][order].astype(np.float32))


@pytest.mark.parametrize("n_columns", [0, 1, 7, 40])
def test_shifts_take_a_step_and_turn(n_columns):
    rng = np.random.default_rng(n_columns)
    W, P = rng.normal(size=(2, 4, n_columns))
    r, active, (step, zeta, beta) = rng.normal(size=n_columns), [0, 3], rng.normal(size=(3, 4, 1))
    expected_W, expected_P = W.copy(), P.copy()
    expected_W[active] += step[active] * P[active]
    expected_P[active] = zeta[active] * r + beta[active] * P[active]
    factors = frozen(r, active, *(a[:, 0] for a in (step, zeta, beta)))
    in_parts(lambda a, b: kernels.update_shifts(W, P, *factors, a, b), n_columns)
    np.testing.assert_allclose(W, expected_W, rtol=1e-14)
    np.testing.assert_allclose(P, expected_P, rtol=1e-14)
