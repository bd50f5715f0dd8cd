/* SPDX-License-Identifier: MIT-0 */
/* A convolution of int8 quantised values and the sum of its quantised values with r, what the
 * kernels aot_qconv_add_s8 and its variants for other instruction sets share.
 *
 * x, w, bias, mult, shift, scratch and the instance constants are those of the convolution, whose
 * quantised values have y_zero, lo and hi; r and y are [n][oh][ow][oc]. `pixels` pixels at a time
 * are made in stage [pixels][oc] and added as aot_qadd_s8 of aot_qbinary.h does with KIND = ADD:
 * operand a are the quantised values of the convolution, b those of r; the sum has sum_zero and is
 * limited to [sum_lo, sum_hi]. y may be r; it must not overlap x.
 */
#ifndef AOT_QCONV_ADD_H
#define AOT_QCONV_ADD_H

#include "aot_qbinary.h"
#include "aot_qconv_s8_params.h"

typedef struct aot_qconv_add_params {
    int32_t n, ic, ih, iw, oc, oh, ow, kh, kw, sh, sw, dh, dw, pt, pl, x_zero, y_zero, lo, hi;
    int32_t pixels;
    int32_t a_mult, b_mult, y_mult, a_shift, b_shift, y_shift, offset;
    int32_t a_zero, b_zero, sum_zero, sum_lo, sum_hi;
} aot_qconv_add_params;

AOT_INLINE void aot_qconv_add_sum(aot_qbinary_params *q, const aot_qconv_add_params *p) {
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

/* The convolution of one image, without place. */
AOT_INLINE void aot_qconv_add_part(aot_qconv_s8_params *q, const aot_qconv_add_params *p) {
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
}

/* The convolution of all images. */
AOT_INLINE void aot_qconv_add_whole(aot_qconv_s8_params *q, const aot_qconv_add_params *p) {
    aot_qconv_add_part(q, p);
    q->n = p->n;
    q->ow = p->ow;
    q->pl = p->pl;
    q->y1 = p->oh;
}

/* The kernel of a variant is a macro, because the constants of its convolution CONV are its own:
 * they follow ADD. A part is some columns of one row: pl moves with the first of them. */
#define AOT_QCONV_ADD(CONV, Y, X, W, BIAS, MULT, SHIFT, SCRATCH, R, STAGE, P, ADD, ...)            \
    do {                                                                                           \
        const aot_qconv_add_params *const all_ = (P);                                              \
        aot_qbinary_params sum_;                                                                   \
        aot_qconv_s8_params part_;                                                                 \
        int8_t *y_ = (int8_t *)(Y), *const stage_ = (int8_t *)(STAGE);                             \
        const int8_t *x_ = (const int8_t *)(X), *r_ = (const int8_t *)(R);                         \
        int32_t image_, first_;                                                                    \
        aot_qconv_add_sum(&sum_, all_);                                                            \
        aot_qconv_add_part(&part_, all_);                                                          \
        for (image_ = 0; image_ < all_->n; ++image_) {                                             \
            for (part_.y0 = 0; part_.y0 < all_->oh; part_.y0 = part_.y1) {                         \
                part_.y_row0 = part_.y0;                                                           \
                part_.y1 = part_.y0 + 1;                                                           \
                for (first_ = 0; first_ < all_->ow; first_ += part_.ow) {                          \
                    const int32_t left_ = all_->ow - first_;                                       \
                    ptrdiff_t codes_;                                                              \
                    part_.ow = left_ < all_->pixels ? left_ : all_->pixels;                        \
                    part_.pl = all_->pl - first_ * all_->sw;                                       \
                    CONV(stage_, x_, (const int8_t *)(W), (const int32_t *)(BIAS),                 \
                         (const int32_t *)(MULT), (const int8_t *)(SHIFT), (void *)(SCRATCH),      \
                         &part_, __VA_ARGS__);                                                     \
                    codes_ = (ptrdiff_t)part_.ow * all_->oc;                                       \
                    aot_qadd_s8_row(y_, stage_, r_, codes_, &sum_, 1, 1, ADD);                     \
                    y_ += codes_;                                                                  \
                    r_ += codes_;                                                                  \
                }                                                                                  \
            }                                                                                      \
            x_ += (ptrdiff_t)all_->ih * all_->iw * all_->ic;                                       \
        }                                                                                          \
    } while (0)

#endif /* AOT_QCONV_ADD_H */
