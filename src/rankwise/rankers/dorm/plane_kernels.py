"""The working set of cutting planes of each query, and the visits that improve on it.

A visit scores the items of a query, asks the oracle for a plane, takes it in, and moves the dual
weights of the query's planes: once for linear ranking functions, and once for those of a kernel,
whose planes are weights of items.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import CALLED_BY_KERNELS, GIVEN_FLOATS, MAKES_NO_ARRAYS, njit
from rankwise.rankers.dorm.oracles.assignment import OracleTargets, Scratch
from rankwise.rankers.dorm.oracles.assignment_kernels import (
    BETA,
    GIVEN_SCORES,
    IMAGE,
    LOSS,
    POSITIONS,
    START,
    WEIGHT,
    find_planes,
)

STEPS = 0.5  # pairwise steps in one visit of a query, at most, for each plane it may have
MAX_IDLE = 10  # visits that a plane without weight survives


class Planes(NamedTuple):
    """The planes ``loss - <vector, v>`` of each query and their dual weights.

    Slot 0 is the plane that is 0 everywhere; the weights of a query sum to 1. Vectors of a query
    have a length of their own and stand one after the other. All slots share the memory that is
    reserved for them, of which only those in use are ever touched. Few arrays, for compiled code.
    """

    vectors: FloatArray
    integers: IntArray  # starts, sizes, counts, (3, n_queries)
    slots: FloatArray  # losses, weights, idle, (3, n_queries, capacity)
    grams: FloatArray  # inner products of the vectors, (n_queries, capacity, capacity)
    room: FloatArray  # to work in, (2, capacity)

    @property
    def starts(self) -> IntArray:
        """Where the slots of each query begin in the vectors."""
        return self.integers[0]

    @property
    def sizes(self) -> IntArray:
        """Length of each query's vectors."""
        return self.integers[1]

    @property
    def counts(self) -> IntArray:
        """Number of slots in use."""
        return self.integers[2]

    @property
    def losses(self) -> FloatArray:
        """Loss of each plane, (n_queries, capacity)."""
        return self.slots[0]

    @property
    def weights(self) -> FloatArray:
        """Weight of each plane, (n_queries, capacity)."""
        return self.slots[1]


STARTS, SIZES, COUNTS = range(3)
LOSSES, WEIGHTS, IDLE = range(3)
"""Rows of the integers and of the slots; idle: visits since a plane lost its weight."""

KNOWN, ORACLE, GIVEN = range(3)
"""Which planes a visit looks at: known ones, one that the oracle finds, one found elsewhere."""


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


@njit(**MAKES_NO_ARRAYS, is_scalar=True)
def visit_kernel(
    targets: OracleTargets,
    K: FloatArray,
    planes: Planes,
    scratch: Scratch,
    points: FloatArray,
    queries: IntArray,
    which: int,
    loss: float,
    dual: FloatArray,
    scores: FloatArray,
) -> float:
    """Visit queries in turn; return the sum of their gaps.

    Keeps the scores of all items equal to K times the dual weights: a visit costs one product of
    the query's rows of K, and n_items^2 of the query for a new plane.

    Parameters
    ----------
    K : (n_items * n_items,)
        Row by row.
    which, loss
        As for linear ranking functions.
    """
    vectors, integers, slots, grams, room = planes
    starts, n_all = targets.bounds[START], len(scores)
    g, beta, image, direction = (
        scratch.floats[GIVEN_SCORES],
        scratch.floats[BETA],
        scratch.floats[IMAGE],
        points[2],
    )
    gap = 0.0
    for k in range(len(queries)):
        q = queries[k]
        first, n_items = starts[q], starts[q + 1] - starts[q]
        for i in range(n_items):
            g[i] = scores[first + i]
        if which == ORACLE:
            loss = find_plane(targets, scratch, q)
        if which != KNOWN:
            fill_products(K, first * (n_all + 1), n_all, 0, n_items, beta, n_items, image)
        C, is_new = targets.weights[WEIGHT, q], which != KNOWN
        gap += improve(
            vectors, integers, slots, grams, room, q, C, g, beta, image, loss, is_new, direction
        )
        for i in range(n_items):
            dual[first + i] += direction[i]
        add_rows(K, first, n_items, direction, scratch.integers[POSITIONS], scores)
    return gap


@njit(
    **CALLED_BY_KERNELS,
    apart="void(float64[::1], int64, int64, float64[::1], int64[::1], float64[::1])",
)
def add_rows(
    K: FloatArray,
    first: int,
    n_items: int,
    direction: FloatArray,
    used: IntArray,
    scores: FloatArray,
) -> None:
    """Add rows times coefficients to the scores, four at a time to touch the scores less often."""
    count, n_all = 0, len(scores)
    for i in range(n_items):
        if direction[i] != 0.0:
            used[count] = i
            count += 1
    for i in range(count, count + 3):
        used[i] = 0
    for i in range(0, count, 4):
        i0, i1, i2, i3 = used[i], used[i + 1], used[i + 2], used[i + 3]
        d0 = direction[i0]
        d1 = direction[i1] if i + 1 < count else 0.0
        d2 = direction[i2] if i + 2 < count else 0.0
        d3 = direction[i3] if i + 3 < count else 0.0
        r0, r1 = np.uintp((first + i0) * n_all), np.uintp((first + i1) * n_all)
        r2, r3 = np.uintp((first + i2) * n_all), np.uintp((first + i3) * n_all)
        for j in range(np.uintp(n_all)):
            scores[j] += d0 * K[r0 + j] + d1 * K[r1 + j] + d2 * K[r2 + j] + d3 * K[r3 + j]


@njit(cache=True, nogil=True, inline="always")
def find_plane(targets: OracleTargets, scratch: Scratch, q: int) -> float:
    """Find the plane that is highest at the scores of a query, and return its loss."""
    find_planes(
        targets.items,
        targets.weights,
        targets.bounds,
        targets.grades,
        targets.grade_gains,
        scratch.floats,
        scratch.integers,
        scratch.keys,
        scratch.values,
        scratch.last_grade,
        scratch.wheels,
        scratch.shifts,
        scratch.head_search,
        scratch.chain_search,
        q,
        q + 1,
        scratch.floats[GIVEN_SCORES],
        scratch.integers[POSITIONS],
        scratch.floats[BETA],
        scratch.floats[LOSS],
    )
    return scratch.floats[LOSS, 0]


_ROWS = f"{GIVEN_FLOATS}, int64, int64, int64, int64"


@njit(
    **CALLED_BY_KERNELS,
    fastmath={"reassoc", "contract"},  # sums are reordered to run on vector units
    apart=f"void({_ROWS}, {GIVEN_FLOATS}, int64, float64[::1])",
)
def fill_products(
    A: FloatArray,
    at: int,
    stride: int,
    begin: int,
    end: int,
    x: FloatArray,
    length: int,
    out: FloatArray,
) -> None:
    """Fill ``out[begin:end]`` with the inner products of rows and x.

    Row r of A begins at ``at + r * stride``.
    """
    for r in range(begin, end):
        total, own = 0.0, np.uintp(at + r * stride)
        for i in range(np.uintp(length)):
            total += A[own + i] * x[i]
        out[r] = total


@njit(
    **CALLED_BY_KERNELS,
    apart=f"void({_ROWS}, {GIVEN_FLOATS}, float64, int64, float64[::1])",
)
def fill_combination(
    A: FloatArray,
    at: int,
    stride: int,
    begin: int,
    end: int,
    coefficients: FloatArray,
    factor: float,
    length: int,
    out: FloatArray,
) -> None:
    """Fill ``out`` with the sum of the rows begin ... end - 1, times coefficients and a factor."""
    for i in range(length):
        out[i] = 0.0
    for r in range(begin, end):
        c, own = factor * coefficients[r], np.uintp(at + r * stride)
        if c != 0.0:
            for i in range(np.uintp(length)):
                out[i] += c * A[own + i]


@njit(
    **CALLED_BY_KERNELS,
    is_scalar=True,
    apart=(
        "float64(float64[::1], int64[:, ::1], float64[:, :, ::1], float64[:, :, ::1], "
        "float64[:, ::1], int64, float64, float64[::1], float64[::1], float64[::1], float64, "
        "boolean, float64[::1])"
    ),
)
def improve(
    vectors: FloatArray,
    integers: IntArray,
    slots: FloatArray,
    grams: FloatArray,
    room: FloatArray,
    q: int,
    C: float,
    v: FloatArray,
    vector: FloatArray,
    image: FloatArray,
    loss: float,
    is_new: bool,
    direction: FloatArray,
) -> float:
    """Take a new plane into the working set of a query and move weights towards the best planes.

    Maximises the dual over the weights of this query by steps between two planes, each exact.

    Parameters
    ----------
    vectors, ..., room
        The fields of ``Planes``.
    C
        Weight of the query's slack.
    v : (size,)
        Where the planes are evaluated: the primal weights, or the scores.
    vector, image : (size,)
        The new plane, and what its inner product with another plane's vector is taken with: itself,
        or itself times a kernel block.
    loss
        Of the new plane.
    is_new
        Whether there is a new plane; the three before do not matter otherwise.
    direction : (size,), filled
        By how much the sum of all weighted vectors has changed.

    Returns
    -------
    float
        The gap of this query at ``v`` before the steps, as far as the planes show it.
    """
    at, size, count = integers[STARTS, q], integers[SIZES, q], integers[COUNTS, q]
    losses, weights, idle, gram = slots[LOSSES, q], slots[WEIGHTS, q], slots[IDLE, q], grams[q]
    values, before = room[0], room[1]
    values[0] = best = mean = 0.0
    fill_products(vectors, at, size, 1, count, v, size, values)
    for slot in range(1, count):
        values[slot] = C * (losses[slot] - values[slot])
        if values[slot] > best:
            best = values[slot]
        mean += weights[slot] * values[slot]
    if is_new:
        fill_products(vector, 0, size, 0, 1, v, size, before)
        value = C * (loss - before[0])
        is_higher = value > best + 1e-12 * abs(best)
        is_full = is_higher and count == len(weights)
        count = forget_planes(
            at, size, losses, weights, idle, gram, values, vectors, count, is_full
        )
        if is_higher:
            values[count] = best = value
            losses[count], weights[count], idle[count] = loss, 0.0, 1.0
            own = np.uintp(at + count * size)
            for i in range(np.uintp(size)):
                vectors[own + i] = vector[i]
            gram[0, count] = gram[count, 0] = 0.0
            fill_products(vectors, at, size, 1, count + 1, image, size, before)
            for slot in range(1, count + 1):
                gram[slot, count] = gram[count, slot] = before[slot]
            count += 1
        integers[COUNTS, q] = count
    exchange_weights(C * C, weights, gram, values, before, count)
    fill_combination(vectors, at, size, 1, count, before, C, size, direction)
    return best - mean


@njit(
    **CALLED_BY_KERNELS,
    is_scalar=True,
    apart="void(float64, float64[::1], float64[:, ::1], float64[::1], float64[::1], int64)",
)
def exchange_weights(
    square: float,
    weights: FloatArray,
    gram: FloatArray,
    values: FloatArray,
    change: FloatArray,
    count: int,
) -> None:
    """Move weight from the lowest plane that has some to the highest, as long as that helps.

    Fills the change of each weight. The square is that of C.
    """
    for slot in range(count):
        change[slot] = -weights[slot]
    for _ in range(int(STEPS * len(weights))):
        up, down, highest, lowest = 0, 0, -np.inf, np.inf
        for slot in range(count):
            value = values[slot]
            if value > highest:
                up, highest = slot, value
            if value < lowest and weights[slot] > 0.0:
                down, lowest = slot, value
        rise = highest - lowest
        if not rise > 1e-14 * abs(highest):
            break
        # [LS08] eq. (28) is quadratic along a pair of planes: step to its maximum, kept feasible
        curvature = square * (gram[up, up] + gram[down, down] - 2.0 * gram[up, down])
        step = left = weights[down]
        if curvature * step > rise:
            step = rise / curvature
        weights[up] += step
        weights[down] = left - step if step < left else 0.0
        for slot in range(count):
            values[slot] -= square * step * (gram[slot, up] - gram[slot, down])
    for slot in range(count):
        change[slot] += weights[slot]


@njit(
    **CALLED_BY_KERNELS,
    is_scalar=True,
    apart=(
        "int64(int64, int64, float64[::1], float64[::1], float64[::1], float64[:, ::1], "
        "float64[::1], float64[::1], int64, boolean)"
    ),
)
def forget_planes(
    at: int,
    size: int,
    losses: FloatArray,
    weights: FloatArray,
    idle: FloatArray,
    gram: FloatArray,
    values: FloatArray,
    vectors: FloatArray,
    count: int,
    is_full: bool,
) -> int:
    """Forget planes that have been without weight for long; return how many are left.

    A full working set first replaces one of its two lightest planes by their weighted mean, which
    changes no dual quantity, and forgets the other.
    """
    if is_full:
        first, second = 1, 2
        for slot in range(1, count):
            if weights[slot] < weights[first]:
                first, second = slot, first
            elif slot != first and weights[slot] < weights[second]:
                second = slot
        total = weights[first] + weights[second]
        t = weights[second] / total if total > 0.0 else 0.0
        own, other = at + first * size, at + second * size  # signed: rare and short to compile
        for i in range(size):
            vectors[own + i] += t * (vectors[other + i] - vectors[own + i])
        for slot in range(count):
            gram[slot, first] += t * (gram[slot, second] - gram[slot, first])
        for slot in range(count):
            gram[first, slot] += t * (gram[second, slot] - gram[first, slot])
        losses[first] += t * (losses[second] - losses[first])
        values[first] += t * (values[second] - values[first])
        weights[first], weights[second], idle[second] = total, 0.0, MAX_IDLE
    for slot in range(count - 1, 0, -1):
        idle[slot] = 0.0 if weights[slot] > 0.0 else idle[slot] + 1.0
        if idle[slot] > MAX_IDLE:
            count -= 1  # the last one takes its place
            own, other = at + slot * size, at + count * size
            for i in range(size):
                vectors[own + i] = vectors[other + i]
            for k in range(count):
                gram[slot, k] = gram[k, slot] = gram[k, count]
            gram[slot, slot] = gram[count, count]
            losses[slot], weights[slot] = losses[count], weights[count]
            idle[slot], values[slot] = idle[count], values[count]
            losses[count] = weights[count] = 0.0
    return count
