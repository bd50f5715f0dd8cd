/* SPDX-License-Identifier: MIT-0 */
/* Fully connected layer on int8 quantised values for Arm's vector extension: y[m][n] = x[m][k] *
 * w[n][k].
 *
 * w as in aot_qmve.h; bias[n] with -x_zero * (sum of the weights); mult and shift as in
 * aot_requant.h (one element in all with PC 0). Rows of x are read where they are with DIRECT 1 (k
 * a multiple of 16), else copied to scratch, ROWS * k bytes, k rounded up to 16. NEG 0 if no
 * quantised value below y_zero is ever stored. ROWS rows are computed at once: 1 if m is 1, else 2.
 * y must not overlap x.
 */
#ifndef AOT_QFC_S8__MVE_H
#define AOT_QFC_S8__MVE_H

#include "aot_qconv_s8_params.h"
#include "aot_qmve.h"

typedef aot_qfc_s8_params aot_qfc_s8__mve_params;

AOT_INLINE void aot_qfc_s8__mve(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                                const int32_t *mult, const int8_t *shift, void *scratch,
                                const aot_qfc_s8__mve_params *p, int RQ, int PC, int DIRECT,
                                int NEG, int ROWS) {
    int8_t *const copy = (int8_t *)scratch;
    aot_qmve_weights t;
    int32_t i;
    aot_qmve_prepare(&t, w, bias, mult, shift, p->n, p->k, RQ, PC, NEG);
    aot_qmve_limits(&t, p->y_zero, p->lo, p->hi);
    if (!DIRECT) {
        aot_qmve_fill(copy, 0, t.job.chunks * 16 * ROWS); /* the ends stay zero */
    }
    for (i = 0; i < p->m; i += ROWS) {
        const int pair = ROWS == 2 && p->m - i > 1;
        const int8_t *first = x + (ptrdiff_t)i * p->k, *second = pair ? first + p->k : first;
        int8_t *const row = y + (ptrdiff_t)i * p->n;
        if (!DIRECT) {
            aot_qmve_copy(copy, first, p->k);
            first = copy;
            if (pair != 0) {
                aot_qmve_copy(copy + t.job.chunks * 16, second, p->k);
            }
            second = pair ? copy + t.job.chunks * 16 : copy;
        }
        aot_qmve_rows(&t, row, pair ? row + p->n : row, first, second, RQ, PC, NEG, ROWS);
    }
}

#endif /* AOT_QFC_S8__MVE_H */
