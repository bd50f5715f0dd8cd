/* SPDX-License-Identifier: MIT-0 */
/* aot_matmul_f32 where a run says how much of the product counts: n [1], forced into 0 to all.
 *
 * SIZED 1: the first n columns of y; the others become 0. SIZED 2: the first n summands, that is
 * columns of a and rows of b. Elements up to a multiple of AOT_MATMUL_STEP are read, so that sums
 * are added up in the order of the whole product: in SIZED 2 those of a and b must be 0. Scratch is
 * that of aot_matmul_f32. Not in place.
 */
#ifndef AOT_MATMUL_F32_SIZED_H
#define AOT_MATMUL_F32_SIZED_H

#include "aot_matmul_f32.h"

typedef aot_matmul_f32_params aot_matmul_f32_sized_params;

enum { AOT_MATMUL_STEP = AOT_VLEN < 2 ? 4 : 2 * AOT_VLEN }; /* what loops of a gemv take at once */

/* Instance: P, O the tile family (aot_tile_f32_run). */
AOT_INLINE void aot_matmul_f32_sized(float *y, const float *a, const float *b, const int64_t *n,
                                     void *scratch, const aot_matmul_f32_sized_params *p, int P,
                                     int O, int SIZED) {
    const int32_t whole = SIZED == 1 ? p->n : p->k;
    const int32_t given = *n < 0 ? 0 : (*n < whole ? (int32_t)*n : whole);
    const int32_t rounded = (given + AOT_MATMUL_STEP - 1) / AOT_MATMUL_STEP * AOT_MATMUL_STEP;
    const int32_t size = rounded < whole ? rounded : whole;
    aot_matmul_f32_params part = *p;
    int32_t i, j, k, row;
    if (SIZED == 2) {
        part.k = size;
        aot_matmul_f32(y, a, b, scratch, &part, P, O);
        return;
    }
    part.n = size;
    aot_matmul_f32(y, a, b, scratch, &part, P, O);
    for (i = 0; i < p->batch[0]; ++i) {
        for (j = 0; j < p->batch[1]; ++j) {
            for (k = 0; k < p->batch[2]; ++k) {
                float *to = y + (i * p->y_batch[0] + j * p->y_batch[1] + k * p->y_batch[2]);
                for (row = 0; row < p->m && given < whole; ++row) {
                    (void)memset(to + row * p->y_row + given, 0,
                                 (size_t)(whole - given) * sizeof(float));
                }
            }
        }
    }
}

#endif /* AOT_MATMUL_F32_SIZED_H */
