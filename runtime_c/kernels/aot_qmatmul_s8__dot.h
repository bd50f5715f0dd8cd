/* SPDX-License-Identifier: MIT-0 */
/* Matrix product of two tensors of int8 values by dot products; shapes, zero points and limits as
 * aot_qmatmul_ref.h has them, its sums in 32 bits.
 *
 * The columns of b are packed to scratch, once for as many matrices of a in a row as read the same
 * one. Scratch: int32 [2 * C], C = n rounded up to whole vectors, in whole units of 64 bytes; the
 * panels, C * (k rounded up to 4) bytes, in such units; what aot_qdot_rows takes. y must not
 * overlap a or b.
 */
#ifndef AOT_QMATMUL_S8__DOT_H
#define AOT_QMATMUL_S8__DOT_H

#include "aot_qdot_rows.h"
#include "aot_qmatmul_ref.h"

typedef aot_qmatmul_ref_params aot_qmatmul_s8__dot_params;

/* Instance: RQ of aot_requant.h (0 to 2); L, S, O, FLIP and STRIP as in aot_qfc_s8__dot.h; WZ 1
 * where b_zero is not 0. */
AOT_INLINE void aot_qmatmul_s8__dot(int8_t *y, const int8_t *a, const int8_t *b,
                                    const int32_t *mult, const int8_t *shift, void *scratch,
                                    const aot_qmatmul_ref_params *p, int RQ, int L, int S, int O,
                                    int FLIP, int WZ, int STRIP) {
    const int32_t padded = aot_qdot_padded(p->n), deep = (p->k + 3) / 4 * 4;
    int32_t *const bias = (int32_t *)scratch;
    int8_t *const w = (int8_t *)(bias + (2 * padded + 15) / 16 * 16);
    void *const copy = w + ((ptrdiff_t)padded * deep + 63) / 64 * 64;
    int64_t at[AOT_BROADCAST_DIMS] = {0}, ao = 0, bo = 0, packed = -1;
    aot_qdot_result z;
    int32_t c;
    int d;
    aot_qdot_outcome(&z, y, mult, shift, p->y_zero, p->lo, p->hi);
    do {
        if (bo != packed) {
            aot_qdot_pack(w, bias, b + bo, p->k, p->n, O);
            for (c = 0; c < padded; c += AOT_VLEN) {
                const aot_vi sums = aot_viload(bias + c) - p->k * p->b_zero;
                aot_vistore(bias + c, sums * -(p->a_zero + FLIP));
                aot_vistore(bias + padded + c, aot_viset1(-p->b_zero));
            }
            packed = bo;
        }
        aot_qdot_rows(&z, a + ao, w, bias, copy, p->m, p->k, p->n, 0, RQ, L, S, O, FLIP, WZ, STRIP);
        z.y += (ptrdiff_t)p->m * p->n;
        for (d = AOT_BROADCAST_DIMS - 1; d >= 0; --d) {
            ao += p->a_stride[d];
            bo += p->b_stride[d];
            if (++at[d] < p->dims[d]) {
                break;
            }
            ao -= p->a_stride[d] * p->dims[d];
            bo -= p->b_stride[d] * p->dims[d];
            at[d] = 0;
        }
    } while (d >= 0);
}

#endif /* AOT_QMATMUL_S8__DOT_H */
