/* SPDX-License-Identifier: MIT-0 */
#ifndef CSOURCE_H
#define CSOURCE_H

#include <stdint.h>

typedef struct csource_run_params {
    int32_t n;
    int32_t first;  /* 0: +, 1: -, 2: * */
    int32_t second; /* the same of the result and c, or -1 */
} csource_run_params;

/* y = a first b, or (a first b) second c, of n elements. */
void csource_run(float *y, const float *a, const float *b, const float *c,
                 const csource_run_params *p);

#endif
