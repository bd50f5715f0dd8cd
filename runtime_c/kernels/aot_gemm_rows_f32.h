/* SPDX-License-Identifier: MIT-0 */
/* Matrix product with weights as the model stores them: y = act(x * W + bias + r).
 *
 * For a matrix that something else reads too, a Gather of its rows say, so that it is stored once.
 * V = AOT_VLEN. x [m][k] rows x_row floats apart, y [m][n] rows y_row apart, r as y (may be y), all
 * row-major. w is W transposed, [n][k], with ROWS 1, else W itself, [k][n]; bias [ceil(n/V) * V].
 * A single row reads w where it lies; more rows have columns packed into scratch, a group of O * V
 * and k_block of their elements at a time: min(k, k_block) * O * V floats.
 * k_block: a multiple of AOT_GEMM_RUN. In place: y may be r.
 */
#ifndef AOT_GEMM_ROWS_F32_H
#define AOT_GEMM_ROWS_F32_H

#include "aot_gemm_f32.h"
#include "aot_gemv_f32.h"
#include "aot_matmul_f32.h"

typedef struct {
    int32_t m, n, k;
    int64_t x_row, y_row;
    int32_t act;
    float alpha, beta;
    int32_t k_block;
} aot_gemm_rows_f32_params;

enum { AOT_GEMM_ROWS_PART = 64 }; /* results of a single row that are computed together */

/* A single row; without an activation, or with limits. */
AOT_INLINE void aot_gemm_rows_f32_one(float *y, const float *x, const float *w, const float *bias,
                                      const float *r, const aot_gemm_rows_f32_params *p, int ROWS) {
    float sums[AOT_GEMM_ROWS_PART];
    int32_t i, j;
    for (j = 0; ROWS != 0 && j < p->n; j += AOT_GEMM_ROWS_PART) {
        const int32_t some = p->n - j < AOT_GEMM_ROWS_PART ? p->n - j : AOT_GEMM_ROWS_PART;
        aot_gemv_f32_rows(sums, x, w + (ptrdiff_t)j * p->k, p->k, some, p->k);
        for (i = 0; i < some; ++i) {
            y[j + i] = sums[i] + bias[j + i] + (r != NULL ? r[j + i] : 0.0F);
        }
    }
    if (ROWS == 0) {
        for (j = 0; j < p->n; ++j) {
            y[j] = bias[j] + (r != NULL ? r[j] : 0.0F);
        }
        aot_gemv_f32_columns(y, x, w, p->n, p->n, p->k);
    }
    for (j = 0; p->act == AOT_ACT_CLAMP && j < p->n; ++j) {
        const float v = y[j] > p->alpha ? y[j] : y[j] < p->alpha ? p->alpha : y[j];
        y[j] = v < p->beta ? v : v > p->beta ? p->beta : v;
    }
}

/* All rows of a group of `o` vectors of columns, whose weights begin at `w`. */
AOT_INLINE void aot_gemm_rows_f32_group(aot_tile_f32_job *j, aot_gemm_f32_group_args *g,
                                        const float *x, const float *w, float *panel, int32_t o,
                                        const aot_gemm_rows_f32_params *p, int P, int O, int ACT,
                                        int ROWS) {
    static const float zeros[4 * AOT_VLEN] = {0};
    const ptrdiff_t row = ROWS != 0 ? 1 : p->n, col = ROWS != 0 ? p->k : 1;
    int32_t t = 0;
    do { /* at least once: without products sums are the bias */
        const int32_t k = p->k - t < p->k_block ? p->k - t : p->k_block;
        const int last = t + k == p->k;
        aot_matmul_f32_pack(panel, w + t * row, k, g->cols, o * AOT_VLEN, row, col, 1.0F);
        j->w = panel;
        j->kc = k;
        j->kblk = k;
        j->x = x + t;
        j->clamp = last && p->act == AOT_ACT_CLAMP;
        aot_gemm_f32_group(j, g, NULL, o, P, O, last ? ACT : 0);
        g->r = g->y; /* y holds the sums of the blocks before */
        j->bias = zeros;
        t += k;
    } while (t < p->k);
}

/* Instance: P, O the tile family (aot_tile_f32_run); ACT 0 if act is NONE or CLAMP; ROWS. */
AOT_INLINE void aot_gemm_rows_f32(float *y, const float *x, const float *w, const float *bias,
                                  const float *r, void *scratch, const aot_gemm_rows_f32_params *p,
                                  int P, int O, int ACT, int ROWS) {
    const int32_t vecs = (p->n + AOT_VLEN - 1) / AOT_VLEN;
    aot_gemm_f32_group_args g;
    aot_tile_f32_job j;
    int32_t b, o;
    if (ACT == 0 && p->m == 1) {
        aot_gemm_rows_f32_one(y, x, w, bias, r, p, ROWS);
        return;
    }
    aot_gemm_f32_job(&j, p->k, p->act, p->alpha, p->beta);
    g.x_row = (ptrdiff_t)p->x_row;
    g.y_row = (ptrdiff_t)p->y_row;
    g.m = p->m;
    g.act = p->act;
    g.alpha = p->alpha;
    g.beta = p->beta;
    for (b = 0; b < vecs; b += o) {
        const int32_t left = p->n - b * AOT_VLEN;
        const float *part = w + (ptrdiff_t)b * AOT_VLEN * (ROWS != 0 ? p->k : 1);
        o = aot_tile_f32_group(b, vecs, O);
        j.bias = bias + b * AOT_VLEN;
        g.y = y + b * AOT_VLEN;
        g.r = r != NULL ? r + b * AOT_VLEN : NULL;
        g.cols = left < o * AOT_VLEN ? left : o * AOT_VLEN;
        aot_gemm_rows_f32_group(&j, &g, x, part, (float *)scratch, o, p, P, O, ACT, ROWS);
    }
}

#endif /* AOT_GEMM_ROWS_F32_H */
