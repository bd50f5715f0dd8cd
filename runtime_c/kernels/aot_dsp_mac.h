/* SPDX-License-Identifier: MIT-0 */
/* Sums of products of int8 quantised values with the DSP instructions of Armv7E-M and Armv8-M, and
 * the same in plain C.
 *
 * Activations are pairs of int16 in a word: of four quantised values k, k+1, k+2, k+3 (one word of
 * memory), SXTB16 gives the pair (k, k+2) and, rotated by 8, (k+1, k+3). Depths (numbers of
 * quantised values in a sum) are padded to multiples of 8, where the weights are 0.
 *
 * Weights: for every pair of quantised values two words, of the output channels (c, c+1) and (c+2,
 * c+3); bytes 0 and 2 of a word belong to its first channel, bytes 1 and 3 to its second. Narrow
 * weights: the half words are 256 * second + first, as they are an operand of SMLAD: the result is
 * 256 times the second sum plus the first, modulo 2^32, and only the first channel's need SXTB16.
 * That is right where each second sum is below 2^23. Wide weights: the bytes are the weights.
 *
 * Sums are given in blocks of four channels; a narrow block leaves those of second channels times
 * 256 (AOT_DSP_Q of them). The bias of a narrow block is [b0, 256 b1 + b0, b2, 256 b3 + b2].
 */
#ifndef AOT_DSP_MAC_H
#define AOT_DSP_MAC_H

#include <stdint.h>
#include <string.h>

#include "aot/port.h"

#if defined(__ARM_FEATURE_DSP) && defined(__ARM_ARCH_PROFILE) && defined(__GNUC__)
#if __ARM_ARCH_PROFILE == 'M' || __ARM_ARCH_PROFILE == 77
#define AOT_DSP 1
#endif
#endif
#ifndef AOT_DSP
#define AOT_DSP 0
#endif

#ifdef __ARM_FP
#define AOT_DSP_FPU 1
#else
#define AOT_DSP_FPU 0
#endif

/* Functions around the loops that matter, which are assembly: compiled for size. */
#if defined(__clang__)
#define AOT_DSP_SMALL __attribute__((minsize)) static AOT_NOINLINE AOT_UNUSED
#elif defined(__GNUC__)
#define AOT_DSP_SMALL __attribute__((optimize("Os"))) static AOT_NOINLINE AOT_UNUSED
#else
#define AOT_DSP_SMALL static AOT_NOINLINE AOT_UNUSED
#endif

#define AOT_DSP_Q(WIDE) ((WIDE) ? 0 : 8)

/* -- Single instructions ---------------------------------------------------------------------- */

/* Four quantised values at any address. */
AOT_INLINE uint32_t aot_dsp_load(const int8_t *x) {
#if AOT_DSP
    uint32_t v;
    (void)memcpy(&v, x, sizeof v);
    return v;
#else
    return (uint32_t)(uint8_t)x[0] | (uint32_t)(uint8_t)x[1] << 8 | (uint32_t)(uint8_t)x[2] << 16 |
           (uint32_t)(uint8_t)x[3] << 24;
#endif
}

/* Low half of a pair, high half of a pair. */
AOT_INLINE int32_t aot_dsp_lo(uint32_t v) {
    return (int16_t)(uint16_t)(v & 0xFFFFU);
}
AOT_INLINE int32_t aot_dsp_hi(uint32_t v) {
    return (int16_t)(uint16_t)(v >> 16);
}
AOT_INLINE uint32_t aot_dsp_pair(int32_t lo, int32_t hi) {
    return ((uint32_t)lo & 0xFFFFU) | (uint32_t)hi << 16;
}

/* Quantised values 0 and 2 of a word. */
AOT_INLINE uint32_t aot_dsp_even(uint32_t v) {
#if AOT_DSP
    uint32_t r;
    __asm__("sxtb16 %0,%1" : "=r"(r) : "r"(v));
    return r;
#else
    return aot_dsp_pair((int8_t)(uint8_t)(v & 0xFFU), (int8_t)(uint8_t)((v >> 16) & 0xFFU));
#endif
}

/* Quantised values 1 and 3 of a word. */
AOT_INLINE uint32_t aot_dsp_odd(uint32_t v) {
#if AOT_DSP
    uint32_t r;
    __asm__("sxtb16 %0,%1,ror #8" : "=r"(r) : "r"(v));
    return r;
#else
    return aot_dsp_even(v >> 8);
#endif
}

/* The low halves of a and b, the high halves of a and b. */
AOT_INLINE uint32_t aot_dsp_lows(uint32_t a, uint32_t b) {
#if AOT_DSP
    uint32_t r;
    __asm__("pkhbt %0,%1,%2,lsl #16" : "=r"(r) : "r"(a), "r"(b));
    return r;
#else
    return (a & 0xFFFFU) | b << 16;
#endif
}
AOT_INLINE uint32_t aot_dsp_highs(uint32_t a, uint32_t b) {
#if AOT_DSP
    uint32_t r;
    __asm__("pkhtb %0,%2,%1,asr #16" : "=r"(r) : "r"(a), "r"(b));
    return r;
#else
    return a >> 16 | (b & 0xFFFF0000U);
#endif
}

/* -- Blocks ----------------------------------------------------------------------------------- */

#if AOT_DSP

/* Register use: r0 and r3 a pair of each pixel, r1 x, r2 w, r12 and lr weights, r4-r7 the sums of
 * the first pixel, r8-r11 of the second. */
#define AOT_DSP_NARROW(STEP)                                                                       \
    "ldrd r12,lr,[r2],#8\n"                                                                        \
    "ldrd r0,r3,[r1],#" STEP "\n"                                                                  \
    "smlad r5,r12,r0,r5\n"                                                                         \
    "smlad r9,r12,r3,r9\n"                                                                         \
    "sxtb16 r12,r12\n"                                                                             \
    "smlad r7,lr,r0,r7\n"                                                                          \
    "smlad r11,lr,r3,r11\n"                                                                        \
    "sxtb16 lr,lr\n"                                                                               \
    "smlad r4,r12,r0,r4\n"                                                                         \
    "smlad r8,r12,r3,r8\n"                                                                         \
    "smlad r6,lr,r0,r6\n"                                                                          \
    "smlad r10,lr,r3,r10\n"

#define AOT_DSP_WIDE(STEP)                                                                         \
    "ldrd r0,r3,[r1],#" STEP "\n"                                                                  \
    "ldr r12,[r2],#4\n"                                                                            \
    "sxtb16 lr,r12,ror #8\n"                                                                       \
    "sxtb16 r12,r12\n"                                                                             \
    "smlad r5,lr,r0,r5\n"                                                                          \
    "smlad r9,lr,r3,r9\n"                                                                          \
    "smlad r4,r12,r0,r4\n"                                                                         \
    "smlad r8,r12,r3,r8\n"                                                                         \
    "ldr r12,[r2],#4\n"                                                                            \
    "sxtb16 lr,r12,ror #8\n"                                                                       \
    "sxtb16 r12,r12\n"                                                                             \
    "smlad r7,lr,r0,r7\n"                                                                          \
    "smlad r11,lr,r3,r11\n"                                                                        \
    "smlad r6,r12,r0,r6\n"                                                                         \
    "smlad r10,r12,r3,r10\n"

/* What a call of any function may change: compilers look into static functions. */
#define AOT_DSP_CLOBBERS "r0", "r1", "r2", "r3", "r12", "cc", "memory"

#define AOT_DSP_BEGIN                                                                              \
    "push {r0,r4-r11,lr}\n"                                                                        \
    "ldm r3,{r4-r7}\n"                                                                             \
    "ldm r3,{r8-r11}\n"                                                                            \
    "1:\n"
#define AOT_DSP_LOOP                                                                               \
    "ldr r0,[sp,#40]\n"                                                                            \
    "cmp r1,r0\n"                                                                                  \
    "blo 1b\n"                                                                                     \
    "ldr r0,[sp],#4\n"
#define AOT_DSP_SPLIT                                                                              \
    "sub r5,r5,r4\n"                                                                               \
    "sub r7,r7,r6\n"                                                                               \
    "sub r9,r9,r8\n"                                                                               \
    "sub r11,r11,r10\n"
#define AOT_DSP_END                                                                                \
    "stm r0,{r4-r11}\n"                                                                            \
    "pop {r4-r11,pc}\n"
/* Pairs of a run of the loop: four, or of two input channels the three columns each. */
#define AOT_DSP_FOUR(M) M("8") M("8") M("8") M("8")
#define AOT_DSP_SIX(M) M("4") M("4") M("8") M("4") M("4") M("8")

#define AOT_DSP_BLOCK(name, BODY, SPLIT)                                                           \
    __attribute__((naked)) static AOT_NOINLINE AOT_UNUSED void name(                               \
        AOT_UNUSED int32_t *sum, AOT_UNUSED const uint32_t *x, AOT_UNUSED const int8_t *w,         \
        AOT_UNUSED const int32_t *bias, AOT_UNUSED const uint32_t *end) {                          \
        __asm__ volatile(AOT_DSP_BEGIN BODY AOT_DSP_LOOP SPLIT AOT_DSP_END ::: AOT_DSP_CLOBBERS);  \
    }

AOT_DSP_BLOCK(aot_dsp_narrow, AOT_DSP_FOUR(AOT_DSP_NARROW), AOT_DSP_SPLIT)
AOT_DSP_BLOCK(aot_dsp_wide, AOT_DSP_FOUR(AOT_DSP_WIDE), "")
AOT_DSP_BLOCK(aot_dsp_narrow_row, AOT_DSP_SIX(AOT_DSP_NARROW), AOT_DSP_SPLIT)
AOT_DSP_BLOCK(aot_dsp_wide_row, AOT_DSP_SIX(AOT_DSP_WIDE), "")

/* One row of quantised values, four channels: r1 quantised values, r2 w, r3 groups of eight
 * quantised values, r4-r7 the sums. */
#define AOT_DSP_NARROW_VALUES                                                                      \
    "ldr r12,[r1],#4\n"                                                                            \
    "ldm r2!,{r8-r11}\n"                                                                           \
    "sxtb16 lr,r12\n"                                                                              \
    "sxtb16 r12,r12,ror #8\n"                                                                      \
    "smlad r5,r8,lr,r5\n"                                                                          \
    "smlad r7,r9,lr,r7\n"                                                                          \
    "smlad r5,r10,r12,r5\n"                                                                        \
    "smlad r7,r11,r12,r7\n"                                                                        \
    "sxtb16 r8,r8\n"                                                                               \
    "sxtb16 r9,r9\n"                                                                               \
    "sxtb16 r10,r10\n"                                                                             \
    "sxtb16 r11,r11\n"                                                                             \
    "smlad r4,r8,lr,r4\n"                                                                          \
    "smlad r6,r9,lr,r6\n"                                                                          \
    "smlad r4,r10,r12,r4\n"                                                                        \
    "smlad r6,r11,r12,r6\n"

#define AOT_DSP_WIDE_WORD(W, X, FIRST, SECOND)                                                     \
    "sxtb16 r0," W ",ror #8\n"                                                                     \
    "sxtb16 " W "," W "\n"                                                                         \
    "smlad " SECOND ",r0," X "," SECOND "\n"                                                       \
    "smlad " FIRST "," W "," X "," FIRST "\n"

#define AOT_DSP_WIDE_VALUES                                                                        \
    "ldr r12,[r1],#4\n"                                                                            \
    "ldm r2!,{r8-r11}\n"                                                                           \
    "sxtb16 lr,r12\n"                                                                              \
    "sxtb16 r12,r12,ror #8\n" AOT_DSP_WIDE_WORD("r8", "lr", "r4", "r5")                            \
        AOT_DSP_WIDE_WORD("r9", "lr", "r6", "r7") AOT_DSP_WIDE_WORD("r10", "r12", "r4", "r5")      \
            AOT_DSP_WIDE_WORD("r11", "r12", "r6", "r7")

#define AOT_DSP_VALUES(name, BODY, SPLIT)                                                          \
    __attribute__((naked)) static AOT_NOINLINE AOT_UNUSED void name(                               \
        AOT_UNUSED int32_t *sum, AOT_UNUSED const int8_t *x, AOT_UNUSED const int8_t *w,           \
        AOT_UNUSED int32_t eights, AOT_UNUSED const int32_t *bias) {                               \
        __asm__ volatile("push {r0,r4-r11,lr}\n"                                                   \
                         "ldr r12,[sp,#40]\n"                                                      \
                         "ldm r12,{r4-r7}\n"                                                       \
                         "lsl r3,r3,#1\n1:\n" BODY "subs r3,r3,#1\n"                               \
                         "bne 1b\n"                                                                \
                         "ldr r0,[sp],#4\n" SPLIT "stm r0,{r4-r7}\n"                               \
                         "pop {r4-r11,pc}\n" ::                                                    \
                             : AOT_DSP_CLOBBERS);                                                  \
    }

AOT_DSP_VALUES(aot_dsp_narrow_values, AOT_DSP_NARROW_VALUES, "sub r5,r5,r4\nsub r7,r7,r6\n")
AOT_DSP_VALUES(aot_dsp_wide_values, AOT_DSP_WIDE_VALUES, "")

#endif

/* Adds the products of one pair with one word of weights, of two channels. */
AOT_INLINE void aot_dsp_add(uint32_t *sum, uint32_t x, uint32_t w, int WIDE) {
    const uint32_t first = aot_dsp_even(w), second = WIDE ? aot_dsp_odd(w) : w;
    sum[0] += (uint32_t)(aot_dsp_lo(first) * aot_dsp_lo(x));
    sum[0] += (uint32_t)(aot_dsp_hi(first) * aot_dsp_hi(x));
    sum[1] += (uint32_t)(aot_dsp_lo(second) * aot_dsp_lo(x));
    sum[1] += (uint32_t)(aot_dsp_hi(second) * aot_dsp_hi(x));
}

/* Stores `n` sums, those of second channels without the first ones. */
AOT_INLINE void aot_dsp_split(int32_t *sum, uint32_t *acc, int32_t n, int WIDE) {
    int32_t i;
    for (i = 0; i < n; i += 2) {
        acc[i + 1] -= WIDE ? 0U : acc[i];
    }
    (void)memcpy(sum, acc, (size_t)n * sizeof *acc);
}

AOT_INLINE void aot_dsp_block(int32_t *sum, const uint32_t *x, const int8_t *w, const int32_t *bias,
                              const uint32_t *end, int ROW, int WIDE) {
    uint32_t acc[8];
    int32_t tap = 0, pixel;
    (void)memcpy(acc, bias, 16);
    (void)memcpy(acc + 4, bias, 16);
    while (x < end) {
        for (pixel = 0; pixel < 2; ++pixel) {
            aot_dsp_add(acc + 4 * pixel, x[pixel], aot_dsp_load(w), WIDE);
            aot_dsp_add(acc + 4 * pixel + 2, x[pixel], aot_dsp_load(w + 4), WIDE);
        }
        tap = tap == 2 ? 0 : tap + 1;
        x += ROW && tap != 0 ? 1 : 2;
        w += 8;
    }
    aot_dsp_split(sum, acc, 8, WIDE);
}

AOT_INLINE void aot_dsp_codes_block(int32_t *sum, const int8_t *x, const int8_t *w, int32_t eights,
                                    const int32_t *bias, int WIDE) {
    uint32_t acc[4];
    int32_t i;
    (void)memcpy(acc, bias, sizeof acc);
    for (i = 0; i < 2 * eights; ++i, x += 4, w += 16) {
        const uint32_t values = aot_dsp_load(x);
        aot_dsp_add(acc, aot_dsp_even(values), aot_dsp_load(w), WIDE);
        aot_dsp_add(acc + 2, aot_dsp_even(values), aot_dsp_load(w + 4), WIDE);
        aot_dsp_add(acc, aot_dsp_odd(values), aot_dsp_load(w + 8), WIDE);
        aot_dsp_add(acc + 2, aot_dsp_odd(values), aot_dsp_load(w + 12), WIDE);
    }
    aot_dsp_split(sum, acc, 4, WIDE);
}

/* Two pixels, four channels. x: up to `end`, words of the first and the second pixel in turn. */
AOT_INLINE void aot_dsp_2x4(int32_t *sum, const uint32_t *x, const int8_t *w, const int32_t *bias,
                            const uint32_t *end, int WIDE) {
#if AOT_DSP
    if (WIDE != 0) {
        aot_dsp_wide(sum, x, w, bias, end);
    } else {
        aot_dsp_narrow(sum, x, w, bias, end);
    }
#else
    aot_dsp_block(sum, x, w, bias, end, 0, WIDE);
#endif
}

/* Two neighbouring pixels of windows three columns wide, four channels. x: up to `end`, the words
 * of the four columns that both read; the first pixel's are columns 0, 1, 2, the second's 1, 2,
 * 3. */
AOT_INLINE void aot_dsp_row_2x4(int32_t *sum, const uint32_t *x, const int8_t *w,
                                const int32_t *bias, const uint32_t *end, int WIDE) {
#if AOT_DSP
    if (WIDE != 0) {
        aot_dsp_wide_row(sum, x, w, bias, end);
    } else {
        aot_dsp_narrow_row(sum, x, w, bias, end);
    }
#else
    aot_dsp_block(sum, x, w, bias, end, 1, WIDE);
#endif
}

/* One row of 8 * `eights` quantised values, four channels. */
AOT_INLINE void aot_dsp_1x4(int32_t *sum, const int8_t *x, const int8_t *w, int32_t eights,
                            const int32_t *bias, int WIDE) {
#if AOT_DSP
    if (WIDE != 0) {
        aot_dsp_wide_values(sum, x, w, eights, bias);
    } else {
        aot_dsp_narrow_values(sum, x, w, eights, bias);
    }
#else
    aot_dsp_codes_block(sum, x, w, eights, bias, WIDE);
#endif
}

#endif /* AOT_DSP_MAC_H */
