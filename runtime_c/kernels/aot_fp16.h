/* SPDX-License-Identifier: MIT-0 */
/* Products of float16 by Arm's arithmetic of float16 (fp16), which multiplies and adds eight
 * numbers with one rounding.
 *
 * AOT_FP16_RUN products are summed up in float16, and these sums in float32: each rounds by 2^-11
 * of itself at most, 16 of them by less than 1 %, and by far less on the average. A sum beyond
 * 65504 would be infinite: the weights of 16 rows of a column have a sum below 1 (of their sizes),
 * to which the bundle's generator scales each column by a power of two, and rows hold finite
 * numbers of float16. aot_fp16_plain makes the same bits in plain C (NaNs may have others).
 */
#ifndef AOT_FP16_H
#define AOT_FP16_H

#include "aot_gemm_f32_strips.h"

#if defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)
#define AOT_FP16_UNIT 1
#else
#define AOT_FP16_UNIT 0
#endif

enum { AOT_FP16_RUN = 16 };

/* acc + x * w as float16, rounded once: the product is exact in double. */
AOT_INLINE uint16_t aot_fp16_fma(uint16_t acc, uint16_t x, uint16_t w) {
    const double product = (double)aot_cast_from_f16(x) * (double)aot_cast_from_f16(w);
    const double sum = aot_cast_odd_sum(product, (double)aot_cast_from_f16(acc));
    return aot_cast_to_f16(aot_cast_odd(sum));
}

/* aot_fp16_tile in plain C. */
AOT_UNUSED AOT_NOINLINE static void aot_fp16_plain(float *sums, const uint16_t *x, const uint8_t *w,
                                                   int32_t words, int32_t width) {
    int32_t i, c, t;
    for (i = 0; i < AOT_STRIP; ++i) {
        for (c = 0; c < width; ++c) {
            float total = 0.0F;
            for (t = 0; t < 2 * words;) {
                const int32_t end = 2 * words - t < AOT_FP16_RUN ? 2 * words : t + AOT_FP16_RUN;
                uint16_t acc = 0, weight;
                for (; t < end; ++t) {
                    (void)memcpy(&weight, w + 2 * (t * (ptrdiff_t)width + c), sizeof weight);
                    acc = aot_fp16_fma(acc, x[t / 4 * (4 * AOT_STRIP) + i * 4 + t % 4], weight);
                }
                total += aot_cast_from_f16(acc);
            }
            sums[i * width + c] = total;
        }
    }
}

/* V floats as float16; what is beyond 65504, and finite, becomes that. */
AOT_INLINE void aot_fp16_four(uint16_t *d, aot_vf x) {
    const aot_vf near = aot_strip_finite(x, 0x477FE000);
#if AOT_FP16_UNIT
    vst1_u16(d, vreinterpret_u16_f16(vcvt_f16_f32((float32x4_t)near)));
#else
    int i;
    for (i = 0; i < AOT_VLEN; ++i) {
        d[i] = aot_cast_to_f16(aot_vlane(near, i));
    }
#endif
}

#if AOT_FP16_UNIT
/* a += w * number LANE of x. gcc 12 copies the number to all lanes first. */
#define AOT_FP16_FMA(a, w, x, LANE)                                                                \
    __asm__("fmla %0.8h, %1.8h, %2.h[" #LANE "]" : "+w"(a) : "w"(w), "x"(x))
#define AOT_FP16_PAIRS(F) F(0, 1) F(2, 3) F(4, 5) F(6, 7)
#define AOT_FP16_TOTALS(i, j) float32x4_t l##i = zero, h##i = zero, l##j = zero, h##j = zero;
#define AOT_FP16_BEGIN(i, j) float16x8_t a##i = none, a##j = none;
#define AOT_FP16_ROWS(i, j) const float16x8_t x##i = vreinterpretq_f16_u16(vld1q_u16(x + 4 * (i)));
#define AOT_FP16_COLUMNS(t)                                                                        \
    const float16x8_t w##t = vreinterpretq_f16_u8(                                                 \
        O > 1 ? vld1q_u8(w + 16 * (t)) : vcombine_u8(vld1_u8(w + 8 * (t)), vdup_n_u8(0)));
#define AOT_FP16_ADD0(i, j)                                                                        \
    AOT_FP16_FMA(a##i, w0, x##i, 0);                                                               \
    AOT_FP16_FMA(a##j, w0, x##i, 4);
#define AOT_FP16_ADD1(i, j)                                                                        \
    AOT_FP16_FMA(a##i, w1, x##i, 1);                                                               \
    AOT_FP16_FMA(a##j, w1, x##i, 5);
#define AOT_FP16_ADD2(i, j)                                                                        \
    AOT_FP16_FMA(a##i, w2, x##i, 2);                                                               \
    AOT_FP16_FMA(a##j, w2, x##i, 6);
#define AOT_FP16_ADD3(i, j)                                                                        \
    AOT_FP16_FMA(a##i, w3, x##i, 3);                                                               \
    AOT_FP16_FMA(a##j, w3, x##i, 7);
#define AOT_FP16_END(i, j)                                                                         \
    l##i = vaddq_f32(l##i, vcvt_f32_f16(vget_low_f16(a##i)));                                      \
    h##i = vaddq_f32(h##i, vcvt_high_f32_f16(a##i));                                               \
    l##j = vaddq_f32(l##j, vcvt_f32_f16(vget_low_f16(a##j)));                                      \
    h##j = vaddq_f32(h##j, vcvt_high_f32_f16(a##j));
#define AOT_FP16_STORE(i, j)                                                                       \
    vst1q_f32(sums + (i)*4 * O, l##i);                                                             \
    vst1q_f32(sums + (j)*4 * O, l##j);                                                             \
    if (O > 1) {                                                                                   \
        vst1q_f32(sums + (i)*4 * O + 4, h##i);                                                     \
        vst1q_f32(sums + (j)*4 * O + 4, h##j);                                                     \
    }
#endif

/* sums [8][O * V]: a strip times a group of O vectors of columns, of 2 * `words` rows. */
AOT_INLINE void aot_fp16_tile(float *sums, const uint16_t *x, const uint8_t *w, int32_t words,
                              int O) {
#if AOT_FP16_UNIT
    const float32x4_t zero = vdupq_n_f32(0.0F);
    const float16x8_t none = vreinterpretq_f16_f32(zero);
    int32_t left = words, end;
    AOT_FP16_PAIRS(AOT_FP16_TOTALS)
    for (; left > 0; left = end) {
        AOT_FP16_PAIRS(AOT_FP16_BEGIN)
        end = left > AOT_FP16_RUN / 2 ? left - AOT_FP16_RUN / 2 : 0;
        for (; left > end; left -= 2, x += 4 * AOT_STRIP, w += 32 * O) {
            AOT_FP16_PAIRS(AOT_FP16_ROWS)
            AOT_FP16_COLUMNS(0)
            AOT_FP16_COLUMNS(1)
            AOT_FP16_PAIRS(AOT_FP16_ADD0)
            AOT_FP16_PAIRS(AOT_FP16_ADD1)
            if (left > 1) {
                AOT_FP16_COLUMNS(2)
                AOT_FP16_COLUMNS(3)
                AOT_FP16_PAIRS(AOT_FP16_ADD2)
                AOT_FP16_PAIRS(AOT_FP16_ADD3)
            }
        }
        AOT_FP16_PAIRS(AOT_FP16_END)
    }
    AOT_FP16_PAIRS(AOT_FP16_STORE)
#else
    aot_fp16_plain(sums, x, w, words, O * AOT_VLEN);
#endif
}

#endif /* AOT_FP16_H */
