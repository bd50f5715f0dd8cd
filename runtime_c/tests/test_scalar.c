/* SPDX-License-Identifier: MIT-0 */
/* Elementwise functions of integers, of booleans, comparisons of every type, classifications. */
#include "broadcasts.h"

#include "aot_scalar.h"

/* The low bits of a number, read as a number of that width. */
static int64_t cut(uint64_t v, int bits, int is_signed) {
    if (bits < 64) {
        const uint64_t low = v % (UINT64_C(1) << bits);
        return (int64_t)low - (is_signed && low >> (bits - 1) ? INT64_C(1) << bits : 0);
    }
    return (int64_t)v;
}

/* x to the power z by repeated products; 1 / x^-z without its fraction for a negative z. */
static uint64_t power(int64_t x, int64_t z) {
    uint64_t y = 1;
    if (z < 0) {
        return x == 1 ? 1U : x == -1 ? (z % 2 == 0 ? 1U : ~UINT64_C(0)) : 0U;
    }
    for (int64_t i = 0; i < z; ++i) {
        y *= (uint64_t)x;
    }
    return y;
}

/* The remainder with the sign of the divisor: x - floor(x / z) * z. */
static int64_t floor_mod(int64_t x, int64_t z) {
    const int64_t r = z == 0 || z == -1 ? 0 : x % z;
    return r != 0 && (r ^ z) < 0 ? r + z : r;
}

/* x divided by 2^z, rounded down. */
static int64_t halved(int64_t x, int64_t z, int bits) {
    for (int64_t i = 0; i < (z < 0 || z >= bits ? bits : z); ++i) {
        x = x / 2 - (x % 2 < 0);
    }
    return x;
}
static uint64_t halved_unsigned(uint64_t x, uint64_t z, int bits) {
    for (uint64_t i = 0; i < (z >= (uint64_t)bits ? (uint64_t)bits : z); ++i) {
        x /= 2;
    }
    return x;
}
static uint64_t doubled(uint64_t x, uint64_t z, int bits) {
    for (uint64_t i = 0; i < (z >= (uint64_t)bits ? (uint64_t)bits : z); ++i) {
        x *= 2;
    }
    return z >= (uint64_t)bits ? 0U : x;
}

/* Any bits, and the values at the ends of the range, zero, one and small ones. */
static uint64_t some_bits(int bits) {
    const int64_t kind = check_integer(0, 9);
    const uint64_t high = check_random();
    return kind < 4    ? (uint64_t)check_integer(-9, 9)
           : kind == 4 ? UINT64_C(1) << (bits - 1)
           : kind == 5 ? (UINT64_C(1) << (bits - 1)) - 1U
           : kind == 6 ? ~UINT64_C(0)
                       : high << 32 | check_random();
}

/* Runs one kernel of two operands over every broadcast; `want` computes from x and z. */
#define BINARY(NAME, SHORT, TY, T, BITS, SIGNED, WANT)                                             \
    static void test_##NAME##_##SHORT(void) {                                                      \
        for (int k = 0; k < BROADCAST_CASES; ++k) {                                                \
            const broadcast *c = &broadcasts[k];                                                   \
            const ptrdiff_t n = broadcast_elements(c);                                             \
            aot_broadcast2_params p = {{0}, {0}, {0}, 0.0F, 0.0F};                                 \
            const ptrdiff_t na = broadcast_strides(c, 0, p.sa),                                    \
                            nb = broadcast_strides(c, 1, p.sb);                                    \
            T *a = NEW(T, na), *b = NEW(T, nb);                                                    \
            TY *y = NEW(TY, n);                                                                    \
            check_case("%s_%s, broadcast %d", #NAME, #SHORT, k);                                   \
            (void)memcpy(p.dims, c->dims, sizeof p.dims);                                          \
            for (ptrdiff_t i = 0; i < na; ++i) {                                                   \
                a[i] = (T)some_bits(BITS);                                                         \
            }                                                                                      \
            for (ptrdiff_t i = 0; i < nb; ++i) {                                                   \
                b[i] = (T)some_bits(BITS);                                                         \
            }                                                                                      \
            aot_##NAME##_##SHORT(y, a, b, &p, c->has[0][5], c->has[1][5]);                         \
            for (ptrdiff_t i = 0; i < n; ++i) {                                                    \
                const T x = a[broadcast_at(c, p.sa, i)], z = b[broadcast_at(c, p.sb, i)];          \
                same_at("y", i, (int64_t)y[i], cut((uint64_t)(WANT), BITS, SIGNED));               \
            }                                                                                      \
            check_free();                                                                          \
        }                                                                                          \
    }
#define UNARY(NAME, SHORT, T, BITS, SIGNED, WANT)                                                  \
    static void test_##NAME##_##SHORT(void) {                                                      \
        for (ptrdiff_t n = 0; n < 70; n += 23) {                                                   \
            const aot_scalar_params p = {n, 3, 100};                                               \
            T *in = NEW(T, n), *y = NEW(T, n);                                                     \
            check_case("%s_%s of %ld", #NAME, #SHORT, (long)n);                                    \
            for (ptrdiff_t i = 0; i < n; ++i) {                                                    \
                in[i] = (T)some_bits(BITS);                                                        \
            }                                                                                      \
            aot_##NAME##_##SHORT(y, in, &p);                                                       \
            for (ptrdiff_t i = 0; i < n; ++i) {                                                    \
                const T x = in[i];                                                                 \
                same_at("y", i, (int64_t)y[i], cut((uint64_t)(WANT), BITS, SIGNED));               \
            }                                                                                      \
            aot_##NAME##_##SHORT(in, in, &p);                                                      \
            same_bytes("y in place", in, y, (size_t)n * sizeof(T));                                \
            check_free();                                                                          \
        }                                                                                          \
    }

#define COMPARISONS(SHORT, T, BITS)                                                                \
    BINARY(equal, SHORT, uint8_t, T, BITS, 0, !(x < z) && !(z < x))                                \
    BINARY(less, SHORT, uint8_t, T, BITS, 0, z > x)                                                \
    BINARY(less_equal, SHORT, uint8_t, T, BITS, 0, !(x > z))                                       \
    BINARY(greater, SHORT, uint8_t, T, BITS, 0, z < x)                                             \
    BINARY(greater_equal, SHORT, uint8_t, T, BITS, 0, !(x < z))
#define BOTH(SHORT, T, BITS, SIGNED)                                                               \
    COMPARISONS(SHORT, T, BITS)                                                                    \
    BINARY(add, SHORT, T, T, BITS, SIGNED, (uint64_t)x - (0U - (uint64_t)z))                       \
    BINARY(sub, SHORT, T, T, BITS, SIGNED, (uint64_t)x + (~(uint64_t)z + 1U))                      \
    BINARY(mul, SHORT, T, T, BITS, SIGNED, (uint64_t)z *(uint64_t)x)                               \
    BINARY(min, SHORT, T, T, BITS, SIGNED, z > x ? x : z)                                          \
    BINARY(max, SHORT, T, T, BITS, SIGNED, z < x ? x : z)                                          \
    BINARY(bit_and, SHORT, T, T, BITS, SIGNED, ~(~(uint64_t)x | ~(uint64_t)z))                     \
    BINARY(bit_or, SHORT, T, T, BITS, SIGNED, ~(~(uint64_t)x & ~(uint64_t)z))                      \
    BINARY(bit_xor, SHORT, T, T, BITS, SIGNED,                                                     \
           ((uint64_t)x | (uint64_t)z) - ((uint64_t)x & (uint64_t)z))                              \
    UNARY(bit_not, SHORT, T, BITS, SIGNED, 0U - (uint64_t)x - 1U)                                  \
    UNARY(neg, SHORT, T, BITS, SIGNED, ~(uint64_t)x + 1U)                                          \
    UNARY(square, SHORT, T, BITS, SIGNED, (uint64_t)x *(uint64_t)x)                                \
    UNARY(copy, SHORT, T, BITS, SIGNED, x)
#define SIGNED_TYPE(SHORT, T, BITS)                                                                \
    BOTH(SHORT, T, BITS, 1)                                                                        \
    BINARY(div, SHORT, T, T, BITS, 1,                                                              \
           z == 0    ? 0U                                                                          \
           : z == -1 ? 0U - (uint64_t)x                                                            \
                     : (uint64_t)(x / z))                                                          \
    BINARY(mod, SHORT, T, T, BITS, 1, floor_mod(x, z))                                             \
    BINARY(fmod, SHORT, T, T, BITS, 1, z == 0 || z == -1 ? 0 : x % z)                              \
    BINARY(prelu, SHORT, T, T, BITS, 1, (uint64_t)x *(x < 0 ? (uint64_t)z : 1U))                   \
    BINARY(shift_left, SHORT, T, T, BITS, 1, doubled((uint64_t)x, (uint64_t)(int64_t)z, BITS))     \
    BINARY(shift_right, SHORT, T, T, BITS, 1, halved(x, z, BITS))                                  \
    UNARY(abs, SHORT, T, BITS, 1, x < 0 ? ~(uint64_t)x + 1U : (uint64_t)x)                         \
    UNARY(sign, SHORT, T, BITS, 1, x<0 ? -1 : x> 0)                                                \
    UNARY(relu, SHORT, T, BITS, 1, x < 0 ? 0 : x)                                                  \
    UNARY(clip, SHORT, T, BITS, 1, x < 3 ? 3 : x < 100 ? x : 100)
#define UNSIGNED_TYPE(SHORT, T, BITS)                                                              \
    BOTH(SHORT, T, BITS, 0)                                                                        \
    BINARY(div, SHORT, T, T, BITS, 0, z == 0 ? 0U : (uint64_t)x / z)                               \
    BINARY(mod, SHORT, T, T, BITS, 0, z == 0 ? 0U : x - (uint64_t)x / z * z)                       \
    BINARY(fmod, SHORT, T, T, BITS, 0, z == 0 ? 0U : x - (uint64_t)x / z * z)                      \
    BINARY(prelu, SHORT, T, T, BITS, 0, ((void)z, x))                                              \
    BINARY(shift_left, SHORT, T, T, BITS, 0, doubled(x, z, BITS))                                  \
    BINARY(shift_right, SHORT, T, T, BITS, 0, halved_unsigned(x, z, BITS))                         \
    UNARY(abs, SHORT, T, BITS, 0, x)                                                               \
    UNARY(sign, SHORT, T, BITS, 0, x == 0 ? 0 : 1)                                                 \
    UNARY(relu, SHORT, T, BITS, 0, x)                                                              \
    UNARY(clip, SHORT, T, BITS, 0, x < 3 ? 3 : x < 100 ? x : 100)

SIGNED_TYPE(s8, int8_t, 8)
SIGNED_TYPE(s16, int16_t, 16)
SIGNED_TYPE(s32, int32_t, 32)
SIGNED_TYPE(s64, int64_t, 64)
UNSIGNED_TYPE(u8, uint8_t, 8)
UNSIGNED_TYPE(u16, uint16_t, 16)
UNSIGNED_TYPE(u32, uint32_t, 32)
UNSIGNED_TYPE(u64, uint64_t, 64)
BINARY(and, b8, uint8_t, uint8_t, 8, 0, x == 0 ? 0 : z == 0 ? 0 : 1)
BINARY(or, b8, uint8_t, uint8_t, 8, 0, x != 0 ? 1 : z != 0 ? 1 : 0)
BINARY(xor, b8, uint8_t, uint8_t, 8, 0, x != 0 ? z == 0 : z != 0)
BINARY(equal, b8, uint8_t, uint8_t, 8, 0, x != 0 ? z != 0 : z == 0)
UNARY(not, b8, uint8_t, 8, 0, x != 0 ? 0 : 1)

/* Powers: exponents are small, since the formula multiplies as often as the exponent says. */
#define POWER(SHORT, T, BITS, SIGNED)                                                              \
    static void test_pow_##SHORT(void) {                                                           \
        const aot_broadcast2_params p = {                                                          \
            {1, 1, 1, 1, 11, 13}, {0, 0, 0, 0, 1, 0}, {0, 0, 0, 0, 0, 1}, 0.0F, 0.0F};             \
        T a[11], b[13], y[143];                                                                    \
        check_case("pow_%s", #SHORT);                                                              \
        for (int i = 0; i < 11; ++i) {                                                             \
            a[i] = (T)(i - 5);                                                                     \
        }                                                                                          \
        for (int i = 0; i < 13; ++i) {                                                             \
            b[i] = (T)(SIGNED && i < 4 ? i - 4 : i * i);                                           \
        }                                                                                          \
        aot_pow_##SHORT(y, a, b, &p, 0, 1);                                                        \
        for (int i = 0; i < 143; ++i) {                                                            \
            const uint64_t want = power((int64_t)a[i / 13], (int64_t)b[i % 13]);                   \
            same_at("y", i, (int64_t)y[i], cut(want, BITS, SIGNED));                               \
        }                                                                                          \
    }
POWER(s8, int8_t, 8, 1)
POWER(s16, int16_t, 16, 1)
POWER(s32, int32_t, 32, 1)
POWER(s64, int64_t, 64, 1)
POWER(u8, uint8_t, 8, 0)
POWER(u16, uint16_t, 16, 0)
POWER(u32, uint32_t, 32, 0)
POWER(u64, uint64_t, 64, 0)

/* Comparisons of floating point: any with NaN is false; zeros of both signs are equal. */
#define FLOATS(SHORT, T)                                                                           \
    static void test_##SHORT(void) {                                                               \
        static const T v[7] = {                                                                    \
            (T)NAN, -(T)INFINITY, (T)-1.5, (T)-0.0, (T)0.0, (T)2.5, (T)INFINITY};                  \
        /* The order of v's values, zeros sharing a place. */                                      \
        static const int rank[7] = {0, 1, 2, 3, 3, 4, 5};                                          \
        const aot_broadcast2_params p = {                                                          \
            {1, 1, 1, 1, 7, 7}, {0, 0, 0, 0, 1, 0}, {0, 0, 0, 0, 0, 1}, 0.0F, 0.0F};               \
        uint8_t y[5][49];                                                                          \
        check_case("comparisons of %s", #SHORT);                                                   \
        aot_equal_##SHORT(y[0], v, v, &p, 0, 1);                                                   \
        aot_less_##SHORT(y[1], v, v, &p, 0, 1);                                                    \
        aot_less_equal_##SHORT(y[2], v, v, &p, 0, 1);                                              \
        aot_greater_##SHORT(y[3], v, v, &p, 0, 1);                                                 \
        aot_greater_equal_##SHORT(y[4], v, v, &p, 0, 1);                                           \
        for (int i = 0; i < 49; ++i) {                                                             \
            const int a = rank[i / 7], b = rank[i % 7], ordered = a > 0 && b > 0;                  \
            same_at("equal", i, y[0][i], ordered &&a == b);                                        \
            same_at("less", i, y[1][i], ordered &&a < b);                                          \
            same_at("less_equal", i, y[2][i], ordered &&a <= b);                                   \
            same_at("greater", i, y[3][i], ordered &&a > b);                                       \
            same_at("greater_equal", i, y[4][i], ordered &&a >= b);                                \
        }                                                                                          \
        for (int sides = 0; sides < 4; ++sides) {                                                  \
            const aot_scalar_params q = {7, sides & 1, sides >> 1};                                \
            uint8_t nan[7], inf[7];                                                                \
            aot_isnan_##SHORT(nan, v, &q);                                                         \
            aot_isinf_##SHORT(inf, v, &q);                                                         \
            for (int i = 0; i < 7; ++i) {                                                          \
                const int which = i == 1 ? (sides & 1) : i == 6 && sides >= 2;                     \
                same_at("isnan", i, nan[i], i == 0);                                               \
                same_at("isinf", i, inf[i], which);                                                \
            }                                                                                      \
        }                                                                                          \
    }
FLOATS(f32, float)
FLOATS(f64, double)

#define RUN_ALL(SHORT)                                                                             \
    test_equal_##SHORT(), test_less_##SHORT(), test_less_equal_##SHORT(), test_greater_##SHORT(),  \
        test_greater_equal_##SHORT(), test_add_##SHORT(), test_sub_##SHORT(), test_mul_##SHORT(),  \
        test_min_##SHORT(), test_max_##SHORT(), test_bit_and_##SHORT(), test_bit_or_##SHORT(),     \
        test_bit_xor_##SHORT(), test_bit_not_##SHORT(), test_neg_##SHORT(), test_square_##SHORT(), \
        test_copy_##SHORT(), test_div_##SHORT(), test_mod_##SHORT(), test_fmod_##SHORT(),          \
        test_prelu_##SHORT(), test_shift_left_##SHORT(), test_shift_right_##SHORT(),               \
        test_abs_##SHORT(), test_sign_##SHORT(), test_relu_##SHORT(), test_clip_##SHORT(),         \
        test_pow_##SHORT()

int main(void) {
    RUN_ALL(s8);
    RUN_ALL(s16);
    RUN_ALL(s32);
    RUN_ALL(s64);
    RUN_ALL(u8);
    RUN_ALL(u16);
    RUN_ALL(u32);
    RUN_ALL(u64);
    test_and_b8();
    test_or_b8();
    test_xor_b8();
    test_equal_b8();
    test_not_b8();
    test_f32();
    test_f64();
    return check_end();
}
