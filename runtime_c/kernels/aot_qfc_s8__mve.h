/* SPDX-License-Identifier: MIT-0 */
/* Fully connected layer on int8 codes for Arm's vector extension: y[m][n] = x[m][k] * w[n][k].
 *
 * w as in aot_qmve.h; bias[n] with -x_zero * (sum of the weights); mult and shift as in
 * aot_requant.h (one element in all with PC 0). Rows of x are read where they are with DIRECT 1 (k
 * a multiple of 16), else copied to scratch, 2 * k bytes, k rounded up to 16 (half of it if m is
 * 1). NEG 0 if no code below y_zero is ever stored. y must not overlap x.
 */
#ifndef AOT_QFC_S8__MVE_H
#define AOT_QFC_S8__MVE_H

#include "aot_qconv_s8_params.h"
#include "aot_qmve.h"

typedef aot_qfc_s8_params aot_qfc_s8__mve_params;

AOT_INLINE void aot_qfc_s8__mve(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                                const int32_t *mult, const int8_t *shift, void *scratch,
                                const aot_qfc_s8__mve_params *p, int RQ, int PC, int DIRECT,
                                int NEG) {
    int8_t *const copy = (int8_t *)scratch;
    aot_qmve_weights t;
    int32_t i;
    aot_qmve_prepare(&t, w, bias, mult, shift, p->n, p->k, RQ, PC);
    aot_qmve_limits(&t, p->y_zero, p->lo, p->hi);
    if (!DIRECT) {
        aot_qmve_fill(copy, 0, t.job.chunks * (p->m > 1 ? 32 : 16)); /* the ends stay zero */
    }
    for (i = 0; i < p->m; i += 2) {
        const int rows = p->m - i > 1 ? 2 : 1;
        const int32_t size = t.job.chunks * 16;
        const int8_t *first = x + (ptrdiff_t)i * p->k, *second = rows == 2 ? first + p->k : first;
        if (!DIRECT) {
            aot_qmve_copy(copy, first, p->k);
            if (rows == 2) {
                aot_qmve_copy(copy + size, second, p->k);
            }
            first = copy;
            second = copy + size;
        }
        aot_qmve_rows(&t, y + (ptrdiff_t)i * p->n, y + (ptrdiff_t)(i + 1) * p->n, first, second,
                      rows, RQ, PC, NEG);
    }
}

#endif /* AOT_QFC_S8__MVE_H */
