"""Rows that are equal to each other."""

import numpy as np
import pytest

from rankwise.core.arrays import first_equal


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
