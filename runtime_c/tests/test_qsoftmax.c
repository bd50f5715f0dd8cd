/* SPDX-License-Identifier: MIT-0 */
/* Softmax of quantised values of 8 and 16 bits, against exp(x) over the sum of exp(x) in doubles.
 */
#include "check.h"

#include "aot_quantised.h"
#include "aot_qsoftmax16.h"
#include "aot_qsoftmax_s16.h"
#include "aot_qsoftmax_s8.h"

static const int shapes[][3] = {{1, 1, 1}, {2, 7, 1}, {1, 40, 1}, {2, 5, 3}, {3, 2, 4}};
#define SHAPES (int)(sizeof shapes / sizeof *shapes)

/* The share of element i of its line of quantised values times `scale`; its logarithm if
 * `log_of_it`. */
static double share(const void *x, int T, int i, const int *s, double scale, int log_of_it) {
    const int first = i / (s[1] * s[2]) * s[1] * s[2] + i % s[2];
    double sum = 0.0;
    for (int k = 0; k < s[1]; ++k) {
        sum += exp((aot_q_load(x, first + k * s[2], T) - aot_q_load(x, i, T)) * scale);
    }
    return log_of_it ? -log(sum) : 1.0 / sum;
}

static void test_s8(const int *s, int tflite, double scale) {
    const int n = s[0] * s[1] * s[2], bits = 24, zero = tflite ? -128 : -100;
    const double y_scale = tflite ? 1.0 / 256 : 1.0 / 200;
    const aot_qsoftmax_s8_params p = {s[0], s[1], s[2], (int32_t)nearbyint(65536 / y_scale),
                                      bits, zero, 200};
    int32_t table[201];
    int8_t *x = NEW(int8_t, n), *y = NEW(int8_t, n);
    check_case("softmax of int8 [%d, %d, %d], TFLITE %d, scale %g", s[0], s[1], s[2], tflite,
               scale);
    for (int d = 0; d <= 200; ++d) {
        const double v = nearbyint(ldexp(exp(-d * scale), tflite ? 31 : bits));
        table[d] = v > INT32_MAX ? INT32_MAX : (int32_t)v;
    }
    fill_s8(x, n, -128, 127);
    aot_qsoftmax_s8(y, x, table, &p, tflite);
    for (int i = 0; i < n; ++i) {
        const double v = share(x, AOT_Q_S8, i, s, scale, 0) / y_scale + zero;
        close_at("y", i, y[i], fmin(v, 127.0), 0.0, 0.51);
    }
    aot_qsoftmax_s8(x, x, table, &p, tflite);
    same_bytes("y in place", x, y, (size_t)n);
    check_free();
}

/* TensorFlow Lite's tables: exp of -10..0 and 1 / (1 + v) of 0..1 in 512 steps, as Q0.15. */
static void test_s16(const int *s, double scale) {
    const int n = s[0] * s[1] * s[2];
    int exponent;
    /* Quantised values times their scale in units of 10/65535. */
    const double fraction = frexp(scale * 65535 / 10, &exponent);
    const aot_qsoftmax_s16_params p = {s[0], s[2], (int32_t)(fraction * 2147483648.0), exponent};
    int16_t exps[514], overs[514], *x = NEW(int16_t, n), *y = NEW(int16_t, n);
    check_case("softmax of int16 [%d, %d, %d], scale %g", s[0], s[1], s[2], scale);
    for (int i = 0; i < 514; ++i) {
        exps[i] = (int16_t)fmin(32767, nearbyint(32768 * exp(-10 + i * 10 / 512.0)));
        overs[i] = (int16_t)fmin(32767, nearbyint(32768 / (1 + i / 512.0)));
    }
    fill_s16(x, n, -30000, 30000);
    aot_qsoftmax_s16(y, x, exps, overs, &p, s[1]);
    for (int i = 0; i < n; ++i) {
        const double v = fmin(32767, 32768 * share(x, AOT_Q_S16, i, s, scale, 0));
        /* Interpolation, and a table that ends at exp(-10). */
        close_at("y", i, y[i], v, 5e-4, 6.0);
    }
    check_free();
}

static void parts(float scale, int32_t *sig, int32_t *exp) {
    *sig = (int32_t)ldexp(frexp((double)scale, exp), 24);
    *exp -= 24;
}

static void test_any(const int *s, int XT, int YT, int log_of_it) {
    static const int32_t low[4] = {-128, 0, -32768, 0}, high[4] = {127, 255, 32767, 65535};
    const int n = s[0] * s[1] * s[2];
    const float sx = XT >= AOT_Q_S16 ? 0.0003F : 0.07F;
    const float sy =
        log_of_it ? (YT >= AOT_Q_S16 ? 0.0007F : 0.13F) : 1.0F / (float)(high[YT] - low[YT] + 1);
    aot_qsoftmax16_params p = {s[0],
                               s[1],
                               s[2],
                               {0},
                               {0},
                               0,
                               0,
                               0,
                               0,
                               (low[XT] + high[XT]) / 2 + 3,
                               log_of_it ? high[YT] : low[YT],
                               low[YT],
                               high[YT]};
    uint16_t *x = NEW(uint16_t, n), *y = NEW(uint16_t, n);
    uint32_t table[64], *scratch = NEW(uint32_t, s[1]);
    double rate;
    int exponent;
    check_case("softmax [%d, %d, %d], types %d to %d, logarithm %d", s[0], s[1], s[2], XT, YT,
               log_of_it);
    parts(sx, &p.sig[0], &p.exp[0]);
    parts(sy, &p.sig[1], &p.exp[1]);
    rate = frexp(ldexp(1 / log(2), p.exp[0] + 16), &exponent); /* rate < 2^32 */
    p.bits = 32 - exponent;
    p.rate = (int64_t)(rate * 4294967296.0);
    p.unit = (int32_t)(frexp(1 / (double)sy, &exponent) * 2147483648.0);
    p.shift = 31 - exponent;
    for (int i = 0; i < 64; ++i) {
        table[i] = (uint32_t)fmin(4294967295.0, nearbyint(ldexp(pow(2, -i / 64.0), 31)));
    }
    for (int i = 0; i < n; ++i) {
        aot_q_store(x, i, (int32_t)check_integer(low[XT], high[XT]), XT);
    }
    aot_qsoftmax16(y, x, table, log_of_it ? NULL : scratch, &p, XT, YT, log_of_it);
    for (int i = 0; i < n; ++i) {
        const double v = share(x, XT, i, s, (double)sx, log_of_it) / (double)sy + p.y_zero;
        /* The roundings of float32 are 2^-22 of a quantised value of 16 bits and less. */
        close_at("y", i, aot_q_load(y, i, YT), fmin(fmax(v, low[YT]), high[YT]), 0.0, 0.55);
    }
    check_free();
}

int main(void) {
    for (int k = 0; k < SHAPES; ++k) {
        for (int t = 0; t < 2; ++t) {
            test_s8(shapes[k], t, 0.05);
            test_s8(shapes[k], t, 0.4);
        }
        test_s16(shapes[k], 10.0 / 65535);
        test_s16(shapes[k], 2.5 / 65535);
        for (int m = 0; m < 32; ++m) {
            test_any(shapes[k], m % 4, m / 4 % 4, m / 16);
        }
    }
    return check_end();
}
