/* SPDX-License-Identifier: MIT-0 */
/* MaxUnpool, elements of E bytes: aot_unpool(y, x, index, p, E).
 *
 * y is zero but y[index[i]] = x[i], where an index inside the pooled tensor of extents `from`
 * becomes the same place in the corner of one of extents `to` (batch and channels come first and
 * are equal), and an index outside the corner writes nothing. Nothing is written and
 * AOT_OUT_OF_RANGE returned if an index is outside the pooled tensor. No scratch, not in place.
 */
#ifndef AOT_UNPOOL_H
#define AOT_UNPOOL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "aot/aot.h"

typedef struct {
    int64_t count, planes;
    int32_t from[3], to[3];
} aot_unpool_params;

AOT_INLINE aot_status aot_unpool(void *y, const void *x, const int64_t *index,
                                 const aot_unpool_params *p, int E) {
    const int64_t plane = (int64_t)p->from[0] * p->from[1] * p->from[2];
    const int64_t wide = (int64_t)p->to[0] * p->to[1] * p->to[2];
    unsigned char *out = (unsigned char *)y;
    const unsigned char *in = (const unsigned char *)x;
    int64_t i;
    for (i = 0; i < p->count; ++i) {
        if (index[i] < 0 || index[i] >= p->planes * plane) {
            return AOT_OUT_OF_RANGE;
        }
    }
    (void)memset(out, 0, (size_t)(p->planes * wide) * (size_t)E);
    for (i = 0; i < p->count; ++i) {
        const int64_t k = index[i], rest = k % plane, c = rest % p->from[2];
        const int64_t b = rest / p->from[2] % p->from[1], a = rest / p->from[2] / p->from[1];
        if (a < p->to[0] && b < p->to[1] && c < p->to[2]) {
            const int64_t to = k / plane * wide + (a * p->to[1] + b) * p->to[2] + c;
            (void)memcpy(out + to * E, in + i * E, (size_t)E);
        }
    }
    return AOT_OK;
}

#endif /* AOT_UNPOOL_H */
