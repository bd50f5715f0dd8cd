/* SPDX-License-Identifier: MIT-0 */
/* Calls of the user's ESP-NN; see aot_esp_nn.h. */
#include "aot_esp_nn.h"

#include "esp_nn.h"

static data_dims_t dims(const int32_t *extents) {
  const data_dims_t made = {extents[2], extents[1], extents[3], 1};
  return made;
}

static data_2d_t pair(const int32_t *values) {
  const data_2d_t made = {values[1], values[0]};
  return made;
}

/* Elements of one image. */
static int32_t image(const int32_t *extents) {
  return extents[1] * extents[2] * extents[3];
}

/* The library's types have no const; it writes to none of these. */
static quant_data_t scales(const int32_t *mult, const int32_t *shift) {
  const quant_data_t made = {(int32_t *)(uintptr_t)shift,
                             (int32_t *)(uintptr_t)mult};
  return made;
}

aot_status aot_esp_nn_conv(int8_t *y, const int8_t *x, const int8_t *w,
                           const int32_t *bias, const int32_t *mult,
                           const int32_t *shift, void *scratch,
                           const aot_esp_nn_conv_params *p) {
  const data_dims_t xd = dims(p->x), wd = dims(p->w), yd = dims(p->y);
  const data_2d_t one = {1, 1};
  const conv_params_t how = {p->x_offset,  p->y_offset, pair(p->stride),
                             pair(p->pad), one,         {p->low, p->high}};
  const quant_data_t quant = scales(mult, shift);
  int32_t n;
  if (esp_nn_get_conv_scratch_size(&xd, &wd, &yd, &how) > p->bytes)
    return AOT_VENDOR;
  esp_nn_set_conv_scratch_buf(scratch);
  for (n = 0; n < p->x[0]; ++n)
    esp_nn_conv_s8(&xd, x + n * image(p->x), &wd, w, bias, &yd,
                   y + n * image(p->y), &how, &quant);
  return AOT_OK;
}

aot_status aot_esp_nn_depthwise(int8_t *y, const int8_t *x, const int8_t *w,
                                const int32_t *bias, const int32_t *mult,
                                const int32_t *shift, void *scratch,
                                const aot_esp_nn_depthwise_params *p) {
  const data_dims_t xd = dims(p->x), wd = dims(p->w), yd = dims(p->y);
  const data_2d_t one = {1, 1};
  const dw_conv_params_t how = {
      p->x_offset,  p->y_offset, p->y[3] / p->x[3], pair(p->stride),
      pair(p->pad), one,         {p->low, p->high}};
  const quant_data_t quant = scales(mult, shift);
  int32_t n;
  if (esp_nn_get_depthwise_conv_scratch_size(&xd, &wd, &yd, &how) > p->bytes)
    return AOT_VENDOR;
  esp_nn_set_depthwise_conv_scratch_buf(scratch);
  for (n = 0; n < p->x[0]; ++n)
    esp_nn_depthwise_conv_s8(&xd, x + n * image(p->x), &wd, w, bias, &yd,
                             y + n * image(p->y), &how, &quant);
  return AOT_OK;
}

aot_status aot_esp_nn_dense(int8_t *y, const int8_t *x, const int8_t *w,
                            const int32_t *bias,
                            const aot_esp_nn_dense_params *p) {
  int32_t n;
  for (n = 0; n < p->rows; ++n)
    esp_nn_fully_connected_s8(x + n * p->depth, p->x_offset, (uint16_t)p->depth,
                              w, 0, bias, y + n * p->channels,
                              (uint16_t)p->channels, p->y_offset, p->shift,
                              p->mult, p->low, p->high);
  return AOT_OK;
}

aot_status
aot_esp_nn_dense_channels(int8_t *y, const int8_t *x, const int8_t *w,
                          const int32_t *bias, const int32_t *mult,
                          const int32_t *shift,
                          const aot_esp_nn_dense_channels_params *p) {
  int32_t n;
  for (n = 0; n < p->rows; ++n)
    esp_nn_fully_connected_per_ch_s8(x + n * p->depth, p->x_offset,
                                     (uint16_t)p->depth, w, 0, bias,
                                     y + n * p->channels, (uint16_t)p->channels,
                                     p->y_offset, shift, mult, p->low, p->high);
  return AOT_OK;
}

#define POOL(NAME, FUNCTION)                                                   \
  aot_status NAME(int8_t *y, const int8_t *x,                                  \
                  const aot_esp_nn_pool_params *p) {                           \
    int32_t n;                                                                 \
    for (n = 0; n < p->x[0]; ++n)                                              \
      FUNCTION(x + n * image(p->x), (uint16_t)p->x[2], (uint16_t)p->x[1],      \
               y + n * image(p->y), (uint16_t)p->y[2], (uint16_t)p->y[1],      \
               (uint16_t)p->stride[1], (uint16_t)p->stride[0],                 \
               (uint16_t)p->window[1], (uint16_t)p->window[0],                 \
               (uint16_t)p->pad[1], (uint16_t)p->pad[0], p->low, p->high,      \
               (uint16_t)p->x[3]);                                             \
    return AOT_OK;                                                             \
  }
POOL(aot_esp_nn_average, esp_nn_avg_pool_s8)
POOL(aot_esp_nn_maximum, esp_nn_max_pool_s8)

aot_status aot_esp_nn_add(int8_t *y, const int8_t *a, const int8_t *b,
                          const aot_esp_nn_add_params *p) {
  esp_nn_add_elementwise_s8(a, b, p->a_offset, p->b_offset, p->a_mult,
                            p->b_mult, p->a_shift, p->b_shift, p->left, y,
                            p->y_offset, p->y_mult, p->y_shift, p->low, p->high,
                            p->n);
  return AOT_OK;
}

aot_status aot_esp_nn_mul(int8_t *y, const int8_t *a, const int8_t *b,
                          const aot_esp_nn_mul_params *p) {
  esp_nn_mul_elementwise_s8(a, b, p->a_offset, p->b_offset, y, p->y_offset,
                            p->mult, p->shift, p->low, p->high, p->n);
  return AOT_OK;
}

aot_status aot_esp_nn_softmax(int8_t *y, const int8_t *x, void *scratch,
                              const aot_esp_nn_softmax_params *p) {
  if (esp_nn_get_softmax_scratch_size(p->size, p->rows) > p->bytes)
    return AOT_VENDOR;
  esp_nn_set_softmax_scratch_buf(scratch);
  esp_nn_softmax_s8(x, p->rows, p->size, p->mult, p->shift, p->least, y);
  return AOT_OK;
}
