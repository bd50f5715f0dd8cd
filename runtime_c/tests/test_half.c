/* SPDX-License-Identifier: MIT-0 */
/* Elementwise functions of float16 and bfloat16: the bits of float32's functions on widened
 * numbers, rounded. */
#include "check.h"

#include "aot_half.h"

enum { N = 67 };

/* Any number: of everyday size in one case of two. */
static uint16_t some(int i, int BF16) {
    const uint16_t bits = (uint16_t)check_integer(0, 0xFFFF);
    if (i % 2 == 0) {
        return bits;
    }
    return BF16 ? (uint16_t)((bits & 0x80FF) | 0x3F00) : (uint16_t)((bits & 0x87FF) | 0x3800);
}

static float wide(uint16_t h, int BF16) {
    return BF16 ? aot_cast_from_bf16(h) : aot_cast_from_f16(h);
}

static void same_half(int i, uint16_t got, float want, int BF16) {
    const uint16_t bits = BF16 ? aot_cast_to_bf16(want) : aot_cast_to_f16(want);
    if (isnan(want)) {
        same_at("NaN", i, isnan(wide(got, BF16)) != 0, 1);
    } else {
        same_at("bits", i, got, bits);
    }
}

#define PAIR(IA, IB, OP, BF16)                                                                     \
    do {                                                                                           \
        const aot_broadcast2_params p = {                                                          \
            {1, 1, 1, 1, 3, N}, {0, 0, 0, 0, (IA) ? N : 1, IA}, {0, 0, 0, 0, 0, IB}, 0.0F, 0.0F};  \
        uint16_t *a = NEW(uint16_t, (IA) ? 3 * N : 3), *b = NEW(uint16_t, (IB) ? N : 1);           \
        uint16_t *y = NEW(uint16_t, 3 * N);                                                        \
        check_case("pair %d, strides %d %d, bfloat16 %d", OP, IA, IB, BF16);                       \
        for (int i = 0; i < ((IA) ? 3 * N : 3); ++i) {                                             \
            a[i] = some(i, BF16);                                                                  \
        }                                                                                          \
        for (int i = 0; i < ((IB) ? N : 1); ++i) {                                                 \
            b[i] = some(i / 2, BF16);                                                              \
        }                                                                                          \
        aot_binary_half(y, a, b, &p, IA, IB, OP, BF16);                                            \
        for (int i = 0; i < 3 * N; ++i) {                                                          \
            const float u = wide(a[(IA) ? i : i / N], BF16), v = wide(b[(IB) ? i % N : 0], BF16);  \
            same_half(i, y[i],                                                                     \
                      (OP) == 0   ? u + v                                                          \
                      : (OP) == 1 ? u - v                                                          \
                      : (OP) == 2 ? u * v                                                          \
                                  : u / v,                                                         \
                      BF16);                                                                       \
        }                                                                                          \
        check_free();                                                                              \
    } while (0)
#define PAIRS(OP, BF16)                                                                            \
    PAIR(1, 1, OP, BF16);                                                                          \
    PAIR(1, 0, OP, BF16);                                                                          \
    PAIR(0, 1, OP, BF16);

#define SINGLE(NAME, OP, BF16)                                                                     \
    for (int n = N - 9; n <= N; ++n) {                                                             \
        const aot_unary_f32_params p = {n, 0.25F, 0.75F, 0.0F};                                    \
        uint16_t *x = NEW(uint16_t, n), *y = NEW(uint16_t, n);                                     \
        float *a = NEW(float, n), *b = NEW(float, n);                                              \
        check_case(#NAME " of %d, bfloat16 %d", n, BF16);                                          \
        for (int i = 0; i < n; ++i) {                                                              \
            x[i] = some(i, BF16);                                                                  \
            a[i] = wide(x[i], BF16);                                                               \
        }                                                                                          \
        aot_unary_half(y, x, &p, OP, BF16);                                                        \
        aot_##NAME##_f32(b, a, &p);                                                                \
        for (int i = 0; i < n; ++i) {                                                              \
            same_half(i, y[i], b[i], BF16);                                                        \
        }                                                                                          \
        check_free();                                                                              \
    }

#define EVERY(BF16)                                                                                \
    PAIRS(AOT_HALF_ADD, BF16)                                                                      \
    PAIRS(AOT_HALF_SUB, BF16)                                                                      \
    PAIRS(AOT_HALF_MUL, BF16)                                                                      \
    PAIRS(AOT_HALF_DIV, BF16)                                                                      \
    SINGLE(abs, AOT_HALF_ABS, BF16)                                                                \
    SINGLE(neg, AOT_HALF_NEG, BF16)                                                                \
    SINGLE(relu, AOT_HALF_RELU, BF16)                                                              \
    SINGLE(clip, AOT_HALF_CLIP, BF16)                                                              \
    SINGLE(leaky_relu, AOT_HALF_LEAKY_RELU, BF16)                                                  \
    SINGLE(hard_sigmoid, AOT_HALF_HARD_SIGMOID, BF16)                                              \
    SINGLE(hard_swish, AOT_HALF_HARD_SWISH, BF16)                                                  \
    SINGLE(sigmoid, AOT_HALF_SIGMOID, BF16)                                                        \
    SINGLE(tanh, AOT_HALF_TANH, BF16)                                                              \
    SINGLE(exp, AOT_HALF_EXP, BF16)                                                                \
    SINGLE(sqrt, AOT_HALF_SQRT, BF16)                                                              \
    SINGLE(erf, AOT_HALF_ERF, BF16)                                                                \
    SINGLE(gelu, AOT_HALF_GELU, BF16)                                                              \
    SINGLE(gelu_tanh, AOT_HALF_GELU_TANH, BF16)

int main(void) {
    EVERY(0)
    EVERY(1)
    return check_end();
}
