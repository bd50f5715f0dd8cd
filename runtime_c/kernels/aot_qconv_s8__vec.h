/* SPDX-License-Identifier: MIT-0 */
/* Convolution of int8 quantised values on vectors, groups = 1: parameters in aot_qconv_s8_params.h,
 * weights and bias as aot_qvec.h says with k = [kh][kw][ic].
 *
 * The windows of P pixels are copied to scratch, widened. Scratch: 2 * P * (kh * kw * ic, rounded
 * up to an even number) bytes. y must not overlap x.
 */
#ifndef AOT_QCONV_S8__VEC_H
#define AOT_QCONV_S8__VEC_H

#include "aot_qconv_s8_params.h"
#include "aot_qvec.h"

typedef aot_qconv_s8_params aot_qconv_s8__vec_params;

AOT_INLINE int16_t *aot_qconv_vec_run(int16_t *d, const int8_t *s, int32_t n) {
    int32_t i;
    for (i = 0; i < n; ++i) {
        d[i] = s[i];
    }
    return d + n;
}

/* The window whose corner is at row iy, column ix, padded to `size` int16. */
AOT_INLINE void aot_qconv_vec_window(int16_t *d, const int8_t *x, const aot_qconv_s8_params *p,
                                     int32_t iy, int32_t ix, int32_t size) {
    const int whole = p->dw == 1 && ix >= 0 && ix + p->kw <= p->iw;
    int16_t *const end = d + size;
    int32_t a, b, c;
    for (a = 0; a < p->kh; ++a) {
        const int32_t row = iy + a * p->dh;
        const int inside = row >= 0 && row < p->ih;
        const int8_t *const s =
            AOT_ROWS_APART && !inside
                ? x
                : AOT_AT(x, row - p->x_row0, ix * p->ic,
                         x + ((ptrdiff_t)(row - p->x_row0) * p->iw + ix) * p->ic);
        if (inside && whole) {
            d = aot_qconv_vec_run(d, s, p->kw * p->ic);
            continue;
        }
        for (b = 0; b < p->kw; ++b) {
            const int32_t col = ix + b * p->dw;
            if (inside && col >= 0 && col < p->iw) {
                d = aot_qconv_vec_run(d, s + (ptrdiff_t)b * p->dw * p->ic, p->ic);
            } else {
                for (c = 0; c < p->ic; ++c) {
                    *d++ = (int16_t)p->x_zero;
                }
            }
        }
    }
    while (d < end) {
        *d++ = 0;
    }
}

/* Instance: RQ and PC as in aot_requant.h, with RQ 3 y stands for int32; P pixels times O vectors
 * at once; PAIR as aot_qvec.h. */
AOT_INLINE void aot_qconv_s8__vec(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                                  const int32_t *mult, const int8_t *shift, void *scratch,
                                  const aot_qconv_s8_params *p, int RQ, int PC, int P, int O,
                                  int PAIR) {
    const int32_t k = (p->kh * p->kw * p->ic + 1) & ~1;
    const int32_t pixels = (p->y1 - p->y0) * p->ow;
    const ptrdiff_t pixel = p->oc * (ptrdiff_t)AOT_REQUANT_SIZE(RQ);
    int16_t *const columns = (int16_t *)scratch;
    aot_qvec_out o;
    int32_t image, first;
    int i;
    o.mult = mult;
    o.shift = shift;
    o.zero = p->y_zero;
    o.lo = p->lo;
    o.hi = p->hi;
    for (image = 0; image < p->n; ++image) {
        const int8_t *const xi = x + (ptrdiff_t)image * p->ih * p->iw * p->ic;
        int8_t *yi = y + ((ptrdiff_t)image * p->oh + (p->y0 - p->y_row0)) * p->ow * pixel;
        int32_t oy = p->y0, ox = 0;
        for (first = 0; first < pixels; first += P, yi += P * pixel) {
            const int n = pixels - first < P ? (int)(pixels - first) : P;
            for (i = 0; i < n; ++i) {
                aot_qconv_vec_window(columns + (ptrdiff_t)i * k, xi, p, oy * p->sh - p->pt,
                                     ox * p->sw - p->pl, k);
                if (++ox == p->ow) {
                    ox = 0;
                    ++oy;
                }
            }
            if (n == P) {
                aot_qvec_pixels(yi, columns, k, k, w, bias, p->oc, P, &o, RQ, PC, P, O, PAIR);
            } else {
                for (i = 0; i < n; ++i) {
                    aot_qvec_pixels(yi + i * pixel, columns + (ptrdiff_t)i * k, k, k, w, bias,
                                    p->oc, 1, &o, RQ, PC, 1, O, PAIR);
                }
            }
        }
    }
}

#endif /* AOT_QCONV_S8__VEC_H */
