/* SPDX-License-Identifier: MIT-0 */
/* Resizing by tables made at compile time: which inputs an output is made of, with which weights.
 */
#ifndef AOT_RESIZE_H
#define AOT_RESIZE_H

#include <stdint.h>

#include "aot_move.h"
#include "aot_rows.h"
#include "aot_simd.h"

typedef struct aot_resize_nearest_params {
    int32_t outer;            /* product of the axes before the three resized ones */
    int32_t in[3];            /* their extents in x, missing ones first and 1 */
    int32_t out[3];           /* their extents in y */
    int32_t inner;            /* product of the axes after them */
    int32_t row0, row1;       /* the range of the second axis of y that is made */
    int32_t y_plane, x_plane; /* elements from one index of the axes before to the next */
} aot_resize_nearest_params;

/* y [outer][out][inner] = x [outer][in][inner] at the positions of table idx: out[0] + out[1] +
   out[2] int32, axis after axis; -1 stands for *value. Elements of E bytes. Not in place. By rows
   y is row row0 of the second axis, and x the one row that it is made of. */
AOT_INLINE void aot_resize_nearest(void *y, const void *x, const int32_t *idx, const void *value,
                                   const aot_resize_nearest_params *p, int E) {
    const int64_t inner = p->inner;
    const int32_t *ia = idx, *ib = idx + p->out[0], *ic = ib + p->out[1];
    for (int64_t o = 0; o < p->outer; ++o) {
        void *to = aot_move_at(y, o * p->y_plane * E);
        for (int32_t a = 0; a < p->out[0]; ++a) {
            for (int32_t b = p->row0; b < p->row1; ++b) {
                const int outside = ia[a] < 0 || ib[b] < 0;
                const int64_t row =
                    outside ? 0 : ((int64_t)ia[a] * p->in[1] + ib[b]) * p->in[2] * inner;
                const int64_t plane = o * p->x_plane * E;
                const void *from = AOT_AT(x, 0, plane, aot_move_from(x, plane + row * E));
                for (int32_t c = 0; c < p->out[2]; ++c) {
                    if (outside || ic[c] < 0) {
                        for (int64_t i = 0; i < inner; ++i) {
                            aot_move1(to, i, value, 0, E);
                        }
                    } else {
                        aot_move_run(to, 1, aot_move_from(from, ic[c] * inner * E), 1, inner, E);
                    }
                    to = aot_move_at(to, inner * E);
                }
            }
        }
    }
}

typedef struct aot_resize_axis_f32_params {
    int32_t outer;            /* product of the axes before */
    int32_t o0, o1;           /* the range of the axis of y that is made */
    int32_t inner;            /* product of the axes after */
    int32_t taps;             /* inputs per output, at least 1 */
    float outside;            /* value of outputs whose first tap is -1 */
    int32_t y_plane, x_plane; /* elements from one index of the axes before to the next */
    int32_t top;              /* by rows: the row that is the first one of x */
} aot_resize_axis_f32_params;

/* Where the elements behind index `at` of the axis begin. */
AOT_INLINE const float *aot_resize_from(const float *x, int64_t n, int32_t at,
                                        const aot_resize_axis_f32_params *p, int ROWS) {
    const float *linear = x + n * p->x_plane + (int64_t)at * p->inner;
    return ROWS ? AOT_AT_F32(x, at - p->top, n * p->x_plane, linear) : linear;
}

/* y [outer][out][inner] from x [outer][in][inner] along one axis: output o is the sum over t of
   w[o][t] * x[at[o][t]], tables of out * taps elements. Not in place. No scratch. The axis is that
   of ROWS, or another one of a tensor or a row. */
AOT_INLINE void aot_resize_axis_f32(float *y, const float *x, const int32_t *at, const float *w,
                                    const aot_resize_axis_f32_params *p, int ROWS) {
    const int64_t inner = p->inner, taps = p->taps, whole = inner - inner % AOT_VLEN;
    for (int64_t n = 0; n < p->outer; ++n) {
        float *to = y + n * p->y_plane;
        for (int64_t o = p->o0; o < p->o1; ++o, to += inner) {
            const int32_t *a = at + o * taps;
            const float *f = w + o * taps;
            if (a[0] < 0) {
                for (int64_t i = 0; i < inner; ++i) {
                    to[i] = p->outside;
                }
                continue;
            }
            for (int64_t i = 0; i < whole; i += AOT_VLEN) {
                aot_vf sum = aot_vload(aot_resize_from(x, n, a[0], p, ROWS) + i) * f[0];
                for (int64_t t = 1; t < taps; ++t) {
                    const float *from = aot_resize_from(x, n, a[t], p, ROWS);
                    sum = aot_vfma(aot_vload(from + i), aot_vset1(f[t]), sum);
                }
                aot_vstore(to + i, sum);
            }
            for (int64_t i = whole; i < inner; ++i) {
                float sum = aot_resize_from(x, n, a[0], p, ROWS)[i] * f[0];
                for (int64_t t = 1; t < taps; ++t) {
                    sum += aot_resize_from(x, n, a[t], p, ROWS)[i] * f[t];
                }
                to[i] = sum;
            }
        }
    }
}

#endif
