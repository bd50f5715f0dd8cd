/* SPDX-License-Identifier: MIT-0 */
/* Averages of int8 quantised values, channels last: x [n][in0][in1][in2][c], y
 * [n][out0][out1][out2][c].
 *
 * RQ 0 to 2: y = requantise(sum of (x - x_zero)) + y_zero (aot_requant.h); the multiplier holds
 * 1 / positions. With VARY it is element `positions - 1` of mult and shift, else element 0.
 * RQ 3: TensorFlow Lite's average of quantised values that keep scale and zero point: the sum of
 * the quantised values divided by the positions, halves away from zero; mult and shift are NULL.
 * Positions are those inside the input, with PADDED those inside the padded input. Arrays of the
 * parameters are in the order depth, height, width. Results are limited to [lo, hi]. No scratch;
 * y must not overlap x.
 */
#ifndef AOT_QAVGPOOL_S8_H
#define AOT_QAVGPOOL_S8_H

#include <stddef.h>

#include "aot_quantised.h"
#include "aot_requant.h"

typedef struct aot_qavgpool_s8_params {
    int32_t n, c;
    int32_t in[3], out[3], k[3], s[3], d[3], before[3], after[3];
    int32_t x_zero, y_zero, lo, hi;
} aot_qavgpool_s8_params;

/* The taps of one window along one axis that lie inside the input: number, position of the first.
 */
typedef struct aot_qavgpool_span {
    int32_t taps, at, counted;
} aot_qavgpool_span;

AOT_INLINE aot_qavgpool_span aot_qavgpool_taps(const aot_qavgpool_s8_params *p, int axis, int32_t o,
                                               int PADDED) {
    const int32_t start = o * p->s[axis] - p->before[axis], step = p->d[axis];
    aot_qavgpool_span found = {0, 0, 0};
    int32_t t;
    for (t = 0; t < p->k[axis]; ++t) {
        const int32_t at = start + t * step;
        if (at >= 0 && at < p->in[axis]) {
            found.at = found.taps == 0 ? at : found.at;
            ++found.taps;
        }
        found.counted += at < p->in[axis] + p->after[axis];
    }
    found.counted = PADDED ? found.counted : found.taps;
    return found;
}

AOT_INLINE int32_t aot_qavgpool_one(int32_t sum, int32_t taps, int32_t positions,
                                    const int32_t *mult, const int8_t *shift,
                                    const aot_qavgpool_s8_params *p, int RQ, int VARY) {
    if (RQ == 3) {
        const int32_t half = positions / 2;
        return aot_q_clamp((sum > 0 ? sum + half : sum - half) / positions, p->lo, p->hi);
    } else {
        const int32_t k = VARY ? positions - 1 : 0, value = sum - taps * p->x_zero;
        const int32_t v =
            aot_requant(value, mult[k], shift != NULL ? shift[k] : 0, RQ == 3 ? 0 : RQ);
        return aot_q_shifted(v, p->y_zero, p->lo, p->hi);
    }
}

#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__)

#include <arm_mve.h>

/* The sums of four channels; x points at the first of the image. */
AOT_INLINE void aot_qavgpool_four(int32_t *sums, const int8_t *x, const aot_qavgpool_span *span,
                                  const aot_qavgpool_s8_params *p) {
    const ptrdiff_t column = (ptrdiff_t)p->d[2] * p->c;
    int32x4_t sum = vdupq_n_s32(0);
    int32_t a, b, e;
    for (a = 0; a < span[0].taps; ++a) {
        for (b = 0; b < span[1].taps; ++b) {
            const ptrdiff_t z = span[0].at + (ptrdiff_t)a * p->d[0];
            const ptrdiff_t row = span[1].at + (ptrdiff_t)b * p->d[1];
            const int8_t *from = x + ((z * p->in[1] + row) * p->in[2] + span[2].at) * p->c;
            for (e = 0; e < span[2].taps; ++e) {
                sum = vaddq_s32(sum, vldrbq_s32(from + e * column));
            }
        }
    }
    vst1q_s32(sums, sum);
}

#endif

/* One position of y, all channels; x is the image. */
AOT_INLINE void aot_qavgpool_pixel(int8_t *y, const int8_t *x, const int32_t *mult,
                                   const int8_t *shift, const aot_qavgpool_span *span,
                                   const aot_qavgpool_s8_params *p, int RQ, int VARY) {
    const int32_t taps = span[0].taps * span[1].taps * span[2].taps;
    const int32_t counted = span[0].counted * span[1].counted * span[2].counted;
    const int32_t positions = counted > 0 ? counted : 1;
    const ptrdiff_t column = (ptrdiff_t)p->d[2] * p->c;
    int32_t ch, a, b, e;
#if defined(__ARM_FEATURE_MVE) && defined(__GNUC__)
    for (ch = 0; ch + 4 <= p->c; ch += 4) {
        int32_t sums[4];
        aot_qavgpool_four(sums, x + ch, span, p);
        for (e = 0; e < 4; ++e) {
            y[ch + e] =
                (int8_t)aot_qavgpool_one(sums[e], taps, positions, mult, shift, p, RQ, VARY);
        }
    }
#else
    ch = 0;
#endif
    for (; ch < p->c; ++ch) {
        int32_t sum = 0;
        for (a = 0; a < span[0].taps; ++a) {
            for (b = 0; b < span[1].taps; ++b) {
                const ptrdiff_t z = span[0].at + (ptrdiff_t)a * p->d[0];
                const ptrdiff_t row = span[1].at + (ptrdiff_t)b * p->d[1];
                const int8_t *from = x + ((z * p->in[1] + row) * p->in[2] + span[2].at) * p->c + ch;
                for (e = 0; e < span[2].taps; ++e) {
                    sum += from[e * column];
                }
            }
        }
        y[ch] = (int8_t)aot_qavgpool_one(sum, taps, positions, mult, shift, p, RQ, VARY);
    }
}

AOT_INLINE void aot_qavgpool_s8(int8_t *y, const int8_t *x, const int32_t *mult,
                                const int8_t *shift, const aot_qavgpool_s8_params *p, int RQ,
                                int VARY, int PADDED) {
    const ptrdiff_t image = (ptrdiff_t)p->in[0] * p->in[1] * p->in[2] * p->c;
    aot_qavgpool_span span[3];
    int32_t n, z, r, q;
    for (n = 0; n < p->n; ++n) {
        for (z = 0; z < p->out[0]; ++z) {
            span[0] = aot_qavgpool_taps(p, 0, z, PADDED);
            for (r = 0; r < p->out[1]; ++r) {
                span[1] = aot_qavgpool_taps(p, 1, r, PADDED);
                for (q = 0; q < p->out[2]; ++q) {
                    span[2] = aot_qavgpool_taps(p, 2, q, PADDED);
                    aot_qavgpool_pixel(y, x + n * image, mult, shift, span, p, RQ, VARY);
                    y += p->c;
                }
            }
        }
    }
}

/* Row `row` of `rows` of an average over all positions of one image: x is the row, `scratch` are
 * the sums, 4 c bytes aligned to 4, which the first row begins; the last one makes y. */
AOT_INLINE void aot_qavgpool_s8_row(int8_t *y, const int8_t *x, const int32_t *mult,
                                    const int8_t *shift, void *scratch, int32_t row, int32_t rows,
                                    const aot_qavgpool_s8_params *p, int RQ, int VARY, int PADDED) {
    const int32_t positions = rows * p->in[2];
    int32_t *const sums = (int32_t *)scratch;
    int32_t i, ch;
    (void)PADDED;
    if (row == 0) {
        (void)memset(sums, 0, (size_t)p->c * sizeof *sums);
    }
    for (i = 0; i < p->in[2]; ++i, x += p->c) {
        for (ch = 0; ch < p->c; ++ch) {
            sums[ch] += x[ch];
        }
    }
    for (ch = 0; row + 1 == rows && ch < p->c; ++ch) {
        y[ch] = (int8_t)aot_qavgpool_one(sums[ch], positions, positions, mult, shift, p, RQ, VARY);
    }
}

#endif /* AOT_QAVGPOOL_S8_H */
