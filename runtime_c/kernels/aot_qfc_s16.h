/* SPDX-License-Identifier: MIT-0 */
/* Matrix product of int16 quantised values and int8 weights, row by row: x [m][k], y [m][n], see
 * aot_qconv_s8_params.h.
 *
 * w in the order of the instruction set UNIT (aot_qsums_s16.h); bias[n] with -x_zero * (sum of the
 * weights), padded to blocks of four results. CLIP 0 if lo and hi are those of int16. RQ, PC: see
 * aot_requant.h. Scratch: a row of x in 2 bytes times the depth, where that is more than k; what is
 * behind k meets zero weights. w, bias and scratch are aligned to 4 bytes. y must not overlap x.
 */
#ifndef AOT_QFC_S16_H
#define AOT_QFC_S16_H

#include "aot_qconv_s8_params.h"
#include "aot_qsums_s16.h"

typedef aot_qfc_s8_params aot_qfc_s16_params;

AOT_INLINE void aot_qfc_s16(int16_t *y, const int16_t *x, const int8_t *w, const int32_t *bias,
                            const int32_t *mult, const int8_t *shift, void *scratch,
                            const aot_qfc_s16_params *p, int RQ, int PC, int CLIP, int UNIT) {
    const aot_s16_out o = {mult, shift, p->y_zero, p->lo, p->hi};
    const int32_t depth = aot_s16_depth(p->k, UNIT);
    int32_t sum[4], row, c;
    for (row = 0; row < p->m; ++row, x += p->k, y += p->n) {
        const int16_t *values = x;
        if (depth != p->k) {
            (void)memcpy(scratch, x, (size_t)p->k * sizeof *x);
            values = (const int16_t *)scratch;
        }
        for (c = 0; c < p->n; c += 4) {
            aot_s16_row(sum, values, w + (ptrdiff_t)c * depth, bias + c, depth, UNIT);
            aot_s16_store(y + c, NULL, sum, c, p->n - c < 4 ? p->n - c : 4, &o, RQ, PC, CLIP, UNIT);
        }
    }
}

#endif /* AOT_QFC_S16_H */
