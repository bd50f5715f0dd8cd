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

aot_status aot_cmsis_nn_conv(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                             const int32_t *mult, const int32_t *shift, void *scratch,
                             const aot_cmsis_nn_conv_params *p) {
    const cmsis_nn_dims xd = dims(p->x), wd = dims(p->w), yd = dims(p->y);
    const cmsis_nn_dims bd = {1, 1, 1, p->y[3]};
    const cmsis_nn_conv_params conv = {p->x_offset,  p->y_offset,       tile(p->stride),
                                       tile(p->pad), tile(p->dilation), limits(p->low, p->high)};
    const cmsis_nn_per_channel_quant_params quant = scales(mult, shift);
    const cmsis_nn_context ctx = {scratch, p->bytes};
    if (arm_convolve_wrapper_s8_get_buffer_size(&conv, &xd, &wd, &yd) > p->bytes)
        return AOT_VENDOR;
    return outcome(arm_convolve_wrapper_s8(&ctx, &conv, &quant, &xd, x, &wd, w, &bd, bias, &yd, y));
}

aot_status aot_cmsis_nn_depthwise(int8_t *y, const int8_t *x, const int8_t *w, const int32_t *bias,
                                  const int32_t *mult, const int32_t *shift, void *scratch,
                                  const aot_cmsis_nn_depthwise_params *p) {
    const cmsis_nn_dims xd = dims(p->x), wd = dims(p->w), yd = dims(p->y);
    const cmsis_nn_dims bd = {1, 1, 1, p->y[3]};
    const cmsis_nn_dw_conv_params conv = {
        p->x_offset,  p->y_offset,       p->y[3] / p->x[3],      tile(p->stride),
        tile(p->pad), tile(p->dilation), limits(p->low, p->high)};
    const cmsis_nn_per_channel_quant_params quant = scales(mult, shift);
    const cmsis_nn_context ctx = {scratch, p->bytes};
    if (arm_depthwise_conv_wrapper_s8_get_buffer_size(&conv, &xd, &wd, &yd) > p->bytes)
        return AOT_VENDOR;
    return outcome(
        arm_depthwise_conv_wrapper_s8(&ctx, &conv, &quant, &xd, x, &wd, w, &bd, bias, &yd, y));
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

aot_status aot_cmsis_nn_average(int8_t *y, const int8_t *x, void *scratch,
                                const aot_cmsis_nn_pool_params *p) {
    const cmsis_nn_dims xd = dims(p->x), yd = dims(p->y);
    const cmsis_nn_dims wd = {1, p->window[0], p->window[1], 1};
    const cmsis_nn_pool_params params = pool(p);
    const cmsis_nn_context ctx = {scratch, p->bytes};
    if (arm_avgpool_s8_get_buffer_size(p->y[2], p->x[3]) > p->bytes)
        return AOT_VENDOR;
    return outcome(arm_avgpool_s8(&ctx, &params, &xd, x, &wd, &yd, y));
}

aot_status aot_cmsis_nn_maximum(int8_t *y, const int8_t *x, const aot_cmsis_nn_maximum_params *p) {
    const cmsis_nn_dims xd = dims(p->x), yd = dims(p->y);
    const cmsis_nn_dims wd = {1, p->window[0], p->window[1], 1};
    const cmsis_nn_pool_params params = pool(p);
    const cmsis_nn_context ctx = {NULL, 0};
    return outcome(arm_max_pool_s8(&ctx, &params, &xd, x, &wd, &yd, y));
}

aot_status aot_cmsis_nn_add(int8_t *y, const int8_t *a, const int8_t *b,
                            const aot_cmsis_nn_add_params *p) {
    return outcome(arm_elementwise_add_s8(a, b, p->a_offset, p->a_mult, p->a_shift, p->b_offset,
                                          p->b_mult, p->b_shift, p->left, y, p->y_offset, p->y_mult,
                                          p->y_shift, p->low, p->high, p->n));
}

aot_status aot_cmsis_nn_mul(int8_t *y, const int8_t *a, const int8_t *b,
                            const aot_cmsis_nn_mul_params *p) {
    return outcome(arm_elementwise_mul_s8(a, b, p->a_offset, p->b_offset, y, p->y_offset, p->mult,
                                          p->shift, p->low, p->high, p->n));
}

aot_status aot_cmsis_nn_softmax(int8_t *y, const int8_t *x, const aot_cmsis_nn_softmax_params *p) {
    arm_softmax_s8(x, p->rows, p->size, p->mult, p->shift, p->least, y);
    return AOT_OK;
}
