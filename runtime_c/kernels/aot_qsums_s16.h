/* SPDX-License-Identifier: MIT-0 */
/* Sums of products of int16 quantised values and int8 weights, four output channels at a time, and
 * quantised values of 16 bits made of them.
 *
 * UNIT is the instruction set: each has an order of the weights of its own and the same in C.
 *
 * UNIT 0, plain C: w [oc / 4][depth][4].
 * UNIT 1, DSP instructions of Armv7E-M and Armv8-M: w are the words of wide weights in
 *         aot_dsp_mac.h, of pairs (k, k+1); depths are multiples of 8. Windows of two pixels are in
 *         memory pair by pair in turn.
 * UNIT 2, Arm's vector extension: w [oc / 4][depth / 8][4][8].
 *
 * Weights are zero past the last channel and past the last quantised value, where x may hold
 * anything. Sums are taken modulo 2^32: the compiler has proven that they fit, bias included.
 */
#ifndef AOT_QSUMS_S16_H
#define AOT_QSUMS_S16_H

#include "aot_qsums_s16__dsp.h"
#include "aot_qsums_s16__mve.h"

#define AOT_S16_DSP 1
#define AOT_S16_MVE 2

/* The least multiple of what UNIT multiplies at once that is not below n. */
AOT_INLINE int32_t aot_s16_depth(int32_t n, int UNIT) {
    return UNIT == 0 ? n : (n + 7) & ~7;
}

/* What all results of a call have in common. */
typedef struct {
    const int32_t *mult;
    const int8_t *shift;
    int32_t zero, lo, hi;
} aot_s16_out;

/* -- Sums ------------------------------------------------------------------------------------- */

/* One row of quantised values. */
AOT_INLINE void aot_s16_plain(int32_t *sum, const int16_t *x, const int8_t *w, const int32_t *bias,
                              int32_t depth) {
    int32_t a = bias[0], b = bias[1], c = bias[2], d = bias[3];
    const int16_t *const end = x + depth;
    for (; x != end; ++x, w += 4) {
        const int32_t v = *x;
        a += v * w[0];
        b += v * w[1];
        c += v * w[2];
        d += v * w[3];
    }
    sum[0] = a;
    sum[1] = b;
    sum[2] = c;
    sum[3] = d;
}

/* One row, four channels. */
AOT_INLINE void aot_s16_row(int32_t *sum, const int16_t *x, const int8_t *w, const int32_t *bias,
                            int32_t depth, int UNIT) {
    if (UNIT == AOT_S16_DSP) {
        aot_s16_dsp_row(sum, x, w, bias, depth);
    } else if (UNIT == AOT_S16_MVE) {
        aot_s16_mve_rows(sum, x, NULL, w, bias, depth);
    } else {
        aot_s16_plain(sum, x, w, bias, depth);
    }
}

/* Two pixels, four channels each; for UNIT 1 both are at x0. */
AOT_INLINE void aot_s16_pair(int32_t *sum, const int16_t *x0, const int16_t *x1, const int8_t *w,
                             const int32_t *bias, int32_t depth, int UNIT) {
    if (UNIT == AOT_S16_DSP) {
        aot_dsp_2x4(sum, (const uint32_t *)(const void *)x0, w, bias,
                    (const uint32_t *)(const void *)(x0 + 2 * depth), 1);
    } else if (UNIT == AOT_S16_MVE) {
        aot_s16_mve_rows(sum, x0, x1, w, bias, depth);
    } else {
        aot_s16_plain(sum, x0, w, bias, depth);
        aot_s16_plain(sum + 4, x1, w, bias, depth);
    }
}

/* Four channels of a depthwise convolution: the taps' quantised values are `offset` elements behind
 * their pointers; w [taps][4], for UNIT 1 channels 0, 2, 1, 3. */
AOT_INLINE void aot_s16_taps(int32_t *sum, const int16_t *const *at, int32_t offset,
                             const int8_t *w, int32_t taps, const int32_t *bias, int UNIT) {
    if (UNIT == AOT_S16_DSP) {
        aot_s16_dsp_taps(sum, at, offset, w, taps, bias);
    } else if (UNIT == AOT_S16_MVE) {
        aot_s16_mve_taps(sum, at, offset, w, taps, bias);
    } else {
        int32_t a = bias[0], b = bias[1], c = bias[2], d = bias[3];
        for (; taps > 0; --taps, ++at, w += 4) {
            const int16_t *const x = *at + offset;
            a += x[0] * w[0];
            b += x[1] * w[1];
            c += x[2] * w[2];
            d += x[3] * w[3];
        }
        sum[0] = a;
        sum[1] = b;
        sum[2] = c;
        sum[3] = d;
    }
}

/* -- Quantised values ------------------------------------------------------------------------- */

AOT_INLINE int16_t aot_s16_value(int32_t sum, int32_t mult, int32_t shift, const aot_s16_out *o,
                                 int RQ, int CLIP) {
    const int32_t v = aot_requant(sum, mult, shift, RQ) + o->zero;
    return (int16_t)aot_requant_clamp(v, CLIP ? o->lo : -32768, CLIP ? o->hi : 32767);
}

/* n <= 4 channels from `channel` on of one pixel, or with y1 of two. CLIP 0 if lo and hi are those
 * of int16. */
AOT_INLINE void aot_s16_store(int16_t *y0, int16_t *y1, const int32_t *sum, int32_t channel,
                              int32_t n, const aot_s16_out *o, int RQ, int PC, int CLIP, int UNIT) {
    int32_t j;
    if (UNIT == AOT_S16_MVE && AOT_QMVE_VECTOR(RQ) && n == 4) {
        aot_s16_mve_store(y0, sum, o->mult + (PC ? channel : 0),
                          RQ == 0 ? NULL : o->shift + (PC ? channel : 0), o->zero, o->lo, o->hi, RQ,
                          PC);
        if (y1 != NULL) {
            aot_s16_mve_store(y1, sum + 4, o->mult + (PC ? channel : 0),
                              RQ == 0 ? NULL : o->shift + (PC ? channel : 0), o->zero, o->lo, o->hi,
                              RQ, PC);
        }
        return;
    }
    for (j = 0; j < n; ++j) {
        const int32_t c = PC ? channel + j : 0, mult = o->mult[c];
        const int32_t shift = RQ == 0 ? 0 : o->shift[c];
        y0[j] = aot_s16_value(sum[j], mult, shift, o, RQ, CLIP);
        if (y1 != NULL) {
            y1[j] = aot_s16_value(sum[4 + j], mult, shift, o, RQ, CLIP);
        }
    }
}

#endif /* AOT_QSUMS_S16_H */
