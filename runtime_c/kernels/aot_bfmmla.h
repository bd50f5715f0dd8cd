/* SPDX-License-Identifier: MIT-0 */
/* Products of bfloat16 by Arm's matrix products (bf16): an instruction multiplies two rows by two
 * columns, over four numbers at once.
 *
 * In each sum the products of two neighbours are added, and this to the sum before. The three
 * results are rounded to odd (the last bit is 1 where the result is not exact) and are infinite
 * from 2^128 on; subnormal operands and results are zeros with their signs. aot_bfmmla_plain makes
 * the same bits in plain C (NaNs may have others). Weights are words of two rows, of which two of a
 * column are brought together in registers.
 */
#ifndef AOT_BFMMLA_H
#define AOT_BFMMLA_H

#include "aot_gemm_f32_strips.h"

#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define AOT_BFMMLA_UNIT 1
#else
#define AOT_BFMMLA_UNIT 0
#endif

/* x, or a zero for what is below the smallest normal float. */
AOT_INLINE double aot_bfmmla_flushed(double x) {
    return fabs(x) < (double)FLT_MIN ? copysign(0.0, x) : x;
}

/* x as a float, rounded to odd. */
AOT_INLINE double aot_bfmmla_odd(double x) {
    const double odd = (double)aot_cast_odd(aot_bfmmla_flushed(x));
    return isinf(odd) && fabs(x) < 2.0 * 1.7014118346046923e38 ? copysign((double)FLT_MAX, x) : odd;
}

/* The product of the bfloat16 in the high halves of two words. */
AOT_INLINE double aot_bfmmla_product(uint32_t x, uint32_t w) {
    const double a = (double)aot_cast_float(x & 0xFFFF0000U);
    const double b = (double)aot_cast_float(w & 0xFFFF0000U);
    return aot_bfmmla_odd(aot_bfmmla_flushed(a) * aot_bfmmla_flushed(b));
}

/* acc and both products of two words. */
AOT_INLINE float aot_bfmmla_add(float acc, uint32_t x, uint32_t w) {
    const double low = aot_bfmmla_product(x << 16, w << 16), high = aot_bfmmla_product(x, w);
    const double both = aot_bfmmla_odd(aot_cast_odd_sum(low, high));
    return (float)aot_bfmmla_odd(aot_cast_odd_sum((double)acc, both));
}

/* aot_bfmmla_tile in plain C. */
AOT_UNUSED AOT_NOINLINE static void
aot_bfmmla_plain(float *sums, const uint16_t *x, const uint8_t *w, int32_t words, int32_t width) {
    int32_t i, c, t;
    for (i = 0; i < AOT_STRIP; ++i) {
        for (c = 0; c < width; ++c) {
            float sum = 0.0F;
            for (t = 0; t < words; ++t) {
                uint32_t a, b;
                (void)memcpy(&a, x + t / 2 * (4 * AOT_STRIP) + i * 4 + t % 2 * 2, sizeof a);
                (void)memcpy(&b, w + 4 * (t * (ptrdiff_t)width + c), sizeof b);
                sum = aot_bfmmla_add(sum, a, b);
            }
            sums[i * width + c] = sum;
        }
    }
}

/* V floats as bfloat16; what would become infinite, and is not, becomes the largest one. */
AOT_INLINE void aot_bfmmla_four(uint16_t *d, aot_vf x) {
    const aot_vf near = aot_strip_finite(x, 0x7F7F0000);
#if AOT_BFMMLA_UNIT
    vst1_u16(d, vreinterpret_u16_bf16(vcvt_bf16_f32((float32x4_t)near)));
#else
    int i;
    for (i = 0; i < AOT_VLEN; ++i) {
        d[i] = aot_cast_to_bf16(aot_vlane(near, i));
    }
#endif
}

#if AOT_BFMMLA_UNIT
#define AOT_BFMMLA_PAIRS(F) F(0) F(1) F(2) F(3)
#define AOT_BFMMLA_BEGIN(i) float32x4_t a##i = zero, b##i = zero, c##i = zero, d##i = zero;
#define AOT_BFMMLA_STEP(i)                                                                         \
    {                                                                                              \
        const bfloat16x8_t rows = vreinterpretq_bf16_u16(vld1q_u16(x + 8 * (i)));                  \
        a##i = vbfmmlaq_f32(a##i, rows, w01);                                                      \
        b##i = vbfmmlaq_f32(b##i, rows, w23);                                                      \
        if (O > 1) {                                                                               \
            c##i = vbfmmlaq_f32(c##i, rows, w45);                                                  \
            d##i = vbfmmlaq_f32(d##i, rows, w67);                                                  \
        }                                                                                          \
    }
#define AOT_BFMMLA_END(i)                                                                          \
    aot_bfmmla_pair(sums + 8 * (i)*O, O, a##i, b##i);                                              \
    if (O > 1) {                                                                                   \
        aot_bfmmla_pair(sums + 8 * (i)*O + 4, O, c##i, d##i);                                      \
    }

/* Four columns of two rows: `low` has the first two of each row, `high` the others. */
AOT_INLINE void aot_bfmmla_pair(float *sums, int O, float32x4_t low, float32x4_t high) {
    vst1q_f32(sums, vcombine_f32(vget_low_f32(low), vget_low_f32(high)));
    vst1q_f32(sums + 4 * O, vcombine_f32(vget_high_f32(low), vget_high_f32(high)));
}

/* Four numbers of each of columns 0 and 1 (2 and 3 where `upper`), words u and v of each. */
AOT_INLINE bfloat16x8_t aot_bfmmla_zip(const uint8_t *u, const uint8_t *v, int upper) {
    const uint32x4_t a = vreinterpretq_u32_u8(vld1q_u8(u)), b = vreinterpretq_u32_u8(vld1q_u8(v));
    return vreinterpretq_bf16_u32(upper ? vzip2q_u32(a, b) : vzip1q_u32(a, b));
}
#endif

/* sums [8][O * V]: a strip times a group of O vectors of columns, of `words` words. */
AOT_INLINE void aot_bfmmla_tile(float *sums, const uint16_t *x, const uint8_t *w, int32_t words,
                                int O) {
#if AOT_BFMMLA_UNIT
    static const uint8_t none[32] = {0};
    const float32x4_t zero = vdupq_n_f32(0.0F);
    const int more = O > 1 ? 16 : 0;
    int32_t t;
    AOT_BFMMLA_PAIRS(AOT_BFMMLA_BEGIN)
    for (t = 0; t < words; t += 2, x += 4 * AOT_STRIP, w += 32 * O) {
        const uint8_t *const v = t + 1 < words ? w + 16 * O : none;
        const bfloat16x8_t w01 = aot_bfmmla_zip(w, v, 0), w23 = aot_bfmmla_zip(w, v, 1);
        const bfloat16x8_t w45 = aot_bfmmla_zip(w + more, v + more, 0);
        const bfloat16x8_t w67 = aot_bfmmla_zip(w + more, v + more, 1);
        AOT_BFMMLA_PAIRS(AOT_BFMMLA_STEP)
    }
    AOT_BFMMLA_PAIRS(AOT_BFMMLA_END)
#else
    aot_bfmmla_plain(sums, x, w, words, O * AOT_VLEN);
#endif
}

#endif /* AOT_BFMMLA_H */
