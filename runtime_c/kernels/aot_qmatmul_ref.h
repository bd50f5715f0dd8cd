/* SPDX-License-Identifier: MIT-0 */
/* Matrix product of two tensors of quantised values: a [..][m][k], b [..][k][n], y [..][m][n],
 * y = clamp(requantise(sum of (a - a_zero) * (b - b_zero)) + y_zero, lo, hi).
 *
 * The leading axes are dims, outermost first, with element strides in a and b (0 where repeated).
 * mult and shift have one element; AT, BT, YT are types of aot_quantised.h. RQ is one of
 * aot_requant.h where the sums fit int32. AOT_QMATMUL_WIDE, for 16-bit quantised values: sums of 64
 * bits, below 2^62, become sum * mult * 2^-(31 + shift), rounded once, halves to even; 0 < mult <
 * 2^31, 0 <= shift <= 62. No scratch; y must not overlap a or b.
 */
#ifndef AOT_QMATMUL_REF_H
#define AOT_QMATMUL_REF_H

#include <stddef.h>

#include "aot_broadcast.h"
#include "aot_quantised.h"
#include "aot_requant.h"

#define AOT_QMATMUL_WIDE 4 /* beyond the arithmetics of aot_requant.h */

typedef struct aot_qmatmul_ref_params {
    int64_t dims[AOT_BROADCAST_DIMS], a_stride[AOT_BROADCAST_DIMS], b_stride[AOT_BROADCAST_DIMS];
    int32_t m, k, n, a_zero, b_zero, y_zero, lo, hi;
} aot_qmatmul_ref_params;

/* What a sum of 64 bits becomes, limited to +-AOT_REQUANT_LIMIT. */
AOT_INLINE int32_t aot_qmatmul_scaled(int64_t sum, int32_t mult, int32_t shift) {
    const uint64_t size = sum < 0 ? 0U - (uint64_t)sum : (uint64_t)sum;
    const uint64_t high = (size >> 31) * (uint32_t)mult;
    const uint64_t low = (size & 0x7FFFFFFFU) * (uint32_t)mult;
    /* One bit more, set where anything is below it, decides as all of them would. */
    const uint64_t below = (uint64_t)((low & 0x7FFFFFFFU) != 0U);
    const uint64_t whole = aot_requant_drop(((high + (low >> 31)) << 1) | below, shift + 1);
    const int32_t limited =
        whole > (uint64_t)AOT_REQUANT_LIMIT ? AOT_REQUANT_LIMIT : (int32_t)whole;
    return sum < 0 ? -limited : limited;
}

/* The sum over k of one row of a, from element ao on, and one column of b, from bo on. */
AOT_INLINE int64_t aot_qmatmul_sum(const void *a, const void *b, int64_t ao, int64_t bo,
                                   const aot_qmatmul_ref_params *p, int AT, int BT) {
    int64_t sum = 0;
    for (int32_t k = 0; k < p->k; ++k, ++ao, bo += p->n) {
        sum += (int64_t)(aot_q_load(a, ao, AT) - p->a_zero) * (aot_q_load(b, bo, BT) - p->b_zero);
    }
    return sum;
}

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
                if (RQ == AOT_QMATMUL_WIDE) {
                    v = aot_qmatmul_scaled(
                        aot_qmatmul_sum(a, b, ao + (int64_t)r * p->k, bo + q, p, AT, BT), mult[0],
                        shift[0]);
                    aot_q_store(y, j, aot_q_shifted(v, p->y_zero, p->lo, p->hi), YT);
                    continue;
                }
                for (k = 0; k < p->k; ++k) {
                    sum += (aot_q_load(a, ao + (int64_t)r * p->k + k, AT) - p->a_zero) *
                           (aot_q_load(b, bo + (int64_t)k * p->n + q, BT) - p->b_zero);
                }
                v = aot_requant(sum, mult[0], shift != NULL ? shift[0] : 0, RQ);
                aot_q_store(y, j, aot_q_shifted(v, p->y_zero, p->lo, p->hi), YT);
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
