/* SPDX-License-Identifier: MIT-0 */
/* Instructions of CMSIS-NN's int16 layers with int8 weights, one line each: see int16.py, which
 * writes layers.h and links this with the start-up code of a bundle. */
#include "arm_nnfunctions.h"
#include "board.h"

typedef struct {
    int kind; /* 0 convolution, 1 depthwise, 2 matrix product */
    int32_t ic, ih, iw, oc, oh, ow, kh, kw, sh, sw, ph, pw;
} layer;

static const layer layers[] = {
#include "layers.h"
};

#define VALUES 37000
#define WEIGHTS 90000
#define CHANNELS 1024
static int16_t x[VALUES], y[VALUES];
static int8_t w[WEIGHTS];
static int64_t wide_bias[CHANNELS];
static int32_t bias[CHANNELS], mult[CHANNELS], shift[CHANNELS];
static int64_t scratch[8192];

/* Whether the operands of a layer have room. */
static int fits(const layer *l) {
    const int32_t depth = l->kh * l->kw * (l->kind == 1 ? 1 : l->ic);
    return l->ih * l->iw * l->ic <= VALUES && l->oh * l->ow * l->oc <= VALUES &&
           depth * l->oc <= WEIGHTS && l->oc <= CHANNELS && 64 * depth <= (int32_t)sizeof scratch;
}

static arm_cmsis_nn_status run(const layer *l) {
    const cmsis_nn_dims xd = {1, l->ih, l->iw, l->ic}, yd = {1, l->oh, l->ow, l->oc};
    const cmsis_nn_dims bd = {1, 1, 1, l->oc};
    const cmsis_nn_dims wd = {l->kind == 0 ? l->oc : 1, l->kh, l->kw, l->kind == 0 ? l->ic : l->oc};
    const cmsis_nn_per_channel_quant_params quant = {mult, shift};
    const cmsis_nn_context ctx = {scratch, (int32_t)sizeof scratch};
    const cmsis_nn_activation limits = {-32768, 32767};
    if (l->kind == 2) {
        const cmsis_nn_dims rows = {1, 1, 1, l->ic}, table = {l->ic, 1, 1, l->oc};
        const cmsis_nn_fc_params fc = {0, 0, 0, limits};
        const cmsis_nn_per_tensor_quant_params one = {mult[0], shift[0]};
        return arm_fully_connected_s16(&ctx, &fc, &one, &rows, x, &table, w, &bd, wide_bias, &yd,
                                       y);
    }
    if (l->kind == 1) {
        const cmsis_nn_dw_conv_params deep = {
            0, 0, 1, {l->sw, l->sh}, {l->pw, l->ph}, {1, 1}, limits};
        return arm_depthwise_conv_wrapper_s16(&ctx, &deep, &quant, &xd, x, &wd, w, &bd, wide_bias,
                                              &yd, y);
    } else {
        const cmsis_nn_conv_params conv = {0, 0, {l->sw, l->sh}, {l->pw, l->ph}, {1, 1}, limits};
        const cmsis_nn_bias_data data = {bias, true};
        return arm_convolve_wrapper_s16(&ctx, &conv, &quant, &xd, x, &wd, w, &bd, &data, &yd, y);
    }
}

int main(void) {
    size_t i;
    for (i = 0; i < VALUES; ++i) {
        x[i] = (int16_t)(i * 2654435761U >> 16);
    }
    for (i = 0; i < WEIGHTS; ++i) {
        w[i] = (int8_t)(i * 40503U >> 8);
    }
    for (i = 0; i < CHANNELS; ++i) {
        mult[i] = 0x5A000000 + (int32_t)i;
        shift[i] = -9;
    }
    for (i = 0; i < sizeof layers / sizeof *layers; ++i) {
        aot_count_start();
        if (!fits(&layers[i]) || run(&layers[i]) != ARM_CMSIS_NN_SUCCESS) {
            return 1;
        }
        aot_print_decimal((uint32_t)aot_count());
        aot_print("\n");
    }
    return 0;
}
