/* SPDX-License-Identifier: MIT-0 */
/* Convolution and sum in portable C: see aot_qconv_add.h and aot_qconv_s8.h. */
#ifndef AOT_QCONV_ADD_S8_H
#define AOT_QCONV_ADD_S8_H

#include "aot_qconv_add.h"
#include "aot_qconv_s8.h"

typedef aot_qconv_add_params aot_qconv_add_s8_params;

/* aot_qconv_add_s8(y, x, w, bias, mult, shift, scratch, r, stage, p, ADD, constants) */
#define aot_qconv_add_s8(...) AOT_QCONV_ADD(aot_qconv_s8, __VA_ARGS__)

#endif /* AOT_QCONV_ADD_S8_H */
