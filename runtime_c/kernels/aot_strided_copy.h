/* SPDX-License-Identifier: MIT-0 */
/* Copy between two strided views: slices, splits, broadcasts, tiles, parts of a concatenation. */
#ifndef AOT_STRIDED_COPY_H
#define AOT_STRIDED_COPY_H

#include <stdint.h>

#include "aot_move.h"
#include "aot_walk.h"

typedef struct aot_strided_copy_params {
    int32_t dims[8]; /* extents, right-aligned: unused leading axes are 1; none is zero */
    int32_t ys[8];   /* strides of y in elements */
    int32_t xs[8];   /* strides of x in elements: zero repeats, negative runs backwards */
} aot_strided_copy_params;

/* y[i . ys] = x[i . xs] for every index i in dims; elements of E bytes, any type.
   Not in place. No scratch. */
AOT_INLINE void aot_strided_copy(void *y, const void *x, const aot_strided_copy_params *p, int E) {
    const int64_t count = p->dims[7], ys = p->ys[7], xs = p->xs[7];
    aot_walk w;
    aot_walk_start(&w, 0, 0);
    if (ys == 1 && xs == 1) {
        do {
            aot_move_run(aot_move_at(y, w.y * E), 1, aot_move_from(x, w.x * E), 1, count, E);
        } while (aot_walk_next(&w, p->dims, p->ys, p->xs, 7) != 0);
    } else if (ys == 1 && xs == 0) {
        do {
            for (int64_t i = 0; i < count; ++i) {
                aot_move1(y, w.y + i, x, w.x, E);
            }
        } while (aot_walk_next(&w, p->dims, p->ys, p->xs, 7) != 0);
    } else {
        do {
            for (int64_t i = 0; i < count; ++i) {
                aot_move1(y, w.y + i * ys, x, w.x + i * xs, E);
            }
        } while (aot_walk_next(&w, p->dims, p->ys, p->xs, 7) != 0);
    }
}

#endif
