/* SPDX-License-Identifier: MIT-0 */
/* Int8 products on vectors of AOT_VLEN int32 sums by dot products of four values: what the kernels
 * aot_q*_s8__dot share.
 *
 * AOT_QDOT_MADD is the CPU's instruction where the compiler is told of it (AVX-512 VNNI, AVX-VNNI,
 * Arm's dot products): acc[j] += the sum of x[4j + i] * w[4j + i] over i < 4. Elsewhere, and where
 * the bundle was made for a unit with the other FLIP, aot_qdot_plain makes the same bits.
 *
 * A tile is S segments (1 or 2) of L pixels (1 to 7), `step` bytes apart, times O vectors of
 * channels (1 or 2; with one segment also 4 on x86-64). A window is [rows][cols] runs of whole
 * groups of four bytes. Weights are one panel per O vectors of channels, [rows][cols][run /
 * 4][O][V][4], zero past the end of a run and past the last channel; where the channels left fit
 * one vector the last panel has O = 1.
 *
 * FLIP is 128 where the instruction takes unsigned values: what is read has its top bits flipped
 * and counts as unsigned (the bias holds -128 times the sum of the weights); else it is 0.
 */
#ifndef AOT_QDOT_H
#define AOT_QDOT_H

#include "aot_qvec.h"

#define AOT_QDOT_LENGTH 7
#define AOT_QDOT_TILE (2 * AOT_QDOT_LENGTH * 2 * AOT_VLEN) /* sums of the largest tile */
#define AOT_QDOT_SLACK 64 /* bytes that must be readable behind an image */

#if defined(__AVX512VNNI__) && AOT_VLEN == 16
#define AOT_QDOT_FLIP 128
#define AOT_QDOT_MADD(acc, x, w)                                                                   \
    ((aot_vi)_mm512_dpbusd_epi32((__m512i)(acc), (__m512i)(x), (__m512i)(w)))
#elif defined(__AVX512VNNI__) && defined(__AVX512VL__) && AOT_VLEN == 8
#define AOT_QDOT_FLIP 128
#define AOT_QDOT_MADD(acc, x, w)                                                                   \
    ((aot_vi)_mm256_dpbusd_epi32((__m256i)(acc), (__m256i)(x), (__m256i)(w)))
#elif defined(__AVX512VNNI__) && defined(__AVX512VL__) && AOT_VLEN == 4
#define AOT_QDOT_FLIP 128
#define AOT_QDOT_MADD(acc, x, w)                                                                   \
    ((aot_vi)_mm_dpbusd_epi32((__m128i)(acc), (__m128i)(x), (__m128i)(w)))
#elif defined(__AVXVNNI__) && AOT_VLEN == 8
#define AOT_QDOT_FLIP 128
#define AOT_QDOT_MADD(acc, x, w)                                                                   \
    ((aot_vi)_mm256_dpbusd_avx_epi32((__m256i)(acc), (__m256i)(x), (__m256i)(w)))
#elif defined(__AVXVNNI__) && AOT_VLEN == 4
#define AOT_QDOT_FLIP 128
#define AOT_QDOT_MADD(acc, x, w)                                                                   \
    ((aot_vi)_mm_dpbusd_avx_epi32((__m128i)(acc), (__m128i)(x), (__m128i)(w)))
#elif defined(__ARM_FEATURE_DOTPROD) && AOT_VLEN == 4
#define AOT_QDOT_FLIP 0
#define AOT_QDOT_MADD(acc, x, w)                                                                   \
    ((aot_vi)vdotq_s32((int32x4_t)(acc), (int8x16_t)(x), (int8x16_t)(w)))
#endif

/* Four values in every lane. */
AOT_INLINE aot_vi aot_qdot_four(const uint8_t *x) {
    int32_t four;
    (void)memcpy(&four, x, sizeof four);
    return aot_viset1(four);
}

AOT_INLINE aot_vi aot_qdot_load(const int8_t *w) {
    aot_vi v;
    (void)memcpy(&v, w, sizeof v);
    return v;
}

/* The sum of all lanes. */
AOT_INLINE int32_t aot_qdot_lanes(aot_vi v) {
#if AOT_VLEN == 16 && defined(__AVX512F__)
    return _mm512_reduce_add_epi32((__m512i)v);
#else
    int32_t total = v[0];
    int i;
    for (i = 1; i < AOT_VLEN; ++i) {
        total += v[i];
    }
    return total;
#endif
}

/* Sizes of a window: runs of `four` groups of four bytes; the next run of a row and the next row
 * are `col` and `row` bytes further. */
typedef struct {
    int32_t rows, cols, four;
    ptrdiff_t row, col;
} aot_qdot_window;

/* What aot_qdot_tile stores, in plain C. */
static AOT_NOINLINE AOT_UNUSED void aot_qdot_plain(int32_t *sums, const uint8_t *x, ptrdiff_t step,
                                                   const aot_qdot_window *window, const int8_t *w,
                                                   const int32_t *bias, int L, int O, int FLIP) {
    const int n = O * AOT_VLEN;
    int32_t a, b, k;
    int i, j, e;
    for (i = 0; i < L; ++i, sums += n, x += step) {
        const int8_t *v = w;
        (void)memcpy(sums, bias, (size_t)n * sizeof *sums);
        for (a = 0; a < window->rows; ++a) {
            for (b = 0; b < window->cols; ++b) {
                const uint8_t *at = x + a * window->row + b * window->col;
                for (k = 0; k < window->four; ++k, at += 4, v += 4 * n) {
                    for (j = 0; j < n; ++j) {
                        for (e = 0; e < 4; ++e) {
                            const int32_t value = FLIP != 0 ? at[e] : (int8_t)at[e];
                            const uint32_t product = (uint32_t)(value * v[4 * j + e]);
                            sums[j] = (int32_t)((uint32_t)sums[j] + product);
                        }
                    }
                }
            }
        }
    }
}

/* Every accumulator of a tile is a variable of its own: gcc keeps arrays of them on the stack. */
#include "aot_qdot_direct.h"
#include "aot_qdot_i8mm.h"
#if defined(AOT_QDOT_FLIP) && !defined(AOT_QDOT_I8MM)
#define AOT_QDOT_PIXELS(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6)
#define AOT_QDOT_BEGIN(i) aot_vi a##i = b0, c##i = b1, d##i = b2, e##i = b3;
#define AOT_QDOT_STEP(i)                                                                           \
    if ((i) < L) {                                                                                 \
        const aot_vi x_ = aot_qdot_four(AOT_QDOT_AT(p, i));                                        \
        a##i = AOT_QDOT_MADD(a##i, x_, w0);                                                        \
        if (O > 1) {                                                                               \
            c##i = AOT_QDOT_MADD(c##i, x_, w1);                                                    \
        }                                                                                          \
        if (O > 2) {                                                                               \
            d##i = AOT_QDOT_MADD(d##i, x_, w2);                                                    \
            e##i = AOT_QDOT_MADD(e##i, x_, w3);                                                    \
        }                                                                                          \
    }
#define AOT_QDOT_STEP2(i)                                                                          \
    if ((i) < L && S > 1) {                                                                        \
        const aot_vi x_ = aot_qdot_four(AOT_QDOT_AT(q, i));                                        \
        d##i = AOT_QDOT_MADD(d##i, x_, w0);                                                        \
        if (O > 1) {                                                                               \
            e##i = AOT_QDOT_MADD(e##i, x_, w1);                                                    \
        }                                                                                          \
    }
#define AOT_QDOT_END(i)                                                                            \
    if ((i) < L) {                                                                                 \
        aot_vistore(sums + (i)*O * AOT_VLEN, a##i);                                                \
        if (O > 1) {                                                                               \
            aot_vistore(sums + ((i)*O + 1) * AOT_VLEN, c##i);                                      \
        }                                                                                          \
        if (O > 2) {                                                                               \
            aot_vistore(sums + ((i)*O + 2) * AOT_VLEN, d##i);                                      \
            aot_vistore(sums + ((i)*O + 3) * AOT_VLEN, e##i);                                      \
        }                                                                                          \
        if (S > 1) {                                                                               \
            aot_vistore(sums + (L + (i)) * O * AOT_VLEN, d##i);                                    \
        }                                                                                          \
        if (S > 1 && O > 1) {                                                                      \
            aot_vistore(sums + ((L + (i)) * O + 1) * AOT_VLEN, e##i);                              \
        }                                                                                          \
    }
/* Pixel i of a segment: two pointers and the addressing of x86-64 reach all seven. */
#define AOT_QDOT_AT(p, i) ((i) < 4 ? p##0 + (i)*step : p##4 + ((i)-4) * step)

/* The loop of a tile, between the declaration of its accumulators and what becomes of them. */
#define AOT_QDOT_LOOP                                                                              \
    const aot_vi b0 = aot_viload(bias), b1 = aot_viload(bias + (O > 1 ? AOT_VLEN : 0));            \
    const aot_vi b2 = aot_viload(bias + (O > 2 ? 2 * AOT_VLEN : 0));                               \
    const aot_vi b3 = aot_viload(bias + (O > 2 ? 3 : O - 1) * AOT_VLEN);                           \
    const ptrdiff_t col = window->col, row = window->row;                                          \
    const int32_t rows = window->rows, cols = window->cols, four = window->four;                   \
    int32_t m, n, k;                                                                               \
    AOT_QDOT_PIXELS(AOT_QDOT_BEGIN)                                                                \
    for (m = 0; m < rows; ++m, x0 += row, x1 += row) {                                             \
        const uint8_t *from0 = x0, *from1 = x1;                                                    \
        for (n = 0; n < cols; ++n, from0 += col, from1 += col) {                                   \
            const uint8_t *p0 = from0, *p4 = from0 + 4 * step;                                     \
            const uint8_t *q0 = from1, *q4 = from1 + 4 * step;                                     \
            for (k = 0; k < four; ++k) {                                                           \
                const aot_vi w0 = aot_qdot_load(w);                                                \
                const aot_vi w1 = aot_qdot_load(w + (O > 1 ? 4 * AOT_VLEN : 0));                   \
                const aot_vi w2 = aot_qdot_load(w + (O > 2 ? 8 * AOT_VLEN : 0));                   \
                const aot_vi w3 = aot_qdot_load(w + (O > 2 ? 12 * AOT_VLEN : 0));                  \
                AOT_QDOT_PIXELS(AOT_QDOT_STEP)                                                     \
                AOT_QDOT_PIXELS(AOT_QDOT_STEP2)                                                    \
                w += 4 * O * AOT_VLEN;                                                             \
                p0 += 4;                                                                           \
                p4 += 4;                                                                           \
                q0 += 4;                                                                           \
                q4 += 4;                                                                           \
            }                                                                                      \
        }                                                                                          \
    }

AOT_INLINE void aot_qdot_unit(int32_t *sums, const uint8_t *x0, const uint8_t *x1, ptrdiff_t step,
                              const aot_qdot_window *window, const int8_t *w, const int32_t *bias,
                              int L, int S, int O) {
    AOT_QDOT_LOOP
    AOT_QDOT_PIXELS(AOT_QDOT_END)
}

#if AOT_QDOT_IS_DIRECT(0, 0, AOT_QDOT_FLIP)
#define AOT_QDOT_STORE(i)                                                                          \
    if ((i) < L) {                                                                                 \
        aot_qdot_direct_store(t, i, a##i, c##i, d##i, e##i, S, O, EPILOGUE, PC, WZ);               \
    }

/* The quantised values of a tile. */
AOT_INLINE void aot_qdot_values(const aot_qdot_direct *t, const uint8_t *x0, const uint8_t *x1,
                                ptrdiff_t step, const aot_qdot_window *window, const int8_t *w,
                                const int32_t *bias, int L, int S, int O, int EPILOGUE, int PC,
                                int WZ) {
    AOT_VAGAIN; /* the bias would stay in two registers */
    {
        AOT_QDOT_LOOP
        AOT_QDOT_PIXELS(AOT_QDOT_STORE)
    }
}
#endif
#endif

#ifdef AOT_QDOT_FLIP
#define AOT_QDOT_ONES 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1
#endif

#define AOT_QDOT_TOTALS 4

#ifdef AOT_QDOT_FLIP
/* totals[i] = the sum of the lanes of v[i]. */
AOT_INLINE void aot_qdot_each(int32_t *totals, const aot_vi *v) {
#if AOT_VLEN == 16 && defined(__AVX512F__)
    const __m512i a = (__m512i)v[0], b = (__m512i)v[1], c = (__m512i)v[2], d = (__m512i)v[3];
    const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    const __m512i all =
        _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
    const __m256i half =
        _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
    const __m128i four =
        _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
    (void)memcpy(totals, &four, sizeof four);
#else
    int i;
    for (i = 0; i < AOT_QDOT_TOTALS; ++i) {
        totals[i] = aot_qdot_lanes(v[i]);
    }
#endif
}
#endif

/* The sums of n bytes at each of AOT_QDOT_TOTALS places; AOT_QDOT_SLACK bytes behind them are
 * readable. */
AOT_INLINE void aot_qdot_total(int32_t *totals, const uint8_t *const *x, int32_t n, int FLIP) {
    int32_t i, k;
#ifdef AOT_QDOT_FLIP
    /* `left` ones and zeros behind them begin `left` bytes before the middle. */
    static const int8_t ones[128] = {AOT_QDOT_ONES, AOT_QDOT_ONES, AOT_QDOT_ONES, AOT_QDOT_ONES};
    if (FLIP == AOT_QDOT_FLIP) {
        aot_vi v[AOT_QDOT_TOTALS];
        v[0] = v[1] = v[2] = v[3] = aot_viset1(0);
        for (i = 0; i < n; i += 4 * AOT_VLEN) {
            const int32_t left = n - i < 4 * AOT_VLEN ? n - i : 4 * AOT_VLEN;
            const aot_vi some = aot_qdot_load(ones + 64 - left);
            AOT_UNROLL(4) for (k = 0; k < AOT_QDOT_TOTALS; ++k) {
                v[k] = AOT_QDOT_MADD(v[k], aot_qdot_load((const int8_t *)x[k] + i), some);
            }
        }
        aot_qdot_each(totals, v);
        return;
    }
#endif
    for (k = 0; k < AOT_QDOT_TOTALS; ++k) {
        totals[k] = 0;
        for (i = 0; i < n; ++i) {
            totals[k] += FLIP != 0 ? x[k][i] : (int8_t)x[k][i];
        }
    }
}

#if defined(AOT_QDOT_FLIP) && AOT_VLEN == 16 && defined(__AVX512BW__)
#define AOT_QDOT_FEW 16 /* bytes of which aot_qdot_few makes a sum */

/* totals[i] = the sum of n (at most AOT_QDOT_FEW) bytes at x + i * n for V pixels or more: their
 * bytes go to lanes of four or of sixteen bytes, with zeros behind them. The last vector may begin
 * before the end of another. */
AOT_INLINE void aot_qdot_few(int32_t *totals, const uint8_t *x, int32_t pixels, int32_t n) {
    const int32_t in_lane = n > 4 ? 1 : 4;
    const __m512i by_rows = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    uint8_t from[16];
    __m128i lane;
    __m512i order;
    int32_t i, k, next;
    for (i = 0; i < 16; ++i) {
        const int32_t byte = i % (16 / in_lane);
        from[i] = (uint8_t)(byte < n ? i / (16 / in_lane) * n + byte : 128);
    }
    (void)memcpy(&lane, from, sizeof lane);
    order = _mm512_broadcast_i32x4(lane);
    for (next = 0; next < pixels; next += AOT_VLEN) {
        __m512i v[4];
        i = next + AOT_VLEN <= pixels ? next : pixels - AOT_VLEN;
        for (k = 0; k < 4 / in_lane; ++k) {
            const ptrdiff_t step = (ptrdiff_t)in_lane * n;
            const uint8_t *const at = x + ((ptrdiff_t)i + 4 * k) * n;
            __m512i all = _mm512_castsi128_si512(_mm_loadu_si128((const void *)at));
            all = _mm512_inserti32x4(all, _mm_loadu_si128((const void *)(at + step)), 1);
            all = _mm512_inserti32x4(all, _mm_loadu_si128((const void *)(at + 2 * step)), 2);
            all = _mm512_inserti32x4(all, _mm_loadu_si128((const void *)(at + 3 * step)), 3);
            all = _mm512_shuffle_epi8(all, order);
            v[k] = _mm512_dpbusd_epi32(_mm512_setzero_si512(), all, _mm512_set1_epi8(1));
        }
        if (in_lane == 1) {
            const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(v[0], v[1]),
                                                _mm512_unpackhi_epi32(v[0], v[1]));
            const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(v[2], v[3]),
                                                _mm512_unpackhi_epi32(v[2], v[3]));
            v[0] = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));
            v[0] = _mm512_permutexvar_epi32(by_rows, v[0]);
        }
        _mm512_storeu_si512(totals + i, v[0]);
    }
}
#endif

/* The same at any number of places `step` bytes apart. */
AOT_INLINE void aot_qdot_pixels(int32_t *totals, const uint8_t *x, int32_t pixels, ptrdiff_t step,
                                int32_t n, int FLIP) {
    int32_t i, k, some[AOT_QDOT_TOTALS];
    const uint8_t *at[AOT_QDOT_TOTALS];
#ifdef AOT_QDOT_FEW
    if (FLIP == AOT_QDOT_FLIP && n <= AOT_QDOT_FEW && step == n && pixels >= AOT_VLEN) {
        aot_qdot_few(totals, x, pixels, n);
        return;
    }
#endif
    for (i = 0; i < pixels; i += AOT_QDOT_TOTALS) {
        for (k = 0; k < AOT_QDOT_TOTALS; ++k) {
            at[k] = x + (i + k < pixels ? i + k : i) * step;
        }
        if (i + AOT_QDOT_TOTALS <= pixels) {
            aot_qdot_total(totals + i, at, n, FLIP);
        } else {
            aot_qdot_total(some, at, n, FLIP);
            for (k = 0; i + k < pixels; ++k) {
                totals[i + k] = some[k];
            }
        }
    }
}

/* sums[S][L][O][V] = bias[O][V] + the products of the windows at x0 and x1. */
AOT_INLINE void aot_qdot_tile(int32_t *sums, const uint8_t *x0, const uint8_t *x1, ptrdiff_t step,
                              const aot_qdot_window *window, const int8_t *w, const int32_t *bias,
                              int L, int S, int O, int FLIP) {
#ifdef AOT_QDOT_FLIP
    if (FLIP == AOT_QDOT_FLIP) {
        AOT_VAGAIN; /* the bias would stay in two registers */
        aot_qdot_unit(sums, x0, x1, step, window, w, bias, L, S, O);
        return;
    }
#endif
    aot_qdot_plain(sums, x0, step, window, w, bias, L, O, FLIP);
    if (S > 1) {
        aot_qdot_plain(sums + L * O * AOT_VLEN, x1, step, window, w, bias, L, O, FLIP);
    }
}

/* n values, those of an image, with FLIP. */
AOT_INLINE void aot_qdot_copy(uint8_t *d, const int8_t *s, ptrdiff_t n, int FLIP) {
    const int32_t flipped = FLIP != 0 ? (int32_t)0x80808080U : 0;
    for (; n >= 4 * AOT_VLEN; n -= 4 * AOT_VLEN, d += 4 * AOT_VLEN, s += 4 * AOT_VLEN) {
        const aot_vi v = aot_qdot_load(s) ^ flipped;
        (void)memcpy(d, &v, sizeof v);
    }
    for (; n > 0; --n) {
        *d++ = (uint8_t)(*s++ ^ FLIP);
    }
}

#endif /* AOT_QDOT_H */
