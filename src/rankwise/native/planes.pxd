"""The working set of cutting planes of a query; products of rows, always added up in one order."""

cimport rankwise.native.registers
from libc.stdint cimport int64_t as i64

cdef extern from *:
    """
    ON_WIDE_REGISTERS static void fill_products(const double *A, int64_t stride, int64_t n_rows,
                                                const double *x, int64_t length, double *out) {
        for (int64_t r = 0; r < n_rows; r++) {
            const double *a = A + r * stride;
            double s[8] = {0};
            int64_t i = 0;
            for (; i + 8 <= length; i += 8)
                for (int j = 0; j < 8; j++) s[j] += a[i + j] * x[i + j];
            for (; i < length; i++) s[0] += a[i] * x[i];
            out[r] = ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
        }
    }
    ON_WIDE_REGISTERS static void fill_combination(const double *A, int64_t stride, int64_t n_rows,
                                                   const double *coefficients, double factor,
                                                   int64_t length, double *restrict out) {
        for (int64_t i = 0; i < length; i++) out[i] = 0.0;
        for (int64_t r = 0; r < n_rows; r++) {
            double c = factor * coefficients[r];
            const double *a = A + r * stride;
            if (c != 0.0)
                for (int64_t i = 0; i < length; i++) out[i] += c * a[i];
        }
    }
    ON_WIDE_REGISTERS static void add_four(const double *restrict r0, const double *restrict r1,
                                           const double *restrict r2, const double *restrict r3,
                                           const double *d, int64_t length, double *restrict out) {
        for (int64_t i = 0; i < length; i++)
            out[i] += d[0] * r0[i] + d[1] * r1[i] + d[2] * r2[i] + d[3] * r3[i];
    }
    """
    # out[r] = <A[r], x>
    void fill_products(const double *A, i64 stride, i64 n_rows, const double *x, i64 length,
                       double *out) noexcept nogil
    # out = factor * sum_r coefficients[r] A[r]
    void fill_combination(const double *A, i64 stride, i64 n_rows, const double *coefficients,
                          double factor, i64 length, double *out) noexcept nogil
    # out += d[0] r0 + d[1] r1 + d[2] r2 + d[3] r3
    void add_four(const double *r0, const double *r1, const double *r2, const double *r3,
                  const double *d, i64 length, double *out) noexcept nogil


cdef struct WorkingSet:  # of one query; slot 0 is the plane that is 0 everywhere
    i64 size  # of a vector
    i64 capacity
    i64 *count  # slots in use
    double *vectors  # (capacity, size)
    double *losses
    double *weights  # alpha of the dual; they sum to 1
    i64 *idle  # visits since a plane lost its weight
    double *gram  # (capacity, capacity), inner products of the vectors
    double *values  # room: C times the value of each plane
    double *change  # room


cdef class Planes:
    cdef readonly object vectors, starts, sizes, counts, losses, weights, idle, grams
    cdef const i64[::1] first_of_vectors, size_of_vectors
    cdef WorkingSet first  # of the first query; those of the others stand behind it
    cdef object room


cdef WorkingSet working_set_of(Planes planes, i64 q) noexcept nogil
cdef double improve(WorkingSet *planes, double C, const double *v, const double *vector,
                    const double *image, double loss, double *direction) noexcept nogil
