"""The one sort of the package: a merge sort of 64-bit codes from runs that a network sorts."""

from libc.stdint cimport uint64_t as u64

cdef extern from *:
    """
    #include <stdint.h>
    #define COMPARE_EXCHANGE(x, y) { uint64_t low = x < y ? x : y, high = x < y ? y : x; x = low; y = high; }
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


cdef inline u64 least(u64 a, u64 b) noexcept nogil:
    return a if a < b else b


cdef inline u64 falling(u64 bits) noexcept nogil:
    """Return an integer that rises as the double with these bits falls; both zeros are equal."""
    if bits == (<u64>1 << 63):
        return ~(<u64>1 << 63)
    return bits if bits & (<u64>1 << 63) else ~(bits | (<u64>1 << 63))


cdef inline u64 rising(u64 bits) noexcept nogil:
    """Return an integer that rises with the double with these bits; both zeros are equal."""
    return ~falling(bits)


cdef inline void merge_equal(const u64 *source, u64 *target, u64 low, u64 middle, u64 high) noexcept nogil:
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


cdef inline void merge(const u64 *source, u64 *target, u64 low, u64 middle, u64 high) noexcept nogil:
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

    Both have room for a multiple of eight numbers, and are filled up with the largest.
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
