/* SPDX-License-Identifier: MIT-0 */
/* Scatter by element and by coordinates, with and without a reduction. */
#ifndef AOT_SCATTER_H
#define AOT_SCATTER_H

#include <stdint.h>

#include "aot_index.h"
#include "aot_move.h"
#include "aot_walk.h"

#define AOT_SCATTER_NONE 0
#define AOT_SCATTER_ADD 1
#define AOT_SCATTER_MUL 2
#define AOT_SCATTER_MAX 3
#define AOT_SCATTER_MIN 4

/* Element types of the reductions. */
#define AOT_SCATTER_ANY 0 /* moved only: AOT_SCATTER_NONE */
#define AOT_SCATTER_F32 1
#define AOT_SCATTER_F64 2
#define AOT_SCATTER_S32 3
#define AOT_SCATTER_S64 4

/* Of floats; the extreme of a NaN is NaN. */
#define AOT_SCATTER_COMBINE(a, b, R)                                                               \
    ((R) == AOT_SCATTER_ADD   ? (a) + (b)                                                          \
     : (R) == AOT_SCATTER_MUL ? (a) * (b)                                                          \
     : (R) == AOT_SCATTER_MAX ? ((b) > (a) || (b) != (b) ? (b) : (a))                              \
                              : ((b) < (a) || (b) != (b) ? (b) : (a)))

AOT_INLINE int32_t aot_scatter_s32(int32_t a, int32_t b, int R) {
    if (R == AOT_SCATTER_ADD) {
        return (int32_t)((uint32_t)a + (uint32_t)b);
    }
    if (R == AOT_SCATTER_MUL) {
        return (int32_t)((uint32_t)a * (uint32_t)b);
    }
    return R == AOT_SCATTER_MAX ? (b > a ? b : a) : (b < a ? b : a);
}

AOT_INLINE int64_t aot_scatter_s64(int64_t a, int64_t b, int R) {
    if (R == AOT_SCATTER_ADD) {
        return (int64_t)((uint64_t)a + (uint64_t)b);
    }
    if (R == AOT_SCATTER_MUL) {
        return (int64_t)((uint64_t)a * (uint64_t)b);
    }
    return R == AOT_SCATTER_MAX ? (b > a ? b : a) : (b < a ? b : a);
}

/* y[yi] = y[yi] R u[ui] */
AOT_INLINE void aot_scatter_one(void *y, int64_t yi, const void *u, int64_t ui, int E, int R,
                                int T) {
    if (R == AOT_SCATTER_NONE) {
        aot_move1(y, yi, u, ui, E);
    } else if (T == AOT_SCATTER_F32) {
        float *a = (float *)y + yi;
        const float b = ((const float *)u)[ui];
        *a = AOT_SCATTER_COMBINE(*a, b, R);
    } else if (T == AOT_SCATTER_F64) {
        double *a = (double *)y + yi;
        const double b = ((const double *)u)[ui];
        *a = AOT_SCATTER_COMBINE(*a, b, R);
    } else if (T == AOT_SCATTER_S32) {
        int32_t *a = (int32_t *)y + yi;
        *a = aot_scatter_s32(*a, ((const int32_t *)u)[ui], R);
    } else {
        int64_t *a = (int64_t *)y + yi;
        *a = aot_scatter_s64(*a, ((const int64_t *)u)[ui], R);
    }
}

typedef struct aot_scatter_elements_params {
    int64_t bytes;   /* size of x and y */
    int32_t dims[8]; /* shape of idx and u, right-aligned, unused leading axes 1; none is zero */
    int32_t us[8];   /* strides of idx and u in elements */
    int32_t ys[8];   /* strides of y in elements; 0 for the scattered axis */
    int32_t axis;    /* extent of the scattered axis in y, at least 1 */
    int32_t step;    /* stride of the scattered axis in y */
} aot_scatter_elements_params;

/* y = x, then for every index i of u: y[i with its index on the axis replaced by idx[i]] R= u[i],
   in row-major order of u. An index outside -axis..axis-1 writes nothing. Elements of E bytes,
   indices of I bytes (4 or 8). y may be x. No scratch. */
AOT_INLINE void aot_scatter_elements(void *y, const void *x, const void *idx, const void *u,
                                     const aot_scatter_elements_params *p, int E, int I, int R,
                                     int T) {
    aot_walk w;
    if (y != x) {
        (void)memcpy(y, x, (size_t)p->bytes);
    }
    aot_walk_start(&w, 0, 0);
    do {
        const int64_t j = aot_index_checked(aot_index_at(idx, w.x, I), p->axis);
        if (j >= 0) {
            aot_scatter_one(y, w.y + j * p->step, u, w.x, E, R, T);
        }
    } while (aot_walk_next(&w, p->dims, p->ys, p->us, 8) != 0);
}

/* The same, but nothing is written and AOT_OUT_OF_RANGE returned if an index is out of range. */
AOT_INLINE aot_status aot_scatter_elements_checked(void *y, const void *x, const void *idx,
                                                   const void *u,
                                                   const aot_scatter_elements_params *p, int E,
                                                   int I, int R, int T) {
    aot_status status;
    int64_t count = 1;
    for (int a = 0; a < 8; ++a) {
        count *= p->dims[a];
    }
    status = aot_index_status(idx, count, 1, &p->axis, I);
    if (status == AOT_OK) {
        aot_scatter_elements(y, x, idx, u, p, E, I, R, T);
    }
    return status;
}

typedef struct aot_scatter_nd_params {
    int64_t bytes;     /* size of x and y */
    int32_t count;     /* index tuples */
    int32_t depth;     /* indices in a tuple, 0..8 */
    int32_t inner;     /* elements written per tuple */
    int32_t extent[8]; /* extents of the indexed axes, at least 1 */
    int32_t stride[8]; /* their strides in y, in elements */
} aot_scatter_nd_params;

/* y = x, then for every tuple i of idx [count][depth] (int64): y[idx[i]] R= u[i] (inner elements).
   A tuple with an index out of range writes nothing. Elements of E bytes. y may be x. */
AOT_INLINE void aot_scatter_nd(void *y, const void *x, const void *idx, const void *u,
                               const aot_scatter_nd_params *p, int E, int R, int T) {
    if (y != x) {
        (void)memcpy(y, x, (size_t)p->bytes);
    }
    for (int64_t i = 0; i < p->count; ++i) {
        int64_t to = 0;
        int inside = 1;
        for (int32_t d = 0; d < p->depth; ++d) {
            const int64_t j =
                aot_index_checked(aot_index_at(idx, i * p->depth + d, 8), p->extent[d]);
            inside &= j >= 0;
            to += j * p->stride[d];
        }
        if (!inside) {
            continue;
        }
        for (int64_t j = 0; j < p->inner; ++j) {
            aot_scatter_one(y, to + j, u, i * p->inner + j, E, R, T);
        }
    }
}

/* The same, but nothing is written and AOT_OUT_OF_RANGE returned if an index is out of range. */
AOT_INLINE aot_status aot_scatter_nd_checked(void *y, const void *x, const void *idx, const void *u,
                                             const aot_scatter_nd_params *p, int E, int R, int T) {
    const aot_status status = aot_index_status(idx, p->count, p->depth, p->extent, 8);
    if (status == AOT_OK) {
        aot_scatter_nd(y, x, idx, u, p, E, R, T);
    }
    return status;
}

#endif
