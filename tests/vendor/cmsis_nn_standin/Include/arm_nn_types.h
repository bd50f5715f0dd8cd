/* SPDX-License-Identifier: MIT-0 */
/* Types of the stand-in: the interface of CMSIS-NN as far as aotc calls it. */
#ifndef ARM_NN_TYPES_H
#define ARM_NN_TYPES_H

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    ARM_CMSIS_NN_SUCCESS = 0,
    ARM_CMSIS_NN_ARG_ERROR = -1,
    ARM_CMSIS_NN_NO_IMPL_ERROR = -2,
    ARM_CMSIS_NN_FAILURE = -3
} arm_cmsis_nn_status;

typedef struct {
    int32_t w, h;
} cmsis_nn_tile;

typedef struct {
    int32_t n, h, w, c;
} cmsis_nn_dims;

typedef struct {
    int32_t min, max;
} cmsis_nn_activation;

typedef struct {
    void *buf;
    int32_t size;
} cmsis_nn_context;

typedef struct {
    const void *data;
    const bool is_int32_bias;
} cmsis_nn_bias_data;

typedef struct {
    int32_t *multiplier, *shift;
} cmsis_nn_per_channel_quant_params;

typedef struct {
    int32_t multiplier, shift;
} cmsis_nn_per_tensor_quant_params;

typedef struct {
    int32_t input_offset, output_offset;
    cmsis_nn_tile stride, padding, dilation;
    cmsis_nn_activation activation;
} cmsis_nn_conv_params;

typedef struct {
    int32_t input_offset, output_offset, ch_mult;
    cmsis_nn_tile stride, padding, dilation;
    cmsis_nn_activation activation;
} cmsis_nn_dw_conv_params;

typedef struct {
    int32_t input_offset, output_offset;
    cmsis_nn_tile stride, padding, padding_offsets, dilation;
    cmsis_nn_activation activation;
} cmsis_nn_transpose_conv_params;

typedef struct {
    cmsis_nn_tile stride, padding;
    cmsis_nn_activation activation;
} cmsis_nn_pool_params;

typedef struct {
    int32_t input_offset, filter_offset, output_offset;
    cmsis_nn_activation activation;
} cmsis_nn_fc_params;

typedef struct {
    const bool adj_x, adj_y;
    cmsis_nn_fc_params fc_params;
} cmsis_nn_bmm_params;

typedef struct {
    const int32_t num_dims;
    const uint32_t *permutations;
} cmsis_nn_transpose_params;

typedef struct {
    const int16_t *exp_lut, *one_by_one_lut;
} cmsis_nn_softmax_lut_s16;

#endif
