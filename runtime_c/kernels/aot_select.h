/* SPDX-License-Identifier: MIT-0 */
/* Triangles, reversed sequences, one-hot encoding, fills. */
#ifndef AOT_SELECT_H
#define AOT_SELECT_H

#include <stdint.h>

#include "aot_index.h"
#include "aot_move.h"

typedef struct aot_trilu_params {
    int32_t batch; /* matrices */
    int32_t rows;
    int32_t cols;
    int32_t upper; /* 1 keeps the upper triangle, 0 the lower one */
} aot_trilu_params;

/* y = x [batch][rows][cols] with what is below (above) diagonal *k (int64) zeroed. Elements of E
   bytes. y may be x. */
AOT_INLINE void aot_trilu(void *y, const void *x, const void *k, const aot_trilu_params *p, int E) {
    const int64_t diagonal = aot_index_at(k, 0, 8);
    int64_t at = 0;
    for (int64_t n = 0; n < p->batch; ++n) {
        for (int64_t r = 0; r < p->rows; ++r) {
            /* Written so that no diagonal, however far, overflows. */
            const int64_t edge = diagonal > p->cols    ? p->cols
                                 : diagonal < -p->rows ? -(int64_t)p->rows
                                                       : diagonal;
            for (int64_t c = 0; c < p->cols; ++c, ++at) {
                const int keep = p->upper ? c - r >= edge : c - r <= edge;
                if (keep != 0) {
                    aot_move1(y, at, x, at, E);
                } else {
                    aot_move_zero(y, at, E);
                }
            }
        }
    }
}

typedef struct aot_reverse_sequence_params {
    int32_t batch;   /* extent of the batch axis */
    int32_t time;    /* extent of the time axis */
    int32_t inner;   /* product of the axes after both, in elements */
    int32_t batch_s; /* stride of the batch axis in elements */
    int32_t time_s;  /* stride of the time axis in elements */
} aot_reverse_sequence_params;

/* The first lens[n] (int64, limited to 0..time) steps of batch n reversed, the others kept.
   Elements of E bytes. Not in place. */
AOT_INLINE void aot_reverse_sequence(void *y, const void *x, const void *lens,
                                     const aot_reverse_sequence_params *p, int E) {
    for (int64_t n = 0; n < p->batch; ++n) {
        int64_t length = aot_index_at(lens, n, 8);
        length = length < 0 ? 0 : length > p->time ? p->time : length;
        for (int64_t t = 0; t < p->time; ++t) {
            const int64_t from = t < length ? length - 1 - t : t;
            aot_move_run(aot_move_at(y, (n * p->batch_s + t * p->time_s) * E), 1,
                         aot_move_from(x, (n * p->batch_s + from * p->time_s) * E), 1, p->inner, E);
        }
    }
}

typedef struct aot_one_hot_params {
    int32_t outer; /* product of the axes of idx before the new one */
    int32_t depth; /* extent of the new axis */
    int32_t inner; /* product of the axes of idx after it */
} aot_one_hot_params;

#define AOT_ONE_HOT_FLOAT 0 /* I for float32 indices; 4 and 8 are integers of so many bytes */

/* y [outer][depth][inner] = values[1] where the index (wrapped) equals the position, values[0]
   elsewhere. Elements of E bytes. Not in place. */
AOT_INLINE void aot_one_hot(void *y, const void *idx, const void *values,
                            const aot_one_hot_params *p, int E, int I) {
    int64_t at = 0;
    for (int64_t o = 0; o < p->outer; ++o) {
        for (int64_t d = 0; d < p->depth; ++d) {
            for (int64_t i = 0; i < p->inner; ++i, ++at) {
                int64_t v;
                if (I == AOT_ONE_HOT_FLOAT) {
                    const float f = ((const float *)idx)[o * p->inner + i];
                    v = f > -1e9F && f < 1e9F ? (int64_t)f : -1 - (int64_t)p->depth;
                } else {
                    v = aot_index_at(idx, o * p->inner + i, I);
                }
                aot_move1(y, at, values, aot_index_checked(v, p->depth) == d ? 1 : 0, E);
            }
        }
    }
}

typedef struct aot_fill_params {
    int64_t count; /* elements of y */
} aot_fill_params;

/* y[i] = *value for every element; elements of E bytes. */
AOT_INLINE void aot_fill(void *y, const void *value, const aot_fill_params *p, int E) {
    for (int64_t i = 0; i < p->count; ++i) {
        aot_move1(y, i, value, 0, E);
    }
}

#endif
