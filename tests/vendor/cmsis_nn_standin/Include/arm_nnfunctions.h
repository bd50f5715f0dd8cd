/* SPDX-License-Identifier: MIT-0 */
/* Functions of the stand-in: CMSIS-NN's signatures, an implementation of our own that computes what
 * TensorFlow Lite's reference kernels do. It checks what the library asks of its caller. */
#ifndef ARM_NNFUNCTIONS_H
#define ARM_NNFUNCTIONS_H

#include "arm_nn_types.h"

#define AOT_SIZES(FUNCTION, PARAMS)                                                                \
    int32_t FUNCTION##_get_buffer_size(const PARAMS *params, const cmsis_nn_dims *x,               \
                                       const cmsis_nn_dims *w, const cmsis_nn_dims *y);            \
    int32_t FUNCTION##_get_buffer_size_dsp(const PARAMS *params, const cmsis_nn_dims *x,           \
                                           const cmsis_nn_dims *w, const cmsis_nn_dims *y);        \
    int32_t FUNCTION##_get_buffer_size_mve(const PARAMS *params, const cmsis_nn_dims *x,           \
                                           const cmsis_nn_dims *w, const cmsis_nn_dims *y)
#define AOT_PRODUCT(FUNCTION, PARAMS, QUANT, T, B)                                                 \
    arm_cmsis_nn_status FUNCTION(                                                                  \
        const cmsis_nn_context *ctx, const PARAMS *params, const QUANT *quant,                     \
        const cmsis_nn_dims *x_dims, const T *x, const cmsis_nn_dims *w_dims, const int8_t *w,     \
        const cmsis_nn_dims *b_dims, const B *b, const cmsis_nn_dims *y_dims, T *y)

AOT_SIZES(arm_convolve_wrapper_s8, cmsis_nn_conv_params);
AOT_SIZES(arm_convolve_wrapper_s4, cmsis_nn_conv_params);
AOT_SIZES(arm_convolve_wrapper_s16, cmsis_nn_conv_params);
AOT_PRODUCT(arm_convolve_wrapper_s8, cmsis_nn_conv_params, cmsis_nn_per_channel_quant_params,
            int8_t, int32_t);
AOT_PRODUCT(arm_convolve_wrapper_s4, cmsis_nn_conv_params, cmsis_nn_per_channel_quant_params,
            int8_t, int32_t);
AOT_PRODUCT(arm_convolve_wrapper_s16, cmsis_nn_conv_params, cmsis_nn_per_channel_quant_params,
            int16_t, cmsis_nn_bias_data);

AOT_SIZES(arm_depthwise_conv_wrapper_s8, cmsis_nn_dw_conv_params);
AOT_SIZES(arm_depthwise_conv_wrapper_s4, cmsis_nn_dw_conv_params);
AOT_SIZES(arm_depthwise_conv_wrapper_s16, cmsis_nn_dw_conv_params);
AOT_PRODUCT(arm_depthwise_conv_wrapper_s8, cmsis_nn_dw_conv_params,
            cmsis_nn_per_channel_quant_params, int8_t, int32_t);
AOT_PRODUCT(arm_depthwise_conv_wrapper_s4, cmsis_nn_dw_conv_params,
            cmsis_nn_per_channel_quant_params, int8_t, int32_t);
AOT_PRODUCT(arm_depthwise_conv_wrapper_s16, cmsis_nn_dw_conv_params,
            cmsis_nn_per_channel_quant_params, int16_t, int64_t);

int32_t arm_transpose_conv_s8_get_buffer_size(const cmsis_nn_transpose_conv_params *params,
                                              const cmsis_nn_dims *x, const cmsis_nn_dims *w,
                                              const cmsis_nn_dims *y);
int32_t arm_transpose_conv_s8_get_buffer_size_mve(const cmsis_nn_transpose_conv_params *params,
                                                  const cmsis_nn_dims *x, const cmsis_nn_dims *w,
                                                  const cmsis_nn_dims *y);
int32_t
arm_transpose_conv_s8_get_reverse_conv_buffer_size(const cmsis_nn_transpose_conv_params *params,
                                                   const cmsis_nn_dims *x, const cmsis_nn_dims *w);
arm_cmsis_nn_status arm_transpose_conv_wrapper_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_context *reverse,
    const cmsis_nn_transpose_conv_params *params, const cmsis_nn_per_channel_quant_params *quant,
    const cmsis_nn_dims *x_dims, const int8_t *x, const cmsis_nn_dims *w_dims, const int8_t *w,
    const cmsis_nn_dims *b_dims, const int32_t *b, const cmsis_nn_dims *y_dims, int8_t *y);

int32_t arm_fully_connected_s8_get_buffer_size(const cmsis_nn_dims *w);
AOT_PRODUCT(arm_fully_connected_s8, cmsis_nn_fc_params, cmsis_nn_per_tensor_quant_params, int8_t,
            int32_t);
AOT_PRODUCT(arm_fully_connected_s4, cmsis_nn_fc_params, cmsis_nn_per_tensor_quant_params, int8_t,
            int32_t);
AOT_PRODUCT(arm_fully_connected_per_channel_s8, cmsis_nn_fc_params,
            cmsis_nn_per_channel_quant_params, int8_t, int32_t);

#define AOT_TYPED(s, T)                                                                            \
    int32_t arm_avgpool_##s##_get_buffer_size(int width, int channels);                            \
    arm_cmsis_nn_status arm_avgpool_##s(                                                           \
        const cmsis_nn_context *ctx, const cmsis_nn_pool_params *params,                           \
        const cmsis_nn_dims *x_dims, const T *x, const cmsis_nn_dims *w_dims,                      \
        const cmsis_nn_dims *y_dims, T *y);                                                        \
    arm_cmsis_nn_status arm_max_pool_##s(                                                          \
        const cmsis_nn_context *ctx, const cmsis_nn_pool_params *params,                           \
        const cmsis_nn_dims *x_dims, const T *x, const cmsis_nn_dims *w_dims,                      \
        const cmsis_nn_dims *y_dims, T *y);                                                        \
    arm_cmsis_nn_status arm_elementwise_add_##s(                                                   \
        const T *a, const T *b, int32_t a_offset, int32_t a_mult, int32_t a_shift,                 \
        int32_t b_offset, int32_t b_mult, int32_t b_shift, int32_t left, T *y, int32_t y_offset,   \
        int32_t y_mult, int32_t y_shift, int32_t low, int32_t high, int32_t n);                    \
    arm_cmsis_nn_status arm_elementwise_mul_##s(                                                   \
        const T *a, const T *b, int32_t a_offset, int32_t b_offset, T *y, int32_t y_offset,        \
        int32_t mult, int32_t shift, int32_t low, int32_t high, int32_t n);                        \
    arm_cmsis_nn_status arm_batch_matmul_##s(                                                      \
        const cmsis_nn_context *ctx, const cmsis_nn_bmm_params *params,                            \
        const cmsis_nn_per_tensor_quant_params *quant, const cmsis_nn_dims *a_dims, const T *a,    \
        const cmsis_nn_dims *b_dims, const T *b, const cmsis_nn_dims *y_dims, T *y)
AOT_TYPED(s8, int8_t);
AOT_TYPED(s16, int16_t);

void arm_softmax_s8(const int8_t *x, int32_t rows, int32_t size, int32_t mult, int32_t shift,
                    int32_t least, int8_t *y);
arm_cmsis_nn_status arm_softmax_s16(const int16_t *x, int32_t rows, int32_t size, int32_t mult,
                                    int32_t shift, const cmsis_nn_softmax_lut_s16 *tables,
                                    int16_t *y);

#define AOT_JOINS(NAME)                                                                            \
    void NAME(const int8_t *input, const uint16_t x, const uint16_t y, const uint16_t z,           \
              const uint16_t w, int8_t *output, const uint16_t whole, const uint32_t offset)
AOT_JOINS(arm_concatenation_s8_x);
AOT_JOINS(arm_concatenation_s8_y);
AOT_JOINS(arm_concatenation_s8_z);
void arm_concatenation_s8_w(const int8_t *input, const uint16_t x, const uint16_t y,
                            const uint16_t z, const uint16_t w, int8_t *output,
                            const uint32_t offset);
arm_cmsis_nn_status arm_pad_s8(const int8_t *x, int8_t *y, const int8_t with,
                               const cmsis_nn_dims *x_dims, const cmsis_nn_dims *before,
                               const cmsis_nn_dims *after);
arm_cmsis_nn_status arm_transpose_s8(const int8_t *x, int8_t *const y,
                                     const cmsis_nn_dims *const x_dims,
                                     const cmsis_nn_dims *const y_dims,
                                     const cmsis_nn_transpose_params *const params);

#endif
