/* SPDX-License-Identifier: MIT-0 */
/* Run-time indices of Gather and Scatter: int32 or int64, negative ones count from the end. */
#ifndef AOT_INDEX_H
#define AOT_INDEX_H

#include <stdint.h>

#include "aot/aot.h"
#include "aot_move.h"

/* Element i of an index tensor of I bytes per element (4 or 8). */
AOT_INLINE int64_t aot_index_at(const void *idx, int64_t i, int I) {
    if (I == 4) {
        int32_t v;
        (void)memcpy(&v, (const unsigned char *)idx + i * 4, 4);
        return v;
    } else {
        int64_t v;
        (void)memcpy(&v, (const unsigned char *)idx + i * 8, 8);
        return v;
    }
}

/* Index wrapped and clamped into 0..n-1 (n > 0): ONNX forbids others, memory must be safe. */
AOT_INLINE int64_t aot_index_clamp(int64_t v, int64_t n) {
    if (v < 0) {
        v = v < -n ? 0 : v + n;
    }
    return v < n ? v : n - 1;
}

/* Index wrapped into 0..n-1, or -1 when it lies outside. */
AOT_INLINE int64_t aot_index_checked(int64_t v, int64_t n) {
    if (v < -n || v >= n) {
        return -1;
    }
    return v < 0 ? v + n : v;
}

/* Whether each of `count` tuples of `depth` indices lies within -extent[d]..extent[d]-1. */
AOT_INLINE aot_status aot_index_status(const void *idx, int64_t count, int32_t depth,
                                       const int32_t *extent, int I) {
    int outside = 0;
    for (int64_t i = 0; i < count; ++i) {
        for (int32_t d = 0; d < depth; ++d) {
            const int64_t v = aot_index_at(idx, i * depth + d, I), n = extent[d];
            outside |= v < -n || v >= n;
        }
    }
    return outside != 0 ? AOT_OUT_OF_RANGE : AOT_OK;
}

#endif
