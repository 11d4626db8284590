"""Weighted sums of Gaussian kernels for a few rows: product, exponential and sum in one pass.

For a few rows BLAS spends most of its time on copying the other matrix into an order of its own.
Here sixteen kernel values of four rows are formed, exponentiated and added up while they are near.
Every exponent is added up in the order of the features, and every row in sixteen sums over the
columns, whatever the width of registers, so that equal rows get equal scores. Products are fused
with sums where the processor does so, as BLAS does.
"""

cimport rankwise.native.registers
from libc.stdint cimport int64_t as i64
from libc.string cimport memcpy, memset

import numpy as np

cdef extern from *:
    """
    #include <string.h>
    #define ROWS 4
    #define LANES 16

    #define ROUND_BY 6755399441055744.0  /* 1.5 * 2^52: a sum with it is rounded to an integer */
    #define PER_LOG_2 1.4426950408889634
    #define HIGH_LOG_2 6.93147180369123816490e-01
    #define LOW_LOG_2 1.90821492927058770002e-10
    #define LEAST -708.0  /* smaller exponents give 0 */

    /* 1 / 2!, 1 / 3!, ... */
    #define C2 (1.0 / 2)
    #define C3 (1.0 / 6)
    #define C4 (1.0 / 24)
    #define C5 (1.0 / 120)
    #define C6 (1.0 / 720)
    #define C7 (1.0 / 5040)
    #define C8 (1.0 / 40320)
    #define C9 (1.0 / 362880)
    #define C10 (1.0 / 3628800)
    #define C11 (1.0 / 39916800)
    #define C12 (1.0 / 479001600)
    #define C13 (1.0 / 6227020800)

    /* left = x - shift, its squared length, and 1 */
    ON_WIDE_REGISTERS static void fill_left(const double *x, const double *shift,
                                            int64_t n_features, double *left) {
        double squares[8] = {0.0}, rest = 0.0;
        int64_t k = 0;
        for (; k + 8 <= n_features; k += 8)
            for (int lane = 0; lane < 8; lane++) {
                double value = x[k + lane] - shift[k + lane];
                left[k + lane] = value;
                squares[lane] += value * value;
            }
        for (; k < n_features; k++) {
            left[k] = x[k] - shift[k];
            rest += left[k] * left[k];
        }
        for (int lane = 0; lane < 8; lane++)
            rest += squares[lane];
        left[n_features] = rest;
        left[n_features + 1] = 1.0;
    }

    #if defined(__GNUC__)
    /* sums[i][j] += weights[j] e^min(left_i' factors_j, 0): sixteen columns at a time, products of
       four rows in registers. e^x is 2^k e^r with |r| <= log(2) / 2, and e^r its series: within two
       units in the last place. NaN stays NaN. The constants of the exponential and the products
       want all registers: neither function is put into the other. */
    #define ADD_TILES(WIDTH, TARGET, PLUS_PRODUCT) \\
        typedef double doubles##WIDTH __attribute__((vector_size(8 * WIDTH), aligned(8))); \\
        typedef int64_t bits##WIDTH __attribute__((vector_size(8 * WIDTH), aligned(8))); \\
        TARGET __attribute__((noinline)) static void add_exponentials##WIDTH( \\
                const double *exponents, int64_t n_rows, const double *weights, double *sums) { \\
            for (int64_t i = 0; i < n_rows * LANES; i += WIDTH) { \\
                doubles##WIDTH x = *(const doubles##WIDTH *)(exponents + i); \\
                x = (doubles##WIDTH)((bits##WIDTH)x & ~(bits##WIDTH)(x > 0.0)); \\
                doubles##WIDTH rounded = x * PER_LOG_2 + ROUND_BY, k = rounded - ROUND_BY; \\
                doubles##WIDTH r = (x - k * HIGH_LOG_2) - k * LOW_LOG_2; \\
                doubles##WIDTH r2 = r * r, r4 = r2 * r2; \\
                doubles##WIDTH low = (C2 + C3 * r) + (C4 + C5 * r) * r2; \\
                doubles##WIDTH middle = (C6 + C7 * r) + (C8 + C9 * r) * r2; \\
                doubles##WIDTH high = (C10 + C11 * r) + (C12 + C13 * r) * r2; \\
                doubles##WIDTH p = (((high * r4 + middle) * r4 + low) * r2 + r) + 1.0; \\
                bits##WIDTH scaled = (bits##WIDTH)p + ((bits##WIDTH)rounded << 52); \\
                scaled &= (bits##WIDTH)(x >= LEAST); \\
                scaled |= (bits##WIDTH)x & (bits##WIDTH)(x != x); \\
                *(doubles##WIDTH *)(sums + i) += \\
                    *(const doubles##WIDTH *)(weights + i % LANES) * (doubles##WIDTH)scaled; \\
            } \\
        } \\
        TARGET __attribute__((noinline)) static void add_tiles##WIDTH( \\
                const double *left, int64_t n_rows, int64_t depth, const double *factors, \\
                int64_t stride, int64_t n_columns, const double *weights, double *exponents, \\
                double *sums) { \\
            for (int64_t j = 0; j < n_columns; j += LANES) { \\
                for (int64_t i = 0; i < n_rows; i += ROWS) \\
                    for (int64_t part = 0; part < LANES; part += 2 * WIDTH) { \\
                        doubles##WIDTH a[ROWS] = {0}, b[ROWS] = {0}; \\
                        const double *l = left + i * depth; \\
                        for (int64_t k = 0; k < depth; k++) { \\
                            const double *f = factors + k * stride + j + part; \\
                            doubles##WIDTH first = *(const doubles##WIDTH *)f; \\
                            doubles##WIDTH second = *(const doubles##WIDTH *)(f + WIDTH); \\
                            for (int row = 0; row < ROWS; row++) { \\
                                doubles##WIDTH x = l[row * depth + k] - (doubles##WIDTH){0}; \\
                                a[row] = PLUS_PRODUCT(a[row], x, first); \\
                                b[row] = PLUS_PRODUCT(b[row], x, second); \\
                            } \\
                        } \\
                        double *out = exponents + i * LANES + part; \\
                        for (int row = 0; row < ROWS; row++) { \\
                            *(doubles##WIDTH *)(out + row * LANES) = a[row]; \\
                            *(doubles##WIDTH *)(out + row * LANES + WIDTH) = b[row]; \\
                        } \\
                    } \\
                add_exponentials##WIDTH(exponents, n_rows, weights + j, sums); \\
            } \\
        }
    #if defined(__x86_64__) && !defined(__clang__) && __GNUC__ >= 12
    #define HAS_WIDE_REGISTERS
    #include <immintrin.h>
    #define PLUS_8(sum, x, y) (doubles8)_mm512_fmadd_pd((__m512d)(x), (__m512d)(y), (__m512d)(sum))
    #define PLUS_4(sum, x, y) (doubles4)_mm256_fmadd_pd((__m256d)(x), (__m256d)(y), (__m256d)(sum))
    ADD_TILES(8, __attribute__((target("arch=x86-64-v4,prefer-vector-width=512"))), PLUS_8)
    ADD_TILES(4, __attribute__((target("arch=x86-64-v3"))), PLUS_4)
    #endif
    #if defined(__aarch64__)
    #include <arm_neon.h>
    #define PLUS_2(sum, x, y) (doubles2)vfmaq_f64((float64x2_t)(sum), (float64x2_t)(x), \\
                                                  (float64x2_t)(y))
    #else
    #define PLUS_2(sum, x, y) ((sum) + (x) * (y))
    #endif
    ADD_TILES(2, , PLUS_2)
    static void add_tiles(
            const double *left, int64_t n_rows, int64_t depth, const double *factors,
            int64_t stride, int64_t n_columns, const double *weights, double *exponents,
            double *sums) {
    #ifdef HAS_WIDE_REGISTERS
        if (__builtin_cpu_supports("x86-64-v4"))
            add_tiles8(left, n_rows, depth, factors, stride, n_columns, weights, exponents,
                       sums);
        else if (__builtin_cpu_supports("x86-64-v3"))
            add_tiles4(left, n_rows, depth, factors, stride, n_columns, weights, exponents,
                       sums);
        else
    #endif
            add_tiles2(left, n_rows, depth, factors, stride, n_columns, weights, exponents,
                       sums);
    }
    #else  /* a compiler without vectors, in the same order */
    #include <math.h>
    static void add_tiles(
            const double *left, int64_t n_rows, int64_t depth, const double *factors,
            int64_t stride, int64_t n_columns, const double *weights, double *exponents,
            double *sums) {
        for (int64_t j = 0; j < n_columns; j++)
            for (int64_t i = 0; i < n_rows; i++) {
                double x = 0.0;
                for (int64_t k = 0; k < depth; k++)
                    x += left[i * depth + k] * factors[k * stride + j];
                sums[i * LANES + j % LANES] += weights[j] * exp(x > 0.0 ? 0.0 : x);
            }
    }
    #endif
    """
    void fill_left(const double *x, const double *shift, i64 n_features,
                   double *left) noexcept nogil
    const int ROWS
    const int LANES
    void add_tiles(const double *left, i64 n_rows, i64 depth, const double *factors, i64 stride,
                   i64 n_columns, const double *weights, double *exponents,
                   double *sums) noexcept nogil


def gaussian_scores(const double[:, ::1] X, const double[::1] shift, const double[:, ::1] factors,
                    const double[::1] weights, double[::1] out):
    """Put ``sum_j weights_j exp(min(l' factors_j, 0))`` of every row x into out.

    l is ``x - shift``, its squared length, and 1. Rows are made a multiple of four and columns one
    of sixteen by more of the last, columns with weights of 0: zeros in place of columns would make
    NaN of lengths beyond double precision. There is at least one row, feature and column.
    """
    cdef Py_ssize_t n_rows = X.shape[0], n_features = X.shape[1], n_columns = factors.shape[1]
    cdef Py_ssize_t depth = n_features + 2, n_tiles = (n_rows + ROWS - 1) // ROWS
    cdef Py_ssize_t n_whole = n_columns - n_columns % LANES, n_rest = n_columns - n_whole
    cdef Py_ssize_t i, j, k
    cdef double total
    cdef Py_ssize_t size = ROWS * n_tiles * LANES
    # sums and exponents begin with a line of the cache; then come left, and columns left over
    cdef double[::1] room = np.empty(8 + 2 * size + (ROWS * n_tiles + LANES) * depth + LANES)
    cdef double *sums = &room[0] + (64 - <size_t>&room[0] % 64) // sizeof(double)
    cdef double *exponents = sums + size
    cdef double *left = exponents + size
    cdef double *last = left + ROWS * n_tiles * depth
    with nogil:
        memset(sums, 0, size * sizeof(double))
        for i in range(n_rows):
            fill_left(&X[i, 0], &shift[0], n_features, left + i * depth)
        for i in range(n_rows, ROWS * n_tiles):
            memcpy(left + i * depth, left + (n_rows - 1) * depth, depth * sizeof(double))
        if n_whole:
            add_tiles(left, ROWS * n_tiles, depth, &factors[0, 0], n_columns, n_whole,
                      &weights[0], exponents, sums)
        if n_rest:
            for k in range(depth):
                memcpy(last + k * LANES, &factors[k, n_whole], n_rest * sizeof(double))
                for j in range(n_rest, LANES):
                    last[k * LANES + j] = last[k * LANES + n_rest - 1]
            memset(last + depth * LANES, 0, LANES * sizeof(double))
            memcpy(last + depth * LANES, &weights[n_whole], n_rest * sizeof(double))
            add_tiles(left, ROWS * n_tiles, depth, last, LANES, LANES, last + depth * LANES,
                      exponents, sums)
        for i in range(n_rows):
            total = 0.0
            for j in range(LANES):
                total += sums[i * LANES + j]
            out[i] = total
