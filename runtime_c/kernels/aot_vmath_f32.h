/* SPDX-License-Identifier: MIT-0 */
/* Transcendental functions of float32: aot_vexp, aot_vexpm1, aot_vlog, aot_vtanh, aot_vsigmoid,
 * aot_verf, aot_vsoftplus, aot_vgelu, aot_vgelu_tanh, aot_vsilu, aot_vmish, aot_vrint, aot_vfloor,
 * aot_vceil on one vector (aot_vf), and the same with prefix aot_s on one float.
 *
 * No libm. exp, expm1, log, tanh, sigmoid, erf err by at most 2 ULP over the whole range, results
 * below the normal range included; NaN, infinities, zeros of both signs and overflow are as in C99.
 * tests/ops/test_vmath.py measures it.
 */
#ifndef AOT_VMATH_F32_H
#define AOT_VMATH_F32_H

#include <stdint.h>

#include "aot_simd.h"

#if AOT_VLEN > 1
typedef uint32_t aot_vu __attribute__((vector_size(4 * AOT_VLEN)));
#else
typedef uint32_t aot_vu;
#endif

#define AOT_VM_F aot_vf
#define AOT_VM_I aot_vi
#define AOT_VM_U aot_vu
#define AOT_VM(name) aot_v##name
#include "aot_vmath_f32_body.h"
#undef AOT_VM
#undef AOT_VM_F
#undef AOT_VM_I
#undef AOT_VM_U

/* The words of aot_simd.h that the body uses, on scalars. */
AOT_INLINE float aot_sset1(float s) {
    return s;
}
AOT_INLINE int32_t aot_siset1(int32_t s) {
    return s;
}
AOT_INLINE int32_t aot_slt(float a, float b) {
    return a < b ? -1 : 0;
}
AOT_INLINE int32_t aot_seq(float a, float b) {
    return a >= b && a <= b ? -1 : 0;
}
AOT_INLINE float aot_sselect(int32_t mask, float a, float b) {
    return mask != 0 ? a : b;
}
AOT_INLINE float aot_smin(float a, float b) {
    return a < b ? a : b;
}
AOT_INLINE float aot_smax(float a, float b) {
    return a > b ? a : b;
}
AOT_INLINE int32_t aot_sbits(float v) {
    int32_t r;
    (void)memcpy(&r, &v, sizeof r);
    return r;
}
AOT_INLINE float aot_sfrombits(int32_t v) {
    float r;
    (void)memcpy(&r, &v, sizeof r);
    return r;
}
AOT_INLINE float aot_sabs(float v) {
    return aot_sfrombits(aot_sbits(v) & INT32_C(0x7FFFFFFF));
}
AOT_INLINE float aot_scopysign(float mag, float sgn) {
    return aot_sbits(sgn) < 0 ? -aot_sabs(mag) : aot_sabs(mag);
}

#define AOT_VM_F float
#define AOT_VM_I int32_t
#define AOT_VM_U uint32_t
#define AOT_VM(name) aot_s##name
#include "aot_vmath_f32_body.h"
#undef AOT_VM
#undef AOT_VM_F
#undef AOT_VM_I
#undef AOT_VM_U

#endif /* AOT_VMATH_F32_H */
