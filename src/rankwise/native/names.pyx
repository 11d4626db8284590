"""Comparisons of names: which rows of a column hold the same text, and how often pairs met."""

import numpy as np

from libc.stdint cimport int32_t as i32, int64_t as i64, uint8_t as u8, uint32_t as u32, uint64_t
from libc.string cimport memcpy

ctypedef fused Offset:
    i32
    i64


cdef inline uint64_t eight_bytes(const u8 *text) noexcept nogil:
    cdef uint64_t word
    memcpy(&word, text, 8)
    return word


cdef inline uint64_t hash_text(const u8 *text, i64 size) noexcept nogil:
    """Mix eight bytes at a time; the last ones may overlap those before.

    Texts of one size, up to eight bytes, have different hashes. All bits of the text reach the
    highest bits of its hash, which say where it goes; the last letter alone reaches no others.
    """
    cdef uint64_t h = <uint64_t>size * <uint64_t>0x9E3779B97F4A7C15, last = 0
    cdef u32 low = 0, high = 0
    cdef i64 k = 0
    while k + 8 < size:
        h = (h ^ eight_bytes(text + k)) * <uint64_t>0xBF58476D1CE4E5B9
        h ^= h >> 29
        k += 8
    if size >= 8:
        last = eight_bytes(text + size - 8)
    elif size >= 4:
        memcpy(&low, text, 4)
        memcpy(&high, text + size - 4, 4)
        last = low | (<uint64_t>high << 32)
    elif size > 0:
        last = text[0] | (<uint64_t>text[size // 2] << 8) | (<uint64_t>text[size - 1] << 16)
    return (h ^ last) * <uint64_t>0x94D049BB133111EB


cdef inline bint are_equal(const u8 *a, const u8 *b, i64 size) noexcept nogil:
    """Compare two texts of one size and one hash."""
    cdef i64 k = 0
    if size <= 8:
        return True
    while k + 8 < size:
        if eight_bytes(a + k) != eight_bytes(b + k):
            return False
        k += 8
    return eight_bytes(a + size - 8) == eight_bytes(b + size - 8)


def number_texts(const u8[::1] text, const Offset[:] starts, const Offset[:] stops, i64[::1] code):
    """Number the texts of a column by first occurrence; return the row in which each comes first.

    The text of row i has the bytes ``starts[i]`` to ``stops[i] - 1``. A table of four times as
    many slots as texts at least holds their hashes and numbers, at the first free slot from that of
    the hash.
    """
    cdef Py_ssize_t n_rows = code.shape[0], i, n_texts = 0, mask = (1 << 12) - 1, slot
    cdef int shift = 64 - 12
    cdef i64[::1] slots = np.full(mask + 1, -1, dtype=np.int64)
    cdef uint64_t[::1] hashes = np.zeros(mask + 1, dtype=np.uint64)
    cdef i64[::1] first = np.empty(mask // 4 + 1, dtype=np.int64)
    cdef const u8 *bytes_of_all = &text[0] if text.shape[0] else NULL
    cdef const u8 *one
    cdef i64 size, number, begin
    cdef uint64_t h
    i = 0
    while i < n_rows:
        with nogil:
            while i < n_rows and n_texts < first.shape[0]:
                one = bytes_of_all + starts[i]
                size = stops[i] - starts[i]
                h = hash_text(one, size)
                slot = <Py_ssize_t>(h >> shift)
                while True:
                    number = slots[slot]
                    if number < 0:  # a new text
                        slots[slot] = number = n_texts
                        hashes[slot] = h
                        first[number] = i
                        n_texts += 1
                        break
                    if hashes[slot] == h:
                        begin = starts[first[number]]
                        if (stops[first[number]] - begin == size
                                and are_equal(bytes_of_all + begin, one, size)):
                            break
                    slot = (slot + 1) & mask
                code[i] = number
                i += 1
        if n_texts == first.shape[0]:  # a quarter of the slots are taken
            mask, shift = 2 * mask + 1, shift - 1
            first = np.concatenate([first, np.empty_like(first)])
            slots, hashes = grown(slots, hashes, shift)
    return np.asarray(first)[:n_texts].copy()


cdef grown(i64[::1] slots, uint64_t[::1] hashes, int shift):
    """Return a table of twice as many slots with the same numbers."""
    cdef Py_ssize_t n_slots = 2 * slots.shape[0], k, slot
    cdef i64[::1] more = np.full(n_slots, -1, dtype=np.int64)
    cdef uint64_t[::1] more_hashes = np.zeros(n_slots, dtype=np.uint64)
    for k in range(slots.shape[0]):
        if slots[k] >= 0:
            slot = <Py_ssize_t>(hashes[k] >> shift)
            while more[slot] >= 0:
                slot = (slot + 1) & (n_slots - 1)
            more[slot] = slots[k]
            more_hashes[slot] = hashes[k]
    return more, more_hashes


def count_answers(
    const i64[::1] first, const i64[::1] second, const i64[::1] outcome, const double[::1] weight,
    i64 n_items, double[::1] total,
):
    """Add the weight of every row to that of its pair of items and its outcome.

    Entry ``3 * (low * n_items + high) + answer`` of ``total`` is about the items low < high; the
    answer is 2 if low won, 1 for a tie and 0 if high won.
    """
    cdef Py_ssize_t i
    cdef i64 low, high, answer
    with nogil:
        for i in range(first.shape[0]):
            low = first[i] if first[i] < second[i] else second[i]
            high = second[i] if first[i] < second[i] else first[i]
            answer = outcome[i] if first[i] < second[i] else -outcome[i]
            total[3 * (low * n_items + high) + 1 + answer] += weight[i]
