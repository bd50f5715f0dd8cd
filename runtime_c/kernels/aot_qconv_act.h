/* SPDX-License-Identifier: MIT-0 */
/* A convolution of int8 quantised values and a function of its sums, which are never quantised
 * values: what the kernels aot_qconv_act_s8 and aot_qconv_act_s8__vec share.
 *
 * x, w, bias, scratch, stage and the instance constants are those of aot_qconv_sum.h. A sum becomes
 * a place, (sum * mult[c] >> shift[c]) + offset, limited to [0, a_mult]: 2^15 of them are a piece
 * with three numbers. With d / 2^15 the way through the piece the quantised value is
 *
 *   (piece[0] + piece[1] * d + piece[2] * d * d) / 2^20 rounded down, limited to [sum_lo, sum_hi].
 *
 * 0 < mult < 2^31, 0 <= shift < 63, |sum| < 2^30; the numbers are below 2^30. y must not overlap x.
 */
#ifndef AOT_QCONV_ACT_H
#define AOT_QCONV_ACT_H

#include "aot_qconv_sum.h"

#define AOT_QCONV_ACT_PLACES 15 /* log2 of those of a piece */
#define AOT_QCONV_ACT_BITS 20   /* fraction bits of the numbers */

/* The quantised values of `channels` channels of a pixel. */
AOT_INLINE void aot_qconv_act_values(int8_t *y, const int32_t *sum, const int32_t *pieces,
                                     const int32_t *mult, const int8_t *shift, int32_t channels,
                                     const aot_qconv_sum_params *p) {
    int32_t c;
    for (c = 0; c < channels; ++c) {
        const int64_t place = (((int64_t)sum[c] * mult[c]) >> shift[c]) + p->offset;
        const int32_t at = place < 0 ? 0 : place > p->a_mult ? p->a_mult : (int32_t)place;
        const int32_t *piece = pieces + 3 * (ptrdiff_t)(at >> AOT_QCONV_ACT_PLACES);
        const int64_t d = at & ((1 << AOT_QCONV_ACT_PLACES) - 1);
        const int64_t slope = piece[1] + ((piece[2] * d) >> AOT_QCONV_ACT_PLACES);
        const int32_t q =
            (int32_t)((piece[0] + ((slope * d) >> AOT_QCONV_ACT_PLACES)) >> AOT_QCONV_ACT_BITS);
        y[c] = (int8_t)(q < p->sum_lo ? p->sum_lo : q > p->sum_hi ? p->sum_hi : q);
    }
}

/* The quantised values of n pixels. */
AOT_INLINE void aot_qconv_act_row(int8_t *y, const int32_t *sum, const int32_t *pieces,
                                  const int32_t *mult, const int8_t *shift, int32_t n,
                                  const aot_qconv_sum_params *p) {
    const int32_t channels = p->oc;
    int32_t i;
    for (i = 0; i < n; ++i, y += channels, sum += channels) {
        aot_qconv_act_values(y, sum, pieces, mult, shift, channels, p);
    }
}

#define AOT_QCONV_ACT_ROW(Y, DONE, STAGE, PIECES, MULT, SHIFT, N, P)                               \
    aot_qconv_act_row(Y, STAGE, (const int32_t *)(PIECES), MULT, SHIFT, N, P)

#endif /* AOT_QCONV_ACT_H */
