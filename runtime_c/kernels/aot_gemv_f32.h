/* SPDX-License-Identifier: MIT-0 */
/* One row times a matrix that is stored row by row, read once from front to back.
 *
 * AOT_VLEN lanes at a time; no scratch. aot_gemv_f32_rows takes a matrix [n][k] and gives the dot
 * product of every row with x; aot_gemv_f32_columns takes a matrix [k][n] and adds up its rows.
 */
#ifndef AOT_GEMV_F32_H
#define AOT_GEMV_F32_H

#include <stddef.h>

#include "aot_simd.h"

/* The sum of the lanes of a, which are added in pairs. */
AOT_INLINE float aot_gemv_f32_sum(aot_vf a) {
    float lanes[AOT_VLEN];
    int32_t half, i;
    aot_vstore(lanes, a);
    for (half = AOT_VLEN / 2; half > 0; half /= 2) {
        for (i = 0; i < half; ++i) {
            lanes[i] += lanes[i + half];
        }
    }
    return lanes[0];
}

/* The dot product of a row w with x, in four sums; what stands behind the row is prefetched. */
AOT_UNUSED AOT_NOINLINE static float aot_gemv_f32_dot(const float *x, const float *w, int32_t k) {
    aot_vf a = aot_vzero(), b = aot_vzero(), c = aot_vzero(), d = aot_vzero();
    int32_t i = 0, line;
    float sum;
    for (; i + 4 * AOT_VLEN <= k; i += 4 * AOT_VLEN) {
        for (line = 0; line < 16 * AOT_VLEN; line += 64) {
            AOT_PREFETCH_AHEAD(w + i, AOT_STREAM_AHEAD + line);
        }
        a += aot_vload(w + i) * aot_vload(x + i);
        b += aot_vload(w + i + AOT_VLEN) * aot_vload(x + i + AOT_VLEN);
        c += aot_vload(w + i + 2 * AOT_VLEN) * aot_vload(x + i + 2 * AOT_VLEN);
        d += aot_vload(w + i + 3 * AOT_VLEN) * aot_vload(x + i + 3 * AOT_VLEN);
    }
    for (; i + AOT_VLEN <= k; i += AOT_VLEN) {
        a += aot_vload(w + i) * aot_vload(x + i);
    }
    sum = aot_gemv_f32_sum((a + b) + (c + d));
    for (; i < k; ++i) {
        sum += w[i] * x[i];
    }
    return sum;
}

/* y[j] = the dot product of row j of w [n][k], rows w_row floats apart, with x. */
AOT_INLINE void aot_gemv_f32_rows(float *y, const float *x, const float *w, ptrdiff_t w_row,
                                  int32_t n, int32_t k) {
    int32_t j;
    for (j = 0; j < n; ++j) {
        y[j] = aot_gemv_f32_dot(x, w + j * w_row, k);
    }
}

/* y[j] += the sum of x[i] * w[i][j] over the k rows of w [k][n], w_row floats apart. */
AOT_INLINE void aot_gemv_f32_columns(float *y, const float *x, const float *w, ptrdiff_t w_row,
                                     int32_t n, int32_t k) {
    int32_t i = 0, j;
    for (; i + 4 <= k; i += 4) {
        const float *w0 = w + i * w_row, *w1 = w0 + w_row, *w2 = w1 + w_row, *w3 = w2 + w_row;
        const float x0 = x[i], x1 = x[i + 1], x2 = x[i + 2], x3 = x[i + 3];
        for (j = 0; j + AOT_VLEN <= n; j += AOT_VLEN) {
            aot_vf sum = aot_vload(w0 + j) * x0 + aot_vload(w1 + j) * x1;
            sum += aot_vload(w2 + j) * x2 + aot_vload(w3 + j) * x3;
            aot_vstore(y + j, aot_vload(y + j) + sum);
        }
        for (; j < n; ++j) {
            y[j] += (w0[j] * x0 + w1[j] * x1) + (w2[j] * x2 + w3[j] * x3);
        }
    }
    for (; i < k; ++i) {
        for (j = 0; j < n; ++j) {
            y[j] += w[i * w_row + j] * x[i];
        }
    }
}

#endif /* AOT_GEMV_F32_H */
