/* SPDX-License-Identifier: MIT-0 */
/* Resizing of quantised values along three axes at once: sums of products of weights, in doubles.
 */
#include "check.h"

#include "aot_quantised.h"
#include "aot_qresize16.h"
#include "aot_qresize_s8.h"

enum { OUTER = 2, INNER = 3 };
static const int32_t in[3] = {2, 3, 4}, out[3] = {3, 2, 5}, taps[3] = {2, 1, 3};
#define ENTRIES (3 * 2 + 2 * 1 + 5 * 3)
#define OUTPUTS (OUTER * 3 * 2 * 5 * INNER)
#define INPUTS (OUTER * 2 * 3 * 4 * INNER)

typedef struct tables {
    int32_t at[ENTRIES], fixed[ENTRIES], bits[ENTRIES];
    float w[ENTRIES];
} tables;

/* Places and weights of every output, which sum up to one; output 1 of the last axis is outside. */
static tables make(int outside) {
    tables t;
    int entry = 0;
    for (int a = 0; a < 3; ++a) {
        for (int o = 0; o < out[a]; ++o) {
            double left = 1.0;
            for (int k = 0; k < taps[a]; ++k, ++entry) {
                const double w = k + 1 < taps[a] ? check_uniform(-0.2, 0.7) : left;
                left -= w;
                t.at[entry] = (int32_t)check_integer(0, in[a] - 1);
                t.at[entry] = outside && a == 2 && o == 1 && k == 0 ? -1 : t.at[entry];
                t.w[entry] = (float)w;
                t.fixed[entry] = (int32_t)nearbyint(ldexp((double)t.w[entry], AOT_QRESIZE_BITS));
                (void)memcpy(&t.bits[entry], &t.w[entry], sizeof t.w[entry]);
            }
        }
    }
    return t;
}

/* The sum of output i over quantised values less their zero point; NaN outside. */
static double resized(const tables *t, const void *x, int T, int i, int zero) {
    const int o[3] = {i / (INNER * 10) % 3, i / (INNER * 5) % 2, i / INNER % 5};
    const int first[3] = {o[0] * taps[0], 6 + o[1] * taps[1], 8 + o[2] * taps[2]};
    double sum = 0.0;
    for (int k = 0; k < taps[0] * taps[1] * taps[2]; ++k) {
        const int e[3] = {first[0] + k / (taps[1] * taps[2]), first[1] + k / taps[2] % taps[1],
                          first[2] + k % taps[2]};
        int at = i / (INNER * 30);
        double w = 1.0;
        for (int a = 0; a < 3; ++a) {
            if (t->at[first[a]] < 0) {
                return (double)NAN;
            }
            at = at * in[a] + t->at[e[a]];
            w *= (double)t->w[e[a]];
        }
        sum += w * (aot_q_load(x, (int64_t)at * INNER + i % INNER, T) - zero);
    }
    return sum;
}

static void parts(float scale, int32_t *sig, int32_t *exp) {
    *sig = (int32_t)ldexp(frexp((double)scale, exp), 24);
    *exp -= 24;
}

static void test_s8(int x_zero, int y_zero, float sx, float sy, int outside) {
    const tables t = make(outside);
    const int bits = 20;
    int exponent;
    const double ratio = frexp((double)sx / (double)sy, &exponent); /* mult has 31 bits */
    aot_qresize_s8_params p = {OUTER,
                               {in[0], in[1], in[2]},
                               {out[0], out[1], out[2]},
                               INNER,
                               0,
                               out[1],
                               0,
                               {taps[0], taps[1], taps[2]},
                               bits,
                               (int32_t)(ratio * 2147483648.0),
                               bits + 31 - exponent,
                               x_zero,
                               y_zero,
                               -120,
                               119,
                               77,
                               0,
                               {0},
                               {0}};
    int8_t x[INPUTS], y[OUTPUTS];
    aot_qresize_tap *scratch = NEW(aot_qresize_tap, 6);
    check_case("resize of int8, zeros %d and %d, outside %d", x_zero, y_zero, outside);
    parts(sx, &p.sig[0], &p.exp[0]);
    parts(sy, &p.sig[1], &p.exp[1]);
    fill_s8(x, INPUTS, -128, 127);
    aot_qresize_s8(y, x, t.at, t.fixed, scratch, &p);
    for (int i = 0; i < OUTPUTS; ++i) {
        const double v = resized(&t, x, AOT_Q_S8, i, x_zero) * (double)sx / (double)sy + y_zero;
        close_at("y", i, y[i], isnan(v) ? 77 : fmin(fmax(v, -120), 119), 0.0,
                 isnan(v) ? 0.0 : 0.501);
    }
    check_free();
}

/* Linear upsampling by two with equal scales, whose sums are often halves: every channel is that of
 * the scalar code. */
static void test_halves(float scale, int32_t mult, int32_t shift, int32_t lines) {
    enum { WIDE = 37, ROWS = 3 };
    static const int32_t at[1 + 1 + 4 * ROWS] = {0, 0, 0, 0, 0, 1, 0, 1, 1, 2, 1, 2, 2, 2};
    static const int32_t w[1 + 1 + 4 * ROWS] = {1 << 29, 1 << 29, 1 << 29, 0,       3 << 27,
                                                1 << 27, 1 << 27, 3 << 27, 3 << 27, 1 << 27,
                                                1 << 27, 3 << 27, 1 << 28, 1 << 28};
    aot_qresize_s8_params p = {1,
                               {1, 1, ROWS},
                               {1, 1, 2 * ROWS},
                               WIDE,
                               0,
                               1,
                               0,
                               {1, 1, 2},
                               22,
                               mult,
                               shift,
                               -128,
                               -128,
                               -120,
                               120,
                               0,
                               lines,
                               {0},
                               {0}};
    int8_t x[ROWS * WIDE], y[2 * ROWS * WIDE];
    aot_qresize_tap *scratch = NEW(aot_qresize_tap, 2 + lines * (1 + ROWS * WIDE));
    check_case("resize of int8 with halves, scale %g, lines %d", (double)scale, lines);
    parts(scale, &p.sig[0], &p.exp[0]);
    parts(ldexpf(scale, shift - 52), &p.sig[1], &p.exp[1]);
    fill_s8(x, ROWS * WIDE, -128, 127);
    aot_qresize_s8(y, x, at, w, scratch, &p);
    for (int c = 0; c < 2 * ROWS; ++c) {
        const int32_t n = aot_qresize_gather(scratch, x, at, w, 0, 0, c, &p, 0);
        int32_t base = 0;
        for (int t = 0; t < n; ++t) {
            base -= scratch[t].weight * p.x_zero;
        }
        for (int i = 0; i < WIDE; ++i) {
            const int8_t want = aot_qresize_code(scratch, n, x + i, base, &p);
            close_at("y", c * WIDE + i, y[c * WIDE + i], want, 0.0, 0.0);
        }
    }
    check_free();
}

static void test_16(int XT, int YT, int nested, int outside) {
    static const int32_t low[4] = {-128, 0, -32768, 0}, high[4] = {127, 255, 32767, 65535};
    const tables t = make(outside);
    const float sx = 0.01F, sy = XT >= AOT_Q_S16 && YT < AOT_Q_S16 ? 2.5F : 0.013F;
    const int32_t x_zero = (low[XT] + high[XT]) / 2 + 5, y_zero = (low[YT] + high[YT]) / 2 - 9;
    const int bits = 28;
    int exponent;
    const double ratio = frexp((double)sx / (double)sy, &exponent);
    aot_qresize16_params p = {OUTER,
                              {in[0], in[1], in[2]},
                              {out[0], out[1], out[2]},
                              INNER,
                              {taps[0], taps[1], taps[2]},
                              bits,
                              (int32_t)(ratio * 2147483648.0),
                              bits + 31 - exponent - AOT_QRESIZE16_LOW,
                              20,
                              65536 * 12,
                              x_zero,
                              y_zero,
                              low[YT],
                              high[YT],
                              low[YT] + 3,
                              {0},
                              {0}};
    uint16_t x[INPUTS], y[OUTPUTS];
    aot_qresize_tap *scratch = NEW(aot_qresize_tap, 6);
    check_case("resize, types %d to %d, NESTED %d, outside %d", XT, YT, nested, outside);
    parts(sx, &p.sig[0], &p.exp[0]);
    parts(sy, &p.sig[1], &p.exp[1]);
    for (int i = 0; i < INPUTS; ++i) {
        aot_q_store(x, i, (int32_t)check_integer(low[XT], high[XT]), XT);
    }
    aot_qresize16(y, x, t.at, t.bits, scratch, &p, XT, YT, nested);
    for (int i = 0; i < OUTPUTS; ++i) {
        const double v = resized(&t, x, XT, i, x_zero) * (double)sx / (double)sy + y_zero;
        const double want = isnan(v) ? low[YT] + 3 : fmin(fmax(v, low[YT]), high[YT]);
        close_at("y", i, aot_q_load(y, i, YT), want, 0.0, isnan(v) ? 0.0 : 0.53);
    }
}

int main(void) {
    for (int k = 0; k < 200; ++k) {
        test_halves((float)check_uniform(0.001, 0.9), 1 << 30, 52, k % 2);
        test_halves((float)check_uniform(0.001, 0.9), 1 << 30, 51, k % 2);
        test_halves((float)check_uniform(0.001, 0.9), 1234567891, 52, k % 2);
    }
    for (int k = 0; k < 8; ++k) {
        test_s8(-3, 5, 0.05F, 0.07F, k % 2);
        test_s8(-128, 127, 0.5F, 0.5F, k % 2);
        test_s8(127, -128, 0.03F, 0.01F, k % 2);
        for (int types = 0; types < 16; ++types) {
            test_16(types / 4, types % 4, k / 2 % 2, k % 2);
        }
    }
    return check_end();
}
