/* SPDX-License-Identifier: MIT-0 */
/* Convolution of int16 quantised values with int8 weights, channels last; groups = 1.
 *
 * x [n][ih][iw][ic], y [n][oh][ow][oc], see aot_qconv_s8_params.h. w: in the order of the
 * instruction set UNIT (aot_qsums_s16.h) along the window; each of its rows (each of its taps where
 * dw is not 1) has an even number of quantised values. bias[oc] with -x_zero * (sum of the
 * weights), padded to blocks of four channels.
 *
 * Two pixels are computed at a time. KIND 0: their windows are copied to scratch, 4 bytes times the
 * depth of a window. KIND 1: windows of one pixel inside the image, read where they are where UNIT
 * can and ic fills its vectors. CLIP 0 if lo and hi are those of int16. w, bias and scratch are
 * aligned to 4 bytes. y must not overlap x.
 */
#ifndef AOT_QCONV_S16_H
#define AOT_QCONV_S16_H

#include "aot_qconv_s8_params.h"
#include "aot_qsums_s16.h"

typedef aot_qconv_s8_params aot_qconv_s16_params;

/* n quantised values from s on, or n times `zero` where s is NULL, become elements e to e + n - 1
 * of a window whose pairs are `step` elements apart. */
static AOT_NOINLINE AOT_UNUSED void aot_qconv_s16_put(int16_t *d, int32_t e, const int16_t *s,
                                                      int32_t n, int32_t zero, int32_t step) {
    const int16_t two[2] = {(int16_t)zero, (int16_t)zero};
    const int32_t move = s == NULL ? 0 : 1, end = e + n;
    s = s == NULL ? two : s;
    for (; e < end && (e & 1) != 0; ++e, s += move) {
        (void)memcpy(d + (e >> 1) * step + 1, s, sizeof *s);
    }
    d += (e >> 1) * step;
    for (; e + 1 < end; e += 2, s += 2 * move, d += step) {
        (void)memcpy(d, s, 2 * sizeof *s);
    }
    if (e < end) {
        (void)memcpy(d, s, sizeof *s);
    }
}

/* The window whose corner is row iy, column ix. */
static AOT_NOINLINE AOT_UNUSED void aot_qconv_s16_window(int16_t *d, const int16_t *x,
                                                         const aot_qconv_s16_params *p, int32_t iy,
                                                         int32_t ix, int32_t step) {
    const int32_t ic = p->ic, run = p->dw == 1 ? p->kw : 1;
    const int32_t even = (run * ic + 1) & ~1;
    int32_t ky, kx;
    for (ky = 0; ky < p->kh; ++ky, iy += p->dh) {
        const int inside = iy >= 0 && iy < p->ih;
        const int32_t width = inside ? p->iw : 0, row = inside ? iy - p->x_row0 : 0;
        int32_t col = ix;
        for (kx = 0; kx < p->kw; kx += run, col += p->dw, d += (even >> 1) * step) {
            const int32_t left = aot_requant_clamp(-col, 0, run);
            const int32_t past = aot_requant_clamp(width - col, left, run);
            if (left > 0) {
                aot_qconv_s16_put(d, 0, NULL, left * ic, p->x_zero, step);
            }
            if (past > left) {
                const int16_t *const s = (const int16_t *)(const void *)AOT_AT(
                    x, row, (col + left) * ic * 2,
                    x + ((ptrdiff_t)row * p->iw + (col + left)) * ic);
                aot_qconv_s16_put(d, left * ic, s, (past - left) * ic, 0, step);
            }
            if (past < run) {
                aot_qconv_s16_put(d, past * ic, NULL, (run - past) * ic, p->x_zero, step);
            }
        }
    }
}

/* All channels of two pixels; y1 may be NULL. */
AOT_INLINE void aot_qconv_s16_pixels(int16_t *y0, int16_t *y1, const int16_t *x0, const int16_t *x1,
                                     const int8_t *w, const int32_t *bias, int32_t oc,
                                     int32_t depth, const aot_s16_out *o, int RQ, int PC, int CLIP,
                                     int UNIT) {
    int32_t sum[8], c;
    for (c = 0; c < oc; c += 4, w += 4 * (ptrdiff_t)depth) {
        aot_s16_pair(sum, x0, x1, w, bias + c, depth, UNIT);
        if (y1 != NULL) {
            aot_s16_store(y0 + c, y1 + c, sum, c, oc - c < 4 ? oc - c : 4, o, RQ, PC, CLIP, UNIT);
        } else {
            aot_s16_store(y0 + c, NULL, sum, c, oc - c < 4 ? oc - c : 4, o, RQ, PC, CLIP, UNIT);
        }
    }
}

/* Rows y0 to y1 - 1, which are among those of p. */
AOT_INLINE void aot_qconv_s16_rows(int16_t *y, const int16_t *x, const int8_t *w,
                                   const int32_t *bias, const int32_t *mult, const int8_t *shift,
                                   void *scratch, const aot_qconv_s16_params *p, int32_t y0,
                                   int32_t y1, int RQ, int PC, int KIND, int CLIP, int UNIT) {
    const aot_s16_out o = {mult, shift, p->y_zero, p->lo, p->hi};
    const int32_t taps = p->dw == 1 ? p->kw : 1, runs = p->kh * (p->dw == 1 ? 1 : p->kw);
    const int32_t window = KIND == 1 ? p->ic : runs * ((taps * p->ic + 1) & ~1);
    const int32_t depth = aot_s16_depth(window, UNIT), step = UNIT == AOT_S16_DSP ? 4 : 2;
    const int in_place = KIND == 1 && UNIT != AOT_S16_DSP && depth == p->ic;
    int16_t *const copy = (int16_t *)scratch, *const beside = copy + (step == 4 ? 2 : depth);
    int32_t image, i;
    for (image = 0; image < p->n; ++image) {
        const int16_t *const from = x + (ptrdiff_t)image * p->ih * p->iw * p->ic;
        int16_t *to = y + ((ptrdiff_t)image * p->oh + y0 - p->y_row0) * p->ow * p->oc;
        int32_t left = (y1 - y0) * p->ow, oy = y0, ox = 0;
        for (; left > 0; left -= 2, to += 2 * (ptrdiff_t)p->oc) {
            const int16_t *at[2] = {copy, beside};
            for (i = 0; i < 2 && i < left; ++i) {
                const int32_t iy = oy * p->sh - p->pt, ix = ox * p->sw - p->pl;
                int16_t *const d = i == 0 ? copy : beside;
                if (KIND == 1) {
                    at[i] = (const int16_t *)(const void *)AOT_AT(
                        from, iy - p->x_row0, ix * p->ic * 2,
                        from + ((ptrdiff_t)(iy - p->x_row0) * p->iw + ix) * p->ic);
                    if (!in_place) {
                        aot_qconv_s16_put(d, 0, at[i], p->ic, 0, step);
                        at[i] = d;
                    }
                } else {
                    aot_qconv_s16_window(d, from, p, iy, ix, step);
                }
                if (++ox == p->ow) {
                    ox = 0;
                    ++oy;
                }
            }
            if (left > 1) {
                aot_qconv_s16_pixels(to, to + p->oc, at[0], at[1], w, bias, p->oc, depth, &o, RQ,
                                     PC, CLIP, UNIT);
            } else {
                aot_qconv_s16_pixels(to, NULL, at[0], at[0], w, bias, p->oc, depth, &o, RQ, PC,
                                     CLIP, UNIT);
            }
        }
    }
}

/* All rows of p. */
AOT_INLINE void aot_qconv_s16(int16_t *y, const int16_t *x, const int8_t *w, const int32_t *bias,
                              const int32_t *mult, const int8_t *shift, void *scratch,
                              const aot_qconv_s16_params *p, int RQ, int PC, int KIND, int CLIP,
                              int UNIT) {
    aot_qconv_s16_rows(y, x, w, bias, mult, shift, scratch, p, p->y0, p->y1, RQ, PC, KIND, CLIP,
                       UNIT);
}

#endif /* AOT_QCONV_S16_H */
