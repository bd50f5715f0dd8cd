/* SPDX-License-Identifier: MIT-0 */
/* The k largest or smallest elements along an axis, in order. */
#ifndef AOT_TOPK_H
#define AOT_TOPK_H

#include <stdint.h>

#include "aot/port.h"

typedef struct aot_topk_params {
    int32_t outer;   /* product of the axes before */
    int32_t axis;    /* extent of the axis in x */
    int32_t inner;   /* product of the axes after */
    int32_t k;       /* extent of the axis in y, at most `axis` */
    int32_t largest; /* 1: descending order, 0: ascending */
} aot_topk_params;

typedef aot_topk_params aot_topk_f32_params;
typedef aot_topk_params aot_topk_f64_params;
typedef aot_topk_params aot_topk_s32_params;
typedef aot_topk_params aot_topk_s64_params;
typedef aot_topk_params aot_topk_s16_params;
typedef aot_topk_params aot_topk_u8_params;
typedef aot_topk_params aot_topk_u16_params;
typedef aot_topk_params aot_topk_u32_params;
typedef aot_topk_params aot_topk_u64_params;
typedef aot_topk_params aot_topk_s8_params;

/* aot_topk_<t>: y, idx [outer][k][inner] = values and int64 positions of the k first elements of
   x [outer][axis][inner] in sorted order; among equals the lower position comes first.
   idx may be NULL when nobody wants it. Time grows with axis * k at worst. Not in place. */
#define AOT_TOPK(name, type)                                                                       \
    AOT_INLINE void name(type *y, int64_t *idx, const type *x, const name##_params *p) {           \
        const int64_t inner = p->inner;                                                            \
        for (int64_t o = 0; o < p->outer; ++o) {                                                   \
            for (int64_t i = 0; i < inner; ++i) {                                                  \
                const type *from = x + o * p->axis * inner + i;                                    \
                type *to = y + o * p->k * inner + i;                                               \
                int64_t *at = idx ? idx + o * p->k * inner + i : 0;                                \
                int64_t filled = 0;                                                                \
                for (int64_t j = 0; j < p->axis; ++j) {                                            \
                    const type v = from[j * inner];                                                \
                    int64_t s = filled;                                                            \
                    while (s > 0 &&                                                                \
                           (p->largest ? v > to[(s - 1) * inner] : v < to[(s - 1) * inner])) {     \
                        --s;                                                                       \
                        if (s + 1 < p->k) {                                                        \
                            to[(s + 1) * inner] = to[s * inner];                                   \
                            if (at) {                                                              \
                                at[(s + 1) * inner] = at[s * inner];                               \
                            }                                                                      \
                        }                                                                          \
                    }                                                                              \
                    if (s < p->k) {                                                                \
                        to[s * inner] = v;                                                         \
                        if (at) {                                                                  \
                            at[s * inner] = j;                                                     \
                        }                                                                          \
                        filled += filled < p->k;                                                   \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

AOT_TOPK(aot_topk_f32, float)
AOT_TOPK(aot_topk_f64, double)
AOT_TOPK(aot_topk_s32, int32_t)
AOT_TOPK(aot_topk_s64, int64_t)
AOT_TOPK(aot_topk_s16, int16_t)
AOT_TOPK(aot_topk_u8, uint8_t)
AOT_TOPK(aot_topk_u16, uint16_t)
AOT_TOPK(aot_topk_u32, uint32_t)
AOT_TOPK(aot_topk_u64, uint64_t)
AOT_TOPK(aot_topk_s8, int8_t)

#endif
