/* SPDX-License-Identifier: MIT-0 */
/* Layers of int8 quantised values by the user's ESP-NN. Extents are [batch,
 * height, width, channels], values are stored in that order, pairs are height
 * and width. An offset of an operand is its zero point negated, that of a
 * result its zero point. Multipliers are Q31 with a power of two.
 *
 * `bytes` is the size of `scratch`, as the compiler computed it for the
 * library's variant. A library that wants more makes the run fail with
 * AOT_VENDOR. The library keeps the address of scratch in a variable of its
 * own, which each call sets: calls of two contexts must not overlap. */
#ifndef AOT_ESP_NN_H
#define AOT_ESP_NN_H

#include <stdint.h>

#include "aot/aot.h"

typedef struct aot_esp_nn_conv_params {
  int32_t x[4];
  int32_t w[4]; /* output channels, height, width, channels of one group */
  int32_t y[4];
  int32_t x_offset;
  int32_t y_offset;
  int32_t low;
  int32_t high;
  int32_t stride[2];
  int32_t pad[2];
  int32_t bytes;
} aot_esp_nn_conv_params;

/* Weights [O, H, W, I], bias in units of the sums, one multiplier per output
 * channel. */
aot_status aot_esp_nn_conv(int8_t *y, const int8_t *x, const int8_t *w,
                           const int32_t *bias, const int32_t *mult,
                           const int32_t *shift, void *scratch,
                           const aot_esp_nn_conv_params *p);

/* Weights [H, W, O]: every input channel has O / I filters of its own. */
typedef aot_esp_nn_conv_params aot_esp_nn_depthwise_params;
aot_status aot_esp_nn_depthwise(int8_t *y, const int8_t *x, const int8_t *w,
                                const int32_t *bias, const int32_t *mult,
                                const int32_t *shift, void *scratch,
                                const aot_esp_nn_depthwise_params *p);

typedef struct aot_esp_nn_dense_params {
  int32_t rows;
  int32_t depth;
  int32_t channels;
  int32_t x_offset;
  int32_t y_offset;
  int32_t low;
  int32_t high;
  int32_t mult; /* of all channels, unless each has its own */
  int32_t shift;
} aot_esp_nn_dense_params;

/* y[rows, channels] = x[rows, depth] * w[channels, depth]. */
aot_status aot_esp_nn_dense(int8_t *y, const int8_t *x, const int8_t *w,
                            const int32_t *bias,
                            const aot_esp_nn_dense_params *p);
typedef aot_esp_nn_dense_params aot_esp_nn_dense_channels_params;
aot_status aot_esp_nn_dense_channels(int8_t *y, const int8_t *x,
                                     const int8_t *w, const int32_t *bias,
                                     const int32_t *mult, const int32_t *shift,
                                     const aot_esp_nn_dense_channels_params *p);

typedef struct aot_esp_nn_pool_params {
  int32_t x[4];
  int32_t y[4];
  int32_t window[2];
  int32_t stride[2];
  int32_t pad[2];
  int32_t low;
  int32_t high;
} aot_esp_nn_pool_params;

typedef aot_esp_nn_pool_params aot_esp_nn_average_params,
    aot_esp_nn_maximum_params;
aot_status aot_esp_nn_average(int8_t *y, const int8_t *x,
                              const aot_esp_nn_pool_params *p);
aot_status aot_esp_nn_maximum(int8_t *y, const int8_t *x,
                              const aot_esp_nn_pool_params *p);

typedef struct aot_esp_nn_add_params {
  int32_t n;
  int32_t a_offset;
  int32_t b_offset;
  int32_t y_offset;
  int32_t left; /* bits by which operands move up first */
  int32_t a_mult;
  int32_t a_shift;
  int32_t b_mult;
  int32_t b_shift;
  int32_t y_mult;
  int32_t y_shift;
  int32_t low;
  int32_t high;
} aot_esp_nn_add_params;

/* n sums; y may be a or b. */
aot_status aot_esp_nn_add(int8_t *y, const int8_t *a, const int8_t *b,
                          const aot_esp_nn_add_params *p);

typedef struct aot_esp_nn_mul_params {
  int32_t n;
  int32_t a_offset;
  int32_t b_offset;
  int32_t y_offset;
  int32_t mult;
  int32_t shift;
  int32_t low;
  int32_t high;
} aot_esp_nn_mul_params;

/* n products; y may be a or b. */
aot_status aot_esp_nn_mul(int8_t *y, const int8_t *a, const int8_t *b,
                          const aot_esp_nn_mul_params *p);

typedef struct aot_esp_nn_softmax_params {
  int32_t rows;
  int32_t size;
  int32_t mult;
  int32_t shift;
  int32_t
      least; /* a smaller difference to the largest value counts as no power */
  int32_t bytes;
} aot_esp_nn_softmax_params;

/* Rows of quantised values of 1/256 from -128 on. */
aot_status aot_esp_nn_softmax(int8_t *y, const int8_t *x, void *scratch,
                              const aot_esp_nn_softmax_params *p);

/* The same, for a library with assembly: what it takes of the stack is not
 * known. */
#define aot_esp_nn_conv__asm aot_esp_nn_conv
#define aot_esp_nn_depthwise__asm aot_esp_nn_depthwise
#define aot_esp_nn_dense__asm aot_esp_nn_dense
#define aot_esp_nn_dense_channels__asm aot_esp_nn_dense_channels
#define aot_esp_nn_average__asm aot_esp_nn_average
#define aot_esp_nn_maximum__asm aot_esp_nn_maximum
#define aot_esp_nn_add__asm aot_esp_nn_add
#define aot_esp_nn_mul__asm aot_esp_nn_mul
#define aot_esp_nn_softmax__asm aot_esp_nn_softmax
typedef aot_esp_nn_conv_params aot_esp_nn_conv__asm_params;
typedef aot_esp_nn_depthwise_params aot_esp_nn_depthwise__asm_params;
typedef aot_esp_nn_dense_params aot_esp_nn_dense__asm_params;
typedef aot_esp_nn_dense_channels_params aot_esp_nn_dense_channels__asm_params;
typedef aot_esp_nn_average_params aot_esp_nn_average__asm_params;
typedef aot_esp_nn_maximum_params aot_esp_nn_maximum__asm_params;
typedef aot_esp_nn_add_params aot_esp_nn_add__asm_params;
typedef aot_esp_nn_mul_params aot_esp_nn_mul__asm_params;
typedef aot_esp_nn_softmax_params aot_esp_nn_softmax__asm_params;

#endif /* AOT_ESP_NN_H */
