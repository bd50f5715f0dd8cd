/* SPDX-License-Identifier: MIT-0 */
/* Matrix product with constant weights of 4 bits, in blocks along k that share scale and zero.
 *
 * V = AOT_VLEN. y [m][n] = x [m][k] * w + bias, all row-major. The columns of w stand in groups of
 * o vectors (o = O, the last groups 2 or 1), and of each group, W = o * V: values [ceil(k/2)][W]
 * bytes, element t of a column in the low (t even) or high half of row t / 2; factors
 * [ceil(k/block)][2][W] floats, scale and zero: w = (q - zero) * scale. bias [ceil(n/V) * V].
 * `block` is even and divides `run`, the rows of w that are unpacked at a time. Scratch: min(run, k
 * + 1) * min(O * V, ceil(n/V) * V) floats.
 */
#ifndef AOT_MATMUL_F32_Q4_H
#define AOT_MATMUL_F32_Q4_H

#include "aot_gemm_f32.h"

typedef struct {
    int32_t m, n, k, block, run;
} aot_matmul_f32_q4_params;

/* Rows first..first+rows-1 of a group (first divisible by block) as floats [rows][width]. */
AOT_INLINE void aot_matmul_f32_q4_unpack(float *d, const uint8_t *values, const float *factors,
                                         int32_t first, int32_t rows, int32_t width,
                                         int32_t block) {
    const uint8_t *q = values + (ptrdiff_t)(first / 2) * width;
    int32_t t, c;
    for (t = 0; t < rows; t += 2, q += width) {
        const float *scale = factors + (ptrdiff_t)((first + t) / block) * 2 * width;
        const float *zero = scale + width;
        float *even = d + (ptrdiff_t)t * width, *odd = even + width;
        for (c = 0; c < width; ++c) {
            even[c] = ((float)(q[c] & 15) - zero[c]) * scale[c];
            odd[c] = ((float)(q[c] >> 4) - zero[c]) * scale[c];
        }
    }
}

/* Instance: P, O the tile family (aot_tile_f32_run). */
AOT_INLINE void aot_matmul_f32_q4(float *y, const float *x, const uint8_t *values,
                                  const float *factors, const float *bias, void *scratch,
                                  const aot_matmul_f32_q4_params *p, int P, int O) {
    static const float zeros[4 * AOT_VLEN] = {0};
    const int32_t vecs = (p->n + AOT_VLEN - 1) / AOT_VLEN;
    const int32_t blocks = (p->k + p->block - 1) / p->block;
    float *panel = (float *)scratch;
    aot_gemm_f32_group_args g;
    aot_tile_f32_job j;
    int32_t b, o, t;
    (void)memset(&g, 0, sizeof g);
    g.x_row = p->k;
    g.y_row = p->n;
    g.m = p->m;
    for (b = 0; b < vecs; b += o) {
        const int32_t left = p->n - b * AOT_VLEN;
        int32_t width;
        o = aot_tile_f32_group(b, vecs, O);
        width = o * AOT_VLEN;
        g.y = y + b * AOT_VLEN;
        g.cols = left < width ? left : width;
        for (t = 0; t < p->k; t += p->run) {
            const int32_t rows = p->k - t < p->run ? p->k - t : p->run;
            aot_matmul_f32_q4_unpack(panel, values, factors, t, rows, width, p->block);
            aot_gemm_f32_job(&j, rows, AOT_ACT_NONE, 0.0F, 0.0F);
            j.x = x + t;
            j.w = panel;
            j.bias = t == 0 ? bias + b * AOT_VLEN : zeros;
            g.r = t == 0 ? NULL : g.y;
            aot_gemm_f32_group(&j, &g, NULL, o, P, O, 0);
        }
        values += (ptrdiff_t)((p->k + 1) / 2) * width;
        factors += (ptrdiff_t)blocks * 2 * width;
    }
}

#endif /* AOT_MATMUL_F32_Q4_H */
