/* SPDX-License-Identifier: MIT-0 */
#ifndef ACME_H
#define ACME_H

#include <stdint.h>

#include "aot/aot.h"

typedef struct acme_create_params {
    int32_t n;
    int32_t relu;
} acme_create_params;

/* An object of the library for sums of p->n elements. AOT_VENDOR if the library makes none. */
aot_status acme_create(void **slots, const acme_create_params *p);
void acme_destroy(void **slots);

/* y = a + b, negative results cut to zero if the object was made so. */
aot_status acme_run(void **slots, float *y, const float *a, const float *b);

#endif
