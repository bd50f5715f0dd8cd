/* SPDX-License-Identifier: MIT-0 */
/* From sums to int8 codes (aot_requant.h) with the instructions of Armv7E-M and Armv8-M. */
#ifndef AOT_DSP_OUT_H
#define AOT_DSP_OUT_H

#include "aot_dsp_mac.h"
#include "aot_requant.h"

/* What all results of a call have in common; `fast`: every multiplier suits aot_dsp_code. */
typedef struct {
    const int32_t *mult;
    const int8_t *shift;
    int32_t zero, lo, hi;
    int fast;
} aot_dsp_out;

/* Whether the channels' right shifts (RQ 2) leave room for the zero point in 32 bits. */
AOT_INLINE int aot_dsp_fast(const int8_t *shift, int32_t n, int RQ, int PC) {
    int32_t i;
    if (RQ == 2) {
        for (i = 0; i < (PC ? n : 1); ++i) {
            if (shift[i] > -1 || shift[i] < -20) {
                return 0;
            }
        }
    }
    return RQ == 0 || RQ == 2;
}

AOT_INLINE void aot_dsp_out_init(aot_dsp_out *o, const int32_t *mult, const int8_t *shift,
                                 int32_t channels, int32_t zero, int32_t lo, int32_t hi, int RQ,
                                 int PC) {
    o->mult = mult;
    o->shift = shift;
    o->zero = zero;
    o->lo = lo;
    o->hi = hi;
    o->fast = aot_dsp_fast(shift, channels, RQ, PC);
}

static AOT_NOINLINE AOT_UNUSED int32_t aot_dsp_slow(int32_t sum, int32_t mult, int32_t shift,
                                                    const aot_dsp_out *o, int RQ) {
    return aot_requant_code(sum, mult, shift, o->zero, o->lo, o->hi, RQ);
}

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
        memcpy(&f.scale, &f.mult, sizeof f.scale);
    } else if (RQ == 2) {
        f.right = -o->shift[PC ? channel : 0];
        f.half = (int32_t)((uint32_t)(2 * o->zero + 1) << (f.right - 1));
    }
    return f;
}

/* The high word of 2 * a * b, rounded. */
AOT_INLINE int32_t aot_dsp_high(int32_t a, int32_t b) {
#if AOT_DSP
    int32_t r;
    __asm__("smmulr %0, %1, %2" : "=r"(r) : "r"(a), "r"(b));
    return r;
#else
    return (int32_t)(((int64_t)a * b + ((int64_t)1 << 31)) >> 32);
#endif
}

AOT_INLINE int32_t aot_dsp_limit(int32_t v, const aot_dsp_out *o, int CLIP) {
#if AOT_DSP
    if (!CLIP) {
        int32_t r;
        __asm__("ssat %0, #8, %1" : "=r"(r) : "r"(v));
        return r;
    }
#endif
    return aot_requant_clamp(v, CLIP ? o->lo : -128, CLIP ? o->hi : 127);
}

/* The rescaled value of RQ 0 with its zero point; `sum` has Q fraction bits. */
AOT_INLINE int32_t aot_dsp_float(int32_t sum, float scale, int32_t zero, int Q) {
#if AOT_DSP && defined(__ARM_FP)
    float v;
    int32_t r;
    if (Q == 8) {
        memcpy(&v, &sum, sizeof v);
        __asm__("vcvt.f32.s32 %0, %0, #8" : "+t"(v));
    } else {
        v = (float)(sum >> Q);
    }
    v *= scale;
    __asm__("vcvtr.s32.f32 %0, %0" : "+t"(v));
    memcpy(&r, &v, sizeof r);
    __asm__("qadd %0, %0, %1" : "+r"(r) : "r"(zero));
    return r;
#else
    return aot_requant_rint((float)(sum >> Q) * scale) + zero;
#endif
}

/* The code of half of `twice`, for RQ 2 where o->fast. */
AOT_INLINE int32_t aot_dsp_fixed(int32_t twice, aot_dsp_factor f, const aot_dsp_out *o, int CLIP) {
    const int32_t high = aot_dsp_high(twice, f.mult);
    return aot_dsp_limit((high + (high >> 31) + f.half) >> f.right, o, CLIP);
}

/* The code of a sum with Q fraction bits, for RQ 0 and 2 where o->fast; CLIP 0: lo and hi are those
 * of int8. */
AOT_INLINE int32_t aot_dsp_code(int32_t sum, aot_dsp_factor f, const aot_dsp_out *o, int Q, int RQ,
                                int CLIP) {
    if (RQ == 0) {
        return aot_dsp_limit(aot_dsp_float(sum, f.scale, o->zero, Q), o, CLIP);
    }
    return aot_dsp_fixed(Q > 0 ? sum >> (Q - 1) : sum * 2, f, o, CLIP);
}

/* The codes of `pixels` times up to four channels from `channel` on: sum [pixels][4] to y[p]. The
 * first pixel is stored last: the others may be void and lie on it. */
AOT_INLINE void aot_dsp_store(int8_t *const *y, int32_t pixels, const int32_t *sum, int32_t channel,
                              int32_t n, const aot_dsp_out *o, int RQ, int PC, int CLIP, int WIDE) {
    const int Q = AOT_DSP_Q(WIDE);
    int32_t j, p;
    if (o->fast) {
        for (j = 0; j < n; j += 2) {
            aot_dsp_factor f = aot_dsp_factor_of(o, channel + j, RQ, PC);
            for (p = pixels - 1; p >= 0; --p) {
                y[p][j] = (int8_t)aot_dsp_code(sum[4 * p + j], f, o, 0, RQ, CLIP);
            }
            if (j + 1 < n) {
                f = aot_dsp_factor_of(o, channel + j + 1, RQ, PC);
                for (p = pixels - 1; p >= 0; --p) {
                    y[p][j + 1] = (int8_t)aot_dsp_code(sum[4 * p + j + 1], f, o, Q, RQ, CLIP);
                }
            }
        }
        return;
    }
    for (j = 0; j < n; ++j) {
        const int32_t c = PC ? channel + j : 0, drop = (j & 1) != 0 ? Q : 0;
        for (p = pixels - 1; p >= 0; --p) {
            y[p][j] = (int8_t)aot_dsp_slow(sum[4 * p + j] >> drop, o->mult[c],
                                           RQ == 0 ? 0 : o->shift[c], o, RQ);
        }
    }
}

#endif /* AOT_DSP_OUT_H */
