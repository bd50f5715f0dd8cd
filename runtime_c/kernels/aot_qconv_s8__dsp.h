/* SPDX-License-Identifier: MIT-0 */
/* Convolution of int8 codes for Cortex-M4, M7 and M33; groups = 1.
 *
 * x [n][ih][iw][ic], y [n][oh][ow][oc], see aot_qconv_s8_params.h. w: per four output channels the
 * words of aot_dsp_mac.h along the window, whose order of codes is [kh][kw][ic] padded to a
 * multiple of 8 or, for KIND 2, per row of the window and pair of input channels the three columns.
 * bias: one per output channel, padded to blocks of four; both zero past the channels.
 *
 * Two pixels are computed at a time, from their windows as int16 in scratch (bytes, K the padded
 * size of a window): KIND 0 6 K, any window; KIND 1 4 K, a window of one pixel without padding and
 * strides, ic a multiple of 4; KIND 2 16/3 K/2, windows three columns wide at stride 1 along
 * the row, ic a multiple of 4. w, bias and scratch are aligned to 4 bytes. y must not overlap x.
 */
#ifndef AOT_QCONV_S8__DSP_H
#define AOT_QCONV_S8__DSP_H

#include "aot_dsp_out.h"
#include "aot_qconv_s8_params.h"

typedef aot_qconv_s8_params aot_qconv_s8__dsp_params;

/* Widens n codes (a multiple of 4) of two pixels: their words in turn. */
AOT_INLINE void aot_qconv_dsp_widen(uint32_t *d, const int8_t *x0, const int8_t *x1, int32_t n) {
    const int8_t *const end = x0 + n;
    do {
        const uint32_t a = aot_dsp_load(x0), b = aot_dsp_load(x1);
        d[0] = aot_dsp_even(a);
        d[1] = aot_dsp_even(b);
        d[2] = aot_dsp_odd(a);
        d[3] = aot_dsp_odd(b);
        d += 4;
        x0 += 4;
        x1 += 4;
    } while (x0 != end);
}

/* n bytes, possibly none. */
AOT_INLINE int8_t *aot_qconv_dsp_copy(int8_t *d, const int8_t *s, int32_t n) {
    int32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        memcpy(d + i, s + i, 4);
    }
    for (; i < n; ++i) {
        d[i] = s[i];
    }
    return d + n;
}

AOT_INLINE int8_t *aot_qconv_dsp_fill(int8_t *d, int32_t v, int32_t n) {
    int8_t *const end = d + n;
    while (d != end) {
        *d++ = (int8_t)v;
    }
    return d;
}

/* The codes of one window, x_zero outside the image; iy, ix its corner. */
static AOT_NOINLINE AOT_UNUSED void aot_qconv_dsp_window(int8_t *d, const int8_t *x,
                                                         const aot_qconv_s8_params *p, int32_t iy,
                                                         int32_t ix) {
    const int32_t row = p->iw * p->ic;
    int32_t ky, kx;
    for (ky = 0; ky < p->kh; ++ky, iy += p->dh) {
        const int8_t *s = x + (iy - p->x_row0) * row;
        if (iy < 0 || iy >= p->ih) {
            d = aot_qconv_dsp_fill(d, p->x_zero, p->kw * p->ic);
        } else if (p->dw == 1) {
            const int32_t left = ix < 0 ? (-ix < p->kw ? -ix : p->kw) : 0;
            const int32_t past = p->iw - ix < p->kw ? p->iw - ix : p->kw;
            const int32_t right = past > left ? past : left;
            d = aot_qconv_dsp_fill(d, p->x_zero, left * p->ic);
            d = aot_qconv_dsp_copy(d, s + (ix + left) * p->ic, (right - left) * p->ic);
            d = aot_qconv_dsp_fill(d, p->x_zero, (p->kw - right) * p->ic);
        } else {
            for (kx = 0; kx < p->kw; ++kx) {
                const int32_t col = ix + kx * p->dw;
                if (col < 0 || col >= p->iw) {
                    d = aot_qconv_dsp_fill(d, p->x_zero, p->ic);
                } else {
                    d = aot_qconv_dsp_copy(d, s + col * p->ic, p->ic);
                }
            }
        }
    }
}

/* The four columns from ix on of every row of a window, as aot_dsp_row_2x4 reads them. */
AOT_INLINE void aot_qconv_dsp_columns(uint32_t *d, const int8_t *x, const aot_qconv_s8_params *p,
                                      int32_t iy, int32_t ix) {
    const int32_t ic = p->ic, row = p->iw * ic;
    int32_t ky, kx;
    for (ky = 0; ky < p->kh; ++ky, iy += p->dh) {
        const int inside = iy >= 0 && iy < p->ih;
        const int8_t *s = x + ((iy - p->x_row0) * row + ix * ic);
        if (inside && ix >= 0 && ix + 4 <= p->iw) {
            const int8_t *const end = s + ic;
            const int8_t *t = s + 2 * ic;
            do {
                const uint32_t a = aot_dsp_load(s), b = aot_dsp_load(s + ic);
                const uint32_t c = aot_dsp_load(t), e = aot_dsp_load(t + ic);
                d[0] = aot_dsp_even(a);
                d[1] = aot_dsp_even(b);
                d[2] = aot_dsp_even(c);
                d[3] = aot_dsp_even(e);
                d[4] = aot_dsp_odd(a);
                d[5] = aot_dsp_odd(b);
                d[6] = aot_dsp_odd(c);
                d[7] = aot_dsp_odd(e);
                d += 8;
                s += 4;
                t += 4;
            } while (s != end);
            continue;
        }
        for (kx = 0; kx < 4; ++kx, s += ic) {
            const int real = inside && ix + kx >= 0 && ix + kx < p->iw;
            uint32_t a = ((uint32_t)p->x_zero & 0xFFU) * 0x01010101U;
            int32_t c;
            for (c = 0; c < ic; c += 4) {
                if (real) {
                    a = aot_dsp_load(s + c);
                }
                d[2 * c + kx] = aot_dsp_even(a);
                d[2 * c + kx + 4] = aot_dsp_odd(a);
            }
        }
        d += 2 * ic;
    }
}

/* All channels of two pixels whose windows are in scratch, up to `end`. */
AOT_INLINE void aot_qconv_dsp_pixels(int8_t *y0, int8_t *y1, const uint32_t *x, const uint32_t *end,
                                     const int8_t *w, const int32_t *bias, int32_t block,
                                     const aot_dsp_out *o, int32_t oc, int RQ, int PC, int KIND,
                                     int CLIP, int WIDE) {
    int32_t sum[8], c;
    int8_t *y[2];
    y[0] = y0;
    y[1] = y1;
    for (c = 0; c < oc; c += 4) {
        if (KIND == 2) {
            aot_dsp_row_2x4(sum, x, w, bias + c, end, WIDE);
        } else {
            aot_dsp_2x4(sum, x, w, bias + c, end, WIDE);
        }
        aot_dsp_store(y, 2, sum, c, oc - c < 4 ? oc - c : 4, o, RQ, PC, CLIP, WIDE);
        w += block;
        y[0] += 4;
        y[1] += 4;
    }
}

/* Instance: KIND, see above; CLIP 0 if lo and hi are -128 and 127; WIDE, see aot_dsp_mac.h. */
AOT_INLINE void aot_qconv_s8__dsp(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                                  const int32_t *mult, const int8_t *shift, void *scratch,
                                  const aot_qconv_s8__dsp_params *p, int RQ, int PC, int KIND,
                                  int CLIP, int WIDE) {
    const int32_t window = p->kh * p->kw * p->ic, depth = (window + 7) & ~7;
    const int32_t words = KIND == 2 ? 2 * p->kh * p->ic : depth;
    const int32_t block = 4 * (KIND == 2 ? window : depth);
    uint32_t *const wide = (uint32_t *)scratch;
    int8_t *const stage = (int8_t *)(wide + depth);
    aot_dsp_out o;
    int32_t image, oy, ox;
    aot_dsp_out_init(&o, mult, shift, p->oc, p->y_zero, p->lo, p->hi, RQ, PC);
    memset(wide, 0, (size_t)words * sizeof *wide);
    if (KIND == 0) {
        memset(stage, 0, 2 * (size_t)depth);
    }
    for (image = 0; image < p->n; ++image) {
        int8_t *out = y + (image * p->oh + p->y0 - p->y_row0) * p->ow * p->oc;
        const int8_t *in = x + image * p->ih * p->iw * p->ic;
        if (KIND == 1) {
            int32_t left = (p->y1 - p->y0) * p->ow;
            in += (p->y0 - p->x_row0) * p->iw * p->ic;
            for (; left > 0; left -= 2) {
                const int two = left > 1;
                aot_qconv_dsp_widen(wide, in, two ? in + p->ic : in, p->ic);
                aot_qconv_dsp_pixels(out, two ? out + p->oc : out, wide, wide + words, w, bias,
                                     block, &o, p->oc, RQ, PC, KIND, CLIP, WIDE);
                in += 2 * p->ic;
                out += 2 * p->oc;
            }
            continue;
        }
        for (oy = p->y0; oy < p->y1; ++oy) {
            const int32_t iy = oy * p->sh - p->pt;
            for (ox = 0; ox < p->ow; ox += 2) {
                const int32_t ix = ox * p->sw - p->pl;
                const int two = ox + 1 < p->ow;
                if (KIND == 2) {
                    aot_qconv_dsp_columns(wide, in, p, iy, ix);
                } else {
                    aot_qconv_dsp_window(stage, in, p, iy, ix);
                    aot_qconv_dsp_window(stage + depth, in, p, iy, two ? ix + p->sw : ix);
                    aot_qconv_dsp_widen(wide, stage, stage + depth, depth);
                }
                aot_qconv_dsp_pixels(out, two ? out + p->oc : out, wide, wide + words, w, bias,
                                     block, &o, p->oc, RQ, PC, KIND, CLIP, WIDE);
                out += two ? 2 * p->oc : p->oc;
            }
        }
    }
}

#endif /* AOT_QCONV_S8__DSP_H */
