/* SPDX-License-Identifier: MIT-0 */
/* A stand-in for ESP-NN: the names and signatures that aotc calls. It computes
 * what TensorFlow Lite does, by the stand-in for CMSIS-NN. STANDIN_BYTES more
 * bytes of scratch are asked for. */
#ifndef ESP_NN_STANDIN_H
#define ESP_NN_STANDIN_H

#include <stdint.h>

typedef struct data_dims {
  int32_t width, height, channels, extra;
} data_dims_t;
typedef struct data_2d {
  int32_t width, height;
} data_2d_t;
typedef struct act_params {
  int32_t min, max;
} act_params_t;
typedef struct quant_data {
  int32_t *shift, *mult;
} quant_data_t;
typedef struct conv_params {
  int32_t in_offset, out_offset;
  data_2d_t stride, padding, dilation;
  act_params_t activation;
} conv_params_t;
typedef struct dw_conv_params {
  int32_t in_offset, out_offset, ch_mult;
  data_2d_t stride, padding, dilation;
  act_params_t activation;
} dw_conv_params_t;

int esp_nn_get_conv_scratch_size(const data_dims_t *xd, const data_dims_t *wd,
                                 const data_dims_t *yd, const conv_params_t *p);
void esp_nn_set_conv_scratch_buf(const void *buf);
void esp_nn_conv_s8(const data_dims_t *xd, const int8_t *x,
                    const data_dims_t *wd, const int8_t *w, const int32_t *bias,
                    const data_dims_t *yd, int8_t *y, const conv_params_t *p,
                    const quant_data_t *quant);
int esp_nn_get_depthwise_conv_scratch_size(const data_dims_t *xd,
                                           const data_dims_t *wd,
                                           const data_dims_t *yd,
                                           const dw_conv_params_t *p);
void esp_nn_set_depthwise_conv_scratch_buf(const void *buf);
void esp_nn_depthwise_conv_s8(const data_dims_t *xd, const int8_t *x,
                              const data_dims_t *wd, const int8_t *w,
                              const int32_t *bias, const data_dims_t *yd,
                              int8_t *y, const dw_conv_params_t *p,
                              const quant_data_t *quant);

void esp_nn_fully_connected_s8(const int8_t *x, int32_t x_offset,
                               uint16_t depth, const int8_t *w,
                               int32_t w_offset, const int32_t *bias, int8_t *y,
                               uint16_t channels, int32_t y_offset,
                               int32_t shift, int32_t mult, int32_t low,
                               int32_t high);
void esp_nn_fully_connected_per_ch_s8(const int8_t *x, int32_t x_offset,
                                      uint16_t depth, const int8_t *w,
                                      int32_t w_offset, const int32_t *bias,
                                      int8_t *y, uint16_t channels,
                                      int32_t y_offset, const int32_t *shift,
                                      const int32_t *mult, int32_t low,
                                      int32_t high);

#define POOL(NAME)                                                             \
  void esp_nn_##NAME##_pool_s8(                                                \
      const int8_t *x, uint16_t xw, uint16_t xh, int8_t *y, uint16_t yw,       \
      uint16_t yh, uint16_t sw, uint16_t sh, uint16_t kw, uint16_t kh,         \
      uint16_t pw, uint16_t ph, int32_t low, int32_t high, uint16_t channels);
POOL(avg)
POOL(max)
#undef POOL

void esp_nn_add_elementwise_s8(const int8_t *a, const int8_t *b,
                               int32_t a_offset, int32_t b_offset,
                               int32_t a_mult, int32_t b_mult, int32_t a_shift,
                               int32_t b_shift, int32_t left, int8_t *y,
                               int32_t y_offset, int32_t y_mult,
                               int32_t y_shift, int32_t low, int32_t high,
                               int32_t n);
void esp_nn_mul_elementwise_s8(const int8_t *a, const int8_t *b,
                               int32_t a_offset, int32_t b_offset, int8_t *y,
                               int32_t y_offset, int32_t mult, int32_t shift,
                               int32_t low, int32_t high, int32_t n);

int32_t esp_nn_get_softmax_scratch_size(int32_t size, int32_t rows);
void esp_nn_set_softmax_scratch_buf(void *buf);
void esp_nn_softmax_s8(const int8_t *x, int32_t rows, int32_t size,
                       int32_t mult, int32_t shift, int32_t least, int8_t *y);

#endif
