/* SPDX-License-Identifier: MIT-0 */
/* Int8 products on vectors of AOT_VLEN int32 sums, one per output channel: what the kernels
 * aot_q*_s8__vec share.
 *
 * Columns are int16 [pixel][k], k padded to an even number with zeros. Weights are one panel per O
 * vectors of channels: [k][O][V], or with PAIR (x86-64) [k / 2][O][V][2]; zero past the last
 * channel.
 */
#ifndef AOT_QVEC_H
#define AOT_QVEC_H

#include <stddef.h>

#include "aot_requant.h"
#include "aot_simd.h"

#if AOT_VLEN == 1
#error "the __vec kernels need vectors"
#endif

#if defined(__x86_64__) && defined(__SSE2__)
#include <immintrin.h>
#elif defined(__ARM_NEON)
#include <arm_neon.h>
#endif

#define AOT_QVEC_MAX 16 /* sums at most: P * O */

typedef int8_t aot_qvec_chars __attribute__((vector_size(AOT_VLEN)));

/* aot_qvec_widen: V int8 as int32. aot_qvec_narrow: stores V int32 that int8 holds. But for RISC-V
 * compilers make scalar code of __builtin_convertvector between the two. */
#if AOT_VLEN == 4 && defined(__SSE2__)
AOT_INLINE aot_vi aot_qvec_widen(const int8_t *p) {
    int32_t four;
    __m128i v;
    (void)memcpy(&four, p, sizeof four);
    v = _mm_cvtsi32_si128(four);
    v = _mm_unpacklo_epi8(v, v);
    return (aot_vi)_mm_srai_epi32(_mm_unpacklo_epi16(v, v), 24);
}
AOT_INLINE void aot_qvec_narrow(int8_t *p, aot_vi v) {
    const __m128i pairs = _mm_packs_epi32((__m128i)v, (__m128i)v);
    const int32_t four = _mm_cvtsi128_si32(_mm_packs_epi16(pairs, pairs));
    (void)memcpy(p, &four, sizeof four);
}
#elif AOT_VLEN == 8 && defined(__AVX2__)
AOT_INLINE aot_vi aot_qvec_widen(const int8_t *p) {
    return (aot_vi)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}
AOT_INLINE void aot_qvec_narrow(int8_t *p, aot_vi v) {
    const __m128i low = _mm256_castsi256_si128((__m256i)v);
    const __m128i pairs = _mm_packs_epi32(low, _mm256_extracti128_si256((__m256i)v, 1));
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi16(pairs, pairs));
}
#elif AOT_VLEN == 16 && defined(__AVX512F__)
AOT_INLINE aot_vi aot_qvec_widen(const int8_t *p) {
    return (aot_vi)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}
AOT_INLINE void aot_qvec_narrow(int8_t *p, aot_vi v) {
    _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtepi32_epi8((__m512i)v));
}
#elif AOT_VLEN == 4 && defined(__ARM_NEON)
AOT_INLINE aot_vi aot_qvec_widen(const int8_t *p) {
    int32_t four;
    (void)memcpy(&four, p, sizeof four);
    return (aot_vi)vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_s32(vdup_n_s32(four)))));
}
AOT_INLINE void aot_qvec_narrow(int8_t *p, aot_vi v) {
    const int16x4_t pairs = vmovn_s32((int32x4_t)v);
    const int8x8_t bytes = vmovn_s16(vcombine_s16(pairs, pairs));
    const int32_t four = vget_lane_s32(vreinterpret_s32_s8(bytes), 0);
    (void)memcpy(p, &four, sizeof four);
}
#elif defined(__riscv_vector)
AOT_INLINE aot_vi aot_qvec_widen(const int8_t *p) {
    aot_qvec_chars v;
    (void)memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, aot_vi);
}
AOT_INLINE void aot_qvec_narrow(int8_t *p, aot_vi v) {
    const aot_qvec_chars bytes = __builtin_convertvector(v, aot_qvec_chars);
    (void)memcpy(p, &bytes, sizeof bytes);
}
#else
AOT_INLINE aot_vi aot_qvec_widen(const int8_t *p) {
    aot_vi v;
    int i;
    for (i = 0; i < AOT_VLEN; ++i) {
        v[i] = p[i];
    }
    return v;
}
AOT_INLINE void aot_qvec_narrow(int8_t *p, aot_vi v) {
    int i;
    for (i = 0; i < AOT_VLEN; ++i) {
        p[i] = (int8_t)v[i];
    }
}
#endif

typedef int16_t aot_qvec_shorts __attribute__((vector_size(2 * AOT_VLEN)));

/* V int16 as int32. */
AOT_INLINE aot_vi aot_qvec_widen_s16(const int16_t *p) {
    aot_qvec_shorts v;
    (void)memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, aot_vi);
}

typedef uint8_t aot_qvec_bytes __attribute__((vector_size(AOT_VLEN)));

/* V uint8 as int32, and back. */
AOT_INLINE aot_vi aot_qvec_widen_u8(const uint8_t *p) {
    return aot_qvec_widen((const int8_t *)p) & 255;
}
AOT_INLINE void aot_qvec_narrow_u8(uint8_t *p, aot_vi v) {
    aot_qvec_bytes bytes;
    aot_qvec_narrow((int8_t *)p, v - 128);
    (void)memcpy(&bytes, p, sizeof bytes);
    bytes ^= 128;
    (void)memcpy(p, &bytes, sizeof bytes);
}

/* v to the nearest integer, halves to even; |v| is below 2^22. */
AOT_INLINE aot_vi aot_qvec_nearest(aot_vf v) {
#if AOT_VLEN == 16 && defined(__AVX512F__)
    return (aot_vi)_mm512_cvtps_epi32((__m512)v);
#else
    return aot_vbits(v + aot_vset1(12582912.0F)) - 0x4B400000; /* 1.5 * 2^23 */
#endif
}

/* v to the nearest integer, halves to even; NaN gives 0, |v| is limited to AOT_REQUANT_LIMIT. */
AOT_INLINE aot_vi aot_qvec_round(aot_vf v) {
    const aot_vf top = aot_vset1((float)AOT_REQUANT_LIMIT);
#if AOT_VLEN == 16 && defined(__AVX512F__)
    const __mmask16 number = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_ORD_Q);
    return (aot_vi)_mm512_maskz_cvtps_epi32(number, (__m512)aot_vmin(aot_vmax(v, -top), top));
#else
    const aot_vf number = aot_vselect(aot_veq(v, v), v, aot_vzero());
    return aot_qvec_nearest(aot_vmin(aot_vmax(number, -top), top));
#endif
}

/* v limited to lo..hi. */
AOT_INLINE aot_vi aot_qvec_within(aot_vi v, int32_t lo, int32_t hi) {
    const aot_vi low = aot_viset1(lo), high = aot_viset1(hi);
#if AOT_VLEN == 16 && defined(__AVX512F__)
    return (aot_vi)_mm512_max_epi32(_mm512_min_epi32((__m512i)v, (__m512i)high), (__m512i)low);
#elif AOT_VLEN == 8 && defined(__AVX2__)
    return (aot_vi)_mm256_max_epi32(_mm256_min_epi32((__m256i)v, (__m256i)high), (__m256i)low);
#else
    v = (v & ~aot_visgt(v, high)) | (high & aot_visgt(v, high));
    return (v & ~aot_visgt(low, v)) | (low & aot_visgt(low, v));
#endif
}

/* Stores four vectors plus zero, within lo..hi, which int8 holds. */
AOT_INLINE void aot_qvec_narrow4(int8_t *y, const aot_vi *v, int32_t zero, int32_t lo, int32_t hi) {
#if AOT_VLEN == 16 && defined(__AVX512BW__)
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i some = _mm512_set1_epi16((short)zero);
    const __m512i low = _mm512_packs_epi32((__m512i)v[0], (__m512i)v[1]);
    const __m512i high = _mm512_packs_epi32((__m512i)v[2], (__m512i)v[3]);
    __m512i all = _mm512_packs_epi16(_mm512_adds_epi16(low, some), _mm512_adds_epi16(high, some));
    all = _mm512_permutexvar_epi32(order, all);
    all = _mm512_min_epi8(all, _mm512_set1_epi8((char)hi));
    _mm512_storeu_si512(y, _mm512_max_epi8(all, _mm512_set1_epi8((char)lo)));
#else
    int i;
    for (i = 0; i < 4; ++i) {
        aot_qvec_narrow(y + i * AOT_VLEN, aot_qvec_within(v[i] + zero, lo, hi));
    }
#endif
}

/* A number by which vectors are divided, and its inverse: 0 where only a division is exact. */
typedef struct {
    float by, inverse;
} aot_qvec_divisor;

AOT_INLINE aot_qvec_divisor aot_qvec_divide_by(float by) {
    const aot_qvec_divisor d = {by, by > 0x1p-60F && by < 0x1p60F ? 1.0F / by : 0.0F};
    return d;
}

/* v / d, for |v| / d below 2^30 where d has an inverse. A product with the inverse, corrected by
 * what it leaves, is the rounded quotient while nothing underflows (Markstein; also tried with all
 * numbers of 24 bits whose quotient comes closest to the middle between two such numbers). Below
 * 2^-60 a quotient may differ from it, by less than 2^-60. */
AOT_INLINE aot_vf aot_qvec_over(aot_vf v, const aot_qvec_divisor *d) {
#if AOT_VLEN == 16 && defined(__AVX512F__)
    if (d->inverse > 0.0F) {
        const __m512 by = _mm512_set1_ps(d->by), inverse = _mm512_set1_ps(d->inverse);
        const __m512 q = _mm512_mul_ps((__m512)v, inverse);
        return (aot_vf)_mm512_fmadd_ps(_mm512_fnmadd_ps(q, by, (__m512)v), inverse, q);
    }
#elif AOT_VLEN == 8 && defined(__FMA__)
    if (d->inverse > 0.0F) {
        const __m256 by = _mm256_set1_ps(d->by), inverse = _mm256_set1_ps(d->inverse);
        const __m256 q = _mm256_mul_ps((__m256)v, inverse);
        return (aot_vf)_mm256_fmadd_ps(_mm256_fnmadd_ps(q, by, (__m256)v), inverse, q);
    }
#endif
    return v / d->by;
}

/* Numbers divided by d, rounded as aot_qvec_round does, plus zero, within lo..hi, which int16
 * holds. */
AOT_INLINE aot_vi aot_qvec_quantise(aot_vf v, const aot_qvec_divisor *d, int32_t zero, int32_t lo,
                                    int32_t hi) {
    const aot_vf top = aot_vset1(d->by * 0x1p20F);
    const aot_vf limited = d->inverse > 0.0F ? aot_vmin(aot_vmax(v, -top), top) : v;
    aot_vi q;
#if AOT_VLEN == 16 && defined(__AVX512F__)
    if (d->inverse > 0.0F) {
        const __mmask16 number = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_ORD_Q);
        q = (aot_vi)_mm512_maskz_cvtps_epi32(number, (__m512)aot_qvec_over(limited, d));
        return aot_qvec_within(q + zero, lo, hi);
    }
#endif
    q = aot_qvec_round(aot_qvec_over(aot_vselect(aot_veq(v, v), limited, v), d));
    return aot_qvec_within(q + zero, lo, hi);
}

/* acc[j] += w[j][0] * x[0] + w[j][1] * x[1]; x is a pair of int16, w is [V][2]. */
#if AOT_VLEN == 4 && defined(__SSE2__)
typedef __m128i aot_qvec_pairs;
AOT_INLINE aot_qvec_pairs aot_qvec_pairs_at(const int8_t *w) {
    int64_t eight;
    __m128i v;
    (void)memcpy(&eight, w, sizeof eight);
    v = _mm_cvtsi64_si128(eight);
    return _mm_srai_epi16(_mm_unpacklo_epi8(v, v), 8);
}
AOT_INLINE aot_vi aot_qvec_madd(aot_vi acc, aot_qvec_pairs w, int32_t x) {
    return acc + (aot_vi)_mm_madd_epi16(w, _mm_set1_epi32(x));
}
#elif AOT_VLEN == 8 && defined(__AVX2__)
typedef __m256i aot_qvec_pairs;
AOT_INLINE aot_qvec_pairs aot_qvec_pairs_at(const int8_t *w) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)w));
}
AOT_INLINE aot_vi aot_qvec_madd(aot_vi acc, aot_qvec_pairs w, int32_t x) {
    return acc + (aot_vi)_mm256_madd_epi16(w, _mm256_set1_epi32(x));
}
#elif AOT_VLEN == 16 && defined(__AVX512BW__)
typedef __m512i aot_qvec_pairs;
AOT_INLINE aot_qvec_pairs aot_qvec_pairs_at(const int8_t *w) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)w));
}
AOT_INLINE aot_vi aot_qvec_madd(aot_vi acc, aot_qvec_pairs w, int32_t x) {
    return acc + (aot_vi)_mm512_madd_epi16(w, _mm512_set1_epi32(x));
}
#else
typedef struct {
    aot_vi even, odd;
} aot_qvec_pairs;
AOT_INLINE aot_qvec_pairs aot_qvec_pairs_at(const int8_t *w) {
    aot_qvec_pairs v;
    int i;
    for (i = 0; i < AOT_VLEN; ++i) {
        v.even[i] = w[2 * i];
        v.odd[i] = w[2 * i + 1];
    }
    return v;
}
AOT_INLINE aot_vi aot_qvec_madd(aot_vi acc, aot_qvec_pairs w, int32_t x) {
    int16_t pair[2];
    (void)memcpy(pair, &x, sizeof pair);
    return acc + w.even * pair[0] + w.odd * pair[1];
}
#endif

/* s[P][O] = bias + products of k (even) columns; columns of two pixels are `pitch` int16 apart. */
AOT_INLINE void aot_qvec_tile(aot_vi *s, const int16_t *x, ptrdiff_t pitch, int32_t k,
                              const int8_t *w, const int32_t *bias, int P, int O, int PAIR) {
    int i, j;
    AOT_UNROLL(16) for (j = 0; j < O; ++j) {
        AOT_UNROLL(16) for (i = 0; i < P; ++i) {
            s[i * O + j] = aot_viload(bias + j * AOT_VLEN);
        }
    }
    if (PAIR != 0) {
        for (; k > 0; k -= 2, x += 2, w += 2 * O * AOT_VLEN) {
            aot_qvec_pairs v[AOT_QVEC_MAX];
            AOT_UNROLL(16) for (j = 0; j < O; ++j) {
                v[j] = aot_qvec_pairs_at(w + 2 * j * AOT_VLEN);
            }
            AOT_UNROLL(16) for (i = 0; i < P; ++i) {
                int32_t pair;
                (void)memcpy(&pair, x + i * pitch, sizeof pair);
                AOT_UNROLL(16) for (j = 0; j < O; ++j) {
                    s[i * O + j] = aot_qvec_madd(s[i * O + j], v[j], pair);
                }
            }
        }
        return;
    }
    for (; k > 0; --k, ++x, w += O * AOT_VLEN) {
        aot_vi v[AOT_QVEC_MAX];
        AOT_UNROLL(16) for (j = 0; j < O; ++j) {
            v[j] = aot_qvec_widen(w + j * AOT_VLEN);
        }
        AOT_UNROLL(16) for (i = 0; i < P; ++i) {
            AOT_UNROLL(16) for (j = 0; j < O; ++j) {
                s[i * O + j] += v[j] * (int32_t)x[i * pitch];
            }
        }
    }
}

/* What turns sums into quantised values. */
typedef struct {
    const int32_t *mult;
    const int8_t *shift;
    int32_t zero, lo, hi;
} aot_qvec_out;

/* Requantises the first n of a vector of sums, channels c and on, into y (RQ 3: of int32). */
AOT_INLINE void aot_qvec_store(int8_t *y, aot_vi sum, const aot_qvec_out *o, int32_t c, int n,
                               int RQ, int PC) {
    if (RQ == AOT_REQUANT_NONE && n == AOT_VLEN) {
        (void)memcpy(y, &sum, sizeof sum);
    } else if (RQ == AOT_REQUANT_NONE) {
        int32_t lanes[AOT_VLEN];
        aot_vistore(lanes, sum);
        (void)memcpy(y, lanes, (size_t)n * sizeof *lanes);
    } else if (RQ == 0 && n == AOT_VLEN) {
        const aot_vi bits = PC ? aot_viload(o->mult + c) : aot_viset1(o->mult[0]);
        const aot_vf low = aot_vset1((float)(o->lo - o->zero));
        const aot_vf high = aot_vset1((float)(o->hi - o->zero));
        /* Limiting keeps the product and the sum below from becoming one operation. */
        const aot_vf v = aot_vmin(aot_vmax(aot_vi2f(sum) * aot_vfrombits(bits), low), high);
        const aot_vi whole = aot_vbits(v + aot_vset1(12582912.0F)); /* 1.5 * 2^23 */
        aot_qvec_narrow(y, whole - aot_viset1(0x4B400000 - o->zero));
    } else {
        int32_t lanes[AOT_VLEN];
        int i;
        aot_vistore(lanes, sum);
        for (i = 0; i < n; ++i) {
            const int32_t k = PC ? c + i : 0, s = RQ != 0 ? o->shift[k] : 0;
            y[i] = (int8_t)aot_requant_value(lanes[i], o->mult[k], s, o->zero, o->lo, o->hi, RQ);
        }
    }
}

/* All `channels` of n <= P pixels whose columns are at x, `pitch` int16 apart; y at the first. */
AOT_INLINE void aot_qvec_pixels(int8_t *y, const int16_t *x, ptrdiff_t pitch, int32_t k,
                                const int8_t *w, const int32_t *bias, int32_t channels, int n,
                                const aot_qvec_out *o, int RQ, int PC, int P, int O, int PAIR) {
    int32_t c;
    int i, j;
    for (c = 0; c < channels; c += O * AOT_VLEN, w += (ptrdiff_t)k * O * AOT_VLEN) {
        aot_vi s[AOT_QVEC_MAX];
        aot_qvec_tile(s, x, pitch, k, w, bias + c, P, O, PAIR);
        AOT_UNROLL(16) for (i = 0; i < P; ++i) {
            AOT_UNROLL(16) for (j = 0; j < O; ++j) {
                const int32_t at = c + j * AOT_VLEN, left = channels - at;
                if (i < n && left > 0) {
                    aot_qvec_store(y + ((ptrdiff_t)i * channels + at) * AOT_REQUANT_SIZE(RQ),
                                   s[i * O + j], o, at, left < AOT_VLEN ? (int)left : AOT_VLEN, RQ,
                                   PC);
                }
            }
        }
    }
}

#endif /* AOT_QVEC_H */
