/* SPDX-License-Identifier: MIT-0 */
/* Convolution of int8 quantised values, channels last, for Arm's vector extension; groups = 1.
 *
 * x [n][ih][iw][ic], y [n][oh][ow][oc], w as in aot_qmve.h with K = kh * kw * ic quantised values
 * per channel in that order, bias[oc] with -x_zero * (sum of the weights), mult and shift as in
 * aot_requant.h (one element in all with PC 0).
 *
 * Two consecutive pixels are computed at once. With DIRECT 0 their windows are copied to scratch,
 * 2 * K bytes, K rounded up to 16; with 1 (kernel 1x1, no padding, ic a multiple of 16) they are
 * read where they are, and scratch is not used; with 2 (dw = 1, kw > sw, K a multiple of 16) they
 * share columns: the quantised values of a channel are in the order kw, kh, ic, and scratch has K +
 * sw * kh * ic bytes. NEG 0 if no quantised value below y_zero is ever stored. Rows y0..y1-1 of the
 * output are computed; x points at image row x_row0, y at output row y_row0. y must not overlap x.
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
    for (i = 0; i < p->kw;) {
        const int32_t column = ix + i * p->dw, left = p->kw - i;
        int32_t n = 1;
        if (column >= 0 && column < p->iw) {
            if (p->dw == 1) {
                n = left < p->iw - column ? left : p->iw - column;
            }
            aot_qmve_copy(d, row + (ptrdiff_t)column * p->ic, n * p->ic);
        } else {
            aot_qmve_fill(d, p->x_zero, p->ic);
        }
        i += n;
        d += n * p->ic;
    }
    return d;
}

/* The window whose corner is row iy, column ix, wherever it lies: [kh][kw][ic]. */
static AOT_NOINLINE AOT_UNUSED void aot_qconv_s8__mve_window(int8_t *d, const int8_t *x,
                                                             const aot_qconv_s8__mve_params *p,
                                                             int32_t iy, int32_t ix) {
    const int32_t step = p->iw * p->ic, row = p->kw * p->ic;
    int32_t a;
    (void)step;
    for (a = 0; a < p->kh; ++a, iy += p->dh) {
        if (iy >= 0 && iy < p->ih) {
            d = aot_qconv_s8__mve_columns(
                d, AOT_AT(x, iy - p->x_row0, 0, x + (ptrdiff_t)(iy - p->x_row0) * step), p, ix);
        } else {
            aot_qmve_fill(d, p->x_zero, row);
            d += row;
        }
    }
}

/* Where the pixels of a row of the output read: those from `inside` to `inside_end` - 1 only
 * quantised values of the image, the first at x + at. */
typedef struct {
    const int8_t *x;
    ptrdiff_t at;
    int32_t inside, inside_end, iy;
    int32_t pixel, row, step, threes; /* bytes; see aot_qmve_copy_rows */
} aot_qconv_s8__mve_view;

AOT_INLINE void aot_qconv_s8__mve_look(aot_qconv_s8__mve_view *v, const int8_t *x,
                                       const aot_qconv_s8__mve_params *p, int32_t oy, int DIRECT) {
    v->x = x;
    v->pixel = p->sw * p->ic;
    v->row = p->kw * p->ic;
    v->step = p->dh * p->iw * p->ic;
    v->threes = v->row % 48 == 0 ? v->row / 48 : 0;
    v->iy = oy * p->sh - p->pt;
    v->at = ((ptrdiff_t)(v->iy - p->x_row0) * p->iw - p->pl) * p->ic;
    if (DIRECT == 0) {
        const int in_rows = v->iy >= 0 && v->iy + (p->kh - 1) * p->dh < p->ih;
        v->inside = (p->pl > 0 ? p->pl + p->sw - 1 : 0) / p->sw;
        v->inside_end = in_rows && p->dw == 1 ? (p->iw + p->pl - p->kw + p->sw) / p->sw : v->inside;
    }
}

/* The window inside the image that begins at x + at, in column ix. */
AOT_INLINE void aot_qconv_s8__mve_inside(int8_t *copy, const aot_qconv_s8__mve_view *v,
                                         const aot_qconv_s8__mve_params *p, ptrdiff_t at,
                                         int32_t ix) {
#if AOT_ROWS_APART
    int32_t a;
    (void)at;
    for (a = 0; a < p->kh; ++a, copy += v->row) {
        const int8_t *const from = AOT_AT(v->x, v->iy + a * p->dh - p->x_row0, ix * p->ic, NULL);
        aot_qmve_copy_rows(copy, from, v->row, v->step, 1, v->threes);
    }
#else
    (void)ix;
    aot_qmve_copy_rows(copy, v->x + at, v->row, v->step, p->kh, v->threes);
#endif
}

/* The window of pixel ox: copied to `copy`, or where it is. */
AOT_INLINE const int8_t *aot_qconv_s8__mve_values(int8_t *copy, const aot_qconv_s8__mve_view *v,
                                                  const aot_qconv_s8__mve_params *p, int32_t ox,
                                                  int DIRECT) {
    const int8_t *const from = v->x;
    const ptrdiff_t at = v->at + (ptrdiff_t)ox * v->pixel;
    if (DIRECT == 1) {
        return AOT_AT(from, v->iy - p->x_row0, (ox * p->sw - p->pl) * p->ic, from + at);
    }
    if (ox >= v->inside && ox < v->inside_end) {
        aot_qconv_s8__mve_inside(copy, v, p, at, ox * p->sw - p->pl);
    } else {
        aot_qconv_s8__mve_window(copy, from, p, v->iy, ox * p->sw - p->pl);
    }
    return copy;
}

/* Columns ix to ix + count - 1 of the windows of a row: [count][kh][ic]. */
static AOT_NOINLINE AOT_UNUSED void aot_qconv_s8__mve_shared(int8_t *d,
                                                             const aot_qconv_s8__mve_view *v,
                                                             const aot_qconv_s8__mve_params *p,
                                                             int32_t ix, int32_t count) {
    const int in_rows = v->iy >= 0 && v->iy + (p->kh - 1) * p->dh < p->ih;
    const int32_t line = p->iw * p->ic, size = p->kh * p->ic;
    for (; count > 0; --count, ++ix, d += size) {
        if (ix < 0 || ix >= p->iw) {
            aot_qmve_fill(d, p->x_zero, size);
        } else {
            const ptrdiff_t at = (ptrdiff_t)(v->iy - p->x_row0) * line + (ptrdiff_t)ix * p->ic;
            int32_t a;
            if (in_rows != 0 && !AOT_ROWS_APART) {
                aot_qmve_copy_rows(d, v->x + at, p->ic, v->step, p->kh, 0);
                continue;
            }
            for (a = 0; a < p->kh; ++a) {
                const int32_t iy = v->iy + a * p->dh;
                if (iy >= 0 && iy < p->ih) {
                    const int8_t *const from = AOT_AT(v->x, iy - p->x_row0, ix * p->ic,
                                                      v->x + (at + (ptrdiff_t)a * v->step));
                    aot_qmve_copy(d + a * p->ic, from, p->ic);
                } else {
                    aot_qmve_fill(d + a * p->ic, p->x_zero, p->ic);
                }
            }
        }
    }
}

/* One row of the output by pairs of pixels that share columns; those that the next pair has too
 * move to the front. */
AOT_INLINE void aot_qconv_s8__mve_row(int8_t *y, aot_qmve_weights *t, int8_t *window,
                                      const aot_qconv_s8__mve_view *v,
                                      const aot_qconv_s8__mve_params *p, int RQ, int PC, int NEG) {
    const int32_t column = p->kh * p->ic, kept = p->kw - p->sw, fresh = 2 * p->sw;
    int32_t ox, ix = kept - p->pl;
    aot_qconv_s8__mve_shared(window + fresh * column, v, p, -p->pl, kept);
    for (ox = 0; ox < p->ow; ox += 2, ix += fresh, y += 2 * p->oc) {
        const int pair = p->ow - ox > 1;
        aot_qmve_copy(window, window + fresh * column, kept * column);
        aot_qconv_s8__mve_shared(window + kept * column, v, p, ix, pair ? fresh : p->sw);
        aot_qmve_rows(t, y, pair ? y + p->oc : y, window, pair ? window + p->sw * column : window,
                      RQ, PC, NEG, 2);
    }
}

/* Rows y0 to y1 - 1, which are among those of p. */
AOT_INLINE void aot_qconv_s8__mve_rows(int8_t *y, const int8_t *x, const int8_t *w,
                                       const int32_t *bias, const int32_t *mult,
                                       const int8_t *shift, void *scratch,
                                       const aot_qconv_s8__mve_params *p, int32_t y0, int32_t y1,
                                       int RQ, int PC, int DIRECT, int NEG) {
    const ptrdiff_t x_image = (ptrdiff_t)p->ih * p->iw * p->ic;
    const ptrdiff_t y_image = (ptrdiff_t)p->oh * p->ow * p->oc;
    int8_t *const window = (int8_t *)scratch;
    aot_qconv_s8__mve_view view;
    aot_qmve_weights t;
    int32_t image, oy, ox;
    aot_qmve_prepare(&t, w, bias, mult, shift, p->oc, p->kh * p->kw * p->ic, RQ, PC, NEG);
    aot_qmve_limits(&t, p->y_zero, p->lo, p->hi);
    if (DIRECT == 0) {
        aot_qmve_fill(window, 0, t.job.chunks * 32); /* what windows leave stays zero */
    }
    for (image = 0; image < p->n; ++image, x += x_image, y += y_image) {
        int8_t *to = y + (ptrdiff_t)(y0 - p->y_row0) * p->ow * p->oc;
        const int8_t *first = NULL;
        for (oy = y0; oy < y1; ++oy) {
            aot_qconv_s8__mve_look(&view, x, p, oy, DIRECT);
            if (DIRECT == 2) {
                aot_qconv_s8__mve_row(to, &t, window, &view, p, RQ, PC, NEG);
                to += p->ow * p->oc;
                continue;
            }
            for (ox = 0; ox < p->ow; ++ox) {
                const int32_t second = first == NULL ? 0 : t.job.chunks * 16;
                const int8_t *const values =
                    aot_qconv_s8__mve_values(window + second, &view, p, ox, DIRECT);
                if (first == NULL) {
                    first = values;
                } else {
                    aot_qmve_rows(&t, to, to + p->oc, first, values, RQ, PC, NEG, 2);
                    to += 2 * p->oc;
                    first = NULL;
                }
            }
        }
        if (first != NULL) {
            aot_qmve_rows(&t, to, to, first, first, RQ, PC, NEG, 2);
        }
    }
}

/* All rows of p. */
AOT_INLINE void aot_qconv_s8__mve(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                                  const int32_t *mult, const int8_t *shift, void *scratch,
                                  const aot_qconv_s8__mve_params *p, int RQ, int PC, int DIRECT,
                                  int NEG) {
    aot_qconv_s8__mve_rows(y, x, w, bias, mult, shift, scratch, p, p->y0, p->y1, RQ, PC, DIRECT,
                           NEG);
}

#endif /* AOT_QCONV_S8__MVE_H */
