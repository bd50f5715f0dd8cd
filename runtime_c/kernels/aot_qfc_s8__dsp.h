/* SPDX-License-Identifier: MIT-0 */
/* Matrix product of int8 quantised values and constant weights for Cortex-M4, M7 and M33.
 *
 * x [m][k], y [m][n], see aot_qconv_s8_params.h. w: per four results the words of aot_dsp_mac.h, k
 * padded to a multiple of 8; bias: one per result, padded to blocks of four; both zero past the
 * results. Scratch: none (NULL) where k is a multiple of 8, else k so padded, in bytes. w and bias
 * are aligned to 4 bytes. y must not overlap x.
 */
#ifndef AOT_QFC_S8__DSP_H
#define AOT_QFC_S8__DSP_H

#include "aot_dsp_out.h"
#include "aot_qconv_s8_params.h"

typedef aot_qfc_s8_params aot_qfc_s8__dsp_params;

/* Instance: CLIP 0 if lo and hi are -128 and 127; WIDE, see aot_dsp_mac.h. */
AOT_INLINE void aot_qfc_s8__dsp(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                                const int32_t *mult, const int8_t *shift, void *scratch,
                                const aot_qfc_s8__dsp_params *p, int RQ, int PC, int CLIP,
                                int WIDE) {
    const int32_t depth = (p->k + 7) & ~7;
    const aot_dsp_out o = {mult, shift, p->y_zero, p->lo, p->hi};
    int32_t sum[4], row, c;
    for (row = 0; row < p->m; ++row, x += p->k) {
        const int8_t *values = x;
        if (scratch != NULL && depth != p->k) {
            (void)memcpy(scratch, x, (size_t)p->k);
            (void)memset((int8_t *)scratch + p->k, 0, (size_t)(depth - p->k));
            values = (const int8_t *)scratch;
        }
        for (c = 0; c < p->n; c += 4) {
            const int32_t n = p->n - c < 4 ? p->n - c : 4;
            aot_dsp_1x4(sum, values, w + c * depth, depth / 8, bias + c, WIDE);
            aot_dsp_store(y, sum, c, n, &o, RQ, PC, CLIP, WIDE);
            y += n;
        }
    }
}

#endif /* AOT_QFC_S8__DSP_H */
