/* SPDX-License-Identifier: MIT-0 */
#ifndef ACME_H
#define ACME_H

#include <stdint.h>

#include "aot/aot.h"

typedef struct acme_open_params {
    int32_t bytes;
} acme_open_params;

/* A session of the engine for a plan of p->bytes bytes, which stays where it is. AOT_VENDOR if the
 * engine makes none. */
aot_status acme_open(void **slots, const void *plan, const acme_open_params *p);
void acme_close(void **slots);

/* Computes a region; tensors that the region lacks are NULL. */
aot_status acme_run(void **slots, void *y0, void *y1, void *y2, void *y3, const void *x0,
                    const void *x1, const void *x2, const void *x3);

#endif
