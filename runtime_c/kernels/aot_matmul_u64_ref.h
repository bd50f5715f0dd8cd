/* SPDX-License-Identifier: MIT-0 */
/* General matrix product of uint64_t, any strides: aot_matmul_ref_body.h. */
#ifndef AOT_MATMUL_U64_REF_H
#define AOT_MATMUL_U64_REF_H

#include <stddef.h>
#include <stdint.h>

#include "aot/port.h"

#define AOT_MR_CAT2(a, b) a##b
#define AOT_MR_CAT(a, b) AOT_MR_CAT2(a, b)
#define AOT_MR_T uint64_t
#define AOT_MR_ACC uint64_t
#define AOT_MR_WHOLE(v) (int64_t)(v)
#define AOT_MR_NAME aot_matmul_u64_ref
#define AOT_MR_PARAMS aot_matmul_u64_ref_params
#include "aot_matmul_ref_body.h"
#undef AOT_MR_CAT
#undef AOT_MR_CAT2
#undef AOT_MR_T
#undef AOT_MR_ACC
#undef AOT_MR_WHOLE
#undef AOT_MR_NAME
#undef AOT_MR_PARAMS

#endif /* AOT_MATMUL_U64_REF_H */
