/* SPDX-License-Identifier: MIT-0 */
/* Quantised values made of the sums of a tile while they are in registers, with the bits of
 * aot_qdot_finish of aot_qconv_s8__dot.h, which reads sums from memory: for AVX-512 and RQ 0,
 * without an epilogue or with the sum of quantised values (EPILOGUE 0 and 1).
 *
 * A product limited to 2^30 is rounded by the conversion, which gives -2^31 where it is too small;
 * from there on saturating instructions limit.
 */
#ifndef AOT_QDOT_DIRECT_H
#define AOT_QDOT_DIRECT_H

#include "aot_qvec.h"

#define AOT_QDOT_NO_EPILOGUE (-1)

/* Of a tile: its pixels of segment k are stored from y[k] on, `step` values apart, and `r[k]` is
 * added to them; `totals[k]` are the sums of their windows. `lo` and `hi` limit the product where
 * it is added to others, `zero` belongs to what is stored without. `lacks` tells whether any of the
 * weights `lacking` is not 0. */
typedef struct {
    int8_t *y[2];
    const int8_t *r[2];
    const int32_t *totals[2];
    ptrdiff_t step;
    int32_t zero, lo, hi, a_mult, b_mult, y_shift, offset, least, most, lacks;
    const int32_t *mult, *lacking;
} aot_qdot_direct;

#if defined(AOT_QDOT_FLIP) && AOT_VLEN == 16 && defined(__AVX512BW__)
#define AOT_QDOT_IS_DIRECT(EPILOGUE, RQ, FLIP)                                                     \
    ((RQ) == 0 && (EPILOGUE) >= AOT_QDOT_NO_EPILOGUE && (EPILOGUE) < 2 && (FLIP) == AOT_QDOT_FLIP)

/* The rounded product of the sum of V channels of a pixel; with EPILOGUE 0 and 1 its sum with the
 * values at r. */
AOT_INLINE __m512i aot_qdot_direct_vector(aot_vi sum, aot_vf scale, const int8_t *r,
                                          const aot_qdot_direct *t, int EPILOGUE) {
    aot_vf v = aot_vi2f(sum) * scale;
    aot_vi total;
    if (EPILOGUE == AOT_QDOT_NO_EPILOGUE) {
        return _mm512_cvtps_epi32((__m512)aot_vmin(v, aot_vset1(1073741824.0F)));
    }
    v = aot_vmin(aot_vmax(v, aot_vset1((float)t->lo)), aot_vset1((float)t->hi));
    total = (aot_vi)_mm512_cvtps_epi32((__m512)v) * t->a_mult;
    total += aot_qvec_widen(r) * t->b_mult + t->offset;
    total += EPILOGUE == 1 ? (total >> t->y_shift) & 1 : total - total;
    return (__m512i)(total >> t->y_shift);
}

AOT_INLINE aot_vf aot_qdot_direct_scale(const aot_qdot_direct *t, int vector, int PC) {
    return aot_vfrombits(PC != 0 ? aot_viload(t->mult + vector * AOT_VLEN)
                                 : aot_viset1(t->mult[0]));
}

/* Stores pixel i, whose sums are a and c, and of a second segment d and e; with O 1 a and d, with O
 * 4 all four are those of one pixel. */
AOT_INLINE void aot_qdot_direct_store(const aot_qdot_direct *t, int i, aot_vi a, aot_vi c, aot_vi d,
                                      aot_vi e, int S, int O, int EPILOGUE, int PC, int WZ) {
    const __m512i order = _mm512_set_epi32(15, 11, 7, 3, 14, 10, 6, 2, 13, 9, 5, 1, 12, 8, 4, 0);
    const __m512i zero = _mm512_set1_epi16((short)t->zero);
    const ptrdiff_t at = i * t->step;
    const int one = O > 1 ? 1 : 0, two = O > 2 ? 2 : 0, three = two + one;
    const int8_t *const r0 = t->r[0] + at;
    const int8_t *const r1 = t->r[S - 1] + at + two * AOT_VLEN;
    __m512i low, up, all;
    if (WZ != 0 && t->lacks != 0) {
        const aot_vi first = aot_viset1(t->totals[0][i]), last = aot_viset1(t->totals[S - 1][i]);
        a += aot_viload(t->lacking) * first;
        d += aot_viload(t->lacking + two * AOT_VLEN) * last;
        if (O > 1) {
            c += aot_viload(t->lacking + AOT_VLEN) * first;
            e += aot_viload(t->lacking + three * AOT_VLEN) * last;
        }
    }
    low = aot_qdot_direct_vector(a, aot_qdot_direct_scale(t, 0, PC), r0, t, EPILOGUE);
    up = O > 1 ? aot_qdot_direct_vector(c, aot_qdot_direct_scale(t, 1, PC), r0 + AOT_VLEN, t,
                                        EPILOGUE)
               : low;
    low = _mm512_adds_epi16(_mm512_packs_epi32(low, up), zero);
    all = low;
    if (S > 1 || O > 2) {
        all = aot_qdot_direct_vector(d, aot_qdot_direct_scale(t, two, PC), r1, t, EPILOGUE);
        up = O > 1 ? aot_qdot_direct_vector(e, aot_qdot_direct_scale(t, three, PC), r1 + AOT_VLEN,
                                            t, EPILOGUE)
                   : all;
        all = _mm512_adds_epi16(_mm512_packs_epi32(all, up), zero);
    }
    all = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, all));
    all = _mm512_min_epi8(all, _mm512_set1_epi8((char)t->most));
    all = _mm512_max_epi8(all, _mm512_set1_epi8((char)t->least));
    if (O > 2) {
        _mm512_storeu_si512(t->y[0] + at, all);
    } else if (O > 1) {
        _mm256_storeu_si256((__m256i *)(void *)(t->y[0] + at), _mm512_castsi512_si256(all));
    } else {
        _mm_storeu_si128((__m128i *)(void *)(t->y[0] + at), _mm512_castsi512_si128(all));
    }
    if (S > 1 && O > 1) {
        _mm256_storeu_si256((__m256i *)(void *)(t->y[1] + at), _mm512_extracti64x4_epi64(all, 1));
    } else if (S > 1) {
        _mm_storeu_si128((__m128i *)(void *)(t->y[1] + at), _mm512_extracti32x4_epi32(all, 2));
    }
}
#else
#define AOT_QDOT_IS_DIRECT(EPILOGUE, RQ, FLIP) 0
#endif

#endif /* AOT_QDOT_DIRECT_H */
