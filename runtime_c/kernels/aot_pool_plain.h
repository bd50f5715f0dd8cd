/* SPDX-License-Identifier: MIT-0 */
/* Pooling of row-major tensors, one element at a time: every type, indices, Lp norms. */
#ifndef AOT_POOL_PLAIN_H
#define AOT_POOL_PLAIN_H

#include <math.h>
#include <stdint.h>

#include "aot_pool.h"
#include "aot_rows.h"

/* Row h of plane n, at depth d; by rows there is one depth. */
#define AOT_POOL_LINE(x, type, n, d, h, p)                                                         \
    ((const type *)(const void *)AOT_AT(                                                           \
        x, h, (n) * (p)->x_plane * (int64_t)sizeof(type),                                          \
        (const int8_t *)((x) + (n) * (p)->x_plane + aot_pool_offset(p, d, h, 0))))

/* Offset of (d, h, w) in a plane of x. */
AOT_INLINE int64_t aot_pool_offset(const aot_pool_params *p, int32_t d, int32_t h, int32_t w) {
    return ((int64_t)d * p->in[1] + h) * p->in[2] + w;
}

/* Whether v takes the place of the largest so far: the first of equals stays, and so does the first
   NaN. */
AOT_INLINE int aot_maxpool_above_f32(float v, float best) {
    return !(v <= best) && !isnan(best);
}
AOT_INLINE int aot_maxpool_above_f64(double v, double best) {
    return !(v <= best) && !isnan(best);
}
AOT_INLINE int aot_maxpool_above_int(int32_t v, int32_t best) {
    return v > best;
}

/* aot_maxpool_<t>: y [planes][out], x [planes][in] (row-major, three spatial axes), idx as y with
   the flat position of each maximum in x (int64), or NULL. COLUMN counts positions inside a plane
   in column-major order. A window outside the input gives the type's lowest value, position 0. */
#define AOT_MAXPOOL(name, type, lowest, above)                                                     \
    typedef aot_pool_params name##_params;                                                         \
    AOT_INLINE type name##_one(const type *x, int64_t n, const aot_pool_params *p,                 \
                               aot_pool_span d, aot_pool_span h, aot_pool_span w, int32_t *at) {   \
        type best = lowest;                                                                        \
        int first = 1;                                                                             \
        for (int32_t i = d.first; i < d.end; ++i) {                                                \
            for (int32_t j = h.first; j < h.end; ++j) {                                            \
                const int32_t z = d.at + i * p->d[0], r = h.at + j * p->d[1];                      \
                const type *row = AOT_POOL_LINE(x, type, n, z, r, p);                              \
                for (int32_t k = w.first; k < w.end; ++k) {                                        \
                    const int32_t c = w.at + k * p->d[2];                                          \
                    if (first || above(row[c], best)) {                                            \
                        best = row[c];                                                             \
                        at[0] = z;                                                                 \
                        at[1] = r;                                                                 \
                        at[2] = c;                                                                 \
                        first = 0;                                                                 \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        return best;                                                                               \
    }                                                                                              \
    AOT_INLINE void name(type *y, int64_t *idx, const type *x, const name##_params *p,             \
                         int COLUMN) {                                                             \
        const int64_t plane = (int64_t)p->in[0] * p->in[1] * p->in[2];                             \
        for (int64_t n = 0; n < p->planes; ++n) {                                                  \
            for (int32_t od = 0; od < p->out[0]; ++od) {                                           \
                for (int32_t oh = p->row0; oh < p->row1; ++oh) {                                   \
                    for (int32_t ow = 0; ow < p->out[2]; ++ow) {                                   \
                        const int64_t to =                                                         \
                            n * p->y_plane + ((int64_t)od * p->out[1] + oh) * p->out[2] + ow;      \
                        int32_t at[3] = {0, 0, 0};                                                 \
                        y[to] = name##_one(x, n, p, aot_pool_taps(p, 0, od),                       \
                                           aot_pool_taps(p, 1, oh), aot_pool_taps(p, 2, ow), at);  \
                        if (idx) {                                                                 \
                            idx[to] =                                                              \
                                n * plane +                                                        \
                                (COLUMN ? ((int64_t)at[2] * p->in[1] + at[1]) * p->in[0] + at[0]   \
                                        : aot_pool_offset(p, at[0], at[1], at[2]));                \
                        }                                                                          \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

AOT_MAXPOOL(aot_maxpool_f32, float, -INFINITY, aot_maxpool_above_f32)
AOT_MAXPOOL(aot_maxpool_f64, double, -(double)INFINITY, aot_maxpool_above_f64)
AOT_MAXPOOL(aot_maxpool_u8, uint8_t, 0, aot_maxpool_above_int)
AOT_MAXPOOL(aot_maxpool_s8, int8_t, INT8_MIN, aot_maxpool_above_int)

/* aot_avgpool_<t>: y [planes][out], x [planes][in]; the sum divided by the taps inside the input,
   or (PADDED) inside the padded input. */
#define AOT_AVGPOOL(name, type)                                                                    \
    typedef aot_pool_params name##_params;                                                         \
    AOT_INLINE type name##_sum(const type *x, int64_t n, const aot_pool_params *p,                 \
                               aot_pool_span d, aot_pool_span h, aot_pool_span w) {                \
        type sum = 0;                                                                              \
        for (int32_t i = d.first; i < d.end; ++i) {                                                \
            for (int32_t j = h.first; j < h.end; ++j) {                                            \
                const int32_t z = d.at + i * p->d[0], r = h.at + j * p->d[1];                      \
                const type *row = AOT_POOL_LINE(x, type, n, z, r, p);                              \
                for (int32_t k = w.first; k < w.end; ++k) {                                        \
                    sum += row[w.at + k * p->d[2]];                                                \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        return sum;                                                                                \
    }                                                                                              \
    AOT_INLINE int32_t name##_taps(const aot_pool_params *p, int axis, int32_t o, aot_pool_span s, \
                                   int PADDED) {                                                   \
        return PADDED ? aot_pool_padded(p, axis, o) : s.end - s.first;                             \
    }                                                                                              \
    AOT_INLINE void name(type *y, const type *x, const name##_params *p, int PADDED) {             \
        for (int64_t n = 0; n < p->planes; ++n) {                                                  \
            for (int32_t od = 0; od < p->out[0]; ++od) {                                           \
                const aot_pool_span d = aot_pool_taps(p, 0, od);                                   \
                const int32_t cd = name##_taps(p, 0, od, d, PADDED);                               \
                for (int32_t oh = p->row0; oh < p->row1; ++oh) {                                   \
                    const aot_pool_span h = aot_pool_taps(p, 1, oh);                               \
                    const int32_t ch = name##_taps(p, 1, oh, h, PADDED);                           \
                    type *to = y + n * p->y_plane + ((int64_t)od * p->out[1] + oh) * p->out[2];    \
                    for (int32_t ow = 0; ow < p->out[2]; ++ow) {                                   \
                        const aot_pool_span w = aot_pool_taps(p, 2, ow);                           \
                        const int32_t taps = cd * ch * name##_taps(p, 2, ow, w, PADDED);           \
                        to[ow] = name##_sum(x, n, p, d, h, w) / (type)(taps > 0 ? taps : 1);       \
                    }                                                                              \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
    }

AOT_AVGPOOL(aot_avgpool_f32, float)
AOT_AVGPOOL(aot_avgpool_f64, double)

typedef aot_pool_params aot_lppool_f32_params;

/* |v|^order as a summand of the norm. */
AOT_INLINE float aot_lppool_term(float v, int32_t order) {
    const float a = v < 0.0F ? -v : v;
    return order == 1 ? a : order == 2 ? a * a : powf(a, (float)order);
}

/* y [planes][out] = (sum of |x|^order over the window's taps inside x)^(1/order). Needs libm. */
AOT_INLINE void aot_lppool_f32(float *y, const float *x, const aot_lppool_f32_params *p) {
    const int64_t plane = (int64_t)p->in[0] * p->in[1] * p->in[2];
    for (int64_t n = 0; n < p->planes; ++n, x += plane) {
        for (int32_t od = 0; od < p->out[0]; ++od) {
            for (int32_t oh = p->row0; oh < p->row1; ++oh) {
                for (int32_t ow = 0; ow < p->out[2]; ++ow) {
                    const aot_pool_span d = aot_pool_taps(p, 0, od), h = aot_pool_taps(p, 1, oh),
                                        w = aot_pool_taps(p, 2, ow);
                    float sum = 0.0F;
                    for (int32_t i = d.first; i < d.end; ++i) {
                        for (int32_t j = h.first; j < h.end; ++j) {
                            for (int32_t k = w.first; k < w.end; ++k) {
                                sum += aot_lppool_term(
                                    x[aot_pool_offset(p, d.at + i * p->d[0], h.at + j * p->d[1],
                                                      w.at + k * p->d[2])],
                                    p->order);
                            }
                        }
                    }
                    y[((n * p->out[0] + od) * p->out[1] + oh) * p->out[2] + ow] =
                        p->order == 1   ? sum
                        : p->order == 2 ? sqrtf(sum)
                                        : powf(sum, 1.0F / (float)p->order);
                }
            }
        }
    }
}

#endif
