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
#endif

#define AOT_QVEC_MAX 16 /* sums at most: P * O */

typedef int8_t aot_qvec_bytes __attribute__((vector_size(AOT_VLEN)));

/* V int8 as int32. */
AOT_INLINE aot_vi aot_qvec_widen(const int8_t *p) {
    aot_qvec_bytes v;
    memcpy(&v, p, sizeof v);
    return __builtin_convertvector(v, aot_vi);
}

/* Stores V int32 that int8 holds. */
AOT_INLINE void aot_qvec_narrow(int8_t *p, aot_vi v) {
    const aot_qvec_bytes b = __builtin_convertvector(v, aot_qvec_bytes);
    memcpy(p, &b, sizeof b);
}

/* acc[j] += w[j][0] * x[0] + w[j][1] * x[1]; x is a pair of int16, w is [V][2]. */
#if AOT_VLEN == 4 && defined(__SSE2__)
typedef __m128i aot_qvec_pairs;
AOT_INLINE aot_qvec_pairs aot_qvec_pairs_at(const int8_t *w) {
    int64_t eight;
    __m128i v;
    memcpy(&eight, w, sizeof eight);
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
    memcpy(pair, &x, sizeof pair);
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
    if (PAIR) {
        for (; k > 0; k -= 2, x += 2, w += 2 * O * AOT_VLEN) {
            aot_qvec_pairs v[AOT_QVEC_MAX];
            AOT_UNROLL(16) for (j = 0; j < O; ++j) {
                v[j] = aot_qvec_pairs_at(w + 2 * j * AOT_VLEN);
            }
            AOT_UNROLL(16) for (i = 0; i < P; ++i) {
                int32_t pair;
                memcpy(&pair, x + i * pitch, sizeof pair);
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

/* What turns sums into codes. */
typedef struct {
    const int32_t *mult;
    const int8_t *shift;
    int32_t zero, lo, hi;
} aot_qvec_out;

/* Requantises the first n of a vector of sums, channels c and on, into y. */
AOT_INLINE void aot_qvec_store(int8_t *y, aot_vi sum, const aot_qvec_out *o, int32_t c, int n,
                               int RQ, int PC) {
    if (RQ == 0 && n == AOT_VLEN) {
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
            y[i] = (int8_t)aot_requant_code(lanes[i], o->mult[k], s, o->zero, o->lo, o->hi, RQ);
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
                    aot_qvec_store(y + (ptrdiff_t)i * channels + at, s[i * O + j], o, at,
                                   left < AOT_VLEN ? (int)left : AOT_VLEN, RQ, PC);
                }
            }
        }
    }
}

#endif /* AOT_QVEC_H */
