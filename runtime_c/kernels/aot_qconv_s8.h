/* SPDX-License-Identifier: MIT-0 */
/* Convolution of int8 quantised values in portable C, groups = 1: parameters in
 * aot_qconv_s8_params.h.
 *
 * w: a panel [kh][kw * ic][O] (PLANAR: [kh][O][kw * ic]) per O output channels, zero past the last
 * one, bias padded likewise.
 * Windows inside the image are read in place; those at its border, and all of them where
 * aot_qconv_s8_copies says so, are copied to scratch with x_zero for what is outside.
 * Scratch: kh * width * ic bytes, width = (P - 1) * sw + kw if P divides ow, dw = 1 and sw <= kw,
 * else P * kw; none (NULL) where nothing is copied. y must not overlap x.
 */
#ifndef AOT_QCONV_S8_H
#define AOT_QCONV_S8_H

#include "aot_qconv_s8_params.h"
#include "aot_qtile_s8.h"

/* Whether all windows are copied: dilated rows, rows apart, or many short runs that are read often.
 */
AOT_INLINE int aot_qconv_s8_copies(const aot_qconv_s8_params *p) {
    return p->dw > 1 || (AOT_ROWS_APART && p->kh > 1) || (p->kh > 1 && p->oc > 6 * p->kw * p->ic);
}

/* The window [kh][width][ic] whose corner is at row iy, column ix; columns are dw apart. */
AOT_INLINE void aot_qconv_s8_window(int8_t *d, const int8_t *x, const aot_qconv_s8_params *p,
                                    int32_t iy, int32_t ix, int32_t width) {
    const size_t pixel = (size_t)p->ic;
    int32_t a, b;
    for (a = 0; a < p->kh; ++a) {
        const int32_t row = iy + a * p->dh;
        const int inside = row >= 0 && row < p->ih;
        for (b = 0; b < width; ++b, d += pixel) {
            const int32_t col = ix + b * p->dw;
            if (inside && col >= 0 && col < p->iw) {
                (void)memcpy(d,
                             AOT_AT(x, row - p->x_row0, col * p->ic,
                                    x + ((ptrdiff_t)(row - p->x_row0) * p->iw + col) * p->ic),
                             pixel);
            } else {
                (void)memset(d, p->x_zero, pixel);
            }
        }
    }
}

/* Copies the windows of n pixels with corners ys, xs to scratch: one wide window for neighbours
 * that overlap, else one each. Points at[i] at them; the step between their rows. */
AOT_INLINE ptrdiff_t aot_qconv_s8_copy(const int8_t **at, const int8_t *x, int8_t *scratch,
                                       const aot_qconv_s8_params *p, const int32_t *ys,
                                       const int32_t *xs, int n, int P) {
    const int wide = p->dw == 1 && p->sw <= p->kw && ys[0] == ys[P - 1];
    const int32_t width = wide ? xs[P - 1] - xs[0] + p->kw : p->kw;
    const ptrdiff_t size = (ptrdiff_t)p->kh * width * p->ic;
    int i;
    for (i = 0; i < P; ++i) {
        if (i < n && (i == 0 || !wide)) {
            aot_qconv_s8_window(scratch + i * size, x, p, ys[i], xs[i], width);
        }
        at[i] = scratch + (wide ? (ptrdiff_t)(xs[i] - xs[0]) * p->ic : (i < n ? i : n - 1) * size);
    }
    return (ptrdiff_t)width * p->ic;
}

/* Points at[i] at the windows of pixels oy, ox and the n - 1 after it (row-major); the step between
 * their rows. Past the last pixel they repeat it. */
AOT_INLINE ptrdiff_t aot_qconv_s8_aim(const int8_t **at, const int8_t *x, int8_t *scratch,
                                      const aot_qconv_s8_params *p, int32_t oy, int32_t ox, int n,
                                      int P) {
    int32_t ys[AOT_QTILE_MAX], xs[AOT_QTILE_MAX];
    int copy = aot_qconv_s8_copies(p), i;
    for (i = 0; i < P; ++i) {
        ys[i] = oy * p->sh - p->pt;
        xs[i] = ox * p->sw - p->pl;
        copy |= ys[i] < 0 || ys[i] + (p->kh - 1) * p->dh >= p->ih;
        copy |= xs[i] < 0 || xs[i] + p->kw > p->iw;
        if (i + 1 < n && ++ox == p->ow) {
            ox = 0;
            ++oy;
        }
    }
    if (copy && scratch != NULL) {
        return aot_qconv_s8_copy(at, x, scratch, p, ys, xs, n, P);
    }
    for (i = 0; i < P; ++i) {
        at[i] = AOT_AT(x, ys[i] - p->x_row0, xs[i] * p->ic,
                       x + ((ptrdiff_t)(ys[i] - p->x_row0) * p->iw + xs[i]) * p->ic);
    }
    return (ptrdiff_t)p->dh * p->iw * p->ic;
}

/* Every output channel of n <= P pixels whose windows are at `at`; y at the first of them. Pixels
 * past n are computed and dropped. */
AOT_INLINE void aot_qconv_s8_tile(int8_t *y, const int8_t *const *at, ptrdiff_t row,
                                  const int8_t *w, const int32_t *bias, const int32_t *mult,
                                  const int8_t *shift, const aot_qconv_s8_params *p, int n, int RQ,
                                  int PC, int P, int O, int PLANAR) {
    const int32_t run = p->kw * p->ic;
    const ptrdiff_t SIZE = AOT_REQUANT_SIZE(RQ);
    aot_qtile_job job;
    int32_t c;
    int i;
    for (c = 0; c < p->oc; c += O, w += (ptrdiff_t)p->kh * run * O, y += O * SIZE) {
        const int left = p->oc - c < O ? (int)(p->oc - c) : O;
        const ptrdiff_t k = PC ? c : 0;
        aot_qtile_s8(&job, at, row, p->kh, run, w, bias + c, P, O, PLANAR);
        if (n == P) {
            aot_qtile_s8_store(y, p->step, job.sum, mult + k, RQ != 0 ? shift + k : NULL, left,
                               p->y_zero, p->lo, p->hi, P, O, RQ, PC);
        } else {
            for (i = 0; i < n; ++i) {
                aot_qtile_s8_store(y + i * p->step * SIZE, 0, job.sum + i * O, mult + k,
                                   RQ != 0 ? shift + k : NULL, left, p->y_zero, p->lo, p->hi, 1, O,
                                   RQ, PC);
            }
        }
    }
}

/* Instance: RQ and PC as in aot_requant.h, with RQ 3 y stands for int32; P pixels times O channels
 * at once, P * O <= 16; weights as aot_qtile_s8.h says. */
AOT_INLINE void aot_qconv_s8(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                             const int32_t *mult, const int8_t *shift, void *scratch,
                             const aot_qconv_s8_params *p, int RQ, int PC, int P, int O,
                             int PLANAR) {
    const int32_t pixels = (p->y1 - p->y0) * p->ow;
    const int pointwise = p->kh * p->kw == 1 && p->sh == 1 && p->sw == 1 && p->ow == p->iw &&
                          p->pt == 0 && p->pl == 0 && p->oh <= p->ih;
    const ptrdiff_t pixel = p->step * (ptrdiff_t)AOT_REQUANT_SIZE(RQ);
    const int8_t *at[AOT_QTILE_MAX];
    int32_t image, first;
    int i;
    for (image = 0; image < p->n; ++image) {
        const int8_t *xi = x + (ptrdiff_t)image * p->ih * p->iw * p->ic;
        int8_t *yi = y + ((ptrdiff_t)image * p->oh + (p->y0 - p->y_row0)) * p->ow * pixel;
        int32_t oy = p->y0, ox = 0;
        ptrdiff_t row = 0;
        if (pointwise != 0) {
            xi = AOT_AT(xi, p->y0 - p->x_row0, 0,
                        xi + (ptrdiff_t)(p->y0 - p->x_row0) * p->iw * p->ic);
        }
        for (first = 0; first < pixels; first += P, yi += P * pixel) {
            const int n = pixels - first < P ? (int)(pixels - first) : P;
            if (pointwise != 0) {
                for (i = 0; i < P; ++i) {
                    at[i] = xi + (i < n ? i : 0) * p->ic;
                }
                xi += (ptrdiff_t)P * p->ic;
            } else {
                row = aot_qconv_s8_aim(at, xi, (int8_t *)scratch, p, oy, ox, n, P);
                for (ox += P; ox >= p->ow; ox -= p->ow) {
                    ++oy;
                }
            }
            aot_qconv_s8_tile(yi, at, row, w, bias, mult, shift, p, n, RQ, PC, P, O, PLANAR);
        }
    }
}

#endif /* AOT_QCONV_S8_H */
