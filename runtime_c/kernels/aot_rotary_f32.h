/* SPDX-License-Identifier: MIT-0 */
/* Rotary embedding: pairs of elements of every head rotated by the angle of their place.
 *
 * x, y: element (b, s, h, i) at b * step[0] + s * step[1] + h * step[2] + i floats, i < size. The
 * first 2 * half of them are pairs (i, half + i), with INTERLEAVED (2 * i, 2 * i + 1):
 * (u, v) becomes (cos u - sin v, sin u + cos v); the others are copied.
 * cos, sin: [rows][half]. Token (b, s) reads row places[b * seq + s], one outside -rows..rows-1 the
 * nearest end; without places row b * seq + s. y may be x. No scratch.
 */
#ifndef AOT_ROTARY_F32_H
#define AOT_ROTARY_F32_H

#include <stddef.h>

#include "aot_index.h"
#include "aot_simd.h"

typedef struct {
    int32_t batch, seq, heads, size, half;
    int64_t rows;
    int64_t step[3];
} aot_rotary_f32_params;

/* One head of one token. */
AOT_INLINE void aot_rotary_f32_head(float *y, const float *x, const float *cosine,
                                    const float *sine, int32_t half, int INTERLEAVED) {
    int32_t i = 0;
    if (INTERLEAVED == 0) {
        for (; i + AOT_VLEN <= half; i += AOT_VLEN) {
            const aot_vf u = aot_vload(x + i), v = aot_vload(x + half + i);
            const aot_vf c = aot_vload(cosine + i), s = aot_vload(sine + i);
            aot_vstore(y + i, c * u - s * v);
            aot_vstore(y + half + i, s * u + c * v);
        }
    }
    for (; i < half; ++i) {
        const int32_t a = INTERLEAVED != 0 ? 2 * i : i;
        const int32_t b = INTERLEAVED != 0 ? 2 * i + 1 : half + i;
        const float u = x[a], v = x[b];
        y[a] = cosine[i] * u - sine[i] * v;
        y[b] = sine[i] * u + cosine[i] * v;
    }
}

AOT_INLINE void aot_rotary_f32(float *y, const float *x, const float *cosine, const float *sine,
                               const int64_t *places, const aot_rotary_f32_params *p,
                               int INTERLEAVED) {
    const ptrdiff_t rest = (ptrdiff_t)p->size - 2 * (ptrdiff_t)p->half;
    int32_t b, s, h;
    for (b = 0; b < p->batch; ++b) {
        for (s = 0; s < p->seq; ++s) {
            const ptrdiff_t token = (ptrdiff_t)b * p->seq + s;
            const int64_t row =
                places != NULL ? aot_index_clamp(places[token], p->rows) : (int64_t)token;
            for (h = 0; h < p->heads; ++h) {
                const ptrdiff_t at = (ptrdiff_t)(b * p->step[0] + s * p->step[1] + h * p->step[2]);
                const ptrdiff_t angle = (ptrdiff_t)row * p->half;
                aot_rotary_f32_head(y + at, x + at, cosine + angle, sine + angle, p->half,
                                    INTERLEAVED);
                if (rest > 0 && y != x) {
                    (void)memcpy(y + at + 2 * p->half, x + at + 2 * p->half,
                                 (size_t)rest * sizeof(float));
                }
            }
        }
    }
}

/* The same, but nothing is written and AOT_OUT_OF_RANGE returned if a place is outside. */
AOT_INLINE aot_status aot_rotary_f32_checked(float *y, const float *x, const float *cosine,
                                             const float *sine, const int64_t *places,
                                             const aot_rotary_f32_params *p, int INTERLEAVED) {
    const int32_t rows = (int32_t)p->rows;
    const aot_status status = aot_index_status(places, (int64_t)p->batch * p->seq, 1, &rows, 8);
    if (status == AOT_OK) {
        aot_rotary_f32(y, x, cosine, sine, places, p, INTERLEAVED);
    }
    return status;
}

#endif /* AOT_ROTARY_F32_H */
