/* SPDX-License-Identifier: MIT-0 */
/* Prints what the library's own functions say of scratch, for numbers on
 * standard input: extents of x, weights and y, strides, pads, filters per
 * channel. SIZES is the text of these functions. */
#include <stdint.h>
#include <stdio.h>

#include "esp_nn_defs.h"

#define max(a, b) ((a) > (b) ? (a) : (b))
#define L1D_BUDGET 32768
#include SIZES

int main(void) {
  int v[17];
  for (;;) {
    int i;
    for (i = 0; i < 17; ++i)
      if (scanf("%d", v + i) != 1)
        return 0;
    {
      const data_dims_t x = {v[2], v[1], v[3], 1}, w = {v[6], v[5], v[7], 1};
      const data_dims_t y = {v[10], v[9], v[11], 1};
      const conv_params_t c = {0,      0,     {v[13], v[12]}, {v[15], v[14]},
                               {1, 1}, {0, 0}};
      const dw_conv_params_t d = {
          0, 0, v[16], {v[13], v[12]}, {v[15], v[14]}, {1, 1}, {0, 0}};
      printf("%d %d %d\n", esp_nn_get_conv_scratch_size_esp32s3(&x, &w, &y, &c),
             esp_nn_get_conv_scratch_size_esp32p4(&x, &w, &y, &c),
             esp_nn_get_depthwise_conv_scratch_size_esp32s3(&x, &w, &y, &d));
    }
  }
}
