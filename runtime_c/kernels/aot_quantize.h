/* SPDX-License-Identifier: MIT-0 */
/* Quantisation, reference kernels: aot_quantize_<type>(y, x, scale, zero, p, ...) stores
 * round(x / scale) + zero, saturated; aot_dequantize_<type> gives (x - zero) * scale.
 *
 * x and y are [outer][axis][inner]; element (o, a, i) uses the scale and the zero point at
 * o * so + a / block * sa + i * si. zero may be NULL. Rounding is to nearest even, NaN counts
 * as 0. Types s8 u8 s16 u16; s4 u4 s2 u2 and f4 (float4e2m1) with a byte per value; dequantising
 * also s32; f8 stands for every float8 (M, BIAS, KIND and SATURATE as in aot_cast_f8.h). No
 * scratch, y is not x.
 *
 * The kernels aot_*_s8_blocked have one scale for all, floats [outer][axis][inner][AOT_VLEN]
 * (channels in blocks) and integers [outer][inner][axis][AOT_VLEN] (channels last).
 */
#ifndef AOT_QUANTIZE_H
#define AOT_QUANTIZE_H

#include <stddef.h>
#include <stdint.h>

#include "aot_cast_f8.h"
#include "aot_requant.h"
#include "aot_packed.h"
#if AOT_VLEN > 1
#include "aot_qvec.h"
#endif

typedef struct aot_quantize_params {
    int64_t outer, axis, inner, block, so, sa, si;
} aot_quantize_params;

/* v to the nearest integer, halves to even; |v| is limited to AOT_REQUANT_LIMIT, NaN gives 0. */
AOT_INLINE int32_t aot_quantize_round(float v) {
    return v <= 0.0F || v > 0.0F ? aot_requant_rint(v) : 0;
}

/* Runs EXPR for every element: j its index, k that of its scale. */
#define AOT_QUANTIZE_LOOP(EXPR)                                                                    \
    int64_t o, a, i, j = 0;                                                                        \
    for (o = 0; o < p->outer; ++o) {                                                               \
        for (a = 0; a < p->axis; ++a) {                                                            \
            for (i = 0; i < p->inner; ++i, ++j) {                                                  \
                const int64_t k = o * p->so + a / p->block * p->sa + i * p->si;                    \
                EXPR;                                                                              \
            }                                                                                      \
        }                                                                                          \
    }

/* Whether all elements have one scale and one zero point; how many there are. */
AOT_INLINE int aot_quantize_alike(const aot_quantize_params *p) {
    return p->so == 0 && p->sa == 0 && p->si == 0;
}
AOT_INLINE int64_t aot_quantize_count(const aot_quantize_params *p) {
    return p->outer * p->axis * p->inner;
}

/* aot_quantize_run_<type>: n elements with one scale and one zero point; _VECTORS does whole
 * vectors of them, and _NONE does nothing. Where n is known, so is where the vectors end: else gcc
 * warns of a loop without end behind them. */
#define AOT_QUANTIZE_NONE(NARROW, LO, HI)
#define AOT_DEQUANTIZE_NONE(WIDEN)
#if AOT_VLEN > 1
#define AOT_QUANTIZE_VECTORS(NARROW, LO, HI)                                                       \
    const aot_qvec_divisor d = aot_qvec_divide_by(scale);                                          \
    for (; i < n - n % AOT_VLEN; i += AOT_VLEN) {                                                  \
        NARROW(y + i, aot_qvec_quantise(aot_vload(x + i), &d, zero, LO, HI));                      \
    }                                                                                              \
    i = n - n % AOT_VLEN;
#define AOT_DEQUANTIZE_VECTORS(WIDEN)                                                              \
    for (; i < n - n % AOT_VLEN; i += AOT_VLEN) {                                                  \
        aot_vstore(y + i, aot_vi2f(WIDEN(x + i) - zero) * scale);                                  \
    }                                                                                              \
    i = n - n % AOT_VLEN;
#else
#define AOT_QUANTIZE_VECTORS AOT_QUANTIZE_NONE
#define AOT_DEQUANTIZE_VECTORS AOT_DEQUANTIZE_NONE
#endif

/* The kernel NAME on both layouts of channels: CALL takes a vector of them, j and k are its place
 * among floats and integers. */
#define AOT_QUANTIZE_BLOCKED(NAME, TO, FROM, CALL)                                                 \
    typedef aot_quantize_params NAME##_params;                                                     \
    AOT_INLINE void NAME(TO *y, const FROM *x, const float *scale, const int8_t *zero,             \
                         const aot_quantize_params *p) {                                           \
        const int32_t shift = zero ? (int32_t)zero[0] : 0;                                         \
        int64_t o, a, i, k = 0;                                                                    \
        for (o = 0; o < p->outer; ++o) {                                                           \
            for (i = 0; i < p->inner; ++i) {                                                       \
                for (a = 0; a < p->axis; ++a, k += AOT_VLEN) {                                     \
                    const int64_t j = ((o * p->axis + a) * p->inner + i) * AOT_VLEN;               \
                    CALL;                                                                          \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

#define AOT_QUANTIZE(SHORT, T, LO, HI, VECTORS, NARROW)                                            \
    typedef aot_quantize_params aot_quantize_##SHORT##_params;                                     \
    AOT_INLINE T aot_quantize_one_##SHORT(float v, int32_t zero) {                                 \
        const int32_t q = aot_quantize_round(v) + zero;                                            \
        return (T)(q < LO ? LO : q > HI ? HI : q);                                                 \
    }                                                                                              \
    AOT_INLINE void aot_quantize_run_##SHORT(T *y, const float *x, float scale, int32_t zero,      \
                                             int64_t n) {                                          \
        int64_t i = 0;                                                                             \
        VECTORS(NARROW, LO, HI)                                                                    \
        for (; i < n; ++i) {                                                                       \
            y[i] = aot_quantize_one_##SHORT(x[i] / scale, zero);                                   \
        }                                                                                          \
    }                                                                                              \
    AOT_INLINE void aot_quantize_##SHORT(T *y, const float *x, const float *scale, const T *zero,  \
                                         const aot_quantize_params *p) {                           \
        if (aot_quantize_alike(p)) {                                                               \
            aot_quantize_run_##SHORT(y, x, scale[0], zero ? zero[0] : 0, aot_quantize_count(p));   \
        } else {                                                                                   \
            AOT_QUANTIZE_LOOP(y[j] =                                                               \
                                  aot_quantize_one_##SHORT(x[j] / scale[k], zero ? zero[k] : 0))   \
        }                                                                                          \
    }
AOT_QUANTIZE(s8, int8_t, -128, 127, AOT_QUANTIZE_VECTORS, aot_qvec_narrow)
AOT_QUANTIZE(u8, uint8_t, 0, 255, AOT_QUANTIZE_VECTORS, aot_qvec_narrow_u8)
AOT_QUANTIZE(s16, int16_t, -32768, 32767, AOT_QUANTIZE_NONE, 0)
AOT_QUANTIZE(u16, uint16_t, 0, 65535, AOT_QUANTIZE_NONE, 0)
AOT_QUANTIZE(s4, int8_t, -8, 7, AOT_QUANTIZE_NONE, 0)
AOT_QUANTIZE(u4, uint8_t, 0, 15, AOT_QUANTIZE_NONE, 0)
AOT_QUANTIZE(s2, int8_t, -2, 1, AOT_QUANTIZE_NONE, 0)
AOT_QUANTIZE(u2, uint8_t, 0, 3, AOT_QUANTIZE_NONE, 0)

#define AOT_DEQUANTIZE(SHORT, T, VECTORS, WIDEN)                                                   \
    typedef aot_quantize_params aot_dequantize_##SHORT##_params;                                   \
    AOT_INLINE void aot_dequantize_run_##SHORT(float *y, const T *x, float scale, int32_t zero,    \
                                               int64_t n) {                                        \
        int64_t i = 0;                                                                             \
        VECTORS(WIDEN)                                                                             \
        for (; i < n; ++i) {                                                                       \
            y[i] = (float)((int64_t)x[i] - zero) * scale;                                          \
        }                                                                                          \
    }                                                                                              \
    AOT_INLINE void aot_dequantize_##SHORT(float *y, const T *x, const float *scale,               \
                                           const T *zero, const aot_quantize_params *p) {          \
        if (aot_quantize_alike(p)) {                                                               \
            aot_dequantize_run_##SHORT(y, x, scale[0], zero ? (int32_t)zero[0] : 0,                \
                                       aot_quantize_count(p));                                     \
        } else {                                                                                   \
            AOT_QUANTIZE_LOOP(y[j] = (float)((int64_t)x[j] - (zero ? zero[k] : 0)) * scale[k])     \
        }                                                                                          \
    }
AOT_DEQUANTIZE(s8, int8_t, AOT_DEQUANTIZE_VECTORS, aot_qvec_widen)
AOT_DEQUANTIZE(u8, uint8_t, AOT_DEQUANTIZE_VECTORS, aot_qvec_widen_u8)
AOT_DEQUANTIZE(s16, int16_t, AOT_DEQUANTIZE_NONE, 0)
AOT_DEQUANTIZE(u16, uint16_t, AOT_DEQUANTIZE_NONE, 0)
AOT_DEQUANTIZE(s32, int32_t, AOT_DEQUANTIZE_NONE, 0)
AOT_DEQUANTIZE(s4, int8_t, AOT_DEQUANTIZE_NONE, 0)
AOT_DEQUANTIZE(u4, uint8_t, AOT_DEQUANTIZE_NONE, 0)
AOT_DEQUANTIZE(s2, int8_t, AOT_DEQUANTIZE_NONE, 0)
AOT_DEQUANTIZE(u2, uint8_t, AOT_DEQUANTIZE_NONE, 0)

AOT_QUANTIZE_BLOCKED(aot_quantize_s8_blocked, int8_t, float,
                     aot_quantize_run_s8(y + k, x + j, scale[0], shift, AOT_VLEN))
AOT_QUANTIZE_BLOCKED(aot_dequantize_s8_blocked, float, int8_t,
                     aot_dequantize_run_s8(y + j, x + k, scale[0], shift, AOT_VLEN))

typedef aot_quantize_params aot_quantize_f8_params;
typedef aot_quantize_params aot_dequantize_f8_params;

AOT_INLINE void aot_quantize_f8(uint8_t *y, const float *x, const float *scale, const uint8_t *zero,
                                const aot_quantize_params *p, int M, int BIAS, int KIND,
                                int SATURATE) {
    AOT_QUANTIZE_LOOP(const float z = zero ? aot_f8_decode(zero[k], M, BIAS, KIND) : 0.0F;
                      y[j] = aot_f8_encode(x[j] / scale[k] + z, M, BIAS, KIND, SATURATE))
}

AOT_INLINE void aot_dequantize_f8(float *y, const uint8_t *x, const float *scale,
                                  const uint8_t *zero, const aot_quantize_params *p, int M,
                                  int BIAS, int KIND) {
    AOT_QUANTIZE_LOOP(const float z = zero ? aot_f8_decode(zero[k], M, BIAS, KIND) : 0.0F;
                      y[j] = (aot_f8_decode(x[j], M, BIAS, KIND) - z) * scale[k])
}

typedef aot_quantize_params aot_quantize_f4_params;
typedef aot_quantize_params aot_dequantize_f4_params;

AOT_INLINE void aot_quantize_f4(uint8_t *y, const float *x, const float *scale, const uint8_t *zero,
                                const aot_quantize_params *p) {
    AOT_QUANTIZE_LOOP(const float z = zero ? aot_f4_value(zero[k]) : 0.0F;
                      y[j] = (uint8_t)aot_f4_code(x[j] / scale[k] + z))
}

AOT_INLINE void aot_dequantize_f4(float *y, const uint8_t *x, const float *scale,
                                  const uint8_t *zero, const aot_quantize_params *p) {
    AOT_QUANTIZE_LOOP(const float z = zero ? aot_f4_value(zero[k]) : 0.0F;
                      y[j] = (aot_f4_value(x[j]) - z) * scale[k])
}

#endif /* AOT_QUANTIZE_H */
