/* SPDX-License-Identifier: MIT-0 */
/* Matrix product with weights as the model stores them: y = act(x * W + bias + r).
 *
 * For a matrix that something else reads too, a Gather of its rows say, so that it is stored once.
 * V = AOT_VLEN. x [m][k] rows x_row floats apart, y [m][n] rows y_row apart, r as y (may be y), all
 * row-major. w is W transposed, [n][k], with ROWS 1, else W itself, [k][n]; bias [ceil(n/V) * V].
 * A single row reads w where it lies. Of more rows, ROWS 1 packs `block` rows of x, a multiple of
 * O * V or all, and multiplies rows of w as they lie, which are read once per block; scratch:
 * (k + COLUMNS) * V * ceil(min(m, block) / V) floats. ROWS 0 packs columns of w, a group of O * V
 * and `block` of their elements at a time, a multiple of AOT_GEMM_RUN: min(k, block) * O * V
 * floats. In place: y may be r.
 */
#ifndef AOT_GEMM_ROWS_F32_H
#define AOT_GEMM_ROWS_F32_H

#include "aot_gemm_f32.h"
#include "aot_gemv_f32.h"
#include "aot_matmul_f32.h"
#include "aot_vtranspose_f32.h"

typedef struct {
    int32_t m, n, k;
    int64_t x_row, y_row;
    int32_t act;
    float alpha, beta;
    int32_t block;
} aot_gemm_rows_f32_params;

enum {
    AOT_GEMM_ROWS_PART = 64,   /* results of a single row that are computed together */
    AOT_GEMM_ROWS_COLUMNS = 48 /* rows of w that meet all of a block of x: whole tiles, vectors */
};

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

/* y = act(t + bias + r) of rows i.. and columns c.., as many as a vector has or as exist: t has a
 * row of `width` floats per column. */
AOT_INLINE void aot_gemm_rows_f32_square(float *y, const float *t, int32_t width, const float *bias,
                                         const float *r, int32_t rows, int32_t cols,
                                         const aot_gemm_rows_f32_params *p, int ACT) {
    float square[AOT_VLEN * AOT_VLEN];
    const aot_vf b = aot_vload(bias);
    int32_t i;
    aot_vtranspose_f32(square, AOT_VLEN, t, width, 1.0F);
    for (i = 0; i < rows; ++i) {
        const ptrdiff_t at = i * (ptrdiff_t)p->y_row;
        aot_vf v = aot_vload(square + i * AOT_VLEN) + b;
        if (r != NULL) {
            v += cols == AOT_VLEN ? aot_vload(r + at) : aot_vload_n(r + at, cols, 0.0F);
        }
        v = p->act == AOT_ACT_CLAMP ? aot_vclamp(v, aot_vset1(p->alpha), aot_vset1(p->beta)) : v;
        if (ACT != 0) {
            aot_vstore(square, v);
            aot_conv_act_f32_tile(square, 1, 0, 1, 0, p->act, p->alpha, p->beta);
            v = aot_vload(square);
        }
        if (cols == AOT_VLEN) {
            aot_vstore(y + at, v);
        } else {
            aot_vstore_n(y + at, v, cols);
        }
    }
}

/* Rows first..end-1 of `cols` columns of y, which are written soon, are prefetched. */
AOT_INLINE void aot_gemm_rows_f32_expect(const float *y, ptrdiff_t y_row, int32_t first,
                                         int32_t end, int32_t cols) {
    int32_t i, c;
    for (i = first; i < end; ++i) {
        for (c = 0; c < cols; c += 16) {
            AOT_PREFETCH(y + i * y_row + c);
        }
        AOT_PREFETCH(y + i * y_row + (cols - 1));
    }
}

/* Columns of y whose weights are the `cols` rows at j->x, of j->kc numbers (words with WORDS), and
 * `m` rows whose panel is j->w. `after` rows of weights that are needed next, if it is above 0, are
 * at `next` and prefetched, eight by each tile. */
AOT_INLINE void aot_gemm_rows_f32_some(float *y, aot_tile_f32_job *j, const float *bias,
                                       const float *r, float *sums, int32_t m, int32_t o,
                                       int32_t cols, const float *next, int32_t after,
                                       const aot_gemm_rows_f32_params *p, int P, int O, int ACT,
                                       int WORDS) {
    const int32_t width = o * AOT_VLEN;
    const float *w = j->x;
    aot_gemm_f32_group_args g;
    int32_t i, c;
    (void)memset(&g, 0, sizeof g);
    g.x_row = j->kc;
    g.y_row = width;
    g.cols = width;
    for (c = 0; c < cols; c += P, after -= 8) {
        g.m = cols - c < P ? cols - c : P;
        aot_gemm_rows_f32_expect(y, (ptrdiff_t)p->y_row, m * c / cols, m * (c + g.m) / cols, cols);
        g.y = sums + (ptrdiff_t)c * width;
        j->x = w + c * g.x_row;
        aot_gemm_f32_group(j, &g, after > 0 ? next : NULL, o, P, O, 0, 2 * WORDS);
        next += after > 8 ? 8 * g.x_row : 0;
    }
    for (i = 0; i < m; i += AOT_VLEN) {
        for (c = 0; c < cols; c += AOT_VLEN) {
            const ptrdiff_t at = i * (ptrdiff_t)p->y_row + c;
            aot_gemm_rows_f32_square(y + at, sums + (ptrdiff_t)c * width + i, width, bias + c,
                                     r != NULL ? r + at : NULL, m - i < AOT_VLEN ? m - i : AOT_VLEN,
                                     cols - c < AOT_VLEN ? cols - c : AOT_VLEN, p, ACT);
        }
    }
}

/* Rows of w times `m` rows of x, which are packed: y of all columns. */
AOT_INLINE void aot_gemm_rows_f32_packed(float *y, const float *w, const float *bias,
                                         const float *r, const float *panels, float *sums,
                                         int32_t m, const aot_gemm_rows_f32_params *p, int P, int O,
                                         int ACT, int WORDS) {
    static const float zeros[4 * AOT_VLEN] = {0};
    const int32_t vecs = (m + AOT_VLEN - 1) / AOT_VLEN;
    const ptrdiff_t depth = WORDS != 0 ? p->k / 2 : p->k;
    aot_tile_f32_job j;
    int32_t b, o, c, cols, after;
    aot_gemm_f32_job(&j, (int32_t)depth, AOT_ACT_NONE, 0.0F, 0.0F);
    j.bias = zeros;
    for (c = 0; c < p->n; c += cols) {
        cols = p->n - c < AOT_GEMM_ROWS_COLUMNS ? p->n - c : AOT_GEMM_ROWS_COLUMNS;
        after = p->n - c - cols < AOT_GEMM_ROWS_COLUMNS ? p->n - c - cols : AOT_GEMM_ROWS_COLUMNS;
        for (b = 0; b < vecs; b += o) {
            const int32_t i = b * AOT_VLEN;
            const ptrdiff_t at = i * (ptrdiff_t)p->y_row + c;
            const int32_t begun = b / O * ((cols + P - 1) / P) * 8; /* prefetched rows */
            const int32_t from = begun < after ? begun : after;
            o = aot_tile_f32_group(b, vecs, O);
            j.x = w + c * depth;
            j.w = panels + i * depth;
            aot_gemm_rows_f32_some(y + at, &j, bias + c, r != NULL ? r + at : NULL, sums,
                                   m - i < o * AOT_VLEN ? m - i : o * AOT_VLEN, o, cols,
                                   w + (c + cols + from) * depth, after - from, p, P, O, ACT,
                                   WORDS);
        }
    }
}

/* Several rows times W transposed, a block of them at a time. */
AOT_INLINE void aot_gemm_rows_f32_many(float *y, const float *x, const float *w, const float *bias,
                                       const float *r, float *panels,
                                       const aot_gemm_rows_f32_params *p, int P, int O, int ACT) {
    int32_t i, b, o;
    for (i = 0; i < p->m; i += p->block) {
        const int32_t m = p->m - i < p->block ? p->m - i : p->block;
        const int32_t vecs = (m + AOT_VLEN - 1) / AOT_VLEN;
        const ptrdiff_t at = i * (ptrdiff_t)p->y_row;
        for (b = 0; b < vecs; b += o) {
            const int32_t left = m - b * AOT_VLEN;
            o = aot_tile_f32_group(b, vecs, O);
            aot_matmul_f32_pack(panels + (ptrdiff_t)b * AOT_VLEN * p->k,
                                x + (i + b * AOT_VLEN) * (ptrdiff_t)p->x_row, p->k,
                                left < o * AOT_VLEN ? left : o * AOT_VLEN, o * AOT_VLEN, 1,
                                (ptrdiff_t)p->x_row, 1.0F);
        }
        aot_gemm_rows_f32_packed(y + at, w, bias, r != NULL ? r + at : NULL, panels,
                                 panels + (ptrdiff_t)vecs * AOT_VLEN * p->k, m, p, P, O, ACT, 0);
    }
}

/* All rows of a group of `o` vectors of columns, which begin at `w`. */
AOT_INLINE void aot_gemm_rows_f32_group(aot_tile_f32_job *j, aot_gemm_f32_group_args *g,
                                        const float *x, const float *w, float *panel, int32_t o,
                                        const aot_gemm_rows_f32_params *p, int P, int O, int ACT) {
    static const float zeros[4 * AOT_VLEN] = {0};
    int32_t t = 0;
    do { /* at least once: without products sums are the bias */
        const int32_t k = p->k - t < p->block ? p->k - t : p->block;
        const int last = t + k == p->k;
        aot_matmul_f32_pack(panel, w + t * (ptrdiff_t)p->n, k, g->cols, o * AOT_VLEN, p->n, 1,
                            1.0F);
        j->w = panel;
        j->kc = k;
        j->kblk = k;
        j->x = x + t;
        j->clamp = last && p->act == AOT_ACT_CLAMP;
        aot_gemm_f32_group(j, g, NULL, o, P, O, last ? ACT : 0, 0);
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
    if (ROWS != 0) {
        aot_gemm_rows_f32_many(y, x, w, bias, r, (float *)scratch, p, P, O, ACT);
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
        o = aot_tile_f32_group(b, vecs, O);
        j.bias = bias + b * AOT_VLEN;
        g.y = y + b * AOT_VLEN;
        g.r = r != NULL ? r + b * AOT_VLEN : NULL;
        g.cols = left < o * AOT_VLEN ? left : o * AOT_VLEN;
        aot_gemm_rows_f32_group(&j, &g, x, w + b * AOT_VLEN, (float *)scratch, o, p, P, O, ACT);
    }
}

#endif /* AOT_GEMM_ROWS_F32_H */
