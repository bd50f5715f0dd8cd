/* SPDX-License-Identifier: MIT-0 */
/* Each function by one of the stand-in for CMSIS-NN, whose names stay within
 * this file's objects. */
#include "esp_nn.h"

#include <string.h>

#include "arm_nnfunctions.h"

#ifndef STANDIN_BYTES
#define STANDIN_BYTES 0
#endif

static void *conv, *depthwise_conv, *powers;

static cmsis_nn_dims dims(const data_dims_t *d, int32_t n) {
  const cmsis_nn_dims made = {n, d->height, d->width, d->channels};
  return made;
}

#define TILE(PAIR)                                                             \
  { (PAIR).width, (PAIR).height }

int esp_nn_get_conv_scratch_size(const data_dims_t *xd, const data_dims_t *wd,
                                 const data_dims_t *yd,
                                 const conv_params_t *p) {
  (void)xd, (void)wd, (void)yd, (void)p;
  return STANDIN_BYTES;
}

int esp_nn_get_depthwise_conv_scratch_size(const data_dims_t *xd,
                                           const data_dims_t *wd,
                                           const data_dims_t *yd,
                                           const dw_conv_params_t *p) {
  (void)xd, (void)wd, (void)yd, (void)p;
  return STANDIN_BYTES;
}

void esp_nn_set_conv_scratch_buf(const void *buf) {
  conv = (void *)(uintptr_t)buf;
}

void esp_nn_set_depthwise_conv_scratch_buf(const void *buf) {
  depthwise_conv = (void *)(uintptr_t)buf;
}

/* The other library's plain C wants one column of a window, which this one has
 * of its own. */
static int32_t column[2048];

void esp_nn_conv_s8(const data_dims_t *xd, const int8_t *x,
                    const data_dims_t *wd, const int8_t *w, const int32_t *bias,
                    const data_dims_t *yd, int8_t *y, const conv_params_t *p,
                    const quant_data_t *quant) {
  const cmsis_nn_dims x4 = dims(xd, 1), w4 = dims(wd, yd->channels),
                      y4 = dims(yd, 1);
  const cmsis_nn_dims b4 = {1, 1, 1, yd->channels};
  const cmsis_nn_conv_params how = {
      p->in_offset,      p->out_offset,
      TILE(p->stride),   TILE(p->padding),
      TILE(p->dilation), {p->activation.min, p->activation.max}};
  const cmsis_nn_per_channel_quant_params scales = {quant->mult, quant->shift};
  const cmsis_nn_context ctx = {column, sizeof column};
  (void)arm_convolve_wrapper_s8(&ctx, &how, &scales, &x4, x, &w4, w, &b4, bias,
                                &y4, y);
}

void esp_nn_depthwise_conv_s8(const data_dims_t *xd, const int8_t *x,
                              const data_dims_t *wd, const int8_t *w,
                              const int32_t *bias, const data_dims_t *yd,
                              int8_t *y, const dw_conv_params_t *p,
                              const quant_data_t *quant) {
  const cmsis_nn_dims x4 = dims(xd, 1), y4 = dims(yd, 1);
  const cmsis_nn_dims w4 = {1, wd->height, wd->width, yd->channels},
                      b4 = {1, 1, 1, yd->channels};
  const cmsis_nn_dw_conv_params how = {p->in_offset,
                                       p->out_offset,
                                       p->ch_mult,
                                       TILE(p->stride),
                                       TILE(p->padding),
                                       TILE(p->dilation),
                                       {p->activation.min, p->activation.max}};
  const cmsis_nn_per_channel_quant_params scales = {quant->mult, quant->shift};
  const cmsis_nn_context ctx = {column, sizeof column};
  (void)arm_depthwise_conv_wrapper_s8(&ctx, &how, &scales, &x4, x, &w4, w, &b4,
                                      bias, &y4, y);
}

static const cmsis_nn_context none = {NULL, 0};

void esp_nn_fully_connected_s8(const int8_t *x, int32_t x_offset,
                               uint16_t depth, const int8_t *w,
                               int32_t w_offset, const int32_t *bias, int8_t *y,
                               uint16_t channels, int32_t y_offset,
                               int32_t shift, int32_t mult, int32_t low,
                               int32_t high) {
  const cmsis_nn_dims xd = {1, 1, 1, depth}, wd = {depth, 1, 1, channels};
  const cmsis_nn_dims yd = {1, 1, 1, channels};
  const cmsis_nn_fc_params how = {x_offset, w_offset, y_offset, {low, high}};
  const cmsis_nn_per_tensor_quant_params scale = {mult, shift};
  (void)arm_fully_connected_s8(&none, &how, &scale, &xd, x, &wd, w, &yd, bias,
                               &yd, y);
}

void esp_nn_fully_connected_per_ch_s8(const int8_t *x, int32_t x_offset,
                                      uint16_t depth, const int8_t *w,
                                      int32_t w_offset, const int32_t *bias,
                                      int8_t *y, uint16_t channels,
                                      int32_t y_offset, const int32_t *shift,
                                      const int32_t *mult, int32_t low,
                                      int32_t high) {
  int32_t i;
  for (i = 0; i < channels; ++i)
    esp_nn_fully_connected_s8(x, x_offset, depth, w + i * depth, w_offset,
                              bias + i, y + i, 1, y_offset, shift[i], mult[i],
                              low, high);
}

#define POOL(NAME, FUNCTION)                                                   \
  void esp_nn_##NAME##_pool_s8(const int8_t *x, uint16_t xw, uint16_t xh,      \
                               int8_t *y, uint16_t yw, uint16_t yh,            \
                               uint16_t sw, uint16_t sh, uint16_t kw,          \
                               uint16_t kh, uint16_t pw, uint16_t ph,          \
                               int32_t low, int32_t high, uint16_t channels) { \
    const cmsis_nn_dims xd = {1, xh, xw, channels}, wd = {1, kh, kw, 1};       \
    const cmsis_nn_dims yd = {1, yh, yw, channels};                            \
    const cmsis_nn_pool_params how = {{sw, sh}, {pw, ph}, {low, high}};        \
    (void)FUNCTION(&none, &how, &xd, x, &wd, &yd, y);                          \
  }
POOL(avg, arm_avgpool_s8)
POOL(max, arm_max_pool_s8)

void esp_nn_add_elementwise_s8(const int8_t *a, const int8_t *b,
                               int32_t a_offset, int32_t b_offset,
                               int32_t a_mult, int32_t b_mult, int32_t a_shift,
                               int32_t b_shift, int32_t left, int8_t *y,
                               int32_t y_offset, int32_t y_mult,
                               int32_t y_shift, int32_t low, int32_t high,
                               int32_t n) {
  (void)arm_elementwise_add_s8(a, b, a_offset, a_mult, a_shift, b_offset,
                               b_mult, b_shift, left, y, y_offset, y_mult,
                               y_shift, low, high, n);
}

void esp_nn_mul_elementwise_s8(const int8_t *a, const int8_t *b,
                               int32_t a_offset, int32_t b_offset, int8_t *y,
                               int32_t y_offset, int32_t mult, int32_t shift,
                               int32_t low, int32_t high, int32_t n) {
  (void)arm_elementwise_mul_s8(a, b, a_offset, b_offset, y, y_offset, mult,
                               shift, low, high, n);
}

int32_t esp_nn_get_softmax_scratch_size(int32_t size, int32_t rows) {
  (void)rows;
  return 4 * size + STANDIN_BYTES;
}

void esp_nn_set_softmax_scratch_buf(void *buf) { powers = buf; }

/* Overwrites the scratch, and gives zeros where there is none. */
void esp_nn_softmax_s8(const int8_t *x, int32_t rows, int32_t size,
                       int32_t mult, int32_t shift, int32_t least, int8_t *y) {
  if (powers == NULL) {
    (void)memset(y, 0, (size_t)(rows * size));
    return;
  }
  (void)memset(powers, 0x5A, 4 * (size_t)size);
  arm_softmax_s8(x, rows, size, mult, shift, least, y);
}
