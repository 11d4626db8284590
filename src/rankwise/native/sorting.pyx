"""Sort the items of every query by their keys."""

from libc.stdint cimport int64_t as i64, uint8_t as u8, uint32_t as u32, uint64_t as u64

from rankwise.native.sorting cimport falling, least, sort_codes

cdef enum:
    N_GRADES = 16  # whole numbers below this are sorted by counting


cdef u64 keep_leaders(const u64 *whole, u64 length, u64 n_leaders, u64 n_lanes, u64 position,
                      u64 *codes, u64 *spare) noexcept nogil:
    cdef u64 j, row, bound, n_kept = 0, p
    for j in range(n_lanes):
        codes[j] = whole[j]
    row = n_lanes
    while row + n_lanes <= length:
        for j in range(n_lanes):
            codes[j] = least(codes[j], whole[row + j])
        row += n_lanes
    for j in range(length - row):
        codes[j] = least(codes[j], whole[row + j])
    bound = (spare if sort_codes(codes, spare, n_lanes) else codes)[n_leaders - 1]
    for p in range(length):
        codes[n_kept] = (whole[p] & ~position) | p
        n_kept += whole[p] <= bound
    return n_kept


cdef bint sort_few_grades(const double *key, const u32 *base, u32 *order, u8 *tied, u64 start,
                          u64 stop, u64 *ends) noexcept nogil:
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


cdef void mend(u64 *fall, u32 *order, u8 *tied, u64 start, u64 stop, u64 width, u64 *codes,
               u64 *spare) noexcept nogil:
    cdef u64 length = stop - start, last_bits = (<u64>1 << width) - 1, end = 0, low, p
    cdef bint in_order
    cdef u64 *found
    while end < length:
        low = end
        end = end + 1
        in_order = True
        while end < length and tied[start + end]:
            in_order &= fall[end - 1] <= fall[end]
            end += 1
        if in_order:
            for p in range(low + 1, end):
                tied[start + p] = fall[p] == fall[p - 1]
            continue
        for p in range(end - low):
            codes[p] = ((fall[low + p] & last_bits) << width) | p
            fall[low + p] = order[start + low + p]
        found = spare if sort_codes(codes, spare, end - low) else codes
        for p in range(end - low):
            order[start + low + p] = <u32>fall[low + (found[p] & last_bits)]
            tied[start + low + p] = p > 0 and (found[p] ^ found[p - 1]) <= last_bits


def sort_items(Py_ssize_t first, Py_ssize_t last, const i64[::1] starts, const double[:, ::1] keys,
               const u32[::1] base, i64 depth, u64[:, ::1] room, u32[:, ::1] order,
               u8[:, ::1] tied):
    """Sort the items of each query by decreasing key; as the numba kernel of this name."""
    cdef Py_ssize_t n_queries = starts.shape[0] - 1, q, cell, v
    cdef u64 longest = 0, width = 1, position, n_leaders, n_lanes, start, stop, length, n_kept, p
    cdef u64 *codes = &room[0, 0]
    cdef u64 *spare = &room[1, 0]
    cdef u64 *whole = &room[2, 0]
    cdef u64 *counts = &room[3, 0]
    cdef u64 *found
    cdef u64 *free
    cdef const u64 *bits
    cdef u32 *o
    cdef u8 *t
    cdef bint close, same
    with nogil:
        for q in range(n_queries):
            if <u64>(starts[q + 1] - starts[q]) > longest:
                longest = starts[q + 1] - starts[q]
        while longest >> width:
            width += 1
        position = (<u64>1 << width) - 1
        n_leaders = least(<u64>depth, longest)
        n_lanes = (n_leaders + (n_leaders >> 1) + 7) & ~<u64>7
        for cell in range(first, last):
            v = cell // n_queries
            q = cell - v * n_queries
            start = starts[q]
            stop = starts[q + 1]
            o = &order[v, 0]
            t = &tied[v, 0]
            if sort_few_grades(&keys[v, 0], &base[0], o, t, start, stop, counts):
                continue
            bits = <const u64 *>&keys[v, 0]
            n_kept = length = stop - start
            for p in range(length):
                whole[p] = falling(bits[base[start + p]])
            if length < n_lanes + n_lanes:
                for p in range(length):
                    codes[p] = (whole[p] & ~position) | p
            else:
                n_kept = keep_leaders(whole, length, n_leaders, n_lanes, position, codes, spare)
            found = codes
            free = spare
            if sort_codes(codes, spare, n_kept):
                found = spare
                free = codes
            close = False
            for p in range(n_kept):
                o[start + p] = base[start + (found[p] & position)]
                same = p > 0 and (found[p] ^ found[p - 1]) <= position
                t[start + p] = same
                close |= same
            if n_kept < length:
                t[start + n_kept] = False
            if close:
                for p in range(n_kept):
                    free[p] = whole[found[p] & position]
                for p in range(n_kept):
                    whole[p] = free[p]
                mend(whole, o, t, start, start + n_kept, width, codes, spare)


