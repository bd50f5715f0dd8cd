/* SPDX-License-Identifier: MIT-0 */
/* Matrix product of int8 values by dot products: y[m][n] = x[m][k] * w[n][k], parameters in
 * aot_qconv_s8_params.h; a 1x1 convolution of m pixels (aot_qconv_s8__dot.h).
 */
#ifndef AOT_QFC_S8__DOT_H
#define AOT_QFC_S8__DOT_H

#include "aot_qconv_s8__dot.h"

typedef aot_qfc_s8_params aot_qfc_s8__dot_params;

/* Instance: that of aot_qconv_s8__dot. */
AOT_INLINE void aot_qfc_s8__dot(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                                const int32_t *mult, const int8_t *shift, void *scratch,
                                const aot_qfc_s8_params *p, int RQ, int PC, int L, int S, int O,
                                int FLIP, int WZ, int STRIP) {
    aot_qconv_s8_params q;
    (void)memset(&q, 0, sizeof q);
    q.n = q.kh = q.kw = q.sh = q.sw = q.dh = q.dw = q.iw = q.ow = 1;
    q.ih = q.oh = q.y1 = p->m;
    q.ic = p->k;
    q.oc = p->n;
    q.x_zero = p->x_zero;
    q.y_zero = p->y_zero;
    q.lo = p->lo;
    q.hi = p->hi;
    aot_qconv_s8__dot(y, x, w, bias, mult, shift, scratch, &q, RQ, PC, L, S, O, FLIP, WZ, STRIP);
}

#endif /* AOT_QFC_S8__DOT_H */
