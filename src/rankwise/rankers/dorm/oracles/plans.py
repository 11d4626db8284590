"""Choose and run the exact oracle of each query."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import FloatArray, IntArray
from rankwise.core.compile import njit
from rankwise.rankers.dorm.oracles._general_kernels import complete, find_thresholds
from rankwise.rankers.dorm.oracles._sorting_kernels import RankedQuery, descending, lists_by_grade
from rankwise.rankers.dorm.oracles._truncated_kernels import (
    StateTable,
    best_head,
    count_states,
    find_candidates,
    place_behind_head,
)
from rankwise.rankers.dorm.oracles._two_grade_kernels import best_chain

SORT, TRUNCATED, TWO_GRADES, GENERAL = range(4)


class OraclePlan(NamedTuple):
    """Hold all that is known of the queries before their scores; a tuple, for compiled code.

    Arrays of one entry per item stand query by query; by position where they belong to positions.
    """

    starts: IntArray  # where each query begins, (n_queries + 1,)
    gains: FloatArray  # b of each item
    decay: FloatArray  # c of each position
    discounts: FloatArray  # a of each position
    grades: IntArray  # of each item, counted from the lowest gain
    grade_starts: IntArray  # where each query begins in grade_gains, (n_queries + 1,)
    grade_gains: FloatArray  # the distinct gains of each query, ascending
    methods: IntArray  # SORT, TRUNCATED, TWO_GRADES or GENERAL, (n_queries,)
    depths: IntArray  # how many positions come before the last value of a, (n_queries,)
    slopes: FloatArray  # of the discounts in the decay, for SORT, (n_queries,)
    n_states: int  # room that TRUNCATED needs


class Scratch(NamedTuple):
    """Room that queries use one after the other; one for each thread."""

    table: StateTable
    keys: NDArray[np.uint64]


@njit(cache=True, nogil=True)
def max_states(n_items: int) -> int:
    """Return up to how many states the truncated oracle is faster than the general one.

    Measured: a state of the table costs about 2.5 ns, the general oracle 10 ns * n_items^2 where
    the loss outweighs the scores.
    """
    return max(4 * n_items**2, 10_000)


@njit(cache=True, nogil=True)
def make_scratch(plan: OraclePlan) -> Scratch:
    """Allocate the room for the largest query."""
    table = StateTable(np.empty((plan.n_states, 2)), np.empty(plan.n_states, np.uint8))
    largest = 0
    for q in range(len(plan.methods)):
        largest = max(largest, plan.starts[q + 1] - plan.starts[q])
    return Scratch(table, np.empty((2, largest), np.uint64))


@njit(cache=True, nogil=True)
def assign_queries(
    plan: OraclePlan,
    scratch: Scratch,
    scores: FloatArray,
    first: int,
    last: int,
    positions: IntArray,
) -> None:
    """Fill the best positions of the items of the queries first ... last - 1.

    Parameters
    ----------
    scores, positions : (n_items,)
        Of these queries' items alone.
    """
    offset = plan.starts[first]
    for q in range(first, last):
        rows = slice(plan.starts[q], plan.starts[q + 1])
        local = slice(rows.start - offset, rows.stop - offset)
        n_items = rows.stop - rows.start
        order, by_rank = np.empty(n_items, np.intp), np.empty(n_items, np.intp)
        keys = np.empty(n_items)
        slope = plan.slopes[q] if plan.methods[q] == SORT else 0.0
        for i in range(n_items):  # [LS08] below eq. (24): a = c sorts g - b
            keys[i] = scores[local.start + i] - slope * plan.gains[rows.start + i]
            by_rank[i] = i
        descending(keys, scratch.keys, order)
        if plan.methods[q] != SORT:
            gains = plan.grade_gains[plan.grade_starts[q] : plan.grade_starts[q + 1]]
            for i in range(n_items):
                keys[i] = scores[local.start + order[i]]
            query = RankedQuery(keys, gains, plan.decay[rows], plan.discounts[rows])
            _assign(
                query,
                plan.grades[rows],
                order,
                plan.methods[q],
                plan.depths[q],
                scratch.table,
                by_rank,
            )
        for rank in range(n_items):
            positions[local.start + order[rank]] = by_rank[rank]


@njit(cache=True, nogil=True, inline="always")
def _assign(
    query: RankedQuery,
    grades: IntArray,
    order: IntArray,
    method: int,
    depth: int,
    table: StateTable,
    positions: IntArray,
) -> None:
    """Fill the positions of all ranks, by the truncated oracle where that is the fastest."""
    if method == TRUNCATED:
        candidates = find_candidates(grades, order, len(query.gains), depth)
        if count_states(candidates.sizes) <= min(max_states(len(order)), len(table.last_grade)):
            head = np.empty(depth, np.intp)
            best_head(query, candidates, table, head)
            place_behind_head(head, positions)
            return
    lists = lists_by_grade(grades, order, len(query.gains))
    thresholds = find_thresholds(query, lists)
    if thresholds.nested:
        for rank in range(len(order)):
            positions[rank] = thresholds.entries[rank]
    elif len(query.gains) == 2:
        best_chain(query, lists, thresholds.counts, positions)
    else:
        complete(query, lists, thresholds, positions)
