/* SPDX-License-Identifier: MIT-0 */
/* Matrix product of two tensors of codes: a [..][m][k], b [..][k][n], y [..][m][n],
 * y = clamp(requantise(sum of (a - a_zero) * (b - b_zero)) + y_zero, lo, hi).
 *
 * The leading axes are dims, outermost first, with element strides in a and b (0 where repeated).
 * mult and shift have one element (aot_requant.h); AT, BT, YT are types of aot_codes.h. The sums
 * must fit int32. No scratch; y must not overlap a or b.
 */
#ifndef AOT_QMATMUL_REF_H
#define AOT_QMATMUL_REF_H

#include <stddef.h>

#include "aot_broadcast.h"
#include "aot_codes.h"
#include "aot_requant.h"

typedef struct aot_qmatmul_ref_params {
    int64_t dims[AOT_BROADCAST_DIMS], a_stride[AOT_BROADCAST_DIMS], b_stride[AOT_BROADCAST_DIMS];
    int32_t m, k, n, a_zero, b_zero, y_zero, lo, hi;
} aot_qmatmul_ref_params;

AOT_INLINE void aot_qmatmul_ref(void *y, const void *a, const void *b, const int32_t *mult,
                                const int8_t *shift, const aot_qmatmul_ref_params *p, int RQ,
                                int AT, int BT, int YT) {
    int64_t at[AOT_BROADCAST_DIMS] = {0}, ao = 0, bo = 0, j = 0;
    int d;
    do {
        int32_t r, q, k;
        for (r = 0; r < p->m; ++r) {
            for (q = 0; q < p->n; ++q, ++j) {
                int32_t sum = 0, v;
                for (k = 0; k < p->k; ++k) {
                    sum += (aot_code(a, ao + (int64_t)r * p->k + k, AT) - p->a_zero) *
                           (aot_code(b, bo + (int64_t)k * p->n + q, BT) - p->b_zero);
                }
                v = aot_requant(sum, mult[0], shift != NULL ? shift[0] : 0, RQ);
                aot_set_code(y, j, aot_code_shifted(v, p->y_zero, p->lo, p->hi), YT);
            }
        }
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

#endif /* AOT_QMATMUL_REF_H */
