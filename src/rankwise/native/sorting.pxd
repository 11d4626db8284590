"""The one sort of the package: a merge sort of 64-bit codes from runs that a network sorts."""

from libc.stdint cimport int64_t as i64, uint64_t as u64

cdef extern from *:
    """
    #include <stdint.h>
    #define COMPARE_EXCHANGE(x, y) \\
        { uint64_t low = x < y ? x : y, high = x < y ? y : x; x = low; y = high; }
    static inline void sort_eight(uint64_t *p) {
        uint64_t a = p[0], b = p[1], c = p[2], d = p[3], e = p[4], f = p[5], g = p[6], h = p[7];
        COMPARE_EXCHANGE(a, c) COMPARE_EXCHANGE(b, d) COMPARE_EXCHANGE(e, g) COMPARE_EXCHANGE(f, h)
        COMPARE_EXCHANGE(a, e) COMPARE_EXCHANGE(b, f) COMPARE_EXCHANGE(c, g) COMPARE_EXCHANGE(d, h)
        COMPARE_EXCHANGE(a, b) COMPARE_EXCHANGE(c, d) COMPARE_EXCHANGE(e, f) COMPARE_EXCHANGE(g, h)
        COMPARE_EXCHANGE(c, e) COMPARE_EXCHANGE(d, f)
        COMPARE_EXCHANGE(b, e) COMPARE_EXCHANGE(d, g)
        COMPARE_EXCHANGE(b, c) COMPARE_EXCHANGE(d, e) COMPARE_EXCHANGE(f, g)
        p[0] = a; p[1] = b; p[2] = c; p[3] = d; p[4] = e; p[5] = f; p[6] = g; p[7] = h;
    }
    #undef COMPARE_EXCHANGE
    """
    void sort_eight(u64 *p) noexcept nogil  # by a network of 19 comparisons

cdef enum:
    NETWORK = 8  # codes that the network sorts; longer runs are merged from these

cdef extern from *:
    """
    #define SAME ((uint64_t)1 << 63)
    """
    const u64 SAME  # marks a position whose number equals the one before


cdef inline i64 longest_query(const i64[::1] starts) noexcept nogil:
    """Return the number of items of the longest query."""
    cdef i64 longest = 0
    cdef Py_ssize_t q
    for q in range(starts.shape[0] - 1):
        longest = max(longest, starts[q + 1] - starts[q])
    return longest


cdef inline u64 least(u64 a, u64 b) noexcept nogil:
    return a if a < b else b


cdef inline u64 falling(u64 bits) noexcept nogil:
    """Return an integer that rises as the double with these bits falls; both zeros are equal."""
    if bits == (<u64>1 << 63):
        return ~(<u64>1 << 63)
    return bits if bits & (<u64>1 << 63) else ~(bits | (<u64>1 << 63))


cdef inline u64 bits_of(u64 fall) noexcept nogil:
    """Return the bits of the double that `falling` made this integer of; of zeros, those of 0."""
    return fall if fall & (<u64>1 << 63) else ~fall ^ (<u64>1 << 63)


cdef inline u64 rising(u64 bits) noexcept nogil:
    """Return an integer that rises with the double with these bits; both zeros are equal."""
    return ~falling(bits)


cdef inline void merge_equal(const u64 *source, u64 *target, u64 low, u64 middle,
                             u64 high) noexcept nogil:
    """Merge two sorted runs of equal length from both ends: no bound is ever reached."""
    cdef u64 i = low, j = middle, p = middle - 1, q = high - 1, k, left, right, taken
    for k in range(middle - low):
        left = source[i]
        right = source[j]
        taken = left <= right
        target[low + k] = left if taken else right
        i += taken
        j += 1 - taken
        left = source[p]
        right = source[q]
        taken = left <= right
        target[high - 1 - k] = right if taken else left
        p -= 1 - taken
        q -= taken


cdef inline void merge(const u64 *source, u64 *target, u64 low, u64 middle,
                       u64 high) noexcept nogil:
    """Merge two sorted runs."""
    cdef u64 i = low, j = middle, k = low, left, right, taken
    while i < middle and j < high:
        left = source[i]
        right = source[j]
        taken = left <= right
        target[k] = left if taken else right
        i += taken
        j += 1 - taken
        k += 1
    while i < middle:
        target[k] = source[i]
        i += 1
        k += 1
    while j < high:
        target[k] = source[j]
        j += 1
        k += 1


cdef inline bint sort_codes(u64 *codes, u64 *spare, u64 length) noexcept nogil:
    """Sort the first numbers; return whether the result stands in ``spare``.

    Both have room for a multiple of `NETWORK` numbers, and are filled up with the largest.
    """
    cdef u64 end = (length + NETWORK - 1) & ~<u64>(NETWORK - 1), p = length, width = NETWORK
    cdef u64 low, middle, high
    cdef bint swapped = False
    cdef u64 *swap
    while p < end:
        codes[p] = ~<u64>0
        p += 1
    p = 0
    while p < end:
        sort_eight(codes + p)
        p += NETWORK
    while width < end:
        low = 0
        while low < end:
            middle = least(low + width, end)
            high = least(low + width + width, end)
            if high - middle == width:
                merge_equal(codes, spare, low, middle, high)
            else:
                merge(codes, spare, low, middle, high)
            low = high
        swap = codes
        codes = spare
        spare = swap
        width += width
        swapped = not swapped
    return swapped


cdef inline u64 position_bits(u64 length) noexcept nogil:
    """Return how many of the last bits of a code hold a position below the length, at most 32."""
    cdef u64 width = 1
    while length >> width:
        width += 1
    return width


cdef inline void sort_positions(const u64 *numbers, u64 width, u64 *codes, u64 *spare, u64 length,
                                u64 *positions) noexcept nogil:
    """Sort positions by the numbers that stand there; those of equal numbers rise.

    O(n log n) whatever the numbers.

    Parameters
    ----------
    numbers
        The numbers, of which some or all are sorted.
    width
        From `position_bits` of the number of ``numbers``.
    codes
        For each number to sort, in rising order of positions: the number, its last ``width`` bits
        replaced by its position.
    spare
        Room; both have room for a multiple of `NETWORK` numbers.
    length
        How many codes there are.
    positions
        Receives the sorted positions, with the bit `SAME` where the number equals the one before.
    """
    cdef u64 last_bits = (<u64>1 << width) - 1, low, end = 0, p, n_close = 0, same, before, number
    cdef bint in_order
    cdef u64 *found = spare if sort_codes(codes, spare, length) else codes
    cdef u64 *free
    # mark what shares its leading bits with the one before
    if length:
        positions[0] = found[0] & last_bits
    for p in range(1, length):
        same = (found[p] ^ found[p - 1]) <= last_bits
        positions[p] = (found[p] & last_bits) | (same << 63)
        n_close += same
    if n_close == 0:
        return
    # leave the mark where whole numbers are equal; sort what only its leading bits put in order
    while end < length:
        low = end
        end = end + 1
        in_order = True
        number = numbers[positions[low]]
        while end < length and positions[end] & SAME:
            before = number
            number = numbers[positions[end] ^ SAME]
            in_order &= before <= number
            positions[end] = (positions[end] ^ SAME) | (<u64>(before == number) << 63)
            end += 1
        if in_order:
            continue
        for p in range(end - low):
            codes[p] = ((numbers[positions[low + p] & ~SAME] & last_bits) << width) | p
        found = codes
        free = spare
        if sort_codes(codes, spare, end - low):
            found = spare
            free = codes
        for p in range(end - low):
            free[p] = positions[low + (found[p] & last_bits)] & ~SAME
        positions[low] = free[0]
        for p in range(1, end - low):
            positions[low + p] = free[p] | (<u64>((found[p] ^ found[p - 1]) <= last_bits) << 63)
