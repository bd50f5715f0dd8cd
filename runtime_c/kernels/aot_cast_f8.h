/* SPDX-License-Identifier: MIT-0 */
/* Conversion between float8 types and float32, float16 or bfloat16.
 *
 * aot_cast_to_f8(y, x, p, FROM, M, BIAS, KIND, SATURATE): p->n elements of type FROM (0 float32,
 * 1 float16, 2 bfloat16) rounded to nearest even in a type of one sign bit, 7 - M exponent bits of
 * this BIAS and M mantissa bits.
 * aot_cast_from_f8(y, x, p, TO, M, BIAS, KIND): the way back, exact.
 * KIND 0 has infinities and NaNs as IEEE 754; 1 has no infinity and NaN where all bits but the
 * sign are set; 2 has no infinity, no negative zero, and NaN at 0x80. Without infinities (and
 * everywhere with SATURATE) what is too large becomes the largest finite number, or else NaN.
 * y may not be x. No scratch.
 */
#ifndef AOT_CAST_F8_H
#define AOT_CAST_F8_H

#include <stddef.h>
#include <stdint.h>

#include "aot_cast.h"

typedef struct aot_cast_to_f8_params {
    int64_t n;
} aot_cast_to_f8_params;
typedef aot_cast_to_f8_params aot_cast_from_f8_params;

AOT_INLINE uint8_t aot_f8_encode(float x, int M, int BIAS, int KIND, int SATURATE) {
    const uint32_t u = aot_cast_bits(x), mag = u & 0x7FFFFFFFU;
    const uint32_t sign = (u >> 24) & 0x80U;
    const uint32_t nan = KIND == 2 ? 0x80U : sign | 0x7FU;
    const uint32_t top = KIND == 0 ? (0x7FU >> M << M) - 1U : KIND == 1 ? 0x7EU : 0x7FU;
    const int e = (int)(mag >> 23) - 127, low = 1 - BIAS;
    uint32_t code;
    if (mag > 0x7F800000U) {
        return (uint8_t)nan;
    }
    if (mag < 0x00800000U || e < low - M - 1) {
        code = 0; /* below half of the smallest subnormal */
    } else {
        const uint32_t m = (mag & 0x7FFFFFU) | 0x800000U;
        const int under = e < low ? low - e : 0;
        code = aot_cast_round(m, (uint32_t)(23 - M + under));
        code += under != 0 ? 0U : (uint32_t)(e + BIAS - 1) << M;
    }
    if (code > top || mag == 0x7F800000U) {
        code = SATURATE ? top : KIND == 0 ? top + 1U : nan;
    }
    if (KIND == 2 && (code == 0 || code == 0x80U)) {
        return (uint8_t)code;
    }
    return (uint8_t)(sign | code);
}

AOT_INLINE float aot_f8_decode(uint8_t v, int M, int BIAS, int KIND) {
    const uint32_t mag = (uint32_t)v & 0x7FU, sign = ((uint32_t)v & 0x80U) << 24;
    const uint32_t e = mag >> M, m = mag & ((UINT32_C(1) << M) - 1U);
    const uint32_t first = 0x7FU >> M << M; /* the first code of an exponent of ones */
    float x;
    if ((KIND == 0 && mag > first) || (KIND == 1 && mag == 0x7FU) || (KIND == 2 && v == 0x80U)) {
        return aot_cast_float(sign | 0x7FC00000U);
    }
    if (KIND == 0 && mag == first) {
        return aot_cast_float(sign | 0x7F800000U);
    }
    if (e == 0) {
        x = (float)m * aot_cast_float((uint32_t)(1 - BIAS - M + 127) << 23);
        return aot_cast_float(sign | aot_cast_bits(x));
    }
    return aot_cast_float(sign | ((e + 127U - (uint32_t)BIAS) << 23) | (m << (23 - M)));
}

AOT_INLINE void aot_cast_to_f8(uint8_t *y, const void *x, const aot_cast_to_f8_params *p, int FROM,
                               int M, int BIAS, int KIND, int SATURATE) {
    const ptrdiff_t n = (ptrdiff_t)p->n;
    ptrdiff_t i;
    for (i = 0; i < n; ++i) {
        const float v = FROM == 0   ? ((const float *)x)[i]
                        : FROM == 1 ? aot_cast_from_f16(((const uint16_t *)x)[i])
                                    : aot_cast_from_bf16(((const uint16_t *)x)[i]);
        y[i] = aot_f8_encode(v, M, BIAS, KIND, SATURATE);
    }
}

AOT_INLINE void aot_cast_from_f8(void *y, const uint8_t *x, const aot_cast_from_f8_params *p,
                                 int TO, int M, int BIAS, int KIND) {
    const ptrdiff_t n = (ptrdiff_t)p->n;
    ptrdiff_t i;
    for (i = 0; i < n; ++i) {
        const float v = aot_f8_decode(x[i], M, BIAS, KIND);
        if (TO == 0) {
            ((float *)y)[i] = v;
        } else {
            ((uint16_t *)y)[i] = TO == 1 ? aot_cast_to_f16(v) : aot_cast_to_bf16(v);
        }
    }
}

#endif /* AOT_CAST_F8_H */
