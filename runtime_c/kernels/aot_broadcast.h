/* SPDX-License-Identifier: MIT-0 */
/* Loops over broadcast operands, shared by the elementwise kernels.
 *
 * Iteration space: dims[0..5], outermost first, unused outer dims 1. y is contiguous in that
 * order. sa, sb, sc hold the element strides of the operands, 0 where one is broadcast; the
 * innermost strides are 0 or 1 and are repeated as instance constants IA, IB, IC.
 *
 * AOT_BROADCAST2(TY, TA, TB, ROW) is the body of a kernel with arguments y, a, b (c), p: it calls
 * ROW(y, a, b, n) for every n innermost elements. Shapes are physical: a blocked tensor is
 * an array with one more axis, its pad lanes are computed like any other and never mix.
 */
#ifndef AOT_BROADCAST_H
#define AOT_BROADCAST_H

#include <stddef.h>
#include <stdint.h>

#include "aot/port.h"

#define AOT_BROADCAST_DIMS 6

typedef struct aot_broadcast2_params {
    int64_t dims[6];
    int64_t sa[6], sb[6]; /* strides in elements */
    float lo, hi;         /* bounds of a fused clip */
} aot_broadcast2_params;

typedef struct aot_broadcast3_params {
    int64_t dims[6];
    int64_t sa[6], sb[6], sc[6];
    float lo, hi;
} aot_broadcast3_params;

/* Advances the odometer `at` over the outer axes 0..3; 0 when it has gone round. */
AOT_INLINE int aot_broadcast_next(int64_t *at, const int64_t *dims) {
    int d;
    for (d = 3; d >= 0; --d) {
        if (++at[d] < dims[d]) {
            return 1;
        }
        at[d] = 0;
    }
    return 0;
}

AOT_INLINE ptrdiff_t aot_broadcast_at(const int64_t *at, const int64_t *stride) {
    return (ptrdiff_t)(at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2] +
                       at[3] * stride[3]);
}

AOT_INLINE int aot_broadcast_empty(const int64_t *dims) {
    int d, empty = 0;
    for (d = 0; d < AOT_BROADCAST_DIMS; ++d) {
        empty |= dims[d] <= 0;
    }
    return empty;
}

#define AOT_BROADCAST2(TY, TA, TB, ROW)                                                            \
    do {                                                                                           \
        int64_t at_[4] = {0, 0, 0, 0}, i_;                                                         \
        TY *y_ = y;                                                                                \
        if (aot_broadcast_empty(p->dims)) {                                                        \
            break;                                                                                 \
        }                                                                                          \
        do {                                                                                       \
            const TA *a_ = a + aot_broadcast_at(at_, p->sa);                                       \
            const TB *b_ = b + aot_broadcast_at(at_, p->sb);                                       \
            for (i_ = 0; i_ < p->dims[4]; ++i_) {                                                  \
                ROW(y_, a_, b_, (ptrdiff_t)p->dims[5]);                                            \
                y_ += p->dims[5];                                                                  \
                a_ += p->sa[4];                                                                    \
                b_ += p->sb[4];                                                                    \
            }                                                                                      \
        } while (aot_broadcast_next(at_, p->dims));                                                \
    } while (0)

#define AOT_BROADCAST3(TY, TA, TB, TC, ROW)                                                        \
    do {                                                                                           \
        int64_t at_[4] = {0, 0, 0, 0}, i_;                                                         \
        TY *y_ = y;                                                                                \
        if (aot_broadcast_empty(p->dims)) {                                                        \
            break;                                                                                 \
        }                                                                                          \
        do {                                                                                       \
            const TA *a_ = a + aot_broadcast_at(at_, p->sa);                                       \
            const TB *b_ = b + aot_broadcast_at(at_, p->sb);                                       \
            const TC *c_ = c + aot_broadcast_at(at_, p->sc);                                       \
            for (i_ = 0; i_ < p->dims[4]; ++i_) {                                                  \
                ROW(y_, a_, b_, c_, (ptrdiff_t)p->dims[5]);                                        \
                y_ += p->dims[5];                                                                  \
                a_ += p->sa[4];                                                                    \
                b_ += p->sb[4];                                                                    \
                c_ += p->sc[4];                                                                    \
            }                                                                                      \
        } while (aot_broadcast_next(at_, p->dims));                                                \
    } while (0)

#endif /* AOT_BROADCAST_H */
