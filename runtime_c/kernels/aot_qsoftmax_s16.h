/* SPDX-License-Identifier: MIT-0 */
/* Softmax of int16 quantised values along one axis, to the bit as TensorFlow Lite's reference
 * kernel: x and y are [outer][AXIS][inner], the results quantised values of scale 1/32768 with zero
 * point 0.
 *
 * Two tables of 513 numbers, interpolated: exp of -10..0 and 1 / (1 + v) of 0..1, both Q0.15. A
 * difference of quantised values becomes a number of 10/65535 by mult and shift (RQ 2 of
 * aot_requant.h). y may be x; no scratch.
 */
#ifndef AOT_QSOFTMAX_S16_H
#define AOT_QSOFTMAX_S16_H

#include "aot_quantised.h"
#include "aot_requant.h"

typedef struct aot_qsoftmax_s16_params {
    int64_t outer, inner;
    int32_t mult, shift;
} aot_qsoftmax_s16_params;

/* The table between two entries; v of -32768..32767. */
AOT_INLINE int32_t aot_qsoftmax_s16_between(const int16_t *table, int32_t v) {
    const int16_t *entry = table + ((v + 32768) >> 7);
    return entry[0] + (((entry[1] - entry[0]) * (v & 127) + 64) >> 7);
}

AOT_INLINE int32_t aot_qsoftmax_s16_power(int32_t d, const int16_t *table,
                                          const aot_qsoftmax_s16_params *p) {
    const int32_t v = aot_requant(d, p->mult, p->shift, 2) + 32767;
    return aot_qsoftmax_s16_between(table, v < -32768 ? -32768 : v);
}

/* One row, `step` apart; its powers are kept in y before they are scaled. */
AOT_INLINE void aot_qsoftmax_s16_row(int16_t *y, const int16_t *x, const int16_t *exps,
                                     const int16_t *overs, const aot_qsoftmax_s16_params *p,
                                     int AXIS) {
    int32_t most = INT16_MIN, lead = 0, sum = 0;
    for (int64_t k = 0; k < AXIS; ++k) {
        const int32_t v = x[k * p->inner];
        most = v > most ? v : most;
    }
    for (int64_t k = 0; k < AXIS; ++k) {
        const int32_t power = aot_qsoftmax_s16_power(x[k * p->inner] - most, exps, p);
        y[k * p->inner] = (int16_t)power;
        sum += power;
    }
    while (((uint32_t)sum << lead) < UINT32_C(0x40000000)) {
        ++lead;
    }
    /* The sum is 2^(30 - lead) times 1 + v. */
    const int32_t v = (int32_t)((((uint32_t)sum << lead) + 8192U) >> 14) - 98304;
    const int32_t over = aot_qsoftmax_s16_between(overs, v > 32767 ? 32767 : v);
    const int32_t down = 30 - lead;
    for (int64_t k = 0; k < AXIS; ++k) {
        const int64_t product = (int64_t)y[k * p->inner] * over + ((int64_t)1 << (down - 1));
        const int64_t share = product >> down;
        y[k * p->inner] = (int16_t)(share > INT16_MAX ? INT16_MAX : share < 0 ? 0 : share);
    }
}

AOT_INLINE void aot_qsoftmax_s16(int16_t *y, const int16_t *x, const int16_t *exps,
                                 const int16_t *overs, const aot_qsoftmax_s16_params *p, int AXIS) {
    for (int64_t o = 0; o < p->outer; ++o) {
        for (int64_t i = 0; i < p->inner; ++i) {
            const int64_t at = o * AXIS * p->inner + i;
            aot_qsoftmax_s16_row(y + at, x + at, exps, overs, p, AXIS);
        }
    }
}

#endif /* AOT_QSOFTMAX_S16_H */
