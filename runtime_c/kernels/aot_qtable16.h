/* SPDX-License-Identifier: MIT-0 */
/* A function of quantised values of 16 bits, or from 8 to 16 bits, by pieces: y[i] = f(x[i]) for n
 * quantised values.
 *
 * The quantised values from `low` on are in pieces of 2^bits. A piece holds three numbers: f is
 * (piece[0] * 2^16 + piece[1] * d + piece[2] * d * d) / 2^30 rounded down, d the distance from the
 * piece's first value; or, with piece[1] AOT_QTABLE16_LITERAL, its quantised values are in
 * `literal` from piece[0] on. XT and YT are types of aot_quantised.h. y may be x where the types
 * have one size; no scratch.
 */
#ifndef AOT_QTABLE16_H
#define AOT_QTABLE16_H

#include "aot_quantised.h"

#define AOT_QTABLE16_LITERAL INT32_MIN

typedef struct aot_qtable16_params {
    int64_t n;
    int32_t low, bits;
} aot_qtable16_params;

AOT_INLINE void aot_qtable16(void *y, const void *x, const int32_t *pieces, const void *literal,
                             const aot_qtable16_params *p, int XT, int YT) {
    int64_t i;
    for (i = 0; i < p->n; ++i) {
        const int32_t at = aot_q_load(x, i, XT) - p->low, d = at & ((1 << p->bits) - 1);
        const int32_t *piece = pieces + 3 * (at >> p->bits);
        int32_t value;
        if (piece[1] == AOT_QTABLE16_LITERAL) {
            value = aot_q_load(literal, (int64_t)piece[0] + d, YT);
        } else {
            const int64_t first = (int64_t)piece[0] * 65536;
            value = (int32_t)((first + (int64_t)piece[1] * d + (int64_t)piece[2] * (d * d)) >> 30);
        }
        aot_q_store(y, i, value, YT);
    }
}

#endif /* AOT_QTABLE16_H */
