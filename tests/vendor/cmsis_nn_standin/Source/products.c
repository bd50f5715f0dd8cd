/* SPDX-License-Identifier: MIT-0 */
/* Convolutions and matrix products, and what they want; see arm_nnfunctions.h. */
#include "standin.h"

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
