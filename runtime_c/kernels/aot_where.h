/* SPDX-License-Identifier: MIT-0 */
/* y = c ? a : b with broadcasting, for elements of 8, 16, 32 or 64 bits: aot_where_<bits>.
 *
 * c: bytes, zero is false. Loops and strides as aot_broadcast.h says (a: c's condition, b: value
 * where true, c: value where false). y may be a value operand that is not broadcast. No scratch.
 */
#ifndef AOT_WHERE_H
#define AOT_WHERE_H

#include <stddef.h>
#include <stdint.h>

#include "aot_broadcast.h"

/* Elements are only moved, whatever their type. */
typedef uint8_t AOT_MAY_ALIAS aot_where_u8;
typedef uint16_t AOT_MAY_ALIAS aot_where_u16;
typedef uint32_t AOT_MAY_ALIAS aot_where_u32;
typedef uint64_t AOT_MAY_ALIAS aot_where_u64;

#define AOT_WHERE_ROW(y, a, b, c, n)                                                               \
    do {                                                                                           \
        ptrdiff_t k_;                                                                              \
        for (k_ = 0; k_ < (n); ++k_) {                                                             \
            (y)[k_] = (a)[k_ * IA] ? (b)[k_ * IB] : (c)[k_ * IC];                                  \
        }                                                                                          \
    } while (0)

#define AOT_WHERE(BITS)                                                                            \
    typedef aot_broadcast3_params aot_where_##BITS##_params;                                       \
    AOT_INLINE void aot_where_##BITS(void *out, const void *cond, const void *yes, const void *no, \
                                     const aot_broadcast3_params *p, int IA, int IB, int IC) {     \
        aot_where_u##BITS *y = (aot_where_u##BITS *)out;                                           \
        const uint8_t *a = (const uint8_t *)cond;                                                  \
        const aot_where_u##BITS *b = (const aot_where_u##BITS *)yes,                               \
                                *c = (const aot_where_u##BITS *)no;                                \
        AOT_BROADCAST3(aot_where_u##BITS, uint8_t, aot_where_u##BITS, aot_where_u##BITS,           \
                       AOT_WHERE_ROW);                                                             \
    }

AOT_WHERE(8)
AOT_WHERE(16)
AOT_WHERE(32)
AOT_WHERE(64)

#endif /* AOT_WHERE_H */
