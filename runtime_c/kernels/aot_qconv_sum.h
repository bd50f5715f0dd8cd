/* SPDX-License-Identifier: MIT-0 */
/* A convolution of int8 quantised values whose sums are never quantised values: y = quantised
 * values of (conv + r), what the kernels aot_qconv_sum_s8 and aot_qconv_sum_s8__vec share.
 *
 * x, w, bias, scratch and the instance constants are those of the convolution with RQ 3; r and y
 * are [n][oh][ow][oc]. The sums of `pixels` pixels at a time go to stage int32 [pixels][oc]; then
 *
 *   y = round((sum * mult[c] >> shift[c]) + (r - r_zero) * r_mult) + y_zero, limited to [lo, hi],
 *
 * where all has AOT_QCONV_SUM_BITS fraction bits: 0 < mult < 2^31, 0 <= shift < 63, |r_mult| <
 * 2^31, |sum| < 2^30. Halves go to even. y may be r; it must not overlap x.
 */
#ifndef AOT_QCONV_SUM_H
#define AOT_QCONV_SUM_H

#include "aot_qconv_add.h"

#define AOT_QCONV_SUM_BITS 24

/* Of what is after the convolution's, those used are pixels, b_mult (r_mult), b_zero (r_zero) and
 * sum_zero, sum_lo, sum_hi (y_zero, lo, hi). */
typedef aot_qconv_add_params aot_qconv_sum_params;

/* The quantised values of `channels` channels of a pixel. */
AOT_INLINE void aot_qconv_sum_values(int8_t *y, const int32_t *sum, const int8_t *r,
                                     const int32_t *mult, const int8_t *shift, int32_t channels,
                                     const aot_qconv_sum_params *p) {
    const int64_t half = (int64_t)1 << (AOT_QCONV_SUM_BITS - 1);
    int32_t c;
    for (c = 0; c < channels; ++c) {
        const int64_t scaled = ((int64_t)sum[c] * mult[c]) >> shift[c];
        const int64_t v = scaled + (int64_t)(r[c] - p->b_zero) * p->b_mult + half;
        int64_t q = v >> AOT_QCONV_SUM_BITS;
        if ((v & (2 * half - 1)) == 0) {
            q -= q & 1;
        }
        q += p->sum_zero;
        y[c] = (int8_t)(q < p->sum_lo ? p->sum_lo : q > p->sum_hi ? p->sum_hi : q);
    }
}

/* The quantised values of n pixels. */
AOT_INLINE void aot_qconv_sum_row(int8_t *y, const int32_t *sum, const int8_t *r,
                                  const int32_t *mult, const int8_t *shift, int32_t n,
                                  const aot_qconv_sum_params *p) {
    const int32_t channels = p->oc;
    int32_t i;
    for (i = 0; i < n; ++i, y += channels, r += channels, sum += channels) {
        aot_qconv_sum_values(y, sum, r, mult, shift, channels, p);
    }
}

/* The kernel of a variant is a macro, because the constants of its convolution CONV are its own. A
 * part is some columns of one row: pl moves with the first of them. ROW(y, done, stage, R, MULT,
 * SHIFT, n, p) makes the quantised values of n pixels, the first of them `done` quantised values
 * behind that of Y. */
#define AOT_QCONV_STAGED(ROW, CONV, Y, X, W, BIAS, MULT, SHIFT, SCRATCH, R, STAGE, P, ...)         \
    do {                                                                                           \
        const aot_qconv_sum_params *const all_ = (P);                                              \
        aot_qconv_s8_params part_;                                                                 \
        int8_t *y_ = (int8_t *)(Y);                                                                \
        int32_t *const stage_ = (int32_t *)(STAGE);                                                \
        const int8_t *x_ = (const int8_t *)(X);                                                    \
        ptrdiff_t done_ = 0;                                                                       \
        int32_t image_, first_;                                                                    \
        aot_qconv_add_part(&part_, all_);                                                          \
        for (image_ = 0; image_ < all_->n; ++image_) {                                             \
            for (part_.y0 = 0; part_.y0 < part_.oh; part_.y0 = part_.y1) {                         \
                part_.y_row0 = part_.y0;                                                           \
                part_.y1 = part_.y0 + 1;                                                           \
                for (first_ = 0; first_ < all_->ow; first_ += part_.ow) {                          \
                    const int32_t left_ = all_->ow - first_;                                       \
                    part_.ow = left_ < all_->pixels ? left_ : all_->pixels;                        \
                    part_.pl = all_->pl - first_ * part_.sw;                                       \
                    CONV((int8_t *)(void *)stage_, x_, (const int8_t *)(W),                        \
                         (const int32_t *)(BIAS), (const int32_t *)(MULT),                         \
                         (const int8_t *)(SHIFT), (void *)(SCRATCH), &part_, __VA_ARGS__);         \
                    ROW(y_ + done_, done_, stage_, R, (const int32_t *)(MULT),                     \
                        (const int8_t *)(SHIFT), part_.ow, all_);                                  \
                    done_ += (ptrdiff_t)part_.ow * part_.oc;                                       \
                }                                                                                  \
            }                                                                                      \
            x_ += (ptrdiff_t)part_.ih * part_.iw * part_.ic;                                       \
        }                                                                                          \
    } while (0)

#define AOT_QCONV_SUM_ROW(Y, DONE, STAGE, R, MULT, SHIFT, N, P)                                    \
    aot_qconv_sum_row(Y, STAGE, (const int8_t *)(R) + (DONE), MULT, SHIFT, N, P)
#define AOT_QCONV_SUM(...) AOT_QCONV_STAGED(AOT_QCONV_SUM_ROW, __VA_ARGS__)

#endif /* AOT_QCONV_SUM_H */
