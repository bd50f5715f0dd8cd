/* SPDX-License-Identifier: MIT-0 */
/* A stand-in for the chip's driver: replace it by calls of the real one. */
#include "acme.h"

void acme_add(float *y, const float *a, const float *b, const acme_add_params *p) {
    int32_t i;
    for (i = 0; i < p->n; ++i) {
        const float sum = a[i] + b[i];
        y[i] = p->relu && sum < 0.0F ? 0.0F : sum;
    }
}
