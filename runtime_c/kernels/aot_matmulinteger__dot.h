/* SPDX-License-Identifier: MIT-0 */
/* y[m][n] = sum over k of (a[m][k] - az) * b[k][n], b constant, by dot products: a of int8 or
 * uint8, y the int32 sums; weights, bias, WZ and scratch as aot_qfc_s8__dot.h has them, of a as
 * int8.
 *
 * b is int8 values less their zero points; sums[C] are those of its columns, C = n rounded up to
 * whole vectors. az is one zero point of a, or NULL. The scratch begins with int32 [C], with WZ
 * [2 * C], in whole units of 64 bytes. y must not overlap a.
 */
#ifndef AOT_MATMULINTEGER__DOT_H
#define AOT_MATMULINTEGER__DOT_H

#include "aot_qdot_rows.h"
#include "aot_quantised.h"

typedef struct {
    int32_t m, k, n;
} aot_matmulinteger__dot_params;

/* Instance: AT of aot_quantised.h; L, S, O, FLIP, WZ and STRIP as in aot_qfc_s8__dot.h. */
AOT_INLINE void aot_matmulinteger__dot(int32_t *y, const void *a, const int8_t *w,
                                       const int32_t *bias, const int32_t *sums, const void *az,
                                       void *scratch, const aot_matmulinteger__dot_params *p,
                                       int AT, int L, int S, int O, int FLIP, int WZ, int STRIP) {
    const int32_t padded = aot_qdot_padded(p->n), flipped = AT == AOT_Q_U8 ? 128 : 0;
    const int32_t zero = (az != NULL ? aot_q_load(az, 0, AT) : 0) - flipped;
    int32_t *const own = (int32_t *)scratch, c;
    aot_qdot_result z;
    for (c = 0; c < padded; c += AOT_VLEN) {
        aot_vistore(own + c, aot_viload(bias + c) - aot_viload(sums + c) * zero);
    }
    if (WZ != 0) {
        (void)memcpy(own + padded, bias + padded, (size_t)padded * sizeof *bias);
    }
    aot_qdot_outcome(&z, (int8_t *)y, NULL, NULL, 0, 0, 0);
    aot_qdot_rows(&z, (const int8_t *)a, w, own, own + (padded * (1 + WZ) + 15) / 16 * 16, p->m,
                  p->k, p->n, flipped, AOT_REQUANT_NONE, L, S, O, FLIP, WZ, STRIP);
}

#endif /* AOT_MATMULINTEGER__DOT_H */
