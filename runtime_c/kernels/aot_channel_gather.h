/* SPDX-License-Identifier: MIT-0 */
/* Channels in blocks, in another order. */
#ifndef AOT_CHANNEL_GATHER_H
#define AOT_CHANNEL_GATHER_H

#include <stdint.h>

#include "aot_move.h"

#define AOT_CHANNEL_GATHER_LANES 16

typedef struct aot_channel_gather_params {
    int32_t n;      /* batch */
    int32_t c;      /* channels of y */
    int32_t s;      /* product of the spatial axes */
    int32_t x_step; /* elements of x per batch */
} aot_channel_gather_params;

/* y [n][ceil(c/V)][s][V] = channels table[0..c) of x [n][*][s][V]; pad lanes of y repeat the last
   channel. Elements of E bytes, any type; V at most 16. Not in place. */
AOT_INLINE void aot_channel_gather(void *y, const void *x, const int32_t *table,
                                   const aot_channel_gather_params *p, int E, int V) {
    const int64_t s = p->s;
    for (int32_t n = 0; n < p->n; ++n, x = aot_move_from(x, (int64_t)p->x_step * E)) {
        for (int32_t c = 0; c < p->c; c += V, y = aot_move_at(y, s * V * E)) {
            int64_t from[AOT_CHANNEL_GATHER_LANES];
            for (int l = 0; l < V; ++l) {
                const int32_t k = table[c + l < p->c ? c + l : p->c - 1];
                from[l] = (k - k % V) * s + k % V;
            }
            for (int64_t i = 0; i < s * V; i += V) {
                for (int l = 0; l < V; ++l) {
                    aot_move1(y, i + l, x, from[l] + i, E);
                }
            }
        }
    }
}

#endif
