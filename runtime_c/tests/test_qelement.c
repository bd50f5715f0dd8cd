/* SPDX-License-Identifier: MIT-0 */
/* Requantisation itself, tables, and elementwise functions of quantised values: what float32 or
 * TensorFlow Lite computes, operation by operation. */
#include "broadcasts.h"
#include "quantised.h"

#include "aot_quantised.h"
#include "aot_qbinary.h"
#include "aot_qbinary_mve.h"
#include "aot_qcalc.h"
#include "aot_qchannel.h"
#include "aot_qexact.h"
#include "aot_qflip.h"
#include "aot_qtable.h"
#include "aot_qtable16.h"

static void test_requant(int rq) {
    const int64_t top = rq == 2 ? 1 << 30 : AOT_REQUANT_LIMIT;
    const scales s = {rq, 0, NEW(int32_t, 1), NEW(int8_t, 1)};
    for (int k = 0; k < 300; ++k) {
        /* Powers of two give ties; RQ 2 also has scales above one, which shift to the left. */
        const double wide = k % 3 == 0 ? ldexp(1.0, -(k % 17) - 1) : check_uniform(1e-6, 0.9);
        set_scale(&s, 0, (float)(rq == 2 && k % 5 == 0 ? wide * 8 : wide));
        s.shift[0] = (int8_t)(rq == 1 && s.shift[0] == 0 ? 1 : s.shift[0]);
        for (int i = 0; i < 300; ++i) {
            const int bits = i % 30;
            const int64_t most = (INT64_C(1) << (bits + 1)) - (rq == 2 && bits == 29);
            const int32_t acc = (int32_t)check_integer(-most + 1, most - 1);
            const int64_t want = within(rescaled(acc, &s, 0), -top, top);
            check_case("requantise %d by %d, shift %d, RQ %d", acc, s.mult[0], s.shift[0], rq);
            same_at("value", 0, aot_requant(acc, s.mult[0], s.shift[0], rq), want);
            same_at("value", 0, aot_requant_value(acc, s.mult[0], s.shift[0], -100, -90, 101, rq),
                    within(want - 100, -90, 101));
        }
    }
    check_free();
}

static void test_tables(void) {
    const aot_qflip_params flip = {256};
    const aot_qtable_params plain = {256};
    const aot_qtable16_params pieces = {256, -128, 6};
    /* Four pieces of 64 quantised values: two straight lines, a curve, and quantised values one by
     * one. */
    static const int32_t numbers[12] = {0,       1 << 30, 0,       -1048576, 3 << 29,   0,
                                        5 << 14, 1 << 28, 1 << 24, 3,        INT32_MIN, 0};
    int8_t x[256];
    uint8_t table[256], y[256];
    int16_t literal[67], wide[256];
    check_case("tables");
    for (int i = 0; i < 256; ++i) {
        x[i] = (int8_t)(i - 128);
        table[i] = (uint8_t)check_random();
    }
    fill_s16(literal, 67, -32768, 32767);
    aot_qflip(y, x, &flip);
    for (int i = 0; i < 256; ++i) {
        same_at("flipped", i, y[i], i);
    }
    aot_qtable(y, x, table, &plain);
    for (int i = 0; i < 256; ++i) {
        same_at("from the table", i, y[i], table[(i + 128) % 256]);
    }
    aot_qtable16(wide, x, numbers, literal, &pieces, AOT_Q_S8, AOT_Q_S16);
    for (int i = 0; i < 256; ++i) {
        const int32_t *n = numbers + 3 * (i / 64);
        const double d = i % 64, v = ldexp(n[0], 16) + n[1] * d + n[2] * d * d;
        same_at("by pieces", i, wide[i],
                i >= 192 ? literal[3 + i % 64] : (int64_t)floor(ldexp(v, -30)));
    }
    for (int T = AOT_Q_S8; T <= AOT_Q_U16; ++T) {
        static const int64_t low[4] = {-128, 200, -30000, 60000};
        uint16_t room[3] = {0, 0, 0};
        aot_q_store(room, 1, (int32_t)low[T], T);
        same_at("value", T, aot_q_load(room, 1, T), low[T]);
        same_at("its neighbours", T, aot_q_load(room, 0, T) + aot_q_load(room, 2, T), 0);
    }
    same_at("shifted", 0, aot_q_shifted(INT32_MAX, 5, -128, 127), 127);
    same_at("shifted", 1, aot_q_shifted(INT32_MIN, -5, -128, 127), -128);
}

/* Sums and products of int8 quantised values with every broadcast. */
static void test_binary(int number, int kind) {
    const broadcast *c = &broadcasts[number];
    const ptrdiff_t n = broadcast_elements(c);
    const scales s = {kind < 2 ? kind : 2, 1, NEW(int32_t, 4), NEW(int8_t, 4)},
                 fixed = {2, 1, s.mult, s.shift};
    aot_qbinary_params p = {{0}, {0}, {0}, 9000, -7777,
                            0,   0,   0,   14,   12345 + (1 << 13) - (kind == 1),
                            -7,  4,   3,   -100, 110};
    const ptrdiff_t na = broadcast_strides(c, 0, p.sa), nb = broadcast_strides(c, 1, p.sb);
    const int8_t *a = some_values(na, -128), *b = some_values(nb, -128);
    int8_t *y = NEW(int8_t, n);
    (void)memcpy(p.dims, c->dims, sizeof p.dims);
    set_scale(&fixed, 0, 0.4F);
    set_scale(&fixed, 1, 0.45F);
    set_scale(&fixed, 2, (float)ldexp(1.25, -20));
    if (kind == 2) {
        p.a_mult = s.mult[0], p.b_mult = s.mult[1], p.y_mult = s.mult[2],
        p.offset = number % 2 ? -1 : 1;
        p.a_shift = s.shift[0], p.b_shift = s.shift[1], p.y_shift = s.shift[2];
    }
    check_case("sum of values, broadcast %d, KIND %d", number, kind);
    aot_qadd_s8(y, a, b, &p, c->has[0][5], c->has[1][5], kind);
    for (ptrdiff_t i = 0; i < n; ++i) {
        const int u = a[broadcast_at(c, p.sa, i)], v = b[broadcast_at(c, p.sb, i)];
        int64_t want;
        if (kind == 2) {
            const int64_t left = rescaled((int64_t)(u + 7) * (1 << 20), &fixed, 0);
            const int64_t right = rescaled((int64_t)(v - 4) * (1 << 20), &fixed, 1);
            want = rescaled(left + p.offset * right, &fixed, 2) + 3;
        } else {
            const double sum = (9000.0 * u - 7777.0 * v + 12345) / 16384.0;
            want = kind == 1 ? (int64_t)nearbyint(sum) : (int64_t)floor(sum + 0.5);
        }
        same_at("y", i, y[i], within(want, -100, 110));
    }
    check_case("product of values, broadcast %d, KIND %d", number, kind);
    set_scale(&s, 3, 0.011F);
    p.y_mult = s.mult[3], p.y_shift = s.shift[3];
    aot_qmul_s8(y, a, b, &p, c->has[0][5], c->has[1][5], kind);
    for (ptrdiff_t i = 0; i < n; ++i) {
        const int u = a[broadcast_at(c, p.sa, i)] + 7, v = b[broadcast_at(c, p.sb, i)] - 4;
        same_at("y", i, y[i], within(rescaled((int64_t)u * v, &s, 3) + 3, -100, 110));
    }
    check_free();
}

/* scale = sig * 2^exp, 2^23 <= |sig| < 2^24. */
static void parts(float scale, int32_t *sig, int32_t *exp) {
    *sig = (int32_t)ldexp(frexp((double)scale, exp), 24);
    *exp -= 24;
}

/* The fields of one calculation: bits, so that the largest multiplier has 30. */
static int multiplier(int32_t *mult, double a, double b) {
    int exponent;
    (void)frexp(fmax(a, b), &exponent);
    mult[0] = (int32_t)nearbyint(ldexp(a, 30 - exponent));
    mult[1] = (int32_t)nearbyint(ldexp(b, 30 - exponent));
    return 30 - exponent;
}

/* What float32 computes, each operation rounded. */
static double calculated(int u, int v, float sa, float sb, float sy, int op) {
    const float a = (float)u * sa, b = (float)v * sb;
    const float r = op == 0 ? a + b : op == 1 ? a * b : v == 0 && u == 0 ? 0.0F : a / b;
    const float q = r / sy;
    return fmin(fmax(nearbyint((double)q), -1e6), 1e6);
}

#define CALC(SHORT, T, LO, HI, ZERO)                                                               \
    static void calc_##SHORT(int number, int op, int k) {                                          \
        const broadcast *c = &broadcasts[number];                                                  \
        const ptrdiff_t n = broadcast_elements(c);                                                 \
        /* Scales that are powers of two give ties. */                                             \
        const float sa = k % 2 ? 0.5F : (float)check_uniform(0.01, 0.1),                           \
                    sb = k % 2 ? 0.25F : 0.07F;                                                    \
        const float sy = k % 2 ? (op == 1 ? 0.25F : 1.0F) : (float)check_uniform(0.1, 0.2);        \
        const double a = (double)sa, b = (double)sb, y0 = (double)sy;                              \
        const double left = op == 0 ? a / y0 : op == 1 ? a * b / y0 : a / b / y0;                  \
        int32_t mult[2];                                                                           \
        aot_qcalc_params p = {{0}, {0}, {0},  0,    0,    0,  0,  0,   0,                          \
                              0,   1,   ZERO, ZERO, ZERO, LO, HI, {0}, {0}};                       \
        const ptrdiff_t na = broadcast_strides(c, 0, p.sa), nb = broadcast_strides(c, 1, p.sb);    \
        T *x = NEW(T, na), *z = NEW(T, nb), *y = NEW(T, n);                                        \
        check_case("calculation %d of %s, broadcast %d, scales %d", op, #SHORT, number, k);        \
        (void)memcpy(p.dims, c->dims, sizeof p.dims);                                              \
        p.bits = multiplier(mult, left, op == 0 ? b / y0 : 0.0);                                   \
        p.a_mult = mult[0], p.b_mult = mult[1], p.sign = k / 2 % 2 ? -1 : 1;                       \
        parts(sa, &p.sig[0], &p.exp[0]);                                                           \
        parts(sb, &p.sig[1], &p.exp[1]);                                                           \
        parts(sy, &p.sig[2], &p.exp[2]);                                                           \
        fill_##SHORT(x, na, k < 4 ? ZERO - 90 : LO, k < 4 ? ZERO + 90 : HI);                       \
        fill_##SHORT(z, nb, k < 4 ? ZERO - 90 : LO, k < 4 ? ZERO + 90 : HI);                       \
        aot_qcalc_##SHORT(y, x, z, &p, c->has[0][5], c->has[1][5], op);                            \
        for (ptrdiff_t i = 0; i < n; ++i) {                                                        \
            const int u = x[broadcast_at(c, p.sa, i)] - ZERO;                                      \
            const int v = (z[broadcast_at(c, p.sb, i)] - ZERO) * p.sign;                           \
            const double q = op == 2 && v == 0 ? (u > 0   ? 1e6                                    \
                                                  : u < 0 ? -1e6                                   \
                                                          : 0.0)                                   \
                                               : calculated(u, v, sa, sb, sy, op);                 \
            same_at("y", i, y[i], within((int64_t)q + ZERO, LO, HI));                              \
        }                                                                                          \
        check_free();                                                                              \
    }
CALC(s8, int8_t, -128, 127, -3)
CALC(s16, int16_t, -32768, 32767, 0)
CALC(u16, uint16_t, 0, 65535, 32768)

/* TensorFlow Lite's sum and product of 16 bits. */
static void test_tflite(int op) {
    const scales s = {2, 1, NEW(int32_t, 3), NEW(int8_t, 3)};
    aot_qcalc_params p = {{1, 1, 1, 1, 1, 50},
                          {0, 0, 0, 0, 0, 1},
                          {0, 0, 0, 0, 0, 1},
                          0,
                          0,
                          0,
                          0,
                          0,
                          0,
                          0,
                          1,
                          0,
                          0,
                          0,
                          -32768,
                          32767,
                          {0},
                          {0}};
    int16_t a[50], b[50], y[50];
    check_case("TFLite, OP %d", op);
    set_scale(&s, 0, 0.4F);
    set_scale(&s, 1, 0.45F);
    set_scale(&s, 2, op == 3 ? (float)ldexp(1.25, -15) : 0.00003F);
    p.a_mult = s.mult[0], p.b_mult = s.mult[1], p.y_mult = s.mult[2];
    p.a_shift = s.shift[0], p.b_shift = s.shift[1], p.y_shift = s.shift[2];
    fill_s16(a, 50, -32767, 32767);
    fill_s16(b, 50, -32767, 32767);
    aot_qcalc_s16(y, a, b, &p, 1, 1, op);
    for (int i = 0; i < 50; ++i) {
        const int64_t top = (1 << 30) - 1, product = within((int64_t)a[i] * b[i], -top, top);
        const int64_t left = rescaled(within((int64_t)a[i] * 32768, -top, top), &s, 0);
        const int64_t right = rescaled(within((int64_t)b[i] * 32768, -top, top), &s, 1);
        const int64_t want = rescaled(op == 4 ? product : left + right, &s, 2);
        same_at("y", i, y[i], within(want, -32768, 32767));
    }
    check_free();
}

/* u * factor + addend, per channel, as float32 computes it. */
#define CHANNEL(SHORT, T, LO, HI, ZERO)                                                            \
    static void channel_##SHORT(int M, int A, int ties) {                                          \
        enum { ROWS = 9, CHANNELS = 7 };                                                           \
        const int words = AOT_QCHANNEL_WORDS(M, A);                                                \
        const float sx = ties ? 0.5F : 0.037F, sy = ties ? 1.0F : 0.11F;                           \
        aot_qchannel_params p = {{1, 1, 1, 1, ROWS, CHANNELS},                                     \
                                 {0, 0, 0, 0, CHANNELS, 1},                                        \
                                 {0, 0, 0, 0, 0, 1},                                               \
                                 0,                                                                \
                                 26,                                                               \
                                 ties ? -1 : 1,                                                    \
                                 ZERO,                                                             \
                                 ZERO,                                                             \
                                 LO,                                                               \
                                 HI,                                                               \
                                 {0},                                                              \
                                 {0}};                                                             \
        int32_t *numbers = NEW(int32_t, CHANNELS * 7), *k;                                         \
        T *x = NEW(T, ROWS * CHANNELS), *y = NEW(T, ROWS * CHANNELS);                              \
        float factor[CHANNELS], addend[CHANNELS];                                                  \
        check_case("channels of %s, M %d, A %d, ties %d", #SHORT, M, A, ties);                     \
        p.sb[5] = words;                                                                           \
        p.mult = (int32_t)nearbyint(ldexp((double)sx / (double)sy, p.bits));                       \
        parts(sx, &p.sig[0], &p.exp[0]);                                                           \
        parts(sy, &p.sig[1], &p.exp[1]);                                                           \
        for (int c = 0; c < CHANNELS; ++c) {                                                       \
            const double f = ties ? 1.5 : check_uniform(0.3, 3.0), b = ties ? 2.5 : 1.3 * (c - 3); \
            factor[c] = (float)(c % 2 ? -f : f);                                                   \
            addend[c] = (float)(b == 0.0 ? 0.7 : b);                                               \
            k = numbers + c * words;                                                               \
            if (M != 0) {                                                                          \
                const double by = M == 2 ? 1 / (double)factor[c] : (double)factor[c];              \
                k[0] = (int32_t)nearbyint(ldexp((double)sx / (double)sy * by, p.bits));            \
                parts(factor[c], &k[1], &k[2]);                                                    \
                k += 3;                                                                            \
            }                                                                                      \
            if (A != 0) {                                                                          \
                const int64_t v =                                                                  \
                    (int64_t)nearbyint(ldexp((double)addend[c] / (double)sy, p.bits));             \
                k[0] = (int32_t)(uint32_t)((uint64_t)v & UINT32_MAX);                              \
                k[1] = (int32_t)(v >> 32);                                                         \
                parts(addend[c], &k[2], &k[3]);                                                    \
            }                                                                                      \
        }                                                                                          \
        fill_##SHORT(x, ROWS *CHANNELS, ties ? ZERO - 60 : LO, ties ? ZERO + 60 : HI);             \
        aot_qchannel_##SHORT(y, x, numbers, &p, 1, 1, M, A);                                       \
        for (int i = 0; i < ROWS * CHANNELS; ++i) {                                                \
            const int u = (x[i] - ZERO) * p.sign;                                                  \
            const float v = (float)u * sx, f = factor[i % CHANNELS];                               \
            const float w = M == 1 || (M == 3 && u < 0) ? v * f : M == 2 ? v / f : v;              \
            const float sum = A ? w + addend[i % CHANNELS] : w, q = sum / sy;                      \
            same_at("y", i, y[i], within((int64_t)nearbyint((double)q) + ZERO, LO, HI));           \
        }                                                                                          \
        check_free();                                                                              \
    }
CHANNEL(s8, int8_t, -128, 127, -3)
CHANNEL(s16, int16_t, -32768, 32767, 0)
CHANNEL(u16, uint16_t, 0, 65535, 32768)

int main(void) {
    for (int rq = 0; rq < 3; ++rq) {
        test_requant(rq);
    }
    test_tables();
    for (int number = 0; number < BROADCAST_CASES; ++number) {
        for (int kind = 0; kind < 3; ++kind) {
            test_binary(number, kind);
            for (int k = 0; k < 8; ++k) {
                calc_s8(number, kind, k);
                calc_s16(number, kind, k);
                calc_u16(number, kind, k);
            }
        }
    }
    test_tflite(3);
    test_tflite(4);
    for (int k = 0; k < 16; ++k) {
        if (k % 8 != 0) { /* M 0 without an addend keeps x */
            channel_s8(k % 4, k / 4 % 2, k / 8);
            channel_s16(k % 4, k / 4 % 2, k / 8);
            channel_u16(k % 4, k / 4 % 2, k / 8);
        }
    }
    return check_end();
}
