/* SPDX-License-Identifier: MIT-0 */
/* Matrix product with weights of bfloat16 as the model stores them, by the CPU's dot products of
 * two: y = act(x * W + bias + r).
 *
 * Operands are those of aot_gemm_rows_f32.h with ROWS 1, but w [n][k] is bfloat16, k even. Rows of
 * x are rounded to bfloat16 in scratch, `block` of them at a time; aot_bf16.h says how products are
 * added, of a single row by lanes. Scratch: (k / 2 + COLUMNS) * V * ceil(min(m, block) / V) floats;
 * of a single row k / 2. In place: y may be r.
 */
#ifndef AOT_GEMM_ROWS_F32__BF16_H
#define AOT_GEMM_ROWS_F32__BF16_H

#include "aot_bf16_pack.h"
#include "aot_gemm_rows_f32.h"

#ifndef AOT_BF16_MADD
#error "generated for AVX512_BF16: compile with -mavx512bf16, or -DAOT_ALLOW_NARROW for plain C"
#endif

typedef aot_gemm_rows_f32_params aot_gemm_rows_f32__bf16_params;

/* The product of a row of x and a row of w, `words` words each. Rows of w follow each other: read
 * one after the other they are one stream from memory, of four at a time it takes twice as long. */
AOT_INLINE float aot_gemm_rows_bf16_dot(const float *x, const float *w, int32_t words) {
    aot_vf a = aot_vzero(), b = aot_vzero();
    int32_t t = 0;
    for (; t + 2 * AOT_VLEN <= words; t += 2 * AOT_VLEN) {
        AOT_PREFETCH_AHEAD(w + t, AOT_STREAM_AHEAD);
        AOT_PREFETCH_AHEAD(w + t, AOT_STREAM_AHEAD + sizeof(aot_vf));
        a = AOT_BF16_MADD(a, aot_vload(x + t), aot_vload(w + t));
        b = AOT_BF16_MADD(b, aot_vload(x + t + AOT_VLEN), aot_vload(w + t + AOT_VLEN));
    }
    for (; t < words; t += AOT_VLEN) {
        const int32_t some = words - t < AOT_VLEN ? words - t : AOT_VLEN;
        a = AOT_BF16_MADD(a, aot_vload_n(x + t, some, 0.0F), aot_vload_n(w + t, some, 0.0F));
    }
    return aot_vsum(a + b);
}

/* A single row; without an activation, or with limits. */
AOT_INLINE void aot_gemm_rows_bf16_one(float *y, const float *x, const float *w, const float *bias,
                                       const float *r, const aot_gemm_rows_f32_params *p) {
    const int32_t words = p->k / 2;
    int32_t i;
    for (i = 0; i < p->n; ++i) {
        float v = aot_gemm_rows_bf16_dot(x, w + (ptrdiff_t)i * words, words) + bias[i];
        v += r != NULL ? r[i] : 0.0F;
        if (p->act == AOT_ACT_CLAMP) {
            v = v < p->alpha ? p->alpha : v;
            v = v > p->beta ? p->beta : v;
        }
        y[i] = v;
    }
}

/* Instance: P, O, ACT as in aot_gemm_rows_f32.h. */
AOT_INLINE void aot_gemm_rows_f32__bf16(float *y, const float *x, const void *weights,
                                        const float *bias, const float *r, void *scratch,
                                        const aot_gemm_rows_f32_params *p, int P, int O, int ACT) {
    const float *const w = (const float *)weights;
    const int32_t words = p->k / 2;
    float *const panels = (float *)scratch;
    int32_t i, b, o;
    if (ACT == 0 && p->m == 1) {
        aot_bf16_row(panels, x, p->k);
        aot_gemm_rows_bf16_one(y, panels, w, bias, r, p);
        return;
    }
    for (i = 0; i < p->m; i += p->block) {
        const int32_t m = p->m - i < p->block ? p->m - i : p->block;
        const int32_t vecs = (m + AOT_VLEN - 1) / AOT_VLEN;
        const ptrdiff_t at = i * (ptrdiff_t)p->y_row;
        for (b = 0; b < vecs; b += o) {
            const int32_t left = m - b * AOT_VLEN;
            o = aot_tile_f32_group(b, vecs, O);
            aot_bf16_pack_transposed(panels + (ptrdiff_t)b * AOT_VLEN * words,
                                     x + (i + b * AOT_VLEN) * (ptrdiff_t)p->x_row, p->k,
                                     left < o * AOT_VLEN ? left : o * AOT_VLEN, o * AOT_VLEN,
                                     (ptrdiff_t)p->x_row, 1.0F);
        }
        aot_gemm_rows_f32_packed(y + at, w, bias, r != NULL ? r + at : NULL, panels,
                                 panels + (ptrdiff_t)vecs * AOT_VLEN * words, m, p, P, O, ACT, 1);
    }
}

#endif /* AOT_GEMM_ROWS_F32__BF16_H */
