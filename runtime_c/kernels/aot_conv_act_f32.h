/* SPDX-License-Identifier: MIT-0 */
/* Activations fused into convolutions and matrix products.
 *
 * NONE and CLAMP are applied in registers by the tile. The others run over a tile right after it is
 * stored (it is still in L1); a kernel whose instance constant ACT is 0 carries no code for them.
 */
#ifndef AOT_CONV_ACT_F32_H
#define AOT_CONV_ACT_F32_H

#include <stddef.h>

#include "aot_simd.h"
#include "aot_vmath_f32.h"

enum {
    AOT_ACT_NONE = 0,
    AOT_ACT_CLAMP = 1,       /* alpha..beta */
    AOT_ACT_LEAKY = 2,       /* x < 0 ? alpha * x : x */
    AOT_ACT_HARDSWISH = 3,   /* x * min(max(x / 6 + 0.5, 0), 1) */
    AOT_ACT_HARDSIGMOID = 4, /* min(max(alpha * x + beta, 0), 1) */
    AOT_ACT_SIGMOID = 5,
    AOT_ACT_SILU = 6, /* x * sigmoid(alpha * x) */
    AOT_ACT_TANH = 7,
    AOT_ACT_GELU = 8, /* with erf */
    AOT_ACT_ELU = 9,  /* x < 0 ? alpha * (exp(x) - 1) : x */
    AOT_ACT_GELU_TANH = 10
};

/* One vector through activation `act`. */
AOT_INLINE aot_vf aot_conv_act_f32(aot_vf x, int32_t act, float alpha, float beta) {
    const aot_vf zero = aot_vzero();
    const aot_vf one = aot_vset1(1.0F);
    switch (act) {
    case AOT_ACT_CLAMP:
        return aot_vclamp(x, aot_vset1(alpha), aot_vset1(beta));
    case AOT_ACT_LEAKY:
        return aot_vselect(aot_vlt(x, zero), x * alpha, x);
    case AOT_ACT_HARDSWISH:
        return x * aot_vclamp(x * (1.0F / 6.0F) + 0.5F, zero, one);
    case AOT_ACT_HARDSIGMOID:
        return aot_vclamp(x * alpha + beta, zero, one);
    case AOT_ACT_SIGMOID:
        return aot_vsigmoid(x);
    case AOT_ACT_SILU:
        return aot_vsilu(x, aot_vset1(alpha));
    case AOT_ACT_TANH:
        return aot_vtanh(x);
    case AOT_ACT_GELU:
        return aot_vgelu(x);
    case AOT_ACT_ELU:
        return aot_vselect(aot_vlt(x, zero), aot_vexpm1(x) * alpha, x);
    case AOT_ACT_GELU_TANH:
        return aot_vgelu_tanh(x);
    default:
        return x;
    }
}

/* `n` pixels `pixel` floats apart by `o` vectors `block` floats apart, in place. */
AOT_UNUSED AOT_NOINLINE static void aot_conv_act_f32_tile(float *y, int32_t n, ptrdiff_t pixel,
                                                          int32_t o, ptrdiff_t block, int32_t act,
                                                          float alpha, float beta) {
    int32_t i, b;
    for (b = 0; b < o; ++b) {
        for (i = 0; i < n; ++i) {
            float *v = y + i * pixel + b * block;
            aot_vstore(v, aot_conv_act_f32(aot_vload(v), act, alpha, beta));
        }
    }
}

#endif /* AOT_CONV_ACT_F32_H */
