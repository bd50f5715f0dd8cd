/* SPDX-License-Identifier: MIT-0 */
/* Words of two bfloat16: how floats become them, the products of the CPU's unit beside those in
 * plain C, bit by bit, and matrix products and convolutions made of them. */
#define AOT_ALLOW_NARROW /* without the unit: plain C */
#include "convolution.h"

#include "aot_bf16_pack.h"
#if AOT_VLEN > 1
#include "aot_conv_f32_blocked__bf16.h"
#endif
#include "aot_gemm_f32_narrow__bf16.h"
#include "aot_gemm_rows_f32__bf16.h"

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

/* The same with weights as they lie, [n][k], `block` rows of x at a time. */
static void test_table(int m, int n, int k, int block, int act, int odd) {
    const int O = V == 1 || V == 16 ? 4 : 2, held = m < block ? m : block;
    const aot_gemm_rows_f32_params p = {m, n, k, k, n, act, 0.25F, 0.75F, block};
    float *x = NEW(float, m *k), *bias = NEW(float, n), *y = NEW(float, m *n);
    float *given = NEW(float, m *n), *scratch, *w = NEW(float, n *k);
    uint16_t *table = NEW(uint16_t, n * k);
    check_case("table of bfloat16 [%d, %d, %d], blocks of %d, act %d, odd %d", m, n, k, block, act,
               odd);
    scratch = NEW(float, m == 1 && act <= AOT_ACT_CLAMP
                             ? k / 2
                             : (k / 2 + AOT_GEMM_ROWS_COLUMNS) * blocks(held, V) * V);
    fill_f32(x, m * k, -1.0, 1.0);
    fill_f32(w, n * k, -1.0, 1.0);
    fill_f32(bias, n, -1.0, 1.0);
    fill_f32(y, m * n, -1.0, 1.0);
    memcpy(given, y, (size_t)(m * n) * sizeof *y);
    x[k / 2] = odd ? INFINITY : x[k / 2];
    for (int i = 0; i < n * k; ++i) {
        w[i] = nearest(w[i]);
        table[i] = (uint16_t)(bits_of(w[i]) >> 16);
    }
    aot_gemm_rows_f32__bf16(y, x, table, padded_bias(bias, n, V), y, scratch, &p, V == 16 ? 6 : 4,
                            O, act > AOT_ACT_CLAMP);
    for (int i = 0; i < m * n; ++i) {
        double want = (double)bias[i % n] + (double)given[i], size = fabs(want);
        for (int t = 0; t < k; ++t) {
            const double v = (double)nearest(x[i / n * k + t]) * (double)w[i % n * k + t];
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

#if AOT_VLEN > 1
/* n, channels, ih, iw, channels, kernel, strides, dilations, pads, groups; the last two are more
 * than scratch holds. */
static const geometry images[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, {0, 0, 0, 0}, 1},
    {2, 17, 7, 9, 33, 3, 3, 1, 1, 1, 1, {1, 1, 1, 1}, 1},
    {1, 20, 9, 11, 70, 1, 1, 1, 1, 1, 1, {0, 0, 0, 0}, 1},
    {1, 35, 9, 12, 20, 1, 1, 2, 3, 1, 1, {0, 0, 0, 0}, 1},
    {1, 16, 8, 6, 16, 1, 1, 2, 2, 1, 1, {1, 0, 0, 1}, 1},
    {1, 40, 6, 8, 24, 5, 3, 2, 1, 1, 2, {2, 2, 2, 3}, 1},
    {1, 3, 3, 3, 5, 3, 3, 1, 1, 1, 1, {5, 4, 5, 4}, 1},
    {1, 64, 70, 70, 3, 1, 1, 1, 1, 1, 1, {0, 0, 0, 0}, 1},
    {1, 131, 40, 40, 3, 3, 3, 1, 1, 1, 1, {1, 1, 1, 1}, 1},
};

/* Rows of the result up to `middle`, and the others; y may be r. */
static void test_convolution(int number, int act, int plain, int odd) {
    const geometry *g = &images[number];
    const int oh = out_rows(g), ow = out_columns(g), pixels = oh * ow, taps = g->kh * g->kw;
    const int words = blocks(g->ic, 2), n = g->n * g->oc * pixels,
              nx = g->n * g->ic * g->ih * g->iw;
    const int YV = plain ? 1 : V, O = V == 16 ? 4 : 2, part = number % 2 ? oh / 2 : 0;
    const ptrdiff_t plane = (ptrdiff_t)oh * ow * YV, from = (ptrdiff_t)g->ih * g->iw * V;
    float *x = NEW(float, nx), *w = NEW(float, g->oc * g->ic * taps), *bias = NEW(float, g->oc);
    float *r = NEW(float, n), *pairs = NEW(float, taps *words * g->oc), *y;
    double *want = NEW(double, n), *size = NEW(double, n);
    const float *panels, *xb, *whole;
    aot_conv_f32_blocked_params p = {g->n,
                                     g->ic,
                                     g->ih,
                                     g->iw,
                                     g->oc,
                                     oh,
                                     ow,
                                     g->kh,
                                     g->kw,
                                     g->sh,
                                     g->sw,
                                     g->dh,
                                     g->dw,
                                     g->pad[0],
                                     g->pad[1],
                                     1,
                                     0,
                                     0,
                                     0,
                                     0,
                                     g->iw * V,
                                     from,
                                     from * blocks(g->ic, V),
                                     plane,
                                     plane * blocks(g->oc, YV),
                                     act,
                                     0.25F,
                                     0.75F};
    float *scratch;
    check_case("convolution %d of bfloat16, act %d, plain %d, odd %d", number, act, plain, odd);
    fill_f32(x, nx, -1.0, 1.0);
    fill_f32(w, g->oc * g->ic * taps, -1.0, 1.0);
    fill_f32(bias, g->oc, -1.0, 1.0);
    fill_f32(r, n, -1.0, 1.0);
    x[0] = odd ? INFINITY : x[0];
    xb = to_blocks(x, g->n, g->ic, g->ih * g->iw, V);
    for (int i = 0; i < nx; ++i) {
        x[i] = nearest(x[i]);
    }
    for (int i = 0; i < g->oc * g->ic * taps; ++i) {
        w[i] = nearest(w[i]);
    }
    for (int i = 0; i < taps * words * g->oc; ++i) {
        const int o = i % g->oc, c = i / g->oc % words * 2, t = i / g->oc / words;
        const uint32_t low = bits_of(w[(o * g->ic + c) * taps + t]) >> 16;
        const uint32_t high = c + 1 < g->ic ? bits_of(w[(o * g->ic + c + 1) * taps + t]) : 0;
        pairs[i] = float_of(low | high);
    }
    panels = to_panels(pairs, taps * words, g->oc, V, O);
    whole = padded_bias(bias, g->oc, V);
    convolve(want, size, x, w, bias, r, g);
    y = to_blocks(r, g->n, g->oc, pixels, YV);
    {
        const int row = blocks(g->ic, V) * (V / 2) * (aot_conv_bf16_flat(&p) ? ow : g->iw);
        const int reach = aot_conv_bf16_flat(&p) ? 1 : (g->kh - 1) * g->dh + 1;
        const int rows = AOT_CONV_BF16_WORDS / row > reach ? AOT_CONV_BF16_WORDS / row : reach;
        const int all = aot_conv_bf16_flat(&p) ? oh : g->ih;
        scratch = NEW(float, (rows < all ? rows : all) * row);
    }
    for (int i = 0; i < 2; ++i) {
        const int first = (i ? part : 0) * g->sh - g->pad[0];
        float *to;
        p.y0 = i ? part : 0;
        p.y1 = i ? oh : part;
        p.y_row0 = p.y0;
        p.x_row0 = first > 0 ? first : 0;
        to = y + (ptrdiff_t)p.y0 * ow * YV;
        aot_conv_f32_blocked__bf16(to, xb + (ptrdiff_t)p.x_row0 * g->iw * V, panels, whole, to,
                                   scratch, &p, V == 16 ? 6 : 4, O, plain ? 1 : V,
                                   act > AOT_ACT_CLAMP);
    }
    close_conv("y", y, want, size, g->n, g->oc, pixels, YV, act, 0.25F, 0.75F, 2e-7);
    check_free();
}
#endif

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
            test_table(z[0], z[1], z[2] + z[2] % 2, 4 * V * (1 + i % 2), act, i > 2);
        }
    }
#if AOT_VLEN > 1
    for (int i = 0; i < (int)(sizeof images / sizeof *images); ++i) {
        test_convolution(i, AOT_ACT_NONE, 0, 0);
        test_convolution(i, AOT_ACT_CLAMP, 1, 0);
        test_convolution(i, AOT_ACT_SILU, 0, 1);
    }
#endif
    return check_end();
}
