/* SPDX-License-Identifier: MIT-0 */
/* Matrix product with constant weights of bfloat16, by Arm's matrix products of these:
 * y = act(x * w + bias + r).
 *
 * Operands are those of aot_gemm_f32_narrow.h with KIND BF16. Rows of x are rounded to bfloat16,
 * `run` of them at a time (a multiple of 8); aot_bfmmla.h says how products are added. Scratch:
 * min(run, m) rows, filled up to strips, of AOT_STRIP_SIZE(k) numbers of 16 bits per strip. In
 * place: y may be r.
 */
#ifndef AOT_GEMM_F32_NARROW__BFMMLA_H
#define AOT_GEMM_F32_NARROW__BFMMLA_H

#include "aot_bfmmla.h"

#if !AOT_BFMMLA_UNIT && !defined(AOT_ALLOW_NARROW)
#error "generated for bf16: compile with -march=armv8.2-a+bf16, or -DAOT_ALLOW_NARROW for plain C"
#endif

typedef aot_gemm_f32_narrow_params aot_gemm_f32_narrow__bfmmla_params;

#define AOT_STRIPS(f) aot_bfmmla_##f
#define AOT_STRIPS_PRODUCT aot_gemm_f32_narrow__bfmmla
#include "aot_gemm_f32_strips_body.h"

#endif /* AOT_GEMM_F32_NARROW__BFMMLA_H */
