/* SPDX-License-Identifier: MIT-0 */
/* Depthwise convolution of int8 codes for Cortex-M4, M7 and M33: one filter per channel, the number
 * of channels a multiple of 4.
 *
 * x [n][ih][iw][c], y [n][oh][ow][c], see aot_qconv_s8_params.h. w [c/4][kh][kw][4]; bias [c].
 *
 * KIND 1: 3x3 windows, strides and dilations 1. Two rows of up to AOT_QDW_DSP_TILE results of four
 * channels at a time, from their four rows of codes as pairs of int16 (rows 0 and 2, rows 1 and 3)
 * in scratch, AOT_QDW_DSP_SCRATCH bytes. KIND 0: any window, no scratch. w, bias and scratch are
 * aligned to 4 bytes. y must not overlap x.
 */
#ifndef AOT_QDWCONV_S8__DSP_H
#define AOT_QDWCONV_S8__DSP_H

#include "aot_dsp_out.h"
#include "aot_qconv_s8_params.h"

typedef aot_qdwconv_s8_params aot_qdwconv_s8__dsp_params;

#define AOT_QDW_DSP_TILE 8
#define AOT_QDW_DSP_WORDS (2 * (AOT_QDW_DSP_TILE + 2)) /* of a channel's pairs */
#define AOT_QDW_DSP_SUMS (4 * AOT_QDW_DSP_WORDS)       /* words before the sums */
#define AOT_QDW_DSP_SCRATCH (4 * (AOT_QDW_DSP_SUMS + 2 * AOT_QDW_DSP_TILE + 24))

/* -- Rows of 3x3 windows ---------------------------------------------------------------------- */

#if AOT_DSP

/* r1: pairs of a column, rows (0, 2) and (1, 3). r4-r6: weights of rows 0 and 2, r7-r9: of row 1,
 * one word per column. r10-r12, lr: sums of rows 0 and 1 of the first and of the second result. */
#define AOT_QDW_DSP_FIRST(A, B, W, V)                                                              \
    "smuad " A ", " W ", r2\n"                                                                     \
    "smuad " B ", " W ", r3\n"                                                                     \
    "smlabb " A ", " V ", r3, " A "\n"                                                             \
    "smlabt " B ", " V ", r2, " B "\n"
#define AOT_QDW_DSP_NEXT(A, B, W, V)                                                               \
    "smlad " A ", " W ", r2, " A "\n"                                                              \
    "smlad " B ", " W ", r3, " B "\n"                                                              \
    "smlabb " A ", " V ", r3, " A "\n"                                                             \
    "smlabt " B ", " V ", r2, " B "\n"

/* sum: up to `end`, four per two results; x two words per column; w six words. */
__attribute__((naked)) static AOT_NOINLINE AOT_UNUSED void
aot_qdw_dsp_rows(AOT_UNUSED int32_t *sum, AOT_UNUSED const uint32_t *x,
                 AOT_UNUSED const uint32_t *w, AOT_UNUSED const int32_t *end) {
    __asm__ volatile(
        "push {r3-r11, lr}\n"
        "ldm r2, {r4-r9}\n"
        "1:\n"
        "ldrd r2, r3, [r1], #16\n"                                             /* column 0 */
        AOT_QDW_DSP_FIRST("r10", "r11", "r4", "r7") "ldrd r2, r3, [r1, #-8]\n" /* column 1 */
        AOT_QDW_DSP_NEXT("r10", "r11", "r5", "r8")
            AOT_QDW_DSP_FIRST("r12", "lr", "r4", "r7") "ldrd r2, r3, [r1]\n" /* column 2 */
        AOT_QDW_DSP_NEXT("r10", "r11", "r6", "r9")
            AOT_QDW_DSP_NEXT("r12", "lr", "r5", "r8") "ldrd r2, r3, [r1, #8]\n" /* column 3 */
        AOT_QDW_DSP_NEXT("r12", "lr", "r6", "r9") "stm r0!, {r10-r12, lr}\n"
                                                  "ldr r2, [sp]\n"
                                                  "cmp r0, r2\n"
                                                  "blo 1b\n"
                                                  "pop {r3-r11, pc}\n" ::
                                                      : AOT_DSP_CLOBBERS);
}

#else

static AOT_UNUSED void aot_qdw_dsp_rows(int32_t *sum, const uint32_t *x, const uint32_t *w,
                                        const int32_t *end) {
    for (; sum < end; sum += 2, x += 2) {
        int32_t a = 0, b = 0, k;
        for (k = 0; k < 3; ++k) {
            const uint32_t even = x[2 * k], odd = x[2 * k + 1];
            const int32_t w0 = aot_dsp_lo(w[k]), w2 = aot_dsp_hi(w[k]), w1 = aot_dsp_lo(w[3 + k]);
            a += w0 * aot_dsp_lo(even) + w1 * aot_dsp_lo(odd) + w2 * aot_dsp_hi(even);
            b += w0 * aot_dsp_lo(odd) + w1 * aot_dsp_hi(even) + w2 * aot_dsp_hi(odd);
        }
        sum[0] = a;
        sum[1] = b;
    }
}

#endif

/* The pairs of `cols` columns of four channels; r: the four rows at the first channel of column ix,
 * NULL outside the image. */
AOT_INLINE void aot_qdw_dsp_pairs(uint32_t *d, const int8_t *const *r, int32_t ix, int32_t cols,
                                  const aot_qconv_s8_params *p) {
    const uint32_t zero = ((uint32_t)p->x_zero & 0xFFU) * 0x01010101U;
    int32_t i;
    const int8_t *r0 = r[0], *r1 = r[1], *r2 = r[2], *r3 = r[3];
    for (i = 0; i < cols; ++i, ++ix, d += 2) {
        const int inside = ix >= 0 && ix < p->iw;
        const uint32_t a = inside && r0 != NULL ? aot_dsp_load(r0 + ix * p->ic) : zero;
        const uint32_t b = inside && r1 != NULL ? aot_dsp_load(r1 + ix * p->ic) : zero;
        const uint32_t c = inside && r2 != NULL ? aot_dsp_load(r2 + ix * p->ic) : zero;
        const uint32_t e = inside && r3 != NULL ? aot_dsp_load(r3 + ix * p->ic) : zero;
        const uint32_t a0 = aot_dsp_even(a), a1 = aot_dsp_odd(a);
        const uint32_t b0 = aot_dsp_even(b), b1 = aot_dsp_odd(b);
        const uint32_t c0 = aot_dsp_even(c), c1 = aot_dsp_odd(c);
        const uint32_t e0 = aot_dsp_even(e), e1 = aot_dsp_odd(e);
        d[0] = aot_dsp_lows(a0, c0);
        d[1] = aot_dsp_lows(b0, e0);
        d[AOT_QDW_DSP_WORDS] = aot_dsp_lows(a1, c1);
        d[AOT_QDW_DSP_WORDS + 1] = aot_dsp_lows(b1, e1);
        d[2 * AOT_QDW_DSP_WORDS] = aot_dsp_highs(a0, c0);
        d[2 * AOT_QDW_DSP_WORDS + 1] = aot_dsp_highs(b0, e0);
        d[3 * AOT_QDW_DSP_WORDS] = aot_dsp_highs(a1, c1);
        d[3 * AOT_QDW_DSP_WORDS + 1] = aot_dsp_highs(b1, e1);
    }
}

/* The codes of `n` results of one channel in two rows. */
AOT_INLINE void aot_qdw_dsp_store(int8_t *y0, int8_t *y1, const int32_t *sum, int32_t n,
                                  int32_t channel, int32_t step, const int32_t *bias,
                                  const aot_dsp_out *o, int RQ, int PC, int CLIP) {
    const int32_t *const end = sum + 2 * n;
    const int32_t b = bias[channel];
    if (o->fast) {
        const aot_dsp_factor f = aot_dsp_factor_of(o, channel, RQ, PC);
        int32_t at = 0;
        for (; sum != end; sum += 2, at += step) {
            const int32_t second = aot_dsp_code(sum[1] + b, f, o, 0, RQ, CLIP);
            y1[at] = (int8_t)second;
            y0[at] = (int8_t)aot_dsp_code(sum[0] + b, f, o, 0, RQ, CLIP);
        }
        return;
    }
    for (; sum != end; sum += 2, y0 += step, y1 += step) {
        const int32_t c = PC ? channel : 0, shift = RQ == 0 ? 0 : o->shift[c];
        *y1 = (int8_t)aot_dsp_slow(sum[1] + b, o->mult[c], shift, o, RQ);
        *y0 = (int8_t)aot_dsp_slow(sum[0] + b, o->mult[c], shift, o, RQ);
    }
}

/* Rows oy and oy + 1 of four channels; without the second, y1 is y0. x, y: at the group's first
 * channel of the image. */
AOT_INLINE void aot_qdw_dsp_two_rows(int8_t *y0, int8_t *y1, const int8_t *x, const int32_t *bias,
                                     uint32_t *scratch, const aot_qconv_s8_params *p,
                                     const aot_dsp_out *o, int32_t oy, int32_t channel, int RQ,
                                     int PC, int CLIP) {
    int32_t *const sum = (int32_t *)(scratch + AOT_QDW_DSP_SUMS);
    const uint32_t *const w = scratch + AOT_QDW_DSP_SUMS + 2 * AOT_QDW_DSP_TILE;
    const int8_t *rows[4];
    int32_t i, ox;
    for (i = 0; i < 4; ++i) {
        const int32_t iy = oy - p->pt + i;
        rows[i] = iy < 0 || iy >= p->ih ? NULL : x + (iy - p->x_row0) * p->iw * p->ic;
    }
    for (ox = 0; ox < p->ow; ox += AOT_QDW_DSP_TILE) {
        const int32_t n = p->ow - ox < AOT_QDW_DSP_TILE ? p->ow - ox : AOT_QDW_DSP_TILE;
        aot_qdw_dsp_pairs(scratch, rows, ox - p->pl, n + 2, p);
        for (i = 0; i < 4; ++i) {
            aot_qdw_dsp_rows(sum, scratch + i * AOT_QDW_DSP_WORDS, w + 6 * i,
                             sum + 2 * ((n + 1) & ~1));
            aot_qdw_dsp_store(y0 + ox * p->ic + i, y1 + ox * p->ic + i, sum, n, channel + i, p->ic,
                              bias, o, RQ, PC, CLIP);
        }
    }
}

/* Weights [3][3][4] as aot_qdw_dsp_rows reads them, for each of four channels. */
AOT_INLINE void aot_qdw_dsp_weights(uint32_t *d, const int8_t *w) {
    int32_t i, k;
    for (i = 0; i < 4; ++i, d += 6, ++w) {
        for (k = 0; k < 3; ++k) {
            d[k] = aot_dsp_lows((uint32_t)(int32_t)w[4 * k], (uint32_t)(int32_t)w[4 * (k + 6)]);
            d[3 + k] = (uint32_t)(int32_t)w[4 * (k + 3)];
        }
    }
}

/* -- Any window ------------------------------------------------------------------------------- */

/* One pixel of four channels; x: at the group's first channel of the image. */
AOT_INLINE void aot_qdw_dsp_pixel(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                                  const aot_qconv_s8_params *p, const aot_dsp_out *o, int32_t oy,
                                  int32_t ox, int32_t channel, int RQ, int PC, int CLIP) {
    const int32_t iy = oy * p->sh - p->pt, ix = ox * p->sw - p->pl;
    const uint32_t zero = ((uint32_t)p->x_zero & 0xFFU) * 0x01010101U;
    int32_t sum[4], ky, kx;
    int32_t s0 = bias[channel], s1 = bias[channel + 1];
    int32_t s2 = bias[channel + 2], s3 = bias[channel + 3];
    for (ky = 0; ky < p->kh; ++ky) {
        const int32_t row = iy + ky * p->dh;
        const int inside = row >= 0 && row < p->ih;
        const int8_t *at = x + ((row - p->x_row0) * p->iw + ix) * p->ic;
        for (kx = 0; kx < p->kw; ++kx, w += 4, at += p->dw * p->ic) {
            const int32_t col = ix + kx * p->dw;
            const uint32_t v = inside && col >= 0 && col < p->iw ? aot_dsp_load(at) : zero;
            const uint32_t u = aot_dsp_load(w);
            const uint32_t even = aot_dsp_even(v), odd = aot_dsp_odd(v);
            const uint32_t w02 = aot_dsp_even(u), w13 = aot_dsp_odd(u);
            s0 = aot_dsp_mla_low(s0, even, w02);
            s1 = aot_dsp_mla_low(s1, odd, w13);
            s2 = aot_dsp_mla_high(s2, even, w02);
            s3 = aot_dsp_mla_high(s3, odd, w13);
        }
    }
    sum[0] = s0;
    sum[1] = s1;
    sum[2] = s2;
    sum[3] = s3;
    aot_dsp_store(&y, 1, sum, channel, 4, o, RQ, PC, CLIP, 1);
}

/* Instance: KIND, see above; CLIP 0 if lo and hi are -128 and 127. */
AOT_INLINE void aot_qdwconv_s8__dsp(int8_t *y, const int8_t *x, const int8_t *w,
                                    const int32_t *bias, const int32_t *mult, const int8_t *shift,
                                    void *scratch, const aot_qdwconv_s8__dsp_params *p, int RQ,
                                    int PC, int KIND, int CLIP) {
    uint32_t *const space = (uint32_t *)scratch;
    const int32_t row = p->ow * p->ic;
    aot_dsp_out o;
    int32_t image, channel, oy, ox;
    aot_dsp_out_init(&o, mult, shift, p->oc, p->y_zero, p->lo, p->hi, RQ, PC);
    for (image = 0; image < p->n; ++image) {
        for (channel = 0; channel < p->ic; channel += 4) {
            const int8_t *in = x + image * p->ih * p->iw * p->ic + channel;
            const int8_t *weights = w + channel * p->kh * p->kw;
            int8_t *out = y + (image * p->oh + p->y0 - p->y_row0) * row + channel;
            if (KIND == 1) {
                aot_qdw_dsp_weights(space + AOT_QDW_DSP_SUMS + 2 * AOT_QDW_DSP_TILE, weights);
                for (oy = p->y0; oy < p->y1; oy += 2, out += 2 * row) {
                    aot_qdw_dsp_two_rows(out, oy + 1 < p->y1 ? out + row : out, in, bias, space, p,
                                         &o, oy, channel, RQ, PC, CLIP);
                }
                continue;
            }
            for (oy = p->y0; oy < p->y1; ++oy) {
                for (ox = 0; ox < p->ow; ++ox, out += p->ic) {
                    aot_qdw_dsp_pixel(out, in, weights, bias, p, &o, oy, ox, channel, RQ, PC, CLIP);
                }
            }
        }
    }
}

#endif /* AOT_QDWCONV_S8__DSP_H */
