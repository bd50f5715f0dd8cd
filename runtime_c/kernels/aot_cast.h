/* SPDX-License-Identifier: MIT-0 */
/* Conversion between element types: aot_cast_<from>_<to>(y, x, p), p->n elements of any layout.
 *
 * Types: f32 f64 s8 s16 s32 s64 u8 u16 u32 u64, b8 (bytes, anything but 0 is true, written as 0
 * and 1), f16 and bf16 (as bits, rounded to nearest even).
 * Float to integer truncates towards zero; out of range saturates, NaN gives 0. Integer to narrower
 * integer keeps the low bits. y may be x where both types have one size. No scratch.
 */
#ifndef AOT_CAST_H
#define AOT_CAST_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "aot/port.h"

#if defined(__aarch64__) && defined(__GNUC__) && defined(AOT_VLEN)
#include <arm_neon.h>
#define AOT_CAST_FCVT 1 /* every core of 64-bit Arm converts float16 */
#else
#define AOT_CAST_FCVT 0
#endif

typedef struct aot_cast_params {
    int64_t n;
} aot_cast_params;

AOT_INLINE uint32_t aot_cast_bits(float x) {
    uint32_t u;
    (void)memcpy(&u, &x, sizeof u);
    return u;
}
AOT_INLINE float aot_cast_float(uint32_t u) {
    float x;
    (void)memcpy(&x, &u, sizeof x);
    return x;
}

/* u without its lowest `by` bits (1..31), rounded to nearest even. */
AOT_INLINE uint32_t aot_cast_round(uint32_t u, uint32_t by) {
    const uint32_t odd = (u >> by) & 1U;
    return (u + ((UINT32_C(1) << (by - 1U)) - 1U) + odd) >> by;
}

#if AOT_CAST_FCVT
AOT_INLINE float aot_cast_from_f16(uint16_t h) {
    __fp16 x;
    (void)memcpy(&x, &h, sizeof x);
    return (float)x;
}
AOT_INLINE uint16_t aot_cast_to_f16(float x) {
    const __fp16 near = (__fp16)x;
    uint16_t h;
    (void)memcpy(&h, &near, sizeof h);
    return h;
}
#else
AOT_INLINE float aot_cast_from_f16(uint16_t h) {
    const uint32_t sign = ((uint32_t)h & 0x8000U) << 16, mag = (uint32_t)h & 0x7FFFU;
    /* Scaled by 2^112: exact, subnormals included. */
    const float scaled = aot_cast_float(mag << 13) * 5.192296858534828e33F;
    const uint32_t bits = mag >= 0x7C00U ? 0x7F800000U | (mag << 13) : aot_cast_bits(scaled);
    return aot_cast_float(sign | bits);
}
AOT_INLINE uint16_t aot_cast_to_f16(float x) {
    const uint32_t u = aot_cast_bits(x), sign = (u >> 16) & 0x8000U, mag = u & 0x7FFFFFFFU;
    uint32_t h;
#if defined(AOT_VLEN) && AOT_VLEN > 1
    /* The same bits without branches, which compilers make vectors of: one half added to what is
     * subnormal as a float16 rounds it to a multiple of 2^-24. */
    h = aot_cast_bits(aot_cast_float(mag) + 0.5F) - 0x3F000000U;
    h = mag >= 0x38800000U ? aot_cast_round(mag - 0x38000000U, 13) : h;
    h = mag >= 0x477FF000U ? 0x7C00U : h;
    h = mag > 0x7F800000U ? 0x7E00U : h;
#else
    if (mag > 0x7F800000U) {
        h = 0x7E00U; /* NaN */
    } else if (mag >= 0x477FF000U) {
        h = 0x7C00U; /* beyond 65504 and a half step: infinity */
    } else if (mag >= 0x38800000U) {
        h = aot_cast_round(mag - 0x38000000U, 13);
    } else if (mag < 0x33000000U) {
        h = 0; /* below half of the smallest subnormal */
    } else {
        h = aot_cast_round((mag & 0x7FFFFFU) | 0x800000U, 126U - (mag >> 23));
    }
#endif
    return (uint16_t)(sign | h);
}
#endif
AOT_INLINE float aot_cast_from_bf16(uint16_t h) {
    return aot_cast_float((uint32_t)h << 16);
}
AOT_INLINE uint16_t aot_cast_to_bf16(float x) {
    const uint32_t u = aot_cast_bits(x);
    if ((u & 0x7FFFFFFFU) > 0x7F800000U) {
        return (uint16_t)((u >> 16) | 0x40U);
    }
    return (uint16_t)aot_cast_round(u, 16);
}

/* x rounded to odd: a shorter type then rounds as if from x itself. */
AOT_INLINE float aot_cast_odd(double x) {
    const float near = (float)x;
    const uint32_t u = aot_cast_bits(near);
    const double back = (double)near, far = x < 0.0 ? x - back : back - x;
    if ((u & 1U) != 0 || !(far > 0.0 || far < 0.0) || (u & 0x7F800000U) == 0x7F800000U) {
        return near;
    }
    return aot_cast_float(far > 0.0 ? u - 1U : u + 1U);
}

/* a + b rounded to odd, as aot_cast_odd has it. */
AOT_INLINE double aot_cast_odd_sum(double a, double b) {
    const double sum = a + b, part = sum - a, lost = (a - (sum - part)) + (b - part);
    uint64_t bits;
    double odd = sum;
    (void)memcpy(&bits, &sum, sizeof bits);
    if ((bits & 1U) == 0 && (lost > 0.0 || lost < 0.0)) {
        bits = (lost > 0.0) == (sum > 0.0) ? bits + 1 : bits - 1;
        (void)memcpy(&odd, &bits, sizeof odd);
    }
    return odd;
}

/* An integer that double may not hold, rounded to odd likewise: bit 11, the last one of a double of
 * 64 bits, is set where bits below it are. */
#define AOT_CAST_ODD_INT(SHORT, T, WIDE)                                                           \
    AOT_INLINE double aot_cast_odd_##SHORT(T x) {                                                  \
        const T low = x & 0x7FF;                                                                   \
        return (double)(low != 0 && (WIDE) ? (x - low) | 0x800 : x);                               \
    }
AOT_CAST_ODD_INT(s64, int64_t, x > INT64_C(1) << 53 || x < -(INT64_C(1) << 53))
AOT_CAST_ODD_INT(u64, uint64_t, x > UINT64_C(1) << 53)

#define AOT_CAST(FROM, TO, TX, TY, EXPR) AOT_CAST_FROM(FROM, TO, TX, TY, EXPR, 0)
/* `FIRST`: how many elements are converted already. */
#define AOT_CAST_FROM(FROM, TO, TX, TY, EXPR, FIRST)                                               \
    typedef aot_cast_params aot_cast_##FROM##_##TO##_params;                                       \
    AOT_INLINE void aot_cast_##FROM##_##TO(TY *y, const TX *in, const aot_cast_params *p) {        \
        const ptrdiff_t n = (ptrdiff_t)p->n;                                                       \
        ptrdiff_t i;                                                                               \
        for (i = (FIRST); i < n; ++i) {                                                            \
            const TX x = in[i];                                                                    \
            y[i] = (TY)(EXPR);                                                                     \
        }                                                                                          \
    }

/* Towards zero, limited to the integer's range; NaN gives 0. */
#define AOT_CAST_LIMIT(SHORT, T, LO, HI, BELOW, ABOVE)                                             \
    AOT_INLINE T aot_cast_##SHORT(double v) {                                                      \
        if (v > BELOW && v < ABOVE) {                                                              \
            return (T)v;                                                                           \
        }                                                                                          \
        return v >= ABOVE ? HI : v <= BELOW ? LO : 0;                                              \
    }
AOT_CAST_LIMIT(s8, int8_t, INT8_MIN, INT8_MAX, -129.0, 128.0)
AOT_CAST_LIMIT(s16, int16_t, INT16_MIN, INT16_MAX, -32769.0, 32768.0)
AOT_CAST_LIMIT(s32, int32_t, INT32_MIN, INT32_MAX, -2147483649.0, 2147483648.0)
AOT_CAST_LIMIT(s64, int64_t, INT64_MIN, INT64_MAX, -9223372036854775808.0, 9223372036854775808.0)
AOT_CAST_LIMIT(u8, uint8_t, 0, UINT8_MAX, -1.0, 256.0)
AOT_CAST_LIMIT(u16, uint16_t, 0, UINT16_MAX, -1.0, 65536.0)
AOT_CAST_LIMIT(u32, uint32_t, 0, UINT32_MAX, -1.0, 4294967296.0)
AOT_CAST_LIMIT(u64, uint64_t, 0, UINT64_MAX, -1.0, 18446744073709551616.0)

/* From floating point; VALUE is x as a float or double. */
#define AOT_CAST_FLOAT(FROM, TX, VALUE)                                                            \
    AOT_CAST(FROM, s8, TX, int8_t, aot_cast_s8((double)(VALUE)))                                   \
    AOT_CAST(FROM, s16, TX, int16_t, aot_cast_s16((double)(VALUE)))                                \
    AOT_CAST(FROM, s32, TX, int32_t, aot_cast_s32((double)(VALUE)))                                \
    AOT_CAST(FROM, s64, TX, int64_t, aot_cast_s64((double)(VALUE)))                                \
    AOT_CAST(FROM, u8, TX, uint8_t, aot_cast_u8((double)(VALUE)))                                  \
    AOT_CAST(FROM, u16, TX, uint16_t, aot_cast_u16((double)(VALUE)))                               \
    AOT_CAST(FROM, u32, TX, uint32_t, aot_cast_u32((double)(VALUE)))                               \
    AOT_CAST(FROM, u64, TX, uint64_t, aot_cast_u64((double)(VALUE)))                               \
    AOT_CAST(FROM, f64, TX, double, (double)(VALUE))

AOT_CAST_FLOAT(f32, float, x)
AOT_CAST(f32, f32, float, float, x)
AOT_CAST(f32, b8, float, uint8_t, (aot_cast_bits(x) & 0x7FFFFFFFU) != 0)
#if AOT_CAST_FCVT
/* Whole vectors, which gcc makes none of; how many elements that are. */
AOT_INLINE ptrdiff_t aot_cast_vectors(uint16_t *y, const float *x, ptrdiff_t n) {
    const ptrdiff_t whole = n & ~(ptrdiff_t)7;
    ptrdiff_t i;
    for (i = 0; i < whole; i += 8) {
        const float16x4_t low = vcvt_f16_f32(vld1q_f32(x + i));
        const float16x8_t all = vcvt_high_f16_f32(low, vld1q_f32(x + i + 4));
        vst1q_u16(y + i, vreinterpretq_u16_f16(all));
    }
    return whole;
}
AOT_CAST_FROM(f32, f16, float, uint16_t, aot_cast_to_f16(x), aot_cast_vectors(y, in, n))
#else
AOT_CAST(f32, f16, float, uint16_t, aot_cast_to_f16(x))
#endif
AOT_CAST(f32, bf16, float, uint16_t, aot_cast_to_bf16(x))
AOT_CAST_FLOAT(f64, double, x)
AOT_CAST(f64, f32, double, float, (float)x)
AOT_CAST(f64, f16, double, uint16_t, aot_cast_to_f16(aot_cast_odd(x)))
AOT_CAST(f64, bf16, double, uint16_t, aot_cast_to_bf16(aot_cast_odd(x)))
AOT_CAST(f64, b8, double, uint8_t, x<0.0 || x> 0.0 || !(x <= 0.0))
AOT_CAST_FLOAT(f16, uint16_t, aot_cast_from_f16(x))
AOT_CAST(f16, f32, uint16_t, float, aot_cast_from_f16(x))
AOT_CAST(f16, bf16, uint16_t, uint16_t, aot_cast_to_bf16(aot_cast_from_f16(x)))
AOT_CAST(f16, b8, uint16_t, uint8_t, (x & 0x7FFFU) != 0)
AOT_CAST_FLOAT(bf16, uint16_t, aot_cast_from_bf16(x))
AOT_CAST(bf16, f32, uint16_t, float, aot_cast_from_bf16(x))
AOT_CAST(bf16, f16, uint16_t, uint16_t, aot_cast_to_f16(aot_cast_from_bf16(x)))
AOT_CAST(bf16, b8, uint16_t, uint8_t, (x & 0x7FFFU) != 0)

#define AOT_CAST_INT(FROM, TX)                                                                     \
    AOT_CAST(FROM, f32, TX, float, (float)x)                                                       \
    AOT_CAST(FROM, f64, TX, double, (double)x)                                                     \
    AOT_CAST(FROM, b8, TX, uint8_t, x != 0)                                                        \
    AOT_CAST(FROM, f16, TX, uint16_t, aot_cast_to_f16((float)x))                                   \
    AOT_CAST(FROM, s8, TX, int8_t, (uint64_t)x)                                                    \
    AOT_CAST(FROM, s16, TX, int16_t, (uint64_t)x)                                                  \
    AOT_CAST(FROM, s32, TX, int32_t, (uint64_t)x)                                                  \
    AOT_CAST(FROM, s64, TX, int64_t, (uint64_t)x)                                                  \
    AOT_CAST(FROM, u8, TX, uint8_t, (uint64_t)x)                                                   \
    AOT_CAST(FROM, u16, TX, uint16_t, (uint64_t)x)                                                 \
    AOT_CAST(FROM, u32, TX, uint32_t, (uint64_t)x)                                                 \
    AOT_CAST(FROM, u64, TX, uint64_t, (uint64_t)x)
AOT_CAST_INT(s8, int8_t)
AOT_CAST_INT(s16, int16_t)
AOT_CAST_INT(s32, int32_t)
AOT_CAST_INT(s64, int64_t)
AOT_CAST_INT(u8, uint8_t)
AOT_CAST_INT(u16, uint16_t)
AOT_CAST_INT(u32, uint32_t)
AOT_CAST_INT(u64, uint64_t)

/* Integers of up to 32 bits are exact in double, longer ones rounded to odd; those float16 can hold
 * are exact in float. */
AOT_CAST(s8, bf16, int8_t, uint16_t, aot_cast_to_bf16((float)x))
AOT_CAST(s16, bf16, int16_t, uint16_t, aot_cast_to_bf16((float)x))
AOT_CAST(s64, bf16, int64_t, uint16_t, aot_cast_to_bf16(aot_cast_odd(aot_cast_odd_s64(x))))
AOT_CAST(u64, bf16, uint64_t, uint16_t, aot_cast_to_bf16(aot_cast_odd(aot_cast_odd_u64(x))))
AOT_CAST(s32, bf16, int32_t, uint16_t, aot_cast_to_bf16(aot_cast_odd((double)x)))
AOT_CAST(u8, bf16, uint8_t, uint16_t, aot_cast_to_bf16((float)x))
AOT_CAST(u16, bf16, uint16_t, uint16_t, aot_cast_to_bf16((float)x))
AOT_CAST(u32, bf16, uint32_t, uint16_t, aot_cast_to_bf16(aot_cast_odd((double)x)))

/* Booleans count as 0 and 1 even if the caller's bytes hold another truth. */
#define AOT_CAST_BOOL(TO, TY) AOT_CAST(b8, TO, uint8_t, TY, x != 0)
AOT_CAST_BOOL(b8, uint8_t)
AOT_CAST_BOOL(s8, int8_t)
AOT_CAST_BOOL(s16, int16_t)
AOT_CAST_BOOL(s32, int32_t)
AOT_CAST_BOOL(s64, int64_t)
AOT_CAST_BOOL(u8, uint8_t)
AOT_CAST_BOOL(u16, uint16_t)
AOT_CAST_BOOL(u32, uint32_t)
AOT_CAST_BOOL(u64, uint64_t)
AOT_CAST_BOOL(f32, float)
AOT_CAST_BOOL(f64, double)
AOT_CAST(b8, f16, uint8_t, uint16_t, x != 0 ? 0x3C00 : 0)
AOT_CAST(b8, bf16, uint8_t, uint16_t, x != 0 ? 0x3F80 : 0)

#endif /* AOT_CAST_H */
