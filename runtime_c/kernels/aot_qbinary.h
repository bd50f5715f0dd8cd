/* SPDX-License-Identifier: MIT-0 */
/* Sums and products of two tensors of int8 quantised values, broadcast as in aot_broadcast.h.
 *
 * aot_qadd_s8: KIND 0 y = (a * a_mult + b * b_mult + offset) >> y_shift, with what rounds in the
 *   offset; KIND 1 the same with halves to even (the offset holds one less than a half); KIND 2 as
 *   TensorFlow Lite: both operands minus their zero points times 2^20 to a common scale, their sum
 *   (difference with offset -1) to the scale of y, each by a multiplier of RQ 2 of aot_requant.h.
 * aot_qmul_s8: y = requantise((a - a_zero) * (b - b_zero)) + y_zero with RQ = KIND.
 *
 * Results are limited to [lo, hi]. y may be an operand that is not broadcast; no scratch.
 */
#ifndef AOT_QBINARY_H
#define AOT_QBINARY_H

#include "aot_broadcast.h"
#include "aot_quantised.h"
#include "aot_requant.h"

typedef struct aot_qbinary_params {
    int64_t dims[AOT_BROADCAST_DIMS], sa[AOT_BROADCAST_DIMS], sb[AOT_BROADCAST_DIMS];
    int32_t a_mult, b_mult, y_mult, a_shift, b_shift, y_shift, offset;
    int32_t a_zero, b_zero, y_zero, lo, hi;
} aot_qbinary_params;

typedef aot_qbinary_params aot_qadd_s8_params;
typedef aot_qbinary_params aot_qmul_s8_params;

#include "aot_qbinary_mve.h"

AOT_INLINE int32_t aot_qadd_one(int32_t a, int32_t b, const aot_qbinary_params *p, int KIND) {
    if (KIND == 2) {
        const int32_t left = aot_requant((a - p->a_zero) * (1 << 20), p->a_mult, p->a_shift, 2);
        const int32_t right = aot_requant((b - p->b_zero) * (1 << 20), p->b_mult, p->b_shift, 2);
        return aot_requant(left + p->offset * right, p->y_mult, p->y_shift, 2) + p->y_zero;
    } else {
        int32_t sum = a * p->a_mult + b * p->b_mult + p->offset;
        sum += KIND == 1 ? (sum >> p->y_shift) & 1 : 0;
        return sum >> p->y_shift;
    }
}

AOT_INLINE void aot_qadd_s8_row(int8_t *y, const int8_t *a, const int8_t *b, ptrdiff_t n,
                                const aot_qbinary_params *given, int IA, int IB, int KIND) {
    const aot_qbinary_params own = *given, *p = &own;
    ptrdiff_t i;
#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__)
    if (IA == 1 && IB == 1 && aot_qmve_add_row(y, a, b, n, p, KIND)) {
        return;
    }
#endif
    for (i = 0; i < n; ++i) {
        const int32_t v = aot_qadd_one(a[i * IA], b[i * IB], p, KIND);
        y[i] = (int8_t)aot_q_clamp(v, p->lo, p->hi);
    }
}

AOT_INLINE void aot_qadd_s8(int8_t *y, const int8_t *a, const int8_t *b,
                            const aot_qbinary_params *p, int IA, int IB, int KIND) {
#define AOT_QADD_ROW(y_, a_, b_, n_) aot_qadd_s8_row(y_, a_, b_, n_, p, IA, IB, KIND)
    AOT_BROADCAST2(int8_t, int8_t, int8_t, AOT_QADD_ROW);
#undef AOT_QADD_ROW
}

AOT_INLINE void aot_qmul_s8_row(int8_t *y, const int8_t *a, const int8_t *b, ptrdiff_t n,
                                const aot_qbinary_params *p, int IA, int IB, int KIND) {
    ptrdiff_t i;
    for (i = 0; i < n; ++i) {
        const int32_t product = (a[i * IA] - p->a_zero) * (b[i * IB] - p->b_zero);
        const int32_t v = aot_requant(product, p->y_mult, p->y_shift, KIND);
        y[i] = (int8_t)aot_q_shifted(v, p->y_zero, p->lo, p->hi);
    }
}

AOT_INLINE void aot_qmul_s8(int8_t *y, const int8_t *a, const int8_t *b,
                            const aot_qbinary_params *p, int IA, int IB, int KIND) {
#define AOT_QMUL_ROW(y_, a_, b_, n_) aot_qmul_s8_row(y_, a_, b_, n_, p, IA, IB, KIND)
    AOT_BROADCAST2(int8_t, int8_t, int8_t, AOT_QMUL_ROW);
#undef AOT_QMUL_ROW
}

#endif /* AOT_QBINARY_H */
