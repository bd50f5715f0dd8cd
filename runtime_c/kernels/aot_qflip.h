/* SPDX-License-Identifier: MIT-0 */
/* Turns the top bit of n quantised values: int8 becomes uint8 of a zero point 128 higher, and back.
 * y may be x; no scratch. */
#ifndef AOT_QFLIP_H
#define AOT_QFLIP_H

#include <stdint.h>

#include "aot/port.h"

typedef struct aot_qflip_params {
    int64_t n;
} aot_qflip_params;

AOT_INLINE void aot_qflip(void *y, const void *x, const aot_qflip_params *p) {
    uint8_t *to = (uint8_t *)y;
    const uint8_t *from = (const uint8_t *)x;
    int64_t i;
    for (i = 0; i < p->n; ++i) {
        to[i] = (uint8_t)(from[i] ^ 0x80U);
    }
}

#endif /* AOT_QFLIP_H */
