/* SPDX-License-Identifier: MIT-0 */
#ifndef STACKCHIP_H
#define STACKCHIP_H

#include <stddef.h>
#include <stdint.h>

#include "aot/aot.h"

typedef struct {
    int32_t n;
    int32_t tile;
    int32_t commands;
    int32_t operands;
    int32_t result;
} stackchip_run_params;

aot_status stackchip_run(void *y, const void *x, const void *z, const void *commands, void *slots,
                         const stackchip_run_params *p);

/* The hooks write down that they were called. */
void stackchip_clean(const void *p, size_t bytes);
void stackchip_invalidate(void *p, size_t bytes);
void stackchip_error(const char *node, aot_status status);

#endif
