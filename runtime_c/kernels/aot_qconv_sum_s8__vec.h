/* SPDX-License-Identifier: MIT-0 */
/* Sums of a convolution and quantised values: see aot_qconv_sum.h and aot_qconv_s8__vec.h. */
#ifndef AOT_QCONV_SUM_S8__VEC_H
#define AOT_QCONV_SUM_S8__VEC_H

#include "aot_qconv_s8__vec.h"
#include "aot_qconv_sum.h"

typedef aot_qconv_sum_params aot_qconv_sum_s8__vec_params;

/* aot_qconv_sum_s8__vec(y, x, w, bias, mult, shift, scratch, r, stage, p, constants) */
#define aot_qconv_sum_s8__vec(...) AOT_QCONV_SUM(aot_qconv_s8__vec, __VA_ARGS__)

#endif /* AOT_QCONV_SUM_S8__VEC_H */
