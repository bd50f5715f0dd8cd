/* SPDX-License-Identifier: MIT-0 */
/* Moving elements whose type does not matter, only their size: 1, 2, 4 or 8 bytes. */
#ifndef AOT_MOVE_H
#define AOT_MOVE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "aot/port.h"

/* Unsigned integers that may read and write objects of any type. */
#if defined(__GNUC__)
#define AOT_MOVE_ALIAS __attribute__((__may_alias__))
#else
#define AOT_MOVE_ALIAS
#endif
typedef uint8_t AOT_MOVE_ALIAS aot_move8;
typedef uint16_t AOT_MOVE_ALIAS aot_move16;
typedef uint32_t AOT_MOVE_ALIAS aot_move32;
typedef uint64_t AOT_MOVE_ALIAS aot_move64;

/* y[yi] = x[xi] for elements of `elem` bytes. `elem` is a compile-time constant where it counts. */
AOT_INLINE void aot_move1(void *y, int64_t yi, const void *x, int64_t xi, int elem) {
    switch (elem) {
    case 1:
        ((aot_move8 *)y)[yi] = ((const aot_move8 *)x)[xi];
        break;
    case 2:
        ((aot_move16 *)y)[yi] = ((const aot_move16 *)x)[xi];
        break;
    case 4:
        ((aot_move32 *)y)[yi] = ((const aot_move32 *)x)[xi];
        break;
    default:
        ((aot_move64 *)y)[yi] = ((const aot_move64 *)x)[xi];
        break;
    }
}

/* y[yi] = 0 for an element of `elem` bytes. */
AOT_INLINE void aot_move_zero(void *y, int64_t yi, int elem) {
    switch (elem) {
    case 1:
        ((aot_move8 *)y)[yi] = 0;
        break;
    case 2:
        ((aot_move16 *)y)[yi] = 0;
        break;
    case 4:
        ((aot_move32 *)y)[yi] = 0;
        break;
    default:
        ((aot_move64 *)y)[yi] = 0;
        break;
    }
}

/* Copies `count` elements of `elem` bytes, y[0], y[ys], … from x[0], x[xs], …; strides in
   elements, possibly zero or negative. y and x do not overlap. */
AOT_INLINE void aot_move_run(void *y, int64_t ys, const void *x, int64_t xs, int64_t count,
                             int elem) {
    if (ys == 1 && xs == 1) {
        if (count * elem >= 32) {
            (void)memcpy(y, x, (size_t)(count * elem));
        } else {
            for (int64_t i = 0; i < count; ++i) {
                aot_move1(y, i, x, i, elem);
            }
        }
    } else {
        for (int64_t i = 0; i < count; ++i) {
            aot_move1(y, i * ys, x, i * xs, elem);
        }
    }
}

/* The address `bytes` past `p`. */
AOT_INLINE void *aot_move_at(void *p, int64_t bytes) {
    return (unsigned char *)p + bytes;
}

/* The address `bytes` past `p`, for reading. */
AOT_INLINE const void *aot_move_from(const void *p, int64_t bytes) {
    return (const unsigned char *)p + bytes;
}

#endif
