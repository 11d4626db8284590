"""The items of each query by decreasing score: a merge sort of integers without branches.

A score becomes an integer that rises as the score falls; its last bits give way to the position of
the item. One integer is then moved in place of a score and an item, and the comparison of two
never waits for a guess. The few neighbours that the remaining bits cannot tell apart are sorted by
their scores afterwards.
"""

import numpy as np
from numpy.typing import NDArray

from rankwise.core.arrays import BoolArray, FloatArray, IntArray
from rankwise.core.compile import njit

ONE, EIGHT = np.uint64(1), np.uint64(8)
SIGN = np.uint64(1 << 63)
"""The bit that negative numbers have; alone, it is minus zero."""

NETWORK = 8
"""Numbers that are sorted by a network; longer runs are merged from these."""

N_GRADES = 16
"""Whole numbers below this are sorted by counting."""


@njit(cache=True, nogil=True)
def sort_items(
    first: int,
    last: int,
    starts: IntArray,
    keys: FloatArray,
    base: NDArray[np.uint32],
    order: NDArray[np.uint32],
    tied: BoolArray,
) -> None:
    """Sort the items of each query by decreasing key; equal keys keep the order of ``base``.

    Fills the cells ``first`` to ``last - 1``, numbered score vector by score vector and query by
    query. Keys are finite. O(n log n) whatever the keys.
    """
    n_queries = len(starts) - 1
    longest = longest_query(starts)
    bits = keys.view(np.uint64)
    codes, spare = np.empty(longest + NETWORK, np.uint64), np.empty(longest + NETWORK, np.uint64)
    whole, counts = np.empty(longest, np.uint64), np.empty(N_GRADES, np.uint64)
    width = ONE
    while longest >> width:
        width += ONE
    position = (ONE << width) - ONE
    for cell in range(first, last):
        v, q = divmod(cell, n_queries)
        start, stop = np.uint64(starts[q]), np.uint64(starts[q + 1])
        if _sort_few_grades(keys[v], base, order[v], tied[v], start, stop, counts):
            continue
        length = stop - start
        for p in range(length):
            whole[p] = _falling(bits[v, base[start + p]])
            codes[p] = (whole[p] & ~position) | p
        found, free = codes, spare
        if _sort_codes(codes, spare, length):
            found, free = spare, codes
        close = False
        for p in range(length):
            order[v, start + p] = base[start + (found[p] & position)]
            same = p > np.uint64(0) and found[p] ^ found[p - ONE] <= position
            tied[v, start + p] = same
            if same:
                close = True
        if close:
            for p in range(length):
                free[p] = whole[found[p] & position]
            for p in range(length):
                whole[p] = free[p]
            _mend(whole, order[v], tied[v], start, stop, width, codes, spare)


@njit(cache=True, nogil=True)
def _falling(bits: np.uint64) -> np.uint64:
    """Return an integer that rises as the number of these bits falls."""
    if bits == SIGN:  # minus zero
        return ~SIGN
    return bits if bits & SIGN else ~(bits | SIGN)


@njit(cache=True, nogil=True)
def longest_query(starts: IntArray) -> int:
    """Return the number of items of the longest query."""
    longest = 0
    for q in range(len(starts) - 1):
        longest = max(longest, starts[q + 1] - starts[q])
    return longest


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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


@njit(cache=True, nogil=True)
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
