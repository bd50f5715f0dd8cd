/* SPDX-License-Identifier: MIT-0 */
#include "csource.h"

static float apply(int32_t op, float a, float b) {
    return op == 0 ? a + b : op == 1 ? a - b : a * b;
}

void csource_run(float *y, const float *a, const float *b, const float *c,
                 const csource_run_params *p) {
    int32_t i;
    for (i = 0; i < p->n; ++i) {
        const float v = apply(p->first, a[i], b[i]);
        y[i] = p->second < 0 ? v : apply(p->second, v, c[i]);
    }
}
