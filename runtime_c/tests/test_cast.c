/* SPDX-License-Identifier: MIT-0 */
/* Conversions between element types, packed elements, and random numbers. */
#include "check.h"

#include "aot_cast.h"
#include "aot_cast_f8.h"
#include "aot_packed.h"
#include "aot_random.h"

/* The nearest number with `bits` significant bits and exponents from `low` on, halves to even. */
static double rounded(double v, int bits, int low, double top) {
    int e;
    double unit, r;
    if (!(fabs(v) > 0.0) || !isfinite(v)) {
        return v;
    }
    (void)frexp(v, &e); /* v = 0.5..1 * 2^e */
    unit = ldexp(1.0, (e > low ? e : low) - bits);
    r = nearbyint(v / unit) * unit;
    return fabs(r) > top ? copysign((double)INFINITY, v) : r;
}
static double half(double v) {
    return rounded(v, 11, -13, 65504.0);
}
static double brain(double v) {
    return rounded(v, 8, -125, 3.3895313892515355e38);
}

/* What the bits mean. */
static double half_value(uint16_t h) {
    const int e = h >> 10 & 31, m = h & 1023;
    const double sign = h >> 15 ? -1.0 : 1.0;
    return e == 31 ? (m ? (double)NAN : sign * (double)INFINITY)
                   : sign * (e ? ldexp(m + 1024, e - 25) : ldexp(m, -24));
}
static double brain_value(uint16_t h) {
    const int e = h >> 7 & 255, m = h & 127;
    const double sign = h >> 15 ? -1.0 : 1.0;
    return e == 255 ? (m ? (double)NAN : sign * (double)INFINITY)
                    : sign * (e ? ldexp(m + 128, e - 134) : ldexp(m, -133));
}

#define COUNT 400
static double number(int i) {
    static const double special[] = {0.0,
                                     -0.0,
                                     0.5,
                                     -0.5,
                                     127.5,
                                     -128.9,
                                     255.9,
                                     256,
                                     -1,
                                     65504,
                                     65519.9,
                                     65520,
                                     2147483647.9,
                                     -2147483649.0,
                                     4294967295.5,
                                     9.3e18,
                                     -9.3e18,
                                     1.9e19,
                                     1e-8,
                                     3e-8,
                                     1e38,
                                     3.4e38,
                                     1.0009765625,
                                     1.00390625,
                                     2049,
                                     (double)NAN,
                                     (double)INFINITY,
                                     -(double)INFINITY};
    const int count = (int)(sizeof special / sizeof *special);
    return i < count ? special[i] : ldexp(check_uniform(-1.0, 1.0), (int)check_integer(-30, 66));
}

/* Towards zero, limited; NaN gives 0. Ends beyond 2^53 are compared as doubles. */
#define TO_INT(FROM, TX, VALUE, SHORT, T, LO, HI)                                                  \
    static void FROM##_to_##SHORT(void) {                                                          \
        const aot_cast_params p = {COUNT};                                                         \
        TX x[COUNT];                                                                               \
        T y[COUNT];                                                                                \
        check_case("%s to %s", #FROM, #SHORT);                                                     \
        for (int i = 0; i < COUNT; ++i) {                                                          \
            x[i] = FROM##_of(number(i));                                                           \
        }                                                                                          \
        aot_cast_##FROM##_##SHORT(y, x, &p);                                                       \
        for (int i = 0; i < COUNT; ++i) {                                                          \
            const double v = trunc(VALUE(x[i]));                                                   \
            const T want = isnan(v)            ? 0                                                 \
                           : v <= (double)(LO) ? (LO)                                              \
                           : v >= (double)(HI) ? (HI)                                              \
                                               : (T)v;                                             \
            same_at("y", i, (int64_t)y[i], (int64_t)want);                                         \
        }                                                                                          \
    }
/* To floating point and booleans: `SHOW` reads what was written, `ROUND` is what it must be. */
#define TO_FLOAT(FROM, TX, VALUE, SHORT, T, SHOW, ROUND)                                           \
    static void FROM##_to_##SHORT(void) {                                                          \
        const aot_cast_params p = {COUNT};                                                         \
        TX x[COUNT];                                                                               \
        T y[COUNT];                                                                                \
        check_case("%s to %s", #FROM, #SHORT);                                                     \
        for (int i = 0; i < COUNT; ++i) {                                                          \
            x[i] = FROM##_of(number(i));                                                           \
        }                                                                                          \
        aot_cast_##FROM##_##SHORT(y, x, &p);                                                       \
        for (int i = 0; i < COUNT; ++i) {                                                          \
            close_at("y", i, SHOW(y[i]), ROUND(VALUE(x[i])), 0.0, 0.0);                            \
        }                                                                                          \
    }
static double same(double v) {
    return v;
}
static double truth(double v) {
    return isnan(v) || v < 0.0 || v > 0.0 ? 1.0 : 0.0;
}
static double single(double v) {
    return check_single((double)(float)v);
}
static float f32_of(double v) {
    return (float)v;
}
static double f64_of(double v) {
    return v;
}
static uint16_t f16_of(double v) {
    (void)v;
    return (uint16_t)check_random();
}
static uint16_t bf16_of(double v) {
    (void)v;
    return (uint16_t)check_random();
}
#define WIDE(v) ((double)(v))

#define FROM_FLOAT(FROM, TX, VALUE)                                                                \
    TO_INT(FROM, TX, VALUE, s8, int8_t, INT8_MIN, INT8_MAX)                                        \
    TO_INT(FROM, TX, VALUE, s16, int16_t, INT16_MIN, INT16_MAX)                                    \
    TO_INT(FROM, TX, VALUE, s32, int32_t, INT32_MIN, INT32_MAX)                                    \
    TO_INT(FROM, TX, VALUE, s64, int64_t, INT64_MIN, INT64_MAX)                                    \
    TO_INT(FROM, TX, VALUE, u8, uint8_t, 0, UINT8_MAX)                                             \
    TO_INT(FROM, TX, VALUE, u16, uint16_t, 0, UINT16_MAX)                                          \
    TO_INT(FROM, TX, VALUE, u32, uint32_t, 0, UINT32_MAX)                                          \
    TO_INT(FROM, TX, VALUE, u64, uint64_t, 0, UINT64_MAX)                                          \
    TO_FLOAT(FROM, TX, VALUE, f64, double, WIDE, same)                                             \
    TO_FLOAT(FROM, TX, VALUE, f32, float, WIDE, single)                                            \
    TO_FLOAT(FROM, TX, VALUE, b8, uint8_t, WIDE, truth)                                            \
    TO_FLOAT(FROM, TX, VALUE, bf16, uint16_t, brain_value, brain)
FROM_FLOAT(f32, float, WIDE)
FROM_FLOAT(f64, double, WIDE)
FROM_FLOAT(f16, uint16_t, half_value)
TO_FLOAT(f32, float, WIDE, f16, uint16_t, half_value, half)
TO_FLOAT(f64, double, WIDE, f16, uint16_t, half_value, half)
TO_FLOAT(bf16, uint16_t, brain_value, f16, uint16_t, half_value, half)
TO_FLOAT(bf16, uint16_t, brain_value, f32, float, WIDE, single)
TO_FLOAT(bf16, uint16_t, brain_value, f64, double, WIDE, same)
TO_FLOAT(bf16, uint16_t, brain_value, b8, uint8_t, WIDE, truth)
TO_INT(bf16, uint16_t, brain_value, s8, int8_t, INT8_MIN, INT8_MAX)
TO_INT(bf16, uint16_t, brain_value, s64, int64_t, INT64_MIN, INT64_MAX)
TO_INT(bf16, uint16_t, brain_value, u32, uint32_t, 0, UINT32_MAX)

/* From integers: the low bits, the nearest floating-point number. */
#define FROM_INT(FROM, TX)                                                                         \
    static void from_##FROM(void) {                                                                \
        const aot_cast_params p = {64};                                                            \
        TX x[64];                                                                                  \
        int8_t s8[64];                                                                             \
        uint16_t u16[64], f16[64];                                                                 \
        int32_t s32[64];                                                                           \
        uint64_t u64[64];                                                                          \
        float f32[64];                                                                             \
        double f64[64];                                                                            \
        uint8_t b8[64];                                                                            \
        check_case("from %s", #FROM);                                                              \
        for (int i = 0; i < 64; ++i) {                                                             \
            const uint64_t high = check_random();                                                  \
            x[i] = (TX)(i % 4 == 0 ? (uint64_t)(i / 8) : (high << 32 | check_random()) >> i);      \
        }                                                                                          \
        aot_cast_##FROM##_s8(s8, x, &p);                                                           \
        aot_cast_##FROM##_u16(u16, x, &p);                                                         \
        aot_cast_##FROM##_s32(s32, x, &p);                                                         \
        aot_cast_##FROM##_u64(u64, x, &p);                                                         \
        aot_cast_##FROM##_f16(f16, x, &p);                                                         \
        aot_cast_##FROM##_f32(f32, x, &p);                                                         \
        aot_cast_##FROM##_f64(f64, x, &p);                                                         \
        aot_cast_##FROM##_b8(b8, x, &p);                                                           \
        for (int i = 0; i < 64; ++i) {                                                             \
            const uint64_t v = (uint64_t)x[i];                                                     \
            same_at("s8", i, s8[i], (int64_t)(v & 255U) - (v >> 7 & 1U ? 256 : 0));                \
            same_at("u16", i, u16[i], (int64_t)(v & 65535U));                                      \
            same_at("s32", i, s32[i], (int32_t)(uint32_t)v);                                       \
            same_at("u64", i, (int64_t)u64[i], (int64_t)v);                                        \
            close_at("f16", i, half_value(f16[i]), half((double)(float)x[i]), 0.0, 0.0);           \
            close_at("f32", i, (double)f32[i], (double)x[i], 6e-8, 0.0);                           \
            close_at("f64", i, f64[i], (double)x[i], 0.0, 0.0);                                    \
            same_at("b8", i, b8[i], v != 0);                                                       \
        }                                                                                          \
    }
/* The bfloat16 next to an integer: of 64 bits, 8 count, and all others decide. */
#define FROM_LONG(FROM, TX)                                                                        \
    static void brain_##FROM(void) {                                                               \
        const aot_cast_##FROM##_bf16_params p = {4096};                                            \
        TX x[4096];                                                                                \
        uint16_t y[4096];                                                                          \
        check_case("bfloat16 from %s", #FROM);                                                     \
        for (int i = 0; i < 4096; ++i) {                                                           \
            const uint64_t some = (uint64_t)check_random() << 32 | check_random();                 \
            const uint64_t high = some & ~(~UINT64_C(0) >> (i % 5 + 7));                           \
            x[i] = (TX)(i % 2 ? some >> i / 64 : high >> i / 64 | (uint64_t)(i % 3));              \
        }                                                                                          \
        aot_cast_##FROM##_bf16(y, x, &p);                                                          \
        for (int i = 0; i < 4096; ++i) {                                                           \
            const int below = x[i] < 1 && x[i] != 0;                                               \
            uint64_t v = below ? 0 - (uint64_t)x[i] : (uint64_t)x[i], step = 1;                    \
            while (v / step >= 256) {                                                              \
                step *= 2;                                                                         \
            }                                                                                      \
            {                                                                                      \
                const uint64_t rest = v % step, part = v / step;                                   \
                const int up = rest > step / 2 || (step > 1 && rest == step / 2 && part % 2 == 1); \
                const double want = (double)(part + (uint64_t)up) * (double)step;                  \
                close_at("bf16", i, brain_value(y[i]), below ? -want : want, 0.0, 0.0);            \
            }                                                                                      \
        }                                                                                          \
    }
FROM_LONG(s64, int64_t)
FROM_LONG(u64, uint64_t)

FROM_INT(s8, int8_t)
FROM_INT(s16, int16_t)
FROM_INT(s32, int32_t)
FROM_INT(s64, int64_t)
FROM_INT(u8, uint8_t)
FROM_INT(u16, uint16_t)
FROM_INT(u32, uint32_t)
FROM_INT(u64, uint64_t)

/* Every code of float8 to float32 and back is itself. */
static void test_f8(int M, int bias, int kind) {
    const aot_cast_from_f8_params p = {256};
    uint8_t x[256], y[256];
    float wide[256];
    uint16_t narrow[256];
    check_case("float8 of %d bits, kind %d, forth and back", M, kind);
    for (int i = 0; i < 256; ++i) {
        x[i] = (uint8_t)i;
    }
    aot_cast_from_f8(wide, x, &p, 0, M, bias, kind);
    aot_cast_to_f8(y, wide, &p, 0, M, bias, kind, 0);
    for (int i = 0; i < 256; ++i) {
        const int e = (i & 127) >> M, m = i & ((1 << M) - 1);
        const double v = e ? ldexp(m + (1 << M), e - bias - M) : ldexp(m, 1 - bias - M);
        if (!isnan(wide[i])) {
            same_at("code", i, y[i], i);
        }
        if (!isnan(wide[i]) && !isinf(wide[i])) {
            close_at("value", i, (double)wide[i], i & 128 ? -v : v, 0.0, 0.0);
        }
    }
    aot_cast_from_f8(narrow, x, &p, 1, M, bias, kind);
    for (int i = 0; i < 256; ++i) {
        close_at("float16", i, half_value(narrow[i]), half((double)wide[i]), 0.0, 0.0);
    }
    aot_cast_from_f8(narrow, x, &p, 2, M, bias, kind);
    for (int i = 0; i < 256; ++i) {
        close_at("bfloat16", i, brain_value(narrow[i]), brain((double)wide[i]), 0.0, 0.0);
    }
}

static void test_packed(int bits, int n) {
    const aot_unpack_bits_params p = {n};
    const int per = 8 / bits, bytes = (n + per - 1) / per;
    uint8_t *x = NEW(uint8_t, n), *packed = NEW(uint8_t, bytes), *y = NEW(uint8_t, n);
    check_case("%d elements of %d bits", n, bits);
    fill_u8(x, n, 0, (1 << bits) - 1);
    aot_pack_bits(packed, x, &p, bits);
    for (int i = 0; i < bytes; ++i) {
        int64_t byte = 0;
        for (int k = per - 1; k >= 0; --k) {
            byte = byte * (1 << bits) + (i * per + k < n ? x[i * per + k] : 0);
        }
        same_at("byte", i, packed[i], byte);
    }
    aot_unpack_bits(y, packed, &p, bits, 0);
    same_bytes("unpacked", y, x, (size_t)n);
    aot_unpack_bits(y, packed, &p, bits, 1);
    for (int i = 0; i < n; ++i) {
        same_at("signed", i, (int8_t)y[i], x[i] >= 1 << (bits - 1) ? x[i] - (1 << bits) : x[i]);
    }
    check_free();
}

static void test_e8m0(int mode, int saturate) {
    const aot_e8m0_encode_params p = {6};
    static const float x[6] = {1.0F, 1.5F, -3.0F, 3.4e38F, (float)INFINITY, 1.25F};
    /* Exponents of 1, of 1.5 and 3 up, down and to nearest (halves up), and of the largest power.
     */
    static const int64_t want[3][6] = {{127, 128, 129, 255, 255, 128},
                                       {127, 127, 128, 254, 255, 127},
                                       {127, 128, 129, 255, 255, 127}};
    const aot_e8m0_decode_params all = {256};
    uint8_t y[6], codes[256];
    float v[256];
    check_case("float8e8m0, mode %d, saturated %d", mode, saturate);
    aot_e8m0_encode(y, x, &p, mode, saturate);
    for (int i = 0; i < 6; ++i) {
        same_at("code", i, y[i], saturate && i == 3 ? 254 : want[mode][i]);
    }
    for (int i = 0; i < 256; ++i) {
        codes[i] = (uint8_t)i;
    }
    aot_e8m0_decode(v, codes, &all);
    for (int i = 0; i < 256; ++i) {
        close_at("value", i, (double)v[i], i == 255 ? (double)NAN : ldexp(1.0, i - 127), 0.0, 0.0);
    }
}

/* Uniform numbers stay in their range and are spread evenly; normal ones have their mean and
 * deviation; two runs go on where one of both would be. */
#define RANDOM(SHORT, T)                                                                           \
    static void random_##SHORT(int normal) {                                                       \
        enum { N = 40000 };                                                                        \
        const aot_random_params p = {N, 42, normal ? 3.0 : -2.0, normal ? 0.5 : 6.0},              \
                                q = {N / 2, 42, p.a, p.b};                                         \
        T *x = NEW(T, N), *y = NEW(T, N);                                                          \
        uint64_t drawn = 0, again = 0;                                                             \
        double sum = 0.0, squares = 0.0;                                                           \
        int bins[8] = {0};                                                                         \
        check_case("random %s, normal %d", #SHORT, normal);                                        \
        aot_random_##SHORT(x, &drawn, &p, normal);                                                 \
        aot_random_##SHORT(y, &again, &q, normal);                                                 \
        aot_random_##SHORT(y + N / 2, &again, &q, normal);                                         \
        same_bytes("two runs", y, x, N * sizeof(T));                                               \
        same_at("draws", 0, (int64_t)drawn, N);                                                    \
        for (int i = 0; i < N; ++i) {                                                              \
            const double v = (double)x[i];                                                         \
            sum += v / N;                                                                          \
            squares += v * v / N;                                                                  \
            CHECK(normal || (v >= -2.0 && v < 6.0));                                               \
            bins[normal ? 0 : (int)(v + 2.0)] += 1;                                                \
        }                                                                                          \
        /* Errors of means of 40000 numbers, four deviations of them. */                           \
        close_at("mean", 0, sum, normal ? 3.0 : 2.0, 0.0, normal ? 0.01 : 0.047);                  \
        close_at("variance", 0, squares - sum * sum, normal ? 0.25 : 64.0 / 12, 0.0,               \
                 normal ? 0.01 : 0.1);                                                             \
        for (int b = 0; b < 8 && !normal; ++b) {                                                   \
            close_at("bin", b, bins[b], N / 8.0, 0.0, 270.0);                                      \
        }                                                                                          \
        check_free();                                                                              \
    }
RANDOM(f32, float)
RANDOM(f64, double)

#define RUN(FROM)                                                                                  \
    FROM##_to_s8(), FROM##_to_s16(), FROM##_to_s32(), FROM##_to_s64(), FROM##_to_u8(),             \
        FROM##_to_u16(), FROM##_to_u32(), FROM##_to_u64(), FROM##_to_f64(), FROM##_to_f32(),       \
        FROM##_to_b8(), FROM##_to_bf16()

int main(void) {
    RUN(f32);
    RUN(f64);
    RUN(f16);
    f32_to_f16(), f64_to_f16(), bf16_to_f16(), bf16_to_f32(), bf16_to_f64(), bf16_to_b8();
    bf16_to_s8(), bf16_to_s64(), bf16_to_u32();
    brain_s64(), brain_u64();
    from_s8(), from_s16(), from_s32(), from_s64(), from_u8(), from_u16(), from_u32(), from_u64();
    test_f8(2, 15, 0);
    test_f8(3, 7, 1);
    test_f8(3, 8, 2);
    test_f8(2, 16, 2);
    for (int n = 0; n < 20; n += 3) {
        test_packed(2, n);
        test_packed(4, n);
    }
    for (int k = 0; k < 6; ++k) {
        test_e8m0(k % 3, k / 3);
    }
    random_f32(0), random_f32(1), random_f64(0), random_f64(1);
    return check_end();
}
