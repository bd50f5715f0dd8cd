/* SPDX-License-Identifier: MIT-0 */
/* A function of a convolution's sums: see aot_qconv_act.h and aot_qconv_s8__vec.h. */
#ifndef AOT_QCONV_ACT_S8__VEC_H
#define AOT_QCONV_ACT_S8__VEC_H

#include "aot_qconv_act.h"
#include "aot_qconv_s8__vec.h"

typedef aot_qconv_sum_params aot_qconv_act_s8__vec_params;

/* aot_qconv_act_s8__vec(y, x, w, bias, mult, shift, scratch, pieces, stage, p, constants) */
#define aot_qconv_act_s8__vec(...)                                                                 \
    AOT_QCONV_STAGED(AOT_QCONV_ACT_ROW, aot_qconv_s8__vec, __VA_ARGS__)

#endif /* AOT_QCONV_ACT_S8__VEC_H */
