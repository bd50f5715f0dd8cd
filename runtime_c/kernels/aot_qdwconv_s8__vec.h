/* SPDX-License-Identifier: MIT-0 */
/* Depthwise convolution of int8 quantised values on vectors of channels, one result per channel:
 * parameters in aot_qconv_s8_params.h (ic = oc channels).
 *
 * w [kh][kw][C], int8 or with W16 int16 (weights less their zero points), bias [C], C = channels
 * rounded up to whole vectors, zero past the last. Pixels whose windows lie within the image are
 * computed AOT_QDWCONV_VEC_PIXELS at a time. No scratch; y must not overlap x.
 */
#ifndef AOT_QDWCONV_S8__VEC_H
#define AOT_QDWCONV_S8__VEC_H

#include "aot_qconv_s8_params.h"
#include "aot_qvec.h"

#define AOT_QDWCONV_VEC_PIXELS 4

typedef aot_qdwconv_s8_params aot_qdwconv_s8__vec_params;

/* V weights: int8, or with W16 int16. */
AOT_INLINE aot_vi aot_qdwconv_vec_weights(const void *w, ptrdiff_t at, int W16) {
    return W16 != 0 ? aot_qvec_widen_s16((const int16_t *)w + at)
                    : aot_qvec_widen((const int8_t *)w + at);
}

/* The sums of a vector of channels, those at w, of P pixels side by side whose windows lie within
 * the image, from row iy and column ix on. */
AOT_INLINE void aot_qdwconv_vec_inner(aot_vi *s, const int8_t *x, const void *w, ptrdiff_t from,
                                      const aot_qdwconv_s8_params *p, int32_t iy, int32_t ix,
                                      int32_t c, int32_t pitch, int P, int W16) {
    const ptrdiff_t step = (ptrdiff_t)p->sw * p->ic, next = (ptrdiff_t)p->dw * p->ic;
    int32_t a, b;
    int i;
    for (a = 0; a < p->kh; ++a) {
        const int32_t row = iy + a * p->dh - p->x_row0;
        const int8_t *at =
            AOT_AT(x, row, ix * p->ic + c, x + ((ptrdiff_t)row * p->iw + ix) * p->ic + c);
        for (b = 0; b < p->kw; ++b, from += pitch, at += next) {
            const aot_vi v = aot_qdwconv_vec_weights(w, from, W16);
            AOT_UNROLL(16) for (i = 0; i < P; ++i) {
                s[i] += aot_qvec_widen(at + i * step) * v;
            }
        }
    }
}

/* The sums of O vectors of channels of one pixel, from channel c on, at which w is. `tail` of the
 * last vector's lanes exist, no more may be read of x. */
AOT_INLINE void aot_qdwconv_vec_sums(aot_vi *s, const int8_t *x, const void *w, ptrdiff_t from,
                                     const aot_qdwconv_s8_params *p, int32_t iy, int32_t ix,
                                     int32_t c, int32_t pitch, int tail, int O, int W16) {
    int32_t a, b;
    int j;
    for (a = 0; a < p->kh; ++a) {
        const int32_t row = iy + a * p->dh;
        for (b = 0; b < p->kw; ++b, from += pitch) {
            const int32_t col = ix + b * p->dw;
            const int inside = row >= 0 && row < p->ih && col >= 0 && col < p->iw;
            const int8_t *const at =
                AOT_ROWS_APART && !inside
                    ? x
                    : AOT_AT(x, row - p->x_row0, col * p->ic + c,
                             x + ((ptrdiff_t)(row - p->x_row0) * p->iw + col) * p->ic + c);
            AOT_UNROLL(16) for (j = 0; j < O; ++j) {
                aot_vi v = aot_viset1(p->x_zero);
                if (inside && (tail == AOT_VLEN || j + 1 < O)) {
                    v = aot_qvec_widen(at + j * AOT_VLEN);
                } else if (inside != 0) {
                    int8_t lanes[AOT_VLEN] = {0};
                    (void)memcpy(lanes, at + j * AOT_VLEN, (size_t)tail);
                    v = aot_qvec_widen(lanes);
                }
                s[j] += v * aot_qdwconv_vec_weights(w, from + j * AOT_VLEN, W16);
            }
        }
    }
}

/* One pixel from channel c on; y is at its first channel, ix and iy are its window's corner. */
AOT_INLINE void aot_qdwconv_vec_pixel(int8_t *y, const int8_t *x, const void *w,
                                      const int32_t *bias, const aot_qvec_out *out,
                                      const aot_qdwconv_s8_params *p, int32_t iy, int32_t ix,
                                      int32_t c, int RQ, int PC, int O, int W16) {
    const int32_t pitch = (p->oc + AOT_VLEN - 1) / AOT_VLEN * AOT_VLEN;
    int j;
    for (; c + O * AOT_VLEN <= p->oc; c += O * AOT_VLEN) {
        aot_vi s[AOT_QVEC_MAX];
        AOT_UNROLL(16) for (j = 0; j < O; ++j) {
            s[j] = aot_viload(bias + c + j * AOT_VLEN);
        }
        aot_qdwconv_vec_sums(s, x, w, c, p, iy, ix, c, pitch, AOT_VLEN, O, W16);
        AOT_UNROLL(16) for (j = 0; j < O; ++j) {
            aot_qvec_store(y + c + j * AOT_VLEN, s[j], out, c + j * AOT_VLEN, AOT_VLEN, RQ, PC);
        }
    }
    for (; c < p->oc; c += AOT_VLEN) {
        const int n = p->oc - c < AOT_VLEN ? (int)(p->oc - c) : AOT_VLEN;
        aot_vi s = aot_viload(bias + c);
        aot_qdwconv_vec_sums(&s, x, w, c, p, iy, ix, c, pitch, n, 1, W16);
        aot_qvec_store(y + c, s, out, c, n, RQ, PC);
    }
}

/* Instance: RQ and PC as in aot_requant.h; O vectors of channels at once;
 * W16 tells that the weights are int16. */
AOT_INLINE void aot_qdwconv_s8__vec(int8_t *y, const int8_t *x, const void *w, const int32_t *bias,
                                    const int32_t *mult, const int8_t *shift, void *scratch,
                                    const aot_qdwconv_s8_params *p, int RQ, int PC, int O,
                                    int W16) {
    enum { P = AOT_QDWCONV_VEC_PIXELS };
    const int32_t pitch = (p->oc + AOT_VLEN - 1) / AOT_VLEN * AOT_VLEN;
    const int32_t right = p->iw - (P - 1) * p->sw - (p->kw - 1) * p->dw;
    const int32_t whole = p->oc - p->oc % AOT_VLEN;
    aot_qvec_out o;
    int32_t image, oy, ox, c;
    int i;
    (void)scratch;
    o.mult = mult;
    o.shift = shift;
    o.zero = p->y_zero;
    o.lo = p->lo;
    o.hi = p->hi;
    for (image = 0; image < p->n; ++image) {
        const int8_t *const xi = x + (ptrdiff_t)image * p->ih * p->iw * p->ic;
        int8_t *d = y + ((ptrdiff_t)image * p->oh + (p->y0 - p->y_row0)) * p->ow * p->oc;
        for (oy = p->y0; oy < p->y1; ++oy) {
            const int32_t iy = oy * p->sh - p->pt;
            const int rows = iy >= 0 && iy + (p->kh - 1) * p->dh < p->ih;
            for (ox = 0; ox < p->ow;) {
                const int32_t ix = ox * p->sw - p->pl;
                if (rows == 0 || ox + P > p->ow || ix < 0 || ix >= right) {
                    aot_qdwconv_vec_pixel(d, xi, w, bias, &o, p, iy, ix, 0, RQ, PC, O, W16);
                    d += p->oc;
                    ++ox;
                    continue;
                }
                for (c = 0; c < whole; c += AOT_VLEN) {
                    aot_vi s[AOT_QDWCONV_VEC_PIXELS];
                    AOT_UNROLL(16) for (i = 0; i < P; ++i) {
                        s[i] = aot_viload(bias + c);
                    }
                    aot_qdwconv_vec_inner(s, xi, w, c, p, iy, ix, c, pitch, P, W16);
                    AOT_UNROLL(16) for (i = 0; i < P; ++i) {
                        aot_qvec_store(d + (ptrdiff_t)i * p->oc + c, s[i], &o, c, AOT_VLEN, RQ, PC);
                    }
                }
                for (i = 0; i < P; ++i, d += p->oc) {
                    aot_qdwconv_vec_pixel(d, xi, w, bias, &o, p, iy, ix + i * p->sw, whole, RQ, PC,
                                          1, W16);
                }
                ox += P;
            }
        }
    }
}

#endif /* AOT_QDWCONV_S8__VEC_H */
