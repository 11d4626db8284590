"""Exact oracles: the best ranking of a query by thresholds, shortest paths, a band or its head.

By Abel summation the value of a ranking is a sum over k of ``(c_k - c_{k+1}) score -
(a_k - a_{k+1}) gain`` over its first k items, c the decay and a the discounts. Each term alone is
greatest for the k items with the largest keys. Where these sets are nested they are the ranking.
Where they are not, their thresholds are prices v of positions, a feasible start for the dual
[LS08] eq. (26) from which few augmenting paths are left; and for two grades they are a first guess
of a chain, which a dynamic programme completes.

Items are named by their rank, 0 for the highest score. Room to work in comes from the caller:
rows of floats and of integers, each for one purpose.
"""

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.compile import (
    CALLED_BY_KERNELS,
    GIVEN_FLOATS,
    GIVEN_INTEGERS,
    MAKES_NO_ARRAYS,
    njit,
)

SORT, TRUNCATED, TWO_GRADES, GENERAL = range(4)

GAIN, DECAY, DISCOUNT, TARGET = range(4)
"""Rows of what ``OracleTargets`` say of items and positions."""

SLOPE, IDEAL, WEIGHT = range(3)
"""Rows of what they say of queries, in floats."""

START, GRADE_START, METHOD, DEPTH = range(4)
"""Rows of what they say of queries, in integers."""

SCORES, GAINS, INSIDE, OUTSIDE, PRICES, PROFITS, DISTANCES = range(7)
GIVEN_SCORES, BETA, IMAGE, LOSS = range(7, 11)
"""Rows of floats to work in, by rank, grade or position; then a plane in the order of the items."""

ORDER, BY_RANK, RANKS, STARTS, TAKEN, ENTRIES, N_ENTRIES, COUNTS, OWNERS, PREVIOUS, REACHED = range(
    11
)
POSITIONS, N_INTEGERS, N_FLOATS = 11, 12, 11
"""Rows of integers to work in; last the positions in the order of the items."""

_LISTS = "float64[:, ::1], int64[:, ::1]"
_POSITIONS = f"{GIVEN_FLOATS}, {GIVEN_FLOATS}"

_RUN = 8  # keys sorted by insertion before runs are merged


# Heads: losses that look at the first positions only
#
# An exchange of two items shows that some optimum puts the items of one grade in the order of their
# scores, an item before every item of a higher gain and a lower score, and everything below the
# head in the order of the scores. So a head is known once the number of items it takes from each
# grade is known, and these numbers are few.

SIZES, BEFORE, IN_HEAD, LAST, FOLLOWING, LIMITS, STRIDES, CANDIDATES = range(8)
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
    sizes, taken, last, following = wheels[SIZES], wheels[IN_HEAD], wheels[LAST], wheels[FOLLOWING]
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
    sizes, taken, last, following = wheels[SIZES], wheels[IN_HEAD], wheels[LAST], wheels[FOLLOWING]
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


# Whole rankings


@njit(
    **CALLED_BY_KERNELS,
    is_scalar=True,
    apart=f"void({GIVEN_FLOATS}, int64, uint64[:, ::1], int64[::1])",
)
def descending(scores: FloatArray, n_items: int, keys: NDArray[np.uint64], order: IntArray) -> None:
    """Fill ``order`` with the items from the highest score to the lowest, ties as they came.

    Sorts integers that hold the leading bits of the score above the number of the item, which is
    twice as fast as sorting through an index, then mends the few neighbours that these bits cannot
    tell apart.

    Parameters
    ----------
    scores : (n_items,) or longer
    n_items
        At least 1.
    keys : (2, n_items) or wider
        Room to work in.
    order : (n_items,) or longer, filled
    """
    source, target, one = keys[0], keys[1], np.uint64(1)
    highest = lowest = scores[0]
    for i in range(n_items):
        if scores[i] > highest:
            highest = scores[i]
        elif scores[i] < lowest:
            lowest = scores[i]
    n_bits = one
    while n_items >> n_bits:
        n_bits += one
    scale = 0.0
    if highest - lowest > 1e-280:
        scale = np.float64(one << (np.uint64(63) - n_bits)) / (highest - lowest)
    for i in range(n_items):
        source[i] = (np.uint64((highest - scores[i]) * scale) << n_bits) | np.uint64(i)
    for run in range(0, n_items, _RUN):
        last_of_run = run + _RUN if run + _RUN < n_items else n_items
        for i in range(run + 1, last_of_run):
            key, at = source[i], i
            while at > run and source[at - 1] > key:
                source[at] = source[at - 1]
                at -= 1
            source[at] = key
    end, length = np.uint64(n_items), np.uint64(_RUN)
    while length < end:
        to = np.uint64(0)
        while to < end:  # unsigned bounds and no branch on the keys keep the loop short
            left, right = to, to + length if to + length < end else end
            middle, last = right, right + length if right + length < end else end
            while left < middle and right < last:
                is_left = source[left] <= source[right]
                target[to] = source[left] if is_left else source[right]
                left += np.uint64(is_left)
                right += np.uint64(not is_left)
                to += one
            if left == middle:
                left, middle = right, last
            while left < middle:  # what is left of one of them
                target[to] = source[left]
                left += one
                to += one
        source, target, length = target, source, length + length
    for rank in range(n_items):
        item = np.intp(source[rank] & ((one << n_bits) - one))
        at = rank
        while at > 0 and scores[order[at - 1]] < scores[item]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = item


@njit(
    **CALLED_BY_KERNELS,
    is_scalar=True,
    apart=f"void(int64, int64, {GIVEN_INTEGERS}, int64[:, ::1])",
)
def list_by_grade(n_items: int, n_grades: int, grades: IntArray, integers: IntArray) -> None:
    """List the ranks of each grade in turn, and where each grade begins; no rank has entered."""
    order, ranks, starts = integers[ORDER], integers[RANKS], integers[STARTS]
    ends, n_entries = integers[TAKEN], integers[N_ENTRIES]
    for r in range(n_grades + 1):
        starts[r] = 0
    for i in range(n_items):
        starts[grades[i] + 1] += 1
        n_entries[i] = 0
    for r in range(n_grades):
        ends[r] = starts[r]
        starts[r + 1] += starts[r]
    for rank in range(n_items):
        grade = grades[order[rank]]
        ranks[ends[grade]] = rank
        ends[grade] += 1


@njit(
    **CALLED_BY_KERNELS,
    is_scalar=True,
    apart=f"boolean(int64, {GIVEN_INTEGERS}, {GIVEN_FLOATS}, {_POSITIONS}, {_LISTS})",
)
def find_thresholds(
    n_items: int,
    grades: IntArray,
    gains: FloatArray,
    decay: FloatArray,
    discounts: FloatArray,
    floats: FloatArray,
    integers: IntArray,
) -> bool:
    """Find for each k the k items with the largest keys; return whether the sets are nested.

    Fills the size at which each rank entered last, less one (a position), how often it entered, the
    prices of the positions (the sums of the thresholds from each position on), and how many items
    of the last grade are in the set of each size. Costs O(grades) for each position and each item
    that leaves a set again. The discounts need not be monotone.

    Parameters
    ----------
    n_items
        Of the query, at least 1.
    grades
        Of its items.
    gains
        The distinct gains, ascending: one for each grade.
    decay, discounts
        Of each position.
    """
    scores, inside, outside = floats[SCORES], floats[INSIDE], floats[OUTSIDE]
    ranks, starts, taken = integers[RANKS], integers[STARTS], integers[TAKEN]
    entries, n_entries, counts = integers[ENTRIES], integers[N_ENTRIES], integers[COUNTS]
    prices = floats[PRICES]
    n_grades, nested, lowest = len(gains), True, np.inf
    list_by_grade(n_items, n_grades, grades, integers)
    counts[0] = 0
    for r in range(n_grades):
        taken[r] = starts[r]  # where in the list of each grade its first item outside stands
        inside[r] = np.inf  # the lowest score of each grade in the set
        outside[r] = scores[ranks[starts[r]]]  # the highest score of each grade not in it
    for k in range(n_items):
        fall = loss = 0.0
        if k + 1 < n_items:
            fall, loss = decay[k] - decay[k + 1], discounts[k] - discounts[k + 1]
        is_first = True
        while True:
            grade, highest = 0, -np.inf
            for r in range(n_grades):
                key = fall * outside[r] - loss * gains[r]
                if key > highest:  # false for a grade with nothing outside, also where it is NaN
                    grade, highest = r, key
            if not is_first:
                worst, lowest = 0, np.inf
                for r in range(n_grades):
                    key = fall * inside[r] - loss * gains[r]
                    if key < lowest:
                        worst, lowest = r, key
                if not highest > lowest:
                    break
                nested = False
                at = taken[worst] - 1
                outside[worst] = inside[worst]
                inside[worst] = scores[ranks[at - 1]] if at > starts[worst] else np.inf
                taken[worst] = at
            at = taken[grade]
            inside[grade] = outside[grade]
            outside[grade] = scores[ranks[at + 1]] if at + 1 < starts[grade + 1] else -np.inf
            taken[grade] = at + 1
            entries[ranks[at]] = k
            n_entries[ranks[at]] += 1
            is_first = False
        prices[k] = 0.5 * (highest + lowest)
        counts[k + 1] = taken[n_grades - 1] - starts[n_grades - 1]
    prices[n_items - 1] = 0.0
    for k in range(n_items - 2, -1, -1):
        prices[k] += prices[k + 1]
    return nested


@njit(
    **CALLED_BY_KERNELS,
    is_scalar=True,
    apart=f"void(int64, {_POSITIONS}, {_LISTS})",
)
def complete(
    n_items: int,
    decay: FloatArray,
    discounts: FloatArray,
    floats: FloatArray,
    integers: IntArray,
) -> None:
    """Fill the positions of all ranks from the prices of the thresholds, which are changed.

    An item that entered once is tight at its entry, so most items are placed at once. Each one left
    over is placed along the shortest path in the reduced costs, by a search of the kind of Jonker
    and Volgenant, O(n_items) for each item it meets; the costs are computed where they are needed
    and never stored.
    """
    scores, gains, prices = floats[SCORES], floats[GAINS], floats[PRICES]
    profits, distances = floats[PROFITS], floats[DISTANCES]
    entries, n_entries, positions = integers[ENTRIES], integers[N_ENTRIES], integers[BY_RANK]
    owners, previous, reached = integers[OWNERS], integers[PREVIOUS], integers[REACHED]
    for j in range(n_items):
        owners[j] = -1
    for i in range(n_items):
        first, last = 0, n_items
        if n_entries[i] == 1:
            first, last = entries[i], entries[i] + 1
        where, best = first, -np.inf
        for j in range(first, last):  # [LS08] eq. (26), u_i + v_j on its left: u_i = max C_ij - v_j
            profit = decay[j] * scores[i] - discounts[j] * gains[i] - prices[j]
            if profit > best:
                best, where = profit, j
        profits[i] = best
        positions[i] = -1
        if owners[where] < 0:
            positions[i] = where
            owners[where] = i
    for start in range(n_items):
        if positions[start] >= 0:
            continue
        for j in range(n_items):
            distances[j] = np.inf
            reached[j] = j  # positions: those not reached yet come first
        n_open, item, distance, end = n_items, start, 0.0, -1
        while end < 0:
            nearest, at = np.inf, 0
            base, score, gain = distance + profits[item], scores[item], gains[item]
            for o in range(n_open):
                p = np.uintp(reached[o])
                reduced = base + prices[p] - (decay[p] * score - discounts[p] * gain)
                if reduced < distances[p]:
                    distances[p], previous[p] = reduced, item
                if distances[p] < nearest or (distances[p] == nearest and owners[p] < 0):
                    nearest, at = distances[p], o
            distance, position = nearest, reached[at]
            n_open -= 1
            reached[at], reached[n_open] = reached[n_open], position
            item = owners[position]
            if item < 0:
                end = position
        profits[start] -= distance
        for o in range(n_open + 1, n_items):
            position = reached[o]
            profits[owners[position]] -= distance - distances[position]
            prices[position] += distance - distances[position]
        item = -1
        while item != start:
            item = previous[end]
            owners[end] = item
            positions[item], end = end, positions[item]


@njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    no_cpython_wrapper=True,
    apart=f"void(int64, {GIVEN_FLOATS}, {_POSITIONS}, {_LISTS})",
    is_optional=True,
)
def best_chain(
    n_items: int,
    gains: FloatArray,
    decay: FloatArray,
    discounts: FloatArray,
    floats: FloatArray,
    integers: IntArray,
) -> None:
    """Fill the positions of all ranks of a query with two grades.

    A ranking is a chain x_0 = 0, x_1, ...: how many of the first k items are of the higher grade;
    it rises by 0 or 1. The value is an L-natural-concave function of the chain, so a chain that is
    best among those at most one away from it everywhere is best of all. A dynamic programme
    searches a band around a first guess, the counts of the thresholds. The band moves to the path
    found in it and doubles until the path keeps clear of its edges. Costs O(n_items * width).
    """
    scores, values = floats[SCORES], floats[DISTANCES]
    ranks, chain, positions = integers[RANKS], integers[COUNTS], integers[BY_RANK]
    low, high, n_low = integers[OWNERS], integers[PREVIOUS], integers[STARTS, 1]
    n_high = n_items - n_low
    for k in range(n_items):
        if chain[k + 1] < chain[k]:
            chain[k + 1] = chain[k]
        elif chain[k + 1] > chain[k] + 1:
            chain[k + 1] = chain[k] + 1
    width, is_clear = 4, False
    while not is_clear:
        rises = np.empty((n_items, 2 * width + 1), np.uint8)  # whether x has just risen
        for k in range(n_items + 1):
            lowest = k - n_low if k > n_low else 0
            highest = k if k < n_high else n_high
            low[k] = chain[k] - width if chain[k] - width > lowest else lowest
            high[k] = chain[k] + width if chain[k] + width < highest else highest
        for x in range(n_high + 2):
            values[x] = -np.inf  # of x in x + 1, so that x - 1 always exists
        values[1] = 0.0
        for k in range(n_items):
            first = low[k + 1]
            for x in range(high[k + 1], first - 1, -1):
                stay = rise = -np.inf
                if 0 <= k - x < n_low:
                    score = scores[ranks[k - x]]
                    stay = values[x + 1] + decay[k] * score - discounts[k] * gains[0]
                if x > 0:
                    score = scores[ranks[n_low + x - 1]]
                    rise = values[x] + decay[k] * score - discounts[k] * gains[1]
                values[x + 1] = rise if rise > stay else stay
                rises[k, x - first] = rise > stay
            values[first] = -np.inf  # has left the band
        is_clear, x = True, n_high
        for k in range(n_items, 0, -1):
            chain[k] = x
            at_low = x == low[k] and x > 0 and x > k - n_low
            at_high = x == high[k] and x < k and x < n_high
            if at_low or at_high:
                is_clear = False
            x -= rises[k - 1, x - low[k]]
        width *= 2
    for k in range(n_items):
        rising = chain[k + 1] > chain[k]
        positions[ranks[n_low + chain[k] if rising else k - chain[k]]] = k


STATES_PER_SQUARE, FEW_STATES = 4, 10_000
"""The truncated oracle is the faster one up to max(4 n_items^2, 10 000) states.

Measured: a state costs about 2.5 ns, the general oracle 10 ns * n_items^2 where the loss outweighs
the scores.
"""

_TARGETS = (
    f'Array(float64, 2, "C", True), Array(float64, 2, "C", True), Array(int64, 2, "C", True), '
    f"{GIVEN_INTEGERS}, {GIVEN_FLOATS}"
)
_TABLE = "float64[:, ::1], uint8[::1], int64[:, ::1], float64[::1], int64, int64"
_SEARCH, _SCRATCH = f"{_LISTS}, {_TABLE}", f"{_LISTS}, uint64[:, ::1], {_TABLE}"


@njit(
    **CALLED_BY_KERNELS,
    is_scalar=True,
    apart=(f"void(int64, int64, int64, {GIVEN_INTEGERS}, {GIVEN_FLOATS}, {_POSITIONS}, {_SEARCH})"),
)
def place_ranks(
    n_items: int,
    method: int,
    depth: int,
    grades: IntArray,
    gains: FloatArray,
    decay: FloatArray,
    discounts: FloatArray,
    floats: FloatArray,
    integers: IntArray,
    values: FloatArray,
    last_grade: NDArray[np.uint8],
    wheels: IntArray,
    shifts: FloatArray,
    head_search: int,
    chain_search: int,
) -> None:
    """Fill the best positions of the ranks of a query by any method but a sort.

    Parameters
    ----------
    grades, gains
        Of its items, and of its grades.
    decay, discounts
        Of its positions.
    """
    positions, is_open = integers[BY_RANK], True
    if method == TRUNCATED:
        most = float(STATES_PER_SQUARE * n_items * n_items)
        value = best_head(
            floats[SCORES, :n_items],
            gains,
            decay,
            discounts,
            grades,
            integers[ORDER, :n_items],
            depth,
            most if most > FEW_STATES else float(FEW_STATES),
            values,
            last_grade,
            wheels,
            shifts,
            positions[:n_items],
            head_search,
        )
        is_open = value == np.inf
    if is_open:
        if find_thresholds(n_items, grades, gains, decay, discounts, floats, integers):
            for rank in range(n_items):
                positions[rank] = integers[ENTRIES, rank]
        elif method == TWO_GRADES:
            best_chain(n_items, gains, decay, discounts, floats, integers, chain_search)
        else:
            complete(n_items, decay, discounts, floats, integers)


@njit(
    **MAKES_NO_ARRAYS,
    is_scalar=True,
    apart=(
        f"void({_TARGETS}, {_SCRATCH}, int64, int64, {GIVEN_FLOATS}, int64[::1], float64[::1], "
        "float64[::1])"
    ),
)
def find_planes(
    items: FloatArray,
    weights: FloatArray,
    bounds: IntArray,
    grades: IntArray,
    grade_gains: FloatArray,
    floats: FloatArray,
    integers: IntArray,
    keys: NDArray[np.uint64],
    values: FloatArray,
    last_grade: NDArray[np.uint8],
    wheels: IntArray,
    shifts: FloatArray,
    head_search: int,
    chain_search: int,
    first: int,
    last: int,
    scores: FloatArray,
    positions: IntArray,
    beta: FloatArray,
    losses: FloatArray,
) -> None:
    """Find the best ranking of the queries first ... last - 1 and the cutting plane of each.

    The score of a ranking is [LS08] eq. (18), or (21) with the features (20): the coefficients of a
    plane are those of the target less those of the ranking.

    Parameters
    ----------
    items, ..., grade_gains
        The fields of ``OracleTargets``.
    floats, ..., chain_search
        The fields of a ``Scratch``.
    scores, positions, beta : (n_items,)
        Of these queries' items alone; the last two are filled.
    losses : (last - first,), filled
    """
    s, g, order, by_rank = floats[SCORES], floats[GAINS], integers[ORDER], integers[BY_RANK]
    gains, decay, discounts = items[GAIN], items[DECAY], items[DISCOUNT]
    for q in range(first, last):
        begin, end, method = bounds[START, q], bounds[START, q + 1], bounds[METHOD, q]
        at, n = begin - bounds[START, first], end - begin
        slope = weights[SLOPE, q] if method == SORT else 0.0
        for i in range(n):  # [LS08] below eq. (24): a = c sorts g - b
            g[i] = scores[at + i] - slope * gains[begin + i]
            by_rank[i] = i
        descending(g, n, keys, order)
        for rank in range(n):
            s[rank], g[rank] = scores[at + order[rank]], gains[begin + order[rank]]
        c, a, in_query = decay[begin:end], discounts[begin:end], grades[begin:end]
        if method != SORT:
            place_ranks(
                n,
                method,
                bounds[DEPTH, q],
                in_query,
                grade_gains[bounds[GRADE_START, q] : bounds[GRADE_START, q + 1]],
                c,
                a,
                floats,
                integers,
                values,
                last_grade,
                wheels,
                shifts,
                head_search,
                chain_search,
            )
        loss = weights[IDEAL, q]  # [LS08] eq. (17)
        for rank in range(n):
            i, position = order[rank], by_rank[rank]
            positions[at + i] = position  # [LS08] eq. (20): c of the target less c of the ranking
            beta[at + i] = items[TARGET, begin + i] - c[position]
            loss -= a[position] * g[rank]
        losses[q - first] = loss


# The reciprocal rank, where the first of several relevant items counts


@njit(cache=True, nogil=True)
def place_first_relevant(
    scores: FloatArray,
    hits: BoolArray,
    decay: FloatArray,
    discounts: FloatArray,
    positions: IntArray,
) -> None:
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
    n_items = len(scores)
    order = np.empty(n_items, np.intp)
    descending(scores, n_items, np.empty((2, n_items), np.uint64), order)
    n_ahead = best_k = k = 0  # relevant items ahead of the other that moves up
    value, best = 0.0, -discounts[0]  # [LS08] eq. (10)
    ahead = np.empty(n_items)
    for rank in range(n_items):
        item = order[rank]
        if hits[item]:
            ahead[n_ahead] = scores[item]
            n_ahead += 1
            continue
        if discounts[k] == discounts[n_items - 1]:
            break
        value += (decay[k] - decay[k + n_ahead]) * scores[item]
        for r in range(n_ahead):
            value += (decay[k + r + 1] - decay[k + r]) * ahead[r]
        k += 1
        if value - discounts[k] > best:
            best, best_k = value - discounts[k], k
    _fill(order, hits, best_k, positions)


@njit(**CALLED_BY_KERNELS)
def _fill(order: IntArray, hits: BoolArray, n_first: int, positions: IntArray) -> None:
    """Place so many items that are not relevant first, and all else behind, each in its order."""
    placed, behind = 0, n_first
    for item in order:
        if not hits[item] and placed < n_first:
            positions[item] = placed
            placed += 1
        else:
            positions[item] = behind
            behind += 1
