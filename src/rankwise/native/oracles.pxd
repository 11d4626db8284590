"""A query as the oracles see it, and the room that they work in."""

from libc.stdint cimport int64_t as i64, uint8_t as u8, uint64_t as u64


cdef struct Queries:  # arrays of all queries; a Query has its part of each
    const i64 *starts
    const i64 *grade_starts
    const i64 *methods
    const i64 *depths
    const i64 *grades
    const double *gains
    const double *decay
    const double *discounts
    const double *target
    const double *grade_gains
    const double *slopes
    const double *ideal
    const double *slack_weights


cdef struct Query:
    i64 n_items
    i64 n_grades
    i64 method  # SORT, TRUNCATED, TWO_GRADES or GENERAL
    i64 depth  # how many positions come before the last value of a
    double slope  # of a in c, for SORT
    double ideal  # <a(1), b>: what the target gains
    const double *gains  # b of each item
    const double *decay  # c of each position, falling
    const double *discounts  # a of each position
    const double *target  # c of the position that each item has in the target
    const i64 *grades  # of each item, counted from the lowest gain
    const double *grade_gains  # b of each grade, ascending


cdef struct States:  # how many items of each grade a head takes: room for the search of heads
    i64 n_states
    i64 n_grades
    # by state
    double *head  # value of the best head with these numbers
    double *tail  # what it changes in the tail
    u8 *last_grade  # the grade of the best head's last item
    # by grade
    i64 *sizes  # candidates
    i64 *before  # items seen of this grade and the grades below
    i64 *taken  # candidates in the head
    i64 *last  # the rank taken last, -1 for none
    i64 *following  # the rank to be taken next, n_items for none
    i64 *limits  # the best rank left out among the lower grades
    i64 *strides  # by how much the number of the state grows with an item
    i64 *candidates  # (depth, n_grades), the ranks that may enter a head
    # by rank
    double *shifts  # (n_ranks, depth), then depth + 1 sums


cdef struct Lists:
    # the sort
    u64 *fall  # an integer that rises as the score falls
    u64 *codes
    u64 *spare
    # items from the highest score to the lowest, from here on named by their rank
    i64 *order  # the item of each rank
    double *scores  # g
    double *gains  # b
    i64 *grades
    i64 *positions  # the ranking found
    # thresholds: the k items with the largest keys, for each k
    i64 *ranks  # of the lowest grade, of the next, ...
    i64 *starts  # where each grade begins there
    i64 *taken  # where the first rank of each grade stands there that is not in the set
    double *inside  # the lowest score of each grade in the set
    double *outside  # the highest score of each grade not in the set
    i64 *entries  # the position k at which a rank entered last
    i64 *n_entries  # how often it entered
    i64 *counts  # items of the last grade in the set of each size
    # the dual of the assignment, and a search for an augmenting path
    double *u  # of each rank
    double *v  # of each position: its price
    i64 *owners  # the rank at each position, -1 for none
    double *distances  # of each position from the rank that is to be placed
    i64 *previous  # the rank before each position on the shortest path
    i64 *reached  # positions, those not reached yet first
    # chains
    i64 *low  # the band of each k
    i64 *high
    double *values  # of x in x + 1, so that x - 1 always exists


cdef struct Plane:  # for those who visit queries; in the order of the items
    double *scores
    double *beta  # coefficients
    i64 *positions


cdef class OracleTargets:
    cdef Queries queries
    cdef readonly object plan, target, ideal, slack_weights


cdef class StateTable:
    cdef States at
    cdef object kept


cdef class OracleRoom:
    cdef Lists at
    cdef Plane plane
    cdef States *states
    cdef u8 *rises  # for chains, whether x has just risen: a row for each k
    cdef i64 n_rises
    cdef object kept
    cdef object band
    cdef readonly i64 longest
    cdef int widen(self, i64 n_rises) except -1 with gil


cdef Query query_of(const Queries *queries, i64 q) noexcept nogil
cdef void descending(const double *scores, i64 n_items, u64 *fall, u64 *codes, u64 *spare,
                     i64 *order) noexcept nogil
cdef double best_head(const Query *query, const double *g, const i64 *grades, double max_states,
                      States *states, i64 *positions) noexcept nogil
cdef int find_plane(const Query *query, OracleRoom room, const double *scores, i64 *positions,
                    double *beta, double *loss) except -1 nogil
