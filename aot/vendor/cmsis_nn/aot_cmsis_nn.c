/* SPDX-License-Identifier: MIT-0 */
/* Calls of the user's CMSIS-NN; see aot_cmsis_nn.h. */
#include "aot_cmsis_nn.h"

#include <stddef.h>

#include "arm_nnfunctions.h"

static cmsis_nn_dims dims(const int32_t *extents) {
    const cmsis_nn_dims made = {extents[0], extents[1], extents[2], extents[3]};
    return made;
}

static cmsis_nn_tile tile(const int32_t *pair) {
    const cmsis_nn_tile made = {pair[1], pair[0]};
    return made;
}

static cmsis_nn_activation limits(int32_t low, int32_t high) {
    const cmsis_nn_activation made = {low, high};
    return made;
}

/* The library's types have no const; it writes to none of these. */
static cmsis_nn_per_channel_quant_params scales(const int32_t *mult, const int32_t *shift) {
    const cmsis_nn_per_channel_quant_params made = {(int32_t *)(uintptr_t)mult,
                                                    (int32_t *)(uintptr_t)shift};
    return made;
}

static aot_status outcome(arm_cmsis_nn_status status) {
    return status == ARM_CMSIS_NN_SUCCESS ? AOT_OK : AOT_VENDOR;
}

/* A convolution by arm_convolve_wrapper_S; `how` are its fields, `BIAS` is what it takes. */
#define CONV(NAME, T, B, S, BIAS)                                                                  \
    AOT_CMSIS_NN_CONV(NAME, T, B) {                                                                \
        const cmsis_nn_dims xd = dims(p->x), wd = dims(p->w), yd = dims(p->y);                     \
        const cmsis_nn_dims bd = {1, 1, 1, p->y[3]};                                               \
        const cmsis_nn_conv_params how = {                                                         \
            p->x_offset,  p->y_offset,       tile(p->stride),                                      \
            tile(p->pad), tile(p->dilation), limits(p->low, p->high)};                             \
        const cmsis_nn_per_channel_quant_params quant = scales(mult, shift);                       \
        const cmsis_nn_bias_data wide = {bias, true};                                              \
        const cmsis_nn_context ctx = {scratch, p->bytes};                                          \
        (void)wide;                                                                                \
        if (arm_convolve_wrapper_##S##_get_buffer_size(&how, &xd, &wd, &yd) > p->bytes)            \
            return AOT_VENDOR;                                                                     \
        return outcome(                                                                            \
            arm_convolve_wrapper_##S(&ctx, &how, &quant, &xd, x, &wd, w, &bd, BIAS, &yd, y));      \
    }
CONV(aot_cmsis_nn_conv, int8_t, int32_t, s8, bias)
CONV(aot_cmsis_nn_conv4, int8_t, int32_t, s4, bias)
CONV(aot_cmsis_nn_conv16, int16_t, int32_t, s16, &wide)

#define DEPTHWISE(NAME, T, B, S)                                                                   \
    AOT_CMSIS_NN_CONV(NAME, T, B) {                                                                \
        const cmsis_nn_dims xd = dims(p->x), wd = dims(p->w), yd = dims(p->y);                     \
        const cmsis_nn_dims bd = {1, 1, 1, p->y[3]};                                               \
        const cmsis_nn_dw_conv_params how = {                                                      \
            p->x_offset,  p->y_offset,       p->y[3] / p->x[3],      tile(p->stride),              \
            tile(p->pad), tile(p->dilation), limits(p->low, p->high)};                             \
        const cmsis_nn_per_channel_quant_params quant = scales(mult, shift);                       \
        const cmsis_nn_context ctx = {scratch, p->bytes};                                          \
        if (arm_depthwise_conv_wrapper_##S##_get_buffer_size(&how, &xd, &wd, &yd) > p->bytes)      \
            return AOT_VENDOR;                                                                     \
        return outcome(arm_depthwise_conv_wrapper_##S(&ctx, &how, &quant, &xd, x, &wd, w, &bd,     \
                                                      bias, &yd, y));                              \
    }
DEPTHWISE(aot_cmsis_nn_depthwise, int8_t, int32_t, s8)
DEPTHWISE(aot_cmsis_nn_depthwise4, int8_t, int32_t, s4)
DEPTHWISE(aot_cmsis_nn_depthwise16, int16_t, int64_t, s16)

aot_status aot_cmsis_nn_transposed(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                                   const int32_t *mult, const int32_t *shift, void *scratch,
                                   const aot_cmsis_nn_transposed_params *p) {
    const cmsis_nn_dims xd = dims(p->x), wd = dims(p->w), yd = dims(p->y);
    const cmsis_nn_dims bd = {1, 1, 1, p->y[3]};
    const cmsis_nn_transpose_conv_params how = {
        p->x_offset, p->y_offset, tile(p->stride),        tile(p->pad),
        {0, 0},      {1, 1},      limits(p->low, p->high)};
    const cmsis_nn_per_channel_quant_params quant = scales(mult, shift);
    const cmsis_nn_context ctx = {scratch, p->bytes};
    const cmsis_nn_context turned = {(int8_t *)scratch + p->bytes, p->turned};
    if (arm_transpose_conv_s8_get_buffer_size(&how, &xd, &wd, &yd) > p->bytes ||
        arm_transpose_conv_s8_get_reverse_conv_buffer_size(&how, &xd, &wd) > p->turned)
        return AOT_VENDOR;
    return outcome(arm_transpose_conv_wrapper_s8(&ctx, &turned, &how, &quant, &xd, x, &wd, w, &bd,
                                                 bias, &yd, y));
}

/* The extents of a fully connected layer, its parameters and the sums of its weights. */
typedef struct aot_cmsis_nn_layer {
    cmsis_nn_dims x, w, y;
    cmsis_nn_fc_params fc;
    cmsis_nn_context ctx;
} aot_cmsis_nn_layer;

static aot_cmsis_nn_layer layer(const int32_t *sums, const aot_cmsis_nn_dense_params *p) {
    const int32_t bytes = sums == NULL ? 0 : p->channels * (int32_t)sizeof(int32_t);
    const aot_cmsis_nn_layer made = {{p->rows, 1, 1, p->depth},
                                     {p->depth, 1, 1, p->channels},
                                     {p->rows, 1, 1, p->channels},
                                     {p->x_offset, 0, p->y_offset, limits(p->low, p->high)},
                                     {(int32_t *)(uintptr_t)sums, bytes}};
    return made;
}

aot_status aot_cmsis_nn_dense(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                              const int32_t *sums, const aot_cmsis_nn_dense_params *p) {
    const aot_cmsis_nn_layer l = layer(sums, p);
    const cmsis_nn_per_tensor_quant_params quant = {p->mult, p->shift};
    if (arm_fully_connected_s8_get_buffer_size(&l.w) > l.ctx.size)
        return AOT_VENDOR;
    return outcome(
        arm_fully_connected_s8(&l.ctx, &l.fc, &quant, &l.x, x, &l.w, w, &l.y, bias, &l.y, y));
}

aot_status aot_cmsis_nn_dense4(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                               const int32_t *sums, const aot_cmsis_nn_dense4_params *p) {
    const aot_cmsis_nn_layer l = layer(sums, p);
    const cmsis_nn_per_tensor_quant_params quant = {p->mult, p->shift};
    return outcome(
        arm_fully_connected_s4(&l.ctx, &l.fc, &quant, &l.x, x, &l.w, w, &l.y, bias, &l.y, y));
}

aot_status aot_cmsis_nn_dense_channels(int8_t *y, const int8_t *x, const int8_t *w,
                                       const int32_t *bias, const int32_t *sums,
                                       const int32_t *mult, const int32_t *shift,
                                       const aot_cmsis_nn_dense_channels_params *p) {
    const aot_cmsis_nn_layer l = layer(sums, p);
    const cmsis_nn_per_channel_quant_params quant = scales(mult, shift);
    if (arm_fully_connected_s8_get_buffer_size(&l.w) > l.ctx.size)
        return AOT_VENDOR;
    return outcome(arm_fully_connected_per_channel_s8(&l.ctx, &l.fc, &quant, &l.x, x, &l.w, w, &l.y,
                                                      bias, &l.y, y));
}

static cmsis_nn_pool_params pool(const aot_cmsis_nn_pool_params *p) {
    const cmsis_nn_pool_params made = {tile(p->stride), tile(p->pad), limits(p->low, p->high)};
    return made;
}

#define AVERAGE(NAME, T, S)                                                                        \
    aot_status NAME(T *y, const T *x, void *scratch, const aot_cmsis_nn_pool_params *p) {          \
        const cmsis_nn_dims xd = dims(p->x), yd = dims(p->y);                                      \
        const cmsis_nn_dims wd = {1, p->window[0], p->window[1], 1};                               \
        const cmsis_nn_pool_params params = pool(p);                                               \
        const cmsis_nn_context ctx = {scratch, p->bytes};                                          \
        if (arm_avgpool_##S##_get_buffer_size(p->y[2], p->x[3]) > p->bytes)                        \
            return AOT_VENDOR;                                                                     \
        return outcome(arm_avgpool_##S(&ctx, &params, &xd, x, &wd, &yd, y));                       \
    }
AVERAGE(aot_cmsis_nn_average, int8_t, s8)
AVERAGE(aot_cmsis_nn_average16, int16_t, s16)

#define MAXIMUM(NAME, T, S)                                                                        \
    aot_status NAME(T *y, const T *x, const aot_cmsis_nn_pool_params *p) {                         \
        const cmsis_nn_dims xd = dims(p->x), yd = dims(p->y);                                      \
        const cmsis_nn_dims wd = {1, p->window[0], p->window[1], 1};                               \
        const cmsis_nn_pool_params params = pool(p);                                               \
        const cmsis_nn_context ctx = {NULL, 0};                                                    \
        return outcome(arm_max_pool_##S(&ctx, &params, &xd, x, &wd, &yd, y));                      \
    }
MAXIMUM(aot_cmsis_nn_maximum, int8_t, s8)
MAXIMUM(aot_cmsis_nn_maximum16, int16_t, s16)

#define PAIRS(ADD, MUL, T, S)                                                                      \
    aot_status ADD(T *y, const T *a, const T *b, const aot_cmsis_nn_add_params *p) {               \
        return outcome(arm_elementwise_add_##S(                                                    \
            a, b, p->a_offset, p->a_mult, p->a_shift, p->b_offset, p->b_mult, p->b_shift, p->left, \
            y, p->y_offset, p->y_mult, p->y_shift, p->low, p->high, p->n));                        \
    }                                                                                              \
    aot_status MUL(T *y, const T *a, const T *b, const aot_cmsis_nn_mul_params *p) {               \
        return outcome(arm_elementwise_mul_##S(a, b, p->a_offset, p->b_offset, y, p->y_offset,     \
                                               p->mult, p->shift, p->low, p->high, p->n));         \
    }
PAIRS(aot_cmsis_nn_add, aot_cmsis_nn_mul, int8_t, s8)
PAIRS(aot_cmsis_nn_add16, aot_cmsis_nn_mul16, int16_t, s16)

aot_status aot_cmsis_nn_softmax(int8_t *y, const int8_t *x, const aot_cmsis_nn_softmax_params *p) {
    arm_softmax_s8(x, p->rows, p->size, p->mult, p->shift, p->least, y);
    return AOT_OK;
}

aot_status aot_cmsis_nn_softmax16(int16_t *y, const int16_t *x, const int16_t *exps,
                                  const int16_t *overs, const aot_cmsis_nn_softmax16_params *p) {
    const cmsis_nn_softmax_lut_s16 tables = {exps, overs};
    return outcome(arm_softmax_s16(x, p->rows, p->size, p->mult, p->shift, &tables, y));
}

/* The library multiplies with [columns, depth]: a matrix in another order is turned first. */
#define MATMUL(NAME, T, S, BYTES)                                                                  \
    aot_status NAME(T *y, const T *a, const T *b, void *scratch,                                   \
                    const aot_cmsis_nn_matmul_params *p) {                                         \
        const int32_t size = p->depth * p->columns;                                                \
        const cmsis_nn_dims ad = {1, 1, p->rows, p->depth}, bd = {1, 1, p->columns, p->depth};     \
        const cmsis_nn_dims yd = {1, 1, p->rows, p->columns}, sums = {0, 0, 0, p->columns};        \
        const cmsis_nn_bmm_params how = {                                                          \
            false, true, {p->a_offset, p->b_offset, p->y_offset, limits(p->low, p->high)}};        \
        const cmsis_nn_per_tensor_quant_params quant = {p->mult, p->shift};                        \
        const cmsis_nn_context ctx = {scratch, p->sums};                                           \
        T *const turned = p->turned > 0 ? (T *)(void *)((int8_t *)scratch + p->sums) : NULL;       \
        int32_t n, i;                                                                              \
        (void)sums;                                                                                \
        if (BYTES > p->sums)                                                                       \
            return AOT_VENDOR;                                                                     \
        for (n = 0; n < p->n;                                                                      \
             ++n, y += p->rows * p->columns, a += p->rows * p->depth, b += size) {                 \
            for (i = 0; turned != NULL && i < size; ++i)                                           \
                turned[i] = b[i % p->depth * p->columns + i / p->depth];                           \
            if (arm_batch_matmul_##S(&ctx, &how, &quant, &ad, a, &bd, turned != NULL ? turned : b, \
                                     &yd, y) != ARM_CMSIS_NN_SUCCESS)                              \
                return AOT_VENDOR;                                                                 \
        }                                                                                          \
        return AOT_OK;                                                                             \
    }
MATMUL(aot_cmsis_nn_matmul, int8_t, s8, arm_fully_connected_s8_get_buffer_size(&sums))
MATMUL(aot_cmsis_nn_matmul16, int16_t, s16, 0)

aot_status aot_cmsis_nn_concat(int8_t *y, const int8_t *x, const aot_cmsis_nn_concat_params *p) {
    const uint16_t n = (uint16_t)p->x[0], h = (uint16_t)p->x[1], w = (uint16_t)p->x[2];
    const uint16_t c = (uint16_t)p->x[3], whole = (uint16_t)p->whole;
    const uint32_t start = (uint32_t)p->start;
    switch (p->axis) {
    case 0:
        arm_concatenation_s8_w(x, c, w, h, n, y, start);
        break;
    case 1:
        arm_concatenation_s8_z(x, c, w, h, n, y, whole, start);
        break;
    case 2:
        arm_concatenation_s8_y(x, c, w, h, n, y, whole, start);
        break;
    default:
        arm_concatenation_s8_x(x, c, w, h, n, y, whole, start);
        break;
    }
    return AOT_OK;
}

aot_status aot_cmsis_nn_pad(int8_t *y, const int8_t *x, const aot_cmsis_nn_pad_params *p) {
    const cmsis_nn_dims xd = dims(p->x), before = dims(p->before), after = dims(p->after);
    return outcome(arm_pad_s8(x, y, (int8_t)p->value, &xd, &before, &after));
}

aot_status aot_cmsis_nn_transpose(int8_t *y, const int8_t *x,
                                  const aot_cmsis_nn_transpose_params *p) {
    const cmsis_nn_dims xd = dims(p->x), yd = dims(p->y);
    const uint32_t perm[4] = {(uint32_t)p->perm[0], (uint32_t)p->perm[1], (uint32_t)p->perm[2],
                              (uint32_t)p->perm[3]};
    const cmsis_nn_transpose_params how = {p->rank, perm};
    return outcome(arm_transpose_s8(x, y, &xd, &yd, &how));
}
