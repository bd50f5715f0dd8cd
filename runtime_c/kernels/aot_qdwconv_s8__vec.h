/* SPDX-License-Identifier: MIT-0 */
/* Depthwise convolution of int8 quantised values on vectors of channels, one result per channel:
 * parameters in aot_qconv_s8_params.h (ic = oc channels).
 *
 * w [kh][kw][C], bias [C], C = channels rounded up to whole vectors, zero past the last. No
 * scratch; y must not overlap x.
 */
#ifndef AOT_QDWCONV_S8__VEC_H
#define AOT_QDWCONV_S8__VEC_H

#include "aot_qconv_s8_params.h"
#include "aot_qvec.h"

typedef aot_qdwconv_s8_params aot_qdwconv_s8__vec_params;

/* The sums of O vectors of channels of one pixel, from channel c on, at which w is. `tail` of the
 * last vector's lanes exist, no more may be read of x. */
AOT_INLINE void aot_qdwconv_vec_sums(aot_vi *s, const int8_t *x, const int8_t *w,
                                     const aot_qdwconv_s8_params *p, int32_t iy, int32_t ix,
                                     int32_t c, int32_t pitch, int tail, int O) {
    int32_t a, b;
    int j;
    for (a = 0; a < p->kh; ++a) {
        const int32_t row = iy + a * p->dh;
        for (b = 0; b < p->kw; ++b, w += pitch) {
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
                s[j] += v * aot_qvec_widen(w + j * AOT_VLEN);
            }
        }
    }
}

/* Instance: RQ and PC as in aot_requant.h; O vectors of channels at once. */
AOT_INLINE void aot_qdwconv_s8__vec(int8_t *y, const int8_t *x, const int8_t *w,
                                    const int32_t *bias, const int32_t *mult, const int8_t *shift,
                                    void *scratch, const aot_qdwconv_s8_params *p, int RQ, int PC,
                                    int O) {
    const int32_t pitch = (p->oc + AOT_VLEN - 1) / AOT_VLEN * AOT_VLEN;
    aot_qvec_out o;
    int32_t image, oy, ox, c;
    int j;
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
            for (ox = 0; ox < p->ow; ++ox, d += p->oc) {
                const int32_t iy = oy * p->sh - p->pt, ix = ox * p->sw - p->pl;
                for (c = 0; c + O * AOT_VLEN <= p->oc; c += O * AOT_VLEN) {
                    aot_vi s[AOT_QVEC_MAX];
                    AOT_UNROLL(16) for (j = 0; j < O; ++j) {
                        s[j] = aot_viload(bias + c + j * AOT_VLEN);
                    }
                    aot_qdwconv_vec_sums(s, xi, w + c, p, iy, ix, c, pitch, AOT_VLEN, O);
                    AOT_UNROLL(16) for (j = 0; j < O; ++j) {
                        aot_qvec_store(d + c + j * AOT_VLEN, s[j], &o, c + j * AOT_VLEN, AOT_VLEN,
                                       RQ, PC);
                    }
                }
                for (; c < p->oc; c += AOT_VLEN) {
                    const int n = p->oc - c < AOT_VLEN ? (int)(p->oc - c) : AOT_VLEN;
                    aot_vi s = aot_viload(bias + c);
                    aot_qdwconv_vec_sums(&s, xi, w + c, p, iy, ix, c, pitch, n, 1);
                    aot_qvec_store(d + c, s, &o, c, n, RQ, PC);
                }
            }
        }
    }
}

#endif /* AOT_QDWCONV_S8__VEC_H */
