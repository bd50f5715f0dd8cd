/* SPDX-License-Identifier: MIT-0 */
/* Elementwise functions for every number type but float32 (f64, s8 … s64, u8 … u64), in plain
 * loops that compilers vectorise.
 *
 * aot_<name>_<type>(y, x, p): p->n elements of any layout; y may be x.
 * aot_<name>_<type>(y, a, b, p, IA, IB): broadcasting as aot_broadcast.h says; y may be an operand
 * that is not broadcast. Comparisons also exist for f32; they and the logical operators write bytes
 * 0 and 1.
 * Nothing is undefined: integers wrap, x / 0 and x mod 0 are 0, shifts by
 * a negative number or by the width or more push every bit out.
 * No scratch.
 */
#ifndef AOT_SCALAR_H
#define AOT_SCALAR_H

#include <stddef.h>
#include <stdint.h>

#include "aot_broadcast.h"

typedef struct aot_scalar_params {
    int64_t n;      /* elements */
    int64_t lo, hi; /* bounds of clip, as signed numbers */
} aot_scalar_params;

/* One operand in, one out. */
#define AOT_SCALAR1(NAME, SHORT, TY, TX, EXPR)                                                     \
    typedef aot_scalar_params aot_##NAME##_##SHORT##_params;                                       \
    AOT_INLINE void aot_##NAME##_##SHORT(TY *y, const TX *in, const aot_scalar_params *p) {        \
        const ptrdiff_t n = (ptrdiff_t)p->n;                                                       \
        ptrdiff_t i;                                                                               \
        for (i = 0; i < n; ++i) {                                                                  \
            const TX x = in[i];                                                                    \
            y[i] = (TY)(EXPR);                                                                     \
        }                                                                                          \
    }

/* Two operands in, one out. The row is a function of its own so that EXPR sees plain x and z. */
#define AOT_SCALAR2(NAME, SHORT, TY, TX, EXPR)                                                     \
    typedef aot_broadcast2_params aot_##NAME##_##SHORT##_params;                                   \
    AOT_INLINE void aot_##NAME##_##SHORT##_row(TY *y, const TX *a, const TX *b, ptrdiff_t n,       \
                                               int IA, int IB) {                                   \
        ptrdiff_t i;                                                                               \
        for (i = 0; i < n; ++i) {                                                                  \
            const TX x = a[i * IA], z = b[i * IB];                                                 \
            y[i] = (TY)(EXPR);                                                                     \
        }                                                                                          \
    }                                                                                              \
    AOT_INLINE void aot_##NAME##_##SHORT(TY *y, const TX *a, const TX *b,                          \
                                         const aot_broadcast2_params *p, int IA, int IB) {         \
        int64_t at[4] = {0, 0, 0, 0}, i;                                                           \
        if (aot_broadcast_empty(p->dims)) {                                                        \
            return;                                                                                \
        }                                                                                          \
        do {                                                                                       \
            const TX *ra = a + aot_broadcast_at(at, p->sa);                                        \
            const TX *rb = b + aot_broadcast_at(at, p->sb);                                        \
            for (i = 0; i < p->dims[4]; ++i, ra += p->sa[4], rb += p->sb[4]) {                     \
                aot_##NAME##_##SHORT##_row(y, ra, rb, (ptrdiff_t)p->dims[5], IA, IB);              \
                y += p->dims[5];                                                                   \
            }                                                                                      \
        } while (aot_broadcast_next(at, p->dims));                                                 \
    }

/* Integer powers by squaring, modulo 2^64; a negative exponent gives what 1 / x^-z truncates to. */
AOT_INLINE uint64_t aot_scalar_pow(uint64_t x, int64_t z, int negative_one) {
    uint64_t y = 1;
    if (z < 0) {
        return x == 1 ? 1U : negative_one ? ((z & 1) != 0 ? x : 1U) : 0U;
    }
    for (; z > 0; z /= 2, x *= x) {
        y = (z & 1) != 0 ? y * x : y;
    }
    return y;
}

/* The remainder with the sign of the divisor (FMOD 0) or of the dividend (FMOD 1). */
AOT_INLINE int64_t aot_scalar_mod(int64_t x, int64_t z, int FMOD) {
    const int64_t r = z == 0 || z == -1 ? 0 : x % z;
    return !FMOD && r != 0 && (r < 0) != (z < 0) ? r + z : r;
}

/* x shifted right with its sign; shifting all bits out leaves the sign. */
AOT_INLINE int64_t aot_scalar_shift_right(int64_t x, int64_t z, int BITS) {
    const int by = z < 0 || z >= BITS ? BITS - 1 : (int)z;
    return x < 0 ? ~(~x >> by) : x >> by;
}

#define AOT_SCALAR_COMPARE(SHORT, T)                                                               \
    AOT_SCALAR2(equal, SHORT, uint8_t, T, x == z)                                                  \
    AOT_SCALAR2(less, SHORT, uint8_t, T, x < z)                                                    \
    AOT_SCALAR2(less_equal, SHORT, uint8_t, T, x <= z)                                             \
    AOT_SCALAR2(greater, SHORT, uint8_t, T, x > z)                                                 \
    AOT_SCALAR2(greater_equal, SHORT, uint8_t, T, x >= z)

/* What signed and unsigned integers share. Arithmetic is done modulo 2^64, then cut. */
#define AOT_SCALAR_INT(SHORT, T)                                                                   \
    AOT_SCALAR_COMPARE(SHORT, T)                                                                   \
    AOT_SCALAR2(add, SHORT, T, T, (uint64_t)x + (uint64_t)z)                                       \
    AOT_SCALAR2(sub, SHORT, T, T, (uint64_t)x - (uint64_t)z)                                       \
    AOT_SCALAR2(mul, SHORT, T, T, (uint64_t)x *(uint64_t)z)                                        \
    AOT_SCALAR2(min, SHORT, T, T, x < z ? x : z)                                                   \
    AOT_SCALAR2(max, SHORT, T, T, x > z ? x : z)                                                   \
    AOT_SCALAR2(bit_and, SHORT, T, T, x &z)                                                        \
    AOT_SCALAR2(bit_or, SHORT, T, T, x | z)                                                        \
    AOT_SCALAR2(bit_xor, SHORT, T, T, x ^ z)                                                       \
    AOT_SCALAR1(bit_not, SHORT, T, T, ~(uint64_t)x)                                                \
    AOT_SCALAR1(neg, SHORT, T, T, 0U - (uint64_t)x)                                                \
    AOT_SCALAR1(square, SHORT, T, T, (uint64_t)x *(uint64_t)x)                                     \
    AOT_SCALAR1(copy, SHORT, T, T, x)

#define AOT_SCALAR_SIGNED(SHORT, T, BITS)                                                          \
    AOT_SCALAR_INT(SHORT, T)                                                                       \
    AOT_SCALAR2(div, SHORT, T, T, z == 0 ? 0 : z == -1 ? (T)(0U - (uint64_t)x) : x / z)            \
    AOT_SCALAR2(mod, SHORT, T, T, aot_scalar_mod(x, z, 0))                                         \
    AOT_SCALAR2(fmod, SHORT, T, T, aot_scalar_mod(x, z, 1))                                        \
    AOT_SCALAR2(pow, SHORT, T, T, aot_scalar_pow((uint64_t)x, (int64_t)z, x == -1))                \
    AOT_SCALAR2(prelu, SHORT, T, T, x < 0 ? (uint64_t)x * (uint64_t)z : (uint64_t)x)               \
    AOT_SCALAR2(shift_left, SHORT, T, T, z < 0 || z >= BITS ? 0U : (uint64_t)x << z)               \
    AOT_SCALAR2(shift_right, SHORT, T, T, aot_scalar_shift_right(x, z, BITS))                      \
    AOT_SCALAR1(abs, SHORT, T, T, x < 0 ? 0U - (uint64_t)x : (uint64_t)x)                          \
    AOT_SCALAR1(sign, SHORT, T, T, (x > 0) - (x < 0))                                              \
    AOT_SCALAR1(relu, SHORT, T, T, x > 0 ? x : 0)                                                  \
    AOT_SCALAR1(clip, SHORT, T, T, x<p->lo ? (p->lo < p->hi ? p->lo : p->hi) : x> p->hi ? p->hi : x)

#define AOT_SCALAR_UNSIGNED(SHORT, T, BITS)                                                        \
    AOT_SCALAR_INT(SHORT, T)                                                                       \
    AOT_SCALAR2(div, SHORT, T, T, z == 0 ? 0 : x / z)                                              \
    AOT_SCALAR2(mod, SHORT, T, T, z == 0 ? 0 : x % z)                                              \
    AOT_SCALAR2(fmod, SHORT, T, T, z == 0 ? 0 : x % z)                                             \
    AOT_SCALAR2(pow, SHORT, T, T, aot_scalar_pow(x, (int64_t)(z & INT64_MAX), 0))                  \
    AOT_SCALAR2(prelu, SHORT, T, T, ((void)z, x))                                                  \
    AOT_SCALAR2(shift_left, SHORT, T, T, z >= BITS ? 0U : (uint64_t)x << z)                        \
    AOT_SCALAR2(shift_right, SHORT, T, T, z >= BITS ? 0U : (uint64_t)x >> z)                       \
    AOT_SCALAR1(abs, SHORT, T, T, x)                                                               \
    AOT_SCALAR1(sign, SHORT, T, T, x > 0)                                                          \
    AOT_SCALAR1(relu, SHORT, T, T, x)                                                              \
    AOT_SCALAR1(clip, SHORT, T, T,                                                                 \
                x<(uint64_t)p->lo                                                                  \
                        ? ((uint64_t)p->lo < (uint64_t)p->hi ? (uint64_t)p->lo : (uint64_t)p->hi)  \
                        : x>(uint64_t) p->hi                                                       \
                    ? (uint64_t)p->hi                                                              \
                    : x)

AOT_SCALAR_SIGNED(s8, int8_t, 8)
AOT_SCALAR_SIGNED(s16, int16_t, 16)
AOT_SCALAR_SIGNED(s32, int32_t, 32)
AOT_SCALAR_SIGNED(s64, int64_t, 64)
AOT_SCALAR_UNSIGNED(u8, uint8_t, 8)
AOT_SCALAR_UNSIGNED(u16, uint16_t, 16)
AOT_SCALAR_UNSIGNED(u32, uint32_t, 32)
AOT_SCALAR_UNSIGNED(u64, uint64_t, 64)

/* Booleans: bytes 0 and 1. */
AOT_SCALAR2(and, b8, uint8_t, uint8_t, (x != 0) & (z != 0))
AOT_SCALAR2(or, b8, uint8_t, uint8_t, (x != 0) | (z != 0))
AOT_SCALAR2(xor, b8, uint8_t, uint8_t, (x != 0) ^ (z != 0))
AOT_SCALAR2(equal, b8, uint8_t, uint8_t, (x != 0) == (z != 0))
AOT_SCALAR1(not, b8, uint8_t, uint8_t, x == 0)

/* Floating point. The classifications compare bits, so they hold under any compiler option. */
AOT_INLINE uint32_t aot_scalar_bits32(float x) {
    union {
        float f;
        uint32_t u;
    } v;
    v.f = x;
    return v.u & UINT32_C(0x7FFFFFFF);
}
AOT_INLINE uint64_t aot_scalar_bits64(double x) {
    union {
        double f;
        uint64_t u;
    } v;
    v.f = x;
    return v.u & UINT64_C(0x7FFFFFFFFFFFFFFF);
}

/* Equality of floats is what ONNX asks for here. */
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wfloat-equal"
#endif
AOT_SCALAR_COMPARE(f32, float)
AOT_SCALAR_COMPARE(f64, double)
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
AOT_SCALAR1(isnan, f32, uint8_t, float, aot_scalar_bits32(x) > UINT32_C(0x7F800000))
AOT_SCALAR1(isnan, f64, uint8_t, double, aot_scalar_bits64(x) > UINT64_C(0x7FF0000000000000))
/* p->lo, p->hi: whether -inf and inf count. */
AOT_SCALAR1(isinf, f32, uint8_t, float,
            aot_scalar_bits32(x) == UINT32_C(0x7F800000) && (x < 0 ? p->lo : p->hi) != 0)
AOT_SCALAR1(isinf, f64, uint8_t, double,
            aot_scalar_bits64(x) == UINT64_C(0x7FF0000000000000) && (x < 0 ? p->lo : p->hi) != 0)

#endif /* AOT_SCALAR_H */
