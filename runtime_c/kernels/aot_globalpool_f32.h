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
    int32_t planes; /* batch times channels (or channel blocks) */
    int32_t size;   /* spatial positions, at least 1 */
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

#endif
