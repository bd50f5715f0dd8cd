/* SPDX-License-Identifier: MIT-0 */
/* Reorders between ONNX's row-major [N, C, S] and channels in blocks, [N, ceil(C/V), S, V]. */
#ifndef AOT_REORDER_H
#define AOT_REORDER_H

#include <stdint.h>

#include "aot_move.h"

typedef struct aot_to_blocked_params {
    int32_t n;    /* batch */
    int32_t c;    /* channels */
    int32_t s;    /* product of the spatial axes */
    int32_t elem; /* bytes of an element: 1, 2, 4 or 8 */
} aot_to_blocked_params;

typedef aot_to_blocked_params aot_from_blocked_params;

/* One channel block: y [s][V] from x [lanes][s]; lanes past `lanes` become zero. */
AOT_INLINE void aot_to_blocked_one(void *y, const void *x, int32_t s, int lanes, int elem, int V) {
    if (lanes == V) {
        for (int32_t i = 0; i < s; ++i) {
            for (int v = 0; v < V; ++v) {
                aot_move1(y, (int64_t)i * V + v, x, (int64_t)v * s + i, elem);
            }
        }
        return;
    }
    for (int32_t i = 0; i < s; ++i) {
        for (int v = 0; v < lanes; ++v) {
            aot_move1(y, (int64_t)i * V + v, x, (int64_t)v * s + i, elem);
        }
        for (int v = lanes; v < V; ++v) {
            aot_move_zero(y, (int64_t)i * V + v, elem);
        }
    }
}

/* One channel block: y [lanes][s] from x [s][V]. */
AOT_INLINE void aot_from_blocked_one(void *y, const void *x, int32_t s, int lanes, int elem,
                                     int V) {
    const int32_t whole = s - s % 16;
    /* Squares of 16 x V elements stay in the nearest cache while they are transposed. */
    for (int32_t i = 0; i < whole; i += 16) {
        for (int v = 0; v < lanes; ++v) {
            for (int32_t j = i; j < i + 16; ++j) {
                aot_move1(y, (int64_t)v * s + j, x, (int64_t)j * V + v, elem);
            }
        }
    }
    for (int32_t i = whole; i < s; ++i) {
        for (int v = 0; v < lanes; ++v) {
            aot_move1(y, (int64_t)v * s + i, x, (int64_t)i * V + v, elem);
        }
    }
}

AOT_INLINE void aot_to_blocked_any(void *y, const void *x, const aot_to_blocked_params *p, int elem,
                                   int V) {
    const int64_t s = p->s;
    for (int32_t n = 0; n < p->n; ++n) {
        for (int32_t c = 0; c < p->c; c += V) {
            const int lanes = p->c - c < V ? (int)(p->c - c) : V;
            aot_to_blocked_one(y, x, p->s, lanes, elem, V);
            y = aot_move_at(y, s * V * elem);
            x = aot_move_from(x, s * lanes * elem);
        }
    }
}

AOT_INLINE void aot_from_blocked_any(void *y, const void *x, const aot_from_blocked_params *p,
                                     int elem, int V) {
    const int64_t s = p->s;
    for (int32_t n = 0; n < p->n; ++n) {
        for (int32_t c = 0; c < p->c; c += V) {
            const int lanes = p->c - c < V ? (int)(p->c - c) : V;
            aot_from_blocked_one(y, x, p->s, lanes, elem, V);
            y = aot_move_at(y, s * lanes * elem);
            x = aot_move_from(x, s * V * elem);
        }
    }
}

/* y: [n][ceil(c/V)][s][V], pad lanes written as zero; x: [n][c][s]. Not in place. No scratch. */
AOT_INLINE void aot_to_blocked(void *y, const void *x, const aot_to_blocked_params *p, int V) {
    switch (p->elem) {
    case 1:
        aot_to_blocked_any(y, x, p, 1, V);
        break;
    case 2:
        aot_to_blocked_any(y, x, p, 2, V);
        break;
    case 4:
        aot_to_blocked_any(y, x, p, 4, V);
        break;
    default:
        aot_to_blocked_any(y, x, p, 8, V);
        break;
    }
}

/* y: [n][c][s]; x: [n][ceil(c/V)][s][V], pad lanes ignored. Not in place. No scratch. */
AOT_INLINE void aot_from_blocked(void *y, const void *x, const aot_from_blocked_params *p, int V) {
    switch (p->elem) {
    case 1:
        aot_from_blocked_any(y, x, p, 1, V);
        break;
    case 2:
        aot_from_blocked_any(y, x, p, 2, V);
        break;
    case 4:
        aot_from_blocked_any(y, x, p, 4, V);
        break;
    default:
        aot_from_blocked_any(y, x, p, 8, V);
        break;
    }
}

/* Row `row` of `rows` of what aot_to_blocked makes of one image whose channels are one block: y
 * [s / rows][V]; x is the whole image. */
AOT_INLINE void aot_to_blocked_row(void *y, const void *x, int32_t row, int32_t rows,
                                   const aot_to_blocked_params *p, int V) {
    const int32_t width = p->s / rows;
    for (int32_t i = 0; i < width; ++i) {
        for (int v = 0; v < V; ++v) {
            if (v < p->c) {
                const int64_t from = (int64_t)v * p->s + (int64_t)row * width + i;
                aot_move1(y, (int64_t)i * V + v, x, from, p->elem);
            } else {
                aot_move_zero(y, (int64_t)i * V + v, p->elem);
            }
        }
    }
}

#endif
