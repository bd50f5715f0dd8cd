/* SPDX-License-Identifier: MIT-0 */
/* Matrix products of numbers of 16 bits on 64-bit Arm: strips of 8 rows by groups of 8 columns.
 *
 * AOT_VLEN is 4. Weights are those of aot_gemm_f32_narrow.h, KIND BF16 or F16, in groups of O = 2
 * vectors (the last one may be 1). A strip of x has 8 rows [ceil(k / 4)][8][4], four numbers of
 * each row together, zeros behind k and in rows that do not exist: a register holds two rows, as
 * Arm's matrix products want them. aot_bfmmla.h and aot_fp16.h have a tile each, 8 rows by a group,
 * and its twin in plain C; aot_gemm_f32_strips_body.h is the product around it.
 */
#ifndef AOT_GEMM_F32_STRIPS_H
#define AOT_GEMM_F32_STRIPS_H

#include "aot_gemm_f32_narrow.h"

#if AOT_VLEN != 4
#error "strips are for vectors of 4 floats"
#endif

enum { AOT_STRIP = 8 };
/* Numbers of 16 bits in a strip of k columns. */
#define AOT_STRIP_SIZE(k) (((k) + 3) / 4 * (4 * AOT_STRIP))

/* V floats as they are, but finite ones beyond the one of these bits, `most`, are that. */
AOT_INLINE aot_vf aot_strip_finite(aot_vf x, int32_t most) {
    const aot_vi bits = aot_vbits(x), limit = aot_viset1(most);
    const aot_vi size = bits & INT32_C(0x7FFFFFFF);
    const aot_vi over = aot_visgt(size, limit) & aot_visgt(aot_viset1(0x7F800000), size);
    return aot_vfrombits((over & ((bits & INT32_MIN) | limit)) | (~over & bits));
}

/* What is done with the sums of `rows` rows and `cols` columns, [rows][o * V]:
 * y = act(sums * factors + bias + r), factors 1 where there are none. */
AOT_INLINE void aot_strip_finish(float *y, const float *r, float *sums, const float *bias,
                                 const float *factors, const aot_gemm_f32_narrow_params *p,
                                 int32_t rows, int32_t cols, int32_t o, int ACT) {
    const aot_vf lo = aot_vset1(p->alpha), hi = aot_vset1(p->beta);
    int32_t i, c;
    for (i = 0; i < rows; ++i) {
        const ptrdiff_t at = i * (ptrdiff_t)p->y_row;
        for (c = 0; c < cols; c += AOT_VLEN) {
            const int32_t left = cols - c;
            float *const s = sums + i * o * AOT_VLEN + c;
            aot_vf v = aot_vload(s);
            v = factors != NULL ? v * aot_vload(factors + c) : v;
            v += aot_vload(bias + c);
            if (r != NULL) {
                v += left < AOT_VLEN ? aot_vload_n(r + at + c, left, 0.0F) : aot_vload(r + at + c);
            }
            v = p->act == AOT_ACT_CLAMP ? aot_vclamp(v, lo, hi) : v;
            if (ACT != 0) {
                aot_vstore(s, v);
            } else if (left < AOT_VLEN) {
                aot_vstore_n(y + at + c, v, left);
            } else {
                aot_vstore(y + at + c, v);
            }
        }
    }
    if (ACT != 0) {
        aot_conv_act_f32_tile(sums, rows, (ptrdiff_t)o * AOT_VLEN, o, AOT_VLEN, p->act, p->alpha,
                              p->beta);
        aot_gemm_f32_copy(y, p->y_row, sums, (ptrdiff_t)o * AOT_VLEN, rows, cols);
    }
}

#endif /* AOT_GEMM_F32_STRIPS_H */
