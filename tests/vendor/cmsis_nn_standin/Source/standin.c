/* SPDX-License-Identifier: MIT-0 */
/* See arm_nnfunctions.h. Written for clarity: what a test needs is the bits, not the speed.
 *
 * A buffer that the caller hands in is overwritten to its end, so that one which holds something
 * else, or is too small, shows; one that the library wants and does not get is an error. */
#include "arm_nnfunctions.h"

#include <string.h>

#if defined(__ARM_FEATURE_MVE)
enum { MVE = 1, DSP = 0 };
#elif defined(__ARM_FEATURE_DSP)
enum { MVE = 0, DSP = 1 };
#else
enum { MVE = 0, DSP = 0 };
#endif

static int32_t larger(int32_t a, int32_t b) {
    return a > b ? a : b;
}

static int32_t smaller(int32_t a, int32_t b) {
    return a < b ? a : b;
}

static int32_t up(int32_t value, int32_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

/* -- fixed point ------------------------------------------------------------------------------ */

/* a * b / 2^31 to nearest, halves upwards. */
static int32_t high_product(int32_t a, int32_t b) {
    const int64_t product = (int64_t)a * b;
    const int64_t floor = (product + (INT64_C(1) << 30)) >> 31;
    return (int32_t)(floor > INT32_MAX ? INT32_MAX : floor);
}

/* v / 2^by to nearest, halves away from zero. */
static int32_t shifted(int32_t v, int32_t by) {
    const int64_t half = by > 0 ? INT64_C(1) << (by - 1) : 0;
    return (int32_t)(v >= 0 ? ((int64_t)v + half) >> by : -((-(int64_t)v + half) >> by));
}

static int32_t scaled(int32_t v, int32_t mult, int32_t shift) {
    const int32_t moved = shift > 0 ? (int32_t)((uint32_t)v << shift) : v;
    return shifted(high_product(moved, mult), shift > 0 ? 0 : -shift);
}

static int8_t value(int32_t v, int32_t zero, const cmsis_nn_activation *limits) {
    return (int8_t)smaller(larger(v + zero, limits->min), limits->max);
}

/* -- scratch ---------------------------------------------------------------------------------- */

static int spoiled(const cmsis_nn_context *ctx, int32_t bytes) {
    if (bytes > 0 && (ctx->buf == NULL || ctx->size < bytes))
        return 0;
    if (bytes > 0)
        (void)memset(ctx->buf, 0x5A, (size_t)ctx->size);
    return 1;
}

/* What the kernels of a core want: with Helium, with DSP instructions, with neither. */
static int32_t conv_bytes(int mve, const cmsis_nn_conv_params *p, const cmsis_nn_dims *x,
                          const cmsis_nn_dims *w, const cmsis_nn_dims *y) {
    const int32_t columns = w->w * w->h * x->c, whole = x->c == w->c;
    const int32_t pad = p->padding.w, stride = p->stride.w;
    const int32_t total = (y->w - 1) * stride + w->w - x->w, odd = total % 2;
    if (pad == 0 && p->padding.h == 0 && w->w == 1 && w->h == 1 && p->dilation.w == 1 &&
        p->dilation.h == 1 && whole)
        return 0;
    if (!mve)
        return 4 * up(columns, 4);
    if (whole && x->h == 1 && w->h == 1 && p->dilation.w == 1 && stride * x->c % 4 == 0) {
        const int32_t left = pad != 0 ? larger(1, (pad + stride - 1) / stride) : 0;
        const int32_t right = pad + odd != 0 ? larger(1, (pad + odd + stride - 1) / stride) : 0;
        if (left + right <= y->w)
            return larger(columns + pad * x->c, columns - x->c + (odd ? right * x->c : pad * x->c));
    }
    return 4 * up(columns, 16);
}

static int32_t depthwise_bytes(int mve, int dsp, const cmsis_nn_dw_conv_params *p,
                               const cmsis_nn_dims *x, const cmsis_nn_dims *w,
                               const cmsis_nn_dims *y) {
    if (x->c != y->c || x->n != 1 || p->dilation.w != 1 || p->dilation.h != 1)
        return 0;
    if (mve)
        return 4 * 124 * w->w * w->h;
    if (!dsp || (w->w == 3 && w->h == 3 && p->padding.w <= 1 && p->padding.h <= 1))
        return 0;
    return 2 * x->c * w->w * w->h;
}

#define CONV_BYTES(suffix, mve)                                                                    \
    int32_t arm_convolve_wrapper_s8_get_buffer_size##suffix(                                       \
        const cmsis_nn_conv_params *p, const cmsis_nn_dims *x, const cmsis_nn_dims *w,             \
        const cmsis_nn_dims *y) {                                                                  \
        return conv_bytes(mve, p, x, w, y);                                                        \
    }
CONV_BYTES(, MVE)
CONV_BYTES(_dsp, 0)
CONV_BYTES(_mve, 1)

#define DEPTHWISE_BYTES(suffix, mve, dsp)                                                          \
    int32_t arm_depthwise_conv_wrapper_s8_get_buffer_size##suffix(                                 \
        const cmsis_nn_dw_conv_params *p, const cmsis_nn_dims *x, const cmsis_nn_dims *w,          \
        const cmsis_nn_dims *y) {                                                                  \
        return depthwise_bytes(mve, dsp, p, x, w, y);                                              \
    }
DEPTHWISE_BYTES(, MVE, DSP)
DEPTHWISE_BYTES(_dsp, 0, 1)
DEPTHWISE_BYTES(_mve, 1, 0)

int32_t arm_fully_connected_s8_get_buffer_size(const cmsis_nn_dims *w) {
    return MVE ? w->c * 4 : 0;
}

int32_t arm_avgpool_s8_get_buffer_size(int width, int channels) {
    (void)width;
    return DSP ? channels * 4 : 0;
}

/* -- products --------------------------------------------------------------------------------- */

/* The position of x that element `k` of window `i` covers, or -1. */
static int32_t covered(int32_t i, int32_t k, int32_t stride, int32_t pad, int32_t dilation,
                       int32_t extent) {
    const int32_t at = i * stride - pad + k * dilation;
    return at >= 0 && at < extent ? at : -1;
}

/* A window of x, whose first channel is `from`, times weights that lie `step` apart. */
static int32_t window_sum(const cmsis_nn_dw_conv_params *p, const cmsis_nn_dims *xd,
                          const int8_t *x, const cmsis_nn_dims *wd, const int8_t *w,
                          int32_t channels, int32_t step, int32_t row, int32_t column) {
    int32_t total = 0, i, j, k;
    for (i = 0; i < wd->h; ++i) {
        const int32_t r = covered(row, i, p->stride.h, p->padding.h, p->dilation.h, xd->h);
        for (j = 0; j < wd->w; ++j, w += channels * step) {
            const int32_t c = covered(column, j, p->stride.w, p->padding.w, p->dilation.w, xd->w);
            for (k = 0; r >= 0 && c >= 0 && k < channels; ++k)
                total += (x[(r * xd->w + c) * xd->c + k] + p->input_offset) * w[k * step];
        }
    }
    return total;
}

arm_cmsis_nn_status arm_convolve_wrapper_s8(const cmsis_nn_context *ctx,
                                            const cmsis_nn_conv_params *params,
                                            const cmsis_nn_per_channel_quant_params *quant,
                                            const cmsis_nn_dims *xd, const int8_t *x,
                                            const cmsis_nn_dims *wd, const int8_t *w,
                                            const cmsis_nn_dims *bd, const int32_t *b,
                                            const cmsis_nn_dims *yd, int8_t *y) {
    const cmsis_nn_dw_conv_params p = {
        params->input_offset, params->output_offset, 0, params->stride, params->padding,
        params->dilation,     params->activation};
    const int32_t groups = xd->c / wd->c, filter = wd->h * wd->w * wd->c;
    int32_t n, i, j, o;
    (void)bd;
    if (xd->c % wd->c != 0 || yd->c % groups != 0 ||
        !spoiled(ctx, arm_convolve_wrapper_s8_get_buffer_size(params, xd, wd, yd)))
        return ARM_CMSIS_NN_ARG_ERROR;
    for (n = 0; n < xd->n; ++n, x += xd->h * xd->w * xd->c)
        for (i = 0; i < yd->h; ++i)
            for (j = 0; j < yd->w; ++j)
                for (o = 0; o < yd->c; ++o) {
                    const int8_t *part = x + o / (yd->c / groups) * wd->c;
                    const int32_t sum =
                        b[o] + window_sum(&p, xd, part, wd, w + o * filter, wd->c, 1, i, j);
                    *y++ = value(scaled(sum, quant->multiplier[o], quant->shift[o]), p.output_offset,
                                &p.activation);
                }
    return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_depthwise_conv_wrapper_s8(const cmsis_nn_context *ctx,
                                                  const cmsis_nn_dw_conv_params *p,
                                                  const cmsis_nn_per_channel_quant_params *quant,
                                                  const cmsis_nn_dims *xd, const int8_t *x,
                                                  const cmsis_nn_dims *wd, const int8_t *w,
                                                  const cmsis_nn_dims *bd, const int32_t *b,
                                                  const cmsis_nn_dims *yd, int8_t *y) {
    int32_t n, i, j, o;
    (void)bd;
    if (wd->n != 1 || wd->c != yd->c || p->ch_mult * xd->c != yd->c ||
        !spoiled(ctx, arm_depthwise_conv_wrapper_s8_get_buffer_size(p, xd, wd, yd)))
        return ARM_CMSIS_NN_ARG_ERROR;
    for (n = 0; n < xd->n; ++n, x += xd->h * xd->w * xd->c)
        for (i = 0; i < yd->h; ++i)
            for (j = 0; j < yd->w; ++j)
                for (o = 0; o < yd->c; ++o) {
                    const int32_t sum =
                        b[o] + window_sum(p, xd, x + o / p->ch_mult, wd, w + o, 1, yd->c, i, j);
                    *y++ = value(scaled(sum, quant->multiplier[o], quant->shift[o]),
                                p->output_offset, &p->activation);
                }
    return ARM_CMSIS_NN_SUCCESS;
}

/* `step` is 1 where every channel has a multiplier of its own, else 0. */
static arm_cmsis_nn_status fully_connected(const cmsis_nn_context *ctx, const cmsis_nn_fc_params *p,
                                           const int32_t *mult, const int32_t *shift, int32_t step,
                                           const cmsis_nn_dims *xd, const int8_t *x,
                                           const cmsis_nn_dims *wd, const int8_t *w,
                                           const int32_t *b, const cmsis_nn_dims *yd, int8_t *y) {
    const int32_t *sums = (const int32_t *)ctx->buf;
    int32_t n, o, k;
    if (MVE && (sums == NULL || ctx->size < wd->c * 4))
        return ARM_CMSIS_NN_ARG_ERROR;
    for (n = 0; n < xd->n; ++n, x += wd->n)
        for (o = 0; o < yd->c; ++o) {
            int32_t total = MVE ? sums[o] : b[o];
            for (k = 0; k < wd->n; ++k)
                total += (x[k] + (MVE ? 0 : p->input_offset)) * w[o * wd->n + k];
            *y++ = value(scaled(total, mult[o * step], shift[o * step]), p->output_offset,
                        &p->activation);
        }
    return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_fully_connected_s8(const cmsis_nn_context *ctx, const cmsis_nn_fc_params *p,
                                           const cmsis_nn_per_tensor_quant_params *quant,
                                           const cmsis_nn_dims *xd, const int8_t *x,
                                           const cmsis_nn_dims *wd, const int8_t *w,
                                           const cmsis_nn_dims *bd, const int32_t *b,
                                           const cmsis_nn_dims *yd, int8_t *y) {
    (void)bd;
    return fully_connected(ctx, p, &quant->multiplier, &quant->shift, 0, xd, x, wd, w, b, yd, y);
}

arm_cmsis_nn_status arm_fully_connected_per_channel_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_fc_params *p,
    const cmsis_nn_per_channel_quant_params *quant, const cmsis_nn_dims *xd, const int8_t *x,
    const cmsis_nn_dims *wd, const int8_t *w, const cmsis_nn_dims *bd, const int32_t *b,
    const cmsis_nn_dims *yd, int8_t *y) {
    (void)bd;
    return fully_connected(ctx, p, quant->multiplier, quant->shift, 1, xd, x, wd, w, b, yd, y);
}

/* -- pooling ---------------------------------------------------------------------------------- */

/* The average or maximum of one channel in window (row, column); -1 if it covers nothing. */
static int pooled(const cmsis_nn_pool_params *p, const cmsis_nn_dims *xd, const int8_t *x,
                  const cmsis_nn_dims *wd, int32_t row, int32_t column, int maximum, int8_t *y) {
    int32_t total = 0, count = 0, top = INT8_MIN, i, j;
    for (i = 0; i < wd->h; ++i)
        for (j = 0; j < wd->w; ++j) {
            const int32_t r = covered(row, i, p->stride.h, p->padding.h, 1, xd->h);
            const int32_t c = covered(column, j, p->stride.w, p->padding.w, 1, xd->w);
            if (r >= 0 && c >= 0) {
                const int32_t v = x[(r * xd->w + c) * xd->c];
                total += v;
                top = larger(top, v);
                ++count;
            }
        }
    if (count == 0)
        return -1;
    total += total > 0 ? count / 2 : -(count / 2);
    *y = value(maximum ? top : total / count, 0, &p->activation);
    return 0;
}

static arm_cmsis_nn_status pool(const cmsis_nn_pool_params *p, const cmsis_nn_dims *xd,
                                const int8_t *x, const cmsis_nn_dims *wd, const cmsis_nn_dims *yd,
                                int maximum, int8_t *y) {
    int32_t n, i, j, c;
    for (n = 0; n < xd->n; ++n, x += xd->h * xd->w * xd->c)
        for (i = 0; i < yd->h; ++i)
            for (j = 0; j < yd->w; ++j)
                for (c = 0; c < xd->c; ++c)
                    if (pooled(p, xd, x + c, wd, i, j, maximum, y++) != 0)
                        return ARM_CMSIS_NN_ARG_ERROR;
    return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_avgpool_s8(const cmsis_nn_context *ctx, const cmsis_nn_pool_params *p,
                                   const cmsis_nn_dims *xd, const int8_t *x,
                                   const cmsis_nn_dims *wd, const cmsis_nn_dims *yd, int8_t *y) {
    if (!spoiled(ctx, arm_avgpool_s8_get_buffer_size(yd->w, xd->c)))
        return ARM_CMSIS_NN_ARG_ERROR;
    return pool(p, xd, x, wd, yd, 0, y);
}

arm_cmsis_nn_status arm_max_pool_s8(const cmsis_nn_context *ctx, const cmsis_nn_pool_params *p,
                                    const cmsis_nn_dims *xd, const int8_t *x,
                                    const cmsis_nn_dims *wd, const cmsis_nn_dims *yd, int8_t *y) {
    (void)ctx;
    return pool(p, xd, x, wd, yd, 1, y);
}

/* -- elementwise ------------------------------------------------------------------------------ */

arm_cmsis_nn_status arm_elementwise_add_s8(const int8_t *a, const int8_t *b, int32_t a_offset,
                                           int32_t a_mult, int32_t a_shift, int32_t b_offset,
                                           int32_t b_mult, int32_t b_shift, int32_t left, int8_t *y,
                                           int32_t y_offset, int32_t y_mult, int32_t y_shift,
                                           int32_t low, int32_t high, int32_t n) {
    const cmsis_nn_activation limits = {low, high};
    int32_t i;
    for (i = 0; i < n; ++i) {
        const int32_t unit = INT32_C(1) << left;
        const int32_t sum = scaled((a[i] + a_offset) * unit, a_mult, a_shift) +
                            scaled((b[i] + b_offset) * unit, b_mult, b_shift);
        y[i] = value(scaled(sum, y_mult, y_shift), y_offset, &limits);
    }
    return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_elementwise_mul_s8(const int8_t *a, const int8_t *b, int32_t a_offset,
                                           int32_t b_offset, int8_t *y, int32_t y_offset,
                                           int32_t mult, int32_t shift, int32_t low, int32_t high,
                                           int32_t n) {
    const cmsis_nn_activation limits = {low, high};
    int32_t i;
    for (i = 0; i < n; ++i)
        y[i] = value(scaled((a[i] + a_offset) * (b[i] + b_offset), mult, shift), y_offset, &limits);
    return ARM_CMSIS_NN_SUCCESS;
}

/* -- Softmax ---------------------------------------------------------------------------------- */

/* e to a number v <= 0 of 5 integer bits, as Q0.31: the fraction below a quarter by a polynomial,
 * whole powers of two by constants. */
static int32_t power(int32_t v) {
    static const int32_t factors[] = {1672461947, 1302514674, 790015084, 290630308,
                                      39332535,   720401,     242};
    const int32_t quarter = INT32_C(1) << 24, rest = (v & (quarter - 1)) - quarter;
    const int32_t x = rest * 32 + (INT32_C(1) << 28), x2 = high_product(x, x);
    const int32_t x3 = high_product(x2, x), x4 = high_product(x2, x2);
    const int32_t tail = shifted(high_product(shifted(x4, 2) + x3, 715827883) + x2, 1);
    int32_t result = 1895147668 + high_product(1895147668, x + tail);
    int i;
    for (i = 0; i < 7; ++i)
        if (((rest - v) & (quarter << i)) != 0)
            result = high_product(result, factors[i]);
    return v == 0 ? INT32_MAX : result;
}

/* 1 / (1 + a) for a of [0, 1), both Q0.31: three Newton steps. */
static int32_t reciprocal(int32_t a) {
    const int32_t half = (int32_t)(((int64_t)a + INT32_MAX + 1) / 2);
    int32_t x = 1515870810 + high_product(half, -1010580540), i;
    for (i = 0; i < 3; ++i) {
        const int32_t step = high_product(x, (INT32_C(1) << 29) - high_product(half, x));
        x += (int32_t)larger(smaller(step, INT32_MAX / 4), INT32_MIN / 4) * 4;
    }
    return x > INT32_MAX / 2 ? INT32_MAX : x * 2;
}

void arm_softmax_s8(const int8_t *x, int32_t rows, int32_t size, int32_t mult, int32_t shift,
                    int32_t least, int8_t *y) {
    const cmsis_nn_activation all = {INT8_MIN, INT8_MAX};
    for (; rows > 0; --rows, x += size, y += size) {
        int32_t top = INT8_MIN, lead = 0, factor, i;
        uint32_t sum = 0;
        for (i = 0; i < size; ++i)
            top = larger(top, x[i]);
        for (i = 0; i < size; ++i)
            if (x[i] - top >= least)
                sum += (uint32_t)shifted(
                    power(high_product((x[i] - top) * (INT32_C(1) << shift), mult)), 12);
        while (((sum << lead) & UINT32_C(0x80000000)) == 0)
            ++lead;
        factor = reciprocal((int32_t)((sum << lead) - UINT32_C(0x80000000)));
        for (i = 0; i < size; ++i) {
            int32_t v = 0;
            if (x[i] - top >= least)
                v = shifted(high_product(factor, power(high_product(
                                                     (x[i] - top) * (INT32_C(1) << shift), mult))),
                            35 - lead);
            y[i] = value(v, -128, &all);
        }
    }
}
