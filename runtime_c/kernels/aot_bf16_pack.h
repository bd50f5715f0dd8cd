/* SPDX-License-Identifier: MIT-0 */
/* Panels of words (aot_bf16.h) of the right operand of a product: [ceil(k / 2)][width] of a matrix
 * [k][cols], `width` whole vectors of columns; what fills up rows and columns is zero. */
#ifndef AOT_BF16_PACK_H
#define AOT_BF16_PACK_H

#include "aot_bf16.h"
#include "aot_vtranspose_f32.h"

#ifdef AOT_BF16_MADD

/* n floats from x on, at most 2 * V, and zeros behind them, times `scale`, as V words. */
AOT_INLINE aot_vf aot_bf16_some(const float *x, int32_t n, aot_vf scale) {
    float some[2 * AOT_VLEN] = {0}, words[AOT_VLEN];
    if (n < 2 * AOT_VLEN) {
        (void)memcpy(some, x, (size_t)(n > 0 ? n : 0) * sizeof *x);
        x = some;
    }
    aot_bf16_words(words, aot_bf16_finite(aot_vload(x) * scale),
                   aot_bf16_finite(aot_vload(x + AOT_VLEN) * scale));
    return aot_vload(words);
}

/* A panel of columns whose k numbers follow each other, `col` floats from column to column. */
AOT_INLINE void aot_bf16_pack_transposed(float *d, const float *b, int32_t k, int32_t cols,
                                         int32_t width, ptrdiff_t col, float scale) {
    const int32_t words = (k + 1) / 2;
    const aot_vf by = aot_vset1(scale);
    int32_t c, t, i;
    for (c = 0; c < width; c += AOT_VLEN) {
        for (t = 0; t < words; t += AOT_VLEN) {
            float *const to = d + (ptrdiff_t)t * width + c;
            const int32_t rows = words - t < AOT_VLEN ? words - t : AOT_VLEN;
            aot_vf row[AOT_VLEN];
            for (i = 0; i < AOT_VLEN; ++i) {
                row[i] = c + i < cols ? aot_bf16_some(b + (c + i) * col + 2 * t, k - 2 * t, by)
                                      : aot_vzero();
            }
            aot_vtranspose_f32_turn(row);
            for (i = 0; i < rows; ++i) {
                aot_vstore(to + (ptrdiff_t)i * width, row[i]);
            }
        }
    }
}

/* What aot_bf16_of makes of V floats, in the upper halves of lanes. */
AOT_INLINE aot_vi aot_bf16_upper(aot_vf x) {
    const aot_vi bits = aot_vbits(x), size = bits & INT32_C(0x7FFFFFFF);
    const aot_vi nan = aot_visgt(size, aot_viset1(0x7F800000));
    const aot_vi tiny = aot_visgt(aot_viset1(0x00800000), size), round = size & ~nan;
    const aot_vi near = (round + 0x7FFF + (round >> 16 & 1)) & ~tiny;
    return (near | (nan & (bits | 0x00400000)) | (bits & INT32_MIN)) & ~0xFFFF;
}

/* V words, of a number of `low` and one of `high` each. */
AOT_INLINE aot_vf aot_bf16_pairs(aot_vf low, aot_vf high) {
#if AOT_VLEN == 16 && defined(__AVX512BF16__)
    const __m512i halves = (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, //
                         23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return (aot_vf)_mm512_permutexvar_epi16(order, halves);
#else
    return aot_vfrombits((aot_bf16_upper(low) >> 16 & 0xFFFF) | aot_bf16_upper(high));
#endif
}

/* A panel of columns whose rows are contiguous, `row` floats from row to row. */
AOT_INLINE void aot_bf16_pack_rows(float *d, const float *b, int32_t k, int32_t cols, int32_t width,
                                   ptrdiff_t row) {
    int32_t c, t;
    for (t = 0; t < k; t += 2, b += 2 * row, d += width) {
        for (c = 0; c < width; c += AOT_VLEN) {
            float low[AOT_VLEN] = {0}, high[AOT_VLEN] = {0};
            const float *x = b + c, *z = t + 1 < k ? x + row : high;
            if (c + AOT_VLEN > cols) {
                const size_t some = (size_t)(c < cols ? cols - c : 0) * sizeof *b;
                (void)memcpy(low, x, some);
                (void)memcpy(high, z, some);
                x = low;
                z = high;
            }
            aot_vstore(d + c, aot_bf16_pairs(aot_bf16_finite(aot_vload(x)),
                                             aot_bf16_finite(aot_vload(z))));
        }
    }
}

#endif /* AOT_BF16_MADD */
#endif /* AOT_BF16_PACK_H */
