/* SPDX-License-Identifier: MIT-0 */
/* Axes whose size is known at run time only. A tensor is stored at its bound, the largest shape
   it can have; its padding, what lies beyond the true shape, has no meaning. */
#ifndef AOT_DYNAMIC_H
#define AOT_DYNAMIC_H

#include <stdint.h>
#include <string.h>

#include "aot/aot.h"
#include "aot/port.h"
#include "aot_index.h"

/* `v` forced into low..high. */
AOT_INLINE int64_t aot_extent(int64_t v, int64_t low, int64_t high) {
    return v < low ? low : (v > high ? high : v);
}

typedef struct aot_nonzero_params {
    int32_t rank;    /* axes of x, at least 1 */
    int32_t dims[8]; /* its shape */
    int32_t count;   /* its elements: the bound of the result's second axis */
} aot_nonzero_params;

/* y [rank][count] int64 = coordinates of the elements of x (one byte each) that are not 0, in
   order; n [1] = how many there are. The padding of y is 0. Not in place. */
AOT_INLINE void aot_nonzero(int64_t *y, int64_t *n, const uint8_t *x, const aot_nonzero_params *p) {
    int64_t found = 0;
    if (p->count > 0) {
        (void)memset(y, 0, (size_t)p->rank * (size_t)p->count * sizeof *y);
    }
    for (int64_t i = 0; i < p->count; ++i) {
        int64_t rest = i;
        if (x[i] == 0) {
            continue;
        }
        for (int32_t a = p->rank - 1; a >= 0; --a) {
            y[(int64_t)a * p->count + found] = rest % p->dims[a];
            rest /= p->dims[a];
        }
        ++found;
    }
    *n = found;
}

typedef struct aot_tail_params {
    int64_t outer; /* product of the axes before */
    int64_t axis;  /* bound of the axis */
    int64_t inner; /* product of the axes after */
} aot_tail_params;

/* y [outer][axis][inner] = x where the index on the axis is below n [1], else the element `fill`.
   Elements of E bytes, at most 16. In place allowed. */
AOT_INLINE void aot_tail(void *y, const void *x, const int64_t *n, const void *fill,
                         const aot_tail_params *p, int E) {
    const int64_t kept = aot_extent(*n, 0, p->axis) * p->inner, row = p->axis * p->inner;
    unsigned char *to = (unsigned char *)y, one[16];
    const unsigned char *from = (const unsigned char *)x;
    (void)memcpy(one, fill, (size_t)E); /* which y cannot overlap: the loop below is fast */
    for (int64_t o = 0; o < p->outer; ++o) {
        if (y != x && kept > 0) {
            (void)memcpy(to, from, (size_t)(kept * E));
        }
        for (int64_t i = kept; i < row; ++i) {
            (void)memcpy(to + i * E, one, (size_t)E);
        }
        to += row * E;
        from += row * E;
    }
}

typedef struct aot_repack_params {
    int32_t rank;    /* at least 1 */
    int64_t dims[8]; /* the bounds */
} aot_repack_params;

/* The number of axes before the run that is one piece in both forms, its elements in *run (per
   index of the axes before it) and the stride of its rows at the bound in *step. */
AOT_INLINE int32_t aot_repack_run(const int64_t *shape, const aot_repack_params *p, int64_t *run,
                                  int64_t *step) {
    int32_t a = p->rank - 1;
    *run = aot_extent(shape[a], 0, p->dims[a]);
    *step = p->dims[a];
    while (a > 0 && *run == *step) {
        --a;
        *run *= aot_extent(shape[a], 0, p->dims[a]);
        *step *= p->dims[a];
    }
    return a;
}

/* Copies between the form at the bound and the compact one; `spread` says which is the target.
   Gives the number of elements. */
AOT_INLINE int64_t aot_repack(unsigned char *y, const unsigned char *x, const int64_t *shape,
                              const aot_repack_params *p, int E, int spread) {
    int64_t at[8] = {0}, run, step;
    const int32_t axes = aot_repack_run(shape, p, &run, &step);
    int64_t compact = 0;
    for (int32_t a = 0; a < axes; ++a) {
        if (shape[a] <= 0) {
            return 0;
        }
    }
    if (run <= 0) {
        return 0;
    }
    for (;;) {
        int64_t padded = 0;
        int32_t a = axes;
        for (int32_t i = 0; i < axes; ++i) {
            padded = padded * p->dims[i] + at[i];
        }
        padded *= step;
        (void)memmove(y + (spread ? padded : compact) * E, x + (spread ? compact : padded) * E,
                      (size_t)(run * E));
        compact += run;
        while (a > 0) {
            if (++at[a - 1] < aot_extent(shape[a - 1], 0, p->dims[a - 1])) {
                break;
            }
            at[--a] = 0;
        }
        if (a == 0) {
            return compact;
        }
    }
}

typedef aot_repack_params aot_compact_params;
typedef aot_repack_params aot_spread_params;

/* y = the elements of x, which is stored at its bound, without gaps in row-major order, then zeros;
   shape [rank] are the true extents. Elements of E bytes. In place allowed. */
AOT_INLINE void aot_compact(void *y, const void *x, const int64_t *shape,
                            const aot_compact_params *p, int E) {
    unsigned char *to = (unsigned char *)y;
    const int64_t count = aot_repack(to, (const unsigned char *)x, shape, p, E, 0);
    int64_t total = 1;
    for (int32_t a = 0; a < p->rank; ++a) {
        total *= p->dims[a];
    }
    if (total > count) {
        (void)memset(to + count * E, 0, (size_t)((total - count) * E));
    }
}

/* The reverse: y, stored at its bound, from elements of x without gaps. Padding is 0. */
AOT_INLINE void aot_spread(void *y, const void *x, const int64_t *shape, const aot_spread_params *p,
                           int E) {
    int64_t bytes = E;
    for (int32_t a = 0; a < p->rank; ++a) {
        bytes *= p->dims[a];
    }
    if (bytes > 0) {
        (void)memset(y, 0, (size_t)bytes);
    }
    (void)aot_repack((unsigned char *)y, (const unsigned char *)x, shape, p, E, 1);
}

/* y [1] = a [1], which must be b [1]: AOT_BAD_SHAPE if not. In place allowed. */
AOT_INLINE aot_status aot_require_equal(int64_t *y, const int64_t *a, const int64_t *b) {
    const int equal = *a == *b;
    *y = *a;
    return equal ? AOT_OK : AOT_BAD_SHAPE;
}

typedef struct aot_within_params {
    int64_t most;
} aot_within_params;

/* y [1] = x [1], which must be from 0 to `most`: AOT_BAD_SHAPE if not. In place allowed. */
AOT_INLINE aot_status aot_within(int64_t *y, const int64_t *x, const aot_within_params *p) {
    const int fits = *x >= 0 && *x <= p->most;
    *y = *x;
    return fits ? AOT_OK : AOT_BAD_SHAPE;
}

typedef struct aot_from_start_params {
    int64_t count; /* elements of x and y */
    int32_t depth; /* elements of n: x[i] counts in an axis of n[i % depth] elements */
} aot_from_start_params;

/* y = x with n added to negative indices: AOT_OUT_OF_RANGE if one is outside -n..n-1. With PADDED
   an index 0 is always allowed. Indices of I bytes (4 or 8), n int64. In place allowed. */
AOT_INLINE aot_status aot_from_start(void *y, const void *x, const int64_t *n,
                                     const aot_from_start_params *p, int I, int PADDED) {
    int outside = 0;
    for (int64_t i = 0; i < p->count; ++i) {
        const int64_t v = aot_index_at(x, i, I), size = n[i % p->depth];
        const int64_t from = v < 0 ? v + size : v;
        outside |= (v < -size || v >= size) && !(PADDED != 0 && v == 0);
        if (I == 4) {
            ((int32_t *)y)[i] = (int32_t)from;
        } else {
            ((int64_t *)y)[i] = from;
        }
    }
    return outside != 0 ? AOT_OUT_OF_RANGE : AOT_OK;
}

typedef struct aot_join_params {
    int64_t outer; /* product of the axes before */
    int64_t to;    /* bound of the axis in y */
    int64_t part;  /* bound of the axis in x */
    int64_t inner; /* product of the axes after */
    int32_t index; /* which part x is */
} aot_join_params;

/* Puts part number `index` of a concatenation in its place: y [outer][to][inner] from
   x [outer][from][inner]; n [index + 1] = extents of the parts so far. The first part clears y.
   Elements of E bytes. Not in place. */
AOT_INLINE void aot_join(void *y, const void *x, const int64_t *n, const aot_join_params *p,
                         int E) {
    unsigned char *to = (unsigned char *)y;
    const unsigned char *from = (const unsigned char *)x;
    const int64_t rows = aot_extent(n[p->index], 0, p->part);
    int64_t start = 0;
    for (int32_t i = 0; i < p->index; ++i) {
        start += n[i];
    }
    start = aot_extent(start, 0, p->to - rows);
    if (p->index == 0 && p->outer * p->to * p->inner > 0) {
        (void)memset(y, 0, (size_t)(p->outer * p->to * p->inner * E));
    }
    if (rows * p->inner <= 0) {
        return;
    }
    for (int64_t o = 0; o < p->outer; ++o) {
        (void)memcpy(to + (o * p->to + start) * p->inner * E, from + o * p->part * p->inner * E,
                     (size_t)(rows * p->inner * E));
    }
}

typedef struct aot_append_params {
    int64_t outer; /* product of the axes before */
    int64_t to;    /* bound of the axis in x and y */
    int64_t part;  /* bound of the axis in rows */
    int64_t inner; /* product of the axes after */
} aot_append_params;

/* Puts the m [1] rows of `rows` [outer][part][inner] behind the n [1] rows of x [outer][to][inner]:
   y is x with them. Elements of E bytes. In place allowed: then only the new rows are written. */
AOT_INLINE void aot_append(void *y, const void *x, const void *rows, const int64_t *n,
                           const int64_t *m, const aot_append_params *p, int E) {
    unsigned char *to = (unsigned char *)y;
    const unsigned char *from = (const unsigned char *)rows;
    const int64_t count = aot_extent(*m, 0, p->part);
    const int64_t start = aot_extent(*n, 0, p->to - count);
    if (y != x && p->outer * p->to * p->inner > 0) {
        (void)memcpy(y, x, (size_t)(p->outer * p->to * p->inner * E));
    }
    if (count * p->inner <= 0) {
        return;
    }
    for (int64_t o = 0; o < p->outer; ++o) {
        (void)memcpy(to + (o * p->to + start) * p->inner * E, from + o * p->part * p->inner * E,
                     (size_t)(count * p->inner * E));
    }
}

typedef struct aot_cut_params {
    int32_t rank;      /* at least 1 */
    int32_t sliced;    /* axes that are cut */
    int32_t axes[8];   /* which */
    int64_t bounds[8]; /* of x */
    int64_t dims[8];   /* bounds of y */
} aot_cut_params;

/* ONNX's Slice with all numbers read at run time. shape [rank] = true extents of x; starts, ends,
   steps [sliced]. y is stored at its bound, padding 0; out [rank] = its true extents. A step of 0
   counts as 1. Elements of E bytes. Not in place. */
AOT_INLINE void aot_cut(void *y, int64_t *out, const void *x, const int64_t *shape,
                        const int64_t *starts, const int64_t *ends, const int64_t *steps,
                        const aot_cut_params *p, int E) {
    unsigned char *to = (unsigned char *)y;
    const unsigned char *from = (const unsigned char *)x;
    int64_t first[8], step[8], at[8] = {0}, total = 1, count = 1;
    for (int32_t a = 0; a < p->rank; ++a) {
        first[a] = 0;
        step[a] = 1;
        out[a] = aot_extent(shape[a], 0, p->bounds[a]);
        total *= p->dims[a];
    }
    for (int32_t i = 0; i < p->sliced; ++i) {
        const int32_t a = p->axes[i];
        const int64_t size = out[a], s = steps[i] == 0 ? 1 : steps[i];
        const int64_t last = s > 0 || size == 0 ? size : size - 1;
        const int64_t b = aot_extent(starts[i] < 0 ? starts[i] + size : starts[i], 0, last);
        const int64_t stop = ends[i] < -size ? -1 : (ends[i] < 0 ? ends[i] + size : ends[i]);
        const int64_t e = aot_extent(stop, s > 0 ? 0 : -1, last);
        int64_t n = 0;
        if (s > 0 && e > b) {
            n = (e - b - 1) / s + 1;
        } else if (s < 0 && b > e && size > 0) {
            n = s < -size ? 1 : (b - e - 1) / -s + 1;
        }
        first[a] = b;
        step[a] = n > 1 ? s : 0;
        out[a] = aot_extent(n, 0, p->dims[a]);
    }
    for (int32_t a = 0; a < p->rank; ++a) {
        count *= out[a];
    }
    if (total > 0) {
        (void)memset(y, 0, (size_t)(total * E));
    }
    for (int64_t i = 0; i < count; ++i) {
        int64_t source = 0, target = 0;
        for (int32_t a = 0; a < p->rank; ++a) {
            source = source * p->bounds[a] + first[a] + at[a] * step[a];
            target = target * p->dims[a] + at[a];
        }
        (void)memcpy(to + target * E, from + source * E, (size_t)E);
        for (int32_t a = p->rank - 1; a >= 0; --a) {
            if (++at[a] < out[a]) {
                break;
            }
            at[a] = 0;
        }
    }
}

#endif
