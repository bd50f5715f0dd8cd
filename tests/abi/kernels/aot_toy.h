/* SPDX-License-Identifier: MIT-0 */
/* Kernels simple enough to check the emitted project by hand. */
#ifndef AOT_TOY_H
#define AOT_TOY_H

#include <stddef.h>
#include <stdint.h>

#include "aot/aot.h"
#include "aot/port.h"

typedef struct aot_toy_dense_params {
    int32_t n, k;
    float scale;
} aot_toy_dense_params;

/* y[n] = scale * (x[k] . w[n][k]) + b[n], clamped at 0 when RELU; b may be NULL. */
AOT_INLINE void aot_toy_dense(float *y, const float *x, const float *w, const float *b,
                              const aot_toy_dense_params *p, int RELU) {
    for (int32_t i = 0; i < p->n; ++i) {
        float sum = 0.0F;
        for (int32_t j = 0; j < p->k; ++j)
            sum += x[j] * w[i * p->k + j];
        sum = sum * p->scale + (b != NULL ? b[i] : 0.0F);
        y[i] = RELU && sum < 0.0F ? 0.0F : sum;
    }
}

typedef struct aot_toy_sum_params {
    int64_t n;
    double bias[2];
    float limit;
} aot_toy_sum_params;

/* y[n] = min(a + b + bias[0] + bias[1], limit); y may be a. scratch: n doubles. */
AOT_INLINE aot_status aot_toy_sum(float *y, const float *a, const float *b, void *scratch,
                                  const aot_toy_sum_params *p) {
    double *t = (double *)scratch;
    if (p->n < 0)
        return AOT_VENDOR;
    for (int64_t i = 0; i < p->n; ++i)
        t[i] = (double)a[i] + (double)b[i] + p->bias[0] + p->bias[1];
    for (int64_t i = 0; i < p->n; ++i)
        y[i] = (float)t[i] < p->limit ? (float)t[i] : p->limit;
    return AOT_OK;
}

/* y = x + add, for one int64. */
AOT_INLINE void aot_toy_count(int64_t *y, const int64_t *x, int64_t add) {
    *y = *x + add;
}

/* y = x, but reads one element too many. */
AOT_INLINE void aot_toy_overread(float *y, const float *x, int32_t n) {
    float sum = 0.0F;
    for (int32_t i = 0; i <= n; ++i)
        sum += x[i];
    y[0] = sum;
}

/* Fails on purpose. */
AOT_INLINE aot_status aot_toy_fail(float *y, const float *x) {
    (void)y;
    (void)x;
    return AOT_VENDOR;
}

#endif
