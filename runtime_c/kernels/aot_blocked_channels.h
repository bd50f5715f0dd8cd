/* SPDX-License-Identifier: MIT-0 */
/* Copy of a range of channels between two tensors with channels in blocks. */
#ifndef AOT_BLOCKED_CHANNELS_H
#define AOT_BLOCKED_CHANNELS_H

#include <stdint.h>

#include "aot_move.h"

typedef struct aot_blocked_channels_params {
    int32_t n;      /* batch */
    int32_t s;      /* product of the spatial axes */
    int32_t count;  /* channels copied */
    int32_t y0;     /* the first one's channel in y */
    int32_t x0;     /* and in x */
    int32_t y_step; /* elements of y per batch */
    int32_t x_step; /* elements of x per batch */
} aot_blocked_channels_params;

/* y [n][*][s][V], x [n][*][s][V]: channels y0.. of y become channels x0.. of x. Other channels of
   y keep their values. Elements of E bytes, any type. Not in place. */
AOT_INLINE void aot_blocked_channels(void *y, const void *x, const aot_blocked_channels_params *p,
                                     int E, int V) {
    const int64_t s = p->s;
    for (int64_t n = 0; n < p->n; ++n) {
        int32_t c = 0;
        while (c < p->count) {
            /* The longest run that stays inside one block on both sides. */
            const int32_t cy = p->y0 + c, cx = p->x0 + c;
            const int32_t ly = cy % V, lx = cx % V;
            int32_t run = V - (ly > lx ? ly : lx);
            if (run > p->count - c) {
                run = p->count - c;
            }
            const int64_t ty = n * p->y_step + (cy - ly) * s + ly;
            const int64_t tx = n * p->x_step + (cx - lx) * s + lx;
            if (run == V) {
                (void)memcpy(aot_move_at(y, ty * E), aot_move_from(x, tx * E), (size_t)(s * V * E));
            } else {
                for (int64_t i = 0; i < s; ++i) {
                    for (int32_t l = 0; l < run; ++l) {
                        aot_move1(y, ty + i * V + l, x, tx + i * V + l, E);
                    }
                }
            }
            c += run;
        }
    }
}

#endif
