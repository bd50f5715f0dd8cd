/* SPDX-License-Identifier: MIT-0 */
/* Requantisation: an int32 sum to a quantised value of 8 bits, in one of three arithmetics (RQ).
 *
 * RQ 0: round(float32(acc) * scale) in float32, halves to even; mult holds the bits of scale.
 * RQ 1: the same bits in integers, for cores without FPU: scale = mult * 2^-(25 + shift), where
 *       mult < 2^31 has at most 24 significant bits and 1 <= shift <= 31 (the compiler sees to it).
 * RQ 2: TensorFlow Lite's fixed point: mult is in Q31, shift a power of two (positive: left);
 *       rounded twice, halves upwards and then away from zero.
 * RQ 3: in kernels that say so, none: the int32 sums themselves are stored.
 *
 * RQ 0 and 1 take every acc; RQ 2 needs |acc| < 2^30. Results of RQ 0 and 1 are limited to
 * +-AOT_REQUANT_LIMIT, of RQ 2 to +-2^30. Right shifts of negative numbers keep the sign, as on
 * every compiler known.
 */
#ifndef AOT_REQUANT_H
#define AOT_REQUANT_H

#include <stdint.h>
#include <string.h>

#include "aot/port.h"

#define AOT_REQUANT_LIMIT 2097152 /* 2^21 */
#define AOT_REQUANT_NONE 3
/* Bytes of what is stored of a sum. */
#define AOT_REQUANT_SIZE(RQ) ((RQ) == AOT_REQUANT_NONE ? 4 : 1)

AOT_INLINE int32_t aot_requant_clamp(int32_t v, int32_t lo, int32_t hi) {
    return v < lo ? lo : v > hi ? hi : v;
}

/* -- RQ 0 ------------------------------------------------------------------------------------- */

/* v to the nearest integer, halves to even, limited to +-AOT_REQUANT_LIMIT. */
AOT_INLINE int32_t aot_requant_rint(float v) {
#if defined(__arm__) && defined(__ARM_FP) && defined(__GNUC__)
    int32_t whole;
    __asm__("vcvtr.s32.f32 %0, %1" : "=t"(whole) : "t"(v)); /* saturates */
    return aot_requant_clamp(whole, -AOT_REQUANT_LIMIT, AOT_REQUANT_LIMIT);
#elif defined(__riscv_flen) && defined(__GNUC__)
    int32_t whole;
    __asm__("fcvt.w.s %0, %1, rne" : "=r"(whole) : "f"(v)); /* saturates */
    return aot_requant_clamp(whole, -AOT_REQUANT_LIMIT, AOT_REQUANT_LIMIT);
#else
    /* Limiting also keeps the product before and the sum below from becoming one operation. */
    const float top = (float)AOT_REQUANT_LIMIT;
    const float limited = v < -top ? -top : v > top ? top : v;
    const float shifted = limited + 12582912.0F; /* 1.5 * 2^23: what follows is an integer */
    int32_t bits;
    (void)memcpy(&bits, &shifted, sizeof bits);
    return bits - 0x4B400000;
#endif
}

AOT_INLINE int32_t aot_requant_float(int32_t acc, int32_t mult) {
    float scale;
    (void)memcpy(&scale, &mult, sizeof scale);
    return aot_requant_rint((float)acc * scale);
}

/* -- RQ 1 ------------------------------------------------------------------------------------- */

/* v without its n lowest bits, rounded to nearest, halves to even; n <= 63. */
AOT_INLINE uint64_t aot_requant_drop(uint64_t v, int32_t n) {
    const uint64_t kept = v >> n, half = ((uint64_t)1 << n) >> 1;
    const uint64_t rest = v - (kept << n);
    return kept + (uint64_t)(n > 0 && (rest > half || (rest == half && (kept & 1U) != 0U)));
}

/* v rounded to the 24 significant bits of a float. */
AOT_INLINE uint64_t aot_requant_single(uint64_t v) {
    int32_t n = 0;
    while ((v >> n) >= ((uint64_t)1 << 24)) {
        ++n;
    }
    return aot_requant_drop(v, n) << n;
}

/* The roundings of RQ 0 one after the other: right for every sum, and slow. */
static AOT_NOINLINE AOT_UNUSED int32_t aot_requant_exact(int32_t acc, int32_t mult, int32_t shift) {
    const uint32_t size = acc < 0 ? 0U - (uint32_t)acc : (uint32_t)acc;
    const uint64_t product = aot_requant_single(aot_requant_single(size) * (uint32_t)mult);
    const uint64_t whole = aot_requant_drop(product, 25 + shift);
    const int32_t limited = whole > AOT_REQUANT_LIMIT ? AOT_REQUANT_LIMIT : (int32_t)whole;
    return acc < 0 ? -limited : limited;
}

/* The rounding errors of RQ 0 are below 2^-24 of the value: `high` counts 2^-shift, so they are
 * less than one unit of it while |high| < 2^24, and matter only where one unit less or more changes
 * the result. EIGHT: results beyond +-512 may differ (they stay beyond). */
AOT_INLINE int32_t aot_requant_integer(int32_t acc, int32_t mult, int32_t shift, int EIGHT) {
    if (AOT_LIKELY((uint32_t)acc + 0x1000000U < 0x2000000U)) {
        const int32_t high = (int32_t)(((int64_t)(acc * 128) * mult) >> 32);
        const int32_t half = (int32_t)(1U << (shift - 1));
        const int32_t down = (high + (half - 1)) >> shift, up = (high + (half + 2)) >> shift;
        const int sure = EIGHT || (uint32_t)high + 0x1000000U < 0x2000000U;
        if (AOT_LIKELY(down == up && sure)) {
            return down;
        }
    }
    return aot_requant_exact(acc, mult, shift);
}

/* -- RQ 2 ------------------------------------------------------------------------------------- */

/* acc * mult * 2^-31, halves upwards; |acc| <= 2^30. The doubled product has the result in its
 * upper half and the bit that rounds on top of the lower one. */
AOT_INLINE int32_t aot_requant_doubling_high(int32_t acc, int32_t mult) {
#if defined(__ARM_FEATURE_DSP) && defined(__GNUC__)
    int32_t high;
    __asm__("smmulr %0, %1, %2" : "=r"(high) : "r"(acc * 2), "r"(mult));
    return high;
#else
    const int64_t twice = (int64_t)(acc * 2) * mult;
    return (int32_t)(twice >> 32) + (int32_t)((uint32_t)twice >> 31);
#endif
}

#if defined(__thumb__) && !defined(__thumb2__)
#define AOT_REQUANT_CALLS 1 /* the product of 64 bits is a call: one of it for both directions */
#else
#define AOT_REQUANT_CALLS 0
#endif

/* The rare left shifts, limited to 30 bits; with AOT_REQUANT_CALLS before the product. */
static AOT_NOINLINE AOT_UNUSED int32_t aot_requant_left(int32_t acc, int32_t mult, int32_t shift) {
    const int32_t top = (1 << 30) - 1, most = top >> shift;
    const int32_t wide = acc > most ? top : acc < -most ? -top : acc * (int32_t)(1U << shift);
    return AOT_REQUANT_CALLS ? wide : aot_requant_doubling_high(wide, mult);
}

AOT_INLINE int32_t aot_requant_tflite(int32_t acc, int32_t mult, int32_t shift) {
    if (AOT_REQUANT_CALLS && !AOT_LIKELY(shift <= 0)) {
        acc = aot_requant_left(acc, mult, shift);
        shift = 0;
    }
    if (AOT_LIKELY(shift <= 0)) {
        const int32_t high = aot_requant_doubling_high(acc, mult);
        if (shift == 0) {
            return high;
        }
        return (high + (high >> 31) + (int32_t)(1U << (-shift - 1))) >> -shift;
    }
    return aot_requant_left(acc, mult, shift);
}

/* -- Entries ---------------------------------------------------------------------------------- */

/* The rescaled sum, before the zero point. */
AOT_INLINE int32_t aot_requant(int32_t acc, int32_t mult, int32_t shift, int RQ) {
    return RQ == 0   ? aot_requant_float(acc, mult)
           : RQ == 1 ? aot_requant_integer(acc, mult, shift, 0)
                     : aot_requant_tflite(acc, mult, shift);
}

/* The 8-bit quantised value of a sum; lo and hi are bounds of the quantised value, zero is within 8
 * bits. */
AOT_INLINE int32_t aot_requant_value(int32_t acc, int32_t mult, int32_t shift, int32_t zero,
                                     int32_t lo, int32_t hi, int RQ) {
    const int32_t v =
        RQ == 1 ? aot_requant_integer(acc, mult, shift, 1) : aot_requant(acc, mult, shift, RQ);
    return aot_requant_clamp(v, lo - zero, hi - zero) + zero;
}

#endif /* AOT_REQUANT_H */
