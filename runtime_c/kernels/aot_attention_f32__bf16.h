/* SPDX-License-Identifier: MIT-0 */
/* Scaled dot-product attention, its products by the CPU's dot products of two bfloat16.
 *
 * Operands are those of aot_attention_f32.h with HOW 0 or 1. Queries, keys times `scale`, values
 * and the weights that the softmax makes are rounded to bfloat16 before they are multiplied;
 * aot_bf16.h says how products are added. Scratch is that of aot_attention_f32.h, with `words` of d
 * and of skv in place of d and skv, and `rows` (HOW 1: sq) rows of AOT_BF16_ROW(d) floats more. y
 * may be q as there.
 */
#ifndef AOT_ATTENTION_F32__BF16_H
#define AOT_ATTENTION_F32__BF16_H

#include "aot_attention_f32.h"

#ifndef AOT_BF16_MADD
#error "generated for AVX512_BF16: compile with -mavx512bf16, or -DAOT_ALLOW_NARROW for plain C"
#endif

typedef aot_attention_f32_params aot_attention_f32__bf16_params;

AOT_INLINE void aot_attention_f32__bf16(float *y, float *qk, const float *q, const float *k,
                                        const float *v, const void *mask, const int64_t *lens,
                                        void *scratch, const aot_attention_f32_params *p, int P,
                                        int O, int P2, int O2, int HOW, int MASK, int ZERO,
                                        int QK) {
    aot_attention_f32_run(y, qk, q, k, v, mask, lens, scratch, p, P, O, P2, O2, HOW, MASK, ZERO, QK,
                          1);
}

#endif /* AOT_ATTENTION_F32__BF16_H */
