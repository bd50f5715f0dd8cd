/* SPDX-License-Identifier: MIT-0 */
/* Parameters of the int8 convolutions and matrix products, the same for every variant.
 *
 * Convolutions: x [n][ih][iw][ic], y [n][oh][ow][oc]; x_zero and y_zero are zero points, lo and hi
 * bounds of the quantised values stored. Rows y0..y1-1 of the output are computed; x points at
 * image row x_row0, y at output row y_row0. bias[oc] contains -x_zero * (sum of the channel's
 * weights). Pixels of y are `step` values apart: oc, or more where some of the channels are made.
 */
#ifndef AOT_QCONV_S8_PARAMS_H
#define AOT_QCONV_S8_PARAMS_H

#include <stdint.h>

#include "aot_rows.h"

typedef struct {
    int32_t n, ic, ih, iw, oc, oh, ow;
    int32_t kh, kw, sh, sw, dh, dw, pt, pl;
    int32_t x_zero, y_zero, lo, hi, step;
    int32_t y0, y1, x_row0, y_row0;
} aot_qconv_s8_params;

typedef aot_qconv_s8_params aot_qdwconv_s8_params;

/* y[m][n] = x[m][k] * w[n][k]. */
typedef struct {
    int32_t m, k, n;
    int32_t x_zero, y_zero, lo, hi;
} aot_qfc_s8_params;

#endif /* AOT_QCONV_S8_PARAMS_H */
