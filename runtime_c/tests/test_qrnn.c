/* SPDX-License-Identifier: MIT-0 */
/* Recurrent layers between quantised values: the same steps in doubles, whose results may be off by
 * what fixed point leaves. */
#include "check.h"

#include "aot_quantised.h"
#include "aot_qrnn_s16.h"
#include "aot_qrnn_s8.h"

enum { STEPS = 4, BATCH = 2, INPUT = 5, HIDDEN = 6, GATES = 4 };
#define ROWS (GATES * HIDDEN)

/* A layer of real numbers: weights are quantised values times 1/128, x is quantised values times
 * `x_scale`. */
typedef struct layer {
    int kind, linear, reverse, gates, x_zero, type;
    double x_scale;
    int8_t w[ROWS * INPUT], r[ROWS * HIDDEN];
    double bias[ROWS], inner[HIDDEN]; /* inner: the candidate's recurrent bias of a linear GRU */
    uint16_t x[STEPS * BATCH * INPUT];
    double y[STEPS * BATCH * HIDDEN];
} layer;

static double sum_of(const layer *l, const double *x, const double *h, int row) {
    double sum = 0.0;
    for (int k = 0; k < INPUT && x != NULL; ++k) {
        sum += x[k] * l->w[row * INPUT + k] / 128.0;
    }
    for (int k = 0; k < HIDDEN && h != NULL; ++k) {
        sum += h[k] * l->r[row * HIDDEN + k] / 128.0;
    }
    return sum;
}
static double logistic(double v) {
    return 1.0 / (1.0 + exp(-v));
}

static void walk(layer *l) {
    for (int b = 0; b < BATCH; ++b) {
        double h[HIDDEN] = {0}, c[HIDDEN] = {0}, next[HIDDEN], part[HIDDEN], x[INPUT];
        for (int s = 0; s < STEPS; ++s) {
            const int t = l->reverse ? STEPS - 1 - s : s;
            for (int k = 0; k < INPUT; ++k) {
                x[k] = (aot_q_load(l->x, (t * BATCH + b) * INPUT + k, l->type) - l->x_zero) *
                       l->x_scale;
            }
            for (int i = 0; i < HIDDEN; ++i) {
                part[i] = h[i] * logistic(l->bias[HIDDEN + i] + sum_of(l, x, h, HIDDEN + i));
            }
            for (int i = 0; i < HIDDEN; ++i) {
                double g[GATES];
                for (int k = 0; k < l->gates; ++k) {
                    g[k] = l->bias[k * HIDDEN + i] + sum_of(l, x, h, k * HIDDEN + i);
                }
                if (l->kind == AOT_QRNN_LSTM) {
                    c[i] = logistic(g[2]) * c[i] + logistic(g[0]) * tanh(g[3]);
                    next[i] = logistic(g[1]) * tanh(c[i]);
                } else if (l->kind == AOT_QRNN_GRU) {
                    const int row = 2 * HIDDEN + i;
                    const double in = l->bias[row] + sum_of(l, x, NULL, row);
                    const double inner =
                        l->linear ? logistic(g[1]) * (sum_of(l, NULL, h, row) + l->inner[i])
                                  : sum_of(l, NULL, part, row);
                    next[i] = (1 - logistic(g[0])) * tanh(in + inner) + logistic(g[0]) * h[i];
                } else {
                    next[i] = tanh(g[0]);
                }
            }
            (void)memcpy(h, next, sizeof h);
            (void)memcpy(l->y + (t * BATCH + b) * HIDDEN, h, sizeof h);
        }
    }
}

static void begin(layer *l, int kind, int linear, int reverse, int type) {
    static const int gates[3] = {4, 3, 1};
    static const int64_t low[4] = {-128, 0, -32768, 0}, high[4] = {127, 255, 32767, 65535};
    l->kind = kind, l->linear = linear, l->reverse = reverse, l->gates = gates[kind],
    l->type = type;
    l->x_zero = (int)((low[type] + high[type] + 1) / 2) + 4;
    l->x_scale = 2.0 / (double)(high[type] - low[type]);
    fill_s8(l->w, ROWS * INPUT, -128, 127);
    fill_s8(l->r, ROWS * HIDDEN, -128, 127);
    fill_f64(l->bias, ROWS, -0.5, 0.5);
    fill_f64(l->inner, HIDDEN, -0.5, 0.5);
    for (int i = 0; i < STEPS * BATCH * INPUT; ++i) {
        aot_q_store(l->x, i, (int32_t)check_integer(low[type], high[type]), type);
    }
    walk(l);
}

/* Rows of numbers with `bits` fraction bits; the zero point of x is in the bias. */
static void constants(const layer *l, int64_t *bias, int32_t *mult, int x_bits, int h_bits,
                      int bits) {
    const int rows = l->gates * HIDDEN;
    for (int i = 0; i < rows; ++i) {
        double sum = l->bias[i];
        for (int k = 0; k < INPUT; ++k) {
            sum -= l->x_zero * l->x_scale * l->w[i * INPUT + k] / 128.0;
        }
        mult[i] = (int32_t)nearbyint(ldexp(l->x_scale / 128, x_bits));
        mult[rows + i] = (int32_t)nearbyint(ldexp(1.0 / 128, h_bits));
        bias[i] = (int64_t)nearbyint(ldexp(sum, bits));
    }
    for (int i = 0; i < HIDDEN; ++i) {
        bias[rows + i] = (int64_t)nearbyint(ldexp(l->inner[i], bits));
    }
}

/* Quantised values of y: a state h is h * 127 + zero, halves upwards. */
static void compare(const char *what, const void *y, int T, const double *want, int n, double scale,
                    int zero, double error) {
    for (int i = 0; i < n; ++i) {
        close_at(what, i, aot_q_load(y, i, T), want[i] * scale + zero, 0.0, 0.5 + error);
    }
}

static void test_s8(int kind, int linear, int reverse) {
    static layer l;
    const int shift = 5, out = STEPS * BATCH * HIDDEN;
    const aot_qrnn_s8_params p = {STEPS,
                                  BATCH,
                                  INPUT,
                                  HIDDEN,
                                  BATCH * INPUT,
                                  INPUT,
                                  BATCH * HIDDEN,
                                  HIDDEN,
                                  HIDDEN,
                                  reverse,
                                  shift,
                                  24,
                                  110 << 20,
                                  50,
                                  3,
                                  100 << 20,
                                  50,
                                  -2,
                                  -128,
                                  127};
    int32_t table[257], mult[2 * ROWS];
    int64_t bias[ROWS + HIDDEN];
    int8_t y[STEPS * BATCH * HIDDEN], last[BATCH * HIDDEN], x[STEPS * BATCH * INPUT];
    int32_t scratch[(GATES + 2) * HIDDEN + HIDDEN];
    check_case("layer %d (LSTM, GRU, plain) of int8, LINEAR %d, reverse %d", kind, linear, reverse);
    begin(&l, kind, linear, reverse, AOT_Q_S8);
    (void)memcpy(x, l.x, sizeof x);
    for (int k = 0; k < 257; ++k) {
        table[k] = (int32_t)nearbyint(ldexp(tanh(k / 32.0), 30));
    }
    constants(&l, bias, mult, 24 + shift, 24 + shift - 15, 24 + shift);
    aot_qrnn_s8(y, last, x, l.w, l.r, mult, bias, table, scratch, &p, kind, linear, 1, 1);
    compare("y", y, AOT_Q_S8, l.y, out, 110 * ldexp(1, 20 - 50 + 30), 3, 0.03);
    compare("last", last, AOT_Q_S8, l.y + (reverse ? 0 : (STEPS - 1) * BATCH * HIDDEN),
            BATCH * HIDDEN, 100 * ldexp(1, 20 - 50 + 30), -2, 0.03);
    (void)memset(last, 0x55, sizeof last);
    aot_qrnn_s8(NULL, last, x, l.w, l.r, mult, bias, table, scratch, &p, kind, linear, 0, 1);
    compare("last alone", last, AOT_Q_S8, l.y + (reverse ? 0 : (STEPS - 1) * BATCH * HIDDEN),
            BATCH * HIDDEN, 100, -2, 0.03);
}

static void test_s16(int kind, int linear, int reverse, int XT, int YT) {
    static layer l;
    const int wide = XT >= AOT_Q_S16, x_shift = wide ? 18 : 8, h_shift = 24, h_bits = 24;
    const int out = STEPS * BATCH * HIDDEN, scale = YT >= AOT_Q_S16 ? 30000 : 110;
    const int32_t zero = YT == AOT_Q_U8 ? 128 : YT == AOT_Q_U16 ? 32768 : -5;
    const int32_t lo = YT == AOT_Q_S8 ? -128 : YT == AOT_Q_S16 ? -32768 : 0;
    const int32_t hi = YT == AOT_Q_S8    ? 127
                       : YT == AOT_Q_U8  ? 255
                       : YT == AOT_Q_S16 ? 32767
                                         : 65535;
    const aot_qrnn_s16_params p = {
        STEPS,  BATCH,  INPUT,   HIDDEN,  BATCH * INPUT, INPUT,  BATCH * HIDDEN,
        HIDDEN, HIDDEN, reverse, x_shift, h_shift,       h_bits, scale << 16,
        46,     zero,   lo,      hi,      100 << 20,     50,     -2,
        -128,   127};
    int32_t table[385], mult[2 * ROWS];
    int64_t bias[ROWS + HIDDEN], scratch[HIDDEN + (GATES + 3) * HIDDEN];
    uint16_t y[STEPS * BATCH * HIDDEN];
    int8_t last[BATCH * HIDDEN];
    check_case("layer %d, types %d to %d, LINEAR %d, reverse %d", kind, XT, YT, linear, reverse);
    begin(&l, kind, linear, reverse, XT);
    for (int k = 0; k < 385; ++k) {
        table[k] = (int32_t)nearbyint(ldexp(tanh(k / 32.0), 30));
    }
    constants(&l, bias, mult, 32 + x_shift, 32 + h_shift - h_bits, 32);
    aot_qrnn_s16(y, last, l.x, l.w, l.r, mult, bias, table, scratch, &p, kind, linear, 1, 1, XT, YT,
                 AOT_Q_S8);
    compare("y", y, YT, l.y, out, scale, zero, scale > 200 ? 0.1 : 0.01);
    compare("last", last, AOT_Q_S8, l.y + (reverse ? 0 : (STEPS - 1) * BATCH * HIDDEN),
            BATCH * HIDDEN, 100, -2, 0.01);
}

/* tanh by tables, with the errors that the headers give. */
static void test_tanh(void) {
    int32_t table[385];
    check_case("tanh");
    for (int k = 0; k < 385; ++k) {
        table[k] = (int32_t)nearbyint(ldexp(tanh(k / 32.0), 30));
    }
    for (int i = -5000; i <= 5000; ++i) {
        const int64_t v = (int64_t)i * 46711;
        const double want = tanh(ldexp((double)v, -24)), half = tanh(ldexp((double)v, -25));
        close_at("coarse", i, ldexp(aot_qrnn_tanh(v, table, 24), -30), want, 0.0, ldexp(1, -19));
        close_at("fine", i, ldexp(aot_qrnn_fine_tanh(v, table, 24), -30), want, 0.0, ldexp(1, -25));
        close_at("fine half", i, ldexp(aot_qrnn_fine_tanh(v, table, 25), -30), half, 0.0,
                 ldexp(1, -25));
    }
}

int main(void) {
    test_tanh();
    for (int k = 0; k < 12; ++k) {
        test_s8(k % 3, k / 3 % 2, k / 6);
        for (int types = 0; types < 16; ++types) {
            test_s16(k % 3, k / 3 % 2, k / 6, types / 4, types % 4);
        }
    }
    return check_end();
}
