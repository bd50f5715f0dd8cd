/* SPDX-License-Identifier: MIT-0 */
/* Matrix products with constant weights of 4 to 16 bits. */
#include "convolution.h"

#include "aot_gemm_f32_narrow.h"
#if AOT_VLEN > 1
#include "aot_gemm_f32_narrow__dot.h"
#endif

#define V AOT_VLEN

/* Row t of a column in its step, which has `width` columns; there are zeros. */
static void narrow_put(uint8_t *step, int kind, int width, int column, int t, int32_t bits) {
    const uint16_t half = (uint16_t)bits;
    if (kind == AOT_NARROW_S4) {
        uint32_t word;
        memcpy(&word, step + 4 * column, sizeof word);
        word |= (uint32_t)(bits + 8) << (t % 4 * 8 + t / 4 * 4);
        memcpy(step + 4 * column, &word, sizeof word);
    } else if (kind == AOT_NARROW_S8) {
        step[t * width + column] = (uint8_t)bits;
    } else if (kind == AOT_NARROW_S8_WORDS) {
        step[4 * column + t] = (uint8_t)bits;
    } else {
        const int at = kind == AOT_NARROW_F16 ? 2 * (t * width + column) : 4 * column + 2 * t;
        memcpy(step + at, &half, sizeof half);
    }
}

/* y = act(x * w + bias + y) with w of 4 to 16 bits, and a scale and a zero per block of rows of
 * each column where `factors` says so; by dot products of so many digits where these are not 0. */
static void test_narrow(int m, int n, int k, int kind, int many, int act, int digits) {
    const int O = V == 1 || V == 16 ? 4 : 2, vectors = blocks(n, V), block = 32, run = 2 * block;
    const int deep = AOT_NARROW_ROWS(kind), steps = blocks(k, deep), parts = blocks(k, block);
    const int group = O < vectors ? O : vectors, most = run < k + 7 ? run : k + 7;
    const aot_gemm_f32_narrow_params p = {m, n, k, n, block, run, act, 0.25F, 0.75F};
    float *x = NEW(float, m *k), *bias = NEW(float, n), *y = NEW(float, m *n);
    uint8_t *data = NEW(uint8_t, steps * vectors * V * 4), *c = data;
    float *scale = NEW(float, parts *n), *zero = NEW(float, parts *n), *w = NEW(float, k *n), *f;
    const int bytes = digits > 0 ? digits * blocks(k, 16) * 16 + 20 * parts : 4 * most * group * V;
    float *factors = NEW(float, parts * 2 * vectors * V);
    uint8_t *scratch = NEW(uint8_t, bytes);
    double *want = NEW(double, m *n), *size = NEW(double, m *n);
    int32_t *bits = NEW(int32_t, k * n);
    const float *whole;
    int o;
    check_case("narrow [%d, %d, %d], kind %d, factors %d, act %d, digits %d", m, n, k, kind, many,
               act, digits);
    fill_f32(x, m * k, -1.0, 1.0);
    if (digits == 3) {
        memset(x, 0, (size_t)(k > block ? block : k / 2) * sizeof *x);
        x[k - 1] = n == 70 ? 1e-36F : x[k - 1] * 1e3F;
    }
    fill_f32(bias, n, -1.0, 1.0);
    fill_f32(y, m * n, -1.0, 1.0);
    fill_f32(w, k * n, -1.0, 1.0);
    fill_f32(scale, parts * n, 0.1, 0.5);
    for (int i = 0; i < parts * n; ++i) {
        zero[i] = many == 2 ? (float)check_integer(-8, 7) : 0.0F;
        scale[i] = many > 0 ? scale[i] : 1.0F;
    }
    for (int i = 0; i < k * n; ++i) {
        const int edge = kind == AOT_NARROW_S4 ? 8 : 128;
        if (kind == AOT_NARROW_F16) {
            bits[i] = aot_cast_to_f16(i % 7 == 0 ? w[i] * 1e-6F : w[i]);
            w[i] = aot_cast_from_f16((uint16_t)bits[i]);
        } else if (kind == AOT_NARROW_BF16) {
            bits[i] = aot_cast_to_bf16(w[i]);
            w[i] = aot_cast_from_bf16((uint16_t)bits[i]);
        } else {
            bits[i] = (int32_t)check_integer(-edge, edge - 1);
            w[i] = (float)bits[i];
        }
    }
    f = factors;
    memset(data, 0, (size_t)(steps * vectors * V * 4));
    for (int b = 0; b < vectors; b += o) {
        for (o = O; o > vectors - b; o /= 2) {
        }
        for (int i = 0; i < k * o * V; ++i) {
            const int column = i % (o * V), t = i / (o * V);
            if (b * V + column < n) {
                const int32_t value = bits[t * n + b * V + column];
                narrow_put(c + t / deep * o * V * 4, kind, o * V, column, t % deep, value);
            }
        }
        c += steps * o * V * 4;
        for (int i = 0; i < parts * many * o * V; ++i) {
            const int column = b * V + i % (o * V), part = i / (many * o * V);
            const float *from = many == 2 && i / (o * V) % 2 ? zero : scale;
            *f++ = column < n ? from[part * n + column] : 0.0F;
        }
    }
    whole = padded_bias(bias, n, V);
    for (int i = 0; i < m * n; ++i) {
        want[i] = (double)bias[i % n] + (double)y[i];
        size[i] = fabs(want[i]);
        for (int t = 0; t < k; ++t) {
            const int at = t / block * n + i % n;
            const double v = ((double)w[t * n + i % n] - (double)zero[at]) * (double)scale[at];
            want[i] += (double)x[i / n * k + t] * v;
            /* Digits have a unit of the largest element of a block. */
            double x_most = fabs((double)x[i / n * k + t]);
            for (int e = t / block * block; digits > 0 && e < k && e < t / block * block + block;
                 ++e) {
                x_most = fmax(x_most, fabs((double)x[e]));
            }
            size[i] += x_most * (fabs(v) + fabs((double)zero[at]));
        }
    }
#define RUN_NARROW(KIND, FACTORS)                                                                  \
    if (kind == (KIND) && many == (FACTORS) && digits == 0) {                                      \
        aot_gemm_f32_narrow(y, x, data, factors, whole, y, scratch, &p, V == 16 ? 6 : 4, O,        \
                            act > AOT_ACT_CLAMP, KIND, FACTORS);                                   \
    }
#if AOT_VLEN > 1
#define RUN_DOT(KIND, FACTORS, DIGITS)                                                             \
    if (kind == (KIND) && many == (FACTORS) && digits == (DIGITS)) {                               \
        aot_gemm_f32_narrow__dot(y, x, data, factors, whole, y, scratch, &p, V == 16 ? 6 : 4, O,   \
                                 act > AOT_ACT_CLAMP, KIND, FACTORS, DIGITS);                      \
    }
#define RUN_DOTS(KIND)                                                                             \
    RUN_DOT(KIND, 1, 2) RUN_DOT(KIND, 2, 2) RUN_DOT(KIND, 1, 3) RUN_DOT(KIND, 2, 3)
    RUN_DOTS(AOT_NARROW_S4)
    RUN_DOTS(AOT_NARROW_S8_WORDS)
#endif
    RUN_NARROW(AOT_NARROW_S4, 1)
    RUN_NARROW(AOT_NARROW_S4, 2)
    RUN_NARROW(AOT_NARROW_S8, 1)
    RUN_NARROW(AOT_NARROW_S8, 2)
    RUN_NARROW(AOT_NARROW_S8_WORDS, 2)
    RUN_NARROW(AOT_NARROW_F16, 0)
    RUN_NARROW(AOT_NARROW_BF16, 0)
    for (int i = 0; i < m * n; ++i) {
        const double to = activated(want[i], act, 0.25, 0.75);
        close_at("y", i, (double)y[i], to, 0.0, (digits == 2 ? 2e-5 : 1e-6) * (1.0 + size[i]));
    }
    check_free();
}

int main(void) {
    static const int shapes[][3] = {{1, 1, 1},    {1, 70, 300}, {2, 16, 5},
                                    {3, 33, 17},  {7, 5, 520},  {15, 64, 9},
                                    {29, 100, 3}, {4, 17, 256}, {1, 130, 90}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; ++s) {
        const int m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
        for (int i = 0; i < 12; ++i) {
            const int act = i % 3 == 0 ? AOT_ACT_NONE : i % 3 == 1 ? AOT_ACT_CLAMP : AOT_ACT_SILU;
            test_narrow(m, n, k, i / 3, i > 5 ? 0 : 1 + i % 2, act, 0);
        }
        for (int i = 0; i < 3; ++i) {
            test_narrow(m, n, k, AOT_NARROW_S8_WORDS, 2, i, 0);
        }
        for (int i = 0; V > 1 && m == 1 && i < 24; ++i) {
            const int kind = i % 2 == 0 ? AOT_NARROW_S4 : AOT_NARROW_S8_WORDS;
            test_narrow(m, n, k, kind, 1 + i / 2 % 2, i % 3, 2 + i / 4 % 2);
        }
    }
    return check_end();
}
