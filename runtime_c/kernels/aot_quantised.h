/* SPDX-License-Identifier: MIT-0 */
/* Reads and writes quantised values of a type that is an instance constant: AOT_Q_S8 and so on.
 */
#ifndef AOT_QUANTISED_H
#define AOT_QUANTISED_H

#include <stdint.h>

#include "aot/port.h"

#define AOT_Q_S8 0
#define AOT_Q_U8 1
#define AOT_Q_S16 2
#define AOT_Q_U16 3

/* Element i of p, whose elements are of type T. */
AOT_INLINE int32_t aot_q_load(const void *p, int64_t i, int T) {
    switch (T) {
    case AOT_Q_S8:
        return ((const int8_t *)p)[i];
    case AOT_Q_U8:
        return ((const uint8_t *)p)[i];
    case AOT_Q_S16:
        return ((const int16_t *)p)[i];
    default:
        return ((const uint16_t *)p)[i];
    }
}

/* Element i of p becomes v, which fits type T. */
AOT_INLINE void aot_q_store(void *p, int64_t i, int32_t v, int T) {
    switch (T) {
    case AOT_Q_S8:
        ((int8_t *)p)[i] = (int8_t)v;
        break;
    case AOT_Q_U8:
        ((uint8_t *)p)[i] = (uint8_t)v;
        break;
    case AOT_Q_S16:
        ((int16_t *)p)[i] = (int16_t)v;
        break;
    default:
        ((uint16_t *)p)[i] = (uint16_t)v;
        break;
    }
}

/* v limited to [lo, hi]. */
AOT_INLINE int32_t aot_q_clamp(int32_t v, int32_t lo, int32_t hi) {
    return v < lo ? lo : v > hi ? hi : v;
}

/* v + zero limited to [lo, hi], for any v. */
AOT_INLINE int32_t aot_q_shifted(int32_t v, int32_t zero, int32_t lo, int32_t hi) {
    return aot_q_clamp(v, lo - zero, hi - zero) + zero;
}

#endif /* AOT_QUANTISED_H */
