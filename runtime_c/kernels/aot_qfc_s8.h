/* SPDX-License-Identifier: MIT-0 */
/* Matrix product of int8 codes in portable C: y[m][n] = x[m][k] * w[n][k], parameters in
 * aot_qconv_s8_params.h.
 *
 * w: panels [k][O] of O results, zero past the last one, bias padded likewise. No scratch; y must
 * not overlap x.
 */
#ifndef AOT_QFC_S8_H
#define AOT_QFC_S8_H

#include "aot_qconv_s8_params.h"
#include "aot_qtile_s8.h"

/* Instance: RQ and PC as in aot_requant.h; P rows times O results at once, P * O <= 16. */
AOT_INLINE void aot_qfc_s8(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                           const int32_t *mult, const int8_t *shift, void *scratch,
                           const aot_qfc_s8_params *p, int RQ, int PC, int P, int O) {
    const int8_t *at[AOT_QTILE_MAX];
    int8_t *out[AOT_QTILE_MAX];
    int32_t sum[AOT_QTILE_MAX];
    int32_t row, c;
    int i;
    (void)scratch;
    for (row = 0; row < p->m; row += P) {
        const int rows = p->m - row < P ? (int)(p->m - row) : P;
        const int8_t *panel = w;
        for (i = 0; i < P; ++i) {
            const ptrdiff_t r = row + (i < rows ? i : 0);
            at[i] = x + r * p->k;
            out[i] = y + r * p->n;
        }
        for (c = 0; c < p->n; c += O) {
            const int left = p->n - c < O ? (int)(p->n - c) : O;
            const ptrdiff_t k = PC ? c : 0;
            aot_qtile_s8(sum, at, 0, 1, p->k, panel, bias + c, P, O);
            aot_qtile_s8_store(out, sum, mult + k, RQ != 0 ? shift + k : NULL, rows, left,
                               p->y_zero, p->lo, p->hi, O, RQ, PC);
            panel += (ptrdiff_t)p->k * O;
            for (i = 0; i < P; ++i) {
                out[i] += O;
            }
        }
    }
}

#endif /* AOT_QFC_S8_H */
