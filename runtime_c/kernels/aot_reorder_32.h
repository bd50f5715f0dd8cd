/* SPDX-License-Identifier: MIT-0 */
/* Reorders of elements of 32 bits between row-major [N, C, S] and blocks of V = AOT_VLEN channels,
 * [N, ceil(C/V), S, V]: squares of V pixels and channels are transposed in registers. */
#ifndef AOT_REORDER_32_H
#define AOT_REORDER_32_H

#include "aot_reorder.h"
#include "aot_vtranspose_f32.h"

typedef aot_to_blocked_params aot_to_blocked_32_params;
typedef aot_from_blocked_params aot_from_blocked_32_params;

/* One channel block: y [s][V] from x [lanes][s]; lanes past `lanes` become zero. */
AOT_INLINE void aot_to_blocked_32_one(float *y, const float *x, int32_t s, int lanes) {
    const int32_t end = s - s % AOT_VLEN;
    float square[AOT_VLEN * AOT_VLEN] = {0};
    int32_t i;
    int v;
    for (i = 0; i < end; i += AOT_VLEN) {
        float *to = y + (ptrdiff_t)i * AOT_VLEN;
        if (lanes == AOT_VLEN) {
            aot_vtranspose_f32_copy(to, AOT_VLEN, x + i, s);
            continue;
        }
        for (v = 0; v < lanes; ++v) {
            aot_vstore(square + v * AOT_VLEN, aot_vload(x + (ptrdiff_t)v * s + i));
        }
        aot_vtranspose_f32_copy(to, AOT_VLEN, square, AOT_VLEN);
    }
    for (i = end; i < s; ++i) {
        for (v = 0; v < AOT_VLEN; ++v) {
            if (v < lanes) {
                aot_move1(y, (int64_t)i * AOT_VLEN + v, x, (int64_t)v * s + i, 4);
            } else {
                aot_move_zero(y, (int64_t)i * AOT_VLEN + v, 4);
            }
        }
    }
}

/* One channel block: y [lanes][s] from x [s][V]. */
AOT_INLINE void aot_from_blocked_32_one(float *y, const float *x, int32_t s, int lanes) {
    const int32_t end = s - s % AOT_VLEN;
    float square[AOT_VLEN * AOT_VLEN];
    int32_t i;
    int v;
    for (i = 0; i < end; i += AOT_VLEN) {
        const float *from = x + (ptrdiff_t)i * AOT_VLEN;
        if (lanes == AOT_VLEN) {
            aot_vtranspose_f32_copy(y + i, s, from, AOT_VLEN);
            continue;
        }
        aot_vtranspose_f32_copy(square, AOT_VLEN, from, AOT_VLEN);
        for (v = 0; v < lanes; ++v) {
            aot_vstore(y + (ptrdiff_t)v * s + i, aot_vload(square + v * AOT_VLEN));
        }
    }
    for (i = end; i < s; ++i) {
        for (v = 0; v < lanes; ++v) {
            aot_move1(y, (int64_t)v * s + i, x, (int64_t)i * AOT_VLEN + v, 4);
        }
    }
}

/* As aot_to_blocked and aot_from_blocked. Not in place. No scratch. */
AOT_INLINE void aot_to_blocked_32(void *y, const void *x, const aot_to_blocked_32_params *p) {
    const ptrdiff_t s = p->s;
    float *to = (float *)y;
    const float *from = (const float *)x;
    int32_t n, c;
    for (n = 0; n < p->n; ++n) {
        for (c = 0; c < p->c; c += AOT_VLEN) {
            const int lanes = p->c - c < AOT_VLEN ? (int)(p->c - c) : AOT_VLEN;
            aot_to_blocked_32_one(to, from, p->s, lanes);
            to += s * AOT_VLEN;
            from += s * lanes;
        }
    }
}
AOT_INLINE void aot_from_blocked_32(void *y, const void *x, const aot_from_blocked_32_params *p) {
    const ptrdiff_t s = p->s;
    float *to = (float *)y;
    const float *from = (const float *)x;
    int32_t n, c;
    for (n = 0; n < p->n; ++n) {
        for (c = 0; c < p->c; c += AOT_VLEN) {
            const int lanes = p->c - c < AOT_VLEN ? (int)(p->c - c) : AOT_VLEN;
            aot_from_blocked_32_one(to, from, p->s, lanes);
            to += s * lanes;
            from += s * AOT_VLEN;
        }
    }
}

#endif /* AOT_REORDER_32_H */
