/* SPDX-License-Identifier: MIT-0 */
/* Words of two bfloat16: how floats become them, the products of the CPU's unit beside those in
 * plain C, bit by bit, and matrix products made of them. */
#define AOT_ALLOW_NARROW /* without the unit: plain C */
#include "convolution.h"

#include "aot_bf16_pack.h"
#include "aot_gemm_f32_narrow__bf16.h"

#define V AOT_VLEN

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float flushed(float x) {
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0.0F, x) : x;
}

/* Equal bits, or two NaNs. */
static void same(const char *name, int at, float got, float want) {
    if (isnan(want) && isnan(got)) {
        got = want;
    }
    same_at(name, at, bits_of(got), bits_of(want));
}

/* The nearest of the two bfloat16 around x, the even one of two as near; finite where x is. */
static float nearest(float x) {
    const float down = float_of(bits_of(x) & 0xFFFF0000U);
    const float up = float_of((bits_of(x) & 0xFFFF0000U) + 0x10000U);
    const double below = fabs((double)x - (double)down), above = fabs((double)up - (double)x);
    if (!isfinite(x) || below < above || isinf(up)) {
        return down;
    }
    return above < below || (bits_of(up) & 0x10000U) == 0 ? up : down;
}

/* A float of any bits; with exponents of a narrow range where `low` is not 0. */
static uint32_t some(int low, int high) {
    const uint32_t bits = (uint32_t)check_integer(0, 0xFFFF) << 16 | //
                          (uint32_t)check_integer(0, 0xFFFF);
    return low == 0 ? bits : (bits & 0x807FFFFFU) | (uint32_t)check_integer(low, high) << 23;
}

static void test_words(void) {
    static const uint32_t edges[] = {
        0x00000001U, 0x807FFFFFU, 0x00800000U, 0x3F808000U, 0x3F818000U, 0x3F808001U, 0x7F7F7FFFU,
        0x7F7F8000U, 0xFF7FFFFFU, 0x7F800000U, 0xFF800000U, 0x7F800001U, 0x7FC00000U, 0x80000000U};
    enum { N = 1000, EDGES = (int)(sizeof edges / sizeof *edges) };
    for (int k = N - 2 * V - 1; k <= N; ++k) {
        float *x = NEW(float, k), *d = NEW(float, (k + 1) / 2);
        check_case("%d floats as bfloat16", k);
        for (int i = 0; i < k; ++i) {
            x[i] = float_of(i < EDGES ? edges[i] : some(0, 0));
        }
        aot_bf16_row(d, x, k);
        for (int i = 0; i < k; ++i) {
            uint32_t word;
            memcpy(&word, d + i / 2, sizeof word);
            same("element", i, float_of(i % 2 == 0 ? word << 16 : word & 0xFFFF0000U),
                 isnan(x[i]) ? x[i] : nearest(flushed(x[i])));
        }
        check_free();
    }
}

/* Pairs of vectors are words of the numbers that are alone in theirs. */
static void test_pairs(void) {
    for (int i = 0; i < 2000; ++i) {
        float low[V], high[V], words[V], upper[V];
        check_case("pairs, case %d", i);
        for (int j = 0; j < V; ++j) {
            low[j] = float_of(some(i % 2, 254));
            high[j] = float_of(some(i % 3, 254));
        }
        aot_vstore(words, aot_bf16_pairs(aot_vload(low), aot_vload(high)));
        aot_vstore(upper, aot_vfrombits(aot_bf16_upper(aot_vload(low))));
        for (int j = 0; j < V; ++j) {
            same_at("word", j, bits_of(words[j]), aot_bf16_of(low[j]) | aot_bf16_of(high[j]) << 16);
            same_at("alone", j, bits_of(upper[j]), aot_bf16_of(low[j]) << 16);
        }
    }
}

/* Sums of everyday size, of anything, around the smallest normal number, and beyond the largest. */
static void test_products(void) {
    static const int ranges[][4] = {
        {120, 130, 120, 130}, {0, 0, 0, 0}, {50, 80, 1, 40}, {180, 200, 230, 254}};
    for (int i = 0; i < 40000; ++i) {
        const int *range = ranges[i % 4];
        float x[V], w[V], acc[V], unit[V], plain[V];
        for (int j = 0; j < V; ++j) {
            x[j] = float_of(some(range[0], range[1]) & 0xFFFF0000U);
            w[j] = float_of(some(range[0], range[1]) & 0xFFFF0000U);
            x[j] = float_of(bits_of(x[j]) | some(range[0], range[1]) >> 16);
            w[j] = float_of(bits_of(w[j]) | some(range[0], range[1]) >> 16);
            acc[j] = float_of(some(range[2], range[3]));
        }
        check_case("sums of two products, range %d", i % 4);
        aot_vstore(unit, AOT_BF16_MADD(aot_vload(acc), aot_vload(x), aot_vload(w)));
        aot_vstore(plain, aot_bf16_plain(aot_vload(acc), aot_vload(x), aot_vload(w)));
        for (int j = 0; j < V; ++j) {
            const uint32_t a = bits_of(x[j]), b = bits_of(w[j]);
            float want = flushed(acc[j]);
            want = flushed(
                fmaf(flushed(float_of(a & 0xFFFF0000U)), flushed(float_of(b & 0xFFFF0000U)), want));
            want = flushed(fmaf(flushed(float_of(a << 16)), flushed(float_of(b << 16)), want));
            same("plain C", j, plain[j], want);
            same("unit", j, unit[j], plain[j]);
        }
    }
}

/* y = act(x * w + bias + y), `run` rows at a time; x has a number that float holds and bfloat16
 * does not, and infinities and NaNs if `odd`. */
static void test_matrix(int m, int n, int k, int run, int act, int odd) {
    const int O = V == 1 || V == 16 ? 4 : 2, vectors = blocks(n, V), words = blocks(k, 2);
    const aot_gemm_f32_narrow_params p = {m, n, k, n, k, run, act, 0.25F, 0.75F};
    float *x = NEW(float, m *k), *w = NEW(float, k *n), *bias = NEW(float, n),
          *y = NEW(float, m *n);
    uint32_t *data = NEW(uint32_t, words * vectors * V), *at = data;
    float *scratch = NEW(float, (run < m ? run : m) * AOT_BF16_ROW(k)), *given = NEW(float, m *n);
    const float *whole;
    int o;
    check_case("bfloat16 [%d, %d, %d], runs of %d, act %d, odd %d", m, n, k, run, act, odd);
    fill_f32(x, m * k, -1.0, 1.0);
    fill_f32(w, k * n, -1.0, 1.0);
    fill_f32(bias, n, -1.0, 1.0);
    fill_f32(y, m * n, -1.0, 1.0);
    memcpy(given, y, (size_t)(m * n) * sizeof *y);
    x[k / 2] = odd ? INFINITY : x[k / 2];
    x[m * k - 1] = odd ? NAN : 1e-42F;
    for (int i = 0; i < k * n; ++i) {
        w[i] = nearest(w[i]);
    }
    for (int b = 0; b < vectors; b += o) {
        for (o = O; o > vectors - b; o /= 2) {
        }
        for (int i = 0; i < words * o * V; ++i) {
            const int column = b * V + i % (o * V), t = 2 * (i / (o * V));
            const uint32_t low = column < n ? bits_of(w[t * n + column]) : 0;
            const uint32_t high = column < n && t + 1 < k ? bits_of(w[(t + 1) * n + column]) : 0;
            *at++ = low >> 16 | high;
        }
    }
    whole = padded_bias(bias, n, V);
    aot_gemm_f32_narrow__bf16(y, x, data, NULL, whole, y, scratch, &p, V == 16 ? 6 : 4, O,
                              act > AOT_ACT_CLAMP);
    for (int i = 0; i < m * n; ++i) {
        double want = (double)bias[i % n] + (double)given[i], size = fabs(want);
        for (int t = 0; t < k; ++t) {
            const double v = (double)nearest(flushed(x[i / n * k + t])) * (double)w[t * n + i % n];
            want += v;
            size += fabs(v);
        }
        if (isnan(want)) {
            same_at("y is a NaN", i, isnan(y[i]) != 0, 1);
        } else {
            want = activated(want, act, 0.25, 0.75);
            close_at("y", i, (double)y[i], want, 0.0, isinf(size) ? 0.0 : 2e-7 * (1.0 + size));
        }
    }
    check_free();
}

int main(void) {
    static const int shapes[][4] = {
        {1, 1, 1, 6},    {2, 16, 5, 6},   {3, 33, 17, 3},    {7, 5, 1050, 6},  {15, 64, 9, 15},
        {29, 100, 3, 6}, {4, 17, 256, 4}, {40, 130, 90, 12}, {6, 64, 64, 100}, {13, 47, 31, 6}};
    test_words();
    test_pairs();
    test_products();
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s) {
        const int *z = shapes[s];
        for (int i = 0; i < 6; ++i) {
            const int act = i % 3 == 0 ? AOT_ACT_NONE : i % 3 == 1 ? AOT_ACT_CLAMP : AOT_ACT_SILU;
            test_matrix(z[0], z[1], z[2], z[3], act, i > 2);
        }
    }
    return check_end();
}
