/* SPDX-License-Identifier: MIT-0 */
/* y[i] = table[x[i]] for n quantised values of 8 bits, which index as unsigned bytes. y may be x;
 * no scratch.
 */
#ifndef AOT_QTABLE_H
#define AOT_QTABLE_H

#include <stdint.h>

#include "aot/port.h"

typedef struct aot_qtable_params {
    int64_t n;
} aot_qtable_params;

AOT_INLINE void aot_qtable(void *y, const void *x, const void *table, const aot_qtable_params *p) {
    uint8_t *to = (uint8_t *)y;
    const uint8_t *from = (const uint8_t *)x, *entry = (const uint8_t *)table;
    int64_t i;
    for (i = 0; i < p->n; ++i) {
        to[i] = entry[from[i]];
    }
}

#endif /* AOT_QTABLE_H */
