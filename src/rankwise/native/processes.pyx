"""Which pair of items to ask about next, of all of them."""

from libc.math cimport M_PI, erfc, exp, log, sqrt
from libc.stdint cimport int64_t as i64

cdef double ENTROPY_ERROR = 0.004  # above the largest error, in bits, of exp(-x^2 / (pi ln 2))


cdef bint is_among(i64 i, i64 j, const i64[:, ::1] pairs) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(pairs.shape[0]):
        if pairs[k, 0] == i and pairs[k, 1] == j:
            return True
    return False


def most_informative_pair(const double[::1] mean, const double[:, :] S, double noise,
                          const i64[:, ::1] taken):
    """Return the pair i < j of largest expected information that is not taken. O(n_items^2).

    Two upper bounds avoid computing the exact information of most pairs: that of a difference of 0
    with the same variance, and that from the approximate entropy of the answer.
    """
    cdef double c = 0.5 * M_PI * log(2.0) * noise, best = -1.0, least = -1.0
    cdef double v, square, known, bound, q, entropy
    cdef Py_ssize_t i, j, first = -1, second = -1, n_items = mean.shape[0]
    with nogil:
        for i in range(n_items):
            for j in range(i + 1, n_items):
                v = S[i, i] + S[j, j] - 2.0 * S[i, j]
                v = v if v > 0.0 else 0.0
                if v <= least:
                    continue
                square = (mean[i] - mean[j]) * (mean[i] - mean[j])
                known = sqrt(c / (c + v)) * exp(-0.5 * square / (c + v))
                bound = exp(-square / (M_PI * log(2.0) * (noise + v))) + ENTROPY_ERROR
                if bound - known <= best or is_among(i, j, taken):
                    continue
                q = 0.5 * erfc(sqrt(0.5 * square / (noise + v)))  # of the less likely answer
                entropy = 0.0
                if q > 0.0:
                    entropy = -(q * log(q) + (1.0 - q) * log(1.0 - q)) / log(2.0)
                if entropy - known > best:
                    best = entropy - known
                    first = i
                    second = j
                    if 0.0 < best < 1.0:
                        least = c * (1.0 / ((1.0 - best) * (1.0 - best)) - 1.0)
    return first, second


def most_promising_pair(const double[::1] mean, const double[:, :] S, double noise,
                        const i64[:, ::1] taken):
    """Return the pair i < j whose winner has the largest expected score, not taken. O(n_items^2).

    A pair is worth at most its better mean plus 0.4 standard deviations of the difference.
    """
    cdef double best = -1e300, room, v, std, u, worth
    cdef Py_ssize_t i, j, first = -1, second = -1, n_items = mean.shape[0]
    with nogil:
        for i in range(n_items):
            for j in range(i + 1, n_items):
                room = best - (mean[i] if mean[i] > mean[j] else mean[j])
                v = S[i, i] + S[j, j] - 2.0 * S[i, j]
                v = v if v > 1e-200 else 1e-200
                if (room > 0.0 and 0.16 * v <= room * room) or is_among(i, j, taken):
                    continue
                std = sqrt(v)
                u = (mean[i] - mean[j]) / std
                worth = mean[j] + (mean[i] - mean[j]) * (0.5 * erfc(-u / sqrt(2.0)))
                worth += std * exp(-0.5 * u * u) / sqrt(2.0 * M_PI)
                if worth > best:
                    best = worth
                    first = i
                    second = j
    return first, second
