/* SPDX-License-Identifier: MIT-0 */
/* Max, average and Lp pooling of float32 with channels in blocks of AOT_VLEN. */
#ifndef AOT_POOL_F32_BLOCKED_H
#define AOT_POOL_F32_BLOCKED_H

#include <math.h>
#include <stdint.h>

#include "aot_pool.h"
#include "aot_rows.h"
#include "aot_simd.h"

#define AOT_POOL_MAX 0
#define AOT_POOL_AVERAGE 1

typedef aot_pool_params aot_maxpool_f32_blocked_params;
typedef aot_pool_params aot_avgpool_f32_blocked_params;

/* Where a window is: the first row and the rows from one to the next, floats in front of its first
   column, floats of a row. */
typedef struct aot_pool_place {
    const float *x;
    int32_t row, step;
    int64_t column, pitch;
} aot_pool_place;

/* The first column of row i of a window. */
AOT_INLINE const float *aot_pool_line(const aot_pool_place *v, int32_t i) {
    const int64_t row = v->row + (int64_t)i * v->step;
    return AOT_AT_F32(v->x, row, v->column, v->x + row * v->pitch + v->column);
}

/* Folds a window that is whole in h and w; KW > 0 is the width known to the compiler. */
AOT_INLINE aot_vf aot_pool_window(aot_vf acc, const aot_pool_place *v, int32_t kh, int32_t kw,
                                  int64_t tap_step, int KIND, int KW) {
    for (int32_t i = 0; i < kh; ++i) {
        const float *x = aot_pool_line(v, i);
        if (KW == 3) {
            const aot_vf a = aot_vload(x), b = aot_vload(x + tap_step),
                         c = aot_vload(x + 2 * tap_step);
            acc = KIND == AOT_POOL_MAX ? aot_vmaximum(aot_vmaximum(acc, a), aot_vmaximum(b, c))
                                       : acc + (a + b + c);
        } else if (KW == 2) {
            const aot_vf a = aot_vload(x), b = aot_vload(x + tap_step);
            acc = KIND == AOT_POOL_MAX ? aot_vmaximum(acc, aot_vmaximum(a, b)) : acc + (a + b);
        } else {
            for (int32_t j = 0; j < kw; ++j) {
                const aot_vf a = aot_vload(x + j * tap_step);
                acc = KIND == AOT_POOL_MAX ? aot_vmaximum(acc, a) : acc + a;
            }
        }
    }
    return acc;
}

/* Plane n of x, at the rows of span h. By rows there is one depth. */
AOT_INLINE aot_pool_place aot_pool_at(const float *x, int64_t n, const aot_pool_params *p,
                                      aot_pool_span h) {
    const aot_pool_place v = {x, h.at + h.first * p->d[1], p->d[1], n * p->x_plane,
                              (int64_t)p->in[2] * AOT_VLEN};
    return v;
}

/* One output vector: the window at (d, h, w) spans of plane n. */
AOT_INLINE aot_vf aot_pool_vector(const float *x, int64_t n, const aot_pool_params *p,
                                  aot_pool_span d, aot_pool_span h, aot_pool_span w, int KIND,
                                  int KW) {
    const int64_t tap_step = (int64_t)p->d[2] * AOT_VLEN;
    const int32_t kh = h.end - h.first, kw = w.end - w.first;
    aot_pool_place v = aot_pool_at(x, n, p, h);
    const int64_t slice = v.pitch * p->in[1];
    const int64_t corner = v.column + (int64_t)(w.at + w.first * p->d[2]) * AOT_VLEN;
    aot_vf acc = aot_vset1(KIND == AOT_POOL_MAX ? -INFINITY : 0.0F);
    for (int32_t i = d.first; i < d.end; ++i) {
        v.column = corner + (int64_t)(d.at + i * p->d[0]) * slice;
        if (KW > 0 && kw == KW) {
            acc = aot_pool_window(acc, &v, kh, kw, tap_step, KIND, KW);
        } else {
            acc = aot_pool_window(acc, &v, kh, kw, tap_step, KIND, 0);
        }
    }
    return acc;
}

/* The largest of n vectors, n > 0, `at` floats behind the first column of the rows of a window. */
AOT_INLINE aot_vf aot_maxpool_column(const aot_pool_place *v, int32_t n, int64_t at) {
    aot_vf top = aot_vload(aot_pool_line(v, 0) + at);
    for (int32_t i = 1; i < n; ++i) {
        top = aot_vmaximum(top, aot_vload(aot_pool_line(v, i) + at));
    }
    return top;
}

/* `count` > 0 windows of one row, three columns wide and SW (1 or 2) apart: a column that windows
   share is folded once. v is the place of the first window, y its result. */
AOT_INLINE void aot_maxpool_triples(float *y, const aot_pool_place *v, int32_t count, int32_t rows,
                                    int SW) {
    aot_vf a = aot_maxpool_column(v, rows, 0);
    aot_vf b = SW == 1 ? aot_maxpool_column(v, rows, AOT_VLEN) : a;
    for (int64_t i = 0; i < count; ++i) {
        const int64_t at = i * SW * AOT_VLEN;
        const aot_vf c = aot_maxpool_column(v, rows, at + 2 * AOT_VLEN);
        if (SW == 2) {
            b = aot_maxpool_column(v, rows, at + AOT_VLEN);
        }
        aot_vstore(y + i * AOT_VLEN, aot_vmaximum(aot_vmaximum(a, b), c));
        a = SW == 1 ? b : c;
        b = c;
    }
}

/* y [out w][V]: the row of results whose spans are d and h, of plane n. */
AOT_INLINE void aot_maxpool_row(float *y, const float *x, int64_t n, const aot_pool_params *p,
                                aot_pool_span d, aot_pool_span h, int KW, int SW) {
    const int32_t rows = h.end - h.first;
    int32_t first = 0, end = 0, ow = 0; /* windows first..end-1 are folded by columns */
    if (SW > 0 && rows > 0 && p->in[2] + p->before[2] >= 3) {
        first = (p->before[2] + SW - 1) / SW;
        end = (p->in[2] + p->before[2] - 3) / SW + 1;
        end = end < p->out[2] ? end : p->out[2];
    }
    while (ow < p->out[2]) {
        const aot_pool_span w = aot_pool_taps(p, 2, ow);
        if (ow == first && first < end) {
            aot_pool_place v = aot_pool_at(x, n, p, h);
            v.column += (int64_t)w.at * AOT_VLEN;
            if (rows == 3) {
                aot_maxpool_triples(y + (int64_t)ow * AOT_VLEN, &v, end - first, 3, SW);
            } else {
                aot_maxpool_triples(y + (int64_t)ow * AOT_VLEN, &v, end - first, rows, SW);
            }
            ow = end;
        } else {
            aot_vstore(y + (int64_t)ow * AOT_VLEN,
                       aot_pool_vector(x, n, p, d, h, w, AOT_POOL_MAX, KW));
            ++ow;
        }
    }
}

/* y [planes][out d][rows][out w][V], x [planes][in d][in h][in w][V], V = AOT_VLEN. A window
   outside the input gives -infinity, one with a NaN gives NaN. KW is the window's width if 2 or 3,
   else 0; SW the step of windows three wide that may share columns (1 or 2, one depth, no dilation
   of columns), else 0. */
AOT_INLINE void aot_maxpool_f32_blocked(float *y, const float *x,
                                        const aot_maxpool_f32_blocked_params *p, int KW, int SW) {
    const int64_t row = (int64_t)p->out[2] * AOT_VLEN;
    for (int64_t n = 0; n < p->planes; ++n) {
        for (int32_t od = 0; od < p->out[0]; ++od) {
            const aot_pool_span d = aot_pool_taps(p, 0, od);
            float *to = y + n * p->y_plane + ((int64_t)od * p->out[1] + p->row0) * row;
            for (int32_t oh = p->row0; oh < p->row1; ++oh, to += row) {
                aot_maxpool_row(to, x, n, p, d, aot_pool_taps(p, 1, oh), KW, SW);
            }
        }
    }
}

/* The same shapes. The sum is divided by the taps inside the input, or (PADDED) inside the padded
   input. */
AOT_INLINE void aot_avgpool_f32_blocked(float *y, const float *x,
                                        const aot_avgpool_f32_blocked_params *p, int KW,
                                        int PADDED) {
    for (int64_t n = 0; n < p->planes; ++n) {
        for (int32_t od = 0; od < p->out[0]; ++od) {
            const aot_pool_span d = aot_pool_taps(p, 0, od);
            const int32_t cd = PADDED ? aot_pool_padded(p, 0, od) : d.end - d.first;
            float *to =
                y + n * p->y_plane + ((int64_t)od * p->out[1] + p->row0) * p->out[2] * AOT_VLEN;
            for (int32_t oh = p->row0; oh < p->row1; ++oh) {
                const aot_pool_span h = aot_pool_taps(p, 1, oh);
                const int32_t ch = PADDED ? aot_pool_padded(p, 1, oh) : h.end - h.first;
                for (int32_t ow = 0; ow < p->out[2]; ++ow, to += AOT_VLEN) {
                    const aot_pool_span w = aot_pool_taps(p, 2, ow);
                    const int32_t cw = PADDED ? aot_pool_padded(p, 2, ow) : w.end - w.first;
                    const int32_t taps = cd * ch * cw;
                    const float scale = 1.0F / (float)(taps > 0 ? taps : 1);
                    aot_vstore(to, aot_pool_vector(x, n, p, d, h, w, AOT_POOL_AVERAGE, KW) * scale);
                }
            }
        }
    }
}

#endif
