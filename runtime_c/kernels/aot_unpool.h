/* SPDX-License-Identifier: MIT-0 */
/* MaxUnpool and TensorScatter: elements put where an index says, of 1, 2, 4 or 8 bytes.
 *
 * aot_unpool(y, x, index, p, E): y is zero but y[index[i]] = x[i], where an index inside the pooled
 * tensor of extents `from` becomes the same place in the corner of one of extents `to` (batch and
 * channels come first and are equal). Indices out of range write nothing.
 * aot_tensor_scatter(y, past, update, at, p, E, CIRCULAR): y is past but for `steps` rows of every
 * [outer], written from row at[outer / share] on (at may be NULL: 0), modulo the extent if
 * CIRCULAR; rows out of range are left alone. y may be past. No scratch.
 */
#ifndef AOT_UNPOOL_H
#define AOT_UNPOOL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "aot/port.h"

typedef struct {
    int64_t count, planes;
    int32_t from[3], to[3];
} aot_unpool_params;

AOT_INLINE void aot_unpool(void *y, const void *x, const int64_t *index, const aot_unpool_params *p,
                           int E) {
    const int64_t plane = (int64_t)p->from[0] * p->from[1] * p->from[2];
    const int64_t wide = (int64_t)p->to[0] * p->to[1] * p->to[2];
    unsigned char *out = (unsigned char *)y;
    const unsigned char *in = (const unsigned char *)x;
    int64_t i;
    memset(out, 0, (size_t)(p->planes * wide) * (size_t)E);
    for (i = 0; i < p->count; ++i) {
        const int64_t k = index[i];
        int64_t rest, a, b, c;
        if (k < 0 || k >= p->planes * plane) {
            continue;
        }
        rest = k % plane;
        c = rest % p->from[2];
        b = rest / p->from[2] % p->from[1];
        a = rest / p->from[2] / p->from[1];
        if (a < p->to[0] && b < p->to[1] && c < p->to[2]) {
            const int64_t to = k / plane * wide + (a * p->to[1] + b) * p->to[2] + c;
            memcpy(out + to * E, in + i * E, (size_t)E);
        }
    }
}

typedef struct {
    int64_t outer, share, extent, steps, row;
} aot_tensor_scatter_params;

AOT_INLINE void aot_tensor_scatter(void *y, const void *past, const void *update, const int64_t *at,
                                   const aot_tensor_scatter_params *p, int E, int CIRCULAR) {
    const size_t row = (size_t)p->row * (size_t)E;
    unsigned char *out = (unsigned char *)y;
    const unsigned char *in = (const unsigned char *)update;
    int64_t o, s;
    if (y != past) {
        memcpy(y, past, (size_t)(p->outer * p->extent) * row);
    }
    for (o = 0; o < p->outer; ++o) {
        const int64_t first = at != NULL ? at[o / p->share] : 0;
        for (s = 0; s < p->steps; ++s, in += row) {
            int64_t k = CIRCULAR ? (first % p->extent + s) % p->extent : first;
            if (CIRCULAR && k < 0) {
                k += p->extent;
            }
            if (!CIRCULAR) {
                if (first < 0 || first >= p->extent - s) {
                    continue;
                }
                k = first + s;
            }
            memcpy(out + (size_t)(o * p->extent + k) * row, in, row);
        }
    }
}

#endif /* AOT_UNPOOL_H */
