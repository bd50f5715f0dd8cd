/* SPDX-License-Identifier: MIT-0 */
/* From sums to int8 quantised values (aot_requant.h) with the instructions of Armv7E-M and Armv8-M.
 */
#ifndef AOT_DSP_OUT_H
#define AOT_DSP_OUT_H

#include "aot_dsp_mac.h"
#include "aot_requant.h"

#define AOT_DSP_RIGHT 22

/* What all results of a call have in common. */
typedef struct {
    const int32_t *mult;
    const int8_t *shift;
    int32_t zero, lo, hi;
} aot_dsp_out;

/* A channel's multiplier as aot_dsp_code takes it. */
typedef struct {
    int32_t mult;
    float scale;         /* RQ 0 */
    int32_t right, half; /* RQ 2: bits to drop, half a unit of the result and its zero point */
} aot_dsp_factor;

AOT_INLINE aot_dsp_factor aot_dsp_factor_of(const aot_dsp_out *o, int32_t channel, int RQ, int PC) {
    aot_dsp_factor f = {0, 0.0F, 0, 0};
    f.mult = o->mult[PC ? channel : 0];
    if (RQ == 0) {
        (void)memcpy(&f.scale, &f.mult, sizeof f.scale);
    } else if (RQ == 2) {
        f.right = -o->shift[PC ? channel : 0];
        f.half = (int32_t)((uint32_t)(2 * o->zero + 1) << ((f.right - 1) & 31));
    }
    return f;
}

/* Whether aot_dsp_code suits the multiplier: the zero point fits beside the sum. */
AOT_INLINE int aot_dsp_near(aot_dsp_factor f, int RQ) {
    return RQ == 0 || (RQ == 2 && f.right > 0 && f.right <= AOT_DSP_RIGHT);
}

/* The high word of 2 * a * b, rounded. */
AOT_INLINE int32_t aot_dsp_high(int32_t a, int32_t b) {
#if AOT_DSP
    int32_t r;
    __asm__("smmulr %0,%1,%2" : "=r"(r) : "r"(a), "r"(b));
    return r;
#else
    return (int32_t)(((int64_t)a * b + ((int64_t)1 << 31)) >> 32);
#endif
}

AOT_INLINE int32_t aot_dsp_limit(int32_t v, const aot_dsp_out *o, int CLIP) {
#if AOT_DSP
    if (!CLIP) {
        int32_t r;
        __asm__("ssat %0,#8,%1" : "=r"(r) : "r"(v));
        return r;
    }
#endif
    return aot_requant_clamp(v, CLIP ? o->lo : -128, CLIP ? o->hi : 127);
}

/* The rescaled value of RQ 0 with its zero point. */
AOT_INLINE int32_t aot_dsp_float(int32_t sum, float scale, int32_t zero) {
#if AOT_DSP && AOT_DSP_FPU
    float v = (float)sum * scale;
    int32_t r;
    __asm__("vcvtr.s32.f32 %0,%0" : "+t"(v));
    (void)memcpy(&r, &v, sizeof r);
    __asm__("qadd %0,%0,%1" : "+r"(r) : "r"(zero));
    return r;
#else
    return aot_requant_rint((float)sum * scale) + zero;
#endif
}

/* The quantised value of half of `twice`, for RQ 2 where aot_dsp_near. `high >> 31` rounds halves
 * of negative numbers away from zero; `half` adds the zero point before the shift. */
AOT_INLINE int32_t aot_dsp_fixed(int32_t twice, aot_dsp_factor f, const aot_dsp_out *o, int CLIP) {
    const int32_t high = aot_dsp_high(twice, f.mult);
    return aot_dsp_limit((high + (high >> 31) + f.half) >> f.right, o, CLIP);
}

/* The quantised value of a sum, for RQ 0 and 2 where aot_dsp_near; CLIP 0: lo and hi are those of
 * int8. */
AOT_INLINE int32_t aot_dsp_code(int32_t sum, aot_dsp_factor f, const aot_dsp_out *o, int RQ,
                                int CLIP) {
    if (RQ == 0) {
        return aot_dsp_limit(aot_dsp_float(sum, f.scale, o->zero), o, CLIP);
    }
    return aot_dsp_fixed(sum * 2, f, o, CLIP);
}

/* The quantised value of any sum, by any multiplier. */
AOT_INLINE int8_t aot_dsp_any(int32_t sum, int32_t channel, const aot_dsp_out *o, int RQ, int PC,
                              int CLIP) {
    const int32_t c = PC ? channel : 0, mult = o->mult[c], shift = RQ == 0 ? 0 : o->shift[c];
    const int32_t v =
        RQ == 1 ? aot_requant_integer(sum, mult, shift, 1) : aot_requant(sum, mult, shift, RQ);
    return (int8_t)aot_dsp_limit(v + o->zero, o, CLIP);
}

/* The quantised values of one pixel of n channels (up to four) from `channel` on. Narrow blocks
 * (WIDE 0, aot_dsp_mac.h) give the sums of odd channels times 256. */
AOT_INLINE void aot_dsp_store(int8_t *y, const int32_t *sum, int32_t channel, int32_t n,
                              const aot_dsp_out *o, int RQ, int PC, int CLIP, int WIDE) {
    int32_t j;
    for (j = 0; j < n; ++j) {
        const int32_t drop = (j & 1) != 0 ? AOT_DSP_Q(WIDE) : 0;
        y[j] = aot_dsp_any(sum[j] >> drop, channel + j, o, RQ, PC, CLIP);
    }
}

#endif /* AOT_DSP_OUT_H */
