/* SPDX-License-Identifier: MIT-0 */
/* A convolution of int8 quantised values and an epilogue: what the kernels aot_qconv_epilogue_s8
 * and its variants for other instruction sets share.
 *
 * x, w, bias, mult, shift, scratch and the instance constants behind EPILOGUE are those of the
 * convolution; y and the values r are [n][oh][ow][oc], pixels `step` values apart. `pixels` pixels
 * at a time are made in stage [pixels][oc]. EPILOGUE tells what becomes of them:
 *
 * 0, 1, 2: stage has int8 quantised values with y_zero, lo and hi; those of r are added as
 *    aot_qadd_s8 of aot_qbinary.h does with KIND = EPILOGUE: operand a is the convolution, b is r,
 *    the sum has sum_zero.
 * AOT_EPILOGUE_SUM (RQ 3): stage has int32 sums, which are never quantised values:
 *
 *      y = round((sum * mult[c] >> shift[c]) + (r - b_zero) * b_mult) + sum_zero,
 *
 *    where all has AOT_QCONV_SUM_BITS fraction bits; halves go to even. |b_mult| < 2^31.
 * AOT_EPILOGUE_CURVE (RQ 3): stage has int32 sums; y is a function of them and r a table of int32
 *    pieces of three numbers. A sum becomes a place, (sum * mult[c] >> shift[c]) + offset, limited
 *    to [0, a_mult]: 2^15 of them are a piece. With d / 2^15 the way through the piece
 *
 *      y = (piece[0] + piece[1] * d + piece[2] * d * d) / 2^20 rounded down;
 *
 *    the numbers are below 2^30.
 *
 * Results are limited to [sum_lo, sum_hi]. With RQ 3 0 < mult < 2^31, 0 <= shift < 63 and |sum| <
 * 2^30. y may be r but for AOT_EPILOGUE_CURVE; it must not overlap x.
 */
#ifndef AOT_QCONV_EPILOGUE_H
#define AOT_QCONV_EPILOGUE_H

#include "aot_qbinary.h"
#include "aot_qconv_s8_params.h"

#define AOT_EPILOGUE_SUM 3
#define AOT_EPILOGUE_CURVE 4

#define AOT_QCONV_SUM_BITS 24
#define AOT_QCONV_CURVE_PLACES 15 /* log2 of the places of a piece */
#define AOT_QCONV_CURVE_BITS 20   /* fraction bits of the numbers */

typedef struct aot_qconv_epilogue_params {
    int32_t n, ic, ih, iw, oc, oh, ow, kh, kw, sh, sw, dh, dw, pt, pl, x_zero, y_zero, lo, hi;
    int32_t step, pixels;
    int32_t a_mult, b_mult, y_mult, a_shift, b_shift, y_shift, offset;
    int32_t a_zero, b_zero, sum_zero, sum_lo, sum_hi;
    int32_t y0, y1, y_row0; /* as in aot_qconv_s8_params.h: y and r point at row y_row0 */
} aot_qconv_epilogue_params;

/* The parameters of the addition. */
AOT_INLINE void aot_qconv_epilogue_add(aot_qbinary_params *q, const aot_qconv_epilogue_params *p) {
    (void)memset(q, 0, sizeof *q);
    q->a_mult = p->a_mult;
    q->b_mult = p->b_mult;
    q->y_mult = p->y_mult;
    q->a_shift = p->a_shift;
    q->b_shift = p->b_shift;
    q->y_shift = p->y_shift;
    q->offset = p->offset;
    q->a_zero = p->a_zero;
    q->b_zero = p->b_zero;
    q->y_zero = p->sum_zero;
    q->lo = p->sum_lo;
    q->hi = p->sum_hi;
}

/* The convolution of one image, without columns of the output. */
AOT_INLINE void aot_qconv_epilogue_part(aot_qconv_s8_params *q,
                                        const aot_qconv_epilogue_params *p) {
    (void)memset(q, 0, sizeof *q);
    q->n = 1;
    q->ic = p->ic;
    q->ih = p->ih;
    q->iw = p->iw;
    q->oc = p->oc;
    q->oh = p->oh;
    q->kh = p->kh;
    q->kw = p->kw;
    q->sh = p->sh;
    q->sw = p->sw;
    q->dh = p->dh;
    q->dw = p->dw;
    q->pt = p->pt;
    q->x_zero = p->x_zero;
    q->y_zero = p->y_zero;
    q->lo = p->lo;
    q->hi = p->hi;
    q->step = p->oc;
}

/* The quantised value of a sum in fixed point and of r. */
AOT_INLINE int8_t aot_qconv_epilogue_sum(int64_t scaled, int32_t r,
                                         const aot_qconv_epilogue_params *p) {
    const int64_t half = (int64_t)1 << (AOT_QCONV_SUM_BITS - 1);
    const int64_t v = scaled + (int64_t)(r - p->b_zero) * p->b_mult + half;
    int64_t q = v >> AOT_QCONV_SUM_BITS;
    if ((v & (2 * half - 1)) == 0) {
        q -= q & 1;
    }
    q += p->sum_zero;
    return (int8_t)(q < p->sum_lo ? p->sum_lo : q > p->sum_hi ? p->sum_hi : q);
}

/* The quantised value at a place of the table, which may be beyond its ends. */
AOT_INLINE int8_t aot_qconv_epilogue_curve(int64_t place, const int32_t *pieces,
                                           const aot_qconv_epilogue_params *p) {
    const int32_t at = place < 0 ? 0 : place > p->a_mult ? p->a_mult : (int32_t)place;
    const int32_t *piece = pieces + 3 * (ptrdiff_t)(at >> AOT_QCONV_CURVE_PLACES);
    const int64_t d = at & ((1 << AOT_QCONV_CURVE_PLACES) - 1);
    const int64_t slope = piece[1] + ((piece[2] * d) >> AOT_QCONV_CURVE_PLACES);
    const int64_t v = piece[0] + ((slope * d) >> AOT_QCONV_CURVE_PLACES);
    return (int8_t)aot_q_clamp((int32_t)(v >> AOT_QCONV_CURVE_BITS), p->sum_lo, p->sum_hi);
}

/* What the result `at` values behind the first one reads of r. */
AOT_INLINE const void *aot_qconv_epilogue_at(const void *r, ptrdiff_t at, int EPILOGUE) {
    return EPILOGUE == AOT_EPILOGUE_CURVE ? r : (const void *)((const int8_t *)r + at);
}

/* The quantised values of `channels` channels of a pixel from their int32 sums. */
AOT_INLINE void aot_qconv_epilogue_values(int8_t *y, const int32_t *sum, const void *r,
                                          const int32_t *mult, const int8_t *shift,
                                          int32_t channels, const aot_qconv_epilogue_params *p,
                                          int EPILOGUE) {
    int32_t c;
    for (c = 0; c < channels; ++c) {
        const int64_t scaled = ((int64_t)sum[c] * mult[c]) >> shift[c];
        y[c] = EPILOGUE == AOT_EPILOGUE_SUM
                   ? aot_qconv_epilogue_sum(scaled, ((const int8_t *)r)[c], p)
                   : aot_qconv_epilogue_curve(scaled + p->offset, (const int32_t *)r, p);
    }
}

/* The quantised values of the n pixels in stage. */
AOT_INLINE void aot_qconv_epilogue_pixels(int8_t *y, const void *stage, const void *r,
                                          const int32_t *mult, const int8_t *shift, int32_t n,
                                          const aot_qconv_epilogue_params *p,
                                          const aot_qbinary_params *add, int EPILOGUE) {
    const int32_t channels = p->oc;
    const int32_t *sum = (const int32_t *)stage;
    int32_t i;
    if (EPILOGUE < AOT_EPILOGUE_SUM) {
        const ptrdiff_t run = channels == p->step ? (ptrdiff_t)n * channels : channels;
        const int8_t *a = (const int8_t *)stage, *b = (const int8_t *)r;
        const int8_t *const end = a + (ptrdiff_t)n * channels;
        for (; a < end; a += run, b += p->step, y += p->step) {
            aot_qadd_s8_row(y, a, b, run, add, 1, 1, EPILOGUE);
        }
        return;
    }
    for (i = 0; i < n; ++i, y += p->step, sum += channels) {
        aot_qconv_epilogue_values(y, sum, r, mult, shift, channels, p, EPILOGUE);
        r = aot_qconv_epilogue_at(r, p->step, EPILOGUE);
    }
}

/* The kernel of a variant is a macro, because the constants of its convolution CONV are its own:
 * they follow EPILOGUE. A part is some columns of one row: pl moves with the first of them. */
#define AOT_QCONV_EPILOGUE(CONV, Y, X, W, BIAS, MULT, SHIFT, SCRATCH, R, STAGE, P, EPILOGUE, ...)  \
    do {                                                                                           \
        const aot_qconv_epilogue_params *const all_ = (P);                                         \
        aot_qbinary_params add_;                                                                   \
        aot_qconv_s8_params part_;                                                                 \
        int8_t *const stage_ = (int8_t *)(void *)(STAGE);                                          \
        const int8_t *x_ = (const int8_t *)(X);                                                    \
        int32_t image_, first_;                                                                    \
        aot_qconv_epilogue_add(&add_, all_);                                                       \
        aot_qconv_epilogue_part(&part_, all_);                                                     \
        for (image_ = 0; image_ < all_->n; ++image_) {                                             \
            const ptrdiff_t skipped_ =                                                             \
                ((ptrdiff_t)image_ * all_->oh + all_->y0 - all_->y_row0) * all_->ow * all_->step;  \
            int8_t *y_ = (int8_t *)(Y) + skipped_;                                                 \
            const void *r_ = aot_qconv_epilogue_at(R, skipped_, EPILOGUE);                         \
            for (part_.y0 = all_->y0; part_.y0 < all_->y1; part_.y0 = part_.y1) {                  \
                part_.y_row0 = part_.y0;                                                           \
                part_.y1 = part_.y0 + 1;                                                           \
                for (first_ = 0; first_ < all_->ow; first_ += part_.ow) {                          \
                    const int32_t left_ = all_->ow - first_;                                       \
                    ptrdiff_t values_;                                                             \
                    part_.ow = left_ < all_->pixels ? left_ : all_->pixels;                        \
                    part_.pl = all_->pl - first_ * all_->sw;                                       \
                    CONV(stage_, x_, (const int8_t *)(W), (const int32_t *)(BIAS),                 \
                         (const int32_t *)(MULT), (const int8_t *)(SHIFT), (void *)(SCRATCH),      \
                         &part_, __VA_ARGS__);                                                     \
                    values_ = (ptrdiff_t)part_.ow * all_->step;                                    \
                    aot_qconv_epilogue_pixels(y_, stage_, r_, (const int32_t *)(MULT),             \
                                              (const int8_t *)(SHIFT), part_.ow, all_, &add_,      \
                                              EPILOGUE);                                           \
                    y_ += values_;                                                                 \
                    r_ = aot_qconv_epilogue_at(r_, values_, EPILOGUE);                             \
                }                                                                                  \
            }                                                                                      \
            x_ += (ptrdiff_t)all_->ih * all_->iw * all_->ic;                                       \
        }                                                                                          \
    } while (0)

#endif /* AOT_QCONV_EPILOGUE_H */
