/* SPDX-License-Identifier: MIT-0 */
/* Depthwise convolution of int8 quantised values for Cortex-M4, M7 and M33: one filter per channel,
 * the number of channels a multiple of 4.
 *
 * x [n][ih][iw][c], y [n][oh][ow][c], see aot_qconv_s8_params.h. w [c/4][kh][kw][4]; bias [c].
 *
 * KIND 1: 3x3 windows, strides and dilations 1: two rows (one, where rows are apart) of up to
 * AOT_QDW_DSP_TILE results of four channels at a time, from their four rows of quantised values as
 * pairs of int16 (rows 0 and 2, rows 1 and 3) in scratch, AOT_QDW_DSP_SCRATCH bytes. KIND 2: the
 * same with strides 2, one row of half as many results. KIND 0: any window; scratch 4 kh kw + c
 * rounded up to 4. w, bias and scratch are aligned to 4 bytes. y must not overlap x.
 */
#ifndef AOT_QDWCONV_S8__DSP_H
#define AOT_QDWCONV_S8__DSP_H

#include "aot_dsp_out.h"
#include "aot_qconv_s8_params.h"

typedef aot_qdwconv_s8_params aot_qdwconv_s8__dsp_params;

#define AOT_QDW_DSP_ROWS (AOT_ROW_BATCH > 1 ? 2 : 1) /* made at a time with KIND 1 */
#define AOT_QDW_DSP_TILE 8
#define AOT_QDW_DSP_WORDS (2 * (AOT_QDW_DSP_TILE + 2)) /* of a channel's pairs */
#define AOT_QDW_DSP_SUMS (4 * AOT_QDW_DSP_WORDS)       /* words before the sums */
#define AOT_QDW_DSP_WEIGHTS                                                                        \
    (AOT_QDW_DSP_SUMS + 2 * AOT_QDW_DSP_TILE) /* words before the weights                          \
                                               */
#define AOT_QDW_DSP_SCRATCH (4 * (AOT_QDW_DSP_WEIGHTS + 24))

/* -- Rows of 3x3 windows ---------------------------------------------------------------------- */

#if AOT_DSP

/* r1: pairs of a column, rows (0, 2) and (1, 3). r4-r6: weights of rows 0 and 2, r7-r9: of row 1,
 * one word per column. r10-r12, lr: sums of rows 0 and 1 of the first and of the second result. */
#define AOT_QDW_DSP_FIRST(A, B, W, V)                                                              \
    "smuad " A "," W ",r2\n"                                                                       \
    "smuad " B "," W ",r3\n"                                                                       \
    "smlabb " A "," V ",r3," A "\n"                                                                \
    "smlabt " B "," V ",r2," B "\n"
#define AOT_QDW_DSP_NEXT(A, B, W, V)                                                               \
    "smlad " A "," W ",r2," A "\n"                                                                 \
    "smlad " B "," W ",r3," B "\n"                                                                 \
    "smlabb " A "," V ",r3," A "\n"                                                                \
    "smlabt " B "," V ",r2," B "\n"

#define AOT_QDW_DSP_TWO_ROWS                                                                       \
    "ldrd r2,r3,[r1],#16\n"                                                 /* column 0 */         \
        AOT_QDW_DSP_FIRST("r10", "r11", "r4", "r7") "ldrd r2,r3,[r1,#-8]\n" /* column 1 */         \
        AOT_QDW_DSP_NEXT("r10", "r11", "r5", "r8")                                                 \
            AOT_QDW_DSP_FIRST("r12", "lr", "r4", "r7") "ldrd r2,r3,[r1]\n" /* column 2 */          \
        AOT_QDW_DSP_NEXT("r10", "r11", "r6", "r9")                                                 \
            AOT_QDW_DSP_NEXT("r12", "lr", "r5", "r8") "ldrd r2,r3,[r1,#8]\n" /* column 3 */        \
        AOT_QDW_DSP_NEXT("r12", "lr", "r6", "r9") "stm r0!,{r10-r12,lr}\n"

/* The same at stride 2: one row. */
#define AOT_QDW_DSP_HALF(A, W, V)                                                                  \
    "smlad " A "," W ",r2," A "\n"                                                                 \
    "smlabb " A "," V ",r3," A "\n"
#define AOT_QDW_DSP_ONE_ROW                                                                        \
    "ldrd r2,r3,[r1],#32\n" /* column 0 */                                                         \
    "smuad r10,r4,r2\n"                                                                            \
    "smlabb r10,r7,r3,r10\n"                                                                       \
    "ldrd r2,r3,[r1,#-24]\n"                                         /* column 1 */                \
        AOT_QDW_DSP_HALF("r10", "r5", "r8") "ldrd r2,r3,[r1,#-16]\n" /* column 2 */                \
        AOT_QDW_DSP_HALF("r10", "r6", "r9") "smuad r11,r4,r2\n"                                    \
                                            "smlabb r11,r7,r3,r11\n"                               \
                                            "ldrd r2,r3,[r1,#-8]\n" /* column 3 */                 \
        AOT_QDW_DSP_HALF("r11", "r5", "r8") "ldrd r2,r3,[r1]\n"     /* column 4 */                 \
        AOT_QDW_DSP_HALF("r11", "r6", "r9") "stm r0!,{r10,r11}\n"

/* One row at stride 1: of two results. */
#define AOT_QDW_DSP_START(A, W, V)                                                                 \
    "smuad " A "," W ",r2\n"                                                                       \
    "smlabb " A "," V ",r3," A "\n"
#define AOT_QDW_DSP_LONE_ROW                                                                       \
    "ldrd r2,r3,[r1],#16\n"                                          /* column 0 */                \
        AOT_QDW_DSP_START("r10", "r4", "r7") "ldrd r2,r3,[r1,#-8]\n" /* column 1 */                \
        AOT_QDW_DSP_HALF("r10", "r5", "r8")                                                        \
            AOT_QDW_DSP_START("r11", "r4", "r7") "ldrd r2,r3,[r1]\n" /* column 2 */                \
        AOT_QDW_DSP_HALF("r10", "r6", "r9")                                                        \
            AOT_QDW_DSP_HALF("r11", "r5", "r8") "ldrd r2,r3,[r1,#8]\n" /* column 3 */              \
        AOT_QDW_DSP_HALF("r11", "r6", "r9") "stm r0!,{r10,r11}\n"

/* sum: up to `end`, two per result or with `halves` one; x: two words per column; w: six words. */
#define AOT_QDW_DSP_SUMS_OF(name, BODY)                                                            \
    __attribute__((naked)) static AOT_NOINLINE AOT_UNUSED void name(                               \
        AOT_UNUSED int32_t *sum, AOT_UNUSED const uint32_t *x, AOT_UNUSED const uint32_t *w,       \
        AOT_UNUSED const int32_t *end) {                                                           \
        __asm__ volatile("push {r3-r11,lr}\n"                                                      \
                         "ldm r2,{r4-r9}\n"                                                        \
                         "1:\n" BODY "ldr r2,[sp]\n"                                               \
                         "cmp r0,r2\n"                                                             \
                         "blo 1b\n"                                                                \
                         "pop {r3-r11,pc}\n" ::                                                    \
                             : AOT_DSP_CLOBBERS);                                                  \
    }

AOT_QDW_DSP_SUMS_OF(aot_qdw_dsp_rows, AOT_QDW_DSP_TWO_ROWS)
AOT_QDW_DSP_SUMS_OF(aot_qdw_dsp_halves, AOT_QDW_DSP_ONE_ROW)
AOT_QDW_DSP_SUMS_OF(aot_qdw_dsp_lone, AOT_QDW_DSP_LONE_ROW)

/* One pixel, four channels, `taps` quantised values of each: x their places, less `channel`; w four
 * weights each. */
__attribute__((naked)) static AOT_NOINLINE AOT_UNUSED void
aot_qdw_dsp_taps(AOT_UNUSED int32_t *sum, AOT_UNUSED const int8_t *const *x,
                 AOT_UNUSED const int8_t *w, AOT_UNUSED const int32_t *bias,
                 AOT_UNUSED int32_t taps, AOT_UNUSED int32_t channel) {
    __asm__ volatile("push {r4-r11,lr}\n"
                     "ldm r3,{r4-r7}\n"
                     "ldrd r3,r12,[sp,#36]\n"
                     "1:\n"
                     "ldr r8,[r1],#4\n"
                     "ldr r9,[r2],#4\n"
                     "ldr r8,[r8,r12]\n"
                     "sxtb16 r11,r9\n"
                     "sxtb16 r9,r9,ror #8\n"
                     "sxtb16 r10,r8\n"
                     "sxtb16 r8,r8,ror #8\n"
                     "smlabb r4,r10,r11,r4\n"
                     "smlatt r6,r10,r11,r6\n"
                     "smlabb r5,r8,r9,r5\n"
                     "smlatt r7,r8,r9,r7\n"
                     "subs r3,r3,#1\n"
                     "bne 1b\n"
                     "stm r0,{r4-r7}\n"
                     "pop {r4-r11,pc}\n" ::
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

/* One row; results are `step` words apart. */
AOT_INLINE void aot_qdw_dsp_single(int32_t *sum, const uint32_t *x, const uint32_t *w,
                                   const int32_t *end, int step) {
    for (; sum < end; ++sum, x += step) {
        int32_t k;
        *sum = 0;
        for (k = 0; k < 3; ++k) {
            *sum += aot_dsp_lo(w[k]) * aot_dsp_lo(x[2 * k]) +
                    aot_dsp_lo(w[3 + k]) * aot_dsp_lo(x[2 * k + 1]) +
                    aot_dsp_hi(w[k]) * aot_dsp_hi(x[2 * k]);
        }
    }
}

static AOT_UNUSED void aot_qdw_dsp_halves(int32_t *sum, const uint32_t *x, const uint32_t *w,
                                          const int32_t *end) {
    aot_qdw_dsp_single(sum, x, w, end, 4);
}

static AOT_UNUSED void aot_qdw_dsp_lone(int32_t *sum, const uint32_t *x, const uint32_t *w,
                                        const int32_t *end) {
    aot_qdw_dsp_single(sum, x, w, end, 2);
}

static AOT_UNUSED void aot_qdw_dsp_taps(int32_t *sum, const int8_t *const *x, const int8_t *w,
                                        const int32_t *bias, int32_t taps, int32_t channel) {
    int32_t i, j;
    for (j = 0; j < 4; ++j) {
        sum[j] = bias[j];
        for (i = 0; i < taps; ++i) {
            sum[j] += x[i][channel + j] * w[4 * i + j];
        }
    }
}

#endif

/* The pairs of rows r0 and r1 of `cols` columns from ix on, four channels; the rows at the first
 * channel of column 0, NULL outside the image. */
AOT_INLINE void aot_qdw_dsp_pairs(uint32_t *d, const int8_t *r0, const int8_t *r1, int32_t ix,
                                  int32_t cols, const aot_qconv_s8_params *p) {
    const uint32_t zero = ((uint32_t)p->x_zero & 0xFFU) * 0x01010101U;
    const int32_t s0 = r0 != NULL ? p->ic : 0, s1 = r1 != NULL ? p->ic : 0;
    const uint32_t outside = aot_dsp_even(zero);
    const uint32_t *const end = d + 2 * cols;
    const uint32_t *last = d + 2 * (p->iw - ix);
    int8_t pad[4];
    (void)memset(pad, p->x_zero, sizeof pad);
    r0 = r0 != NULL ? r0 + (ix > 0 ? ix : 0) * s0 : pad;
    r1 = r1 != NULL ? r1 + (ix > 0 ? ix : 0) * s1 : pad;
    last = last < end ? last : end;
    for (; ix < 0 && d < end; ++ix, d += 2) {
        d[0] = d[AOT_QDW_DSP_WORDS] = outside;
        d[2 * AOT_QDW_DSP_WORDS] = d[3 * AOT_QDW_DSP_WORDS] = outside;
    }
    for (; d < last; d += 2, r0 += s0, r1 += s1) {
        const uint32_t a = aot_dsp_load(r0), b = aot_dsp_load(r1);
        const uint32_t a0 = aot_dsp_even(a), b0 = aot_dsp_even(b);
        const uint32_t a1 = aot_dsp_odd(a), b1 = aot_dsp_odd(b);
        d[0] = aot_dsp_lows(a0, b0);
        d[AOT_QDW_DSP_WORDS] = aot_dsp_lows(a1, b1);
        d[2 * AOT_QDW_DSP_WORDS] = aot_dsp_highs(a0, b0);
        d[3 * AOT_QDW_DSP_WORDS] = aot_dsp_highs(a1, b1);
    }
    for (; d < end; d += 2) {
        d[0] = d[AOT_QDW_DSP_WORDS] = outside;
        d[2 * AOT_QDW_DSP_WORDS] = d[3 * AOT_QDW_DSP_WORDS] = outside;
    }
}

/* The quantised values of one channel, `rows` for each of n results; without its second row, y1 is
 * y0. */
AOT_INLINE void aot_qdw_dsp_store(int8_t *y0, int8_t *y1, const int32_t *sum, int32_t n,
                                  int32_t channel, int32_t step, const int32_t *bias,
                                  const aot_dsp_out *o, int rows, int RQ, int PC, int CLIP) {
    const int32_t *const end = sum + rows * n;
    const int32_t b = bias[channel], twice = 2 * b;
    const aot_dsp_factor f = aot_dsp_factor_of(o, channel, RQ, PC);
    int32_t at = 0;
    if (RQ == 2 && aot_dsp_near(f, RQ)) {
        for (; sum != end; sum += rows, at += step) {
            if (rows == 2) {
                y1[at] = (int8_t)aot_dsp_fixed(twice + 2 * sum[1], f, o, CLIP);
            }
            y0[at] = (int8_t)aot_dsp_fixed(twice + 2 * sum[0], f, o, CLIP);
        }
        return;
    }
    for (; sum != end; sum += rows, at += step) {
        int32_t i;
        for (i = rows - 1; i >= 0; --i) {
            int8_t *const to = (i == 0 ? y0 : y1) + at;
            *to = RQ == 0 ? (int8_t)aot_dsp_code(sum[i] + b, f, o, RQ, CLIP)
                          : aot_dsp_any(sum[i] + b, channel, o, RQ, PC, CLIP);
        }
    }
}

/* Row oy of four channels, and with 2 for `rows` (KIND 1 alone) the next one, y1; without it y1 is
 * y0. x, y: at the group's first channel of the image (a table x: as it is). */
AOT_INLINE void aot_qdw_dsp_rows_of(int8_t *y0, int8_t *y1, const int8_t *x, const int32_t *bias,
                                    uint32_t *scratch, const aot_qconv_s8_params *p,
                                    const aot_dsp_out *o, int32_t oy, int32_t channel, int RQ,
                                    int PC, int KIND, int CLIP, int rows) {
    const int32_t s = KIND == 1 ? 1 : 2, tile = AOT_QDW_DSP_TILE / s;
    const int32_t read = rows == 1 || y1 == y0 ? 3 : 4;
    int32_t *const sum = (int32_t *)(scratch + AOT_QDW_DSP_SUMS);
    const int8_t *r[4];
    int32_t i, ox;
    for (i = 0; i < 4; ++i) {
        const int32_t iy = oy * s - p->pt + i;
        const int inside = iy >= 0 && iy < p->ih && i < read;
        r[i] = !inside ? NULL
                       : AOT_AT(x, iy - p->x_row0, channel, x + (iy - p->x_row0) * p->iw * p->ic);
    }
    for (ox = 0; ox < p->ow; ox += tile, y0 += tile * p->ic, y1 += tile * p->ic) {
        const int32_t n = p->ow - ox < tile ? p->ow - ox : tile;
        const int32_t *const end = sum + rows * ((n + 1) & ~1);
        const uint32_t *w = scratch + AOT_QDW_DSP_WEIGHTS;
        for (i = 0; i < 2; ++i) {
            aot_qdw_dsp_pairs(scratch + i, r[i], r[i + 2], ox * s - p->pl, (n - 1) * s + 3, p);
        }
        for (i = 0; i < 4; ++i, w += 6) {
            const uint32_t *const pairs = scratch + i * AOT_QDW_DSP_WORDS;
            if (KIND != 1) {
                aot_qdw_dsp_halves(sum, pairs, w, end);
            } else if (rows == 1) {
                aot_qdw_dsp_lone(sum, pairs, w, end);
            } else {
                aot_qdw_dsp_rows(sum, pairs, w, end);
            }
            aot_qdw_dsp_store(y0 + i, y1 + i, sum, n, channel + i, p->ic, bias, o, rows, RQ, PC,
                              CLIP);
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

/* The places of a pixel's quantised values of channel 0; `pad` for those outside the image. */
AOT_INLINE void aot_qdw_dsp_places(const int8_t **d, const int8_t *x, const int8_t *pad,
                                   const aot_qconv_s8_params *p, int32_t iy, int32_t ix) {
    int32_t ky, kx;
    for (ky = 0; ky < p->kh; ++ky, iy += p->dh) {
        const int inside = iy >= 0 && iy < p->ih;
        int32_t col = ix;
        for (kx = 0; kx < p->kw; ++kx, col += p->dw) {
            const int real = inside && col >= 0 && col < p->iw;
            *d++ = !real ? pad
                         : AOT_AT(x, iy - p->x_row0, col * p->ic,
                                  x + ((iy - p->x_row0) * p->iw + col) * p->ic);
        }
    }
}

/* One image; y at row p->y0. */
AOT_DSP_SMALL void aot_qdw_dsp_any(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                                   void *scratch, const aot_qconv_s8_params *p,
                                   const aot_dsp_out *o, int RQ, int PC, int CLIP) {
    const int32_t taps = p->kh * p->kw;
    const int8_t **const places = (const int8_t **)scratch;
    int8_t *const pad = (int8_t *)(places + taps);
    int32_t sum[4], oy, ox, c;
    (void)memset(pad, p->x_zero, (size_t)p->ic);
    for (oy = p->y0; oy < p->y1; ++oy) {
        for (ox = 0; ox < p->ow; ++ox) {
            aot_qdw_dsp_places(places, x, pad, p, oy * p->sh - p->pt, ox * p->sw - p->pl);
            for (c = 0; c < p->ic; c += 4, y += 4) {
                aot_qdw_dsp_taps(sum, places, w + c * taps, bias + c, taps, c);
                aot_dsp_store(y, sum, c, 4, o, RQ, PC, CLIP, 1);
            }
        }
    }
}

/* Instance: KIND, see above; CLIP 0 if lo and hi are -128 and 127. */
AOT_INLINE void aot_qdwconv_s8__dsp(int8_t *y, const int8_t *x, const int8_t *w,
                                    const int32_t *bias, const int32_t *mult, const int8_t *shift,
                                    void *scratch, const aot_qdwconv_s8__dsp_params *p, int RQ,
                                    int PC, int KIND, int CLIP) {
    const aot_dsp_out o = {mult, shift, p->y_zero, p->lo, p->hi};
    uint32_t *const space = (uint32_t *)scratch;
    const int32_t row = p->ow * p->ic, rows = KIND == 1 ? AOT_QDW_DSP_ROWS : 1;
    int32_t image, c, oy;
    for (image = 0; image < p->n; ++image) {
        const int8_t *in = x + image * p->ih * p->iw * p->ic;
        int8_t *out = y + (image * p->oh + p->y0 - p->y_row0) * row;
        if (KIND == 0) {
            aot_qdw_dsp_any(out, in, w, bias, scratch, p, &o, RQ, PC, CLIP);
            continue;
        }
        for (c = 0; c < p->ic; c += 4) {
            int8_t *at = out + c;
            aot_qdw_dsp_weights(space + AOT_QDW_DSP_WEIGHTS, w + 9 * c);
            for (oy = p->y0; oy < p->y1; oy += rows, at += rows * row) {
                int8_t *const next = rows == 2 && oy + 1 < p->y1 ? at + row : at;
                const int8_t *const from = AOT_ROWS_APART ? in : in + c;
                if (rows == 2 && (!AOT_ROWS_APART || next != at)) {
                    aot_qdw_dsp_rows_of(at, next, from, bias, space, p, &o, oy, c, RQ, PC, KIND,
                                        CLIP, 2);
                } else {
                    aot_qdw_dsp_rows_of(at, at, from, bias, space, p, &o, oy, c, RQ, PC, KIND, CLIP,
                                        1);
                }
            }
        }
    }
}

#endif /* AOT_QDWCONV_S8__DSP_H */
