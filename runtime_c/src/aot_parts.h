/* SPDX-License-Identifier: MIT-0 */
/* A call that threads share: part i of `parts` makes units aot_share(i) to aot_share(i + 1) - 1. */
#ifndef AOT_PARTS_H
#define AOT_PARTS_H

#include "aot/threads.h"

typedef struct {
    unsigned char *arena;
    const unsigned char *const *in;
    unsigned char *const *out;
    void **state;
    const unsigned char *weights;
    int32_t first, end; /* units of the call */
    int32_t parts;
} aot_parts;

/* The first unit of a part: a multiple of `tile` behind the first one of all. */
AOT_INLINE int32_t aot_share(const aot_parts *all, int32_t part, int32_t tile) {
    const int32_t tiles = (all->end - all->first + tile - 1) / tile;
    const int64_t unit = (int64_t)tiles * part / all->parts * tile + all->first;
    return unit < all->end ? (int32_t)unit : all->end;
}

#endif /* AOT_PARTS_H */
