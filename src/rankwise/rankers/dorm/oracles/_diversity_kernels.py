"""Branch and bound for a head that takes at most one item of each source."""

import heapq
from typing import NamedTuple

import numpy as np

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.compile import njit
from rankwise.rankers.dorm.oracles.assignment import OraclePlan, StateTable
from rankwise.rankers.dorm.oracles.assignment_kernels import best_head, descending

HEADS, SOURCES, ASSIGNMENTS = range(3)


class DiversePlan(NamedTuple):
    """Hold all that is known of queries with sources before their scores, for compiled code."""

    plan: OraclePlan
    sources: IntArray  # of each item, counted from 0 inside its query
    n_sources: IntArray  # (n_queries,)
    depths: IntArray  # positions under the condition, at most n_sources, (n_queries,)
    methods: IntArray  # HEADS, SOURCES or ASSIGNMENTS, (n_queries,)


class Sourced(NamedTuple):
    """One query with its items in descending order of score, and what the head may take."""

    scores: FloatArray  # of each rank, descending
    gains: FloatArray  # the distinct gains, ascending: one for each grade
    decay: FloatArray  # c of each position, non-increasing
    discounts: FloatArray  # a of each position
    depth: int  # of the head
    order: IntArray  # 0, 1, ...: ranks stand for items
    grades: IntArray  # of each rank; -1 where an item of the same source is never worse
    sources: IntArray  # of each rank, counted from 0


class _Node(NamedTuple):
    value: float  # of the best head under the node's decisions: no descendant is better
    conflict: int  # a source that occurs twice in this head; -1 for none
    parent: int
    choice: int  # the rank that alone represents its source from here on; -1 at the root


@njit(cache=True, nogil=True)
def assign_diverse_heads(
    diverse: DiversePlan,
    scores: FloatArray,
    table: StateTable,
    max_nodes: int,
    first: int,
    last: int,
    positions: IntArray,
    solved: BoolArray,
) -> None:
    """Fill the best positions in those of the queries first ... last - 1 whose method is HEADS.

    Parameters
    ----------
    scores, positions : (n_items,)
        Of these queries' items alone.
    table, max_nodes
        As for ``best_diverse_head``.
    solved : (last - first,), filled
        Whether a query's method is HEADS and its search came to an end.
    """
    plan = diverse.plan
    for q in range(first, last):
        at, n_items = plan.starts[q] - plan.starts[first], plan.starts[q + 1] - plan.starts[q]
        solved[q - first] = False
        if diverse.methods[q] == HEADS:
            order, by_rank = np.empty(n_items, np.intp), np.empty(n_items, np.intp)
            g = scores[at : at + n_items]
            descending(g, n_items, np.empty((2, n_items), np.uint64), order)
            problem = _sort(diverse, q, g, order)
            if best_diverse_head(problem, diverse.n_sources[q], table, max_nodes, by_rank):
                solved[q - first] = True
                for rank in range(n_items):
                    positions[at + order[rank]] = by_rank[rank]


@njit(cache=True, nogil=True, inline="always")
def _sort(diverse: DiversePlan, q: int, scores: FloatArray, order: IntArray) -> Sourced:
    """Put the items of a query in order and keep those out of the head that it never needs.

    These are the items with no lower gain than a better item of the same source, which can always
    take their place.
    """
    plan, first = diverse.plan, diverse.plan.starts[q]
    n_items, n_grades = len(order), plan.grade_starts[q + 1] - plan.grade_starts[q]
    grades, sources = np.empty(n_items, np.intp), np.empty(n_items, np.intp)
    sorted_scores = np.empty(n_items)
    lowest = np.full(diverse.n_sources[q], n_grades)
    for rank in range(n_items):
        grade, source = plan.grades[first + order[rank]], diverse.sources[first + order[rank]]
        grades[rank] = grade if grade < lowest[source] else -1
        lowest[source] = min(grade, lowest[source])
        sources[rank] = source
        sorted_scores[rank] = scores[order[rank]]
    return Sourced(
        sorted_scores,
        plan.grade_gains[plan.grade_starts[q] : plan.grade_starts[q + 1]],
        plan.decay[first : first + n_items],
        plan.discounts[first : first + n_items],
        diverse.depths[q],
        np.arange(n_items),
        grades,
        sources,
    )


@njit(cache=True, nogil=True)
def best_diverse_head(
    problem: Sourced, n_sources: int, table: StateTable, max_nodes: int, positions: IntArray
) -> bool:
    """Fill the positions with a head of different sources; return whether that was possible.

    The head without the condition bounds every head with it. Where a source occurs twice, one
    branch for each of its items allows that item alone. The most promising branch goes first, so
    the first one without a conflict is optimal.

    Parameters
    ----------
    problem
        With discounts constant from its depth on.
    n_sources
        At least this depth.
    table
        Room for states; the search gives up where it does not suffice.
    max_nodes
        Give up after this many branches.
    positions : (n_items,), filled
    """
    allowed = problem.grades.copy()
    nodes = [_evaluate(problem, allowed, n_sources, table, positions, -1, -1)]
    queue = [(-nodes[0].value, 0)]
    while len(queue) > 0:
        _, number = heapq.heappop(queue)
        _apply_decisions(problem, nodes, number, allowed)
        if nodes[number].value == np.inf:
            return False
        if nodes[number].conflict < 0:
            _evaluate(problem, allowed, n_sources, table, positions, -1, -1)
            return True
        rivals = [
            rank
            for rank in range(len(allowed))
            if problem.sources[rank] == nodes[number].conflict and allowed[rank] >= 0
        ]
        for rank in rivals:
            allowed[rank] = -1
        for rank in rivals:
            if len(nodes) == max_nodes:
                return False
            allowed[rank] = problem.grades[rank]
            node = _evaluate(problem, allowed, n_sources, table, positions, number, rank)
            allowed[rank] = -1
            heapq.heappush(queue, (-node.value, len(nodes)))
            nodes.append(node)
    return False


@njit(cache=True, nogil=True)
def _evaluate(
    problem: Sourced,
    allowed: IntArray,
    n_sources: int,
    table: StateTable,
    positions: IntArray,
    parent: int,
    choice: int,
) -> _Node:
    """Solve with the allowed ranks and look for a source that occurs twice.

    Where the table is too small the value is inf, so that the search comes back to this node first.
    """
    value = best_head(
        problem.scores,
        problem.gains,
        problem.decay,
        problem.discounts,
        allowed,
        problem.order,
        problem.depth,
        np.inf,
        table.values,
        table.last_grade,
        table.wheels,
        table.shifts,
        positions,
        table.address,
    )
    conflict = -1
    if np.isfinite(value):
        seen = np.zeros(n_sources, np.bool_)
        for rank in range(len(positions)):
            if positions[rank] < problem.depth:
                if seen[problem.sources[rank]]:
                    conflict = problem.sources[rank]
                seen[problem.sources[rank]] = True
    return _Node(value, conflict, parent, choice)


@njit(cache=True, nogil=True, inline="always")
def _apply_decisions(problem: Sourced, nodes: list[_Node], number: int, allowed: IntArray) -> None:
    """Set the grades allowed at a node: each source decided on keeps its one choice."""
    for rank in range(len(allowed)):
        allowed[rank] = problem.grades[rank]
    while nodes[number].choice >= 0:
        choice = nodes[number].choice
        for rank in range(len(allowed)):
            if problem.sources[rank] == problem.sources[choice] and rank != choice:
                allowed[rank] = -1
        number = nodes[number].parent
