"""Sort the items of every query by their keys."""

from libc.stdint cimport int64_t as i64, uint8_t as u8, uint32_t as u32, uint64_t as u64

import numpy as np

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define PREFETCH(address) __builtin_prefetch(address)
    #else
    #define PREFETCH(address)
    #endif
    """
    void PREFETCH(const u64 *address) noexcept nogil

cdef extern from *:
    """
    #define NOTHING (~(uint64_t)0)
    """
    const u64 NOTHING  # in a table of keys; the bits of a NaN

cdef enum:
    N_GRADES = 16  # whole numbers below this are sorted by counting
    AHEAD = 12  # keys whose places in a table are fetched while others are looked up


cdef bint sort_few_grades(const double *key, const u32 *base, u32 *order, u8 *tied, u64 start,
                          u64 stop) noexcept nogil:
    """Sort by counting if all keys are whole numbers from 0 to 15; tell whether they are."""
    cdef u64 ends[N_GRADES]
    cdef u64 p, at, first, grade
    cdef int g
    cdef double x
    cdef u32 item
    for g in range(N_GRADES):
        ends[g] = 0
    for p in range(start, stop):
        x = key[base[p]]
        if not (0.0 <= x < N_GRADES):
            return False
        grade = <u64>x
        if x != <double>grade:
            return False
        ends[grade] += 1
    # the highest grade comes first
    at = start
    for g in range(N_GRADES - 1, -1, -1):
        first = at
        at = at + ends[g]
        ends[g] = first
        for p in range(first, at):
            tied[p] = p > first
    for p in range(start, stop):
        item = base[p]
        grade = <u64>key[item]
        order[ends[grade]] = item
        ends[grade] += 1
    return True


cdef u64 keep_leaders(const double *key, const u32 *base, u64 length, u64 n_leaders, u64 n_lanes,
                      u64 last_bits, u64 *numbers, u64 *codes, u64 *spare) noexcept nogil:
    """Fill in the codes of at least ``n_leaders`` highest keys; return how many there are.

    The keys are dealt to lanes like cards. The highest keys of all lanes are different keys, so at
    least ``n_leaders`` keys are not below the ``n_leaders``-th highest of these.
    Numbers are filled in where codes are.
    """
    cdef double *values = <double *>numbers
    cdef double *lanes = <double *>codes
    cdef u64 j, row = n_lanes, n_kept = 0, k, p, bits
    cdef double bound
    for p in range(length):
        values[p] = key[base[p]]
    # the highest key of each lane
    for j in range(n_lanes):
        lanes[j] = values[j]
    while row + n_lanes <= length:
        for j in range(n_lanes):
            lanes[j] = lanes[j] if lanes[j] > values[row + j] else values[row + j]
        row += n_lanes
    for j in range(length - row):
        lanes[j] = lanes[j] if lanes[j] > values[row + j] else values[row + j]
    # the last of the leaders among these
    for j in range(n_lanes):
        codes[j] = falling(codes[j])
    bits = bits_of((spare if sort_codes(codes, spare, n_lanes) else codes)[n_leaders - 1])
    bound = (<double *>&bits)[0]
    # who is not below it
    for p in range(length):
        codes[n_kept] = p
        n_kept += values[p] >= bound
    for k in range(n_kept):
        p = codes[k]
        numbers[p] = falling(numbers[p])
        codes[k] = (numbers[p] & ~last_bits) | p
    return n_kept


def sort_items(Py_ssize_t first, Py_ssize_t last, const i64[::1] starts, const double[:, ::1] keys,
               const u32[::1] base, i64 depth, u32[:, ::1] order, u8[:, ::1] tied):
    """Sort the items of each query by decreasing key; equal keys keep the order of ``base``.

    Fills the cells ``first`` to ``last - 1``, numbered score vector by score vector and query by
    query. Keys are finite. O(n log n) whatever the keys.

    The first ``depth`` positions of a query are filled, and those tied with the last of them; what
    comes behind the tie may be left as it is, but ``tied`` is 0 right there.
    """
    cdef Py_ssize_t n_queries = starts.shape[0] - 1, cell, v, q
    cdef u64 longest = <u64>longest_query(starts), width, last_bits, n_leaders, n_lanes
    cdef u64 start, stop, length, n_kept, p
    cdef u64[:, ::1] room = np.empty((4, longest + NETWORK), dtype=np.uint64)
    cdef u64 *codes = &room[0, 0]
    cdef u64 *spare = &room[1, 0]
    cdef u64 *numbers = &room[2, 0]
    cdef u64 *positions = &room[3, 0]
    cdef const u32 *given = &base[0] if base.shape[0] else NULL
    cdef const double *key
    cdef u32 *sorted_items
    cdef u8 *marks
    if longest == 0:
        return
    with nogil:
        width = position_bits(longest)
        last_bits = (<u64>1 << width) - 1
        n_leaders = least(<u64>depth, longest)
        n_lanes = (n_leaders + (n_leaders >> 1) + NETWORK - 1) & ~<u64>(NETWORK - 1)
        for cell in range(first, last):
            v = cell // n_queries
            q = cell - v * n_queries
            start = starts[q]
            stop = starts[q + 1]
            key = &keys[v, 0]
            sorted_items = &order[v, 0]
            marks = &tied[v, 0]
            if sort_few_grades(key, given, sorted_items, marks, start, stop):
                continue
            n_kept = length = stop - start
            if length < n_lanes + n_lanes:
                for p in range(length):
                    numbers[p] = falling((<const u64 *>key)[given[start + p]])
                    codes[p] = (numbers[p] & ~last_bits) | p
            else:
                n_kept = keep_leaders(key, given + start, length, n_leaders, n_lanes, last_bits,
                                      numbers, codes, spare)
            sort_positions(numbers, width, codes, spare, n_kept, positions)
            for p in range(n_kept):
                sorted_items[start + p] = given[start + (positions[p] & last_bits)]
                marks[start + p] = positions[p] >> 63
            if n_kept < length:
                marks[start + n_kept] = 0


def sort_by_key(double[::1] keys, i64[::1] order, const i64[::1] starts):
    """Sort the keys of every query in place, lowest first, and their order with them.

    Equal keys keep their order. Keys are finite. O(n log n) whatever the keys.
    """
    cdef Py_ssize_t q
    cdef u64 longest = <u64>longest_query(starts), width, last_bits, length, p
    cdef u64[:, ::1] room = np.empty((4, longest + NETWORK), dtype=np.uint64)
    cdef u64 *codes = &room[0, 0]
    cdef u64 *spare = &room[1, 0]
    cdef u64 *numbers = &room[2, 0]
    cdef u64 *positions = &room[3, 0]
    cdef u64 *bits
    cdef i64 *items
    if longest == 0:
        return
    with nogil:
        width = position_bits(longest)
        last_bits = (<u64>1 << width) - 1
        for q in range(starts.shape[0] - 1):
            length = starts[q + 1] - starts[q]
            if length < 2:
                continue
            bits = <u64 *>&keys[starts[q]]
            items = &order[starts[q]]
            for p in range(length):
                numbers[p] = rising(bits[p])
                codes[p] = (numbers[p] & ~last_bits) | p
            sort_positions(numbers, width, codes, spare, length, positions)
            # put keys, whose zeros have a sign that the numbers have not, and items in this order
            for p in range(length):
                codes[p] = bits[positions[p] & ~SAME]
                spare[p] = <u64>items[positions[p] & ~SAME]
            for p in range(length):
                bits[p] = codes[p]
                items[p] = <i64>spare[p]


cdef inline u64 scattered(u64 bits) noexcept nogil:
    """Return a number all of whose bits depend on all given ones."""
    bits = (bits ^ (bits >> 32)) * <u64>0x9E3779B97F4A7C15
    bits = (bits ^ (bits >> 29)) * <u64>0xBF58476D1CE4E5B9
    return bits ^ (bits >> 32)


cdef inline u64 bits_of_key(double key) noexcept nogil:
    """Return the bits of a key; of zeros, those of the one without a sign."""
    key += 0.0
    return (<u64 *>&key)[0]


cdef inline u64 place_of(u64 bits, const u64 *table, u64 size) noexcept nogil:
    """Return where bits are in a table of a power of two places, or the free place for them."""
    cdef u64 place = scattered(bits) & (size - 1)
    while table[place] != NOTHING and table[place] != bits:
        place = (place + 1) & (size - 1)
    return place


cdef inline u64 cleared_table(u64 *table, u64 length) noexcept nogil:
    """Clear a table with places for twice as many keys; return their number, a power of two."""
    cdef u64 size = 2, p
    while size < length + length:
        size += size
    for p in range(size):
        table[p] = NOTHING
    return size


def has_ties(const double[::1] keys, const i64[::1] order, const i64[::1] starts):
    """Tell whether two items of a query have equal keys; O(n) where keys are scattered well.

    The items of query q are ``order[starts[q]]`` to ``order[starts[q + 1] - 1]``, their keys
    finite. Those of a query are put into a table with twice as many places, until one is there.
    """
    cdef u64 longest = <u64>longest_query(starts), size, length, p, bits, place
    cdef u64[::1] room = np.empty(4 * longest + 2, dtype=np.uint64)
    cdef u64 *table = &room[0]
    cdef const i64 *items
    cdef Py_ssize_t q
    cdef bint found = False
    with nogil:
        for q in range(starts.shape[0] - 1):
            length = starts[q + 1] - starts[q]
            if length < 2:
                continue
            items = &order[starts[q]]
            size = cleared_table(table, length)
            for p in range(length):
                if p + AHEAD < length:  # places in any order are not foreseen by the processor
                    PREFETCH(&table[scattered(bits_of_key(keys[items[p + AHEAD]])) & (size - 1)])
                bits = bits_of_key(keys[items[p]])
                place = place_of(bits, table, size)
                if table[place] == bits:
                    found = True
                    break
                table[place] = bits
            if found:
                break
    return bool(found)


def number_keys(const double[::1] keys, const i64[::1] order, const i64[::1] starts):
    """Number the keys of all queries, equal ones of a query alike, in the order of appearance.

    The queries are those of `has_ties`. Returns the number of each item's key, and the item in
    which each key appears first.
    """
    cdef Py_ssize_t n_items = order.shape[0], q
    cdef u64 longest = <u64>longest_query(starts), size, length, p, bits, place
    cdef u64[:, ::1] room = np.empty((2, 4 * longest + 2), dtype=np.uint64)
    cdef u64 *table = &room[0, 0]
    cdef u64 *number_at = &room[1, 0]
    cdef i64[::1] number = np.empty(n_items, dtype=np.int64)
    cdef i64[::1] first = np.empty(n_items, dtype=np.int64)
    cdef i64 n_keys = 0, item
    cdef const i64 *items
    with nogil:
        for q in range(starts.shape[0] - 1):
            length = starts[q + 1] - starts[q]
            if length == 0:
                continue
            items = &order[starts[q]]
            size = cleared_table(table, length)
            for p in range(length):
                if p + AHEAD < length:
                    place = scattered(bits_of_key(keys[items[p + AHEAD]])) & (size - 1)
                    PREFETCH(&table[place])
                    PREFETCH(&number_at[place])
                item = items[p]
                bits = bits_of_key(keys[item])
                place = place_of(bits, table, size)
                if table[place] != bits:
                    table[place] = bits
                    number_at[place] = n_keys
                    first[n_keys] = item
                    n_keys += 1
                number[item] = number_at[place]
    return np.asarray(number), np.asarray(first)[:n_keys]
