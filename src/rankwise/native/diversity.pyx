"""Branch and bound for a head that takes at most one item of each source."""

from libc.math cimport INFINITY, isfinite
from libc.stdint cimport int64_t as i64, uint8_t as u8, uint64_t as u64

import numpy as np

from rankwise.native.oracles cimport Query, States, StateTable, best_head, descending


cdef struct Sourced:  # a query with its items in descending order of score
    Query query
    States *states
    i64 n_sources
    double *scores  # of each rank
    i64 *grades  # of each rank; -1 where an item of the same source is never worse
    i64 *sources  # of each rank, counted from 0
    i64 *allowed  # the grades that the decisions of a node leave
    i64 *positions  # of each rank
    u8 *seen  # of each source


cdef struct Nodes:  # of the search, in the order in which they were opened
    i64 n_nodes
    double *values  # of the best head under a node's decisions: no descendant is better
    i64 *conflicts  # a source that occurs twice in this head; -1 for none
    i64 *parents
    i64 *choices  # the rank that alone represents its source from here on; -1 at the root
    i64 n_open
    i64 *heap  # the open nodes


def best_diverse_head(StateTable table not None, const double[::1] scores, const i64[::1] grades,
                      const double[::1] grade_gains, const double[::1] decay,
                      const double[::1] discounts, const i64[::1] sources, i64 n_sources, i64 depth,
                      i64 max_nodes, i64[::1] positions):
    """Fill the positions with a head of different sources; return whether that was possible.

    The head without the condition bounds every head with it. Where a source occurs twice, one
    branch for each of its items allows that item alone. The most promising branch goes first, so
    the first one without a conflict is optimal.

    Parameters
    ----------
    table
        Room for states; the search gives up where it does not suffice.
    scores, grades, sources : (n_items,)
        Of each item; grades and sources counted from 0.
    grade_gains : (n_grades,)
        Ascending.
    decay, discounts : (n_items,)
        Of each position; the discounts do not increase and are constant from ``depth`` on.
    n_sources
        At least the depth.
    depth
        Positions of the head.
    max_nodes
        Give up after this many branches.
    positions : (n_items,), filled
    """
    cdef i64 n_items = scores.shape[0], rank, length = (n_items + 7) // 8 * 8
    cdef u64[:, ::1] codes = np.empty((3, length), np.uint64)
    cdef double[::1] sorted_scores = np.empty(n_items)
    cdef i64[:, ::1] of_ranks = np.empty((5, n_items), np.int64)
    cdef i64[::1] lowest = np.full(n_sources, grade_gains.shape[0], np.int64)
    cdef u8[::1] seen = np.empty(n_sources, np.uint8)
    cdef double[::1] values = np.empty(max_nodes + 1)
    cdef i64[::1] conflicts = np.empty(max_nodes + 1, np.int64)
    cdef i64[::1] parents = np.empty(max_nodes + 1, np.int64)
    cdef i64[::1] choices = np.empty(max_nodes + 1, np.int64)
    cdef i64[::1] heap = np.empty(max_nodes + 1, np.int64)
    cdef i64 *order = &of_ranks[0, 0]
    cdef Sourced problem
    cdef Nodes nodes
    cdef bint is_solved
    problem.query.n_items = n_items
    problem.query.n_grades = grade_gains.shape[0]
    problem.query.depth = depth
    problem.query.decay = &decay[0]
    problem.query.discounts = &discounts[0]
    problem.query.grade_gains = &grade_gains[0]
    problem.states = &table.at
    problem.n_sources = n_sources
    problem.scores = &sorted_scores[0]
    problem.grades = &of_ranks[1, 0]
    problem.sources = &of_ranks[2, 0]
    problem.allowed = &of_ranks[3, 0]
    problem.positions = &of_ranks[4, 0]
    problem.seen = &seen[0]
    nodes.n_nodes = nodes.n_open = 0
    nodes.values = &values[0]
    nodes.conflicts = &conflicts[0]
    nodes.parents = &parents[0]
    nodes.choices = &choices[0]
    nodes.heap = &heap[0]
    with nogil:
        descending(&scores[0], n_items, &codes[0, 0], &codes[1, 0], &codes[2, 0], order)
        for rank in range(n_items):
            problem.scores[rank] = scores[order[rank]]
            problem.sources[rank] = sources[order[rank]]
            problem.grades[rank] = grades[order[rank]]
        keep_needed(&problem, &lowest[0])
        is_solved = search_heads(&problem, &nodes, max_nodes)
        if is_solved:
            for rank in range(n_items):
                positions[order[rank]] = problem.positions[rank]
    return is_solved


cdef void keep_needed(Sourced *problem, i64 *lowest) noexcept nogil:
    """Keep those items out of the head that it never needs.

    These are the items with no lower gain than a better item of the same source, which can always
    take their place. ``lowest`` holds the number of grades for each source, and then its lowest
    grade so far.
    """
    cdef i64 rank, source
    for rank in range(problem.query.n_items):
        source = problem.sources[rank]
        if problem.grades[rank] < lowest[source]:
            lowest[source] = problem.grades[rank]
        else:
            problem.grades[rank] = -1


cdef bint search_heads(Sourced *problem, Nodes *nodes, i64 max_nodes) noexcept nogil:
    """Fill the positions of the ranks; return whether the search came to an end."""
    cdef i64 *allowed = problem.allowed
    cdef i64 node, conflict, rank, rival
    for rank in range(problem.query.n_items):
        allowed[rank] = problem.grades[rank]
    open_node(problem, nodes, -1, -1)
    while nodes.n_open > 0:
        node = take_best(nodes)
        apply_decisions(problem, nodes, node)
        if nodes.values[node] == INFINITY:
            return False
        conflict = nodes.conflicts[node]
        if conflict < 0:
            best_head(&problem.query, problem.scores, allowed, INFINITY, problem.states,
                      problem.positions)
            return True
        # a branch for each item of the source that occurs twice, with its rivals kept out
        for rank in range(problem.query.n_items):
            if problem.sources[rank] == conflict and allowed[rank] >= 0:
                allowed[rank] = -2
        for rival in range(problem.query.n_items):
            if allowed[rival] == -2:
                if nodes.n_nodes == max_nodes:
                    return False
                allowed[rival] = problem.grades[rival]
                open_node(problem, nodes, node, rival)
                allowed[rival] = -1
    return False


cdef void open_node(Sourced *problem, Nodes *nodes, i64 parent, i64 choice) noexcept nogil:
    """Solve with the allowed ranks, look for a source that occurs twice, and queue the node.

    Where the table is too small the value is inf, so that the search comes back to this node first.
    """
    cdef i64 node = nodes.n_nodes, rank, source
    cdef double value = best_head(&problem.query, problem.scores, problem.allowed, INFINITY,
                                  problem.states, problem.positions)
    nodes.values[node] = value
    nodes.conflicts[node] = -1
    nodes.parents[node] = parent
    nodes.choices[node] = choice
    nodes.n_nodes += 1
    if isfinite(value):
        for source in range(problem.n_sources):
            problem.seen[source] = False
        for rank in range(problem.query.n_items):
            if problem.positions[rank] < problem.query.depth:
                source = problem.sources[rank]
                if problem.seen[source]:
                    nodes.conflicts[node] = source
                problem.seen[source] = True
    add_to_heap(nodes, node)


cdef void apply_decisions(Sourced *problem, const Nodes *nodes, i64 node) noexcept nogil:
    """Set the grades allowed at a node: each source decided on keeps its one choice."""
    cdef i64 rank, choice
    for rank in range(problem.query.n_items):
        problem.allowed[rank] = problem.grades[rank]
    while nodes.choices[node] >= 0:
        choice = nodes.choices[node]
        for rank in range(problem.query.n_items):
            if problem.sources[rank] == problem.sources[choice] and rank != choice:
                problem.allowed[rank] = -1
        node = nodes.parents[node]


# Open nodes as a heap: the greatest value first, of equal ones the oldest


cdef inline bint comes_before(const Nodes *nodes, i64 a, i64 b) noexcept nogil:
    return nodes.values[a] > nodes.values[b] or (nodes.values[a] == nodes.values[b] and a < b)


cdef void add_to_heap(Nodes *nodes, i64 node) noexcept nogil:
    cdef i64 at = nodes.n_open, above
    nodes.n_open += 1
    while at > 0:
        above = (at - 1) // 2
        if not comes_before(nodes, node, nodes.heap[above]):
            break
        nodes.heap[at] = nodes.heap[above]
        at = above
    nodes.heap[at] = node


cdef i64 take_best(Nodes *nodes) noexcept nogil:
    cdef i64 best = nodes.heap[0], at = 0, below = 1, node
    nodes.n_open -= 1
    node = nodes.heap[nodes.n_open]  # the last one sinks from the top
    while below < nodes.n_open:
        if below + 1 < nodes.n_open:
            below += comes_before(nodes, nodes.heap[below + 1], nodes.heap[below])
        if comes_before(nodes, node, nodes.heap[below]):
            break
        nodes.heap[at] = nodes.heap[below]
        at = below
        below = 2 * at + 1
    nodes.heap[at] = node
    return best
