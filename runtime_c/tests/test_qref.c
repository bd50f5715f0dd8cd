/* SPDX-License-Identifier: MIT-0 */
/* Convolutions, products and pooling of quantised values of 8 and 16 bits in their general form. */
#include "quantised.h"

#include "aot_quantised.h"
#include "aot_qavgpool_s8.h"
#include "aot_qconv_ref.h"
#include "aot_qmatmul_ref.h"
#include "aot_qpool_ref.h"

static const int64_t least[4] = {-128, 0, -32768, 0}, most[4] = {127, 255, 32767, 65535};

/* n quantised values of a type, within `limit` of the middle of its range. */
static void *values(int n, int type, int64_t limit) {
    uint16_t *x = NEW(uint16_t, n);
    const int64_t middle = (least[type] + most[type] + 1) / 2;
    for (int i = 0; i < n; ++i) {
        const int64_t v = middle + check_integer(-limit, limit - 1);
        aot_q_store(x, i, (int32_t)within(v, least[type], most[type]), type);
    }
    return x;
}

/* n, ic, oc, groups, in, out, kernel, strides, dilations, pads, zeros between, zero points, bounds
 */
static const aot_qconv_ref_params convs[] = {
    {1,
     1,
     1,
     1,
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1},
     {0, 0, 0},
     {1, 1, 1},
     3,
     4,
     0,
     0},
    {2,
     4,
     6,
     2,
     {3, 4, 5},
     {3, 2, 5},
     {3, 3, 3},
     {1, 2, 1},
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1},
     3,
     4,
     0,
     0},
    {1,
     3,
     3,
     3,
     {1, 5, 6},
     {1, 3, 4},
     {1, 3, 2},
     {1, 1, 2},
     {1, 2, 1},
     {0, 1, 1},
     {1, 1, 1},
     9,
     0,
     0,
     0},
    {1,
     2,
     5,
     1,
     {1, 3, 4},
     {1, 7, 11},
     {1, 3, 4},
     {1, 1, 1},
     {1, 1, 1},
     {0, 2, 3},
     {1, 2, 3},
     1,
     2,
     0,
     0},
};

static void test_conv(int number, int rq, int pc, int XT, int YT) {
    aot_qconv_ref_params p = convs[number];
    const int icg = p.ic / p.groups, in = p.in[0] * p.in[1] * p.in[2],
              out = p.out[0] * p.out[1] * p.out[2];
    const int taps = p.k[0] * p.k[1] * p.k[2], depth = taps * icg, n = p.n * out * p.oc;
    const int limit = XT >= AOT_Q_S16 ? 500 : 128;
    const scales s = some_scales(rq, pc, p.oc, (YT >= AOT_Q_S16 ? 3.0 : 0.6) / sqrt(depth) / 128);
    const void *x = values(p.n * in * p.ic, XT, limit);
    const int8_t *w = some_values(p.oc * depth, -128);
    int32_t *bias = NEW(int32_t, p.oc);
    uint16_t *y = NEW(uint16_t, n);
    const int64_t middle = (least[XT] + most[XT] + 1) / 2;
    check_case("general conv %d, RQ %d, PC %d, types %d to %d", number, rq, pc, XT, YT);
    p.x_zero += (int32_t)middle;
    p.y_zero += (int32_t)((least[YT] + most[YT] + 1) / 2);
    p.lo = (int32_t)least[YT] + 5;
    p.hi = (int32_t)most[YT];
    fill_s32(bias, p.oc, -3000, 3000);
    aot_qconv_ref(y, x, w, bias, s.mult, s.shift, &p, rq, pc, XT, AOT_Q_S8, YT);
    for (int i = 0; i < n; ++i) {
        const int oc = i % p.oc, pixel = i / p.oc % out, image = i / (p.oc * out);
        const int o[3] = {pixel / (p.out[1] * p.out[2]), pixel / p.out[2] % p.out[1],
                          pixel % p.out[2]};
        int64_t sum = bias[oc];
        for (int k = 0; k < depth; ++k) {
            const int t = k / icg, c = oc / (p.oc / p.groups) * icg + k % icg;
            const int tap[3] = {t / (p.k[1] * p.k[2]), t / p.k[2] % p.k[1], t % p.k[2]};
            int from = 0, inside = 1;
            for (int a = 0; a < 3; ++a) {
                /* A place among the positions of x with zeros between them. */
                const int v = o[a] * p.s[a] - p.pad[a] + tap[a] * p.d[a];
                inside = inside && v >= 0 && v % p.up[a] == 0 && v / p.up[a] < p.in[a];
                from = from * p.in[a] + v / p.up[a];
            }
            if (inside) {
                sum += (aot_q_load(x, (int64_t)(image * in + from) * p.ic + c, XT) - p.x_zero) *
                       w[oc * depth + k];
            }
        }
        same_at("y", i, aot_q_load(y, i, YT),
                within(within(rescaled(sum, &s, oc), -(1 << 21), 1 << 21) + p.y_zero, p.lo, p.hi));
    }
    check_free();
}

static void test_matmul(int rq, int AT, int BT, int YT) {
    enum { M = 3, K = 6, N = 5 };
    const int32_t middle = (int32_t)((least[YT] + most[YT] + 1) / 2);
    const int32_t a0 = (int32_t)((least[AT] + most[AT] + 1) / 2) + 3;
    const int32_t b0 = (int32_t)((least[BT] + most[BT] + 1) / 2) - 2;
    const aot_qmatmul_ref_params p = {
        {1, 1, 1, 1, 2, 3}, {0, 0, 0, 0, M * K, 0}, {0, 0, 0, 0, 0, K * N}, M, K, N, a0, b0,
        middle + 1,         (int32_t)least[YT],     (int32_t)most[YT] - 9};
    const scales s = some_scales(rq == 4 ? 1 : rq, 0, 1, rq == 4 ? 1e-5 : 0.01);
    const int64_t limit = rq == 4 ? 30000 : 120;
    const void *a = values(2 * M * K, AT, limit), *b = values(3 * K * N, BT, limit);
    uint16_t y[6 * M * N];
    check_case("product of values, RQ %d, types %d, %d to %d", rq, AT, BT, YT);
    if (rq == 4) {
        s.mult[0] = 1234567891;
        s.shift[0] = (int8_t)(AT >= AOT_Q_S16 ? 15 : 0);
    }
    aot_qmatmul_ref(y, a, b, s.mult, s.shift, &p, rq, AT, BT, YT);
    for (int i = 0; i < 6 * M * N; ++i) {
        const int row = i / (3 * M * N) * M + i / N % M, column = i / (M * N) % 3 * K * N + i % N;
        int64_t sum = 0, v;
        for (int k = 0; k < K; ++k) {
            sum += (int64_t)(aot_q_load(a, row * K + k, AT) - a0) *
                   (aot_q_load(b, column + k * N, BT) - b0);
        }
        if (rq == 4) { /* sum * mult / 2^(31 + shift), rounded once: no half occurs for this mult */
            v = (int64_t)floor((double)sum * s.mult[0] / ldexp(1.0, 31 + s.shift[0]) + 0.5);
        } else {
            v = rescaled(sum, &s, 0);
        }
        v = within(v, -(1 << 21), 1 << 21) + p.y_zero;
        same_at("y", i, aot_q_load(y, i, YT), within(v, p.lo, p.hi));
    }
    check_free();
}

/* n, c, in, out, window, strides, dilations, pads before and after, zero points, bounds */
static const aot_qavgpool_s8_params pools[] = {
    {1,
     1,
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1},
     {1, 1, 1},
     {0, 0, 0},
     {0, 0, 0},
     0,
     0,
     -128,
     127},
    {2,
     5,
     {1, 7, 8},
     {1, 4, 4},
     {1, 3, 3},
     {1, 2, 2},
     {1, 1, 1},
     {0, 1, 1},
     {0, 1, 0},
     -7,
     5,
     -128,
     127},
    {1,
     9,
     {3, 4, 5},
     {2, 2, 4},
     {2, 2, 3},
     {1, 2, 1},
     {1, 2, 1},
     {0, 0, 1},
     {0, 1, 0},
     9,
     -4,
     -90,
     80},
};

/* The sum, the largest quantised value, and the numbers of positions of a window. */
static void look(const void *x, int T, const aot_qavgpool_s8_params *p, int i, int64_t *sum,
                 int64_t *top, int *taps, int *counted) {
    const int out = p->out[0] * p->out[1] * p->out[2], pixel = i / p->c % out,
              image = i / (p->c * out);
    const int o[3] = {pixel / (p->out[1] * p->out[2]), pixel / p->out[2] % p->out[1],
                      pixel % p->out[2]};
    *sum = 0, *top = INT64_MIN, *taps = 0, *counted = 0;
    for (int t = 0; t < p->k[0] * p->k[1] * p->k[2]; ++t) {
        const int tap[3] = {t / (p->k[1] * p->k[2]), t / p->k[2] % p->k[1], t % p->k[2]};
        int inside = 1, padded = 1, from = image;
        for (int a = 0; a < 3; ++a) {
            const int v = o[a] * p->s[a] - p->before[a] + tap[a] * p->d[a];
            inside = inside && v >= 0 && v < p->in[a];
            padded = padded && v < p->in[a] + p->after[a];
            from = from * p->in[a] + v;
        }
        *counted += padded;
        if (inside) {
            const int64_t v = aot_q_load(x, (int64_t)from * p->c + i % p->c, T);
            *sum += v;
            *top = v > *top ? v : *top;
            ++*taps;
        }
    }
}

static void test_pool(int number, int rq, int vary, int padded, int max, int T) {
    aot_qavgpool_s8_params p = pools[number];
    const int n = p.n * p.out[0] * p.out[1] * p.out[2] * p.c, most_taps = p.k[0] * p.k[1] * p.k[2];
    const int32_t middle = (int32_t)((least[T] + most[T] + 1) / 2);
    const void *x = values(p.n * p.in[0] * p.in[1] * p.in[2] * p.c, T, 128);
    const scales s = {rq, 1, NEW(int32_t, most_taps), NEW(int8_t, most_taps)};
    uint16_t *y = NEW(uint16_t, n);
    check_case("pool of values %d, RQ %d, VARY %d, PADDED %d, MAX %d, type %d", number, rq, vary,
               padded, max, T);
    for (int k = 0; k < most_taps && rq < 3; ++k) { /* of k + 1 positions */
        set_scale(&s, k, 0.8F / (float)((max ? 1 : k + 1) + (!max && !vary ? most_taps : 0)));
    }
    p.x_zero += middle, p.y_zero += middle, p.lo += middle, p.hi += middle;
    aot_qpool_ref(y, x, s.mult, s.shift, &p, rq, vary, padded, max, T, T);
    for (int again = 0; again < (T == AOT_Q_S8 && !max ? 2 : 1); ++again) {
        if (again) {
            aot_qavgpool_s8((int8_t *)y, (const int8_t *)x, s.mult, s.shift, &p, rq, vary, padded);
        }
        for (int i = 0; i < n; ++i) {
            int64_t sum, top, want;
            int taps, counted;
            look(x, T, &p, i, &sum, &top, &taps, &counted);
            counted = padded ? counted : taps;
            if (rq == 3) { /* halves away from zero */
                const double mean = max ? (double)top : (double)sum / counted;
                want = within((int64_t)round(mean), p.lo, p.hi);
            } else {
                const int64_t acc = max ? top - p.x_zero : sum - (int64_t)taps * p.x_zero;
                want = rescaled(acc, &s, max || !vary ? 0 : counted - 1) + p.y_zero;
                want = within(want, p.lo, p.hi);
            }
            same_at(again ? "of int8" : "general", i, aot_q_load(y, i, T), want);
        }
    }
    check_free();
}

int main(void) {
    for (int number = 0; number < 4; ++number) {
        for (int k = 0; k < 24; ++k) {
            test_conv(number, k % 3, k / 3 % 2, k / 6, (k / 6 + number) % 4);
        }
    }
    for (int k = 0; k < 12; ++k) {
        test_matmul(k % 3, k / 3, (k / 3 + 1) % 4, (k / 3 + 2) % 4);
    }
    test_matmul(AOT_QMATMUL_WIDE, AOT_Q_S16, AOT_Q_S16, AOT_Q_S16);
    test_matmul(AOT_QMATMUL_WIDE, AOT_Q_U16, AOT_Q_U16, AOT_Q_U16);
    for (int k = 0; k < 96; ++k) {
        const int max = k / 48, rq = k % 4;
        test_pool(1 + k / 4 % 2, rq, k / 8 % 2, max ? 0 : k / 16 % 3 == 1, max, k / 12 % 4);
    }
    for (int rq = 0; rq < 4; ++rq) {
        test_pool(0, rq, 0, 0, 0, AOT_Q_S8);
    }
    return check_end();
}
