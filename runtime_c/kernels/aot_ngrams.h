/* SPDX-License-Identifier: MIT-0 */
/* How often the n-grams of a list occur in rows of tokens (TfIdfVectorizer). */
#ifndef AOT_NGRAMS_H
#define AOT_NGRAMS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "aot/port.h"

typedef struct aot_ngrams_params {
    int32_t rows;  /* rows of x and y */
    int32_t cols;  /* tokens of a row */
    int32_t width; /* columns of y */
    int32_t grams; /* n-grams of the list */
    int32_t skips; /* tokens that may be left out between two tokens of an n-gram */
} aot_ngrams_params;

/* Whether the n tokens at x, `step` apart, are those of the n-gram; tokens are of E bytes. */
AOT_INLINE int aot_ngrams_equal(const unsigned char *x, const unsigned char *gram, int64_t n,
                                int64_t step, int E) {
    for (int64_t i = 0; i < n; ++i) {
        if (memcmp(x + (size_t)(i * step) * (size_t)E, gram + (size_t)i * (size_t)E, (size_t)E) !=
            0) {
            return 0;
        }
    }
    return 1;
}

/* y[rows][width], float. x[rows][cols], tokens of E bytes. N-gram g has the tokens
   pool[places[3g]] …, places[3g + 1] of them, and is counted in column places[3g + 2].
   MODE 0: counts; 1: weights[g] where it occurs; 2: counts times weights[g]. No scratch. */
AOT_INLINE void aot_ngrams(float *y, const void *x, const void *pool, const int32_t *places,
                           const float *weights, const aot_ngrams_params *p, int MODE, int E) {
    const unsigned char *tokens = (const unsigned char *)pool;
    const unsigned char *row = (const unsigned char *)x;
    for (int32_t r = 0; r < p->rows; ++r, y += p->width, row += (size_t)p->cols * (size_t)E) {
        for (int32_t i = 0; i < p->width; ++i) {
            y[i] = 0.0F;
        }
        for (int32_t g = 0; g < p->grams; ++g) {
            const int32_t *at = places + 3 * (ptrdiff_t)g;
            const int64_t n = at[1];
            const unsigned char *gram = tokens + (size_t)at[0] * (size_t)E;
            int64_t count = 0;
            for (int64_t step = 1; step <= (n > 1 ? (int64_t)p->skips + 1 : 1); ++step) {
                for (int64_t i = 0; i + (n - 1) * step < p->cols; ++i) {
                    count += aot_ngrams_equal(row + (size_t)i * (size_t)E, gram, n, step, E);
                }
            }
            if (count > 0) {
                y[at[2]] += MODE == 0   ? (float)count
                            : MODE == 1 ? weights[g]
                                        : (float)count * weights[g];
            }
        }
    }
}

#endif /* AOT_NGRAMS_H */
