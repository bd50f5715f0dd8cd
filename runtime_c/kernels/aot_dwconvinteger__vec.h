/* SPDX-License-Identifier: MIT-0 */
/* y = sum over a window of (x - xz) * w, w constant, a filter per channel, on vectors: x of int8
 * with channels last, y the int32 sums with channels in blocks of V; weights and W16 as
 * aot_qdwconv_s8__vec.h has them, less their zero points.
 *
 * sums[C] are those of the weights of a channel, C = channels rounded up to whole vectors. xz is
 * one zero point, or NULL for 0; with XT of uint8 x are such values less 128. Padding adds nothing.
 * Of the parameters x_zero, y_zero, lo and hi are not read. No scratch; y must not overlap x.
 */
#ifndef AOT_DWCONVINTEGER__VEC_H
#define AOT_DWCONVINTEGER__VEC_H

#include "aot_qdwconv_s8__vec.h"
#include "aot_quantised.h"

typedef aot_qconv_s8_params aot_dwconvinteger__vec_params;

/* Instance: XT of aot_quantised.h; W16 tells that the weights are int16. */
AOT_INLINE void aot_dwconvinteger__vec(int32_t *y, const int8_t *x, const void *w,
                                       const int32_t *sums, const void *xz,
                                       const aot_dwconvinteger__vec_params *p, int XT, int W16) {
    enum { P = AOT_QDWCONV_VEC_PIXELS };
    const int32_t pitch = (p->oc + AOT_VLEN - 1) / AOT_VLEN * AOT_VLEN;
    const int32_t right = p->iw - (P - 1) * p->sw - (p->kw - 1) * p->dw;
    aot_qconv_s8_params q = *p;
    int32_t image, oy, ox, c;
    int i;
    q.x_zero = (xz != NULL ? aot_q_load(xz, 0, XT) : 0) - (XT == AOT_Q_U8 ? 128 : 0);
    for (image = 0; image < p->n; ++image, x += (ptrdiff_t)p->ih * p->iw * p->ic) {
        for (c = 0; c < pitch; c += AOT_VLEN) {
            const aot_vi first = aot_viload(sums + c) * -q.x_zero;
            const int left = p->oc - c < AOT_VLEN ? (int)(p->oc - c) : AOT_VLEN;
            y += (ptrdiff_t)p->y0 * p->ow * AOT_VLEN;
            for (oy = p->y0; oy < p->y1; ++oy) {
                const int32_t iy = oy * p->sh - p->pt;
                const int rows = iy >= 0 && iy + (p->kh - 1) * p->dh < p->ih && left == AOT_VLEN;
                for (ox = 0; ox < p->ow;) {
                    const int32_t ix = ox * p->sw - p->pl;
                    aot_vi s[P];
                    if (rows == 0 || ox + P > p->ow || ix < 0 || ix >= right) {
                        s[0] = first;
                        aot_qdwconv_vec_sums(s, x, w, c, &q, iy, ix, c, pitch, left, 1, W16);
                        aot_vistore(y, s[0]);
                        y += AOT_VLEN;
                        ++ox;
                        continue;
                    }
                    AOT_UNROLL(16) for (i = 0; i < P; ++i) {
                        s[i] = first;
                    }
                    aot_qdwconv_vec_inner(s, x, w, c, &q, iy, ix, c, pitch, P, W16);
                    AOT_UNROLL(16) for (i = 0; i < P; ++i, y += AOT_VLEN) {
                        aot_vistore(y, s[i]);
                    }
                    ox += P;
                }
            }
            y += (ptrdiff_t)(p->oh - p->y1) * p->ow * AOT_VLEN;
        }
    }
}

#endif /* AOT_DWCONVINTEGER__VEC_H */
