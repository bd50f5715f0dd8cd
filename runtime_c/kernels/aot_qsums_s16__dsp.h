/* SPDX-License-Identifier: MIT-0 */
/* Sums of int16 quantised values and int8 weights with the DSP instructions of Armv7E-M and
 * Armv8-M, and the same in plain C: see aot_qsums_s16.h. */
#ifndef AOT_QSUMS_S16__DSP_H
#define AOT_QSUMS_S16__DSP_H

#include "aot_dsp_mac.h"

#if AOT_DSP

/* Two pairs of quantised values, four channels; the addresses of x need no alignment. */
#define AOT_S16_DSP_PAIRS                                                                          \
    "ldr r12,[r1],#4\n"                                                                            \
    "ldr lr,[r1],#4\n"                                                                             \
    "ldm r2!,{r8-r11}\n" AOT_DSP_WIDE_WORD("r8", "r12", "r4", "r5")                                \
        AOT_DSP_WIDE_WORD("r9", "r12", "r6", "r7") AOT_DSP_WIDE_WORD("r10", "lr", "r4", "r5")      \
            AOT_DSP_WIDE_WORD("r11", "lr", "r6", "r7")
AOT_DSP_VALUES(aot_s16_dsp_values, AOT_S16_DSP_PAIRS, "")

/* sum + low half of x * low half of w, and the same of the high halves. */
#define AOT_S16_MLA(sum, x, w, HALVES)                                                             \
    __asm__("smla" HALVES " %0,%1,%2,%0" : "+r"(sum) : "r"(x), "r"(w))
#define AOT_S16_LOWS(sum, x, w) AOT_S16_MLA(sum, x, w, "bb")
#define AOT_S16_HIGHS(sum, x, w) AOT_S16_MLA(sum, x, w, "tt")

#else

#define AOT_S16_LOWS(sum, x, w) ((sum) += (uint32_t)(aot_dsp_lo(x) * aot_dsp_lo(w)))
#define AOT_S16_HIGHS(sum, x, w) ((sum) += (uint32_t)(aot_dsp_hi(x) * aot_dsp_hi(w)))

#endif

/* Two quantised values at any address. */
AOT_INLINE uint32_t aot_s16_load(const int16_t *x) {
#if AOT_DSP
    uint32_t v;
    (void)memcpy(&v, x, sizeof v);
    return v;
#else
    return aot_dsp_pair(x[0], x[1]);
#endif
}

/* One row of `depth` quantised values. */
AOT_INLINE void aot_s16_dsp_row(int32_t *sum, const int16_t *x, const int8_t *w,
                                const int32_t *bias, int32_t depth) {
#if AOT_DSP
    aot_s16_dsp_values(sum, (const int8_t *)(const void *)x, w, depth / 8, bias);
#else
    uint32_t acc[4];
    const int16_t *const end = x + depth;
    (void)memcpy(acc, bias, sizeof acc);
    for (; x != end; x += 2, w += 8) {
        const uint32_t pair = aot_s16_load(x);
        aot_dsp_add(acc, pair, aot_dsp_load(w), 1);
        aot_dsp_add(acc + 2, pair, aot_dsp_load(w + 4), 1);
    }
    (void)memcpy(sum, acc, sizeof acc);
#endif
}

AOT_INLINE void aot_s16_dsp_taps(int32_t *sum, const int16_t *const *at, int32_t offset,
                                 const int8_t *w, int32_t taps, const int32_t *bias) {
    uint32_t a = (uint32_t)bias[0], b = (uint32_t)bias[1], c = (uint32_t)bias[2];
    uint32_t d = (uint32_t)bias[3];
    for (; taps > 0; --taps, ++at, w += 4) {
        const int16_t *const x = *at + offset;
        const uint32_t word = aot_dsp_load(w), front = aot_s16_load(x), back = aot_s16_load(x + 2);
        const uint32_t even = aot_dsp_even(word), odd = aot_dsp_odd(word);
        AOT_S16_LOWS(a, front, even);
        AOT_S16_HIGHS(b, front, even);
        AOT_S16_LOWS(c, back, odd);
        AOT_S16_HIGHS(d, back, odd);
    }
    sum[0] = (int32_t)a;
    sum[1] = (int32_t)b;
    sum[2] = (int32_t)c;
    sum[3] = (int32_t)d;
}

#endif /* AOT_QSUMS_S16__DSP_H */
