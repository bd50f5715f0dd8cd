/* SPDX-License-Identifier: MIT-0 */
/* Sums of a convolution and values: see aot_qconv_sum.h and aot_qconv_s8__dot.h. No stage. */
#ifndef AOT_QCONV_SUM_S8__DOT_H
#define AOT_QCONV_SUM_S8__DOT_H

#include "aot_qconv_s8__dot.h"

typedef aot_qconv_sum_params aot_qconv_sum_s8__dot_params;

AOT_INLINE void aot_qconv_sum_s8__dot(int8_t *y, const int8_t *x, const int8_t *w,
                                      const int32_t *bias, const int32_t *mult, const int8_t *shift,
                                      void *scratch, const int8_t *r, void *stage,
                                      const aot_qconv_sum_params *p, int RQ, int PC, int L, int S,
                                      int O, int FLIP, int WZ, int STRIP) {
    aot_qdot_result z;
    aot_qconv_s8_params whole;
    (void)stage;
    aot_qconv_add_whole(&whole, p);
    aot_qdot_outcome(&z, y, mult, shift, p->y_zero, p->lo, p->hi);
    z.r = r;
    z.more = p;
    aot_qdot_conv(&z, x, w, bias, scratch, &whole, AOT_QDOT_SUM, 0, RQ, PC, L, S, O, FLIP, WZ,
                  STRIP);
}

#endif /* AOT_QCONV_SUM_S8__DOT_H */
