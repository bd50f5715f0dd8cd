/* SPDX-License-Identifier: MIT-0 */
/* Convolution of int8 codes, channels last, for Arm's vector extension; groups = 1.
 *
 * x [n][ih][iw][ic], y [n][oh][ow][oc], w as in aot_qmve.h with K = kh * kw * ic codes per channel
 * in that order, bias[oc] with -x_zero * (sum of the weights), mult and shift as in aot_requant.h
 * (one element in all with PC 0).
 *
 * Two neighbouring pixels are computed at once. Their windows are copied to scratch, 2 * K bytes, K
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

/* Pixels ox..ox+n-1 of output row oy, n being 1 or 2; y at the first. */
AOT_INLINE void aot_qconv_s8__mve_pixels(int8_t *y, const int8_t *x, int8_t *window,
                                         aot_qmve_weights *t, const aot_qconv_s8__mve_params *p,
                                         int32_t oy, int32_t ox, int n, int RQ, int PC, int DIRECT,
                                         int NEG) {
    const int32_t iy = oy * p->sh - p->pt, ix = ox * p->sw - p->pl, size = t->job.chunks * 16;
    const int8_t *first = window, *second = window + size;
    if (DIRECT) {
        first = x + ((ptrdiff_t)(iy - p->x_row0) * p->iw + ix) * p->ic;
        second = n == 2 ? first + (ptrdiff_t)p->sw * p->ic : first;
    } else {
        aot_qconv_s8__mve_window(window, x, p, iy, ix);
        if (n == 2) {
            aot_qconv_s8__mve_window(window + size, x, p, iy, ix + p->sw);
        }
    }
    aot_qmve_rows(t, y, y + p->oc, first, second, n, RQ, PC, NEG);
}

AOT_INLINE void aot_qconv_s8__mve(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                                  const int32_t *mult, const int8_t *shift, void *scratch,
                                  const aot_qconv_s8__mve_params *p, int RQ, int PC, int DIRECT,
                                  int NEG) {
    const ptrdiff_t x_image = (ptrdiff_t)p->ih * p->iw * p->ic;
    const ptrdiff_t y_image = (ptrdiff_t)p->oh * p->ow * p->oc;
    aot_qmve_weights t;
    int32_t image, oy, ox;
    aot_qmve_prepare(&t, w, bias, mult, shift, p->oc, p->kh * p->kw * p->ic, RQ, PC);
    aot_qmve_limits(&t, p->y_zero, p->lo, p->hi);
    if (!DIRECT) {
        aot_qmve_fill((int8_t *)scratch, 0, t.job.chunks * 32); /* what windows leave stays zero */
    }
    for (image = 0; image < p->n; ++image, x += x_image, y += y_image) {
        for (oy = p->y0; oy < p->y1; ++oy) {
            int8_t *const row = y + (ptrdiff_t)(oy - p->y_row0) * p->ow * p->oc;
            for (ox = 0; ox < p->ow; ox += 2) {
                aot_qconv_s8__mve_pixels(row + (ptrdiff_t)ox * p->oc, x, (int8_t *)scratch, &t, p,
                                         oy, ox, p->ow - ox > 1 ? 2 : 1, RQ, PC, DIRECT, NEG);
            }
        }
    }
}

#endif /* AOT_QCONV_S8__MVE_H */
