/* SPDX-License-Identifier: MIT-0 */
/* General contraction: products of up to three strided operands summed over some axes. */
#ifndef AOT_EINSUM_H
#define AOT_EINSUM_H

#include <stdint.h>

#include "aot/port.h"

typedef struct aot_einsum_params {
    int32_t outer[8]; /* extents of the result's axes, unused trailing ones 1; none is zero */
    int32_t a_o[8];   /* strides of a, b, c along them, in elements; 0 where absent */
    int32_t b_o[8];
    int32_t c_o[8];
    int32_t inner[8]; /* extents of the summed axes, right-aligned, unused leading ones 1 */
    int32_t a_i[8];   /* strides of a, b, c along them */
    int32_t b_i[8];
    int32_t c_i[8];
} aot_einsum_params;

typedef aot_einsum_params aot_einsum_f32_params;
typedef aot_einsum_params aot_einsum_f64_params;

/* Steps an index over dims and three offsets with it; 0 after the last. */
AOT_INLINE int aot_einsum_next(int32_t *at, const int32_t *dims, int axes, int64_t *off,
                               const int32_t *sa, const int32_t *sb, const int32_t *sc) {
    for (int k = axes - 1; k >= 0; --k) {
        off[0] += sa[k];
        off[1] += sb[k];
        off[2] += sc[k];
        if (++at[k] < dims[k]) {
            return 1;
        }
        off[0] -= (int64_t)sa[k] * dims[k];
        off[1] -= (int64_t)sb[k] * dims[k];
        off[2] -= (int64_t)sc[k] * dims[k];
        at[k] = 0;
    }
    return 0;
}

/* aot_einsum_<t>: y (row-major over `outer`) = sum over `inner` of a * b * c; OPS operands are
   given (1..3), the others NULL. Not in place. No scratch. */
#define AOT_EINSUM(name, type)                                                                     \
    AOT_INLINE void name(type *y, const type *a, const type *b, const type *c,                     \
                         const name##_params *p, int OPS) {                                        \
        int32_t at[8] = {0, 0, 0, 0, 0, 0, 0, 0};                                                  \
        int64_t off[3] = {0, 0, 0};                                                                \
        do {                                                                                       \
            int32_t in[8] = {0, 0, 0, 0, 0, 0, 0, 0};                                              \
            int64_t o[3] = {off[0], off[1], off[2]};                                               \
            const int64_t n = p->inner[7];                                                         \
            type sum = 0;                                                                          \
            do {                                                                                   \
                for (int64_t i = 0; i < n; ++i) {                                                  \
                    type v = a[o[0] + i * p->a_i[7]];                                              \
                    if (OPS > 1) {                                                                 \
                        v *= b[o[1] + i * p->b_i[7]];                                              \
                    }                                                                              \
                    if (OPS > 2) {                                                                 \
                        v *= c[o[2] + i * p->c_i[7]];                                              \
                    }                                                                              \
                    sum += v;                                                                      \
                }                                                                                  \
            } while (aot_einsum_next(in, p->inner, 7, o, p->a_i, p->b_i, p->c_i));                 \
            *y++ = sum;                                                                            \
        } while (aot_einsum_next(at, p->outer, 8, off, p->a_o, p->b_o, p->c_o));                   \
    }

AOT_EINSUM(aot_einsum_f32, float)
AOT_EINSUM(aot_einsum_f64, double)

#endif
