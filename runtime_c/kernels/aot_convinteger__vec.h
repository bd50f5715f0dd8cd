/* SPDX-License-Identifier: MIT-0 */
/* y = sum over a window of (x - xz) * w, w constant, groups = 1, on vectors: x of int8 or uint8
 * with channels last, y the int32 sums with channels in blocks of V; weights as aot_qvec.h says
 * with k = [kh][kw][ic].
 *
 * w is int8 values less their zero points; with WZ lacking[C] is what every weight of a channel
 * lacks, C = channels rounded up to whole panels; zeros[C] are zeros. xz is one zero point of x, or
 * NULL; padding adds nothing. P windows are copied to scratch, less xz: 2 * P * (k rounded up to an
 * even number) bytes. Of the parameters x_zero, y_zero, lo and hi are not read. y must not overlap
 * x.
 */
#ifndef AOT_CONVINTEGER__VEC_H
#define AOT_CONVINTEGER__VEC_H

#include "aot_qconv_s8_params.h"
#include "aot_quantised.h"
#include "aot_qvec.h"

typedef aot_qconv_s8_params aot_convinteger__vec_params;

/* Copies the window of result `at` of an image less `zero`, padded to `size` values; returns the
 * sum of its values. */
AOT_INLINE int32_t aot_convinteger_window(int16_t *d, const uint8_t *x, int32_t zero,
                                          const aot_qconv_s8_params *p, int32_t at, int32_t size,
                                          int XT) {
    const int32_t top = at / p->ow * p->sh - p->pt, left = at % p->ow * p->sw - p->pl;
    int16_t *const end = d + size;
    int32_t total = 0, a, b, c;
    for (a = 0; a < p->kh; ++a) {
        const int32_t row = top + a * p->dh;
        for (b = 0; b < p->kw; ++b, d += p->ic) {
            const int32_t col = left + b * p->dw;
            const int inside = row >= 0 && row < p->ih && col >= 0 && col < p->iw;
            const uint8_t *const s = x + (inside ? ((ptrdiff_t)row * p->iw + col) * p->ic : 0);
            for (c = 0; c < p->ic; ++c) {
                d[c] = (int16_t)(inside ? (XT == AOT_Q_U8 ? s[c] : (int8_t)s[c]) - zero : 0);
                total += d[c];
            }
        }
    }
    while (d < end) {
        *d++ = 0;
    }
    return total;
}

/* Instance: XT of aot_quantised.h; P pixels times O vectors at once, PAIR as in aot_qvec.h. */
AOT_INLINE void aot_convinteger__vec(int32_t *y, const void *x, const int8_t *w,
                                     const int32_t *zeros, const int32_t *lacking, const void *xz,
                                     void *scratch, const aot_convinteger__vec_params *p, int XT,
                                     int WZ, int P, int O, int PAIR) {
    const int32_t k = (p->kh * p->kw * p->ic + 1) & ~1, pixels = p->oh * p->ow;
    const int32_t end = p->y1 * p->ow;
    const int32_t zero = xz != NULL ? aot_q_load(xz, 0, XT) : 0;
    const int32_t padded = (p->oc + AOT_VLEN - 1) / AOT_VLEN * AOT_VLEN;
    int16_t *const columns = (int16_t *)scratch;
    int32_t image, at, c, i, j;
    for (image = 0; image < p->n; ++image, y += (ptrdiff_t)pixels * padded) {
        const uint8_t *const xi = (const uint8_t *)x + (ptrdiff_t)image * p->ih * p->iw * p->ic;
        for (at = p->y0 * p->ow; at < end; at += P) {
            const int32_t n = end - at < P ? end - at : P;
            const int8_t *panel = w;
            int32_t totals[AOT_QVEC_MAX];
            for (i = 0; i < P; ++i) {
                totals[i] = aot_convinteger_window(columns + (ptrdiff_t)i * k, xi, zero, p,
                                                   at + (i < n ? i : 0), k, XT);
            }
            for (c = 0; c < p->oc; c += O * AOT_VLEN, panel += (ptrdiff_t)k * O * AOT_VLEN) {
                aot_vi s[AOT_QVEC_MAX];
                aot_qvec_tile(s, columns, k, k, panel, zeros + c, P, O, PAIR);
                AOT_UNROLL(16) for (i = 0; i < P; ++i) {
                    AOT_UNROLL(16) for (j = 0; j < O; ++j) {
                        const int32_t first = c + j * AOT_VLEN;
                        if (i < n && first < padded) {
                            const aot_vi sum = s[i * O + j];
                            aot_vistore(
                                y + (ptrdiff_t)first * pixels + (ptrdiff_t)(at + i) * AOT_VLEN,
                                WZ != 0 ? sum + aot_viload(lacking + first) * totals[i] : sum);
                        }
                    }
                }
            }
        }
    }
}

#endif /* AOT_CONVINTEGER__VEC_H */
