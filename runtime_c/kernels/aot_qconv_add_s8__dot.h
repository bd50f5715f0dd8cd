/* SPDX-License-Identifier: MIT-0 */
/* Convolution and sum by dot products: see aot_qconv_add.h and aot_qconv_s8__dot.h. No stage. */
#ifndef AOT_QCONV_ADD_S8__DOT_H
#define AOT_QCONV_ADD_S8__DOT_H

#include "aot_qconv_s8__dot.h"

typedef aot_qconv_add_params aot_qconv_add_s8__dot_params;

/* Instance: ADD is KIND of aot_qadd_s8, the others are those of the convolution. */
AOT_INLINE void aot_qconv_add_s8__dot(int8_t *y, const int8_t *x, const int8_t *w,
                                      const int32_t *bias, const int32_t *mult, const int8_t *shift,
                                      void *scratch, const int8_t *r, void *stage,
                                      const aot_qconv_add_params *p, int ADD, int RQ, int PC, int L,
                                      int S, int O, int FLIP, int WZ, int STRIP) {
    aot_qdot_result z;
    aot_qconv_s8_params whole;
    aot_qbinary_params sum;
    (void)stage;
    aot_qconv_add_whole(&whole, p);
    aot_qconv_add_sum(&sum, p);
    aot_qdot_outcome(&z, y, mult, shift, p->y_zero, p->lo, p->hi);
    z.r = r;
    z.sum = &sum;
    aot_qdot_conv(&z, x, w, bias, scratch, &whole, AOT_QDOT_ADD, ADD, RQ, PC, L, S, O, FLIP, WZ,
                  STRIP);
}

#endif /* AOT_QCONV_ADD_S8__DOT_H */
