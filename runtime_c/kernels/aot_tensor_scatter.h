/* SPDX-License-Identifier: MIT-0 */
/* New rows written into a cache of keys or values.
 *
 * y, past: [batch][outer][extent][inner], update: [batch][outer][count][inner], elements of E
 * bytes. y is past, but rows from places[b] on (from 0 without places) are update's: with CIRCULAR
 * modulo extent, else a place outside 0..extent-count is forced into it. count <= extent. y may be
 * past. No scratch.
 */
#ifndef AOT_TENSOR_SCATTER_H
#define AOT_TENSOR_SCATTER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "aot/aot.h"

typedef struct {
    int32_t batch, outer, extent, count, inner;
} aot_tensor_scatter_params;

AOT_INLINE void aot_tensor_scatter(void *y, const void *past, const void *update,
                                   const int64_t *places, const aot_tensor_scatter_params *p,
                                   int CIRCULAR, int E) {
    const size_t row = (size_t)p->inner * (size_t)E;
    const unsigned char *s = (const unsigned char *)update;
    unsigned char *d = (unsigned char *)y;
    int32_t b, o, i;
    if (y != past) {
        (void)memcpy(y, past, (size_t)p->batch * (size_t)p->outer * (size_t)p->extent * row);
    }
    for (b = 0; b < p->batch && p->extent > 0; ++b) {
        const int64_t last = p->extent - p->count;
        int64_t first = places != NULL ? places[b] : 0;
        if (CIRCULAR != 0) {
            first %= p->extent;
            first = first < 0 ? first + p->extent : first;
        } else {
            first = first < 0 ? 0 : first > last ? last : first;
        }
        for (o = 0; o < p->outer; ++o, d += (size_t)p->extent * row) {
            for (i = 0; i < p->count; ++i, s += row) {
                const int64_t at = first + i < p->extent ? first + i : first + i - p->extent;
                (void)memcpy(d + (size_t)at * row, s, row);
            }
        }
    }
}

/* The same of given places, but nothing is written and AOT_OUT_OF_RANGE returned if one is out of
   range without CIRCULAR. */
AOT_INLINE aot_status aot_tensor_scatter_checked(void *y, const void *past, const void *update,
                                                 const int64_t *places,
                                                 const aot_tensor_scatter_params *p, int CIRCULAR,
                                                 int E) {
    int32_t b;
    for (b = 0; b < p->batch && CIRCULAR == 0; ++b) {
        if (places[b] < 0 || places[b] > p->extent - p->count) {
            return AOT_OUT_OF_RANGE;
        }
    }
    aot_tensor_scatter(y, past, update, places, p, CIRCULAR, E);
    return AOT_OK;
}

#endif /* AOT_TENSOR_SCATTER_H */
