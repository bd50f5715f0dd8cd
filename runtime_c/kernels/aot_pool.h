/* SPDX-License-Identifier: MIT-0 */
/* What the pooling kernels share: geometry in up to three spatial axes (d, h, w). */
#ifndef AOT_POOL_H
#define AOT_POOL_H

#include <stdint.h>

#include "aot/port.h"

typedef struct aot_pool_params {
    int32_t planes;    /* batch times channels, or times channel blocks */
    int32_t in[3];     /* spatial extents of x, missing axes first and 1 */
    int32_t out[3];    /* spatial extents of y */
    int32_t k[3];      /* window */
    int32_t s[3];      /* strides */
    int32_t d[3];      /* dilations */
    int32_t before[3]; /* padding in front of each axis */
    int32_t after[3];  /* padding behind each axis */
    int32_t row0;      /* output rows row0..row1-1 (second spatial axis) are computed */
    int32_t row1;
    int32_t order;   /* p of the Lp norm; 0 for other kinds */
    int32_t y_plane; /* elements from one plane to the next, where channels are in blocks */
    int32_t x_plane;
} aot_pool_params;

/* Taps first..end-1 of a window that lie inside 0..in-1; `at` is the input index of tap 0. */
typedef struct aot_pool_span {
    int32_t first, end, at;
} aot_pool_span;

/* The span of output index o on spatial axis `axis`. */
AOT_INLINE aot_pool_span aot_pool_taps(const aot_pool_params *p, int axis, int32_t o) {
    const int32_t d = p->d[axis], n = p->in[axis];
    aot_pool_span r;
    r.at = o * p->s[axis] - p->before[axis];
    if (d == 1) { /* the usual case, without divisions */
        r.first = r.at < 0 ? -r.at : 0;
        r.end = r.at >= n ? 0 : n - r.at;
    } else {
        r.first = r.at < 0 ? (d - 1 - r.at) / d : 0;
        r.end = r.at >= n ? 0 : (n - 1 - r.at) / d + 1;
    }
    if (r.end > p->k[axis]) {
        r.end = p->k[axis];
    }
    if (r.first > r.end) {
        r.first = r.end;
    }
    return r;
}

/* Taps of the window that lie inside the padded input (ceil mode may leave it). */
AOT_INLINE int32_t aot_pool_padded(const aot_pool_params *p, int axis, int32_t o) {
    const int32_t at = o * p->s[axis] - p->before[axis];
    const int32_t room = p->in[axis] + p->after[axis] - at;
    const int32_t taps = room <= 0 ? 0 : (room - 1) / p->d[axis] + 1;
    return taps < p->k[axis] ? taps : p->k[axis];
}

#endif
