/* SPDX-License-Identifier: MIT-0 */
/* Padding and cropping on any axes. */
#ifndef AOT_PAD_H
#define AOT_PAD_H

#include <stdint.h>

#include "aot_move.h"
#include "aot_rows.h"
#include "aot_walk.h"

#define AOT_PAD_CONSTANT 0
#define AOT_PAD_EDGE 1
#define AOT_PAD_REFLECT 2
#define AOT_PAD_WRAP 3

typedef struct aot_pad_params {
    int32_t dims[8];   /* shape of y, right-aligned, unused leading axes 1; none is zero */
    int32_t ys[8];     /* strides of y in elements */
    int32_t xs[8];     /* strides of x in elements */
    int32_t extent[8]; /* shape of x; none is zero unless the mode is constant */
    int32_t before[8]; /* elements added in front of each axis; negative ones are removed */
} aot_pad_params;

/* Where index i of a padded axis of extent n comes from, or -1 for the constant. */
AOT_INLINE int32_t aot_pad_source(int32_t i, int32_t n, int MODE) {
    if (i >= 0 && i < n) {
        return i;
    }
    switch (MODE) {
    case AOT_PAD_EDGE:
        return i < 0 ? 0 : n - 1;
    case AOT_PAD_REFLECT: {
        const int32_t period = n > 1 ? 2 * (n - 1) : 1;
        int32_t r = i % period;
        r = r < 0 ? r + period : r;
        return r < n ? r : period - r;
    }
    case AOT_PAD_WRAP: {
        const int32_t r = i % n;
        return r < 0 ? r + n : r;
    }
    default:
        return -1;
    }
}

/* One row of y along its last axis; x is the row's source. */
AOT_INLINE void aot_pad_row(void *y, const void *x, const void *value, const aot_pad_params *p,
                            int E, int MODE) {
    const int32_t n = p->extent[7], before = p->before[7], total = p->dims[7];
    const int32_t first = before > 0 ? (before < total ? before : total) : 0;
    const int32_t most = n + before < total ? n + before : total;
    const int32_t end = most > first ? most : first;
    int32_t i = 0;
    for (; i < first; ++i) {
        const int32_t s = aot_pad_source(i - before, n, MODE);
        aot_move1(y, i, s < 0 ? value : x, s < 0 ? 0 : s, E);
    }
    if (end > first) {
        aot_move_run(aot_move_at(y, (int64_t)first * E), 1,
                     aot_move_from(x, (int64_t)(first - before) * E), 1, end - first, E);
        i = end;
    }
    for (; i < total; ++i) {
        const int32_t s = aot_pad_source(i - before, n, MODE);
        aot_move1(y, i, s < 0 ? value : x, s < 0 ? 0 : s, E);
    }
}

/* y = x with elements added or removed at both ends of each axis; added ones are *value (MODE
   constant; NULL is not allowed) or come from x (edge, reflect, wrap). Elements of E bytes. By rows
   y is one row, and x has one row or none. Not in place. No scratch. */
AOT_INLINE void aot_pad(void *y, const void *x, const void *value, const aot_pad_params *p, int E,
                        int MODE) {
    static const int32_t zero[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    aot_walk w;
    aot_walk_start(&w, 0, 0);
    do {
        int64_t from = 0;
        int inside = 1;
        for (int k = 0; k < 7; ++k) {
            const int32_t s = aot_pad_source(w.at[k] - p->before[k], p->extent[k], MODE);
            inside &= s >= 0;
            from += (int64_t)s * p->xs[k];
        }
        if (inside != 0) {
            const void *row = AOT_AT(x, 0, from * E, aot_move_from(x, from * E));
            aot_pad_row(aot_move_at(y, w.y * E), row, value, p, E, MODE);
        } else {
            for (int32_t i = 0; i < p->dims[7]; ++i) {
                aot_move1(y, w.y + i, value, 0, E);
            }
        }
    } while (aot_walk_next(&w, p->dims, p->ys, zero, 7) != 0);
}

#endif
