/* SPDX-License-Identifier: MIT-0 */
/* Batched matrix product of two activations: y = act(alpha * a * b).
 *
 * Up to three batch axes of sizes `batch`, each with a stride per operand (0 broadcasts), outermost
 * first. a: element (i, t) at i * a_row + t; b: element (t, c) at t * b_row + c * b_col (so either
 * operand may be a transposed view, and y may be written transposed); y: (i, c) at i * y_row + c.
 * All strides in floats. Columns of b are packed into scratch, a group of vectors (O, or fewer
 * where n has fewer) and k_block of their elements at a time: min(k, k_block) * group * V floats.
 * k_block: a multiple of AOT_GEMM_RUN, so that sums are the same whatever it is. A single row of a
 * reads b where it lies if b_row or b_col is 1.
 */
#ifndef AOT_MATMUL_F32_H
#define AOT_MATMUL_F32_H

#include "aot_gemm_f32.h"
#include "aot_gemv_f32.h"
#include "aot_vtranspose_f32.h"

typedef struct {
    int32_t m, n, k;
    int32_t batch[3];
    int64_t a_batch[3], b_batch[3], y_batch[3];
    int64_t a_row, b_row, b_col, y_row;
    float scale;
    int32_t k_block;
} aot_matmul_f32_params;

/* AOT_VLEN columns of a panel, whose rows or elements are any distance apart. */
AOT_INLINE void aot_matmul_f32_pack_columns(float *d, const float *b, int32_t k, int32_t width,
                                            ptrdiff_t row, ptrdiff_t col, float scale) {
    int32_t t = 0, c;
    for (; row == 1 && t + AOT_VLEN <= k; t += AOT_VLEN) {
        aot_vtranspose_f32(d + (ptrdiff_t)t * width, width, b + t, col, scale);
    }
    for (; t < k; ++t) {
        for (c = 0; c < AOT_VLEN; ++c) {
            d[(ptrdiff_t)t * width + c] = b[t * row + c * col] * scale;
        }
    }
}

/* Panel [k][width] of columns of b, times `scale`, zero past the `cols` that exist. */
AOT_INLINE void aot_matmul_f32_pack(float *d, const float *b, int32_t k, int32_t cols,
                                    int32_t width, ptrdiff_t row, ptrdiff_t col, float scale) {
    int32_t t, c;
    if (cols < width && k > 0) { /* a panel without rows may have no address */
        (void)memset(d, 0, (size_t)k * (size_t)width * sizeof(float));
    }
    if (col == 1) {
        for (t = 0; t < k; ++t) {
            for (c = 0; c < cols; ++c) {
                d[(ptrdiff_t)t * width + c] = b[t * row + c] * scale;
            }
        }
    } else {
        for (c = 0; c + AOT_VLEN <= cols; c += AOT_VLEN) {
            aot_matmul_f32_pack_columns(d + c, b + c * col, k, width, row, col, scale);
        }
        for (; c < cols; ++c) {
            for (t = 0; t < k; ++t) {
                d[(ptrdiff_t)t * width + c] = b[t * row + c * col] * scale;
            }
        }
    }
}

/* A row of a times b, whose rows or columns are contiguous; b is read where it lies. */
AOT_INLINE void aot_matmul_f32_row(float *y, const float *a, const float *b,
                                   const aot_matmul_f32_params *p) {
    int32_t i;
    if (p->b_col == 1) {
        (void)memset(y, 0, (size_t)p->n * sizeof(float));
        aot_gemv_f32_columns(y, a, b, (ptrdiff_t)p->b_row, p->n, p->k);
    } else {
        aot_gemv_f32_rows(y, a, b, (ptrdiff_t)p->b_col, p->n, p->k);
    }
    for (i = 0; p->scale != 1.0F && i < p->n; ++i) {
        y[i] *= p->scale;
    }
}

/* One matrix product of the batch. */
AOT_INLINE void aot_matmul_f32_one(float *y, const float *a, const float *b, float *panel,
                                   const aot_matmul_f32_params *p, int P, int O) {
    static const float zeros[4 * AOT_VLEN] = {0};
    const int32_t vecs = (p->n + AOT_VLEN - 1) / AOT_VLEN;
    aot_gemm_f32_group_args g;
    aot_tile_f32_job j;
    int32_t i, o, t;
    if (p->m == 1 && p->n > 0 && (p->b_col == 1 || p->b_row == 1)) {
        aot_matmul_f32_row(y, a, b, p);
        return;
    }
    aot_gemm_f32_job(&j, p->k, AOT_ACT_NONE, 0.0F, 0.0F);
    (void)memset(&g, 0, sizeof g);
    j.w = panel;
    j.bias = zeros;
    g.x_row = (ptrdiff_t)p->a_row;
    g.y_row = (ptrdiff_t)p->y_row;
    g.m = p->m;
    for (i = 0; i < vecs; i += o) {
        const int32_t left = p->n - i * AOT_VLEN;
        const float *column = b + (ptrdiff_t)i * AOT_VLEN * (ptrdiff_t)p->b_col;
        o = aot_tile_f32_group(i, vecs, O);
        g.cols = left < o * AOT_VLEN ? left : o * AOT_VLEN;
        g.y = y + i * AOT_VLEN;
        g.r = NULL;
        t = 0;
        do { /* at least once: without products sums are zero */
            const int32_t k = p->k - t < p->k_block ? p->k - t : p->k_block;
            aot_matmul_f32_pack(panel, column + t * (ptrdiff_t)p->b_row, k, g.cols, o * AOT_VLEN,
                                (ptrdiff_t)p->b_row, (ptrdiff_t)p->b_col, p->scale);
            j.kc = k;
            j.kblk = k;
            j.x = a + t;
            aot_gemm_f32_group(&j, &g, NULL, o, P, O, 0, 0);
            g.r = g.y; /* y holds the sums of the blocks before */
            t += k;
        } while (t < p->k);
    }
}

/* Instance: P, O the tile family (aot_tile_f32_run). */
AOT_INLINE void aot_matmul_f32(float *y, const float *a, const float *b, void *scratch,
                               const aot_matmul_f32_params *p, int P, int O) {
    int32_t i, j, k;
    for (i = 0; i < p->batch[0]; ++i) {
        for (j = 0; j < p->batch[1]; ++j) {
            for (k = 0; k < p->batch[2]; ++k) {
                aot_matmul_f32_one(y + (i * p->y_batch[0] + j * p->y_batch[1] + k * p->y_batch[2]),
                                   a + (i * p->a_batch[0] + j * p->a_batch[1] + k * p->a_batch[2]),
                                   b + (i * p->b_batch[0] + j * p->b_batch[1] + k * p->b_batch[2]),
                                   (float *)scratch, p, P, O);
            }
        }
    }
}

#endif /* AOT_MATMUL_F32_H */
