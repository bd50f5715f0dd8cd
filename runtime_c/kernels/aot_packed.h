/* SPDX-License-Identifier: MIT-0 */
/* Elements of 2 and 4 bits, the first of a byte in its lowest bits, and float8e8m0.
 *
 * aot_unpack_bits(y, x, p, BITS, SIGNED): p->n packed elements to a byte each, sign-extended if
 * SIGNED. aot_pack_bits(y, x, p, BITS): the lowest BITS bits of p->n bytes.
 * aot_f4_decode(y, x, p): codes of float4e2m1, a byte each, to float32. aot_f4_encode(y, x, p):
 * float32 to codes, to nearest even; what is larger than 6 becomes 6, NaN becomes -0.
 * aot_e8m0_decode(y, x, p): 2^(x - 127), NaN for 255. aot_e8m0_encode(y, x, p, MODE, SATURATE):
 * the exponent field of |x|, MODE 0 rounded up, 1 down, 2 to nearest (halves up); above the largest
 * power of two that one if SATURATE, else NaN; infinity and NaN give NaN.
 * y is not x; unused bits of the last byte are zero. No scratch.
 */
#ifndef AOT_PACKED_H
#define AOT_PACKED_H

#include <stddef.h>
#include <stdint.h>

#include "aot_cast.h"

typedef struct aot_unpack_bits_params {
    int64_t n;
} aot_unpack_bits_params;
typedef aot_unpack_bits_params aot_pack_bits_params;
typedef aot_unpack_bits_params aot_f4_decode_params;
typedef aot_unpack_bits_params aot_f4_encode_params;
typedef aot_unpack_bits_params aot_e8m0_decode_params;
typedef aot_unpack_bits_params aot_e8m0_encode_params;

AOT_INLINE void aot_unpack_bits(uint8_t *y, const uint8_t *x, const aot_unpack_bits_params *p,
                                int BITS, int SIGNED) {
    const ptrdiff_t n = (ptrdiff_t)p->n;
    const unsigned per = 8U / (unsigned)BITS, mask = (1U << BITS) - 1U;
    const unsigned sign = SIGNED ? 1U << (BITS - 1) : 0U;
    ptrdiff_t i;
    for (i = 0; i < n; ++i) {
        const unsigned shift = (unsigned)(i % (ptrdiff_t)per) * (unsigned)BITS;
        const unsigned code = ((unsigned)x[i / (ptrdiff_t)per] >> shift) & mask;
        y[i] = (uint8_t)((code ^ sign) - sign);
    }
}

AOT_INLINE void aot_pack_bits(uint8_t *y, const uint8_t *x, const aot_pack_bits_params *p,
                              int BITS) {
    const ptrdiff_t n = (ptrdiff_t)p->n, per = 8 / BITS;
    const unsigned mask = (1U << BITS) - 1U;
    ptrdiff_t i, k;
    for (i = 0; i < n; i += per) {
        unsigned byte = 0;
        for (k = 0; k < per && i + k < n; ++k) {
            byte |= ((unsigned)x[i + k] & mask) << ((unsigned)k * (unsigned)BITS);
        }
        y[i / per] = (uint8_t)byte;
    }
}

AOT_INLINE float aot_f4_value(unsigned code) {
    static const float values[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
    return (code & 8U) != 0 ? -values[code & 7U] : values[code & 7U];
}

AOT_INLINE unsigned aot_f4_code(float x) {
    /* Where rounding goes up: a tie goes to the even code, so every second bound is included. */
    static const float bounds[7] = {0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5.0F};
    const float m = x < 0.0F ? -x : x;
    unsigned code = 0, i;
    if (!(x <= 0.0F || x > 0.0F)) {
        return 8U; /* NaN */
    }
    for (i = 0; i < 7U; ++i) {
        code += (m > bounds[i] || (m >= bounds[i] && (i & 1U) != 0)) ? 1U : 0U;
    }
    return code | (aot_cast_bits(x) >> 31 << 3);
}

AOT_INLINE void aot_f4_decode(float *y, const uint8_t *x, const aot_f4_decode_params *p) {
    ptrdiff_t i;
    for (i = 0; i < (ptrdiff_t)p->n; ++i) {
        y[i] = aot_f4_value(x[i]);
    }
}

AOT_INLINE void aot_f4_encode(uint8_t *y, const float *x, const aot_f4_encode_params *p) {
    ptrdiff_t i;
    for (i = 0; i < (ptrdiff_t)p->n; ++i) {
        y[i] = (uint8_t)aot_f4_code(x[i]);
    }
}

AOT_INLINE void aot_e8m0_decode(float *y, const uint8_t *x, const aot_e8m0_decode_params *p) {
    ptrdiff_t i;
    for (i = 0; i < (ptrdiff_t)p->n; ++i) {
        const uint32_t e = x[i];
        y[i] = aot_cast_float(e == 255U ? 0x7FC00000U : e == 0U ? 0x00400000U : e << 23);
    }
}

AOT_INLINE void aot_e8m0_encode(uint8_t *y, const float *x, const aot_e8m0_encode_params *p,
                                int MODE, int SATURATE) {
    ptrdiff_t i;
    for (i = 0; i < (ptrdiff_t)p->n; ++i) {
        const uint32_t mag = aot_cast_bits(x[i]) & 0x7FFFFFFFU;
        const uint32_t m = mag & 0x7FFFFFU;
        uint32_t e = mag >> 23;
        if (e == 255U) {
            y[i] = 255;
            continue;
        }
        e += MODE == 0 ? m != 0 : MODE == 2 ? m > 0x400000U || (m == 0x400000U && e != 0) : 0U;
        y[i] = (uint8_t)(e < 255U ? e : SATURATE ? 254U : 255U);
    }
}

#endif /* AOT_PACKED_H */
