/* SPDX-License-Identifier: MIT-0 */
/* Products and convolutions by a BLAS. Row-major, float32. The library may use threads and memory
 * of its own. */
#ifndef AOT_CBLAS_H
#define AOT_CBLAS_H

#include <stdint.h>

typedef struct aot_cblas_product_params {
    int32_t batch;
    int32_t m;
    int32_t n;
    int32_t k;
    int32_t step_a; /* elements from one matrix of the batch to the next */
    int32_t step_b;
    int32_t transposed_a; /* a is [k, m] */
    int32_t transposed_b; /* b is [n, k] */
    int32_t relu;
    float alpha;
} aot_cblas_product_params;

/* y[batch, m, n] = alpha * a[batch, m, k] * b[batch, k, n] + bias[n] (NULL: none). */
void aot_cblas_product(float *y, const float *a, const float *b, const float *bias,
                       const aot_cblas_product_params *p);

typedef struct aot_cblas_conv_params {
    int32_t n;
    int32_t ci;
    int32_t h;
    int32_t w;
    int32_t co;
    int32_t oh;
    int32_t ow;
    int32_t kh;
    int32_t kw;
    int32_t rows; /* output rows computed at a time */
    int32_t sh;
    int32_t sw;
    int32_t dh;
    int32_t dw;
    int32_t pt;
    int32_t pl;
    int32_t relu;
} aot_cblas_conv_params;

/* y[n, co, oh, ow] = x[n, ci, h, w] * w[co, ci, kh, kw] + bias[co] (NULL: none).
 * `columns` has ci * kh * kw * rows * ow floats; NULL for a kernel of one element, stride 1 and no
 * pads, with rows = oh. */
void aot_cblas_conv(float *y, const float *x, const float *w, const float *bias, float *columns,
                    const aot_cblas_conv_params *p);

#endif
