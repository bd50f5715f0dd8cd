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

#include "aot_qconv_s8__dot.h"
#include "aot_quantised.h"

typedef struct {
    int32_t m, k, n;
} aot_matmulinteger__dot_params;

/* Instance: AT of aot_quantised.h; L, S, O, FLIP, WZ and STRIP as in aot_qfc_s8__dot.h. */
AOT_INLINE void aot_matmulinteger__dot(int32_t *y, const void *a, const int8_t *w,
                                       const int32_t *bias, const int32_t *sums, const void *az,
                                       void *scratch, const aot_matmulinteger__dot_params *p,
                                       int AT, int L, int S, int O, int FLIP, int WZ, int STRIP) {
    const int32_t padded = (p->n + AOT_VLEN - 1) / AOT_VLEN * AOT_VLEN;
    const int32_t turned = AT == AOT_Q_U8 ? 128 : 0;
    const int32_t zero = (az != NULL ? aot_q_load(az, 0, AT) : 0) - turned;
    const int32_t most = STRIP / p->k < 1 ? 1 : STRIP / p->k;
    int32_t *const own = (int32_t *)scratch, *totals, rows, row, c;
    const int8_t *from = (const int8_t *)a;
    uint8_t *copy;
    aot_qdot_strip s;
    aot_qdot_result z;
    (void)memset(&s, 0, sizeof s);
    s.rows = most < p->m ? most : p->m;
    s.pixels = s.window.rows = s.window.cols = s.flat = 1;
    s.step = s.pitch = s.down = p->k;
    s.window.four = (p->k + 3) / 4;
    copy = (uint8_t *)(own + (padded * (1 + WZ) + 15) / 16 * 16);
    totals = (int32_t *)(void *)(copy + (s.rows * s.pitch + AOT_QDOT_LENGTH * s.step +
                                         AOT_QDOT_SLACK + 63) /
                                            64 * 64);
    for (c = 0; c < padded; c += AOT_VLEN) {
        aot_vistore(own + c, aot_viload(bias + c) - aot_viload(sums + c) * zero);
    }
    if (WZ != 0) {
        (void)memcpy(own + padded, bias + padded, (size_t)padded * sizeof *bias);
    }
    for (row = 0; row < p->m; row += rows, from += (ptrdiff_t)rows * p->k) {
        rows = p->m - row < s.rows ? p->m - row : s.rows;
        aot_qdot_copy(copy, from, (ptrdiff_t)rows * p->k, FLIP ^ turned);
        for (c = 0; WZ != 0 && c < rows; ++c) {
            totals[c] = aot_qdot_total(copy + (ptrdiff_t)c * p->k, p->k, FLIP);
        }
        aot_qdot_outcome(&z, (int8_t *)(y + (ptrdiff_t)row * p->n), NULL, NULL, 0, 0, 0);
        aot_qdot_products(&z, copy, totals, w, own, &s, rows, p->n, 0, AOT_QDOT_VALUES, 0,
                          AOT_REQUANT_NONE, 0, L, S, O, FLIP, WZ);
    }
}

#endif /* AOT_MATMULINTEGER__DOT_H */
