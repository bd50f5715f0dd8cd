/* SPDX-License-Identifier: MIT-0 */
/* Convolution and epilogue by dot products, without a stage: see aot_qconv_epilogue.h and
 * aot_qconv_s8__dot.h. */
#ifndef AOT_QCONV_EPILOGUE_S8__DOT_H
#define AOT_QCONV_EPILOGUE_S8__DOT_H

#include "aot_qconv_s8__dot.h"

typedef aot_qconv_epilogue_params aot_qconv_epilogue_s8__dot_params;

AOT_INLINE void aot_qconv_epilogue_s8__dot(int8_t *y, const int8_t *x, const int8_t *w,
                                           const int32_t *bias, const int32_t *mult,
                                           const int8_t *shift, void *scratch, const void *r,
                                           void *stage, const aot_qconv_epilogue_params *p,
                                           int EPILOGUE, int RQ, int PC, int L, int S, int O,
                                           int FLIP, int WZ, int STRIP) {
    aot_qdot_result z;
    aot_qconv_s8_params whole;
    aot_qbinary_params add;
    const ptrdiff_t skipped = (ptrdiff_t)(p->y0 - p->y_row0) * p->ow * p->oc;
    (void)stage;
    aot_qconv_epilogue_part(&whole, p);
    whole.n = p->n;
    whole.ow = p->ow;
    whole.pl = p->pl;
    whole.y0 = p->y0;
    whole.y1 = p->y1;
    aot_qconv_epilogue_add(&add, p);
    aot_qdot_outcome(&z, y + skipped, mult, shift, p->y_zero, p->lo, p->hi);
    z.r = aot_qconv_epilogue_at(r, skipped, EPILOGUE);
    z.add = &add;
    z.more = p;
    aot_qdot_conv(&z, x, w, bias, scratch, &whole, EPILOGUE, RQ, PC, L, S, O, FLIP, WZ, STRIP);
}

#endif /* AOT_QCONV_EPILOGUE_S8__DOT_H */
