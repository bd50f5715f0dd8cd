/* SPDX-License-Identifier: MIT-0 */
/* Transposition in squares that stay in the nearest cache. */
#ifndef AOT_TRANSPOSE_H
#define AOT_TRANSPOSE_H

#include <stdint.h>

#include "aot_move.h"
#include "aot_walk.h"

typedef struct aot_transpose_params {
    int32_t dims[6]; /* extents of the other axes, right-aligned, unused ones 1; none is zero */
    int32_t ys[6];   /* their strides in y, in elements */
    int32_t xs[6];   /* their strides in x, in elements */
    int32_t a;       /* extent of the axis that is contiguous in x */
    int32_t b;       /* extent of the axis that is contiguous in y */
    int32_t ya;      /* stride of axis a in y, in elements */
    int32_t xb;      /* stride of axis b in x, in elements */
} aot_transpose_params;

/* y[i*ya + j] = x[j*xb + i] for i < a, j < b. */
AOT_INLINE void aot_transpose_2d(void *y, const void *x, int64_t a, int64_t b, int64_t ya,
                                 int64_t xb, int E) {
    const int64_t rows = a - a % 16, columns = b - b % 16; /* in whole squares */
    for (int64_t i = 0; i < rows; i += 16) {
        for (int64_t j = 0; j < columns; j += 16) {
            for (int64_t k = i; k < i + 16; ++k) {
                for (int64_t l = j; l < j + 16; ++l) {
                    aot_move1(y, k * ya + l, x, l * xb + k, E);
                }
            }
        }
        for (int64_t j = columns; j < b; ++j) {
            for (int64_t k = i; k < i + 16; ++k) {
                aot_move1(y, k * ya + j, x, j * xb + k, E);
            }
        }
    }
    for (int64_t i = rows; i < a; ++i) {
        for (int64_t j = 0; j < b; ++j) {
            aot_move1(y, i * ya + j, x, j * xb + i, E);
        }
    }
}

/* For every index of dims: the 2-D transposition of axes a and b; elements of E bytes, any type.
   Not in place. No scratch. */
AOT_INLINE void aot_transpose(void *y, const void *x, const aot_transpose_params *p, int E) {
    aot_walk w;
    aot_walk_start(&w, 0, 0);
    do {
        aot_transpose_2d(aot_move_at(y, w.y * E), aot_move_from(x, w.x * E), p->a, p->b, p->ya,
                         p->xb, E);
    } while (aot_walk_next(&w, p->dims, p->ys, p->xs, 6) != 0);
}

#endif
