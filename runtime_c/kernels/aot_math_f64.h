/* SPDX-License-Identifier: MIT-0 */
/* Elementwise functions of float64: the names, constants and rules of aot_unary_f32.h, computed
 * with the C library's functions, and the arithmetic of two tensors with broadcasting
 * (aot_broadcast.h).
 *
 * y, x: p->n doubles, any layout; y may be x. No scratch.
 */
#ifndef AOT_MATH_F64_H
#define AOT_MATH_F64_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "aot_scalar.h"

typedef struct aot_unary_f64_params {
    int64_t n; /* elements */
    double a, b, c;
} aot_unary_f64_params;

#define AOT_UNARY_F64(NAME, EXPR)                                                                  \
    typedef aot_unary_f64_params aot_##NAME##_f64_params;                                          \
    AOT_INLINE void aot_##NAME##_f64(double *y, const double *in, const aot_unary_f64_params *p) { \
        const double a = p->a, b = p->b, c = p->c;                                                 \
        const ptrdiff_t n = (ptrdiff_t)p->n;                                                       \
        ptrdiff_t i;                                                                               \
        (void)a;                                                                                   \
        (void)b;                                                                                   \
        (void)c;                                                                                   \
        for (i = 0; i < n; ++i) {                                                                  \
            const double x = in[i];                                                                \
            y[i] = EXPR;                                                                           \
        }                                                                                          \
    }

AOT_INLINE double aot_f64_sigmoid(double x) {
    const double z = exp(-fabs(x));
    return (x < 0.0 ? z : 1.0) / (1.0 + z);
}
AOT_INLINE double aot_f64_softplus(double x) {
    return (x < 0.0 ? 0.0 : x) + log1p(exp(-fabs(x)));
}
AOT_INLINE double aot_f64_clamp(double x, double lo, double hi) {
    const double y = x < lo ? lo : x;
    return y > hi ? hi : y;
}

AOT_UNARY_F64(abs, fabs(x))
AOT_UNARY_F64(neg, -x)
AOT_UNARY_F64(reciprocal, 1.0 / x)
AOT_UNARY_F64(square, x *x)
AOT_UNARY_F64(cube, x *x *x)
AOT_UNARY_F64(sqrt, sqrt(x))
AOT_UNARY_F64(pow_half, x <= -(double)INFINITY ? -x : sqrt(x + 0.0))
AOT_UNARY_F64(rsqrt, 1.0 / sqrt(x))
AOT_UNARY_F64(exp, exp(x))
AOT_UNARY_F64(log, log(x))
AOT_UNARY_F64(sigmoid, aot_f64_sigmoid(x))
AOT_UNARY_F64(tanh, tanh(x))
AOT_UNARY_F64(erf, erf(x))
AOT_UNARY_F64(floor, floor(x))
AOT_UNARY_F64(ceil, ceil(x))
AOT_UNARY_F64(round, rint(x))
AOT_UNARY_F64(sign, x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : x)
AOT_UNARY_F64(softplus, aot_f64_softplus(x))
AOT_UNARY_F64(softsign, x / (1.0 + fabs(x)))
AOT_UNARY_F64(mish, x *tanh(aot_f64_softplus(x)))
AOT_UNARY_F64(gelu, 0.5 * x * (1.0 + erf(x * 0.70710678118654752)))
AOT_UNARY_F64(gelu_tanh, 0.5 * x * (1.0 + tanh(x * 0.79788456080286536 * (1.0 + 0.044715 * x * x))))
AOT_UNARY_F64(relu, x < 0.0 ? 0.0 : x)
AOT_UNARY_F64(leaky_relu, x < 0.0 ? x * a : x)
AOT_UNARY_F64(clip, aot_f64_clamp(x, a, b))
AOT_UNARY_F64(elu, x < 0.0 ? a * expm1(x * c) : x * b)
AOT_UNARY_F64(hard_sigmoid, aot_f64_clamp(x *a + b, 0.0, 1.0))
AOT_UNARY_F64(hard_swish, x *aot_f64_clamp(x *a + b, 0.0, 1.0))
AOT_UNARY_F64(swish, x *aot_f64_sigmoid(x *a))
AOT_UNARY_F64(thresholded_relu, x > a ? x : 0.0)
AOT_UNARY_F64(shrink, x > a ? x - b : x < -a ? x + b : 0.0)
AOT_UNARY_F64(affine, x *a + b)
AOT_UNARY_F64(sin, sin(x))
AOT_UNARY_F64(cos, cos(x))
AOT_UNARY_F64(tan, tan(x))
AOT_UNARY_F64(asin, asin(x))
AOT_UNARY_F64(acos, acos(x))
AOT_UNARY_F64(atan, atan(x))
AOT_UNARY_F64(sinh, sinh(x))
AOT_UNARY_F64(cosh, cosh(x))
AOT_UNARY_F64(asinh, asinh(x))
AOT_UNARY_F64(acosh, acosh(x))
AOT_UNARY_F64(atanh, atanh(x))

AOT_INLINE double aot_f64_mod(double x, double z) {
    const double r = fmod(x, z);
    return (r < 0.0 && z > 0.0) || (r > 0.0 && z < 0.0) ? r + z : r;
}

AOT_SCALAR2(add, f64, double, double, x + z)
AOT_SCALAR2(sub, f64, double, double, x - z)
AOT_SCALAR2(mul, f64, double, double, x *z)
AOT_SCALAR2(div, f64, double, double, x / z)
AOT_SCALAR2(min, f64, double, double, x < z || isnan(x) ? x : z)
AOT_SCALAR2(max, f64, double, double, x > z || isnan(x) ? x : z)
AOT_SCALAR2(prelu, f64, double, double, x < 0.0 ? x * z : x)
AOT_SCALAR2(pow, f64, double, double, pow(x, z))
AOT_SCALAR2(mod, f64, double, double, aot_f64_mod(x, z))
AOT_SCALAR2(fmod, f64, double, double, fmod(x, z))

#endif /* AOT_MATH_F64_H */
