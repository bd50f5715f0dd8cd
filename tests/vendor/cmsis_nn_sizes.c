/* SPDX-License-Identifier: MIT-0 */
/* What the library says its functions want: for every line of extents the sizes of a convolution
 * and of a depthwise one of s8, s4 and s16 in plain C, with DSP instructions and with Helium; then
 * of a transposed convolution in plain C, with Helium, and for turned weights. */
#include <stdio.h>

#include "arm_nnfunctions.h"

#define SIZES(s)                                                                                   \
    printf("%d %d %d %d %d %d ", arm_convolve_wrapper_##s##_get_buffer_size(&p, &x, &w, &y),       \
           arm_convolve_wrapper_##s##_get_buffer_size_dsp(&p, &x, &w, &y),                         \
           arm_convolve_wrapper_##s##_get_buffer_size_mve(&p, &x, &w, &y),                         \
           arm_depthwise_conv_wrapper_##s##_get_buffer_size(&d, &x, &filters, &y),                 \
           arm_depthwise_conv_wrapper_##s##_get_buffer_size_dsp(&d, &x, &filters, &y),             \
           arm_depthwise_conv_wrapper_##s##_get_buffer_size_mve(&d, &x, &filters, &y))

int main(void) {
    cmsis_nn_dims x, w, y;
    cmsis_nn_conv_params p = {0};
    cmsis_nn_dw_conv_params d = {0};
    cmsis_nn_transpose_conv_params t = {0};
    while (scanf("%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d%d", &x.n, &x.h, &x.w, &x.c, &w.n, &w.h, &w.w,
                 &w.c, &y.n, &y.h, &y.w, &y.c, &p.stride.h, &p.stride.w, &p.padding.h, &p.padding.w,
                 &p.dilation.h, &p.dilation.w) == 18) {
        const cmsis_nn_dims filters = {1, w.h, w.w, y.c};
        d.stride = t.stride = p.stride;
        d.padding = p.padding;
        d.dilation = p.dilation;
        d.ch_mult = y.c / x.c;
        SIZES(s8);
        SIZES(s4);
        SIZES(s16);
        printf("%d %d %d\n", arm_transpose_conv_s8_get_buffer_size(&t, &x, &w, &y),
               arm_transpose_conv_s8_get_buffer_size_mve(&t, &x, &w, &y),
               arm_transpose_conv_s8_get_reverse_conv_buffer_size(&t, &x, &w));
    }
    return 0;
}
