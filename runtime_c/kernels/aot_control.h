/* SPDX-License-Identifier: MIT-0 */
/* What If and Loop read: a condition, a number of steps. */
#ifndef AOT_CONTROL_H
#define AOT_CONTROL_H

#include <stdint.h>
#include <string.h>

/* c: one bool. */
static inline int aot_is_true(const unsigned char *c) {
    return *c != 0;
}

/* m: one int64, the steps asked for, of which `most` are taken (-1: all). 0 if negative. */
static inline int64_t aot_steps(const unsigned char *m, int64_t most) {
    int64_t steps;
    (void)memcpy(&steps, m, sizeof steps);
    if (most >= 0 && steps > most) {
        return most;
    }
    return steps > 0 ? steps : 0;
}

#endif
