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

/* Four dot products of rows of w, w_row floats apart, with x; the rows behind them are prefetched.
 */
AOT_UNUSED AOT_NOINLINE static void aot_gemv_f32_four(float *y, const float *x, const float *w,
                                                      ptrdiff_t w_row, int32_t k) {
    const float *w1 = w + w_row, *w2 = w1 + w_row, *w3 = w2 + w_row;
    aot_vf a0 = aot_vzero(), a1 = aot_vzero(), a2 = aot_vzero(), a3 = aot_vzero();
    aot_vf b0 = aot_vzero(), b1 = aot_vzero(), b2 = aot_vzero(), b3 = aot_vzero();
    int32_t i = 0, r;
    for (; i + 2 * AOT_VLEN <= k; i += 2 * AOT_VLEN) {
        const aot_vf s = aot_vload(x + i), t = aot_vload(x + i + AOT_VLEN);
        for (r = 4; r < 8; ++r) {
            AOT_PREFETCH_AHEAD(w + i, (ptrdiff_t)sizeof *w * r * w_row);
#if AOT_VLEN == 16
            AOT_PREFETCH_AHEAD(w + i + AOT_VLEN, (ptrdiff_t)sizeof *w * r * w_row);
#endif
        }
        a0 += aot_vload(w + i) * s;
        a1 += aot_vload(w1 + i) * s;
        a2 += aot_vload(w2 + i) * s;
        a3 += aot_vload(w3 + i) * s;
        b0 += aot_vload(w + i + AOT_VLEN) * t;
        b1 += aot_vload(w1 + i + AOT_VLEN) * t;
        b2 += aot_vload(w2 + i + AOT_VLEN) * t;
        b3 += aot_vload(w3 + i + AOT_VLEN) * t;
    }
    y[0] = aot_gemv_f32_sum(a0 + b0);
    y[1] = aot_gemv_f32_sum(a1 + b1);
    y[2] = aot_gemv_f32_sum(a2 + b2);
    y[3] = aot_gemv_f32_sum(a3 + b3);
    for (; i < k; ++i) {
        y[0] += w[i] * x[i];
        y[1] += w1[i] * x[i];
        y[2] += w2[i] * x[i];
        y[3] += w3[i] * x[i];
    }
}

/* y[j] = the dot product of row j of w [n][k], rows w_row floats apart, with x. */
AOT_INLINE void aot_gemv_f32_rows(float *y, const float *x, const float *w, ptrdiff_t w_row,
                                  int32_t n, int32_t k) {
    int32_t j, i;
    for (j = 0; j + 4 <= n; j += 4) {
        aot_gemv_f32_four(y + j, x, w + j * w_row, w_row, k);
    }
    for (; j < n; ++j) {
        const float *row = w + j * w_row;
        aot_vf a = aot_vzero();
        float sum;
        for (i = 0; i + AOT_VLEN <= k; i += AOT_VLEN) {
            a += aot_vload(row + i) * aot_vload(x + i);
        }
        sum = aot_gemv_f32_sum(a);
        for (; i < k; ++i) {
            sum += row[i] * x[i];
        }
        y[j] = sum;
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
