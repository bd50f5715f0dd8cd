/* SPDX-License-Identifier: MIT-0 */
/* Matrix product of int8 quantised values on vectors: y[m][n] = x[m][k] * w[n][k], parameters in
 * aot_qconv_s8_params.h, weights and bias as aot_qvec.h says.
 *
 * P rows of x are copied to scratch, widened: 2 * P * (k rounded up to an even number) bytes. y
 * must not overlap x.
 */
#ifndef AOT_QFC_S8__VEC_H
#define AOT_QFC_S8__VEC_H

#include "aot_qconv_s8_params.h"
#include "aot_qvec.h"

typedef aot_qfc_s8_params aot_qfc_s8__vec_params;

/* Instance: RQ and PC as in aot_requant.h; P rows times O vectors at once; PAIR as aot_qvec.h. */
AOT_INLINE void aot_qfc_s8__vec(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                                const int32_t *mult, const int8_t *shift, void *scratch,
                                const aot_qfc_s8_params *p, int RQ, int PC, int P, int O,
                                int PAIR) {
    const int32_t k = (p->k + 1) & ~1;
    int16_t *const columns = (int16_t *)scratch;
    aot_qvec_out o;
    int32_t row, c;
    int i;
    o.mult = mult;
    o.shift = shift;
    o.zero = p->y_zero;
    o.lo = p->lo;
    o.hi = p->hi;
    for (row = 0; row < p->m; row += P) {
        const int rows = p->m - row < P ? (int)(p->m - row) : P;
        int8_t *const yr = y + (ptrdiff_t)row * p->n;
        for (i = 0; i < rows; ++i) {
            int16_t *const d = columns + (ptrdiff_t)i * k;
            const int8_t *const s = x + (ptrdiff_t)(row + i) * p->k;
            d[k - 1] = 0;
            for (c = 0; c < p->k; ++c) {
                d[c] = s[c];
            }
        }
        if (rows == P) {
            aot_qvec_pixels(yr, columns, k, k, w, bias, p->n, P, &o, RQ, PC, P, O, PAIR);
        } else {
            for (i = 0; i < rows; ++i) {
                aot_qvec_pixels(yr + (ptrdiff_t)i * p->n, columns + (ptrdiff_t)i * k, k, k, w, bias,
                                p->n, 1, &o, RQ, PC, 1, O, PAIR);
            }
        }
    }
}

#endif /* AOT_QFC_S8__VEC_H */
