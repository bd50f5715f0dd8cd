/* SPDX-License-Identifier: MIT-0 */
#include "stackchip.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

aot_status stackchip_run(void *y, const void *x, const void *z, const void *commands, void *slots,
                         const stackchip_run_params *p) {
    const int32_t *c;
    float *s = (float *)slots;
    int32_t start, i, k;
    fprintf(stderr, "run %d commands, tiles of %d\n", (int)p->commands, (int)p->tile);
    if (((uintptr_t)slots | (uintptr_t)commands) % 256 != 0 || getenv("STACKCHIP_BROKEN") != NULL) {
        memset(y, 0x55, sizeof(float)); /* it had begun */
        return AOT_VENDOR;
    }
    for (start = 0; start < p->n; start += p->tile) {
        const int32_t n = p->n - start < p->tile ? p->n - start : p->tile;
        memcpy(s, (const float *)x + start, (size_t)n * sizeof(float));
        if (p->operands > 1)
            memcpy(s + p->tile, (const float *)z + start, (size_t)n * sizeof(float));
        c = (const int32_t *)commands;
        for (k = 0; k < p->commands; ++k, c += 4)
            for (i = 0; i < n; ++i) {
                const float a = s[c[2] * p->tile + i], b = s[c[3] * p->tile + i];
                s[c[1] * p->tile + i] = c[0] == 0 ? -a : c[0] == 1 ? a + b : a > 0.0F ? a : 0.0F;
            }
        memcpy((float *)y + start, s + p->result * p->tile, (size_t)n * sizeof(float));
    }
    return AOT_OK;
}

void stackchip_clean(const void *p, size_t bytes) {
    (void)p;
    fprintf(stderr, "clean %d\n", (int)bytes);
}

void stackchip_invalidate(void *p, size_t bytes) {
    (void)p;
    fprintf(stderr, "invalidate %d\n", (int)bytes);
}

void stackchip_error(const char *node, aot_status status) {
    fprintf(stderr, "%s failed: %s\n", node, aot_status_text(status));
}
