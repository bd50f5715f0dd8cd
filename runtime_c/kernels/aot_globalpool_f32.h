/* SPDX-License-Identifier: MIT-0 */
/* Average or maximum over all spatial positions, float32; the maximum of a NaN is NaN. */
#ifndef AOT_GLOBALPOOL_F32_H
#define AOT_GLOBALPOOL_F32_H

#include <math.h>
#include <stdint.h>

#include "aot_simd.h"

#define AOT_GLOBALPOOL_AVERAGE 0
#define AOT_GLOBALPOOL_MAX 1

typedef struct aot_globalpool_f32_params {
    int32_t planes;  /* batch times channels (or channel blocks) */
    int32_t size;    /* spatial positions, at least 1 */
    int64_t x_plane; /* floats from a plane of x to the next, where it is made row by row */
} aot_globalpool_f32_params;

typedef aot_globalpool_f32_params aot_globalpool_f32_blocked_params;

AOT_INLINE aot_vf aot_globalpool_fold(aot_vf a, aot_vf b, int KIND) {
    return KIND == AOT_GLOBALPOOL_MAX ? aot_vmaximum(a, b) : a + b;
}

/* Folds `count` vectors, in four chains so that latency does not bound the speed. */
AOT_INLINE aot_vf aot_globalpool_vectors(const float *x, int64_t count, int KIND) {
    const aot_vf start = aot_vset1(KIND == AOT_GLOBALPOOL_MAX ? -INFINITY : 0.0F);
    aot_vf a = start, b = start, c = start, d = start;
    const int64_t whole = count - count % 4;
    for (int64_t i = 0; i < whole; i += 4) {
        const float *q = x + i * AOT_VLEN;
        a = aot_globalpool_fold(a, aot_vload(q), KIND);
        b = aot_globalpool_fold(b, aot_vload(q + AOT_VLEN), KIND);
        c = aot_globalpool_fold(c, aot_vload(q + 2 * AOT_VLEN), KIND);
        d = aot_globalpool_fold(d, aot_vload(q + 3 * AOT_VLEN), KIND);
    }
    for (int64_t i = whole; i < count; ++i) {
        a = aot_globalpool_fold(a, aot_vload(x + i * AOT_VLEN), KIND);
    }
    return aot_globalpool_fold(aot_globalpool_fold(a, b, KIND), aot_globalpool_fold(c, d, KIND),
                               KIND);
}

/* y [planes][V], x [planes][size][V], V = AOT_VLEN. Not in place. */
AOT_INLINE void aot_globalpool_f32_blocked(float *y, const float *x,
                                           const aot_globalpool_f32_blocked_params *p, int KIND) {
    const float scale = KIND == AOT_GLOBALPOOL_MAX ? 1.0F : 1.0F / (float)p->size;
    for (int64_t n = 0; n < p->planes; ++n) {
        aot_vstore(y + n * AOT_VLEN,
                   aot_globalpool_vectors(x + n * p->size * AOT_VLEN, p->size, KIND) * scale);
    }
}

/* Row `row` of `rows` of x joins the chains of aot_globalpool_vectors, [planes][4][V] in `sums`;
 * x has the row's pieces x_plane floats apart. */
AOT_INLINE void aot_globalpool_f32_add_row(float *sums, const float *x, int32_t row, int32_t rows,
                                           const aot_globalpool_f32_params *p, int KIND) {
    const aot_vf start = aot_vset1(KIND == AOT_GLOBALPOOL_MAX ? -INFINITY : 0.0F);
    const int32_t width = p->size / rows, whole = p->size - p->size % 4;
    for (int64_t n = 0; n < p->planes; ++n) {
        float *chains = sums + n * 4 * AOT_VLEN;
        for (int32_t i = 0; row == 0 && i < 4; ++i) {
            aot_vstore(chains + i * AOT_VLEN, start);
        }
        for (int32_t i = 0; i < width; ++i) {
            const int32_t at = row * width + i;
            float *chain = chains + (at < whole ? at % 4 : 0) * AOT_VLEN;
            const aot_vf v = aot_vload(x + n * p->x_plane + (ptrdiff_t)i * AOT_VLEN);
            aot_vstore(chain, aot_globalpool_fold(aot_vload(chain), v, KIND));
        }
    }
}

/* All of one plane's chains. */
AOT_INLINE aot_vf aot_globalpool_chains(const float *chains, int KIND) {
    const aot_vf a = aot_vload(chains), b = aot_vload(chains + AOT_VLEN);
    const aot_vf c = aot_vload(chains + 2 * AOT_VLEN), d = aot_vload(chains + 3 * AOT_VLEN);
    return aot_globalpool_fold(aot_globalpool_fold(a, b, KIND), aot_globalpool_fold(c, d, KIND),
                               KIND);
}

/* aot_globalpool_f32_blocked row by row: y is made with the last row. */
AOT_INLINE void aot_globalpool_f32_blocked_row(float *y, const float *x, void *sums, int32_t row,
                                               int32_t rows, const aot_globalpool_f32_params *p,
                                               int KIND) {
    const float scale = KIND == AOT_GLOBALPOOL_MAX ? 1.0F : 1.0F / (float)p->size;
    aot_globalpool_f32_add_row((float *)sums, x, row, rows, p, KIND);
    for (int64_t n = 0; row + 1 == rows && n < p->planes; ++n) {
        const float *chains = (const float *)sums + n * 4 * AOT_VLEN;
        aot_vstore(y + n * AOT_VLEN, aot_globalpool_chains(chains, KIND) * scale);
    }
}

/* A NaN in either stays. */
AOT_INLINE float aot_globalpool_larger(float a, float b) {
    return a > b || isnan(a) ? a : b;
}

/* The largest of all lanes. */
AOT_INLINE float aot_globalpool_largest(aot_vf v) {
    float lane[AOT_VLEN], all = -INFINITY;
    aot_vstore(lane, v);
    for (int i = 0; i < AOT_VLEN; ++i) {
        all = aot_globalpool_larger(all, lane[i]);
    }
    return all;
}

/* y [planes], x [planes][size]. Not in place. */
AOT_INLINE void aot_globalpool_f32(float *y, const float *x, const aot_globalpool_f32_params *p,
                                   int KIND) {
    const int64_t size = p->size, vectors = size / AOT_VLEN;
    for (int64_t n = 0; n < p->planes; ++n, x += size) {
        const aot_vf v = aot_globalpool_vectors(x, vectors, KIND);
        float all = KIND == AOT_GLOBALPOOL_MAX ? aot_globalpool_largest(v) : aot_vsum(v);
        for (int64_t i = vectors * AOT_VLEN; i < size; ++i) {
            all = KIND == AOT_GLOBALPOOL_MAX ? aot_globalpool_larger(all, x[i]) : all + x[i];
        }
        y[n] = KIND == AOT_GLOBALPOOL_MAX ? all : all / (float)size;
    }
}

/* aot_globalpool_f32 row by row, with one lane: y is made with the last row. */
AOT_INLINE void aot_globalpool_f32_row(float *y, const float *x, void *sums, int32_t row,
                                       int32_t rows, const aot_globalpool_f32_params *p, int KIND) {
    aot_globalpool_f32_add_row((float *)sums, x, row, rows, p, KIND);
    for (int64_t n = 0; row + 1 == rows && n < p->planes; ++n) {
        const float all =
            aot_vsum(aot_globalpool_chains((const float *)sums + n * 4 * AOT_VLEN, KIND));
        y[n] = KIND == AOT_GLOBALPOOL_MAX ? all : all / (float)p->size;
    }
}

#endif
