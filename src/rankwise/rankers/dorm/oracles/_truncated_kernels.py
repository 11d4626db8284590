"""The exact oracle of a loss that looks at the first positions only.

An exchange of two items shows that some optimum puts the items of one grade in the order of their
scores, an item before every item of a higher gain and a lower score, and everything below the head
in the order of the scores. So a head is known once the number of items it takes from each grade is
known, and these numbers are few.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import njit
from rankwise.rankers.dorm.oracles._sorting_kernels import RankedQuery


class Candidates(NamedTuple):
    """The ranks that may enter the head."""

    ranks: IntArray  # (n_grades, depth), each row ascending
    sizes: IntArray  # how many of each row are used


class StateTable(NamedTuple):
    """Room for the states: how many items of each grade the head takes."""

    values: FloatArray  # (n_states, 2), of the head and of the tail
    last_grade: NDArray[np.uint8]  # (n_states,), the grade of the head's last item


class _Wheels(NamedTuple):
    """The odometer: one wheel for each grade."""

    counts: IntArray  # items taken
    last: IntArray  # rank taken last; -1 for none
    following: IntArray  # rank to be taken next
    limits: IntArray  # best rank left out among the lower grades
    strides: IntArray  # how far a state moves in the table when the wheel moves by one


@njit(cache=True, nogil=True)
def find_candidates(grades: IntArray, order: IntArray, n_grades: int, depth: int) -> Candidates:
    """Return the ranks of each grade's items that may enter a head of ``depth`` positions.

    An item may enter if it and all items of no higher gain and no lower score find room, so the
    ranks are searched only until the lowest grade has filled the head. Items of a negative grade
    are kept out.
    """
    ranks = np.empty((n_grades, depth), np.intp)
    sizes = np.zeros(n_grades, np.intp)
    before = np.zeros(n_grades, np.intp)  # items seen of each grade and the grades below
    rank = 0
    while rank < len(order) and before[0] < depth:
        grade = grades[order[rank]]
        if grade >= 0:
            for r in range(grade, n_grades):
                before[r] += 1
            if before[grade] <= depth:
                ranks[grade, sizes[grade]] = rank
                sizes[grade] += 1
        rank += 1
    return Candidates(ranks, sizes)


@njit(cache=True, nogil=True, inline="always")
def count_states(sizes: IntArray) -> float:
    """Return the room the table needs, as a float, for it may be very large."""
    count = 1.0
    for size in sizes:
        count *= size + 1
    return count


@njit(cache=True, nogil=True)
def best_head(
    query: RankedQuery, candidates: Candidates, table: StateTable, head: IntArray
) -> float:
    """Fill ``head`` with the ranks of the best items for its positions and return their value.

    Maximises the head's ``sum_j decay_j score - discount_j gain`` plus what the tail, in the order
    of the scores, gains or loses by it. States are visited as an odometer turns, the lowest gain
    outermost, so that what a state is built from has been visited before it. Costs O(depth) for
    each rank up to the last candidate, and O(grades) for each state.

    Parameters
    ----------
    query
        With discounts that do not increase and are constant from ``len(head)`` on.
    candidates
        For this query and depth.
    table
        With room for all states; what it holds does not matter.
    head : (depth,), filled

    Returns
    -------
    float
        The value, short of a constant of the query; -inf if too few items may enter.
    """
    scores, gains, decay, discounts = query
    values, last_grade = table
    ranks, sizes = candidates
    depth, none = len(head), len(scores)
    shifts = _tail_shifts(query, depth, _ranks_needed(candidates))
    counts, last, following, limits, strides = _start_wheels(candidates, none)
    values[0, 0] = values[0, 1] = 0.0
    best, best_state = -np.inf, -1
    state, taken = 0, 0
    while True:
        grade, state, taken = _find_wheel(
            state, taken, depth, ranks, counts, last, following, limits, strides
        )
        if grade < 0:
            break
        state += strides[grade]
        taken += 1
        counts[grade] += 1
        last[grade] = following[grade]
        more = counts[grade] < sizes[grade]
        following[grade] = ranks[grade, counts[grade]] if more else none
        for r in range(grade + 1, len(sizes)):
            limits[r] = min(limits[r - 1], following[r - 1])
        c, a = decay[taken - 1], discounts[taken - 1] - discounts[-1]
        r = _place_last(state, c, a, scores, gains, last, strides, values, last_grade)
        values[state, 1] = values[state - strides[r], 1] + shifts[last[r], depth - taken]
        if taken == depth and values[state, 0] + values[state, 1] > best:
            best, best_state = values[state, 0] + values[state, 1], state
    if best_state >= 0:
        _read_back(best_state, candidates, strides, table, head)
    return best


@njit(cache=True, nogil=True, inline="always")
def _start_wheels(candidates: Candidates, none: int) -> _Wheels:
    ranks, sizes = candidates
    n_grades = len(sizes)
    strides = np.ones(n_grades, np.intp)
    for r in range(n_grades - 2, -1, -1):
        strides[r] = strides[r + 1] * (sizes[r + 1] + 1)
    following, limits = np.full(n_grades, none), np.full(n_grades, none)
    for r in range(n_grades):
        if sizes[r] > 0:
            following[r] = ranks[r, 0]
        if r > 0:
            limits[r] = min(limits[r - 1], following[r - 1])
    return _Wheels(np.zeros(n_grades, np.intp), np.full(n_grades, -1), following, limits, strides)


@njit(cache=True, nogil=True, inline="always")
def _find_wheel(
    state: int,
    taken: int,
    depth: int,
    ranks: IntArray,
    counts: IntArray,
    last: IntArray,
    following: IntArray,
    limits: IntArray,
    strides: IntArray,
) -> tuple[int, int, int]:
    """Put the wheels that are at their end back to zero; return the next one, state and count."""
    grade = len(counts) - 1
    while grade >= 0 and (taken == depth or following[grade] >= limits[grade]):
        if counts[grade] > 0:
            state -= counts[grade] * strides[grade]
            taken -= counts[grade]
            counts[grade], last[grade], following[grade] = 0, -1, ranks[grade, 0]
        grade -= 1
    return grade, state, taken


@njit(cache=True, nogil=True, inline="always")
def _place_last(
    state: int,
    c: float,
    a: float,
    scores: FloatArray,
    gains: FloatArray,
    last: IntArray,
    strides: IntArray,
    values: FloatArray,
    last_grade: NDArray[np.uint8],
) -> int:
    """Find the best last item of a head; return the grade of the item with the lowest score."""
    lowest, lowest_grade, best = -1, 0, -np.inf
    for r in range(len(last) - 1, -1, -1):
        if last[r] > lowest:  # not before an item of a higher gain and a lower score
            lowest, lowest_grade = last[r], r
            value = values[state - strides[r], 0] + c * scores[lowest] - a * gains[r]
            if value > best:
                best, last_grade[state] = value, r
    values[state, 0] = best
    return lowest_grade


@njit(cache=True, nogil=True, inline="always")
def _ranks_needed(candidates: Candidates) -> int:
    """Count the ranks up to the last one that can be in the head."""
    needed = 0
    for r in range(len(candidates.sizes)):
        if candidates.sizes[r] > 0:
            needed = max(needed, candidates.ranks[r, candidates.sizes[r] - 1] + 1)
    return needed


@njit(cache=True, nogil=True, inline="always")
def _tail_shifts(query: RankedQuery, depth: int, n_ranks: int) -> FloatArray:
    """Tabulate what it changes in the tail that rank q enters the head with s more ranks below it.

    The tail's value is a constant plus the sum of ``shifts[q_t, depth - t]`` over the ranks
    q_1 < q_2 < ... of the head: q_t itself leaves the tail, and the items before it need not make
    room for the ranks below.
    """
    decay = np.zeros(n_ranks + depth)  # 0 behind the last position
    for position in range(min(len(decay), len(query.decay))):
        decay[position] = query.decay[position]
    shifts = np.empty((n_ranks, depth))
    sums = np.zeros(depth + 1)  # of the first q items, each s positions below its rank
    for q in range(n_ranks):
        score = query.scores[q]
        for s in range(depth):
            moved = sums[s] + decay[q + s] * score
            shifts[q, s] = sums[s + 1] - moved
            sums[s] = moved
        sums[depth] += decay[q + depth] * score
    return shifts


@njit(cache=True, nogil=True, inline="always")
def _read_back(
    state: int, candidates: Candidates, strides: IntArray, table: StateTable, head: IntArray
) -> None:
    for position in range(len(head) - 1, -1, -1):
        r = table.last_grade[state]
        count = (state // strides[r]) % (candidates.sizes[r] + 1)
        head[position] = candidates.ranks[r, count - 1]
        state -= strides[r]


@njit(cache=True, nogil=True)
def place_behind_head(head: IntArray, positions: IntArray) -> None:
    """Fill the positions of all ranks: the head as given, the rest in the order of the ranks."""
    for q in range(len(positions)):
        positions[q] = -1
    for j in range(len(head)):
        positions[head[j]] = j
    position = len(head)
    for q in range(len(positions)):
        if positions[q] < 0:
            positions[q] = position
            position += 1
