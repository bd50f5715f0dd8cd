/* SPDX-License-Identifier: MIT-0 */
/* Matrix product of int8 quantised values in portable C: y[m][n] = x[m][k] * w[n][k], parameters in
 * aot_qconv_s8_params.h.
 *
 * w: panels [k][O] of O results (PLANAR: [O][k]), zero past the last one, bias padded likewise. No
 * scratch; y must not overlap x.
 */
#ifndef AOT_QFC_S8_H
#define AOT_QFC_S8_H

#include "aot_qconv_s8_params.h"
#include "aot_qtile_s8.h"

/* Instance: RQ and PC as in aot_requant.h; P rows times O results at once, P * O <= 16; weights as
 * aot_qtile_s8.h says. */
AOT_INLINE void aot_qfc_s8(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                           const int32_t *mult, const int8_t *shift, void *scratch,
                           const aot_qfc_s8_params *p, int RQ, int PC, int P, int O, int PLANAR) {
    const int8_t *at[AOT_QTILE_MAX];
    aot_qtile_job job;
    int32_t row, c;
    int i;
    (void)scratch;
    for (row = 0; row < p->m; row += P) {
        const int rows = p->m - row < P ? (int)(p->m - row) : P;
        const int8_t *panel = w;
        int8_t *yr = y + (ptrdiff_t)row * p->n;
        for (i = 0; i < P; ++i) {
            at[i] = x + (ptrdiff_t)(row + (i < rows ? i : 0)) * p->k;
        }
        for (c = 0; c < p->n; c += O, panel += (ptrdiff_t)p->k * O, yr += O) {
            const int left = p->n - c < O ? (int)(p->n - c) : O;
            const ptrdiff_t k = PC ? c : 0;
            aot_qtile_s8(&job, at, 0, 1, p->k, panel, bias + c, P, O, PLANAR);
            for (i = 0; i < rows; ++i) {
                aot_qtile_s8_store(yr + (ptrdiff_t)i * p->n, 0, job.sum + i * O, mult + k,
                                   RQ != 0 ? shift + k : NULL, left, p->y_zero, p->lo, p->hi, 1, O,
                                   RQ, PC);
            }
        }
    }
}

#endif /* AOT_QFC_S8_H */
