/* SPDX-License-Identifier: MIT-0 */
#ifndef ACME_H
#define ACME_H
#include "aot/aot.h"
typedef struct { int n; } acme_cos_params;
void acme_cos(float *y, const float *x, const acme_cos_params *p);
#endif
