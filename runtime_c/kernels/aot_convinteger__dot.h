/* SPDX-License-Identifier: MIT-0 */
/* y = sum over a window of (x - xz) * w, w constant, groups = 1, by dot products: x of int8 or
 * uint8 with channels last, y the int32 sums with channels in blocks of V; weights, bias, WZ and
 * scratch as aot_qconv_s8__dot.h has them, of x as int8.
 *
 * w is int8 values less their zero points; sums[C] are those of its channels, C = channels rounded
 * up to whole vectors. xz is one zero point of x, or NULL; padding adds nothing. The scratch begins
 * with int32 [C], with WZ [2 * C], in whole units of 64 bytes. Of the parameters x_zero, y_zero, lo
 * and hi are not read. y must not overlap x.
 */
#ifndef AOT_CONVINTEGER__DOT_H
#define AOT_CONVINTEGER__DOT_H

#include "aot_qdot_rows.h"
#include "aot_quantised.h"

typedef aot_qconv_s8_params aot_convinteger__dot_params;

/* Instance: XT of aot_quantised.h; L, S, O, FLIP, WZ and STRIP as in aot_qconv_s8__dot.h. */
AOT_INLINE void aot_convinteger__dot(int32_t *y, const void *x, const int8_t *w,
                                     const int32_t *bias, const int32_t *sums, const void *xz,
                                     void *scratch, const aot_convinteger__dot_params *p, int XT,
                                     int L, int S, int O, int FLIP, int WZ, int STRIP) {
    const int32_t padded = aot_qdot_padded(p->oc), turned = XT == AOT_Q_U8 ? 128 : 0;
    const int32_t zero = (xz != NULL ? aot_q_load(xz, 0, XT) : 0) - turned;
    int32_t *const own = (int32_t *)scratch, c;
    void *const rest = own + (padded * (1 + WZ) + 15) / 16 * 16;
    aot_qconv_s8_params q = *p;
    aot_qdot_result z;
    for (c = 0; c < padded; c += AOT_VLEN) {
        aot_vistore(own + c, aot_viload(bias + c) - aot_viload(sums + c) * zero);
    }
    if (WZ != 0) {
        (void)memcpy(own + padded, bias + padded, (size_t)padded * sizeof *bias);
    }
    q.n = 1;
    q.x_zero = zero + turned; /* the copy turns it as it turns x */
    aot_qdot_outcome(&z, (int8_t *)y, NULL, NULL, 0, 0, 0);
    z.turned = turned;
    z.pixel = p->oc;
    z.block = (ptrdiff_t)p->oh * p->ow;
    z.y += (ptrdiff_t)p->y0 * p->ow * AOT_VLEN * (ptrdiff_t)sizeof *y; /* the part's first row */
    for (c = 0; c < p->n; ++c) {
        aot_qdot_conv(&z, (const int8_t *)x + (ptrdiff_t)c * p->ih * p->iw * p->ic, w, own, rest,
                      &q, AOT_QDOT_BLOCKS, AOT_REQUANT_NONE, 0, L, S, O, FLIP, WZ, STRIP);
        z.y += z.block * padded * (ptrdiff_t)sizeof *y;
    }
}

#endif /* AOT_CONVINTEGER__DOT_H */
