/* SPDX-License-Identifier: MIT-0 */
/* Matrix product with constant weights of float16, by Arm's arithmetic of float16:
 * y = act(x * w + bias + r).
 *
 * Operands are those of aot_gemm_f32_narrow.h with KIND F16, and `factors` [ceil(n/V) * V], powers
 * of two that the sums of a column are multiplied by. Rows of x are rounded to float16, `run` of
 * them at a time (a multiple of 8); aot_fp16.h says how products are added. Scratch: min(run, m)
 * rows, filled up to strips, of AOT_STRIP_SIZE(k) numbers of 16 bits per strip. In place: y may
 * be r.
 */
#ifndef AOT_GEMM_F32_NARROW__FP16_H
#define AOT_GEMM_F32_NARROW__FP16_H

#include "aot_fp16.h"

#if !AOT_FP16_UNIT && !defined(AOT_ALLOW_NARROW)
#error "generated for fp16: compile with -march=armv8.2-a+fp16, or -DAOT_ALLOW_NARROW for plain C"
#endif

typedef aot_gemm_f32_narrow_params aot_gemm_f32_narrow__fp16_params;

#define AOT_STRIPS(f) aot_fp16_##f
#define AOT_STRIPS_PRODUCT aot_gemm_f32_narrow__fp16
#include "aot_gemm_f32_strips_body.h"

#endif /* AOT_GEMM_F32_NARROW__FP16_H */
