/* SPDX-License-Identifier: MIT-0 */
/* Words of two bfloat16, the first number in the low half, and their products on vectors of V =
 * AOT_VLEN float sums.
 *
 * AOT_BF16_MADD(acc, x, w) adds, in each lane, the product of the high halves and then that of the
 * low ones, each sum rounded once to nearest even; subnormal operands count as zeros and subnormal
 * sums become zeros, with their signs. This is what AVX512_BF16 computes; aot_bf16_plain makes the
 * same bits (NaNs may have others) where AOT_ALLOW_NARROW lets a bundle do without the unit.
 */
#ifndef AOT_BF16_H
#define AOT_BF16_H

#include "aot_simd.h"

#if AOT_VLEN == 16 && defined(__AVX512BF16__)
#include <immintrin.h>
#define AOT_BF16_MADD(acc, x, w)                                                                   \
    ((aot_vf)_mm512_dpbf16_ps((__m512)(acc), (__m512bh)(x), (__m512bh)(w)))
#elif defined(AOT_ALLOW_NARROW)
#define AOT_BF16_MADD(acc, x, w) aot_bf16_plain(acc, x, w)
#endif

/* Words from row to row of k numbers in scratch: an odd number of cache lines, so that rows do not
 * meet in one set of the cache. */
#define AOT_BF16_ROW(k) ((((k) + 31) / 32 | 1) * 16)

#ifdef AOT_BF16_MADD
#include "aot_cast.h"

/* The word at `x` in every lane. */
AOT_INLINE aot_vf aot_bf16_word(const void *x) {
    int32_t word;
    (void)memcpy(&word, x, sizeof word);
    return aot_vfrombits(aot_viset1(word));
}

/* The float with these bits, or a zero for a subnormal one. */
AOT_INLINE float aot_bf16_flushed(uint32_t bits) {
    float value;
    bits = (bits & 0x7F800000U) == 0 ? bits & 0x80000000U : bits;
    (void)memcpy(&value, &bits, sizeof value);
    return value;
}

/* acc + x * w, rounded once: the product is exact in double, and a sum that is not is rounded to
 * odd, so that the float comes out as if from the exact one. */
AOT_INLINE float aot_bf16_add(float acc, uint32_t x, uint32_t w) {
    const double product = (double)aot_bf16_flushed(x) * (double)aot_bf16_flushed(w);
    const float value = (float)aot_cast_odd_sum(product, (double)acc);
    uint32_t bits;
    (void)memcpy(&bits, &value, sizeof bits);
    return aot_bf16_flushed(bits);
}

/* AOT_BF16_MADD in plain C. */
AOT_UNUSED AOT_NOINLINE static aot_vf aot_bf16_plain(aot_vf acc, aot_vf x, aot_vf w) {
    uint32_t a[AOT_VLEN], b[AOT_VLEN], c[AOT_VLEN];
    float sums[AOT_VLEN];
    int i;
    (void)memcpy(a, &x, sizeof a);
    (void)memcpy(b, &w, sizeof b);
    (void)memcpy(c, &acc, sizeof c);
    for (i = 0; i < AOT_VLEN; ++i) {
        const float high =
            aot_bf16_add(aot_bf16_flushed(c[i]), a[i] & 0xFFFF0000U, b[i] & 0xFFFF0000U);
        sums[i] = aot_bf16_add(high, a[i] << 16, b[i] << 16);
    }
    return aot_vload(sums);
}

/* x as bfloat16, to nearest even; subnormal numbers are zeros. */
AOT_INLINE uint32_t aot_bf16_of(float x) {
    uint32_t bits;
    (void)memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) {
        return bits >> 16 | 0x40U;
    }
    if ((bits & 0x7F800000U) == 0) {
        return bits >> 16 & 0x8000U;
    }
    return (bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16;
}

/* V floats as they are, but numbers that would become infinite are bfloat16's largest. */
AOT_INLINE aot_vf aot_bf16_finite(aot_vf x) {
    const aot_vi bits = aot_vbits(x), most = aot_viset1(0x7F7F0000);
    const aot_vi size = bits & INT32_C(0x7FFFFFFF);
    const aot_vi over = aot_visgt(size, most) & aot_visgt(aot_viset1(0x7F800000), size);
    return aot_vfrombits((over & ((bits & INT32_MIN) | most)) | (~over & bits));
}

/* 2 * V floats, `a` before `b`, as V words. */
AOT_INLINE void aot_bf16_words(void *d, aot_vf a, aot_vf b) {
#if AOT_VLEN == 16 && defined(__AVX512BF16__)
    const __m512bh words = _mm512_cvtne2ps_pbh((__m512)b, (__m512)a);
    (void)memcpy(d, &words, sizeof words);
#else
    float x[2 * AOT_VLEN];
    uint32_t words[AOT_VLEN];
    int i;
    aot_vstore(x, a);
    aot_vstore(x + AOT_VLEN, b);
    for (i = 0; i < AOT_VLEN; ++i) {
        words[i] = aot_bf16_of(x[2 * i]) | aot_bf16_of(x[2 * i + 1]) << 16;
    }
    (void)memcpy(d, words, sizeof words);
#endif
}

/* k floats as ceil(k / 2) words, and what fills up the last one a zero. d may be x. */
AOT_INLINE void aot_bf16_row(float *d, const float *x, int32_t k) {
    int32_t i = 0;
    for (; i + 2 * AOT_VLEN <= k; i += 2 * AOT_VLEN, d += AOT_VLEN) {
        aot_bf16_words(d, aot_bf16_finite(aot_vload(x + i)),
                       aot_bf16_finite(aot_vload(x + i + AOT_VLEN)));
    }
    if (i < k) {
        float last[2 * AOT_VLEN] = {0}, words[AOT_VLEN];
        (void)memcpy(last, x + i, (size_t)(k - i) * sizeof *x);
        aot_bf16_words(words, aot_bf16_finite(aot_vload(last)),
                       aot_bf16_finite(aot_vload(last + AOT_VLEN)));
        (void)memcpy(d, words, (size_t)((k - i + 1) / 2) * sizeof *d);
    }
}

#endif /* AOT_BF16_MADD */
#endif /* AOT_BF16_H */
