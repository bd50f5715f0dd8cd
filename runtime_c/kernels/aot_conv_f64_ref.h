/* SPDX-License-Identifier: MIT-0 */
/* Convolution of plain tensors of double, one to three spatial axes: aot_conv_ref_body.h. */
#ifndef AOT_CONV_F64_REF_H
#define AOT_CONV_F64_REF_H

#include <stddef.h>
#include <stdint.h>

#include "aot/port.h"

#define AOT_CR_T double
#define AOT_CR_NAME aot_conv_f64_ref
#define AOT_CR_PARAMS aot_conv_f64_ref_params
#include "aot_conv_ref_body.h"
#undef AOT_CR_T
#undef AOT_CR_NAME
#undef AOT_CR_PARAMS

#endif /* AOT_CONV_F64_REF_H */
