/* SPDX-License-Identifier: MIT-0 */
/* Elementwise functions of one float32 tensor: aot_<name>_f32(y, x, p).
 *
 * y, x: p->n floats, any layout. p->a, p->b, p->c: the function's constants, named with each.
 * y may be x. No scratch. NaN in, NaN out unless said otherwise.
 */
#ifndef AOT_UNARY_F32_H
#define AOT_UNARY_F32_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "aot_vmath_f32.h"

typedef struct aot_unary_f32_params {
    int64_t n; /* elements */
    float a, b, c;
} aot_unary_f32_params;

/* The whole vectors, then the rest by a padded vector; EXPR computes from x (and a, b, c). */
#define AOT_UNARY_F32(NAME, EXPR)                                                                  \
    typedef aot_unary_f32_params aot_##NAME##_f32_params;                                          \
    AOT_INLINE aot_vf aot_##NAME##_lanes(aot_vf x, aot_vf a, aot_vf b, aot_vf c) {                 \
        (void)a;                                                                                   \
        (void)b;                                                                                   \
        (void)c;                                                                                   \
        return EXPR;                                                                               \
    }                                                                                              \
    AOT_INLINE void aot_##NAME##_f32(float *y, const float *x, const aot_unary_f32_params *p) {    \
        const aot_vf a = aot_vset1(p->a), b = aot_vset1(p->b), c = aot_vset1(p->c);                \
        const ptrdiff_t n = (ptrdiff_t)p->n;                                                       \
        ptrdiff_t i;                                                                               \
        for (i = 0; i + AOT_VLEN <= n; i += AOT_VLEN) {                                            \
            aot_vstore(y + i, aot_##NAME##_lanes(aot_vload(x + i), a, b, c));                      \
        }                                                                                          \
        if (i < n) {                                                                               \
            const aot_vf last = aot_vload_n(x + i, (int)(n - i), 1.0F);                            \
            aot_vstore_n(y + i, aot_##NAME##_lanes(last, a, b, c), (int)(n - i));                  \
        }                                                                                          \
    }

AOT_INLINE aot_vf aot_vsqrt_lanes(aot_vf x) {
    float lane[AOT_VLEN];
    int i;
    aot_vstore(lane, x);
    for (i = 0; i < AOT_VLEN; ++i) {
        lane[i] = sqrtf(lane[i]);
    }
    return aot_vload(lane);
}

/* -1, 0 or 1; zero and NaN are returned as they are. */
AOT_INLINE aot_vf aot_vsign_lanes(aot_vf x) {
    const aot_vf zero = aot_vzero(), one = aot_vset1(1.0F);
    const aot_vf y = aot_vselect(aot_vlt(zero, x), one, x);
    return aot_vselect(aot_vlt(x, zero), -one, y);
}

/* x to the power 1/2, which differs from the square root at -0 and -inf. */
AOT_INLINE aot_vf aot_vpow_half_lanes(aot_vf x) {
    const aot_vf inf = aot_vset1((float)INFINITY);
    return aot_vselect(aot_veq(x, -inf), inf, aot_vsqrt_lanes(x + 0.0F));
}

AOT_UNARY_F32(abs, aot_vabs(x))
AOT_UNARY_F32(neg, -x)
AOT_UNARY_F32(reciprocal, 1.0F / x)
AOT_UNARY_F32(square, x *x)
AOT_UNARY_F32(cube, x *x *x)
AOT_UNARY_F32(sqrt, aot_vsqrt_lanes(x))
AOT_UNARY_F32(pow_half, aot_vpow_half_lanes(x))
AOT_UNARY_F32(rsqrt, 1.0F / aot_vsqrt_lanes(x))
AOT_UNARY_F32(exp, aot_vexp(x))
AOT_UNARY_F32(log, aot_vlog(x))
AOT_UNARY_F32(sigmoid, aot_vsigmoid(x))
AOT_UNARY_F32(tanh, aot_vtanh(x))
AOT_UNARY_F32(erf, aot_verf(x))
AOT_UNARY_F32(floor, aot_vfloor(x))
AOT_UNARY_F32(ceil, aot_vceil(x))
AOT_UNARY_F32(round, aot_vrint(x))
AOT_UNARY_F32(sign, aot_vsign_lanes(x))
AOT_UNARY_F32(softplus, aot_vsoftplus(x))
AOT_UNARY_F32(softsign, x / (1.0F + aot_vabs(x)))
AOT_UNARY_F32(mish, aot_vmish(x))
AOT_UNARY_F32(gelu, aot_vgelu(x))
AOT_UNARY_F32(gelu_tanh, aot_vgelu_tanh(x))
AOT_UNARY_F32(relu, aot_vmax(aot_vzero(), x))
/* a: slope below zero */
AOT_UNARY_F32(leaky_relu, aot_vselect(aot_vlt(x, aot_vzero()), x *a, x))
/* a: bottom, b: top */
AOT_UNARY_F32(clip, aot_vclamp(x, a, b))
/* a: factor below zero, b: factor above, c: factor inside the exponential */
AOT_UNARY_F32(elu, aot_vselect(aot_vlt(x, aot_vzero()), a *aot_vexpm1(x *c), x *b))
/* a: slope, b: offset */
AOT_UNARY_F32(hard_sigmoid, aot_vclamp(x *a + b, aot_vzero(), aot_vset1(1.0F)))
/* a: slope, b: offset of the gate */
AOT_UNARY_F32(hard_swish, x *aot_vclamp(x *a + b, aot_vzero(), aot_vset1(1.0F)))
/* a: factor inside the sigmoid */
AOT_UNARY_F32(swish, aot_vsilu(x, a))
/* a: threshold; NaN gives 0 */
AOT_UNARY_F32(thresholded_relu, aot_vselect(aot_vlt(a, x), x, aot_vzero()))
/* a: threshold, b: what is taken off above it; NaN gives 0 */
AOT_UNARY_F32(shrink,
              aot_vselect(aot_vlt(a, x), x - b, aot_vselect(aot_vlt(x, -a), x + b, aot_vzero())))
/* x * a + b */
AOT_UNARY_F32(affine, x *a + b)

#endif /* AOT_UNARY_F32_H */
