/* SPDX-License-Identifier: MIT-0 */
/* Functions of the stand-in: CMSIS-NN's signatures, an implementation of our own that computes what
 * TensorFlow Lite's reference kernels do. It checks what the library asks of its caller. */
#ifndef ARM_NNFUNCTIONS_H
#define ARM_NNFUNCTIONS_H

#include "arm_nn_types.h"

int32_t arm_convolve_wrapper_s8_get_buffer_size(const cmsis_nn_conv_params *params,
                                                const cmsis_nn_dims *x, const cmsis_nn_dims *w,
                                                const cmsis_nn_dims *y);
int32_t arm_convolve_wrapper_s8_get_buffer_size_dsp(const cmsis_nn_conv_params *params,
                                                    const cmsis_nn_dims *x, const cmsis_nn_dims *w,
                                                    const cmsis_nn_dims *y);
int32_t arm_convolve_wrapper_s8_get_buffer_size_mve(const cmsis_nn_conv_params *params,
                                                    const cmsis_nn_dims *x, const cmsis_nn_dims *w,
                                                    const cmsis_nn_dims *y);
arm_cmsis_nn_status arm_convolve_wrapper_s8(const cmsis_nn_context *ctx,
                                            const cmsis_nn_conv_params *params,
                                            const cmsis_nn_per_channel_quant_params *quant,
                                            const cmsis_nn_dims *x_dims, const int8_t *x,
                                            const cmsis_nn_dims *w_dims, const int8_t *w,
                                            const cmsis_nn_dims *b_dims, const int32_t *b,
                                            const cmsis_nn_dims *y_dims, int8_t *y);

int32_t arm_depthwise_conv_wrapper_s8_get_buffer_size(const cmsis_nn_dw_conv_params *params,
                                                      const cmsis_nn_dims *x,
                                                      const cmsis_nn_dims *w,
                                                      const cmsis_nn_dims *y);
int32_t arm_depthwise_conv_wrapper_s8_get_buffer_size_dsp(const cmsis_nn_dw_conv_params *params,
                                                          const cmsis_nn_dims *x,
                                                          const cmsis_nn_dims *w,
                                                          const cmsis_nn_dims *y);
int32_t arm_depthwise_conv_wrapper_s8_get_buffer_size_mve(const cmsis_nn_dw_conv_params *params,
                                                          const cmsis_nn_dims *x,
                                                          const cmsis_nn_dims *w,
                                                          const cmsis_nn_dims *y);
arm_cmsis_nn_status arm_depthwise_conv_wrapper_s8(const cmsis_nn_context *ctx,
                                                  const cmsis_nn_dw_conv_params *params,
                                                  const cmsis_nn_per_channel_quant_params *quant,
                                                  const cmsis_nn_dims *x_dims, const int8_t *x,
                                                  const cmsis_nn_dims *w_dims, const int8_t *w,
                                                  const cmsis_nn_dims *b_dims, const int32_t *b,
                                                  const cmsis_nn_dims *y_dims, int8_t *y);

int32_t arm_fully_connected_s8_get_buffer_size(const cmsis_nn_dims *w);
arm_cmsis_nn_status arm_fully_connected_s8(const cmsis_nn_context *ctx,
                                           const cmsis_nn_fc_params *params,
                                           const cmsis_nn_per_tensor_quant_params *quant,
                                           const cmsis_nn_dims *x_dims, const int8_t *x,
                                           const cmsis_nn_dims *w_dims, const int8_t *w,
                                           const cmsis_nn_dims *b_dims, const int32_t *b,
                                           const cmsis_nn_dims *y_dims, int8_t *y);
arm_cmsis_nn_status arm_fully_connected_per_channel_s8(
    const cmsis_nn_context *ctx, const cmsis_nn_fc_params *params,
    const cmsis_nn_per_channel_quant_params *quant, const cmsis_nn_dims *x_dims, const int8_t *x,
    const cmsis_nn_dims *w_dims, const int8_t *w, const cmsis_nn_dims *b_dims, const int32_t *b,
    const cmsis_nn_dims *y_dims, int8_t *y);

int32_t arm_avgpool_s8_get_buffer_size(int width, int channels);
arm_cmsis_nn_status arm_avgpool_s8(const cmsis_nn_context *ctx, const cmsis_nn_pool_params *params,
                                   const cmsis_nn_dims *x_dims, const int8_t *x,
                                   const cmsis_nn_dims *w_dims, const cmsis_nn_dims *y_dims,
                                   int8_t *y);
arm_cmsis_nn_status arm_max_pool_s8(const cmsis_nn_context *ctx, const cmsis_nn_pool_params *params,
                                    const cmsis_nn_dims *x_dims, const int8_t *x,
                                    const cmsis_nn_dims *w_dims, const cmsis_nn_dims *y_dims,
                                    int8_t *y);

arm_cmsis_nn_status arm_elementwise_add_s8(const int8_t *a, const int8_t *b, int32_t a_offset,
                                           int32_t a_mult, int32_t a_shift, int32_t b_offset,
                                           int32_t b_mult, int32_t b_shift, int32_t left, int8_t *y,
                                           int32_t y_offset, int32_t y_mult, int32_t y_shift,
                                           int32_t low, int32_t high, int32_t n);
arm_cmsis_nn_status arm_elementwise_mul_s8(const int8_t *a, const int8_t *b, int32_t a_offset,
                                           int32_t b_offset, int8_t *y, int32_t y_offset,
                                           int32_t mult, int32_t shift, int32_t low, int32_t high,
                                           int32_t n);

void arm_softmax_s8(const int8_t *x, int32_t rows, int32_t size, int32_t mult, int32_t shift,
                    int32_t least, int8_t *y);

#endif
