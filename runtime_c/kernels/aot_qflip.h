/* SPDX-License-Identifier: MIT-0 */
/* Turns the top bit of n quantised values: int8 becomes uint8 of a zero point 128 higher, and back.
 * y may be x; no scratch. */
#ifndef AOT_QFLIP_H
#define AOT_QFLIP_H

#include <stdint.h>
#include <string.h>

#include "aot/port.h"

typedef struct aot_qflip_params {
    int64_t n;
} aot_qflip_params;

AOT_INLINE void aot_qflip(void *y, const void *x, const aot_qflip_params *p) {
    uint8_t *to = (uint8_t *)y;
    const uint8_t *from = (const uint8_t *)x;
    int64_t i = 0;
#if AOT_VLEN > 1
    for (; i + (int64_t)sizeof(uint64_t) <= p->n; i += (int64_t)sizeof(uint64_t)) {
        uint64_t eight;
        (void)memcpy(&eight, from + i, sizeof eight);
        eight ^= UINT64_C(0x8080808080808080);
        (void)memcpy(to + i, &eight, sizeof eight);
    }
#endif
    for (; i < p->n; ++i) {
        to[i] = (uint8_t)(from[i] ^ 0x80U);
    }
}

#endif /* AOT_QFLIP_H */
