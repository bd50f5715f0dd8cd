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

/* With a multiplier of 16 bits, rounded once, halves upwards: for sums of 64 bits. */
static int32_t scaled_once(int64_t v, int32_t mult, int32_t shift) {
    const int32_t reduced = mult < 0x7FFF0000 ? (mult + 0x8000) >> 16 : 0x7FFF;
    return (int32_t)((v * reduced + (INT64_C(1) << (14 - shift))) >> (15 - shift));
}

static int32_t limited(int32_t v, int32_t zero, const cmsis_nn_activation *limits) {
    return smaller(larger(v + zero, limits->min), limits->max);
}

static int8_t value(int32_t v, int32_t zero, const cmsis_nn_activation *limits) {
    return (int8_t)limited(v, zero, limits);
}

/* What functions end with: values of 8 bits, weights of 4 bits too, values of 16 bits. */
typedef enum { S8, S4, S16 } kind;

static int32_t get(kind k, const void *x, int32_t i) {
    return k == S16 ? ((const int16_t *)x)[i] : ((const int8_t *)x)[i];
}

static void put(kind k, void *y, int32_t i, int32_t v) {
    if (k == S16)
        ((int16_t *)y)[i] = (int16_t)v;
    else
        ((int8_t *)y)[i] = (int8_t)v;
}

/* Weight i; those of 4 bits lie two to a byte, the first one low. */
static int32_t weight(kind k, const int8_t *w, int32_t i) {
    if (k != S4)
        return w[i];
    return i % 2 != 0 ? w[i / 2] >> 4 : (int8_t)((uint8_t)w[i / 2] << 4) >> 4;
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
static int32_t conv_bytes(kind k, int mve, const cmsis_nn_conv_params *p, const cmsis_nn_dims *x,
                          const cmsis_nn_dims *w, const cmsis_nn_dims *y) {
    const int32_t columns = w->w * w->h * x->c, whole = x->c == w->c;
    const int32_t pad = p->padding.w, stride = p->stride.w;
    const int32_t total = (y->w - 1) * stride + w->w - x->w, odd = total % 2;
    if (k == S16)
        return mve ? 8 * up(columns, 8) : 4 * columns;
    if (pad == 0 && p->padding.h == 0 && w->w == 1 && w->h == 1 && p->dilation.w == 1 &&
        p->dilation.h == 1 && whole)
        return 0;
    if (!mve)
        return 4 * (k == S4 ? columns : up(columns, 4));
    if (whole && x->h == 1 && w->h == 1 && p->dilation.w == 1 && stride * x->c % 4 == 0) {
        const int32_t left = pad != 0 ? larger(1, (pad + stride - 1) / stride) : 0;
        const int32_t right = pad + odd != 0 ? larger(1, (pad + odd + stride - 1) / stride) : 0;
        if (left + right <= y->w)
            return k == S4 ? 0
                           : larger(columns + pad * x->c,
                                    columns - x->c + (odd ? right * x->c : pad * x->c));
    }
    return 4 * up(columns, 16);
}

static int32_t depthwise_bytes(kind k, int mve, int dsp, const cmsis_nn_dw_conv_params *p,
                               const cmsis_nn_dims *x, const cmsis_nn_dims *w,
                               const cmsis_nn_dims *y) {
    const int32_t window = w->w * w->h, each = mve ? 8 : dsp ? 2 : 0;
    if (x->c != y->c || (k != S16 && x->n != 1) || p->dilation.w != 1 || p->dilation.h != 1)
        return 0;
    if (k == S16)
        return window < 512 ? each * x->c * window + (mve ? 8 : 0) : 0;
    if (mve)
        return 4 * 124 * window;
    if (k == S8 && !dsp)
        return 0;
    if (k == S8 && (w->w == 3 && w->h == 3 && p->padding.w <= 1 && p->padding.h <= 1))
        return 0;
    return 2 * x->c * window;
}

#define CONV_BYTES(s, k, suffix, mve)                                                              \
    int32_t arm_convolve_wrapper_##s##_get_buffer_size##suffix(                                    \
        const cmsis_nn_conv_params *p, const cmsis_nn_dims *x, const cmsis_nn_dims *w,             \
        const cmsis_nn_dims *y) {                                                                  \
        return conv_bytes(k, mve, p, x, w, y);                                                     \
    }
#define ALL_CONV_BYTES(s, k)                                                                       \
    CONV_BYTES(s, k, , MVE)                                                                        \
    CONV_BYTES(s, k, _dsp, 0)                                                                      \
    CONV_BYTES(s, k, _mve, 1)
ALL_CONV_BYTES(s8, S8)
ALL_CONV_BYTES(s4, S4)
ALL_CONV_BYTES(s16, S16)

#define DEPTHWISE_BYTES(s, k, suffix, mve, dsp)                                                    \
    int32_t arm_depthwise_conv_wrapper_##s##_get_buffer_size##suffix(                              \
        const cmsis_nn_dw_conv_params *p, const cmsis_nn_dims *x, const cmsis_nn_dims *w,          \
        const cmsis_nn_dims *y) {                                                                  \
        return depthwise_bytes(k, mve, dsp, p, x, w, y);                                           \
    }
#define ALL_DEPTHWISE_BYTES(s, k)                                                                  \
    DEPTHWISE_BYTES(s, k, , MVE, DSP)                                                              \
    DEPTHWISE_BYTES(s, k, _dsp, 0, 1)                                                              \
    DEPTHWISE_BYTES(s, k, _mve, 1, 0)
ALL_DEPTHWISE_BYTES(s8, S8)
ALL_DEPTHWISE_BYTES(s4, S4)
ALL_DEPTHWISE_BYTES(s16, S16)

/* Whether a transposed convolution is computed as one with turned weights. */
static int turns(const cmsis_nn_transpose_conv_params *p, const cmsis_nn_dims *x) {
    return p->stride.w <= 2 && p->stride.h <= 2 && x->c > 16;
}

static int32_t transposed_bytes(int mve, const cmsis_nn_transpose_conv_params *p,
                                const cmsis_nn_dims *x, const cmsis_nn_dims *w,
                                const cmsis_nn_dims *y) {
    const int32_t rows = larger(w->h, p->stride.h);
    if (turns(p, x))
        return 4 * up(w->w * w->h * x->c, mve ? 16 : 4);
    return 4 * rows * y->c * ((x->w - 1) * p->stride.w + larger(w->w, p->stride.h));
}

int32_t arm_transpose_conv_s8_get_buffer_size(const cmsis_nn_transpose_conv_params *p,
                                              const cmsis_nn_dims *x, const cmsis_nn_dims *w,
                                              const cmsis_nn_dims *y) {
    return transposed_bytes(MVE, p, x, w, y);
}

int32_t arm_transpose_conv_s8_get_buffer_size_mve(const cmsis_nn_transpose_conv_params *p,
                                                  const cmsis_nn_dims *x, const cmsis_nn_dims *w,
                                                  const cmsis_nn_dims *y) {
    return transposed_bytes(1, p, x, w, y);
}

int32_t arm_transpose_conv_s8_get_reverse_conv_buffer_size(const cmsis_nn_transpose_conv_params *p,
                                                           const cmsis_nn_dims *x,
                                                           const cmsis_nn_dims *w) {
    return turns(p, x) ? x->c * w->w * w->h * w->n : 0;
}

int32_t arm_fully_connected_s8_get_buffer_size(const cmsis_nn_dims *w) {
    return MVE ? w->c * 4 : 0;
}

int32_t arm_avgpool_s8_get_buffer_size(int width, int channels) {
    (void)width;
    return DSP ? channels * 4 : 0;
}

int32_t arm_avgpool_s16_get_buffer_size(int width, int channels) {
    return arm_avgpool_s8_get_buffer_size(width, channels);
}

/* -- products --------------------------------------------------------------------------------- */

/* The position of x that element `k` of window `i` covers, or -1. */
static int32_t covered(int32_t i, int32_t k, int32_t stride, int32_t pad, int32_t dilation,
                       int32_t extent) {
    const int32_t at = i * stride - pad + k * dilation;
    return at >= 0 && at < extent ? at : -1;
}

/* A window of x, whose first channel is `from`, times weights that lie `step` apart from `at` on.
 */
static int64_t window_sum(kind q, const cmsis_nn_dw_conv_params *p, const cmsis_nn_dims *xd,
                          const void *x, int32_t from, const cmsis_nn_dims *wd, const int8_t *w,
                          int32_t at, int32_t channels, int32_t step, int32_t row, int32_t column) {
    int64_t total = 0;
    int32_t i, j, k;
    for (i = 0; i < wd->h; ++i) {
        const int32_t r = covered(row, i, p->stride.h, p->padding.h, p->dilation.h, xd->h);
        for (j = 0; j < wd->w; ++j, at += channels * step) {
            const int32_t c = covered(column, j, p->stride.w, p->padding.w, p->dilation.w, xd->w);
            for (k = 0; r >= 0 && c >= 0 && k < channels; ++k)
                total += (get(q, x, from + (r * xd->w + c) * xd->c + k) + p->input_offset) *
                         weight(q, w, at + k * step);
        }
    }
    return total;
}

/* A convolution; in a depthwise one, whose `ch_mult` is not 0, weights are [1, h, w, channels]. */
static arm_cmsis_nn_status convolution(kind q, const cmsis_nn_dw_conv_params *p,
                                       const cmsis_nn_per_channel_quant_params *quant,
                                       const cmsis_nn_dims *xd, const void *x,
                                       const cmsis_nn_dims *wd, const int8_t *w, const void *b,
                                       const cmsis_nn_dims *yd, void *y) {
    const int deep = p->ch_mult != 0, wide = deep && q == S16;
    const int32_t channels = deep ? 1 : wd->c, groups = xd->c / channels;
    const int32_t each = yd->c / groups, filter = deep ? 1 : wd->h * wd->w * wd->c;
    int32_t n, i, j, o, at = 0;
    if (xd->c % channels != 0 || yd->c % groups != 0 || (q != S8 && !deep && groups != 1))
        return ARM_CMSIS_NN_ARG_ERROR;
    if (q == S16 && (p->input_offset != 0 || p->output_offset != 0))
        return ARM_CMSIS_NN_ARG_ERROR;
    for (n = 0; n < xd->n; ++n)
        for (i = 0; i < yd->h; ++i)
            for (j = 0; j < yd->w; ++j)
                for (o = 0; o < yd->c; ++o) {
                    const int32_t from = n * xd->h * xd->w * xd->c + o / each * channels;
                    const int64_t own = window_sum(q, p, xd, x, from, wd, w, o * filter, channels,
                                                   deep ? yd->c : 1, i, j);
                    const int64_t sum =
                        own + (wide ? ((const int64_t *)b)[o] : ((const int32_t *)b)[o]);
                    const int32_t m = quant->multiplier[o], s = quant->shift[o];
                    const int32_t v = wide ? scaled_once(sum, m, s) : scaled((int32_t)sum, m, s);
                    put(q, y, at++, limited(v, p->output_offset, &p->activation));
                }
    return ARM_CMSIS_NN_SUCCESS;
}

#define CONVOLVE(s, k, T, B, bias)                                                                 \
    arm_cmsis_nn_status arm_convolve_wrapper_##s(                                                  \
        const cmsis_nn_context *ctx, const cmsis_nn_conv_params *params,                           \
        const cmsis_nn_per_channel_quant_params *quant, const cmsis_nn_dims *xd, const T *x,       \
        const cmsis_nn_dims *wd, const int8_t *w, const cmsis_nn_dims *bd, const B *b,             \
        const cmsis_nn_dims *yd, T *y) {                                                           \
        const cmsis_nn_dw_conv_params p = {                                                        \
            params->input_offset, params->output_offset, 0, params->stride, params->padding,       \
            params->dilation,     params->activation};                                             \
        (void)bd;                                                                                  \
        if (!spoiled(ctx, arm_convolve_wrapper_##s##_get_buffer_size(params, xd, wd, yd)))         \
            return ARM_CMSIS_NN_ARG_ERROR;                                                         \
        return convolution(k, &p, quant, xd, x, wd, w, bias, yd, y);                               \
    }
CONVOLVE(s8, S8, int8_t, int32_t, b)
CONVOLVE(s4, S4, int8_t, int32_t, b)
CONVOLVE(s16, S16, int16_t, cmsis_nn_bias_data, b->is_int32_bias ? b->data : NULL)

#define DEPTHWISE(s, k, T, B)                                                                      \
    arm_cmsis_nn_status arm_depthwise_conv_wrapper_##s(                                            \
        const cmsis_nn_context *ctx, const cmsis_nn_dw_conv_params *p,                             \
        const cmsis_nn_per_channel_quant_params *quant, const cmsis_nn_dims *xd, const T *x,       \
        const cmsis_nn_dims *wd, const int8_t *w, const cmsis_nn_dims *bd, const B *b,             \
        const cmsis_nn_dims *yd, T *y) {                                                           \
        (void)bd;                                                                                  \
        if (wd->n != 1 || wd->c != yd->c || p->ch_mult * xd->c != yd->c ||                         \
            !spoiled(ctx, arm_depthwise_conv_wrapper_##s##_get_buffer_size(p, xd, wd, yd)))        \
            return ARM_CMSIS_NN_ARG_ERROR;                                                         \
        return convolution(k, p, quant, xd, x, wd, w, b, yd, y);                                   \
    }
DEPTHWISE(s8, S8, int8_t, int32_t)
DEPTHWISE(s4, S4, int8_t, int32_t)
DEPTHWISE(s16, S16, int16_t, int64_t)

/* The sum of output position (row, column) and channel o of a transposed convolution. */
static int32_t transposed_sum(const cmsis_nn_transpose_conv_params *p, const cmsis_nn_dims *xd,
                              const int8_t *x, const cmsis_nn_dims *wd, const int8_t *w,
                              int32_t row, int32_t column) {
    int32_t total = 0, i, j, k;
    for (i = 0; i < wd->h; ++i)
        for (j = 0; j < wd->w; ++j, w += wd->c) {
            const int32_t r = row + p->padding.h - i, c = column + p->padding.w - j;
            if (r < 0 || c < 0 || r % p->stride.h != 0 || c % p->stride.w != 0 ||
                r / p->stride.h >= xd->h || c / p->stride.w >= xd->w)
                continue;
            for (k = 0; k < xd->c; ++k)
                total +=
                    (x[(r / p->stride.h * xd->w + c / p->stride.w) * xd->c + k] + p->input_offset) *
                    w[k];
        }
    return total;
}

arm_cmsis_nn_status arm_transpose_conv_wrapper_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_context *turned,
    const cmsis_nn_transpose_conv_params *p, const cmsis_nn_per_channel_quant_params *quant,
    const cmsis_nn_dims *xd, const int8_t *x, const cmsis_nn_dims *wd, const int8_t *w,
    const cmsis_nn_dims *bd, const int32_t *b, const cmsis_nn_dims *yd, int8_t *y) {
    const int32_t filter = wd->h * wd->w * wd->c;
    int32_t n, i, j, o;
    (void)bd;
    if (!spoiled(ctx, arm_transpose_conv_s8_get_buffer_size(p, xd, wd, yd)) ||
        !spoiled(turned, arm_transpose_conv_s8_get_reverse_conv_buffer_size(p, xd, wd)))
        return ARM_CMSIS_NN_ARG_ERROR;
    for (n = 0; n < xd->n; ++n, x += xd->h * xd->w * xd->c)
        for (i = 0; i < yd->h; ++i)
            for (j = 0; j < yd->w; ++j)
                for (o = 0; o < yd->c; ++o) {
                    const int32_t sum = b[o] + transposed_sum(p, xd, x, wd, w + o * filter, i, j);
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

arm_cmsis_nn_status arm_fully_connected_s4(const cmsis_nn_context *ctx, const cmsis_nn_fc_params *p,
                                           const cmsis_nn_per_tensor_quant_params *quant,
                                           const cmsis_nn_dims *xd, const int8_t *x,
                                           const cmsis_nn_dims *wd, const int8_t *w,
                                           const cmsis_nn_dims *bd, const int32_t *b,
                                           const cmsis_nn_dims *yd, int8_t *y) {
    int32_t n, o, k;
    (void)ctx;
    (void)bd;
    for (n = 0; n < xd->n; ++n, x += wd->n)
        for (o = 0; o < yd->c; ++o) {
            int32_t total = b[o];
            for (k = 0; k < wd->n; ++k)
                total += (x[k] + p->input_offset) * weight(S4, w, o * wd->n + k);
            *y++ = value(scaled(total, quant->multiplier, quant->shift), p->output_offset,
                         &p->activation);
        }
    return ARM_CMSIS_NN_SUCCESS;
}

/* One matrix per pair: b is [columns, depth]. */
static arm_cmsis_nn_status matrices(kind q, const cmsis_nn_context *ctx,
                                    const cmsis_nn_bmm_params *p,
                                    const cmsis_nn_per_tensor_quant_params *quant,
                                    const cmsis_nn_dims *ad, const void *a, const cmsis_nn_dims *bd,
                                    const void *b, void *y) {
    const cmsis_nn_fc_params *fc = &p->fc_params;
    const int zeros = fc->input_offset == 0 && fc->filter_offset == 0 && fc->output_offset == 0;
    int32_t n, i, j, k, at = 0;
    if (ad->n * ad->h != bd->n * bd->h || (q == S16 && !zeros) ||
        (q == S8 && MVE && !spoiled(ctx, 4 * bd->w)))
        return ARM_CMSIS_NN_ARG_ERROR;
    for (n = 0; n < ad->n * ad->h; ++n)
        for (i = 0; i < ad->w; ++i)
            for (j = 0; j < bd->w; ++j) {
                int64_t total = 0;
                for (k = 0; k < ad->c; ++k)
                    total += (int64_t)(get(q, a, (n * ad->w + i) * ad->c + k) + fc->input_offset) *
                             (get(q, b, (n * bd->w + j) * ad->c + k) + fc->filter_offset);
                put(q, y, at++,
                    limited(q == S16 ? scaled_once(total, quant->multiplier, quant->shift)
                                     : scaled((int32_t)total, quant->multiplier, quant->shift),
                            fc->output_offset, &fc->activation));
            }
    return ARM_CMSIS_NN_SUCCESS;
}

#define MATRICES(s, k, T)                                                                          \
    arm_cmsis_nn_status arm_batch_matmul_##s(                                                      \
        const cmsis_nn_context *ctx, const cmsis_nn_bmm_params *p,                                 \
        const cmsis_nn_per_tensor_quant_params *quant, const cmsis_nn_dims *ad, const T *a,        \
        const cmsis_nn_dims *bd, const T *b, const cmsis_nn_dims *yd, T *y) {                      \
        (void)yd;                                                                                  \
        return matrices(k, ctx, p, quant, ad, a, bd, b, y);                                        \
    }
MATRICES(s8, S8, int8_t)
MATRICES(s16, S16, int16_t)

/* -- pooling ---------------------------------------------------------------------------------- */

/* The average or maximum of one channel in window (row, column); -1 if it covers nothing. */
static int pooled(kind q, const cmsis_nn_pool_params *p, const cmsis_nn_dims *xd, const void *x,
                  int32_t from, const cmsis_nn_dims *wd, int32_t row, int32_t column, int maximum,
                  void *y, int32_t at) {
    int32_t total = 0, count = 0, top = INT16_MIN, i, j;
    for (i = 0; i < wd->h; ++i)
        for (j = 0; j < wd->w; ++j) {
            const int32_t r = covered(row, i, p->stride.h, p->padding.h, 1, xd->h);
            const int32_t c = covered(column, j, p->stride.w, p->padding.w, 1, xd->w);
            if (r >= 0 && c >= 0) {
                const int32_t v = get(q, x, from + (r * xd->w + c) * xd->c);
                total += v;
                top = larger(top, v);
                ++count;
            }
        }
    if (count == 0)
        return -1;
    total += total > 0 ? count / 2 : -(count / 2);
    put(q, y, at, limited(maximum ? top : total / count, 0, &p->activation));
    return 0;
}

static arm_cmsis_nn_status pool(kind q, const cmsis_nn_pool_params *p, const cmsis_nn_dims *xd,
                                const void *x, const cmsis_nn_dims *wd, const cmsis_nn_dims *yd,
                                int maximum, void *y) {
    int32_t n, i, j, c, at = 0;
    for (n = 0; n < xd->n; ++n)
        for (i = 0; i < yd->h; ++i)
            for (j = 0; j < yd->w; ++j)
                for (c = 0; c < xd->c; ++c)
                    if (pooled(q, p, xd, x, n * xd->h * xd->w * xd->c + c, wd, i, j, maximum, y,
                               at++) != 0)
                        return ARM_CMSIS_NN_ARG_ERROR;
    return ARM_CMSIS_NN_SUCCESS;
}

#define POOLS(s, k, T)                                                                             \
    arm_cmsis_nn_status arm_avgpool_##s(                                                           \
        const cmsis_nn_context *ctx, const cmsis_nn_pool_params *p, const cmsis_nn_dims *xd,       \
        const T *x, const cmsis_nn_dims *wd, const cmsis_nn_dims *yd, T *y) {                      \
        if (!spoiled(ctx, arm_avgpool_##s##_get_buffer_size(yd->w, xd->c)))                        \
            return ARM_CMSIS_NN_ARG_ERROR;                                                         \
        return pool(k, p, xd, x, wd, yd, 0, y);                                                    \
    }                                                                                              \
    arm_cmsis_nn_status arm_max_pool_##s(                                                          \
        const cmsis_nn_context *ctx, const cmsis_nn_pool_params *p, const cmsis_nn_dims *xd,       \
        const T *x, const cmsis_nn_dims *wd, const cmsis_nn_dims *yd, T *y) {                      \
        (void)ctx;                                                                                 \
        return pool(k, p, xd, x, wd, yd, 1, y);                                                    \
    }
POOLS(s8, S8, int8_t)
POOLS(s16, S16, int16_t)

/* -- elementwise ------------------------------------------------------------------------------ */

#define PAIRS(s, k, T)                                                                             \
    arm_cmsis_nn_status arm_elementwise_add_##s(                                                   \
        const T *a, const T *b, int32_t a_offset, int32_t a_mult, int32_t a_shift,                 \
        int32_t b_offset, int32_t b_mult, int32_t b_shift, int32_t left, T *y, int32_t y_offset,   \
        int32_t y_mult, int32_t y_shift, int32_t low, int32_t high, int32_t n) {                   \
        const cmsis_nn_activation all = {low, high};                                               \
        const int32_t unit = INT32_C(1) << left;                                                   \
        int32_t i;                                                                                 \
        for (i = 0; i < n; ++i) {                                                                  \
            const int32_t sum = scaled((a[i] + a_offset) * unit, a_mult, a_shift) +                \
                                scaled((b[i] + b_offset) * unit, b_mult, b_shift);                 \
            put(k, y, i, limited(scaled(sum, y_mult, y_shift), y_offset, &all));                   \
        }                                                                                          \
        return ARM_CMSIS_NN_SUCCESS;                                                               \
    }                                                                                              \
    arm_cmsis_nn_status arm_elementwise_mul_##s(                                                   \
        const T *a, const T *b, int32_t a_offset, int32_t b_offset, T *y, int32_t y_offset,        \
        int32_t mult, int32_t shift, int32_t low, int32_t high, int32_t n) {                       \
        const cmsis_nn_activation all = {low, high};                                               \
        int32_t i;                                                                                 \
        for (i = 0; i < n; ++i)                                                                    \
            put(k, y, i,                                                                           \
                limited(scaled((a[i] + a_offset) * (b[i] + b_offset), mult, shift), y_offset,      \
                        &all));                                                                    \
        return ARM_CMSIS_NN_SUCCESS;                                                               \
    }
PAIRS(s8, S8, int8_t)
PAIRS(s16, S16, int16_t)

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

/* An entry of a table of 512 intervals and what lies between: v of 16 bits. */
static int32_t between(const int16_t *table, int32_t v) {
    const int32_t at = 256 + (v >> 7);
    return table[at] + ((table[at + 1] - table[at]) * (v & 127) + 64) / 128 -
           (((table[at + 1] - table[at]) * (v & 127) + 64) % 128 < 0);
}

arm_cmsis_nn_status arm_softmax_s16(const int16_t *x, int32_t rows, int32_t size, int32_t mult,
                                    int32_t shift, const cmsis_nn_softmax_lut_s16 *tables,
                                    int16_t *y) {
    for (; rows > 0; --rows, x += size, y += size) {
        int32_t top = INT16_MIN, sum = 0, lead = 0, factor, i;
        for (i = 0; i < size; ++i)
            top = larger(top, x[i]);
        for (i = 0; i < size; ++i) {
            const int32_t v = scaled(x[i] - top, mult, shift) + INT16_MAX;
            y[i] = (int16_t)between(tables->exp_lut, larger(smaller(v, INT16_MAX), INT16_MIN));
            sum += y[i];
        }
        while ((((uint32_t)sum << lead) & UINT32_C(0x80000000)) == 0)
            ++lead;
        factor = between(tables->one_by_one_lut,
                         ((int32_t)((uint32_t)sum << (lead - 1)) + (1 << 13)) / (1 << 14) - 98304);
        for (i = 0; i < size; ++i)
            y[i] = (int16_t)((((y[i] * factor) >> (30 - lead)) + 1) >> 1);
    }
    return ARM_CMSIS_NN_SUCCESS;
}

/* -- moves ------------------------------------------------------------------------------------ */

/* `blocks` runs of `size` bytes to y, whose runs are `step` apart from `start` on. */
static void joined(const int8_t *x, int32_t blocks, int32_t size, int8_t *y, int32_t step,
                   int32_t start) {
    int32_t i;
    for (i = 0; i < blocks; ++i)
        (void)memcpy(y + i * step + start, x + i * size, (size_t)size);
}

void arm_concatenation_s8_x(const int8_t *input, const uint16_t x, const uint16_t y,
                            const uint16_t z, const uint16_t w, int8_t *output,
                            const uint16_t whole, const uint32_t offset) {
    joined(input, y * z * w, x, output, whole, (int32_t)offset);
}

void arm_concatenation_s8_y(const int8_t *input, const uint16_t x, const uint16_t y,
                            const uint16_t z, const uint16_t w, int8_t *output,
                            const uint16_t whole, const uint32_t offset) {
    joined(input, z * w, x * y, output, x * whole, x * (int32_t)offset);
}

void arm_concatenation_s8_z(const int8_t *input, const uint16_t x, const uint16_t y,
                            const uint16_t z, const uint16_t w, int8_t *output,
                            const uint16_t whole, const uint32_t offset) {
    joined(input, w, x * y * z, output, x * y * whole, x * y * (int32_t)offset);
}

void arm_concatenation_s8_w(const int8_t *input, const uint16_t x, const uint16_t y,
                            const uint16_t z, const uint16_t w, int8_t *output,
                            const uint32_t offset) {
    joined(input, 1, x * y * z * w, output, 0, x * y * z * (int32_t)offset);
}

arm_cmsis_nn_status arm_pad_s8(const int8_t *x, int8_t *y, const int8_t with,
                               const cmsis_nn_dims *xd, const cmsis_nn_dims *before,
                               const cmsis_nn_dims *after) {
    int32_t n, h, w, c;
    for (n = -before->n; n < xd->n + after->n; ++n)
        for (h = -before->h; h < xd->h + after->h; ++h)
            for (w = -before->w; w < xd->w + after->w; ++w)
                for (c = -before->c; c < xd->c + after->c; ++c) {
                    const int inside = n >= 0 && n < xd->n && h >= 0 && h < xd->h && w >= 0 &&
                                       w < xd->w && c >= 0 && c < xd->c;
                    *y++ = inside ? x[((n * xd->h + h) * xd->w + w) * xd->c + c] : with;
                }
    return ARM_CMSIS_NN_SUCCESS;
}

arm_cmsis_nn_status arm_transpose_s8(const int8_t *x, int8_t *const y,
                                     const cmsis_nn_dims *const xd, const cmsis_nn_dims *const yd,
                                     const cmsis_nn_transpose_params *const params) {
    const int32_t extents[4] = {xd->n, xd->h, xd->w, xd->c};
    const int32_t sizes[4] = {yd->n, yd->h, yd->w, yd->c};
    const int32_t total = yd->n * yd->h * yd->w * yd->c;
    int32_t i, d, k;
    for (i = 0; i < total; ++i) {
        int32_t rest = i, from = 0;
        for (d = params->num_dims - 1; d >= 0; --d) {
            int32_t step = 1;
            if (sizes[d] != extents[params->permutations[d]])
                return ARM_CMSIS_NN_ARG_ERROR;
            for (k = (int32_t)params->permutations[d] + 1; k < params->num_dims; ++k)
                step *= extents[k];
            from += rest % sizes[d] * step;
            rest /= sizes[d];
        }
        y[i] = x[from];
    }
    return ARM_CMSIS_NN_SUCCESS;
}
