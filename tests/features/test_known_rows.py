"""Rows are known again after rounding, and no other row is taken for a known one."""

import io

import numpy as np
import pytest

from rankwise.features.known_rows import ROUNDING, KnownRows

RNG = np.random.default_rng(0)
TABLES = {
    "normal": RNG.normal(size=(60, 3)),
    "offsets": RNG.normal(loc=[1000.0, -50.0, 0.0], size=(60, 3)),
    "scales": RNG.normal(size=(60, 3)) * [1e-12, 1.0, 1e20],
    "heavy tails": np.exp(4.0 * RNG.normal(size=(60, 3))),
    "many zeros": RNG.normal(size=(60, 5)) * (RNG.random((60, 5)) < 0.4),
    "whole numbers": np.stack(np.unravel_index(np.arange(60), (4, 5, 3)), axis=1).astype(float),
    "one row": RNG.normal(size=(1, 3)),
    "a constant": np.column_stack([np.arange(60.0), np.zeros(60), np.full(60, 7.0)]),
    "the whole range": RNG.normal(size=(60, 2)) * [1e-300, 1e300],
}


def through_text(X, form):
    text = io.StringIO()
    np.savetxt(text, X, fmt=form)
    text.seek(0)
    return np.loadtxt(text, ndmin=2)


def naive(known, X):
    """Compare every row with every known one."""
    found = X.copy()
    for place, x in enumerate(X):
        apart = np.max(np.abs(x - known.rows) / known.widths, axis=1)
        nearest, *others = np.argsort(apart, kind="stable")
        is_alone = not others or 2.0 * apart[nearest] <= apart[others[0]]
        if apart[nearest] <= ROUNDING and is_alone:
            found[place] = known.rows[nearest]
    return found


@pytest.mark.parametrize("X", TABLES.values(), ids=TABLES)
def test_rows_are_known_again_from_six_digits_and_single_precision(X):
    known = KnownRows.of(X)
    np.testing.assert_array_equal(known.in_place_of(X), X)
    np.testing.assert_array_equal(known.in_place_of(through_text(X, "%.6g")), X)
    if np.abs(X).max() < 1e38:
        np.testing.assert_array_equal(known.in_place_of(X.astype(np.float32).astype(float)), X)


@pytest.mark.parametrize("X", TABLES.values(), ids=TABLES)
def test_other_rows_stay_as_they_are(X):
    """Also rows that differ in one feature only, by little."""
    known = KnownRows.of(X)
    for j in range(X.shape[1]):
        near = X.copy()
        near[:, j] += (
            3e-5 * known.widths[:, j].max()
            if len(X) == 1
            else 3e-5 * np.hypot(X[:, j], known.small[j])
        )
        is_new = ~np.isin(near[:, j], X[:, j])
        np.testing.assert_array_equal(known.in_place_of(near)[is_new], near[is_new])


@pytest.mark.parametrize("seed", range(5))
def test_it_equals_comparing_all_rows(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 2)) * [1.0, 1e5]
    X[1::4] = X[::4] * (1.0 + 1e-5 * rng.normal(size=(10, 2)))  # rows within the rounding
    known = KnownRows.of(X)
    new = np.repeat(X, 30, axis=0)
    new *= 1.0 + ROUNDING * rng.normal(size=new.shape) * rng.choice([0.1, 1.0, 3.0], (len(new), 1))
    np.testing.assert_array_equal(known.in_place_of(new), naive(known, new))


def test_of_two_known_rows_the_nearer_is_meant_or_neither():
    """The nearest if the next is at least twice as far; else it cannot be told which is meant."""
    first, second = 1.0, 1.0 + 3e-6
    known = KnownRows.of(np.array([[first], [second], [5.0]]))
    rows = np.array([[first], [second], [1.0 + 0.5e-6], [1.0 + 1.4e-6], [1.0 + 2.7e-6]])
    expected = np.array([[first], [second], [first], [1.0 + 1.4e-6], [second]])
    np.testing.assert_array_equal(known.in_place_of(rows), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_that_items_share_stands_for_none_of_them(dtype):
    known = KnownRows.of(np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 3.0]]), are_apart=True)
    rows = known.stand_ins(dtype)
    assert rows.dtype == dtype
    order = np.argsort(known.is_shared)
    np.testing.assert_array_equal(rows[order[0]], [0.0, 3.0])
    assert rows[order[1], 0] == np.nextafter(dtype(1.0), dtype(2.0))
    np.testing.assert_array_equal(KnownRows.of(known.rows).stand_ins(), known.rows)
