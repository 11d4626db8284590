"""Loops over the cells (score vector, query) of a table: sum, count pairs.

A kernel fills the cells ``first`` to ``last - 1``, numbered score vector by score vector and query
by query, so that threads can share the cells. Items stand query by query; query q owns the
positions ``starts[q]`` to ``starts[q + 1] - 1``. ``order[v]`` lists the items of each query from
the highest to the lowest score of vector v; ``tied[v, p]`` is 1 if the item at position p shares
its score with the one before it, else 0.
"""

cimport rankwise.native.registers
from libc.stdint cimport int64_t as i64, uint8_t as u8, uint32_t as u32

from rankwise.native.sorting cimport longest_query

import numpy as np

cdef enum:
    RUN = 16  # merge sorts start from runs of this length, sorted by insertion


cdef extern from *:
    """
    /* the weights of the pairs with different grades that scores swap, and that they tie; an item
       is compared with all before it at once */
    ON_WIDE_REGISTERS static void compare_items(
            const double *grades, const double *weights, const double *scores, int64_t n_items,
            double *swapped_by, double *tied_by, double *swapped, double *tied) {
        for (int64_t j = 0; j < n_items; j++)
            swapped_by[j] = tied_by[j] = 0.0;
        for (int64_t i = 1; i < n_items; i++) {
            double grade = grades[i], score = scores[i], weight = weights[i];
            for (int64_t j = 0; j < i; j++) {
                int swap = (grades[j] < grade) & (scores[j] > score);
                int other = (grades[j] > grade) & (scores[j] < score);
                int tie = (grades[j] != grade) & (scores[j] == score);
                swapped_by[j] += (swap | other) ? weight : 0.0;
                tied_by[j] += tie ? weight : 0.0;
            }
        }
        double total = 0.0, of_ties = 0.0;
        for (int64_t j = 0; j < n_items; j++) {
            total += weights[j] * swapped_by[j];
            of_ties += weights[j] * tied_by[j];
        }
        *swapped = total;
        *tied = of_ties;
    }
    """
    void compare_items(const double *grades, const double *weights, const double *scores,
                       i64 n_items, double *swapped_by, double *tied_by, double *swapped,
                       double *tied) noexcept nogil


cdef inline i64 tied_block(i64 p, i64 stop, const u8 *relevant, const u32 *order, const u8 *tied,
                           i64 *hits) noexcept nogil:
    """Return the end of the tied block that begins at p; count its relevant items."""
    cdef i64 end = p + 1
    hits[0] = relevant[order[p]]
    while end < stop and tied[end]:
        hits[0] += relevant[order[end]]
        end += 1
    return end


def midranks(i64 first, i64 last, const i64[::1] starts, const u32[:, ::1] order,
             const u8[:, ::1] tied, double[:, ::1] out):
    """Give each item its rank minus the mean rank of its query; tied items share their mean."""
    cdef i64 n_queries = starts.shape[0] - 1, cell, v, q, start, stop, p, end, at
    with nogil:
        for cell in range(first, last):
            v = cell // n_queries
            q = cell - v * n_queries
            start = starts[q]
            stop = starts[q + 1]
            p = start
            while p < stop:
                end = p + 1
                while end < stop and tied[v, end]:
                    end += 1
                for at in range(p, end):
                    out[v, order[v, at]] = 0.5 * <double>((p - start) - (stop - end))
                p = end


def inner_products(i64 first, i64 last, const i64[::1] starts, const double[::1] gains,
                   const double[::1] discounts, const double[::1] cumulative,
                   const u32[:, ::1] order, const u8[:, ::1] tied, double[:, ::1] out):
    """Sum gain times discount; the items of a tied block share its discounts evenly."""
    cdef i64 n_queries = starts.shape[0] - 1, n_discounts = discounts.shape[0]
    cdef i64 cell, v, q, start, stop, limit, p, end
    cdef double total, gain, share
    cdef const u32 *item
    cdef const u8 *same
    with nogil:
        for cell in range(first, last):
            v = cell // n_queries
            q = cell - v * n_queries
            start = starts[q]
            stop = starts[q + 1]
            limit = min(stop, start + n_discounts)
            item = &order[v, 0]
            same = &tied[v, 0]
            total = 0.0
            p = start
            while p < limit:
                end = p + 1
                gain = gains[item[p]]
                while end < stop and same[end]:
                    gain += gains[item[end]]
                    end += 1
                if end == p + 1:
                    total += gain * discounts[p - start]
                else:
                    share = cumulative[end - start] - cumulative[p - start]
                    total += gain * share / <double>(end - p)
                p = end
            out[v, q] = total


def precision_sums(i64 first, i64 last, const i64[::1] starts, const u8[::1] relevant, i64 cutoff,
                   const u32[:, ::1] order, const u8[:, ::1] tied, double[:, ::1] out):
    """Sum the expected precision at the position of each relevant item up to the cut-off.

    In a block of m tied items with r relevant ones, the item in position j of the block is relevant
    with probability r / m, and then (j - 1)(r - 1)/(m - 1) relevant items of the block are expected
    before it.
    """
    cdef i64 n_queries = starts.shape[0] - 1, cell, v, q, start, stop, limit, p, end
    cdef i64 n_tied, hits, before, j
    cdef double total, block, step
    with nogil:
        for cell in range(first, last):
            v = cell // n_queries
            q = cell - v * n_queries
            start = starts[q]
            stop = starts[q + 1]
            limit = min(stop - start, cutoff)
            total = 0.0
            before = 0
            p = start
            while p - start < limit:
                end = tied_block(p, stop, &relevant[0], &order[v, 0], &tied[v, 0], &hits)
                n_tied = end - p
                if hits > 0:
                    step = <double>(hits - 1) / <double>(n_tied - 1) if n_tied > 1 else 0.0
                    block = 0.0
                    for j in range(min(n_tied, limit - (p - start))):
                        block += (<double>(before + 1) + j * step) / <double>(p - start + j + 1)
                    total += block * hits / n_tied
                before += hits
                p = end
            out[v, q] = total


def first_reciprocals(i64 first, i64 last, const i64[::1] starts, const u8[::1] relevant,
                      i64 cutoff, const u32[:, ::1] order, const u8[:, ::1] tied,
                      double[:, ::1] out):
    """Return the expected reciprocal rank of the first relevant item, 0 past the cut-off.

    In a block of m tied items with r relevant ones, the first of them takes position j with
    probability C(m - j, r - 1) / C(m, r), which the loop carries from j to j + 1.
    """
    cdef i64 n_queries = starts.shape[0] - 1, cell, v, q, start, stop, p, end, n_tied, hits, j
    cdef double total, chance
    with nogil:
        for cell in range(first, last):
            v = cell // n_queries
            q = cell - v * n_queries
            start = starts[q]
            stop = starts[q + 1]
            # the first block with a relevant item
            p = start
            end = start
            hits = 0
            while end < stop and end - start < cutoff and hits == 0:
                p = end
                end = tied_block(p, stop, &relevant[0], &order[v, 0], &tied[v, 0], &hits)
            total = 0.0
            if hits > 0:
                n_tied = end - p
                chance = <double>hits / <double>n_tied
                for j in range(min(n_tied - hits + 1, cutoff - (p - start))):
                    total += chance / <double>(p - start + j + 1)
                    if j + 1 < n_tied:
                        chance *= <double>(n_tied - j - hits) / <double>(n_tied - j - 1)
            out[v, q] = total


def cascade_sums(i64 first, i64 last, const i64[::1] starts, const double[::1] chances, i64 cutoff,
                 const u32[:, ::1] order, const u8[:, ::1] tied, double[:, ::1] out):
    """Return the expected reciprocal position of the item that a reader stops at.

    In a block of m tied items the reader passes t of them with the probability e[t], the mean over
    all choices of t items of the product of their chances not to stop: an elementary symmetric
    polynomial over its number of terms, built item by item. O(m^2) for a block, O(1) without ties.
    """
    cdef i64 n_queries = starts.shape[0] - 1, cell, v, q, start, stop, limit, p, end, top, n, k, t
    cdef double total, going, passed
    cdef double[::1] e = np.empty(min(longest_query(starts), cutoff) + 1)
    with nogil:
        for cell in range(first, last):
            v = cell // n_queries
            q = cell - v * n_queries
            start = starts[q]
            stop = starts[q + 1]
            limit = min(stop - start, cutoff)
            total = 0.0
            going = 1.0
            p = start
            while p - start < limit:
                end = p + 1
                while end < stop and tied[v, end]:
                    end += 1
                top = min(end - p, limit - (p - start))
                # the chances to pass 0, 1, ..., top items of the block
                e[0] = 1.0
                for k in range(1, top + 1):
                    e[k] = 0.0
                for n in range(1, end - p + 1):
                    passed = 1.0 - chances[order[v, p + n - 1]]
                    for k in range(min(n, top), 0, -1):
                        e[k] = (<double>(n - k) * e[k] + k * passed * e[k - 1]) / <double>n
                for t in range(top):
                    total += going * (e[t] - e[t + 1]) / <double>(p - start + t + 1)
                going *= e[top]
                p = end
            out[v, q] = total


def differing_pairs(i64 first, i64 last, const i64[::1] starts, const double[:, ::1] keys,
                    const double[::1] weight, const u32[:, ::1] order, double[:, ::1] out):
    """Weigh the pairs of items whose keys differ; items are sorted by key."""
    cdef i64 n_queries = starts.shape[0] - 1, cell, v, q, p
    cdef u32 item
    cdef double above, block, total
    with nogil:
        for cell in range(first, last):
            v = cell // n_queries
            q = cell - v * n_queries
            above = block = total = 0.0
            for p in range(starts[q], starts[q + 1]):
                item = order[v, p]
                if p > starts[q] and keys[v, item] != keys[v, order[v, p - 1]]:
                    above += block
                    block = 0.0
                total += above * weight[item]
                block += weight[item]
            out[v, q] = total


def compared_pairs(i64 first, i64 last, const i64[::1] starts, const double[::1] grades,
                   const double[::1] weight, const double[:, ::1] scores, double[:, ::1] swapped,
                   double[:, ::1] tied):
    """Weigh the pairs that scores swap, and those that they tie, by looking at all of them.

    In short queries this takes less time than sorting.
    """
    cdef i64 n_queries = starts.shape[0] - 1, cell, v, q, start
    cdef double[:, ::1] room = np.empty((2, longest_query(starts) + 1))
    with nogil:
        for cell in range(first, last):
            v = cell // n_queries
            q = cell - v * n_queries
            start = starts[q]
            swapped[v, q] = tied[v, q] = 0.0
            if starts[q + 1] == start:
                continue
            compare_items(&grades[start], &weight[start], &scores[v, start], starts[q + 1] - start,
                          &room[0, 0], &room[1, 0], &swapped[v, q], &tied[v, q])


def tied_pairs(i64 first, i64 last, const i64[::1] starts, const double[::1] grades,
               const double[::1] weight, const u32[:, ::1] order, const u8[:, ::1] tied,
               double[:, ::1] out):
    """Weigh the pairs whose scores are tied and whose grades differ; grades fall inside a tie."""
    cdef i64 n_queries = starts.shape[0] - 1, cell, v, q, p
    cdef u32 item
    cdef double above, block, total
    with nogil:
        for cell in range(first, last):
            v = cell // n_queries
            q = cell - v * n_queries
            above = block = total = 0.0
            for p in range(starts[q], starts[q + 1]):
                item = order[v, p]
                if not tied[v, p]:
                    above = block = 0.0
                elif grades[item] != grades[order[v, p - 1]]:
                    above += block
                    block = 0.0
                total += above * weight[item]
                block += weight[item]
            out[v, q] = total


def swapped_pairs(i64 first, i64 last, const i64[::1] starts, const double[::1] grades,
                  const double[::1] weight, const u32[:, ::1] order, double[:, ::1] out):
    """Weigh the pairs ordered against their grades: inversions counted by a merge sort."""
    cdef i64 n_queries = starts.shape[0] - 1, cell, v, q, p, start, length
    cdef double[:, ::1] room = np.empty((4, longest_query(starts) + 1))
    cdef double *grade = &room[0, 0]
    cdef double *mass = &room[1, 0]
    cdef u32 item
    with nogil:
        for cell in range(first, last):
            v = cell // n_queries
            q = cell - v * n_queries
            start = starts[q]
            length = starts[q + 1] - start
            for p in range(length):
                item = order[v, start + p]
                grade[p] = grades[item]
                mass[p] = weight[item]
            out[v, q] = inversions(grade, mass, &room[2, 0], &room[3, 0], length)


cdef double inversions(double *grade, double *mass, double *spare_grade, double *spare_mass,
                       i64 length) noexcept nogil:
    """Sort by decreasing grade and weigh the pairs that stood the other way round."""
    cdef i64 low, middle, high, left, right, p, at, width = RUN
    cdef double total = 0.0, passed, y, w
    cdef double *swap
    # short runs by insertion
    low = 0
    while low < length:
        for p in range(low + 1, min(low + RUN, length)):
            y = grade[p]
            w = mass[p]
            at = p
            passed = 0.0
            while at > low and grade[at - 1] < y:
                passed += mass[at - 1]
                grade[at] = grade[at - 1]
                mass[at] = mass[at - 1]
                at -= 1
            grade[at] = y
            mass[at] = w
            total += passed * w
        low += RUN
    # an item of the left run is passed by those of the right run that were merged before it
    while width < length:
        low = 0
        while low < length:
            middle = min(low + width, length)
            high = min(low + 2 * width, length)
            left = low
            right = middle
            passed = 0.0
            for p in range(low, high):
                if right == high or (left < middle and grade[left] >= grade[right]):
                    total += passed * mass[left]
                    spare_grade[p] = grade[left]
                    spare_mass[p] = mass[left]
                    left += 1
                else:
                    passed += mass[right]
                    spare_grade[p] = grade[right]
                    spare_mass[p] = mass[right]
                    right += 1
            low += 2 * width
        swap = grade
        grade = spare_grade
        spare_grade = swap
        swap = mass
        mass = spare_mass
        spare_mass = swap
        width *= 2
    return total
