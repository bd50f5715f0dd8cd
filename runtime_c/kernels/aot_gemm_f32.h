/* SPDX-License-Identifier: MIT-0 */
/* Matrix product with constant weights: y = act(x * w + bias + r).
 *
 * V = AOT_VLEN. x [m][k] rows x_row floats apart, y [m][n] rows y_row apart, r as y (may be y), all
 * row-major. w: one panel [k][o * V] per group of o vectors of columns (o = O, the last groups 2 or
 * 1), zero past column n; bias [ceil(n/V) * V]. No scratch. One row streams w at memory speed.
 * In place: y may be r.
 */
#ifndef AOT_GEMM_F32_H
#define AOT_GEMM_F32_H

#include "aot_conv_act_f32.h"
#include "aot_tile_f32.h"

typedef struct {
    int32_t m, n, k;
    int64_t x_row, y_row;
    int32_t act;
    float alpha, beta;
} aot_gemm_f32_params;

/* What a group of columns needs besides the job. */
typedef struct {
    float *y;
    const float *r;
    ptrdiff_t x_row, y_row;
    int32_t m, cols; /* rows; columns of the group that exist */
    int32_t act;
    float alpha, beta;
} aot_gemm_f32_group_args;

enum { AOT_GEMM_RUN = 256 }; /* products summed up before they are added to a total */

/* rows x cols floats from s to d. */
AOT_INLINE void aot_gemm_f32_copy(float *d, ptrdiff_t d_row, const float *s, ptrdiff_t s_row,
                                  int32_t rows, int32_t cols) {
    int32_t i;
    for (i = 0; i < rows; ++i) {
        (void)memcpy(d + i * d_row, s + i * s_row, (size_t)cols * sizeof(float));
    }
}

/* One tile, AOT_GEMM_RUN products of each sum at a time: y takes the sums of the earlier ones. */
AOT_INLINE void aot_gemm_f32_runs(const aot_tile_f32_job *tile, int32_t o, int P, int O, int RUNS) {
    static const float zeros[4 * AOT_VLEN] = {0};
    aot_tile_f32_job j = *tile;
    int32_t left = tile->kc;
    while (left > AOT_GEMM_RUN) {
        j.kc = AOT_GEMM_RUN;
        j.kblk = AOT_GEMM_RUN;
        j.clamp = 0;
        aot_tile_f32_run(&j, o, P, O, RUNS);
        left -= AOT_GEMM_RUN;
        j.x += AOT_GEMM_RUN;
        j.w += (ptrdiff_t)AOT_GEMM_RUN * o * AOT_VLEN;
        j.next += j.next != 0 ? AOT_GEMM_RUN * 8 * sizeof(float) : 0;
        j.bias = zeros;
        j.r = j.y;
    }
    j.kc = left;
    j.kblk = left;
    j.clamp = tile->clamp;
    aot_tile_f32_run(&j, o, P, O, RUNS);
}

/* All rows of one group of `o` vectors of columns; j has x, w, bias, kc, clamp. A group whose last
 * vector is not full goes through a buffer. RUNS as aot_tile_f32_run has it: 0, or 2 for words. */
AOT_INLINE void aot_gemm_f32_group(aot_tile_f32_job *j, const aot_gemm_f32_group_args *g,
                                   const float *next, int32_t o, int P, int O, int ACT, int RUNS) {
    float edge[AOT_TILE_MAX_P * 2 * AOT_VLEN]; /* the largest P * O of a family is 28 vectors */
    const int full = g->cols == o * AOT_VLEN;
    ptrdiff_t ahead = 0;
    int32_t q = 0;
    j->y_block = AOT_VLEN;
    j->y_pixel = full ? g->y_row : o * AOT_VLEN;
    while (q < g->m) {
        const int32_t size = aot_tile_f32_size(P, g->m - q);
        const int32_t n = g->m - q < size ? g->m - q : size;
        float *y = g->y + q * g->y_row;
        const float *r = g->r != NULL ? g->r + q * g->y_row : NULL;
        int32_t i;
        for (i = 0; i < size; ++i) {
            j->off[i] = (q + (i < n ? i : n - 1)) * g->x_row;
        }
        j->n = n;
        j->y = full ? y : edge;
        j->r = full || r == NULL ? r : edge;
        j->next = next != NULL && ahead < (ptrdiff_t)j->kc * o * AOT_VLEN
                      ? (uintptr_t)next + (size_t)ahead * sizeof *next
                      : 0;
        ahead += (ptrdiff_t)j->kc * 8;
        if (!full && r != NULL) {
            (void)memset(edge, 0, sizeof edge);
            aot_gemm_f32_copy(edge, j->y_pixel, r, g->y_row, n, g->cols);
        }
        aot_gemm_f32_runs(j, o, P, O, RUNS);
        if (ACT != 0) {
            aot_conv_act_f32_tile(j->y, n, j->y_pixel, o, AOT_VLEN, g->act, g->alpha, g->beta);
        }
        if (!full) {
            aot_gemm_f32_copy(y, g->y_row, edge, j->y_pixel, n, g->cols);
        }
        q += n;
    }
}

/* One row times one panel of 4 vectors: two accumulators per vector and one for
 * the sums of earlier runs, weights prefetched. */
AOT_UNUSED AOT_NOINLINE static void aot_gemv_f32_panel(float *y, const float *x, const float *w,
                                                       const float *bias, int32_t k) {
    aot_vf t0 = aot_vload(bias), t1 = aot_vload(bias + AOT_VLEN);
    aot_vf t2 = aot_vload(bias + 2 * AOT_VLEN), t3 = aot_vload(bias + 3 * AOT_VLEN);
    int32_t i = 0;
    while (i < k) {
        const int32_t end = k - i < AOT_GEMM_RUN ? k : i + AOT_GEMM_RUN;
        aot_vf a0 = aot_vzero(), a1 = aot_vzero(), a2 = aot_vzero(), a3 = aot_vzero();
        aot_vf b0 = aot_vzero(), b1 = aot_vzero(), b2 = aot_vzero(), b3 = aot_vzero();
        for (; i + 2 <= end; i += 2, w += 8 * AOT_VLEN) {
            const float s = x[i], t = x[i + 1];
            AOT_PREFETCH_AHEAD(w, AOT_STREAM_AHEAD);
            a0 += aot_vload(w) * s;
#if AOT_VLEN >= 8
            AOT_PREFETCH_AHEAD(w, AOT_STREAM_AHEAD + 2 * sizeof(aot_vf));
#endif
#if AOT_VLEN == 16
            AOT_PREFETCH_AHEAD(w, AOT_STREAM_AHEAD + 1 * sizeof(aot_vf));
            AOT_PREFETCH_AHEAD(w, AOT_STREAM_AHEAD + 3 * sizeof(aot_vf));
            AOT_PREFETCH_AHEAD(w, AOT_STREAM_AHEAD + 5 * sizeof(aot_vf));
            AOT_PREFETCH_AHEAD(w, AOT_STREAM_AHEAD + 7 * sizeof(aot_vf));
#endif
            a1 += aot_vload(w + 1 * AOT_VLEN) * s;
            a2 += aot_vload(w + 2 * AOT_VLEN) * s;
            a3 += aot_vload(w + 3 * AOT_VLEN) * s;
#if AOT_VLEN >= 4
            AOT_PREFETCH_AHEAD(w, AOT_STREAM_AHEAD + 4 * sizeof(aot_vf));
#endif
#if AOT_VLEN >= 8
            AOT_PREFETCH_AHEAD(w, AOT_STREAM_AHEAD + 6 * sizeof(aot_vf));
#endif
            b0 += aot_vload(w + 4 * AOT_VLEN) * t;
            b1 += aot_vload(w + 5 * AOT_VLEN) * t;
            b2 += aot_vload(w + 6 * AOT_VLEN) * t;
            b3 += aot_vload(w + 7 * AOT_VLEN) * t;
        }
        if (i < end) {
            const float s = x[i];
            a0 += aot_vload(w) * s;
            a1 += aot_vload(w + 1 * AOT_VLEN) * s;
            a2 += aot_vload(w + 2 * AOT_VLEN) * s;
            a3 += aot_vload(w + 3 * AOT_VLEN) * s;
            ++i;
        }
        t0 += a0 + b0;
        t1 += a1 + b1;
        t2 += a2 + b2;
        t3 += a3 + b3;
    }
    aot_vstore(y, t0);
    aot_vstore(y + AOT_VLEN, t1);
    aot_vstore(y + 2 * AOT_VLEN, t2);
    aot_vstore(y + 3 * AOT_VLEN, t3);
}

/* One row times one vector of columns of a panel `step` floats wide: adds in the same order as
 * aot_gemv_f32_panel, so that equal columns give equal bits wherever they stand. */
AOT_UNUSED AOT_NOINLINE static void aot_gemv_f32_vector(float *y, const float *x, const float *w,
                                                        const float *bias, int32_t k,
                                                        ptrdiff_t step) {
    aot_vf t = aot_vload(bias);
    int32_t i = 0;
    while (i < k) {
        const int32_t end = k - i < AOT_GEMM_RUN ? k : i + AOT_GEMM_RUN;
        aot_vf a = aot_vzero(), b = aot_vzero();
        for (; i + 2 <= end; i += 2, w += 2 * step) {
            a += aot_vload(w) * x[i];
            b += aot_vload(w + step) * x[i + 1];
        }
        if (i < end) {
            a += aot_vload(w) * x[i];
            w += step;
            ++i;
        }
        t += a + b;
    }
    aot_vstore(y, t);
}

/* y = act(sum + r) of a single row and a group of `o` vectors of columns; `sum` is overwritten. */
AOT_INLINE void aot_gemv_f32_finish(float *sum, const aot_tile_f32_job *j,
                                    const aot_gemm_f32_group_args *g, int32_t o, int ACT) {
    int32_t i;
    for (i = 0; g->r != NULL && i < g->cols; ++i) {
        sum[i] += g->r[i];
    }
    if (ACT != 0) {
        aot_conv_act_f32_tile(sum, 1, 0, o, AOT_VLEN, g->act, g->alpha, g->beta);
    }
    for (i = 0; j->clamp != 0 && i < o * AOT_VLEN; i += AOT_VLEN) {
        const aot_vf x = aot_vload(sum + i);
        aot_vstore(sum + i, aot_vclamp(x, aot_vset1(j->lo), aot_vset1(j->hi)));
    }
    (void)memcpy(g->y, sum, (size_t)g->cols * sizeof(float));
}

/* A group of `o` vectors of columns for a single row: y[i] = act(product + r[i]). */
AOT_INLINE void aot_gemv_f32_group(const aot_tile_f32_job *j, const aot_gemm_f32_group_args *g,
                                   int32_t o) {
    float sum[4 * AOT_VLEN];
    int32_t i;
    if (o == 4) {
        aot_gemv_f32_panel(sum, j->x, j->w, j->bias, j->kc);
    } else {
        for (i = 0; i < o; ++i) {
            aot_gemv_f32_vector(sum + i * AOT_VLEN, j->x, j->w + i * AOT_VLEN,
                                j->bias + i * AOT_VLEN, j->kc, (ptrdiff_t)o * AOT_VLEN);
        }
    }
    aot_gemv_f32_finish(sum, j, g, o, 0);
}

/* The part of a job that is the same for every group of a matrix product. */
AOT_INLINE void aot_gemm_f32_job(aot_tile_f32_job *j, int32_t k, int32_t act, float lo, float hi) {
    (void)memset(j, 0, sizeof *j);
    j->na = 1;
    j->nb = 1;
    j->kc = k;
    j->kblk = k;
    j->xstep = 1;
    j->clamp = act == AOT_ACT_CLAMP;
    j->lo = lo;
    j->hi = hi;
}

/* Instance: P, O the tile family (aot_tile_f32_run); ACT 0 if act is NONE or CLAMP. */
AOT_INLINE void aot_gemm_f32(float *y, const float *x, const float *w, const float *bias,
                             const float *r, const aot_gemm_f32_params *p, int P, int O, int ACT) {
    const int32_t vecs = (p->n + AOT_VLEN - 1) / AOT_VLEN;
    aot_gemm_f32_group_args g;
    aot_tile_f32_job j;
    int32_t b, o;
    aot_gemm_f32_job(&j, p->k, p->act, p->alpha, p->beta);
    j.x = x;
    j.w = w;
    g.x_row = (ptrdiff_t)p->x_row;
    g.y_row = (ptrdiff_t)p->y_row;
    g.m = p->m;
    g.act = p->act;
    g.alpha = p->alpha;
    g.beta = p->beta;
    for (b = 0; b < vecs; b += o) {
        const int32_t left = p->n - b * AOT_VLEN;
        ptrdiff_t size;
        o = aot_tile_f32_group(b, vecs, O);
        size = (ptrdiff_t)p->k * o * AOT_VLEN;
        j.bias = bias + b * AOT_VLEN;
        g.y = y + b * AOT_VLEN;
        g.r = r != NULL ? r + b * AOT_VLEN : NULL;
        g.cols = left < o * AOT_VLEN ? left : o * AOT_VLEN;
        if (ACT == 0 && O == 4 && p->m == 1) {
            aot_gemv_f32_group(&j, &g, o);
        } else {
            aot_gemm_f32_group(&j, &g, b + o < vecs ? j.w + size : NULL, o, P, O, ACT, 0);
        }
        j.w += size;
    }
}

#endif /* AOT_GEMM_F32_H */
