/* SPDX-License-Identifier: MIT-0 */
/* Averages and maxima of quantised values of 8 or 16 bits, channels last: x [n][in0][in1][in2][c],
 * y [n][out0][out1][out2][c]. Parameters, mult, shift, RQ, VARY and PADDED as for aot_qavgpool_s8.
 *
 * MAX 1: the largest quantised value instead of the sum, requantised as one position; with RQ 3
 * stored as it is. Every window has a position inside the input. XT and YT are types of
 * aot_quantised.h; sums must fit 30 bits. No scratch; y must not overlap x.
 */
#ifndef AOT_QPOOL_REF_H
#define AOT_QPOOL_REF_H

#include "aot_qavgpool_s8.h"

typedef aot_qavgpool_s8_params aot_qpool_ref_params;

/* The sum or the maximum of one window and channel; `at` is its first element. */
AOT_INLINE int32_t aot_qpool_ref_window(const void *x, int64_t at, const aot_qavgpool_span *span,
                                        const aot_qpool_ref_params *p, int MAX, int XT) {
    int32_t a, b, e, found = MAX ? INT32_MIN : 0;
    for (a = 0; a < span[0].taps; ++a) {
        for (b = 0; b < span[1].taps; ++b) {
            const int64_t z = span[0].at + (int64_t)a * p->d[0];
            const int64_t row = span[1].at + (int64_t)b * p->d[1];
            const int64_t from = at + ((z * p->in[1] + row) * p->in[2] + span[2].at) * p->c;
            for (e = 0; e < span[2].taps; ++e) {
                const int32_t v = aot_q_load(x, from + (int64_t)e * p->d[2] * p->c, XT);
                found = !MAX ? found + v : v > found ? v : found;
            }
        }
    }
    return found;
}

AOT_INLINE void aot_qpool_ref_pixel(void *y, int64_t to, const void *x, int64_t image,
                                    const int32_t *mult, const int8_t *shift,
                                    const aot_qavgpool_span *span, const aot_qpool_ref_params *p,
                                    int RQ, int VARY, int MAX, int XT, int YT) {
    const int32_t taps = span[0].taps * span[1].taps * span[2].taps;
    const int32_t counted = span[0].counted * span[1].counted * span[2].counted;
    const int32_t positions = MAX || counted <= 0 ? 1 : counted;
    int32_t c;
    for (c = 0; c < p->c; ++c) {
        const int32_t v = aot_qpool_ref_window(x, image + c, span, p, MAX, XT);
        aot_q_store(
            y, to + c,
            aot_qavgpool_one(v, MAX ? 1 : taps, positions, mult, shift, p, RQ, MAX ? 0 : VARY), YT);
    }
}

AOT_INLINE void aot_qpool_ref(void *y, const void *x, const int32_t *mult, const int8_t *shift,
                              const aot_qpool_ref_params *p, int RQ, int VARY, int PADDED, int MAX,
                              int XT, int YT) {
    const int64_t size = (int64_t)p->in[0] * p->in[1] * p->in[2] * p->c;
    aot_qavgpool_span span[3];
    int64_t to = 0;
    int32_t n, z, r, q;
    for (n = 0; n < p->n; ++n) {
        for (z = 0; z < p->out[0]; ++z) {
            span[0] = aot_qavgpool_taps(p, 0, z, PADDED);
            for (r = 0; r < p->out[1]; ++r) {
                span[1] = aot_qavgpool_taps(p, 1, r, PADDED);
                for (q = 0; q < p->out[2]; ++q, to += p->c) {
                    span[2] = aot_qavgpool_taps(p, 2, q, PADDED);
                    aot_qpool_ref_pixel(y, to, x, n * size, mult, shift, span, p, RQ, VARY, MAX, XT,
                                        YT);
                }
            }
        }
    }
}

#endif /* AOT_QPOOL_REF_H */
