/* SPDX-License-Identifier: MIT-0 */
/* Walking two strided tensors of one shape together, last axis fastest. */
#ifndef AOT_WALK_H
#define AOT_WALK_H

#include <stdint.h>

#include "aot/port.h"

#define AOT_WALK_AXES 8

/* Where the walk stands: index per axis, and the element offsets in y and in x. */
typedef struct aot_walk {
    int32_t at[AOT_WALK_AXES];
    int64_t y, x;
} aot_walk;

AOT_INLINE void aot_walk_start(aot_walk *w, int64_t y, int64_t x) {
    for (int k = 0; k < AOT_WALK_AXES; ++k) {
        w->at[k] = 0;
    }
    w->y = y;
    w->x = x;
}

/* Steps the first `axes` axes of extents `dims` (none zero); 0 after the last element. */
AOT_INLINE int aot_walk_next(aot_walk *w, const int32_t *dims, const int32_t *ys, const int32_t *xs,
                             int axes) {
    for (int k = axes - 1; k >= 0; --k) {
        w->y += ys[k];
        w->x += xs[k];
        if (++w->at[k] < dims[k]) {
            return 1;
        }
        w->y -= (int64_t)ys[k] * dims[k];
        w->x -= (int64_t)xs[k] * dims[k];
        w->at[k] = 0;
    }
    return 0;
}

#endif
