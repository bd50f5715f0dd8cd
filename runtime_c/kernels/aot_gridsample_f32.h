/* SPDX-License-Identifier: MIT-0 */
/* aot_gridsample_f32(y, x, grid, p, MODE, PADDING, ALIGN): x [n, c, in0, in1, in2] read at the
 * positions of grid [n, points, rank] (-1 .. 1 along each axis, the last axis first), y
 * [n, c, points]. With rank below 3 the leading extents are 1.
 * MODE: 0 nearest (halves to even), 1 linear, 2 cubic (Keys, -0.75). PADDING: 0 zeros, 1 border,
 * 2 reflection. ALIGN: -1 and 1 are the centres of the outer elements, not their edges.
 * Positions are limited to 2^20 elements from the tensor, NaN is far outside. No scratch; y is not
 * x.
 */
#ifndef AOT_GRIDSAMPLE_F32_H
#define AOT_GRIDSAMPLE_F32_H

#include <stddef.h>
#include <stdint.h>

#include "aot/port.h"

typedef struct aot_gridsample_f32_params {
    int64_t n, c, points;
    int32_t rank, in[3];
} aot_gridsample_f32_params;

/* The elements along one axis that make a value, and their weights; -1 is outside (zero). */
typedef struct aot_gridsample_taps {
    int32_t at[4];
    float w[4];
} aot_gridsample_taps;

AOT_INLINE int32_t aot_gridsample_floor(float v) {
    const int32_t t = (int32_t)v;
    return (float)t > v ? t - 1 : t;
}

/* v mirrored at low and high until it lies between. */
AOT_INLINE float aot_gridsample_reflect(float v, float low, float high) {
    const float range = high - low, far = v < low ? low - v : v - high;
    int32_t turns;
    float rest;
    if ((v >= low && v <= high) || !(range > 0.0F)) {
        return range > 0.0F ? v : low;
    }
    turns = (int32_t)(far / range);
    rest = far - (float)turns * range;
    return (v < low) == ((turns & 1) == 0) ? low + rest : high - rest;
}

AOT_INLINE float aot_gridsample_cubic(float d, int far) {
    const float a = -0.75F;
    return far ? ((a * d - 5.0F * a) * d + 8.0F * a) * d - 4.0F * a
               : ((a + 2.0F) * d - (a + 3.0F)) * d * d + 1.0F;
}

AOT_INLINE void aot_gridsample_axis(aot_gridsample_taps *t, float g, int32_t extent, int MODE,
                                    int PADDING, int ALIGN) {
    const int taps = MODE == 0 ? 1 : MODE == 1 ? 2 : 4;
    const float last = (float)(extent - 1), edge = 1048576.0F;
    const float low = ALIGN ? 0.0F : -0.5F, high = ALIGN ? last : last + 0.5F;
    float v = ALIGN ? (g + 1.0F) / 2.0F * last : ((g + 1.0F) * (float)extent - 1.0F) / 2.0F;
    float part;
    int32_t base;
    int k;
    v = v > -edge ? (v < edge ? v : edge) : -edge;
    if (MODE == 0) {
        const int32_t f = aot_gridsample_floor(v);
        const float up = v - (float)f;
        v = (float)(up > 0.5F || (up >= 0.5F && (f & 1) != 0) ? f + 1 : f);
    }
    if (v < low || v > high) {
        if (PADDING == 1) {
            v = v < 0.0F ? 0.0F : v > last ? last : v;
        } else if (PADDING == 2) {
            v = aot_gridsample_reflect(v, low, high);
        }
    }
    base = aot_gridsample_floor(v);
    part = v - (float)base;
    if (MODE == 0) {
        t->w[0] = 1.0F;
    } else if (MODE == 1) {
        t->w[0] = 1.0F - part;
        t->w[1] = part;
    } else {
        t->w[0] = aot_gridsample_cubic(part + 1.0F, 1);
        t->w[1] = aot_gridsample_cubic(part, 0);
        t->w[2] = aot_gridsample_cubic(1.0F - part, 0);
        t->w[3] = aot_gridsample_cubic(2.0F - part, 1);
    }
    for (k = 0; k < taps; ++k) {
        int32_t at = base + k - (MODE == 2);
        if (at < 0 || at >= extent) {
            if (PADDING == 2) {
                at = (int32_t)aot_gridsample_reflect((float)at, low, high);
            }
            at = PADDING == 0 ? -1 : at < 0 ? 0 : at >= extent ? extent - 1 : at;
        }
        t->at[k] = at;
    }
}

/* The value of one channel. */
AOT_INLINE float aot_gridsample_value(const float *x, const aot_gridsample_taps *t,
                                      const int32_t *in, const int *taps) {
    float sum = 0.0F;
    int a, b, c;
    for (a = 0; a < taps[0]; ++a) {
        for (b = 0; b < taps[1]; ++b) {
            for (c = 0; c < taps[2]; ++c) {
                if (t[0].at[a] >= 0 && t[1].at[b] >= 0 && t[2].at[c] >= 0) {
                    const ptrdiff_t row = ((ptrdiff_t)t[0].at[a] * in[1] + t[1].at[b]) * in[2];
                    sum += t[0].w[a] * t[1].w[b] * t[2].w[c] * x[row + t[2].at[c]];
                }
            }
        }
    }
    return sum;
}

AOT_INLINE void aot_gridsample_f32(float *y, const float *x, const float *grid,
                                   const aot_gridsample_f32_params *p, int MODE, int PADDING,
                                   int ALIGN) {
    const ptrdiff_t size = (ptrdiff_t)p->in[0] * p->in[1] * p->in[2];
    const ptrdiff_t points = (ptrdiff_t)p->points, channels = (ptrdiff_t)p->c;
    ptrdiff_t n, i, c;
    for (n = 0; n < (ptrdiff_t)p->n; ++n) {
        for (i = 0; i < points; ++i, grid += p->rank) {
            aot_gridsample_taps t[3] = {{{0, 0, 0, 0}, {1.0F, 0.0F, 0.0F, 0.0F}},
                                        {{0, 0, 0, 0}, {1.0F, 0.0F, 0.0F, 0.0F}},
                                        {{0, 0, 0, 0}, {1.0F, 0.0F, 0.0F, 0.0F}}};
            int taps[3] = {1, 1, 1}, k;
            for (k = 0; k < p->rank; ++k) {
                const int axis = 2 - k;
                aot_gridsample_axis(&t[axis], grid[k], p->in[axis], MODE, PADDING, ALIGN);
                taps[axis] = MODE == 0 ? 1 : MODE == 1 ? 2 : 4;
            }
            for (c = 0; c < channels; ++c) {
                y[(n * channels + c) * points + i] =
                    aot_gridsample_value(x + (n * channels + c) * size, t, p->in, taps);
            }
        }
    }
}

#endif /* AOT_GRIDSAMPLE_F32_H */
