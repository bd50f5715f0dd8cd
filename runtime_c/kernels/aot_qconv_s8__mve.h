/* SPDX-License-Identifier: MIT-0 */
/* Convolution of int8 codes, channels last, for Arm's vector extension; groups = 1.
 *
 * x [n][ih][iw][ic], y [n][oh][ow][oc], w as in aot_qmve.h with K = kh * kw * ic codes per channel
 * in that order, bias[oc] with -x_zero * (sum of the weights), mult and shift as in aot_requant.h
 * (one element in all with PC 0).
 *
 * Two consecutive pixels are computed at once. Their windows are copied to scratch, 2 * K bytes, K
 * rounded up to 16; with DIRECT 1 (kernel 1x1, no padding, ic a multiple of 16) they are read where
 * they are, and scratch is not used. NEG 0 if no code below y_zero is ever stored.
 * Rows y0..y1-1 of the output are computed; x points at image row x_row0, y at output row y_row0.
 * y must not overlap x.
 */
#ifndef AOT_QCONV_S8__MVE_H
#define AOT_QCONV_S8__MVE_H

#include "aot_qconv_s8_params.h"
#include "aot_qmve.h"

typedef aot_qconv_s8_params aot_qconv_s8__mve_params;

/* kw columns of one row from column ix on, what is outside being x_zero; returns its end. */
AOT_INLINE int8_t *aot_qconv_s8__mve_columns(int8_t *d, const int8_t *row,
                                             const aot_qconv_s8__mve_params *p, int32_t ix) {
    int32_t i;
    if (p->dw == 1 && ix >= 0 && ix + p->kw <= p->iw) {
        aot_qmve_copy(d, row + (ptrdiff_t)ix * p->ic, p->kw * p->ic);
        return d + (ptrdiff_t)p->kw * p->ic;
    }
    for (i = 0; i < p->kw; ++i, ix += p->dw, d += p->ic) {
        if (ix >= 0 && ix < p->iw) {
            aot_qmve_copy(d, row + (ptrdiff_t)ix * p->ic, p->ic);
        } else {
            aot_qmve_fill(d, p->x_zero, p->ic);
        }
    }
    return d;
}

/* The window whose corner is row iy, column ix: [kh][kw][ic]. */
AOT_INLINE void aot_qconv_s8__mve_window(int8_t *d, const int8_t *x,
                                         const aot_qconv_s8__mve_params *p, int32_t iy,
                                         int32_t ix) {
    const int32_t step = p->iw * p->ic, row = p->kw * p->ic;
    int32_t a;
    if (p->dw == 1 && ix >= 0 && ix + p->kw <= p->iw && iy >= 0 &&
        iy + (p->kh - 1) * p->dh < p->ih) {
        aot_qmve_copy_rows(d, x + ((ptrdiff_t)(iy - p->x_row0) * step + ix * p->ic), row,
                           p->dh * step, p->kh);
        return;
    }
    for (a = 0; a < p->kh; ++a, iy += p->dh) {
        if (iy >= 0 && iy < p->ih) {
            d = aot_qconv_s8__mve_columns(d, x + (ptrdiff_t)(iy - p->x_row0) * step, p, ix);
        } else {
            aot_qmve_fill(d, p->x_zero, row);
            d += row;
        }
    }
}

/* The window of a pixel: copied to `copy`, or where it is. */
AOT_INLINE const int8_t *aot_qconv_s8__mve_codes(int8_t *copy, const int8_t *x,
                                                 const aot_qconv_s8__mve_params *p, int32_t oy,
                                                 int32_t ox, int DIRECT) {
    const int32_t iy = oy * p->sh - p->pt, ix = ox * p->sw - p->pl;
    if (DIRECT) {
        return x + ((ptrdiff_t)(iy - p->x_row0) * p->iw + ix) * p->ic;
    }
    aot_qconv_s8__mve_window(copy, x, p, iy, ix);
    return copy;
}

AOT_INLINE void aot_qconv_s8__mve(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                                  const int32_t *mult, const int8_t *shift, void *scratch,
                                  const aot_qconv_s8__mve_params *p, int RQ, int PC, int DIRECT,
                                  int NEG) {
    const ptrdiff_t x_image = (ptrdiff_t)p->ih * p->iw * p->ic;
    const ptrdiff_t y_image = (ptrdiff_t)p->oh * p->ow * p->oc;
    int8_t *const window = (int8_t *)scratch;
    aot_qmve_weights t;
    int32_t image, oy, ox;
    aot_qmve_prepare(&t, w, bias, mult, shift, p->oc, p->kh * p->kw * p->ic, RQ, PC, NEG);
    aot_qmve_limits(&t, p->y_zero, p->lo, p->hi);
    if (!DIRECT) {
        aot_qmve_fill(window, 0, t.job.chunks * 32); /* what windows leave stays zero */
    }
    for (image = 0; image < p->n; ++image, x += x_image, y += y_image) {
        int8_t *to = y + (ptrdiff_t)(p->y0 - p->y_row0) * p->ow * p->oc;
        oy = p->y0;
        ox = 0;
        while (oy < p->y1) {
            const int8_t *const first = aot_qconv_s8__mve_codes(window, x, p, oy, ox, DIRECT);
            const int8_t *second = first;
            int8_t *next = to;
            if (++ox == p->ow) {
                ox = 0;
                ++oy;
            }
            if (oy < p->y1) {
                second = aot_qconv_s8__mve_codes(window + t.job.chunks * 16, x, p, oy, ox, DIRECT);
                next += p->oc;
                if (++ox == p->ow) {
                    ox = 0;
                    ++oy;
                }
            }
            aot_qmve_rows(&t, to, next, first, second, RQ, PC, NEG, 2);
            to = next + p->oc;
        }
    }
}

#endif /* AOT_QCONV_S8__MVE_H */
