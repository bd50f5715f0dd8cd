/* SPDX-License-Identifier: MIT-0 */
/* Copy of a whole tensor. */
#ifndef AOT_COPY_H
#define AOT_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct aot_copy_params {
    int64_t bytes; /* bytes to copy */
} aot_copy_params;

/* y and x: p->bytes bytes of any type. They may be the same address (nothing is done then) but
   must not overlap otherwise. No scratch. */
static inline void aot_copy(void *y, const void *x, const aot_copy_params *p) {
    if (y != x && p->bytes > 0) {
        (void)memcpy(y, x, (size_t)p->bytes);
    }
}

#endif
