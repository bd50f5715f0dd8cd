/* SPDX-License-Identifier: MIT-0 */
/* A row of an input that comes by rows: from channels one behind the other to channels in blocks.
 *
 * y [ceil(c / V)][width][V], pad lanes zero; x [c] lines of `width` elements of `elem` bytes,
 * `plane` elements apart. Not in place. No scratch.
 */
#ifndef AOT_PUSH_ROW_H
#define AOT_PUSH_ROW_H

#include "aot_move.h"

typedef struct aot_push_row_params {
    int32_t c, width, elem, plane;
} aot_push_row_params;

AOT_INLINE void aot_push_row(void *y, const void *x, const aot_push_row_params *p, int V) {
    int64_t at = 0;
    if (V == 1) {
        const size_t bytes = (size_t)p->width * (size_t)p->elem;
        for (int32_t c = 0; c < p->c; ++c) {
            const int64_t from = (int64_t)c * p->plane * p->elem;
            (void)memcpy((unsigned char *)y + (size_t)c * bytes, (const unsigned char *)x + from,
                         bytes);
        }
        return;
    }
    for (int32_t c = 0; c < p->c; c += V) {
        for (int32_t i = 0; i < p->width; ++i) {
            for (int v = 0; v < V; ++v, ++at) {
                if (c + v < p->c) {
                    aot_move1(y, at, x, (int64_t)(c + v) * p->plane + i, p->elem);
                } else {
                    aot_move_zero(y, at, p->elem);
                }
            }
        }
    }
}

#endif
