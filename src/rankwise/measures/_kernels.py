"""Compiled loops over the cells (score vector, query) of a table: sort, sum, count pairs.

A kernel fills the cells ``first`` to ``last - 1``, numbered score vector by score vector and query
by query, and releases the interpreter lock, so that threads can share the cells. Items stand query
by query; query q owns the positions ``starts[q]`` to ``starts[q + 1] - 1``. ``order[v]`` lists the
items of each query from the highest to the lowest score of vector v, and ``tied[v, p]`` says
whether the item at position p shares its score with the one before it.
"""

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.compile import CALLED_BY_KERNELS, MAKES_NO_ARRAYS, njit

ONE, EIGHT = np.uint64(1), np.uint64(8)
SIGN = np.uint64(1 << 63)
"""The bit that negative numbers have; alone, it is minus zero."""

NETWORK = 8
"""Numbers that are sorted by a network; longer runs are merged from these."""

N_GRADES = 16
"""Whole numbers below this are sorted by counting."""


@njit(**MAKES_NO_ARRAYS)
def sort_items(
    first: int,
    last: int,
    starts: IntArray,
    keys: FloatArray,
    base: NDArray[np.uint32],
    depth: int,
    room: NDArray[np.uint64],
    order: NDArray[np.uint32],
    tied: BoolArray,
) -> None:
    """Sort the items of each query by decreasing key; equal keys keep the order of ``base``.

    Fills the cells ``first`` to ``last - 1``, numbered score vector by score vector and query by
    query. Keys are finite. O(n log n) whatever the keys.

    The first ``depth`` positions of a query are filled, and those tied with the last of them; what
    comes behind the tie may be left as it is, but ``tied`` is false right there. ``room`` has four
    rows, for `NETWORK` or `N_GRADES` numbers more than the longest query has items.
    """
    n_queries = len(starts) - 1
    longest = longest_query(starts)
    bits = keys.view(np.uint64)
    codes, spare, whole, counts = room[0], room[1], room[2], room[3]
    width = ONE
    while longest >> width:
        width += ONE
    position = (ONE << width) - ONE
    n_leaders = np.uint64(min(depth, longest))
    n_lanes = (n_leaders + (n_leaders >> ONE) + EIGHT - ONE) & ~(EIGHT - ONE)
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        start, stop = np.uint64(starts[q]), np.uint64(starts[q + 1])
        if _sort_few_grades(keys[v], base, order[v], tied[v], start, stop, counts):
            continue
        n_kept = length = stop - start
        for p in range(length):
            whole[p] = _falling(bits[v, base[start + p]])
        if length < n_lanes + n_lanes:
            for p in range(length):
                codes[p] = (whole[p] & ~position) | p
        else:
            n_kept = _keep_leaders(whole, length, n_leaders, n_lanes, position, codes, spare)
        found, free = codes, spare
        if _sort_codes(codes, spare, n_kept):
            found, free = spare, codes
        close = False
        for p in range(n_kept):
            order[v, start + p] = base[start + (found[p] & position)]
            same = p > np.uint64(0) and found[p] ^ found[p - ONE] <= position
            tied[v, start + p] = same
            if same:
                close = True
        if n_kept < length:
            tied[v, start + n_kept] = False
        if close:
            for p in range(n_kept):
                free[p] = whole[found[p] & position]
            for p in range(n_kept):
                whole[p] = free[p]
            _mend(whole, order[v], tied[v], start, start + n_kept, width, codes, spare)


@njit(**CALLED_BY_KERNELS)
def _keep_leaders(
    whole: NDArray[np.uint64],
    length: np.uint64,
    n_leaders: np.uint64,
    n_lanes: np.uint64,
    position: np.uint64,
    codes: NDArray[np.uint64],
    spare: NDArray[np.uint64],
) -> np.uint64:
    """Fill ``codes`` with the least numbers, so many and a few more; return how many there are.

    The numbers are dealt to lanes like cards. The least of each lane stand in different places, so
    that as many numbers as are wanted do not exceed the one that so many of these do not exceed.
    """
    for j in range(n_lanes):
        codes[j] = whole[j]
    row = n_lanes
    while row + n_lanes <= length:
        for j in range(n_lanes):
            codes[j] = min(codes[j], whole[row + j])
        row += n_lanes
    for j in range(length - row):
        codes[j] = min(codes[j], whole[row + j])
    bound = (spare if _sort_codes(codes, spare, n_lanes) else codes)[n_leaders - ONE]
    n_kept = np.uint64(0)
    for p in range(length):
        codes[n_kept] = (whole[p] & ~position) | p
        n_kept += np.uint64(whole[p] <= bound)
    return n_kept


@njit(**CALLED_BY_KERNELS)
def _falling(bits: np.uint64) -> np.uint64:
    """Return an integer that rises as the number of these bits falls."""
    if bits == SIGN:  # minus zero
        return ~SIGN
    return bits if bits & SIGN else ~(bits | SIGN)


@njit(**MAKES_NO_ARRAYS)
def longest_query(starts: IntArray) -> int:
    """Return the number of items of the longest query."""
    longest = 0
    for q in range(len(starts) - 1):
        longest = max(longest, starts[q + 1] - starts[q])
    return longest


@njit(**CALLED_BY_KERNELS, apart="boolean(uint64[::1], uint64[::1], uint64)")
def _sort_codes(codes: NDArray[np.uint64], spare: NDArray[np.uint64], length: np.uint64) -> bool:
    """Sort the first numbers; return whether the result stands in ``spare``.

    Both arrays have room for a multiple of eight numbers, and are filled up with the largest.
    """
    end = (length + EIGHT - ONE) & ~(EIGHT - ONE)
    for p in range(length, end):
        codes[p] = ~np.uint64(0)
    for first in range(np.uint64(0), end, EIGHT):
        _sort_eight(codes, first)
    width, swapped = EIGHT, False
    while width < end:
        low = np.uint64(0)
        while low < end:
            middle, high = min(low + width, end), min(low + width + width, end)
            if high - middle == width:
                _merge_equal(codes, spare, low, middle, high)
            else:
                _merge(codes, spare, low, middle, high)
            low = high
        codes, spare = spare, codes
        width, swapped = width + width, not swapped
    return swapped


@njit(**CALLED_BY_KERNELS)
def _sort_eight(codes: NDArray[np.uint64], low: np.uint64) -> None:
    """Sort eight numbers by a network of 19 comparisons."""
    part = codes[low : low + EIGHT]
    a, b, c, d, e, f, g, h = (
        part[0], part[1], part[2], part[3], part[4], part[5], part[6], part[7],
    )  # fmt: skip
    a, c, b, d = min(a, c), max(a, c), min(b, d), max(b, d)
    e, g, f, h = min(e, g), max(e, g), min(f, h), max(f, h)
    a, e, b, f = min(a, e), max(a, e), min(b, f), max(b, f)
    c, g, d, h = min(c, g), max(c, g), min(d, h), max(d, h)
    a, b, c, d = min(a, b), max(a, b), min(c, d), max(c, d)
    e, f, g, h = min(e, f), max(e, f), min(g, h), max(g, h)
    c, e, d, f = min(c, e), max(c, e), min(d, f), max(d, f)
    b, e, d, g = min(b, e), max(b, e), min(d, g), max(d, g)
    b, c, d, e, f, g = min(b, c), max(b, c), min(d, e), max(d, e), min(f, g), max(f, g)
    part[0], part[1], part[2], part[3], part[4], part[5], part[6], part[7] = a, b, c, d, e, f, g, h


@njit(**CALLED_BY_KERNELS)
def _merge_equal(
    source: NDArray[np.uint64],
    target: NDArray[np.uint64],
    low: np.uint64,
    middle: np.uint64,
    high: np.uint64,
) -> None:
    """Merge two sorted runs of equal length from both ends: no bound is ever reached."""
    i, j, p, q = low, middle, middle - ONE, high - ONE
    for k in range(middle - low):
        left, right = source[i], source[j]
        from_left = left <= right
        target[low + k] = left if from_left else right
        i += np.uint64(from_left)
        j += np.uint64(not from_left)
        left, right = source[p], source[q]
        from_right = left <= right
        target[high - ONE - k] = right if from_right else left
        p -= np.uint64(not from_right)
        q -= np.uint64(from_right)


@njit(**CALLED_BY_KERNELS)
def _merge(
    source: NDArray[np.uint64],
    target: NDArray[np.uint64],
    low: np.uint64,
    middle: np.uint64,
    high: np.uint64,
) -> None:
    """Merge two sorted runs."""
    i, j, k = low, middle, low
    while i < middle and j < high:
        left, right = source[i], source[j]
        from_left = left <= right
        target[k] = left if from_left else right
        i += np.uint64(from_left)
        j += np.uint64(not from_left)
        k += ONE
    while i < middle:
        target[k] = source[i]
        i += ONE
        k += ONE
    while j < high:
        target[k] = source[j]
        j += ONE
        k += ONE


@njit(**CALLED_BY_KERNELS)
def _mend(
    falling: NDArray[np.uint64],
    order: NDArray[np.uint32],
    tied: BoolArray,
    start: np.uint64,
    stop: np.uint64,
    width: np.uint64,
    codes: NDArray[np.uint64],
    spare: NDArray[np.uint64],
) -> None:
    """Sort the runs that ``tied`` marks by the bits that gave way; leave it true for equal keys.

    ``falling`` holds the whole integers of the items in the order found so far. Position p of the
    query is ``order[start + p]``.
    """
    length, last_bits = stop - start, (ONE << width) - ONE
    end = np.uint64(0)
    while end < length:
        low, end, in_order = end, end + ONE, True
        while end < length and tied[start + end]:
            in_order &= falling[end - ONE] <= falling[end]
            end += ONE
        if in_order:
            for p in range(low + ONE, end):
                tied[start + p] = falling[p] == falling[p - ONE]
            continue
        for p in range(end - low):
            codes[p] = ((falling[low + p] & last_bits) << width) | p
            falling[low + p] = order[start + low + p]  # its bits are in the codes now
        found = spare if _sort_codes(codes, spare, end - low) else codes
        for p in range(end - low):
            order[start + low + p] = falling[low + (found[p] & last_bits)]
            tied[start + low + p] = p > np.uint64(0) and found[p] ^ found[p - ONE] <= last_bits


@njit(**CALLED_BY_KERNELS)
def _sort_few_grades(
    key: FloatArray,
    base: NDArray[np.uint32],
    order: NDArray[np.uint32],
    tied: BoolArray,
    start: np.uint64,
    stop: np.uint64,
    ends: NDArray[np.uint64],
) -> bool:
    """Sort by counting if all keys are whole numbers from 0 to 15; tell whether they are."""
    for g in range(N_GRADES):
        ends[g] = np.uint64(0)
    for p in range(start, stop):
        x = key[base[p]]
        if not 0.0 <= x < N_GRADES:
            return False
        grade = np.uint64(x)
        if x != grade:
            return False
        ends[grade] += ONE
    at = start
    for g in range(N_GRADES - 1, -1, -1):
        first, at = at, at + ends[g]
        ends[g] = first
        for p in range(first, at):
            tied[p] = p > first
    for p in range(start, stop):
        item = base[p]
        grade = np.uint64(key[item])
        order[ends[grade]] = item
        ends[grade] += ONE
    return True


RUN = 16
"""Merge sorts start from runs of this length, sorted by insertion."""


@njit(**MAKES_NO_ARRAYS)
def midranks(
    first: int,
    last: int,
    starts: IntArray,
    order: NDArray[np.uint32],
    tied: BoolArray,
    out: FloatArray,
) -> None:
    """Give each item its rank minus the mean rank of its query; tied items share their mean."""
    n_queries = len(starts) - 1
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        start, stop = starts[q], starts[q + 1]
        p = start
        while p < stop:
            end = p + 1
            while end < stop and tied[v, end]:
                end += 1
            for at in range(p, end):
                out[v, order[v, at]] = 0.5 * ((p - start) - (stop - end))
            p = end


@njit(**MAKES_NO_ARRAYS)
def inner_products(
    first: int,
    last: int,
    starts: IntArray,
    gains: FloatArray,
    discounts: FloatArray,
    cumulative: FloatArray,
    order: NDArray[np.uint32],
    tied: BoolArray,
    out: FloatArray,
) -> None:
    """Sum gain times discount; the items of a tied block share its discounts evenly."""
    n_queries = len(starts) - 1
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        start, stop = starts[q], starts[q + 1]
        limit = min(stop, start + len(discounts))
        total, p = 0.0, start
        while p < limit:
            end, gain = p + 1, gains[order[v, p]]
            while end < stop and tied[v, end]:
                gain += gains[order[v, end]]
                end += 1
            if end == p + 1:
                total += gain * discounts[p - start]
            else:
                share = cumulative[end - start] - cumulative[p - start]
                total += gain * share / (end - p)
            p = end
        out[v, q] = total


@njit(**MAKES_NO_ARRAYS)
def precision_sums(
    first: int,
    last: int,
    starts: IntArray,
    relevant: BoolArray,
    cutoff: int,
    order: NDArray[np.uint32],
    tied: BoolArray,
    out: FloatArray,
) -> None:
    """Sum the expected precision at the position of each relevant item up to the cut-off.

    In a block of m tied items with r relevant ones, the item in position j of the block is relevant
    with probability r / m, and then (j - 1)(r - 1)/(m - 1) relevant items of the block are expected
    before it.
    """
    n_queries = len(starts) - 1
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        start, stop = starts[q], starts[q + 1]
        limit = min(stop - start, cutoff)
        total, before, p = 0.0, 0, start
        while p - start < limit:
            end, hits = _block(p, stop, relevant, order[v], tied[v])
            n_tied = end - p
            if hits > 0:
                step = (hits - 1) / (n_tied - 1) if n_tied > 1 else 0.0
                block = 0.0
                for j in range(min(n_tied, limit - (p - start))):
                    block += (before + 1 + j * step) / (p - start + j + 1)
                total += block * hits / n_tied
            before += hits
            p = end
        out[v, q] = total


@njit(**MAKES_NO_ARRAYS)
def first_reciprocals(
    first: int,
    last: int,
    starts: IntArray,
    relevant: BoolArray,
    cutoff: int,
    order: NDArray[np.uint32],
    tied: BoolArray,
    out: FloatArray,
) -> None:
    """Return the expected reciprocal rank of the first relevant item, 0 past the cut-off.

    In a block of m tied items with r relevant ones, the first of them takes position j with
    probability C(m - j, r - 1) / C(m, r), which the loop carries from j to j + 1.
    """
    n_queries = len(starts) - 1
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        start, stop = starts[q], starts[q + 1]
        p, hits, end = start, 0, start
        while end < stop and end - start < cutoff and hits == 0:
            p = end
            end, hits = _block(p, stop, relevant, order[v], tied[v])
        n_tied, total, chance = end - p, 0.0, hits / (end - p)
        for j in range(min(n_tied - hits + 1, cutoff - (p - start))):
            total += chance / (p - start + j + 1)
            if j + 1 < n_tied:
                chance *= (n_tied - j - hits) / (n_tied - j - 1)
        out[v, q] = total if hits > 0 else 0.0


@njit(cache=True, nogil=True)
def cascade_sums(
    first: int,
    last: int,
    starts: IntArray,
    chances: FloatArray,
    cutoff: int,
    order: NDArray[np.uint32],
    tied: BoolArray,
    out: FloatArray,
) -> None:
    """Return the expected reciprocal position of the item that a reader stops at.

    In a block of m tied items the reader passes t of them with the probability e[t], the mean over
    all choices of t items of the product of their chances not to stop: an elementary symmetric
    polynomial over its number of terms, built item by item. O(m^2) for a block, O(1) without ties.
    """
    n_queries = len(starts) - 1
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        start, stop = starts[q], starts[q + 1]
        limit = min(stop - start, cutoff)
        total, going, p = 0.0, 1.0, start
        while p - start < limit:
            end = p + 1
            while end < stop and tied[v, end]:
                end += 1
            top = min(end - p, limit - (p - start))
            e = np.zeros(top + 1)
            e[0] = 1.0
            for n in range(1, end - p + 1):
                passed = 1.0 - chances[order[v, p + n - 1]]
                for k in range(min(n, top), 0, -1):
                    e[k] = ((n - k) * e[k] + k * passed * e[k - 1]) / n
            for t in range(top):
                total += going * (e[t] - e[t + 1]) / (p - start + t + 1)
            going *= e[top]
            p = end
        out[v, q] = total


@njit(**CALLED_BY_KERNELS)
def _block(
    p: int, stop: int, relevant: BoolArray, order: NDArray[np.uint32], tied: BoolArray
) -> tuple[int, int]:
    """Return the end of the tied block that begins at p, and its number of relevant items."""
    end, hits = p + 1, int(relevant[order[p]])
    while end < stop and tied[end]:
        hits += relevant[order[end]]
        end += 1
    return end, hits


@njit(**MAKES_NO_ARRAYS)
def differing_pairs(
    first: int,
    last: int,
    starts: IntArray,
    keys: FloatArray,
    weight: FloatArray,
    order: NDArray[np.uint32],
    out: FloatArray,
) -> None:
    """Weigh the pairs of items whose keys differ; items are sorted by key."""
    n_queries = len(starts) - 1
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        above, block, total = 0.0, 0.0, 0.0
        for p in range(starts[q], starts[q + 1]):
            item = order[v, p]
            if p > starts[q] and keys[v, item] != keys[v, order[v, p - 1]]:
                above += block
                block = 0.0
            total += above * weight[item]
            block += weight[item]
        out[v, q] = total


@njit(**MAKES_NO_ARRAYS)
def tied_pairs(
    first: int,
    last: int,
    starts: IntArray,
    grades: FloatArray,
    weight: FloatArray,
    order: NDArray[np.uint32],
    tied: BoolArray,
    out: FloatArray,
) -> None:
    """Weigh the pairs whose scores are tied and whose grades differ; grades fall inside a tie."""
    n_queries = len(starts) - 1
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        above, block, total = 0.0, 0.0, 0.0
        for p in range(starts[q], starts[q + 1]):
            item = order[v, p]
            if not tied[v, p]:
                above, block = 0.0, 0.0
            elif grades[item] != grades[order[v, p - 1]]:
                above += block
                block = 0.0
            total += above * weight[item]
            block += weight[item]
        out[v, q] = total


@njit(cache=True, nogil=True)
def swapped_pairs(
    first: int,
    last: int,
    starts: IntArray,
    grades: FloatArray,
    weight: FloatArray,
    order: NDArray[np.uint32],
    out: FloatArray,
) -> None:
    """Weigh the pairs ordered against their grades: inversions counted by a merge sort."""
    n_queries = len(starts) - 1
    longest = longest_query(starts)
    grade, spare_grade = np.empty(longest), np.empty(longest)
    mass, spare_mass = np.empty(longest), np.empty(longest)
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        start, length = starts[q], starts[q + 1] - starts[q]
        for p in range(length):
            item = order[v, start + p]
            grade[p], mass[p] = grades[item], weight[item]
        out[v, q] = _inversions(grade, mass, spare_grade, spare_mass, length)


@njit(cache=True, nogil=True)
def _inversions(
    grade: FloatArray,
    mass: FloatArray,
    spare_grade: FloatArray,
    spare_mass: FloatArray,
    length: int,
) -> float:
    """Sort by decreasing grade and weigh the pairs that stood the other way round."""
    total = 0.0
    for low in range(0, length, RUN):
        for p in range(low + 1, min(low + RUN, length)):
            y, w, at, passed = grade[p], mass[p], p, 0.0
            while at > low and grade[at - 1] < y:
                passed += mass[at - 1]
                grade[at], mass[at] = grade[at - 1], mass[at - 1]
                at -= 1
            grade[at], mass[at] = y, w
            total += passed * w
    width = RUN
    while width < length:
        for low in range(0, length, 2 * width):
            middle, high = min(low + width, length), min(low + 2 * width, length)
            left, right, passed = low, middle, 0.0
            for p in range(low, high):
                if right == high or (left < middle and grade[left] >= grade[right]):
                    total += passed * mass[left]
                    spare_grade[p], spare_mass[p] = grade[left], mass[left]
                    left += 1
                else:
                    passed += mass[right]
                    spare_grade[p], spare_mass[p] = grade[right], mass[right]
                    right += 1
        grade, spare_grade = spare_grade, grade
        mass, spare_mass = spare_mass, mass
        width *= 2
    return total
