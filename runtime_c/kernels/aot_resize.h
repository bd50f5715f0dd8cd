/* SPDX-License-Identifier: MIT-0 */
/* Resizing by tables made at compile time: which inputs an output is made of, with which weights.
 */
#ifndef AOT_RESIZE_H
#define AOT_RESIZE_H

#include <stdint.h>

#include "aot_move.h"
#include "aot_simd.h"

typedef struct aot_resize_nearest_params {
    int32_t outer;  /* product of the axes before the three resized ones */
    int32_t in[3];  /* their extents in x, missing ones first and 1 */
    int32_t out[3]; /* their extents in y */
    int32_t inner;  /* product of the axes after them */
} aot_resize_nearest_params;

/* y [outer][out][inner] = x [outer][in][inner] at the positions of table idx: out[0] + out[1] +
   out[2] int32, axis after axis; -1 stands for *value. Elements of E bytes. Not in place. */
AOT_INLINE void aot_resize_nearest(void *y, const void *x, const int32_t *idx, const void *value,
                                   const aot_resize_nearest_params *p, int E) {
    const int64_t inner = p->inner;
    const int32_t *ia = idx, *ib = idx + p->out[0], *ic = ib + p->out[1];
    const int64_t plane = (int64_t)p->in[0] * p->in[1] * p->in[2] * inner;
    for (int64_t o = 0; o < p->outer; ++o, x = aot_move_from(x, plane * E)) {
        for (int32_t a = 0; a < p->out[0]; ++a) {
            for (int32_t b = 0; b < p->out[1]; ++b) {
                const int outside = ia[a] < 0 || ib[b] < 0;
                const int64_t row =
                    outside ? 0 : ((int64_t)ia[a] * p->in[1] + ib[b]) * p->in[2] * inner;
                for (int32_t c = 0; c < p->out[2]; ++c) {
                    if (outside || ic[c] < 0) {
                        for (int64_t i = 0; i < inner; ++i) {
                            aot_move1(y, i, value, 0, E);
                        }
                    } else {
                        aot_move_run(y, 1, aot_move_from(x, (row + ic[c] * inner) * E), 1, inner,
                                     E);
                    }
                    y = aot_move_at(y, inner * E);
                }
            }
        }
    }
}

typedef struct aot_resize_axis_f32_params {
    int32_t outer; /* product of the axes before */
    int32_t in;    /* extent of the axis in x */
    int32_t out;   /* extent of the axis in y */
    int32_t inner; /* product of the axes after */
    int32_t taps;  /* inputs per output, at least 1 */
    float outside; /* value of outputs whose first tap is -1 */
} aot_resize_axis_f32_params;

/* y [outer][out][inner] from x [outer][in][inner] along one axis: output o is the sum over t of
   w[o][t] * x[at[o][t]], tables of out * taps elements. Not in place. No scratch. */
AOT_INLINE void aot_resize_axis_f32(float *y, const float *x, const int32_t *at, const float *w,
                                    const aot_resize_axis_f32_params *p) {
    const int64_t inner = p->inner, taps = p->taps;
    for (int64_t n = 0; n < p->outer; ++n, x += p->in * inner) {
        for (int64_t o = 0; o < p->out; ++o, y += inner) {
            const int32_t *a = at + o * taps;
            const float *f = w + o * taps;
            const int64_t whole = inner - inner % AOT_VLEN;
            if (a[0] < 0) {
                for (int64_t i = 0; i < inner; ++i) {
                    y[i] = p->outside;
                }
                continue;
            }
            for (int64_t i = 0; i < whole; i += AOT_VLEN) {
                aot_vf sum = aot_vload(x + a[0] * inner + i) * f[0];
                for (int64_t t = 1; t < taps; ++t) {
                    sum = aot_vfma(aot_vload(x + a[t] * inner + i), aot_vset1(f[t]), sum);
                }
                aot_vstore(y + i, sum);
            }
            for (int64_t i = whole; i < inner; ++i) {
                float sum = x[a[0] * inner + i] * f[0];
                for (int64_t t = 1; t < taps; ++t) {
                    sum += x[a[t] * inner + i] * f[t];
                }
                y[i] = sum;
            }
        }
    }
}

#endif
