"""Visits of queries for linear ranking functions: scores, oracle, dual steps, weights."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import MAKES_NO_ARRAYS, njit
from rankwise.rankers.dorm.oracles.assignment import OracleTargets, Scratch
from rankwise.rankers.dorm.oracles.assignment_kernels import BETA, GIVEN_SCORES, START, WEIGHT
from rankwise.rankers.dorm.planes import (
    KNOWN,
    ORACLE,
    SIZES,
    Planes,
    fill_combination,
    fill_products,
    find_plane,
    improve,
)


class QueryRows(NamedTuple):
    """The features of the items, query by query, as sparse rows.

    They number their columns in a list that their query has of its own, so that all vectors of a
    query are as short as the number of features that occur in it.
    """

    data: FloatArray  # (n_nonzeros,)
    numbers: NDArray[np.int32]  # (n_nonzeros,), in the query's list of columns
    row_starts: IntArray  # (n_items + 1,)
    columns: IntArray  # the lists of all queries
    column_starts: IntArray  # (n_queries + 1,)


@njit(**MAKES_NO_ARRAYS, is_scalar=True)
def visit_dense(
    targets: OracleTargets,
    X: FloatArray,
    planes: Planes,
    scratch: Scratch,
    points: FloatArray,
    queries: IntArray,
    which: int,
    loss: float,
    w: FloatArray,
) -> float:
    """Visit queries in turn, moving ``w`` each time; return the sum of their gaps.

    A visit costs two products with the query's rows and the oracle, and O(size) for each plane.

    Parameters
    ----------
    X : (n_items * n_features,)
        Row by row.
    which
        Look at known planes only, or also at one that the oracle finds, or at a given one, whose
        coefficients stand in the scratch.
    loss
        Of the given plane.
    """
    vectors, integers, slots, grams, room = planes
    starts, size, gap, is_new = targets.bounds[START], len(w), 0.0, which != KNOWN
    vector, direction = points[1], points[2]
    g, beta = scratch.floats[GIVEN_SCORES], scratch.floats[BETA]
    for k in range(len(queries)):
        q = queries[k]
        first, n_items, C = starts[q], starts[q + 1] - starts[q], targets.weights[WEIGHT, q]
        if which == ORACLE:
            fill_products(X, first * size, size, 0, n_items, w, size, g)
            loss = find_plane(targets, scratch, q)
        if is_new:
            fill_combination(X, first * size, size, 0, n_items, beta, 1.0, size, vector)
        gap += improve(
            vectors, integers, slots, grams, room, q, C, w, vector, vector, loss, is_new, direction
        )
        for j in range(size):
            w[j] += direction[j]
    return gap


@njit(**MAKES_NO_ARRAYS, is_scalar=True)
def visit_sparse(
    targets: OracleTargets,
    rows: QueryRows,
    planes: Planes,
    scratch: Scratch,
    points: FloatArray,
    queries: IntArray,
    which: int,
    loss: float,
    w: FloatArray,
) -> float:
    """Visit queries with sparse rows in turn; as for dense ones."""
    vectors, integers, slots, grams, room = planes
    starts, gap, is_new = targets.bounds[START], 0.0, which != KNOWN
    row_starts, columns, data, numbers = rows.row_starts, rows.columns, rows.data, rows.numbers
    local, vector, move = points[0], points[1], points[2]
    g, beta = scratch.floats[GIVEN_SCORES], scratch.floats[BETA]
    for k in range(len(queries)):
        q = queries[k]
        first, n_items, C = starts[q], starts[q + 1] - starts[q], targets.weights[WEIGHT, q]
        at, size = rows.column_starts[q], integers[SIZES, q]
        for j in range(size):
            local[j] = w[columns[at + j]]
            vector[j] = 0.0
        if which == ORACLE:
            for i in range(n_items):
                score = 0.0
                for p in range(row_starts[first + i], row_starts[first + i + 1]):
                    score += data[p] * local[np.uint32(numbers[p])]
                g[i] = score
            loss = find_plane(targets, scratch, q)
        if is_new:
            for i in range(n_items):
                factor = beta[i]
                if factor != 0.0:
                    for p in range(row_starts[first + i], row_starts[first + i + 1]):
                        vector[np.uint32(numbers[p])] += factor * data[p]
        gap += improve(
            vectors,
            integers,
            slots,
            grams,
            room,
            q,
            C,
            local,
            vector,
            vector,
            loss,
            is_new,
            move,
        )
        for j in range(size):
            w[columns[at + j]] += move[j]
    return gap
