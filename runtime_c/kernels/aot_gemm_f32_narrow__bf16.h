/* SPDX-License-Identifier: MIT-0 */
/* Matrix product with constant weights of bfloat16, by the CPU's dot products of two:
 * y = act(x * w + bias + r).
 *
 * Operands are those of aot_gemm_f32_narrow.h with KIND BF16. Rows of x are rounded to bfloat16,
 * `run` of them at a time; aot_bf16.h says how products are added. Scratch: min(run, m) rows of
 * AOT_BF16_ROW(k) floats. In place: y may be r.
 */
#ifndef AOT_GEMM_F32_NARROW__BF16_H
#define AOT_GEMM_F32_NARROW__BF16_H

#include "aot_bf16.h"
#include "aot_gemm_f32_narrow.h"

#ifndef AOT_BF16_MADD
#error "generated for AVX512_BF16: compile with -mavx512bf16, or -DAOT_ALLOW_NARROW for plain C"
#endif

typedef aot_gemm_f32_narrow_params aot_gemm_f32_narrow__bf16_params;

/* Instance: P, O the tile family (aot_tile_f32_run); ACT 0 if act is NONE or CLAMP. */
AOT_INLINE void aot_gemm_f32_narrow__bf16(float *y, const float *x, const void *weights,
                                          const float *factors, const float *bias, const float *r,
                                          void *scratch, const aot_gemm_f32_narrow_params *p, int P,
                                          int O, int ACT) {
    const int32_t vecs = (p->n + AOT_VLEN - 1) / AOT_VLEN, words = (p->k + 1) / 2;
    const ptrdiff_t row = AOT_BF16_ROW((ptrdiff_t)p->k);
    float *const rows = (float *)scratch;
    aot_gemm_f32_group_args g;
    aot_tile_f32_job j;
    int32_t first, i, b, o;
    (void)factors;
    aot_gemm_f32_job(&j, words, p->act, p->alpha, p->beta);
    aot_narrow_groups(&g, p);
    g.x_row = row;
    j.x = rows;
    for (first = 0; first < p->m; first += p->run) {
        const ptrdiff_t at = first * (ptrdiff_t)p->y_row;
        g.m = p->m - first < p->run ? p->m - first : p->run;
        for (i = 0; i < g.m; ++i) {
            aot_bf16_row(rows + i * row, x + (first + i) * (ptrdiff_t)p->k, p->k);
        }
        j.w = (const float *)weights;
        for (b = 0; b < vecs; b += o) {
            ptrdiff_t size;
            o = aot_tile_f32_group(b, vecs, O);
            size = (ptrdiff_t)words * o * AOT_VLEN;
            j.bias = bias + b * AOT_VLEN;
            aot_narrow_columns(&g, y + at, r != NULL ? r + at : NULL, p->n, b, o);
            aot_gemm_f32_group(&j, &g, b + o < vecs ? j.w + size : NULL, o, P, O, ACT, 2);
            j.w += size;
        }
    }
}

#endif /* AOT_GEMM_F32_NARROW__BF16_H */
