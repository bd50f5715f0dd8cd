/* SPDX-License-Identifier: MIT-0 */
/* Depthwise convolution of int16 quantised values with int8 weights, channels last: a filter per
 * channel.
 *
 * x [n][ih][iw][c], y [n][oh][ow][c], see aot_qconv_s8_params.h (ic = oc = c). w [c / 4][kh][kw][4]
 * for UNIT 1 channels 0, 2, 1, 3 (aot_qsums_s16.h), zero past the last channel; bias[c] with
 * -x_zero * (sum of the weights), padded to blocks of four channels. CLIP 0 if lo and hi are those
 * of int16.
 *
 * Scratch: a pointer per tap of the window, and behind them c quantised values of padding. w and
 * bias are aligned to 4 bytes, scratch to a pointer. y must not overlap x.
 */
#ifndef AOT_QDWCONV_S16_H
#define AOT_QDWCONV_S16_H

#include "aot_qconv_s8_params.h"
#include "aot_qsums_s16.h"

typedef aot_qconv_s8_params aot_qdwconv_s16_params;

/* Where the taps of the window with its corner at row iy, column ix are. */
static AOT_NOINLINE AOT_UNUSED void aot_qdwconv_s16_look(const int16_t **at, const int16_t *x,
                                                         const int16_t *zeros,
                                                         const aot_qdwconv_s16_params *p,
                                                         int32_t iy, int32_t ix) {
    const ptrdiff_t next = (ptrdiff_t)p->dw * p->ic;
    int32_t ky, kx;
    for (ky = 0; ky < p->kh; ++ky, iy += p->dh) {
        const int inside = iy >= 0 && iy < p->ih;
        const int32_t row = inside ? iy - p->x_row0 : 0;
        const int16_t *const line =
            (const int16_t *)(const void *)AOT_AT(x, row, 0, x + (ptrdiff_t)row * p->iw * p->ic);
        ptrdiff_t column = (ptrdiff_t)ix * p->ic;
        for (kx = 0; kx < p->kw; ++kx, column += next) {
            const int real = inside && column >= 0 && column < (ptrdiff_t)p->iw * p->ic;
            *at++ = real ? line + column : zeros;
        }
    }
}

/* The last channels, fewer than four. */
static AOT_NOINLINE AOT_UNUSED void aot_qdwconv_s16_rest(int32_t *sum, const int16_t *const *at,
                                                         int32_t offset, const int8_t *w,
                                                         int32_t taps, int32_t n,
                                                         const int32_t *bias, int UNIT) {
    int32_t c, k;
    for (c = 0; c < n; ++c) {
        const int32_t byte = UNIT == AOT_S16_DSP ? (c & 1) * 2 + (c >> 1) : c;
        sum[c] = bias[c];
        for (k = 0; k < taps; ++k) {
            sum[c] += at[k][offset + c] * w[4 * k + byte];
        }
    }
}

/* Rows y0 to y1 - 1, which are among those of p. */
AOT_INLINE void aot_qdwconv_s16_rows(int16_t *y, const int16_t *x, const int8_t *w,
                                     const int32_t *bias, const int32_t *mult, const int8_t *shift,
                                     void *scratch, const aot_qdwconv_s16_params *p, int32_t y0,
                                     int32_t y1, int RQ, int PC, int CLIP, int UNIT) {
    const aot_s16_out o = {mult, shift, p->y_zero, p->lo, p->hi};
    const int32_t taps = p->kh * p->kw, full = p->oc & ~3;
    const int16_t **const at = (const int16_t **)scratch;
    int16_t *const zeros = (int16_t *)(void *)(at + taps);
    int32_t sum[4], image, oy, ox, c;
    for (c = 0; c < p->ic; ++c) {
        zeros[c] = (int16_t)p->x_zero;
    }
    for (image = 0; image < p->n; ++image) {
        const int16_t *const from = x + (ptrdiff_t)image * p->ih * p->iw * p->ic;
        int16_t *to = y + ((ptrdiff_t)image * p->oh + y0 - p->y_row0) * p->ow * p->oc;
        for (oy = y0; oy < y1; ++oy) {
            for (ox = 0; ox < p->ow; ++ox, to += p->oc) {
                const int8_t *taken = w;
                aot_qdwconv_s16_look(at, from, zeros, p, oy * p->sh - p->pt, ox * p->sw - p->pl);
                for (c = 0; c < full; c += 4, taken += 4 * (ptrdiff_t)taps) {
                    aot_s16_taps(sum, at, c, taken, taps, bias + c, UNIT);
                    aot_s16_store(to + c, NULL, sum, c, 4, &o, RQ, PC, CLIP, UNIT);
                }
                if (full < p->oc) {
                    aot_qdwconv_s16_rest(sum, at, full, taken, taps, p->oc - full, bias + full,
                                         UNIT);
                    aot_s16_store(to + full, NULL, sum, full, p->oc - full, &o, RQ, PC, CLIP, UNIT);
                }
            }
        }
    }
}

/* All rows of p. */
AOT_INLINE void aot_qdwconv_s16(int16_t *y, const int16_t *x, const int8_t *w, const int32_t *bias,
                                const int32_t *mult, const int8_t *shift, void *scratch,
                                const aot_qdwconv_s16_params *p, int RQ, int PC, int CLIP,
                                int UNIT) {
    aot_qdwconv_s16_rows(y, x, w, bias, mult, shift, scratch, p, p->y0, p->y1, RQ, PC, CLIP, UNIT);
}

#endif /* AOT_QDWCONV_S16_H */
