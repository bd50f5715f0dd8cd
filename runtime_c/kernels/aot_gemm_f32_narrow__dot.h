/* SPDX-License-Identifier: MIT-0 */
/* One row times constant weights of 4 or 8 bits, by dot products of integers:
 * y = act(x * w + bias + r).
 *
 * Operands are those of aot_gemm_f32_narrow.h with m = 1 and KIND S4 or S8_WORDS; `block` is a
 * multiple of 16. Parts of x, blocks or 256 elements of one, become integers with a unit of their
 * own: `unit` * q, |q| at most 32639 (DIGITS 2) or 8355000 (DIGITS 3: as fine as the floats next to
 * the part's largest). A digit has eight bits with sign; the sums of digits times weights are exact
 * and each part rounds as often as two floats that are added. Where x has a part whose integers
 * would not be finite or normal, floats multiply, as in aot_gemm_f32_narrow.
 *
 * Scratch: DIGITS * (k rounded up to 16) bytes, and an aot_narrow_part for each part.
 */
#ifndef AOT_GEMM_F32_NARROW__DOT_H
#define AOT_GEMM_F32_NARROW__DOT_H

#include "aot_gemm_f32_narrow.h"
#include "aot_qdot.h"

typedef aot_gemm_f32_narrow_params aot_gemm_f32_narrow__dot_params;

/* The most elements of a part: 256 products of bytes are at most 2^22, so that the sums of two
 * digits fit one int32. */
enum { AOT_NARROW_PART = 256 };

/* What a part of x is besides its digits; `less` are their sums times -AOT_NARROW_OFFSET. */
typedef struct {
    float unit, total;
    int32_t less[3];
} aot_narrow_part;

#ifdef AOT_QDOT_MADD
#define AOT_NARROW_FLIP AOT_QDOT_FLIP
#define AOT_NARROW_MADD(acc, w, x) AOT_QDOT_MADD(acc, w, x)
#else
#define AOT_NARROW_FLIP 0
#define AOT_NARROW_MADD(acc, w, x) aot_narrow_madd(acc, w, x)
/* What the CPU's instruction makes, of bytes with sign. */
AOT_INLINE aot_vi aot_narrow_madd(aot_vi acc, aot_vi w, aot_vi x) {
    acc += (w >> 24) * (x >> 24);
    acc += (w << 8 >> 24) * (x << 8 >> 24);
    acc += (w << 16 >> 24) * (x << 16 >> 24);
    return acc + (w << 24 >> 24) * (x << 24 >> 24);
}
#endif
/* By how much the bytes that are multiplied exceed the weights. */
#define AOT_NARROW_OFFSET(KIND) ((KIND) == AOT_NARROW_S4 ? 8 : AOT_NARROW_FLIP)

/* The largest lane. */
AOT_INLINE int32_t aot_narrow_largest(aot_vi v) {
#if AOT_VLEN == 16 && defined(__AVX512F__)
    return _mm512_reduce_max_epi32((__m512i)v);
#else
    int32_t most = v[0];
    int i;
    for (i = 1; i < AOT_VLEN; ++i) {
        most = v[i] > most ? v[i] : most;
    }
    return most;
#endif
}

/* Elements i..i+V-1 of x [k], and zeros behind them. */
AOT_INLINE aot_vf aot_narrow_some(const float *x, int32_t i, int32_t k) {
    float last[AOT_VLEN] = {0};
    if (i + AOT_VLEN <= k) {
        return aot_vload(x + i);
    }
    (void)memcpy(last, x + i, (size_t)(i < k ? k - i : 0) * sizeof *x);
    return aot_vload(last);
}

/* Elements first..end-1 of x [k] as digits, DIGITS planes of `padded` bytes; 0 if one of them is
 * not finite, or all are too small. */
AOT_INLINE int aot_narrow_digits(int8_t *d, aot_narrow_part *part, const float *x, int32_t first,
                                 int32_t end, int32_t k, int32_t padded, int KIND, int DIGITS) {
    const float limit = DIGITS == 2 ? 32639.0F : 8355000.0F;
    aot_vi most = aot_viset1(0), s0 = most, s1 = most, s2 = most;
    float largest, scale;
    int32_t i, bits;
    for (i = first; i < end; i += AOT_VLEN) {
        const aot_vi v = aot_vbits(aot_narrow_some(x, i, k)) & INT32_C(0x7FFFFFFF);
        const aot_vi more = aot_visgt(v, most);
        most = (more & v) | (~more & most);
    }
    bits = aot_narrow_largest(most);
    (void)memcpy(&largest, &bits, sizeof largest);
    if (bits != 0 && !(largest > 1e-30F && largest < 1e30F)) {
        return 0;
    }
    scale = bits != 0 ? limit / largest : 0.0F;
    for (i = first; i < end; i += AOT_VLEN) {
        const aot_vf v = aot_narrow_some(x, i, k) * scale;
        const aot_vi half = (aot_vbits(v) & INT32_MIN) | INT32_C(0x3F000000);
        const aot_vi q = aot_vf2i(v + aot_vfrombits(half));
        const aot_vi d0 = q << 24 >> 24, q1 = (q - d0) >> 8;
        const aot_vi d1 = DIGITS == 2 ? q1 : q1 << 24 >> 24;
        aot_qvec_narrow(d + i, d0);
        aot_qvec_narrow(d + padded + i, d1);
        s0 += d0;
        s1 += d1;
        if (DIGITS == 3) {
            const aot_vi d2 = (q1 - d1) >> 8;
            aot_qvec_narrow(d + 2 * (ptrdiff_t)padded + i, d2);
            s2 += d2;
        }
    }
    part->unit = largest / limit;
    part->less[0] = aot_qdot_lanes(s0);
    part->less[1] = aot_qdot_lanes(s1);
    part->less[2] = DIGITS == 3 ? aot_qdot_lanes(s2) : 0;
    part->total = (float)part->less[2] * 65536.0F + (float)(part->less[1] * 256 + part->less[0]);
    for (i = 0; i < 3; ++i) {
        part->less[i] *= -AOT_NARROW_OFFSET(KIND);
    }
    return 1;
}

#define AOT_NARROW_BEGIN(j)                                                                        \
    aot_vi a##j = aot_viset1(part->less[0]), b##j = aot_viset1(part->less[1]);                     \
    aot_vi c##j = aot_viset1(part->less[2]);
#define AOT_NARROW_MADDS(j, v, x)                                                                  \
    a##j = AOT_NARROW_MADD(a##j, v, x##0);                                                         \
    b##j = AOT_NARROW_MADD(b##j, v, x##1);                                                         \
    if (DIGITS == 3) {                                                                             \
        c##j = AOT_NARROW_MADD(c##j, v, x##2);                                                     \
    }
#define AOT_NARROW_DOT(j)                                                                          \
    if ((j) < N) {                                                                                 \
        const aot_vi v_ = aot_qdot_load((const int8_t *)w + 4 * (j)*AOT_VLEN);                     \
        AOT_PREFETCH_AHEAD(w, AOT_STREAM_AHEAD + 4 * (j)*AOT_VLEN);                                \
        if (KIND == AOT_NARROW_S4) {                                                               \
            const aot_vi low_ = v_ & mask, high_ = v_ >> 4 & mask;                                 \
            AOT_NARROW_MADDS(j, low_, x)                                                           \
            AOT_NARROW_MADDS(j, high_, z)                                                          \
        } else {                                                                                   \
            const aot_vi flipped_ = v_ ^ flip;                                                     \
            AOT_NARROW_MADDS(j, flipped_, x)                                                       \
        }                                                                                          \
    }
#define AOT_NARROW_PART_SUM(j)                                                                     \
    if ((j) < N) {                                                                                 \
        aot_vf sum_ = aot_vi2f((b##j << 8) + a##j);                                                \
        if (DIGITS == 3) {                                                                         \
            sum_ += aot_vi2f(c##j) * 65536.0F;                                                     \
        }                                                                                          \
        if (FACTORS == 2) {                                                                        \
            sum_ -= aot_vload(factors + (j)*AOT_VLEN + width) * total;                             \
        }                                                                                          \
        t##j += sum_ * unit * aot_vload(factors + (j)*AOT_VLEN);                                   \
    }

/* Four digits of a plane in every lane. */
AOT_INLINE aot_vi aot_narrow_four(const int8_t *d) {
    return aot_qdot_four((const uint8_t *)d);
}

/* One row times N vectors (1, 2 or 4) of a group of `width` columns, `part` for every `most`
 * elements of it: the same sums wherever a column stands. */
AOT_INLINE void aot_narrow_dot_row(float *y, const int8_t *d, const aot_narrow_part *part,
                                   const uint8_t *w, const float *factors, const float *bias,
                                   const aot_gemm_f32_narrow_params *p, int32_t padded,
                                   int32_t most, int32_t width, int N, int KIND, int FACTORS,
                                   int DIGITS) {
    const ptrdiff_t second = padded, third = (DIGITS - 1) * second;
    const aot_vi mask = aot_viset1(0x0F0F0F0F);
    const aot_vi flip = aot_viset1(AOT_NARROW_FLIP != 0 ? (int32_t)0x80808080U : 0);
    int32_t i = 0, block = p->block;
    AOT_NARROW_EACH(AOT_NARROW_TOTAL)
    for (; i < p->k; ++part) {
        const int32_t end = p->k - i < most ? p->k : i + most;
        const aot_vf unit = aot_vset1(part->unit), total = aot_vset1(part->total);
        AOT_NARROW_EACH(AOT_NARROW_BEGIN)
        for (; i < end; i += AOT_NARROW_ROWS(KIND), w += (ptrdiff_t)4 * width) {
            const aot_vi x0 = aot_narrow_four(d + i), x1 = aot_narrow_four(d + second + i);
            const aot_vi x2 = aot_narrow_four(d + third + i);
            const int8_t *e = d + i + (KIND == AOT_NARROW_S4 ? 4 : 0);
            const aot_vi z0 = aot_narrow_four(e), z1 = aot_narrow_four(e + second);
            const aot_vi z2 = aot_narrow_four(e + third);
            AOT_NARROW_EACH(AOT_NARROW_DOT)
        }
        AOT_NARROW_EACH(AOT_NARROW_PART_SUM)
        if (i == block) {
            block += p->block;
            factors += (ptrdiff_t)FACTORS * width;
        }
    }
    AOT_NARROW_EACH(AOT_NARROW_STORE)
}

/* Instance: P, O, ACT, KIND, FACTORS as in aot_gemm_f32_narrow.h; DIGITS. */
AOT_INLINE void aot_gemm_f32_narrow__dot(float *y, const float *x, const void *weights,
                                         const float *factors, const float *bias, const float *r,
                                         void *scratch, const aot_gemm_f32_narrow_params *p, int P,
                                         int O, int ACT, int KIND, int FACTORS, int DIGITS) {
    const int32_t vecs = (p->n + AOT_VLEN - 1) / AOT_VLEN, padded = (p->k + 15) / 16 * 16;
    const int32_t most = p->block < AOT_NARROW_PART ? p->block : AOT_NARROW_PART;
    const int32_t blocks = (p->k + p->block - 1) / p->block;
    aot_narrow_part *const parts = (aot_narrow_part *)scratch;
    int8_t *const d = (int8_t *)(parts + (p->k + most - 1) / most);
    const uint8_t *w = (const uint8_t *)weights;
    aot_gemm_f32_group_args g;
    aot_tile_f32_job j;
    int32_t b, o, i;
    aot_stream_begin(w); /* x becomes digits meanwhile */
    aot_stream_begin(factors);
    for (i = 0; i < p->k; i += most) {
        const int32_t end = padded - i < most ? padded : i + most;
        if (!aot_narrow_digits(d, parts + i / most, x, i, end, p->k, padded, KIND, DIGITS)) {
            aot_gemm_f32_narrow(y, x, weights, factors, bias, r, NULL, p, P, O, ACT, KIND, FACTORS);
            return;
        }
    }
    aot_gemm_f32_job(&j, p->k, p->act, p->alpha, p->beta);
    aot_narrow_groups(&g, p);
    for (b = 0; b < vecs; b += o) {
        float sums[4 * AOT_VLEN];
        int32_t width;
        o = aot_tile_f32_group(b, vecs, O);
        width = o * AOT_VLEN;
        aot_narrow_columns(&g, y, r, p->n, b, o);
        if (o == O) {
            aot_narrow_dot_row(sums, d, parts, w, factors, bias, p, padded, most, width, O, KIND,
                               FACTORS, DIGITS);
        }
        for (i = 0; o != O && i < width; i += AOT_VLEN) {
            aot_narrow_dot_row(sums + i, d, parts, w + 4 * (ptrdiff_t)i, factors + i, bias + i, p,
                               padded, most, width, 1, KIND, FACTORS, DIGITS);
        }
        aot_gemv_f32_finish(sums, &j, &g, o, ACT);
        bias += width;
        w += (ptrdiff_t)((p->k - 1) / AOT_NARROW_ROWS(KIND) + 1) * 4 * width;
        factors += (ptrdiff_t)blocks * FACTORS * width;
    }
}

#endif /* AOT_GEMM_F32_NARROW__DOT_H */
