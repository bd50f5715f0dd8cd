/* SPDX-License-Identifier: MIT-0 */
/* Gather along one axis, by element, and by coordinates. Those whose names end in _checked write
   nothing and return AOT_OUT_OF_RANGE if an index is out of range. */
#ifndef AOT_GATHER_H
#define AOT_GATHER_H

#include <stdint.h>

#include "aot_index.h"
#include "aot_move.h"
#include "aot_walk.h"

typedef struct aot_gather_params {
    int32_t outer; /* product of the axes before the gathered one */
    int32_t axis;  /* extent of the gathered axis in x, at least 1 */
    int32_t inner; /* product of the axes after it */
    int32_t count; /* number of indices */
} aot_gather_params;

/* y [outer][count][inner] = x [outer][axis][inner] at indices idx [count] of I bytes (4 or 8).
   An index outside -axis..axis-1 reads the nearest end. Elements of E bytes. Not in place. */
AOT_INLINE void aot_gather(void *y, const void *x, const void *idx, const aot_gather_params *p,
                           int E, int I) {
    const int64_t inner = p->inner;
    for (int64_t o = 0; o < p->outer; ++o) {
        for (int64_t i = 0; i < p->count; ++i) {
            const int64_t j = aot_index_clamp(aot_index_at(idx, i, I), p->axis);
            aot_move_run(y, 1, aot_move_from(x, j * inner * E), 1, inner, E);
            y = aot_move_at(y, inner * E);
        }
        x = aot_move_from(x, p->axis * inner * E);
    }
}

AOT_INLINE aot_status aot_gather_checked(void *y, const void *x, const void *idx,
                                         const aot_gather_params *p, int E, int I) {
    const aot_status status = aot_index_status(idx, p->count, 1, &p->axis, I);
    if (status == AOT_OK) {
        aot_gather(y, x, idx, p, E, I);
    }
    return status;
}

typedef struct aot_gather_elements_params {
    int32_t dims[8]; /* shape of idx and y, right-aligned, unused leading axes 1; none is zero */
    int32_t ys[8];   /* strides of idx and y in elements */
    int32_t xs[8];   /* strides of x in elements; 0 for the gathered axis */
    int32_t axis;    /* extent of the gathered axis in x, at least 1 */
    int32_t step;    /* stride of the gathered axis in x */
} aot_gather_elements_params;

/* y[i] = x[i with its index on the axis replaced by idx[i]]. An index outside -axis..axis-1 reads
   the nearest end. Elements of E bytes, indices of I bytes (4 or 8). Not in place. */
AOT_INLINE void aot_gather_elements(void *y, const void *x, const void *idx,
                                    const aot_gather_elements_params *p, int E, int I) {
    aot_walk w;
    aot_walk_start(&w, 0, 0);
    do {
        const int64_t j = aot_index_clamp(aot_index_at(idx, w.y, I), p->axis);
        aot_move1(y, w.y, x, w.x + j * p->step, E);
    } while (aot_walk_next(&w, p->dims, p->ys, p->xs, 8) != 0);
}

AOT_INLINE aot_status aot_gather_elements_checked(void *y, const void *x, const void *idx,
                                                  const aot_gather_elements_params *p, int E,
                                                  int I) {
    aot_status status;
    int64_t count = 1;
    for (int a = 0; a < 8; ++a) {
        count *= p->dims[a];
    }
    status = aot_index_status(idx, count, 1, &p->axis, I);
    if (status == AOT_OK) {
        aot_gather_elements(y, x, idx, p, E, I);
    }
    return status;
}

typedef struct aot_gather_nd_params {
    int32_t batch;     /* product of the batch axes */
    int32_t count;     /* index tuples per batch */
    int32_t depth;     /* indices in a tuple, 0..8 */
    int32_t inner;     /* elements copied per tuple */
    int32_t x_batch;   /* elements of x per batch */
    int32_t extent[8]; /* extents of the indexed axes, at least 1 */
    int32_t stride[8]; /* their strides in x, in elements */
} aot_gather_nd_params;

/* y [batch][count][inner], x [batch][x_batch], idx [batch][count][depth] (int64). An index outside
   -extent..extent-1 reads the nearest end. Elements of E bytes. Not in place. */
AOT_INLINE void aot_gather_nd(void *y, const void *x, const void *idx,
                              const aot_gather_nd_params *p, int E) {
    const int64_t inner = p->inner;
    int64_t at = 0;
    for (int64_t n = 0; n < p->batch; ++n) {
        for (int64_t i = 0; i < p->count; ++i) {
            int64_t from = 0;
            for (int32_t d = 0; d < p->depth; ++d, ++at) {
                from += aot_index_clamp(aot_index_at(idx, at, 8), p->extent[d]) * p->stride[d];
            }
            aot_move_run(y, 1, aot_move_from(x, from * E), 1, inner, E);
            y = aot_move_at(y, inner * E);
        }
        x = aot_move_from(x, (int64_t)p->x_batch * E);
    }
}

AOT_INLINE aot_status aot_gather_nd_checked(void *y, const void *x, const void *idx,
                                            const aot_gather_nd_params *p, int E) {
    const int64_t count = (int64_t)p->batch * p->count;
    const aot_status status = aot_index_status(idx, count, p->depth, p->extent, 8);
    if (status == AOT_OK) {
        aot_gather_nd(y, x, idx, p, E);
    }
    return status;
}

#endif
