"""Array types shared by every layer."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from rankwise.core.errors import InvalidInputError

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]
BoolArray: TypeAlias = NDArray[np.bool_]
Matrix: TypeAlias = Any
"""Rows of features: a dense array or a SciPy CSR array, whose types have no common base."""

RUN = 1024
"""Entries that NumPy reduces in one go where columns are few, so that rows cost nothing."""

LARGEST_NUMBER = (1 << 63) - 1
"""The largest integer of 64 bits."""

RUNS = 128
"""Runs whose largest entries are found while their least ones have brought them into cache."""


def freeze(array: NDArray) -> NDArray:
    """Return a read-only view of ``array``, so that frozen values stay what they are."""
    view = array.view()
    view.flags.writeable = False
    return view


def sum_by(index: IntArray, values: FloatArray, length: int) -> FloatArray:
    """Sum the values that share an index, for indices 0 to length - 1."""
    totals: FloatArray = np.bincount(index, values, length).astype(float, copy=False)
    return totals


def starts_of(sizes: ArrayLike) -> IntArray:
    """Return where parts of these sizes begin, one after the other, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.intp)])


def parts_of(starts: IntArray) -> IntArray:
    """Return the number of the part that each entry is in, given where the parts begin."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def column_ranges(X: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the least and the largest entry of every column of dense rows.

    Narrow rows are reduced several at a time: four times as fast for 20 columns.
    """
    n_items, n_columns = X.shape
    together = max(1, RUN // max(1, n_columns))
    whole = n_items // together * together
    parts = [X[whole:]] if whole < n_items else []
    if whole:
        runs = X[:whole].reshape(-1, together * n_columns)
        low, high = runs[0].copy(), runs[0].copy()
        for k in range(0, len(runs), RUNS):
            block = runs[k : k + RUNS]
            np.minimum(low, block.min(axis=0), out=low)
            np.maximum(high, block.max(axis=0), out=high)
        parts.append(np.stack([low, high]).reshape(-1, n_columns))
    rows = np.concatenate(parts)
    return rows.min(axis=0), rows.max(axis=0)


def counting_order(numbers: NDArray[Any]) -> IntArray:
    """Return the stable order of integers of 0 or more, ten times as fast as a plain argsort.

    They are sorted by 16 bits at a time, from the last to the first, which NumPy does by counting.
    """
    whole, shift = numbers.astype(np.uint64, copy=False), np.uint64(16)
    largest = whole.max(initial=0)
    order = np.argsort(whole.astype(np.uint16), kind="stable")
    while shift < 64 and largest >> shift:
        digits = (whole >> shift).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
        shift += np.uint64(16)
    return order


def distinct_integers(values: NDArray[Any]) -> tuple[NDArray[Any], IntArray, IntArray]:
    """Return what ``np.unique`` does: values, where each is first, and the number of each entry.

    Parameters
    ----------
    values : (n_values,)
        Integers of any type, at least one.
    """
    order = counting_order(values.astype(np.uint64) - values.min().astype(np.uint64))
    ranked = values[order]
    is_first = np.append(True, ranked[1:] != ranked[:-1])
    inverse = np.empty_like(order)
    inverse[order] = np.cumsum(is_first) - 1
    return ranked[is_first], order[is_first], inverse


def joint_numbers(*columns: NDArray[Any]) -> IntArray:
    """Return a number for every row of some columns; they are equal, and in order, as rows are.

    Parameters
    ----------
    *columns : (n_rows,)
        Integers from 0 to 2^31 - 1, of at least one row.
    """
    size, number = 1, np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        n_values = int(column.max()) + 1
        if size * n_values > LARGEST_NUMBER:
            number = distinct_integers(number)[2]
            size = int(number.max()) + 1
        number = number * n_values + column
        size *= n_values
    return distinct_integers(number)[2]


def first_equal(X: FloatArray) -> IntArray:
    """Return for every row the number of the first row that is equal to it. One sort.

    Parameters
    ----------
    X : (n_rows, n_columns)
        Finite numbers.
    """
    rows = np.ascontiguousarray(X + 0.0)  # which makes 0 of -0
    keys = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return first[group]


def copy_numbers(first: IntArray) -> IntArray:
    """Give copies of a row numbers: 0 for the first of equal rows, 1 for the next, and so on.

    Parameters
    ----------
    first : (n_rows,)
        As `first_equal` returns it.
    """
    order = np.argsort(first, kind="stable")
    starts = np.searchsorted(first[order], first[order], side="left")
    numbers = np.empty(len(first), dtype=np.intp)
    numbers[order] = np.arange(len(first)) - starts
    return numbers


def as_columns(values: FloatArray) -> FloatArray:
    """Return values of shape (n,) or (n, k) as a matrix of columns."""
    return values[:, None] if values.ndim == 1 else values


def raw_rows(Z: Any) -> NDArray[Any]:
    """Return dense rows as numbers, or as objects where some are text."""
    if sparse.issparse(Z):
        return Z.toarray()
    try:
        rows = np.asarray(Z)
    except ValueError as error:
        raise InvalidInputError(f"Rows must have the same length: {error}.") from error
    has_text = rows.dtype == object and any(isinstance(value, str) for value in rows.flat)
    if has_text or rows.dtype.kind in "US":
        return rows.astype(object, copy=False)
    try:
        return rows.astype(float, copy=False)
    except (OverflowError, TypeError, ValueError) as error:
        raise InvalidInputError(f"Rows must hold numbers or text: {error}.") from error


def dense_rows(Z: Matrix) -> FloatArray:
    """Return rows as a dense array of double precision, without a copy where they are one."""
    return Z.toarray() if sparse.issparse(Z) else np.asarray(Z, dtype=float)
