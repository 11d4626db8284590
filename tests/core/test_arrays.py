"""Ranges of columns, and rows that are equal to each other."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from rankwise.core.arrays import (
    column_ranges,
    counting_order,
    distinct_integers,
    first_equal,
    joint_numbers,
    parts_of,
    starts_of,
)


@pytest.mark.parametrize("n_columns", [1, 3])
def test_every_row_knows_the_first_one_equal_to_it(n_columns):
    rng = np.random.default_rng(n_columns)
    X = rng.integers(-1, 2, size=(40, n_columns)) * 0.1
    X[3] = -X[3]  # minus zero is zero
    expected = [int(np.argmax((row == X).all(axis=1))) for row in X]
    assert first_equal(X).tolist() == expected
    assert first_equal(np.asfortranarray(X)).tolist() == expected


def test_different_rows_are_their_own_first():
    X = np.random.default_rng(0).normal(size=(20, 2))
    assert first_equal(X).tolist() == list(range(20))


@pytest.mark.parametrize("largest", [0, 1, 3, 2**31 - 1])
@pytest.mark.parametrize("n_columns", [1, 2, 5])
def test_rows_are_numbered_as_by_unique_rows(n_columns, largest):
    rng = np.random.default_rng(n_columns)
    few = rng.integers(0, largest, size=(n_columns, 3), endpoint=True)
    few[:, 0] = largest
    columns = [rng.choice(values, size=60) for values in few]
    _, expected = np.unique(np.stack(columns), axis=1, return_inverse=True)
    assert_array_equal(joint_numbers(*columns), expected.reshape(-1))


SHAPES = [(1, 1), (7, 3), (341, 3), (342, 3), (1025, 1), (5, 2000), (300, 1100), (140_000, 1)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_ranges_of_columns(shape, dtype):
    X = np.random.default_rng(0).normal(size=shape).astype(dtype)
    low, high = column_ranges(X)
    assert_array_equal(low, X.min(axis=0))
    assert_array_equal(high, X.max(axis=0))
    X[-1, 0] = np.nan
    assert [np.isnan(bounds[0]) for bounds in column_ranges(X)] == [True, True]


@pytest.mark.parametrize("largest", [0, 1, 2**16 - 1, 2**16, 2**32, 2**48 + 5, 2**63 - 1])
def test_integers_are_ordered_as_by_a_stable_argsort(largest):
    rng = np.random.default_rng(0)
    numbers = rng.choice(rng.integers(0, largest, 300, endpoint=True), 1000)
    numbers[::7] = largest
    assert_array_equal(counting_order(numbers), np.argsort(numbers, kind="stable"))
    assert_array_equal(counting_order(numbers[:0]), [])


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
)
@pytest.mark.parametrize("n_values", [1, 2, 500])
def test_distinct_integers_are_those_of_unique(dtype, n_values):
    rng = np.random.default_rng(1)
    if dtype == "bool":
        values = rng.random(n_values) < 0.5
    else:
        ends = np.iinfo(dtype)
        drawn = rng.integers(ends.min, ends.max, n_values, dtype=dtype, endpoint=True)
        values = rng.choice(np.append(drawn, np.array([ends.min, ends.max], dtype)), n_values)
    expected = np.unique(values, return_index=True, return_inverse=True)
    for found, wanted in zip(distinct_integers(values), expected, strict=True):
        assert_array_equal(found, wanted)
        assert found.dtype == wanted.dtype


@pytest.mark.parametrize("sizes", [[3, 1, 0, 2], [0], [4], []])
def test_parts_follow_each_other(sizes):
    starts, listed = (
        starts_of(sizes),
        [part for part, size in enumerate(sizes) for _ in range(size)],
    )
    assert starts.tolist() == [sum(sizes[:k]) for k in range(len(sizes) + 1)]
    assert parts_of(starts).tolist() == listed
