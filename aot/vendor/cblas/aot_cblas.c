/* SPDX-License-Identifier: MIT-0 */
#include "aot_cblas.h"

#include <cblas.h>
#include <stddef.h>
#include <string.h>

static void rectify(float *y, size_t n) {
    size_t i;
    for (i = 0; i < n; ++i)
        if (y[i] < 0.0F)
            y[i] = 0.0F;
}

void aot_cblas_product(float *y, const float *a, const float *b, const float *bias,
                       const aot_cblas_product_params *p) {
    const size_t size = (size_t)p->m * (size_t)p->n;
    int32_t i, r;
    for (i = 0; i < p->batch; ++i) {
        float *out = y + (size_t)i * size;
        if (bias != NULL)
            for (r = 0; r < p->m; ++r)
                memcpy(out + (size_t)r * (size_t)p->n, bias, (size_t)p->n * sizeof(float));
        cblas_sgemm(CblasRowMajor, p->transposed_a ? CblasTrans : CblasNoTrans,
                    p->transposed_b ? CblasTrans : CblasNoTrans, p->m, p->n, p->k, p->alpha,
                    a + (size_t)i * (size_t)p->step_a, p->transposed_a ? p->m : p->k,
                    b + (size_t)i * (size_t)p->step_b, p->transposed_b ? p->k : p->n,
                    bias != NULL ? 1.0F : 0.0F, out, p->n);
        if (p->relu)
            rectify(out, size);
    }
}

/* One row of the unfolded image: what element (ky, kx) of the kernel meets of `image` in output
 * rows first .. first + rows - 1. */
static void unfold(float *to, const float *image, int32_t ky, int32_t kx, int32_t first,
                   int32_t rows, const aot_cblas_conv_params *p) {
    int32_t oy, ox;
    for (oy = first; oy < first + rows; ++oy) {
        const int32_t iy = oy * p->sh - p->pt + ky * p->dh;
        for (ox = 0; ox < p->ow; ++ox) {
            const int32_t ix = ox * p->sw - p->pl + kx * p->dw;
            const int inside = iy >= 0 && iy < p->h && ix >= 0 && ix < p->w;
            *to++ = inside ? image[(ptrdiff_t)iy * p->w + ix] : 0.0F;
        }
    }
}

static void unfold_all(float *to, const float *x, int32_t first, int32_t rows,
                       const aot_cblas_conv_params *p) {
    const size_t length = (size_t)rows * (size_t)p->ow;
    int32_t c, ky, kx;
    for (c = 0; c < p->ci; ++c)
        for (ky = 0; ky < p->kh; ++ky)
            for (kx = 0; kx < p->kw; ++kx) {
                unfold(to, x + (ptrdiff_t)c * p->h * p->w, ky, kx, first, rows, p);
                to += length;
            }
}

/* The rows first .. first + rows - 1 of one image. */
static void some_rows(float *y, const float *x, const float *w, const float *bias, float *columns,
                      int32_t first, int32_t rows, const aot_cblas_conv_params *p) {
    const int32_t k = p->ci * p->kh * p->kw, length = rows * p->ow, plane = p->oh * p->ow;
    float *out = y + (ptrdiff_t)first * p->ow;
    int32_t c, i;
    if (columns != NULL)
        unfold_all(columns, x, first, rows, p);
    for (c = 0; c < p->co; ++c)
        for (i = 0; bias != NULL && i < length; ++i)
            out[(ptrdiff_t)c * plane + i] = bias[c];
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, p->co, length, k, 1.0F, w, k,
                columns != NULL ? columns : x, columns != NULL ? length : plane,
                bias != NULL ? 1.0F : 0.0F, out, plane);
    for (c = 0; p->relu && c < p->co; ++c)
        rectify(out + (ptrdiff_t)c * plane, (size_t)length);
}

void aot_cblas_conv(float *y, const float *x, const float *w, const float *bias, float *columns,
                    const aot_cblas_conv_params *p) {
    const ptrdiff_t in = (ptrdiff_t)p->ci * p->h * p->w, out = (ptrdiff_t)p->co * p->oh * p->ow;
    int32_t i, first;
    for (i = 0; i < p->n; ++i)
        for (first = 0; first < p->oh; first += p->rows) {
            const int32_t left = p->oh - first;
            some_rows(y + i * out, x + i * in, w, bias, columns, first,
                      left < p->rows ? left : p->rows, p);
        }
}
