"""Visits of queries for linear ranking functions: scores, oracle, dual steps, weights."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import njit
from rankwise.rankers.dorm.oracles.assignment import Scratch, assign_queries
from rankwise.rankers.dorm.planes import OracleTargets, Planes, cut, dot, improve


class PackedRows(NamedTuple):
    """The features of the items, query by query: a dense matrix, or sparse rows.

    Sparse rows number their columns in a list that their query has of its own, so that all
    vectors of a query are as short as the number of features that occur in it.
    """

    dense: FloatArray  # (n_items, n_features), or (0, 0) for sparse rows
    data: FloatArray  # (n_nonzeros,)
    numbers: NDArray[np.int32]  # (n_nonzeros,), in the query's list of columns
    row_starts: IntArray  # (n_items + 1,), or (0,) for dense rows
    columns: IntArray  # the lists of all queries
    column_starts: IntArray  # (n_queries + 1,)


@njit(cache=True, nogil=True, inline="always")
def _gather(rows: PackedRows, q: int, w: FloatArray) -> FloatArray:
    """Return the weights of the features that occur in a query."""
    if len(rows.row_starts) == 0:
        return w.copy()
    first = rows.column_starts[q]
    local = np.empty(rows.column_starts[q + 1] - first)
    for i in range(len(local)):
        local[i] = w[rows.columns[first + i]]
    return local


@njit(cache=True, nogil=True, inline="always")
def _add_to(rows: PackedRows, q: int, factor: float, vector: FloatArray, w: FloatArray) -> None:
    if len(rows.row_starts) == 0:
        for i in range(len(w)):
            w[i] += factor * vector[i]
    else:
        first = rows.column_starts[q]
        for i in range(len(vector)):
            w[rows.columns[first + i]] += factor * vector[i]


@njit(cache=True, nogil=True, inline="always")
def _product(rows: PackedRows, first: int, w: FloatArray, g: FloatArray) -> None:
    """Fill the scores of consecutive items."""
    dense, data, numbers, starts = rows.dense, rows.data, rows.numbers, rows.row_starts
    for i in range(len(g)):
        if len(starts) == 0:
            g[i] = dot(dense[first + i], w)
        else:
            score = 0.0
            for at in range(starts[first + i], starts[first + i + 1]):
                score += data[at] * w[np.uint32(numbers[at])]
            g[i] = score


@njit(cache=True, nogil=True, inline="always")
def _combination(rows: PackedRows, first: int, beta: FloatArray, vector: FloatArray) -> None:
    """Fill the sum of consecutive items' features, each times its coefficient."""
    dense, data, numbers, starts = rows.dense, rows.data, rows.numbers, rows.row_starts
    for j in range(len(vector)):
        vector[j] = 0.0
    for i in range(len(beta)):
        if beta[i] == 0.0:
            continue
        if len(starts) == 0:
            row = dense[first + i]
            for j in range(len(vector)):
                vector[j] += beta[i] * row[j]
        else:
            for at in range(starts[first + i], starts[first + i + 1]):
                vector[np.uint32(numbers[at])] += beta[i] * data[at]


@njit(cache=True, nogil=True)
def visit(
    targets: OracleTargets,
    rows: PackedRows,
    planes: Planes,
    scratch: Scratch,
    queries: IntArray,
    w: FloatArray,
) -> float:
    """Visit queries in turn with the oracle, moving ``w`` each time; return the sum of their gaps.

    A visit costs two products with the query's rows and the oracle, and O(size) for each plane.
    """
    gap = 0.0
    for q in queries:
        first = targets.plan.starts[q]
        n_items = targets.plan.starts[q + 1] - first
        g, beta = np.empty(n_items), np.empty(n_items)
        positions = np.empty(n_items, np.intp)
        local = _gather(rows, q, w)
        vector, direction = np.empty(len(local)), np.empty(len(local))
        _product(rows, first, local, g)
        assign_queries(targets.plan, scratch, g, q, q + 1, positions)
        loss = cut(targets, q, positions, beta)
        _combination(rows, first, beta, vector)
        gap += improve(planes, q, targets.C[q], local, vector, vector, loss, True, direction)
        _add_to(rows, q, 1.0, direction, w)
    return gap


@njit(cache=True, nogil=True)
def visit_given(
    targets: OracleTargets,
    rows: PackedRows,
    planes: Planes,
    q: int,
    beta: FloatArray,
    loss: float,
    w: FloatArray,
) -> float:
    """Visit one query with a plane found elsewhere."""
    local = _gather(rows, q, w)
    vector, direction = np.empty(len(local)), np.empty(len(local))
    _combination(rows, targets.plan.starts[q], beta, vector)
    gap = improve(planes, q, targets.C[q], local, vector, vector, loss, True, direction)
    _add_to(rows, q, 1.0, direction, w)
    return gap


@njit(cache=True, nogil=True)
def revisit(
    targets: OracleTargets, rows: PackedRows, planes: Planes, queries: IntArray, w: FloatArray
) -> float:
    """Visit queries in turn with the planes they have; return the sum of the gaps these show."""
    gap = 0.0
    for q in queries:
        local = _gather(rows, q, w)
        direction = np.empty(len(local))
        gap += improve(planes, q, targets.C[q], local, local, local, 0.0, False, direction)
        _add_to(rows, q, 1.0, direction, w)
    return gap


@njit(cache=True, nogil=True)
def sum_planes(targets: OracleTargets, rows: PackedRows, planes: Planes, w: FloatArray) -> None:
    """Add all planes, times their weights, to ``w``."""
    for q in range(len(planes.counts)):
        size = planes.sizes[q]
        for slot in range(1, planes.counts[q]):
            first = planes.starts[q] + slot * size
            weight = targets.C[q] * planes.weights[q, slot]
            _add_to(rows, q, weight, planes.vectors[first : first + size], w)
