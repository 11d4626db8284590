"""Exact oracles: the ranking of a query with the greatest score plus loss.

With scores g, gains b, decay c and discounts a, [LS08] eq. (24) looks for the positions pi that
maximise ``sum_i C[i, pi_i]`` with ``C[i, j] = c[j] g[i] - a[j] b[i]``. The paper takes any solver
of assignment problems; here C has rank two, and one sort of the scores leaves little to do:

* `find_thresholds` finds for each k which k items would be best in front if that were all. Where
  these sets are nested they are the ranking.
* Where they are not, `complete` takes their thresholds for prices of positions, a feasible point
  of the dual [LS08] eq. (26), from which few augmenting paths are left.
* For two grades `best_chain`, a dynamic programme, does that in less time.
* For discounts that end at a cut-off `best_head` counts how many items of each grade are above it.

From the sort on items are named by their rank, 0 for the highest score.
"""

from libc.math cimport INFINITY
from libc.stdint cimport int64_t as i64, uint8_t as u8, uint64_t as u64

import numpy as np

from rankwise.native.sorting cimport falling, sort_codes

cpdef enum:
    SORT = 0
    TRUNCATED = 1
    TWO_GRADES = 2
    GENERAL = 3

# The truncated oracle is the faster one up to max(4 n_items^2, 10 000) states. Measured: a state
# costs about 2.5 ns, the general oracle 10 ns * n_items^2 where the loss outweighs the scores.
cpdef enum:
    STATES_PER_SQUARE = 4
    FEW_STATES = 10_000

cdef enum:
    FIRST_WIDTH = 4  # of the band around a chain, to either side


# Sort


cdef void descending(const double *scores, i64 n_items, u64 *fall, u64 *codes, u64 *spare,
                     i64 *order) noexcept nogil:
    """Fill ``order`` with the items from the highest score to the lowest, ties as they came.

    The other arrays are room, for a multiple of eight items.
    """
    cdef u64 width = 1, position, i, n = n_items
    cdef const u64 *bits = <const u64 *>scores
    cdef u64 *found = codes
    cdef bint is_close = False
    while n >> width:
        width += 1
    position = (<u64>1 << width) - 1
    # sort the leading bits of the scores with the numbers of the items below them
    for i in range(n):
        fall[i] = falling(bits[i])
        codes[i] = (fall[i] & ~position) | i
    if sort_codes(codes, spare, n):
        found = spare
    for i in range(n):
        order[i] = found[i] & position
        is_close |= i > 0 and (found[i] ^ found[i - 1]) <= position
    if is_close:
        sort_last_bits(n, width, fall, codes, spare, order)


cdef void sort_last_bits(u64 n, u64 width, u64 *fall, u64 *codes, u64 *spare,
                         i64 *order) noexcept nogil:
    """Sort those with the same leading bits by the bits that the first sort left out."""
    cdef u64 position = (<u64>1 << width) - 1, first, end = 0, p
    cdef bint in_order
    cdef u64 *found
    for p in range(n):
        codes[p] = fall[order[p]]
    for p in range(n):
        fall[p] = codes[p]
    while end < n:
        first = end
        end += 1
        in_order = True
        while end < n and (fall[end] ^ fall[first]) <= position:
            in_order &= fall[end - 1] <= fall[end]
            end += 1
        if not in_order:
            for p in range(end - first):
                codes[p] = ((fall[first + p] & position) << width) | p
            for p in range(first, end):
                fall[p] = order[p]
            found = spare if sort_codes(codes, spare, end - first) else codes
            for p in range(end - first):
                order[first + p] = fall[first + (found[p] & position)]


# Thresholds


cdef bint find_thresholds(const Query *query, Lists *room) noexcept nogil:
    """Find for each k the k items with the largest keys; return whether these sets are nested.

    By summation by parts, the sum in [LS08] eq. (24) is one over k of the keys ``(c_k - c_{k+1}) g
    - (a_k - a_{k+1}) b`` of the items at the first k positions. The set of a k differs little from
    the one before: one item enters, and pairs change places as long as that helps. Of each grade
    only the best item outside and the worst inside are candidates. Costs O(grades) for each
    position and each item that leaves a set again. The discounts need not be monotone.

    The price ``v`` of a position is the sum of the thresholds, between the k-th and the next key,
    from it on.
    """
    cdef const double *c = query.decay
    cdef const double *a = query.discounts
    cdef const double *b = query.grade_gains
    cdef i64 n_items = query.n_items, n_grades = query.n_grades, k, r, at, best, worst
    cdef const double *g = room.scores
    cdef double *v = room.v
    cdef double *inside = room.inside
    cdef double *outside = room.outside
    cdef i64 *ranks = room.ranks
    cdef i64 *starts = room.starts
    cdef i64 *taken = room.taken
    cdef bint nested = True, is_first
    cdef double fall, loss, key, highest, lowest = INFINITY
    list_by_grade(query, room)
    for r in range(n_grades):  # the empty set
        taken[r] = starts[r]
        inside[r] = INFINITY
        outside[r] = g[ranks[starts[r]]]
    room.counts[0] = 0
    for k in range(n_items):
        fall = c[k] - c[k + 1] if k + 1 < n_items else 0.0
        loss = a[k] - a[k + 1] if k + 1 < n_items else 0.0
        is_first = True
        while True:
            # the largest key outside; a grade with nothing outside has -inf or NaN, never larger
            best = 0
            highest = -INFINITY
            for r in range(n_grades):
                key = fall * outside[r] - loss * b[r]
                if key > highest:
                    best = r
                    highest = key
            if not is_first:
                # the smallest key inside leaves for it, if it is smaller
                worst = 0
                lowest = INFINITY
                for r in range(n_grades):
                    key = fall * inside[r] - loss * b[r]
                    if key < lowest:
                        worst = r
                        lowest = key
                if not highest > lowest:
                    break
                nested = False
                at = taken[worst] - 1
                outside[worst] = inside[worst]
                inside[worst] = g[ranks[at - 1]] if at > starts[worst] else INFINITY
                taken[worst] = at
            # the largest key enters
            at = taken[best]
            inside[best] = outside[best]
            outside[best] = g[ranks[at + 1]] if at + 1 < starts[best + 1] else -INFINITY
            taken[best] = at + 1
            room.entries[ranks[at]] = k
            room.n_entries[ranks[at]] += 1
            is_first = False
        v[k] = 0.5 * (highest + lowest)
        room.counts[k + 1] = taken[n_grades - 1] - starts[n_grades - 1]
    v[n_items - 1] = 0.0
    for k in range(n_items - 2, -1, -1):
        v[k] += v[k + 1]
    return nested


cdef void list_by_grade(const Query *query, Lists *room) noexcept nogil:
    """List the ranks of each grade in turn, and where each grade begins; no rank has entered."""
    cdef i64 *starts = room.starts
    cdef i64 *ends = room.taken
    cdef i64 r, rank
    for r in range(query.n_grades + 1):
        starts[r] = 0
    for rank in range(query.n_items):
        starts[room.grades[rank] + 1] += 1
        room.n_entries[rank] = 0
    for r in range(query.n_grades):
        ends[r] = starts[r]
        starts[r + 1] += starts[r]
    for rank in range(query.n_items):
        r = room.grades[rank]
        room.ranks[ends[r]] = rank
        ends[r] += 1


# The assignment problem


cdef void complete(const Query *query, Lists *room) noexcept nogil:
    """Fill the positions of all ranks from the prices of the thresholds, which are changed.

    With prices v of positions, ``u_i = max_j C_ij - v_j`` is feasible in the dual [LS08] eq. (26).
    A ranking that uses only tight pairs, those with ``u_i + v_j = C_ij``, is optimal. An item that
    entered one set alone is tight at its entry, so most items are placed at once. Each one left
    over is placed along a shortest path in the reduced costs ``u_i + v_j - C_ij``, by a search of
    the kind of Jonker and Volgenant, O(n_items) for each item it meets; C is never stored.
    """
    cdef i64 i
    place_tight(query, room)
    for i in range(query.n_items):
        if room.positions[i] < 0:
            augment(query, room, i)


cdef void place_tight(const Query *query, Lists *room) noexcept nogil:
    """Find u, and place every item at its tight position unless another one is there already."""
    cdef const double *c = query.decay
    cdef const double *a = query.discounts
    cdef const double *g = room.scores
    cdef const double *b = room.gains
    cdef const double *v = room.v
    cdef i64 i, j, first, last, tight
    cdef double profit, best
    for j in range(query.n_items):
        room.owners[j] = -1
    for i in range(query.n_items):
        first = 0
        last = query.n_items
        if room.n_entries[i] == 1:
            first = room.entries[i]
            last = first + 1
        tight = first
        best = -INFINITY
        for j in range(first, last):
            # [LS08] eq. (26), dorm-oracle: u_i = max_j C_ij - v_j
            profit = c[j] * g[i] - a[j] * b[i] - v[j]
            if profit > best:
                best = profit
                tight = j
        room.u[i] = best
        room.positions[i] = -1
        if room.owners[tight] < 0:
            room.positions[i] = tight
            room.owners[tight] = i


cdef void augment(const Query *query, Lists *room, i64 start) noexcept nogil:
    """Place one more item: others make room for it along the shortest path to a free position."""
    cdef const double *c = query.decay
    cdef const double *a = query.discounts
    cdef double *u = room.u
    cdef double *v = room.v
    cdef double *distances = room.distances
    cdef i64 *owners = room.owners
    cdef i64 *reached = room.reached
    cdef i64 n_open = query.n_items, item = start, end = -1, o, j, at, following
    cdef double distance = 0.0, base, g, b, reduced, nearest
    for j in range(query.n_items):
        distances[j] = INFINITY
        reached[j] = j
    while end < 0:
        # reach further from the item at the position reached last; the nearest one comes next
        nearest = INFINITY
        at = 0
        base = distance + u[item]
        g = room.scores[item]
        b = room.gains[item]
        for o in range(n_open):
            j = reached[o]
            # [LS08] eq. (26), dorm-oracle: u_i + v_j - C_ij
            reduced = base + v[j] - (c[j] * g - a[j] * b)
            if reduced < distances[j]:
                distances[j] = reduced
                room.previous[j] = item
            if distances[j] < nearest or (distances[j] == nearest and owners[j] < 0):
                nearest = distances[j]
                at = o
        distance = nearest
        j = reached[at]
        n_open -= 1
        reached[at] = reached[n_open]
        reached[n_open] = j
        item = owners[j]
        if item < 0:
            end = j
    # keep the dual feasible, and the pairs along the path tight
    u[start] -= distance
    for o in range(n_open + 1, query.n_items):
        j = reached[o]
        u[owners[j]] -= distance - distances[j]
        v[j] += distance - distances[j]
    # move every item of the path on by one
    item = -1
    while item != start:
        item = room.previous[end]
        owners[end] = item
        following = room.positions[item]
        room.positions[item] = end
        end = following


# Two grades


cdef int best_chain(const Query *query, OracleRoom room) except -1 nogil:
    """Fill the positions of all ranks of a query with two grades.

    A ranking is a chain x_0 = 0, x_1, ...: how many of the first k items are of the higher grade;
    it rises by 0 or 1. The value is an L-natural-concave function of the chain, so a chain that is
    best among those at most one away from it everywhere is best of all. A dynamic programme
    searches a band around a first guess, the counts of the thresholds. The band moves to the path
    found in it and doubles until the path keeps clear of its edges. Costs O(n_items * width).
    """
    cdef i64 *chain = room.at.counts
    cdef i64 *ranks = room.at.ranks
    cdef i64 n_items = query.n_items, n_low = room.at.starts[1], k, width = FIRST_WIDTH
    # a first guess: the thresholds' counts, made to rise by 0 or 1
    for k in range(n_items):
        if chain[k + 1] < chain[k]:
            chain[k + 1] = chain[k]
        elif chain[k + 1] > chain[k] + 1:
            chain[k + 1] = chain[k] + 1
    # a wider band, until the best chain in it keeps clear of its edges
    while True:
        if n_items * (2 * width + 1) > room.n_rises:
            room.widen(n_items * (2 * width + 1))
        search_band(query, &room.at, n_low, width, room.rises)
        if trace_chain(query, &room.at, n_low, width, room.rises):
            break
        width *= 2
    # the next item of the higher grade where the chain rises, of the lower one where it does not
    for k in range(n_items):
        if chain[k + 1] > chain[k]:
            room.at.positions[ranks[n_low + chain[k]]] = k
        else:
            room.at.positions[ranks[k - chain[k]]] = k
    return 0


cdef void search_band(const Query *query, Lists *room, i64 n_low, i64 width,
                      u8 *rises) noexcept nogil:
    """Find the best value of each x_k of the band, and whether x has just risen there."""
    cdef const double *c = query.decay
    cdef const double *a = query.discounts
    cdef const double *b = query.grade_gains
    cdef const double *g = room.scores
    cdef const i64 *chain = room.counts
    cdef double *values = room.values
    cdef i64 n_high = query.n_items - n_low, k, x, lowest, highest, first
    cdef double stay, rise
    for k in range(query.n_items + 1):
        lowest = max(0, k - n_low)
        highest = min(k, n_high)
        room.low[k] = max(chain[k] - width, lowest)
        room.high[k] = min(chain[k] + width, highest)
    for x in range(n_high + 2):
        values[x] = -INFINITY
    values[1] = 0.0
    for k in range(query.n_items):
        first = room.low[k + 1]
        for x in range(room.high[k + 1], first - 1, -1):
            stay = rise = -INFINITY
            # [LS08] eq. (24), dorm-oracle: an item of the lower grade at position k
            if 0 <= k - x < n_low:
                stay = values[x + 1] + c[k] * g[room.ranks[k - x]] - a[k] * b[0]
            if x > 0:  # and one of the higher grade
                rise = values[x] + c[k] * g[room.ranks[n_low + x - 1]] - a[k] * b[1]
            values[x + 1] = rise if rise > stay else stay
            rises[k * (2 * width + 1) + x - first] = rise > stay
        values[first] = -INFINITY  # has left the band


cdef bint trace_chain(const Query *query, Lists *room, i64 n_low, i64 width,
                      const u8 *rises) noexcept nogil:
    """Follow the best chain back; return whether it keeps clear of the edges of the band."""
    cdef i64 n_high = query.n_items - n_low, x = n_high, k
    cdef bint is_clear = True, at_low, at_high
    for k in range(query.n_items, 0, -1):
        room.counts[k] = x
        at_low = x == room.low[k] and x > 0 and x > k - n_low
        at_high = x == room.high[k] and x < k and x < n_high
        is_clear = is_clear and not (at_low or at_high)
        x -= rises[(k - 1) * (2 * width + 1) + x - room.low[k]]
    return is_clear


# Heads: losses that look at the first positions only
#
# An exchange of two items shows that some optimum puts the items of one grade in the order of their
# scores, an item before every item of a higher gain and a lower score, and everything below the
# head in the order of the scores. So a head is known once the number of items it takes from each
# grade is known, and these numbers, a state, are few.


cdef double best_head(const Query *query, const double *g, const i64 *grades, double max_states,
                      States *states, i64 *positions) noexcept nogil:
    """Fill the positions of all ranks: the best head, then the rest in the order of the scores.

    Maximises [LS08] eq. (24): the head's ``sum_j c_j g - a_j b``, a less its last value, plus what
    the tail gains or loses by it. States are visited as an odometer turns that has a wheel for each
    grade, the lowest gain outermost, so that what a state is built from has been visited before it.
    Costs O(depth) for each rank up to the last candidate, and O(grades) for each state.

    Parameters
    ----------
    query
        Its discounts do not increase and are constant from its depth on.
    g : (n_items,)
        The score of each rank.
    grades : (n_items,)
        The grade of each rank, negative for those to be kept out of the head.
    max_states
        Give up beyond this number of states.
    states
        Room.
    positions : (n_items,), filled

    Returns
    -------
    float
        The value, short of a constant of the query; inf if there are too many states, -inf if too
        few items may enter, and then nothing is filled.
    """
    cdef const double *a = query.discounts
    cdef const double *b = query.grade_gains
    cdef i64 depth = query.depth, n_grades = query.n_grades, n_ranks, r
    cdef i64 *last = states.last
    cdef i64 *strides = states.strides
    cdef i64 state = 0, count = 0, best_state = -1, lowest, lowest_grade
    cdef double n_states = 1.0, best = -INFINITY, c, fall, value, most, total
    n_ranks = find_candidates(query, grades, states)
    for r in range(n_grades):
        n_states *= states.sizes[r] + 1
    if n_states > max_states or n_states > states.n_states:
        return INFINITY
    tabulate_shifts(query, g, n_ranks, states.shifts)
    start_wheels(query, states)
    states.head[0] = states.tail[0] = 0.0
    while turn_wheels(query, states, &state, &count):
        # the last item of the best head of this state, at position count - 1
        c = query.decay[count - 1]
        fall = a[count - 1] - a[query.n_items - 1]
        lowest = -1
        lowest_grade = 0
        most = -INFINITY
        for r in range(n_grades - 1, -1, -1):
            if last[r] > lowest:  # not before an item of a higher gain and a lower score
                lowest = last[r]
                lowest_grade = r
                # [LS08] eq. (24), dorm-oracle
                value = states.head[state - strides[r]] + c * g[lowest] - fall * b[r]
                if value > most:
                    most = value
                    states.last_grade[state] = <u8>r
        states.head[state] = most
        # the tail loses the lowest rank of the head
        total = states.tail[state - strides[lowest_grade]]
        total += states.shifts[last[lowest_grade] * depth + depth - count]
        states.tail[state] = total
        if count == depth and most + total > best:
            best = most + total
            best_state = state
    if best_state >= 0:
        place_head(query, best_state, states, positions)
    return best


cdef inline i64 find_candidates(const Query *query, const i64 *grades,
                                States *states) noexcept nogil:
    """List the ranks of each grade's items that may enter a head; return how many ranks it needs.

    An item may enter if it and all items of no higher gain and no lower score find room, so the
    ranks are searched only until the lowest grade has filled the head.
    """
    cdef i64 rank = 0, needed = 0, r, grade
    for r in range(query.n_grades):
        states.sizes[r] = states.before[r] = 0
    while rank < query.n_items and states.before[0] < query.depth:
        grade = grades[rank]
        if grade >= 0:
            for r in range(grade, query.n_grades):
                states.before[r] += 1
            if states.before[grade] <= query.depth:
                states.candidates[states.sizes[grade] * states.n_grades + grade] = rank
                states.sizes[grade] += 1
                needed = rank + 1
        rank += 1
    return needed


cdef inline void tabulate_shifts(const Query *query, const double *g, i64 n_ranks,
                                 double *shifts) noexcept nogil:
    """Tabulate what it changes in the tail that rank q enters the head with s more ranks below it.

    The tail's value is a constant plus the sum of ``shifts[q_t, depth - t]`` over the ranks q_1 <
    q_2 < ... of the head: q_t itself leaves the tail, and the items before it need not make room
    for the ranks below.
    """
    cdef i64 depth = query.depth, q, s
    cdef double *sums = shifts + n_ranks * depth  # of the first q items, s positions further down
    cdef double c, moved
    for s in range(depth + 1):
        sums[s] = 0.0
    for q in range(n_ranks):
        for s in range(depth + 1):
            c = query.decay[q + s] if q + s < query.n_items else 0.0
            moved = sums[s] + c * g[q]  # [LS08] eq. (18), dorm-slack
            if s < depth:
                shifts[q * depth + s] = sums[s + 1] - moved
            sums[s] = moved


cdef inline void start_wheels(const Query *query, States *states) noexcept nogil:
    """Take nothing yet."""
    cdef i64 r, stride = 1
    for r in range(query.n_grades - 1, -1, -1):
        states.strides[r] = stride
        stride *= states.sizes[r] + 1
    for r in range(query.n_grades):
        states.taken[r] = 0
        states.last[r] = -1
        states.following[r] = states.candidates[r] if states.sizes[r] > 0 else query.n_items
        states.limits[r] = query.n_items
        if r > 0:
            states.limits[r] = min(states.limits[r - 1], states.following[r - 1])


cdef inline bint turn_wheels(const Query *query, States *states, i64 *state,
                             i64 *count) noexcept nogil:
    """Go on to the next state; return whether there is one."""
    cdef i64 *taken = states.taken
    cdef i64 *following = states.following
    cdef i64 *limits = states.limits
    cdef i64 grade = query.n_grades - 1, r
    # put the wheels that are at their end back to zero
    while grade >= 0 and (count[0] == query.depth or following[grade] >= limits[grade]):
        if taken[grade] > 0:
            state[0] -= taken[grade] * states.strides[grade]
            count[0] -= taken[grade]
            taken[grade] = 0
            states.last[grade] = -1
            following[grade] = states.candidates[grade]
        grade -= 1
    if grade < 0:
        return False
    # take one more item of the first grade that can give one
    state[0] += states.strides[grade]
    count[0] += 1
    taken[grade] += 1
    states.last[grade] = following[grade]
    following[grade] = query.n_items
    if taken[grade] < states.sizes[grade]:
        following[grade] = states.candidates[taken[grade] * states.n_grades + grade]
    for r in range(grade + 1, query.n_grades):
        limits[r] = min(limits[r - 1], following[r - 1])
    return True


cdef inline void place_head(const Query *query, i64 state, const States *states,
                            i64 *positions) noexcept nogil:
    """Fill the positions: the head that a state stands for, the rest in the order of the ranks."""
    cdef i64 rank, position, r, count
    for rank in range(query.n_items):
        positions[rank] = -1
    for position in range(query.depth - 1, -1, -1):
        r = states.last_grade[state]
        count = (state // states.strides[r]) % (states.sizes[r] + 1)
        positions[states.candidates[(count - 1) * states.n_grades + r]] = position
        state -= states.strides[r]
    position = query.depth
    for rank in range(query.n_items):
        if positions[rank] < 0:
            positions[rank] = position
            position += 1


# Planes


cdef int place_ranks(const Query *query, OracleRoom room) except -1 nogil:
    """Fill the best positions of the ranks of a query by any method but a sort."""
    cdef Lists *lists = &room.at
    cdef double most
    cdef i64 rank
    if query.method == TRUNCATED:
        most = <double>(STATES_PER_SQUARE * query.n_items * query.n_items)
        most = most if most > FEW_STATES else <double>FEW_STATES
        if best_head(query, lists.scores, lists.grades, most, room.states,
                     lists.positions) != INFINITY:
            return 0
    if find_thresholds(query, lists):
        for rank in range(query.n_items):
            lists.positions[rank] = lists.entries[rank]
    elif query.method == TWO_GRADES:
        best_chain(query, room)
    else:
        complete(query, lists)
    return 0


cdef int find_plane(const Query *query, OracleRoom room, const double *scores, i64 *positions,
                    double *beta, double *loss) except -1 nogil:
    """Fill the best positions of the items, the coefficients of the plane, and its loss.

    The score of a ranking is [LS08] eq. (18), or (21) with the features (20): the coefficients of a
    plane are those of the target less those of the ranking.
    """
    cdef Lists *at = &room.at
    cdef i64 rank, i, j
    cdef double slope = query.slope if query.method == SORT else 0.0
    for i in range(query.n_items):
        # [LS08] eq. (24), dorm-oracle: a = c sorts g - b
        at.scores[i] = scores[i] - slope * query.gains[i]
    descending(at.scores, query.n_items, at.fall, at.codes, at.spare, at.order)
    for rank in range(query.n_items):
        i = at.order[rank]
        at.scores[rank] = scores[i]
        at.gains[rank] = query.gains[i]
        at.grades[rank] = query.grades[i]
        at.positions[rank] = rank
    if query.method != SORT:
        place_ranks(query, room)
    loss[0] = query.ideal  # [LS08] eq. (17), dorm-loss: <a(1), b> - <a(pi), b>
    for rank in range(query.n_items):
        i = at.order[rank]
        j = at.positions[rank]
        positions[i] = j
        beta[i] = query.target[i] - query.decay[j]  # [LS08] eq. (20), dorm-slack: c(1) - c(pi)
        loss[0] -= query.discounts[j] * at.gains[rank]
    return 0


def find_planes(OracleTargets targets not None, OracleRoom room not None, i64 first, i64 last,
                const double[::1] scores, i64[::1] positions, double[::1] beta,
                double[::1] losses):
    """Find the best ranking of the queries first ... last - 1 and the cutting plane of each.

    Parameters
    ----------
    room
        For the longest of these queries.
    scores, positions, beta : (n_items,)
        Of these queries' items alone; the last two are filled.
    losses : (last - first,), filled
    """
    cdef Query query
    cdef i64 q, at
    with nogil:
        for q in range(first, last):
            query = query_of(&targets.queries, q)
            at = targets.queries.starts[q] - targets.queries.starts[first]
            find_plane(&query, room, &scores[at], &positions[at], &beta[at], &losses[q - first])


# The reciprocal rank, where the first of several relevant items counts


def place_first_relevant(const double[::1] scores, const u8[::1] hits, const double[::1] decay,
                         const double[::1] discounts, i64[::1] positions):
    """Fill the positions that maximise the score of a ranking less the worth of its first hit.

    If the first k positions hold no relevant item, they hold the k others of the highest scores in
    their order, and all else follows in its order, since any exchange would lower the score. So
    there is one ranking to look at for every k. The next one moves a single item up, past the
    relevant items of higher scores. Costs a sort and O(n_relevant) for each k.

    Parameters
    ----------
    scores : (n_items,)
        g of each item.
    hits : (n_items,)
        Which items are relevant; at least one.
    decay, discounts : (n_items,)
        c and a of each position; neither increases.
    positions : (n_items,), filled
    """
    cdef i64 n_items = scores.shape[0], n_ahead = 0, k = 0, best_k = 0, rank, item, r
    cdef u64[:, ::1] codes = np.empty((3, rounded_up(n_items)), np.uint64)
    cdef i64[::1] order = np.empty(n_items, np.int64)
    cdef double[::1] ahead = np.empty(n_items)  # scores of the relevant items ahead of the others
    cdef double value = 0.0, best
    if n_items == 0:
        return
    with nogil:
        descending(&scores[0], n_items, &codes[0, 0], &codes[1, 0], &codes[2, 0], &order[0])
        best = -discounts[0]  # [LS08] eq. (10), measure-rr: a relevant item in front
        for rank in range(n_items):
            item = order[rank]
            if hits[item]:
                ahead[n_ahead] = scores[item]
                n_ahead += 1
                continue
            if discounts[k] == discounts[n_items - 1]:
                break
            # one more of the others moves up, and the relevant items ahead of it move down
            value += (decay[k] - decay[k + n_ahead]) * scores[item]
            for r in range(n_ahead):
                value += (decay[k + r + 1] - decay[k + r]) * ahead[r]
            k += 1
            if value - discounts[k] > best:
                best = value - discounts[k]
                best_k = k
        # the k others first, all else behind, each in its order
        k = 0
        r = best_k
        for rank in range(n_items):
            item = order[rank]
            if not hits[item] and k < best_k:
                positions[item] = k
                k += 1
            else:
                positions[item] = r
                r += 1


# Arrays


cdef inline i64 rounded_up(i64 n_items) noexcept nogil:
    """Return the length that the sort needs."""
    return (n_items + 7) // 8 * 8


cdef class OracleTargets:
    """For each query, what is known before the scores: the plan, the target, what the slack counts.

    Parameters
    ----------
    plan : OraclePlan
    target : (n_items,)
        c of the position that each item has in the target, the ranking without loss.
    ideal : (n_queries,)
        What the target gains.
    slack_weights : (n_queries,)
        C times the weight of each query.
    """

    def __init__(self, plan, target, ideal, slack_weights):
        cdef const i64[::1] starts = plan.starts
        cdef const i64[::1] grade_starts = plan.grade_starts
        cdef const i64[::1] methods = plan.methods
        cdef const i64[::1] depths = plan.depths
        cdef const i64[::1] grades = plan.grades
        cdef const double[::1] gains = plan.gains
        cdef const double[::1] decay = plan.decay
        cdef const double[::1] discounts = plan.discounts
        cdef const double[::1] grade_gains = plan.grade_gains
        cdef const double[::1] slopes = plan.slopes
        cdef const double[::1] of_target = target
        cdef const double[::1] of_ideal = ideal
        cdef const double[::1] of_slacks = slack_weights
        self.plan = plan  # keeps the arrays, as the next three do
        self.target = target
        self.ideal = ideal
        self.slack_weights = slack_weights
        self.queries.starts = &starts[0]
        self.queries.grade_starts = &grade_starts[0]
        self.queries.methods = &methods[0]
        self.queries.depths = &depths[0]
        self.queries.grades = &grades[0]
        self.queries.gains = &gains[0]
        self.queries.decay = &decay[0]
        self.queries.discounts = &discounts[0]
        self.queries.grade_gains = &grade_gains[0]
        self.queries.slopes = &slopes[0]
        self.queries.target = &of_target[0]
        self.queries.ideal = &of_ideal[0]
        self.queries.slack_weights = &of_slacks[0]


cdef class StateTable:
    """Room for the states of a search of heads.

    Parameters
    ----------
    n_states
        The search gives up where it needs more.
    depth, n_grades, n_items
        The largest of all queries to be searched.
    """

    def __init__(self, i64 n_states, i64 depth, i64 n_grades, i64 n_items):
        cdef double[:, ::1] values = np.empty((2, n_states + 1))
        cdef u8[::1] last_grade = np.empty(n_states + 1, np.uint8)
        cdef i64[:, ::1] wheels = np.empty((7 + depth, n_grades + 1), np.int64)
        cdef double[::1] shifts = np.empty((n_items + 1) * depth + 1)
        self.kept = values, last_grade, wheels, shifts
        self.at.n_states = n_states
        self.at.n_grades = wheels.shape[1]
        self.at.head = &values[0, 0]
        self.at.tail = &values[1, 0]
        self.at.last_grade = &last_grade[0]
        self.at.sizes = &wheels[0, 0]
        self.at.before = &wheels[1, 0]
        self.at.taken = &wheels[2, 0]
        self.at.last = &wheels[3, 0]
        self.at.following = &wheels[4, 0]
        self.at.limits = &wheels[5, 0]
        self.at.strides = &wheels[6, 0]
        self.at.candidates = &wheels[7, 0] if depth else NULL
        self.at.shifts = &shifts[0]


cdef class OracleRoom:
    """Room that queries use one after the other; one for each thread.

    Parameters
    ----------
    longest
        Number of items of the longest query.
    table : StateTable
        For those queries whose method is TRUNCATED.
    """

    def __init__(self, i64 longest, StateTable table not None):
        cdef u64[:, ::1] codes = np.empty((3, rounded_up(longest)), np.uint64)
        cdef double[:, ::1] floats = np.empty((10, longest + 2))
        cdef i64[:, ::1] integers = np.empty((15, longest + 2), np.int64)
        self.kept = codes, floats, integers, table
        self.longest = longest
        self.states = &table.at
        self.at.fall = &codes[0, 0]
        self.at.codes = &codes[1, 0]
        self.at.spare = &codes[2, 0]
        self.at.scores = &floats[0, 0]
        self.at.gains = &floats[1, 0]
        self.at.inside = &floats[2, 0]
        self.at.outside = &floats[3, 0]
        self.at.u = &floats[4, 0]
        self.at.v = &floats[5, 0]
        self.at.distances = &floats[6, 0]
        self.at.values = &floats[7, 0]
        self.at.order = &integers[0, 0]
        self.at.grades = &integers[1, 0]
        self.at.positions = &integers[2, 0]
        self.at.ranks = &integers[3, 0]
        self.at.starts = &integers[4, 0]
        self.at.taken = &integers[5, 0]
        self.at.entries = &integers[6, 0]
        self.at.n_entries = &integers[7, 0]
        self.at.counts = &integers[8, 0]
        self.at.owners = &integers[9, 0]
        self.at.previous = &integers[10, 0]
        self.at.reached = &integers[11, 0]
        self.at.low = &integers[12, 0]
        self.at.high = &integers[13, 0]
        self.plane.scores = &floats[8, 0]
        self.plane.beta = &floats[9, 0]
        self.plane.positions = &integers[14, 0]
        self.n_rises = 0

    cdef int widen(self, i64 n_rises) except -1 with gil:
        """Make room for a wider band around a chain."""
        cdef u8[::1] band = np.empty(n_rises, np.uint8)
        self.band = band
        self.rises = &band[0]
        self.n_rises = n_rises
        return 0


cdef Query query_of(const Queries *queries, i64 q) noexcept nogil:
    """Return what is known of one query."""
    cdef i64 first = queries.starts[q], first_grade = queries.grade_starts[q]
    cdef Query query
    query.n_items = queries.starts[q + 1] - first
    query.n_grades = queries.grade_starts[q + 1] - first_grade
    query.method = queries.methods[q]
    query.depth = queries.depths[q]
    query.slope = queries.slopes[q]
    query.ideal = queries.ideal[q]
    query.gains = queries.gains + first
    query.decay = queries.decay + first
    query.discounts = queries.discounts + first
    query.target = queries.target + first
    query.grades = queries.grades + first
    query.grade_gains = queries.grade_gains + first_grade
    return query
