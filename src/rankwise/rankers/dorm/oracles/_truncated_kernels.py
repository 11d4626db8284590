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
from rankwise.core.compile import GIVEN_FLOATS, GIVEN_INTEGERS, njit


class StateTable(NamedTuple):
    """Room for the states: how many items of each grade the head takes; and how to search them."""

    values: FloatArray  # (n_states, 2), of the head and of the tail
    last_grade: NDArray[np.uint8]  # (n_states,), the grade of the head's last item
    wheels: IntArray  # (7 + depth, n_grades)
    shifts: FloatArray  # ((n_items + 1) * depth + 1,)
    address: int  # of best_head


def make_table(n_states: int, depth: int, n_grades: int, n_items: int) -> StateTable:
    """Allocate room for the largest query, and compile the search."""
    return StateTable(
        np.empty((n_states, 2)),
        np.empty(n_states, np.uint8),
        np.empty((CANDIDATES + depth, n_grades), np.intp),
        np.empty((n_items + 1) * depth + 1),
        best_head.address(),
    )


NO_TABLE = StateTable(
    np.empty((0, 2)), np.empty(0, np.uint8), np.empty((0, 0), np.intp), np.empty(0), 0
)
"""Where there is nothing to search."""


SIZES, BEFORE, TAKEN, LAST, FOLLOWING, LIMITS, STRIDES, CANDIDATES = range(8)
"""Rows of the wheels; those from the last one on list the candidates of each grade."""


@njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    apart=(
        f"float64({GIVEN_FLOATS}, {GIVEN_FLOATS}, {GIVEN_FLOATS}, {GIVEN_FLOATS}, "
        f"{GIVEN_INTEGERS}, {GIVEN_INTEGERS}, int64, float64, "
        "float64[:, ::1], uint8[::1], int64[:, ::1], float64[::1], int64[::1])"
    ),
    is_optional=True,
)
def best_head(
    scores: FloatArray,
    gains: FloatArray,
    decay: FloatArray,
    discounts: FloatArray,
    grades: IntArray,
    order: IntArray,
    depth: int,
    max_states: float,
    values: FloatArray,
    last_grade: NDArray[np.uint8],
    wheels: IntArray,
    shifts: FloatArray,
    positions: IntArray,
) -> float:
    """Fill the positions of all ranks: the best head, then the rest in the order of the scores.

    Maximises the head's ``sum_j decay_j score - discount_j gain`` plus what the tail gains or loses
    by it. States are visited as an odometer turns that has a wheel for each grade, the lowest gain
    outermost, so that what a state is built from has been visited before it. Costs O(depth) for
    each rank up to the last candidate, and O(grades) for each state.

    Parameters
    ----------
    scores : (n_items,)
        Of each rank, descending.
    gains : (n_grades,)
        Ascending.
    decay, discounts : (n_items,)
        Of each position; the discounts do not increase and are constant from ``depth`` on.
    grades, order : (n_items,)
        The grade of each item, negative for those to be kept out of the head; the item of each
        rank.
    depth
        Number of positions of the head.
    max_states
        Give up beyond so many states.
    values, last_grade, wheels, shifts
        The room of a ``StateTable``.
    positions : (n_items,), filled

    Returns
    -------
    float
        The value, short of a constant of the query; inf if there are too many states, -inf if too
        few items may enter, and then nothing is filled.
    """
    n_items, n_grades = len(scores), len(gains)
    sizes, taken, last, following = wheels[SIZES], wheels[TAKEN], wheels[LAST], wheels[FOLLOWING]
    limits, strides, best, best_state = wheels[LIMITS], wheels[STRIDES], -np.inf, -1
    n_ranks = _find_candidates(grades, order, n_grades, depth, wheels)
    n_states = 1.0
    for r in range(n_grades):
        n_states *= sizes[r] + 1
    if n_states > max_states or n_states > len(last_grade):
        return np.inf
    _tabulate_shifts(scores, decay, depth, n_ranks, shifts)
    _start_wheels(n_grades, n_items, wheels)
    values[0, 0], values[0, 1], state, count = 0.0, 0.0, 0, 0
    while True:
        grade = n_grades - 1  # put the wheels that are at their end back to zero
        while grade >= 0 and (count == depth or following[grade] >= limits[grade]):
            if taken[grade] > 0:
                state -= taken[grade] * strides[grade]
                count -= taken[grade]
                taken[grade], last[grade] = 0, -1
                following[grade] = wheels[CANDIDATES, grade]
            grade -= 1
        if grade < 0:
            break
        state, count = state + strides[grade], count + 1
        taken[grade], last[grade] = taken[grade] + 1, following[grade]
        more = taken[grade] < sizes[grade]
        following[grade] = wheels[CANDIDATES + taken[grade], grade] if more else n_items
        for r in range(grade + 1, n_grades):
            limits[r] = min(limits[r - 1], following[r - 1])
        c, a = decay[count - 1], discounts[count - 1] - discounts[n_items - 1]
        lowest, lowest_grade, most = -1, 0, -np.inf
        for r in range(n_grades - 1, -1, -1):
            if last[r] > lowest:  # not before an item of a higher gain and a lower score
                lowest, lowest_grade = last[r], r
                value = values[state - strides[r], 0] + c * scores[lowest] - a * gains[r]
                if value > most:
                    most, last_grade[state] = value, r
        shift = shifts[last[lowest_grade] * depth + depth - count]
        values[state, 0] = most
        values[state, 1] = values[state - strides[lowest_grade], 1] + shift
        if count == depth and most + values[state, 1] > best:
            best, best_state = most + values[state, 1], state
    if best_state >= 0:
        _place(best_state, depth, last_grade, wheels, positions)
    return best


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _start_wheels(n_grades: int, n_items: int, wheels: IntArray) -> None:
    """Take nothing yet: items taken, rank taken last, rank to be taken next, of each grade."""
    sizes, taken, last, following = wheels[SIZES], wheels[TAKEN], wheels[LAST], wheels[FOLLOWING]
    limits, strides = wheels[LIMITS], wheels[STRIDES]
    for r in range(n_grades - 1, -1, -1):
        strides[r] = strides[r + 1] * (sizes[r + 1] + 1) if r + 1 < n_grades else 1
    for r in range(n_grades):
        taken[r], last[r] = 0, -1
        following[r] = wheels[CANDIDATES, r] if sizes[r] > 0 else n_items
        limits[r] = n_items  # best rank left out among the lower grades
        if r > 0:
            limits[r] = min(limits[r - 1], following[r - 1])


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _find_candidates(
    grades: IntArray, order: IntArray, n_grades: int, depth: int, wheels: IntArray
) -> int:
    """List the ranks of each grade's items that may enter a head; return how many ranks it needs.

    An item may enter if it and all items of no higher gain and no lower score find room, so the
    ranks are searched only until the lowest grade has filled the head.
    """
    sizes, before = wheels[SIZES], wheels[BEFORE]  # items seen of each grade and the grades below
    for r in range(n_grades):
        sizes[r] = before[r] = 0
    rank = needed = 0
    while rank < len(order) and before[0] < depth:
        grade = grades[order[rank]]
        if grade >= 0:
            for r in range(grade, n_grades):
                before[r] += 1
            if before[grade] <= depth:
                wheels[CANDIDATES + sizes[grade], grade] = rank
                sizes[grade] += 1
                needed = rank + 1
        rank += 1
    return needed


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _tabulate_shifts(
    scores: FloatArray, decay: FloatArray, depth: int, n_ranks: int, shifts: FloatArray
) -> None:
    """Tabulate what it changes in the tail that rank q enters the head with s more ranks below it.

    The tail's value is a constant plus the sum of ``shifts[q_t, depth - t]`` over the ranks
    q_1 < q_2 < ... of the head: q_t itself leaves the tail, and the items before it need not make
    room for the ranks below.
    """
    sums, n_items = n_ranks * depth, len(scores)  # of the first q items, s positions below its rank
    for s in range(depth + 1):
        shifts[sums + s] = 0.0
    for q in range(n_ranks):
        for s in range(depth + 1):
            c = decay[q + s] if q + s < n_items else 0.0
            moved = shifts[sums + s] + c * scores[q]
            if s < depth:
                shifts[q * depth + s] = shifts[sums + s + 1] - moved
            shifts[sums + s] = moved


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _place(
    state: int, depth: int, last_grade: NDArray[np.uint8], wheels: IntArray, positions: IntArray
) -> None:
    """Fill the positions: the head that a state stands for, the rest in the order of the ranks."""
    for rank in range(len(positions)):
        positions[rank] = -1
    for position in range(depth - 1, -1, -1):
        r = last_grade[state]
        count = (state // wheels[STRIDES, r]) % (wheels[SIZES, r] + 1)
        positions[wheels[CANDIDATES + count - 1, r]] = position
        state -= wheels[STRIDES, r]
    position = depth
    for rank in range(len(positions)):
        if positions[rank] < 0:
            positions[rank] = position
            position += 1
