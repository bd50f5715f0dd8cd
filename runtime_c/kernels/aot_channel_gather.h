/* SPDX-License-Identifier: MIT-0 */
/* Channels in another order, into blocks. */
#ifndef AOT_CHANNEL_GATHER_H
#define AOT_CHANNEL_GATHER_H

#include <stdint.h>

#include "aot_move.h"
#include "aot_vtranspose_f32.h"

#define AOT_CHANNEL_GATHER_LANES 16 /* lanes of a block that are copied together */

typedef struct aot_channel_gather_params {
    int32_t n;      /* batch */
    int32_t c;      /* channels of y */
    int32_t s;      /* product of the spatial axes */
    int32_t x_step; /* elements of x per batch */
} aot_channel_gather_params;

#if AOT_VLEN > 1
/* The first `end` pixels of a block, a multiple of AOT_VLEN; lane l is the plane at x + from[l]. */
AOT_INLINE void aot_channel_gather_squares(float *y, const float *x, const int64_t *from,
                                           int32_t end) {
    int32_t i;
    for (i = 0; i < end; i += AOT_VLEN) {
        aot_vf row[AOT_VLEN];
        int l;
        AOT_UNROLL(16) for (l = 0; l < AOT_VLEN; ++l) {
            row[l] = aot_vload(x + from[l] + i);
        }
        aot_vtranspose_f32_turn(row);
        AOT_UNROLL(16) for (l = 0; l < AOT_VLEN; ++l) {
            aot_vstore(y + (ptrdiff_t)(i + l) * AOT_VLEN, row[l]);
        }
    }
}
#endif

/* y [n][ceil(c/V)][s][V] = channels table[0..c) of x [n][*][s][V] or, with XV 1 instead of V, of a
   plain x [n][*][s]; pad lanes of y repeat the last channel. Elements of E bytes, any type. Not in
   place. */
AOT_INLINE void aot_channel_gather(void *y, const void *x, const int32_t *table,
                                   const aot_channel_gather_params *p, int E, int V, int XV) {
    const int64_t s = p->s;
    const int squares = AOT_VLEN > 1 && XV == 1 && V == AOT_VLEN && E == 4;
    const int32_t first = squares ? p->s - p->s % V : 0;
    for (int32_t n = 0; n < p->n; ++n, x = aot_move_from(x, (int64_t)p->x_step * E)) {
        for (int32_t c = 0; c < p->c; c += V, y = aot_move_at(y, s * V * E)) {
            for (int lane = 0; lane < V; lane += AOT_CHANNEL_GATHER_LANES) {
                const int left = V - lane;
                const int lanes = left < AOT_CHANNEL_GATHER_LANES ? left : AOT_CHANNEL_GATHER_LANES;
                int64_t from[AOT_CHANNEL_GATHER_LANES];
                for (int l = 0; l < lanes; ++l) {
                    const int32_t k = table[c + lane + l < p->c ? c + lane + l : p->c - 1];
                    from[l] = (k - k % XV) * s + k % XV;
                }
#if AOT_VLEN > 1
                if (first > 0) {
                    aot_channel_gather_squares((float *)y, (const float *)x, from, first);
                }
#endif
                for (int32_t i = first; i < p->s; ++i) {
                    for (int l = 0; l < lanes; ++l) {
                        const int64_t at = from[l] + (int64_t)i * XV;
                        aot_move1(y, (int64_t)i * V + lane + l, x, at, E);
                    }
                }
            }
        }
    }
}

#endif
