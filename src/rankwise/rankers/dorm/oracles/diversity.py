"""Rankings with at most one item of a source among the first positions, exactly."""

import heapq
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import ArrayLike
from scipy.sparse import csr_array, eye_array, kron, vstack

from rankwise.core.arrays import BoolArray, FloatArray, IntArray, freeze, parts_of, starts_of
from rankwise.core.errors import InvalidInputError
from rankwise.native.diversity import best_diverse_head
from rankwise.native.oracles import StateTable
from rankwise.rankers.dorm.oracles.assignment import OraclePlan, assign_by_value

MAX_STATES = 200_000
"""States in the table of the search: 3.4 MB."""

MAX_NODES = 10_000
"""Nodes of the search before a mixed-integer programme takes over."""


HEADS, SOURCES, ASSIGNMENTS = range(3)
"""Methods: a search of heads, an assignment of sources, a search of assignments."""


class DiversePlan(NamedTuple):
    """Hold what the oracles need to know of queries with sources besides the scores."""

    plan: OraclePlan
    sources: IntArray  # of each item, counted from 0 inside its query
    n_sources: IntArray  # (n_queries,)
    depths: IntArray  # positions under the condition, at most n_sources, (n_queries,)
    methods: IntArray  # HEADS, SOURCES or ASSIGNMENTS, (n_queries,)


class _Query(NamedTuple):
    """One query, as the oracles see it."""

    scores: FloatArray
    gains: FloatArray
    grades: IntArray
    grade_gains: FloatArray
    decay: FloatArray
    discounts: FloatArray
    sources: IntArray
    n_sources: int
    depth: int

    def values(self) -> FloatArray:
        """Return the value of each item at each position."""
        return np.outer(self.scores, self.decay) - np.outer(self.gains, self.discounts)


def diverse_positions(
    scores: ArrayLike, sources: ArrayLike, starts: ArrayLike, depth: int
) -> IntArray:
    """Return the positions of the best ranking with at most one item of a source in the head.

    The head takes the best item of each source, as far as ``depth`` and the number of sources
    allow; the rest follows in the order of the scores. This maximises ``sum_i c[position_i] g_i``
    under the condition for every non-increasing c. Costs O(n log n).

    Parameters
    ----------
    scores, sources : (n_items,)
        Query by query; sources may be of any type that sorts.
    starts : (n_queries + 1,)
        Where each query begins.
    depth
        Number of positions under the condition.

    Notes
    -----
    [LS08] end of Sect. 5.1.
    """
    _check_depth(depth)
    bounds = np.asarray(starts)
    query = parts_of(bounds)
    # rank the items of each query by their scores
    order = np.lexsort((-np.asarray(scores), query))
    codes = np.unique(sources, return_inverse=True)[1]
    group = query.astype(np.int64) * (codes.max(initial=0) + 1) + codes
    # the head takes the first item of every source, as far as the depth allows
    is_head = np.zeros(len(order), dtype=bool)
    is_head[np.unique(group[order], return_index=True)[1]] = True
    count = np.cumsum(is_head)
    is_head &= count - (count - is_head)[bounds[query]] <= depth
    # the head, then all others, each in the order of the scores
    ranking = order[np.lexsort((~is_head, query))]
    positions = np.empty(len(order), dtype=np.intp)
    positions[ranking] = np.arange(len(order)) - bounds[query]
    return positions


def plan_diverse(plan: OraclePlan, sources: ArrayLike, depth: int) -> DiversePlan:
    """Prepare loss-augmented rankings with at most one item of a source in the head.

    As ``plan_assignments``, under the condition that the first ``depth`` positions hold different
    sources; in a query with fewer sources, the first positions as far as the sources reach.

    Parameters
    ----------
    plan
        From ``plan_assignments``.
    sources : (n_items,)
        Query by query, of any type that sorts.
    depth
        Number of positions under the condition.
    """
    _check_depth(depth)
    query, n_queries = parts_of(plan.starts), len(plan.starts) - 1
    # number the sources from 0 inside each query
    codes = np.unique(sources, return_inverse=True)[1]
    group = query.astype(np.int64) * (codes.max(initial=0) + 1) + codes
    distinct, number = np.unique(group, return_inverse=True)
    n_sources = np.bincount(distinct // (codes.max(initial=0) + 1), minlength=n_queries)
    first = starts_of(n_sources)[query]
    # sources may be fewer than the positions under the condition
    depths = np.minimum(depth, n_sources)
    position = np.arange(len(codes)) - plan.starts[query]
    # a decay that is flat behind the head leaves [LS08] eq. (33), dorm-diverse; a loss that looks
    # beyond it needs full assignments
    falls = plan.decay != plan.decay[plan.starts[1:] - 1][query]
    flat = ~np.logical_or.reduceat(falls & (position >= depths[query]), plan.starts[:-1])
    methods = np.select([plan.depths > depths, flat], [ASSIGNMENTS, SOURCES], default=HEADS)
    arrays = (number - first, n_sources, depths, methods)
    return DiversePlan(plan, *(freeze(v) for v in arrays))


def diverse_oracle(
    diverse: DiversePlan, max_nodes: int = MAX_NODES, max_states: int = MAX_STATES
) -> Callable[[int, FloatArray], IntArray]:
    """Return what finds the best loss-augmented positions in a query, from its number and scores.

    At most one item of a source is in the head. Exact: where the loss looks no further than the
    head, a search branches on sources that occur twice in the truncated oracle's head; a decay that
    is flat behind the head makes it one assignment of sources to positions; otherwise the search
    branches on full assignments. A search that grows too long ends in a mixed-integer programme.

    Parameters
    ----------
    diverse
        From ``plan_diverse``.
    max_nodes, max_states
        How long a search may grow: its nodes, and the states of the table.

    Notes
    -----
    [LS08] eq. (33) assigns the first positions only, as (30) does: its constraints, (31) for each
    position and (32) for each source, are totally unimodular, so that its linear programme has an
    integral solution.
    Here the positions behind the head count too, since the score of a ranking is a sum over all of
    them. This needs one more constraint for each item, and the constraints are no longer totally
    unimodular: with items 0, 1 of one source, 2, 3 of another and depth 2 there is a minor of 2.
    So a search is needed. If the decay is flat after the head, the tail adds a constant and (33) is
    the whole problem. Costs between any two items at any two positions, [LS08] eq. (29), are not
    solved in polynomial time, by the paper or here.
    """
    n_grades, sizes = np.diff(diverse.plan.grade_starts), np.diff(diverse.plan.starts)
    table = StateTable(max_states, diverse.depths.max(), n_grades.max(), sizes.max())

    def oracle(q: int, scores: FloatArray) -> IntArray:
        query = _take_query(diverse, scores, q)
        if diverse.methods[q] == SOURCES:
            return _assign_sources(query)
        if diverse.methods[q] == HEADS:
            positions = _search_heads(query, table, max_nodes)
        else:
            positions = _search_assignments(query, max_nodes)
        if positions is None:
            one_each = np.eye(query.n_sources)[query.sources]
            positions = assign_constrained(query.values(), one_each, query.depth)
        return positions

    return oracle


def assign_constrained(V: FloatArray, weights: ArrayLike, depth: int) -> IntArray:
    """Return the positions that maximise a sum of values under weighted conditions on the head.

    Maximises the sum of ``V[item, position]`` subject to: for each column of ``weights``, the
    weights of the items in the first ``depth`` positions sum to at most 1. The columns may overlap.
    A mixed-integer programme solved by SciPy: exact, but exponential at worst.

    Parameters
    ----------
    V : (n_items, n_items)
    weights : (n_items, n_conditions)
    depth
        Number of positions under the conditions.

    Notes
    -----
    [LS08] end of Sect. 5.1.
    """
    n_items = len(V)
    # constraints: a position for each item, an item for each position, the conditions on the head
    identity, ones = eye_array(n_items), np.ones((1, n_items))
    in_head = np.zeros((1, n_items))
    in_head[0, :depth] = 1.0
    W = csr_array(np.asarray(weights, dtype=np.float64).T)
    in_head_only = kron(W, in_head)  # [LS08] Sect. 5.1: weights over topics, at most 1
    A = vstack([kron(identity, ones), kron(ones, identity), in_head_only])
    lower = np.r_[np.ones(2 * n_items), np.full(W.shape[0], -np.inf)]
    # all variables are 0 or 1; the weighted sums have no lower bound
    result = scipy.optimize.milp(
        -V.ravel(),
        integrality=np.ones(V.size),
        bounds=scipy.optimize.Bounds(0, 1),
        constraints=scipy.optimize.LinearConstraint(A, lower, np.ones(len(lower))),
        options={"mip_rel_gap": 0.0},
    )
    if result.x is None:
        raise InvalidInputError(
            f"`weights` must leave room for {depth} items in the head: no ranking keeps every "
            "weighted sum at 1 or less. Lower the weights or the depth."
        )
    return np.argmax(result.x.reshape(V.shape), axis=1)


def _check_depth(depth: int) -> None:
    if depth < 1:
        raise InvalidInputError(
            f"`depth` must be 1 or more: got {depth}. It counts the positions that hold different "
            "sources."
        )


def _take_query(diverse: DiversePlan, scores: FloatArray, q: int) -> _Query:
    plan = diverse.plan
    rows = slice(plan.starts[q], plan.starts[q + 1])
    return _Query(
        scores,
        plan.gains[rows],
        plan.grades[rows],
        plan.grade_gains[plan.grade_starts[q] : plan.grade_starts[q + 1]],
        plan.decay[rows],
        plan.discounts[rows] - plan.discounts[rows][-1],
        diverse.sources[rows],
        int(diverse.n_sources[q]),
        int(diverse.depths[q]),
    )


def _search_heads(query: _Query, table: StateTable, max_nodes: int) -> IntArray | None:
    """Branch on heads, for a loss that looks no further; None if it takes long."""
    positions = np.empty(len(query.scores), dtype=np.intp)
    is_solved = best_diverse_head(
        table,
        query.scores,
        query.grades,
        query.grade_gains,
        query.decay,
        query.discounts,
        query.sources,
        query.n_sources,
        query.depth,
        max_nodes,
        positions,
    )
    return positions if is_solved else None


def _assign_sources(query: _Query) -> IntArray:
    """Assign sources to the positions of the head, for a decay that is flat behind it.

    The tail then adds a constant, and what is left is [LS08] eq. (33): an assignment of sources to
    positions, since a source takes a position with the best of its items.
    """
    # value of each item at each position of the head, relative to the constant tail
    fall = query.decay[: query.depth] - query.decay[-1]
    values = np.outer(query.scores, fall)
    values -= np.outer(query.gains, query.discounts[: query.depth])
    # a source takes a position with the best of its items there
    by_source = np.full((query.n_sources, query.depth), -np.inf)
    np.maximum.at(by_source, query.sources, values)
    # [LS08] eq. (33), dorm-diverse; -1 for sources in the tail
    position = assign_by_value(by_source)[query.sources]
    # the item that attains the value of its source is the one in the head
    n_items = len(position)
    value = values[np.arange(n_items), position]
    is_best = (position >= 0) & (value == by_source[query.sources, position])
    head = np.full(query.depth, -1, dtype=np.intp)
    head[position[is_best]] = np.flatnonzero(is_best)  # one of the source's best items
    # the tail follows in the order of the scores
    tail = np.setdiff1d(np.arange(n_items), head)
    positions = np.empty(n_items, dtype=np.intp)
    positions[head] = np.arange(query.depth)
    positions[tail[np.argsort(-query.scores[tail], kind="stable")]] = np.arange(
        query.depth, n_items
    )
    return positions


def _search_assignments(query: _Query, max_nodes: int) -> IntArray | None:
    """Branch on full assignments, for a loss that looks beyond the head; None if it takes long."""
    V = query.values()
    queue: list[tuple[float, int, BoolArray, IntArray]] = []
    n_nodes = 0
    branches = [np.zeros(len(V), dtype=bool)]  # items kept out of the head
    while n_nodes + len(branches) <= max_nodes:
        # bound of a branch: the assignment without the condition, its items kept out of the head
        for kept_out in branches:
            allowed = V.copy()
            allowed[kept_out, : query.depth] = -np.inf
            positions = assign_by_value(allowed)
            value = V[np.arange(len(V)), positions].sum()
            n_nodes += 1
            heapq.heappush(queue, (-value, n_nodes, kept_out, positions))
        # the branch of the largest bound is optimal once no source occurs twice in its head
        _, _, kept_out, positions = heapq.heappop(queue)
        occurrences = np.bincount(query.sources[positions < query.depth])
        if occurrences.max() == 1:
            return positions
        # branch on a source in conflict: one of its items may stay in the head
        rivals = (query.sources == np.argmax(occurrences)) & ~kept_out
        branches = [(kept_out | rivals) & (np.arange(len(V)) != i) for i in np.flatnonzero(rivals)]
    return None
