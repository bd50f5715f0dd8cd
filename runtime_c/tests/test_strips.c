/* SPDX-License-Identifier: MIT-0 */
/* Products of strips of 16-bit numbers: the tiles of Arm's units beside those in plain C, bit by
 * bit, these beside exact arithmetic, and matrix products made of them. */
#undef AOT_VLEN
#define AOT_VLEN 4
#define AOT_ALLOW_NARROW /* without the units: plain C */
#include "convolution.h"

#include "aot_gemm_f32_narrow__bfmmla.h"
#include "aot_gemm_f32_narrow__fp16.h"

enum { V = AOT_VLEN, O = 2, BRAIN = AOT_NARROW_BF16, HALF = AOT_NARROW_F16 };

static uint16_t narrowed(double x, int kind) {
    return kind == HALF ? aot_cast_to_f16((float)x) : aot_cast_to_bf16((float)x);
}

static double widened(uint16_t h, int kind) {
    return kind == HALF ? (double)aot_cast_from_f16(h) : (double)aot_cast_from_bf16(h);
}

static double between(double lo, double hi) {
    return lo + (hi - lo) * (double)check_integer(0, 1 << 20) / (1 << 20);
}

/* Sixteen bits: of everyday size, any at all, or of the size of the smallest and largest ones. */
static uint16_t some(int range, int kind) {
    const uint16_t bits = (uint16_t)check_integer(0, 0xFFFF);
    if (range == 1) {
        return bits;
    }
    if (range == 0) {
        return narrowed(between(-2.0, 2.0), kind);
    }
    return (uint16_t)((bits & 0x83FF) | (range == 2 ? 0x1C00 : kind == HALF ? 0x5800 : 0x5C00));
}

static void test_tiles(int kind, int words, int o, int range) {
    const int width = o * V, k = 2 * words;
    uint16_t *x = NEW(uint16_t, AOT_STRIP_SIZE(k)), *w = NEW(uint16_t, k * width);
    float *unit = NEW(float, AOT_STRIP *width), *plain = NEW(float, AOT_STRIP *width);
    check_case("tile of kind %d, %d words, %d vectors, range %d", kind, words, o, range);
    for (int i = 0; i < AOT_STRIP_SIZE(k); ++i) {
        x[i] = i / (4 * AOT_STRIP) * 4 + i % 4 < k ? some(range, kind) : (uint16_t)0;
    }
    for (int i = 0; i < k * width; ++i) {
        w[i] = some(range, kind);
    }
    if (kind == HALF) {
        aot_fp16_plain(plain, x, (const uint8_t *)w, words, width);
    } else {
        aot_bfmmla_plain(plain, x, (const uint8_t *)w, words, width);
    }
    if (kind == HALF && o == 1) {
        aot_fp16_tile(unit, x, (const uint8_t *)w, words, 1);
    } else if (kind == HALF) {
        aot_fp16_tile(unit, x, (const uint8_t *)w, words, 2);
    } else if (o == 1) {
        aot_bfmmla_tile(unit, x, (const uint8_t *)w, words, 1);
    } else {
        aot_bfmmla_tile(unit, x, (const uint8_t *)w, words, 2);
    }
    for (int i = 0; i < AOT_STRIP * width; ++i) {
        if (isnan(plain[i])) {
            same_at("NaN", i, isnan(unit[i]) != 0, 1);
        } else {
            same_at("bits", i, aot_cast_bits(unit[i]), aot_cast_bits(plain[i]));
        }
    }
    check_free();
}

/* acc + x * w of float16 as an integer in units of 2^-48, rounded to float16 step by step. */
static double exact_half(double acc, double x, double w) {
    __extension__ typedef __int128 wide;
    const wide sum = (wide)ldexp(x, 24) * (wide)ldexp(w, 24) + (wide)ldexp(acc, 48);
    const wide size = sum < 0 ? -sum : sum;
    wide step = (wide)1 << 24, rest, near;
    while (size >= step << 11) {
        step <<= 1;
    }
    rest = size % step;
    near = size / step + (2 * rest > step || (2 * rest == step && size / step % 2 == 1));
    near = near * step >= (wide)65520 << 48 ? 0 : near * step;
    return near == 0 && size > step ? copysign((double)INFINITY, sum < 0 ? -1.0 : 1.0)
                                    : ldexp((double)near, -48) * (sum < 0 ? -1.0 : 1.0);
}

/* Both kinds of sums against exact ones; of bfloat16 sums that are exact in double. */
static void test_sums(void) {
    check_case("one product of float16");
    for (int i = 0; i < 60000; ++i) {
        uint16_t h[3];
        for (int j = 0; j < 3; ++j) {
            do {
                h[j] = some(i % 4 == 3 ? j % 3 : i % 4, HALF);
            } while ((h[j] & 0x7C00) == 0x7C00);
        }
        close_at("sum", i, widened(aot_fp16_fma(h[0], h[1], h[2]), HALF),
                 exact_half(widened(h[0], HALF), widened(h[1], HALF), widened(h[2], HALF)), 0.0,
                 0.0);
    }
    check_case("two products of bfloat16");
    for (int i = 0; i < 60000; ++i) {
        double v[5], want;
        for (int j = 0; j < 5; ++j) {
            v[j] = j == 0 ? (double)(float)between(-2.0, 2.0)
                          : widened(narrowed(between(-2.0, 2.0), BRAIN), BRAIN);
            v[j] = fabs(v[j]) < 0.01 ? 1.0 : v[j];
        }
        want = v[1] * v[3] + v[2] * v[4];
        for (int j = 0; j < 2; ++j) {
            int e;
            const double m = ldexp(frexp(want, &e), 24), whole = trunc(m);
            const double up = m < whole || m > whole ? fmod(fabs(whole), 2.0) : 1.0;
            want = ldexp(up > 0.0 ? whole : whole + copysign(1.0, m), e - 24);
            want += j == 0 ? v[0] : 0.0;
        }
        close_at("sum", i,
                 (double)aot_bfmmla_add(
                     (float)v[0],
                     (uint32_t)narrowed(v[1], BRAIN) | (uint32_t)narrowed(v[2], BRAIN) << 16,
                     (uint32_t)narrowed(v[3], BRAIN) | (uint32_t)narrowed(v[4], BRAIN) << 16),
                 want, 0.0, 0.0);
    }
}

/* y = act(x * w + bias + y), `run` rows at a time; x has a number that only floats hold, and
 * infinities and NaNs if `odd`. */
static void test_matrix(int kind, int m, int n, int k, int run, int act, int odd) {
    const int vectors = blocks(n, V), words = blocks(k, 2);
    const aot_gemm_f32_narrow_params p = {m, n, k, n, k, run, act, 0.25F, 0.75F};
    float *x = NEW(float, m *k), *w = NEW(float, k *n), *bias = NEW(float, n),
          *y = NEW(float, m *n);
    float *given = NEW(float, m *n), *factors = NEW(float, vectors *V);
    uint16_t *data = NEW(uint16_t, 2 * words * vectors * V), *at = data;
    uint16_t *scratch = NEW(uint16_t, blocks(run < m ? run : m, AOT_STRIP) * AOT_STRIP_SIZE(k));
    const double top = kind == HALF ? 65504.0 : (double)3.3895314e38F;
    int o;
    check_case("kind %d [%d, %d, %d], runs of %d, act %d, odd %d", kind, m, n, k, run, act, odd);
    fill_f32(x, m * k, -1.0, 1.0);
    fill_f32(w, k * n, -1.0, 1.0);
    fill_f32(bias, n, -1.0, 1.0);
    fill_f32(y, m * n, -1.0, 1.0);
    memcpy(given, y, (size_t)(m * n) * sizeof *y);
    x[k / 2] = odd ? INFINITY : x[k / 2];
    x[m * k - 1] = odd ? NAN : x[m * k - 1];
    x[0] = odd ? x[0] : kind == HALF ? 70000.0F : 3.4e38F;
    for (int i = 0; i < k * n; ++i) {
        w[i] = (float)widened(narrowed((double)w[i] / 16.0, kind), kind);
    }
    for (int i = 0; i < vectors * V; ++i) {
        factors[i] = kind == HALF && i % 3 != 0 ? 4.0F : 1.0F;
    }
    for (int b = 0; b < vectors; b += o) {
        o = vectors - b > 1 ? 2 : 1;
        for (int t = 0; t < 2 * words; t += 2) {
            for (int i = 0; i < 2 * o * V; ++i) {
                const int row = t + (kind == HALF ? i / (o * V) : i % 2);
                const int column = b * V + (kind == HALF ? i % (o * V) : i / 2);
                *at++ = row < k && column < n ? narrowed((double)w[row * n + column], kind)
                                              : (uint16_t)0;
            }
        }
    }
    if (kind == HALF) {
        aot_gemm_f32_narrow__fp16(y, x, data, factors, padded_bias(bias, n, V), y, scratch, &p, O,
                                  act > AOT_ACT_CLAMP);
    } else {
        aot_gemm_f32_narrow__bfmmla(y, x, data, NULL, padded_bias(bias, n, V), y, scratch, &p, O,
                                    act > AOT_ACT_CLAMP);
    }
    for (int i = 0; i < m * n; ++i) {
        const double factor = kind == HALF ? (double)factors[i % n] : 1.0;
        double want = (double)bias[i % n] + (double)given[i], size = fabs(want);
        for (int t = 0; t < k; ++t) {
            const double a = (double)x[i / n * k + t];
            const double v =
                isfinite(a) && fabs(a) > top ? copysign(top, a) : widened(narrowed(a, kind), kind);
            want += v * factor * (double)w[t * n + i % n];
            size += fabs(v * factor * (double)w[t * n + i % n]);
        }
        if (isnan(want)) {
            same_at("y is a NaN", i, isnan(y[i]) != 0, 1);
        } else {
            want = activated(want, act, 0.25, 0.75);
            close_at("y", i, (double)y[i], want, 0.0,
                     isinf(size) ? 0.0 : (kind == HALF ? 2e-3 : 4e-7) * (1.0 + size));
        }
    }
    check_free();
}

int main(void) {
    static const int shapes[][4] = {{1, 1, 1, 8},    {2, 16, 5, 8},    {3, 33, 17, 8},
                                    {9, 5, 150, 8},  {15, 20, 9, 8},   {29, 28, 3, 16},
                                    {8, 17, 256, 8}, {40, 13, 90, 24}, {13, 47, 31, 16}};
    test_sums();
    for (int kind = BRAIN; kind >= HALF; --kind) {
        for (int i = 0; i < 160; ++i) {
            test_tiles(kind, i % 4 == 0 ? 40 : i % 23 + 1, i % 3 == 0 ? 1 : 2, i / 40);
        }
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s) {
            const int *z = shapes[s];
            for (int i = 0; i < 6; ++i) {
                const int act = i % 3 == 0   ? AOT_ACT_NONE
                                : i % 3 == 1 ? AOT_ACT_CLAMP
                                             : AOT_ACT_SILU;
                test_matrix(kind, z[0], z[1], z[2], z[3], act, i > 2);
            }
        }
    }
    return check_end();
}
